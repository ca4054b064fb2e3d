//! `fabricast route verify`: files of groups, routes and tables against each other and the rules.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use fabricast_routing::formats::{GroupRecord, RoutesFile, allot_mgids, read_routes, read_tables};
use fabricast_routing::verify::{self, Senders, Violation};
use fabricast_routing::{EngineKind, EngineOptions, mgid_space};
use fabricast_topology::{EndpointId, Faults, Graph, Mgid, SwitchId};
use serde::Serialize;

use super::audit::{self, Members};
use super::deadlock::Deadlock;
use crate::args::{Format, ServerArgs};
use crate::failure::Failure;
use crate::group_file;
use crate::output;
use crate::progress::Progress;
use crate::source::{Topology, read_text};

/// Most violations that a table lists.
const LISTED: usize = 20;

/// Number of violations to list: JSON has all.
pub(super) fn listed(format: Format) -> usize {
    match format {
        Format::Json => usize::MAX,
        Format::Table | Format::Hostlist | Format::Slurm => LISTED,
    }
}

/// Result of the verifier.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) groups: usize,
    pub(super) unrouted: usize,
    pub(super) cut_off: usize,
    pub(super) packets: u64,
    pub(super) delivered: u64,
    pub(super) hops: u64,
    pub(super) entries: usize,
    pub(super) unused_entries: usize,
    pub(super) violations: Vec<String>,
    pub(super) violation_count: u64,
    pub(super) deadlock: Option<Deadlock>,
    pub(super) elapsed_ms: f64,
}

/// Options of `route verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (see `topology
    /// list`).
    #[arg(long, value_name = "FILE|PRESET", required_unless_present = "live")]
    pub(super) topology: Option<String>,
    /// Groups in JSON lines.
    #[arg(long, value_name = "FILE", required_unless_present = "live")]
    pub(super) groups: Option<PathBuf>,
    /// Routes in JSON lines.
    #[arg(long, value_name = "FILE", required_unless_present = "live")]
    pub(super) routes: Option<PathBuf>,
    /// Tables in JSON lines; default: made from the routes.
    #[arg(long, value_name = "FILE")]
    pub(super) tables: Option<PathBuf>,
    /// Send from every member, not only from one member per leaf switch and group. With `--live`,
    /// unused entries count as violations only with this option.
    #[arg(long)]
    pub(super) all_senders: bool,
    /// Links are lossless (InfiniBand, Ethernet with PFC), so that channels which wait for each
    /// other in a cycle can deadlock: a cycle is a violation then, else a warning. Default: true
    /// for topologies as `ibnetdiscover` prints them, false for generated ones and with `--live`.
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    pub(super) lossless: Option<bool>,
    /// Read the tables of the switches of a running control plane, and compare them with its
    /// groups.
    #[arg(long, conflicts_with_all = ["topology", "groups", "routes", "tables"])]
    pub(super) live: bool,
    /// Switch agents that share the fabric; default: the server.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "live")]
    pub(super) switch_agents: Vec<String>,
    /// Route services; default: the server.
    #[arg(long, value_name = "HOST:PORT,...", requires = "live")]
    pub(super) router: Option<String>,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Runs `route verify`.
