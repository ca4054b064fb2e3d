//! The main job, start to finish: `fabricast demo`.
//!
//! Every part runs in this process behind its own gRPC address. The demo only does what an
//! administrator and the processes of a job could do: join, send, receive, break, look.

mod audit;
mod control;
mod grid;
mod report;
mod story;
mod text;
mod traffic;

use anyhow::Context;
use fabricast_tic::StoreLocation;

use crate::args::{DemoArgs, Format};
use crate::cluster::{Cluster, Layout, engine_options};
use crate::failure::Failure;
use crate::source::Topology;

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
    // `paper` is the paper's kind of fat tree at a size that one process can act out.
    let source = match args.topology.as_deref() {
        None => "cluster",
        Some("paper") => "demo",
        Some(file) => file,
    };
    let topology = Topology::read(source)?;
    let fat_tree = topology.fat_tree()?;
    let options = engine_options(args.engine, args.colors, args.fault_tolerant, Some(&fat_tree))?;
    let groups = match &args.groups {
        Some(file) => crate::group_file::read_named(file, &topology.graph)?,
        None => grid::groups(&topology.graph, &fat_tree, options)?,
    };
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
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let cluster = Cluster::start(layout).await?;
        let scene = story::Scene {
            topology: &topology,
            fat_tree: &fat_tree,
            cluster: &cluster,
            groups,
            socket: &socket,
        };
        let told = tokio::select! {
            told = story::tell(args, format, scene) => told,
            failed = cluster.failed() => Err(failed),
        };
        cluster.stop().await;
        told
    })
}
