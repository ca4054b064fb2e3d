//! Cost of one join or leave on top of many groups: median and 99th percentile, in lines of the
//! form `figure latency/<groups>/<change>/<statistic> <number> <unit>`.
//!
//! Groups and endpoints are random; an endpoint joins only groups whose color it does not use yet,
//! as those who choose MGIDs see to. Every spanning tree has been changed before, so that the
//! engine has its indices. Of several rounds the best is given, for the machine may have other
//! work.

use std::sync::Arc;
use std::time::Instant;

use fabricast_routing::{
    Change, EngineOptions, FixedRootEngine, Grid, LayerPlan, PatternGroup, grid_groups,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, FatTree, SplitMix, TableKind};

/// The paper's fabric with all its CNs: 29 184 switches, 262 144 endpoints.
const ALL_512_CNS: &str = "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 6\nk = 32\nw = 16\n\
                           endpoints_per_leaf = 16\nswitch_ports = 40\n";

/// 1 024 CNs of 32 leaves with 32 endpoints, 32 TNs: switches of at most 80 ports.
const MILLION: &str = "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 2\nk = 64\nw = 16\n\
                       endpoints_per_leaf = 32\n";

const ROUNDS: usize = 5;
/// Joins in a round, and as many leaves.
const CHANGES: usize = 10_000;

fn main() {
    measure("8_900_groups", &TopologySpec::paper(), [100, 50, 26]);
    let parse = |text| TopologySpec::parse(text).expect("a valid description");
    measure("32_768_groups", &parse(ALL_512_CNS), [128, 128, 64]);
    measure("111_200_groups", &parse(MILLION), [400, 200, 52]);
}

/// Measures on a grid with 4 processes per endpoint.
#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn measure(name: &str, fabric: &TopologySpec, [x, y, z]: [u32; 3]) {
    let mut bench = Bench::new(fabric, &Grid::cube(x, y, z, 4).expect("a valid grid"));
    bench.warm();
    let rounds: Vec<[Vec<u64>; 3]> = (0..ROUNDS).map(|_| bench.round()).collect();
    for (at, change) in ["join", "leave", "either"].into_iter().enumerate() {
        for (statistic, per_mille) in [("median", 500), ("99th_percentile", 990)] {
            let of_round = |round: &[Vec<u64>; 3]| round[at][round[at].len() * per_mille / 1_000];
            let best = rounds.iter().map(of_round).min().unwrap_or(0);
            let (whole, rest) = (best / 1_000, best % 1_000);
            println!("figure latency/{name}/{change}/{statistic} {whole}.{rest:03} us");
        }
    }
}

struct Bench {
    engine: FixedRootEngine,
    groups: Vec<PatternGroup>,
    colors: Vec<u64>, // by endpoint: a bit for each color in use
    dice: SplitMix,
}

impl Bench {
    fn new(fabric: &TopologySpec, grid: &Grid) -> Self {
        let graph = Arc::new(fabric.generate().expect("a valid description"));
        let fat_tree = Arc::new(FatTree::detect(&graph).expect("a fat tree"));
        let options = EngineOptions::new(32, TableKind::PerPort);
        let mut engine = FixedRootEngine::new(Arc::clone(&graph), fat_tree, options)
            .expect("32 colors are fine");
        let endpoints = u32::try_from(graph.endpoint_count()).expect("32-bit numbers");
        let space = *engine.layout().space();
        let groups =
            grid_groups(grid, false, LayerPlan::Compact, &space, endpoints).expect("it fits");
        let mut colors = vec![0; graph.endpoint_count()];
        let put = |group: &PatternGroup| {
            let color = space.color(space.spt(group.mgid));
            group.members.iter().for_each(|member| colors[member.index()] |= 1 << color);
            Change::Put { mgid: group.mgid, members: group.members.clone() }
        };
        engine.apply(&groups.iter().map(put).collect::<Vec<_>>()).expect("valid groups");
        Self { engine, groups, colors, dice: SplitMix::new(1) }
    }

    /// Changes every spanning tree once.
    fn warm(&mut self) {
        let space = *self.engine.layout().space();
        let mut done = vec![false; space.total() as usize];
        for at in 0..self.groups.len() {
            let spt = space.spt(self.groups[at].mgid) as usize;
            if !std::mem::replace(&mut done[spt], true) {
                let member = self.groups[at].members[0];
                self.time(at, member, false);
                self.time(at, member, true);
            }
        }
    }

    /// Times joins and leaves in turn, in nanoseconds, rising: one, the other, and both together.
    /// Each undoes another, so that rounds are alike.
    fn round(&mut self) -> [Vec<u64>; 3] {
        let (mut joins, mut leaves) = (Vec::new(), Vec::new());
        while joins.len() < CHANGES {
            let (group, guest) = self.guest();
            joins.push(self.time(group, guest, true));
            let other = self.below(self.groups.len());
            let member = self.below(self.groups[other].members.len());
            let member = self.groups[other].members[member];
            leaves.push(self.time(other, member, false));
            leaves.push(self.time(group, guest, false));
            joins.push(self.time(other, member, true));
        }
        let mut rounds = [joins.clone(), leaves.clone(), [joins, leaves].concat()];
        rounds.iter_mut().for_each(|times| times.sort_unstable());
        rounds
    }

    /// Picks a group and an endpoint that does not use its color.
    fn guest(&mut self) -> (usize, EndpointId) {
        let group = self.below(self.groups.len());
        let space = self.engine.layout().space();
        let color = space.color(space.spt(self.groups[group].mgid));
        loop {
            let endpoint = self.below(self.colors.len());
            if self.colors[endpoint] >> color & 1 == 0 {
                return (group, EndpointId(u32::try_from(endpoint).expect("32-bit numbers")));
            }
        }
    }

    fn below(&mut self, count: usize) -> usize {
        self.dice.below(u32::try_from(count).expect("fewer than 2^32")) as usize
    }

    #[expect(clippy::disallowed_methods, reason = "a bench takes the time")]
    fn time(&mut self, group: usize, endpoint: EndpointId, joins: bool) -> u64 {
        let mgid = self.groups[group].mgid;
        let change =
            if joins { Change::Join { mgid, endpoint } } else { Change::Leave { mgid, endpoint } };
        let start = Instant::now();
        self.engine.apply(std::slice::from_ref(&change)).expect("a valid change");
        u64::try_from(start.elapsed().as_nanos()).expect("it does not take centuries")
    }
}
