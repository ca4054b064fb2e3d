//! Collective operations: reports go up the tree, the root decides, the outcome comes down.
//!
//! Operations are numbered from 1; a member's call is its contribution to the first operation that
//! has not ended. An endpoint reports to its parent when its member and all neighbours below have.
//! The root decides once and sends the outcome down the tree, and on the multicast connection if it
//! leaves no member out.
//!
//! When the root is gone, some members may have its outcome and others not. The new root therefore
//! begins a new *round*: endpoints that know of it ignore reports and outcomes of earlier rounds,
//! and an endpoint that has the outcome sends it instead of a report. So all live members get the
//! same outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::{Moment, Pn};

use super::combining::Switches;
use super::parts::misses_multicast;
use super::state::EdgeEvent;
use super::{MemberEndpoint, Neighbor};
use crate::frame::{Body, Notice, Packet, Report};
use crate::operation::{
    Call, Gathered, Kind, OnFailure, Operation, OperationError, Outcome, Terms,
};
use crate::outputs::{Output, StartError};

/// Longest pause between two queries for an outcome.
const MAX_QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// Time in which an outcome may be on its way by multicast: a neighbour that has it over its link
/// only is not thought deaf.
const UNDER_WAY: Duration = Duration::from_millis(100);

/// The operations of a group as one endpoint knows them.
#[derive(Clone, Debug, Default)]
pub(super) struct Operations {
    round: u64,
    last: Option<Arc<Outcome>>,
    call: Option<OwnCall>,
    reports: BTreeMap<Pn, Report>,
    lost: BTreeSet<Pn>,
    reported: bool,
    pub(super) switches: Switches,
    concluded_at: Moment,
    query_at: Moment,
    query_interval: Duration,
}

/// The member's own call of the operation under way.
#[derive(Clone, Debug)]
struct OwnCall {
    call: Call,
    expected: Arc<BTreeSet<Pn>>,
    gathered: Gathered,
}

/// Origin of an outcome at one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutcomeSource {
    /// The endpoint is the root and has decided.
    Decided,
    /// So it has, and has announced it by multicast, on which it relies.
    Announced,
    /// A neighbour has sent it.
    Neighbor(Pn),
    /// It came on the multicast connection.
    Multicast,
    /// The switches gave it to all members that take part.
    Switches,
}

impl Operations {
    /// The member's call and contribution.
    pub(super) fn called(&self) -> Option<(&Call, &Gathered)> {
        self.call.as_ref().map(|called| (&called.call, &called.gathered))
    }

    /// Returns whether neighbours have reported to this operation or a later one.
    pub(super) fn has_reports(&self, number: u64) -> bool {
        self.reports.values().any(|report| report.number >= number)
    }

    /// Returns whether a neighbour has reported to a later operation than this.
    pub(super) fn has_reported_after(&self, pn: Pn, number: u64) -> bool {
        self.reports.get(&pn).is_some_and(|report| report.number > number)
    }

    pub(super) fn round(&self) -> u64 {
        self.round
    }

    pub(super) fn last_outcome(&self) -> Option<&Arc<Outcome>> {
        self.last.as_ref()
    }

    /// The last operation whose outcome is known here; 0 if none.
    pub(super) fn last(&self) -> u64 {
        self.last.as_ref().map_or(0, |outcome| outcome.number)
    }

    pub(super) fn drop_call(&mut self) {
        self.call = None;
    }

    pub(super) fn retain_reports(&mut self, keep: impl Fn(Pn) -> bool) {
        self.reports.retain(|pn, _| keep(*pn));
    }

    /// Lets the report be sent again: the parent is another or has forgotten it.
    pub(super) fn report_again(&mut self) {
        self.reported = false;
    }

    /// Notes that a member is gone.
    pub(super) fn lose(&mut self, pn: Pn) {
        if self.call.is_some() || !self.reports.is_empty() {
            self.lost.insert(pn);
        }
    }
}

