//! Builds the trees of all groups on one spanning tree and merges those that meet.
//!
//! Source: C-MR4LMS, algorithms 1 and 2. On one spanning tree the tree of a virtual group is
//! the union of its groups' trees (lemma 1), so virtual groups are the connected components
//! of "share a link" (with per-switch tables: "share a switch"), and one pass that marks
//! each group's links finds them.

mod pair;

use std::sync::Arc;

use fabricast_topology::{Mgid, PortId, SwitchId, TableKind};

use crate::c_mr4lms::disjoint_sets::DisjointSets;
use crate::c_mr4lms::fabric::{Fabric, dense};
use crate::c_mr4lms::footprint::Footprint;
use crate::c_mr4lms::link_users::{LinkUsers, Links, PortRuns};
use crate::c_mr4lms::numbers::EndpointSlot;
use crate::plan::{CutOff, Part, PlannedGroup, PlannedVirtualGroup, Ports, VirtualGroupId};
use crate::spt::SpanningTree;

/// One group whose tree is built.
#[derive(Clone, Copy)]
pub(super) struct GroupOnTree<'a> {
    pub(super) mgid: Mgid,
    /// Endpoint slots, rising.
    pub(super) members: &'a [EndpointSlot],
    /// The spanning tree with its root. Groups that meet have the same.
    pub(super) tree: &'a SpanningTree,
}

/// Level and number of the topmost switch of a tree, if there is a tree.
type Top = Option<(usize, SwitchId)>;

/// Scratch memory for building trees; everything is clear between two calls.
#[derive(Clone, Debug)]
pub(super) struct TreeBuilder {
    tables: TableKind,
    footprint: Footprint,
    link_users: LinkUsers,
    switches: Links,     // in use, for per-switch tables
    sets: DisjointSets,  // of groups
    order: Vec<u32>,     // the groups, those of one tree together
    tops: Vec<Top>,      // by group
    port_runs: PortRuns, // the ports of all trees
    planned: Vec<PlannedGroup>,
    cut_off: Vec<CutOff>,
}

impl TreeBuilder {
    pub(super) fn new(fabric: &Fabric, tables: TableKind) -> Self {
        let switches = match tables {
            TableKind::PerPort => 0,
            TableKind::PerSwitch => fabric.graph.switch_count(),
        };
        Self {
            tables,
            footprint: Footprint::default(),
            link_users: LinkUsers::new(fabric),
            switches: Links::new(switches),
            sets: DisjointSets::default(),
            order: Vec::new(),
            tops: Vec::new(),
            port_runs: PortRuns::new(fabric),
            planned: Vec::new(),
            cut_off: Vec::new(),
        }
    }

