//! `fabricast route plan`: groups and a fabric in, trees and tables out, with no control plane.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use fabricast_routing::formats::{
    GroupRecord, RoutesFile, allot_mgids, write_groups, write_routes, write_tables,
};
use fabricast_routing::{
    Advice, BuildError, Change, EngineKind, Metrics, Plan, PortLoads, RoutingEngine, Scenario,
    advise, build_engine, metrics, table_entries,
};
use fabricast_topology::{FatTree, Graph, Mgid, TableEntry};
use serde::Serialize;

use super::advice::Advised;
use crate::args::{CompareArgs, Format, OfflineEngineArgs, OfflineGroupArgs, colors};
use crate::failure::Failure;
use crate::loads;
use crate::output::{self, Rows};
use crate::plan_input::{self, Groups};
use crate::progress::Progress;
use crate::source::Topology;

/// Most groups and members without a tree that a table lists.
const LISTED: usize = 20;

/// The figures of a plan.
#[derive(Debug, Serialize)]
struct Figures {
    engine: &'static str,
    fault_tolerant: bool,
    groups: u32,
    virtual_groups: u32,
    trees: u32,
    moved: usize,
    unprotected: usize,
    unrouted: usize,
    cut_off: usize,
    left_out: Vec<String>,
    max_tfi: u32,
    mean_tfi: f64,
    max_efi: u32,
    mean_efi: f64,
    max_efi_with_endpoint_links: u32,
    entries_used: u32,
    colors: u16,
    table_entries: usize,
    trees_ms: f64,
    tables_ms: f64,
    advice: Vec<Advised>,
}

/// Options of `route plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    input: OfflineGroupArgs,
    #[command(flatten)]
    engine: OfflineEngineArgs,
    /// Entries of each multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    colors: u16,
    #[command(flatten)]
    compare: CompareArgs,
    /// Plan with the engine of least cost of those that are compared: the fewest groups without a
    /// tree, then the fewest members cut off, then the least maximum EFI, then the least maximum
    /// TFI.
    #[arg(long, conflicts_with = "engine")]
    best_engine: bool,
    /// Output file for the routes.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Output file for the tables.
    #[arg(long, value_name = "FILE")]
    tables_out: Option<PathBuf>,
    /// Output file for the groups with their MGIDs.
    #[arg(long, value_name = "FILE")]
    groups_out: Option<PathBuf>,
}

/// Runs `route plan`.
///
/// # Errors
///
/// See [`Failure`]; no file has changed then.
pub(super) fn run(args: &PlanArgs, format: Format) -> Result<(), Failure> {
    let topology = Topology::read(&args.input.topology)?;
    let graph = &topology.graph;
    let (engine, fat_tree) = engine(args, &topology)?;
    let loads = loads::read(&args.engine, graph)?;
    let groups = Groups::read(&args.input.groups, &topology)?;
    let mut records = groups.records(engine.space())?;
    let progress = Progress::of_time("planning");
    let mut routed = route(engine, &records, loads.as_ref())?;
    let scenario = Scenario {
        graph,
        fat_tree: fat_tree.as_ref(),
        kind: routed.engine.kind(),
        options: plan_input::options(&args.engine.engine, args.colors)?,
        loads: loads.as_ref(),
        groups: groups.source(),
    };
    let budget = args.compare.budget();
    let advice = advise(&scenario, args.colors, &*routed.engine, budget).context("groups")?;
    let best = advice.iter().find_map(Advice::best_engine).filter(|_| args.best_engine);
    if let Some(best) = best.filter(|kind| *kind != scenario.kind) {
        let options = scenario.with_engine(best).options;
        let made = build_engine(best, Arc::clone(graph), fat_tree.clone(), options);
        let made = made.map_err(plan_input::build_failure)?;
        records = groups.records(made.space())?;
        routed = route(made, &records, loads.as_ref())?;
    }
    let Timed { engine, mgids, trees_ms } = routed;
    let started = Instant::now();
    let entries = table_entries(graph, engine.plan());
    let tables_ms = started.elapsed().as_secs_f64() * 1e3;
    progress.finish();
    let numbered = mgids.iter().zip(&records);
    let numbered: Vec<GroupRecord> = numbered
        .map(|(mgid, record)| GroupRecord { mgid: Some(*mgid), ..record.clone() })
        .collect();
    write(args, &topology, &*engine, &entries, &numbered)?;
    let advice = advice.iter().map(Advised::of).collect();
    let figures =
        Figures { trees_ms, tables_ms, advice, ..figures(&*engine, graph, entries.len()) };
    output::print(format, &figures, figures_text)
}

/// An engine with all groups, and the time that they took.
struct Timed {
    engine: Box<dyn RoutingEngine>,
    mgids: Vec<Mgid>,
    trees_ms: f64,
}

/// Routes groups in their order.
fn route(
    mut engine: Box<dyn RoutingEngine>,
    records: &[GroupRecord],
    loads: Option<&Arc<PortLoads>>,
) -> Result<Timed, Failure> {
    if let Some(loads) = loads {
        engine.set_loads(Arc::clone(loads));
    }
    let mgids = allot_mgids(records, *engine.space());
    let put = |(mgid, record): (&Mgid, &GroupRecord)| Change::Put {
        mgid: *mgid,
        members: record.members.clone(),
    };
    let changes: Vec<Change> = mgids.iter().zip(records).map(put).collect();
    let started = Instant::now();
    engine.apply(&changes).context("groups")?;
    Ok(Timed { engine, mgids, trees_ms: started.elapsed().as_secs_f64() * 1e3 })
}

