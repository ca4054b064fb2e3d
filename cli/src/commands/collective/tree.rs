//! `fabricast collective explain`: the tree of one collective, drawn as edges.

use anyhow::anyhow;
use clap::{ArgGroup, Args, ValueEnum, value_parser};
use fabricast_collectives::{
    AdapterTree, Allocator, ChoiceTable, CollectiveId, Demand, Fabric, JobId, Nesting, Owner,
    Request, Settings, SizeRange, SwitchTree, TenantId, TreeKind,
};
use fabricast_topology::{EndpointId, Graph};
use serde::Serialize;

use super::model::{ModelArgs, WorkArgs, fabric, model};
use crate::args::Format;
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::source::Topology;

/// Result of the command: one tree.
#[derive(Debug, Serialize)]
struct Built {
    kind: TreeKind,
    /// Reason for this kind.
    why: String,
    processes: usize,
    /// Entries that switches give.
    entries: usize,
    /// Edges from the farthest process to the root.
    height: u32,
    /// Links on that way.
    radius_links: u32,
    /// Most children of a node.
    degree: u32,
    /// Each node with its parent, parents first.
    nodes: Vec<Node>,
}

/// A node of the tree.
#[derive(Debug, Serialize)]
struct Node {
    /// `switch NAME` or `process N at ENDPOINT`.
    node: String,
    /// None for the root.
    parent: Option<String>,
}

/// Options of `collective explain`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("who").required(true).args(["endpoints", "first"])))]
pub(crate) struct TreeArgs {
    /// The topology: file as `ibnetdiscover` prints it, spec in TOML, or preset (see `topology
    /// list`).
    #[arg(long, value_name = "FILE|PRESET")]
    topology: String,
    /// The endpoint of each process, in their order, by name or GUID of the port.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    endpoints: Vec<String>,
    /// Use the first N endpoints of the topology instead.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    first: Option<u32>,
    /// The kind of tree.
    #[arg(long, value_enum, default_value_t = TreeChoice::Best)]
    kind: TreeChoice,
    /// Width of an adapter tree; default: the cheapest.
    #[arg(long, value_name = "K", value_parser = value_parser!(u32).range(2..))]
    width: Option<u32>,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    model: ModelArgs,
}

/// The kind of tree asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeChoice {
    /// Whichever is faster.
    Best,
    /// Processes' adapters reduce (type I).
    Adapter,
    /// Switches reduce (type II).
    Switch,
}

/// Runs `collective explain`.
///
/// # Errors
///
/// Names the endpoint or the option that is wrong.
pub(super) fn run(args: &TreeArgs, format: Format) -> Result<(), Failure> {
    let (parameters, limits) = model(&args.model)?;
    let topology = Topology::read(&args.topology)?;
    let fabric = fabric(&topology);
    let members = members(args, &topology.graph)?;
    let count = u32::try_from(members.len())?;
    let choice =
        *ChoiceTable::new(&parameters, count, &limits).choose(args.work.operation, args.work.bytes);
    let (kind, why) = match args.kind {
        TreeChoice::Adapter => (TreeKind::Adapter, "asked for".to_owned()),
        TreeChoice::Switch => (TreeKind::Switch, "asked for".to_owned()),
        TreeChoice::Best => {
            let why = format!(
                "{} of {} bytes over {count} processes: adapter tree {:.3} us, switch tree {:.3} us",
                args.work.operation, args.work.bytes, choice.adapter_us, choice.switch_us
            );
            (choice.kind, why)
        }
    };
    let built = match kind {
        TreeKind::Adapter => {
            let width = args.width.unwrap_or(choice.widths.best);
            of_adapters(&fabric, &members, width, limits.adapter_children, why)?
        }
        TreeKind::Switch => {
            let settings = Settings { limits, parameters, ..Settings::default() };
            of_switches(Allocator::new(fabric, settings), &members, why)?
        }
    };
    output::print(format, &built, text)
}

