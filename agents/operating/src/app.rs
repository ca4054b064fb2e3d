//! The tasks of an operating agent process and how they hang together.
//!
//! ```text
//!  processes ──► ProcessService ────────┐ (at a Unix domain socket)
//!  tools ──────► OperatingAgentService ─┤          ┌───────┐         ┌─► TIC: one worker for each
//!  other agents ──► GroupAgentService ──┤ inputs   │ Nodes │ effects │   BatchQueue with requests
//!  timers: keep_time, report ───────────┼────────► └───────┘ ──────► ├─► agents: one worker for
//!  answers of calls ────────────────────┘ (one lock)                 │   each address
//!                                                                    ├─► other nodes: OpenLink
//!                                                                    └─► switches: one task for
//!                                                                        each contribution
//!  Nodes ──► PacketSender (bounded queue) ──► FabricStream ──► fabric
//!  fabric ──► FabricStream ──► Listeners (bounded; a slow one loses packets) ──► processes
//!  programs ──IGMP, packets──► kernel ──► Programs ──► inputs of Nodes (joins, leaves)
//!  Announcements ──datagram of each interface, every 2 s──► switch ──► switch agent
//!  OpenLink ──► message layers of Nodes ──► MemberEvents (a slow process stops its senders)
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabricast_config::{NodeConfig, OperatingAgentConfig};
use fabricast_group::{GroupAgentServer, MESSAGE_LIMIT};
use fabricast_groups::names::{Address, EndpointName, NameError, NodeName};
use fabricast_groups::operating::Identity;
use fabricast_groups::voucher::VoucherSeed;
use fabricast_proto::v1;
use fabricast_proto::v1::collective_agent_service_server::CollectiveAgentServiceServer;
use fabricast_proto::v1::group_agent_service_server::GroupAgentServiceServer;
use fabricast_proto::v1::operating_agent_service_server::OperatingAgentServiceServer;
use fabricast_proto::v1::process_service_server::ProcessServiceServer;
use fabricast_rpc::{
    BindError, BoundServer, BoundSocket, PeerError, Security, ServeError, Services, SocketError,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxFuture;

use crate::agent::{Agent, Parts};
use crate::announcements::Announcements;
use crate::api::collective_agent::CollectiveAgent;
use crate::api::operating_agent::OperatingAgentServer;
use crate::api::process::ProcessServer;
use crate::fabric::packets::PacketSender;
use crate::links::member_handle::Messages;
use crate::nodes::NodeSettings;
use crate::nodes::adapters::Adapters;
use crate::processes::memory::Memories;
use crate::processes::user_rules::UserRules;
use crate::programs::{Interface, Programs};
use crate::settings::{self, LiveSettings};

/// Deadlines are looked at no more often than this.
const TICK: Duration = Duration::from_millis(10);
/// The clock is read at least this often: it counts no more than 60 ms at once.
const IDLE: Duration = Duration::from_millis(50);

/// The reason why an operating agent could not start.
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
        /// The rule that the name breaks.
        #[source]
        source: NameError,
    },
    /// An interface has an impossible name.
    #[error("nodes: interfaces")]
    Interface(#[source] NameError),
    /// The system gives no random numbers, of which secrets are made.
    #[error("the system gives no random numbers")]
    NotRandom,
}

/// The reason why a running operating agent ended by itself.
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
    agent: Arc<Agent>,
    programs: Arc<Programs>,
    announcements: Announcements,
    to_fabric: mpsc::Receiver<v1::AttachEndpointsRequest>,
    settings: LiveSettings,
}

