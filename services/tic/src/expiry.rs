//! Releases jobs whose reservation has expired, and goes on with releases that were cut short.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Refusal;
use fabricast_groups::command::{DeleteJob, JobEnd};
use fabricast_groups::ids::{Moment, Revision};
use fabricast_groups::job::JobShare;
use fabricast_groups::names::{JobName, RequestId};
use fabricast_rpc::{Caller, request_id};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::wall_clock;
use crate::records::Records;
use crate::writer::directory::JobGroupsDeleted;
use crate::writer::error::WriteError;
use crate::writer::queue::WriterQueue;
use crate::writer::requests::Own;

/// Time between two looks at the jobs; the shortest lease is as long.
const INTERVAL: Duration = Duration::from_secs(1);
/// Leases from before a term are not over for this long after its start: nobody could extend them
/// while no TIC led, and records restored from a backup have the leases of its time.
const GRACE: Duration = Duration::from_secs(600);
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
    /// Ends of leases at the start of the term. A lease that has been extended since has another
    /// end, and is not one of them.
    earlier: BTreeMap<JobName, Moment>,
}

impl JobExpiry {
    pub(crate) fn new(records: Arc<Records>, queue: WriterQueue) -> Self {
        let mut earlier = BTreeMap::new();
        look_at_shares(&records, |job, share| {
            earlier.extend(share.expires.map(|expires| (job.clone(), expires)));
        });
        Self { records, queue, earlier }
    }

    /// Works until the term ends.
    pub(crate) async fn run(mut self, end: CancellationToken) {
        let begun = Instant::now();
        // A release that is under way is left alone at first.
        let mut ending = BTreeSet::new();
        loop {
            if begun.elapsed() >= GRACE {
                self.earlier.clear();
            }
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
        look_at_shares(&self.records, |job, share| {
            let is_over = |end: Moment| end <= now && self.earlier.get(job) != Some(&end);
            if share.expires.is_some_and(is_over) || (share.ending && were_ending.contains(job)) {
                due.push(job.clone());
            } else if share.ending {
                ending.insert(job.clone());
            }
        });
        (due, ending)
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

/// Looks at all jobs with a share, and keeps the records as they are for some at a time.
fn look_at_shares(records: &Records, mut look: impl FnMut(&JobName, &JobShare)) {
    let mut after: Option<JobName> = None;
    loop {
        let last = records.read(|directory| {
            let mut last = None;
            for job in directory.jobs_after(after.as_ref()).take(PIECE) {
                last = Some(&job.name);
                if let Some(share) = &job.share {
                    look(&job.name, share);
                }
            }
            last.cloned()
        });
        if last.is_none() {
            return;
        }
        after = last;
    }
}

#[cfg(test)]
mod tests {
    use fabricast_groups::directory::{Directory, Limits};
    use fabricast_groups::job::{JobNodes, JobRecord};
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

    fn name(number: usize) -> JobName {
        JobName::new(&format!("j{number:05}")).unwrap()
    }

    fn job(number: usize, expires: Option<Moment>) -> JobRecord {
        let share = JobShare {
            user: None,
            account: None,
            groups: 1,
            aggregation_entries: 0,
            reservation: None,
            steps: 1,
            token: JobToken::new(&"t".repeat(32)).unwrap().hash(),
            ends: None,
            expires,
            ending: number.is_multiple_of(3),
        };
        JobRecord {
            name: name(number),
            class: None,
            nodes: JobNodes::default(),
            created: Moment(0),
            revision: Revision(1),
            share: Some(share).filter(|_| !number.is_multiple_of(5)),
        }
    }

    /// Nobody could extend it while no TIC led.
    #[tokio::test(start_paused = true)]
    async fn a_lease_from_before_the_term_is_over_minutes_after_its_start_only() {
        let records = records([job(1, Some(Moment(1)))].into_iter());
        let (queue, receiver) = WriterQueue::open(1);
        let expiry = JobExpiry::new(Arc::clone(&records), queue);
        let due = || expiry.due(Moment(2), &BTreeSet::new()).0;
        assert!(due().is_empty());
        records.publish(&[Change::JobPut(job(1, Some(Moment(2))))], &[]);
        assert_eq!(due(), [name(1)], "one that has been extended since may be over");

        records.publish(&[Change::JobPut(job(1, Some(Moment(1))))], &[]);
        let begun = Instant::now();
        let running = tokio::spawn(expiry.run(CancellationToken::new()));
        assert!(receiver.wait().await, "it is released");
        let elapsed = begun.elapsed();
        assert!(elapsed >= GRACE && elapsed < GRACE + INTERVAL * 2, "{elapsed:?}");
        running.abort();
    }

    #[test]
    fn all_jobs_are_looked_at_however_many_there_are() {
        let job =
            |number: usize| job(number, number.is_multiple_of(2).then_some(Moment(number as u64)));
        for count in [0, 1, PIECE, 2 * PIECE + 1] {
            let (queue, _receiver) = WriterQueue::open(1);
            let mut expiry = JobExpiry::new(records((0..count).map(job)), queue);
            expiry.earlier.clear();
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
