//! Tasks of the switch agent and the channels between them.
//!
//! ```text
//!  route service ──gRPC──► SwitchAgent ──► Inventory ──► Driver ──► hardware
//!                                              ▲                       │
//!                                       forget │                       │ failed elements
//!                              failures::follow task ◄─────────────────┘
//!                                       │ watch channel: newest list only
//!                              failures::report task ──gRPC──► TIC (on change, and every interval)
//!                                       │ newest route term that the TIC has granted
//!                                       ▼
//!                                   Inventory
//!
//!  programs task: TIC ──colors of programs' addresses──► Driver
//!
//!  discovery task: hardware ──found topology──► TIC ──expected topology──► Driver
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::SwitchAgentConfig;
use fabricast_proto::v1::switch_agent_service_server::SwitchAgentServiceServer;
use fabricast_proto::v1::switch_aggregation_service_server::SwitchAggregationServiceServer;
use fabricast_rpc::{BindError, BoundServer, Leader, PeerError, Security, ServeError, Services};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxFuture;

use crate::api::{AggregationAgent, MESSAGE_LIMIT, SwitchAgent};
use crate::discovery;
use crate::driver::Driver;
use crate::failures;
use crate::inventory::{GrantedTerms, Inventory};
use crate::programs;

/// Reason why an agent cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address of a TIC is wrong, or there is none.
    #[error("the address of the tic is wrong")]
    Tic(#[source] PeerError),
    /// The address is taken.
    #[error("the switch agent cannot serve")]
    Bind(#[source] BindError),
}

/// Reason why an agent ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// The listener failed.
    #[error("the switch agent stopped serving")]
    Serve(#[source] ServeError),
}

/// One switch agent, bound and ready to run.
#[derive(Debug)]
pub struct App {
    server: BoundServer,
    inventory: Arc<Inventory>,
    granted: Arc<GrantedTerms>,
    name: String,
    fabric: Option<String>,
    tic: Leader,
    report_interval: LiveSettings,
    discovery_interval: Option<Duration>,
}

/// Settings that may change while a switch agent runs; clones share them.
#[derive(Clone, Debug)]
pub struct LiveSettings(Arc<watch::Sender<Duration>>);

impl LiveSettings {
    /// Sets the time between two reports.
    pub fn set_report_interval(&self, interval: Duration) {
        self.0.send_if_modified(|now| std::mem::replace(now, interval) != interval);
    }
}

impl App {
    /// Binds the address; nothing is sent yet. Must be called in a tokio runtime.
    ///
    /// - `driver`: as [`open_driver`](crate::open_driver) opens it for the settings.
    ///
    /// # Errors
    ///
    /// [`StartError`] if an address is wrong or taken.
    pub fn bind(
        config: SwitchAgentConfig,
        security: Security,
        driver: Arc<dyn Driver>,
    ) -> Result<Self, StartError> {
        let tic = security.leader(&config.tic).map_err(StartError::Tic)?;
        let server = BoundServer::bind(config.listen, security).map_err(StartError::Bind)?;
        let discovery_interval = driver.discovery_interval();
        let switches = config.switches.unwrap_or_default();
        let granted = Arc::<GrantedTerms>::default();
        let inventory = Inventory::new(driver, switches, Some(Arc::clone(&granted)));
        let inventory = Arc::new(inventory);
        let report_interval = LiveSettings(Arc::new(watch::Sender::new(config.report_interval)));
        let (name, fabric) = (config.name, config.hardware.fabric().map(ToString::to_string));
        Ok(Self {
            server,
            inventory,
            granted,
            name,
            fabric,
            tic,
            report_interval,
            discovery_interval,
        })
    }

    /// Address that clients use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Settings that may change while the agent runs.
    #[must_use]
    pub fn settings(&self) -> LiveSettings {
        self.report_interval.clone()
    }

    /// Services to be served at one more address.
    #[must_use]
    pub fn services(&self) -> Services {
        let agent = SwitchAgent { inventory: Arc::clone(&self.inventory) };
        let server = SwitchAgentServiceServer::new(agent)
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        let engines = AggregationAgent { inventory: Arc::clone(&self.inventory) };
        let engines = SwitchAggregationServiceServer::new(engines)
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        let services = Services::new("switch-agent").with(server).with(engines);
        let services = match &self.fabric {
            Some(fabric) => services.with_peer("fabric", fabric.as_str()),
            None => services,
        };
        let tics = self.tic.addresses().iter();
        tics.fold(services, |services, tic| services.with_peer("tic", tic.as_str()))
    }

    /// Serves and reports until `stop` is cancelled.
    ///
    /// The future is boxed, so that only this crate compiles its code, not every crate that
    /// awaits it.
    ///
    /// # Errors
    ///
    /// [`RunError`] if the listener fails. Peers that do not answer are no error.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<(), RunError> {
        Box::pin(self.serve_until(stop))
    }

    async fn serve_until(self, stop: CancellationToken) -> Result<(), RunError> {
        let services = self.services();
        let (failed, newest) = watch::channel(None);
        let (ready, mut known) = watch::channel(self.discovery_interval.is_none());
        let inventory = Arc::clone(&self.inventory);
        let (tic, name) = (self.tic.clone(), self.name.clone());
        let discover = async {
            if let Some(interval) = self.discovery_interval {
                discovery::report(inventory, tic, name, interval, ready).await;
            }
        };
        let follow = async {
            // Missing parts are only known once the expected topology is.
            drop(known.wait_for(|known| *known).await);
            failures::follow(Arc::clone(&self.inventory), failed).await;
        };
        let carry = programs::follow(Arc::clone(self.inventory.driver()), self.tic.clone());
        let interval = self.report_interval.0.subscribe();
        let granted = self.granted;
        let report = failures::report(self.name, self.tic, interval, &granted, newest);
        let ended = stop.child_token();
        let serving = async {
            let _ends_the_tasks = ended.clone().drop_guard();
            self.server.serve(services, stop).await
        };
        // The tasks have nothing to finish: after a restart the reports are repeated.
        let tasks = async {
            tokio::select! {
                () = ended.cancelled() => {}
                ((), (), (), ()) = async { tokio::join!(follow, report, discover, carry) } => {}
            }
        };
        let (served, ()) = tokio::join!(serving, tasks);
        served.map_err(RunError::Serve)
    }
}
