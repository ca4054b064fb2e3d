//! The nodes of a fabric by leaf, midplane and block, and the highest class whose links each leaf
//! reaches.

use std::collections::BTreeSet;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Peer, PortId};

use crate::job::JobClass;

/// Marks no value in a packed column.
const NONE: u32 = u32::MAX;

/// The nodes of a fabric by the unit that holds them. Nodes have dense numbers, chosen by the
/// caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTopology {
    levels: usize,
    node_leaf: Vec<u32>,            // by node; NONE if on no leaf or on several
    left_out: Vec<Option<LeftOut>>, // by node
    leaf_cn: Vec<u32>,
    rises: Vec<u8>,            // by leaf: the highest class whose links are live
    leaf_nodes: Vec<Vec<u32>>, // by leaf: live nodes, ascending
    cn_block: Vec<u32>,
    cn_leaves: Vec<Vec<u32>>,
    block_cns: Vec<Vec<u32>>,
    largest: [u32; 4], // by class: nodes of the largest job on an empty fabric
}

/// Reason why a node is not available to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The node, its link or its leaf switch is down.
    Down,
    /// The node is not connected to a leaf switch.
    NotOnLeaf,
    /// The endpoints of the node are on several leaf switches, so that no unit holds it alone.
    SeveralLeaves,
    /// An administrator has drained the node.
    Drained,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Down => "it, its link or its leaf switch is down",
            Self::NotOnLeaf => "it is not connected to a leaf switch",
            Self::SeveralLeaves => "its endpoints are on several leaf switches",
            Self::Drained => "it is drained",
        })
    }
}

/// Midplane and highest live class of a leaf switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafPosition {
    pub(crate) cn: u32,
    pub(crate) rises: u8,
}

impl JobTopology {
    /// Finds the positions of nodes in a fabric. Cost: the ports of the leaves and the nodes.
    ///
    /// - `nodes`: the endpoints of each node, unconnected ones included. A node is down if a
    ///   connected endpoint is.
    #[must_use]
    pub fn new(
        graph: &Graph,
        fat_tree: &FatTree,
        faults: &Faults,
        nodes: &[Vec<EndpointId>],
    ) -> Self {
        let leaves: Vec<LeafPosition> = (0u32..)
            .take(fat_tree.leaf_count())
            .map(|leaf| LeafPosition {
                cn: fat_tree.cn_of_leaf(leaf),
                rises: rises(graph, fat_tree, faults, leaf),
            })
            .collect();
        let cns = leaves.iter().map(|leaf| leaf.cn + 1).max().unwrap_or(0);
        let blocks: Vec<u32> = (0..cns).map(|cn| fat_tree.block_of_cn(cn)).collect();
        let places: Vec<_> =
            nodes.iter().map(|endpoints| place(graph, fat_tree, faults, endpoints)).collect();
        let levels = fat_tree.params().levels.clamp(1, 4) as usize;
        Self::assemble(levels, &leaves, blocks, &places)
    }

    /// Leaves nodes out that are drained.
    #[must_use]
    pub fn without(mut self, drained: impl IntoIterator<Item = u32>) -> Self {
        for node in drained {
            let left_out = &mut self.left_out[node as usize];
            if left_out.is_none() {
                *left_out = Some(LeftOut::Drained);
                let leaf = self.node_leaf[node as usize];
                self.leaf_nodes[leaf as usize].retain(|other| *other != node);
            }
        }
        self.largest = self.largest_by_class();
        self
    }

    /// Builds a topology; `places` holds the leaf of each node and the reason why it is not
    /// available.
    pub(crate) fn assemble(
        levels: usize,
        leaves: &[LeafPosition],
        cn_block: Vec<u32>,
        places: &[(Option<u32>, Option<LeftOut>)],
    ) -> Self {
        let mut leaf_nodes = vec![Vec::new(); leaves.len()];
        for (node, (leaf, left_out)) in (0u32..).zip(places) {
            if let (Some(leaf), None) = (leaf, left_out) {
                leaf_nodes[*leaf as usize].push(node);
            }
        }
        let mut topology = Self {
            levels,
            node_leaf: places.iter().map(|(leaf, _)| leaf.unwrap_or(NONE)).collect(),
            left_out: places.iter().map(|(_, why)| *why).collect(),
            leaf_cn: leaves.iter().map(|leaf| leaf.cn).collect(),
            rises: leaves.iter().map(|leaf| leaf.rises).collect(),
            leaf_nodes,
            cn_leaves: children(leaves.iter().map(|leaf| leaf.cn)),
            block_cns: children(cn_block.iter().copied()),
            cn_block,
            largest: [0; 4],
        };
        topology.largest = topology.largest_by_class();
        topology
    }

