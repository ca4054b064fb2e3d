//! Calls of the fabric that write aggregation entries and run operations on them.

use fabricast_topology::AggregationEntry;

use crate::aggregation::{
    AggregationError, AggregationLimits, AggregationPlace, AggregationWrite, Contribution,
    ContributionError, FabricState, Finished,
};
use crate::emulator::Emulator;
use crate::table::Fence;

impl Emulator {
    /// Sets the capacity of all aggregation engines, from now on.
    pub fn set_aggregation_limits(&mut self, limits: AggregationLimits) {
        self.aggregation.set_limits(limits);
    }

    /// Changes the aggregation entries of one place, in order, all or none.
    ///
    /// Operations of which a removed entry holds state fail. The place remembers the fence of the
    /// write; an empty batch only sets the fence.
    ///
    /// # Errors
    ///
    /// [`AggregationError`] naming place and change.
    pub fn write_aggregation(
        &mut self,
        place: AggregationPlace,
        fence: Fence,
        writes: &[AggregationWrite],
    ) -> Result<(), AggregationError> {
        let Self { graph, faults, live, aggregation, .. } = self;
        aggregation.write(FabricState { graph, faults, live }, place, fence, writes)
    }

    /// Reads all aggregation entries of one place, by tree.
    ///
    /// # Errors
    ///
    /// [`Unknown`](crate::AggregationProblem::Unknown), [`Dead`](crate::AggregationProblem::Dead).
    pub fn read_aggregation(
        &self,
        place: AggregationPlace,
    ) -> Result<Vec<AggregationEntry>, AggregationError> {
        self.aggregation.read(self.state(), place)
    }

    /// Returns the newest fence that an aggregation write to a place carried.
    ///
    /// # Errors
    ///
    /// As [`Emulator::read_aggregation`].
    pub fn aggregation_fence(&self, place: AggregationPlace) -> Result<Fence, AggregationError> {
        self.aggregation.fence(self.state(), place)
    }

    /// Sends the contribution of one process.
    ///
    /// # Errors
    ///
    /// [`ContributionError`]; nothing was sent.
    pub fn contribute(&mut self, contribution: Contribution) -> Result<(), ContributionError> {
        let Self { graph, faults, live, aggregation, .. } = self;
        aggregation.contribute(FabricState { graph, faults, live }, contribution)
    }

    /// Moves packets until none is in flight; returns the number of links they crossed.
    pub fn run_aggregation(&mut self) -> u64 {
        let mut hops = 0;
        while let Some(hop) = self.step_aggregation() {
            hops += u64::from(hop);
        }
        hops
    }

    /// Moves one packet over a link (`true`), or handles it at its target (`false`); `None` if no
    /// packet is in flight.
    pub fn step_aggregation(&mut self) -> Option<bool> {
        let Self { graph, faults, live, counters, aggregation, .. } = self;
        aggregation.step(FabricState { graph, faults, live }, counters)
    }

    /// Takes the oldest outcome that no caller has taken yet.
    pub fn poll_finished(&mut self) -> Option<Finished> {
        self.aggregation.poll_finished()
    }

    /// Abandons an operation: processes that wait for its result get a failure, and later
    /// contributions are refused. `false` if no process has contributed, or the operation has
    /// ended.
    pub fn abandon(&mut self, tree: u32, sequence: u64) -> bool {
        self.aggregation.abandon(tree, sequence)
    }

    fn state(&self) -> FabricState<'_> {
        FabricState { graph: &self.graph, faults: &self.faults, live: &self.live }
    }
}
