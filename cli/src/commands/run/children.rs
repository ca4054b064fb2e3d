//! Processes that were started here, with everything that they start themselves: one system process
//! group for each.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::watchdog::Watchdog;
use crate::failure::Failure;

/// Time that processes have to end after a signal before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// Time to wait for the last lines of processes that have ended.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Processes of one run. Dropping it kills those that still run; if the launcher is killed, the
/// watchdog does so.
#[derive(Debug)]
pub(super) struct Children {
    label: bool,
    /// True if the others go on when one fails.
    keep_going: bool,
    /// The first failure, if the others went on.
    failed: Option<Failure>,
    running: BTreeMap<u32, Pid>,
    waiting: JoinSet<(u32, std::io::Result<ExitStatus>)>,
    printing: JoinSet<()>,
    worst: Option<(u32, u8)>,
    watchdog: Watchdog,
}

impl Children {
    /// - `label`: begin every line with the rank.
    /// - `keep_going`: let the others go on when one fails.
    pub(super) fn new(label: bool, keep_going: bool) -> Result<Self, Failure> {
        Ok(Self {
            label,
            keep_going,
            failed: None,
            running: BTreeMap::new(),
            waiting: JoinSet::new(),
            printing: JoinSet::new(),
            worst: None,
            watchdog: Watchdog::start()?,
        })
    }

    /// Starts one process.
    pub(super) fn start(
        &mut self,
        rank: u32,
        program: &[OsString],
        environment: BTreeMap<&str, OsString>,
    ) -> Result<(), Failure> {
        let (name, arguments) = program.split_first().context("no program is given")?;
        let output = || if self.label { Stdio::piped() } else { Stdio::inherit() };
        let mut child = Command::new(name)
            .args(arguments)
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output())
            .process_group(0)
            .spawn()
            .with_context(|| format!("start '{}'", name.display()))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.context("a process without a number")?;
        self.watchdog.has_started(pid);
        self.running.insert(rank, pid);
        self.print(rank, &mut child);
        self.waiting.spawn(async move { (rank, child.wait().await) });
        Ok(())
    }

    fn print(&mut self, rank: u32, child: &mut Child) {
        if let Some(lines) = child.stdout.take() {
            self.printing.spawn(copy(rank, lines, std::io::stdout));
        }
        if let Some(lines) = child.stderr.take() {
            self.printing.spawn(copy(rank, lines, std::io::stderr));
        }
    }

    /// Waits until all have ended; not longer than one fails, unless the others go on.
    pub(super) async fn all_ended(&mut self) -> Result<(), Failure> {
        while let Some(ended) = self.waiting.join_next().await {
            let (rank, status) = ended.context("wait for a process")?;
            let status = status.context("wait for a process")?;
            self.has_ended(rank);
            if let Some((code, how)) = failure(status) {
                self.note(rank, code);
                let failed = Failure::Ended(code, format!("rank {rank} {how}"));
                if !self.keep_going {
                    return Err(failed);
                }
                self.failed.get_or_insert(failed);
            }
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Passes a signal on to the processes, not to what they have started themselves.
    pub(super) fn pass(&self, signal: Signal) {
        for pid in self.running.values() {
            let _ = kill_process(*pid, signal);
        }
    }

    /// Ends the processes that still run: sends the signal, then kills them after a while.
    pub(super) async fn end(&mut self, signal: Signal) {
        self.signal(signal);
        let deadline = tokio::time::Instant::now() + GRACE;
        while let Ok(Some(ended)) =
            tokio::time::timeout_at(deadline, self.waiting.join_next()).await
        {
            let Ok((rank, status)) = ended else { continue };
            self.has_ended(rank);
            // One that dies of the signal does as it is told; an exit code is its own.
            if let Some((code, _)) =
                status.ok().filter(|end| end.signal().is_none()).and_then(failure)
            {
                self.note(rank, code);
            }
        }
        self.signal(Signal::KILL);
        while self.waiting.join_next().await.is_some() {}
        self.running.clear();
        let last = async { while self.printing.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_LINES, last).await;
    }

    /// Returns the failure with the highest exit code.
    pub(super) fn worst(&self, failed: Failure) -> Failure {
        match (failed, self.worst) {
            (Failure::Ended(code, _), Some((rank, worst))) if worst > code => {
                Failure::Ended(worst, format!("rank {rank} ended with exit code {worst}"))
            }
            (failed, _) => failed,
        }
    }

    fn note(&mut self, rank: u32, code: u8) {
        if self.worst.is_none_or(|(_, worst)| worst < code) {
            self.worst = Some((rank, code));
        }
    }

    /// Kills what a process that has ended left behind.
    fn has_ended(&mut self, rank: u32) {
        if let Some(pid) = self.running.remove(&rank) {
            kill(pid, Signal::KILL);
            self.watchdog.has_ended(pid);
        }
    }

    fn signal(&self, signal: Signal) {
        for pid in self.running.values() {
            kill(*pid, signal);
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Sends a signal to a process and all that it has started; no error if they have ended.
fn kill(leader: Pid, signal: Signal) {
    let _ = kill_process_group(leader, signal);
}

/// Exit code and description of a failed process; `None` if it succeeded.
fn failure(status: ExitStatus) -> Option<(u8, String)> {
    if status.success() {
        return None;
    }
    if let Some(signal) = status.signal() {
        let code = u8::try_from(128 + signal).unwrap_or(u8::MAX);
        return Some((code, format!("was ended by signal {signal}")));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
    Some((code, format!("ended with exit code {code}")))
}

/// Copies lines, each prefixed with the rank.
async fn copy<W: Write>(rank: u32, lines: impl AsyncRead + Unpin, to: fn() -> W) {
    let mut lines = BufReader::new(lines);
    let mut line = Vec::new();
    while let Ok(1..) = lines.read_until(b'\n', &mut line).await {
        let mut labelled = format!("[{rank}] ").into_bytes();
        labelled.append(&mut line);
        if labelled.last() != Some(&b'\n') {
            labelled.push(b'\n');
        }
        // A reader that has gone is told by the system; the processes go on.
        let _ = to().write_all(&labelled);
    }
}
