//! `fabricast job reserve`: groups for a job.

use std::time::Duration;

use anyhow::Context;
use clap::{Args, value_parser};
use fabricast_placement::hostlist;
use fabricast_proto::v1;
use fabricast_rpc::RpcError;
use serde::Serialize;

use crate::args::{Format, ServerArgs};
use crate::failure::Failure;
use crate::output;
use crate::remote::{self, Remote};
use crate::secrets::random_token;

/// Options of `job reserve`.
#[derive(Debug, Args)]
pub(crate) struct ReserveArgs {
    /// Name of the job, without `/`.
    job: String,
    /// Nodes of the job; left out for one that has been allocated.
    #[arg(long, value_name = "HOSTLIST")]
    hosts: Option<String>,
    /// Groups that the job needs at a time; default: the part of the table entries that goes with
    /// its nodes, or what other jobs leave of it.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    groups: Option<u32>,
    /// Aggregation entries that the job needs in each switch on and above its leaf switches, for
    /// trees of its account (`collective create --tenant ACCOUNT --job JOB`).
    #[arg(long, value_name = "N", default_value_t = 0)]
    aggregation_entries: u32,
    /// Steps that run at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
    steps: u32,
    /// Account that the job counts against.
    #[arg(long, default_value = "")]
    account: String,
    /// User who runs the job.
    #[arg(long, default_value = "")]
    user: String,
    /// Release the job so long after the last `job reserve`, at most a day; default: only `job
    /// release` releases it.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    lease: Option<Duration>,
    /// Token of the job, 16 to 256 characters; default: a new one.
    #[arg(long, env = "FABRICAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Values that the job's processes need.
#[derive(Debug, Serialize)]
struct Reserved {
    job: String,
    token: String,
    groups: u32,
    groups_per_step: u32,
    aggregation_entries: u32,
}

/// Runs `job reserve`.
pub(super) async fn reserve(args: ReserveArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let nodes = hostlist::expand(args.hosts.as_deref().unwrap_or_default()).context("--hosts")?;
    let token = args.token.map_or_else(random_token, Ok)?;
    let request = v1::ReserveJobRequest {
        job: args.job,
        token: token.clone(),
        nodes,
        user: args.user,
        account: args.account,
        group_count: args.groups.unwrap_or_default(),
        aggregation_entries: args.aggregation_entries,
        step_count: args.steps,
        end_time: None,
        lease: args.lease.map(|lease| prost_types::Duration {
            seconds: i64::try_from(lease.as_secs()).unwrap_or(i64::MAX),
            nanos: 0,
        }),
    };
    let answer = remote::answer(remote.jobs().reserve_job(request)).await;
    let job = answer.map_err(|error| refused(&remote, error))?.job.unwrap_or_default();
    let share = job.share.unwrap_or_default();
    let reserved = Reserved {
        job: job.name,
        token,
        groups: share.group_count,
        groups_per_step: share.groups_per_step,
        aggregation_entries: share.aggregation_entries,
    };
    output::print(format, &reserved, |reserved| {
        let Reserved { job, token, groups, groups_per_step, aggregation_entries } = reserved;
        format!(
            "FABRICAST_JOB={job}\nFABRICAST_TOKEN={token}\nFABRICAST_JOB_GROUPS={groups}\n\
             FABRICAST_STEP_GROUPS={groups_per_step}\n\
             FABRICAST_AGGREGATION_ENTRIES={aggregation_entries}"
        )
    })
}

/// Interprets a refusal: a lack of entries is the answer no, all else is an error.
fn refused(remote: &Remote, error: RpcError) -> Failure {
    match error.reason_text().as_deref() {
        Some("NO_ROOM" | "QUOTA_REACHED") => {
            Failure::No(format!("nothing is reserved: {}", error.message()))
        }
        Some(_) | None => remote.failed(error),
    }
}
