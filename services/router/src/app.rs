//! The tasks of the route service and how they hang together.
//!
//! ```text
//!  TIC ──watch──► watch task ──news──► control loop ──writes──► switch agents
//!                                       ▲   │
//!  RouteService ──────questions─────────┘   └──choices, reports──► TIC
//! ```
//!
//! The control loop owns all state; the other tasks only pass messages. Both channels are bounded:
//! a slow loop slows the watch, and a watch that is too slow starts again with a snapshot.

use std::net::SocketAddr;
use std::time::Duration;

use fabricast_proto::v1::route_service_server::RouteServiceServer;
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_rpc::{BindError, BoundServer, Leader, Peer, PeerError, ServeError, Services};
use fabricast_topology::ibnetdiscover;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::control::{Control, Question};
use crate::planner::PlanError;
use crate::service::RouteServer;
use crate::watch;

/// Messages of the watch, and questions, that may wait for the control loop.
const QUEUE: usize = 1024;

/// Settings of the route service.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Name of this route service, for logs.
    pub name: String,
    /// The TICs, each as host:port; one of them leads.
    pub tic: Vec<String>,
    /// The switch agents, as host:port.
    pub switch_agents: Vec<String>,
    /// What computes the trees.
    pub engine: EngineKind,
    /// Tables, and how the engine is to use them.
    pub engine_options: EngineOptions,
    /// How long old entries stay after senders were told a new color.
    pub drain: Duration,
    /// Interval at which all tables are read back and compared.
    pub read_back: Duration,
}

/// Why the route service could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The address of a peer cannot be parsed.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// Why a running route service ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// The listener failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A newer route service is at work; this one must not write any more.
    #[error("a route service with a term newer than {term} has taken over")]
    Deposed {
        /// The term of this one.
        term: u64,
    },
    /// The TIC serves another topology than at the start; start anew.
    #[error("the TIC has another topology by now")]
    OtherTopology,
    /// The TIC serves a topology that cannot be read.
    #[error("the TIC's topology cannot be read")]
    Topology(#[source] ibnetdiscover::ReadError),
    /// The TIC serves a topology that is not UTF-8.
    #[error("the TIC's topology is not text")]
    TopologyNotText,
    /// No engine fits the topology or the settings.
    #[error("no routes can be planned")]
    Plan(#[from] PlanError),
}

/// A route service that holds its address.
#[derive(Debug)]
pub struct App {
    server: BoundServer,
    services: Services,
    options: Options,
    tic: Leader,
    agents: Vec<Peer>,
    questions: mpsc::Receiver<Question>,
}

impl App {
    /// Takes the address and prepares channels to the peers; nothing runs yet.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the address is taken or a peer's cannot be parsed.
    pub fn bind(options: Options) -> Result<Self, StartError> {
        let tic = Leader::new(&options.tic)?;
        let agents =
            options.switch_agents.iter().map(|agent| Peer::new(agent)).collect::<Result<_, _>>()?;
        let server = BoundServer::bind(options.listen)?;
        let (asking, questions) = mpsc::channel(QUEUE);
        let mut services = Services::new("router")
            .with(RouteServiceServer::new(RouteServer { questions: asking }));
        for tic in &options.tic {
            services = services.with_peer("tic", tic.clone());
        }
        for agent in &options.switch_agents {
            services = services.with_peer("switch-agent", agent.clone());
        }
        Ok(Self { server, services, options, tic, agents, questions })
    }

    /// The address that clients use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The services, to be served at one more address.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.clone()
    }

    /// Serves and routes until `stop` is cancelled.
    ///
    /// # Errors
    ///
    /// [`RunError`] when it must not or cannot go on.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RunError> {
        let Self { server, services, options, tic, agents, questions } = self;
        let (telling, news) = mpsc::channel(QUEUE);
        let routing = async {
            let map = watch::topology(&tic).await?;
            let control = Control::start(tic.clone(), agents, options, map).await?;
            tokio::select! {
                ended = control.run(news, questions) => ended,
                () = watch::follow(tic.clone(), telling) => Ok(()),
            }
        };
        // Only this part ends when routing does; the caller's token is for all parts.
        let stop = stop.child_token();
        let serving = server.serve(services, stop.clone());
        tokio::pin!(serving);
        tokio::select! {
            ended = routing => {
                stop.cancel();
                serving.await?;
                ended
            }
            ended = &mut serving => Ok(ended?),
        }
    }
}
