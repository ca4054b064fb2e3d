//! A process that outlives its launcher by a moment: to kill what a launcher that was killed itself
//! has left.
//!
//! The launcher says which processes it has started and which have ended, over a pipe that ends
//! with it, however it ends. Processes that have been started and have not ended
//! by then are killed, with everything that they have started themselves.

use std::collections::BTreeSet;
use std::io::{BufRead, Write, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::command::{Globals, Run};
use crate::failure::Failure;

/// The watchdog process, and the pipe to it.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts the watchdog in a process group of its own, which signals of the terminal do not
    /// reach.
    pub(super) fn start() -> Result<Self, Failure> {
        let program = std::env::current_exe().context("find this program")?;
        let mut process = Command::new(program)
            .arg("run-keeper")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start the watchdog of the processes")?;
        let pipe = process.stdin.take();
        Ok(Self { process, pipe })
    }

    /// Reports a started process, which leads a process group of its own.
    pub(super) fn has_started(&mut self, leader: Pid) {
        self.say('+', leader);
    }

    /// Reports that a process group has ended.
    pub(super) fn has_ended(&mut self, leader: Pid) {
        self.say('-', leader);
    }

    fn say(&mut self, what: char, leader: Pid) {
        if let Some(pipe) = &mut self.pipe {
            // A watchdog that was killed keeps nothing; the launcher goes on.
            let _ = writeln!(pipe, "{what}{}", leader.as_raw_nonzero());
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.process.wait();
    }
}

/// Wait until a launcher is gone, and kill the processes that it left behind; `run` starts this.
#[derive(Debug, Args)]
pub(crate) struct RunKeeperArgs {}

impl Run for RunKeeperArgs {
    fn run(self, _globals: &Globals) -> Result<(), Failure> {
        let mut running = BTreeSet::new();
        for line in stdin().lock().lines().map_while(Result::ok) {
            note(&mut running, &line);
        }
        for leader in running.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        Ok(())
    }
}

/// Handles a line of the launcher; malformed lines are ignored.
fn note(running: &mut BTreeSet<i32>, line: &str) {
    let Some((what, Ok(leader))) = line.split_at_checked(1).map(|(a, b)| (a, b.parse())) else {
        return;
    };
    match what {
        "+" if leader > 1 => _ = running.insert(leader),
        "-" => _ = running.remove(&leader),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended_is_not_killed() {
        let mut running = BTreeSet::new();
        for line in ["+17", "+18", "-17", "+0", "+1", "+-5", "nonsense", "", "+19"] {
            note(&mut running, line);
        }
        assert_eq!(running, BTreeSet::from([18, 19]));
    }
}
