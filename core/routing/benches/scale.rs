//! The engine's budgets on larger fabrics: all 512 midplanes of the paper's, and a million
//! endpoints.

use std::sync::Arc;

use divan::Bencher;
use fabricast_routing::{Change, EngineOptions, FixedRootEngine, Grid, LayerPlan, grid_groups};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{FatTree, TableKind};

/// The paper's fabric with all its CNs: 29 184 switches, 262 144 endpoints.
const ALL_512_CNS: &str = "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 6\nk = 32\nw = 16\n\
                           endpoints_per_leaf = 16\nswitch_ports = 40\n";

/// 1 024 CNs of 32 leaves with 32 endpoints, 32 TNs: switches of at most 80 ports.
const MILLION: &str = "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 2\nk = 64\nw = 16\n\
                       endpoints_per_leaf = 32\n";

fn main() {
    divan::main();
}

/// An engine without groups, and the groups of a grid with 4 processes per endpoint.
fn prepare(fabric: &str, [x, y, z]: [u32; 3]) -> (FixedRootEngine, Vec<Change>) {
    let spec = TopologySpec::parse(fabric).expect("a valid description");
    let graph = Arc::new(spec.generate().expect("a valid description"));
    let fat_tree = Arc::new(FatTree::detect(&graph).expect("a fat tree"));
    let options = EngineOptions::new(32, TableKind::PerPort);
    let engine =
        FixedRootEngine::new(Arc::clone(&graph), fat_tree, options).expect("32 colors are fine");
    let grid = Grid::cube(x, y, z, 4).expect("a valid grid");
    let endpoints = u32::try_from(graph.endpoint_count()).expect("endpoints have 32-bit numbers");
    let space = engine.layout().space();
    let groups = grid_groups(&grid, false, LayerPlan::Compact, space, endpoints).expect("it fits");
    let put = |mgid, members| Change::Put { mgid, members };
    (engine, groups.into_iter().map(|group| put(group.mgid, group.members)).collect())
}

fn plan_all(bencher: Bencher<'_, '_>, fabric: &str, grid: [u32; 3]) {
    let (engine, puts) = prepare(fabric, grid);
    bencher.with_inputs(|| engine.clone()).bench_local_values(|mut engine| {
        engine.apply(&puts).expect("valid groups");
        engine
    });
}

/// Budget: 250 ms. All endpoints take part, 2.36 million memberships.
#[divan::bench(sample_count = 5)]
fn batch_of_32_768_groups(bencher: Bencher<'_, '_>) {
    plan_all(bencher, ALL_512_CNS, [128, 128, 64]);
}

/// Budget: 3 s. The paper's largest grid, 4 x 4 x 2 times as large: 1 040 000 endpoints take part.
#[divan::bench(sample_count = 3)]
fn batch_of_111_200_groups(bencher: Bencher<'_, '_>) {
    plan_all(bencher, MILLION, [400, 200, 52]);
}
