//! Tasks of the route service and the channels between them.
//!
//! ```text
//!  TIC ──watch──► watch::follow ──WatchMessage──► ControlLoop ──writes──► switch agents
//!                                                ▲  ▲   │
//!  clients ──calls──► RouteServer ──Query────────┘  │   └──choices, reports──► TIC
//!                                                   │
//!  switch agents ──counters──► LoadReader ──loads───┘ (only with a root policy by load)
//!
//!  TIC ──trees of collectives──► Aggregation ──writes──► switch agents
//!                                     └──missing trees──► TIC
//!
//!  RouteServer ──status──► gauges ──► metrics
//!
//!  ControlLoop ──what it records──► thread of `recording_files.rs` ──► files ──► RouteServer
//! ```
//!
//! `ControlLoop` owns all state; the other tasks pass messages. Both of its channels are bounded: a
//! slow loop slows the watch down, and the TIC ends a watch that is too slow, which then starts
//! again with a snapshot. A slow disk slows nothing down: what has no room in its queue is dropped.
//!
//! These tasks run while the route service holds the newest term, and start anew with each term
//! (`terms.rs`, `standby.rs`):
//!
//! ```text
//!  wait for a term ──► tasks above, renewals ──► a newer term exists ──► wait for a term ...
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use fabricast_config::RouterConfig;
use fabricast_proto::v1::route_service_server::RouteServiceServer;
use fabricast_rpc::{BindError, BoundServer, Leader, Peer, PeerError, Security, Services};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxFuture;

use crate::aggregation::Aggregation;
use crate::api::{Computations, RouteServer};
use crate::control_loop::Query;
use crate::default_engine::default_engine;
use crate::gauges;
use crate::grpc::GrpcEnvironment;
use crate::recording_files::RecordingFiles;
use crate::run_error::RunError;
use crate::settings::{LiveSettings, RoutingSettings};
use crate::standby::{ActiveRouter, Standby};
use crate::terms::{QUEUE, run_terms};
use crate::watch;

/// Reason why the route service could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The address of a TIC or switch agent cannot be parsed.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The thread that writes the recording cannot be started.
    #[error("no thread can be started")]
    Thread(#[source] io::Error),
}

/// A route service that is bound to its address.
#[derive(Debug)]
pub struct App {
    server: BoundServer,
    services: Services,
    tic: Leader,
    agents: Vec<Peer>,
    queries: mpsc::Receiver<Query>,
    active: ActiveRouter,
    api: RouteServer,
    settings: LiveSettings,
    recording_files: Option<RecordingFiles>,
}

impl App {
    /// Binds the address and prepares channels to the peers. Nothing runs yet but the thread that
    /// writes the recording, if the settings name a folder.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the address is taken, a peer's cannot be parsed or no thread can be
    /// started.
    pub fn bind(config: RouterConfig, security: Security) -> Result<Self, StartError> {
        let tic = security.leader(&config.tic)?;
        let agents = config.switch_agents.iter().map(|agent| security.peer(agent.as_str()));
        let agents = agents.collect::<Result<_, _>>()?;
        let server = BoundServer::bind(config.listen, security)?;
        let recording_files = start_recording_files(&config).map_err(StartError::Thread)?;
        let recording_folder = config.recording_folder.clone();
        let (sender, queries) = mpsc::channel(QUEUE);
        let active = ActiveRouter::default();
        let (plans, figures) = (Computations::new(), Computations::new());
        let (active_now, tic_now) = (active.clone(), tic.clone());
        let api = RouteServer {
            queries: sender,
            active: active_now,
            tic: tic_now,
            plans,
            figures,
            recording_folder,
        };
        let known = active.clone();
        let mut services = Services::new("router")
            .with(RouteServiceServer::new(api.clone()))
            .with_leadership(Arc::new(move || known.leadership()));
        for tic in &config.tic {
            services = services.with_peer("tic", tic.as_str());
        }
        for agent in &config.switch_agents {
            services = services.with_peer("switch-agent", agent.as_str());
        }
        let settings = LiveSettings::new(config);
        Ok(Self { server, services, tic, agents, queries, active, api, settings, recording_files })
    }

    /// Address that clients use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Settings that may change while the service runs.
    #[must_use]
    pub fn settings(&self) -> LiveSettings {
        self.settings.clone()
    }

    /// Services to be served at one more address.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.clone()
    }

    /// Serves and routes until `stop` is cancelled.
    ///
    /// The future is boxed, so that only this crate compiles its code, not every crate that
    /// awaits it.
    ///
    /// # Errors
    ///
    /// [`RunError`] if the listener fails, or no routes can be planned.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<(), RunError> {
        Box::pin(self.serve_until(stop))
    }

    async fn serve_until(self, stop: CancellationToken) -> Result<(), RunError> {
        let Self { server, services, tic, agents, active, api, settings, recording_files, .. } =
            self;
        let config = settings.config().clone();
        let mut queries = self.queries;
        let environment = GrpcEnvironment::new(tic.clone(), agents.clone());
        let bound = server.address().to_string();
        let name = format!("router at {bound}");
        let address = config.advertise.as_ref().map_or(bound, ToString::to_string);
        let standby = Standby { environment, name, address, active };
        // Boxed, because the future holds the state of a whole term.
        let routing = Box::pin(async {
            loop {
                let topology = watch::load_topology(&tic).await?;
                let default = || default_engine(&topology.graph, config.engine_options());
                let engine = config.engine.unwrap_or_else(default);
                let term_settings = RoutingSettings::new(engine, settings.clone())
                    .with_recording_files(recording_files.clone());
                let collectives = |term| {
                    let graph = Arc::clone(&topology.graph);
                    let agents = agents.clone();
                    Aggregation::new(tic.clone(), agents, graph, term, settings.clone()).run()
                };
                let ended =
                    run_terms(&standby, &topology, &term_settings, &mut queries, collectives);
                match ended.await {
                    Err(RunError::OtherTopology) => {
                        tracing::info!(peer = tic.address(), "topology changed");
                    }
                    ended => return ended,
                }
            }
        });
        // The caller's token is for all parts; only this one ends when routing does.
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
            never = gauges::update_periodically(api) => match never {},
        };
        standby.release().await;
        ended
    }
}

/// Starts to write the recording to a folder, if the settings name one.
fn start_recording_files(config: &RouterConfig) -> io::Result<Option<RecordingFiles>> {
    let Some(folder) = config.recording_folder.clone() else { return Ok(None) };
    // As much may wait for the disk as is kept in memory: a section with all records fits.
    let queue_limit = config.recording_bytes;
    RecordingFiles::start(folder, config.recording_folder_bytes, queue_limit).map(Some)
}
