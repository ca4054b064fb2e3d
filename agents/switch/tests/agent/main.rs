//! One switch agent over real gRPC, with hardware and a TIC made for the test.

mod failures;
mod fake_tic;
mod hardware;
mod tables;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::{Channel, Peer, Security, reason_of};
use fabricast_switch::{App, Options, RunError, StartError};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use hardware::Hardware;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const HOUR: Duration = Duration::from_secs(3600);

/// An agent under test.
struct Agent {
    client: SwitchAgentServiceClient<Channel>,
    stop: CancellationToken,
    running: JoinHandle<Result<(), RunError>>,
}

impl Agent {
    /// Starts an agent whose TIC is absent.
    fn start(hardware: &Hardware) -> Self {
        Self::start_with(options(hardware))
    }

    fn start_with(options: Options) -> Self {
        let app = App::bind(options).expect("the options are good");
        let peer = Peer::new(&app.address().to_string()).expect("an address");
        let client = SwitchAgentServiceClient::new(peer.channel());
        let stop = CancellationToken::new();
        let running = tokio::spawn(app.run(stop.clone()));
        Self { client, stop, running }
    }

    async fn stop(self) {
        drop(self.client);
        self.stop.cancel();
        soon(self.running).await.expect("no panic").expect("a clean end");
    }
}

fn options(hardware: &Hardware) -> Options {
    Options {
        security: Security::plaintext(),
        listen: LOOPBACK,
        name: "agent".into(),
        tic: vec!["127.0.0.1:1".into()],
        driver: Arc::new(hardware.clone()),
        switches: BTreeSet::new(),
        report_interval: HOUR,
        discovery_interval: None,
    }
}

/// Bounds every wait, so that a broken part fails a test instead of hanging it.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("answers in time")
}

fn reason(status: &Status) -> String {
    reason_of(status).unwrap_or_else(|| format!("no reason: {status}"))
}

#[tokio::test]
async fn bad_options_are_refused_by_name() {
    let hardware = Hardware::new();
    let nameless = Options { name: String::new(), ..options(&hardware) };
    assert!(matches!(App::bind(nameless), Err(StartError::NameEmpty)));
    let restless = Options { report_interval: Duration::ZERO, ..options(&hardware) };
    assert!(matches!(App::bind(restless), Err(StartError::ReportIntervalZero)));
    let homeless = Options { tic: vec!["no address".into()], ..options(&hardware) };
    assert!(matches!(App::bind(homeless), Err(StartError::Tic(_))));
    let first = App::bind(options(&hardware)).unwrap();
    let second = Options { listen: first.address(), ..options(&hardware) };
    assert!(matches!(App::bind(second), Err(StartError::Bind(_))));
}

#[tokio::test]
async fn a_stopped_agent_ends_though_its_tic_is_absent() {
    Agent::start(&Hardware::new()).stop().await;
}
