//! Operations that the switches combine, instead of the tree.
//!
//! If the switches can do a member's operation, the member contributes to a run there and does not
//! report. If the run succeeds, it gives the member the outcome. If the run fails, or another
//! member is seen to use the tree, the member leaves the run, which fails it for all members, asks
//! its neighbours whether the operation has ended, and reports as usual. A member that is asked
//! leaves the run, too; a member that has the outcome sends it instead of a report. The root
//! decides only when all live members have reported, so its outcome is the one that the switches
//! gave (MSG-3).
//!
//! After failed runs only every second, fourth, ... operation is tried, by its number, so that
//! members that count differently try together again at some number.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_groups::{Moment, Pn};

use super::MemberEndpoint;
use super::operations::OutcomeSource;
use crate::frame::{Body, JoinRevision};
use crate::operation::{Operation, Outcome, Terms};
use crate::outputs::Output;
use crate::switches::{Offer, RunContext, Wide, brought};

/// After many failures in a row, operations with multiples of two to this power are still tried.
const MAX_BACKOFF: u32 = 6;

/// State of the switches as one endpoint knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Switches {
    offer: Option<Offer>,
    running: Option<Running>,
    failures: u32, // in a row
    queried: u64,  // the last operation of a neighbour's query
}

/// A run that the member has contributed to.
#[derive(Clone, Debug)]
struct Running {
    sequence: u64,
    members: BTreeSet<Pn>,
    newest: JoinRevision,
}

impl Switches {
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

impl MemberEndpoint {
    /// Sets the offer of the switches.
    pub(crate) fn offer(&mut self, offer: Option<Offer>) {
        let switches = &mut self.operations.switches;
        if std::mem::replace(&mut switches.offer, offer) != offer {
            switches.failures = 0;
        }
    }

    /// Contributes to a run of the member's operation if the switches can do it; returns whether it
    /// did.
    pub(super) fn try_switches(&mut self, operation: &Operation, terms: Terms) -> bool {
        let number = self.operations.last() + 1;
        let switches = &self.operations.switches;
        let kind = operation.call(terms).kind;
        let Some(offer) = switches.offer.filter(|offer| offer.does(kind)) else { return false };
        let joins = self.roster.joins();
        let context = RunContext { number, joins: &joins, terms };
        let run = offer.run(self.pn, operation, &context);
        let turn = number.is_multiple_of(1 << switches.failures.min(MAX_BACKOFF));
        let together = switches.queried < number && !self.operations.has_reports(number);
        let Some(run) = run.filter(|_| turn && together) else {
            self.query_all(number); // others may be in a run
            return false;
        };
        let newest = joins.values().copied().max().unwrap_or(self.joined);
        let members = joins.into_keys().collect();
        let running = Running { sequence: run.sequence, members, newest };
        self.operations.switches.running = Some(running);
        self.out.push_back(Output::Combine { gn: self.gn, pn: self.pn, run });
        true
    }

    /// Ends the run with the numbers that the member gets; `None` if it has failed.
    pub(crate) fn combined(&mut self, now: Moment, sequence: u64, brings: Option<Option<Wide>>) {
        let switches = &mut self.operations.switches;
        let Some(running) = switches.running.take_if(|run| run.sequence == sequence) else {
            return;
        };
        let gathered = brings.zip(self.operations.called());
        let gathered = gathered.and_then(|(numbers, (call, own))| brought(call, own, numbers));
        let number = self.operations.last() + 1;
        let Some(gathered) = gathered else {
            return self.use_tree(now, number);
        };
        self.operations.switches.failures = 0;
        let Running { members: participants, newest, .. } = running;
        let outcome = Outcome { number, participants, newest, verdict: Ok(gathered) };
        self.conclude(now, OutcomeSource::Switches, &Arc::new(outcome));
    }

    /// Leaves the run, if there is one, and reports instead.
    pub(super) fn leave_run(&mut self, now: Moment) {
        if self.drop_run() {
            self.use_tree(now, self.operations.last() + 1);
        }
    }

    /// Withdraws from the run; returns whether there was one.
    pub(super) fn drop_run(&mut self) -> bool {
        let was_running = self.operations.switches.running.take().is_some();
        if was_running {
            self.out.push_back(Output::Withdraw { gn: self.gn, pn: self.pn });
        }
        was_running
    }

    /// Leaves the run if one of its members is gone.
    pub(super) fn leave_run_without(&mut self, now: Moment, gone: &[Pn]) {
        let running = self.operations.switches.running.as_ref();
        if running.is_some_and(|run| gone.iter().any(|pn| run.members.contains(pn))) {
            self.leave_run(now);
        }
    }

    /// Notes a query for an operation: its sender does not use the switches.
    pub(super) fn note_query(&mut self, now: Moment, number: u64) {
        let switches = &mut self.operations.switches;
        switches.queried = switches.queried.max(number);
        if number == self.operations.last() + 1 {
            self.leave_run(now);
        }
    }

    fn use_tree(&mut self, now: Moment, number: u64) {
        let switches = &mut self.operations.switches;
        switches.failures = switches.failures.saturating_add(1);
        self.query_all(number);
        self.try_report(now);
    }

    fn query_all(&mut self, number: u64) {
        let met = self.neighbors.iter().filter(|(_, one)| one.edge.is_met()).map(|(pn, _)| *pn);
        met.collect::<Vec<_>>()
            .into_iter()
            .for_each(|pn| self.send_frame(pn, Body::Query { number }));
    }
}
