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
//! Every queue is bounded: a full one refuses (calls), merges (inbox, hints) or cuts off
//! (watches). After the order to stop, calls in flight are answered before the writer ends. If the
//! store fails, the writer ends by itself; so does the TIC, after the calls in flight are answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::detector::{DetectorConfig, Policy};
use fabricast_groups::directory::Limits;
use fabricast_proto::v1::job_service_server::JobServiceServer;
use fabricast_proto::v1::route_choice_service_server::RouteChoiceServiceServer;
use fabricast_proto::v1::tic_service_server::TicServiceServer;
use fabricast_routing::{EngineOptions, LayoutError};
use fabricast_rpc::{BindError, BoundServer, ServeError, Services};
use fabricast_store::{OpenError, Store, StoreError};
use fabricast_topology::{Graph, TableKind};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::choice_service::RouteChoices;
use crate::choices::report::Yardstick;
use crate::elements::FailedElements;
use crate::hints::Hints;
use crate::job_service::Jobs;
use crate::jobs::JobDesk;
use crate::liveness::{Inbox, Liveness};
use crate::mgids::MgidChoice;
use crate::orders::{OrderQueue, Orders};
use crate::peers::Peers;
use crate::records::Records;
use crate::service::Tic;
use crate::storage::{RecordsError, Storage, StoreLocation};
use crate::watchers::Watchers;
use crate::writer::Writer;

/// Settings of a TIC, checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where the records are kept.
    pub store: StoreLocation,
    /// The topology as `ibnetdiscover` prints it, for those who download it.
    pub topology: Arc<str>,
    /// The same, parsed.
    pub graph: Arc<Graph>,
    /// Entries of a multicast table (C).
    pub colors: u16,
    /// Whether the route service gives every group two trees.
    pub fault_tolerant: bool,
    /// How the switches keep their entries.
    pub tables: TableKind,
    /// When a silent host of group agents is probed, and when it is given up.
    pub detector: DetectorConfig,
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
}

impl Options {
    /// Settings with the usual bounds and times.
    #[must_use]
    pub fn new(
        listen: SocketAddr,
        store: StoreLocation,
        topology: Arc<str>,
        graph: Arc<Graph>,
    ) -> Self {
        let policy = Policy::Probe { timeout: Duration::from_millis(500), attempts: 2 };
        Self {
            listen,
            store,
            topology,
            graph,
            colors: 32,
            fault_tolerant: false,
            tables: TableKind::PerPort,
            detector: DetectorConfig { report_timeout: Duration::from_secs(2), policy },
            limits: Limits::default(),
            order_queue: 8_192,
            watches: 64,
            watch_queue: 1_024,
            hint_pause: Duration::from_millis(20),
        }
    }
}

