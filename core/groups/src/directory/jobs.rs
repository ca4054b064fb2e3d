//! Jobs in the directory: what is decided of them and what each change does.

use super::Directory;
use super::decide::{remembered, reused};
use super::draft::{Draft, check_limit};
use crate::command::{Answer, Refusal};
use crate::job::{CreateJob, JobRecord};
use crate::names::{EndpointName, GroupName, JobName, RequestId};
use crate::record::{Change, Outcome};

impl Directory {
    /// Answers a job.
    pub fn job(&self, name: &JobName) -> Option<&JobRecord> {
        self.jobs.get(name)
    }

    /// Answers the jobs that follow `after` by name, for pages of a list.
    pub fn jobs_after(&self, after: Option<&JobName>) -> impl Iterator<Item = &JobRecord> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.jobs.range((from, std::ops::Bound::Unbounded)).map(|(_, job)| job)
    }

    /// Answers the job that has an endpoint.
    pub fn job_of_endpoint(&self, endpoint: &EndpointName) -> Option<&JobName> {
        self.job_endpoints.get(endpoint)
    }

    /// Answers the job that a repeated request created; `None` if the request is new.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the request was another one, its job is gone, or another job has the name.
    pub fn created_job(
        &self,
        request_id: &RequestId,
        job: &JobName,
    ) -> Result<Option<&JobRecord>, Refusal> {
        let there = self.jobs.get(job);
        match remembered(self, request_id, &subject(job))? {
            Some(Outcome::JobCreated { revision }) => {
                let ended = || Refusal::JobEnded { request_id: request_id.clone() };
                there.filter(|job| job.revision == *revision).map(Some).ok_or_else(ended)
            }
            Some(
                Outcome::Joined { .. }
                | Outcome::Left { .. }
                | Outcome::Created { .. }
                | Outcome::Deleted { .. }
                | Outcome::Formed { .. }
                | Outcome::JobGroupsDeleted { .. }
                | Outcome::JobDeleted { .. },
            ) => Err(reused(request_id)),
            None if there.is_some() => Err(Refusal::JobExists { job: job.clone() }),
            None => Ok(None),
        }
    }

    pub(super) fn put_job(&mut self, job: &JobRecord) {
        for endpoint in job.nodes.iter().flat_map(|node| &node.endpoints) {
            self.job_endpoints.insert(endpoint.clone(), job.name.clone());
        }
        self.jobs.insert(job.name.clone(), job.clone());
    }

    pub(super) fn delete_job(&mut self, name: &JobName) {
        let Some(job) = self.jobs.remove(name) else { return };
        for endpoint in job.nodes.iter().flat_map(|node| &node.endpoints) {
            self.job_endpoints.remove(endpoint);
        }
    }
}

/// Decides to create a job.
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
    draft.remember(&request.request_id, &subject(&job.name), outcome);
    Ok(Answer::JobCreated(job))
}

/// Decides to end a job; its nodes are free then.
pub(super) fn delete(
    draft: &mut Draft<'_>,
    request_id: &RequestId,
    job: &JobName,
) -> Result<Answer, Refusal> {
    if let Some(outcome) = remembered(draft.base, request_id, &subject(job))? {
        return match outcome {
            Outcome::JobDeleted { revision } => Ok(Answer::JobDeleted { revision: *revision }),
            Outcome::Joined { .. }
            | Outcome::Left { .. }
            | Outcome::Created { .. }
            | Outcome::Deleted { .. }
            | Outcome::Formed { .. }
            | Outcome::JobGroupsDeleted { .. }
            | Outcome::JobCreated { .. } => Err(reused(request_id)),
        };
    }
    if !draft.base.jobs.contains_key(job) {
        return Err(Refusal::UnknownJob { job: job.clone() });
    }
    let revision = draft.revision;
    draft.changes.push(Change::JobDeleted(job.clone()));
    draft.remember(request_id, &subject(job), Outcome::JobDeleted { revision });
    Ok(Answer::JobDeleted { revision })
}

/// What the log of requests says a job's request was about.
pub(super) fn subject(job: &JobName) -> GroupName {
    GroupName::new(job.as_str()).expect("one rule holds for all names")
}
