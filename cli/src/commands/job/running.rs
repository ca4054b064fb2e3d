//! Jobs of a running control plane.

use anyhow::Context;
use clap::{ArgGroup, Args, value_parser};
use fabricast_placement::hostlist;
use fabricast_proto::v1;
use fabricast_rpc::{RpcError, request_id};

use super::text::{self, Fragments, Moving, Room};
use crate::args::{Format, ServerArgs, WatchArgs};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{self, Remote};

/// Jobs per page of a list.
const PAGE: u32 = 1000;

/// Options of `job allocate`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["nodes", "hosts"])))]
pub(crate) struct AllocateArgs {
    /// Name of the job.
    job: String,
    /// Number of nodes that the job needs.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Allocate exactly these nodes.
    #[arg(long, value_name = "HOSTLIST")]
    hosts: Option<String>,
    /// Use a larger unit if no unit of the job's class has room.
    #[arg(long, conflicts_with = "hosts")]
    spread: bool,
    /// Only print what the job would get; change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs `job allocate`.
pub(super) async fn allocate(args: AllocateArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(&args.server)?;
    let nodes = hostlist::expand(args.hosts.as_deref().unwrap_or_default()).context("--hosts")?;
    let request = v1::CreateJobRequest {
        request_id: request_id(),
        job: args.job,
        node_count: args.nodes.unwrap_or_default(),
        nodes,
        spread: args.spread,
        validate_only: args.dry_run,
    };
    let answer = remote::answer(remote.jobs().create_job(request)).await;
    let answer = answer.map_err(|error| refused(&remote, error))?;
    print(&answer.job.unwrap_or_default(), format)
}

/// Interprets a refusal: a lack of room is the answer no, all else is an error.
fn refused(remote: &Remote, error: RpcError) -> Failure {
    match error.reason_text().as_deref() {
        Some("NO_ROOM" | "NODE_TAKEN" | "NODE_DOWN" | "LINKS_SHARED") => {
            Failure::No(format!("no room: {}", error.message()))
        }
        Some(_) | None => remote.failed(error),
    }
}

async fn find(remote: &Remote, job: String) -> Result<v1::Job, Failure> {
    let answer = remote.answer(remote.jobs().get_job(v1::GetJobRequest { job })).await?;
    Ok(answer.job.unwrap_or_default())
}

pub(crate) async fn all(remote: &Remote) -> Result<Vec<v1::Job>, Failure> {
    let mut jobs = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListJobsRequest { page_size: PAGE, page_token };
        let page = remote.answer(remote.jobs().list_jobs(request)).await?;
        jobs.extend(page.jobs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(jobs);
        }
    }
}

/// Runs `job release`.
pub(super) async fn release(
    job: String,
    dry_run: bool,
    server: &ServerArgs,
    format: Format,
) -> Result<(), Failure> {
    let remote = Remote::new(server)?;
    if dry_run {
        let job = find(&remote, job).await?;
        return output::message(format, &job, |job| match &job.share {
            Some(share) => {
                let groups = share.used_group_count;
                let (job, nodes) = (&job.name, node_list(job));
                format!("job {job} would free {nodes} and end {groups} groups")
            }
            None => format!("job {} would free {}", job.name, node_list(job)),
        });
    }
    let request = v1::DeleteJobRequest { request_id: request_id(), job: job.clone() };
    let answer = remote.answer(remote.jobs().delete_job(request)).await?;
    output::done(format, "job", &job, &answer, |answer| match answer.group_count {
        0 => format!("job {job} released"),
        groups => format!("job {job} released with {groups} groups"),
    })
}

/// Runs `job show`.
pub(super) async fn show(
    job: String,
    watch: WatchArgs,
    server: &ServerArgs,
    format: Format,
) -> Result<(), Failure> {
    let remote = Remote::new(server)?;
    output::watched(watch, format, async || print(&find(&remote, job.clone()).await?, format)).await
}

