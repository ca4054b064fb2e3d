//! The tasks of an operating agent process and how they hang together.
//!
//! ```text
//!  processes ──► ProcessService ────────┐ (at a Unix domain socket)
//!  tools ──────► OperatingAgentService ─┤             ┌─► calls to TIC, group agents, other nodes
//!  other agents ──► GroupAgentService ──┼─► Host ─────┤      (one task each, answers go back in)
//!  timer, reports ──────────────────────┘  (one lock) ├─► outbox ──► positions, batched by address
//!  fabric ◄──── attach stream ◄───────────────────────┘
//!         ────► deliveries ──► listeners (bounded; a slow one loses packets)
//!  other nodes ◄── OpenLink ──► Courier of each node ──► seats of processes (a slow one stops its sources)
//!  switches ◄── ContributeValues ──┘ (trees of collectives, which the TIC is asked for)
//! ```

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabricast_group::{GroupAgentServer, MESSAGE_LIMIT};
use fabricast_groups::detector::DetectorConfig;
use fabricast_groups::names::{Address, EndpointName, NameError, NodeName};
use fabricast_groups::operating::Identity;
use fabricast_proto::v1;
use fabricast_proto::v1::collective_agent_service_server::CollectiveAgentServiceServer;
use fabricast_proto::v1::group_agent_service_server::GroupAgentServiceServer;
use fabricast_proto::v1::operating_agent_service_server::OperatingAgentServiceServer;
use fabricast_proto::v1::process_service_server::ProcessServiceServer;
use fabricast_rpc::{
    BindError, BoundServer, BoundSocket, Peer, PeerError, Security, ServeError, Services,
    SocketError,
};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::collectives::CollectiveAgent;
use crate::host::{Host, NodeSpec, Parts};
use crate::memory::Memories;
use crate::messages::Messages;
use crate::processes::ProcessServer;
use crate::service::OperatingAgentServer;
use crate::settings::{LiveSettings, Pacing};

/// Messages that may wait for the stream to the fabric.
const FABRIC_QUEUE: usize = 4096;
/// Deadlines are looked at once in this time, at most.
const TICK: Duration = Duration::from_millis(10);
/// And once in this time at least, so that the agent's clock goes on: it counts no more than 60 ms at once.
const IDLE: Duration = Duration::from_millis(50);
/// Settings of an operating agent process.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// What others are told to call; `None` for the address it listens at.
    pub advertise: Option<String>,
    /// How others connect, and how it connects to them.
    pub security: Security,
    /// The TICs, each as host:port; one of them leads.
    pub tic: Vec<String>,
    /// The fabric, as host:port.
    pub fabric: String,
    /// The nodes to host.
    pub nodes: Vec<NodeSpec>,
    /// Where processes of this machine attach; `None` if none can.
    pub socket: Option<LocalSocket>,
    /// Interval of the signs of life.
    pub report_interval: Duration,
    /// When a member's node is probed, and when it is reported to the TIC.
    pub detector: DetectorConfig,
}

/// A Unix domain socket for the processes of this machine.
#[derive(Clone, Debug)]
pub struct LocalSocket {
    /// Its file; one that nobody listens at is replaced.
    pub path: PathBuf,
    /// Permissions of the file, such as 0o600: whoever may write to it may attach processes.
    pub mode: u32,
    /// Folder, kept in memory, for what is shared with them; `None`: all payloads go through the socket.
    pub memory: Option<PathBuf>,
}

/// Why an operating agent could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The socket cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The address of a peer cannot be parsed.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A node, endpoint or address has an impossible name.
    #[error("nodes[{index}]")]
    Name {
        /// Position of the node in the list, from 0.
        index: usize,
        /// What is wrong.
        #[source]
        source: NameError,
    },
}

/// Why a running operating agent ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// The listener failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// An operating agent process that holds its address.
#[derive(Debug)]
pub struct App {
    server: BoundServer,
    services: Services,
    socket: Option<BoundSocket>,
    host: Host,
    fabric: Peer,
    to_fabric: mpsc::Receiver<v1::AttachEndpointsRequest>,
    settings: LiveSettings,
}

