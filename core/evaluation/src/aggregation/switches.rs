//! Switch trees beside adapter trees on the packet-level simulator (§6.2.1).
//!
//! A switch reduces in a unit: an endpoint without a wire between it and its switch. A packet for
//! the unit crosses the switch as any other does, and what the unit sends crosses it once more. The
//! first process's data goes up the tree, stored by every unit on its way, and down by multicast
//! from the root.

use fabricast_simulator::{
    Collective, Delivery, Network, Offer, Operation, Packet, ProcessPlan, Route, Routes, Simulator,
    TreeId, Workload,
};
use fabricast_topology::{
    AdapterFacts, BuildError, EndpointFacts, EndpointId, Graph, GraphBuilder, Peer, PortId,
    SwitchId,
};

use super::parameters::LIMITS;
use super::simulated::{SharedFabric, WIDE};
use super::timing::{self, Kind, OF_A_LEAF, Tree};
use crate::experiment::{ExperimentError, Run};
use crate::routing::{Fabric, Refusal};

/// Bytes of the broadcasts of figure 18.
pub(super) const BROADCASTS: [u32; 2] = [8, 2_048];

/// Mean times of one broadcast on both kinds of trees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) processes: u32,
    pub(super) bytes: u32,
    /// Time on the 64-ary tree, in microseconds.
    pub(super) adapter_us: f64,
    /// Time on the switch tree, in microseconds.
    pub(super) switch_us: f64,
}

/// Times whole broadcasts, for each number of processes those of [`BROADCASTS`].
pub(super) fn measure(run: &Run<'_>, counts: &[u32]) -> Result<Vec<Pair>, ExperimentError> {
    pairs(run, counts).map_err(ExperimentError::at("switch trees on the simulator"))
}

fn pairs(run: &Run<'_>, counts: &[u32]) -> Result<Vec<Pair>, Refusal> {
    let plain = SharedFabric::new(WIDE, run)?;
    let reducing = ReducingFabric::new(&plain)?;
    let mut found = Vec::new();
    for processes in counts.iter().copied() {
        let tree = Tree::new(Kind::Ary, processes, timing::WIDE)?;
        for bytes in BROADCASTS {
            let adapter_us = plain.broadcast_us(&tree, bytes, plain.model().ps_per_byte)?;
            let switch_us = reducing.broadcast_us(processes, bytes)?;
            found.push(Pair { processes, bytes, adapter_us, switch_us });
        }
    }
    Ok(found)
}

/// A fabric whose leaf switches and one switch above them have units.
struct ReducingFabric<'a> {
    plain: &'a SharedFabric,
    fabric: Fabric,
    root: EndpointId,
    /// The unit of each leaf switch.
    leaves: Vec<EndpointId>,
}

/// Nodes of a switch tree from the root on: units, then processes.
struct SwitchTree {
    endpoints: Vec<EndpointId>,
    /// The place of each node's parent.
    parents: Vec<Option<u32>>,
}

impl<'a> ReducingFabric<'a> {
    fn new(plain: &'a SharedFabric) -> Result<Self, Refusal> {
        let graph = &plain.fabric.graph;
        let is_process = |port| matches!(graph.peer(port), Peer::Endpoint(_));
        let leaves = graph.switches().filter(|switch| graph.ports(*switch).any(is_process));
        let leaves: Vec<SwitchId> = leaves.collect();
        let first = *leaves.first().ok_or("the fabric has no leaf switch")?;
        let above = graph.ports(first).find_map(|port| match graph.peer(port) {
            Peer::Switch(far) => Some(graph.switch_of(far)),
            Peer::None | Peer::Endpoint(_) => None,
        });
        let root = above.ok_or("a leaf switch has no link upwards")?;
        let all: Vec<SwitchId> = [root].into_iter().chain(leaves).collect();
        let graph = with_units(graph, &all)?;
        let mut units = graph.endpoints().skip(plain.fabric.graph.endpoint_count());
        let root = units.next().ok_or("the root has no unit")?;
        let leaves = units.collect();
        Ok(Self { plain, fabric: Fabric::from_graph(graph), root, leaves })
    }

    /// Makes the tree that [`timing::switch_tree_us`] follows packets of: every leaf switch with
    /// its processes, or the root alone if it can have all of them as children.
    fn tree(&self, processes: u32) -> SwitchTree {
        let is_flat = processes <= LIMITS.switch_children;
        let used = if is_flat { 0 } else { processes.div_ceil(OF_A_LEAF) };
        let leaves = &self.leaves[..used as usize];
        let mut tree = SwitchTree { endpoints: vec![self.root], parents: vec![None] };
        tree.endpoints.extend(leaves);
        tree.parents.extend(leaves.iter().map(|_| Some(0)));
        tree.endpoints.extend((0..processes).map(EndpointId));
        let above = |process| if is_flat { 0 } else { 1 + process / OF_A_LEAF };
        tree.parents.extend((0..processes).map(|process| Some(above(process))));
        tree
    }

