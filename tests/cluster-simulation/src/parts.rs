//! The parts of a simulated cluster: each is the shipped service, started on a host of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fabricast_config::{
    RawFabricConfig, RawNode, RawOperatingAgentConfig, RawRouterConfig, RawSwitchAgentConfig,
    RawTicConfig, checked,
};
use fabricast_routing::EngineKind;
use fabricast_rpc::Security;
use fabricast_store::Clock;
use fabricast_switch::EmulatedDriver;
use fabricast_tic::{Setup, TopologySource};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Graph, TableKind, ibnetdiscover};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::network::SimulatedNetwork;
use crate::store::{SharedStore, StoreLink};

/// Number of TICs.
pub(crate) const TICS: usize = 3;
/// Number of route services.
pub(crate) const ROUTERS: usize = 2;
/// Processes of operating agents.
pub const AGENTS: usize = 6;
/// Nodes of each of them.
pub(crate) const NODES_PER_AGENT: usize = 2;

const TOPOLOGY: &str =
    "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 3\nlanes0 = 2\n";
const COLORS: u16 = 16;
const KEY: &str = "the management key of a simulated cluster";
/// The topology is no file.
const IN_MEMORY: &str = "in memory";
/// Delay after which a service that ended by itself is started anew.
const RESTART_DELAY: Duration = Duration::from_millis(500);
/// Time after which a dead leader is replaced.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
const REPORT_INTERVAL: Duration = Duration::from_millis(250);
/// Silence after which a node is probed.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// A host of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// A topology information center.
    Tic(usize),
    /// A route service.
    Router(usize),
    /// A process of operating agents.
    Agent(usize),
    /// The agent of all switches.
    SwitchAgent,
    /// The emulated fabric.
    Fabric,
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tic(index) => write!(formatter, "tic{index}"),
            Self::Router(index) => write!(formatter, "router{index}"),
            Self::Agent(index) => write!(formatter, "agent{index}"),
            Self::SwitchAgent => formatter.write_str("switch-agent"),
            Self::Fabric => formatter.write_str("fabric"),
        }
    }
}

impl Host {
    /// All hosts with services.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let tics = (0..TICS).map(Self::Tic);
        let agents = (0..AGENTS).map(Self::Agent);
        let others = [Self::Fabric, Self::SwitchAgent].into_iter();
        others.chain(tics).chain((0..ROUTERS).map(Self::Router)).chain(agents)
    }

    /// Address of its services.
    pub(crate) fn address(self) -> String {
        format!("{self}:{PORT}")
    }
}

const PORT: u16 = 7400;

/// Addresses of all TICs.
pub(crate) fn tic_addresses() -> Vec<String> {
    (0..TICS).map(|index| Host::Tic(index).address()).collect()
}

/// Names of the nodes of a process.
pub(crate) fn nodes_of(agent: usize) -> impl Iterator<Item = String> {
    (agent * NODES_PER_AGENT..(agent + 1) * NODES_PER_AGENT).map(|index| format!("n{index}"))
}

/// Calls of all hosts go over the simulated network.
pub(crate) fn security() -> Security {
    Security::over(Arc::new(SimulatedNetwork))
}

/// Time of the simulation; clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct SimulatedClock(Arc<AtomicU64>);

impl SimulatedClock {
    /// Sets the time.
    pub fn set(&self, now: Duration) {
        self.0.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// State that all parts of a cluster share.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    graph: Arc<Graph>,
    text: Arc<str>,
    pub(crate) clock: SimulatedClock,
    pub(crate) store: SharedStore,
    pub(crate) links: Vec<StoreLink>,
}

type Failure = Box<dyn std::error::Error>;

impl Cluster {
    pub(crate) fn new() -> Self {
        let graph = TopologySpec::parse(TOPOLOGY).expect("a spec").generate().expect("a fabric");
        let clock = SimulatedClock::default();
        let store = SharedStore::new(Arc::new(clock.clone()));
        let links = (0..TICS).map(|_| store.link()).collect();
        let text = ibnetdiscover::write(&graph).into();
        Self { graph: Arc::new(graph), text, clock, store, links }
    }

