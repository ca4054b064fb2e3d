//! The phases of a turn: reading back, additions, reports, swaps, removals (rule R5).

use fabricast_rpc::{Reason, RpcError};
use fabricast_topology::Graph;
use thiserror::Error;

use super::ControlLoop;
use super::drain::Drain;
use crate::choices::RecordError;
use crate::environment::Environment;
use crate::planner::{Handover, RouteOverlap};
use crate::programmer::{Fence, Outcome, ProgramError};
use crate::table_state::{EntryPoint, Senders, Tables, Writes};

/// Why a turn did not reach its end.
#[derive(Debug, Error)]
pub(super) enum TurnError {
    /// A newer route service is active; this one must not write any more.
    #[error("a newer route service is active")]
    Deposed,
    /// The loop must start again with the new topology.
    #[error("the topology of the TIC has changed")]
    OtherTopology,
    /// Tables were not read or written.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The TIC did not take a report.
    #[error("report to the TIC: {message}")]
    Report { message: String },
    /// The TIC did not record choices.
    #[error("choices: {message}")]
    Choices { message: String },
}

impl From<RecordError> for TurnError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Deposed => Self::Deposed,
            RecordError::OtherTopology => Self::OtherTopology,
            RecordError::Failed { message } => Self::Choices { message },
        }
    }
}

impl<O: Environment> ControlLoop<O> {
    /// Writes the difference between held and desired entries, and reports the routes. A switch
    /// agent that does not answer does not hold up the others.
    pub(super) async fn program_and_report(&mut self) -> Result<(), TurnError> {
        // A write of ours that was given up must not arrive after the reading.
        if self.generation > 0 && self.programmer.has_unfenced() {
            self.generation += 1;
        }
        let fence = Fence { term: self.term, generation: self.generation };
        let read_back = self.programmer.read_back(fence).await;
        if read_back.deposed {
            return Err(TurnError::Deposed);
        }
        if self.settings.engine.plan_depends_on_history() {
            let tables = self.programmer.tables();
            let removals = tables.removals_of_rebuilt_trees(self.planner.graph());
            check(self.write(removals).await)?;
        }
        if self.senders_hear_of_reports() {
            self.drain.expire(self.environment.now());
        }
        let additions = self.phase(Tables::additions);
        let added = self.write(additions).await;
        let swaps = self.phase(Tables::swaps);
        self.report(&swaps).await?;
        check(read_back)?;
        check(added)?;
        let waiting = self.write_swaps(swaps).await?;
        self.remove(&waiting).await
    }

    /// Removes the entries that no member can need any more, but for those to be swapped.
    async fn remove(&mut self, swaps: &Writes) -> Result<(), TurnError> {
        if !self.is_connected || !self.unconfirmed.is_empty() {
            return Ok(());
        }
        let now = self.environment.now();
        let until = now.after(self.settings.live.config().drain);
        self.retiring.expire(now, until, swaps);
        let mut removals = self.programmer.tables().removals();
        removals.retain(|switch, writes| {
            let swaps = swaps.get(switch).map_or(&[][..], |swaps| swaps);
            writes.retain(|write| {
                let is_swap = swaps.iter().any(|swap| swap.at(*switch) == write.at(*switch));
                !is_swap && !self.retiring.needs(*switch, write.color)
            });
            !writes.is_empty()
        });
        check(self.write(removals).await)?;
        if self.retiring.is_empty() && self.programmer.tables().are_equal() {
            self.release_mgids().await?;
        }
        Ok(())
    }

    /// Writes with a generation of its own: a write that was given up and arrives late is refused.
    async fn write(&mut self, writes: Writes) -> Outcome {
        if writes.is_empty() {
            return Outcome::default();
        }
        self.generation += 1;
        let fence = Fence { term: self.term, generation: self.generation };
        self.programmer.write(fence, writes, &self.dead).await
    }

    /// True if senders hear of all routes that were reported, some time after it. While the TIC is
    /// away they hear nothing, however long it takes.
    fn senders_hear_of_reports(&self) -> bool {
        self.is_connected && self.unconfirmed.is_empty()
    }

    /// Writes the swaps that no sender is in the way of. If there are none, and none is delayed by
    /// senders that were told another route, withdraws the routes that all swaps wait for. Returns
    /// the swaps that still wait.
    async fn write_swaps(&mut self, mut swaps: Writes) -> Result<Writes, TurnError> {
        while !swaps.is_empty() && self.senders_hear_of_reports() {
            let is_settled = |point: &EntryPoint| self.drain.is_settled(point);
            let ready = self.handover().ready_swaps(&swaps, is_settled);
            if ready.is_empty() {
                if !self.drain.delays(&swaps) {
                    let withdrawals = self.handover().withdrawals(&swaps);
                    self.report_routes(withdrawals).await?;
                }
                break;
            }
            check(self.write(ready).await)?;
            swaps = self.phase(Tables::swaps);
            self.report(&swaps).await?;
        }
        Ok(swaps)
    }

    /// Tells the TIC, once the tables are clean, that MGIDs of ended groups may be used again.
    async fn release_mgids(&mut self) -> Result<(), TurnError> {
        if self.directory.mgids_held_back {
            self.send_report(Vec::new(), self.directory.revision).await?;
            self.directory.mgids_held_back = false;
        }
        Ok(())
    }

    /// Writes of one phase.
    fn phase(&self, writes: fn(&Tables, &Graph, &dyn Senders) -> Writes) -> Writes {
        let senders = ReportedSenders { drain: &self.drain, handover: self.handover() };
        writes(self.programmer.tables(), self.planner.graph(), &senders)
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

pub(super) fn report_error(error: &RpcError) -> TurnError {
    if error.reason() == Some(Reason::StaleTerm) {
        return TurnError::Deposed;
    }
    TurnError::Report { message: error.message().to_owned() }
}