    /// The time of a broadcast of the first process, in microseconds: from when all processes enter
    /// it until all have the data. The mean of the rounds after the first.
    fn broadcast_us(&self, processes: u32, bytes: u32) -> Result<f64, Refusal> {
        let graph = &self.fabric.graph;
        let tree = self.tree(processes);
        let mut routes = Routes::new();
        let up = self.ways_up(&tree, &mut routes)?;
        let down = self.way_down(&tree, &mut routes)?;
        let spec = self.plain.spec(Operation::AllReduce(bytes));
        let plan = |endpoint: &EndpointId| ProcessPlan { endpoint: *endpoint, groups: vec![0] };
        let nodes: Vec<ProcessPlan> = tree.endpoints.iter().map(plan).collect();
        let collective = Collective::new(spec, &nodes, vec![vec![down]], graph.endpoint_count())?
            .gathering(0, &tree.parents)?;
        let with_data = [EndpointId(0), *self.leaves.first().unwrap_or(&self.root)];
        let load = ToUnits { collective, up, with_data, bytes };
        let network = Network { graph, fat_tree: self.fabric.fat_tree()?, routes: &routes };
        let mut simulator = Simulator::new(network, self.plain.model(), load)?;
        for unit in [self.root].iter().chain(&self.leaves) {
            simulator.remove_wire(*unit);
        }
        simulator.run_until(u64::MAX)?;
        // The root ends a round when it sends the result. All processes enter the next one so long
        // after they have it.
        let rounds = simulator.workload().collective.rounds();
        let [first, .., last] = rounds else { return Err("the rounds did not end".into()) };
        let round_ps = (last.done_ps - first.done_ps) as f64 / (rounds.len() - 1) as f64;
        Ok((round_ps - spec.software_ps as f64) / 1e6)
    }

    /// Adds the way of each node to its parent; gives them by endpoint.
    fn ways_up(
        &self,
        tree: &SwitchTree,
        routes: &mut Routes,
    ) -> Result<Vec<Option<TreeId>>, Refusal> {
        let graph = &self.fabric.graph;
        let port_of = |node: EndpointId| graph.attachment(node).ok_or("a node has no link");
        let mut ways = vec![None; graph.endpoint_count()];
        for (node, parent) in tree.endpoints.iter().zip(&tree.parents) {
            let Some(parent) = parent else { continue };
            let into = port_of(tree.endpoints[*parent as usize])?;
            let [from, to] = [port_of(*node)?, into].map(|port| graph.switch_of(port));
            let climb: Vec<PortId> = match from == to {
                true => Vec::new(),
                false => vec![link(graph, from, to)?[0]],
            };
            ways[node.index()] = Some(routes.add_rooted(graph, *node, &climb, &[into])?);
        }
        Ok(ways)
    }

    /// Adds the multicast tree from the root to all other nodes.
    fn way_down(&self, tree: &SwitchTree, routes: &mut Routes) -> Result<TreeId, Refusal> {
        let graph = &self.fabric.graph;
        let attached = tree.endpoints.iter().filter_map(|node| graph.attachment(*node));
        let mut ports: Vec<PortId> = attached.collect();
        let mut switches: Vec<SwitchId> = ports.iter().map(|port| graph.switch_of(*port)).collect();
        let root = *switches.first().ok_or("the tree has no root")?;
        switches.sort_unstable();
        switches.dedup();
        for leaf in switches.into_iter().filter(|switch| *switch != root) {
            ports.extend(link(graph, leaf, root)?);
        }
        ports.sort_unstable();
        Ok(routes.add_tree(graph, &ports)?)
    }
}

/// Finds the two ports of the first link between two switches.
fn link(graph: &Graph, from: SwitchId, to: SwitchId) -> Result<[PortId; 2], Refusal> {
    let ends = graph.ports(from).find_map(|port| match graph.peer(port) {
        Peer::Switch(far) => (graph.switch_of(far) == to).then_some([port, far]),
        Peer::None | Peer::Endpoint(_) => None,
    });
    Ok(ends.ok_or("a leaf switch has no link to the root")?)
}

