//! The engine's budgets on the paper's fabric: batch, one change, one dead link.

use std::sync::Arc;

use divan::Bencher;
use fabricast_routing::verify::{Options, Senders, verify};
use fabricast_routing::{
    Change, DynamicRootEngine, EngineOptions, FixedRootEngine, Grid, LayerPlan, RootScope,
    RoutingEngine, TableImage, grid_groups, metrics, table_entries,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, FatTree, Faults, Graph, TableKind};

fn main() {
    divan::main();
}

/// An engine without groups, and the 8 900 groups of 100x50x26 with 4 processes per endpoint.
fn paper() -> (Arc<Graph>, FixedRootEngine, Vec<Change>) {
    let graph = Arc::new(TopologySpec::paper().generate().expect("a valid description"));
    let fat_tree = Arc::new(FatTree::detect(&graph).expect("a fat tree"));
    let options = EngineOptions::new(32, TableKind::PerPort);
    let engine =
        FixedRootEngine::new(graph.clone(), fat_tree, options).expect("32 colors are fine");
    let grid = Grid::cube(100, 50, 26, 4).expect("a valid grid");
    let space = engine.layout().space();
    let groups = grid_groups(&grid, false, LayerPlan::Compact, space, 32_768).expect("it fits");
    let puts =
        groups.into_iter().map(|group| Change::Put { mgid: group.mgid, members: group.members });
    (graph, engine, puts.collect())
}

fn loaded() -> (Arc<Graph>, FixedRootEngine, Vec<Change>) {
    let (graph, mut engine, puts) = paper();
    engine.apply(&puts).expect("valid groups");
    (graph, engine, puts)
}

/// Budget: 25 ms.
#[divan::bench(sample_count = 20)]
fn batch_of_8_900_groups(bencher: Bencher<'_, '_>) {
    let (_, engine, puts) = paper();
    bencher.with_inputs(|| engine.clone()).bench_local_values(|mut engine| {
        engine.apply(&puts).expect("valid groups");
        engine
    });
}

/// The least that trees and merging cost: marks the links of every member on its spanning tree, and
/// unites the groups that meet.
#[divan::bench(sample_count = 20)]
fn bare_loop_over_8_900_groups(bencher: Bencher<'_, '_>) {
    let (graph, engine, puts) = paper();
    let tree = FatTree::detect(&graph).expect("a fat tree");
    let place = |endpoint| {
        let leaf = tree.leaf_of_endpoint(endpoint).expect("it is on a leaf");
        (leaf as usize, tree.cn_of_leaf(leaf) as usize)
    };
    let places: Vec<(usize, usize)> = graph.endpoints().map(place).collect();
    let (leaves, cns) = (tree.leaf_count(), tree.params().cns as usize);
    let trees = engine.layout().space().total() as usize;
    let words = places.len().div_ceil(64);
    bencher.bench_local(|| {
        let mut used = vec![0u64; trees * words];
        let (mut at_leaf, mut at_cn) =
            (vec![u32::MAX; trees * leaves], vec![u32::MAX; trees * cns]);
        let mut sets: Vec<u32> = (0..).take(puts.len()).collect();
        for (group, put) in (0u32..).zip(&puts) {
            let Change::Put { mgid, members } = put else { continue };
            let tree = mgid.0 as usize % trees;
            for member in members {
                let (leaf, cn) = places[member.index()];
                used[tree * words + member.index() / 64] |= 1 << (member.index() % 64);
                for user in [&mut at_leaf[tree * leaves + leaf], &mut at_cn[tree * cns + cn]] {
                    match *user {
                        u32::MAX => *user = group,
                        first => unite(&mut sets, first, group),
                    }
                }
            }
        }
        (used, at_leaf, at_cn, sets)
    });
}

fn unite(sets: &mut [u32], a: u32, b: u32) {
    let mut find = |mut at: u32| {
        while sets[at as usize] != at {
            sets[at as usize] = sets[sets[at as usize] as usize];
            at = sets[at as usize];
        }
        at
    };
    let (a, b) = (find(a), find(b));
    sets[a.max(b) as usize] = a.min(b);
}

/// Budget: 100 ms. Roots in a whole TN group.
#[divan::bench(sample_count = 20)]
fn dynamic_batch_of_8_900_groups(bencher: Bencher<'_, '_>) {
    let (graph, _, puts) = paper();
    let fat_tree = Arc::new(FatTree::detect(&graph).expect("a fat tree"));
    let root_scope = Some(RootScope::TnGroup);
    let options = EngineOptions { root_scope, ..EngineOptions::new(32, TableKind::PerPort) };
    let engine = DynamicRootEngine::new(graph, fat_tree, options).expect("32 colors are fine");
    bencher.with_inputs(|| engine.clone()).bench_local_values(|mut engine| {
        engine.apply(&puts).expect("valid groups");
        engine
    });
}

/// Budget: 5 ms. A leaf loses one of its up-links.
#[divan::bench(sample_count = 20)]
fn one_dead_link(bencher: Bencher<'_, '_>) {
    let (graph, engine, _) = loaded();
    let leaf = graph.switch_of(graph.attachment(EndpointId(1_000)).expect("it is connected"));
    let up = graph.ports(leaf).nth(20).expect("a leaf has 32 ports in use");
    let mut faults = Faults::new();
    faults.fail_link(&graph, up);
    bencher.with_inputs(|| (engine.clone(), faults.clone())).bench_local_values(
        |(mut engine, faults)| {
            engine.set_faults(faults);
            engine
        },
    );
}

/// Budget: 25 ms with the batch.
#[divan::bench(sample_count = 20)]
fn final_tables(bencher: Bencher<'_, '_>) {
    let (graph, engine, _) = loaded();
    bencher.bench_local(|| TableImage::new(&graph, engine.plan()));
}

#[divan::bench(sample_count = 10)]
fn all_table_rows(bencher: Bencher<'_, '_>) {
    let (graph, engine, _) = loaded();
    bencher.bench_local(|| table_entries(&graph, engine.plan()));
}

#[divan::bench(sample_count = 10)]
fn all_figures(bencher: Bencher<'_, '_>) {
    let (graph, engine, _) = loaded();
    bencher.bench_local(|| metrics(&graph, engine.plan()));
}

/// All groups, a sender behind every leaf of every group.
#[divan::bench(sample_count = 3)]
fn verify_by_packets(bencher: Bencher<'_, '_>) {
    let (graph, engine, _) = loaded();
    let entries = table_entries(&graph, engine.plan());
    let groups = engine.delivery_groups();
    let (tables, senders) = (TableKind::PerPort, Senders::OnePerSwitch);
    let options = Options { colors: 32, tables, senders, list: 1 };
    bencher.bench_local(|| verify(&graph, engine.faults(), &groups, &entries, options));
}
