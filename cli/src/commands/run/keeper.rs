//! A process that outlives its launcher by a moment: to kill what a launcher that was killed itself has left.
//!
//! The launcher says which processes it has started and which have ended, over a pipe that ends with it, however
//! it ends. What has been started and has not ended by then is killed, with everything that it has started itself.

use std::collections::BTreeSet;
use std::io::{BufRead, Write, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::failure::Failure;

/// The launcher's end of the pipe.
#[derive(Debug)]
pub(super) struct Keeper {
    process: Child,
    pipe: Option<ChildStdin>,
}

impl Keeper {
    /// Starts the keeper, out of reach of the signals of the launcher's terminal.
    pub(super) fn start() -> Result<Self, Failure> {
        let program = std::env::current_exe().context("find this program")?;
        let mut process = Command::new(program)
            .arg("run-keeper")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start the keeper of the processes")?;
        let pipe = process.stdin.take();
        Ok(Self { process, pipe })
    }

    /// Says that a process leads a process group of its own from now on.
    pub(super) fn has_started(&mut self, leader: Pid) {
        self.say('+', leader);
    }

    /// Says that there is nothing to be killed there any more.
    pub(super) fn has_ended(&mut self, leader: Pid) {
        self.say('-', leader);
    }

    fn say(&mut self, what: char, leader: Pid) {
        if let Some(pipe) = &mut self.pipe {
            // A keeper that was killed keeps nothing; the launcher goes on.
            let _ = writeln!(pipe, "{what}{}", leader.as_raw_nonzero());
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.pipe = None;
        let _ = self.process.wait();
    }
}

/// Listens to the launcher until it is gone, and kills what it has left.
///
/// # Errors
///
/// None: what the launcher says is believed.
pub(crate) fn keep() -> Result<(), Failure> {
    let mut held = BTreeSet::new();
    for line in stdin().lock().lines().map_while(Result::ok) {
        note(&mut held, &line);
    }
    for leader in held.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(leader, Signal::KILL);
    }
    Ok(())
}

/// Takes a word of the launcher; words that are none are left alone.
fn note(held: &mut BTreeSet<i32>, line: &str) {
    let Some((what, Ok(leader))) = line.split_at_checked(1).map(|(a, b)| (a, b.parse())) else {
        return;
    };
    match what {
        "+" if leader > 1 => _ = held.insert(leader),
        "-" => _ = held.remove(&leader),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended_is_not_killed() {
        let mut held = BTreeSet::new();
        for line in ["+17", "+18", "-17", "+0", "+1", "+-5", "nonsense", "", "+19"] {
            note(&mut held, line);
        }
        assert_eq!(held, BTreeSet::from([18, 19]));
    }
}
