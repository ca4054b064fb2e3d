//! Spanning trees that a displaced group may choose from.
//!
//! Groups look in the rounds around that of their home first: the allocator of MGIDs keeps groups
//! of one kind in neighboring rounds, and groups of different kinds cost each other most. Among the
//! spanning trees found there each group has an order of its own, by a hash of its MGID and the
//! tree (rendezvous hashing): what happens to one tree does not change the order of the others.

use fabricast_topology::{Mgid, SplitMix};

use crate::c_mr4lms::assignment::TreeAssignment;
use crate::c_mr4lms::fabric::{Fabric, LinkedRows, dense};
use crate::c_mr4lms::numbers::TreeNumber;
use crate::spt::SpanningTree;

/// Spanning trees that end the search, once a round has been searched.
const ENOUGH: usize = 16;

/// Most candidates of a group. With more, few groups share trees, and many move when one does.
pub(super) const MOST: usize = 4;

/// The first candidates of a group by weight, and scratch memory to find them.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    pub(super) held: Vec<Held>, // by round
    rows: [LinkedRows; 3],
    turns: Vec<u32>, // places in a round whose trees can have the links of the leaves
    best: Vec<(u64, TreeNumber)>, // falling by weight
}

impl Candidates {
    /// Gives the candidates with their weights, falling.
    pub(super) fn trees(&self) -> &[(u64, TreeNumber)] {
        &self.best
    }
}

/// Adds a spanning tree to the best ones if its weight is among the largest.
fn offer(best: &mut Vec<(u64, TreeNumber)>, mgid: Mgid, spt: TreeNumber) {
    let weight = SplitMix::new(u64::from(mgid.0) << 32 | u64::from(spt.0)).bits();
    if best.len() == MOST {
        if weight < best[MOST - 1].0 {
            return;
        }
        best.pop();
    }
    let at = best.partition_point(|(other, _)| *other > weight);
    best.insert(at, (weight, spt));
}

/// Links of a pair that a candidate has. One tree of it is live in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Links of both trees exist: no death of one tree moves a group.
    WholePair,
    /// Links of one tree.
    OneTree,
}

impl Wanted {
    /// Tells whether a pair has the links, given whether each tree's are live and whether they
    /// exist.
    fn has(
        self,
        pair: &[SpanningTree],
        is_live: impl Fn(&SpanningTree) -> bool,
        exists: impl Fn(&SpanningTree) -> bool,
    ) -> bool {
        pair.iter().any(is_live) && (self == Self::OneTree || pair.iter().all(exists))
    }
}

impl TreeAssignment {
    /// Finds the candidates of a group whose members were traced and colors listed. With fault
    /// tolerance they are whole pairs, if there are any.
    pub(super) fn find_candidates(&mut self, fabric: &Fabric, mgid: Mgid, home: TreeNumber) {
        fabric.find_rows(self.footprint.places(), &mut self.candidates.rows);
        let is_dual = self.space.trees_per_group() > 1;
        if is_dual {
            self.collect_candidates(fabric, mgid, home, Wanted::WholePair);
        }
        if !is_dual || self.candidates.best.is_empty() {
            self.collect_candidates(fabric, mgid, home, Wanted::OneTree);
        }
    }

    fn collect_candidates(
        &mut self,
        fabric: &Fabric,
        mgid: Mgid,
        home: TreeNumber,
        wanted: Wanted,
    ) {
        let Self { candidates, space, .. } = self;
        let Candidates { rows: [low, middle, high], turns, held, best } = candidates;
        best.clear();
        turns.clear();
        let (trees, total, rounds) = (space.trees_per_color(), space.total(), space.rounds());
        // The links of leaves are the same in all rounds, but for pairs.
        let is_dual = space.trees_per_group() > 1;
        turns.extend(
            (0..trees.min(total))
                .filter(|turn| is_dual || low.is_live(fabric.tree(TreeNumber(*turn)).leaf_up)),
        );
        let is_live = |tree: &SpanningTree| {
            let [leaf_up, u, v] = fabric.rows(tree);
            low.is_live(leaf_up) && middle.is_live(u) && high.is_live(v)
        };
        let exists = |tree: &SpanningTree| {
            let [leaf_up, u, v] = fabric.rows(tree);
            low.exists(leaf_up) && middle.exists(u) && high.exists(v)
        };
        let mut found = 0;
        for step in 0..rounds {
            // Nearer rounds first: 0, 1, -1, 2, -2 and so on.
            let ahead = if step % 2 == 1 { step.div_ceil(2) } else { rounds - step / 2 };
            let round = (home.0 / trees + ahead) % rounds;
            let numbers = turns.iter().map(|turn| TreeNumber(round * trees + turn));
            for spt in numbers.filter(|spt| spt.0 < total) {
                if !held[round as usize].bars(spt) && wanted.has(fabric.trees(spt), is_live, exists)
                {
                    offer(best, mgid, spt);
                    found += 1;
                }
            }
            if found >= ENOUGH {
                break;
            }
        }
    }

    /// Counts the spanning trees without a link and those without a color, for a group that has no
    /// candidate.
    pub(super) fn count_obstacles(&self) -> [u32; 2] {
        let total = self.space.total();
        let held = (0..total).map(TreeNumber).filter(|spt| {
            let round = self.round(*spt);
            self.candidates.held[round.index()].bars(*spt)
        });
        let held = dense(held.count());
        [total - held, held]
    }
}

/// Use of one color by the members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::c_mr4lms) enum Held {
    Free,
    On(TreeNumber),
    OnSeveral,
}

impl Held {
    pub(in crate::c_mr4lms) fn add(&mut self, spt: TreeNumber) {
        *self = match *self {
            Self::Free => Self::On(spt),
            Self::On(same) if same == spt => Self::On(spt),
            Self::On(_) | Self::OnSeveral => Self::OnSeveral,
        };
    }

    pub(in crate::c_mr4lms) fn bars(self, spt: TreeNumber) -> bool {
        match self {
            Self::Free => false,
            Self::On(held) => held != spt,
            Self::OnSeveral => true,
        }
    }
}
