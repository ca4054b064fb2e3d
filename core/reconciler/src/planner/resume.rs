//! Resumes the plan of an earlier route service from its recorded choices.
//!
//! The engine is brought to the state of its predecessor: first the parts that had failed then,
//! next the groups that are still there, then the choices. Changes since then are planned
//! afterwards, as the predecessor would have done, so that only what it concerns is routed again.

use std::collections::BTreeMap;

use fabricast_groups::ids::Gn;
use fabricast_groups::record::RouteReason;
use fabricast_routing::{RecordedChoice, RestoreProblem};
use fabricast_topology::Mgid;

use crate::directory_cache::{CachedGroup, DirectoryCache};
use crate::interface::Event;
use crate::planner::Planner;
use crate::planner::explain::ReportedReason;
use crate::planner::fault_change::FaultChange;
use crate::recorded::{Chosen, ChosenTree, RecordedPlan};

/// Most recorded choices that are dropped because they do not fit any more. With more of them all
/// choices are dropped, because each costs another attempt to restore the whole plan.
const MAX_DROPPED: usize = 256;

impl Planner {
    /// Choices of the engine, by GN.
    pub(crate) fn choices(&self) -> Chosen {
        let choices = self.engine.choices();
        let mut chosen = Chosen::new();
        if choices.is_empty() {
            return chosen;
        }
        let owns = |choice: &RecordedChoice| !choice.ports.is_empty();
        let owners: BTreeMap<Mgid, Gn> = choices
            .iter()
            .filter(|choice| owns(choice))
            .filter_map(|choice| Some((choice.mgid, self.planned.gn(choice.mgid)?)))
            .collect();
        for choice in choices {
            let Some(gn) = self.planned.gn(choice.mgid) else { continue };
            // A virtual group is named after its first group, which has the ports.
            let shared = self.engine.plan().group(choice.mgid).map(|group| group.virtual_group.0);
            let owner = shared.map(Mgid).filter(|owner| *owner != choice.mgid && !owns(&choice));
            let ports_gn = owner.and_then(|owner| owners.get(&owner).copied());
            let RecordedChoice { mgid: _, tree, part, root, ports } = choice;
            chosen.entry(gn).or_default().push(ChosenTree { tree, part, root, ports, ports_gn });
        }
        chosen
    }

    /// Restores the plan of an earlier route service, as far as it still fits. Call
    /// [`Planner::set_failed`] and [`Planner::plan`] afterwards with the present records.
    pub(crate) fn resume(&mut self, directory: &DirectoryCache, recorded: &RecordedPlan) {
        self.set_failed(&recorded.failed);
        // An exclusive group without choices was not in the plan. If it were put now, it would
        // move others.
        let was_planned =
            |gn: &Gn, group: &CachedGroup| !group.exclusive || recorded.chosen.contains_key(gn);
        let planned = directory.groups.iter().filter(|(gn, group)| was_planned(gn, group));
        let puts: Vec<_> = planned.map(|(gn, group)| (*gn, Self::put(group))).collect();
        for (gn, change) in &puts {
            self.planned.insert(*gn, change.mgid());
        }
        self.change(puts);
        let mut list = RestoreList::new(recorded, &self.planned.mgids);
        // Where the order is free, groups that have not changed come first.
        if list.entries.iter().all(|entry| entry.choice.ports.is_empty()) {
            let changed = |group: &CachedGroup| {
                let routed = group.route.as_ref().map(|route| route.revision);
                routed != Some(group.members_revision)
            };
            list.entries.sort_by_key(|entry| directory.groups.get(&entry.gn).is_none_or(changed));
        }
        self.keep_out_exclusive(directory, recorded);
        self.fault_change = FaultChange::default();
        let mut dropped = 0;
        while let Err(error) = self.engine.restore(&list.choices()) {
            let gn = list.entries[error.index].gn;
            dropped += 1;
            if dropped > MAX_DROPPED {
                self.events.push(Event::AllChoicesDropped { error });
                return;
            }
            list.drop_choice(error.index, &error.problem);
            self.events.push(Event::ChoiceDropped { gn, error });
        }
        self.events.push(Event::ChoicesRestored { dropped });
    }

