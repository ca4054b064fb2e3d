//! State of one operation: which processes have contributed, and what each node holds of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_topology::{AggregationNode, EndpointId};

use super::contribution::{Failure, Work};
use super::values::Values;
use crate::packet::HEADER_BYTES;

/// An operation that some process has contributed to.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) work: Work,
    pub(super) processes: u32,
    /// Packets in flight.
    pub(super) packets: u32,
    /// Processes that have contributed.
    pub(super) contributed: BTreeSet<u32>,
    /// Those of them that have no result yet.
    pub(super) waiting: BTreeMap<u32, EndpointId>,
    /// Parts that nodes have received from their children so far.
    pub(super) partials: BTreeMap<AggregationNode, Partial>,
    pub(super) failure: Option<Failure>,
    /// True once the root has sent the result.
    pub(super) returned: bool,
    /// True once no more packets can come; the operation is only remembered.
    pub(super) ended: bool,
}

/// Parts that one node has received so far.
#[derive(Clone, Debug)]
pub(super) struct Partial {
    /// Indexed by child of the entry.
    pub(super) parts: Vec<Option<Arc<Part>>>,
    pub(super) missing: usize,
}

/// A contribution, or several combined.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Number of contributions in it.
    pub(super) processes: u32,
    pub(super) values: Option<Values>,
}

impl Part {
    /// Counts the bytes that the packet takes on a link.
    pub(super) fn bytes(&self) -> u64 {
        HEADER_BYTES + self.values.as_ref().map_or(0, Values::bytes)
    }
}

impl Operation {
    pub(super) fn new(work: Work, processes: u32) -> Self {
        Self {
            work,
            processes,
            packets: 0,
            contributed: BTreeSet::new(),
            waiting: BTreeMap::new(),
            partials: BTreeMap::new(),
            failure: None,
            returned: false,
            ended: false,
        }
    }

    /// Returns why the operation cannot complete, given that no packet is in flight; `None` if it
    /// can.
    pub(super) fn dead_end(&self) -> Option<Failure> {
        let all = u32::try_from(self.contributed.len()) == Ok(self.processes);
        match self.failure {
            Some(failure) => Some(failure),
            None if self.waiting.is_empty() => None,
            None if self.returned => Some(Failure::NotReached),
            None => all.then_some(Failure::Stuck),
        }
    }
}

/// True if the values are those that the work takes from this process.
pub(super) fn values_fit(work: Work, process: u32, values: Option<&Values>) -> bool {
    match work {
        Work::Barrier => values.is_none(),
        Work::Broadcast { source } => values.is_some() == (source == process),
        Work::Reduce { reduction, .. } | Work::AllReduce { reduction } => {
            values.is_some_and(|values| values.allow(reduction))
        }
    }
}

/// Combines parts in the order of the children; none if they do not fit together.
pub(super) fn combine(work: Work, parts: Vec<Option<Arc<Part>>>) -> Option<Part> {
    let mut whole = Part { processes: 0, values: None };
    for part in parts.into_iter().flatten() {
        whole.processes += part.processes;
        match (&mut whole.values, &part.values) {
            (_, None) => {}
            (values @ None, Some(_)) => *values = part.values.clone(),
            (Some(values), Some(more)) => match work {
                Work::Reduce { reduction, .. } | Work::AllReduce { reduction }
                    if values.combine(more, reduction) => {}
                // Two sources, or values that do not fit.
                Work::Reduce { .. }
                | Work::AllReduce { .. }
                | Work::Broadcast { .. }
                | Work::Barrier => return None,
            },
        }
    }
    Some(whole)
}
