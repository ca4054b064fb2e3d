//! The TIC as a whole: its tasks and the channels between them.
//!
//! ```text
//!   gRPC calls ──reads──────────────────────────► Records (RwLock) ──► WatchStream, one bounded
//!       │                                              ▲                queue per watcher
//!       │ WriterQueue (bounded)                        │ publish
//!       ▼                                              │
//!   Writer: decide a batch ─► one store transaction ───┤
//!       ▲                                              │ groups that changed
//!       │ NodeFailed                                   ▼
//!   Liveness ◄── LivenessInbox: reports,           Hints (merging) ──► hosts of group agents
//!       │        suspicions
//!       └──────► probes to nodes
//! ```
//!
//! All of this exists for one *term*. A TIC that has its store to itself serves one term from its
//! start to its end. Where several share a store, each campaigns (`leadership::election`), and
//! serves while it leads, with services that are made anew from what the store holds
//! (`leadership::term`):
//!
//! ```text
//!   campaign ──► LeaderServices ──► term over, or store failed ──► resign ──► campaign ...
//! ```
//!
//! Every queue is bounded: a full one refuses (calls), merges (inbox, hints) or cuts off (watches).
//! After the order to stop, calls in flight are answered before the writer ends. If the store
//! fails, the writer ends by itself. Then a TIC that is alone on its store ends too, once the calls
//! in flight are answered, while one of several resigns.

use std::net::SocketAddr;
use std::sync::Arc;

use fabricast_groups::watch::WatchConfig;
use fabricast_proto::v1::tic_service_server::TicServiceServer;
use fabricast_routing::LayoutError;
use fabricast_rpc::{AskReadiness, BindError, BoundServer, Services};
use fabricast_store::{OpenError, Store};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxFuture;

use crate::api::gate::LeaderGate;
use crate::api::term_holder::ActiveRouter;
use crate::api::tic::Tic;
use crate::config::Setup;
use crate::domain::topology::TopologySource;
use crate::leadership::election::{Candidate, LeaderLease};
use crate::leadership::term::{Shutdown, TermBuilder};
use crate::leadership::{Leadership, RunError};
use crate::liveness::peers::NodePeers;
use crate::records::keys::RecordsError;
use crate::records::storage::{Storage, store_options};

