//! Times the trees of large collectives.
#![expect(clippy::unwrap_used, reason = "a bench may stop at bad input")]

use std::sync::Arc;

use divan::Bencher;
use fabricast_collectives::{
    AdapterCost, AdapterTree, Allocator, CollectiveId, CostParameters, Demand, Fabric, JobId,
    Nesting, NestingSizes, Operation, Owner, Request, Settings, SizeRange, TenantId,
};
use fabricast_topology::EndpointId;
use fabricast_topology::spec::TopologySpec;

fn main() {
    divan::main();
}

/// Midplanes of 16 leaf switches of 16 endpoints, or of 32 of 32.
fn fabric(endpoints: u32) -> (Fabric, Vec<EndpointId>) {
    let (width, blocks) = if endpoints == 40_960 { (16, 10) } else { (32, 64) };
    let text = format!(
        "kind = 'cn-tn-fat-tree'\nq = {width}\nm = 16\np = 2\nk = {blocks}\nw = 16\n\
         endpoints_per_leaf = {width}\n"
    );
    let graph = TopologySpec::parse(&text).unwrap().generate().unwrap();
    assert_eq!(graph.endpoint_count(), endpoints as usize);
    let endpoints = graph.endpoints().collect();
    (Fabric::detect(Arc::new(graph)), endpoints)
}

#[divan::bench(args = [40_960, 1_048_576], sample_count = 5)]
fn group_by_fabric(bencher: Bencher<'_, '_>, endpoints: u32) {
    let (fabric, endpoints) = fabric(endpoints);
    bencher.bench_local(|| Nesting::of_fabric(&fabric, &endpoints).unwrap());
}

#[divan::bench(args = [40_960, 1_048_576], sample_count = 5)]
fn hierarchical_tree(bencher: Bencher<'_, '_>, endpoints: u32) {
    let (fabric, endpoints) = fabric(endpoints);
    let nesting = Nesting::of_fabric(&fabric, &endpoints).unwrap();
    bencher.bench_local(|| AdapterTree::hierarchical(&nesting, 32).unwrap());
}

/// The choice of an adapter tree over processes in no order of places.
#[divan::bench(args = [40_960], sample_count = 20)]
fn choose_adapter_shape(bencher: Bencher<'_, '_>, endpoints: u32) {
    let (fabric, endpoints) = fabric(endpoints);
    let count = endpoints.len();
    let scattered: Vec<EndpointId> =
        (0..count).map(|process| endpoints[process * 7_919 % count]).collect();
    bencher.bench_local(|| {
        let sizes = NestingSizes::of_fabric(&fabric, &scattered).unwrap();
        let parameters = CostParameters::DEFAULT;
        AdapterCost::new(&parameters, &sizes, Operation::AllReduce, 4_096).cheapest(63)
    });
}

/// One collective after another, each of 34 members a column apart, on the fabric of 40 960.
#[divan::bench(args = [34, 1_156, 40_960], sample_count = 20)]
fn allocate_and_release(bencher: Bencher<'_, '_>, members: u32) {
    let (fabric, endpoints) = fabric(40_960);
    let mut allocator = Allocator::new(fabric, Settings::default());
    let step = endpoints.len() / members as usize;
    let request = Request {
        id: CollectiveId(0),
        owner: Owner { tenant: TenantId(0), job: JobId(0) },
        members: endpoints.into_iter().step_by(step).take(members as usize).collect(),
        operations: vec![Operation::AllReduce],
        bytes: SizeRange { min: 0, max: 8 },
        demand: Demand::SwitchTree,
    };
    bencher.bench_local(|| {
        allocator.allocate(request.clone()).unwrap();
        allocator.release(request.id)
    });
}
