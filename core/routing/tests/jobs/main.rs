//! Theorem 4 of C-MR4LMS on real paths: whatever the history, no two jobs share a link (JOB-1).
//!
//! The paths are found by breadth-first search in the graph, and the trees by the engine; neither
//! knows of classes, rules or the allocator.

#[path = "../rules/fabrics.rs"]
#[expect(dead_code, reason = "the laws of groups use the rest of it")]
mod fabrics;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fabricast_placement::{JobAllocator, JobId, JobTopology, Spread};
use fabricast_routing::Change;
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    EndpointId, FatTree, Faults, Graph, Mgid, Peer, PortId, SwitchId, TableKind,
};
use proptest::prelude::*;

use fabrics::{Fabric, fabric_lacking, faults, faults_of};

/// Whole fabrics: the theorem says nothing of others, where a shortest path may be a detour over
/// the links of another job.
fn fabric() -> impl Strategy<Value = Fabric> {
    fabric_lacking(Just(Vec::new()))
}

/// Every endpoint is a node.
fn nodes(graph: &Graph) -> Vec<Vec<EndpointId>> {
    graph.endpoints().map(|endpoint| vec![endpoint]).collect()
}

fn allocator(fabric: &Fabric, faults: &Faults) -> JobAllocator {
    let topology = JobTopology::new(&fabric.graph, &fabric.fat_tree, faults, &nodes(&fabric.graph));
    JobAllocator::new(Arc::new(topology))
}

/// Steps from a switch to every other over live links.
fn distances(graph: &Graph, faults: &Faults, from: SwitchId) -> Vec<Option<u32>> {
    let mut steps = vec![None; graph.switch_count()];
    steps[from.index()] = Some(0);
    let mut open = VecDeque::from([(from, 0)]);
    while let Some((switch, so_far)) = open.pop_front() {
        for other in links(graph, faults, switch).map(|(_, other)| graph.switch_of(other)) {
            if steps[other.index()].is_none() {
                steps[other.index()] = Some(so_far + 1);
                open.push_back((other, so_far + 1));
            }
        }
    }
    steps
}

fn links<'a>(
    graph: &'a Graph,
    faults: &'a Faults,
    switch: SwitchId,
) -> impl Iterator<Item = (PortId, PortId)> + 'a {
    graph.ports(switch).filter_map(|port| match graph.peer(port) {
        Peer::Switch(other) if faults.port_is_live(graph, port) => Some((port, other)),
        Peer::Switch(_) | Peer::Endpoint(_) | Peer::None => None,
    })
}

