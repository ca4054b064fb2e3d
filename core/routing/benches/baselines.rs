//! The engines of today on the paper's fabric: 100x50x26 with 4 processes per endpoint, and one
//! dead link.

use std::sync::Arc;

use divan::Bencher;
use fabricast_routing::{
    Baseline, BaselineRule, Change, EngineOptions, Grid, LayerPlan, MgidSpace, RoutingEngine,
    grid_groups,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Faults, Graph, SwitchId, TableKind};

const RULES: [BaselineRule; 3] =
    [BaselineRule::MinHop, BaselineRule::LightestPath, BaselineRule::GlobalTree];
const COLORS: u16 = 16_384;

fn main() {
    divan::main();
}

fn paper(rule: BaselineRule) -> (Arc<Graph>, Baseline, Vec<Change>) {
    let graph = Arc::new(TopologySpec::paper().generate().expect("a valid description"));
    let options = EngineOptions::new(COLORS, TableKind::PerSwitch);
    let engine = Baseline::new(graph.clone(), rule, options).expect("colors in range");
    let grid = Grid::cube(100, 50, 26, 4).expect("a valid grid");
    let space = MgidSpace::any(COLORS).expect("colors in range");
    let groups = grid_groups(&grid, false, LayerPlan::Compact, &space, 32_768).expect("it fits");
    let puts =
        groups.into_iter().map(|group| Change::Put { mgid: group.mgid, members: group.members });
    (graph, engine, puts.collect())
}

#[divan::bench(args = RULES, sample_count = 3)]
fn batch_of_8_900_groups(bencher: Bencher<'_, '_>, rule: BaselineRule) {
    let (_, engine, puts) = paper(rule);
    bencher.with_inputs(|| engine.clone()).bench_local_values(|mut engine| {
        engine.apply(&puts).expect("valid groups");
        engine
    });
}

/// A leaf loses one of its up-links.
#[divan::bench(args = RULES, sample_count = 3)]
fn one_dead_link(bencher: Bencher<'_, '_>, rule: BaselineRule) {
    let (graph, mut engine, puts) = paper(rule);
    engine.apply(&puts).expect("valid groups");
    let mut faults = Faults::new();
    faults.fail_link(&graph, graph.ports(SwitchId(0)).nth(20).expect("a leaf has 32 ports in use"));
    bencher.with_inputs(|| engine.clone()).bench_local_refs(|engine| {
        engine.set_faults(faults.clone());
    });
}
