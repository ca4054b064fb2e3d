//! The same trees on the packet-level simulator, where every packet takes links, buffers and
//! switches that it shares with others (§6.1.1, §6.1.2).
//!
//! The pruned fabric has one link upwards from each leaf switch; a seventeenth endpoint there sends
//! as much noise as takes four fifths of it to that of a leaf switch half of the fabric away. How
//! long the noise's packets are is not published: of the powers of two that one is taken that comes
//! nearest to a published number.

use fabricast_simulator::{
    Chance, Collective, CollectiveSpec, Delivery, Model, MulticastPolicy, Network, Offer,
    Operation, Packet, ProcessPlan, Route, Routes, Simulator, TreeId, Workload,
};
use fabricast_topology::{EndpointId, Graph, Peer, PortId};

use super::congestion::FITTED;
use super::timing::{Kind, OF_A_LEAF, OF_A_NODE, Tree, WIDTH};
use crate::experiment::{ExperimentError, Run};
use crate::hardware::{Aggregation, ps};
use crate::routing::{Fabric, Refusal};
use crate::sample::Sample;

/// 512 processes, each with an endpoint of its own.
const WIDE: &str = "kind = 'leaf-spine'\nleaves = 32\nspines = 16\nendpoints_per_leaf = 16\n";
const PRUNED: &str = "kind = 'leaf-spine'\nleaves = 32\nspines = 1\nendpoints_per_leaf = 17\n";
const LEAVES: u32 = 32;

const BYTES: u32 = 8;
/// Lengths that the noise's packets may have.
const LENGTHS: [u32; 7] = [128, 256, 512, 1_024, 2_048, 4_096, 8_192];

/// The mean time of one tree's broadcasts of 8 bytes, in microseconds; with noise of every seed.
#[derive(Clone, Debug)]
pub(super) struct Time {
    pub(super) processes: u32,
    pub(super) kind: Kind,
    pub(super) idle_us: f64,
    pub(super) noisy_us: Sample,
}

/// Latencies of all trees, in microseconds.
pub(super) struct Simulated {
    /// Bytes of a packet of the noise.
    pub(super) noise_bytes: u32,
    pub(super) times: Vec<Time>,
}

impl Simulated {
    pub(super) fn new(run: &Run<'_>, counts: &[u32]) -> Result<Self, ExperimentError> {
        let at = ExperimentError::at("trees on the simulator");
        Self::measure(run, counts).map_err(at)
    }

    fn measure(run: &Run<'_>, counts: &[u32]) -> Result<Self, Refusal> {
        let wide = BusyFabric::new(WIDE, run)?;
        let pruned = BusyFabric::new(PRUNED, run)?;
        let (processes, published) = FITTED;
        let nomial = Tree::new(Kind::Nomial, processes, WIDTH)?;
        let hierarchical = Tree::new(Kind::Hierarchical, processes, WIDTH)?;
        let mut nearest = (f64::MAX, 0);
        for bytes in LENGTHS {
            let ours = pruned.broadcast_us(&hierarchical, bytes, run.seed)?;
            let lower = 1.0 - ours / pruned.broadcast_us(&nomial, bytes, run.seed)?;
            let apart = (lower - published).abs();
            if apart < nearest.0 {
                nearest = (apart, bytes);
            }
        }
        let noise_bytes = nearest.1;
        let mut times = Vec::new();
        for processes in counts.iter().copied() {
            for kind in Kind::ALL {
                let tree = Tree::new(kind, processes, WIDTH)?;
                let idle_us = wide.broadcast_us(&tree, 0, run.seed)?;
                let seeds = run.all_seeds();
                let noisy_us = seeds.map(|seed| pruned.broadcast_us(&tree, noise_bytes, seed));
                let noisy_us = noisy_us.collect::<Result<_, _>>()?;
                times.push(Time { processes, kind, idle_us, noisy_us });
            }
        }
        Ok(Self { noise_bytes, times })
    }

    /// Finds a time.
    pub(super) fn time(&self, kind: Kind, processes: u32) -> Option<&Time> {
        self.times.iter().find(|time| (time.kind, time.processes) == (kind, processes))
    }

