//! `fabricast up`: every part in one process.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use fabricast_routing::mgid_space;
use fabricast_rpc::{BoundServer, Security};
use fabricast_tic::StoreLocation;

use crate::args::{EngineArgs, colors};
use crate::cluster::{Cluster, Layout};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::output;
use crate::plan_input::{build_failure, options};
use crate::serve::{block_on_threads, interrupted, serve_metrics};
use crate::source::Topology;
use crate::telemetry::{self, Telemetry};

/// Run every part in one process and serve until interrupted.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// File as `ibnetdiscover` prints it, a topology spec in TOML, or a preset: `cluster` (real, 96
    /// hosts; the default), `demo` (2 048 endpoints) or `paper` (32 768 endpoints).
    #[arg(long, value_name = "FILE|PRESET")]
    topology: Option<String>,
    #[command(flatten)]
    engine: EngineArgs,
    /// File for the records, `memory`, or etcd://host:port,.../prefix with ?certificates=FOLDER or,
    /// across machines, ?plaintext.
    #[arg(long, value_name = "FILE|memory|URL", default_value = "memory")]
    store: StoreLocation,
    /// Address at which all services answer; port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    /// Allow `--listen` to be reachable from other machines, although nothing is encrypted and
    /// every caller is accepted.
    #[arg(long)]
    plaintext: bool,
    /// Unix domain socket at which processes of this machine attach, to any of the nodes; default:
    /// none.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Address for GET /metrics of all parts, for Prometheus; default: none.
    #[arg(long, value_name = "IP:PORT")]
    metrics: Option<SocketAddr>,
    /// Address of this machine for the console, to be opened in a browser; default: none, and
    /// without a value 127.0.0.1:7480.
    #[arg(long, value_name = "IP:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:7480")]
    console: Option<SocketAddr>,
    /// Folder with results of `fabricast eval` or `fabricast plan`, which the console shows.
    #[arg(long, value_name = "DIR", requires = "console")]
    evaluation: Option<PathBuf>,
    /// Entries of each multicast table (C).
    #[arg(long, default_value_t = 32, value_parser = colors())]
    colors: u16,
}

impl Run for UpArgs {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        if !self.listen.ip().is_loopback() && !self.plaintext {
            let what = format!("--listen: {} can be reached from other machines", self.listen);
            return Err(
                Failure::input(what).hint("nothing is encrypted: give --plaintext to accept that")
            );
        }
        if let Some(console) = self.console.filter(|console| !console.ip().is_loopback()) {
            let what = format!("--console: {console} can be reached from other machines");
            let failure = Failure::input(what);
            return Err(failure.hint("`fabricast console` serves other machines, with a token"));
        }
        let mut settings = telemetry::settings(&globals.trace)?;
        // The lines that begin and end a log are for services; here they would frame every refusal.
        settings.log.push_str(",fabricast_telemetry=warn");
        let _telemetry = Telemetry::begin("fabricast", &settings)?;
        let topology = Topology::read(self.topology.as_deref().unwrap_or("cluster"))?;
        let engine = self.engine.kind;
        let options = options(&self.engine, self.colors)?;
        let fat_tree = if engine.needs_fat_tree() { Some(topology.fat_tree()?) } else { None };
        mgid_space(engine, fat_tree.as_ref(), options).map_err(build_failure)?;
        let store = self.store.clone();
        let socket = self.socket.clone();
        let layout = Layout {
            topology,
            engine,
            options,
            store,
            agent_hosts: 1,
            switch_agents: 1,
            socket,
            strict: true,
        };
        block_on_threads(async {
            // First of all, so that a port in use stops everything before it has begun.
            let front = BoundServer::bind(self.listen, Security::plaintext()).map_err(|error| {
                Failure::from(error).hint("--listen names another address, port 0 takes a free one")
            })?;
            let address = front.address();
            let _metrics = serve_metrics(self.metrics, "up").await?;
            let console = match self.console {
                Some(listen) => {
                    Some(super::console::beside(listen, address, self.evaluation.clone()).await?)
                }
                None => None,
            };
            let cluster = Cluster::start(layout).await?;
            cluster.serve_at(front).await;
            tokio::select! {
                ready = cluster.ready() => ready?,
                failed = cluster.failed() => return Err(failed),
            }
            if let Some(console) = console {
                output::notice(&format!("fabricast: console at http://{}", console.address()));
                cluster.run_console(console).await;
            }
            output::notice(&format!(
                "fabricast: all services at {address} ({} nodes); parts: tic {}, router {}, fabric {}, \
             switch agent {}, operating agents {}",
                cluster.node_count(),
                cluster.tic,
                cluster.router,
                cluster.fabric,
                listed(&cluster.switch_agents),
                listed(&cluster.operating),
            ));
            let ended = tokio::select! {
                stopped = interrupted() => stopped,
                failed = cluster.failed() => Err(failed),
            };
            cluster.stop().await;
            ended
        })
    }
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