///
/// # Errors
///
/// [`Failure::No`] if anything does not fit together, else what is wrong with which file.
pub(super) fn run(args: &VerifyArgs, format: Format) -> Result<(), Failure> {
    let file = |file: &Option<PathBuf>| file.clone().unwrap_or_default();
    let (groups, routes_file) = (file(&args.groups), file(&args.routes));
    let topology = Topology::read(args.topology.as_deref().unwrap_or_default())?;
    let graph = &topology.graph;
    let records = group_file::read(&groups, graph)?;
    let routes = routes(&routes_file, &topology)?;
    let (tables, colors) = (routes.header.tables, routes.header.colors);
    let mgids = mgids(&routes_file, &topology, &records, &routes)?;
    let members: Members =
        mgids.into_iter().zip(records).map(|(mgid, record)| (mgid, record.members)).collect();

    let progress = Progress::of_time("verifying");
    let started = Instant::now();
    let mut findings = audit::routes(graph, &routes, &members);
    let mut entries = routes.table_entries(graph, &members);
    if let Some(path) = &args.tables {
        let text = read_text(path)?;
        let found = read_tables(&text, graph, tables, colors)
            .with_context(|| format!("'{}'", path.display()))?;
        findings.extend(audit::tables(graph, tables, &entries, &found));
        entries = found;
    }
    let senders = if args.all_senders { Senders::All } else { Senders::OnePerSwitch };
    let options = verify::Options { colors, tables, senders, list: listed(format) };
    let groups = delivery_groups(&routes, &members);
    let report = verify::verify(graph, &Faults::new(), &groups, &entries, options);
    progress.finish();

    let is_lossless = args.lossless.unwrap_or(topology.is_infiniband());
    let deadlock = report.cycle.as_ref().map(|cycle| Deadlock::new(graph, cycle, is_lossless));
    let count = report.violation_count
        + u64::try_from(findings.len())?
        + u64::from(deadlock.as_ref().is_some_and(Deadlock::is_violation));
    findings.truncate(listed(format));
    findings.extend(report.violations.iter().map(|violation| in_words(graph, violation)));
    let verdict = Verdict {
        groups: report.groups,
        unrouted: routes.groups.iter().filter(|route| route.unrouted.is_some()).count(),
        cut_off: routes.groups.iter().map(|route| route.cut_off.len()).sum(),
        packets: report.packets,
        delivered: report.delivered,
        hops: report.hops,
        entries: report.entries,
        unused_entries: report.unused_entries,
        violations: findings,
        violation_count: count,
        deadlock,
        elapsed_ms: started.elapsed().as_secs_f64() * 1e3,
    };
    say(&verdict, format)
}

/// Prints the verdict.
///
/// # Errors
///
/// [`Failure::No`] if a rule is broken.
pub(super) fn say(verdict: &Verdict, format: Format) -> Result<(), Failure> {
    output::print(format, verdict, text)?;
    match verdict.violation_count {
        0 => Ok(()),
        1 => Err(Failure::No("1 violation".to_owned())),
        count => Err(Failure::No(format!("{count} violations"))),
    }
}

/// Reads the routes, which must be for this topology.
fn routes(path: &Path, topology: &Topology) -> Result<RoutesFile, Failure> {
    let text = read_text(path)?;
    let named = || format!("'{}'", path.display());
    // Alone first: what else the file says makes no sense on another topology.
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let header = read_routes(first, &topology.graph).with_context(named)?.header;
    if header.topology != topology.digest() {
        let failure = Failure::input(format!(
            "{}: line 1: topology: made for the one with SHA-256 '{}', '{}' has {}",
            named(),
            header.topology,
            topology.title,
            topology.digest()
        ));
        return Err(
            failure.hint("give the topology that the routes were planned on, or plan again")
        );
    }
    Ok(read_routes(&text, &topology.graph).with_context(named)?)
}

/// The MGIDs of a file's groups; those that are left out are allotted as `route plan` does it.
fn mgids(
    file: &Path,
    topology: &Topology,
    records: &[GroupRecord],
    routes: &RoutesFile,
) -> Result<Vec<Mgid>, Failure> {
    let given: Option<Vec<Mgid>> = records.iter().map(|record| record.mgid).collect();
    match given {
        Some(mgids) => Ok(mgids),
        None => {
            let header = &routes.header;
            let named = || format!("'{}': line 1: engine", file.display());
            let kind: EngineKind = header.engine.parse().with_context(named)?;
            let fat_tree = if kind.needs_fat_tree() { Some(topology.fat_tree()?) } else { None };
            let options = EngineOptions {
                fault_tolerant: header.fault_tolerant,
                ..EngineOptions::new(header.colors, header.tables)
            };
            Ok(allot_mgids(records, mgid_space(kind, fat_tree.as_ref(), options)?))
        }
    }
}