/// All links on all shortest paths between the nodes of a job, their own included.
fn links_of(graph: &Graph, faults: &Faults, nodes: &[u32]) -> BTreeSet<PortId> {
    let ports = nodes
        .iter()
        .map(|node| graph.attachment(EndpointId(*node)).expect("placed nodes have a cable"));
    let ports: BTreeSet<PortId> = ports.collect();
    let switches: BTreeSet<SwitchId> = ports.iter().map(|port| graph.switch_of(*port)).collect();
    let steps: BTreeMap<SwitchId, _> =
        switches.iter().map(|switch| (*switch, distances(graph, faults, *switch))).collect();
    let mut used = ports;
    for (from, to) in switches.iter().flat_map(|from| switches.iter().map(move |to| (from, to))) {
        let Some(length) = steps[from][to.index()] else { continue };
        for switch in graph.switches() {
            for (port, other) in links(graph, faults, switch) {
                let ahead =
                    steps[from][switch.index()].zip(steps[to][graph.switch_of(other).index()]);
                if ahead.is_some_and(|(before, after)| before + 1 + after == length) {
                    used.insert(port.min(other));
                }
            }
        }
    }
    used
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Over long histories of jobs that come, by size or by name, and go.
    #[test]
    fn no_two_jobs_share_a_link(
        fabric in fabric(),
        steps in proptest::collection::vec((0u8..8, 0u64..12, any::<u32>(), any::<u64>()), 1..120),
    ) {
        let (graph, healthy) = (&*fabric.graph, Faults::new());
        let count = u32::try_from(graph.endpoint_count()).unwrap();
        let mut allocator = allocator(&fabric, &healthy);
        let mut links: BTreeMap<JobId, BTreeSet<PortId>> = BTreeMap::new();
        for (kind, id, size, pick) in steps {
            let id = JobId(id);
            let placed = match kind {
                0..=2 => {
                    let had = allocator.release(id).is_some();
                    prop_assert_eq!(links.remove(&id).is_some(), had);
                    continue;
                }
                3 | 4 => {
                    // Nodes as a scheduler might name them: some from a point on.
                    let (first, step) = (size % count, 1 + u32::try_from(pick % 5).unwrap());
                    let wanted = 1 + u32::try_from(pick / 8 % 6).unwrap();
                    let named: Vec<u32> =
                        (0..wanted).map(|at| first + at * step).filter(|node| *node < count).collect();
                    allocator.reserve(id, &named).ok().cloned()
                }
                _ => {
                    let spread = if kind == 5 { Spread::Yes } else { Spread::No };
                    allocator.allocate(id, 1 + size % count, spread).ok().cloned()
                }
            };
            let Some(job) = placed else { continue };
            let used = links_of(graph, &healthy, &job.nodes);
            for (other, others) in &links {
                prop_assert!(used.is_disjoint(others), "{id:?} {job:?} and {other:?}");
            }
            links.insert(id, used);
        }
    }

    /// Nodes behind something dead are left out; jobs keep apart on what is left, as far as the
    /// engine builds their trees: none is ever merged with another job's.
    #[test]
    fn every_job_has_all_spanning_trees_for_itself(
        fabric in fabric(), colors in 1u16..4, picks in faults(),
        sizes in proptest::collection::vec((any::<u32>(), any::<bool>()), 1..12),
    ) {
        let faults = faults_of(&fabric.graph, &picks);
        let mut allocator = allocator(&fabric, &faults);
        let mut engine = fabric.engine(colors, (TableKind::PerPort, false));
        engine.set_faults(faults.clone());
        let total = engine.layout().space().total();
        let mut groups = Vec::new();
        for (id, (size, spread)) in (0u32..).zip(&sizes) {
            let spread = if *spread { Spread::Yes } else { Spread::No };
            let most = u32::try_from(fabric.graph.endpoint_count()).unwrap();
            let Ok(job) = allocator.allocate(JobId(id.into()), 1 + size % most, spread) else { continue };
            let members: Vec<EndpointId> = job.nodes.iter().copied().map(EndpointId).collect();
            for member in &members {
                let port = fabric.graph.attachment(*member).unwrap();
                prop_assert!(faults.port_is_live(&fabric.graph, port));
            }
            let mgids = (0..total).map(|spt| Mgid(id * total + spt));
            groups.extend(mgids.map(|mgid| Change::Put { mgid, members: members.clone() }));
        }
        engine.apply(&groups).unwrap();
        for merged in engine.plan().virtual_groups() {
            let jobs: BTreeSet<u32> = merged.groups.iter().map(|mgid| mgid.0 / total).collect();
            prop_assert_eq!(jobs.len(), 1, "{:?}", merged);
        }
    }
}

/// C-MR4LMS, job placement, on the paper's fabric: classes end at 16, 512 and 8 192 nodes.
#[test]
fn the_papers_fabric_is_filled_to_the_last_node() {
    let graph = TopologySpec::paper().generate().unwrap();
    let fat_tree = FatTree::detect(&graph).unwrap();
    let topology = JobTopology::new(&graph, &fat_tree, &Faults::new(), &nodes(&graph));
    let largest: Vec<u32> = topology.classes().map(|class| topology.largest(class)).collect();
    assert_eq!(largest, [16, 512, 8_192, 32_768]);
    let mut allocator = JobAllocator::new(Arc::new(topology));
    // A block and a half, and then what fits beside it, down to single nodes.
    let sizes =
        [12_288, 4_096, 8_192, 4_096, 2_048, 1_024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 1];
    for (id, size) in (0..).zip(sizes) {
        allocator.allocate(JobId(id), size, Spread::No).unwrap();
    }
    assert_eq!((sizes.iter().sum::<u32>(), allocator.free()), (32_768, 0));
}
