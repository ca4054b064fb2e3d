//! `fabricast slurm prolog` and `slurm epilog`.

use std::time::Duration;

use anyhow::Context;
use fabricast_placement::hostlist;
use fabricast_proto::v1;
use fabricast_rpc::{RpcError, request_id};

use super::HookArgs;
use crate::failure::Failure;
use crate::output;
use crate::remote::{Remote, answer, block_on};

/// The prolog gives up then: Slurm shows a job as configuring as long as it runs.
const DEADLINE: Duration = Duration::from_secs(20);

/// Slurm 22.05 writes this where a job has no account.
const NO_ACCOUNT: &str = "(null)";

/// A variable that Slurm sets for prologs and epilogs; our plugin's have the prefix `SPANK_`.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn required(name: &str) -> Result<String, Failure> {
    variable(name).ok_or_else(|| Failure::input(format!("{name} is not set: Slurm calls this")))
}

fn number<T: std::str::FromStr>(name: &str) -> Result<Option<T>, Failure>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let read = |text: String| text.parse().with_context(|| format!("{name}: '{text}'"));
    Ok(variable(name).map(read).transpose()?)
}

fn job_id() -> Result<u64, Failure> {
    let text = required("SLURM_JOB_ID")?;
    Ok(text.parse().with_context(|| format!("SLURM_JOB_ID: '{text}'"))?)
}

/// The value of `--fabricast` that the job was submitted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    /// Nothing, or `no`.
    No,
    Yes,
    Require,
}

fn demand() -> Result<Demand, Failure> {
    match variable("SPANK_FABRICAST").as_deref() {
        None | Some("no") => Ok(Demand::No),
        Some("yes") => Ok(Demand::Yes),
        Some("require") => Ok(Demand::Require),
        Some(other) => Err(Failure::input(format!("SPANK_FABRICAST: '{other}'"))),
    }
}

/// Runs `slurm prolog`.
pub(super) fn prolog(args: &HookArgs) -> Result<(), Failure> {
    let demand = demand()?;
    if demand == Demand::No {
        return Ok(());
    }
    match block_on(reserve(args)) {
        Ok(()) => Ok(()),
        Err(failure) if demand == Demand::Require => Err(Failure::No(failure.message())),
        Err(failure) => {
            output::notice(&format!("fabricast: warning: {}", failure.message()));
            Ok(())
        }
    }
}

async fn reserve(args: &HookArgs) -> Result<(), Failure> {
    let end: Option<i64> = number("SLURM_JOB_END_TIME")?;
    let request = v1::ReserveJobRequest {
        job: args.job_name(job_id()?),
        token: required("SPANK_FABRICAST_TOKEN")?,
        nodes: hostlist::expand(&required("SLURM_JOB_NODELIST")?).context("SLURM_JOB_NODELIST")?,
        user: variable("SLURM_JOB_USER").or_else(|| variable("SLURM_JOB_UID")).unwrap_or_default(),
        account: variable("SLURM_JOB_ACCOUNT").filter(|it| it != NO_ACCOUNT).unwrap_or_default(),
        group_count: number("SPANK_FABRICAST_GROUPS")?.unwrap_or_default(),
        aggregation_entries: number("SPANK_FABRICAST_AGGREGATION")?.unwrap_or_default(),
        step_count: 1,
        end_time: end.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
        lease: None, // Slurm tells when the job ends
    };
    let remote = Remote::new(&args.server)?;
    let refused = |error: RpcError| Failure::No(format!("job {}: {error}", request.job));
    let work = async {
        match answer(remote.jobs().reserve_job(request.clone())).await {
            // The job has run before, on other nodes, and its epilog did not come through.
            Err(error) if error.reason_text().as_deref() == Some("JOB_EXISTS") => {
                release(&remote, &request.job).await.map_err(refused)?;
                answer(remote.jobs().reserve_job(request.clone())).await.map_err(refused)
            }
            other => other.map_err(refused),
        }
    };
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(reserved) => reserved.map(drop),
        Err(_) => Err(Failure::input(format!("no answer within {} s", DEADLINE.as_secs()))),
    }
}

/// Runs `slurm epilog`.
pub(super) fn epilog(args: &HookArgs) -> Result<(), Failure> {
    if demand()? == Demand::No {
        return Ok(());
    }
    let job = args.job_name(job_id()?);
    block_on(async {
        let remote = Remote::new(&args.server)?;
        release(&remote, &job).await.map_err(|error| {
            let failure = remote.failed(error);
            failure.hint("`fabricast slurm sweep` releases it later")
        })
    })
}

/// Releases a job; one that is gone, or that was refused, is no error.
pub(super) async fn release(remote: &Remote, job: &str) -> Result<(), RpcError> {
    let request = v1::DeleteJobRequest { request_id: request_id(), job: job.to_owned() };
    match answer(remote.jobs().delete_job(request)).await {
        Err(error) if error.reason_text().as_deref() == Some("UNKNOWN_JOB") => Ok(()),
        other => other.map(drop),
    }
}
