//! Counts the hops of whole fabrics, and again after a link has died.

use divan::Bencher;
use fabricast_routing::{HopSearch, MinHops, SwitchLinks};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Faults, Graph, SwitchId};

fn main() {
    divan::main();
}

fn paper() -> Graph {
    TopologySpec::paper().generate().expect("a valid description")
}

/// 7 680 switches, 2 048 leaves. Budget: 100 ms.
#[divan::bench(sample_count = 10)]
fn papers_fabric(bencher: Bencher<'_, '_>) {
    let graph = paper();
    bencher.bench_local(|| MinHops::new(&graph, &Faults::new()));
}

/// A leaf loses one of its up-links.
#[divan::bench(sample_count = 10)]
fn one_dead_link(bencher: Bencher<'_, '_>) {
    let graph = paper();
    let table = MinHops::new(&graph, &Faults::new());
    let mut faults = Faults::new();
    faults.fail_link(&graph, graph.ports(SwitchId(0)).nth(20).expect("a leaf has 32 ports in use"));
    bencher
        .with_inputs(|| table.clone())
        .bench_local_refs(|table| table.set_faults(&graph, &faults));
}

/// From a level-1 switch, which has no row.
#[divan::bench]
fn hops_from_one_switch(bencher: Bencher<'_, '_>) {
    let links = SwitchLinks::new(&paper(), &Faults::new());
    let mut search = HopSearch::new();
    bencher.bench_local(|| search.from(&links, SwitchId(32)).len());
}

/// 30 x 20 x 20 switches, all of them leaves. Budget: 1 s.
#[divan::bench(sample_count = 3)]
fn papers_torus(bencher: Bencher<'_, '_>) {
    let torus = TopologySpec::preset("torus").expect("it is listed");
    let graph = torus.generate().expect("a valid description");
    bencher.bench_local(|| MinHops::new(&graph, &Faults::new()));
}
