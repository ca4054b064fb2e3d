//! Detects a fat tree in a graph, without hints.
//!
//! Cost: linear in the ports, except for sorting the up-links of each switch.

use fixedbitset::FixedBitSet;

use super::levels::{Levels, count_endpoints, find_levels};
use super::midplanes::{Midplanes, find_midplanes};
use super::report::{NotFatTree, Reason, Reasons};
use super::{FatTree, FatTreeParams, Irregularity, NONE, Place};
use crate::graph::Graph;
use crate::ids::{PortId, SwitchId, dense};

impl FatTree {
    /// Finds the fat tree in a graph.
    ///
    /// Missing and surplus parts are listed as irregularities; only a graph without a level
    /// structure is refused. If some switches have markedly fewer endpoints than most, detection is
    /// also tried with these not as leaf switches, and the more regular result is taken.
    ///
    /// # Errors
    ///
    /// [`NotFatTree`] with the switches and links that contradict every interpretation.
    pub fn detect(graph: &Graph) -> Result<Self, NotFatTree> {
        let endpoints = count_endpoints(graph);
        let with_endpoints = |least: u32| -> FixedBitSet {
            endpoints.iter().map(|count| *count >= least).collect_bits()
        };
        let plain = read(graph, &endpoints, &with_endpoints(1));
        let mut counts: Vec<u32> = endpoints.iter().copied().filter(|count| *count > 0).collect();
        counts.sort_unstable();
        let few = counts.get(counts.len() / 2).map_or(0, |median| median.div_ceil(2));
        let is_clean = plain.as_ref().is_ok_and(|tree| tree.structural_irregularities() == 0);
        if is_clean || counts.first().is_none_or(|least| *least >= few) {
            return plain;
        }
        // One leaf under a switch with fewer endpoints is no tree, just two switches.
        let careful =
            read(graph, &endpoints, &with_endpoints(few)).ok().filter(|tree| tree.leaf_count() > 1);
        match (plain, careful) {
            (Ok(plain), Some(careful)) => {
                let better =
                    careful.structural_irregularities() < plain.structural_irregularities();
                Ok(if better { careful } else { plain })
            }
            (Err(_), Some(careful)) => Ok(careful),
            (plain, None) => plain,
        }
    }

    /// Returns the number of irregularities that depend on the interpretation.
    fn structural_irregularities(&self) -> usize {
        let counts = |irregularity: &&Irregularity| match irregularity {
            Irregularity::UnconnectedEndpoint { .. } | Irregularity::LoopbackCable { .. } => false,
            Irregularity::MissingLink { .. }
            | Irregularity::FewerLinks { .. }
            | Irregularity::MissingLeaves { .. }
            | Irregularity::MissingSwitch { .. }
            | Irregularity::EndpointAboveLeaves { .. }
            | Irregularity::LeafCutOff { .. }
            | Irregularity::StrayLink { .. }
            | Irregularity::UnusedSwitch { .. } => true,
        };
        self.irregularities.iter().filter(counts).count()
    }
}

trait CollectBits {
    fn collect_bits(self) -> FixedBitSet;
}

impl<I: ExactSizeIterator<Item = bool>> CollectBits for I {
    fn collect_bits(self) -> FixedBitSet {
        let mut bits = FixedBitSet::with_capacity(self.len());
        for (index, bit) in self.enumerate() {
            bits.set(index, bit);
        }
        bits
    }
}

/// Interprets the graph as a fat tree with `solid` as its leaf switches.
fn read(graph: &Graph, endpoints: &[u32], solid: &FixedBitSet) -> Result<FatTree, NotFatTree> {
    if solid.is_clear() {
        return Err(Reasons::only(Reason::NoEndpoints));
    }
    let levels = find_levels(graph, endpoints, solid)?;
    let midplanes = find_midplanes(graph, &levels)?;
    let reading = Reading::new(graph, &levels, midplanes);
    let params = reading.params(endpoints);
    reading.check_density(&params)?;
    let mut tree = reading.fill(params);
    tree.irregularities = super::irregular::list(graph, &levels, &tree);
    Ok(tree)
}

/// Positions of all switches, and the links between them.
struct Reading<'a> {
    graph: &'a Graph,
    midplanes: Midplanes,
    places: Vec<Place>,
    tns_per_group: u32,
}

/// The links upwards of one position of the tree.
struct UpLinks<'a> {
    /// Level of the position: 0 to 2.
    level: usize,
    /// Row of the position in the table of its level.
    row: u32,
    /// Position among the switches above, and port; sorted.
    links: &'a [(u32, PortId)],
}

