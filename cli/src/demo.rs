//! The main job, start to finish: `fabricast demo`.
//!
//! Every part runs in this process behind its own gRPC address, or somewhere else: a cluster that
//! runs already. The demo only does what an administrator and the processes of a job could do: join, send,
//! receive, break, look.

mod audit;
mod control;
mod grid;
mod report;
mod story;
mod text;
mod traffic;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Context;
use fabricast_routing::EngineOptions;
use fabricast_rpc::Security;
use fabricast_tic::StoreLocation;
use tokio::runtime::Runtime;

use crate::args::{DemoArgs, Format, RunningClusterArgs};
use crate::cluster::{Cluster, Layout, engine_options};
use crate::failure::Failure;
use crate::group_file::NamedGroup;
use crate::nodes;
use crate::remote::security;
use crate::source::Topology;
use control::{Control, Parts};

/// Operating-agent servers that share the nodes between them.
const AGENT_HOSTS: usize = 4;
/// Switch agents that share the switches between them.
const SWITCH_AGENTS: usize = 2;

/// Runs the demo.
///
/// # Errors
///
/// [`Failure::No`] if any check failed, otherwise what kept the demo from running.
pub(crate) fn run(args: &DemoArgs, format: Format) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    match parts_of(&args.running)? {
        Some(parts) => runtime.block_on(elsewhere(args, &parts, format)),
        None => here(args, format, &runtime),
    }
}

/// Tells the story on a cluster that is started for it.
fn here(args: &DemoArgs, format: Format, runtime: &Runtime) -> Result<(), Failure> {
    // `paper` is the paper's kind of fat tree at a size that one process can act out.
    let source = match args.topology.as_deref() {
        None => "cluster",
        Some("paper") => "demo",
        Some(file) => file,
    };
    let topology = Topology::read(source)?;
    let fat_tree = topology.fat_tree()?;
    let options = engine_options(args.engine, args.colors, args.fault_tolerant, Some(&fat_tree))?;
    // What is wrong with the groups is said before anything starts.
    drop(groups(args, &topology, options, &nodes::owners(&topology.graph))?);
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let socket = folder.path().join("agent.sock");
    let store = match &args.store {
        // Groups of an earlier run would be taken for the demo's own.
        Some(file) if file.exists() => {
            return Err(Failure::input(format!("--store: '{}' exists already", file.display())));
        }
        Some(file) => file.clone(),
        None => folder.path().join("records.redb"),
    };
    let layout = Layout {
        topology: topology.clone(),
        engine: args.engine,
        options,
        store: StoreLocation::File(store),
        agent_hosts: AGENT_HOSTS,
        switch_agents: SWITCH_AGENTS,
        socket: Some(socket.clone()),
        strict: true,
    };
    runtime.block_on(async {
        let cluster = Cluster::start(layout).await?;
        let telling = async {
            let control = Control::connect(&parts(&cluster)).await?;
            let groups = groups(args, &topology, options, &control.owners)?;
            let scene = story::Scene {
                topology: &topology,
                fat_tree: &fat_tree,
                control,
                groups,
                socket: Some(&socket),
            };
            story::tell(args, format, scene).await
        };
        let told = tokio::select! {
            told = telling => told,
            failed = cluster.failed() => Err(failed),
        };
        cluster.stop().await;
        told
    })
}

/// Tells the story on a cluster that runs already.
async fn elsewhere(args: &DemoArgs, parts: &Parts, format: Format) -> Result<(), Failure> {
    let control = Control::connect(parts).await?;
    if !control.groups().await?.is_empty() {
        let failure = Failure::input("the cluster has groups already");
        return Err(failure.hint("the story checks every packet and table entry, so it needs a cluster of its own; `fabricast group list` shows them"));
    }
    let topology = control.topology().await?;
    let fat_tree = topology.fat_tree()?;
    let options = engine_options(args.engine, args.colors, args.fault_tolerant, Some(&fat_tree))?;
    let groups = groups(args, &topology, options, &control.owners)?;
    let scene =
        story::Scene { topology: &topology, fat_tree: &fat_tree, control, groups, socket: None };
    story::tell(args, format, scene).await
}

fn groups(
    args: &DemoArgs,
    topology: &Topology,
    options: EngineOptions,
    owners: &BTreeMap<String, String>,
) -> Result<Vec<NamedGroup>, Failure> {
    match &args.groups {
        Some(file) => crate::group_file::read_named(file, &topology.graph),
        None => grid::groups(&topology.graph, &topology.fat_tree()?, options, owners),
    }
}

/// The cluster that the arguments name, if they name one; they name all of its parts or none.
fn parts_of(running: &RunningClusterArgs) -> Result<Option<Parts>, Failure> {
    let RunningClusterArgs { tic, router, fabric, switch_agents, operating_agents, .. } =
        running.clone();
    let Some(((tic, router), fabric)) = tic.zip(router).zip(fabric) else { return Ok(None) };
    let security = security(running.certificates.as_deref(), running.plaintext)?;
    Ok(Some(Parts { tic, router, fabric, switch_agents, operating_agents, security }))
}

fn parts(cluster: &Cluster) -> Parts {
    let texts = |addresses: &[SocketAddr]| addresses.iter().map(ToString::to_string).collect();
    Parts {
        tic: cluster.tic.to_string(),
        router: cluster.router.to_string(),
        fabric: cluster.fabric.to_string(),
        switch_agents: texts(&cluster.switch_agents),
        operating_agents: texts(&cluster.operating),
        security: Security::plaintext(),
    }
}
