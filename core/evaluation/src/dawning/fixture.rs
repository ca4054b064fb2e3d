//! FT(8, 3), and how a load is run on it.

use std::ops::Range;

use fabricast_simulator::{
    Finished, Model, MulticastPolicy, Network, Routes, RunError, Simulator, Streams, StreamsSpec,
    m_port_n_tree,
};
use fabricast_topology::{FatTree, Graph};

use crate::hardware::Dawning;
use crate::routing::Refusal;

/// The Dawning 5000 fabric that every run uses.
#[derive(Clone)]
pub(super) struct Fixture {
    pub(super) graph: Graph,
    pub(super) tree: FatTree,
    pub(super) model: Model,
    /// Reading of the registers where it is not swept, every so often and known as long after it.
    pub(super) reading_ps: u64,
    /// Virtual channels of unicast and of multicast.
    pub(super) channels: [Range<u8>; 2],
}

/// Measurements of one window of a run.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Bytes of copies of multicast packets that an endpoint received, in parts of its link's rate.
    pub(super) throughput: f64,
    /// Multicast packets that have arrived everywhere, from the start on.
    pub(super) finished: Vec<Finished>,
    /// The deadlock that ended it.
    pub(super) deadlock: Option<String>,
}

/// Part of a run that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The end of the warm-up.
    pub(super) from_ps: u64,
    pub(super) to_ps: u64,
    /// The run ends when all multicast packets have arrived.
    pub(super) to_the_end: bool,
    /// The run records where packets wait.
    pub(super) trails: bool,
}

impl Fixture {
    pub(super) fn new(hardware: &Dawning) -> Result<Self, Refusal> {
        let graph = m_port_n_tree(8, 3)?;
        let tree = FatTree::detect(&graph)?;
        let model = hardware.link.model(MulticastPolicy::Bulletin);
        let reading_ps = u64::from(hardware.registers.reading_us) * 1_000_000;
        Ok(Self { graph, tree, model, reading_ps, channels: [0..1, 0..1] })
    }

    /// Makes the same fabric with other buffers, and with so many channels for unicast and
    /// multicast together.
    pub(super) fn with(&self, buffer_bytes: u32, channels: u8) -> Self {
        let model = Model { buffer_bytes, channels, ..self.model };
        Self { model, channels: [0..channels, 0..channels], ..self.clone() }
    }

    /// Runs a load, to its end or to that of the span.
    pub(super) fn run(
        &self,
        model: Model,
        spec: StreamsSpec,
        span: Span,
    ) -> Result<Window, Refusal> {
        let Span { from_ps, to_ps, to_the_end, trails } = span;
        let mut routes = Routes::new();
        let streams = Streams::new(&self.graph, &self.tree, &mut routes, spec)?;
        let network = Network { graph: &self.graph, fat_tree: &self.tree, routes: &routes };
        let mut simulator = Simulator::new(network, model, streams)?;
        if trails {
            simulator.record_trails();
        }
        let mut deadlock = None;
        let mut at_ps = from_ps;
        loop {
            match simulator.run_sampled_until(at_ps) {
                Ok(()) => {}
                Err(RunError::Deadlock(circle)) => {
                    deadlock = Some(circle.to_string());
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            if at_ps == from_ps {
                simulator.workload_mut().count_from(from_ps);
            }
            if at_ps >= to_ps || (to_the_end && simulator.workload().is_done()) {
                break;
            }
            at_ps = to_ps.min(at_ps + 10_000_000);
        }
        let received = simulator.workload().received();
        let span_ps = simulator.now_ps().saturating_sub(received.since_ps).max(1);
        let room = self.graph.endpoint_count() as f64 * span_ps as f64;
        let sent_ps = received.multicast_bytes as f64 * model.ps_per_byte as f64;
        let finished = simulator.workload().finished().to_vec();
        Ok(Window { throughput: sent_ps / room, finished, deadlock })
    }
}

#[cfg(test)]
mod tests {
    use fabricast_routing::RootPolicy;

    use super::super::loads::all_to_many;
    use super::*;
    use crate::hardware::Hardware;

    const SPAN: Span =
        Span { from_ps: 300_000_000, to_ps: 719_430_400, to_the_end: false, trails: false };

    /// Far from saturation everything offered arrives: here a quarter of every link, over an
    /// interval of the sources.
    #[test]
    fn throughput_is_what_is_offered_where_that_is_little() {
        let fixture = Fixture::new(&Hardware::ours().dawning).unwrap();
        let spec = all_to_many(&fixture, 64, RootPolicy::Cyclic, 25, 1);
        let window = fixture.run(fixture.model, spec, SPAN).unwrap();
        assert!((0.24..=0.26).contains(&window.throughput), "{}", window.throughput);
        assert_eq!(window.deadlock, None);
    }

    /// The naive policy ends in a deadlock, which is told and not an error.
    #[test]
    fn holding_outputs_one_by_one_ends_in_a_named_deadlock() {
        let fixture = Fixture::new(&Hardware::ours().dawning).unwrap();
        let model = Model { multicast: MulticastPolicy::HoldAndWait, ..fixture.model };
        let spec = all_to_many(&fixture, 64, RootPolicy::Cyclic, 100, 1);
        let deadlock = fixture.run(model, spec, SPAN).unwrap().deadlock.unwrap();
        assert!(deadlock.contains("holds P") && deadlock.contains("wants P"), "{deadlock}");
    }
}
