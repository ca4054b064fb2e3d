//! Keeps the choices of the engine at the TIC.
//!
//! A plan that depends on the past cannot be computed again. So the TIC records what the engine
//! chose before any switch is programmed with it, and the next route service starts from there.
//! Only differences are sent. An engine that computes everything has no choices, and nothing is
//! sent.
//!
//! Invariants
//! - CHOICE-2: no switch holds an entry of a choice that was not durable before.

use std::collections::BTreeSet;

use fabricast_groups::ids::Gn;

use crate::directory_cache::DirectoryCache;
use crate::planner::Planner;
use crate::recorded::{
    ChoiceReport, Chosen, ChosenTree, GroupChoices, RecordedChoices, RecordedPlan,
};

/// The choices that the TIC has recorded.
#[derive(Debug)]
pub(crate) struct ChoiceLog {
    generation: u64,
    recorded: RecordedPlan,
    /// Scheme of the recorded choices.
    state: State,
    /// GNs of a report that the TIC may or may not have recorded.
    unconfirmed: BTreeSet<Gn>,
    /// Choices of an earlier route service, until they are taken.
    found: Option<RecordedPlan>,
    /// True if the plan may have changed since the last report.
    is_behind: bool,
    /// Choices of the report that was made last.
    reported: RecordedPlan,
}

/// Scheme of the choices at the TIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was ever recorded.
    Blank,
    /// Choices of another scheme, which the next report replaces.
    Foreign,
    /// Choices of our scheme.
    Ours,
}

impl ChoiceLog {
    /// - `recorded`: what earlier route services have recorded.
    /// - `generation`: number of the latest report in this term.
    pub(crate) fn new(recorded: RecordedChoices, generation: u64) -> Self {
        let (state, recorded, unreadable) = match recorded {
            RecordedChoices::None => (State::Blank, RecordedPlan::default(), Vec::new()),
            RecordedChoices::Foreign => (State::Foreign, RecordedPlan::default(), Vec::new()),
            RecordedChoices::Ours { plan, unreadable } => (State::Ours, plan, unreadable),
        };
        Self {
            generation,
            state,
            unconfirmed: unreadable.into_iter().collect(),
            found: Some(recorded.clone()).filter(|plan| !plan.chosen.is_empty()),
            recorded,
            is_behind: true,
            reported: RecordedPlan::default(),
        }
    }

    /// Returns the choices of an earlier route service, once, if there are any of our scheme.
    pub(crate) fn take_recorded(&mut self) -> Option<RecordedPlan> {
        self.found.take()
    }

    /// Number of the latest report.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The choices at the TIC; `None` while that may differ from the plan.
    pub(crate) fn recorded(&self) -> Option<RecordedChoices> {
        let is_known = !self.is_behind && self.unconfirmed.is_empty() && self.found.is_none();
        is_known.then(|| match self.state {
            State::Blank => RecordedChoices::None,
            State::Foreign => RecordedChoices::Foreign,
            State::Ours => {
                RecordedChoices::Ours { plan: self.recorded.clone(), unreadable: Vec::new() }
            }
        })
    }

    /// True if the plan may have choices that are not recorded.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Notes that the plan may have changed.
    pub(crate) fn plan_changed(&mut self) {
        self.is_behind = true;
    }

    /// The report that makes the choices of the plan durable; `None` if they are. They must not be
    /// programmed before [`Self::confirm`].
    pub(crate) fn report(
        &mut self,
        planner: &Planner,
        directory: &DirectoryCache,
    ) -> Option<ChoiceReport> {
        if !self.is_behind {
            return None;
        }
        let now = RecordedPlan { failed: directory.failed.clone(), chosen: planner.choices() };
        let (changed, removed) = self.difference(&now.chosen);
        let nothing = changed.is_empty() && removed.is_empty();
        let settled = match self.state {
            State::Blank => nothing,
            // Without choices the failed parts do not matter.
            State::Ours => nothing && (now.chosen.is_empty() || now.failed == self.recorded.failed),
            State::Foreign => false,
        };
        if settled {
            self.unconfirmed.clear();
            self.recorded = now;
            self.is_behind = false;
            return None;
        }
        self.generation += 1;
        self.unconfirmed.extend(changed.iter().chain(&removed));
        let choices = |gn| GroupChoices { gn, trees: now.chosen[&gn].clone() };
        let changed = changed.into_iter().map(choices).collect();
        let failed = now.failed.clone();
        self.reported = now;
        let (generation, revision) = (self.generation, directory.revision);
        Some(ChoiceReport { generation, failed, revision, changed, removed })
    }

    /// Notes that the last report is durable.
    pub(crate) fn confirm(&mut self) {
        self.unconfirmed.clear();
        self.recorded = std::mem::take(&mut self.reported);
        self.state = State::Ours;
        self.is_behind = false;
    }

    /// GNs whose choices the TIC does not have, and GNs of which it should have none.
    fn difference(&self, now: &Chosen) -> (Vec<Gn>, Vec<Gn>) {
        let is_new = |(gn, trees): &(&Gn, &Vec<ChosenTree>)| {
            self.unconfirmed.contains(gn) || self.recorded.chosen.get(gn) != Some(trees)
        };
        let changed = now.iter().filter(is_new).map(|(gn, _)| *gn).collect();
        let known: BTreeSet<&Gn> = self.recorded.chosen.keys().chain(&self.unconfirmed).collect();
        let removed = known.into_iter().filter(|gn| !now.contains_key(gn)).copied().collect();
        (changed, removed)
    }
}
