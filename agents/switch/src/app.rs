//! The agent as one part: its options, its listener and its tasks.
//!
//! ```text
//!  route service ──gRPC──► SwitchAgent ──► Inventory ──► Driver ──► hardware
//!                                              ▲                       │
//!                                   forget     │    failed elements    │
//!                                  follow task ┴◄──────────────────────┘
//!                                       │ watch channel: newest list only
//!                                  report task ──gRPC──► TIC (on change, and every interval)
//!
//!  discovery task: hardware ──► what there is ──gRPC──► TIC ──► what ought to be there ──► Driver
//! ```

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1::switch_agent_service_server::SwitchAgentServiceServer;
use fabricast_proto::v1::switch_aggregation_service_server::SwitchAggregationServiceServer;
use fabricast_rpc::{BindError, BoundServer, Leader, PeerError, Security, ServeError, Services};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::aggregation::AggregationAgent;
use crate::driver::Driver;
use crate::failures;
use crate::inventory::Inventory;
use crate::service::{MESSAGE_LIMIT, SwitchAgent};
use crate::topology;

/// How to run one agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to serve; port 0 picks a free one.
    pub listen: SocketAddr,
    /// How others connect, and how it connects to the TIC.
    pub security: Security,
    /// Name of the agent; its reports to the TIC carry it.
    pub name: String,
    /// Addresses of the TICs, each `host:port`; one of them leads.
    pub tic: Vec<String>,
    /// The hardware.
    pub driver: Arc<dyn Driver>,
    /// Node ids of the switches to serve; empty means all the driver finds.
    pub switches: BTreeSet<String>,
    /// Time between two reports of failed elements when nothing changes; 1 s is usual.
    pub report_interval: Duration,
    /// Time between two looks at the fabric, if the TIC is to be told what it looks like.
    pub discovery_interval: Option<Duration>,
}

/// Why an agent cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The name is empty.
    #[error("the switch agent needs a name")]
    NameEmpty,
    /// The report interval is zero.
    #[error("the report and discovery intervals must be longer than 0")]
    ReportIntervalZero,
    /// The address of a TIC is wrong, or there is none.
    #[error("the address of the tic is wrong")]
    Tic(#[source] PeerError),
    /// The listener could not be had.
    #[error("the switch agent cannot serve")]
    Bind(#[source] BindError),
}

/// Why an agent ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// Serving failed.
    #[error("the switch agent stopped serving")]
    Serve(#[source] ServeError),
}

/// One switch agent, bound and ready to run.
#[derive(Debug)]
pub struct App {
    server: BoundServer,
    inventory: Arc<Inventory>,
    name: String,
    tic: Leader,
    report_interval: LiveSettings,
    discovery_interval: Option<Duration>,
}

/// What may change while a switch agent runs; a clone is another handle of the same.
#[derive(Clone, Debug)]
pub struct LiveSettings(Arc<watch::Sender<Duration>>);

impl LiveSettings {
    /// Repeats its reports so often from now on.
    pub fn set_report_interval(&self, interval: Duration) {
        self.0.send_if_modified(|now| std::mem::replace(now, interval) != interval);
    }
}

impl App {
    /// Takes the listener; asks nobody yet. Needs a tokio runtime around it.
    ///
    /// # Errors
    ///
    /// [`StartError`] names the option that is wrong or the address that is taken.
    pub fn bind(options: Options) -> Result<Self, StartError> {
        let Options { listen, security, name, tic, driver, switches, .. } = options;
        let Options { report_interval, discovery_interval, .. } = options;
        if name.is_empty() {
            return Err(StartError::NameEmpty);
        }
        if report_interval.is_zero() || discovery_interval.is_some_and(|looks| looks.is_zero()) {
            return Err(StartError::ReportIntervalZero);
        }
        let tic = security.leader(&tic).map_err(StartError::Tic)?;
        let server = BoundServer::bind(listen).map_err(StartError::Bind)?.secured(security);
        let inventory = Arc::new(Inventory::new(driver, switches));
        let report_interval = LiveSettings(Arc::new(watch::Sender::new(report_interval)));
        Ok(Self { server, inventory, name, tic, report_interval, discovery_interval })
    }

    /// Gives the address that clients use.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Gives what may change while it runs.
    #[must_use]
    pub fn settings(&self) -> LiveSettings {
        self.report_interval.clone()
    }

    /// Gives the services of this part, for one more listener.
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
        let tics = self.tic.addresses().iter();
        tics.fold(services, |services, tic| services.with_peer("tic", tic.as_str()))
    }

    /// Serves and reports until `stop` is cancelled.
    ///
    /// # Errors
    ///
    /// [`RunError`] if serving fails; absent peers are no error.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RunError> {
        let services = self.services();
        let (failed, newest) = watch::channel(None);
        let (ready, mut known) = watch::channel(self.discovery_interval.is_none());
        let driver = Arc::clone(self.inventory.driver());
        let tic = self.tic.clone();
        let discover = async {
            if let Some(interval) = self.discovery_interval {
                topology::report(driver, tic, interval, ready).await;
            }
        };
        let follow = async {
            // What is missing of a fabric can be told when it is known what that is.
            drop(known.wait_for(|known| *known).await);
            failures::follow(self.inventory, failed).await;
        };
        let interval = self.report_interval.0.subscribe();
        let report = failures::report(self.name, self.tic, interval, newest);
        let ended = stop.child_token();
        let serving = async {
            let _ends_the_tasks = ended.clone().drop_guard();
            self.server.serve(services, stop).await
        };
        // The tasks have nothing to finish: a report cut short is repeated by the next agent.
        let tasks = async {
            tokio::select! {
                () = ended.cancelled() => {}
                ((), (), ()) = async { tokio::join!(follow, report, discover) } => {}
            }
        };
        let (served, ()) = tokio::join!(serving, tasks);
        served.map_err(RunError::Serve)
    }
}
