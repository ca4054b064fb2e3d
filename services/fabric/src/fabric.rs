//! The shared state of the service: the emulator, the attached processes, and the failed parts.
//!
//! A lock guards the state and is never held over an await. Long work takes the lock once for each
//! small piece, so that no other call waits long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fabricast_emulator::{
    AggregationPlace, Component, Contribution, ContributionError, Deliveries, Emulator, Failure,
    Outcome, Packet, Values,
};
use fabricast_proto::v1;
use fabricast_rpc::Caller;
use fabricast_telemetry::metrics::FABRIC_PACKETS;
use fabricast_topology::{AggregationEntry, AggregationNode, EndpointId, Graph};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};

use crate::mailbox::Mailbox;
use crate::wire;
use crate::write_behavior::WriteBehaviors;

/// All failed parts.
pub(crate) type FailedElements = Arc<Vec<v1::Element>>;

/// State that all calls of the service share.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) graph: Arc<Graph>,
    pub(crate) colors: u16,
    pub(crate) dropped: Arc<AtomicU64>,
    core: Mutex<Core>,
    failed: watch::Sender<FailedElements>,
    queue: usize,
    pub(crate) write_behaviors: WriteBehaviors,
}

/// State behind the lock.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) emulator: Emulator,
    /// Mailbox of the process that has attached an endpoint, by endpoint.
    mailboxes: Vec<Option<Arc<Mailbox>>>,
    deliveries: Deliveries,
    /// Aggregation entries as they were after the last write to each place. A place that loses
    /// power has none, but the processes that they name still take part: they end the run for all.
    entries: BTreeMap<AggregationPlace, Vec<AggregationEntry>>,
    /// Processes that wait for the end of an operation.
    waiting: WaitingProcesses,
}

/// Result of an operation for one process; a process may get no values.
pub(crate) type OperationResult = Result<Option<Values>, Failure>;

/// Channels for results, by tree, sequence number and process.
type WaitingProcesses = BTreeMap<(u32, u64, u32), oneshot::Sender<OperationResult>>;

/// Another process has attached the endpoint.
#[derive(Debug)]
pub(crate) struct AlreadyAttached;

/// Reason why a contribution is kept from a run, which goes on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAParticipant {
    /// Another caller has attached the endpoint.
    OfAnother,
    /// Nobody has attached the endpoint, as while its agent connects again.
    NotAttached,
    /// The node that it is sent to has no entry for the tree.
    NoEntry,
    /// The entry does not name the process.
    NotNamed,
}

impl Fabric {
    /// Starts with all parts live and nobody attached.
    ///
    /// - `queue`: deliveries that may wait for one attached process.
    pub(crate) fn new(emulator: Emulator, queue: usize) -> Self {
        let graph = Arc::clone(emulator.graph());
        let colors = emulator.colors();
        let mailboxes = vec![None; graph.endpoint_count()];
        let deliveries = Deliveries::new();
        let waiting = WaitingProcesses::new();
        let entries = BTreeMap::new();
        let core = Core { emulator, mailboxes, deliveries, entries, waiting };
        let failed = watch::Sender::new(FailedElements::default());
        Self {
            graph,
            colors,
            dropped: Arc::default(),
            core: Mutex::new(core),
            failed,
            queue,
            write_behaviors: WriteBehaviors::default(),
        }
    }

    /// Takes the lock.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Creates the mailbox of a process that is about to attach.
    pub(crate) fn mailbox(&self, owner: Caller) -> Arc<Mailbox> {
        Arc::new(Mailbox::new(owner, self.queue, Arc::clone(&self.dropped)))
    }

    /// Subscribes to the failed parts.
    pub(crate) fn watch_failed(&self) -> watch::Receiver<FailedElements> {
        self.failed.subscribe()
    }

    /// Fails or heals a part and notifies the watchers. Returns whether that changed anything.
    pub(crate) fn set_live(&self, component: Component, live: bool) -> bool {
        let mut core = self.core();
        let changed =
            if live { core.emulator.heal(component) } else { core.emulator.fail(component) };
        let changed = changed.expect("the part was found in the graph");
        if changed {
            core.settle();
            let elements = wire::failed_elements(&self.graph, core.emulator.faults());
            tracing::info!(failed = elements.len(), "failed elements changed");
            // Under the lock, so that watchers see the lists in the order of the changes.
            self.failed.send_replace(Arc::new(elements));
        }
        changed
    }
}

