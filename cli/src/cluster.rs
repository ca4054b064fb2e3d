//! Every part in one process: the same code and the same gRPC as the cluster, on loopback.
//!
//! The parts are bound in the order in which they need each other's addresses, and only then run.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use fabricast_config::{
    RawFabricConfig, RawNode, RawOperatingAgentConfig, RawRouterConfig, RawSwitchAgentConfig,
    RawTicConfig, Role, TicConfig, checked,
};
use fabricast_proto::v1;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_routing::{EngineKind, EngineOptions, mgid_space};
use fabricast_rpc::{BoundServer, Peer, Security, Services};
use fabricast_tic::{Setup, StoreLocation, TopologySource};
use fabricast_topology::{FatTree, Graph, TableKind};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::nodes::nodes_of;
use crate::plan_input::build_failure;
use crate::progress::Progress;
use crate::source::Topology;

/// Interval of reports with up to [`NODES_PER_INTERVAL`] nodes. Short, as all is on one machine.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
const NODES_PER_INTERVAL: usize = 1_000;
/// A node that misses this many reports is probed.
const SILENT_INTERVALS: u32 = 4;
/// Timeout of one probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(100);
/// A node that answers none of these probes is expelled.
const PROBE_ATTEMPTS: u32 = 2;
/// Factor on all timeouts where the machine may be overloaded.
const LENIENCE: u32 = 10;
/// Time between two looks at which nodes are registered.
const READY_PACE: Duration = Duration::from_millis(20);
/// Time that old table entries stay after senders have learned their new color.
const DRAIN: Duration = Duration::from_millis(250);
/// Interval at which the route service reads all tables back, with up to a thousand switches.
const READ_BACK: Duration = Duration::from_secs(5);
/// Name of the topology in settings; no part reads it from a file.
const IN_MEMORY: &str = "in memory";
/// Key of the switch agents; no secret, as all parts are in one process.
const MANAGEMENT_KEY: &str = "one-process";

/// The parts to start, and how many of each.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Graph of switches and endpoints.
    pub topology: Topology,
    /// Engine that computes the trees.
    pub engine: EngineKind,
    /// Options of the engine.
    pub options: EngineOptions,
    /// Store of the TIC's records.
    pub store: StoreLocation,
    /// Number of operating-agent servers that share the nodes.
    pub agent_hosts: usize,
    /// Number of switch agents that share the switches.
    pub switch_agents: usize,
    /// Unix domain socket at which processes attach to the nodes of the first operating-agent
    /// server; without one, no process can attach.
    pub socket: Option<PathBuf>,
    /// True to expel a silent node within half a second, false to wait for some seconds, as fits a
    /// machine that may be overloaded.
    pub strict: bool,
}

/// Makes engine options for switches with a table for each port.
///
/// # Errors
///
/// `fault_tolerant`, but this engine, or this fabric, has no second tree for each group.
pub(crate) fn engine_options(
    engine: EngineKind,
    colors: u16,
    fault_tolerant: bool,
    fat_tree: Option<&FatTree>,
) -> Result<EngineOptions, Failure> {
    let options =
        EngineOptions { fault_tolerant, ..EngineOptions::new(colors, TableKind::PerPort) };
    if fault_tolerant {
        mgid_space(engine, fat_tree, options).map_err(build_failure)?;
    }
    Ok(options)
}

/// All parts, running.
#[derive(Debug)]
pub struct Cluster {
    /// Address of the emulated fabric.
    pub fabric: SocketAddr,
    /// Address of the TIC.
    pub tic: SocketAddr,
    /// Addresses of the switch agents.
    pub switch_agents: Vec<SocketAddr>,
    /// Address of the route service.
    pub router: SocketAddr,
    /// Addresses of the operating agents.
    pub operating: Vec<SocketAddr>,
    nodes: BTreeMap<String, Vec<String>>,
    services: Services,
    parts: tokio::sync::Mutex<JoinSet<anyhow::Result<()>>>,
    stop: CancellationToken,
}

