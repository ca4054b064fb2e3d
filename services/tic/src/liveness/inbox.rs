//! The queue of reports to the watch over nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fabricast_groups::watch::NodeIncarnation;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::wall_clock;
use crate::liveness::contacts::Contacts;

/// Reports that wait for the watch. It holds each incarnation of a node at most once per kind of
/// report, and so never overflows.
#[derive(Debug, Default)]
pub(crate) struct LivenessInbox {
    pending: Mutex<Pending>,
    arrived: Notify,
    /// Nodes that are kept only because too many are silent at once.
    held: AtomicU32,
    held_blocks: AtomicU32,
    pub(crate) contacts: Contacts,
}

#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Nodes that have registered.
    pub(crate) registered: BTreeSet<NodeIncarnation>,
    /// Nodes that have reported, and the time until their next reports.
    pub(crate) heard: BTreeMap<NodeIncarnation, Duration>,
    pub(crate) reported: BTreeSet<NodeIncarnation>,
    pub(crate) cut_off: CutOff,
    /// Incarnations of nodes that have begun or ended, or to host group agents.
    pub(crate) changed: BTreeSet<NodeIncarnation>,
    /// All records may be others.
    pub(crate) all_changed: bool,
}

/// Nodes whose ports are down.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CutOff {
    /// Nodes with some ports down: they may have failed.
    pub(crate) some: BTreeSet<NodeIncarnation>,
    /// Nodes with all ports down: they cannot take part in anything that the fabric carries.
    pub(crate) all: BTreeSet<NodeIncarnation>,
}

impl LivenessInbox {
    /// These nodes have registered.
    pub(crate) fn registered(&self, incarnations: Vec<NodeIncarnation>) {
        self.contacts.note(&incarnations, wall_clock());
        self.put(|pending| pending.registered.extend(incarnations));
    }

    /// These nodes have reported; each with the time until its next report.
    pub(crate) fn heard(&self, incarnations: Vec<(NodeIncarnation, Duration)>) {
        self.contacts.note(incarnations.iter().map(|(incarnation, _)| incarnation), wall_clock());
        self.put(|pending| pending.heard.extend(incarnations));
    }

    /// A group agent cannot reach this node.
    pub(crate) fn reported(&self, incarnation: NodeIncarnation) {
        self.put(|pending| pending.reported.extend([incarnation]));
    }

    /// Ports of these nodes have gone down.
    pub(crate) fn cut_off(&self, nodes: CutOff) {
        if nodes != CutOff::default() {
            self.put(|pending| {
                pending.cut_off.some.extend(nodes.some);
                pending.cut_off.all.extend(nodes.all);
            });
        }
    }

    /// These incarnations have begun or ended, or to host group agents.
    pub(crate) fn changed(&self, incarnations: BTreeSet<NodeIncarnation>) {
        self.put(|pending| pending.changed.extend(incarnations));
    }

    /// All records may be others.
    pub(crate) fn all_changed(&self) {
        self.put(|pending| pending.all_changed = true);
    }

    /// Waits for the next report.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Nodes that are kept only because too many are silent at once.
    pub(crate) fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    /// Blocks of the fabric whose nodes are kept because too many there are silent at once.
    pub(crate) fn held_blocks(&self) -> u32 {
        self.held_blocks.load(Ordering::Relaxed)
    }

    /// Sets the numbers of nodes and blocks that are kept; returns the nodes that were before.
    pub(crate) fn set_held(&self, nodes: usize, blocks: usize) -> u32 {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.held_blocks.store(number(blocks), Ordering::Relaxed);
        self.held.swap(number(nodes), Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Pending {
        std::mem::take(&mut self.pending.lock())
    }

    fn put(&self, put: impl FnOnce(&mut Pending)) {
        put(&mut self.pending.lock());
        self.arrived.notify_one();
    }
}
