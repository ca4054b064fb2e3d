//! Records changes with what undoes them, so that undoing costs what was changed.

use fabricast_topology::Mgid;

use super::layers::{LayerEntered, LayerLeft};
use super::{KnownGroup, MgidAllocator, MgidPlanner};

/// The changes that may be undone, oldest first; `None` if nobody undoes any.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal(Option<Vec<Step>>);

/// A change, with what undoes it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Inserted { mgid: Mgid, entered: LayerEntered },
    Removed { mgid: Mgid, group: KnownGroup, left: LayerLeft },
    Held { mgid: Mgid },
    Released { mgid: Mgid },
    Joined { mgid: Mgid, endpoint: u32 },
    Left { mgid: Mgid, endpoint: u32 },
}

impl Journal {
    pub(super) fn note(&mut self, step: Step) {
        if let Some(steps) = &mut self.0 {
            steps.push(step);
        }
    }
}

impl MgidAllocator {
    /// Begins to record changes, so that [`Self::undo_changes`] can undo them; those before stay.
    pub fn record_changes(&mut self) {
        self.journal.0 = Some(Vec::new());
    }

    /// Number of recorded changes.
    #[must_use]
    pub fn recorded_changes(&self) -> usize {
        self.journal.0.as_ref().map_or(0, Vec::len)
    }

    /// Undoes the recorded changes but for the first `kept`. Cost: the members of the groups that
    /// were inserted or removed, and the members that have joined or left.
    pub fn undo_changes(&mut self, kept: usize) {
        let steps = self.journal.0.as_mut();
        let undone = steps.map_or_else(Vec::new, |steps| steps.split_off(kept.min(steps.len())));
        undone.into_iter().rev().for_each(|step| self.undo(step));
    }

    fn undo(&mut self, step: Step) {
        match step {
            Step::Inserted { mgid, entered } => {
                let group = self.groups.remove(&mgid).flatten().expect("it was inserted");
                self.planner.undo_note(mgid, &group, &entered);
            }
            Step::Removed { mgid, group, left } => {
                self.planner.take(mgid);
                self.planner.undo_forget(mgid, &group, left);
                self.groups.insert(mgid, Some(group));
            }
            Step::Held { mgid } => {
                self.planner.free(mgid);
                self.groups.remove(&mgid);
            }
            Step::Released { mgid } => {
                self.planner.take(mgid);
                self.groups.insert(mgid, None);
            }
            Step::Joined { mgid, endpoint } => {
                self.remove_member(mgid, endpoint).expect("the member has joined");
            }
            Step::Left { mgid, endpoint } => {
                self.add_member(mgid, endpoint).expect("the member has left");
            }
        }
    }
}

impl MgidPlanner {
    fn undo_note(&mut self, mgid: Mgid, group: &KnownGroup, entered: &LayerEntered) {
        self.count_out(self.space.spt(mgid), group);
        self.layers.undo_enter(entered);
        self.free(mgid);
    }

    pub(super) fn undo_forget(&mut self, mgid: Mgid, group: &KnownGroup, left: LayerLeft) {
        self.count_in(self.space.spt(mgid), &group.members, group.is_exclusive);
        self.layers.undo_leave(left);
    }
}

#[cfg(test)]
mod tests;