impl Options {
    /// What of it says how MGIDs are numbered.
    fn engine_options(&self) -> EngineOptions {
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
    /// A task panicked.
    #[error("a task of the TIC ended with a panic")]
    Task(#[source] JoinError),
}

/// A TIC that has its address and its records but does not serve yet.
#[derive(Debug)]
pub struct App {
    server: BoundServer,
    services: Services,
    orders: OrderQueue,
    writer: Writer,
    liveness: Liveness,
    records: Arc<Records>,
    hints: Arc<Hints>,
    peers: Arc<Peers>,
    hint_pause: Duration,
}

impl App {
    /// Takes the address, opens the store and reads the records; starts nothing.
    ///
    /// # Errors
    ///
    /// [`StartError`] names what cannot be had.
    pub async fn bind(options: Options) -> Result<Self, StartError> {
        let server = BoundServer::bind(options.listen)?;
        let store = options.store.open()?;
        Self::assemble(server, store, options).await
    }

    /// As [`App::bind`], on a store that is open already; `options.store` is not used.
    ///
    /// # Errors
    ///
    /// [`StartError`] names what cannot be had.
    pub async fn bind_with_store(
        options: Options,
        store: Arc<dyn Store>,
    ) -> Result<Self, StartError> {
        let server = BoundServer::bind(options.listen)?;
        Self::assemble(server, store, options).await
    }

    async fn assemble(
        server: BoundServer,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Self, StartError> {
        let numbering = options.engine_options();
        let (storage, loaded) = Storage::adopt(store, options.limits).await?;
        let graph = Arc::clone(&options.graph);
        let mgids = MgidChoice::new(graph, numbering, &loaded.directory)?;
        let revision = loaded.directory.revision().0;
        let groups = loaded.directory.groups_from(fabricast_groups::Gn(0)).count();
        tracing::info!(revision, groups, "records read");
        let watchers = Watchers::new(options.watch_queue, options.watches);
        let graph = Arc::clone(&options.graph);
        let failed = FailedElements::load(&graph, loaded.failed.clone());
        let records = Records::new(Arc::clone(&graph), loaded.directory.clone(), failed, watchers);
        let records = Arc::new(records);
        let (hints, inbox) = (Arc::<Hints>::default(), Arc::<Inbox>::default());
        let peers = Arc::<Peers>::default();
        let (orders, queue) = Orders::open(options.order_queue);
        let digest = Sha256::digest(options.topology.as_bytes());
        let yardstick = Yardstick { graph: Arc::clone(&graph), topology_sha256: (*digest).into() };
        let tic = Tic {
            orders: orders.clone(),
            records: Arc::clone(&records),
            liveness: Arc::clone(&inbox),
            graph: options.graph,
            topology: options.topology,
            colors: options.colors,
            space: *mgids.space(),
        };
        let jobs = Jobs { orders: orders.clone(), records: Arc::clone(&records) };
        let chosen = RouteChoices { orders: orders.clone(), yardstick };
        let services = Services::new("tic")
            .with(TicServiceServer::new(tic))
            .with(JobServiceServer::new(jobs))
            .with(RouteChoiceServiceServer::new(chosen));
        let to_others = (Arc::clone(&hints), Arc::clone(&inbox));
        let choices = (mgids, JobDesk::new(graph));
        let writer = Writer::new(storage, loaded, Arc::clone(&records), to_others, choices);
        let liveness = Liveness::new(
            inbox,
            Arc::clone(&records),
            orders,
            Arc::clone(&peers),
            options.detector,
        );
        let hint_pause = options.hint_pause;
        let orders = queue;
        Ok(Self { server, services, orders, writer, liveness, records, hints, peers, hint_pause })
    }

    /// The address it will serve on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
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
        let Self { server, services, orders, writer, liveness, records, hints, peers, hint_pause } =
            self;
        let stop = stop.child_token(); // so that an end of our own does not stop the other parts
        let serving_ended = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(writer.run(orders, serving_ended.clone()));
        let watching = liveness.run(stop.clone());
        tasks.spawn(async move {
            watching.await;
            Ok(())
        });
        let hints_stop = stop.clone();
        tasks.spawn(async move {
            hints.run(peers, hint_pause, hints_stop).await;
            Ok(())
        });
        let closing = async {
            stop.cancelled().await;
            records.close(); // a watch never ends by itself
            std::future::pending().await
        };
        let serving = server.serve(services, stop.clone());
        tokio::pin!(serving);
        let mut ended = tokio::select! {
            ended = &mut serving => ended.map_err(RunError::from),
            ended = first_failure(&mut tasks) => {
                stop.cancel();
                records.close();
                // What a task failed of is the reason; how serving ends adds nothing to it.
                let _ = serving.await;
                Err(ended)
            }
            () = closing => Ok(()),
        };
        stop.cancel();
        records.close();
        serving_ended.cancel();
        while let Some(task) = tasks.join_next().await {
            ended = ended.and(task.unwrap_or_else(|panic| Err(RunError::Task(panic))));
        }
        ended
    }
}

/// Waits for a task to fail; tasks that end in order are no reason to end.
async fn first_failure(tasks: &mut JoinSet<Result<(), RunError>>) -> RunError {
    loop {
        match tasks.join_next().await {
            Some(Err(panic)) => return RunError::Task(panic),
            Some(Ok(Err(error))) => return error,
            Some(Ok(Ok(()))) => {}
            None => std::future::pending().await,
        }
    }
}
