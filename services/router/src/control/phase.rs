//! What a turn writes in each of its phases (rule R5).

use std::cell::LazyCell;

use fabricast_routing::EngineKind;
use fabricast_rpc::{Reason, reason_of};
use fabricast_topology::Graph;
use tonic::Status;

use super::Control;
use crate::image::{Image, IsKept, Writes};
use crate::outside::Outside;
use crate::programmer::{Fence, Outcome};

impl<O: Outside> Control<O> {
    /// Writes what differs; whatever one switch agent cannot take now does not hold up the others.
    pub(super) async fn program_and_report(&mut self) -> Result<(), String> {
        // A write of ours that was given up must not come after what is read.
        if self.generation > 0 && self.programmer.has_unfenced() {
            self.generation += 1;
        }
        let fence = Fence { term: self.term, generation: self.generation };
        let read_back = self.programmer.read_back(fence).await;
        if read_back.deposed {
            return check(read_back);
        }
        if self.policy.engine != EngineKind::CMr4lmsFixed {
            let replanted =
                self.programmer.held().replanted(self.planner.desired(), self.planner.graph());
            check(self.write(replanted).await)?;
        }
        let additions = self.phase(Image::additions);
        let added = self.write(additions).await;
        let swaps = self.phase(Image::swaps);
        self.report(&swaps).await?;
        check(read_back)?;
        check(added)?;
        if !swaps.is_empty() && self.senders_know() && !self.turn_over(swaps).await? {
            return Ok(());
        }
        if self.senders_know() {
            self.drain.end();
            let removals = self.programmer.held().removals(self.planner.desired());
            check(self.write(removals).await)?;
            self.release_mgids().await?;
        }
        Ok(())
    }

    /// Writes under a generation of its own, so that a write that was given up and arrives late is
    /// refused.
    async fn write(&mut self, writes: Writes) -> Outcome {
        if writes.is_empty() {
            return Outcome::default();
        }
        self.generation += 1;
        let fence = Fence { term: self.term, generation: self.generation };
        self.programmer.write(fence, writes, &self.dead).await
    }

    /// Whether every sender has had the time to hear of its newest color. Without the TIC nobody
    /// hears anything, however long it takes.
    fn senders_know(&self) -> bool {
        self.connected && self.drain.is_over(self.outside.now())
    }

    /// Writes the swaps that nobody is in the way of, or clears the way; whether all are written.
    async fn turn_over(&mut self, swaps: Writes) -> Result<bool, String> {
        let ready = self.planner.ready_swaps(&self.mirror, &self.reported, &swaps);
        if ready.is_empty() {
            let withdrawn = self.planner.withdrawn(&self.mirror, &self.reported, &swaps);
            self.tell(withdrawn).await?;
            return Ok(false);
        }
        check(self.write(ready).await)?;
        let waiting = self.phase(Image::swaps);
        self.report(&waiting).await?;
        if !waiting.is_empty() {
            // Their turn comes when the senders that have just been told know it.
            self.drain.wake(self.outside.now());
        }
        Ok(waiting.is_empty())
    }

    /// Tells the TIC, once the tables are clean, that MGIDs of ended groups may be used again.
    async fn release_mgids(&mut self) -> Result<(), String> {
        if self.mirror.mgids_held_back {
            self.send_report(Vec::new(), self.mirror.revision).await?;
            self.mirror.mgids_held_back = false;
        }
        Ok(())
    }

    /// What is to be written in a phase.
    fn phase(&self, writes: fn(&Image, &Image, &Graph, IsKept<'_>) -> Writes) -> Writes {
        let points = || self.planner.kept_points(&self.mirror, &self.reported);
        let kept = LazyCell::new(points); // hardly ever asked for
        let (held, desired) = (self.programmer.held(), self.planner.desired());
        writes(held, desired, self.planner.graph(), &|at| {
            self.drain.is_settled(&at) && kept.contains(&at)
        })
    }
}

/// What a turn ends with when a newer route service is at work.
pub(super) const DEPOSED: &str = "deposed";

fn check(outcome: Outcome) -> Result<(), String> {
    if outcome.deposed {
        return Err(DEPOSED.to_owned());
    }
    outcome.incomplete.map_or(Ok(()), Err)
}

pub(super) fn report_failed(status: &Status) -> String {
    if reason_of(status).as_deref() == Some(Reason::StaleTerm.text()) {
        return DEPOSED.to_owned();
    }
    format!("report to the TIC: {}", status.message())
}