/// Copies a fabric, every endpoint with an adapter of its own, and adds an endpoint to each of the
/// switches named, in that order.
fn with_units(graph: &Graph, switches: &[SwitchId]) -> Result<Graph, BuildError> {
    let mut builder = GraphBuilder::new();
    for switch in graph.switches() {
        let ports = u8::try_from(graph.ports(switch).len() + 1).expect("fewer than 255 ports");
        let facts = *graph.switch_facts(switch);
        builder.add_switch(graph.switch_name(switch), "", ports, facts);
    }
    let place = |builder: &GraphBuilder, port: PortId| {
        let copied = builder.port(graph.switch_of(port), graph.port_number(port));
        copied.expect("every switch has its ports and one more")
    };
    for port in graph.switches().flat_map(|switch| graph.ports(switch)) {
        match graph.peer(port) {
            Peer::Switch(far) if port < far => {
                let [port, far] = [port, far].map(|end| place(&builder, end));
                builder.link(port, far)?;
            }
            Peer::None | Peer::Endpoint(_) | Peer::Switch(_) => {}
        }
    }
    let attached = graph.endpoints().filter_map(|endpoint| graph.attachment(endpoint));
    let of_processes: Vec<PortId> = attached.map(|port| place(&builder, port)).collect();
    let last = |switch: &SwitchId| {
        let number = u8::try_from(graph.ports(*switch).len() + 1).ok()?;
        builder.port(*switch, number)
    };
    let of_units: Vec<PortId> = switches.iter().filter_map(last).collect();
    for (number, port) in of_processes.into_iter().chain(of_units).enumerate() {
        let facts = AdapterFacts { ports: 1, ..AdapterFacts::default() };
        builder.add_adapter(&format!("H-{number:016x}"), "", facts);
        let endpoint =
            builder.add_endpoint(EndpointFacts { number: 1, ..EndpointFacts::default() });
        builder.attach(endpoint, port)?;
    }
    builder.build()
}

/// Processes and units: packets go up by the way of their sender, and only the first process's has
/// data, and those that units make of it.
struct ToUnits {
    collective: Collective,
    /// By endpoint: the way to the node above it.
    up: Vec<Option<TreeId>>,
    with_data: [EndpointId; 2],
    bytes: u32,
}

impl Workload for ToUnits {
    fn act(&mut self, now_ps: u64, at: EndpointId) -> Option<u64> {
        self.collective.act(now_ps, at)
    }

    fn next(&mut self, now_ps: u64, from: EndpointId, channel: u8) -> Offer {
        let offer = self.collective.next(now_ps, from, channel);
        let (Offer::Send(packet), Some(way)) = (offer, self.up[from.index()]) else {
            return offer; // the root's packets go down
        };
        let empty = if self.with_data.contains(&from) { 0 } else { self.bytes };
        Offer::Send(Packet { route: Route::Tree(way), bytes: packet.bytes - empty, ..packet })
    }

    fn delivered(&mut self, now_ps: u64, delivery: &Delivery) {
        self.collective.delivered(now_ps, delivery);
    }
}

#[cfg(test)]
mod tests {
    use fabricast_simulator::Model;

    use super::*;
    use crate::hardware::{Hardware, ps};

    /// Time of a broadcast in picoseconds, and what it is made of.
    fn timed(processes: u32, bytes: u32) -> (f64, Model, u64, u64) {
        let hardware = Hardware::ours();
        let plain = SharedFabric::new(WIDE, &Run::quick(&hardware)).unwrap();
        let reducing = ReducingFabric::new(&plain).unwrap();
        let time = reducing.broadcast_us(processes, bytes).unwrap() * 1e6;
        let adapter = hardware.aggregation.adapter;
        (time, plain.model(), ps(adapter.match_ns), adapter.header_bytes.into())
    }

    /// A way of a packet to or from a unit: one wire less, and a picosecond.
    fn way(model: &Model, wires: u64, switches: u64, bytes: u64) -> u64 {
        wires * model.wire_ps + switches * model.switch_ps + bytes * model.ps_per_byte + 1
    }

    #[test]
    fn few_processes_are_children_of_the_root_alone() {
        let (time, model, matching, header) = timed(3, 0);
        let up = way(&model, 2, 2, header) + 3 * matching;
        let down = way(&model, 2, 2, header) + matching;
        assert!((time - (up + down) as f64).abs() < 10.0, "{time} against {}", up + down);
    }

    #[test]
    fn units_of_leaf_switches_send_one_packet_each_to_the_root() {
        let (time, model, matching, header) = timed(80, 0);
        let to_leaf = way(&model, 1, 1, header) + 16 * matching;
        let to_root = way(&model, 1, 2, header) + 1 + 5 * matching;
        let down = way(&model, 2, 2, header) + matching;
        let expected = to_leaf + to_root + down;
        assert!((time - expected as f64).abs() < 10.0, "{time} against {expected}");
    }

    /// Once from the process to each unit, once from the last one down.
    #[test]
    fn every_unit_on_its_way_stores_the_data() {
        for (processes, stored) in [(3, 2.0), (80, 3.0)] {
            let (empty, model, _, _) = timed(processes, 0);
            let (full, _, _, _) = timed(processes, 10_000);
            let of_data = 10_000.0 * model.ps_per_byte as f64;
            let ours = (full - empty) / of_data;
            assert!((ours - stored).abs() < 0.3, "{ours} against {stored}");
        }
    }
}
