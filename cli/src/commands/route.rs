//! `fabricast route`: plan and verify offline, explain what is running.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, anyhow};
use fabricast_proto::v1;
use fabricast_routing::formats::{
    self, GroupRecord, RoutesFile, allot_mgids, read_routes, write_groups, write_routes,
    write_tables,
};
use fabricast_routing::verify::{self, Senders};
use fabricast_routing::{
    Change, Engine, EngineOptions, Grid, LayerPlan, Layout, Metrics, Mgid, MgidSpace, PatternGroup,
    grid_groups, metrics, random_groups, table_entries,
};
use fabricast_topology::{EndpointId, Faults, Graph, TableKind};
use serde::Serialize;

use crate::args::{EngineName, Format, Layers, PlanArgs, RouteCommand, Tables, VerifyArgs};
use crate::commands::topology::write_out;
use crate::failure::Failure;
use crate::group_file;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};
use crate::source::Topology;

/// Violations that are listed.
const LISTED: usize = 20;

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`].
pub(crate) fn run(command: RouteCommand, format: Format) -> Result<(), Failure> {
    match command {
        RouteCommand::Plan(args) => plan(&args, format),
        RouteCommand::Verify(args) => check(&args, format),
        RouteCommand::Explain { group, server } => block_on(async {
            let remote = Remote::new(&server)?;
            let answer = remote.router().explain_route(v1::ExplainRouteRequest { group }).await;
            let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
            output::message(format, &answer.explanation.unwrap_or_default(), explanation_text)
        }),
        RouteCommand::Status { server } => block_on(async {
            let remote = Remote::new(&server)?;
            let answer = remote.router().get_route_status(v1::GetRouteStatusRequest {}).await;
            let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
            output::message(format, &answer, status_text)
        }),
    }
}

/// The figures of a plan.
#[derive(Debug, Serialize)]
struct Figures {
    engine: &'static str,
    groups: u32,
    virtual_groups: u32,
    moved: usize,
    unrouted: usize,
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
}

fn plan(args: &PlanArgs, format: Format) -> Result<(), Failure> {
    let EngineName::CMr4lmsFixed = args.engine;
    let topology = Topology::read(&args.topology)?;
    let graph = &topology.graph;
    let fat_tree = std::sync::Arc::new(topology.fat_tree()?);
    let options = EngineOptions { colors: args.colors, tables: table_kind(args.tables) };
    let mut engine = Engine::new(graph.clone(), fat_tree, options).context("--colors")?;
    let space = *engine.layout().space();
    let records = groups(args, graph, space)?;
    let mgids = allot_mgids(&records, space);
    let changes: Vec<Change> = mgids
        .iter()
        .zip(&records)
        .map(|(mgid, record)| Change::Put { mgid: *mgid, members: record.members.clone() })
        .collect();
    let started = Instant::now();
    engine.apply(&changes).context("groups")?;
    let planned = Instant::now();
    let entries = table_entries(graph, engine.plan());
    let expanded = Instant::now();

    if let Some(out) = &args.out {
        let file = RoutesFile::of(&engine, "c-mr4lms-fixed", &topology.digest());
        write_out(Some(out), &write_routes(&file, graph))?;
    }
    if let Some(out) = &args.tables_out {
        write_out(Some(out), &write_tables(&entries, graph, options.tables))?;
    }
    if let Some(out) = &args.groups_out {
        let numbered = mgids.iter().zip(&records);
        let numbered: Vec<GroupRecord> = numbered
            .map(|(mgid, record)| GroupRecord { mgid: Some(*mgid), ..record.clone() })
            .collect();
        write_out(Some(out), &write_groups(&numbered, graph))?;
    }
    let figures = figures(&engine, graph, args.colors, entries.len());
    let figures = Figures {
        trees_ms: (planned - started).as_secs_f64() * 1e3,
        tables_ms: (expanded - planned).as_secs_f64() * 1e3,
        ..figures
    };
    output::print(format, &figures, figures_text)
}

fn figures(engine: &Engine, graph: &Graph, colors: u16, table_entries: usize) -> Figures {
    let plan = engine.plan();
    let Metrics { groups, trees, max_tfi, mean_tfi, switch_links, all_links, max_entries } =
        metrics(graph, plan);
    Figures {
        engine: "c-mr4lms-fixed",
        groups,
        virtual_groups: trees,
        moved: plan.moved().len(),
        unrouted: plan.unrouted().len(),
        max_tfi,
        mean_tfi,
        max_efi: switch_links.max_efi,
        mean_efi: switch_links.mean_efi,
        max_efi_with_endpoint_links: all_links.max_efi,
        entries_used: max_entries,
        colors,
        table_entries,
        trees_ms: 0.0,
        tables_ms: 0.0,
    }
}

fn figures_text(figures: &Figures) -> String {
    let mut rows = Rows::new(&["FIGURE", "VALUE"]);
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    row("groups with two or more members", figures.groups.to_string());
    row("virtual groups", figures.virtual_groups.to_string());
    row("moved off the tree of their MGID", figures.moved.to_string());
    row("without a tree", figures.unrouted.to_string());
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
    rows.to_string()
}

const fn table_kind(tables: Tables) -> TableKind {
    match tables {
        Tables::PerPort => TableKind::PerPort,
        Tables::PerSwitch => TableKind::PerSwitch,
    }
}

fn groups(args: &PlanArgs, graph: &Graph, space: MgidSpace) -> Result<Vec<GroupRecord>, Failure> {
    if let Some(file) = &args.groups {
        return group_file::read(file, graph);
    }
    let text = args.pattern.as_deref().unwrap_or_default();
    let groups = pattern(text, args, graph, space)
        .map_err(|error| error.context(format!("--pattern '{text}'")))?;
    let record = |group: PatternGroup| GroupRecord {
        mgid: Some(group.mgid),
        name: Some(group.name),
        members: group.members,
    };
    Ok(groups.into_iter().map(record).collect())
}

/// Reads `XxY`, `XxYxZ` or `random:N:SEED`.
fn pattern(
    text: &str,
    args: &PlanArgs,
    graph: &Graph,
    space: MgidSpace,
) -> anyhow::Result<Vec<PatternGroup>> {
    let endpoints = u32::try_from(graph.endpoint_count())?;
    let layers = match args.layers {
        Layers::Compact => LayerPlan::Compact,
        Layers::Wide => LayerPlan::Wide,
    };
    if let Some(rest) = text.strip_prefix("random:") {
        let (count, seed) = rest.split_once(':').ok_or_else(|| anyhow!("not random:N:SEED"))?;
        let count = count.parse().context("N")?;
        let seed = seed.parse().context("SEED")?;
        return Ok(random_groups(count, args.processes, endpoints, seed, &space)?);
    }
    let sizes: Vec<u32> =
        text.split('x').map(str::parse).collect::<Result<_, _>>().context("not XxY or XxYxZ")?;
    let grid = match sizes.as_slice() {
        [x, y] => Grid::plane(*x, *y, args.processes)?,
        [x, y, z] => Grid::cube(*x, *y, *z, args.processes)?,
        _ => return Err(anyhow!("not XxY or XxYxZ")),
    };
    Ok(grid_groups(&grid, false, layers, &space, endpoints)?)
}

/// What the verifier found.
#[derive(Debug, Serialize)]
struct Verdict {
    groups: usize,
    packets: u64,
    delivered: u64,
    hops: u64,
    entries: usize,
    unused_entries: usize,
    violations: Vec<String>,
    violation_count: u64,
    elapsed_ms: f64,
}

fn check(args: &VerifyArgs, format: Format) -> Result<(), Failure> {
    let topology = Topology::read(&args.topology)?;
    let graph = &topology.graph;
    let records = group_file::read(&args.groups, graph)?;
    let named = |path: &std::path::Path| format!("'{}'", path.display());
    let text = std::fs::read_to_string(&args.routes).with_context(|| named(&args.routes))?;
    let routes = read_routes(&text, graph).with_context(|| named(&args.routes))?;
    if routes.header.topology != topology.digest() {
        return Err(anyhow!("topology: made for another one (SHA-256 {})", routes.header.topology)
            .context(format!("{}: line 1", named(&args.routes)))
            .into());
    }
    let (tables, colors) = (routes.header.tables, routes.header.colors);
    let mgids = mgids(&topology, &records, colors, tables)?;
    let members: BTreeMap<Mgid, Vec<EndpointId>> =
        mgids.into_iter().zip(records).map(|(mgid, record)| (mgid, record.members)).collect();
    let entries = match &args.tables {
        None => routes.table_entries(graph, &members),
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| named(path))?;
            formats::read_tables(&text, graph, tables, colors).with_context(|| named(path))?
        }
    };
    let senders = if args.all_senders { Senders::All } else { Senders::OnePerSwitch };
    let options = verify::Options { colors, tables, senders, list: LISTED };
    let groups = routed(&routes, &members, &args.groups)?;
    let started = Instant::now();
    let report = verify::verify(graph, &Faults::new(), &groups, &entries, options);
    let verdict = Verdict {
        groups: report.groups,
        packets: report.packets,
        delivered: report.delivered,
        hops: report.hops,
        entries: report.entries,
        unused_entries: report.unused_entries,
        violations: report.violations.iter().map(ToString::to_string).collect(),
        violation_count: report.violation_count,
        elapsed_ms: started.elapsed().as_secs_f64() * 1e3,
    };
    output::print(format, &verdict, verdict_text)?;
    match report.violation_count {
        0 => Ok(()),
        count => Err(Failure::No(format!("{count} violations"))),
    }
}

/// The MGIDs of a file's groups; those that are left out are allotted as `route plan` does it.
fn mgids(
    topology: &Topology,
    records: &[GroupRecord],
    colors: u16,
    tables: TableKind,
) -> Result<Vec<Mgid>, Failure> {
    let given: Option<Vec<Mgid>> = records.iter().map(|record| record.mgid).collect();
    match given {
        Some(mgids) => Ok(mgids),
        None => {
            let fat_tree = topology.fat_tree()?;
            let layout = Layout::new(fat_tree.params(), colors, tables)?;
            Ok(allot_mgids(records, *layout.space()))
        }
    }
}

/// The groups as the verifier wants them; the two files must be about the same ones.
fn routed(
    routes: &RoutesFile,
    members: &BTreeMap<Mgid, Vec<EndpointId>>,
    groups: &std::path::Path,
) -> Result<Vec<verify::Group>, Failure> {
    let group = |route: &formats::RouteRecord| {
        let all = members.get(&route.mgid).ok_or_else(|| {
            Failure::input(format!(
                "'{}' has no group with mgid {}",
                groups.display(),
                route.mgid.0
            ))
        })?;
        let served = all.iter().filter(|member| !route.cut_off.contains(member));
        Ok(verify::Group {
            mgid: route.mgid,
            color: route.color,
            virtual_group: route.virtual_group,
            members: served.copied().collect(),
        })
    };
    routes.groups.iter().map(group).collect()
}

fn verdict_text(verdict: &Verdict) -> String {
    let mut text = format!(
        "{} groups, {} packets sent, {} copies delivered over {} hops through {} entries \
         ({} not used by these packets) in {:.0} ms: {}",
        verdict.groups,
        verdict.packets,
        verdict.delivered,
        verdict.hops,
        verdict.entries,
        verdict.unused_entries,
        verdict.elapsed_ms,
        if verdict.violation_count == 0 { "every rule held" } else { "VIOLATIONS" }
    );
    for violation in &verdict.violations {
        text.push_str(&format!("\n{violation}"));
    }
    text
}

fn explanation_text(explanation: &v1::RouteExplanation) -> String {
    let number = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    let mut text = format!(
        "group {}: mgid {}, color {}, spanning tree {} (home {}), virtual group {}, root {}",
        explanation.group,
        explanation.mgid,
        number(explanation.color),
        number(explanation.spanning_tree),
        explanation.home_spanning_tree,
        number(explanation.virtual_group),
        if explanation.root.is_empty() { "-" } else { &explanation.root },
    );
    if !explanation.reason.is_empty() {
        text.push_str(&format!("\n{}", explanation.reason));
    }
    if !explanation.shares_with.is_empty() {
        text.push_str(&format!("\nshares its tree with {}", explanation.shares_with.join(", ")));
    }
    if !explanation.cut_off_endpoints.is_empty() {
        text.push_str(&format!("\ncut off: {}", explanation.cut_off_endpoints.join(", ")));
    }
    let mut rows = Rows::new(&["SWITCH", "PORT", "PEER", "PEER PORT"]);
    for link in &explanation.links {
        rows.push(vec![
            link.switch_name.clone(),
            link.port.to_string(),
            link.peer.clone(),
            link.peer_port.to_string(),
        ]);
    }
    format!("{text}\n{rows}")
}

fn status_text(status: &v1::GetRouteStatusResponse) -> String {
    let fence = status.fence.unwrap_or_default();
    let mut text = format!(
        "{}, term {}, generation {}: {}\n{} groups in {} virtual groups, {} on unicast only\n\
         entries used {} of {}, {} programmed in all\nEFI max {} mean {:.2}, TFI max {} mean {:.2}\n\
         last round: {} us to compute, {} us to program",
        status.engine,
        fence.term,
        fence.generation,
        if status.settled { "settled" } else { "at work" },
        status.routed_groups,
        status.virtual_groups,
        status.unicast_only_groups,
        status.used_entries,
        status.colors,
        status.programmed_entries,
        status.max_efi,
        status.mean_efi,
        status.max_tfi,
        status.mean_tfi,
        status.last_compute_us,
        status.last_program_us,
    );
    if !status.last_error.is_empty() {
        text.push_str(&format!("\nlast error: {}", status.last_error));
    }
    for irregularity in &status.irregularities {
        text.push_str(&format!("\nirregular: {irregularity}"));
    }
    text
}
