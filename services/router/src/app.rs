//! The tasks of the route service and how they hang together.
//!
//! ```text
//!  TIC ──watch──► watch task ──news──► control loop ──writes──► switch agents
//!                                       ▲   │
//!  RouteService ──────questions─────────┘   └──choices, reports──► TIC
//!
//!  TIC ──trees of collectives──► aggregation loop ──writes──► switch agents
//!                                        └──what is held──► TIC
//! ```
//!
//! The control loop owns all state; the other tasks only pass messages. Both channels are bounded:
//! a slow loop slows the watch, and a watch that is too slow starts again with a snapshot.
//!
//! All of this runs while the route service holds the newest term, and is made anew with each
//! (`standby.rs`):
//!
//! ```text
//!  wait for a term ──► control loop, renewals ──► term refused somewhere ──► wait for a term ...
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1::route_service_server::RouteServiceServer;
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_rpc::{BindError, BoundServer, Leader, Peer, PeerError, ServeError, Services};
use fabricast_topology::ibnetdiscover;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::aggregation::Aggregation;
use crate::control::{Control, Ended, Question};
use crate::planner::PlanError;
use crate::service::RouteServer;
use crate::standby::{Held, Standby};
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
    held: Held,
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
        let held = Held::default();
        let (known, server_of) = (held.clone(), held.clone());
        let mut services = Services::new("router")
            .with(RouteServiceServer::new(RouteServer { questions: asking, held: server_of }))
            .with_leadership(Arc::new(move || known.leadership()));
        for tic in &options.tic {
            services = services.with_peer("tic", tic.clone());
        }
        for agent in &options.switch_agents {
            services = services.with_peer("switch-agent", agent.clone());
        }
        Ok(Self { server, services, options, tic, agents, questions, held })
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
        let Self { server, services, options, tic, agents, mut questions, held } = self;
        let standby = Standby { tic, name: options.name.clone(), held };
        let routing = route(&standby, &agents, &options, &mut questions);
        // Only this part ends when routing does; the caller's token is for all parts.
        let stop = stop.child_token();
        let serving = server.serve(services, stop.clone());
        tokio::pin!(serving);
        let ended = tokio::select! {
            ended = routing => {
                stop.cancel();
                serving.await?;
                ended
            }
            ended = &mut serving => ended.map_err(RunError::from),
        };
        standby.release().await;
        ended
    }
}

/// Waits for a term and routes while it lasts, one after the other.
async fn route(
    standby: &Standby,
    agents: &[Peer],
    options: &Options,
    questions: &mut mpsc::Receiver<Question>,
) -> Result<(), RunError> {
    let map = watch::topology(&standby.tic).await?;
    loop {
        let (term, lease) = tokio::select! {
            term = standby.acquire() => term,
            // Whoever asked when the last term ended.
            () = refuse(questions) => return Ok(()),
        };
        let (telling, mut news) = mpsc::channel(QUEUE);
        let work = async {
            let control =
                Control::start(standby.tic.clone(), agents.to_vec(), options.clone(), (&map, term))
                    .await?;
            let peers = (standby.tic.clone(), agents.to_vec());
            let graph = Arc::clone(&map.graph);
            let collectives = Aggregation::new(peers, graph, term, options.read_back);
            tokio::select! {
                () = collectives.run() => Err(Ended::Deposed),
                ended = control.run(&mut news, questions) => ended,
                () = watch::follow(standby.tic.clone(), telling) => Ok(()),
            }
        };
        let ended = tokio::select! {
            ended = work => ended,
            () = standby.hold(term, lease) => Err(Ended::Deposed),
        };
        standby.step_back();
        match ended {
            Ok(()) => return Ok(()),
            Err(Ended::Failed(error)) => return Err(error),
            Err(Ended::Deposed) => {
                tracing::warn!(epoch = term, "another route service has taken over");
            }
        }
    }
}

/// Drops questions, so that whoever waits is told.
async fn refuse(questions: &mut mpsc::Receiver<Question>) {
    while let Some(question) = questions.recv().await {
        drop(question);
    }
    std::future::pending().await
}
