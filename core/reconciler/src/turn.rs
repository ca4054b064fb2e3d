//! The stages of a turn (rule R5): plan, record choices, read back, additions, reports, swaps,
//! removals.
//!
//! ```text
//! Idle ─► Compare ─► Record ─► ReadBack ─► RemoveRebuilt ─► Add ─► Report ─► Swap ─► Remove ─► End
//!          │                                                        ▲   ┌──────┘        ▲      │
//!          └► Idle                                                  └───┴─► Withdraw ───┘      ▼
//!                                                                                             Idle
//! ```
//!
//! A stage without calls is passed at once. Any stage may end the turn with an error.

use std::collections::VecDeque;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_groups::ids::{Gn, Revision};
use fabricast_topology::Graph;
use thiserror::Error;

use crate::drain::Drain;
use crate::interface::{
    CallError, ErrorKind, GroupRoute, Output, Reply, RouteReport, TurnEnd, WriteReason,
};
use crate::planner::{Handover, RouteOverlap};
use crate::reconciler::{ChangedRoutes, Reconciler};
use crate::recorded::ChoiceReport;
use crate::switch_agents::{Comparing, Outcome, ProgramError, ReadBack, Writing};
use crate::table_state::{EntryPoint, Senders, Tables, Writes};

/// Most routes in one report.
const ROUTES_PER_REPORT: usize = 2000;

/// Work that is carried out, and what the later stages need.
#[derive(Debug, Default)]
pub(crate) enum Stage {
    /// Nothing is carried out.
    #[default]
    Idle,
    /// Some tables are compared, between turns.
    Compare(CompareStage),
    /// Choices are made durable.
    Record(ChoiceReport),
    /// Agents in doubt are read.
    ReadBack(ReadBack),
    /// Entries are removed that an engine has given to another tree of the same color.
    RemoveRebuilt(Writing, Undone),
    /// First phase of the tables.
    Add(Writing, Undone),
    /// Routes are reported.
    Report(Reporting, AfterReport),
    /// Second phase of the tables.
    Swap(Writing),
    /// Routes are withdrawn that all swaps wait for.
    Withdraw(Reporting, Writes),
    /// Third phase of the tables.
    Remove(Writing),
    /// The TIC is told that MGIDs may be used again.
    Release(RouteReport),
    /// The turn is over.
    End(TurnEnd),
}

/// A comparison of tables.
#[derive(Debug)]
pub(crate) struct CompareStage {
    pub(crate) tables: Comparing,
    /// Time until the next comparison.
    pause: Duration,
    is_turn_due: bool,
}

/// Results of the first stages. The turn goes on as far as possible, and fails
/// afterwards.
#[derive(Debug, Default)]
pub(crate) struct Undone {
    read_back: Outcome,
    added: Outcome,
}

/// Work that follows a report.
#[derive(Debug)]
pub(crate) struct AfterReport {
    undone: Undone,
    /// Swaps that wait.
    swaps: Writes,
}

/// Reports of some routes.
#[derive(Debug, Default)]
pub(crate) struct Reporting {
    parts: VecDeque<Vec<GroupRoute>>,
    /// GNs of reported groups whose entries are still to be swapped.
    before_swap: Vec<Gn>,
}

/// Reason why a turn did not reach its end.
#[derive(Debug, Error)]
enum TurnError {
    /// A newer route service is active; this one must not write any more.
    #[error("a newer route service is active")]
    Deposed,
    /// The reconciler must start again with the new topology.
    #[error("the topology of the TIC has changed")]
    OtherTopology,
    /// Tables were not read or written.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The TIC did not take a report.
    #[error("report to the TIC: {message}")]
    Report { message: String },
    /// The TIC did not record choices.
    #[error("choices not recorded: {message}")]
    Choices { message: String },
}

impl From<TurnError> for TurnEnd {
    fn from(error: TurnError) -> Self {
        match error {
            TurnError::Deposed => Self::Deposed,
            TurnError::OtherTopology => Self::OtherTopology,
            TurnError::Program(_) | TurnError::Report { .. } | TurnError::Choices { .. } => {
                Self::Incomplete(error.to_string())
            }
        }
    }
}

impl Reconciler {
    /// Starts the work that is due.
    pub(crate) fn begin_work(&mut self, now: Moment) {
        if !matches!(self.stage, Stage::Idle) {
            return;
        }
        let is_turn_due = self.is_turn_due(now);
        if now >= self.read_back_at {
            let (count, pause) = self.pace();
            let tables = self.agents.start_comparing(count, &self.dead);
            self.stage = Stage::Compare(CompareStage { tables, pause, is_turn_due });
        } else if is_turn_due {
            self.stage = self.begin_turn(now);
        }
    }