fn members(args: &TreeArgs, graph: &Graph) -> Result<Vec<EndpointId>, Failure> {
    if let Some(first) = args.first {
        let there = graph.endpoint_count();
        if first as usize > there {
            let text = format!("--first {first}: the topology has {there} endpoints");
            return Err(Failure::input(text));
        }
        return Ok((0..first).map(EndpointId).collect());
    }
    let find = |name: &String| {
        graph.resolve_endpoint(name).map_err(|error| {
            Failure::input(format!("--endpoints: '{}': {error}", args.topology))
                .hint(format!("`fabricast topology show {}` lists them", args.topology))
        })
    };
    args.endpoints.iter().map(find).collect()
}

fn of_adapters(
    fabric: &Fabric,
    members: &[EndpointId],
    width: u32,
    most_children: u32,
    why: String,
) -> Result<Built, Failure> {
    let graph = fabric.graph();
    let nesting = Nesting::of_fabric(fabric, members)?;
    let tree = AdapterTree::within(&nesting, width, most_children)?;
    let name = |process: u32| process_name(graph, members, process);
    let node =
        |process: &u32| Node { node: name(*process), parent: tree.parent(*process).map(name) };
    Ok(Built {
        kind: TreeKind::Adapter,
        why,
        processes: members.len(),
        entries: 0,
        height: tree.height(),
        radius_links: tree.radius(|child, parent| nesting.links(child, parent)),
        degree: tree.degree(),
        nodes: tree.top_down().iter().map(node).collect(),
    })
}

fn of_switches(
    mut allocator: Allocator,
    members: &[EndpointId],
    why: String,
) -> Result<Built, Failure> {
    let request = Request {
        id: CollectiveId(0),
        owner: Owner { tenant: TenantId(0), job: JobId(0) },
        members: members.to_vec(),
        operations: fabricast_collectives::Operation::ALL.to_vec(),
        bytes: SizeRange { min: 0, max: 0 },
        demand: Demand::SwitchTree,
    };
    let allocated = allocator.allocate(request)?;
    let Some((_, tree)) = allocated.service.switch_tree() else {
        return Err(anyhow!("no switch tree is to be had").into());
    };
    let tree = tree.clone();
    Ok(Built {
        kind: TreeKind::Switch,
        why,
        processes: members.len(),
        entries: tree.cost(),
        height: tree.height(),
        radius_links: tree.physical.radius(),
        degree: tree.children().into_iter().max().unwrap_or(0),
        nodes: switch_nodes(allocator.fabric().graph(), &tree, members),
    })
}

fn switch_nodes(graph: &Graph, tree: &SwitchTree, members: &[EndpointId]) -> Vec<Node> {
    let switch =
        |place: u32| format!("switch {}", graph.switch_name(tree.kept[place as usize].switch));
    let switches = (0..)
        .zip(&tree.kept)
        .map(|(place, kept)| Node { node: switch(place), parent: kept.parent.map(switch) });
    let processes = (0..).zip(&tree.member_parents).map(|(process, parent)| Node {
        node: process_name(graph, members, process),
        parent: Some(switch(*parent)),
    });
    switches.chain(processes).collect()
}

fn process_name(graph: &Graph, members: &[EndpointId], process: u32) -> String {
    format!("process {process} at {}", graph.endpoint_name(members[process as usize]))
}

fn text(built: &Built) -> String {
    let mut rows = Rows::new(&["NODE", "PARENT"]);
    for node in &built.nodes {
        let parent = node.parent.clone().unwrap_or_else(|| "-".to_owned());
        rows.push(vec![node.node.clone(), parent]);
    }
    format!(
        "{} tree over {} processes ({})\nheight {}, radius {} links, at most {} children, {} entries\n\
         {rows}",
        built.kind,
        built.processes,
        built.why,
        built.height,
        built.radius_links,
        built.degree,
        built.entries
    )
}