    /// Share by which the hierarchical tree's latency under noise is lower than another's, from 0
    /// to 1, of every seed.
    pub(super) fn lower(&self, than: Kind, processes: u32) -> Option<Sample> {
        let ours = &self.time(Kind::Hierarchical, processes)?.noisy_us;
        let than = &self.time(than, processes)?.noisy_us;
        Some(ours.with(than, |ours, than| 1.0 - ours / than))
    }
}

/// A fabric, and how long it is watched.
struct BusyFabric {
    fabric: Fabric,
    endpoints_per_leaf: u32,
    rounds: u32,
    hardware: Aggregation,
}

impl BusyFabric {
    fn new(text: &str, run: &Run<'_>) -> Result<Self, Refusal> {
        let fabric = Fabric::described("the test fabric", text)?;
        let endpoints_per_leaf = fabric.endpoints() / LEAVES;
        let rounds = if run.quick { 8 } else { 200 };
        let hardware = run.hardware.aggregation;
        Ok(Self { fabric, endpoints_per_leaf, rounds, hardware })
    }

    /// The cost model's constants as a fabric.
    fn model(&self) -> Model {
        self.hardware.link.model(MulticastPolicy::Bulletin)
    }

    /// The mean time of a broadcast and its acknowledgement, with noise in packets of a length or,
    /// at 0, without.
    fn broadcast_us(&self, tree: &Tree, noise_bytes: u32, seed: u64) -> Result<f64, Refusal> {
        let graph = &self.fabric.graph;
        let place = |process| {
            EndpointId(process / OF_A_LEAF * self.endpoints_per_leaf + process % OF_A_LEAF)
        };
        let endpoints: Vec<EndpointId> = (0..tree.processes).map(place).collect();
        let mut routes = Routes::new();
        let multicast: TreeId = routes.add_tree(graph, &ports(graph, &endpoints)?)?;
        let plan = |endpoint: &EndpointId| ProcessPlan { endpoint: *endpoint, groups: vec![0] };
        let processes: Vec<ProcessPlan> = endpoints.iter().map(plan).collect();
        let spec = CollectiveSpec {
            operation: Operation::Broadcast(BYTES),
            rounds: self.rounds,
            header_bytes: self.hardware.adapter.header_bytes,
            fan_in: WIDTH,
            match_ps: ps(self.hardware.adapter.match_ns),
            software_ps: ps(self.hardware.adapter.pause_ns),
            noise_ps: 0,
            seed,
        };
        let parents: Vec<Option<u32>> =
            (0..tree.processes).map(|process| tree.tree.parent(process)).collect();
        let collective =
            Collective::new(spec, &processes, vec![vec![multicast]], graph.endpoint_count())?
                .gathering(0, &parents)?;
        let load = WithNoise::new(self, collective, noise_bytes, seed);
        let fat_tree = self.fabric.fat_tree()?;
        let mut simulator =
            Simulator::new(Network { graph, fat_tree, routes: &routes }, self.model(), load)?;
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

/// Broadcasts, and noise until the last one has ended.
struct WithNoise {
    collective: Collective,
    endpoints_per_leaf: u32,
    bytes: u32,
    /// Mean time from a packet of the noise to the next, so that they take four fifths of a link.
    gap_ps: u64,
    /// By leaf switch: when its next packet is made.
    next_ps: Vec<u64>,
    chance: Vec<Chance>,
}

impl WithNoise {
    fn new(busy: &BusyFabric, collective: Collective, bytes: u32, seed: u64) -> Self {
        let mut chance: Vec<Chance> =
            (0..LEAVES).map(|leaf| Chance::new(seed, leaf.into())).collect();
        let gap_ps = busy.model().sending_ps(bytes) * 5 / 4;
        let next_ps = chance.iter_mut().map(|chance| chance.wait_ps(gap_ps)).collect();
        let endpoints_per_leaf = busy.endpoints_per_leaf;
        Self { collective, endpoints_per_leaf, bytes, gap_ps, next_ps, chance }
    }

    /// Processes of one node hand packets to each other inside it.
    fn within_node(&self, from: EndpointId, packet: Packet) -> Packet {
        let node = |endpoint: EndpointId| {
            let (leaf, slot) =
                (endpoint.0 / self.endpoints_per_leaf, endpoint.0 % self.endpoints_per_leaf);
            (leaf, slot / OF_A_NODE)
        };
        match packet.route {
            Route::Unicast(to) if node(to) == node(from) => {
                Packet { route: Route::Inside(to), ..packet }
            }
            Route::Unicast(_) | Route::Inside(_) | Route::Tree(_) => packet,
        }
    }

    /// The leaf switch whose noise an endpoint makes.
    fn makes_noise(&self, endpoint: EndpointId) -> Option<u32> {
        let (leaf, slot) =
            (endpoint.0 / self.endpoints_per_leaf, endpoint.0 % self.endpoints_per_leaf);
        (slot == OF_A_LEAF).then_some(leaf)
    }
}

impl Workload for WithNoise {
    fn act(&mut self, now_ps: u64, at: EndpointId) -> Option<u64> {
        if self.makes_noise(at).is_some() { None } else { self.collective.act(now_ps, at) }
    }

    fn next(&mut self, now_ps: u64, from: EndpointId, channel: u8) -> Offer {
        let Some(leaf) = self.makes_noise(from) else {
            return match self.collective.next(now_ps, from, channel) {
                Offer::Send(packet) => Offer::Send(self.within_node(from, packet)),
                offer @ (Offer::At(_) | Offer::Nothing) => offer,
            };
        };
        if self.bytes == 0 || self.collective.running() == 0 {
            return Offer::Nothing;
        }
        let next_ps = &mut self.next_ps[leaf as usize];
        let born_ps = *next_ps;
        if born_ps > now_ps {
            return Offer::At(born_ps);
        }
        *next_ps += self.chance[leaf as usize].wait_ps(self.gap_ps);
        let to = (leaf + LEAVES / 2) % LEAVES * self.endpoints_per_leaf + OF_A_LEAF;
        let route = Route::Unicast(EndpointId(to));
        Offer::Send(Packet { route, bytes: self.bytes, born_ps, tag: 0 })
    }

    fn delivered(&mut self, now_ps: u64, delivery: &Delivery) {
        if self.makes_noise(delivery.to).is_none() {
            self.collective.delivered(now_ps, delivery);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;

    fn busy(text: &str) -> BusyFabric {
        let fabric = Fabric::described("the test fabric", text).unwrap();
        let endpoints_per_leaf = fabric.endpoints() / LEAVES;
        let hardware = Hardware::ours().aggregation;
        BusyFabric { fabric, endpoints_per_leaf, rounds: 20, hardware }
    }

    #[test]
    fn a_broadcast_on_one_leaf_switch_takes_the_closed_form() {
        // There and back by one switch, and two children's packets matched, of which the one from
        // the root's own node came first; before them the result.
        let tree = Tree::new(Kind::Ary, 3, WIDTH).unwrap();
        let busy = busy(WIDE);
        let (model, header) = (busy.model(), busy.hardware.adapter.header_bytes);
        let match_ps = ps(busy.hardware.adapter.match_ns);
        let way = 2 * model.zero_load_ps(1, header) + model.sending_ps(BYTES);
        let expected = (way + match_ps + match_ps) as f64 / 1e6;
        let ours = busy.broadcast_us(&tree, 0, 1).unwrap();
        assert!((ours - expected).abs() < 1e-9, "{ours} against {expected}");
    }

    #[test]
    fn two_processes_of_a_node_do_not_use_the_fabric() {
        let tree = Tree::new(Kind::Ary, 2, WIDTH).unwrap();
        let busy = busy(WIDE);
        let ours = busy.broadcast_us(&tree, 0, 1).unwrap();
        let multicast = busy.model().zero_load_ps(1, busy.hardware.adapter.header_bytes + BYTES);
        let expected = (multicast + 2 * ps(busy.hardware.adapter.match_ns)) as f64 / 1e6;
        assert!((ours - expected).abs() < 1e-5, "{ours} against {expected}");
    }

    #[test]
    fn noise_takes_the_share_of_the_link_that_is_said() {
        let busy = busy(PRUNED);
        let tree = Tree::new(Kind::Hierarchical, 64, WIDTH).unwrap();
        let quiet = busy.broadcast_us(&tree, 0, 1).unwrap();
        let noisy = busy.broadcast_us(&tree, 4_096, 1).unwrap();
        // Each of six crossings at least finds a packet under way four times out of five.
        assert!(noisy > quiet + 0.5, "{noisy} against {quiet}");
    }
}