    /// Leaves out exclusive groups that had no tree of their own: nothing has changed yet that
    /// could give them one.
    fn keep_out_exclusive(&mut self, directory: &DirectoryCache, recorded: &RecordedPlan) {
        for (gn, group) in &directory.groups {
            let Some(route) = group.route.as_ref().filter(|_| group.exclusive) else { continue };
            let is_as_reported = route.revision == group.members_revision;
            let code = route.reason_code;
            let had_no_tree = is_as_reported && code == RouteReason::ExclusiveTreeShared;
            if had_no_tree && !recorded.chosen.contains_key(gn) {
                self.refused.insert(*gn, ReportedReason { code, text: route.reason.clone() });
                self.kept_out.insert(*gn, Self::put(group));
            }
        }
    }
}

/// Choices to restore, in the order in which engines list them: by MGID and tree.
#[derive(Debug)]
struct RestoreList {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    gn: Gn,
    choice: RecordedChoice,
    ports_gn: Option<Gn>,
}

impl RestoreList {
    /// Lists the choices of planned groups. If the group that had the ports of a shared tree is
    /// gone, the next group gets them.
    fn new(recorded: &RecordedPlan, planned: &BTreeMap<Gn, Mgid>) -> Self {
        let mut list = Self { entries: Vec::new() };
        let mut gone = Vec::new();
        for (gn, trees) in &recorded.chosen {
            let mgid = planned.get(gn).copied();
            for chosen in trees {
                let ChosenTree { tree, part, root, ref ports, ports_gn } = *chosen;
                let mgid = mgid.unwrap_or(Mgid(0));
                let choice = RecordedChoice { mgid, tree, part, root, ports: ports.clone() };
                let entry = Entry { gn: *gn, choice, ports_gn };
                if planned.contains_key(gn) { list.entries.push(entry) } else { gone.push(entry) }
            }
        }
        list.entries.sort_by_key(|entry| (entry.choice.mgid, entry.choice.tree));
        gone.into_iter().for_each(|entry| list.pass_ports_on(&entry));
        list
    }

    fn choices(&self) -> Vec<RecordedChoice> {
        self.entries.iter().map(|entry| entry.choice.clone()).collect()
    }

    /// Drops a choice that does not fit. If the group has changed, its choice goes alone; if the
    /// tree is gone, the choices of all groups that share it go.
    fn drop_choice(&mut self, index: usize, problem: &RestoreProblem) {
        let entry = self.entries.remove(index);
        match problem {
            RestoreProblem::UnknownGroup | RestoreProblem::FewerThanTwoMembers => {
                self.pass_ports_on(&entry);
            }
            RestoreProblem::NothingToChoose { .. }
            | RestoreProblem::Twice
            | RestoreProblem::UnknownTree
            | RestoreProblem::TreeBroken { .. }
            | RestoreProblem::Conflict => {
                if !entry.choice.ports.is_empty() {
                    self.entries.retain(|sharer| !sharer.shares_tree_of(&entry));
                }
            }
        }
    }

    /// Gives the ports of a tree to the next group that shares it.
    fn pass_ports_on(&mut self, from: &Entry) {
        let mut sharers = self.entries.iter_mut().filter(|sharer| sharer.shares_tree_of(from));
        let Some(first) = sharers.next() else { return };
        first.choice.ports.clone_from(&from.choice.ports);
        first.ports_gn = None;
        let gn = first.gn;
        sharers.for_each(|sharer| sharer.ports_gn = Some(gn));
    }
}

impl Entry {
    fn shares_tree_of(&self, other: &Self) -> bool {
        let tree = |entry: &Self| (entry.choice.tree, entry.choice.part, entry.choice.root);
        self.ports_gn == Some(other.gn) && tree(self) == tree(other)
    }
}

#[cfg(test)]
mod tests;
