//! A switch agent over InfiniBand as a process that can be killed.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::{
    DriverName, RawInfinibandConfig, RawSwitchAgentConfig, RoutingName, SwitchAgentConfig, checked,
};
use fabricast_integration::soon;
use fabricast_rpc::Security;
use fabricast_switch::{App, DriverContext, open_driver};
use fabricast_telemetry::metrics::MetricsServer;
use fabricast_topology::ibnetdiscover;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

/// In the child: file of the fabric, routing to switches, address of the TIC, address to
/// listen on.
const TOLD: &str = "FABRICAST_TEST_AGENT";
/// Text that the child prints before its address and that of its metrics.
const SERVES: &str = "switch agent serves at ";
/// Name of the routing by LID, for the child.
const BY_LID: &str = "lid";

/// A switch agent in a child process.
#[derive(Debug)]
pub(crate) struct Agent {
    command: Command,
    told: String,
    address: SocketAddr,
    metrics: SocketAddr,
    process: Child,
}

impl Agent {
    /// Starts the process.
    ///
    /// - `command`: runs this program with the simulator's library.
    /// - `fabric`: file with the expected fabric; `None` to discover it and report it to the TIC.
    pub(crate) async fn start(
        command: std::process::Command,
        fabric: Option<&Path>,
        routing: RoutingName,
        tic: SocketAddr,
    ) -> Self {
        let mut command = Command::from(command);
        command
            .args(["--ignored", "--exact", "agent::runs_where_it_is_told_to", "--nocapture"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let routing = if routing == RoutingName::Lid { BY_LID } else { "" };
        let fabric = fabric.map_or_else(String::new, |file| file.display().to_string());
        let told = format!("{fabric}\n{routing}\n{tic}");
        let (process, address, metrics) = launch(&mut command, &told, any()).await;
        Self { command, told, address, metrics, process }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads one of its metrics.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(self.metrics).await.expect("it serves metrics");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.expect("it listens");
        let mut text = String::new();
        soon(stream.read_to_string(&mut text)).await.expect("text");
        let row = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        row.expect("there is such a metric").parse().expect("a number")
    }

    /// Ends the process as a crash would.
    pub(crate) async fn kill(&mut self) {
        self.process.kill().await.expect("it runs");
    }

    /// Starts it again at its address.
    pub(crate) async fn restart(&mut self) {
        (self.process, _, self.metrics) = launch(&mut self.command, &self.told, self.address).await;
    }
}

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

async fn launch(
    command: &mut Command,
    told: &str,
    listen: SocketAddr,
) -> (Child, SocketAddr, SocketAddr) {
    let mut process = command.env(TOLD, format!("{told}\n{listen}")).spawn().expect("it starts");
    let mut lines = BufReader::new(process.stdout.take().expect("piped above")).lines();
    let said = async {
        while let Some(line) = lines.next_line().await.expect("text") {
            if let Some((_, addresses)) = line.split_once(SERVES) {
                let (agent, metrics) = addresses.split_once(' ').expect("two of them");
                return (agent.parse().expect("an address"), metrics.parse().expect("one more"));
            }
        }
        panic!("the agent ended before it served");
    };
    let (address, metrics) = soon(said).await;
    // The test harness in the child prints a line after a minute, and ends if nobody reads it.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (process, address, metrics)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the process that the tests of this program start"]
async fn runs_where_it_is_told_to() {
    let told = std::env::var(TOLD).expect("started by another test");
    let [fabric, routing, tic, listen] = told.split('\n').collect::<Vec<_>>().try_into().unwrap();
    let discovers = fabric.is_empty();
    let config = checked::<SwitchAgentConfig>(RawSwitchAgentConfig {
        listen: listen.parse().unwrap(),
        name: Some("infiniband".to_owned()),
        tic: [tic].into_iter().collect(),
        driver: DriverName::Infiniband,
        infiniband: RawInfinibandConfig {
            topology: (!discovers).then(|| fabric.into()),
            report_topology: discovers,
            sweep: Duration::from_millis(200),
            routing: if routing == BY_LID { RoutingName::Lid } else { RoutingName::Directed },
            ..RawInfinibandConfig::default()
        },
        ..RawSwitchAgentConfig::default()
    });
    let (config, security) = (config.unwrap(), Security::plaintext());
    let read = |file: &Path| {
        Ok(Arc::new(ibnetdiscover::read(&std::fs::read_to_string(file).unwrap()).unwrap()))
    };
    let context =
        DriverContext { hardware: &config.hardware, security: &security, read_topology: &read };
    let driver = open_driver(&context).unwrap();
    let app = App::bind(config, security, driver).unwrap();
    let metrics = MetricsServer::start(any(), "fabricast-switch-agent").await.unwrap();
    announce(app.address(), metrics.address());
    app.run(CancellationToken::new()).await.unwrap();
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn announce(address: SocketAddr, metrics: SocketAddr) {
    println!("{SERVES}{address} {metrics}");
}