/// Reason why a TIC could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address cannot be bound.
    #[error("the TIC cannot listen")]
    Bind(#[from] BindError),
    /// The store cannot be opened.
    #[error("the TIC's store cannot be opened")]
    Store(#[from] OpenError),
    /// The records in the store cannot be used.
    #[error("the TIC's records cannot be read")]
    Records(#[from] RecordsError),
    /// The colors do not make a space of MGIDs on this topology.
    #[error("the TIC cannot choose MGIDs")]
    Layout(#[from] LayoutError),
}

/// A TIC that has its address and its store but does not serve yet.
#[derive(Debug)]
pub struct App {
    server: BoundServer,
    services: Services,
    leadership: Leadership,
    settings: LiveSettings,
}

/// Settings that may change while a TIC runs; a clone is another handle of the same settings.
#[derive(Clone, Debug)]
pub struct LiveSettings(Arc<watch::Sender<WatchConfig>>);

impl LiveSettings {
    /// Changes the times of the watch over nodes; each watched node gets the new time in full.
    pub fn set_watch(&self, config: WatchConfig) {
        self.0.send_if_modified(|now| std::mem::replace(now, config) != config);
    }
}

impl App {
    /// Takes the address, opens the store and, if nobody else uses that, reads the records; starts
    /// no task.
    ///
    /// # Errors
    ///
    /// [`StartError`] names what is not available.
    pub async fn bind(setup: Setup) -> Result<Self, StartError> {
        let server = BoundServer::bind(setup.config.listen, setup.security.clone())?;
        let store = setup.config.store.open(store_options()).await?;
        if setup.config.store.is_shared() {
            Self::elected(server, store, setup)
        } else {
            Self::sole(server, store, setup).await
        }
    }

    /// As [`App::bind`], on a store that is open already and that nobody else writes to;
    /// `setup.config.store` is not used.
    ///
    /// # Errors
    ///
    /// [`StartError`] names what is not available.
    pub async fn bind_with_store(setup: Setup, store: Arc<dyn Store>) -> Result<Self, StartError> {
        let server = BoundServer::bind(setup.config.listen, setup.security.clone())?;
        Self::sole(server, store, setup).await
    }

    /// As [`App::bind_with_store`], on a store that other TICs use too: this one campaigns when it
    /// runs.
    ///
    /// # Errors
    ///
    /// [`StartError`] names what is not available.
    pub fn bind_sharing(setup: Setup, store: Arc<dyn Store>) -> Result<Self, StartError> {
        let server = BoundServer::bind(setup.config.listen, setup.security.clone())?;
        Self::elected(server, store, setup)
    }

    async fn sole(
        server: BoundServer,
        store: Arc<dyn Store>,
        setup: Setup,
    ) -> Result<Self, StartError> {
        let builder = term_builder(store, setup);
        let lease = LeaderLease::sole();
        let loaded = builder.storage.adopt(&lease).await?;
        let loaded = loaded.expect("the lease of a TIC that is alone does not expire");
        let (term_services, term) = builder.build(&lease, loaded)?;
        builder.current.begin_term(term_services, "");
        let services = services(&builder, None);
        let settings = LiveSettings(Arc::clone(&builder.watch_config));
        let leadership = Leadership::Sole { builder: Box::new(builder), first: Box::new(term) };
        Ok(Self { server, services, leadership, settings })
    }

    fn elected(
        server: BoundServer,
        store: Arc<dyn Store>,
        setup: Setup,
    ) -> Result<Self, StartError> {
        let bound = server.address().to_string();
        let address = setup.config.advertise.as_ref().map_or(bound, ToString::to_string);
        let lease_time = setup.config.leader_lease;
        let clock = Arc::clone(&setup.lease_clock);
        let (tics_store, reserve) = (Arc::clone(&store), Mutex::default());
        let candidate = Candidate { store: tics_store, address, lease_time, clock, reserve };
        let builder = term_builder(store, setup);
        // Without a topology of its own it does not know which one the copied records belong to.
        let copy = match builder.setup.topology {
            TopologySource::File(..) => Some(builder.copy()?),
            TopologySource::Discovered => None,
        };
        let services = services(&builder, copy);
        let leader = Arc::clone(&builder.current.leader);
        let services = services.with_leadership(Arc::new(move || leader.leadership()));
        let settings = LiveSettings(Arc::clone(&builder.watch_config));
        let leadership = Leadership::Elected { builder: Box::new(builder), candidate };
        Ok(Self { server, services, leadership, settings })
    }

    /// The address it will serve on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A handle of the settings that may change while it runs.
    #[must_use]
    pub fn settings(&self) -> LiveSettings {
        self.settings.clone()
    }

    /// The gRPC services, for another server that serves several parts.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.clone()
    }

    /// Serves until `stop` is cancelled; leaves no task running.
    ///
    /// The future is boxed, so that only this crate compiles its code, not every crate that
    /// awaits it.
    ///
    /// # Errors
    ///
    /// [`RunError`] if it ends by itself; start it anew.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<(), RunError> {
        Box::pin(self.serve_until(stop))
    }

    async fn serve_until(self, stop: CancellationToken) -> Result<(), RunError> {
        let Self { server, services, leadership, .. } = self;
        // A child, so that an end of our own does not stop the other parts of the process.
        let shutdown = Shutdown { stop: stop.child_token(), drained: CancellationToken::new() };
        let serving = server.serve(services, shutdown.stop.clone());
        let leading = leadership.run(shutdown.clone());
        tokio::pin!(serving, leading);
        tokio::select! {
            served = &mut serving => {
                shutdown.stop.cancel();
                shutdown.drained.cancel();
                served.map_err(RunError::from).and(leading.await)
            }
            led = &mut leading => {
                shutdown.stop.cancel();
                // The reason is what ended the work; how serving ends adds nothing to it.
                let served = serving.await.map_err(RunError::from);
                led.and(served)
            }
        }
    }
}

fn term_builder(store: Arc<dyn Store>, setup: Setup) -> TermBuilder {
    let storage = Storage { store, limits: setup.limits() };
    let peers = Arc::new(NodePeers::new(setup.security.clone()));
    let watch_config = Arc::new(watch::Sender::new(setup.config.watch));
    let (current, active_router) = (Arc::default(), ActiveRouter::default());
    TermBuilder { setup, storage, current, peers, active_router, watch_config }
}

fn services(builder: &TermBuilder, copy: Option<TicServiceServer<Tic>>) -> Services {
    let (current, store) = (&builder.current, &builder.storage.store);
    let (leading, stored) = (Arc::clone(current), Arc::clone(store));
    let ask: AskReadiness = Arc::new(move || {
        let (current, store) = (Arc::clone(&leading), Arc::clone(&stored));
        Box::pin(async move { current.is_ready() && store.revision().await.is_ok() })
    });
    let active_router = builder.active_router.clone();
    Services::new("tic")
        .with_known_peer("router", Arc::new(move || active_router.address()))
        .with(LeaderGate::new(current, |services| services.tic.clone(), copy))
        .with(LeaderGate::new(current, |services| services.jobs.clone(), None))
        .with(LeaderGate::new(current, |services| services.topologies.clone(), None))
        .with(LeaderGate::new(current, |services| services.choices.clone(), None))
        .with(LeaderGate::new(current, |services| services.collectives.clone(), None))
        .with(LeaderGate::new(current, |services| services.batches.clone(), None))
        .with_readiness(ask)
}
