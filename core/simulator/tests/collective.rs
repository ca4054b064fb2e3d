//! Collectives: everybody ends every round, in the closed form's time where nothing is in the way,
//! and a second tree saves what a cut link loses.

use fabricast_routing::{Change, EngineOptions, FixedRootEngine};
use fabricast_simulator::{
    Collective, CollectiveSpec, Model, Network, Operation, ProcessPlan, Routes, Simulator, TreeId,
    grid_processes,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Mgid, Peer, TableKind};

const SPEC: CollectiveSpec = CollectiveSpec {
    operation: Operation::Barrier,
    rounds: 5,
    header_bytes: 32,
    fan_in: 16,
    match_ps: 10_000,
    software_ps: 500_000,
    noise_ps: 0,
    seed: 1,
};

const OPERATIONS: [Operation; 3] =
    [Operation::Barrier, Operation::AllReduce(8), Operation::Broadcast(2_048)];

/// Two levels, and the trees of groups on some of their spanning trees.
struct Fixture {
    graph: Graph,
    tree: FatTree,
    routes: Routes,
}

impl Fixture {
    fn new() -> Self {
        let text = "kind = \"leaf-spine\"\nleaves = 4\nspines = 4\nendpoints_per_leaf = 6\n";
        let spec = TopologySpec::parse(text).expect("a valid description");
        let graph = spec.generate().expect("a valid description");
        let tree = FatTree::detect(&graph).expect("a fat tree");
        Self { graph, tree, routes: Routes::new() }
    }

    /// Routes groups with C-MR4LMS; group g has MGID `g + shift`.
    fn route(&mut self, processes: &[ProcessPlan], groups: u32, shift: u32) -> Vec<TreeId> {
        let (graph, tree) = (self.graph.clone().into(), self.tree.clone().into());
        let options = EngineOptions::new(32, TableKind::PerPort);
        let mut engine = FixedRootEngine::new(graph, tree, options).expect("a whole fabric");
        let change = |group: u32| {
            let members = processes.iter().filter(|plan| plan.groups.contains(&group));
            let mut members: Vec<EndpointId> = members.map(|plan| plan.endpoint).collect();
            members.dedup();
            Change::Put { mgid: Mgid(group + shift), members }
        };
        let changes: Vec<Change> = (0..groups).map(change).collect();
        engine.apply(&changes).expect("valid groups");
        let tree_of = |group: u32| {
            let shared = engine.plan().virtual_group_of(Mgid(group + shift)).expect("routed");
            self.routes.add_tree(&self.graph, shared.ports).expect("a plan's tree")
        };
        (0..groups).map(tree_of).collect()
    }

    fn run(
        &self,
        spec: CollectiveSpec,
        processes: &[ProcessPlan],
        trees: Vec<Vec<TreeId>>,
        faults: &Faults,
    ) -> Collective {
        let endpoints = self.graph.endpoint_count();
        let load = Collective::new(spec, processes, trees, endpoints).expect("a valid run");
        let network = Network { graph: &self.graph, fat_tree: &self.tree, routes: &self.routes };
        let model = Model { ps_per_byte: 100, ..Model::dawning() };
        let mut simulator = Simulator::new(network, model, load).expect("a valid model");
        simulator.set_faults(faults);
        simulator.run_until(u64::MAX).expect("no deadlock");
        simulator.workload().clone()
    }
}

fn all_endpoints(fixture: &Fixture) -> Vec<EndpointId> {
    fixture.graph.endpoints().collect()
}

#[test]
fn every_process_ends_every_round_of_every_operation() {
    let mut fixture = Fixture::new();
    // 24 endpoints with 2 processes: 6 rows of 8 on 4 endpoints each, 8 columns of 6.
    let processes = grid_processes(8, 2, &all_endpoints(&fixture));
    let trees = fixture.route(&processes, 6 + 8, 0);
    let trees: Vec<Vec<TreeId>> = trees.into_iter().map(|tree| vec![tree]).collect();
    for operation in OPERATIONS {
        let spec = CollectiveSpec { operation, noise_ps: 300_000, ..SPEC };
        let done = fixture.run(spec, &processes, trees.clone(), &Faults::new());
        assert_eq!((done.running(), done.rounds().len()), (0, 5), "{operation:?}");
        assert_eq!(done.counters().ended, 48 * 2 * 5);
        assert_eq!(done.counters().duplicates, 0);
    }
}

/// Two endpoints on one leaf, one switch between them: begin, packet up, match, packet down, match,
/// end.
#[test]
fn a_lone_barrier_takes_the_closed_form() {
    let mut fixture = Fixture::new();
    let plan = |endpoint| ProcessPlan { endpoint: EndpointId(endpoint), groups: vec![0] };
    let processes = [plan(0), plan(1)];
    let trees = fixture.route(&processes, 1, 0);
    let done = fixture.run(SPEC, &processes, vec![trees], &Faults::new());
    let one_way = Model { ps_per_byte: 100, ..Model::dawning() }.zero_load_ps(1, 32);
    let mut begun_ps = 500_000;
    for (number, round) in done.rounds().iter().enumerate() {
        assert_eq!(round.begun_ps, begun_ps);
        // The child begins a way and a match later than the root, but for the first time.
        let late = if number == 0 { 0 } else { one_way + 10_000 };
        assert_eq!(round.done_ps - round.begun_ps, late + one_way + 10_000);
        begun_ps = round.done_ps + 500_000;
    }
}

/// C-MR4LMS §4.4: with two trees a cut link loses nothing; with one the group waits for ever.
#[test]
fn a_cut_link_stops_a_group_with_one_tree_and_not_one_with_two() {
    let mut fixture = Fixture::new();
    let endpoints: Vec<EndpointId> = [0, 7, 13, 20].map(EndpointId).into();
    let processes = grid_processes(4, 1, &endpoints);
    let first = fixture.route(&processes, 1, 0);
    let second = fixture.route(&processes, 1, 2);
    let leaf = fixture.graph.switch_of(fixture.graph.attachment(EndpointId(13)).expect("there"));
    let root_of_first = fixture.routes.out_ports(first[0]).find_map(|port| {
        let Peer::Switch(far) = fixture.graph.peer(port) else { return None };
        (fixture.graph.switch_of(far) == leaf).then_some(far)
    });
    let mut faults = Faults::new();
    faults.fail_link(&fixture.graph, root_of_first.expect("the tree goes to this leaf"));
    let solo = |plan: &ProcessPlan| ProcessPlan { groups: vec![0], ..plan.clone() };
    let processes: Vec<ProcessPlan> = processes.iter().map(solo).collect();
    let spec = CollectiveSpec { operation: Operation::Broadcast(64), rounds: 1, ..SPEC };
    let single = fixture.run(spec, &processes, vec![first.clone()], &faults);
    assert!(single.running() > 0);
    let both = vec![vec![first[0], second[0]]];
    let double = fixture.run(spec, &processes, both.clone(), &faults);
    assert_eq!(double.running(), 0);
    assert_eq!(double.counters().duplicates, 2, "all but the one behind the cut link");
    let healthy = fixture.run(spec, &processes, both, &Faults::new());
    assert_eq!((healthy.running(), healthy.counters().duplicates), (0, 3));
}