    fn largest_by_class(&self) -> [u32; 4] {
        let mut largest = [0; 4];
        let mut before = 0;
        for class in self.classes() {
            let mut rooms = vec![0u32; self.units(class.level())];
            for (leaf, nodes) in (0u32..).zip(&self.leaf_nodes) {
                if usize::from(self.rises[leaf as usize]) >= class.level() {
                    rooms[self.unit_above(leaf, class.level()) as usize] += count(nodes.len());
                }
            }
            before = rooms.into_iter().max().unwrap_or(0).max(before);
            largest[class.level()] = before;
        }
        largest
    }

    /// Iterates over the classes that the fabric has, ascending.
    pub fn classes(&self) -> impl DoubleEndedIterator<Item = JobClass> + use<> {
        JobClass::ALL.into_iter().take(self.levels)
    }

    /// Returns the number of nodes, unavailable ones included.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.node_leaf.len()
    }

    /// Returns the leaf of a node; `None` if the node is on no leaf or on several.
    #[must_use]
    pub fn leaf_of(&self, node: u32) -> Option<u32> {
        self.node_leaf.get(node as usize).copied().filter(|leaf| *leaf != NONE)
    }

    /// Returns the reason why a node is not available; `None` if it is.
    #[must_use]
    pub fn left_out(&self, node: u32) -> Option<LeftOut> {
        self.left_out.get(node as usize).copied().flatten()
    }

    /// Returns the size of the largest job of a class on an empty fabric, in nodes; 0 if there is
    /// no such class.
    #[must_use]
    pub const fn largest(&self, class: JobClass) -> u32 {
        self.largest[class.level()]
    }

    /// Returns the class that a job of `size` nodes has by its size; `None` if the fabric is too
    /// small.
    #[must_use]
    pub fn class_of_size(&self, size: u32) -> Option<JobClass> {
        self.classes().find(|class| size <= self.largest(*class))
    }

    /// Returns the class of a job with these nodes: that of the smallest unit that holds them all.
    #[must_use]
    pub fn class_of(&self, nodes: &[u32]) -> JobClass {
        let within = |class: &JobClass| self.units_of(class.level(), nodes).len() <= 1;
        self.classes().find(within).unwrap_or(JobClass::T3)
    }

    /// Returns the level and number of the smallest unit that holds all these nodes; `None` if they
    /// are on no leaf.
    #[must_use]
    pub fn place_of(&self, nodes: &[u32]) -> Option<(usize, u32)> {
        let level = self.class_of(nodes).level();
        self.units_of(level, nodes).first().map(|unit| (level, *unit))
    }

    /// Returns the name of a unit for messages.
    #[must_use]
    pub fn unit_name(level: usize, unit: u32) -> String {
        match level {
            0 => format!("leaf switch {unit}"),
            1 => format!("midplane {unit}"),
            2 => format!("block {unit}"),
            _ => "the fabric".to_owned(),
        }
    }

    pub(crate) fn is_live(&self, node: u32) -> bool {
        self.left_out[node as usize].is_none()
    }

    pub(crate) fn live_by_leaf(&self) -> Vec<u32> {
        self.leaf_nodes.iter().map(|nodes| count(nodes.len())).collect()
    }

    pub(crate) fn nodes_on(&self, leaf: u32) -> &[u32] {
        &self.leaf_nodes[leaf as usize]
    }

    pub(crate) fn leaf_count(&self) -> u32 {
        count(self.leaf_cn.len())
    }

    /// Returns whether jobs of a class can use a leaf's links.
    pub(crate) fn rises_to(&self, leaf: u32, class: JobClass) -> bool {
        usize::from(self.rises[leaf as usize]) >= class.level()
    }

    pub(crate) fn units(&self, level: usize) -> usize {
        match level {
            0 => self.leaf_cn.len(),
            1 => self.cn_leaves.len(),
            2 => self.block_cns.len(),
            _ => 1,
        }
    }

    /// Returns the unit of a level that a leaf is in.
    pub(crate) fn unit_above(&self, leaf: u32, level: usize) -> u32 {
        match level {
            0 => leaf,
            1 => self.leaf_cn[leaf as usize],
            2 => self.cn_block[self.leaf_cn[leaf as usize] as usize],
            _ => 0,
        }
    }

    /// Returns the unit of the next level that a unit is in.
    pub(crate) fn parent(&self, level: usize, unit: u32) -> u32 {
        match level {
            0 => self.leaf_cn[unit as usize],
            1 => self.cn_block[unit as usize],
            _ => 0,
        }
    }

    /// Returns the units of the level below that are in a unit of level 1 or above.
    pub(crate) fn children(&self, level: usize, unit: u32) -> Vec<u32> {
        match level {
            1 => self.cn_leaves[unit as usize].clone(),
            2 => self.block_cns[unit as usize].clone(),
            _ => (0..count(self.block_cns.len())).collect(),
        }
    }

    /// Returns the units of a level that nodes are in, rising, each once.
    pub(crate) fn units_of(&self, level: usize, nodes: &[u32]) -> BTreeSet<u32> {
        let leaves = nodes.iter().filter_map(|node| self.leaf_of(*node));
        leaves.map(|leaf| self.unit_above(leaf, level)).collect()
    }
}

