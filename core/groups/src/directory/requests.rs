//! Look-ups in the log of answered requests (S1).

use super::Directory;
use crate::command::Refusal;
use crate::names::{GroupName, JobName, RequestId};
use crate::record::Outcome;

/// Returns the outcome of an earlier request with this id; `None` if there was none. Refuses an id
/// that was used for another subject.
pub(super) fn remembered<'a>(
    directory: &'a Directory,
    id: &RequestId,
    group: &GroupName,
) -> Result<Option<&'a Outcome>, Refusal> {
    let sequence = directory.request_ids.get(id);
    match sequence.and_then(|sequence| directory.requests.get(sequence)) {
        Some(request) if request.group == *group => Ok(Some(&request.outcome)),
        Some(_) => Err(reused(id)),
        None => Ok(None),
    }
}

pub(super) fn reused(request_id: &RequestId) -> Refusal {
    Refusal::RequestIdReused { request_id: request_id.clone() }
}

/// Returns the subject under which the log keeps a request about a job.
pub(super) fn job_subject(job: &JobName) -> GroupName {
    GroupName::new(job.as_str()).expect("one rule holds for all names")
}
