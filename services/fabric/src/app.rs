//! The emulated fabric as one part: its options, its listener and its tasks.
//!
//! ```text
//!  attached process ──stream──► listen task ──┐                 ┌──► Mailbox ──► deliver task ──stream──► process
//!  (one pair of tasks each)                   ├──► Fabric ──────┤   (bounded, drops and counts)
//!  InjectPacket, Fail/HealElement ────────────┤    (one lock)   └──► watch channel ──► tell task ──stream──► agent
//!  switch agents, with the key ───────────────┘
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_emulator::{AggregationLimits, Emulator};
use fabricast_proto::v1::fabric_aggregation_service_server::FabricAggregationServiceServer;
use fabricast_proto::v1::fabric_service_server::FabricServiceServer;
use fabricast_rpc::{BindError, BoundServer, Security, ServeError, Services};
use fabricast_topology::{Graph, TableKind};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aggregation_service::AggregationService;
use crate::fabric::Fabric;
use crate::key::ManagementKey;
use crate::service::Service;

/// The usual [`Options::queue`]: a hundred packets to each of two thousand endpoints.
pub const DEFAULT_QUEUE: usize = 262_144;

/// Bytes in one message: the switch list and the writes of a fabric of a million endpoints fit.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// How to run the fabric.
#[derive(Clone)]
pub struct Options {
    /// Where to serve; port 0 picks a free one.
    pub listen: SocketAddr,
    /// How others connect.
    pub security: Security,
    /// The network to emulate.
    pub graph: Arc<Graph>,
    /// How its switches keep their tables.
    pub tables: TableKind,
    /// Entries of a table; at least 1.
    pub colors: u16,
    /// How much the aggregation engines of its switches take.
    pub aggregation: AggregationLimits,
    /// What switch agents prove themselves with; not empty.
    pub management_key: String,
    /// Packets that may wait for one attached process before some are dropped; [`DEFAULT_QUEUE`] is usual.
    pub queue: usize,
}

impl std::fmt::Debug for Options {
    // A graph is too long to print, and the key stays out of logs.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Options")
            .field("listen", &self.listen)
            .field("tables", &self.tables)
            .field("colors", &self.colors)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// Why the fabric cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Tables without entries.
    #[error("colors must be at least 1")]
    ColorsZero,
    /// The management key is empty.
    #[error("the management key is empty")]
    KeyEmpty,
    /// The queue is empty.
    #[error("the queue must hold at least 1 packet")]
    QueueZero,
    /// The listener could not be had.
    #[error("the fabric cannot serve")]
    Bind(#[source] BindError),
}

/// Why the fabric ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// Serving failed.
    #[error("the fabric stopped serving")]
    Serve(#[source] ServeError),
}

/// Counts the packets that were dropped because their receiver was too slow.
#[derive(Clone, Debug)]
pub struct Dropped(Arc<AtomicU64>);

impl Dropped {
    /// How many so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The emulated fabric, bound and ready to run.
#[derive(Debug)]
pub struct App {
    server: BoundServer,
    service: Service,
}

impl App {
    /// Takes the listener and powers the switches on. Needs a tokio runtime around it.
    ///
    /// # Errors
    ///
    /// [`StartError`] names the option that is wrong or the address that is taken.
    pub fn bind(options: Options) -> Result<Self, StartError> {
        let Options { listen, security, graph, tables, colors, aggregation, management_key, queue } =
            options;
        if colors == 0 {
            return Err(StartError::ColorsZero);
        }
        if queue == 0 {
            return Err(StartError::QueueZero);
        }
        let key = ManagementKey::new(&management_key).ok_or(StartError::KeyEmpty)?;
        let server = BoundServer::bind(listen).map_err(StartError::Bind)?.secured(security);
        let mut emulator = Emulator::new(graph, tables, colors);
        emulator.set_aggregation_limits(aggregation);
        let service = Service {
            fabric: Arc::new(Fabric::new(emulator, queue)),
            key,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        Ok(Self { server, service })
    }

    /// Gives the address that clients use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Gives the count of packets that slow receivers lost.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        Dropped(Arc::clone(&self.service.fabric.dropped))
    }

    /// Gives the services of this part, for one more listener.
    #[must_use]
    pub fn services(&self) -> Services {
        let server = FabricServiceServer::new(self.service.clone())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        let Service { fabric, key, stop, .. } = self.service.clone();
        let engines = FabricAggregationServiceServer::new(AggregationService { fabric, key, stop })
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        Services::new("fabric").with(server).with(engines)
    }

    /// Serves until `stop` is cancelled; what the switches hold is lost then, as without power.
    ///
    /// # Errors
    ///
    /// [`RunError`] if serving fails; never because of a client.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RunError> {
        let services = self.services();
        let Self { server, service: Service { stop: ends_streams, tasks, .. } } = self;
        let ending = async {
            stop.cancelled().await;
            ends_streams.cancel();
        };
        let serving = server.serve(services, stop.clone());
        tokio::pin!(serving);
        let served = tokio::select! {
            served = &mut serving => served,
            () = ending => serving.await,
        };
        ends_streams.cancel();
        tasks.close();
        tasks.wait().await;
        served.map_err(RunError::Serve)
    }
}