/// Runs `job list`.
pub(super) async fn list(remote: &Remote, format: Format) -> Result<(), Failure> {
    let jobs = all(remote).await?;
    let list = v1::ListJobsResponse { jobs, ..Default::default() };
    output::message(format, &list, |list| table(&list.jobs))
}

/// Runs `job report`.
pub(super) async fn report(
    nodes: Option<u32>,
    watch: WatchArgs,
    server: &ServerArgs,
    format: Format,
) -> Result<(), Failure> {
    let remote = Remote::new(server)?;
    let is_once = !watch.watch;
    output::watched(watch, format, async || {
        let request = v1::GetJobReportRequest { node_count: nodes.unwrap_or_default() };
        let answer = remote.answer(remote.jobs().get_job_report(request)).await?;
        output::message(format, &answer, |answer| report_text(answer, nodes))?;
        match nodes {
            Some(nodes) if is_once && !answer.has_room => {
                Err(Failure::No(format!("no moves are known that make room for {nodes} nodes")))
            }
            Some(_) | None => Ok(()),
        }
    })
    .await
}

fn report_text(answer: &v1::GetJobReportResponse, nodes: Option<u32>) -> String {
    let classes = answer.rooms.iter().map(|room| Room {
        class: class(room.job_class()),
        least: room.least_nodes,
        most: room.most_nodes,
        fits: room.fitting_nodes,
        after_moves: room.fitting_nodes_after,
        moves: room.moves.iter().map(moving).collect(),
    });
    let (live, free) = (answer.live_nodes, answer.free_nodes);
    let mut text = text::report(&Fragments { live, free, classes: classes.collect() });
    let Some(nodes) = nodes.filter(|_| answer.has_room) else { return text };
    if answer.moves.is_empty() {
        text.push_str(&format!("\n{nodes} nodes find room as it is"));
    }
    for Moving { job, from, to } in answer.moves.iter().map(moving) {
        text.push_str(&format!("\nfor {nodes} nodes: move job {job} from {from} to {to}"));
    }
    text
}

fn moving(one: &v1::JobMove) -> Moving {
    let names = |nodes: &[String]| names(nodes.iter().map(String::as_str));
    Moving { job: one.job.clone(), from: names(&one.from_nodes), to: names(&one.to_nodes) }
}

fn print(job: &v1::Job, format: Format) -> Result<(), Failure> {
    if format != Format::Hostlist {
        return output::message(format, job, |job| table(std::slice::from_ref(job)));
    }
    match job.nodes.iter().find(|node| !hostlist::is_node_name(&node.node)) {
        None => output::print_text(&format!("{}\n", node_list(job))),
        Some(node) => {
            Err(Failure::input(format!("node '{}' cannot stand in a hostlist", node.node)))
        }
    }
}

fn table(jobs: &[v1::Job]) -> String {
    let mut rows = Rows::new(&["JOB", "SIZE", "CLASS", "ACCOUNT", "USER", "GROUPS", "NODES"]);
    for job in jobs {
        let share = job.share.clone().unwrap_or_default();
        let groups = match &job.share {
            Some(share) => format!("{} of {}", share.used_group_count, share.group_count),
            None => "-".to_owned(),
        };
        rows.push(vec![
            job.name.clone(),
            job.nodes.len().to_string(),
            class(job.job_class()),
            share.account,
            share.user,
            groups,
            node_list(job),
        ]);
    }
    rows.to_string()
}

fn class(class: v1::JobClass) -> String {
    if class == v1::JobClass::Unspecified {
        return "-".to_owned(); // its scheduler chose the nodes
    }
    class.as_str_name().trim_start_matches("JOB_CLASS_").to_owned()
}

fn node_list(job: &v1::Job) -> String {
    names(job.nodes.iter().map(|node| node.node.as_str()))
}

/// Formats nodes as a hostlist, or as a list if a name does not fit into one.
fn names<'a>(nodes: impl Iterator<Item = &'a str> + Clone) -> String {
    if nodes.clone().all(hostlist::is_node_name) {
        hostlist::compress(nodes)
    } else {
        nodes.collect::<Vec<_>>().join(", ")
    }
}
