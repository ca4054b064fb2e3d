//! `JobService`: nodes for jobs.

use std::sync::Arc;

use fabricast_groups::job::JobRecord;
use fabricast_groups::names::JobName;
use fabricast_placement::{JobClass, JobNames, JobReport, Move, Spread};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_wire::encode_timestamp;
use tonic::{Request, Response, Status};

use crate::api::{fields, pages, status};
use crate::domain::jobs::{JobView, PlacementRequest};
use crate::records::Records;
use crate::writer::directory::DeleteJob;
use crate::writer::queue::WriterQueue;
use crate::writer::requests::{PlaceJob, ViewJobs};

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    pub(crate) queue: WriterQueue,
    pub(crate) records: Arc<Records>,
}

#[tonic::async_trait]
impl v1::job_service_server::JobService for Jobs {
    async fn create_job(
        &self,
        request: Request<v1::CreateJobRequest>,
    ) -> Result<Response<v1::CreateJobResponse>, Status> {
        let request = request.into_inner();
        let placement = match (request.node_count, request.nodes.is_empty()) {
            (0, true) => return Err(fields::missing("node_count")),
            (0, false) => PlacementRequest::Nodes(request.nodes),
            (count, true) if request.spread => PlacementRequest::Count(count, Spread::Yes),
            (count, true) => PlacementRequest::Count(count, Spread::No),
            (_, false) => {
                let message = "node_count: must be left out where nodes are named";
                return Err(Reason::NameInvalid.status(message, &[("field", "node_count")]));
            }
        };
        let request = PlaceJob {
            request_id: fields::request_id(&request.request_id)?,
            job: fields::name("job", &request.job, JobName::new)?,
            placement,
            validate_only: request.validate_only,
        };
        let job = self.queue.write(request).await?;
        Ok(Response::new(v1::CreateJobResponse { job: Some(job_to_wire(&job)) }))
    }

    async fn delete_job(
        &self,
        request: Request<v1::DeleteJobRequest>,
    ) -> Result<Response<v1::DeleteJobResponse>, Status> {
        let request = request.into_inner();
        let request = DeleteJob {
            request_id: fields::request_id(&request.request_id)?,
            job: fields::name("job", &request.job, JobName::new)?,
        };
        let revision = self.queue.write(request).await?.answer;
        Ok(Response::new(v1::DeleteJobResponse { revision: revision.0 }))
    }

    async fn get_job(
        &self,
        request: Request<v1::GetJobRequest>,
    ) -> Result<Response<v1::GetJobResponse>, Status> {
        let name = fields::name("job", &request.into_inner().job, JobName::new)?;
        let job = self.records.read(|directory| directory.job(&name).map(job_to_wire));
        let unknown = || {
            Reason::UnknownJob.status(format!("job: no job '{name}'"), &[("job", name.as_str())])
        };
        Ok(Response::new(v1::GetJobResponse { job: Some(job.ok_or_else(unknown)?) }))
    }

    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let request = request.into_inner();
        let after = pages::read_job(&request.page_token)?;
        Ok(Response::new(self.records.read(|directory| {
            let jobs = directory.jobs_after(after.as_ref()).map(job_to_wire);
            let (jobs, next) = pages::fill(request.page_size, jobs);
            let last = jobs.last().filter(|_| next.is_some());
            let next_page_token = last.map(|job| pages::job_token(&job.name));
            v1::ListJobsResponse { jobs, next_page_token: next_page_token.unwrap_or_default() }
        })))
    }

    async fn get_job_report(
        &self,
        request: Request<v1::GetJobReportRequest>,
    ) -> Result<Response<v1::GetJobReportResponse>, Status> {
        let count = request.into_inner().node_count;
        let view = self.queue.write(ViewJobs).await?;
        // Trying moves takes long if there are many jobs.
        let report = tokio::task::spawn_blocking(move || report(&view, count)).await;
        report.map(Response::new).map_err(|_panic| status::panicked("the report"))
    }
}

fn report(view: &JobView, count: u32) -> v1::GetJobReportResponse {
    let JobReport { live, free, classes } = view.allocator.report();
    let moves = |moves: &[Move]| moves.iter().map(|one| move_to_wire(one, &view.names)).collect();
    let rooms = classes.iter().map(|room| v1::JobRoom {
        job_class: class_to_wire(room.class).into(),
        least_nodes: room.least,
        most_nodes: room.most,
        fitting_nodes: room.fits,
        fitting_nodes_after: room.after,
        moves: moves(&room.moves),
    });
    let wanted = (count > 0).then(|| view.allocator.make_room(count)).flatten();
    v1::GetJobReportResponse {
        live_nodes: live,
        free_nodes: free,
        rooms: rooms.collect(),
        has_room: wanted.is_some(),
        moves: wanted.as_deref().map_or_else(Vec::new, moves),
    }
}

fn move_to_wire(one: &Move, names: &JobNames) -> v1::JobMove {
    let nodes = |nodes: &[u32]| nodes.iter().map(|at| names.nodes[*at as usize].clone()).collect();
    v1::JobMove {
        job: names.jobs.get(&one.job).cloned().unwrap_or_default(),
        from_nodes: nodes(&one.from),
        to_nodes: nodes(&one.to),
    }
}

const fn class_to_wire(class: JobClass) -> v1::JobClass {
    match class {
        JobClass::T0 => v1::JobClass::T0,
        JobClass::T1 => v1::JobClass::T1,
        JobClass::T2 => v1::JobClass::T2,
        JobClass::T3 => v1::JobClass::T3,
    }
}

/// A job as a message; one that was only validated has no revision and no creation time.
fn job_to_wire(job: &JobRecord) -> v1::Job {
    let nodes = job.nodes.iter().map(|node| v1::JobNode {
        node: node.name.to_string(),
        endpoints: node.endpoints.iter().map(ToString::to_string).collect(),
    });
    v1::Job {
        name: job.name.to_string(),
        job_class: class_to_wire(job.class).into(),
        nodes: nodes.collect(),
        create_time: (job.revision.0 > 0).then(|| encode_timestamp(job.created)),
        revision: job.revision.0,
    }
}
