//! Collective operations: reports go up the tree, the root decides, the outcome comes down.
//!
//! Operations are numbered from 1; a member's call is its contribution to the first operation that has
//! not ended. A station reports to its parent when its member and all neighbours below have. The root
//! decides once and sends the outcome down the tree, and on the multicast connection if it leaves nobody out.
//!
//! When the root is gone, some may have its outcome and others not. The new root therefore begins a new
//! *round*: reports and outcomes of earlier rounds count no more where it is known, and whoever has the
//! outcome already says so instead of reporting. So nobody gets another outcome than those who live.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::{Moment, Pn};

use super::combining::Switches;
use super::parts::is_deaf;
use super::{Neighbor, Station};
use crate::frame::{Body, Notice, Packet, Report};
use crate::operation::{Call, Gathered, Kind, OnFailure, Operation, OperationError, Outcome};
use crate::outputs::{Output, StartError};

/// Longest pause between two questions whether an operation has ended.
const MOST_PATIENCE: Duration = Duration::from_secs(1);

/// What a station knows of its group's operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Operations {
    round: u64,
    last: Option<Arc<Outcome>>,
    call: Option<Called>,
    reports: BTreeMap<Pn, Report>,
    lost: BTreeSet<Pn>,
    reported: bool,
    pub(super) switches: Switches,
    ask_at: Moment,
    patience: Duration,
}

/// The member's own part in the operation under way.
#[derive(Clone, Debug)]
struct Called {
    call: Call,
    expected: Arc<BTreeSet<Pn>>,
    gathered: Gathered,
}

/// How a station has learnt an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learnt {
    /// It has decided itself.
    Here,
    /// From a neighbour.
    From(Pn),
    /// From the multicast connection.
    Multicast,
    /// From the switches, as all who take part do.
    Switches,
}

impl Operations {
    /// What the member has called, and its contribution.
    pub(super) fn called(&self) -> Option<(&Call, &Gathered)> {
        self.call.as_ref().map(|called| (&called.call, &called.gathered))
    }

    /// Whether neighbours have reported to an operation.
    pub(super) fn has_reports(&self, number: u64) -> bool {
        self.reports.values().any(|report| report.number >= number)
    }

    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// The last operation whose end is known here; 0 if none.
    pub(super) fn last(&self) -> u64 {
        self.last.as_ref().map_or(0, |outcome| outcome.number)
    }

    pub(super) fn drop_call(&mut self) {
        self.call = None;
    }

    pub(super) fn retain_reports(&mut self, keep: impl Fn(Pn) -> bool) {
        self.reports.retain(|pn, _| keep(*pn));
    }

    /// The parent is another, or has forgotten: it needs the report once more.
    pub(super) fn report_again(&mut self) {
        self.reported = false;
    }

    /// Notes that a member takes part no more.
    pub(super) fn lose(&mut self, pn: Pn) {
        if self.call.is_some() || !self.reports.is_empty() {
            self.lost.insert(pn);
        }
    }
}

impl Station {
    /// Begins an operation of the member.
    pub(crate) fn operate(
        &mut self,
        now: Moment,
        operation: &Operation,
        on_failure: OnFailure,
    ) -> Result<(), StartError> {
        if !self.open {
            return Err(StartError::NotOpen { gn: self.gn, pn: self.pn });
        }
        if self.operations.call.is_some() {
            return Err(StartError::Busy);
        }
        let (bytes, limit) = (operation.bytes(), self.limits.message);
        if bytes > limit {
            return Err(StartError::TooLong { bytes, limit });
        }
        operation.check()?;
        self.operations.call = Some(Called {
            call: operation.call(on_failure),
            expected: self.roster.pns(),
            gathered: operation.contribution(self.pn),
        });
        if !self.try_switches(operation, on_failure) {
            self.try_report(now);
        }
        Ok(())
    }

    /// Begins a new collection: this station has become the root.
    pub(super) fn take_the_lead(&mut self, now: Moment) {
        self.operations.round += 1;
        self.collect_anew(now, None);
    }

    /// Takes what a neighbour says of rounds and ends.
    pub(super) fn round(&mut self, now: Moment, from: Pn, (round, decided): (u64, u64)) {
        let own = self.operations.round;
        if round > own && self.parent.is_none() {
            self.operations.round = round + 1; // collected by a root that is gone
            self.collect_anew(now, None);
        } else if round > own {
            self.operations.round = round;
            self.collect_anew(now, Some(from));
        } else if round < own {
            self.say(from, Body::Round { round: own, decided: self.operations.last() });
        }
        if decided < self.operations.last() {
            self.tell_the_end(from);
        }
    }

