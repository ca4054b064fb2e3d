//! Builds the two trees that every group has with fault tolerance.
//!
//! Source: C-MR4LMS, equation (4). Both trees of a pair have the same shape. Where both have all
//! links, the same groups meet on both, and the virtual groups of both are the same. A group that
//! has no second tree, because a link of it does not exist, meets others on the first one only; the
//! virtual groups then are those of the groups that meet on either tree. Dead links stay in the
//! trees: while one tree of a group is whole, no table changes when a link dies or comes back.

use fabricast_topology::TableKind;

use crate::c_mr4lms::fabric::Fabric;
use crate::c_mr4lms::tree_builder::{GroupOnTree, TreeBuilder};
use crate::plan::{Part, Unprotected};
use crate::spt::SpanningTree;

impl TreeBuilder {
    /// Builds the parts of both trees of a pair from groups, rising by MGID, each of which has all
    /// its links on one of them. A group whose members are all on one leaf has no second tree, but
    /// that of the groups that it is merged with.
    ///
    /// - `inputs`: the same groups twice, on their first trees and on their second ones. Groups
    ///   that meet have the same two roots.
    pub(in crate::c_mr4lms) fn build_pair(
        &mut self,
        fabric: &Fabric,
        pair: &[SpanningTree],
        inputs: [&[GroupOnTree<'_>]; 2],
    ) -> Vec<Part> {
        let halves: Vec<Half<'_>> =
            pair.iter().zip(inputs).map(|(home, inputs)| self.half(fabric, home, inputs)).collect();
        self.start(inputs[0]);
        if halves.iter().any(|half| half.served.len() < half.inputs.len()) {
            self.unite(fabric, &halves);
        }
        let mut parts: Vec<Part> = halves
            .iter()
            .zip([0, 1])
            .map(|(half, lowest)| self.build_half(fabric, half, lowest))
            .collect();
        let unprotected = (0u8..).zip(halves).flat_map(|(tree, half)| {
            half.unprotected.into_iter().map(move |one| Unprotected { tree, ..one })
        });
        parts[0].unprotected.extend(unprotected);
        parts[0].unprotected.sort_unstable_by_key(|one| (one.mgid, one.tree));
        parts
    }

    /// Finds out which groups a tree can serve.
    fn half<'a>(
        &mut self,
        fabric: &Fabric,
        home: &'a SpanningTree,
        inputs: &'a [GroupOnTree<'a>],
    ) -> Half<'a> {
        let served = Vec::with_capacity(inputs.len());
        let mut half = Half { home, inputs, served, unprotected: Vec::new() };
        for (at, GroupOnTree { mgid, members, tree }) in (0u32..).zip(inputs) {
            if fabric.has_all_links(tree) {
                half.served.push(at);
                continue;
            }
            self.footprint.trace(fabric, members);
            let places = self.footprint.places();
            let missing = fabric.missing_link(tree, places);
            if missing.is_none() {
                half.served.push(at);
            }
            if let Some(link) = missing.or_else(|| fabric.broken_link(tree, places)) {
                half.unprotected.push(Unprotected { mgid: *mgid, tree: 0, link });
            }
        }
        half
    }

    /// Unites groups that meet on a tree that serves both, and with per-port tables groups with a
    /// common member, whose packets come in by one port whatever tree they take.
    fn unite(&mut self, fabric: &Fabric, halves: &[Half<'_>]) {
        for Half { inputs, served, .. } in halves {
            self.mark_all(fabric, inputs, served.iter().copied());
        }
        if self.tables == TableKind::PerSwitch {
            return;
        }
        let mut members = Vec::new(); // slot and group, of groups that only one tree serves
        for (at, input) in (0u32..).zip(halves[0].inputs) {
            if halves.iter().any(|half| half.served.binary_search(&at).is_err()) {
                self.footprint.trace(fabric, input.members);
                let live = self.footprint.live(input.members);
                members.extend(live.iter().map(|slot| (*slot, at)));
            }
        }
        members.sort_unstable();
        for pair in members.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            self.sets.unite(pair[0].1, pair[1].1);
        }
    }

    /// Builds one tree of a pair for the groups that it can serve, without trees whose top is below
    /// a level.
    fn build_half(&mut self, fabric: &Fabric, half: &Half<'_>, lowest: usize) -> Part {
        let Half { home, inputs, served, .. } = half;
        self.start_part(inputs);
        self.mark_all(fabric, inputs, served.iter().copied());
        let mut served = served.iter().copied().peekable();
        for (at, _) in (0u32..).zip(*inputs) {
            if served.next_if_eq(&at).is_none() {
                self.note_members(fabric, inputs, at);
            }
        }
        self.collect(home, lowest)
    }
}

/// One tree of a pair.
struct Half<'a> {
    home: &'a SpanningTree,
    /// All groups, on this tree with the root that each has.
    inputs: &'a [GroupOnTree<'a>],
    /// The groups whose links exist on it, rising.
    served: Vec<u32>,
    /// The groups that lack a link of it, or have a dead one; the number of the tree is left open.
    unprotected: Vec<Unprotected>,
}
