//! The one emulator, who is attached to it, and what of it has failed.
//!
//! A plain lock guards it and is never held over an await. Whoever has much to do takes it again
//! and again for small pieces, so that nobody waits long.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use fabricast_emulator::{Component, Deliveries, Emulator, Outcome, Packet};
use fabricast_proto::v1;
use fabricast_telemetry::metrics::FABRIC_PACKETS;
use fabricast_topology::{EndpointId, Graph};
use tokio::sync::watch;

use crate::aggregation::Waiting;
use crate::disturb::Programming;
use crate::mailbox::Mailbox;
use crate::wire;

/// All failed parts.
pub(crate) type FailedElements = Arc<Vec<v1::Element>>;

/// Everything that the calls of the service share.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub(crate) graph: Arc<Graph>,
    pub(crate) colors: u16,
    pub(crate) dropped: Arc<AtomicU64>,
    core: Mutex<Core>,
    failed: watch::Sender<FailedElements>,
    queue: usize,
    pub(crate) programming: Programming,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) emulator: Emulator,
    /// By endpoint: where its packets go.
    mailboxes: Vec<Option<Arc<Mailbox>>>,
    deliveries: Deliveries,
    /// Processes in the middle of a collective.
    pub(crate) waiting: Waiting,
}

/// An endpoint that somebody else has attached.
#[derive(Debug)]
pub(crate) struct Taken;

impl Fabric {
    /// Powers on.
    ///
    /// - `queue`: deliveries that may wait for one attached process.
    pub(crate) fn new(emulator: Emulator, queue: usize) -> Self {
        let graph = Arc::clone(emulator.graph());
        let colors = emulator.colors();
        let mailboxes = vec![None; graph.endpoint_count()];
        let deliveries = Deliveries::new();
        let core = Core { emulator, mailboxes, deliveries, waiting: Waiting::new() };
        let failed = watch::Sender::new(FailedElements::default());
        let programming = Programming::default();
        Self {
            graph,
            colors,
            dropped: Arc::default(),
            core: Mutex::new(core),
            failed,
            queue,
            programming,
        }
    }

    /// Takes the lock.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("nothing panics while it holds the fabric")
    }

    /// Makes the queue of a process that is about to attach.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::new(Mailbox::new(self.queue, Arc::clone(&self.dropped)))
    }

    /// Follows the failed parts.
    pub(crate) fn watch_failed(&self) -> watch::Receiver<FailedElements> {
        self.failed.subscribe()
    }

    /// Fails or heals a part and tells the watchers; whether that changed anything.
    pub(crate) fn set_live(&self, component: Component, live: bool) -> bool {
        let mut core = self.core();
        let changed =
            if live { core.emulator.heal(component) } else { core.emulator.fail(component) };
        let changed = changed.expect("the part was found in the graph");
        if changed {
            core.settle();
            let elements = wire::failed_elements(&self.graph, core.emulator.faults());
            tracing::info!(failed = elements.len(), "failed elements changed");
            // Still under the lock, so that watchers see the lists in the order of the changes.
            self.failed.send_replace(Arc::new(elements));
        }
        changed
    }
}

impl Core {
    /// Attaches an endpoint, unless another process has; again is no change.
    pub(crate) fn attach(
        &mut self,
        endpoint: EndpointId,
        mailbox: &Arc<Mailbox>,
    ) -> Result<(), Taken> {
        let place = &mut self.mailboxes[endpoint.index()];
        match place {
            Some(owner) if !Arc::ptr_eq(owner, mailbox) => Err(Taken),
            _ => {
                *place = Some(Arc::clone(mailbox));
                Ok(())
            }
        }
    }

    /// Detaches an endpoint that the caller has attached.
    pub(crate) fn detach(&mut self, endpoint: EndpointId) {
        self.mailboxes[endpoint.index()] = None;
    }

    /// Sends a packet and queues its copies for the processes attached where they arrived.
    pub(crate) fn send(&mut self, from: EndpointId, packet: Packet) -> (Outcome, &[EndpointId]) {
        FABRIC_PACKETS.add(1);
        let outcome = self.emulator.inject(from, &packet, &mut self.deliveries);
        let packet = Arc::new(packet);
        for endpoint in self.deliveries.as_slice() {
            if let Some(mailbox) = &self.mailboxes[endpoint.index()] {
                mailbox.push(*endpoint, &packet);
            }
        }
        (outcome, self.deliveries.as_slice())
    }
}
