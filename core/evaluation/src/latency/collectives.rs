//! Collectives of all rows and columns at once: C-MR4LMS §4.4, table 1, figures 11 and 12.

use std::num::NonZeroU32;

use fabricast_routing::{EngineKind, Grid, LayerPlan, PatternGroup, RootScope, grid_groups};
use fabricast_simulator::{
    Collective, CollectiveSpec, Network, Operation, ProcessPlan, Routes, Simulator, TreeId,
    grid_processes,
};
use fabricast_topology::{EndpointId, Faults, Mgid, Peer, PortId, TableKind};

use super::model::{SMALL, Summary, model};
use crate::experiment::{ExperimentError, Run};
use crate::hardware::{MessageAdapter, ps};
use crate::network::trees;
use crate::plot::Quartiles;
use crate::routing::{Fabric, Refusal, Way, route};
use crate::sample::Sample;

/// The paper's fabric as far as 4 CNs reach: 600 of their 2 048 endpoints take part.
const FABRIC: &str = "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 6\nk = 32\nw = 16\ncns = 4\n\
                      endpoints_per_leaf = 16\nswitch_ports = 40\n";
const ENDPOINTS: u32 = 600;
const OF_A_CN: u32 = 512;
/// Processes of an endpoint.
const PROCESSES: u32 = 6;

/// Columns and rows. The text names the first one only.
pub(super) const PATTERNS: [[u32; 2]; 3] = [[60, 60], [100, 36], [180, 20]];

/// The operations that are timed, with their names.
pub(super) const OPERATIONS: [(&str, Operation); 4] = [
    ("barrier", Operation::Barrier),
    ("all-reduce 8 B", Operation::AllReduce(8)),
    ("broadcast 8 B", Operation::Broadcast(8)),
    ("broadcast 2 KiB", Operation::Broadcast(2_048)),
];

pub(super) const GLOBAL: Way = Way::new(EngineKind::GlobalTree, 32, TableKind::PerPort);
pub(super) const MR4LMS: Way = Way::new(EngineKind::Mr4lms, 32, TableKind::PerPort);
pub(super) const FIXED: Way = Way::new(EngineKind::CMr4lmsFixed, 32, TableKind::PerPort);
pub(super) const DYNAMIC: Way =
    Way::new(EngineKind::CMr4lmsDynamic, 32, TableKind::PerPort).scope(RootScope::TnGroup);
pub(super) const TWO_TREES: Way = FIXED.fault_tolerant();

/// The routings of table 1, and the fixed one with two trees.
pub(super) const WAYS: [Way; 5] = [GLOBAL, MR4LMS, FIXED, DYNAMIC, TWO_TREES];

/// The rounds of one operation on one pattern with one routing.
#[derive(Clone, Debug)]
pub(super) struct Timed {
    pub(super) pattern: [u32; 2],
    pub(super) operation: usize,
    pub(super) way: Way,
    /// Durations of the first process's rounds of all seeds, in microseconds.
    pub(super) rounds_us: Vec<f64>,
    /// Of the same.
    pub(super) time: Summary,
    /// Mean of every seed.
    pub(super) mean_us: Sample,
    /// Median of every seed.
    pub(super) median_us: Sample,
    /// From the lower to the upper quartile, of every seed.
    pub(super) middle_us: Sample,
}

/// Result of a run with a cut link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) way: Way,
    /// Processes that ended all rounds, of how many.
    pub(super) done: [usize; 2],
    /// Copies sent into the cut link.
    pub(super) lost: u64,
}

/// Number of runs.
pub(super) const fn steps(quick: bool) -> usize {
    patterns(quick).len() * WAYS.len() * OPERATIONS.len() + WAYS.len()
}

const fn patterns(quick: bool) -> &'static [[u32; 2]] {
    if quick { PATTERNS.split_at(1).0 } else { &PATTERNS }
}

/// Rounds of every process; the paper has 5 000.
pub(super) fn rounds(run: &Run<'_>) -> u32 {
    run.rounds.map_or(if run.quick { 12 } else { 200 }, NonZeroU32::get)
}

/// Processes of a pattern with their trees.
struct PlannedGrid {
    processes: Vec<ProcessPlan>,
    routes: Routes,
    trees: Vec<Vec<TreeId>>,
}

