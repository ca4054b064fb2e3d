//! Takes over what an earlier route service chose.
//!
//! The engine is brought to where the other one stood: first the parts that were broken then, then
//! the groups that are still there, then the choices. What has happened since comes afterwards, as
//! it would have come to the other one, so that only what it concerns is routed anew.

use std::collections::BTreeMap;

use fabricast_routing::{Mgid, RecordedChoice, RestoreProblem};
use tracing::{info, warn};

use crate::choices::{Chosen, ChosenTree, Past};
use crate::mirror::{Mirror, MirrorGroup};
use crate::planner::Planner;
use crate::planner::batch::NO_ROOM;

/// Choices that may be left out because they fit no longer, before all are given up: each costs a
/// restoration of the whole.
const MAX_MISFITS: usize = 256;

impl Planner {
    /// What the engine chose, by GN.
    pub(crate) fn choices(&self) -> Chosen {
        let choices = self.engine.choices();
        let mut chosen = Chosen::new();
        if choices.is_empty() {
            return chosen;
        }
        let gns: BTreeMap<Mgid, u64> = self.planned.iter().map(|(gn, mgid)| (*mgid, *gn)).collect();
        let owns = |choice: &RecordedChoice| !choice.ports.is_empty();
        let owners: BTreeMap<Mgid, u64> = choices
            .iter()
            .filter(|choice| owns(choice))
            .filter_map(|choice| Some((choice.mgid, *gns.get(&choice.mgid)?)))
            .collect();
        for choice in choices {
            let Some(gn) = gns.get(&choice.mgid) else { continue };
            // A virtual group has the name of the one that comes first, which has the ports.
            let shared = self.engine.plan().group(choice.mgid).map(|group| group.virtual_group.0);
            let owner = shared.map(Mgid).filter(|owner| *owner != choice.mgid && !owns(&choice));
            let ports_gn = owner.and_then(|owner| owners.get(&owner).copied()).unwrap_or(0);
            let RecordedChoice { mgid: _, tree, part, root, ports } = choice;
            chosen.entry(*gn).or_default().push(ChosenTree { tree, part, root, ports, ports_gn });
        }
        chosen
    }

    /// Brings back the plan of an earlier route service, as far as it still fits.
    ///
    /// Failed parts and groups as they are now are still to be planned afterwards.
    pub(crate) fn resume(&mut self, mirror: &Mirror, past: &Past) {
        self.set_failed(&past.failed);
        // An exclusive group without choices was not in the plan, and coming in it would move others.
        let was_there =
            |gn: &u64, group: &MirrorGroup| !group.exclusive || past.chosen.contains_key(gn);
        let there = mirror.groups.iter().filter(|(gn, group)| was_there(gn, group));
        let puts: Vec<_> = there.map(|(gn, group)| (*gn, self.put(group))).collect();
        for (gn, change) in &puts {
            self.planned.insert(*gn, change.mgid());
        }
        self.change(puts);
        let mut list = Recollection::new(past, &self.planned);
        // Who has not changed comes first, where the order is free.
        if list.entries.iter().all(|entry| entry.choice.ports.is_empty()) {
            let changed = |group: &MirrorGroup| {
                let routed = group.route.as_ref().map(|route| route.routed_revision);
                routed != Some(group.members_revision)
            };
            list.entries.sort_by_key(|entry| mirror.groups.get(&entry.gn).is_none_or(changed));
        }
        self.keep_out(mirror, past);
        self.faults_are_new = false;
        let mut misfits = 0;
        while let Err(error) = self.engine.restore(&list.choices()) {
            let gn = list.entries[error.index].gn;
            info!(group = gn, %error, "recorded choice does not fit");
            misfits += 1;
            if misfits > MAX_MISFITS {
                warn!(reason = %error, "recorded choices given up, planning anew");
                return;
            }
            list.leave_out(error.index, &error.problem);
        }
        info!(attempt = misfits + 1, "choices of an earlier route service taken over");
    }
}

impl Planner {
    /// Leaves out exclusive groups that had no room: nothing has changed yet that would make some.
    fn keep_out(&mut self, mirror: &Mirror, past: &Past) {
        for (gn, group) in &mirror.groups {
            let Some(route) = group.route.as_ref().filter(|_| group.exclusive) else { continue };
            let is_as_reported = route.routed_revision == group.members_revision;
            let had_no_room = is_as_reported && route.reason.starts_with(NO_ROOM);
            if had_no_room && !past.chosen.contains_key(gn) {
                self.refused.insert(*gn, route.reason.clone());
                self.kept_out.insert(*gn, self.put(group));
            }
        }
    }
}

/// Choices in the order in which engines list them: by MGID and tree.
#[derive(Debug)]
struct Recollection {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    gn: u64,
    choice: RecordedChoice,
    ports_gn: u64,
}

impl Recollection {
    /// Lists the choices of groups that are planned; where one that had the ports of a shared tree is
    /// gone, the next has them.
    fn new(past: &Past, planned: &BTreeMap<u64, Mgid>) -> Self {
        let mut list = Self { entries: Vec::new() };
        let mut gone = Vec::new();
        for (gn, trees) in &past.chosen {
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
        gone.into_iter().for_each(|entry| list.bequeath(&entry));
        list
    }

    fn choices(&self) -> Vec<RecordedChoice> {
        self.entries.iter().map(|entry| entry.choice.clone()).collect()
    }

    /// Takes out a choice that does not fit: alone if it is the group that has changed, with all that
    /// share its tree if it is the tree.
    fn leave_out(&mut self, index: usize, problem: &RestoreProblem) {
        let entry = self.entries.remove(index);
        match problem {
            RestoreProblem::UnknownGroup | RestoreProblem::FewerThanTwoMembers => {
                self.bequeath(&entry);
            }
            RestoreProblem::NothingToChoose { .. }
            | RestoreProblem::Twice
            | RestoreProblem::UnknownTree
            | RestoreProblem::TreeBroken { .. }
            | RestoreProblem::Conflict => {
                if !entry.choice.ports.is_empty() {
                    self.entries.retain(|heir| !heir.is_heir_of(&entry));
                }
            }
        }
    }

    /// Gives the ports of a tree to the next group that shares it.
    fn bequeath(&mut self, from: &Entry) {
        let mut heirs = self.entries.iter_mut().filter(|heir| heir.is_heir_of(from));
        let Some(first) = heirs.next() else { return };
        first.choice.ports.clone_from(&from.choice.ports);
        first.ports_gn = 0;
        let gn = first.gn;
        heirs.for_each(|heir| heir.ports_gn = gn);
    }
}

impl Entry {
    fn is_heir_of(&self, other: &Self) -> bool {
        let tree = |entry: &Self| (entry.choice.tree, entry.choice.part, entry.choice.root);
        self.ports_gn == other.gn && tree(self) == tree(other)
    }
}

#[cfg(test)]
mod tests;
