//! Weaves the trees of all groups on one spanning tree and merges those that meet.
//!
//! Source: C-MR4LMS, algorithms 1 and 2. On one spanning tree the tree of a virtual group is
//! the union of its groups' trees (lemma 1), so virtual groups are the connected components
//! of "share a link" (with per-switch tables: "share a switch"), and one pass that marks
//! each group's links finds them.

mod pair;

use std::sync::Arc;

use fabricast_topology::{PortId, SwitchId, TableKind};

use crate::engine::fabric::{Fabric, dense};
use crate::engine::footprint::Footprint;
use crate::engine::marks::{Links, Marks, Reading};
use crate::engine::sets::Sets;
use crate::mgid::Mgid;
use crate::plan::{CutOff, Part, PlannedGroup, PlannedVirtualGroup, Ports, VirtualGroupId};
use crate::spt::SpanningTree;

/// One group to weave.
#[derive(Clone, Copy)]
pub(super) struct Strand<'a> {
    pub(super) mgid: Mgid,
    /// Seats, rising.
    pub(super) members: &'a [u32],
    /// Where its links are. Groups that meet have the same.
    pub(super) tree: &'a SpanningTree,
}

/// Level and number of the topmost switch of a tree, if there is a tree.
type Top = Option<(usize, SwitchId)>;

/// Scratch memory for weaving; everything is clear between two calls.
#[derive(Clone, Debug)]
pub(super) struct Loom {
    tables: TableKind,
    footprint: Footprint,
    marks: Marks,
    switches: Links,  // in use, for per-switch tables
    sets: Sets,       // of groups
    order: Vec<u32>,  // the groups, those of one tree together
    tops: Vec<Top>,   // by group
    reading: Reading, // the ports of all trees
    planned: Vec<PlannedGroup>,
    cut_off: Vec<CutOff>,
}

impl Loom {
    pub(super) fn new(fabric: &Fabric, tables: TableKind) -> Self {
        let switches = match tables {
            TableKind::PerPort => 0,
            TableKind::PerSwitch => fabric.graph.switch_count(),
        };
        Self {
            tables,
            footprint: Footprint::default(),
            marks: Marks::new(fabric),
            switches: Links::new(switches),
            sets: Sets::default(),
            order: Vec::new(),
            tops: Vec::new(),
            reading: Reading::new(fabric),
            planned: Vec::new(),
            cut_off: Vec::new(),
        }
    }

    /// Weaves groups, rising by MGID, that all have the links they need, into the part of a spanning tree.
    pub(super) fn weave(
        &mut self,
        fabric: &Fabric,
        tree: &SpanningTree,
        strands: &[Strand<'_>],
    ) -> Part {
        self.start(strands);
        let mut order = std::mem::take(&mut self.order);
        order.extend(0..dense(strands.len()));
        let tree_of = |at: u32| strands[at as usize].tree;
        let same =
            |a: u32, b: u32| std::ptr::eq(tree_of(a), tree_of(b)) || tree_of(a) == tree_of(b);
        if order.iter().any(|at| !same(0, *at)) {
            let place = |tree: &SpanningTree| (tree.u, tree.tn, tree.v, tree.l3);
            order.sort_by_key(|at| place(tree_of(*at)));
        }
        for together in order.chunk_by(|a, b| same(*a, *b)) {
            let tree = tree_of(together[0]);
            self.mark(fabric, strands, together, std::slice::from_ref(tree));
            let sets = self.sets.settle();
            self.marks.read_out(fabric, tree, sets, &mut self.reading);
        }
        order.clear();
        self.order = order;
        self.switches.clear();
        self.collect(tree, 0)
    }

    fn start(&mut self, strands: &[Strand<'_>]) {
        self.sets.reset(dense(strands.len()));
        self.reading.clear();
        self.tops.clear();
        self.tops.resize(strands.len(), None);
        self.planned.extend(strands.iter().map(|strand| PlannedGroup {
            mgid: strand.mgid,
            virtual_group: VirtualGroupId(strand.mgid.0),
            live: 0,
        }));
    }

    /// Marks the links of groups that have one tree, which may be one of a pair. Of a pair both count
    /// when the question is who meets.
    fn mark(
        &mut self,
        fabric: &Fabric,
        strands: &[Strand<'_>],
        together: &[u32],
        pair: &[SpanningTree],
    ) {
        let Self { footprint, marks, switches, sets, .. } = self;
        let traced = !fabric.is_whole() || self.tables == TableKind::PerSwitch;
        for at in together {
            let Strand { mgid, members, tree } = strands[*at as usize];
            let mut live = members;
            if traced {
                footprint.trace(fabric, members);
                live = footprint.live(members);
                self.cut_off.extend(footprint.cut_off.iter().map(|(seat, why)| CutOff {
                    mgid,
                    endpoint: fabric.endpoint_at(*seat),
                    why: *why,
                }));
            }
            self.planned[*at as usize].live = dense(live.len());
            if live.len() < 2 {
                continue;
            }
            let (level, place) = marks.mark(fabric, sets, *at, live);
            let top = fabric.switch(tree, level, place);
            self.tops[*at as usize] = top.map(|switch| (level, switch));
            if self.tables == TableKind::PerSwitch {
                for tree in pair {
                    let places = footprint.places();
                    each_switch(fabric, tree, places, |switch| switches.mark(switch.0, *at, sets));
                }
            }
        }
        for at in together.iter().filter(|at| matches!(self.tops[**at as usize], Some((0, _)))) {
            let mut live = strands[*at as usize].members;
            if traced {
                footprint.trace(fabric, live);
                live = footprint.live(live);
            }
            marks.mark_within(fabric, sets, *at, live);
        }
    }

    /// Puts together what was read, without trees that have their top below a level.
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
        let runs = || self.reading.runs().filter(|(set, _)| kept(*set).is_some());
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
