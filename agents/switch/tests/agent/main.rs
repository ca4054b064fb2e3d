//! One switch agent over real gRPC, with hardware and a TIC made for the test.

mod failures;
mod fake_tic;
mod hardware;
mod tables;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::{DriverName, RawSwitchAgentConfig, checked};
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::{Channel, Peer, Security, reason_of};
use fabricast_switch::{App, RunError, StartError};
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
        Self::start_with(hardware, settings())
    }

    fn start_with(hardware: &Hardware, settings: RawSwitchAgentConfig) -> Self {
        let app = bind(hardware, settings).expect("a free port");
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

fn settings() -> RawSwitchAgentConfig {
    RawSwitchAgentConfig {
        listen: LOOPBACK,
        name: Some("agent".into()),
        tic: ["127.0.0.1:1"].into_iter().collect(),
        driver: DriverName::Other("hardware of this test".into()),
        report_interval: HOUR,
        ..RawSwitchAgentConfig::default()
    }
}

fn bind(hardware: &Hardware, settings: RawSwitchAgentConfig) -> Result<App, StartError> {
    let config = checked(settings).expect("the settings are good");
    App::bind(config, Security::plaintext(), Arc::new(hardware.clone()))
}

/// Bounds every wait, so that a broken part fails a test instead of hanging it.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("answers in time")
}

fn reason(status: &Status) -> String {
    reason_of(status).unwrap_or_else(|| format!("no reason: {status}"))
}

#[tokio::test]
async fn bad_addresses_are_refused() {
    let hardware = Hardware::new();
    let peerless = RawSwitchAgentConfig {
        tic: ["no%address:1"].into_iter().collect(),
        allow_plaintext: true,
        ..settings()
    };
    assert!(matches!(bind(&hardware, peerless), Err(StartError::Tic(_))));
    let first = bind(&hardware, settings()).unwrap();
    let second = RawSwitchAgentConfig { listen: first.address(), ..settings() };
    assert!(matches!(bind(&hardware, second), Err(StartError::Bind(_))));
}

#[tokio::test]
async fn a_stopped_agent_ends_though_its_tic_is_absent() {
    Agent::start(&Hardware::new()).stop().await;
}
