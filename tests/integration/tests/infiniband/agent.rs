//! A switch agent over InfiniBand as a process that can be killed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use fabricast_integration::soon;
use fabricast_rpc::Security;
use fabricast_switch::{App, InfinibandDriver, InfinibandOptions, Options};
use fabricast_topology::ibnetdiscover;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

/// In the child: file of the fabric, address of the TIC, address to listen on.
const TOLD: &str = "FABRICAST_TEST_AGENT";
/// What the child says before its address.
const SERVES: &str = "switch agent serves at ";

/// The process.
#[derive(Debug)]
pub(crate) struct Agent {
    command: Command,
    told: String,
    address: SocketAddr,
    process: Child,
}

impl Agent {
    /// Starts the process.
    ///
    /// - `command`: runs this program with the simulator's library.
    /// - `fabric`: file with the fabric as it ought to be; `None` to discover it and tell the TIC.
    pub(crate) async fn start(
        command: std::process::Command,
        fabric: Option<&Path>,
        tic: SocketAddr,
    ) -> Self {
        let mut command = Command::from(command);
        command
            .args(["--exact", "agent::runs_where_it_is_told_to", "--nocapture"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let fabric = fabric.map_or_else(String::new, |file| file.display().to_string());
        let told = format!("{fabric}\n{tic}");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (process, address) = launch(&mut command, &told, any).await;
        Self { command, told, address, process }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the process as a crash would.
    pub(crate) async fn kill(&mut self) {
        self.process.kill().await.expect("it runs");
    }

    /// Starts it again at its address.
    pub(crate) async fn restart(&mut self) {
        (self.process, _) = launch(&mut self.command, &self.told, self.address).await;
    }
}

async fn launch(command: &mut Command, told: &str, listen: SocketAddr) -> (Child, SocketAddr) {
    let mut process = command.env(TOLD, format!("{told}\n{listen}")).spawn().expect("it starts");
    let mut lines = BufReader::new(process.stdout.take().expect("piped above")).lines();
    let said = async {
        while let Some(line) = lines.next_line().await.expect("text") {
            if let Some((_, address)) = line.split_once(SERVES) {
                return address.parse().expect("an address");
            }
        }
        panic!("the agent ended before it served");
    };
    let address = soon(said).await;
    (process, address)
}

/// Not a test of its own: the process that the others start.
#[tokio::test(flavor = "multi_thread")]
async fn runs_where_it_is_told_to() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let [fabric, tic, listen] = told.split('\n').collect::<Vec<_>>().try_into().unwrap();
    let read = |file| ibnetdiscover::read(&std::fs::read_to_string(file).unwrap()).unwrap();
    let discovers = fabric.is_empty();
    let sweep = Duration::from_millis(200);
    let driver = InfinibandDriver::open(InfinibandOptions {
        expected: (!discovers).then(|| Arc::new(read(fabric))),
        sweep,
        ..InfinibandOptions::default()
    });
    let app = App::bind(Options {
        security: Security::plaintext(),
        listen: listen.parse().unwrap(),
        name: "infiniband".to_owned(),
        tic: vec![tic.to_owned()],
        driver: Arc::new(driver.unwrap()),
        switches: BTreeSet::new(),
        report_interval: Duration::from_secs(1),
        discovery_interval: discovers.then_some(sweep),
    })
    .unwrap();
    announce(app.address());
    app.run(CancellationToken::new()).await.unwrap();
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn announce(address: SocketAddr) {
    println!("{SERVES}{address}");
}
