//! MR4LMS at work: the groups of both papers, at the number of colors that the papers recommend.

use std::fmt;
use std::sync::Arc;

use divan::Bencher;
use fabricast_routing::{
    Change, Grid, LayerPlan, MR4LMS_FABRICS, MgidSpace, Mr4lms, Mr4lmsFabric, Mr4lmsOptions,
    Mr4lmsPattern, PatternGroup, PatternShape, RoutingEngine, grid_groups, random_groups,
};
use fabricast_topology::TableKind;
use fabricast_topology::spec::TopologySpec;

fn main() {
    divan::main();
}

fn puts(groups: Vec<PatternGroup>) -> Vec<Change> {
    let put = |group: PatternGroup| Change::Put { mgid: group.mgid, members: group.members };
    groups.into_iter().map(put).collect()
}

fn measure(bencher: Bencher<'_, '_>, engine: &Mr4lms, puts: &[Change]) {
    bencher.with_inputs(|| engine.clone()).bench_local_values(|mut engine| {
        engine.apply(puts).expect("valid groups");
        engine
    });
}

/// Tables of C-MR4LMS's switches, and of InfiniBand's with as few colors.
const TABLES: [TableKind; 2] = [TableKind::PerPort, TableKind::PerSwitch];

/// Budget: 3 s. C-MR4LMS's fabric with its 32 colors, 100x50x26 with 4 processes per endpoint.
#[divan::bench(args = TABLES, sample_count = 3)]
fn batch_of_8_900_groups(bencher: Bencher<'_, '_>, tables: TableKind) {
    let graph = Arc::new(TopologySpec::paper().generate().expect("a valid description"));
    let engine = Mr4lms::new(graph, Mr4lmsOptions::new(32, tables)).expect("colors in range");
    let grid = Grid::cube(100, 50, 26, 4).expect("a valid grid");
    let space = MgidSpace::any(32).expect("colors in range");
    let groups = grid_groups(&grid, false, LayerPlan::Compact, &space, 32_768).expect("it fits");
    measure(bencher, &engine, &puts(groups));
}

/// The same fabric with all its 512 CNs: 262 144 endpoints.
const ALL_512_CNS: &str = "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 6\nk = 32\nw = 16\n\
                           endpoints_per_leaf = 16\nswitch_ports = 40\n";

/// Budget: 10 s. Groups of 8 endpoints by chance, which meet below most roots.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn random_32_768_groups(bencher: Bencher<'_, '_>) {
    let spec = TopologySpec::parse(ALL_512_CNS).expect("a valid description");
    let graph = Arc::new(spec.generate().expect("a valid description"));
    let options = Mr4lmsOptions::new(32, TableKind::PerPort);
    let engine = Mr4lms::new(graph, options).expect("colors in range");
    let space = MgidSpace::any(32).expect("colors in range");
    let groups = random_groups(32_768, 1, 262_144, 1, &space).expect("it fits");
    measure(bencher, &engine, &puts(groups));
}

/// A pattern on a fabric of MR4LMS's evaluation.
#[derive(Clone, Copy)]
struct Case(Mr4lmsFabric, Mr4lmsPattern);

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.preset, self.1.name())
    }
}

/// The pattern with 4 processes on each fabric, and what takes longest with one.
fn cases() -> impl Iterator<Item = Case> {
    let all = MR4LMS_FABRICS.iter().flat_map(|fabric| fabric.patterns.map(|it| Case(*fabric, it)));
    all.filter(|Case(fabric, pattern)| {
        let is_slow = match fabric.preset {
            "torus" => pattern.shape == PatternShape::Cube(28, 28, 28),
            "random" => pattern.shape == PatternShape::Cube(32, 32, 40),
            _ => false,
        };
        pattern.processes == 4 || is_slow
    })
}

/// Budget: 2 s each. Per-switch tables, the recommended number of colors.
#[divan::bench(args = cases(), sample_count = 3)]
fn recommended_colors(bencher: Bencher<'_, '_>, Case(fabric, pattern): Case) {
    let spec = TopologySpec::preset(fabric.preset).expect("a preset");
    let graph = Arc::new(spec.generate().expect("a valid description"));
    let endpoints = u32::try_from(graph.endpoint_count()).expect("32-bit numbers");
    let options = Mr4lmsOptions::new(fabric.colors, TableKind::PerSwitch);
    let engine = Mr4lms::new(graph, options).expect("colors in range");
    let space = MgidSpace::any(fabric.colors).expect("colors in range");
    let groups = pattern.groups(&space, endpoints, 1).expect("it fits");
    measure(bencher, &engine, &puts(groups));
}