impl MemberEndpoint {
    /// Starts an operation of the member.
    pub(crate) fn operate(
        &mut self,
        now: Moment,
        operation: &Operation,
        terms: Terms,
    ) -> Result<(), StartError> {
        if !self.is_open() {
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
        self.operations.call = Some(OwnCall {
            call: operation.call(terms),
            expected: self.roster.pns(),
            gathered: operation.contribution(self.pn),
        });
        if !self.try_switches(operation, terms) {
            self.announce_payload(now);
            self.try_report(now);
        }
        Ok(())
    }

    /// Begins a new round, as the new root.
    pub(super) fn begin_round(&mut self, now: Moment) {
        self.operations.round += 1;
        self.collect_again(now, None);
    }

    /// Handles a neighbour's round and last known operation.
    pub(super) fn handle_round(&mut self, now: Moment, from: Pn, round: u64, decided: u64) {
        let own = self.operations.round;
        if round > own && self.parent.is_none() {
            self.operations.round = round + 1; // of a root that is gone
            self.collect_again(now, None);
        } else if round > own {
            self.operations.round = round;
            self.collect_again(now, Some(from));
        } else if round < own {
            self.send_frame(from, Body::Round { round: own, decided: self.operations.last() });
        }
        if decided < self.operations.last() {
            self.send_outcome(from);
        }
    }

    /// Forwards a new round and drops the reports of earlier ones.
    fn collect_again(&mut self, now: Moment, from: Option<Pn>) {
        let (round, decided) = (self.operations.round, self.operations.last());
        self.operations.reports.retain(|_, report| report.round >= round);
        self.operations.reported = false;
        self.drop_pieces_of_earlier_rounds(round);
        let others =
            self.neighbors.iter().filter(|(pn, one)| one.edge.is_met() && Some(**pn) != from);
        let others: Vec<Pn> = others.map(|(pn, _)| *pn).collect();
        others.into_iter().for_each(|pn| self.send_frame(pn, Body::Round { round, decided }));
        self.try_report(now);
    }

    /// Handles the contributions of a neighbour's side.
    pub(super) fn handle_report(&mut self, now: Moment, from: Pn, report: Report) {
        if self.parent == Some(from) || report.round != self.operations.round {
            return;
        }
        if report.number <= self.operations.last() {
            return self.send_outcome(from);
        }
        if report.number == self.operations.last() + 1 {
            self.leave_run(now); // that side uses the tree
        }
        self.expect_payload(now, &report.gathered);
        self.operations.reports.insert(from, report);
        self.try_report(now);
    }

    /// Reports, or decides at the root, once all members on this side have contributed.
    pub(super) fn try_report(&mut self, now: Moment) {
        let number = self.operations.last() + 1;
        if self.operations.reported || !self.is_active() || self.operations.switches.is_running() {
            return;
        }
        let below = self.neighbors.iter().filter(|(pn, _)| self.parent != Some(**pn));
        let mut below = below.filter(|(_, one)| one.may_take_part()).map(|(pn, _)| pn);
        let reported =
            |pn: &Pn| self.operations.reports.get(pn).is_some_and(|report| report.number == number);
        if !below.all(reported) || (self.is_open() && self.operations.call.is_none()) {
            return;
        }
        let Some(mut report) = self.merged(number) else { return };
        if !self.has_payload(&mut report) {
            return;
        }
        match self.parent {
            None => self.decide(now, report),
            Some(parent) if self.neighbors.get(&parent).is_some_and(Neighbor::is_ready) => {
                self.operations.reported = true;
                self.operations.query_interval = self.limits.retry;
                self.operations.query_at = now.after(self.limits.retry);
                self.send_frame(parent, Body::Report(report));
                self.schedule_tick(now);
            }
            Some(_) => {}
        }
    }

    /// Merges the contributions of this side; `None` if there are none.
    fn merged(&self, number: u64) -> Option<Report> {
        let round = self.operations.round;
        let lost = BTreeSet::new();
        let own = self.operations.call.as_ref().filter(|_| self.is_open()).map(|called| Report {
            number,
            round,
            call: called.call,
            other: None,
            included: BTreeSet::from([self.pn]),
            newest: self.joined,
            expected: called.expected.clone(),
            lost,
            gathered: self
                .announced(number, &called.gathered)
                .unwrap_or_else(|| called.gathered.clone()),
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
            if merged.gathered.bytes() > self.limits.gathered {
                merged.gathered = Gathered::TooLong;
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
        // Otherwise it would overtake the roster changes, which go down the tree (MSG-4).
        let is_carried = all_are_in && self.multicast_outcome(now, round, &outcome);
        let is_announced = is_carried && self.limits.relies_on_multicast;
        let origin = if is_announced { OutcomeSource::Announced } else { OutcomeSource::Decided };
        self.conclude(now, origin, &outcome);
    }

    /// Sends an outcome on the multicast connection, as one packet or in pieces; returns whether it
    /// was sent.
    fn multicast_outcome(&mut self, now: Moment, round: u64, outcome: &Arc<Outcome>) -> bool {
        if !self.multicast {
            return false;
        }
        let notice = Notice::Decided { round, outcome: self.brief(outcome) };
        let packet = Packet { gn: self.gn, notice };
        if packet.encode().len() <= self.limits.packet {
            return self.multicast(true, packet.notice);
        }
        self.limits.relies_on_multicast && self.announce_in_pieces(now, round, outcome)
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
            failed.insert(call.peer); // there is nothing to send without it
        }
        if !failed.is_empty() && (call.on_failure == OnFailure::Fail || !has_source) {
            return Err(OperationError::MembersFailed { failed });
        }
        if report.gathered == Gathered::TooLong {
            return Err(OperationError::TooLong { limit: self.limits.gathered });
        }
        let settled = report.gathered.clone().settle(call);
        settled.map_err(|(one, other)| OperationError::Differ { one, other })
    }

    /// Handles an outcome from a neighbour, or from the multicast connection (`None`).
    pub(crate) fn handle_outcome(
        &mut self,
        now: Moment,
        from: Option<Pn>,
        round: u64,
        outcome: &Arc<Outcome>,
    ) {
        // An outcome of an earlier round is sent again in the present one.
        if round >= self.operations.round && outcome.number > self.operations.last() {
            let is_brief = matches!(outcome.verdict, Ok(Gathered::Announced(_)));
            let Some(outcome) = self.with_payload(now, round, outcome) else { return };
            // Others get a brief outcome as this member did.
            let origin = match from.filter(|_| !is_brief) {
                Some(neighbor) => OutcomeSource::Neighbor(neighbor),
                None if self.parent.is_some() => OutcomeSource::Multicast,
                None => OutcomeSource::Decided,
            };
            self.conclude(now, origin, &outcome);
        }
    }

    /// Ends an operation here and forwards its outcome.
    pub(super) fn conclude(&mut self, now: Moment, origin: OutcomeSource, outcome: &Arc<Outcome>) {
        self.drop_run();
        self.drop_pieces_before(outcome.number);
        let operations = &mut self.operations;
        operations.last = Some(outcome.clone());
        operations.concluded_at = now;
        operations.reports.retain(|_, report| report.number > outcome.number);
        operations.lost.clear();
        operations.reported = false;
        // A call that came too late for this operation is for the next. The participant may have
        // been a predecessor.
        if outcome.participants.contains(&self.pn)
            && outcome.newest >= self.joined
            && let Some(called) = operations.call.take()
        {
            let (gn, pn, call) = (self.gn, self.pn, called.call);
            let (outcome, by_switches) = (outcome.clone(), origin == OutcomeSource::Switches);
            self.out.push_back(Output::Ended { gn, pn, call, outcome, by_switches });
        }
        let others = self.neighbors.iter().filter(|(pn, one)| {
            let wanted = match origin {
                OutcomeSource::Decided => true,
                OutcomeSource::Neighbor(from) => **pn != from,
                OutcomeSource::Announced | OutcomeSource::Multicast => misses_multicast(one, now),
                OutcomeSource::Switches => !outcome.participants.contains(pn),
            };
            one.edge.is_met() && one.may_take_part() && wanted
        });
        let others: Vec<Pn> = others.map(|(pn, _)| *pn).collect();
        others.into_iter().for_each(|pn| self.send_outcome(pn));
        self.try_report(now);
    }

    /// Sends a neighbour the last outcome, after the roster.
    pub(super) fn send_outcome(&mut self, to: Pn) {
        let Some(outcome) = self.operations.last.clone() else { return };
        self.has_all_pieces(to, outcome.number);
        let Some(neighbor) = self.neighbors.get_mut(&to) else { return };
        neighbor.edge = neighbor.edge.next(EdgeEvent::Outcome);
        if neighbor.is_ready() {
            self.send_frame(to, Body::Decided { round: self.operations.round, outcome });
        }
    }

    /// Handles a query for an outcome; multicast has missed the sender.
    pub(super) fn handle_query(&mut self, now: Moment, from: Pn, number: u64) {
        let last = self.operations.last();
        let hears = self.neighbors.get(&from).is_some_and(|one| one.is_heard_by(now));
        let relies = hears && self.limits.relies_on_multicast;
        if number > last {
            // It asks for the others, if multicast does not bring them.
            match self.first_piece(number).filter(|_| relies) {
                Some(piece) => self.send_frame(from, Body::Piece(piece)),
                None => self.note_query(now, number),
            }
            return;
        }
        let has_begun = relies && self.operations.concluded_at.after(UNDER_WAY) > now;
        let piece = self.first_piece(last);
        if relies && number == last && piece.as_ref().is_some_and(|one| one.of.source().is_some()) {
            return self.send_brief_outcome(from); // it asks for what it lacks of the payload
        }
        match piece.filter(|_| has_begun) {
            Some(piece) => return self.send_frame(from, Body::Piece(piece)),
            None if has_begun => {}
            None => self.distrust(now, from),
        }
        self.send_outcome(from);
    }

    /// Queries the outcome of the reported operation when due; returns whether to tick again.
    pub(super) fn query_outcome(&mut self, now: Moment) -> bool {
        let Some(parent) = self.parent.filter(|_| self.operations.reported) else { return false };
        if self.is_collecting(self.operations.last() + 1) {
            return true; // what is missing is asked for
        }
        if self.operations.query_at <= now {
            self.operations.query_interval =
                (self.operations.query_interval * 2).min(MAX_QUERY_INTERVAL);
            self.operations.query_at = now.after(self.operations.query_interval);
            self.send_frame(parent, Body::Query { number: self.operations.last() + 1 });
        }
        true
    }
}
