//! Takes groups back to where they stayed after a failure.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::engines::{EngineKind, RecordedChoice, RestoreError, RestoreProblem};
use crate::mgid::Mgid;

impl Engine {
    /// Gives groups the homes of a record, and all others those of their MGIDs.
    pub(super) fn restore(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        let mut homes: BTreeMap<Mgid, u32> = BTreeMap::new();
        for (index, choice) in choices.iter().enumerate() {
            self.check(choice, &homes).map_err(|problem| RestoreError {
                index,
                mgid: choice.mgid,
                problem,
            })?;
            homes.insert(choice.mgid, choice.part);
        }
        let space = *self.layout.space();
        let back = self.registry.adopted().keys().filter(|mgid| !homes.contains_key(mgid));
        let back: Vec<(Mgid, u32)> = back.map(|mgid| (*mgid, space.spt(*mgid))).collect();
        for (mgid, home) in back.into_iter().chain(homes) {
            let slot = self.registry.find(mgid).expect("checked above");
            let before = self.registry.home(mgid);
            self.rounds.add(self.placement.round(before));
            self.rounds.add(self.placement.round(home));
            let group = self.registry.get_mut(slot);
            let placed = std::mem::replace(&mut group.placed, home);
            if group.displaced.take().is_some() {
                self.placement.settle_down(before, (placed, slot));
            }
            self.registry.adopt(slot, home);
            [before, placed, home].into_iter().for_each(|spt| self.trees.add(spt));
        }
        self.settle();
        Ok(())
    }

    fn check(
        &self,
        choice: &RecordedChoice,
        homes: &BTreeMap<Mgid, u32>,
    ) -> Result<(), RestoreProblem> {
        let RecordedChoice { mgid, tree, part, root, ports } = choice;
        if !self.stays_after_healing {
            return Err(RestoreProblem::NothingToChoose { engine: EngineKind::CMr4lmsFixed });
        }
        if self.registry.find(*mgid).is_none() {
            return Err(RestoreProblem::UnknownGroup);
        }
        if homes.contains_key(mgid) {
            return Err(RestoreProblem::Twice);
        }
        if *part >= self.layout.space().total() || (*tree, *root) != (0, 0) || !ports.is_empty() {
            return Err(RestoreProblem::UnknownTree);
        }
        Ok(())
    }
}
