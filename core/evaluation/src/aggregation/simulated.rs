//! The same trees on the packet-level simulator, where every packet takes links, buffers and
//! switches that it shares with others (§6.1.1, §6.1.2).
//!
//! The pruned fabric has one link upwards from each leaf switch. Noise is what it leaves of that
//! link, both ways: a rate. The paper's rate is not published: it is fitted to one published
//! number, and the others are left to come out.

use fabricast_simulator::{
    Collective, CollectiveSpec, Delivery, Model, MulticastPolicy, Network, Offer, Operation,
    Packet, ProcessPlan, Route, Routes, Simulator, TreeId, Workload,
};
use fabricast_topology::{EndpointId, Graph, Peer, PortId};

use super::congestion::FITTED;
use super::timing::{Kind, OF_A_NODE, Tree, WIDTH};
use crate::experiment::{ExperimentError, Run};
use crate::hardware::{Aggregation, ps};
use crate::routing::{Fabric, Refusal};

/// 512 processes, each with an endpoint of its own.
pub(super) const WIDE: &str =
    "kind = 'leaf-spine'\nleaves = 32\nspines = 16\nendpoints_per_leaf = 16\n";
const PRUNED: &str = "kind = 'leaf-spine'\nleaves = 32\nspines = 1\nendpoints_per_leaf = 16\n";

const BYTES: u32 = 8;
/// Slowest rate that the fit tries: a thousandth of a link.
const MOST_SLOWER: u64 = 1_000;

/// The mean time of one tree's broadcasts of 8 bytes, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) processes: u32,
    pub(super) kind: Kind,
    pub(super) idle_us: f64,
    pub(super) noisy_us: f64,
}

/// Latencies of all trees, in microseconds.
pub(super) struct Simulated {
    /// Gigabytes per second that noise leaves of a leaf switch's link.
    pub(super) left_gb_per_s: f64,
    /// Share by which the hierarchical tree of the fit is lower with a fifth of our own links left,
    /// from 0 to 1.
    pub(super) lower_with_a_fifth: f64,
    pub(super) times: Vec<Time>,
}

impl Simulated {
    pub(super) fn new(run: &Run<'_>, counts: &[u32]) -> Result<Self, ExperimentError> {
        let at = ExperimentError::at("trees on the simulator");
        Self::measure(run, counts).map_err(at)
    }

    fn measure(run: &Run<'_>, counts: &[u32]) -> Result<Self, Refusal> {
        let wide = SharedFabric::new(WIDE, run)?;
        let pruned = SharedFabric::new(PRUNED, run)?;
        let (processes, published) = FITTED;
        let nomial = Tree::new(Kind::Nomial, processes, WIDTH)?;
        let hierarchical = Tree::new(Kind::Hierarchical, processes, WIDTH)?;
        let lower = |ps_per_byte| -> Result<f64, Refusal> {
            let ours = pruned.broadcast_us(&hierarchical, BYTES, ps_per_byte)?;
            Ok(1.0 - ours / pruned.broadcast_us(&nomial, BYTES, ps_per_byte)?)
        };
        // The slower a link is, the more it counts to send few packets.
        let whole = pruned.model().ps_per_byte;
        let (mut low, mut high) = (whole, whole * MOST_SLOWER);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if lower(middle)? < published { low = middle } else { high = middle }
        }
        let mut times = Vec::new();
        for processes in counts.iter().copied() {
            for kind in Kind::ALL {
                let tree = Tree::new(kind, processes, WIDTH)?;
                let idle_us = wide.broadcast_us(&tree, BYTES, wide.model().ps_per_byte)?;
                let noisy_us = pruned.broadcast_us(&tree, BYTES, high)?;
                times.push(Time { processes, kind, idle_us, noisy_us });
            }
        }
        let lower_with_a_fifth = lower(5 * whole)?;
        Ok(Self { left_gb_per_s: 1_000.0 / high as f64, lower_with_a_fifth, times })
    }

    /// Finds a time.
    pub(super) fn time(&self, kind: Kind, processes: u32) -> Option<&Time> {
        self.times.iter().find(|time| (time.kind, time.processes) == (kind, processes))
    }

    /// Share by which the hierarchical tree's latency under noise is lower than another's, from 0
    /// to 1.
    pub(super) fn lower(&self, than: Kind, processes: u32) -> Option<f64> {
        let ours = self.time(Kind::Hierarchical, processes)?.noisy_us;
        Some(1.0 - ours / self.time(than, processes)?.noisy_us)
    }
}

