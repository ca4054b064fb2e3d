//! The TIC as a whole: its tasks and the ways between them.
//!
//! ```text
//!   gRPC calls ──reads──────────────────────────► committed records (lock) ──► watch streams
//!       │                                              ▲                       (bounded queue each)
//!       │ changes, bounded queue                       │ publish
//!       ▼                                              │
//!   writer: decide many ─► one store transaction ──────┤
//!       ▲                                              │ groups that changed
//!       │ expel dead nodes                             ▼
//!   liveness ◄── inbox: reports, suspicions       hints (merging heap) ──► hosts of group agents
//!       └──────► probes to nodes
//! ```
//!
//! All of this is one *office*. A TIC that has its store to itself has one from its start to its end.
//! Where several share a store, each asks to lead (`election`), and has an office, made anew from what
//! the store holds, while it does (`office`):
//!
//! ```text
//!   campaign ──► office ──► term of office over, or store failed ──► resign ──► campaign ...
//! ```
//!
//! Every queue is bounded: a full one refuses (calls), merges (inbox, hints) or cuts off
//! (watches). After the order to stop, calls in flight are answered before the writer ends. If the
//! store fails, the writer ends by itself; so does a TIC that stands alone, after the calls in flight are
//! answered, while one of several gives up its office.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::detector::{DetectorConfig, Probing};
use fabricast_groups::directory::Limits;
use fabricast_groups::watch::WatchConfig;
use fabricast_proto::v1::tic_service_server::TicServiceServer;
use fabricast_routing::{EngineOptions, LayoutError};
use fabricast_rpc::{BindError, BoundServer, Security, ServeError, Services};
use fabricast_store::{OpenError, Store, StoreError, StoreLocation};
use fabricast_topology::TableKind;
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::election::{Candidate, Tenure};
use crate::office::{Gate, Seat};
use crate::peers::Peers;
use crate::ruling::{Blueprint, Ruling};
use crate::service::Tic;
use crate::storage::{RecordsError, Storage, store_options};
use crate::topology::TopologySource;

/// Settings of a TIC, checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How others connect, and how it connects to nodes.
    pub security: Security,
    /// Where the records are kept.
    pub store: StoreLocation,
    /// Where the topology comes from.
    pub topology: TopologySource,
    /// Entries of a multicast table (C).
    pub colors: u16,
    /// Whether the route service gives every group two trees.
    pub fault_tolerant: bool,
    /// How the switches keep their entries.
    pub tables: TableKind,
    /// What trees of collectives may take of switches and adapters, and what they are compared by.
    pub collectives: fabricast_collectives::Settings,
    /// When a node is probed, and when it is given up.
    pub watch: WatchConfig,
    /// Bounds on the records.
    pub limits: Limits,
    /// Changes that may wait for the writer; a further one is refused.
    pub order_queue: usize,
    /// Watches open at a time.
    pub watches: usize,
    /// Messages a watch may be behind before it is cut off.
    pub watch_queue: usize,
    /// Hints to one address are at least this far apart, so that they merge.
    pub hint_pause: Duration,
    /// What callers are told of this TIC when it leads; left out, the address it listens at. For a
    /// store that several TICs share.
    pub advertise: Option<String>,
    /// A leading TIC that is not heard of by the store for this long is replaced; at least 2 s, in whole
    /// seconds.
    pub leader_lease: Duration,
    /// A route service that is not heard of for this long is replaced, if another one waits.
    pub route_lease: Duration,
}

impl Options {
    /// Settings with the usual bounds and times.
    #[must_use]
    pub fn new(listen: SocketAddr, store: StoreLocation, topology: TopologySource) -> Self {
        let probing = Probing { timeout: Duration::from_millis(500), attempts: 2 };
        Self {
            listen,
            security: Security::plaintext(),
            store,
            topology,
            colors: 32,
            fault_tolerant: false,
            tables: TableKind::PerPort,
            collectives: fabricast_collectives::Settings::default(),
            watch: WatchConfig::new(DetectorConfig::new(Duration::from_secs(2), probing)),
            limits: Limits::default(),
            order_queue: 8_192,
            watches: 64,
            watch_queue: 1_024,
            hint_pause: Duration::from_millis(20),
            advertise: None,
            leader_lease: Duration::from_secs(5),
            route_lease: Duration::from_secs(2),
        }
    }
}

impl Options {
    /// What of it says how MGIDs are numbered.
    pub(crate) fn engine_options(&self) -> EngineOptions {
        let fault_tolerant = self.fault_tolerant;
        EngineOptions { fault_tolerant, ..EngineOptions::new(self.colors, self.tables) }
    }
}

/// Why a TIC could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address is not to be had.
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

