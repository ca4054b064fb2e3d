//! `fabricast group form` and `group delete --job`: many groups with one call.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use fabricast_proto::v1;
use fabricast_rpc::request_id;
use serde::Serialize;

use crate::args::{Format, JobTokenArgs, ServerArgs};
use crate::dry_run;
use crate::failure::Failure;
use crate::group_file::{self, NamedGroup};
use crate::output;
use crate::progress::Progress;
use crate::remote::Remote;

/// Memberships per message, so that it stays below the servers' limit.
const PER_MESSAGE: usize = 4_096;

/// Options of `group form`.
#[derive(Debug, Args)]
pub(crate) struct FormArgs {
    /// Groups in JSON lines; members are endpoints, by name or GUID of the port.
    #[arg(long, value_name = "FILE")]
    groups: PathBuf,
    /// Name of the processes.
    #[arg(long, default_value = "p0")]
    process: String,
    /// Job that new groups belong to; `group delete --job` ends them together.
    #[arg(long)]
    job: Option<String>,
    #[command(flatten)]
    token: JobTokenArgs,
    /// Name of the request, to repeat it safely: with the same file it gets the same answer, and
    /// members that have left stay out. Default: a new name.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Result of `group form`.
#[derive(Debug, Serialize)]
struct Formed {
    /// File with the groups.
    file: String,
    /// Job that new groups belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    groups: usize,
    joined: usize,
}

/// Forms the groups of a file, after checking the whole file.
///
/// # Errors
///
/// Names the file, the group and the field, or what the server refused; then nothing is formed, or
/// the message says how much.
pub(super) async fn form(args: FormArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let groups = read(&remote, &args.groups).await?;
    let (count, mut joined) = (groups.len(), 0);
    if count > 0 {
        let progress = Progress::new("forming", count);
        let id = args.request_id.unwrap_or_else(request_id);
        let first = v1::FormGroupsRequest {
            request_id: id.clone(),
            job: args.job.clone().unwrap_or_default(),
            job_token: args.token.text(),
            groups: Vec::new(),
        };
        let messages = messages(&groups, &args.process, &first);
        let formed = remote.form_groups(messages, |answer| {
            joined += answer.groups.iter().map(|group| group.pns.len()).sum::<usize>();
            progress.at(usize::try_from(answer.formed_count).unwrap_or(usize::MAX), "forming");
        });
        let formed = formed.await;
        progress.finish();
        formed.map_err(|failure| match joined {
            0 => failure,
            joined => failure.hint(format!(
                "{joined} memberships had been joined; the same command with --request-id {id} \
                 takes up the rest"
            )),
        })?;
    }
    let file = args.groups.display().to_string();
    let formed = Formed { file, job: args.job, groups: count, joined };
    output::print(format, &formed, |Formed { file, job, groups, joined }| {
        let of_job = job.as_ref().map_or_else(String::new, |job| format!(" of job {job}"));
        format!("{file}: {joined} memberships joined in {groups} groups{of_job}")
    })
}

/// Reads a file of groups; those without members are left out.
pub(super) async fn read(remote: &Remote, file: &Path) -> Result<Vec<NamedGroup>, Failure> {
    let mut groups = group_file::read_named(file, &remote.graph().await?)?;
    group_file::check(&groups, &remote.groups(false).await?)
        .with_context(|| format!("'{}'", file.display()))?;
    groups.retain(|group| !group.members.is_empty());
    Ok(groups)
}

fn messages(
    groups: &[NamedGroup],
    process: &str,
    first: &v1::FormGroupsRequest,
) -> Vec<v1::FormGroupsRequest> {
    let (mut messages, mut size) = (vec![first.clone()], 0);
    for group in groups {
        if size >= PER_MESSAGE {
            messages.push(first.clone());
            size = 0;
        }
        size += group.members.len();
        let member = |endpoint: &String| v1::FormedMember {
            endpoint: endpoint.clone(),
            process: process.to_owned(),
            ..Default::default()
        };
        let spec = v1::FormedGroupSpec {
            group: group.name.clone(),
            members: group.members.iter().map(member).collect(),
            mgid: group.mgid.map(|mgid| mgid.0),
            ..Default::default()
        };
        if let Some(last) = messages.last_mut() {
            last.groups.push(spec);
        }
    }
    messages
}

/// Deletes all groups of a job.
///
/// # Errors
///
/// No group belongs to it, or a server that does not answer.
pub(super) async fn end_job(
    job: String,
    dry_run: bool,
    server: &ServerArgs,
    format: Format,
) -> Result<(), Failure> {
    let remote = Remote::new(server)?;
    if dry_run {
        return dry_run::job(&remote, &job, format).await;
    }
    let request = v1::DeleteJobGroupsRequest { request_id: request_id(), job: job.clone() };
    let answer = remote.answer(remote.batches().delete_job_groups(request)).await?;
    output::done(format, "job", &job, &answer, |answer| {
        let (groups, memberships) = (answer.group_count, answer.membership_count);
        format!("job {job}: {groups} groups with {memberships} memberships ended")
    })
}
