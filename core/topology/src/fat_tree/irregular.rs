//! Lists the irregularities of a fabric: parts that the regular fat tree has and the fabric lacks,
//! and surplus parts.

use fixedbitset::FixedBitSet;

use super::levels::Levels;
use super::{FatTree, Irregularity, NONE, Place};
use crate::graph::Graph;
use crate::ids::{Peer, SwitchId};

/// Compares a fat tree with its parameters.
pub(super) fn list(graph: &Graph, levels: &Levels, tree: &FatTree) -> Vec<Irregularity> {
    let mut first_leaf = vec![None; tree.params.cns as usize];
    for (cn, leaf) in tree.leaf_cn.iter().zip(&tree.leaves) {
        first_leaf[*cn as usize].get_or_insert(SwitchId(*leaf));
    }
    let mut list = List { graph, tree, first_leaf, found: Vec::new() };
    list.leaves();
    list.leaf_links();
    list.spines();
    list.tops();
    list.surplus(levels);
    list.endpoints();
    list.found
}

struct List<'a> {
    graph: &'a Graph,
    tree: &'a FatTree,
    first_leaf: Vec<Option<SwitchId>>, // by CN
    found: Vec<Irregularity>,
}

impl List<'_> {
    fn leaves(&mut self) {
        let params = self.tree.params;
        let mut counts = vec![0; params.cns as usize];
        for cn in &self.tree.leaf_cn {
            counts[*cn as usize] += 1;
        }
        let of = params.leaves_per_cn;
        for (cn, has) in (0u32..).zip(counts) {
            if has < of {
                let with = self.leaf_label(cn);
                self.found.push(Irregularity::MissingLeaves { cn, with, has, of });
            }
        }
    }

    fn leaf_links(&mut self) {
        let params = self.tree.params;
        for leaf in (0..).take(self.tree.leaf_count()) {
            let switch = self.tree.leaf_switch(leaf);
            let mut bundles = (0..params.spines).map(|g| {
                let slots = g * params.lanes0..(g + 1) * params.lanes0;
                (g, count(slots.map(|slot| self.tree.leaf_up(leaf, slot))))
            });
            if params.spines > 0 && bundles.clone().all(|(_, has)| has == 0) {
                let switch = self.graph.switch_label(switch);
                self.found.push(Irregularity::LeafCutOff { switch });
                continue;
            }
            let cn = self.tree.cn_of_leaf(leaf);
            let fewer: Vec<_> = bundles
                .by_ref()
                .filter(|(_, has)| *has < params.lanes0)
                .filter_map(|(g, has)| Some((self.tree.l1_switch(cn, g)?, has)))
                .collect();
            for (spine, has) in fewer {
                self.bundle(switch, spine, has, params.lanes0);
            }
        }
    }

    fn spines(&mut self) {
        let params = self.tree.params;
        for (cn, g) in (0..params.cns).flat_map(|cn| (0..params.spines).map(move |g| (cn, g))) {
            let Some(spine) = self.tree.l1_switch(cn, g) else {
                let place = format!("number {g} of midplane {cn} (of {})", self.leaf_label(cn));
                self.found.push(Irregularity::MissingSwitch { level: 1, place });
                continue;
            };
            for tn in 0..params.tns_per_group {
                let Some(l2) =
                    self.tree.l2_switch(g * params.tns_per_group + tn, self.tree.block_of_cn(cn))
                else {
                    continue; // listed as a missing switch
                };
                let lanes = (0..params.lanes1).map(|lane| lane * params.tns_per_group + tn);
                let has = count(lanes.map(|u| self.tree.l1_up(cn, g, u)));
                self.bundle(spine, l2, has, params.lanes1);
            }
        }
    }

    fn tops(&mut self) {
        let params = self.tree.params;
        for tn in 0..params.tns {
            let l2 = |block| self.tree.l2_switch(tn, block);
            if (0..params.blocks).all(|block| l2(block).is_none()) {
                let place = format!("top midplane {tn}{}", self.below_group(tn));
                self.found.push(Irregularity::MissingSwitch { level: 2, place });
                continue;
            }
            let beside = (0..params.blocks).find_map(l2).expect("one is there");
            let beside = self.graph.switch_label(beside);
            let l3s = if self.is_repeated(tn) { 0 } else { params.l3_per_tn };
            for x in (0..l3s).filter(|x| self.tree.l3_switch(tn, *x).is_none()) {
                let place = format!("number {x} of top midplane {tn} (of {beside})");
                self.found.push(Irregularity::MissingSwitch { level: 3, place });
            }
            for block in 0..params.blocks {
                let Some(lower) = self.tree.l2_switch(tn, block) else {
                    let place = format!("number {block} of top midplane {tn} (of {beside})");
                    self.found.push(Irregularity::MissingSwitch { level: 2, place });
                    continue;
                };
                for x in 0..params.l3_per_tn {
                    let Some(upper) = self.tree.l3_switch(tn, x) else { continue };
                    let lanes = (0..params.lanes2).map(|lane| lane * params.l3_per_tn + x);
                    let has = count(lanes.map(|v| self.tree.l2_up(tn, block, v)));
                    self.bundle(lower, upper, has, params.lanes2);
                }
            }
        }
    }

    /// Tells whether a top midplane has level-3 switches that an earlier one has.
    fn is_repeated(&self, tn: u32) -> bool {
        let mut l3s = (0..self.tree.params.l3_per_tn).filter_map(|x| self.tree.l3_switch(tn, x));
        l3s.any(|l3| matches!(self.tree.place(l3), Place::L3 { tn: first, .. } if first < tn))
    }

    /// Records that two switches have fewer links than `of`.
    fn bundle(&mut self, lower: SwitchId, upper: SwitchId, has: u32, of: u32) {
        if has >= of {
            return;
        }
        let (lower, upper) = (self.graph.switch_label(lower), self.graph.switch_label(upper));
        self.found.push(if has == 0 {
            Irregularity::MissingLink { lower, upper }
        } else {
            Irregularity::FewerLinks { lower, upper, has, of }
        });
    }

    fn surplus(&mut self, levels: &Levels) {
        for (a, b) in &levels.strays {
            let (a, b) = (self.graph.port_label(*a), self.graph.port_label(*b));
            self.found.push(Irregularity::StrayLink { a, b });
        }
        self.links_without_position();
        for switch in self.graph.switches() {
            for port in self.graph.ports(switch) {
                let Peer::Switch(other) = self.graph.peer(port) else { continue };
                if port <= other && self.graph.switch_of(other) == switch {
                    let (a, b) = (self.graph.port_label(port), self.graph.port_label(other));
                    self.found.push(Irregularity::LoopbackCable { a, b });
                }
            }
        }
        for switch in self.graph.switches() {
            if self.tree.place(switch) == Place::Outside {
                let switch = self.graph.switch_label(switch);
                self.found.push(Irregularity::UnusedSwitch { switch });
            }
        }
    }

    /// Lists links between neighbouring levels that have no position in the tree.
    fn links_without_position(&mut self) {
        let mut used = FixedBitSet::with_capacity(self.graph.port_count());
        let ups = [&self.tree.leaf_up, &self.tree.l1_up, &self.tree.l2_up];
        used.extend(
            ups.into_iter().flatten().filter(|port| **port != NONE).map(|port| *port as usize),
        );
        let level = |switch| match self.tree.place(switch) {
            Place::Outside => None,
            Place::Leaf { .. } => Some(0u32),
            Place::L1 { .. } => Some(1),
            Place::L2 { .. } => Some(2),
            Place::L3 { .. } => Some(3),
        };
        for switch in self.graph.switches() {
            for (port, other) in super::levels::links(self.graph, switch) {
                let (Some(low), Some(high)) = (level(switch), level(other)) else { continue };
                if low + 1 == high && !used.contains(port.index()) {
                    let Peer::Switch(end) = self.graph.peer(port) else { continue };
                    let (a, b) = (self.graph.port_label(port), self.graph.port_label(end));
                    self.found.push(Irregularity::StrayLink { a, b });
                }
            }
        }
    }

    fn endpoints(&mut self) {
        for endpoint in self.graph.endpoints() {
            if self.tree.leaf_of_endpoint(endpoint).is_some() {
                continue;
            }
            let name = self.graph.endpoint_name(endpoint).to_owned();
            self.found.push(match self.graph.attachment(endpoint) {
                None => Irregularity::UnconnectedEndpoint { endpoint: name },
                Some(port) => Irregularity::EndpointAboveLeaves {
                    endpoint: name,
                    switch: self.graph.switch_label(self.graph.switch_of(port)),
                },
            });
        }
    }

    /// Returns the name of a leaf switch of a compute midplane.
    fn leaf_label(&self, cn: u32) -> String {
        let leaf = self.first_leaf[cn as usize].expect("a midplane has a leaf");
        self.graph.switch_label(leaf)
    }

    /// Returns the name of a switch that a top midplane should be linked to.
    fn below_group(&self, tn: u32) -> String {
        let params = self.tree.params;
        let g = tn / params.tns_per_group;
        (0..params.cns)
            .find_map(|cn| self.tree.l1_switch(cn, g))
            .map_or_else(String::new, |l1| format!(" (above {})", self.graph.switch_label(l1)))
    }
}

fn count<T>(items: impl Iterator<Item = Option<T>>) -> u32 {
    crate::ids::dense(items.flatten().count())
}