/// Writes the output files that the arguments name.
fn write(
    args: &PlanArgs,
    topology: &Topology,
    engine: &dyn RoutingEngine,
    entries: &[TableEntry],
    groups: &[GroupRecord],
) -> Result<(), Failure> {
    let graph = &topology.graph;
    let tables = plan_input::table_kind(args.engine.engine.tables);
    let mut texts: Vec<(&Path, String)> = Vec::new();
    if let Some(out) = &args.out {
        let file = RoutesFile::of(engine, &topology.digest());
        texts.push((out, write_routes(&file, graph)));
    }
    if let Some(out) = &args.tables_out {
        texts.push((out, write_tables(entries, graph, tables)));
    }
    if let Some(out) = &args.groups_out {
        texts.push((out, write_groups(groups, graph)));
    }
    let files: Vec<(&Path, &str)> = texts.iter().map(|(path, text)| (*path, &**text)).collect();
    output::files(&files)
}

fn figures(engine: &dyn RoutingEngine, graph: &Graph, table_entries: usize) -> Figures {
    let plan = engine.plan();
    let Metrics { groups, trees, max_tfi, mean_tfi, switch_links, all_links, max_entries } =
        metrics(graph, plan);
    Figures {
        engine: engine.kind().name(),
        fault_tolerant: plan.is_dual(),
        groups,
        virtual_groups: shared_trees(plan),
        trees,
        moved: plan.moved().len(),
        unprotected: plan.unprotected().count(),
        unrouted: plan.unrouted().len(),
        cut_off: plan.cut_off().count(),
        left_out: left_out(plan, graph),
        max_tfi,
        mean_tfi,
        max_efi: switch_links.max_efi,
        mean_efi: switch_links.mean_efi,
        max_efi_with_endpoint_links: all_links.max_efi,
        entries_used: max_entries,
        colors: plan.colors(),
        table_entries,
        trees_ms: 0.0,
        tables_ms: 0.0,
        advice: Vec::new(),
    }
}

/// Counts the virtual groups that have a tree.
fn shared_trees(plan: &Plan) -> u32 {
    u32::try_from(plan.trees_by_virtual_group().count()).unwrap_or(u32::MAX)
}

fn figures_text(figures: &Figures) -> String {
    let mut rows = Rows::new(&["FIGURE", "VALUE"]);
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    row("groups with two or more members", figures.groups.to_string());
    row("virtual groups", figures.virtual_groups.to_string());
    if figures.fault_tolerant {
        row("trees of theirs, two where several leaves", figures.trees.to_string());
        row("second trees that are not to be had", figures.unprotected.to_string());
    }
    row("moved off the tree of their MGID", figures.moved.to_string());
    row("groups without a tree", figures.unrouted.to_string());
    row("members that no live link reaches", figures.cut_off.to_string());
    row("TFI max / mean", format!("{} / {:.2}", figures.max_tfi, figures.mean_tfi));
    row(
        "EFI max / mean, links between switches",
        format!("{} / {:.2}", figures.max_efi, figures.mean_efi),
    );
    row("EFI max, endpoint links too", figures.max_efi_with_endpoint_links.to_string());
    row("entries used", format!("{} of {}", figures.entries_used, figures.colors));
    row("table entries in all", figures.table_entries.to_string());
    row("trees and merging", format!("{:.1} ms", figures.trees_ms));
    row("final tables", format!("{:.1} ms", figures.tables_ms));
    let advice = figures.advice.iter().map(Advised::line);
    let left_out = output::first(&figures.left_out, LISTED);
    let lines = left_out.into_iter().chain(advice);
    lines.fold(rows.to_string(), |text, line| format!("{text}\n{line}"))
}

/// Lists groups and members without a tree, and groups off the tree of their MGID, with reasons.
fn left_out(plan: &Plan, graph: &Graph) -> Vec<String> {
    let unrouted =
        plan.unrouted().iter().map(|group| format!("group {} has no tree: {group}", group.mgid.0));
    let cut_off = plan.cut_off().map(|cut| {
        let endpoint = graph.endpoint_name(cut.endpoint);
        format!("group {}: {endpoint} is cut off: {}", cut.mgid.0, cut.why)
    });
    let moved = plan.moved().iter().map(|moved| {
        let (mgid, from, to) = (moved.mgid.0, moved.from, moved.to);
        format!("group {mgid} moved from spanning tree {from} to {to}: {}", moved.why)
    });
    let unprotected = plan.unprotected().map(|one| {
        format!("group {} has no second tree: tree {} needs {}", one.mgid.0, one.tree, one.link)
    });
    unrouted.chain(cut_off).chain(moved).chain(unprotected).collect()
}

/// An engine, and its fabric as a fat tree if it is one.
type Made = (Box<dyn RoutingEngine>, Option<Arc<FatTree>>);

/// Builds the requested engine.
fn engine(args: &PlanArgs, topology: &Topology) -> Result<Made, Failure> {
    let options = plan_input::options(&args.engine.engine, args.colors)?;
    let fat_tree = topology.fat_tree();
    let kind = match (args.best_engine, &fat_tree) {
        (true, Err(_)) => EngineKind::Mr4lms,
        _ => args.engine.engine.kind,
    };
    let view = fat_tree.as_ref().ok().cloned().map(Arc::new);
    match (build_engine(kind, topology.graph.clone(), view.clone(), options), fat_tree) {
        (Err(BuildError::NeedsFatTree { .. }), Err(why)) => Err(why),
        (built, _) => Ok((built.map_err(plan_input::build_failure)?, view)),
    }
}
