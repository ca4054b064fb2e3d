//! State of the watch while too many nodes are silent at once.

use std::collections::{BTreeMap, BTreeSet};

use super::NodeIncarnation;
use super::follow::NodeLookup;
use crate::ids::Moment;
use crate::names::NodeName;

#[cfg(test)]
mod tests;

/// Fewest and most nodes that are probed at a time only to learn whether they answer.
const OTHERS: (usize, usize) = (16, 1_024);

/// Silence of too many nodes at once, and the evidence for and against it.
#[derive(Clone, Debug, Default)]
pub(super) struct Disruption {
    /// More nodes than allowed are silent.
    pub(super) lasts: bool,
    /// Nodes that have answered no probe and are not expelled yet.
    pub(super) held: BTreeSet<NodeIncarnation>,
    /// Nodes that were held and are probed again.
    pub(super) again: BTreeSet<NodeIncarnation>,
    /// Nodes that are not watched and have answered a probe, and when.
    pub(super) answered: BTreeMap<NodeIncarnation, Moment>,
    /// Time at which those that are held, and others, are probed again.
    pub(super) probe_again: Option<Moment>,
}

impl Disruption {
    pub(super) fn forget(&mut self, incarnation: &NodeIncarnation) {
        self.release(incarnation);
        self.answered.remove(incarnation);
    }

    /// Holds a node no more; true if it had answered no probe.
    pub(super) fn release(&mut self, incarnation: &NodeIncarnation) -> bool {
        self.again.remove(incarnation);
        self.held.remove(incarnation)
    }

    /// Number of nodes that are held, also while they are probed again.
    pub(super) fn held_count(&self) -> usize {
        self.held.len() + self.again.difference(&self.held).count()
    }
}

/// Chooses nodes to probe, spread evenly over all that are up and that `is_other` accepts: twice as
/// many as are silent, within bounds.
pub(super) fn others(
    directory: &impl NodeLookup,
    is_other: impl Fn(&NodeIncarnation) -> bool,
    silent: usize,
) -> Vec<NodeIncarnation> {
    let mut incarnations: Vec<NodeIncarnation> = Vec::new();
    let mut after: Option<NodeName> = None;
    loop {
        let page = directory.up_after(after.as_ref());
        let Some(last) = page.last() else { break };
        after = Some(last.node.clone());
        incarnations.extend(page.into_iter().filter(|incarnation| is_other(incarnation)));
    }
    let most = (2 * silent).clamp(OTHERS.0, OTHERS.1);
    let step = incarnations.len().div_ceil(most).max(1);
    incarnations.into_iter().step_by(step).collect()
}