/// A fabric, and the constants of its links and adapters.
pub(super) struct SharedFabric {
    pub(super) fabric: Fabric,
    rounds: u32,
    hardware: Aggregation,
}

impl SharedFabric {
    pub(super) fn new(text: &str, run: &Run<'_>) -> Result<Self, Refusal> {
        let fabric = Fabric::described("the test fabric", text)?;
        let rounds = if run.quick { 8 } else { 20 };
        Ok(Self { fabric, rounds, hardware: run.hardware.aggregation })
    }

    /// The cost model's constants as a fabric.
    pub(super) fn model(&self) -> Model {
        self.hardware.link.model(MulticastPolicy::Bulletin)
    }

    /// Rounds of one operation, in which chance has no part.
    pub(super) fn spec(&self, operation: Operation) -> CollectiveSpec {
        CollectiveSpec {
            operation,
            rounds: self.rounds,
            header_bytes: self.hardware.adapter.header_bytes,
            fan_in: WIDTH,
            match_ps: ps(self.hardware.adapter.match_ns),
            software_ps: ps(self.hardware.adapter.pause_ns),
            noise_ps: 0,
            seed: 0, // no chance is left
        }
    }

    /// The mean time of a broadcast and its acknowledgement, in microseconds, where links between
    /// switches send at a rate of their own.
    pub(super) fn broadcast_us(
        &self,
        tree: &Tree,
        bytes: u32,
        ps_per_byte: u64,
    ) -> Result<f64, Refusal> {
        let graph = &self.fabric.graph;
        let endpoints: Vec<EndpointId> = (0..tree.processes).map(EndpointId).collect();
        let mut routes = Routes::new();
        let multicast: TreeId = routes.add_tree(graph, &ports(graph, &endpoints)?)?;
        let plan = |endpoint: &EndpointId| ProcessPlan { endpoint: *endpoint, groups: vec![0] };
        let processes: Vec<ProcessPlan> = endpoints.iter().map(plan).collect();
        let spec = self.spec(Operation::Broadcast(bytes));
        let parents: Vec<Option<u32>> =
            (0..tree.processes).map(|process| tree.tree.parent(process)).collect();
        let collective =
            Collective::new(spec, &processes, vec![vec![multicast]], graph.endpoint_count())?
                .gathering(0, &parents)?;
        let load = InNodes { collective };
        let fat_tree = self.fabric.fat_tree()?;
        let mut simulator =
            Simulator::new(Network { graph, fat_tree, routes: &routes }, self.model(), load)?;
        for port in graph.switches().flat_map(|switch| graph.ports(switch)) {
            if let Peer::Switch(_) = graph.peer(port) {
                simulator.slow_down(port, ps_per_byte);
            }
        }
        simulator.run_until(u64::MAX)?;
        let rounds = simulator.workload().collective.rounds();
        let sum: u64 = rounds.iter().map(|round| round.done_ps - round.begun_ps).sum();
        Ok(sum as f64 / rounds.len() as f64 / 1e6)
    }
}

/// Lists the ports of the multicast tree by way of the first spine switch, rising.
fn ports(graph: &Graph, endpoints: &[EndpointId]) -> Result<Vec<PortId>, Refusal> {
    let attached = endpoints.iter().filter_map(|endpoint| graph.attachment(*endpoint));
    let mut ports: Vec<PortId> = attached.collect();
    let mut leaves: Vec<_> = ports.iter().map(|port| graph.switch_of(*port)).collect();
    leaves.dedup();
    if let [_, _, ..] = leaves[..] {
        for leaf in leaves {
            let mut up = graph.ports(leaf).filter_map(|port| match graph.peer(port) {
                Peer::Switch(other) => Some([port, other]),
                Peer::None | Peer::Endpoint(_) => None,
            });
            ports.extend(up.next().ok_or("a leaf switch has no link upwards")?);
        }
    }
    ports.sort_unstable();
    Ok(ports)
}