impl App {
    /// Takes the address and sets up the nodes; nothing is said to anybody yet.
    ///
    /// # Errors
    ///
    /// [`StartError`] names what is wrong with which setting.
    pub fn bind(options: Options) -> Result<Self, StartError> {
        let security = options.security;
        let tic = security.leader(&options.tic)?;
        let fabric = security.peer(&options.fabric)?;
        let server = BoundServer::bind(options.listen)?.secured(security.clone());
        let local = options.socket;
        let socket = local.as_ref().map(|local| BoundSocket::bind(&local.path, local.mode));
        let socket = socket.transpose()?.map(|socket| socket.limited(&security));
        let memory = local.as_ref().and_then(|local| local.memory.as_deref());
        let memories = Memories::new(memory, socket.as_ref().map(BoundSocket::path));
        let address = options.advertise.unwrap_or_else(|| server.address().to_string());
        let nodes = identities(&options.nodes, &address)?;
        let (sending, to_fabric) = mpsc::channel(FABRIC_QUEUE);
        let Options { report_interval, detector, .. } = options;
        let pacing = Pacing { report_interval, detector };
        let retry = pacing.retry();
        let host = Host::new(Parts {
            nodes,
            operating_config: pacing.operating(retry),
            group_config: pacing.group(retry),
            tic,
            fabric: fabric.clone(),
            security,
            memories,
            address,
            start_id: start_id(),
            to_fabric: sending,
        });
        let operating =
            OperatingAgentServiceServer::new(OperatingAgentServer { host: host.clone() });
        let collectives = CollectiveAgent { host: host.clone() };
        let group = GroupAgentServiceServer::new(GroupAgentServer::new(host.clone()));
        let mut services = Services::new("operating-agent")
            .with(operating.max_decoding_message_size(MESSAGE_LIMIT))
            .with(group.max_decoding_message_size(MESSAGE_LIMIT))
            .with(CollectiveAgentServiceServer::new(collectives))
            .with_peer("fabric", options.fabric);
        for tic in options.tic {
            services = services.with_peer("tic", tic);
        }
        let report_interval = Arc::new(watch::Sender::new(report_interval));
        let settings = LiveSettings { host: host.clone(), retry, report_interval };
        Ok(Self { server, services, socket, host, fabric, to_fabric, settings })
    }

    /// The address that processes and other agents use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What may change while it runs.
    #[must_use]
    pub fn settings(&self) -> LiveSettings {
        self.settings.clone()
    }

    /// The way to the seats of the members hosted here.
    #[must_use]
    pub fn messages(&self) -> Messages {
        Messages(self.host.clone())
    }

    /// The services, to be served at one more address.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.clone()
    }

    /// Serves until `stop` is cancelled.
    ///
    /// # Errors
    ///
    /// [`RunError`] if the listener fails.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RunError> {
        let Self { server, services, socket, host, fabric, to_fabric, settings } = self;
        host.begin();
        let ticking = async {
            loop {
                host.0.pace.beat();
                host.tick();
                tokio::time::sleep(TICK).await;
                let rest = host.rest(IDLE).saturating_sub(TICK);
                // Whatever happens meanwhile may bring a deadline that comes sooner.
                let _ = tokio::time::timeout(rest, host.0.stirred.notified()).await;
            }
        };
        let processes = serve_processes(socket, host.clone(), stop.clone());
        let both = async { tokio::try_join!(server.serve(services, stop), processes).map(|_| ()) };
        let served = tokio::select! {
            served = both => served,
            () = ticking => Ok(()),
            () = host.clone().report_forever(settings.report_interval.subscribe()) => Ok(()),
            () = host.clone().attach_forever(fabric, to_fabric) => Ok(()),
            () = host.clone().offer_forever() => Ok(()),
        };
        host.0.stop.cancel();
        host.0.tasks.close();
        host.0.tasks.wait().await;
        Ok(served?)
    }
}

/// Serves the processes of this machine, if there is a socket for them.
async fn serve_processes(
    socket: Option<BoundSocket>,
    host: Host,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let Some(socket) = socket else { return Ok(()) };
    let processes = ProcessServiceServer::new(ProcessServer::new(host));
    let services = Services::new("operating-agent").with(processes);
    socket.serve(services, stop).await
}

fn identities(nodes: &[NodeSpec], address: &str) -> Result<Vec<Identity>, StartError> {
    let identity = |node: &NodeSpec| -> Result<Identity, NameError> {
        let endpoints = node.endpoints.iter().map(|text| EndpointName::new(text));
        Ok(Identity {
            node: NodeName::new(&node.name)?,
            address: Address::new(address)?,
            endpoints: endpoints.collect::<Result<_, _>>()?,
        })
    };
    let named = |(index, node)| identity(node).map_err(|source| StartError::Name { index, source });
    nodes.iter().enumerate().map(named).collect()
}

/// A number that no earlier start of these nodes had.
fn start_id() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX / 2)
}
