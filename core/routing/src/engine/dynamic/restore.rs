//! Writes down what was chosen, and makes the same choices again.

use std::collections::BTreeSet;

use crate::engine::dynamic::families::{Candidate, Ground};
use crate::engine::dynamic::search::Manners;
use crate::engine::dynamic::{DynamicEngine, Homeless};
use crate::engine::fabric::NONE;
use crate::engines::{RecordedChoice, RestoreError, RestoreProblem};
use crate::mgid::Mgid;

impl DynamicEngine {
    /// Lists spanning tree and root of every group that has a tree, by MGID.
    pub(super) fn recorded(&self) -> Vec<RecordedChoice> {
        let mut choices: Vec<RecordedChoice> = self
            .registry
            .iter()
            .filter_map(|(slot, group)| {
                let family = self.families.of(slot)?;
                let (part, root) = (family.spt, family.root);
                Some(RecordedChoice { mgid: group.mgid, tree: 0, part, root, ports: Vec::new() })
            })
            .collect();
        choices.sort_unstable_by_key(|choice| choice.mgid);
        choices
    }

    /// Gives an engine of the same groups and faults that has made these choices. Groups that none is
    /// about come last, in the order of their MGIDs.
    pub(super) fn restored(&self, choices: &[RecordedChoice]) -> Result<Self, RestoreError> {
        let mut next = self.clone();
        let mut waiting: BTreeSet<(Mgid, u32)> =
            self.registry.iter().map(|(slot, group)| (group.mgid, slot)).collect();
        next.take_out(&waiting.iter().map(|(_, slot)| *slot).collect::<Vec<_>>());
        for (index, choice) in choices.iter().enumerate() {
            let mgid = choice.mgid;
            let refused = |problem| RestoreError { index, mgid, problem };
            let slot = self.registry.find(mgid).ok_or(refused(RestoreProblem::UnknownGroup))?;
            if !waiting.remove(&(mgid, slot)) {
                return Err(refused(RestoreProblem::Twice));
            }
            next.choose(slot, choice).map_err(refused)?;
        }
        let homeless = waiting.into_iter();
        let homeless = homeless.map(|(mgid, slot)| Homeless { mgid, slot, before: (NONE, NONE) });
        next.place_all(homeless.collect(), Manners::Gentle);
        next.settle();
        Ok(next)
    }

    fn choose(&mut self, slot: u32, choice: &RecordedChoice) -> Result<(), RestoreProblem> {
        let RecordedChoice { tree, part, root, ports, .. } = choice;
        let known = *part < self.layout.space().total() && *root < self.families.roots.count();
        if *tree != 0 || !known || !ports.is_empty() {
            return Err(RestoreProblem::UnknownTree);
        }
        let ground = Ground { fabric: &self.fabric, registry: &self.registry };
        let candidate = self.families.candidate(ground, slot);
        let candidate = candidate.ok_or(RestoreProblem::FewerThanTwoMembers)?;
        self.check(&candidate, *part, *root)?;
        self.families.attach(&self.fabric, candidate, *part, *root);
        self.put(slot, *part);
        Ok(())
    }

    /// Checks that a group has the links it needs and meets nobody with another root.
    fn check(&mut self, one: &Candidate, spt: u32, root: u32) -> Result<(), RestoreProblem> {
        let families = &mut self.families;
        let tree = families.roots.tree(self.fabric.tree(spt), root);
        if let Some(link) = self.fabric.broken_link(&tree, families.footprint.places()) {
            return Err(RestoreProblem::TreeBroken { link });
        }
        let free = families.gather(spt, root, &one.places)
            && !families.gathered.iter().any(|family| families.moves(families.get(*family), root));
        if free { Ok(()) } else { Err(RestoreProblem::Conflict) }
    }
}
