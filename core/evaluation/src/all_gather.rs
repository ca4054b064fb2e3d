//! All-gather by multicast beside a ring: bytes that links carry, counted on the simulator.
//!
//! Every node has a block, and all nodes get all blocks. By multicast a node sends its block once;
//! in a ring it sends all blocks but one. Source: Khalilov et al., arXiv 2408.13356. The fabric is
//! ours: the abstract gives the number of nodes, 188, and not how they are wired.

mod claims;
mod figures;
mod gather;

use fabricast_simulator::{MulticastPolicy, Network, Routes, Simulator};
use fabricast_topology::{EndpointId, Graph, Peer, PortId, SwitchId};

use crate::experiment::{Experiment, ExperimentError, Length, Run};
use crate::report::Report;
use crate::routing::{Fabric, Refusal};
use crate::sample::Sample;
use gather::{Gather, Scheme};

/// The experiment as the command line lists it.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "all-gather",
    title: "bytes over the links of 188 nodes: multicast beside rings and direct messages",
    source: "Khalilov et al., arXiv 2408.13356",
    length: Length::Fixed,
    run,
};

/// Switches of 36 ports, not oversubscribed: 12 with 18 nodes each, and 6 above them.
const FABRIC: &str =
    "kind = 'leaf-spine'\nleaves = 12\nspines = 6\nlanes0 = 3\nendpoints_per_leaf = 18\n";
const SPINES: u32 = 6;
/// Links between a leaf and a spine switch.
const LANES: u32 = 3;
/// Data bytes of a packet: the largest of InfiniBand.
const PAYLOAD_BYTES: u32 = 4_096;

/// Number of nodes and length of a block.
#[derive(Clone, Copy, Debug)]
struct Size {
    nodes: u32,
    packets: u32,
}

impl Size {
    const fn of(run: &Run<'_>) -> Self {
        match run.quick {
            true => Self { nodes: 40, packets: 1 },
            false => Self { nodes: 188, packets: 16 },
        }
    }
}

/// Bytes of one all-gather in blocks, by what they cross.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Blocks {
    from_nodes: f64,
    between_switches: f64,
    to_nodes: f64,
    /// Time until every node has every block, in microseconds.
    done_us: f64,
}

/// One scheme, with every seed if chance has a part in it.
#[derive(Clone, Debug)]
struct Counted {
    scheme: Scheme,
    of_seeds: Vec<Blocks>,
}

impl Counted {
    fn sample(&self, value: impl Fn(&Blocks) -> f64) -> Sample {
        let values = self.of_seeds.iter().map(value);
        if self.scheme.is_by_chance() { values.collect() } else { Sample::from_certain(values) }
    }

    /// Blocks on all links.
    fn all(&self) -> Sample {
        self.sample(|one| one.from_nodes + one.between_switches + one.to_nodes)
    }
}

fn run(run: &mut Run<'_>) -> Result<Report, ExperimentError> {
    let fabric = Fabric::described("the fabric", FABRIC)?;
    let size = Size::of(run);
    let mut outcomes = Vec::new();
    for scheme in Scheme::ALL {
        run.step(outcomes.len(), Scheme::ALL.len(), scheme.name());
        let once = if scheme.is_by_chance() { usize::MAX } else { 1 };
        let seeds = run.all_seeds().take(once);
        let of_seeds = seeds.map(|seed| measure(run, &fabric, scheme, size, seed));
        let of_seeds = of_seeds.collect::<Result<Vec<Blocks>, Refusal>>();
        let of_seeds = of_seeds.map_err(ExperimentError::at(scheme.name()))?;
        outcomes.push(Counted { scheme, of_seeds });
    }
    Ok(figures::report(run, size, &outcomes))
}