/// Converts the groups that have a tree, with the members it serves, for the verifier.
fn delivery_groups(routes: &RoutesFile, members: &Members) -> Vec<verify::Group> {
    let routed = routes.groups.iter().filter(|route| route.unrouted.is_none());
    let groups = routed.filter_map(|route| {
        let members = audit::served(route, members.get(&route.mgid)?);
        let (mgid, virtual_group) = (route.mgid, route.virtual_group);
        let mut colors: Vec<u16> = route.trees.iter().map(|tree| tree.color).collect();
        colors.dedup();
        let copies = if routes.header.fault_tolerant { 2 } else { 1 };
        let only_senders = Vec::new();
        Some(verify::Group { mgid, colors, copies, virtual_group, members, only_senders })
    });
    groups.collect()
}

/// Describes a violation with the rule it breaks, and names instead of numbers.
pub(super) fn in_words(graph: &Graph, violation: &Violation) -> String {
    let rule = match violation {
        Violation::SharedEntry { .. } | Violation::DuplicateEntry { .. } => "R1",
        Violation::EntryOutOfRange { .. }
        | Violation::ColorOutOfRange { .. }
        | Violation::UnknownPort { .. } => "R4",
        Violation::Detached { .. }
        | Violation::NotDelivered { .. }
        | Violation::DeliveredTwice { .. }
        | Violation::DeliveredToStranger { .. }
        | Violation::Loop { .. } => "R2",
    };
    format!("{rule}: {}", named(graph, violation))
}

fn named(graph: &Graph, violation: &Violation) -> String {
    let switch = |switch: SwitchId| graph.switch_name(switch);
    let endpoint = |endpoint: EndpointId| graph.endpoint_name(endpoint);
    match violation {
        Violation::EntryOutOfRange { .. } | Violation::UnknownPort { .. } => violation.to_string(),
        Violation::ColorOutOfRange { mgid, color } => {
            format!("group {}: color {color} is beyond the table", mgid.0)
        }
        Violation::DuplicateEntry { row } => format!(
            "{} port {} color {}: two virtual groups need the row",
            switch(row.switch),
            row.in_port,
            row.color
        ),
        Violation::SharedEntry { row, first, second } => format!(
            "{} port {} color {}: virtual groups {first} and {second} meet in the row",
            switch(row.switch),
            row.in_port,
            row.color
        ),
        Violation::Detached { mgid, endpoint: member } => {
            format!("group {}: {} is not connected", mgid.0, endpoint(*member))
        }
        Violation::NotDelivered { mgid, from, to } => format!(
            "group {}: a packet from {} does not reach {}",
            mgid.0,
            endpoint(*from),
            endpoint(*to)
        ),
        Violation::DeliveredTwice { mgid, from, to } => format!(
            "group {}: a packet from {} reaches {} once too often",
            mgid.0,
            endpoint(*from),
            endpoint(*to)
        ),
        Violation::DeliveredToStranger { mgid, from, to } => format!(
            "group {}: a packet from {} reaches {}, which has no part in it",
            mgid.0,
            endpoint(*from),
            endpoint(*to)
        ),
        Violation::Loop { mgid, from, switch: at, port } => format!(
            "group {}: a packet from {} comes round to {} port {port} again",
            mgid.0,
            endpoint(*from),
            switch(*at)
        ),
    }
}

fn text(verdict: &Verdict) -> String {
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
    if verdict.unrouted + verdict.cut_off > 0 {
        text.push_str(&format!(
            "\n{} groups without a tree and {} members cut off, as the routes say",
            verdict.unrouted, verdict.cut_off
        ));
    }
    if let Some(deadlock) = &verdict.deadlock {
        text.push_str(&format!("\n{deadlock}"));
    }
    for violation in &verdict.violations {
        text.push_str(&format!("\n{violation}"));
    }
    let listed = verdict.violations.len()
        + usize::from(verdict.deadlock.as_ref().is_some_and(Deadlock::is_violation));
    let more = verdict.violation_count.saturating_sub(listed.try_into().unwrap_or(0));
    if more > 0 {
        text.push_str(&format!("\n{}", output::and_more(more)));
    }
    text
}