impl<'a> Reading<'a> {
    fn new(graph: &'a Graph, levels: &Levels, midplanes: Midplanes) -> Self {
        let tns_per_group = dense(midplanes.groups.iter().map(Vec::len).max().unwrap_or(0));
        let places = midplanes.places(levels.level.len(), tns_per_group);
        Self { graph, midplanes, places, tns_per_group }
    }

    /// Returns the blocks of a top midplane.
    fn blocks(&self) -> u32 {
        dense(self.midplanes.groups.iter().flatten().map(|top| top.l2.len()).max().unwrap_or(0))
    }

    /// Walks all positions with links upwards, level by level. A switch that several top midplanes
    /// share has a position in each.
    ///
    /// Cost: O(links), and their number and that of the positions for sorting.
    fn each_position(&self, mut each: impl FnMut(UpLinks<'_>)) {
        let Self { graph, midplanes, .. } = self;
        let mut above = vec![NONE; self.places.len()]; // by switch: its position, where it has one
        let mut links = Vec::new();
        let mut read = |level, row, switch, above: &[u32]| {
            links.clear();
            links.extend(super::levels::links(graph, switch).filter_map(|(port, other)| {
                let position = above[other.index()];
                (position != NONE).then_some((position, port))
            }));
            links.sort_unstable();
            each(UpLinks { level, row, links: &links });
        };
        let mut leaves_of = vec![Vec::new(); midplanes.cns as usize];
        for ((leaf, switch), cn) in (0u32..).zip(&midplanes.leaves).zip(&midplanes.leaf_cn) {
            leaves_of[*cn as usize].push((leaf, *switch));
        }
        for (leaves, spines) in leaves_of.iter().zip(self.spines_by_cn()) {
            let here = (0u32..).zip(spines).filter(|(_, switch)| **switch != NONE);
            here.clone().for_each(|(g, switch)| above[*switch as usize] = g);
            leaves.iter().for_each(|(leaf, switch)| read(0, *leaf, *switch, &above));
            here.for_each(|(_, switch)| above[*switch as usize] = NONE);
        }
        let spines = midplanes.spines as usize;
        for (g, tops) in midplanes.groups.iter().enumerate() {
            for block in 0..midplanes.populated {
                let l2s = (0u32..).zip(tops);
                let l2s = l2s.filter_map(|(at, top)| Some((at, (*top.l2.get(block as usize)?)?)));
                l2s.clone().for_each(|(at, l2)| above[l2.index()] = at);
                for (cn, _) in midplanes.cn_block.iter().enumerate().filter(|(_, at)| **at == block)
                {
                    let l1 = midplanes.l1[cn * spines + g];
                    if l1 != NONE {
                        read(1, dense(cn * spines + g), SwitchId(l1), &above);
                    }
                }
                l2s.for_each(|(_, l2)| above[l2.index()] = NONE);
            }
        }
        let blocks = self.blocks();
        for (group, tops) in (0u32..).zip(&midplanes.groups) {
            for (tn, top) in (group * self.tns_per_group..).zip(tops) {
                (0u32..).zip(&top.l3).for_each(|(x, l3)| above[l3.index()] = x);
                for (block, l2) in (0u32..).zip(&top.l2).filter_map(|(at, l2)| Some((at, (*l2)?))) {
                    read(2, tn * blocks + block, l2, &above);
                }
                top.l3.iter().for_each(|l3| above[l3.index()] = NONE);
            }
        }
    }

    /// Returns the level-1 switches of each compute midplane, [`NONE`] where one is missing; none
    /// for one level.
    fn spines_by_cn(&self) -> impl Iterator<Item = &[u32]> {
        let spines = self.midplanes.spines as usize;
        (0..self.midplanes.cns as usize).map(move |cn| {
            self.midplanes.l1.get(cn * spines..(cn + 1) * spines).unwrap_or_default()
        })
    }

    fn params(&self, endpoints: &[u32]) -> FatTreeParams {
        let midplanes = &self.midplanes;
        let mut lanes = [0; 3];
        self.each_position(|UpLinks { level, links, .. }| {
            let most = links.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap_or(0);
            lanes[level] = lanes[level].max(dense(most));
        });
        let tops = || midplanes.groups.iter().flatten();
        let on_leaves = midplanes.leaves.iter().map(|leaf| endpoints[leaf.index()]);
        FatTreeParams {
            levels: midplanes.levels,
            cns: midplanes.cns,
            leaves_per_cn: most_of_one_value(&midplanes.leaf_cn, midplanes.cns),
            spines: midplanes.spines,
            lanes0: lanes[0],
            tns_per_group: self.tns_per_group,
            lanes1: lanes[1],
            tns: self.tns_per_group * midplanes.spines,
            blocks: self.blocks(),
            cns_per_block: most_of_one_value(&midplanes.cn_block, midplanes.populated),
            l3_per_tn: dense(tops().map(|top| top.l3.len()).max().unwrap_or(0)),
            lanes2: lanes[2],
            endpoints_per_leaf: on_leaves.max().unwrap_or(0),
        }
    }

    /// Refuses interpretations in which most links are missing, since their tables would not be
    /// linear in size.
    fn check_density(&self, params: &FatTreeParams) -> Result<(), NotFatTree> {
        let by = |rows: usize, width: u32| {
            u64::try_from(rows).expect("64 bits").saturating_mul(width.into())
        };
        let l1 = self.midplanes.l1.len();
        let l2 = params.tns as usize * params.blocks as usize;
        let positions = by(self.midplanes.leaves.len(), params.leaf_up_ports())
            .saturating_add(by(l1, params.l1_up_ports()))
            .saturating_add(by(l2, params.l2_up_ports()));
        let mut links = 0u64;
        self.each_position(|position| {
            links += u64::try_from(position.links.len()).expect("64 bits");
        });
        if positions > links.saturating_mul(4) {
            return Err(Reasons::only(Reason::TooSparse { links, positions }));
        }
        Ok(())
    }

    fn fill(self, params: FatTreeParams) -> FatTree {
        let table = |rows: usize, width: u32| vec![NONE; rows * width as usize];
        let (leaves, l1) = (self.midplanes.leaves.len(), self.midplanes.l1.len());
        let tns = params.tns as usize;
        let l2 = tns * params.blocks as usize;
        let mut tree = FatTree {
            params,
            endpoint_leaf: self.endpoint_leaves(),
            leaves: self.midplanes.leaves.iter().map(|leaf| leaf.0).collect(),
            leaf_up: table(leaves, params.leaf_up_ports()),
            l1_up: table(l1, params.l1_up_ports()),
            l2: table(tns, params.blocks),
            l2_up: table(l2, params.l2_up_ports()),
            l3: table(tns, params.l3_per_tn),
            places: Vec::new(),
            leaf_cn: Vec::new(),
            cn_block: Vec::new(),
            l1: Vec::new(),
            irregularities: Vec::new(),
        };
        self.each_position(|UpLinks { level, row, links }| {
            let (ups, width, above, lanes_first) = match level {
                0 => (&mut tree.leaf_up, params.leaf_up_ports(), params.lanes0, true),
                1 => (&mut tree.l1_up, params.l1_up_ports(), params.tns_per_group, false),
                _ => (&mut tree.l2_up, params.l2_up_ports(), params.l3_per_tn, false),
            };
            for bundle in links.chunk_by(|a, b| a.0 == b.0) {
                for (lane, (position, port)) in (0u32..).zip(bundle) {
                    let slot =
                        if lanes_first { position * above + lane } else { lane * above + position };
                    ups[(row * width + slot) as usize] = port.0;
                }
            }
        });
        for (group, tops) in (0u32..).zip(&self.midplanes.groups) {
            for (tn, top) in (group * self.tns_per_group..).zip(tops) {
                for (block, l2) in (0u32..).zip(&top.l2).filter_map(|(at, l2)| Some((at, (*l2)?))) {
                    tree.l2[(tn * params.blocks + block) as usize] = l2.0;
                }
                for (x, l3) in (0u32..).zip(&top.l3) {
                    tree.l3[(tn * params.l3_per_tn + x) as usize] = l3.0;
                }
            }
        }
        tree.places = self.places;
        tree.leaf_cn = self.midplanes.leaf_cn;
        tree.cn_block = self.midplanes.cn_block;
        tree.l1 = self.midplanes.l1;
        tree
    }

    fn endpoint_leaves(&self) -> Vec<u32> {
        let leaf_of = |endpoint| {
            let switch = self.graph.switch_of(self.graph.attachment(endpoint)?);
            match self.places[switch.index()] {
                Place::Leaf { leaf } => Some(leaf),
                Place::Outside | Place::L1 { .. } | Place::L2 { .. } | Place::L3 { .. } => None,
            }
        };
        self.graph.endpoints().map(|endpoint| leaf_of(endpoint).unwrap_or(NONE)).collect()
    }
}

/// Counts how often the most frequent of the values `0..values` occurs.
fn most_of_one_value(items: &[u32], values: u32) -> u32 {
    let mut counts = vec![0; values as usize];
    for item in items {
        counts[*item as usize] += 1;
    }
    counts.into_iter().max().unwrap_or(0)
}