    /// Goes on until there is an output or nothing to do.
    pub(crate) fn advance(&mut self, now: Moment) {
        while self.output.is_none() && !matches!(self.stage, Stage::Idle) {
            self.output = self.next_call();
            if self.output.is_none() {
                let stage = std::mem::take(&mut self.stage);
                self.stage =
                    self.after(stage, now).unwrap_or_else(|error| Stage::End(error.into()));
            }
        }
    }

    /// The next call of the present stage; `None` if it is done.
    fn next_call(&mut self) -> Option<Output> {
        match &mut self.stage {
            Stage::Idle => None,
            Stage::Compare(work) => work.tables.next_call(),
            Stage::Record(report) => Some(Output::Record(report.clone())),
            Stage::ReadBack(work) => self.agents.next_reading(work),
            Stage::RemoveRebuilt(work, _)
            | Stage::Add(work, _)
            | Stage::Swap(work)
            | Stage::Remove(work) => work.next_call(),
            Stage::Report(work, _) | Stage::Withdraw(work, _) => {
                let routes = work.parts.front()?.clone();
                // A report that was given up and arrives late is refused.
                self.generation += 1;
                let generation = self.generation;
                Some(Output::Report(RouteReport { generation, routes, clean: Revision(0) }))
            }
            Stage::Release(report) => Some(Output::Report(report.clone())),
            Stage::End(end) => Some(Output::EndTurn(end.clone())),
        }
    }

    /// Reason why the present stage writes entries; `None` if it does not.
    pub(crate) fn write_reason(&self) -> Option<WriteReason> {
        match &self.stage {
            Stage::ReadBack(_) => Some(WriteReason::ShowTerm),
            Stage::RemoveRebuilt(..) => Some(WriteReason::ReplacedTree),
            Stage::Add(..) => Some(WriteReason::Addition),
            Stage::Swap(_) => Some(WriteReason::Swap),
            Stage::Remove(_) => Some(WriteReason::Removal),
            Stage::Idle
            | Stage::Compare(_)
            | Stage::Record(_)
            | Stage::Report(..)
            | Stage::Withdraw(..)
            | Stage::Release(_)
            | Stage::End(_) => None,
        }
    }

    /// Takes the answer to a call of a stage; returns the stage that goes on.
    pub(crate) fn replied(&mut self, mut stage: Stage, reply: Reply, now: Moment) -> Stage {
        let failed = match (&mut stage, reply) {
            (Stage::Compare(work), Reply::Read(read)) => {
                self.agents.compared(&mut work.tables, read);
                None
            }
            (Stage::Record(_), Reply::Recorded(Ok(()))) => {
                self.choices.confirm();
                return self.begin_read_back();
            }
            (Stage::Record(_), Reply::Recorded(Err(error))) => Some(record_error(error)),
            (Stage::ReadBack(work), Reply::Listed(switches)) => {
                self.agents.listed(work, switches);
                None
            }
            (Stage::ReadBack(work), Reply::Written(written)) => {
                self.agents.fenced(work, written);
                None
            }
            (Stage::ReadBack(work), Reply::Read(read)) => {
                self.agents.read(work, read);
                None
            }
            (
                Stage::RemoveRebuilt(work, _)
                | Stage::Add(work, _)
                | Stage::Swap(work)
                | Stage::Remove(work),
                Reply::Written(written),
            ) => {
                work.written(&mut self.agents, written);
                None
            }
            (Stage::Report(work, _) | Stage::Withdraw(work, _), Reply::Reported(reported)) => {
                self.reported(work, reported, now)
            }
            (Stage::Release(_), Reply::Reported(Ok(()))) => {
                self.directory.mgids_held_back = false;
                return self.complete(now);
            }
            (Stage::Release(_), Reply::Reported(Err(error))) => Some(report_error(error)),
            // An answer that nobody waits for.
            (_, _) => None,
        };
        failed.map_or(stage, |error| Stage::End(error.into()))
    }

    /// Takes the answer to one part of a report.
    fn reported(
        &mut self,
        work: &mut Reporting,
        reported: Result<(), CallError>,
        now: Moment,
    ) -> Option<TurnError> {
        let part = work.parts.pop_front()?;
        match reported {
            Ok(()) => {
                part.into_iter().for_each(|route| self.note_reported(route, now));
                None
            }
            Err(error) => {
                self.note_unconfirmed(&part);
                self.end_report(work);
                Some(report_error(error))
            }
        }
    }

