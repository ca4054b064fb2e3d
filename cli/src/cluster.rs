//! Every part in one process: the same code and the same gRPC as the cluster, on loopback.
//!
//! The parts are bound in the order in which they need each other's addresses, and only then run.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use fabricast_emulator::AggregationLimits;
use fabricast_groups::detector::{DetectorConfig, Probing};
use fabricast_groups::flaps::{FlapDamping, FlapPolicy};
use fabricast_groups::watch::WatchConfig;
use fabricast_operating::{LocalSocket, NodeSpec};
use fabricast_routing::{EngineKind, EngineOptions, mgid_space};
use fabricast_rpc::{BoundServer, Peer, Security, Services};
use fabricast_tic::{StoreLocation, TopologySource};
use fabricast_topology::{FatTree, Graph, TableKind};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::nodes::nodes_of;
use crate::source::Topology;

/// Interval of the signs of life of so many nodes at most. Short: everything is on one machine.
const REPORT_INTERVAL: (Duration, usize) = (Duration::from_millis(100), 1_000);
/// A node that was silent for so many intervals is probed.
const SILENT_INTERVALS: u32 = 4;
/// Two probes without an answer are a verdict.
const PROBING: Probing = Probing { timeout: Duration::from_millis(100), attempts: 2 };
/// So many times longer is the patience where the verdict need not be quick.
const LENIENCE: u32 = 10;
/// How long old table entries stay after senders were told a new color.
const DRAIN: Duration = Duration::from_millis(250);
/// How often the route service reads all tables back, and how many in a second at most.
const READ_BACK: Duration = Duration::from_secs(5);
const READ_BACK_RATE: u32 = 1_000;
/// How often port counters are read, with a root policy that looks at loads.
const COUNTER_INTERVAL: Duration = Duration::from_secs(1);
/// The key of the switch agents; it keeps nobody out of a process it is part of.
const MANAGEMENT_KEY: &str = "one-process";

/// What to start.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The network.
    pub topology: Topology,
    /// What computes the trees.
    pub engine: EngineKind,
    /// How it is to do that.
    pub options: EngineOptions,
    /// Where the records are kept.
    pub store: StoreLocation,
    /// Operating-agent servers that share the nodes between them.
    pub agent_hosts: usize,
    /// Switch agents that share the switches between them.
    pub switch_agents: usize,
    /// Unix domain socket at which processes attach to the nodes of the first operating-agent server;
    /// `None` if none can.
    pub socket: Option<PathBuf>,
    /// Whether a node that falls silent is given up within half a second, and not only after some seconds: where this process may
    /// have far more to do than the machine can, all of them may have to wait for their turn.
    pub strict: bool,
}