/// Times of the reports of nodes, and of probes of silent ones.
#[derive(Clone, Copy, Debug)]
struct ReportTiming {
    interval: Duration,
    timeout: Duration,
    probe_timeout: Duration,
}

impl ReportTiming {
    fn of(nodes: usize, strict: bool) -> Self {
        let times = if strict { 1 } else { LENIENCE };
        let interval = report_interval(nodes);
        Self {
            interval,
            timeout: interval.saturating_mul(SILENT_INTERVALS).saturating_mul(times),
            probe_timeout: PROBE_TIMEOUT.saturating_mul(times),
        }
    }
}

/// Interval of a node's reports. This machine sends and receives the reports of all nodes, so the
/// interval grows with their number.
fn report_interval(nodes: usize) -> Duration {
    let times = u32::try_from(nodes.div_ceil(NODES_PER_INTERVAL).max(1)).unwrap_or(u32::MAX);
    REPORT_INTERVAL.saturating_mul(times)
}

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

impl Cluster {
    /// Binds and starts all parts.
    ///
    /// # Errors
    ///
    /// Names the part that cannot start and why.
    pub async fn start(layout: Layout) -> Result<Self, Failure> {
        let Layout { topology, engine, options, store, agent_hosts, switch_agents, .. } = layout;
        let (mut socket, graph) = (layout.socket, &topology.graph);
        let nodes = nodes_of(graph);
        let timing = ReportTiming::of(nodes.len(), layout.strict);
        let stop = CancellationToken::new();
        let mut parts = JoinSet::new();

        let fabric = fabric_app(graph, options)?;
        let fabric_address = fabric.address();
        let tic = tic_app(&topology, options, store, timing).await?;
        let tic_address = tic.address();
        let mut services = fabric.services().merged(tic.services());
        run(&mut parts, &stop, "emulated fabric", |stop| fabric.run(stop));
        run(&mut parts, &stop, "TIC", |stop| tic.run(stop));

        let mut switch_addresses = Vec::new();
        for (index, switches) in shares(&switch_names(graph), switch_agents).into_iter().enumerate()
        {
            let agent = switch_app(index, switches, fabric_address, tic_address)?;
            switch_addresses.push(agent.address());
            if switch_agents == 1 {
                services = services.merged(agent.services());
            }
            run(&mut parts, &stop, "switch agent", |stop| agent.run(stop));
        }
        let router = router_app(tic_address, &switch_addresses, engine, options)?;
        let router_address = router.address();
        services = services.merged(router.services());
        run(&mut parts, &stop, "route service", |stop| router.run(stop));

        let node = |(name, endpoints): (&String, &Vec<String>)| RawNode {
            name: Some(name.clone()),
            endpoints: Some(endpoints.clone()),
            ..RawNode::default()
        };
        let hosted: Vec<RawNode> = nodes.iter().map(node).collect();
        let mut operating = Vec::new();
        for share in shares(&hosted, agent_hosts) {
            let agent = operating_app(share, socket.take(), timing, tic_address, fabric_address)?;
            operating.push(agent.address());
            if agent_hosts == 1 {
                services = services.merged(agent.services());
            }
            run(&mut parts, &stop, "operating agent", |stop| agent.run(stop));
        }
        Ok(Self {
            fabric: fabric_address,
            tic: tic_address,
            switch_agents: switch_addresses,
            router: router_address,
            operating,
            nodes,
            services,
            parts: tokio::sync::Mutex::new(parts),
            stop,
        })
    }

    /// The node of each endpoint.
    #[must_use]
    pub fn owners(&self) -> BTreeMap<String, String> {
        let pairs = self.nodes.iter().flat_map(|(node, endpoints)| {
            endpoints.iter().map(move |endpoint| (endpoint.clone(), node.clone()))
        });
        pairs.collect()
    }

    /// Number of nodes.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Serves all services at one more address, in addition to those of the parts.
    pub async fn serve_at(&self, server: BoundServer) {
        let (services, stop) = (self.services.clone(), self.stop.clone());
        let mut parts = self.parts.lock().await;
        run(&mut parts, &stop, "front", |stop| server.serve(services, stop));
    }

