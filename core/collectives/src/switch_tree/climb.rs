//! Finds roots and physical trees: §4.1.
//!
//! Level by level, from the members' leaf switches upwards, every switch learns which of them are
//! below it. The first level with a switch above all of them has the roots of least hop count. From
//! a root downwards the path to every leaf switch is unique except for parallel links, of which the
//! least loaded is taken.

use fabricast_topology::{EndpointId, PortId, SwitchId};

use super::{PhysicalSwitch, PhysicalTree, UpLink};
use crate::fabric::Fabric;

/// Marks an absent switch in a column.
const NONE: u32 = u32::MAX;

/// The switches above a set of leaf switches. Reusing it between searches saves allocations.
#[derive(Clone, Debug)]
pub struct Climber {
    /// By switch: its place in `found`.
    places: Vec<u32>,
    /// Switches above at least one leaf switch, level by level.
    found: Vec<SwitchId>,
    /// By level: its first place in `found`.
    level_starts: Vec<usize>,
    /// By place: bits of the leaf switches below.
    below: Vec<u64>,
    /// Words for each place.
    words: usize,
    /// By member: the index of its leaf switch, which is also its bit.
    members: Vec<u32>,
    /// By index: the upward link in the tree under construction.
    ways: Vec<Option<(u32, PortId)>>,
}

/// A member that no live link connects to a leaf switch of the fat tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutOff {
    /// Its place among the members.
    pub member: usize,
}

impl Climber {
    /// Creates a climber for a fabric.
    #[must_use]
    pub fn new(fabric: &Fabric) -> Self {
        Self {
            places: vec![NONE; fabric.graph().switch_count()],
            found: Vec::new(),
            level_starts: Vec::new(),
            below: Vec::new(),
            words: 0,
            members: Vec::new(),
            ways: Vec::new(),
        }
    }

    /// Starts at the leaf switches of members; several may be of one endpoint.
    ///
    /// # Errors
    ///
    /// [`CutOff`] with the first member without a leaf switch.
    pub fn start(&mut self, fabric: &Fabric, members: &[EndpointId]) -> Result<(), CutOff> {
        for switch in self.found.drain(..) {
            self.places[switch.index()] = NONE;
        }
        self.members.clear();
        self.below.clear();
        self.level_starts.clear();
        self.level_starts.push(0);
        for (member, endpoint) in members.iter().enumerate() {
            let leaf = fabric.leaf_of(*endpoint).ok_or(CutOff { member })?;
            let place = self.place(leaf);
            self.members.push(place);
        }
        self.words = self.found.len().div_ceil(64);
        self.below.resize(self.found.len() * self.words, 0);
        for leaf in 0..self.found.len() {
            self.below[leaf * self.words + leaf / 64] = 1 << (leaf % 64);
        }
        Ok(())
    }

    /// Returns the index of a switch, adding it if it is new.
    fn place(&mut self, switch: SwitchId) -> u32 {
        let place = &mut self.places[switch.index()];
        if *place == NONE {
            *place = u32::try_from(self.found.len()).expect("switches have 32-bit numbers");
            self.found.push(switch);
        }
        *place
    }

    /// Returns the switches found so far: the leaf switches, and level by level those above one of
    /// them.
    #[must_use]
    pub fn found(&self) -> &[SwitchId] {
        &self.found
    }

    /// Returns the switches of the highest level reached that are above all members, in no order.
    #[must_use]
    pub fn roots(&self) -> Vec<SwitchId> {
        let start = self.level_starts.last().copied().unwrap_or(0);
        let leaves = self.level_starts.get(1).copied().unwrap_or(self.found.len());
        let above_all = |place: &usize| {
            let bits = &self.below[place * self.words..(place + 1) * self.words];
            bits.iter().map(|word| word.count_ones() as usize).sum::<usize>() == leaves
        };
        (start..self.found.len()).filter(above_all).map(|place| self.found[place]).collect()
    }

    /// Climbs one level; returns false if there is no switch above.
    ///
    /// Cost: O(links upwards * leaf switches / 64).
    pub fn climb(&mut self, fabric: &Fabric) -> bool {
        let start = self.level_starts.last().copied().unwrap_or(0);
        let end = self.found.len();
        for lower in start..end {
            for (_, switch) in fabric.up(self.found[lower]) {
                let upper = self.place(switch) as usize;
                let words = self.words;
                if self.below.len() < (upper + 1) * words {
                    self.below.resize((upper + 1) * words, 0);
                }
                // Upper places come after all lower ones.
                let (lowers, uppers) = self.below.split_at_mut(end * words);
                let from = &lowers[lower * words..(lower + 1) * words];
                let to = &mut uppers[(upper - end) * words..(upper - end + 1) * words];
                to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
            }
        }
        self.level_starts.push(end);
        self.found.len() > end
    }

    /// Builds the physical tree of a root from [`Climber::roots`]; `load` gives the load of the
    /// link at a lower switch's port.
    ///
    /// Cost: O(ports of the tree's switches).
    pub fn descend(
        &mut self,
        fabric: &Fabric,
        root: SwitchId,
        load: impl Fn(PortId) -> u32,
    ) -> PhysicalTree {
        self.ways.clear();
        self.ways.resize(self.found.len(), None);
        let mut order = vec![self.places[root.index()]];
        let mut next = 0;
        while let Some(&upper) = order.get(next) {
            next += 1;
            for (port, switch) in fabric.down(self.found[upper as usize]) {
                let place = self.places[switch.index()];
                if place == NONE {
                    continue;
                }
                match &mut self.ways[place as usize] {
                    Some((parent, taken)) => {
                        if *parent == upper && load(port) < load(*taken) {
                            *taken = port;
                        }
                    }
                    way @ None => {
                        *way = Some((upper, port));
                        order.push(place);
                    }
                }
            }
        }
        self.prune(&order)
    }

    /// Returns the part of the tree that leads to members.
    fn prune(&self, order: &[u32]) -> PhysicalTree {
        let mut places = vec![NONE; self.found.len()];
        for leaf in 0..self.level_starts.get(1).copied().unwrap_or(self.found.len()) {
            let mut at = leaf;
            // Any number but NONE marks; the real ones follow.
            while std::mem::replace(&mut places[at], 0) == NONE {
                let Some((parent, _)) = self.ways[at] else { break };
                at = parent as usize;
            }
        }
        let mut switches = Vec::new();
        for place in order.iter().map(|place| *place as usize) {
            if places[place] == NONE {
                continue;
            }
            places[place] = u32::try_from(switches.len()).expect("switches have 32-bit numbers");
            let up = self.ways[place]
                .map(|(parent, port)| UpLink { parent: places[parent as usize], port });
            switches.push(PhysicalSwitch { switch: self.found[place], up });
        }
        let members = self.members.iter().map(|leaf| places[*leaf as usize]).collect();
        PhysicalTree { switches, members }
    }
}