    /// The stage after one that has no more calls.
    fn after(&mut self, stage: Stage, now: Moment) -> Result<Stage, TurnError> {
        match stage {
            // These go on with the answer to their call.
            Stage::Idle | Stage::Record(_) | Stage::Release(_) | Stage::End(_) => Ok(Stage::Idle),
            Stage::Compare(CompareStage { tables, pause, is_turn_due }) => {
                // Counted from the end, so that slow switches leave time for events in between.
                self.read_back_at = now.after(pause);
                let is_turn_due = is_turn_due || tables.wants_turn();
                Ok(if is_turn_due { self.begin_turn(now) } else { Stage::Idle })
            }
            Stage::ReadBack(work) => {
                let read_back = work.into_outcome();
                if read_back.deposed {
                    return Err(TurnError::Deposed);
                }
                let undone = Undone { read_back, ..Undone::default() };
                let tables = self.agents.tables();
                let removals = match self.planner.status().engine.plan_depends_on_history() {
                    true => tables.removals_of_rebuilt_trees(self.planner.graph()),
                    false => Writes::new(),
                };
                Ok(Stage::RemoveRebuilt(self.write(removals), undone))
            }
            Stage::RemoveRebuilt(work, undone) => {
                check(work.into_outcome())?;
                if self.senders_hear_of_reports() {
                    self.drain.expire(now);
                }
                let additions = self.phase(Tables::additions);
                Ok(Stage::Add(self.write(additions), undone))
            }
            Stage::Add(work, undone) => {
                let undone = Undone { added: work.into_outcome(), ..undone };
                Ok(self.report(undone, now))
            }
            Stage::Report(mut work, AfterReport { undone, swaps }) => {
                self.end_report(&mut work);
                check(undone.read_back)?;
                check(undone.added)?;
                Ok(self.begin_swaps(swaps, now))
            }
            Stage::Swap(work) => {
                check(work.into_outcome())?;
                Ok(self.report(Undone::default(), now))
            }
            Stage::Withdraw(_, swaps) => Ok(self.begin_removals(&swaps, now)),
            Stage::Remove(work) => {
                check(work.into_outcome())?;
                Ok(self.begin_release(now))
            }
        }
    }

    /// Starts a turn: plans what changed.
    fn begin_turn(&mut self, now: Moment) -> Stage {
        self.turn_started = now;
        self.retry_at = None;
        for event in self.debounce.take() {
            self.apply(event, now);
        }
        if !self.has_snapshot {
            return Stage::End(TurnEnd::Complete);
        }
        self.plan();
        match self.choices.report(&self.planner, &self.directory) {
            Some(report) => Stage::Record(report),
            None => self.begin_read_back(),
        }
    }

    fn begin_read_back(&mut self) -> Stage {
        // A write of ours that was given up must not arrive after the reading.
        if self.generation > 0 && self.agents.has_unfenced() {
            self.generation += 1;
        }
        Stage::ReadBack(ReadBack::new(self.generation))
    }

    /// Reports the routes that are programmed, and finds the swaps that follow.
    fn report(&mut self, undone: Undone, now: Moment) -> Stage {
        let swaps = self.phase(Tables::swaps);
        let ChangedRoutes { routes, before_swap } = self.routes_to_report(&swaps, now);
        let reporting = self.reporting(&routes, before_swap);
        Stage::Report(reporting, AfterReport { undone, swaps })
    }

    fn reporting(&mut self, routes: &[GroupRoute], before_swap: Vec<Gn>) -> Reporting {
        self.note_unreported(routes);
        let parts = routes.chunks(ROUTES_PER_REPORT).map(<[GroupRoute]>::to_vec).collect();
        Reporting { parts, before_swap }
    }

    fn end_report(&mut self, work: &mut Reporting) {
        for gn in std::mem::take(&mut work.before_swap) {
            self.planner.note_reported_early(gn);
        }
    }

    /// Writes the swaps that no sender is in the way of. If there are none, and none is delayed by
    /// senders that were told another route, withdraws the routes that all swaps wait for.
    fn begin_swaps(&mut self, swaps: Writes, now: Moment) -> Stage {
        if swaps.is_empty() || !self.senders_hear_of_reports() {
            return self.begin_removals(&swaps, now);
        }
        let is_settled = |point: &EntryPoint| self.drain.is_settled(point);
        let ready = self.handover().ready_swaps(&swaps, is_settled);
        if !ready.is_empty() {
            return Stage::Swap(self.write(ready));
        }
        if self.drain.delays(&swaps) {
            return self.begin_removals(&swaps, now);
        }
        let withdrawals = self.handover().withdrawals(&swaps);
        Stage::Withdraw(self.reporting(&withdrawals, Vec::new()), swaps)
    }

