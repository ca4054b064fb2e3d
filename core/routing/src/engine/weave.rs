//! Weaves the trees of all groups on one spanning tree and merges those that meet.
//!
//! Source: C-MR4LMS, algorithms 1 and 2. On one spanning tree the tree of a virtual group is
//! the union of its groups' trees (lemma 1), so virtual groups are the connected components
//! of "share a link" (with per-switch tables: "share a switch"), and one pass that marks
//! each group's links finds them. Marks are bits by port: reading them out gives the ports sorted.

use fabricast_topology::{PortId, SwitchId, TableKind};

use crate::engine::fabric::{Fabric, dense};
use crate::engine::footprint::Footprint;
use crate::mgid::Mgid;
use crate::plan::{CutOff, Part, PlannedGroup, PlannedVirtualGroup, VirtualGroupId};
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
    ports: MarkedPorts,
    switches: Vec<u32>, // by switch: 1 + the group that uses it first, 0 for none
    used_switches: Vec<u32>,
    parents: Vec<u32>, // by group: union-find, the smallest is the root
    owned: Vec<u32>,   // by group: ports it marked first; later the write position of its root
    tops: Vec<Top>,    // by group, later by root
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
            ports: MarkedPorts::new(fabric.graph.port_count()),
            switches: vec![0; switches],
            used_switches: Vec::new(),
            parents: Vec::new(),
            owned: Vec::new(),
            tops: Vec::new(),
        }
    }

    /// Weaves groups, rising by MGID, that all have the links they need, into the part of a spanning tree.
    pub(super) fn weave(
        &mut self,
        fabric: &Fabric,
        tree: &SpanningTree,
        strands: &[Strand<'_>],
    ) -> Part {
        self.parents.clear();
        self.owned.clear();
        self.tops.clear();
        let (mut planned, mut cut_off) = (Vec::with_capacity(strands.len()), Vec::new());
        for Strand { mgid, members, tree } in strands.iter().copied() {
            self.footprint.trace(fabric, members);
            let live = dense(self.footprint.live(members).len());
            planned.push(PlannedGroup { mgid, virtual_group: VirtualGroupId(mgid.0), live });
            cut_off.extend(self.footprint.cut_off.iter().map(|(seat, why)| CutOff {
                mgid,
                endpoint: fabric.endpoint_at(*seat),
                why: *why,
            }));
            let at = dense(self.parents.len());
            self.parents.push(at);
            self.owned.push(0);
            let top = if live >= 2 { self.footprint.top_switch(fabric, tree) } else { None };
            self.tops.push(top);
            if live >= 2 {
                self.mark(fabric, tree, at, members);
            }
        }
        for used in self.used_switches.drain(..) {
            self.switches[used as usize] = 0;
        }
        self.collect(tree, planned, cut_off)
    }

    fn mark(&mut self, fabric: &Fabric, tree: &SpanningTree, group: u32, members: &[u32]) {
        let Self { footprint, ports, parents, owned, .. } = self;
        for seat in footprint.live(members) {
            ports.mark(fabric.seat_port[*seat as usize], group, parents, owned);
        }
        for ((tier, row), places) in
            fabric.tiers.iter().zip(fabric.rows(tree)).zip(footprint.places())
        {
            if places.len() > 1 {
                let (lower, upper) = tier.row(row);
                for at in places {
                    ports.mark(lower[*at as usize], group, parents, owned);
                    ports.mark(upper[*at as usize], group, parents, owned);
                }
            }
        }
        if self.tables == TableKind::PerSwitch {
            self.mark_switches(fabric, tree, group);
        }
    }

    fn mark_switches(&mut self, fabric: &Fabric, tree: &SpanningTree, group: u32) {
        let Self { footprint, switches, used_switches, parents, .. } = self;
        let [leaves, cns, blocks] = footprint.places();
        let root: &[u32] = &[0];
        let stages = [
            (leaves, true),
            (cns, leaves.len() > 1),
            (blocks, cns.len() > 1),
            (root, blocks.len() > 1),
        ];
        for (level, (places, _)) in stages.iter().enumerate().filter(|(_, (_, used))| *used) {
            for at in *places {
                let Some(switch) = fabric.switch(tree, level, *at) else { continue };
                let user = &mut switches[switch.index()];
                if *user == 0 {
                    *user = group + 1;
                    used_switches.push(switch.0);
                } else {
                    union(parents, *user - 1, group);
                }
            }
        }
    }

    fn collect(
        &mut self,
        tree: &SpanningTree,
        mut groups: Vec<PlannedGroup>,
        cut_off: Vec<CutOff>,
    ) -> Part {
        let Self { ports: marked, parents, owned, tops, .. } = self;
        let mut merged_count = vec![0u32; parents.len()];
        for at in 0..parents.len() {
            let root = parents[parents[at] as usize]; // its parent is smaller and final already
            parents[at] = root;
            let root = root as usize;
            groups[at].virtual_group = VirtualGroupId(groups[root].mgid.0);
            merged_count[root] += 1;
            if root != at {
                owned[root] += std::mem::take(&mut owned[at]);
                tops[root] = tops[root].max(tops[at]);
            }
        }
        let mut virtual_groups = Vec::with_capacity(parents.len());
        let (mut merged_end, mut ports_end) = (0, 0);
        for at in 0..parents.len() {
            if parents[at] as usize == at {
                let (merged, ports) = (merged_count[at], owned[at]);
                (merged_count[at], owned[at]) = (merged_end, ports_end); // where to write
                (merged_end, ports_end) = (merged_end + merged, ports_end + ports);
                let id = groups[at].virtual_group;
                let root = tops[at].map(|(_, switch)| switch);
                virtual_groups.push(PlannedVirtualGroup { id, root, merged_end, ports_end });
            }
        }
        let mut merged = vec![Mgid(0); groups.len()];
        for (group, root) in groups.iter().zip(&*parents) {
            merged[take_place(&mut merged_count[*root as usize])] = group.mgid;
        }
        let mut ports = vec![PortId(0); ports_end as usize];
        marked.drain(|port, owner| {
            let root = parents[owner as usize];
            ports[take_place(&mut owned[root as usize])] = PortId(port);
        });
        Part { number: tree.spt, color: tree.color, groups, virtual_groups, merged, ports, cut_off }
    }
}

