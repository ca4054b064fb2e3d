//! Releases jobs whose reservation has expired, and goes on with releases that were cut short.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Refusal;
use fabricast_groups::command::{DeleteJob, JobEnd};
use fabricast_groups::ids::{Moment, Revision};
use fabricast_groups::names::{JobName, RequestId};
use fabricast_rpc::{Caller, request_id};
use tokio_util::sync::CancellationToken;

use crate::clock::wall_clock;
use crate::records::Records;
use crate::writer::directory::JobGroupsDeleted;
use crate::writer::error::WriteError;
use crate::writer::queue::WriterQueue;
use crate::writer::requests::Own;

/// Time between two looks at the jobs; the shortest lease is as long.
const INTERVAL: Duration = Duration::from_secs(1);
/// Jobs that are looked at while the records are kept as they are.
const PIECE: usize = 1_024;
/// Records that the end of a job changes in one decision, unless one group has more.
const ENDS: usize = 4_096;

/// Groups that have ended with a job.
pub(crate) struct Released {
    pub(crate) ended: JobEnd,
    pub(crate) revision: Revision,
}

/// Ends a job of the caller, step by step until none of its groups is left.
pub(crate) async fn release(
    queue: &WriterQueue,
    request_id: RequestId,
    job: JobName,
    caller: Caller,
) -> Result<Released, WriteError> {
    let mut request = DeleteJob { request_id, job, most: ENDS, ended: JobEnd::default() };
    let mut latest = Revision(0);
    loop {
        let step = Own { request: request.clone(), caller: caller.clone() };
        let (answer, revision) = match queue.write(step).await {
            Ok(decided) => (decided.answer, decided.revision),
            // Another call has come to the end first.
            Err(WriteError::Directory(Refusal::UnknownJob { .. })) if latest > Revision(0) => {
                return Ok(Released { ended: request.ended, revision: latest });
            }
            Err(error) => return Err(error),
        };
        let JobGroupsDeleted { ended, done } = answer;
        if let Some(revision) = done {
            return Ok(Released { ended, revision });
        }
        (request.ended, latest) = (ended, revision);
    }
}

/// The task of a term that releases jobs.
#[derive(Debug)]
pub(crate) struct JobExpiry {
    records: Arc<Records>,
    queue: WriterQueue,
}

impl JobExpiry {
    pub(crate) fn new(records: Arc<Records>, queue: WriterQueue) -> Self {
        Self { records, queue }
    }

    /// Works until the term ends.
    pub(crate) async fn run(self, end: CancellationToken) {
        // A release that is under way is left alone at first.
        let mut ending = BTreeSet::new();
        loop {
            let now = wall_clock();
            let (due, next) = self.due(now, &ending);
            ending = next;
            for job in due {
                self.release(job).await;
            }
            tokio::select! {
                () = end.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    /// Jobs to release, and those that are being released now.
    fn due(
        &self,
        now: Moment,
        were_ending: &BTreeSet<JobName>,
    ) -> (Vec<JobName>, BTreeSet<JobName>) {
        let (mut due, mut ending) = (Vec::new(), BTreeSet::new());
        let mut after: Option<JobName> = None;
        loop {
            let last = self.records.read(|directory| {
                let mut last = None;
                for job in directory.jobs_after(after.as_ref()).take(PIECE) {
                    last = Some(&job.name);
                    let Some(share) = &job.share else { continue };
                    let is_expired = share.expires.is_some_and(|expires| expires <= now);
                    if is_expired || (share.ending && were_ending.contains(&job.name)) {
                        due.push(job.name.clone());
                    } else if share.ending {
                        ending.insert(job.name.clone());
                    }
                }
                last.cloned()
            });
            if last.is_none() {
                return (due, ending);
            }
            after = last;
        }
    }

    async fn release(&self, job: JobName) {
        let Ok(id) = RequestId::new(&request_id()) else { return };
        match release(&self.queue, id, job.clone(), Caller::Unasked).await {
            Ok(Released { ended, .. }) => {
                tracing::info!(%job, groups = ended.groups, "job released: its reservation expired");
            }
            Err(WriteError::Directory(Refusal::UnknownJob { .. })) => {}
            // It is tried again, here or in the next term.
            Err(error) => tracing::info!(%job, %error, "job not released yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use fabricast_groups::directory::{Directory, Limits};
    use fabricast_groups::job::{JobNodes, JobRecord, JobShare};
    use fabricast_groups::record::Change;
    use fabricast_groups::token::JobToken;
    use fabricast_routing::EngineOptions;
    use fabricast_topology::TableKind;

    use super::*;
    use crate::domain::elements::FailedElements;
    use crate::domain::topology::{TopologySnapshot, TopologySource};
    use crate::records::watchers::Watchers;

    fn records(jobs: impl Iterator<Item = JobRecord>) -> Arc<Records> {
        let options = EngineOptions::new(2, TableKind::PerPort);
        let topology = TopologySnapshot::new(&TopologySource::Discovered, None, options);
        let mut directory = Directory::new(Limits::default());
        jobs.for_each(|job| directory.apply(&Change::JobPut(job)));
        let failed = FailedElements::load(&topology.graph, Vec::new());
        Arc::new(Records::new(&topology, directory, failed, Watchers::new(1, 1)))
    }

    #[test]
    fn all_jobs_are_looked_at_however_many_there_are() {
        let share = JobShare {
            user: None,
            account: None,
            groups: 1,
            aggregation_entries: 0,
            reservation: None,
            steps: 1,
            token: JobToken::new(&"t".repeat(32)).unwrap().hash(),
            ends: None,
            expires: None,
            ending: false,
        };
        let name = |number: usize| JobName::new(&format!("j{number:05}")).unwrap();
        let job = |number: usize| {
            let expires = number.is_multiple_of(2).then_some(Moment(number as u64));
            let share = JobShare { expires, ending: number.is_multiple_of(3), ..share.clone() };
            JobRecord {
                name: name(number),
                class: None,
                nodes: JobNodes::default(),
                created: Moment(0),
                revision: Revision(1),
                share: Some(share).filter(|_| !number.is_multiple_of(5)),
            }
        };
        for count in [0, 1, PIECE, 2 * PIECE + 1] {
            let (queue, _receiver) = WriterQueue::open(1);
            let expiry = JobExpiry::new(records((0..count).map(job)), queue);
            let with_share = || (0..count).filter(|number| !number.is_multiple_of(5));
            let is_expired = |number: &usize| number.is_multiple_of(2) && *number <= PIECE;
            let (due, ending) = expiry.due(Moment(PIECE as u64), &BTreeSet::new());
            assert_eq!(due, with_share().filter(is_expired).map(name).collect::<Vec<_>>());
            let is_ending = |number: &usize| number.is_multiple_of(3) && !is_expired(number);
            let expected: BTreeSet<JobName> = with_share().filter(is_ending).map(name).collect();
            assert_eq!(ending, expected);
            let (due, left) = expiry.due(Moment(0), &ending);
            assert!(due.iter().all(|job| ending.contains(job)) && due.len() == ending.len());
            assert!(left.is_disjoint(&ending));
        }
    }
}
