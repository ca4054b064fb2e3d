//! `run`: local processes as one group, for trying programs out.
//!
//! The launcher attaches first and reserves a membership for every process, so that all of them are
//! members before the first one starts, with the ranks that their environment tells them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, value_parser};
use fabricast_client::{Client, Settings};
use fabricast_placement::hostlist;
use fabricast_routing::EngineKind;
use fabricast_rpc::request_id;
use fabricast_tic::StoreLocation;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

use crate::cluster::{Cluster, Layout, engine_options};
use crate::command::{Globals, Run};
use crate::failure::Failure;
use crate::serve::{block_on_threads, init_log};
use crate::source::Topology;

mod children;
mod watchdog;

use children::Children;
pub(super) use watchdog::RunKeeperArgs;

/// Nodes that an error names.
const NAMED: usize = 8;
/// Table entries of the system that is started for the processes.
const COLORS: u16 = 32;

/// Start local processes as one group, each with a rank; exit with the highest exit code of them.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Number of processes to start.
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    processes: u32,
    /// Socket of the operating agent to attach to; default: start a complete system with an
    /// emulated fabric for the duration of the run.
    #[arg(long, value_name = "PATH", conflicts_with = "topology")]
    socket: Option<PathBuf>,
    /// Topology of the system that is started, as for `up`.
    #[arg(long, value_name = "FILE|PRESET")]
    topology: Option<String>,
    /// Group that the processes join; default: a new one.
    #[arg(long)]
    group: Option<String>,
    /// Nodes to place the processes on, evenly and in this order, such as `node[001-004],gpu042`;
    /// default: all that the agent serves.
    #[arg(long, value_name = "NODES")]
    hosts: Option<String>,
    /// Let the other processes go on when one fails; default: end them.
    #[arg(long)]
    keep_going: bool,
    /// Prefix every line that a process prints with its rank.
    #[arg(long)]
    label: bool,
    /// Program and its arguments. Its environment has FABRICAST_SOCKET, FABRICAST_NODE,
    /// FABRICAST_PROCESS, FABRICAST_GROUP, FABRICAST_RANK and FABRICAST_SIZE; its standard input is
    /// empty.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Run for RunArgs {
    fn run(self, _globals: &Globals) -> Result<(), Failure> {
        let args = &self;
        let _telemetry = init_log("fabricast", "error")?;
        if let Some(socket) = &args.socket {
            return block_on_threads(launch(args, socket));
        }
        let topology = Topology::read(args.topology.as_deref().unwrap_or("cluster"))?;
        let engine = EngineKind::CMr4lmsFixed;
        let fat_tree = if engine.needs_fat_tree() { Some(topology.fat_tree()?) } else { None };
        let options = engine_options(engine, COLORS, false, fat_tree.as_ref())?;
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let socket = folder.path().join("agent.sock");
        let layout = Layout {
            topology,
            engine,
            options,
            store: StoreLocation::Memory,
            agent_hosts: 1,
            switch_agents: 1,
            socket: Some(socket.clone()),
            strict: false,
        };
        // The system has nothing to finish once the processes have ended: it is dropped with the
        // runtime.
        block_on_threads(async {
            let cluster = Cluster::start(layout).await?;
            tokio::select! {
                ended = launch(args, &socket) => ended,
                failed = cluster.failed() => Err(failed),
            }
        })
    }
}

/// Reserves the memberships, starts the processes and waits for them.
async fn launch(args: &RunArgs, socket: &Path) -> Result<(), Failure> {
    let nodes = Client::nodes_at(socket).await?;
    let first = nodes.first().context("the agent serves no node")?;
    let name = format!("launcher-{}", std::process::id());
    let launcher = Client::attach(Settings::at(socket).process(name).node(first)).await?;
    let group = args.group.clone().unwrap_or_else(|| format!("run-{}", request_id()));
    let chosen = args.hosts.as_deref().map(|hosts| chosen(hosts, &nodes)).transpose()?;
    let processes = placed(&group, args.processes, chosen.as_ref().unwrap_or(&nodes));
    let reserved = launcher.reserve(&group, &processes).await.context("join the processes")?;
    // Before there is anybody who would be left behind.
    let mut signals = Signals::catch()?;
    let mut children = Children::new(args.label, args.keep_going)?;
    for place in reserved {
        let environment = BTreeMap::from([
            (Settings::SOCKET, socket.as_os_str().to_owned()),
            (Settings::NODE, place.node.into()),
            (Settings::PROCESS, place.process.into()),
            (Settings::GROUP, group.clone().into()),
            (Settings::RANK, place.rank.to_string().into()),
            (Settings::SIZE, args.processes.to_string().into()),
        ]);
        children.start(place.rank, &args.program, environment)?;
    }
    let (failed, told) = loop {
        tokio::select! {
            ended = children.all_ended() => break (ended.err(), Signal::TERM),
            lost = launcher.detached() => break (Some(lost.into()), Signal::TERM),
            caught = signals.next() => match caught {
                Caught::Ends(signal, how) => break (Some(how), signal),
                Caught::Concerns(signal) => children.pass(signal),
            },
        }
    };
    children.end(told).await;
    failed.map_or(Ok(()), |failed| Err(children.worst(failed)))
}

