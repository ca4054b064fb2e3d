//! `JobService`: nodes for jobs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fabricast_collectives::ReservationId;
use fabricast_groups::directory::copy_job;
use fabricast_groups::ids::Moment;
use fabricast_groups::job::{JobRecord, JobShare};
use fabricast_groups::names::{AccountName, JobName, NodeName, UserName};
use fabricast_groups::token::JobToken;
use fabricast_placement::{JobClass, JobNames, JobReport, Move, Spread};
use fabricast_proto::v1;
use fabricast_rpc::{CallCost, Caller, Reason, joined};
use fabricast_topology::Graph;
use fabricast_wire::{decode_timestamp, encode_timestamp};
use tonic::{Request, Response, Status};

use crate::api::job_placer::{JobPlacer, PlaceJob};
use crate::api::{fields, pages, status};
use crate::clock::wall_clock;
use crate::domain::collectives::published::Published;
use crate::domain::job_places::{AskedNodes, find_nodes};
use crate::domain::jobs::{JobView, PlacementRequest};
use crate::expiry::{Released, release};
use crate::records::Records;
use crate::writer::error::WriteError;
use crate::writer::queue::WriterQueue;
use crate::writer::requests::{Own, ReserveShare, owns};

/// Most nodes of a job with a share.
const NODES: usize = 1 << 16;
/// Shortest and longest time for which a reservation lasts unless it is repeated.
const LEASE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(86_400)];

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    pub(crate) graph: Arc<Graph>,
    pub(crate) queue: WriterQueue,
    pub(crate) records: Arc<Records>,
    pub(crate) placer: Arc<JobPlacer>,
}

impl Jobs {
    fn to_wire(&self, job: &JobRecord) -> v1::Job {
        let published = self.records.collectives.newest();
        let used = self.records.read(|directory| directory.groups_of_job(&job.name).count());
        job_to_wire(used, &published, job)
    }

    /// Finds the nodes of a request, for which others would wait if the writer did it.
    async fn find_nodes(&self, request: ReserveShare) -> ReserveShare {
        let (graph, records) = (Arc::clone(&self.graph), Arc::clone(&self.records));
        let find = move || {
            let ReserveShare { job, nodes, share } = request;
            let known = records.read(|directory| copy_job(directory, &job));
            let nodes = nodes.find(&graph, known.as_deref(), |names| {
                records.read(|directory| find_nodes(&graph, directory, names))
            });
            ReserveShare { job, nodes, share }
        };
        joined(CallCost::current().turn().await.run(find).await).await
    }
}

