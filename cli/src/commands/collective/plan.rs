//! `fabricast collective plan`: trees for all groups of a file or pattern, and what they take.

use anyhow::Context;
use clap::Args;
use fabricast_collectives::{
    Allocator, CollectiveId, Demand, JobId, Method, Owner, Request, Service, Settings, SizeRange,
    Survey, TenantId, TreeKind, survey,
};
use fabricast_routing::{MAX_COLORS, MgidSpace};
use fabricast_topology::{EndpointId, TableKind};
use serde::Serialize;

use super::model::{ModelArgs, WorkArgs, fabric, model};
use crate::args::{Format, OfflineGroupArgs};
use crate::failure::Failure;
use crate::group_file;
use crate::output::{self, Rows};
use crate::pattern::Pattern;
use crate::progress::Progress;
use crate::source::Topology;

/// Result of the command.
#[derive(Debug, Serialize)]
struct Outcome {
    collectives: Vec<Planned>,
    switch_trees: usize,
    /// Groups that run on adapter trees.
    adapter_trees: usize,
    /// Entries taken in all switches together.
    entries: usize,
    /// Entries in use in the fullest switch.
    fullest: usize,
    /// Part of the groups that would get no switch tree if every switch on the way took an entry.
    plain_failure_rate: f64,
    /// Entries that would take.
    plain_entries: u64,
}

/// One group's tree.
#[derive(Debug, Serialize)]
struct Planned {
    group: String,
    processes: usize,
    kind: TreeKind,
    /// Entries it takes.
    entries: usize,
    /// Its root switch.
    root: Option<String>,
    /// Reason why it has no switch tree.
    why: Option<String>,
}

/// Options of `collective plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    input: OfflineGroupArgs,
    /// Entries of the aggregation engine of each switch.
    #[arg(long, value_name = "N", default_value_t = 16)]
    entries: u16,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    model: ModelArgs,
}

/// Runs `collective plan`.
///
/// # Errors
///
/// Names file, line and field, or the group that cannot be served at all.
pub(super) fn run(args: &PlanArgs, format: Format) -> Result<(), Failure> {
    let (parameters, limits) = model(&args.model)?;
    let topology = Topology::read(&args.input.topology)?;
    let fabric = fabric(&topology);
    let groups = groups(args, &topology)?;
    let members = || groups.iter().map(|(_, members)| members.as_slice());
    let Survey { entries: plain_entries, .. } = survey(&fabric, members(), Method::Plain, u32::MAX);
    let plain = survey(&fabric, members(), Method::Plain, u32::from(args.entries));
    let settings = Settings { entries: args.entries, limits, parameters, ..Settings::default() };
    let mut allocator = Allocator::new(fabric, settings);
    let progress = Progress::new("planning", groups.len());
    let mut collectives = Vec::new();
    for (id, (group, members)) in (0..).zip(&groups) {
        collectives.push(plan(&mut allocator, id, group, members, &args.work)?);
        progress.step();
    }
    progress.finish();
    let graph = &topology.graph;
    let fullest = graph.switches().map(|switch| allocator.holdings(switch).len());
    let with_tree = collectives.iter().filter(|one| one.kind == TreeKind::Switch).count();
    let outcome = Outcome {
        switch_trees: with_tree,
        adapter_trees: collectives.len() - with_tree,
        entries: collectives.iter().map(|one| one.entries).sum(),
        fullest: fullest.max().unwrap_or(0),
        plain_failure_rate: plain.failure_rate(),
        plain_entries,
        collectives,
    };
    output::print(format, &outcome, text)
}

/// The groups with their names.
fn groups(args: &PlanArgs, topology: &Topology) -> Result<Vec<(String, Vec<EndpointId>)>, Failure> {
    if let Some(file) = &args.input.groups.groups {
        let records = group_file::read(file, &topology.graph)?;
        let named = (1..).zip(records);
        return Ok(named
            .map(|(number, record)| (group_file::name(number, &record), record.members))
            .collect());
    }
    let text = args.input.groups.pattern.as_deref().unwrap_or_default();
    let named = || format!("--pattern '{text}'");
    let pattern = Pattern::read(text, &args.input.groups, topology.graph.endpoint_count());
    // The MGIDs that the groups get do not matter here, only that all find one.
    let space = MgidSpace::new(MAX_COLORS, 1, TableKind::PerPort).with_context(named)?;
    let groups = pattern.with_context(named)?.groups(&space).with_context(named)?;
    let groups = groups.into_iter().filter(|group| !group.members.is_empty());
    Ok(groups.map(|group| (group.name, group.members)).collect())
}

fn plan(
    allocator: &mut Allocator,
    id: u64,
    group: &str,
    members: &[EndpointId],
    work: &WorkArgs,
) -> Result<Planned, Failure> {
    let request = Request {
        id: CollectiveId(id),
        owner: Owner { tenant: TenantId(0), job: JobId(0) },
        members: members.to_vec(),
        operations: vec![work.operation],
        bytes: SizeRange { min: work.bytes, max: work.bytes },
        demand: Demand::Best,
    };
    let allocated = allocator
        .allocate(request)
        .map(|collective| collective.service.clone())
        .map_err(|error| Failure::input(format!("group '{group}': {error}")))?;
    let (kind, tree, why) = match &allocated {
        Service::Switches { tree, .. } => (TreeKind::Switch, Some(tree), None),
        Service::Adapters { why } => (TreeKind::Adapter, None, Some(why.to_string())),
        Service::Suspended { .. } => (TreeKind::Adapter, None, None),
    };
    let graph = allocator.fabric().graph();
    let root = tree.and_then(|tree| tree.kept.first());
    Ok(Planned {
        group: group.to_owned(),
        processes: members.len(),
        kind,
        entries: tree.map_or(0, |tree| tree.cost()),
        root: root.map(|root| graph.switch_name(root.switch).to_owned()),
        why,
    })
}

fn text(outcome: &Outcome) -> String {
    let mut rows = Rows::new(&["GROUP", "PROCESSES", "TREE", "ENTRIES", "ROOT", "REASON"]);
    for one in &outcome.collectives {
        rows.push(vec![
            one.group.clone(),
            one.processes.to_string(),
            one.kind.to_string(),
            one.entries.to_string(),
            one.root.clone().unwrap_or_default(),
            one.why.clone().unwrap_or_default(),
        ]);
    }
    format!(
        "{rows}\n{} on switch trees, {} on adapter trees; {} entries, {} in the fullest switch\n\
         with an entry in every switch on the way: {} entries, {:.2} % would get no switch tree",
        outcome.switch_trees,
        outcome.adapter_trees,
        outcome.entries,
        outcome.fullest,
        outcome.plain_entries,
        100.0 * outcome.plain_failure_rate
    )
}