    /// Removes the entries that no member can need any more, but for those to be swapped.
    fn begin_removals(&mut self, swaps: &Writes, now: Moment) -> Stage {
        if !self.senders_hear_of_reports() {
            return self.complete(now);
        }
        self.retiring.expire(now, self.drained(now), swaps);
        let mut removals = self.agents.tables().removals();
        removals.retain(|switch, writes| {
            let swaps = swaps.get(switch).map_or(&[][..], |swaps| swaps);
            writes.retain(|write| {
                let is_swap = swaps.iter().any(|swap| swap.at(*switch) == write.at(*switch));
                !is_swap && !self.retiring.needs(*switch, write.color)
            });
            !writes.is_empty()
        });
        Stage::Remove(self.write(removals))
    }

    /// Tells the TIC, once the tables are clean, that MGIDs of ended groups may be used again.
    fn begin_release(&mut self, now: Moment) -> Stage {
        let is_clean = self.retiring.is_empty() && self.agents.tables().are_equal();
        if !is_clean || !self.directory.mgids_held_back {
            return self.complete(now);
        }
        let (generation, clean) = (self.generation, self.directory.revision);
        Stage::Release(RouteReport { generation, routes: Vec::new(), clean })
    }

    /// Ends a turn that has left nothing undone.
    fn complete(&mut self, now: Moment) -> Stage {
        self.routed_revision = self.directory.revision;
        self.agents.settle_drifts(now);
        self.last_error.clear();
        Stage::End(TurnEnd::Complete)
    }

    /// - `pause`: time until the next attempt, if the turn has failed.
    pub(crate) fn end_turn(&mut self, pause: Duration, now: Moment) {
        let Stage::End(end) = std::mem::take(&mut self.stage) else { return };
        if let TurnEnd::Incomplete(reason) = end {
            self.last_error = reason;
            self.retry_at = Some(now.after(pause));
        }
        self.debounce.turn_ended(self.turn_started, now);
    }

    /// Starts writes with a generation of their own: a write that was given up and arrives late is
    /// refused.
    fn write(&mut self, writes: Writes) -> Writing {
        if writes.is_empty() {
            return Writing::default();
        }
        self.generation += 1;
        Writing::start(&mut self.agents, self.generation, writes, &self.dead)
    }

    /// True if senders hear of all routes that were reported, some time after it. While the TIC is
    /// away they hear nothing, however long it takes.
    fn senders_hear_of_reports(&self) -> bool {
        self.is_connected && self.unconfirmed.is_empty()
    }

    /// Writes of one phase.
    fn phase(&self, writes: fn(&Tables, &Graph, &dyn Senders) -> Writes) -> Writes {
        let senders = ReportedSenders { drain: &self.drain, handover: self.handover() };
        writes(self.agents.tables(), self.planner.graph(), &senders)
    }
}

/// Senders by the routes that were reported.
struct ReportedSenders<'a> {
    drain: &'a Drain,
    handover: Handover<'a>,
}

impl Senders for ReportedSenders<'_> {
    fn are_kept(&self, at: EntryPoint) -> bool {
        self.drain.is_settled(&at) && self.handover.is_kept(at)
    }

    fn are_leaving(&self, at: EntryPoint) -> bool {
        let meets = |overlap| self.handover.meets(at, overlap);
        let leave = self.drain.is_left(&at) || meets(RouteOverlap::Nothing);
        leave && !meets(RouteOverlap::Tree) && !meets(RouteOverlap::Color)
    }
}

fn check(outcome: Outcome) -> Result<(), TurnError> {
    if outcome.deposed {
        return Err(TurnError::Deposed);
    }
    outcome.incomplete.map_or(Ok(()), |error| Err(error.into()))
}

fn report_error(error: CallError) -> TurnError {
    match error.kind {
        ErrorKind::StaleTerm => TurnError::Deposed,
        ErrorKind::StaleFence | ErrorKind::TopologyDiffers | ErrorKind::Other => {
            TurnError::Report { message: error.message }
        }
    }
}

fn record_error(error: CallError) -> TurnError {
    match error.kind {
        // A number that this service has not reached yet was used in its term: only with another
        // term can it go on.
        ErrorKind::StaleTerm | ErrorKind::StaleFence => TurnError::Deposed,
        ErrorKind::TopologyDiffers => TurnError::OtherTopology,
        ErrorKind::Other => TurnError::Choices { message: error.message },
    }
}