    /// Runs the service of a host, and starts it anew whenever it ends by itself.
    pub(crate) async fn run(self, host: Host) -> turmoil::Result {
        loop {
            match host {
                Host::Tic(index) => self.run_tic(index).await?,
                Host::Router(index) => run_router(index).await?,
                Host::Agent(index) => run_agent(index).await?,
                Host::SwitchAgent => run_switch_agent().await?,
                Host::Fabric => self.run_fabric().await?,
            }
            sleep(RESTART_DELAY).await;
        }
    }

    async fn run_tic(&self, index: usize) -> Result<(), Failure> {
        let config = checked(RawTicConfig {
            listen: everywhere(),
            allow_plaintext: true,
            advertise: Some(Host::Tic(index).address()),
            store: Some("memory".to_owned()),
            leader_lease: LEASE,
            route_lease: LEASE,
            topology: Some(IN_MEMORY.into()),
            colors: COLORS,
            tables: TableKind::PerPort,
            report_timeout: REPORT_TIMEOUT,
            probe_timeout: PROBE_TIMEOUT,
            ..RawTicConfig::default()
        })?;
        let topology = TopologySource::File(Arc::clone(&self.text), Arc::clone(&self.graph));
        let lease_clock = Arc::new(self.clock.clone());
        let setup = Setup { security: security(), lease_clock, ..Setup::new(config, topology) };
        let app = fabricast_tic::App::bind_sharing(setup, Arc::new(self.links[index].clone()))?;
        report(app.run(CancellationToken::new()).await);
        Ok(())
    }

    async fn run_fabric(&self) -> Result<(), Failure> {
        let config = checked(RawFabricConfig {
            listen: everywhere(),
            allow_plaintext: true,
            topology: Some(IN_MEMORY.into()),
            tables: TableKind::PerPort,
            colors: COLORS,
            management_key: Some(KEY.to_owned()),
            ..RawFabricConfig::default()
        })?;
        let app = fabricast_fabric::App::bind(&config, security(), Arc::clone(&self.graph))?;
        report(app.run(CancellationToken::new()).await);
        Ok(())
    }
}

/// The reason why a service ended by itself; the next one begins anew.
fn report<E: fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        tracing::info!(%error, "a service ended");
    }
}

fn everywhere() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], PORT))
}

async fn run_router(index: usize) -> Result<(), Failure> {
    let config = checked(RawRouterConfig {
        listen: everywhere(),
        allow_plaintext: true,
        advertise: Some(Host::Router(index).address()),
        tic: tic_addresses().iter().collect(),
        switch_agents: vec![Host::SwitchAgent.address()],
        engine: Some(EngineKind::CMr4lmsFixed),
        colors: COLORS,
        tables: TableKind::PerPort,
        drain: REPORT_INTERVAL * 4,
        read_back: Duration::from_secs(5),
        ..RawRouterConfig::default()
    })?;
    report(fabricast_router::App::bind(config, security())?.run(CancellationToken::new()).await);
    Ok(())
}

async fn run_switch_agent() -> Result<(), Failure> {
    let config = checked(RawSwitchAgentConfig {
        listen: everywhere(),
        allow_plaintext: true,
        name: Some(Host::SwitchAgent.to_string()),
        tic: tic_addresses().iter().collect(),
        fabric: Host::Fabric.address(),
        management_key: Some(KEY.to_owned()),
        ..RawSwitchAgentConfig::default()
    })?;
    let fabric = security().peer(&Host::Fabric.address())?;
    let driver = Arc::new(EmulatedDriver::new(fabric, KEY));
    let app = fabricast_switch::App::bind(config, security(), driver)?;
    report(app.run(CancellationToken::new()).await);
    Ok(())
}

async fn run_agent(index: usize) -> Result<(), Failure> {
    let node = |name: String| RawNode {
        endpoints: Some(vec![name.replacen('n', "h", 1)]),
        name: Some(name),
        interfaces: BTreeMap::new(),
    };
    let config = checked(RawOperatingAgentConfig {
        listen: everywhere(),
        allow_plaintext: true,
        advertise: Some(Host::Agent(index).address()),
        tic: tic_addresses().iter().collect(),
        fabric: Host::Fabric.address(),
        nodes: nodes_of(index).map(node).collect(),
        report_interval: REPORT_INTERVAL,
        report_timeout: REPORT_TIMEOUT,
        probe_timeout: PROBE_TIMEOUT,
        ..RawOperatingAgentConfig::default()
    })?;
    let app = fabricast_operating::App::bind(config, security())?;
    report(app.run(CancellationToken::new()).await);
    Ok(())
}
