//! Occupied colors by conflict domain, and the loads of the trees that have them.
//!
//! Invariants
//! - R1: of one color a domain belongs to one tree.
//! - `free` and `owners` say the same.

use fabricast_topology::{PortId, SwitchId, TableKind};

use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::loads::Loads;
use crate::mr4lms::tree_index::TreeIndex;

/// Colors in one word.
const WORD: u16 = 64;

/// Returns the first color of a word of a column.
pub(super) fn first_color(column: u16, colors: u64) -> Option<u16> {
    let bit = u16::try_from(colors.trailing_zeros()).expect("at most 64");
    (colors != 0).then_some(column * WORD + bit)
}

/// The fabric and what its trees occupy: what every search for a tree looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) occupancy: &'a Occupancy,
}

/// The use of colors and links.
#[derive(Clone, Debug)]
pub(super) struct Occupancy {
    colors: u16,
    /// By 64 colors, by domain: a bit for every free color. There is always one more column than
    /// colors in use need, up to the number of colors.
    free: Vec<Vec<u64>>,
    /// By domain: colors in use and their trees, rising.
    owners: Vec<Vec<(u16, TreeIndex)>>,
    /// By color: groups.
    groups: Vec<usize>,
    pub(super) loads: Loads,
}

impl Occupancy {
    pub(super) fn new(fabric: &Fabric, colors: u16) -> Self {
        let mut occupancy = Self {
            colors,
            free: Vec::new(),
            owners: vec![Vec::new(); fabric.domain_count()],
            groups: vec![0; usize::from(colors)],
            loads: Loads::new(&fabric.graph),
        };
        occupancy.add_column();
        occupancy
    }

    fn add_column(&mut self) {
        let first = self.free.len() * usize::from(WORD);
        let left = usize::from(self.colors).saturating_sub(first);
        if left > 0 {
            let all = if left >= usize::from(WORD) { u64::MAX } else { (1 << left) - 1 };
            self.free.push(vec![all; self.owners.len()]);
        }
    }

    /// Returns the free colors of all domains, 64 by 64. Colors beyond are free everywhere, and so
    /// is the last column then.
    pub(super) fn columns(&self) -> &[Vec<u64>] {
        &self.free
    }

    pub(super) fn is_free(&self, domain: usize, color: u16) -> bool {
        let column = self.free.get(usize::from(color / WORD));
        column.is_none_or(|free| free[domain] >> (color % WORD) & 1 == 1)
    }

    /// Returns the test whether a domain is free of a color.
    pub(super) fn free_of(&self, color: u16) -> impl Fn(usize) -> bool + use<'_> {
        let (column, bit) = (&self.free[usize::from(color / WORD)][..], 1 << (color % WORD));
        move |domain| column[domain] & bit != 0
    }

    /// Tells whether no color is free.
    pub(super) fn is_full(&self, domain: usize) -> bool {
        self.owners[domain].len() == usize::from(self.colors)
    }

    /// Returns the first color from which on all are free everywhere.
    pub(super) fn colors_in_use(&self) -> u16 {
        let last = self.groups.iter().rposition(|groups| *groups > 0);
        last.map_or(0, |last| u16::try_from(last + 1).expect("colors have 16 bits"))
    }

    /// Lists the colors in use in a domain and whose they are, rising.
    pub(super) fn owners(&self, domain: usize) -> &[(u16, TreeIndex)] {
        &self.owners[domain]
    }

    pub(super) fn owner(&self, domain: usize, color: u16) -> Option<TreeIndex> {
        let owners = &self.owners[domain];
        let at = owners.binary_search_by_key(&color, |(color, _)| *color).ok()?;
        Some(owners[at].1)
    }

    /// Returns the color with the fewest groups, of equal ones the first.
    pub(super) fn rarest_color(&self) -> u16 {
        let rarest = (0..self.colors).min_by_key(|color| self.groups[usize::from(*color)]);
        rarest.expect("there is a color")
    }

    /// Gives domains to a tree.
    pub(super) fn take(
        &mut self,
        domains: impl Iterator<Item = usize>,
        color: u16,
        tree: TreeIndex,
    ) {
        let (column, bit) = (usize::from(color / WORD), 1 << (color % WORD));
        while column >= self.free.len() {
            self.add_column();
        }
        for domain in domains {
            debug_assert!(self.is_free(domain, color), "R1");
            self.free[column][domain] &= !bit;
            let owners = &mut self.owners[domain];
            let at = owners.partition_point(|(other, _)| *other < color);
            owners.insert(at, (color, tree));
        }
        if column + 1 == self.free.len() {
            self.add_column();
        }
    }

    /// Gives a tree the ports of more members at switches it passes.
    pub(super) fn join(
        &mut self,
        fabric: &Fabric,
        member_ports: &[PortId],
        color: u16,
        tree: TreeIndex,
    ) {
        if fabric.tables == TableKind::PerPort {
            self.take(fabric.domains(member_ports), color, tree);
        }
    }

    /// Gives a tree the switches of more ports, rising, and returns those it did not have; with
    /// tables per switch.
    pub(super) fn take_more(
        &mut self,
        fabric: &Fabric,
        ports: &[PortId],
        color: u16,
        tree: TreeIndex,
    ) -> Vec<SwitchId> {
        let is_new = |switch: &SwitchId| self.is_free(switch.index(), color);
        let switches: Vec<SwitchId> = fabric.switches(ports).filter(is_new).collect();
        self.take(switches.iter().map(|switch| switch.index()), color, tree);
        switches
    }

    /// Takes domains away from a tree.
    pub(super) fn give_back(&mut self, domains: impl Iterator<Item = usize>, color: u16) {
        let (column, bit) = (usize::from(color / WORD), 1 << (color % WORD));
        for domain in domains {
            self.free[column][domain] |= bit;
            let owners = &mut self.owners[domain];
            let at = owners.binary_search_by_key(&color, |(color, _)| *color);
            owners.remove(at.expect("it was taken"));
        }
    }

    /// Counts groups that use a tree, given by its ports.
    pub(super) fn count_in(
        &mut self,
        fabric: &Fabric,
        ports: &[PortId],
        color: u16,
        groups: usize,
    ) {
        self.groups[usize::from(color)] += groups;
        self.loads.count_in(fabric, ports, groups);
    }

    /// Takes groups that used a tree out of the counts.
    pub(super) fn count_out(
        &mut self,
        fabric: &Fabric,
        ports: &[PortId],
        color: u16,
        groups: usize,
    ) {
        self.groups[usize::from(color)] -= groups;
        self.loads.count_out(fabric, ports, groups);
    }
}
