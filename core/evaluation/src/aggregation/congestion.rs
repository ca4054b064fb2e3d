//! Trees on the pruned test fabric, whose leaf switches have one link upwards each, with noise that
//! takes four fifths of it (§6.1.2).
//!
//! A link serves packets one after the other; its direction upwards and its direction downwards
//! each have a queue. How long a packet holds a noisy link, its length over the rate that noise
//! leaves, is not published: it is fitted to one published number, and the others are left to come
//! out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabricast_collectives::{CostParameters, Operation};

use super::timing::{Kind, Misfit, OF_A_LEAF, Tree, WIDTH};

/// Published for 64 processes: how much lower the hierarchical tree's latency is than that of the
/// 32-nomial one.
pub(super) const FITTED: (u32, f64) = (64, 0.32);

/// Level of the leaf switches in the test fabric's groups.
const LEAF: usize = 1;
const BYTES: u32 = 8;

/// One tree's broadcast of 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) processes: u32,
    pub(super) kind: Kind,
    pub(super) noisy_us: f64,
    pub(super) idle_us: f64,
}

/// Latencies under background traffic.
pub(super) struct Noisy {
    /// Time for which a packet holds a link, in microseconds.
    pub(super) hold_us: f64,
    pub(super) times: Vec<Time>,
}

impl Noisy {
    pub(super) fn new(parameters: &CostParameters, counts: &[u32]) -> Result<Self, Misfit> {
        let (processes, lower) = FITTED;
        let nomial = Tree::new(Kind::Nomial, processes, WIDTH)?;
        let hierarchical = Tree::new(Kind::Hierarchical, processes, WIDTH)?;
        // The more a packet holds a link, the more it counts to send few.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            let time = |tree| broadcast_us(parameters, tree, middle);
            let saved = 1.0 - time(&hierarchical) / time(&nomial);
            if saved < lower { low = middle } else { high = middle }
        }
        let mut times = Vec::new();
        for processes in counts.iter().copied() {
            for kind in Kind::ALL {
                let tree = Tree::new(kind, processes, WIDTH)?;
                let noisy_us = broadcast_us(parameters, &tree, high);
                let idle_us = tree.broadcast_us(parameters, BYTES);
                times.push(Time { processes, kind, noisy_us, idle_us });
            }
        }
        Ok(Self { hold_us: high, times })
    }

    /// Finds a time.
    pub(super) fn time(&self, kind: Kind, processes: u32) -> Option<&Time> {
        self.times.iter().find(|time| (time.kind, time.processes) == (kind, processes))
    }

    /// Share by which the hierarchical tree's latency is lower than another's, from 0 to 1.
    pub(super) fn lower(&self, than: Kind, processes: u32) -> Option<f64> {
        let ours = self.time(Kind::Hierarchical, processes)?.noisy_us;
        Some(1.0 - ours / self.time(than, processes)?.noisy_us)
    }
}

/// The time of a broadcast of 8 bytes where packets hold shared links for so long, in microseconds.
fn broadcast_us(parameters: &CostParameters, tree: &Tree, hold_us: f64) -> f64 {
    let back_us = tree.sent_back_us(parameters, BYTES);
    // The way back holds the two shared links as well, unless all are on one leaf switch.
    let held_us = if tree.processes > OF_A_LEAF { 2.0 * hold_us } else { 0.0 };
    Links::new(parameters, tree, hold_us).gather_us() + back_us + held_us
}

/// A moment as a key: times are not negative, so that their bits are in their order.
type Key = u64;

/// Place of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Before the link upwards of its leaf switch.
    Up,
    /// Before the link downwards to its parent's.
    Down,
    /// At its parent.
    There,
}

struct Links<'a> {
    parameters: &'a CostParameters,
    tree: &'a Tree,
    hold_us: f64,
    /// By leaf switch, upwards and downwards: until when the link is held.
    held: Vec<[f64; 2]>,
    /// By process: children that have not come.
    missing: Vec<usize>,
    /// By process: when it has handled what has come.
    done: Vec<f64>,
    /// The next packets first: when, who sent it, where it is.
    events: BinaryHeap<Reverse<(Key, u32, Stage)>>,
}

