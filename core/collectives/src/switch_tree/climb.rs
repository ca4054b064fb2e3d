//! Finds roots and physical trees: §4.1.
//!
//! Level by level, from the members' leaf switches upwards, every switch learns which of them are
//! below it. The first level with a switch above all of them has the roots of least hop count. From
//! a root downwards the path to every leaf switch is unique, except for parallel links, of which
//! the least loaded is taken, and for directors to which several level-1 switches lead.
//!
//! A fabric that is no fat tree is climbed in circles around the members' switches instead, one hop
//! wider each time: "below" a switch are those that it is that near to.

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
    /// Leaf switches of the members, which are found first.
    leaves: usize,
    /// Without levels: the switches that were roots before the last climb, by place.
    was_root: Vec<bool>,
    /// True if the fabric has levels.
    has_levels: bool,
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
            leaves: 0,
            was_root: Vec::new(),
            has_levels: fabric.fat_tree().is_some(),
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
        self.was_root.clear();
        self.has_levels = fabric.fat_tree().is_some();
        self.level_starts.clear();
        self.level_starts.push(0);
        for (member, endpoint) in members.iter().enumerate() {
            let leaf = fabric.leaf_of(*endpoint).ok_or(CutOff { member })?;
            let place = self.place(leaf);
            self.members.push(place);
        }
        self.leaves = self.found.len();
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

    /// Returns the switches of the highest level reached that are above all members, in no order;
    /// without levels, those that are new since the last climb.
    #[must_use]
    pub fn roots(&self) -> Vec<SwitchId> {
        let start = if self.has_levels { self.last_start() } else { 0 };
        let is_new = |place: &usize| !self.was_root.get(*place).is_some_and(|was| *was);
        let places = (start..self.found.len()).filter(is_new);
        places.filter(|place| self.is_above_all(*place)).map(|place| self.found[place]).collect()
    }

    fn last_start(&self) -> usize {
        self.level_starts.last().copied().unwrap_or(0)
    }

    fn is_above_all(&self, place: usize) -> bool {
        let bits = &self.below[place * self.words..(place + 1) * self.words];
        bits.iter().map(|word| word.count_ones() as usize).sum::<usize>() == self.leaves
    }

    /// Climbs on: one level up, or without levels one hop farther from the members; returns false
    /// if nothing is found there.
    ///
    /// Cost: O(links upwards * leaf switches / 64).
    pub fn climb(&mut self, fabric: &Fabric) -> bool {
        if self.has_levels { self.climb_level(fabric) } else { self.widen(fabric) }
    }

    fn widen(&mut self, fabric: &Fabric) -> bool {
        let (end, words) = (self.found.len(), self.words);
        self.was_root = (0..end).map(|place| self.is_above_all(place)).collect();
        let before = self.below.clone();
        for lower in 0..end {
            for (_, switch) in fabric.up(self.found[lower]) {
                let upper = self.place(switch) as usize;
                self.below.resize(self.found.len() * words, 0);
                let to = &mut self.below[upper * words..(upper + 1) * words];
                let from = &before[lower * words..(lower + 1) * words];
                to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
            }
        }
        self.below != before
    }

    fn climb_level(&mut self, fabric: &Fabric) -> bool {
        let start = self.last_start();
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
    /// link at a lower switch's port. Of several shortest ways down a switch takes the one that
    /// begins at the root with the least load.
    ///
    /// Cost: O(ports of the tree's switches), and sorting those.
    pub fn descend(
        &mut self,
        fabric: &Fabric,
        root: SwitchId,
        load: impl Fn(PortId) -> u32,
    ) -> PhysicalTree {
        self.ways.clear();
        self.ways.resize(self.found.len(), None);
        let root = self.places[root.index()];
        let mut order = vec![root];
        let mut next = 0;
        while let Some(&upper) = order.get(next) {
            next += 1;
            let first = order.len();
            for (port, switch) in fabric.down(self.found[upper as usize]) {
                let place = self.places[switch.index()];
                if place == NONE || place == root {
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
            let load = |place: &u32| self.ways[*place as usize].map(|(_, port)| load(port));
            order[first..].sort_by_key(load);
        }
        self.prune(&order)
    }

    /// Returns the part of the tree that leads to members.
    fn prune(&self, order: &[u32]) -> PhysicalTree {
        let mut places = vec![NONE; self.found.len()];
        for leaf in 0..self.leaves {
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
