//! `run`: local processes as one group, for trying programs out.
//!
//! The launcher attaches first and reserves a membership for every process, so that all of them are
//! members before the first one starts, with the ranks that their environment tells them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use fabricast_client::{Client, Settings};
use fabricast_routing::EngineKind;
use fabricast_rpc::request_id;
use fabricast_tic::StoreLocation;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

use crate::args::RunArgs;
use crate::cluster::{Cluster, Layout, engine_options};
use crate::commands::serve::{runtime, telemetry};
use crate::failure::Failure;
use crate::source::Topology;

mod children;
mod keeper;

use children::Children;
pub(crate) use keeper::keep;

/// Table entries of the system that is brought up for the processes alone.
const COLORS: u16 = 32;

/// Runs the processes to their ends.
///
/// # Errors
///
/// [`Failure::Ended`] with the code of the worst process; what keeps them from being started.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let _telemetry = telemetry("fabricast", "error")?;
    if let Some(socket) = &args.socket {
        return runtime()?.block_on(launch(args, socket));
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
    // The system has nothing to finish once the processes have ended: it is dropped with the runtime.
    runtime()?.block_on(async {
        let cluster = Cluster::start(layout).await?;
        tokio::select! {
            ended = launch(args, &socket) => ended,
            failed = cluster.failed() => Err(failed),
        }
    })
}

/// Reserves the memberships, starts the processes and waits for them.
async fn launch(args: &RunArgs, socket: &Path) -> Result<(), Failure> {
    let nodes = Client::nodes_at(socket).await?;
    let first = nodes.first().context("the agent serves no node")?;
    let name = format!("launcher-{}", std::process::id());
    let launcher = Client::attach(Settings::at(socket).process(name).node(first)).await?;
    let group = args.group.clone().unwrap_or_else(|| format!("run-{}", request_id()));
    let processes = placed(&group, args.processes, &nodes);
    let reserved = launcher.reserve(&group, &processes).await.context("join the processes")?;
    // Before there is anybody who would be left behind.
    let mut signals = Signals::catch()?;
    let mut children = Children::new(args.label)?;
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

/// Name and node of each process, spread evenly; nodes ascend with the ranks.
fn placed(group: &str, processes: u32, nodes: &[String]) -> Vec<(String, String)> {
    let (count, wanted) = (nodes.len(), processes as usize);
    let node = |rank: usize| nodes[rank * count / count.max(wanted)].clone();
    (0..wanted).map(|rank| (format!("{group}.{rank}"), node(rank))).collect()
}

/// Signals that are passed on, caught for as long as this lives.
struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
    first: unix::Signal,
    second: unix::Signal,
}

/// A signal that the launcher has got.
enum Caught {
    /// It ends programs: how the launcher ends then.
    Ends(Signal, Failure),
    /// It means what the processes make of it.
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

    /// Waits for one.
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
}
