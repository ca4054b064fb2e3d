//! Times the work that grows with the fabric: generation, detection, reading.
#![expect(clippy::unwrap_used, reason = "a bench may stop at bad input")]

use divan::Bencher;
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{FatTree, Graph, ibnetdiscover};

const CLUSTER: &str = include_str!("../../../data/cluster-edr-96.ibnetdiscover");
const MILLION: &str = "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 2\nk = 64\nw = 16\n\
                       endpoints_per_leaf = 32\n";

fn main() {
    divan::main();
}

fn million() -> Graph {
    TopologySpec::parse(MILLION).unwrap().generate().unwrap()
}

#[divan::bench]
fn generate_papers_fabric() -> Graph {
    TopologySpec::paper().generate().unwrap()
}

#[divan::bench]
fn detect_papers_fabric(bencher: Bencher<'_, '_>) {
    let graph = TopologySpec::paper().generate().unwrap();
    bencher.bench_local(|| FatTree::detect(&graph).unwrap());
}

#[divan::bench(sample_count = 3)]
fn generate_a_million_endpoints() -> Graph {
    million()
}

#[divan::bench(sample_count = 3)]
fn detect_a_million_endpoints(bencher: Bencher<'_, '_>) {
    let graph = million();
    bencher.bench_local(|| FatTree::detect(&graph).unwrap());
}

#[divan::bench]
fn read_the_cluster() -> Graph {
    ibnetdiscover::read(divan::black_box(CLUSTER)).unwrap()
}

#[divan::bench]
fn write_papers_fabric(bencher: Bencher<'_, '_>) {
    let graph = TopologySpec::paper().generate().unwrap();
    bencher.bench_local(|| ibnetdiscover::write(&graph));
}

#[divan::bench]
fn read_papers_fabric(bencher: Bencher<'_, '_>) {
    let text = ibnetdiscover::write(&TopologySpec::paper().generate().unwrap());
    bencher.bench_local(|| ibnetdiscover::read(&text).unwrap());
}
