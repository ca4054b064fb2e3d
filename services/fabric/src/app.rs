//! Tasks of the emulated fabric and the channels between them.
//!
//! ```text
//!  attached process ──stream──► listen task ──┐
//!  (one pair of tasks for each)               ├──► Fabric ──► Mailbox ──► deliver task ──► process
//!  InjectPacket, FailElement, HealElement ────┤  (one lock)   (bounded, drops and counts)
//!  switch agents, with the key ───────────────┘     │
//!                                                   └──► watch channel ──► send task ──► agents
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_config::FabricConfig;
use fabricast_emulator::{AggregationLimits, Emulator};
use fabricast_proto::v1::fabric_aggregation_service_server::FabricAggregationServiceServer;
use fabricast_proto::v1::fabric_service_server::FabricServiceServer;
use fabricast_rpc::{BindError, BoundServer, Security, ServeError, Services};
use fabricast_topology::Graph;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::codegen::BoxFuture;

use crate::api::{AggregationService, Service};
use crate::fabric::Fabric;
use crate::key::ManagementKey;

/// Most packets that wait for one attached process: about a hundred for each of two thousand
/// endpoints.
const QUEUE: usize = 262_144;

/// Limit of one message in bytes; enough for the switches and writes of a fabric with a million
/// endpoints.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// Reason why the fabric cannot start: the address is taken.
#[derive(Debug, Error)]
#[error("the fabric cannot serve")]
pub struct StartError(#[source] BindError);

/// Reason why the fabric ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// The listener failed.
    #[error("the fabric stopped serving")]
    Serve(#[source] ServeError),
}

/// Count of the packets that were dropped because their receiver was too slow; clones share it.
#[derive(Clone, Debug)]
pub struct Dropped(Arc<AtomicU64>);

impl Dropped {
    /// Number of dropped packets so far.
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
    /// Binds the address. Must be called in a tokio runtime.
    ///
    /// - `graph`: the topology that the settings name.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the address is taken.
    pub fn bind(
        config: &FabricConfig,
        security: Security,
        graph: Arc<Graph>,
    ) -> Result<Self, StartError> {
        Self::bind_with_queue(config, security, graph, QUEUE)
    }

    /// As [`App::bind`], with another limit of the packets that wait for one attached process, at
    /// least 1; further packets are dropped.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the address is taken.
    pub fn bind_with_queue(
        config: &FabricConfig,
        security: Security,
        graph: Arc<Graph>,
        queue: usize,
    ) -> Result<Self, StartError> {
        let server = BoundServer::bind(config.listen, security).map_err(StartError)?;
        let mut emulator = Emulator::new(graph, config.tables, config.colors);
        emulator.set_aggregation_limits(AggregationLimits {
            entries: config.aggregation_entries,
            children: config.aggregation_children,
        });
        let service = Service {
            fabric: Arc::new(Fabric::new(emulator, queue)),
            key: ManagementKey::new(&config.management_key),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        Ok(Self { server, service })
    }

    /// Address that clients use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Count of the packets that slow receivers lost.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        Dropped(Arc::clone(&self.service.fabric.dropped))
    }

    /// Services to be served at one more address.
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

    /// Serves until `stop` is cancelled. The tables are lost then, as without power.
    ///
    /// The future is boxed, so that only this crate compiles its code, not every crate that
    /// awaits it.
    ///
    /// # Errors
    ///
    /// [`RunError`] if serving fails; never because of a client.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<(), RunError> {
        Box::pin(self.serve_until(stop))
    }

    async fn serve_until(self, stop: CancellationToken) -> Result<(), RunError> {
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
