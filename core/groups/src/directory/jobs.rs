//! Decisions on jobs.

use super::draft::{Draft, check_limit};
use super::requests::{job_subject, remembered, reused};
use crate::command::{Answer, DeleteJob, Refusal};
use crate::job::{CreateJob, JobRecord, JobShare, ReserveJob};
use crate::record::{Change, NodeState, Outcome};

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
    for node in &request.nodes {
        // They were chosen before.
        let record = draft.base.node(&node.name);
        if record.is_some_and(|record| record.drained || record.state == NodeState::Failed) {
            return Err(Refusal::NodeFailed { node: node.name.clone() });
        }
    }
    let revision = draft.revision;
    let job = JobRecord {
        name: request.job.clone(),
        class: Some(request.class),
        nodes: request.nodes.clone(),
        created: draft.now,
        revision,
        share: None,
    };
    draft.changes.push(Change::JobPut(job.clone()));
    let outcome = Outcome::JobCreated { revision };
    draft.remember(&request.request_id, &job_subject(&job.name), outcome);
    Ok(Answer::JobCreated(job))
}

/// Reserves a share for a job, which is created if necessary.
pub(super) fn reserve(draft: &mut Draft<'_>, request: &ReserveJob) -> Result<Answer, Refusal> {
    let ReserveJob { job: name, nodes, share } = request;
    let known = draft.base.job(name);
    let job = match known {
        Some(known) => reserved_again(known, request)?,
        None => {
            check_limit("jobs", draft.base.jobs.len() + 1, draft.base.limits.jobs)?;
            JobRecord {
                name: name.clone(),
                class: None,
                nodes: nodes.clone(),
                created: draft.now,
                revision: draft.revision,
                share: Some(share.clone()),
            }
        }
    };
    if known != Some(&job) {
        draft.changes.push(Change::JobPut(job.clone()));
    }
    Ok(Answer::JobReserved(job))
}

/// Returns a job with its share after a repeated reservation, or after the first one for a job that
/// was placed.
fn reserved_again(known: &JobRecord, request: &ReserveJob) -> Result<JobRecord, Refusal> {
    let exists = || Refusal::JobExists { job: known.name.clone() };
    if !request.nodes.is_empty() && request.nodes != known.nodes {
        return Err(exists());
    }
    let asked = &request.share;
    let share = match &known.share {
        None => asked.clone(),
        Some(held) if held.ending => {
            return Err(Refusal::JobEnding { job: known.name.clone() });
        }
        Some(held) => {
            let same_holder = (&held.user, &held.account) == (&asked.user, &asked.account);
            let size = |share: &JobShare| (share.groups, share.steps, share.aggregation_entries);
            let same_size = size(held) == size(asked);
            if !same_holder || !same_size || held.token != asked.token {
                return Err(exists());
            }
            JobShare { ends: asked.ends, expires: asked.expires, ..held.clone() }
        }
    };
    Ok(JobRecord { share: Some(share), ..known.clone() })
}

/// Ends a job and frees its nodes; before that, the groups of one with a share.
pub(super) fn delete(draft: &mut Draft<'_>, request: &DeleteJob) -> Result<Answer, Refusal> {
    let DeleteJob { request_id, job: name, most, ended } = request;
    match remembered(draft.base, request_id, &job_subject(name))? {
        Some(Outcome::JobDeleted { revision, ended }) => {
            return Ok(Answer::JobDeleted { ended: *ended, done: Some(*revision) });
        }
        Some(_) => return Err(reused(request_id)),
        None => {}
    }
    let job = draft.base.job(name);
    let job = job.ok_or_else(|| Refusal::UnknownJob { job: name.clone() })?;
    let mut ended = *ended;
    if let Some(share) = &job.share {
        let groups = draft.base.groups_of_job(name);
        if !draft.delete_job_groups(groups, *most, &mut ended) {
            if !share.ending {
                // From now on nobody forms further ones.
                let share = JobShare { ending: true, ..share.clone() };
                let record = JobRecord { share: Some(share), ..job.clone() };
                draft.changes.push(Change::JobPut(record));
            }
            return Ok(Answer::JobDeleted { ended, done: None });
        }
    }
    let revision = draft.revision;
    draft.changes.push(Change::JobDeleted(name.clone()));
    let outcome = Outcome::JobDeleted { revision, ended };
    draft.remember(request_id, &job_subject(name), outcome);
    Ok(Answer::JobDeleted { ended, done: Some(revision) })
}
