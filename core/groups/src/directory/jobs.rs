//! Decisions on jobs.

use super::draft::{Draft, check_limit};
use super::requests::{job_subject, remembered, reused};
use crate::command::{Answer, Refusal};
use crate::job::{CreateJob, JobRecord};
use crate::names::{JobName, RequestId};
use crate::record::{Change, Outcome};

/// Creates a job.
pub(super) fn create(draft: &mut Draft<'_>, request: &CreateJob) -> Result<Answer, Refusal> {
    if let Some(job) = draft.base.created_job(&request.request_id, &request.job)? {
        return Ok(Answer::JobCreated(job.clone()));
    }
    check_limit("jobs", draft.base.jobs.len() + 1, draft.base.limits.jobs)?;
    for endpoint in request.nodes.iter().flat_map(|node| &node.endpoints) {
        if let Some(job) = draft.base.job_endpoints.get(endpoint) {
            let (endpoint, job) = (endpoint.clone(), job.clone());
            return Err(Refusal::EndpointInJob { endpoint, job });
        }
    }
    let revision = draft.revision;
    let job = JobRecord {
        name: request.job.clone(),
        class: request.class,
        nodes: request.nodes.clone(),
        created: draft.now,
        revision,
    };
    draft.changes.push(Change::JobPut(job.clone()));
    let outcome = Outcome::JobCreated { revision };
    draft.remember(&request.request_id, &job_subject(&job.name), outcome);
    Ok(Answer::JobCreated(job))
}

/// Ends a job and frees its nodes.
pub(super) fn delete(
    draft: &mut Draft<'_>,
    request_id: &RequestId,
    job: &JobName,
) -> Result<Answer, Refusal> {
    match remembered(draft.base, request_id, &job_subject(job))? {
        Some(Outcome::JobDeleted { revision }) => {
            return Ok(Answer::JobDeleted { revision: *revision });
        }
        Some(_) => return Err(reused(request_id)),
        None => {}
    }
    if !draft.base.jobs.contains_key(job) {
        return Err(Refusal::UnknownJob { job: job.clone() });
    }
    let revision = draft.revision;
    draft.changes.push(Change::JobDeleted(job.clone()));
    draft.remember(request_id, &job_subject(job), Outcome::JobDeleted { revision });
    Ok(Answer::JobDeleted { revision })
}
