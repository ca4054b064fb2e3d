//! Jobs get nodes and groups of their own, and end.

use fabricast_proto::v1;

use super::groups::{Batch, form_batch, spec};
use super::load::{Load, made, node_name};

/// Nodes of each of many jobs.
const NODES: u32 = 16;
/// Groups of all nodes that one job has.
const GROUPS: usize = 2;
/// A job with all nodes, and groups that only its processes join.
const RESERVED: &str = "reserved";
const TOKEN: &str = "0123456789abcdef";

async fn create(load: &Load, job: &str, node_count: u32) {
    let request = v1::CreateJobRequest {
        request_id: format!("create {job}"),
        job: job.to_owned(),
        node_count,
        ..Default::default()
    };
    made(async || load.jobs.clone().create_job(request.clone()).await).await;
}

async fn reserve(load: &Load, job: &str, nodes: Vec<String>) {
    let request = v1::ReserveJobRequest {
        job: job.to_owned(),
        token: TOKEN.to_owned(),
        account: "physics".to_owned(),
        group_count: if nodes.is_empty() { 1 } else { 8 },
        aggregation_entries: u32::from(!nodes.is_empty()),
        nodes,
        ..Default::default()
    };
    made(async || load.jobs.clone().reserve_job(request.clone()).await).await;
}

async fn delete(load: &Load, job: &str) {
    let request = v1::DeleteJobRequest { request_id: format!("delete {job}"), job: job.to_owned() };
    made(async || load.jobs.clone().delete_job(request.clone()).await).await;
}

/// Creates the largest job that there is room for.
async fn create_largest(load: &Load) {
    let request = v1::GetJobReportRequest::default();
    let report = made(async || load.jobs.clone().get_job_report(request).await).await;
    let largest = report.rooms.iter().map(|room| room.fitting_nodes).max();
    create(load, "largest", largest.expect("there are classes")).await;
    delete(load, "largest").await;
}

/// Creates many jobs and reserves groups for each, then one with all nodes and groups of them.
pub(super) async fn begin_and_end(load: &Load) {
    create_largest(load).await;
    let jobs: Vec<String> = (0..load.scale.jobs).map(|number| format!("job{number}")).collect();
    for job in &jobs {
        create(load, job, NODES).await;
        reserve(load, job, Vec::new()).await;
    }
    for job in &jobs {
        delete(load, job).await;
    }
    let count = load.endpoints.len();
    reserve(load, RESERVED, (0..count).map(node_name).collect()).await;
    let group = |number| spec(load, format!("job/{RESERVED}/{number}"), 0..count);
    let groups = (0..GROUPS).map(group).collect();
    form_batch(load, Batch { job: RESERVED, token: TOKEN, groups }).await;
    delete(load, RESERVED).await;
}