/// Times all operations on all patterns with all routings.
pub(super) fn timed(
    run: &mut Run<'_>,
    step: &mut dyn FnMut(&mut Run<'_>, &str),
) -> Result<Vec<Timed>, ExperimentError> {
    let fabric = Fabric::described("4 CNs", FABRIC)?;
    let mut found = Vec::new();
    for pattern in patterns(run.quick) {
        for way in WAYS {
            let label = format!("{}x{}, {}", pattern[0], pattern[1], way.label());
            let failed = |source| ExperimentError { step: label.clone(), source };
            let planned = plan_grid(run, &fabric, *pattern, way).map_err(failed)?;
            for (operation, (name, kind)) in OPERATIONS.iter().enumerate() {
                step(run, &format!("{label}, {name}"));
                let rounds = rounds_of_seeds(run, &fabric, &planned, *kind).map_err(failed)?;
                found.push(Timed::new(*pattern, operation, way, &rounds));
            }
        }
    }
    Ok(found)
}

/// Lists the durations of the first process's rounds in picoseconds, seed by seed.
fn rounds_of_seeds(
    run: &Run<'_>,
    fabric: &Fabric,
    planned: &PlannedGrid,
    operation: Operation,
) -> Result<Vec<Vec<u64>>, Refusal> {
    let of_seed = |seed| {
        let spec = spec(&run.hardware.latency.adapter, operation, rounds(run), seed);
        let (done, _) = perform(run, fabric, planned, spec, &Faults::new())?;
        Ok(done.rounds().iter().map(|round| round.done_ps - round.begun_ps).collect())
    };
    run.all_seeds().map(of_seed).collect()
}

impl Timed {
    fn new(pattern: [u32; 2], operation: usize, way: Way, seeds: &[Vec<u64>]) -> Self {
        let us = |ps: &u64| *ps as f64 / 1e6;
        let quartiles = |rounds: &Vec<u64>| {
            let all = Quartiles::of(&rounds.iter().map(us).collect::<Vec<f64>>());
            all.map_or(0.0, |all| all.upper - all.lower)
        };
        let all = seeds.concat();
        Self {
            pattern,
            operation,
            way,
            rounds_us: all.iter().map(us).collect(),
            time: Summary::of(&all),
            mean_us: seeds.iter().map(|rounds| Summary::of(rounds).mean_us).collect(),
            median_us: seeds.iter().map(|rounds| Summary::of(rounds).median_us).collect(),
            middle_us: seeds.iter().map(quartiles).collect(),
        }
    }
}

/// Cuts a link of the first column's tree and lets everybody broadcast.
pub(super) fn cut(
    run: &mut Run<'_>,
    step: &mut dyn FnMut(&mut Run<'_>, &str),
) -> Result<Vec<Cut>, ExperimentError> {
    let fabric = Fabric::described("4 CNs", FABRIC)?;
    let pattern = PATTERNS[0];
    let mut found = Vec::new();
    for way in WAYS {
        let label = format!("a cut link, {}", way.label());
        step(run, &label);
        let failed = |source| ExperimentError { step: label.clone(), source };
        let planned = plan_grid(run, &fabric, pattern, way).map_err(failed)?;
        let column = planned.trees[pattern[1] as usize][0];
        let up = planned.routes.out_ports(column).find(|port| is_between(&fabric, *port));
        let up = up
            .ok_or("the tree has no link between switches")
            .map_err(|error| failed(error.into()))?;
        let mut faults = Faults::new();
        faults.fail_link(&fabric.graph, up);
        let adapter = &run.hardware.latency.adapter;
        let spec = spec(adapter, Operation::Broadcast(SMALL), 5, run.seed);
        let (done, lost) = perform(run, &fabric, &planned, spec, &faults).map_err(failed)?;
        let all = planned.processes.len();
        found.push(Cut { way, done: [all - done.running(), all], lost });
    }
    Ok(found)
}

fn is_between(fabric: &Fabric, port: PortId) -> bool {
    matches!(fabric.graph.peer(port), Peer::Switch(_))
}

fn plan_grid(
    run: &Run<'_>,
    fabric: &Fabric,
    pattern: [u32; 2],
    way: Way,
) -> Result<PlannedGrid, Refusal> {
    let [x, y] = pattern;
    // As many endpoints of each CN, the first ones.
    let of_each = ENDPOINTS / 4;
    let place = |number: u32| EndpointId(number / of_each * OF_A_CN + number % of_each);
    let endpoints: Vec<EndpointId> = (0..ENDPOINTS).map(place).collect();
    let mut mgids: Vec<Mgid> = Vec::new();
    let routed = route(run, fabric, way, |space| {
        let grid = Grid::plane(x, y, PROCESSES)?;
        let groups = grid_groups(&grid, false, LayerPlan::Compact, space, ENDPOINTS)?;
        mgids.extend(groups.iter().map(|group| group.mgid));
        let placed = groups.into_iter().map(|group| PatternGroup {
            members: group.members.iter().map(|member| place(member.0)).collect(),
            ..group
        });
        Ok(placed.collect())
    })?;
    let (routes, trees) = trees(&fabric.graph, &routed.plan, &mgids)?;
    // Rows first, then columns, as the grid lists its lines.
    Ok(PlannedGrid { processes: grid_processes(x, PROCESSES, &endpoints), routes, trees })
}

fn spec(adapter: &MessageAdapter, operation: Operation, rounds: u32, seed: u64) -> CollectiveSpec {
    let copied = match operation {
        Operation::Broadcast(bytes) | Operation::AllReduce(bytes) if bytes > SMALL => bytes,
        Operation::Barrier | Operation::Broadcast(_) | Operation::AllReduce(_) => 0,
    };
    CollectiveSpec {
        operation,
        rounds,
        header_bytes: adapter.header_bytes,
        fan_in: adapter.fan_in,
        match_ps: ps(adapter.match_ns),
        software_ps: ps(adapter.process_ns + f64::from(copied) * adapter.copy_ns_per_byte),
        noise_ps: ps(adapter.process_noise_ns),
        seed,
    }
}

/// Runs to the end; gives the workload and the copies lost in cut links.
fn perform(
    run: &Run<'_>,
    fabric: &Fabric,
    planned: &PlannedGrid,
    spec: CollectiveSpec,
    faults: &Faults,
) -> Result<(Collective, u64), Refusal> {
    let endpoints = fabric.graph.endpoint_count();
    let load = Collective::new(spec, &planned.processes, planned.trees.clone(), endpoints)?;
    let network =
        Network { graph: &fabric.graph, fat_tree: fabric.fat_tree()?, routes: &planned.routes };
    let mut simulator = Simulator::new(network, model(&run.hardware.latency), load)?;
    simulator.set_faults(faults);
    simulator.run_until(u64::MAX)?;
    Ok((simulator.workload().clone(), simulator.counters().dropped_cut))
}
