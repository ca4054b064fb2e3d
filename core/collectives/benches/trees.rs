//! Times the trees of large collectives.
#![expect(clippy::unwrap_used, reason = "a bench may stop at bad input")]

use divan::Bencher;
use fabricast_collectives::{AdapterTree, Nesting};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, FatTree, Graph};

fn main() {
    divan::main();
}

/// Midplanes of 16 leaf switches of 16 endpoints, or of 32 of 32.
fn fabric(endpoints: u32) -> (Graph, FatTree, Vec<EndpointId>) {
    let (width, blocks) = if endpoints == 40_960 { (16, 10) } else { (32, 64) };
    let text = format!(
        "kind = 'cn-tn-fat-tree'\nq = {width}\nm = 16\np = 2\nk = {blocks}\nw = 16\n\
         endpoints_per_leaf = {width}\n"
    );
    let graph = TopologySpec::parse(&text).unwrap().generate().unwrap();
    let fat_tree = FatTree::detect(&graph).unwrap();
    assert_eq!(graph.endpoint_count(), endpoints as usize);
    let endpoints = graph.endpoints().collect();
    (graph, fat_tree, endpoints)
}

#[divan::bench(args = [40_960, 1_048_576], sample_count = 5)]
fn group_by_fabric(bencher: Bencher<'_, '_>, endpoints: u32) {
    let (graph, fat_tree, endpoints) = fabric(endpoints);
    bencher.bench_local(|| Nesting::of_fabric(&graph, &fat_tree, &endpoints).unwrap());
}

#[divan::bench(args = [40_960, 1_048_576], sample_count = 5)]
fn hierarchical_tree(bencher: Bencher<'_, '_>, endpoints: u32) {
    let (graph, fat_tree, endpoints) = fabric(endpoints);
    let nesting = Nesting::of_fabric(&graph, &fat_tree, &endpoints).unwrap();
    bencher.bench_local(|| AdapterTree::hierarchical(&nesting, 32).unwrap());
}
