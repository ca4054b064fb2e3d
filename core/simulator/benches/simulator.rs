//! Speed of the simulator in packet-hops per second. Budget: 1 million per core on FT(8, 3).

use divan::Bencher;
use divan::counter::ItemsCount;
use fabricast_simulator::{
    Chance, Delivery, Model, MulticastPolicy, Network, Offer, Packet, Roots, Route, Routes,
    Simulator, Workload, m_port_n_tree,
};
use fabricast_topology::{EndpointId, FatTree};

fn main() {
    divan::main();
}

/// Endpoints that always have the next packet: unicast to anyone, or a broadcast.
struct Full {
    chances: Vec<Chance>,
    trees: Vec<Route>,
    bytes: u32,
}

impl Workload for Full {
    fn next(&mut self, now_ps: u64, from: EndpointId, _channel: u8) -> Offer {
        let route = match self.trees.get(from.index()) {
            Some(route) => *route,
            None => Route::Unicast(EndpointId(self.chances[from.index()].below(128))),
        };
        Offer::Send(Packet { route, bytes: self.bytes, born_ps: now_ps, tag: 0 })
    }

    fn delivered(&mut self, _now_ps: u64, _delivery: &Delivery) {}
}

/// Runs FT(8, 3) under full load for some simulated time; gives the hops.
fn run(bencher: Bencher<'_, '_>, multicast: Option<MulticastPolicy>, bytes: u32, run_ps: u64) {
    let graph = m_port_n_tree(8, 3).expect("a valid tree");
    let fat_tree = FatTree::detect(&graph).expect("a fat tree");
    let mut routes = Routes::new();
    let all: Vec<EndpointId> = graph.endpoints().collect();
    let roots = Roots::new(&graph, &fat_tree);
    let trees: Vec<Route> = match multicast {
        None => Vec::new(),
        Some(_) => graph
            .endpoints()
            .map(|from| {
                Route::Tree(roots.add(&mut routes, from, &all, from.0 % 16).expect("it is whole"))
            })
            .collect(),
    };
    let network = Network { graph: &graph, fat_tree: &fat_tree, routes: &routes };
    let model = Model { multicast: multicast.unwrap_or_default(), ..Model::dawning() };
    let start = || {
        let chances = (0..128).map(|stream| Chance::new(1, stream)).collect();
        let load = Full { chances, trees: trees.clone(), bytes };
        Simulator::new(network, model, load).expect("a valid model")
    };
    let mut once = start();
    once.run_until(run_ps).expect("no deadlock");
    bencher.counter(ItemsCount::new(once.counters().hops)).with_inputs(start).bench_local_values(
        |mut simulator| {
            simulator.run_until(run_ps).expect("no deadlock");
            simulator
        },
    );
}

/// Budget: 1 million packet-hops a second.
#[divan::bench(sample_count = 20)]
fn unicast_at_full_load(bencher: Bencher<'_, '_>) {
    run(bencher, None, 256, 500_000_000);
}

#[divan::bench(sample_count = 20)]
fn all_to_all_broadcast_by_bulletin(bencher: Bencher<'_, '_>) {
    run(bencher, Some(MulticastPolicy::Bulletin), 1_024, 1_000_000_000);
}

#[divan::bench(sample_count = 20)]
fn all_to_all_broadcast_with_splitting(bencher: Bencher<'_, '_>) {
    run(bencher, Some(MulticastPolicy::Splitting), 1_024, 1_000_000_000);
}