/// Index of the links up and down among those of a leaf.
const UP: usize = 0;
const DOWN: usize = 1;

/// The link above the leaf of a process, in one direction.
#[derive(Clone, Copy)]
struct LinkEnd {
    process: u32,
    way: usize,
}

impl<'a> Links<'a> {
    fn new(parameters: &'a CostParameters, tree: &'a Tree, hold_us: f64) -> Self {
        let count = tree.processes as usize;
        let missing = (0..tree.processes).map(|process| tree.tree.children(process).len());
        Self {
            parameters,
            tree,
            hold_us,
            held: vec![[0.0; 2]; count],
            missing: missing.collect(),
            done: vec![0.0; count],
            events: BinaryHeap::new(),
        }
    }

    /// Lets all packets travel; when the root has handled the last.
    fn gather_us(mut self) -> f64 {
        for process in 0..self.tree.processes {
            if self.missing[process as usize] == 0 {
                self.send(process, 0.0);
            }
        }
        let per_child = self.parameters.per_child_us(Operation::Broadcast, BYTES);
        while let Some(Reverse((key, process, stage))) = self.events.pop() {
            let now = f64::from_bits(key);
            let parent = self.tree.tree.parent(process).expect("only children send");
            match stage {
                Stage::Up => self.pass(now, process, LinkEnd { process, way: UP }, Stage::Down),
                Stage::Down => {
                    self.pass(now, process, LinkEnd { process: parent, way: DOWN }, Stage::There)
                }
                Stage::There => {
                    let at = parent as usize;
                    self.done[at] = self.done[at].max(now) + per_child;
                    self.missing[at] -= 1;
                    if self.missing[at] == 0 {
                        self.send(parent, self.done[at]);
                    }
                }
            }
        }
        self.done[self.tree.tree.root() as usize]
    }

    /// A process has all and sends on.
    fn send(&mut self, process: u32, now: f64) {
        let Some(parent) = self.tree.tree.parent(process) else { return };
        let (leaf, other) = (self.leaf(process), self.leaf(parent));
        if leaf == other {
            let way = f64::from(self.tree.nesting.links(process, parent)) * self.parameters.link_us;
            self.push(now + way, process, Stage::There);
        } else {
            self.push(now + self.parameters.link_us, process, Stage::Up);
        }
    }

    /// A packet takes the shared link of somebody's leaf switch when that is free: upwards the
    /// second of its four links, downwards the third, after which the fourth is the parent's own.
    fn pass(&mut self, now: f64, process: u32, end: LinkEnd, next: Stage) {
        let leaf = self.leaf(end.process);
        let link = &mut self.held[leaf][end.way];
        *link = link.max(now) + self.hold_us;
        let last = if next == Stage::There { 2.0 } else { 1.0 };
        let there = *link + last * self.parameters.link_us;
        self.push(there, process, next);
    }

    fn push(&mut self, at: f64, process: u32, stage: Stage) {
        self.events.push(Reverse((at.to_bits(), process, stage)));
    }

    fn leaf(&self, process: u32) -> usize {
        self.tree.nesting.group_of(LEAF, process) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;

    fn parameters() -> CostParameters {
        Hardware::ours().aggregation.model
    }

    #[test]
    fn links_that_are_not_held_change_nothing() {
        for kind in Kind::ALL {
            let tree = Tree::new(kind, 200, WIDTH).unwrap();
            let difference =
                broadcast_us(&parameters(), &tree, 0.0) - tree.broadcast_us(&parameters(), BYTES);
            assert!(difference.abs() < 1e-9, "{kind:?}: {difference}");
        }
    }

    #[test]
    fn packets_to_one_switch_wait_for_one_another() {
        // 16 processes of one leaf switch send to process 0 of another: 16 hold its link in turn.
        let tree = Tree::new(Kind::Ary, 32, WIDTH).unwrap();
        let gathered = Links::new(&parameters(), &tree, 1.0).gather_us();
        // Each also holds the link upwards, and the last is handled at once when it comes.
        assert!((gathered - (4.0 * 0.28 + 17.0 + 0.01)).abs() < 1e-9, "{gathered}");
    }
}