/// Nodes that a list names, in its order.
///
/// - `served`: nodes of the agent.
fn chosen(hosts: &str, served: &[String]) -> Result<Vec<String>, Failure> {
    let nodes = hostlist::expand(hosts).context("--hosts")?;
    if nodes.is_empty() {
        return Err(Failure::input("--hosts names no node"));
    }
    match nodes.iter().find(|node| !served.contains(node)) {
        None => Ok(nodes),
        Some(node) => {
            let some = served.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = if served.len() > NAMED { ", ..." } else { "" };
            let text = format!("--hosts: the agent does not serve node '{node}', but {some}{more}");
            Err(Failure::input(text))
        }
    }
}

/// Name and node of each process, spread evenly; nodes ascend with the ranks.
fn placed(group: &str, processes: u32, nodes: &[String]) -> Vec<(String, String)> {
    let (count, wanted) = (nodes.len(), processes as usize);
    let node = |rank: usize| nodes[rank * count / count.max(wanted)].clone();
    (0..wanted).map(|rank| (format!("{group}.{rank}"), node(rank))).collect()
}

/// Handlers of the signals that are passed on.
struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
    first: unix::Signal,
    second: unix::Signal,
}

/// A signal that the launcher received.
enum Caught {
    /// A signal that ends programs, with the failure of the launcher.
    Ends(Signal, Failure),
    /// A signal that is only passed on.
    Concerns(Signal),
}

impl Signals {
    fn catch() -> Result<Self, Failure> {
        let catch = |kind, name| signal(kind).with_context(|| format!("listen for {name}"));
        Ok(Self {
            interrupt: catch(SignalKind::interrupt(), "SIGINT")?,
            terminate: catch(SignalKind::terminate(), "SIGTERM")?,
            hang_up: catch(SignalKind::hangup(), "SIGHUP")?,
            first: catch(SignalKind::user_defined1(), "SIGUSR1")?,
            second: catch(SignalKind::user_defined2(), "SIGUSR2")?,
        })
    }

    /// Waits for the next signal.
    async fn next(&mut self) -> Caught {
        let (name, number, signal) = tokio::select! {
            _ = self.interrupt.recv() => ("SIGINT", 2, Signal::INT),
            _ = self.terminate.recv() => ("SIGTERM", 15, Signal::TERM),
            _ = self.hang_up.recv() => ("SIGHUP", 1, Signal::HUP),
            _ = self.first.recv() => return Caught::Concerns(Signal::USR1),
            _ = self.second.recv() => return Caught::Concerns(Signal::USR2),
        };
        let how = Failure::Ended(128 + number, format!("{name}: the processes were ended"));
        Caught::Ends(signal, how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_spread_over_the_nodes_in_order() {
        let nodes = ["a", "b", "c"].map(str::to_owned);
        let on = |processes| -> String {
            placed("g", processes, &nodes).into_iter().map(|(_, node)| node).collect()
        };
        assert_eq!([on(1), on(2), on(3), on(7)], ["a", "ab", "abc", "aaabbcc"]);
        assert_eq!(placed("g", 2, &nodes)[1].0, "g.1");
    }

    #[test]
    fn hosts_are_taken_in_the_order_of_their_list_and_unknown_ones_are_named() {
        let served = ["n1", "n2", "n3", "x"].map(str::to_owned);
        assert_eq!(chosen("x,n[2-3]", &served).unwrap(), ["x", "n2", "n3"]);
        let refused = format!("{:?}", chosen("n1,n7", &served).unwrap_err());
        let text = "--hosts: the agent does not serve node 'n7', but n1, n2, n3, x";
        assert!(refused.contains(text), "{refused}");
        assert!(chosen("", &served).is_err());
        assert!(chosen("n[1-", &served).is_err());
    }
}