fn take_place(next: &mut u32) -> usize {
    let at = *next as usize;
    *next += 1;
    at
}

fn find(parents: &mut [u32], mut at: u32) -> u32 {
    while parents[at as usize] != at {
        let above = parents[parents[at as usize] as usize];
        parents[at as usize] = above;
        at = above;
    }
    at
}

fn union(parents: &mut [u32], a: u32, b: u32) {
    let (a, b) = (find(parents, a), find(parents, b));
    parents[a.max(b) as usize] = a.min(b);
}

/// A set of ports with the group that marked each first, read out in rising order.
#[derive(Clone, Debug)]
struct MarkedPorts {
    words: Vec<u64>,
    used_words: Vec<u64>, // one bit for each word that has any
    owners: Vec<u32>,     // by port; means nothing where the bit is not set
}

impl MarkedPorts {
    fn new(ports: usize) -> Self {
        let words = ports.div_ceil(64);
        Self {
            words: vec![0; words],
            used_words: vec![0; words.div_ceil(64)],
            owners: vec![0; ports],
        }
    }

    /// Marks a port for a group, or unites the group with the port's owner.
    #[inline]
    fn mark(&mut self, port: u32, group: u32, parents: &mut [u32], owned: &mut [u32]) {
        let (word, bit) = (port as usize >> 6, 1u64 << (port & 63));
        let before = self.words[word];
        if before & bit != 0 {
            let owner = self.owners[port as usize];
            if owner != group {
                union(parents, owner, group);
            }
            return;
        }
        self.words[word] = before | bit;
        self.used_words[word >> 6] |= 1 << (word & 63);
        self.owners[port as usize] = group;
        owned[group as usize] += 1;
    }

    /// Reads all marked ports out and clears them.
    fn drain(&mut self, mut each: impl FnMut(u32, u32)) {
        for (block, used) in self.used_words.iter_mut().enumerate() {
            let mut used = std::mem::take(used);
            while used != 0 {
                let word = block * 64 + used.trailing_zeros() as usize;
                used &= used - 1;
                let mut bits = std::mem::take(&mut self.words[word]);
                while bits != 0 {
                    let port = dense(word * 64) + bits.trailing_zeros();
                    bits &= bits - 1;
                    each(port, self.owners[port as usize]);
                }
            }
        }
    }
}