    /// Builds the part of a spanning tree from its groups, which rise by MGID and all have the
    /// links that they need.
    ///
    /// Cost: O(memberships of the groups).
    pub(super) fn build(
        &mut self,
        fabric: &Fabric,
        tree: &SpanningTree,
        inputs: &[GroupOnTree<'_>],
    ) -> Part {
        self.start(inputs);
        self.mark_all(fabric, inputs, 0..dense(inputs.len()));
        self.collect(tree, 0)
    }

    /// Marks the links of groups, each on its own tree, unites those that meet, and reads the ports
    /// of all of them out.
    fn mark_all(
        &mut self,
        fabric: &Fabric,
        inputs: &[GroupOnTree<'_>],
        groups: impl Iterator<Item = u32>,
    ) {
        let mut order = std::mem::take(&mut self.order);
        order.extend(groups);
        let tree_of = |at: u32| inputs[at as usize].tree;
        let same =
            |a: u32, b: u32| std::ptr::eq(tree_of(a), tree_of(b)) || tree_of(a) == tree_of(b);
        if order.iter().any(|at| !same(order[0], *at)) {
            let place = |tree: &SpanningTree| (tree.u, tree.tn, tree.v, tree.l3);
            order.sort_by_key(|at| place(tree_of(*at)));
        }
        for together in order.chunk_by(|a, b| same(*a, *b)) {
            let tree = tree_of(together[0]);
            self.mark(fabric, tree, inputs, together);
            let sets = self.sets.settle();
            self.link_users.read_out(fabric, tree, sets, &mut self.port_runs);
        }
        order.clear();
        self.order = order;
        self.switches.clear();
    }

    fn start(&mut self, inputs: &[GroupOnTree<'_>]) {
        self.sets.reset(dense(inputs.len()));
        self.start_part(inputs);
    }

    /// Starts a part with the virtual groups that have been found so far.
    fn start_part(&mut self, inputs: &[GroupOnTree<'_>]) {
        self.port_runs.clear();
        self.tops.clear();
        self.tops.resize(inputs.len(), None);
        self.cut_off.clear();
        self.planned.clear();
        self.planned.extend(inputs.iter().map(|input| PlannedGroup {
            mgid: input.mgid,
            virtual_group: VirtualGroupId(input.mgid.0),
            live: 0,
        }));
    }

    /// Marks the links that groups have on a tree, and unites groups that meet there.
    fn mark(
        &mut self,
        fabric: &Fabric,
        tree: &SpanningTree,
        inputs: &[GroupOnTree<'_>],
        together: &[u32],
    ) {
        let traced = !fabric.is_whole() || self.tables == TableKind::PerSwitch;
        for at in together {
            if traced {
                self.note_members(fabric, inputs, *at);
            } else {
                self.planned[*at as usize].live = dense(inputs[*at as usize].members.len());
            }
            let Self { footprint, link_users, switches, sets, .. } = self;
            let members = inputs[*at as usize].members;
            let live = if traced { footprint.live(members) } else { members };
            if live.len() < 2 {
                continue;
            }
            let (level, place) = link_users.mark(fabric, sets, *at, live);
            let top = fabric.switch(tree, level, place);
            self.tops[*at as usize] = top.map(|switch| (level, switch));
            if self.tables == TableKind::PerSwitch {
                let places = footprint.places();
                each_switch(fabric, tree, places, |switch| switches.mark(switch.0, *at, sets));
            }
        }
        for at in together.iter().filter(|at| matches!(self.tops[**at as usize], Some((0, _)))) {
            let Self { footprint, link_users, sets, .. } = self;
            let mut live = inputs[*at as usize].members;
            if traced {
                footprint.trace(fabric, live);
                live = footprint.live(live);
            }
            link_users.mark_within(fabric, sets, *at, live);
        }
    }

    /// Finds out which members of a group are live; notes their number and all others.
    fn note_members(&mut self, fabric: &Fabric, inputs: &[GroupOnTree<'_>], at: u32) {
        let GroupOnTree { mgid, members, .. } = inputs[at as usize];
        self.footprint.trace(fabric, members);
        self.planned[at as usize].live = dense(self.footprint.live(members).len());
        let cut_off = self.footprint.cut_off.iter().map(|(slot, why)| CutOff {
            mgid,
            endpoint: fabric.endpoint_at(*slot),
            why: *why,
        });
        self.cut_off.extend(cut_off);
    }

    /// Makes the part of the ports that were read out, without trees whose top is below a level.
    fn collect(&mut self, tree: &SpanningTree, lowest: usize) -> Part {
        let mut groups = std::mem::take(&mut self.planned);
        let mut cut_off = std::mem::take(&mut self.cut_off);
        cut_off.sort_unstable();
        let sets = self.sets.settle();
        let mut counts = vec![(0u32, 0u32); groups.len()]; // by set: groups, ports
        for (at, set) in sets.iter().map(|set| *set as usize).enumerate() {
            groups[at].virtual_group = VirtualGroupId(groups[set].mgid.0);
            counts[set].0 += 1;
            self.tops[set] = self.tops[set].max(self.tops[at]);
        }
        let tops = &self.tops;
        let kept = |set: u32| tops[set as usize].filter(|(level, _)| *level >= lowest);
        let runs = || self.port_runs.runs().filter(|(set, _)| kept(*set).is_some());
        for (set, ports) in runs() {
            counts[set as usize].1 += dense(ports.len());
        }
        let mut rows = Vec::with_capacity(groups.len()); // id, root, ends of merged and ports
        let (mut merged_end, mut ports_end) = (0, 0);
        for (at, group) in groups.iter().enumerate().filter(|(at, _)| sets[*at] as usize == *at) {
            let (merged, ports) = std::mem::replace(&mut counts[at], (merged_end, ports_end));
            (merged_end, ports_end) = (merged_end + merged, ports_end + ports);
            let root = kept(dense(at)).map(|(_, switch)| switch);
            rows.push((group.virtual_group, root, merged_end, ports_end));
        }
        // From here on a count is the place of the next one.
        let mut merged = vec![Mgid(0); groups.len()];
        for (group, set) in groups.iter().zip(sets) {
            merged[take_place(&mut counts[*set as usize].0)] = group.mgid;
        }
        let mut ports = vec![PortId(0); ports_end as usize];
        for (set, run) in runs() {
            let first = &mut counts[set as usize].1;
            ports[*first as usize..][..run.len()].copy_from_slice(run);
            *first += dense(run.len());
        }
        let mut first = 0;
        for end in rows.iter().map(|row| row.3 as usize) {
            let ports = &mut ports[std::mem::replace(&mut first, end)..end];
            if !ports.is_sorted() {
                ports.sort_unstable();
            }
        }
        let (block, mut first) = (Arc::new(ports), 0);
        let virtual_groups = rows.into_iter().map(|(id, root, merged_end, end)| {
            let ports = Ports::of_block(&block, std::mem::replace(&mut first, end), end);
            PlannedVirtualGroup { id, root, merged_end, ports }
        });
        let virtual_groups = virtual_groups.collect();
        Part {
            number: tree.spt,
            color: tree.color,
            groups,
            virtual_groups,
            merged,
            cut_off,
            unprotected: Vec::new(),
        }
    }
}

/// Gives the switches of a group's tree, whose members are at these leaves, CNs and blocks.
fn each_switch(
    fabric: &Fabric,
    tree: &SpanningTree,
    [leaves, cns, blocks]: [&[u32]; 3],
    mut each: impl FnMut(SwitchId),
) {
    let root: &[u32] = &[0];
    let stages = [
        (leaves, true),
        (cns, leaves.len() > 1),
        (blocks, cns.len() > 1),
        (root, blocks.len() > 1),
    ];
    for (level, (places, _)) in stages.iter().enumerate().filter(|(_, (_, used))| *used) {
        places.iter().filter_map(|at| fabric.switch(tree, level, *at)).for_each(&mut each);
    }
}

fn take_place(next: &mut u32) -> usize {
    let at = *next as usize;
    *next += 1;
    at
}