impl Core {
    /// Attaches an endpoint, unless another process has. Repeating it changes nothing.
    pub(crate) fn attach(
        &mut self,
        endpoint: EndpointId,
        mailbox: &Arc<Mailbox>,
    ) -> Result<(), AlreadyAttached> {
        let place = &mut self.mailboxes[endpoint.index()];
        match place {
            Some(owner) if !Arc::ptr_eq(owner, mailbox) => Err(AlreadyAttached),
            _ => {
                *place = Some(Arc::clone(mailbox));
                Ok(())
            }
        }
    }

    /// Notes the aggregation entries of a place that has just been written.
    pub(crate) fn note_entries(&mut self, place: AggregationPlace) {
        match self.emulator.read_aggregation(place) {
            Ok(entries) if !entries.is_empty() => self.entries.insert(place, entries),
            Ok(_) | Err(_) => self.entries.remove(&place),
        };
    }

    /// Checks that a contribution is that of a process in the tree, at an endpoint that the caller
    /// has attached (FAB-4).
    pub(crate) fn check_participant(
        &self,
        contribution: &Contribution,
        caller: &Caller,
    ) -> Result<(), NotAParticipant> {
        let Contribution { tree, process, endpoint, to, .. } = *contribution;
        let mailbox = self.mailboxes[endpoint.index()].as_ref();
        let mailbox = mailbox.ok_or(NotAParticipant::NotAttached)?;
        if mailbox.owner != *caller {
            return Err(NotAParticipant::OfAnother);
        }
        let mut entries = self.entries.get(&AggregationPlace::of(to)).into_iter().flatten();
        let entry = entries.find(|entry| entry.tree == tree && entry.holder == to);
        let children = &entry.ok_or(NotAParticipant::NoEntry)?.children;
        let is_named = children.contains(&AggregationNode::Process { process, endpoint });
        if is_named { Ok(()) } else { Err(NotAParticipant::NotNamed) }
    }

    /// Detaches an endpoint that the caller has attached.
    pub(crate) fn detach(&mut self, endpoint: EndpointId) {
        self.mailboxes[endpoint.index()] = None;
    }

    /// Sends a packet and queues its copies for the processes attached where they arrived.
    pub(crate) fn send(&mut self, from: EndpointId, packet: Packet) -> (Outcome, &[EndpointId]) {
        FABRIC_PACKETS.inc();
        let outcome = self.emulator.inject(from, &packet, &mut self.deliveries);
        let packet = Arc::new(packet);
        for endpoint in self.deliveries.as_slice() {
            if let Some(mailbox) = &self.mailboxes[endpoint.index()] {
                mailbox.push(*endpoint, &packet);
            }
        }
        (outcome, self.deliveries.as_slice())
    }

    /// Moves the packets of operations, and sends their results to the waiting processes.
    pub(crate) fn settle(&mut self) {
        self.emulator.run_aggregation();
        while let Some(finished) = self.emulator.poll_finished() {
            let key = (finished.tree, finished.sequence, finished.process);
            if let Some(result) = self.waiting.remove(&key) {
                // The process may have gone away.
                let _ = result.send(finished.result);
            }
        }
    }

    /// Sends a process's contribution to an operation; the result comes through the channel.
    pub(crate) fn contribute(
        &mut self,
        contribution: Contribution,
    ) -> Result<oneshot::Receiver<OperationResult>, ContributionError> {
        let key = (contribution.tree, contribution.sequence, contribution.process);
        self.emulator.contribute(contribution)?;
        let (sender, result) = oneshot::channel();
        self.waiting.insert(key, sender);
        self.settle();
        Ok(result)
    }

    /// Ends an operation with an error for all its processes.
    pub(crate) fn abandon(&mut self, tree: u32, sequence: u64) {
        self.emulator.abandon(tree, sequence);
        self.settle();
    }
}