/// Why a running TIC ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// Serving failed.
    #[error("the TIC's server failed")]
    Serve(#[from] ServeError),
    /// The store failed: what it holds is known only when it is opened again.
    #[error("the TIC's store failed")]
    Store(#[source] StoreError),
    /// Somebody else wrote to the store, and what they left cannot be used.
    #[error("the TIC's records cannot be read")]
    Records(#[source] RecordsError),
    /// The records leave no room to number MGIDs on this topology.
    #[error("the TIC cannot choose MGIDs")]
    Layout(#[source] LayoutError),
    /// A task panicked.
    #[error("a task of the TIC ended with a panic")]
    Task(#[source] JoinError),
}

/// A TIC that has its address and its store but does not serve yet.
#[derive(Debug)]
pub struct App {
    server: BoundServer,
    services: Services,
    ruling: Ruling,
    settings: LiveSettings,
}

/// What may change while a TIC runs; a clone is another handle of the same.
#[derive(Clone, Debug)]
pub struct LiveSettings(Arc<watch::Sender<WatchConfig>>);

impl LiveSettings {
    /// Watches the nodes so from now on; whoever is watched has the new time in full.
    pub fn set_watch(&self, config: WatchConfig) {
        self.0.send_if_modified(|now| std::mem::replace(now, config) != config);
    }
}

impl App {
    /// Takes the address, opens the store and, if nobody else uses that, reads the records; starts
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`StartError`] names what cannot be had.
    pub async fn bind(options: Options) -> Result<Self, StartError> {
        let server = BoundServer::bind(options.listen)?.secured(options.security.clone());
        let store = options.store.open(store_options()).await?;
        if options.store.is_shared() {
            Self::among_others(server, store, options)
        } else {
            Self::alone(server, store, options).await
        }
    }

    /// As [`App::bind`], on a store that is open already and that nobody else writes to;
    /// `options.store` is not used.
    ///
    /// # Errors
    ///
    /// [`StartError`] names what cannot be had.
    pub async fn bind_with_store(
        options: Options,
        store: Arc<dyn Store>,
    ) -> Result<Self, StartError> {
        let server = BoundServer::bind(options.listen)?.secured(options.security.clone());
        Self::alone(server, store, options).await
    }

    /// As [`App::bind_with_store`], but other TICs use the store, too: it asks to lead when it runs.
    ///
    /// # Errors
    ///
    /// [`StartError`] names what cannot be had.
    pub fn bind_sharing(options: Options, store: Arc<dyn Store>) -> Result<Self, StartError> {
        let server = BoundServer::bind(options.listen)?.secured(options.security.clone());
        Self::among_others(server, store, options)
    }

    async fn alone(
        server: BoundServer,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Self, StartError> {
        let blueprint = blueprint(store, options);
        let tenure = Tenure::alone();
        let loaded = blueprint.storage.adopt(&tenure).await?;
        let loaded = loaded.expect("a term that cannot be lost");
        let (office, term) = blueprint.open(&tenure, loaded)?;
        blueprint.seat.take(office, "");
        let services = services(&blueprint.seat, None);
        let settings = LiveSettings(Arc::clone(&blueprint.watching));
        let ruling = Ruling::Alone(Box::new(blueprint), Box::new(term));
        Ok(Self { server, services, ruling, settings })
    }

    fn among_others(
        server: BoundServer,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Self, StartError> {
        let address = options.advertise.clone();
        let address = address.unwrap_or_else(|| server.address().to_string());
        let candidate =
            Candidate { store: Arc::clone(&store), address, lease: options.leader_lease };
        let blueprint = blueprint(store, options);
        // Without a topology of its own it cannot tell what the copied records are of.
        let copy = match blueprint.options.topology {
            TopologySource::File(..) => Some(blueprint.copy()?),
            TopologySource::Discovered => None,
        };
        let services = services(&blueprint.seat, copy);
        let seat = Arc::clone(&blueprint.seat);
        let services = services.with_leadership(Arc::new(move || seat.leadership()));
        let settings = LiveSettings(Arc::clone(&blueprint.watching));
        let ruling = Ruling::Among(Box::new(blueprint), candidate);
        Ok(Self { server, services, ruling, settings })
    }

    /// The address it will serve on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What may change while it runs.
    #[must_use]
    pub fn settings(&self) -> LiveSettings {
        self.settings.clone()
    }

    /// The services, for one more address that serves several parts.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.clone()
    }

    /// Serves until `stop` is cancelled; nothing is left running afterwards.
    ///
    /// # Errors
    ///
    /// [`RunError`] if it ends by itself; start it anew.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RunError> {
        let Self { server, services, ruling, .. } = self;
        let stop = stop.child_token(); // so that an end of our own does not stop the other parts
        let drained = CancellationToken::new();
        let serving = server.serve(services, stop.clone());
        let ruling = ruling.run(stop.clone(), drained.clone());
        tokio::pin!(serving, ruling);
        tokio::select! {
            served = &mut serving => {
                stop.cancel();
                drained.cancel();
                served.map_err(RunError::from).and(ruling.await)
            }
            ruled = &mut ruling => {
                stop.cancel();
                // What ended the work is the reason; how serving ends adds nothing to it.
                let served = serving.await.map_err(RunError::from);
                ruled.and(served)
            }
        }
    }
}

fn blueprint(store: Arc<dyn Store>, options: Options) -> Blueprint {
    let storage = Storage { store, limits: options.limits.clone() };
    let peers = Arc::new(Peers::new(options.security.clone()));
    let watching = Arc::new(watch::Sender::new(options.watch));
    Blueprint { options, storage, seat: Arc::default(), peers, watching }
}

fn services(seat: &Arc<Seat>, copy: Option<TicServiceServer<Tic>>) -> Services {
    Services::new("tic")
        .with(Gate::new(seat, |office| office.tic.clone(), copy))
        .with(Gate::new(seat, |office| office.jobs.clone(), None))
        .with(Gate::new(seat, |office| office.topologies.clone(), None))
        .with(Gate::new(seat, |office| office.choices.clone(), None))
        .with(Gate::new(seat, |office| office.collectives.clone(), None))
        .with(Gate::new(seat, |office| office.batches.clone(), None))
}
