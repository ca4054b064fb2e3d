//! The main job, start to finish: `fabricast demo`.
//!
//! Every part runs in this process behind its own gRPC address, or somewhere else: a cluster that
//! runs already. The demo only does what an administrator and the processes of a job could do:
//! join, send, receive, break, look.

mod audit;
mod cluster_client;
mod grid;
mod report;
mod scenario;
mod text;
mod traffic;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use fabricast_routing::EngineKind;
use fabricast_routing::EngineOptions;
use fabricast_rpc::Security;
use fabricast_tic::StoreLocation;

use crate::args::{Format, colors, engine_kind};
use crate::cluster::{Cluster, Layout, engine_options};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::group_file::NamedGroup;
use crate::nodes;
use crate::remote::security;
use crate::serve::block_on_threads;
use crate::source::Topology;
use cluster_client::{ClusterAddresses, ClusterClient};

/// Number of operating-agent servers that share the nodes.
const AGENT_HOSTS: usize = 4;
/// Number of switch agents that share the switches.
const SWITCH_AGENTS: usize = 2;

/// Run all parts on an emulated fabric, break and mend it, and check every packet; exit 0 only if
/// every check held.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// File as `ibnetdiscover` prints it, a topology spec in TOML, or a preset: `cluster` (real, 96
    /// hosts; the default) or `paper` (the paper's kind of fat tree, 2 048 endpoints).
    #[arg(long, value_name = "FILE|PRESET")]
    topology: Option<String>,
    /// Groups in JSON lines; default: rows and columns of a 2-D grid and one global group.
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// Entries of each multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    colors: u16,
    /// Routing engine.
    #[arg(long, default_value_t = EngineKind::CMr4lmsFixed, value_parser = engine_kind())]
    engine: EngineKind,
    /// Give every group two trees that share nothing above the leaf switches, so that packets
    /// survive any one failure there (`c-mr4lms-fixed`).
    #[arg(long)]
    fault_tolerant: bool,
    /// File for the records; default: a new one in a temporary folder.
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Number of members of every group that send in each check.
    #[arg(long, default_value_t = 3, value_parser = senders)]
    senders: usize,
    #[command(flatten)]
    running: RunningClusterArgs,
}

/// Addresses where the parts of a running cluster answer; each list with commas in between.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunningClusterArgs {
    /// TICs of a running cluster to use instead of starting one. It must have no groups, and has
    /// none afterwards.
    #[arg(
        long,
        value_name = "HOST:PORT,...",
        requires_all = ["router", "fabric", "switch_agents", "operating_agents"],
        conflicts_with_all = ["topology", "store"],
    )]
    tic: Option<String>,
    /// Route services of the running cluster.
    #[arg(long, value_name = "HOST:PORT,...", requires = "tic")]
    router: Option<String>,
    /// Emulated fabric of the running cluster.
    #[arg(long, value_name = "HOST:PORT", requires = "tic")]
    fabric: Option<String>,
    /// All switch agents of the running cluster.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "tic")]
    switch_agents: Vec<String>,
    /// Operating agents of the nodes that take part in the demo.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "tic")]
    operating_agents: Vec<String>,
    /// Folder with ca.crt, tls.crt and tls.key of an administrator, if the cluster uses TLS.
    #[arg(long, env = "FABRICAST_CERTIFICATES", value_name = "DIR")]
    certificates: Option<PathBuf>,
    /// Allow unencrypted connections to other machines.
    #[arg(long, env = "FABRICAST_PLAINTEXT", conflicts_with = "certificates")]
    plaintext: bool,
}

impl Run for DemoArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (args, format) = (&self, globals.format);
        match parts_of(&args.running)? {
            Some(parts) => block_on_threads(elsewhere(args, &parts, format)),
            None => here(args, format),
        }
    }
}

/// Runs the demo on a cluster that it starts.
fn here(args: &DemoArgs, format: Format) -> Result<(), Failure> {
    // `paper` is the paper's kind of fat tree at a size that one process can act out.
    let source = match args.topology.as_deref() {
        None => "cluster",
        Some("paper") => "demo",
        Some(file) => file,
    };
    let topology = Topology::read(source)?;
    let fat_tree = topology.fat_tree()?;
    let options = engine_options(args.engine, args.colors, args.fault_tolerant, Some(&fat_tree))?;
    // Errors in the groups are reported before anything starts.
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
    block_on_threads(async {
        let cluster = Cluster::start(layout).await?;
        let telling = async {
            let client = ClusterClient::connect(&parts(&cluster)).await?;
            let groups = groups(args, &topology, options, &client.owners)?;
            let input = scenario::DemoInput {
                topology: &topology,
                fat_tree: &fat_tree,
                cluster: client,
                groups,
                socket: Some(&socket),
            };
            scenario::run(args, format, input).await
        };
        let told = tokio::select! {
            told = telling => told,
            failed = cluster.failed() => Err(failed),
        };
        cluster.stop().await;
        told
    })
}

/// Runs the demo on a cluster that is already running.
async fn elsewhere(
    args: &DemoArgs,
    parts: &ClusterAddresses,
    format: Format,
) -> Result<(), Failure> {
    let client = ClusterClient::connect(parts).await?;
    if !client.groups().await?.is_empty() {
        let failure = Failure::input("the cluster has groups already");
        return Err(failure.hint("the scenario checks every packet and table entry, so it needs a cluster of its own; `fabricast group list` shows them"));
    }
    let topology = client.topology().await?;
    let fat_tree = topology.fat_tree()?;
    let options = engine_options(args.engine, args.colors, args.fault_tolerant, Some(&fat_tree))?;
    let groups = groups(args, &topology, options, &client.owners)?;
    let input = scenario::DemoInput {
        topology: &topology,
        fat_tree: &fat_tree,
        cluster: client,
        groups,
        socket: None,
    };
    scenario::run(args, format, input).await
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

/// Addresses of the cluster that the arguments name, if any; clap requires all parts or none.
fn parts_of(running: &RunningClusterArgs) -> Result<Option<ClusterAddresses>, Failure> {
    let RunningClusterArgs { tic, router, fabric, switch_agents, operating_agents, .. } =
        running.clone();
    let Some(((tic, router), fabric)) = tic.zip(router).zip(fabric) else { return Ok(None) };
    let security = security(running.certificates.as_deref(), running.plaintext)?;
    Ok(Some(ClusterAddresses { tic, router, fabric, switch_agents, operating_agents, security }))
}

fn parts(cluster: &Cluster) -> ClusterAddresses {
    let texts = |addresses: &[SocketAddr]| addresses.iter().map(ToString::to_string).collect();
    ClusterAddresses {
        tic: cluster.tic.to_string(),
        router: cluster.router.to_string(),
        fabric: cluster.fabric.to_string(),
        switch_agents: texts(&cluster.switch_agents),
        operating_agents: texts(&cluster.operating),
        security: Security::plaintext(),
    }
}

/// Reads how many members of a group send: a check without a sender would check nothing.
fn senders(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 or more, as without a sender nothing is checked".to_owned()),
        Ok(senders) => Ok(senders),
        Err(error) => Err(format!("{error}")),
    }
}