    /// Waits until the TIC has the records of all nodes: a group may have any of them from then on.
    ///
    /// # Errors
    ///
    /// The TIC cannot be called at its address.
    pub async fn ready(&self) -> Result<(), Failure> {
        let mut tic = TicServiceClient::new(Peer::new(&self.tic.to_string())?.channel());
        let (mut registered, mut page_token) = (0, String::new());
        let progress = Progress::new("nodes", self.nodes.len());
        while registered < self.nodes.len() {
            let request = v1::ListNodesRequest { page_token, ..v1::ListNodesRequest::default() };
            // One that does not lead yet refuses.
            let page = tic.list_nodes(request).await.map(tonic::Response::into_inner);
            let page = page.unwrap_or_default();
            (registered, page_token) = (registered + page.nodes.len(), page.next_page_token);
            progress.at(registered, "nodes");
            if page_token.is_empty() && registered < self.nodes.len() {
                registered = 0;
                tokio::time::sleep(READY_PACE).await;
            }
        }
        progress.finish();
        Ok(())
    }

    /// Runs a console beside the parts.
    pub(crate) async fn run_console(&self, console: fabricast_console::App) {
        let mut parts = self.parts.lock().await;
        run(&mut parts, &self.stop, "console", |stop| console.run(stop));
    }

    /// Waits until a part ends without being stopped; that is always a failure.
    pub async fn failed(&self) -> Failure {
        match self.parts.lock().await.join_next().await {
            Some(Ok(Err(error))) => error.into(),
            Some(Err(panic)) => anyhow!(panic).context("a part panicked").into(),
            Some(Ok(Ok(()))) | None => Failure::input("a part ended by itself"),
        }
    }

    /// Stops all parts and waits for them.
    pub async fn stop(self) {
        self.stop.cancel();
        let mut parts = self.parts.lock().await;
        while parts.join_next().await.is_some() {}
    }
}

fn settings<R: Role>(raw: R::Raw) -> Result<R, Failure> {
    checked(raw).map_err(|errors| Failure::BadConfig(errors.into()))
}

fn fabric_app(
    graph: &Arc<Graph>,
    engine_options: EngineOptions,
) -> Result<fabricast_fabric::App, Failure> {
    let config = settings(RawFabricConfig {
        listen: any_port(),
        topology: Some(IN_MEMORY.into()),
        colors: engine_options.colors,
        tables: engine_options.tables,
        management_key: Some(MANAGEMENT_KEY.to_owned()),
        ..RawFabricConfig::default()
    })?;
    Ok(fabricast_fabric::App::bind(&config, Security::plaintext(), Arc::clone(graph))
        .context("start the emulated fabric")?)
}

async fn tic_app(
    topology: &Topology,
    engine_options: EngineOptions,
    store: StoreLocation,
    timing: ReportTiming,
) -> Result<fabricast_tic::App, Failure> {
    let config = settings::<TicConfig>(RawTicConfig {
        listen: any_port(),
        store: Some(StoreLocation::Memory.to_string()),
        topology: Some(IN_MEMORY.into()),
        colors: engine_options.colors,
        fault_tolerant: engine_options.fault_tolerant,
        tables: engine_options.tables,
        report_timeout: timing.timeout,
        probe_timeout: timing.probe_timeout,
        probe_attempts: PROBE_ATTEMPTS,
        max_silent_percent: 100, // nothing cuts it off from the nodes, which are in its process
        ..RawTicConfig::default()
    })?;
    let (text, graph) = (Arc::clone(&topology.text), Arc::clone(&topology.graph));
    let setup = Setup::new(TicConfig { store, ..config }, TopologySource::File(text, graph));
    Ok(fabricast_tic::App::bind(setup).await.context("start the TIC")?)
}

