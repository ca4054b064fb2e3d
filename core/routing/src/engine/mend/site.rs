//! The spanning tree on which a group is changing, with the group as it is at the moment.

use fabricast_topology::{Place, PortId, SwitchId};

use super::span::{LINKS, Span, place};
use crate::engine::fabric::Fabric;
use crate::engine::registry::Registry;
use crate::mgid::Mgid;
use crate::plan::{Loose, Ports};
use crate::spt::SpanningTree;

/// What a change sees of the engine.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) registry: &'a Registry,
    pub(super) tree: &'a SpanningTree,
    /// Slot of the group that is changing, and its members between two steps of the change.
    pub(super) own: (u32, &'a [u32]),
}

impl<'a> Site<'a> {
    pub(super) fn span(self, slot: u32) -> Span<'a> {
        let own = (self.own.0 == slot).then_some(self.own.1);
        Span::of(self.fabric, own.unwrap_or_else(|| &self.registry.get(slot).members))
    }

    /// Gives the topmost switch of a group's tree, if there is a tree.
    pub(super) fn top(self, span: Span<'_>) -> Option<SwitchId> {
        let level = span.height.checked_sub(1)?;
        let at = place(self.fabric, level, *span.seats.first()?);
        self.fabric.switch(self.tree, level, at)
    }

    /// Gives the height of the trees that hang from a switch.
    pub(super) fn height(self, root: Option<SwitchId>) -> usize {
        match root.map(|switch| self.fabric.fat_tree.place(switch)) {
            None | Some(Place::Outside) => 0,
            Some(Place::Leaf { .. }) => 1,
            Some(Place::L1 { .. }) => 2,
            Some(Place::L2 { .. }) => 3,
            Some(Place::L3 { .. }) => 4,
        }
    }

    /// Gives the topmost switch of groups that hang together, of which none is higher than `most`.
    pub(super) fn root(self, groups: &[Mgid], most: usize) -> Option<SwitchId> {
        let mut highest = Span { seats: &[], height: 0 };
        for slot in groups.iter().filter_map(|mgid| self.registry.find(*mgid)) {
            let span = self.span(slot);
            if span.height > highest.height {
                highest = span;
            }
            if highest.height >= most {
                break;
            }
        }
        self.top(highest)
    }

    /// Gives both ends of the link above a leaf, CN or block.
    pub(super) fn ends(self, level: usize, at: u32) -> [PortId; 2] {
        let row = self.fabric.rows(self.tree)[level];
        let (lower, upper) = self.fabric.tiers[level].row(row)[at as usize];
        [PortId(lower), PortId(upper)]
    }

    pub(super) fn seat_port(self, seat: u32) -> PortId {
        PortId(self.fabric.seat_port[seat as usize])
    }

    /// Puts groups together that share a tree with each other and nobody else.
    pub(super) fn assemble(self, slots: &[u32]) -> Loose {
        let mut groups: Vec<_> = slots.iter().map(|slot| self.registry.get(*slot).mgid).collect();
        groups.sort_unstable();
        let mut ports = Vec::new();
        for span in slots.iter().map(|slot| self.span(*slot)).filter(|span| span.has_tree()) {
            ports.extend(span.seats.iter().map(|seat| self.seat_port(*seat)));
            for level in (0..LINKS).filter(|level| span.height > level + 1) {
                let ends = || span.places(self.fabric, level).map(|at| self.ends(level, at));
                ports.extend(ends().map(|[lower, _]| lower));
                ports.extend(ends().map(|[_, upper]| upper));
            }
        }
        ports.sort(); // mostly a few rising lists
        ports.dedup();
        Loose { root: self.root(&groups, LINKS + 1), groups, ports: Ports::new(ports) }
    }
}