#[tonic::async_trait]
impl v1::job_service_server::JobService for Jobs {
    async fn create_job(
        &self,
        request: Request<v1::CreateJobRequest>,
    ) -> Result<Response<v1::CreateJobResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        if !caller.owns_job(&request.job, None) {
            let why = format!("job: {caller} names jobs by its tenant and a '/'");
            return Err(Reason::NotPermitted.status(why, &[("job", &request.job)]));
        }
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
        let job = self.placer.place(request).await?;
        let job = self.to_wire(&job);
        Ok(Response::new(v1::CreateJobResponse { job: Some(job) }))
    }

    async fn reserve_job(
        &self,
        request: Request<v1::ReserveJobRequest>,
    ) -> Result<Response<v1::ReserveJobResponse>, Status> {
        let caller = Caller::of(request.extensions());
        caller.check_tenant("account", &request.get_ref().account)?;
        let request = read_reserve(&request.into_inner(), wall_clock())?;
        let request = self.find_nodes(request).await;
        let request = Own { request, caller };
        let job = self.queue.write(request).await?;
        let job = self.to_wire(&job);
        Ok(Response::new(v1::ReserveJobResponse { job: Some(job) }))
    }

    async fn delete_job(
        &self,
        request: Request<v1::DeleteJobRequest>,
    ) -> Result<Response<v1::DeleteJobResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let id = fields::request_id(&request.request_id)?;
        let job = fields::name("job", &request.job, JobName::new)?;
        let Released { ended, revision } = release(&self.queue, id, job, caller).await?;
        Ok(Response::new(v1::DeleteJobResponse {
            revision: revision.0,
            group_count: ended.groups,
            membership_count: ended.memberships,
        }))
    }

    async fn get_job(
        &self,
        request: Request<v1::GetJobRequest>,
    ) -> Result<Response<v1::GetJobResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let name = fields::name("job", &request.into_inner().job, JobName::new)?;
        let job = self.records.read(|directory| copy_job(directory, &name));
        let job = job.filter(|job| owns(&caller, job)).map(|job| self.to_wire(&job));
        let unknown = || {
            Reason::UnknownJob.status(format!("job: no job '{name}'"), &[("job", name.as_str())])
        };
        Ok(Response::new(v1::GetJobResponse { job: Some(job.ok_or_else(unknown)?) }))
    }

    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let after = pages::read_job(&request.page_token)?;
        let published = self.records.collectives.newest();
        Ok(Response::new(self.records.read(|directory| {
            let jobs = directory.jobs_after(after.as_ref()).filter(|job| owns(&caller, job));
            let used = |job: &JobRecord| directory.groups_of_job(&job.name).count();
            let jobs = jobs.map(|job| job_to_wire(used(job), &published, job));
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
        let view = self.placer.view().await.map_err(WriteError::from)?;
        // Trying moves takes long if there are many jobs.
        let report = CallCost::current().turn().await.run(move || report(&view, count)).await;
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
///
/// - `used`: groups that it has.
fn job_to_wire(used: usize, published: &Published, job: &JobRecord) -> v1::Job {
    let nodes = job.nodes.iter().map(|node| v1::JobNode {
        node: node.name.to_string(),
        endpoints: node.endpoints.iter().map(ToString::to_string).collect(),
    });
    v1::Job {
        name: job.name.to_string(),
        job_class: job.class.map_or(v1::JobClass::Unspecified, class_to_wire).into(),
        nodes: nodes.collect(),
        create_time: (job.revision.0 > 0).then(|| encode_timestamp(job.created)),
        revision: job.revision.0,
        share: job.share.as_ref().map(|share| share_to_wire(published, used, share)),
    }
}

fn share_to_wire(published: &Published, used: usize, share: &JobShare) -> v1::JobShare {
    // A reservation that did not fit another topology is gone.
    let reservation = share.reservation.map(ReservationId);
    let is_kept = reservation.is_some_and(|id| published.reservations.contains(&id));
    v1::JobShare {
        user: share.user.as_ref().map_or_else(String::new, ToString::to_string),
        account: share.account.as_ref().map_or_else(String::new, ToString::to_string),
        group_count: share.groups,
        groups_per_step: share.groups_per_step(),
        used_group_count: u32::try_from(used).unwrap_or(u32::MAX),
        end_time: share.ends.map(encode_timestamp),
        expire_time: share.expires.map(encode_timestamp),
        ending: share.ending,
        aggregation_entries: if is_kept { share.aggregation_entries.into() } else { 0 },
    }
}

/// Reads a request for a share.
fn read_reserve(request: &v1::ReserveJobRequest, now: Moment) -> Result<ReserveShare, Status> {
    let invalid = |field: &str, why: String| {
        Reason::NameInvalid.status(format!("{field}: {why}"), &[("field", field)])
    };
    let job = fields::name("job", &request.job, JobName::new)?;
    if job.as_str().contains('/') {
        let why = "the name of a job with groups of its own has no '/'";
        return Err(invalid("job", why.to_owned()));
    }
    if request.token.is_empty() {
        return Err(fields::missing("token"));
    }
    let token =
        JobToken::new(&request.token).map_err(|error| invalid("token", error.to_string()))?;
    if request.nodes.len() > NODES {
        let message = format!("nodes: {}, at most {NODES} are allowed", request.nodes.len());
        return Err(Reason::LimitReached.status(message, &[("field", "nodes")]));
    }
    let mut nodes = BTreeSet::new();
    for text in &request.nodes {
        if !nodes.insert(fields::name("nodes", text, NodeName::new)?) {
            return Err(invalid("nodes", format!("'{text}' is named twice")));
        }
    }
    let [shortest, longest] = LEASE;
    // By hand, since the conversion of the library overflows at the least number.
    let lease = request.lease.map(|lease| {
        let seconds = Duration::from_secs(u64::try_from(lease.seconds).unwrap_or(0));
        let nanos = Duration::from_nanos(u64::try_from(lease.nanos).unwrap_or(0));
        seconds.saturating_add(nanos).clamp(shortest, longest)
    });
    let user = Some(&request.user).filter(|text| !text.is_empty());
    let account = Some(&request.account).filter(|text| !text.is_empty());
    let share = JobShare {
        user: user.map(|text| fields::name("user", text, UserName::new)).transpose()?,
        account: account.map(|text| fields::name("account", text, AccountName::new)).transpose()?,
        groups: request.group_count,
        aggregation_entries: fields::few("aggregation_entries", request.aggregation_entries)?,
        reservation: None,
        steps: request.step_count.max(1),
        token: token.hash(),
        ends: request.end_time.as_ref().map(decode_timestamp),
        expires: lease.map(|lease| now.after(lease)),
        ending: false,
    };
    Ok(ReserveShare { job, nodes: AskedNodes::new(nodes), share })
}