    /// Passes a new round on; what was reported in earlier ones counts no more.
    fn collect_anew(&mut self, now: Moment, from: Option<Pn>) {
        let (round, decided) = (self.operations.round, self.operations.last());
        self.operations.reports.retain(|_, report| report.round >= round);
        self.operations.reported = false;
        let others = self.neighbors.iter().filter(|(pn, one)| one.met && Some(**pn) != from);
        let others: Vec<Pn> = others.map(|(pn, _)| *pn).collect();
        others.into_iter().for_each(|pn| self.say(pn, Body::Round { round, decided }));
        self.try_report(now);
    }

    /// Takes the contributions of a neighbour's side.
    pub(super) fn report(&mut self, now: Moment, from: Pn, report: Report) {
        if self.parent == Some(from) || report.round != self.operations.round {
            return;
        }
        if report.number <= self.operations.last() {
            return self.tell_the_end(from);
        }
        if report.number == self.operations.last() + 1 {
            self.leave_the_run(now); // there is one who does without
        }
        self.operations.reports.insert(from, report);
        self.try_report(now);
    }

    /// Reports, or decides at the root, if everybody on this side has contributed.
    pub(super) fn try_report(&mut self, now: Moment) {
        let number = self.operations.last() + 1;
        if self.operations.reported || !self.active || self.operations.switches.is_running() {
            return;
        }
        let below = self.neighbors.iter().filter(|(pn, _)| self.parent != Some(**pn));
        let mut below = below.filter(|(_, one)| one.matters()).map(|(pn, _)| pn);
        let reported =
            |pn: &Pn| self.operations.reports.get(pn).is_some_and(|report| report.number == number);
        if !below.all(reported) || (self.open && self.operations.call.is_none()) {
            return;
        }
        let Some(report) = self.merged(number) else { return };
        match self.parent {
            None => self.decide(now, report),
            Some(parent) if self.neighbors.get(&parent).is_some_and(Neighbor::ready) => {
                self.operations.reported = true;
                self.operations.patience = self.limits.retry;
                self.operations.ask_at = now.after(self.limits.retry);
                self.say(parent, Body::Report(report));
                self.beat(now);
            }
            Some(_) => {}
        }
    }

    /// Merges all contributions of this side; `None` if there are none.
    fn merged(&self, number: u64) -> Option<Report> {
        let round = self.operations.round;
        let lost = BTreeSet::new();
        let own = self.operations.call.as_ref().filter(|_| self.open).map(|called| Report {
            number,
            round,
            call: called.call,
            other: None,
            included: BTreeSet::from([self.pn]),
            newest: self.life,
            expected: called.expected.clone(),
            lost,
            gathered: called.gathered.clone(),
        });
        let theirs = self.operations.reports.values().filter(|report| report.number == number);
        let mut all = own.into_iter().chain(theirs.cloned());
        let mut merged = all.next()?;
        for mut report in all {
            merged.included.append(&mut report.included);
            merged.newest = merged.newest.max(report.newest);
            if report.expected != merged.expected {
                Arc::make_mut(&mut merged.expected).extend(report.expected.iter());
            }
            merged.lost.append(&mut report.lost);
            let other = report
                .other
                .or_else(|| (report.call != merged.call).then(|| report.call.to_string()));
            if merged.other.is_some() || other.is_some() {
                merged.other = merged.other.or(other);
            } else if !merged.gathered.merge(merged.call.reduction, report.gathered) {
                merged.other = Some(format!("{} with other values", merged.call));
            }
        }
        merged.lost.extend(&self.operations.lost);
        Some(merged)
    }

    fn decide(&mut self, now: Moment, report: Report) {
        let verdict = self.verdict(&report);
        let all_are_in = report.expected.is_subset(&report.included);
        let Report { number, included: participants, newest, .. } = report;
        let outcome = Arc::new(Outcome { number, participants, newest, verdict });
        let round = self.operations.round;
        let packet =
            Packet { gn: self.gn, notice: Notice::Decided { round, outcome: outcome.clone() } };
        // Else it would overtake the news of who is gone, which goes down the tree (MSG-4).
        if all_are_in && packet.encode().len() <= self.limits.packet {
            self.multicast(packet.notice);
        }
        self.conclude(now, Learnt::Here, &outcome);
    }