/// Returns the children of each unit, given the unit of each child.
fn children(units: impl Iterator<Item = u32>) -> Vec<Vec<u32>> {
    let mut lists: Vec<Vec<u32>> = Vec::new();
    for (child, unit) in (0u32..).zip(units) {
        if unit as usize >= lists.len() {
            lists.resize(unit as usize + 1, Vec::new());
        }
        lists[unit as usize].push(child);
    }
    lists
}

/// Returns the leaf of a node, and the reason if the node is not available.
fn place(
    graph: &Graph,
    fat_tree: &FatTree,
    faults: &Faults,
    endpoints: &[EndpointId],
) -> (Option<u32>, Option<LeftOut>) {
    let plugged: Vec<(EndpointId, PortId)> = endpoints
        .iter()
        .filter_map(|endpoint| Some((*endpoint, graph.attachment(*endpoint)?)))
        .collect();
    let leaves: BTreeSet<Option<u32>> =
        plugged.iter().map(|(endpoint, _)| fat_tree.leaf_of_endpoint(*endpoint)).collect();
    let mut leaves = leaves.into_iter();
    match (leaves.next(), leaves.next()) {
        (Some(Some(leaf)), None) => {
            let up = plugged.iter().all(|(_, port)| faults.port_is_live(graph, *port));
            (Some(leaf), (!up).then_some(LeftOut::Down))
        }
        (Some(Some(_)), Some(_)) => (None, Some(LeftOut::SeveralLeaves)),
        (None | Some(None), _) => (None, Some(LeftOut::NotOnLeaf)),
    }
}

/// Returns the highest class whose links a leaf reaches over live links.
fn rises(graph: &Graph, fat_tree: &FatTree, faults: &Faults, leaf: u32) -> u8 {
    let params = fat_tree.params();
    let is_live = |port: Option<PortId>| {
        port.is_some_and(|port| {
            matches!(graph.peer(port), Peer::Switch(_)) && faults.port_is_live(graph, port)
        })
    };
    let cn = fat_tree.cn_of_leaf(leaf);
    let block = fat_tree.block_of_cn(cn);
    let mut highest = 0;
    for slot in (0..params.leaf_up_ports()).filter(|slot| is_live(fat_tree.leaf_up(leaf, *slot))) {
        highest = highest.max(1);
        let g = slot / params.lanes0.max(1);
        for u in (0..params.l1_up_ports()).filter(|u| is_live(fat_tree.l1_up(cn, g, *u))) {
            highest = highest.max(2);
            let tn = g * params.tns_per_group + u % params.tns_per_group.max(1);
            if (0..params.l2_up_ports()).any(|v| is_live(fat_tree.l2_up(tn, block, v))) {
                return 3;
            }
        }
    }
    highest
}

pub(crate) fn count(len: usize) -> u32 {
    u32::try_from(len).expect("a fabric has fewer than 2^32 nodes")
}