/// Broadcasts of processes, two on a node, which hand packets to each other inside it.
struct InNodes {
    collective: Collective,
}

impl Workload for InNodes {
    fn act(&mut self, now_ps: u64, at: EndpointId) -> Option<u64> {
        self.collective.act(now_ps, at)
    }

    fn next(&mut self, now_ps: u64, from: EndpointId, channel: u8) -> Offer {
        match self.collective.next(now_ps, from, channel) {
            Offer::Send(packet) => match packet.route {
                Route::Unicast(to) if to.0 / OF_A_NODE == from.0 / OF_A_NODE => {
                    Offer::Send(Packet { route: Route::Inside(to), ..packet })
                }
                Route::Unicast(_) | Route::Inside(_) | Route::Tree(_) => Offer::Send(packet),
            },
            offer @ (Offer::At(_) | Offer::Nothing) => offer,
        }
    }

    fn delivered(&mut self, now_ps: u64, delivery: &Delivery) {
        self.collective.delivered(now_ps, delivery);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;

    fn shared(text: &str) -> SharedFabric {
        let fabric = Fabric::described("the test fabric", text).unwrap();
        SharedFabric { fabric, rounds: 8, hardware: Hardware::ours().aggregation }
    }

    #[test]
    fn a_broadcast_on_one_leaf_switch_takes_the_closed_form() {
        // There and back by one switch, and two children's packets matched, of which the one from
        // the root's own node came first; before them the result.
        let tree = Tree::new(Kind::Ary, 3, WIDTH).unwrap();
        let fabric = shared(WIDE);
        let (model, header) = (fabric.model(), fabric.hardware.adapter.header_bytes);
        let match_ps = ps(fabric.hardware.adapter.match_ns);
        let way = 2 * model.zero_load_ps(1, header) + model.sending_ps(BYTES);
        let expected = (way + match_ps + match_ps) as f64 / 1e6;
        let ours = fabric.broadcast_us(&tree, BYTES, 0).unwrap();
        assert!((ours - expected).abs() < 1e-9, "{ours} against {expected}");
    }

    #[test]
    fn two_processes_of_a_node_do_not_use_the_fabric() {
        let tree = Tree::new(Kind::Ary, 2, WIDTH).unwrap();
        let fabric = shared(WIDE);
        let ours = fabric.broadcast_us(&tree, BYTES, 0).unwrap();
        let multicast =
            fabric.model().zero_load_ps(1, fabric.hardware.adapter.header_bytes + BYTES);
        let expected = (multicast + 2 * ps(fabric.hardware.adapter.match_ns)) as f64 / 1e6;
        assert!((ours - expected).abs() < 1e-5, "{ours} against {expected}");
    }

    /// Each of 16 processes of one leaf switch sends to process 0 of another: they come one after
    /// the other, and the answer crosses the same two links.
    #[test]
    fn packets_take_the_link_at_the_rate_that_noise_leaves() {
        let fabric = shared(PRUNED);
        let tree = Tree::new(Kind::Ary, 32, WIDTH).unwrap();
        let time = |ps_per_byte| fabric.broadcast_us(&tree, BYTES, ps_per_byte).unwrap();
        let header = u64::from(fabric.hardware.adapter.header_bytes);
        // 100 000 ps a byte, so that the other links and the matching of packets hardly count.
        let (up, down) = (16 * header + header, 2 * (header + u64::from(BYTES)));
        let expected = (up + down) as f64 * 0.1;
        let ours = time(100_000) - time(fabric.model().ps_per_byte);
        assert!((ours / expected - 1.0).abs() < 0.02, "{ours} against {expected}");
    }
}
