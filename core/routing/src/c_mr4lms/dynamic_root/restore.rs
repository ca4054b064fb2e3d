//! Writes down what was chosen, and makes the same choices again.

use std::collections::BTreeSet;

use fabricast_topology::Mgid;

use crate::c_mr4lms::dynamic_root::root_search::RootChange;
use crate::c_mr4lms::dynamic_root::virtual_groups::{Candidate, Context};
use crate::c_mr4lms::dynamic_root::{DynamicRootEngine, Unplaced};
use crate::c_mr4lms::fabric::NONE;
use crate::c_mr4lms::numbers::{GroupIndex, TreeNumber};
use crate::routing_engine::{RecordedChoice, RestoreError, RestoreProblem};

impl DynamicRootEngine {
    /// Lists spanning tree and root of every group that has a tree, by MGID.
    pub(super) fn recorded(&self) -> Vec<RecordedChoice> {
        let mut choices: Vec<RecordedChoice> = self
            .registry
            .iter()
            .filter_map(|(index, group)| {
                let virtual_group = self.virtual_groups.of(index)?;
                let (part, root) = (virtual_group.spt.0, virtual_group.root);
                Some(RecordedChoice { mgid: group.mgid, tree: 0, part, root, ports: Vec::new() })
            })
            .collect();
        choices.sort_unstable_by_key(|choice| choice.mgid);
        choices
    }

    /// Gives an engine of the same groups and faults that has made these choices. Groups that none
    /// is about come last, in the order of their MGIDs.
    pub(super) fn restored(&self, choices: &[RecordedChoice]) -> Result<Self, RestoreError> {
        let mut next = self.clone();
        let mut waiting: BTreeSet<(Mgid, GroupIndex)> =
            self.registry.iter().map(|(index, group)| (group.mgid, index)).collect();
        next.take_out(&waiting.iter().map(|(_, index)| *index).collect::<Vec<_>>());
        for (number, choice) in choices.iter().enumerate() {
            let mgid = choice.mgid;
            let refused = |problem| RestoreError { index: number, mgid, problem };
            let index = self.registry.find(mgid).ok_or(refused(RestoreProblem::UnknownGroup))?;
            if !waiting.remove(&(mgid, index)) {
                return Err(refused(RestoreProblem::Twice));
            }
            next.choose(index, choice).map_err(refused)?;
        }
        let unplaced = waiting.into_iter();
        let unplaced = unplaced.map(|(mgid, index)| Unplaced {
            mgid,
            index,
            tree_before: TreeNumber(NONE),
            root_before: NONE,
        });
        next.place_all(unplaced.collect(), RootChange::Forbidden);
        next.settle();
        Ok(next)
    }

    fn choose(&mut self, index: GroupIndex, choice: &RecordedChoice) -> Result<(), RestoreProblem> {
        let RecordedChoice { tree, part, root, ports, .. } = choice;
        let known =
            *part < self.layout.space().total() && *root < self.virtual_groups.roots.count();
        if *tree != 0 || !known || !ports.is_empty() {
            return Err(RestoreProblem::UnknownTree);
        }
        let context = Context { fabric: &self.fabric, registry: &self.registry };
        let candidate = self.virtual_groups.candidate(context, index);
        let candidate = candidate.ok_or(RestoreProblem::FewerThanTwoMembers)?;
        let spt = TreeNumber(*part);
        self.check(&candidate, spt, *root)?;
        self.virtual_groups.attach(&self.fabric, candidate, spt, *root);
        self.put(index, spt);
        Ok(())
    }

    /// Checks that a group has the links it needs and meets nobody with another root.
    fn check(&mut self, one: &Candidate, spt: TreeNumber, root: u32) -> Result<(), RestoreProblem> {
        let virtual_groups = &mut self.virtual_groups;
        let trees = virtual_groups.roots.trees(self.fabric.trees(spt), root);
        if let Some(link) =
            self.fabric.broken_link_of_all(&trees, virtual_groups.footprint.places())
        {
            return Err(RestoreProblem::TreeBroken { link });
        }
        let free = virtual_groups.collect_owners(spt, root, &one.places, 0..4)
            && !virtual_groups.merging.iter().any(|virtual_group| {
                virtual_groups.moves(virtual_groups.get(*virtual_group), root)
            });
        if free { Ok(()) } else { Err(RestoreProblem::Conflict) }
    }
}
