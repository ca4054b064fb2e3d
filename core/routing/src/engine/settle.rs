//! Brings the plan up to date with everything that was noted as touched.

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::weave::Strand;
use crate::plan::{Displacement, Moved, Part};

impl Engine {
    pub(super) fn settle(&mut self) {
        let mut moved = None;
        loop {
            let Self { fabric, registry, placement, rounds, trees, .. } = self;
            while let Some(round) = rounds.pop() {
                placement.settle_round(fabric, registry, round, |spt| trees.add(spt));
            }
            if !self.placement.needs_pass_2() {
                break;
            }
            self.index_members();
            let lists = self.memberships.as_ref().expect("built in the line above");
            let Self { fabric, registry, placement, trees, .. } = self;
            let outcome = placement.place_displaced(fabric, registry, lists, |spt| trees.add(spt));
            self.plan.unrouted = Arc::new(outcome.unrouted);
            let has_adopted = self.stays_after_healing && self.adopt(&outcome.moved);
            moved = Some(outcome.moved);
            if !has_adopted {
                break;
            }
        }
        self.note_moved(moved);
        while let Some(spt) = self.trees.pop() {
            self.mender.forget(spt);
            let mut parts = self.weave(spt).into_iter().map(Arc::new);
            self.plan.parts[spt as usize] = parts.next();
            if let Some(twin) = self.plan.twins.get_mut(spt as usize) {
                *twin = parts.next();
            }
        }
    }

    /// Makes the spanning trees homes to which groups went from dead links. False if there are none.
    fn adopt(&mut self, moved: &[Moved]) -> bool {
        let mut any = false;
        for moved in moved.iter().filter(|one| matches!(one.why, Displacement::TreeBroken { .. })) {
            let slot = self.registry.find(moved.mgid).expect("it was placed just now");
            let from = self.registry.home(moved.mgid);
            self.placement.settle_down(from, (moved.to, slot));
            self.registry.get_mut(slot).displaced = None;
            self.registry.adopt(slot, moved.to);
            self.rounds.add(self.placement.round(moved.to));
            any = true;
        }
        any
    }

    /// Lists the groups that are not on the spanning tree of their MGID: those that pass 2 has moved, if it was
    /// needed, and those that stayed.
    fn note_moved(&mut self, moved: Option<Vec<Moved>>) {
        let stayed = self.registry.adopted();
        let listed = self.plan.moved.iter().filter(|one| one.why == Displacement::Stayed);
        if moved.is_none() && listed.map(|one| (&one.mgid, &one.to)).eq(stayed) {
            return;
        }
        let mut moved = moved.unwrap_or_default();
        for (mgid, to) in stayed {
            let at_home = self.registry.find(*mgid).map(|slot| self.registry.get(slot));
            if at_home.is_some_and(|group| group.displaced.is_none()) {
                let from = self.layout.space().spt(*mgid);
                moved.push(Moved { mgid: *mgid, from, to: *to, why: Displacement::Stayed });
            }
        }
        moved.sort_unstable_by_key(|one| one.mgid);
        self.plan.moved = Arc::new(moved);
    }

    /// Weaves the trees of all groups on a spanning tree; those on its twin, too, with fault tolerance.
    fn weave(&mut self, spt: u32) -> Vec<Part> {
        let registry = &self.registry;
        let at_home = registry.at_home(spt);
        let tree = self.fabric.tree(spt);
        let mut strands: Vec<Strand<'_>> = Vec::with_capacity(at_home.len());
        for (_, slot) in at_home {
            let group = registry.get(*slot);
            if group.displaced.is_none() {
                strands.push(group.strand(tree));
            }
        }
        if let Some(guests) = self.placement.guests.get(&spt) {
            strands.extend(guests.iter().map(|slot| registry.get(*slot).strand(tree)));
            strands.sort_unstable_by_key(|strand| strand.mgid);
        }
        match self.fabric.trees(spt) {
            _ if strands.is_empty() => Vec::new(),
            [tree] => vec![self.loom.weave(&self.fabric, tree, &strands)],
            pair => self.loom.weave_pair(&self.fabric, pair, &strands),
        }
    }
}
