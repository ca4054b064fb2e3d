//! Jobs of a running control plane.

use anyhow::Context;
use fabricast_proto::v1;
use fabricast_routing::jobs::hostlist;
use fabricast_rpc::{reason_of, request_id};
use tonic::Status;

use super::text::{self, Fragments, Moving, Room};
use crate::args::{Format, JobAllocateArgs, JobCommand};
use crate::failure::Failure;
use crate::output::{self, Rows};
use crate::remote::{Remote, block_on};

/// Jobs asked for at once when a list is read.
const PAGE: u32 = 1000;

/// Runs one verb.
///
/// # Errors
///
/// See [`Failure`].
pub(super) fn run(command: JobCommand, format: Format) -> Result<(), Failure> {
    block_on(async {
        match command {
            JobCommand::Plan(_) => Err(Failure::input("job plan needs no control plane")),
            JobCommand::Allocate(args) => allocate(args, format).await,
            JobCommand::Release { job, dry_run, server } => {
                let remote = Remote::new(&server)?;
                if dry_run {
                    let job = find(&remote, job).await?;
                    return output::message(format, &job, |job| {
                        format!("would free {}", list(job))
                    });
                }
                let request = v1::DeleteJobRequest { request_id: request_id(), job };
                let answer = remote.jobs().delete_job(request).await;
                let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
                output::message(format, &answer, |_| "released".to_owned())
            }
            JobCommand::Show { job, server } => {
                let remote = Remote::new(&server)?;
                print(&find(&remote, job).await?, format)
            }
            JobCommand::List { server } => {
                let jobs = all(&Remote::new(&server)?).await?;
                let list = v1::ListJobsResponse { jobs, ..Default::default() };
                output::message(format, &list, |list| table(&list.jobs))
            }
            JobCommand::Report { nodes, server } => {
                report(&Remote::new(&server)?, nodes, format).await
            }
        }
    })
}

async fn allocate(args: JobAllocateArgs, format: Format) -> Result<(), Failure> {
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
    let answer = remote.jobs().create_job(request).await;
    let answer = answer.map_err(|status| refused(&remote, status))?.into_inner();
    print(&answer.job.unwrap_or_default(), format)
}

/// That there is no room is an answer; everything else is a fault.
fn refused(remote: &Remote, status: Status) -> Failure {
    match reason_of(&status).as_deref() {
        Some("NO_ROOM" | "NODE_TAKEN" | "NODE_DOWN" | "LINKS_SHARED") => {
            Failure::No(format!("no room: {}", status.message()))
        }
        Some(_) | None => remote.failed(status),
    }
}

async fn find(remote: &Remote, job: String) -> Result<v1::Job, Failure> {
    let answer = remote.jobs().get_job(v1::GetJobRequest { job }).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    Ok(answer.job.unwrap_or_default())
}

async fn all(remote: &Remote) -> Result<Vec<v1::Job>, Failure> {
    let mut jobs = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListJobsRequest { page_size: PAGE, page_token };
        let page =
            remote.jobs().list_jobs(request).await.map_err(|status| remote.failed(status))?;
        let page = page.into_inner();
        jobs.extend(page.jobs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(jobs);
        }
    }
}

async fn report(remote: &Remote, nodes: Option<u32>, format: Format) -> Result<(), Failure> {
    let request = v1::GetJobReportRequest { node_count: nodes.unwrap_or_default() };
    let answer = remote.jobs().get_job_report(request).await;
    let answer = answer.map_err(|status| remote.failed(status))?.into_inner();
    output::message(format, &answer, |answer| report_text(answer, nodes))?;
    match nodes {
        Some(nodes) if !answer.has_room => {
            Err(Failure::No(format!("no moves are known that make room for {nodes} nodes")))
        }
        Some(_) | None => Ok(()),
    }
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
        None => output::raw(&format!("{}\n", list(job))),
        Some(node) => {
            Err(Failure::input(format!("node '{}' cannot stand in a hostlist", node.node)))
        }
    }
}

fn table(jobs: &[v1::Job]) -> String {
    let mut rows = Rows::new(&["JOB", "SIZE", "CLASS", "NODES"]);
    for job in jobs {
        let size = job.nodes.len().to_string();
        rows.push(vec![job.name.clone(), size, class(job.job_class()), list(job)]);
    }
    rows.to_string()
}

fn class(class: v1::JobClass) -> String {
    class.as_str_name().trim_start_matches("JOB_CLASS_").to_owned()
}

fn list(job: &v1::Job) -> String {
    names(job.nodes.iter().map(|node| node.node.as_str()))
}

/// A hostlist; names that cannot stand in one are listed as they are.
fn names<'a>(nodes: impl Iterator<Item = &'a str> + Clone) -> String {
    if nodes.clone().all(hostlist::is_node_name) {
        hostlist::compress(nodes)
    } else {
        nodes.collect::<Vec<_>>().join(", ")
    }
}
