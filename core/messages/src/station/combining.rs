//! Operations that the switches combine, instead of the tree.
//!
//! A member whose operation the switches can do contributes to a run there and does not report. The run
//! either gives it the outcome, which it then has as if the root had told it; or it fails, or somebody is
//! seen to do without: then the member leaves the run, which fails it for all, asks its neighbours whether the
//! operation has ended, and reports as ever. Who has been asked leaves the run, too; who has the outcome
//! says so instead of reporting. As the root decides only when all who live have reported, nobody gets
//! another outcome than those who got it from the switches (MSG-3).
//!
//! After runs that fail only every second, fourth, ... operation is tried, by its number: all who do not
//! agree how often meet again at some number.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_groups::{Moment, Pn};

use super::Station;
use super::operations::Learnt;
use crate::frame::{Body, Life};
use crate::operation::{OnFailure, Operation, Outcome};
use crate::outputs::Output;
use crate::switches::{Offer, Wide, brought};

/// After failures in a row every operation is tried whose number is divided by two to this power, at most.
const RAREST: u32 = 6;

/// What a station knows of the switches.
#[derive(Clone, Debug, Default)]
pub(super) struct Switches {
    offer: Option<Offer>,
    running: Option<Running>,
    failures: u32, // in a row
    asked: u64,    // the last operation that somebody has asked about
}

/// A run that the member has contributed to.
#[derive(Clone, Debug)]
struct Running {
    sequence: u64,
    members: BTreeSet<Pn>,
    newest: Life,
}

impl Switches {
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

impl Station {
    /// Takes over what switches offer to the member.
    pub(crate) fn offer(&mut self, offer: Option<Offer>) {
        let switches = &mut self.operations.switches;
        if std::mem::replace(&mut switches.offer, offer) != offer {
            switches.failures = 0;
        }
    }

    /// Contributes to a run of the member's operation if the switches can do it; answers whether it has.
    pub(super) fn try_switches(&mut self, operation: &Operation, on_failure: OnFailure) -> bool {
        let number = self.operations.last() + 1;
        let switches = &self.operations.switches;
        let kind = operation.call(on_failure).kind;
        let Some(offer) = switches.offer.filter(|offer| offer.does(kind)) else { return false };
        let lives = self.roster.lives();
        let run = offer.run(self.pn, (number, &lives), operation, on_failure);
        let turn = number.is_multiple_of(1 << switches.failures.min(RAREST));
        let together = switches.asked < number && !self.operations.has_reports(number);
        let Some(run) = run.filter(|_| turn && together) else {
            self.ask_all(number); // others may have thought otherwise
            return false;
        };
        let newest = lives.values().copied().max().unwrap_or(self.life);
        let members = lives.into_keys().collect();
        let running = Running { sequence: run.sequence, members, newest };
        self.operations.switches.running = Some(running);
        self.out.push_back(Output::Combine { gn: self.gn, pn: self.pn, run });
        true
    }

    /// Takes what a run has given the member; `None` if it has failed.
    pub(crate) fn combined(&mut self, now: Moment, sequence: u64, brings: Option<Option<Wide>>) {
        let switches = &mut self.operations.switches;
        let Some(running) = switches.running.take_if(|run| run.sequence == sequence) else {
            return;
        };
        let gathered = brings.zip(self.operations.called());
        let gathered = gathered.and_then(|(numbers, (call, own))| brought(call, own, numbers));
        let number = self.operations.last() + 1;
        let Some(gathered) = gathered else {
            return self.go_by_the_tree(now, number);
        };
        self.operations.switches.failures = 0;
        let Running { members: participants, newest, .. } = running;
        let outcome = Outcome { number, participants, newest, verdict: Ok(gathered) };
        self.conclude(now, Learnt::Switches, &Arc::new(outcome));
    }

    /// Leaves the run that the member has contributed to, if there is one, and reports instead.
    pub(super) fn leave_the_run(&mut self, now: Moment) {
        if self.drop_the_run() {
            self.go_by_the_tree(now, self.operations.last() + 1);
        }
    }

    /// Gives up the run that the member has contributed to; answers whether there was one.
    pub(super) fn drop_the_run(&mut self) -> bool {
        let was_running = self.operations.switches.running.take().is_some();
        if was_running {
            self.out.push_back(Output::Withdraw { gn: self.gn, pn: self.pn });
        }
        was_running
    }

    /// Leaves the run if one of its members takes part no more.
    pub(super) fn leave_if_gone(&mut self, now: Moment, gone: &[Pn]) {
        let running = self.operations.switches.running.as_ref();
        if running.is_some_and(|run| gone.iter().any(|pn| run.members.contains(pn))) {
            self.leave_the_run(now);
        }
    }

    /// Notes that somebody asks whether an operation has ended, and so does without the switches.
    pub(super) fn asked_of_the_run(&mut self, now: Moment, number: u64) {
        let switches = &mut self.operations.switches;
        switches.asked = switches.asked.max(number);
        if number == self.operations.last() + 1 {
            self.leave_the_run(now);
        }
    }

    fn go_by_the_tree(&mut self, now: Moment, number: u64) {
        let switches = &mut self.operations.switches;
        switches.failures = switches.failures.saturating_add(1);
        self.ask_all(number);
        self.try_report(now);
    }

    fn ask_all(&mut self, number: u64) {
        let met = self.neighbors.iter().filter(|(_, one)| one.met).map(|(pn, _)| *pn);
        met.collect::<Vec<_>>().into_iter().for_each(|pn| self.say(pn, Body::Ask { number }));
    }
}
