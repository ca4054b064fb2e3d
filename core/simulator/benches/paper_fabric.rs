//! Speed of the simulator on the C-MR4LMS paper's fabric with the groups of its largest pattern.

use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use fabricast_routing::{
    Change, EngineOptions, FixedRootEngine, Grid, LayerPlan, PatternGroup, grid_groups,
};
use fabricast_simulator::{
    Collective, CollectiveSpec, Model, Network, Operation, ProcessPlan, Routes, Simulator, TreeId,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, FatTree, Graph, TableKind};

fn main() {
    divan::main();
}

/// The fabric of 40 448 nodes and the trees of the 3 584 groups of 64x32x16.
struct Paper {
    graph: Graph,
    fat_tree: FatTree,
    routes: Routes,
    trees: Vec<Vec<TreeId>>,
    processes: Vec<ProcessPlan>,
}

impl Paper {
    fn new() -> Self {
        let graph = Arc::new(TopologySpec::paper().generate().expect("a valid description"));
        let fat_tree = Arc::new(FatTree::detect(&graph).expect("a fat tree"));
        let options = EngineOptions::new(32, TableKind::PerPort);
        let mut engine = FixedRootEngine::new(Arc::clone(&graph), Arc::clone(&fat_tree), options)
            .expect("32 colors");
        let grid = Grid::cube(64, 32, 16, 1).expect("a valid grid");
        let space = engine.layout().space();
        let groups = grid_groups(&grid, false, LayerPlan::Compact, space, 32_768).expect("it fits");
        let put =
            |group: &PatternGroup| Change::Put { mgid: group.mgid, members: group.members.clone() };
        engine.apply(&groups.iter().map(put).collect::<Vec<_>>()).expect("valid groups");
        let mut routes = Routes::new();
        let mut trees = Vec::new();
        let plan = |endpoint| ProcessPlan { endpoint, groups: Vec::new() };
        let mut processes: Vec<ProcessPlan> = (0..32_768).map(EndpointId).map(plan).collect();
        for (number, group) in (0u32..).zip(&groups) {
            let shared = engine.plan().virtual_group_of(group.mgid).expect("routed");
            trees.push(vec![routes.add_tree(&graph, shared.ports).expect("a plan's tree")]);
            for member in &group.members {
                processes[member.index()].groups.push(number);
            }
        }
        let (graph, fat_tree) = ((*graph).clone(), (*fat_tree).clone());
        Self { graph, fat_tree, routes, trees, processes }
    }

    /// A fabric at rest on which every process goes through its three groups again and again, with
    /// some computing before each operation.
    fn start(&self, computing_ps: u64) -> Simulator<'_, Collective> {
        let spec = CollectiveSpec {
            operation: Operation::AllReduce(8),
            rounds: u32::MAX,
            header_bytes: 56,
            fan_in: 32,
            match_ps: 10_000,
            software_ps: computing_ps,
            noise_ps: computing_ps / 5,
            seed: 1,
        };
        let endpoints = self.graph.endpoint_count();
        let load = Collective::new(spec, &self.processes, self.trees.clone(), endpoints);
        let model = Model { ps_per_byte: 80, ..Model::dawning() };
        let network =
            Network { graph: &self.graph, fat_tree: &self.fat_tree, routes: &self.routes };
        Simulator::new(network, model, load.expect("a valid run")).expect("a valid model")
    }

    /// Counts the packet-hops of a run.
    fn hops(&self, computing_ps: u64, run_ps: u64) -> u64 {
        let mut simulator = self.start(computing_ps);
        simulator.run_until(run_ps).expect("no deadlock");
        simulator.counters().hops
    }
}

fn run(bencher: Bencher<'_, '_>, computing_ps: u64, run_ps: u64) {
    let paper = Paper::new();
    let hops = paper.hops(computing_ps, run_ps);
    bencher
        .counter(ItemsCount::new(hops))
        .with_inputs(|| paper.start(computing_ps))
        .bench_local_values(|mut simulator| {
            simulator.run_until(run_ps).expect("no deadlock");
            simulator
        });
}

/// Budget: a minute. All 3 584 groups at once, 10 us of computing before every 8-byte all-reduce.
#[divan::bench(sample_count = 1)]
fn millisecond_of_all_reduces(bencher: Bencher<'_, '_>) {
    run(bencher, 10_000_000, 1_000_000_000);
}

/// As fast as processes can: 1 us from one all-reduce to the next, a twentieth of the time.
#[divan::bench(sample_count = 1)]
fn all_reduces_back_to_back(bencher: Bencher<'_, '_>) {
    run(bencher, 1_000_000, 50_000_000);
}