/// The options of an engine for the emulated fabric, whose switches have a table for each port.
///
/// # Errors
///
/// Two trees for each group are not to be had with this engine, or on this fabric.
pub(crate) fn engine_options(
    engine: EngineKind,
    colors: u16,
    fault_tolerant: bool,
    fat_tree: Option<&FatTree>,
) -> Result<EngineOptions, Failure> {
    let options =
        EngineOptions { fault_tolerant, ..EngineOptions::new(colors, TableKind::PerPort) };
    if fault_tolerant {
        mgid_space(engine, fat_tree, options).context("--fault-tolerant")?;
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

/// Interval of the signs of life, and how long a node may be silent. All of them are said and heard on
/// this one machine, which can do so many in a second: where there are more nodes, each speaks more rarely.
fn signs(nodes: usize) -> (Duration, Duration) {
    let (interval, count) = REPORT_INTERVAL;
    let times = u32::try_from(nodes.div_ceil(count).max(1)).unwrap_or(u32::MAX);
    let interval = interval.saturating_mul(times);
    (interval, interval.saturating_mul(SILENT_INTERVALS))
}

/// When a node is given up.
fn detector(nodes: usize, strict: bool) -> DetectorConfig {
    let times = if strict { 1 } else { LENIENCE };
    let probing = Probing { timeout: PROBING.timeout.saturating_mul(times), ..PROBING };
    DetectorConfig::new(signs(nodes).1.saturating_mul(times), probing)
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
        let detector = detector(nodes.len(), layout.strict);
        let report_interval = signs(nodes.len()).0;
        let stop = CancellationToken::new();
        let mut parts = JoinSet::new();

        let fabric = fabric_app(graph, options.colors)?;
        let fabric_address = fabric.address();
        let tic = tic_app(&topology, options, store, detector).await?;
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

        let specs: Vec<NodeSpec> = nodes
            .iter()
            .map(|(name, endpoints)| NodeSpec { name: name.clone(), endpoints: endpoints.clone() })
            .collect();
        let mut operating = Vec::new();
        for share in shares(&specs, agent_hosts) {
            let addresses = (tic_address, fabric_address);
            let signs = (report_interval, detector);
            let agent = operating_app(share, signs, addresses, socket.take())?;
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

    /// Serves all services at one more address, beside those of the parts.
    pub async fn serve_at(&self, server: BoundServer) {
        let (services, stop) = (self.services.clone(), self.stop.clone());
        let mut parts = self.parts.lock().await;
        run(&mut parts, &stop, "front", |stop| server.serve(services, stop));
    }

    /// Waits until a part ends by itself, which none should.
    pub async fn failed(&self) -> Failure {
        match self.parts.lock().await.join_next().await {
            Some(Ok(Err(error))) => error.into(),
            Some(Err(panic)) => anyhow!(panic).context("a part broke down").into(),
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

fn fabric_app(graph: &Arc<Graph>, colors: u16) -> Result<fabricast_fabric::App, Failure> {
    let options = fabricast_fabric::Options {
        listen: any_port(),
        security: Security::plaintext(),
        graph: Arc::clone(graph),
        tables: TableKind::PerPort,
        colors,
        aggregation: AggregationLimits::default(),
        management_key: MANAGEMENT_KEY.to_owned(),
        queue: fabricast_fabric::DEFAULT_QUEUE,
    };
    Ok(fabricast_fabric::App::bind(options).context("start the emulated fabric")?)
}

async fn tic_app(
    topology: &Topology,
    engine_options: EngineOptions,
    store: StoreLocation,
    detector: DetectorConfig,
) -> Result<fabricast_tic::App, Failure> {
    let mut options = fabricast_tic::Options::new(
        any_port(),
        store,
        TopologySource::File(Arc::clone(&topology.text), Arc::clone(&topology.graph)),
    );
    options.colors = engine_options.colors;
    options.fault_tolerant = engine_options.fault_tolerant;
    options.watch = WatchConfig::new(detector);
    options.limits.damping = FlapDamping { policy: FlapPolicy::NoHost, ..FlapDamping::default() };
    Ok(fabricast_tic::App::bind(options).await.context("start the TIC")?)
}

fn switch_app(
    index: usize,
    switches: Vec<String>,
    fabric: SocketAddr,
    tic: SocketAddr,
) -> Result<fabricast_switch::App, Failure> {
    let driver =
        fabricast_switch::EmulatedDriver::new(Peer::new(&fabric.to_string())?, MANAGEMENT_KEY);
    let options = fabricast_switch::Options {
        listen: any_port(),
        security: Security::plaintext(),
        name: format!("switch-agent-{index}"),
        tic: vec![tic.to_string()],
        driver: Arc::new(driver),
        switches: switches.into_iter().collect(),
        report_interval: Duration::from_secs(1),
        discovery_interval: None,
    };
    Ok(fabricast_switch::App::bind(options).context("start a switch agent")?)
}

fn router_app(
    tic: SocketAddr,
    switch_agents: &[SocketAddr],
    engine: EngineKind,
    engine_options: EngineOptions,
) -> Result<fabricast_router::App, Failure> {
    let options = fabricast_router::Options {
        listen: any_port(),
        security: Security::plaintext(),
        name: "router".to_owned(),
        advertise: None,
        tic: vec![tic.to_string()],
        switch_agents: switch_agents.iter().map(ToString::to_string).collect(),
        engine: Some(engine),
        engine_options,
        pacing: fabricast_router::Pacing {
            drain: DRAIN,
            read_back: READ_BACK,
            read_back_rate: READ_BACK_RATE,
            counter_interval: COUNTER_INTERVAL,
        },
    };
    Ok(fabricast_router::App::bind(options).context("start the route service")?)
}

fn operating_app(
    nodes: Vec<NodeSpec>,
    (report_interval, detector): (Duration, DetectorConfig),
    (tic, fabric): (SocketAddr, SocketAddr),
    socket: Option<PathBuf>,
) -> Result<fabricast_operating::App, Failure> {
    let options = fabricast_operating::Options {
        listen: any_port(),
        advertise: None,
        security: Security::plaintext(),
        tic: vec![tic.to_string()],
        fabric: fabric.to_string(),
        nodes,
        socket: socket.map(|path| LocalSocket {
            path,
            mode: 0o600,
            memory: Some(PathBuf::from("/dev/shm")),
        }),
        report_interval,
        detector,
    };
    Ok(fabricast_operating::App::bind(options).context("start an operating agent")?)
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

/// Cuts a list into so many shares of nearly equal size, none of them empty.
fn shares<T: Clone>(list: &[T], count: usize) -> Vec<Vec<T>> {
    let size = list.len().div_ceil(count.max(1)).max(1);
    list.chunks(size).map(<[T]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_speak_as_often_in_all_as_a_thousand() {
        let millis = Duration::from_millis;
        assert_eq!(signs(16), (millis(100), millis(400)));
        assert_eq!(signs(1_000), signs(1));
        assert_eq!(signs(32_768), (millis(3_300), millis(13_200)));
    }

    #[test]
    fn shares_are_even_and_never_empty() {
        assert_eq!(shares(&[1, 2, 3, 4, 5], 2), [vec![1, 2, 3], vec![4, 5]]);
        assert_eq!(shares(&[1], 4), [vec![1]]);
        assert!(shares::<u8>(&[], 4).is_empty());
    }
}