/// Runs one all-gather to its end and counts what links carried.
fn measure(
    run: &Run<'_>,
    fabric: &Fabric,
    scheme: Scheme,
    size: Size,
    seed: u64,
) -> Result<Blocks, Refusal> {
    let graph = &fabric.graph;
    let latency = run.hardware.latency;
    let bytes = PAYLOAD_BYTES + latency.adapter.header_bytes;
    // Nodes are spread evenly: the first ports of every leaf switch.
    let nodes: Vec<EndpointId> = nodes(fabric.endpoints(), size.nodes);
    let mut routes = Routes::new();
    let trees = match scheme {
        Scheme::Multicast => (0..SPINES)
            .map(|spine| Ok(routes.add_tree(graph, &ports(graph, &nodes, spine)?)?))
            .collect::<Result<_, Refusal>>()?,
        Scheme::RingInOrder | Scheme::RingByChance | Scheme::Direct => Vec::new(),
    };
    let load = Gather::new(scheme, nodes, &trees, [size.packets, bytes], seed);
    let network = Network { graph, fat_tree: fabric.fat_tree()?, routes: &routes };
    let model = latency.link.model(MulticastPolicy::Bulletin);
    let mut simulator = Simulator::new(network, model, load)?;
    simulator.run_until(u64::MAX)?;
    let done_ps = simulator.workload().done_ps().ok_or("some blocks have not arrived")?;
    let block = f64::from(size.packets * bytes);
    let (mut between, mut to_nodes) = (0u64, 0u64);
    for port in graph.switches().flat_map(|switch| graph.ports(switch)) {
        let sent = simulator.port_statistics(port).sent_bytes;
        match graph.peer(port) {
            Peer::Switch(_) => between += sent,
            Peer::Endpoint(_) => to_nodes += sent,
            Peer::None => {}
        }
    }
    // All packets have one length, so that packets over links are bytes over links.
    let all = simulator.counters().hops * u64::from(bytes);
    Ok(Blocks {
        from_nodes: (all - between - to_nodes) as f64 / block,
        between_switches: between as f64 / block,
        to_nodes: to_nodes as f64 / block,
        done_us: done_ps as f64 / 1e6,
    })
}

/// Lists the ports of the tree of all nodes by way of a spine switch, rising: one link from there
/// to every leaf switch.
fn ports(graph: &Graph, nodes: &[EndpointId], spine: u32) -> Result<Vec<PortId>, Refusal> {
    let mut ports: Vec<PortId> = nodes.iter().filter_map(|node| graph.attachment(*node)).collect();
    let mut leaves: Vec<SwitchId> = ports.iter().map(|port| graph.switch_of(*port)).collect();
    leaves.dedup();
    for leaf in leaves {
        let mut up = graph.ports(leaf).filter_map(|port| match graph.peer(port) {
            Peer::Switch(other) => Some([port, other]),
            Peer::None | Peer::Endpoint(_) => None,
        });
        let link = up.nth((spine * LANES) as usize);
        ports.extend(link.ok_or("a leaf switch has no link to a spine switch")?);
    }
    ports.sort_unstable();
    Ok(ports)
}

/// Takes as many endpoints of a fabric as there are nodes, of every leaf switch as many as of the
/// others or one less, in the order of the leaf switches.
fn nodes(endpoints: u32, nodes: u32) -> Vec<EndpointId> {
    let place = |node: u32| u64::from(node) * u64::from(endpoints) / u64::from(nodes);
    let place = |node| u32::try_from(place(node)).expect("less than endpoints");
    (0..nodes).map(|node| EndpointId(place(node))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;

    fn blocks(scheme: Scheme, nodes: u32) -> Blocks {
        let hardware = Hardware::ours();
        let fabric = Fabric::described("the fabric", FABRIC).unwrap();
        let size = Size { nodes, packets: 2 };
        measure(&Run::quick(&hardware), &fabric, scheme, size, 1).unwrap()
    }

    /// 24 nodes, two on each of 12 leaf switches.
    #[test]
    fn links_carry_what_the_closed_form_says() {
        let counts = |scheme| {
            let one = blocks(scheme, 24);
            format!("{} {} {}", one.from_nodes, one.between_switches, one.to_nodes)
        };
        // A block goes up once, and down to the 11 other leaf switches.
        assert_eq!(counts(Scheme::Multicast), format!("24 {} {}", 24 * 12, 24 * 23));
        // 23 blocks on each of 24 steps, of which 12 lead to another leaf switch, up and down.
        let in_order = format!("{} {} {}", 24 * 23, 12 * 23 * 2, 24 * 23);
        assert_eq!(counts(Scheme::RingInOrder), in_order);
        // Every node sends to 22 others by way of a spine switch.
        let direct = format!("{} {} {}", 24 * 23, 24 * 22 * 2, 24 * 23);
        assert_eq!(counts(Scheme::Direct), direct);
    }

    #[test]
    fn a_ring_by_chance_crosses_the_spine_more_often_than_one_in_order() {
        let [ordered, by_chance] = [Scheme::RingInOrder, Scheme::RingByChance]
            .map(|scheme| blocks(scheme, 24).between_switches);
        assert!(by_chance > ordered, "{by_chance} against {ordered}");
    }

    #[test]
    fn no_row_of_the_quick_form_differs_without_a_reason_of_its_own() {
        let hardware = Hardware::ours();
        let report = run(&mut Run::quick(&hardware)).unwrap();
        assert_eq!(report.faults(), Vec::<String>::new());
        assert!(report.laws.iter().all(|law| law.holds), "{:?}", report.laws);
    }
}
