//! `fabricast slurm sweep`: releases jobs that Slurm does not know any more.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Serialize;

use super::HookArgs;
use super::hooks::release;
use crate::args::Format;
use crate::commands::job::running::all;
use crate::failure::Failure;
use crate::output;
use crate::remote::Remote;

/// Jobs that Slurm does not know.
#[derive(Debug, Serialize)]
struct Swept {
    dry_run: bool,
    released: Vec<String>,
}

/// Runs `slurm sweep`.
pub(super) async fn sweep(
    squeue: &Path,
    hook: &HookArgs,
    dry_run: bool,
    format: Format,
) -> Result<(), Failure> {
    let remote = Remote::new(&hook.server)?;
    // In this order: a job that begins meanwhile is not in the first list.
    let ours = all(&remote).await?;
    let known = known_jobs(squeue)?;
    let is_leaked = |name: &str| hook.job_id(name).is_some_and(|id| !known.contains(&id));
    let mut released = Vec::new();
    for job in ours.into_iter().filter(|job| job.share.is_some() && is_leaked(&job.name)) {
        if !dry_run {
            release(&remote, &job.name).await.map_err(|error| remote.failed(error))?;
        }
        released.push(job.name);
    }
    output::print(format, &Swept { dry_run, released }, |swept| {
        match (swept.released.as_slice(), dry_run) {
            ([], _) => "no job has leaked".to_owned(),
            (jobs, true) => format!("would release {}", jobs.join(", ")),
            (jobs, false) => format!("released {}", jobs.join(", ")),
        }
    })
}

/// Numbers of the jobs that Slurm has, whether they run, wait or end.
fn known_jobs(squeue: &Path) -> Result<BTreeSet<u64>, anyhow::Error> {
    let mut command = Command::new(squeue);
    command.args(["--all", "--array", "--noheader", "--format=%A"]);
    let output = command.output().with_context(|| format!("'{}'", squeue.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("'{}': {}: {}", squeue.display(), output.status, said.trim());
    }
    let text = String::from_utf8(output.stdout).context("the list of jobs")?;
    let number = |line: &str| line.parse().with_context(|| format!("the list of jobs: '{line}'"));
    text.split_whitespace().map(number).collect()
}