    fn verdict(&self, report: &Report) -> Result<Gathered, OperationError> {
        let call = &report.call;
        if let Some(other) = report.other.clone() {
            return Err(OperationError::Differ { one: call.to_string(), other });
        }
        let here = self.roster.pns();
        let mut failed: BTreeSet<Pn> = report.expected.iter().copied().collect();
        failed.retain(|pn| !here.contains(pn) || report.lost.contains(pn));
        failed.retain(|pn| !report.included.contains(pn));
        let has_source = match call.kind {
            Kind::Broadcast | Kind::Scatter => report.included.contains(&call.peer),
            Kind::Barrier
            | Kind::Reduce
            | Kind::AllReduce
            | Kind::Gather
            | Kind::AllGather
            | Kind::Scan => true,
        };
        if !has_source {
            failed.insert(call.peer); // nobody can do without
        }
        if !failed.is_empty() && (call.on_failure == OnFailure::Fail || !has_source) {
            return Err(OperationError::MembersFailed { failed });
        }
        let settled = report.gathered.clone().settle(call);
        settled.map_err(|(one, other)| OperationError::Differ { one, other })
    }

    /// Takes an outcome from a neighbour, or from the multicast connection.
    pub(crate) fn decided(
        &mut self,
        now: Moment,
        from: Option<Pn>,
        round: u64,
        outcome: &Arc<Outcome>,
    ) {
        // Of an earlier round: whoever has it already says so again.
        if round >= self.operations.round && outcome.number > self.operations.last() {
            let learnt = match from {
                Some(neighbor) => Learnt::From(neighbor),
                None if self.parent.is_some() => Learnt::Multicast,
                None => Learnt::Here,
            };
            self.conclude(now, learnt, outcome);
        }
    }

    /// Ends an operation here and passes its outcome on.
    pub(super) fn conclude(&mut self, now: Moment, learnt: Learnt, outcome: &Arc<Outcome>) {
        self.drop_the_run();
        let operations = &mut self.operations;
        operations.last = Some(outcome.clone());
        operations.reports.retain(|_, report| report.number > outcome.number);
        operations.lost.clear();
        operations.reported = false;
        // A call that came too late for this one is for the next; who took part may have been a predecessor.
        if outcome.participants.contains(&self.pn)
            && outcome.newest >= self.life
            && let Some(called) = operations.call.take()
        {
            let (gn, pn, call) = (self.gn, self.pn, called.call);
            let (outcome, by_switches) = (outcome.clone(), learnt == Learnt::Switches);
            self.out.push_back(Output::Ended { gn, pn, call, outcome, by_switches });
        }
        let others = self.neighbors.iter().filter(|(pn, one)| {
            let wanted = match learnt {
                Learnt::Here => true,
                Learnt::From(from) => **pn != from,
                Learnt::Multicast => is_deaf(one, now),
                Learnt::Switches => !outcome.participants.contains(pn),
            };
            one.met && one.matters() && wanted
        });
        let others: Vec<Pn> = others.map(|(pn, _)| *pn).collect();
        others.into_iter().for_each(|pn| self.tell_the_end(pn));
        self.try_report(now);
    }

    /// Tells a neighbour how the last operation has ended, once it has been told who takes part.
    pub(super) fn tell_the_end(&mut self, to: Pn) {
        let Some(outcome) = self.operations.last.clone() else { return };
        let Some(neighbor) = self.neighbors.get_mut(&to) else { return };
        neighbor.awaits_end = !neighbor.ready();
        if !neighbor.awaits_end {
            self.say(to, Body::Decided { round: self.operations.round, outcome });
        }
    }

    /// Answers whether an operation has ended: multicast has not brought it to who asks.
    pub(super) fn asked(&mut self, now: Moment, from: Pn, number: u64) {
        if number <= self.operations.last() {
            self.distrust(now, from);
            self.tell_the_end(from);
        } else {
            self.asked_of_the_run(now, number);
        }
    }

    /// Asks whether the operation that was reported has ended; answers whether to look again.
    pub(super) fn ask_for_the_end(&mut self, now: Moment) -> bool {
        let Some(parent) = self.parent.filter(|_| self.operations.reported) else { return false };
        if self.operations.ask_at <= now {
            self.operations.patience = (self.operations.patience * 2).min(MOST_PATIENCE);
            self.operations.ask_at = now.after(self.operations.patience);
            self.say(parent, Body::Ask { number: self.operations.last() + 1 });
        }
        true
    }
}