fn switch_app(
    index: usize,
    switches: Vec<String>,
    fabric: SocketAddr,
    tic: SocketAddr,
) -> Result<fabricast_switch::App, Failure> {
    let driver =
        fabricast_switch::EmulatedDriver::new(Peer::new(&fabric.to_string())?, MANAGEMENT_KEY);
    let config = settings(RawSwitchAgentConfig {
        listen: any_port(),
        name: Some(format!("switch-agent-{index}")),
        tic: [tic].into_iter().collect(),
        fabric: fabric.to_string(),
        management_key: Some(MANAGEMENT_KEY.to_owned()),
        switches: Some(switches),
        ..RawSwitchAgentConfig::default()
    })?;
    Ok(fabricast_switch::App::bind(config, Security::plaintext(), Arc::new(driver))
        .context("start a switch agent")?)
}

fn router_app(
    tic: SocketAddr,
    switch_agents: &[SocketAddr],
    engine: EngineKind,
    engine_options: EngineOptions,
) -> Result<fabricast_router::App, Failure> {
    let EngineOptions {
        colors,
        tables,
        root_scope,
        fault_tolerant,
        stay_after_healing,
        root_policy,
        merge_policy,
        merge_partner,
        deadlock_free,
    } = engine_options;
    let config = settings(RawRouterConfig {
        listen: any_port(),
        tic: [tic].into_iter().collect(),
        switch_agents: switch_agents.iter().map(ToString::to_string).collect(),
        engine: Some(engine),
        colors,
        tables,
        root_scope,
        fault_tolerant,
        stay_after_healing,
        root_policy,
        merge_policy,
        merge_partner,
        deadlock_free,
        drain: DRAIN,
        read_back: READ_BACK,
        ..RawRouterConfig::default()
    })?;
    Ok(fabricast_router::App::bind(config, Security::plaintext())
        .context("start the route service")?)
}

fn operating_app(
    nodes: Vec<RawNode>,
    socket: Option<PathBuf>,
    timing: ReportTiming,
    tic: SocketAddr,
    fabric: SocketAddr,
) -> Result<fabricast_operating::App, Failure> {
    let config = settings(RawOperatingAgentConfig {
        listen: any_port(),
        tic: [tic].into_iter().collect(),
        fabric: fabric.to_string(),
        nodes,
        socket,
        report_interval: timing.interval,
        report_timeout: timing.timeout,
        probe_timeout: timing.probe_timeout,
        probe_attempts: PROBE_ATTEMPTS,
        ..RawOperatingAgentConfig::default()
    })?;
    Ok(fabricast_operating::App::bind(config, Security::plaintext())
        .context("start an operating agent")?)
}

fn run<E, F>(
    parts: &mut JoinSet<anyhow::Result<()>>,
    stop: &CancellationToken,
    name: &'static str,
    part: impl FnOnce(CancellationToken) -> F,
) where
    E: std::error::Error + Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
{
    let running = part(stop.clone());
    parts.spawn(async move { running.await.with_context(|| format!("{name} ended")) });
}

fn switch_names(graph: &Graph) -> Vec<String> {
    graph.switches().map(|switch| graph.switch_name(switch).to_owned()).collect()
}

/// Splits a list into at most `count` shares of nearly equal size, none of them empty.
fn shares<T: Clone>(list: &[T], count: usize) -> Vec<Vec<T>> {
    let size = list.len().div_ceil(count.max(1)).max(1);
    list.chunks(size).map(<[T]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_interval_grows_with_every_thousand_nodes() {
        let millis = Duration::from_millis;
        assert_eq!(report_interval(16), millis(100));
        assert_eq!(report_interval(1_000), report_interval(1));
        assert_eq!(report_interval(32_768), millis(3_300));
    }

    #[test]
    fn shares_are_even_and_never_empty() {
        assert_eq!(shares(&[1, 2, 3, 4, 5], 2), [vec![1, 2, 3], vec![4, 5]]);
        assert_eq!(shares(&[1], 4), [vec![1]]);
        assert!(shares::<u8>(&[], 4).is_empty());
    }
}
