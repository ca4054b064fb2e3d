//! Tasks of an adapter for the operations of its processes, and the tags of their packets.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::workload::Packet;

/// Tasks and packets of one adapter.
#[derive(Clone, Debug, Default)]
pub(super) struct Adapter {
    pub(super) due_ps: u64, // of the first task, or earlier
    pub(super) tasks: BinaryHeap<Reverse<(u64, u64, Task)>>, // by moment, then in the order they were added
    added: u64,
    pub(super) sends: VecDeque<Packet>,
    pub(super) matching_until_ps: u64,
}

impl Adapter {
    pub(super) fn add(&mut self, at_ps: u64, task: Task) {
        self.due_ps = self.due_ps.min(at_ps);
        self.tasks.push(Reverse((at_ps, self.added, task)));
        self.added += 1;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// A process starts its next operation.
    Begin { process: u32 },
    /// A gathered packet has been matched.
    Matched { node: u32, operation: u32 },
    /// A result has been matched.
    Result { node: u32, operation: u32 },
}

/// Content of a packet's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) is_result: bool,
    pub(super) group: u32,
    pub(super) operation: u32,
}

impl Message {
    pub(super) fn pack(self) -> u64 {
        debug_assert!(self.group < 1 << 31, "groups are numbered in 31 bits");
        u64::from(self.is_result) << 63 | u64::from(self.group) << 32 | u64::from(self.operation)
    }

    pub(super) fn unpack(tag: u64) -> Self {
        let low = |word: u64| u32::try_from(word & 0xFFFF_FFFF).expect("32 bits");
        let group = low(tag >> 32) & 0x7FFF_FFFF;
        Self { is_result: tag >> 63 == 1, group, operation: low(tag) }
    }
}