impl App {
    /// Binds the address and sets up the nodes; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`StartError`] names the setting that is wrong.
    pub fn bind(config: OperatingAgentConfig, security: Security) -> Result<Self, StartError> {
        let tic = security.leader(&config.tic)?;
        let fabric =
            config.fabric.as_ref().map(|fabric| security.peer(fabric.as_str())).transpose()?;
        let server = BoundServer::bind(config.listen, security.clone())?;
        let socket = config.socket.as_ref().map(|path| BoundSocket::bind(path, config.socket_mode));
        let socket = socket.transpose()?.map(|socket| socket.limited(&security));
        let memory = config.shared_memory.as_deref().filter(|_| socket.is_some());
        let memories = Memories::new(memory, socket.as_ref().map(BoundSocket::path));
        let bound = server.address().to_string();
        let address = config.advertise.as_ref().map_or(bound, ToString::to_string);
        let nodes = identities(&config.nodes, &address)?;
        let direct_hosts = direct_hosts(&config, &nodes, &address);
        let adapters = match config.fabric {
            None => Some(Adapters::of(&config).map_err(StartError::Interface)?),
            Some(_) => None,
        };
        let (packets, to_fabric) = PacketSender::new();
        let retry = settings::retry(&config);
        let user_rules = UserRules::new(&config.process_rules);
        let agent = Agent::new(Parts {
            nodes: NodeSettings {
                nodes,
                operating_config: settings::operating(&config, retry),
                group_config: settings::group(&config, retry),
                start_id: start_id(),
                voucher_seed: voucher_seed()?,
                adapters: adapters.map(Arc::new),
            },
            tic,
            fabric,
            security,
            user_rules: user_rules.clone(),
            memories,
            direct_hosts,
            address,
            packets,
        });
        let nodes = agent.runtime.nodes.clone();
        let operating = OperatingAgentServiceServer::new(OperatingAgentServer::new(&agent));
        let collectives = CollectiveAgentServiceServer::new(CollectiveAgent::new(&agent));
        let group = GroupAgentServiceServer::new(GroupAgentServer::new(nodes.clone()));
        let mut services = Services::new("operating-agent")
            .with(operating.max_decoding_message_size(MESSAGE_LIMIT))
            .with(group.max_decoding_message_size(MESSAGE_LIMIT))
            .with(collectives);
        if let Some(fabric) = &config.fabric {
            services = services.with_peer("fabric", fabric.as_str());
        }
        for tic in &config.tic {
            services = services.with_peer("tic", tic.as_str());
        }
        let report_interval = Arc::new(watch::Sender::new(config.report_interval));
        let interfaces = Interface::of(&config.nodes).map_err(StartError::Interface)?;
        let announcements = Announcements::of(&config);
        let programs =
            Programs::new(&agent, interfaces, config.program_ranges, config.program_senders);
        let settings = LiveSettings { nodes, retry, report_interval, user_rules };
        Ok(Self { server, services, socket, agent, programs, announcements, to_fabric, settings })
    }

    /// The address that processes and other agents use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The settings that may change while it runs.
    #[must_use]
    pub fn settings(&self) -> LiveSettings {
        self.settings.clone()
    }

    /// Opens members hosted here without a process that attaches.
    #[must_use]
    pub fn messages(&self) -> Messages {
        Messages(self.agent.runtime.nodes.clone())
    }

    /// The services, to be served at one more address.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.clone()
    }

    /// Serves until `stop` is cancelled.
    ///
    /// The future is boxed, so that only this crate compiles its code, not every crate that
    /// awaits it.
    ///
    /// # Errors
    ///
    /// [`RunError`] if the listener fails.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<(), RunError> {
        Box::pin(self.serve_until(stop))
    }

    async fn serve_until(self, stop: CancellationToken) -> Result<(), RunError> {
        let Self { server, services, socket, agent, programs, announcements, to_fabric, settings } =
            self;
        agent.start();
        let processes = serve_processes(socket, &agent, stop.clone());
        let both = async { tokio::try_join!(server.serve(services, stop), processes).map(|_| ()) };
        let served = tokio::select! {
            served = both => served,
            () = agent.runtime.nodes.keep_time(TICK, IDLE) => Ok(()),
            () = agent.report(settings.report_interval.subscribe()) => Ok(()),
            () = agent.serve_fabric(to_fabric) => Ok(()),
            () = programs.run() => Ok(()),
            () = announcements.run() => Ok(()),
            () = agent.combining.clone().refresh_offers() => Ok(()),
        };
        agent.runtime.tasks.stop().await;
        Ok(served?)
    }
}

/// Serves the processes of this machine, if there is a socket for them.
async fn serve_processes(
    socket: Option<BoundSocket>,
    agent: &Arc<Agent>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let Some(socket) = socket else { return Ok(()) };
    let processes = ProcessServiceServer::new(ProcessServer::new(agent))
        .max_decoding_message_size(MESSAGE_LIMIT);
    let services = Services::new("operating-agent").with(processes);
    socket.serve(services, stop).await
}

fn identities(nodes: &[NodeConfig], address: &str) -> Result<Vec<Identity>, StartError> {
    let identity = |node: &NodeConfig| -> Result<Identity, NameError> {
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

/// Addresses at which sockets of processes are reached, by node: that of the agent, for nodes whose
/// endpoints are interfaces of this machine.
fn direct_hosts(
    config: &OperatingAgentConfig,
    nodes: &[Identity],
    address: &str,
) -> BTreeMap<NodeName, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_real = |node: &NodeConfig| config.fabric.is_none() && !node.interfaces.is_empty();
    let offering = config.nodes.iter().zip(nodes).filter(|(node, _)| is_real(node));
    offering.map(|(_, identity)| (identity.node.clone(), host.to_owned())).collect()
}

/// A number that nobody else knows.
fn voucher_seed() -> Result<VoucherSeed, StartError> {
    let mut seed = [0; 16];
    SystemRandom::new().fill(&mut seed).map_err(|_unspecified| StartError::NotRandom)?;
    Ok(VoucherSeed(seed))
}

/// A number that no earlier start of these nodes had.
fn start_id() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX / 2)
}
