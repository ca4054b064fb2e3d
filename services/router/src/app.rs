//! The tasks of the route service and how they hang together.
//!
//! ```text
//!  TIC ──watch──► watch task ──news──► control loop ──writes──► switch agents
//!                                       ▲   │
//!  RouteService ──────questions─────────┘   └──choices, reports──► TIC
//!                                       ▲
//!  switch agents ──counters──► load reader ──loads─┘ (with a root policy)
//!
//!  TIC ──trees of collectives──► aggregation loop ──writes──► switch agents
//!                                        └──what is held──► TIC
//! ```
//!
//! The control loop owns all state; the other tasks only pass messages. Both channels are bounded:
//! a slow loop slows the watch, and a watch that is too slow starts again with a snapshot.
//!
//! All of this runs while the route service holds the newest term, and is made anew with each
//! (`terms.rs`, `standby.rs`):
//!
//! ```text
//!  wait for a term ──► control loop, renewals ──► term refused somewhere ──► wait for a term ...
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

use fabricast_proto::v1::route_service_server::RouteServiceServer;
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_rpc::{
    BindError, BoundServer, Leader, Peer, PeerError, Security, ServeError, Services,
};
use fabricast_topology::ibnetdiscover;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::aggregation::Aggregation;
use crate::control::Question;
use crate::fitting::fitting;
use crate::gauges;
use crate::grpc::Grpc;
use crate::planner::PlanError;
use crate::service::RouteServer;
use crate::standby::{Held, Standby};
use crate::terms::{LiveSettings, Pacing, Policy, QUEUE, route};
use crate::watch;

/// Settings of the route service.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// How others connect, and how it connects to the TIC and the switch agents.
    pub security: Security,
    /// Name of this route service, for logs.
    pub name: String,
    /// What callers of others that wait are told of this one; left out, the address it listens at.
    pub advertise: Option<String>,
    /// The TICs, each as host:port; one of them leads.
    pub tic: Vec<String>,
    /// The switch agents, as host:port.
    pub switch_agents: Vec<String>,
    /// What computes the trees; none takes what fits the topology.
    pub engine: Option<EngineKind>,
    /// Tables, and how the engine is to use them.
    pub engine_options: EngineOptions,
    /// How fast it goes to begin with.
    pub pacing: Pacing,
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
    /// The TIC serves another topology than at the start: begin anew with that.
    #[error("the TIC has another topology by now")]
    OtherTopology,
    /// The TIC serves a topology that cannot be read.
    #[error("the TIC's topology cannot be read")]
    Topology(#[source] ibnetdiscover::ReadError),
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
    status: RouteServer,
    settings: LiveSettings,
}

impl App {
    /// Takes the address and prepares channels to the peers; nothing runs yet.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the address is taken or a peer's cannot be parsed.
    pub fn bind(options: Options) -> Result<Self, StartError> {
        let security = &options.security;
        let tic = security.leader(&options.tic)?;
        let agents = options
            .switch_agents
            .iter()
            .map(|agent| security.peer(agent))
            .collect::<Result<_, _>>()?;
        let server = BoundServer::bind(options.listen)?.secured(security.clone());
        let (asking, questions) = mpsc::channel(QUEUE);
        let held = Held::default();
        let status = RouteServer { questions: asking, held: held.clone() };
        let known = held.clone();
        let mut services = Services::new("router")
            .with(RouteServiceServer::new(status.clone()))
            .with_leadership(Arc::new(move || known.leadership()));
        for tic in &options.tic {
            services = services.with_peer("tic", tic.clone());
        }
        for agent in &options.switch_agents {
            services = services.with_peer("switch-agent", agent.clone());
        }
        let settings = LiveSettings::new(options.pacing);
        Ok(Self { server, services, options, tic, agents, questions, held, status, settings })
    }

    /// The address that clients use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What may change while it runs.
    #[must_use]
    pub fn settings(&self) -> LiveSettings {
        self.settings.clone()
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
        let Self { server, services, options, tic, agents, held, status, settings, .. } = self;
        let mut questions = self.questions;
        let outside = Grpc::new(tic.clone(), agents.clone());
        let own = || server.address().to_string();
        let address = options.advertise.unwrap_or_else(own);
        let standby = Standby { outside, name: options.name, address, held };
        // Everything that is known while a term lasts lies in it: too much for a stack.
        let routing = Box::pin(async {
            loop {
                let map = watch::topology(&tic).await?;
                let engine_options = options.engine_options;
                let policy = Policy {
                    engine: options.engine.unwrap_or_else(|| fitting(&map.graph, engine_options)),
                    engine_options,
                    live: settings.clone(),
                };
                let collectives = |term| {
                    let peers = (tic.clone(), agents.clone());
                    Aggregation::new(peers, Arc::clone(&map.graph), term, settings.clone()).run()
                };
                match route(&standby, (&map, &policy), &mut questions, collectives).await {
                    Err(RunError::OtherTopology) => {
                        tracing::info!(peer = tic.address(), "topology changed");
                    }
                    ended => return ended,
                }
            }
        });
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
            never = gauges::keep(status) => match never {},
        };
        standby.release().await;
        ended
    }
}
