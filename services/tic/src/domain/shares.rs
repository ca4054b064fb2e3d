//! Decides how many groups jobs may form: applies `fabricast_placement::share` to the jobs of the
//! directory.
//!
//! The ledger follows the jobs that begin and end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::directory::Directory;
use fabricast_groups::ids::Moment;
use fabricast_groups::job::JobRecord;
use fabricast_groups::names::{AccountName, JobName, NodeName};
use fabricast_groups::record::Change;
use fabricast_placement::share::{ShareLedger, ShareLimit, ShareRefusal, ShareRules};
use fabricast_topology::{Graph, SwitchId};
use thiserror::Error;

use crate::domain::job_places::JobPlaces;

/// Reason why a job gets no share.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ShareError {
    #[error("nodes: no node '{node}'")]
    UnknownNode { node: NodeName },
    #[error("nodes: required, but missing")]
    NoNodes,
    #[error("nodes: none of the job's nodes is attached to a switch")]
    NotAttached,
    /// The rules refuse it.
    #[error("group_count: {asked} groups, {free} are free within {limit}{}", wait_text(*wait))]
    Refused {
        asked: u32,
        free: u32,
        limit: String,
        /// True if the job could have it once others end.
        others: bool,
        /// Time after which enough others will have ended, if they say.
        wait: Option<Duration>,
    },
}

fn wait_text(wait: Option<Duration>) -> String {
    let text = |wait: Duration| format!("; enough jobs end within {} s", wait.as_secs());
    wait.map_or_else(String::new, text)
}

/// The shares of jobs, as the writer has them.
#[derive(Debug)]
pub(crate) struct JobShares {
    graph: Arc<Graph>,
    rules: ShareRules,
    ledger: ShareLedger<JobName>,
    /// The nodes of the jobs in the ledger.
    places: BTreeMap<JobName, JobPlaces>,
    /// Those of the latest request.
    asked: Option<JobPlaces>,
}

impl JobShares {
    /// Starts with the jobs of a directory.
    pub(crate) fn new(graph: Arc<Graph>, rules: ShareRules, directory: &Directory) -> Self {
        let ledger = ShareLedger::new(rules.clone(), endpoint_counts(&graph));
        let mut shares = Self { graph, rules, ledger, places: BTreeMap::new(), asked: None };
        directory.jobs_after(None).for_each(|job| shares.note(job));
        shares
    }

    /// Starts again with the jobs of a directory.
    pub(crate) fn start_over(&mut self, directory: &Directory) {
        *self = Self::new(Arc::clone(&self.graph), self.rules.clone(), directory);
    }

    /// Follows a change of the directory.
    pub(crate) fn applied(&mut self, change: &Change) {
        if let Change::JobPut(job) = change {
            self.note(job);
        } else if let Change::JobDeleted(name) = change {
            self.forget(name);
        }
    }

    /// The ledger as tests compare it.
    #[cfg(test)]
    pub(crate) fn view(&self) -> String {
        format!("{:?}", self.ledger)
    }

    /// The topology that nodes are looked up in.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The nodes of a job. Cost: O(1) if the writer has looked them up before.
    pub(crate) fn places_of(&self, job: &JobRecord) -> JobPlaces {
        let known = [self.places.get(&job.name), self.asked.as_ref()];
        let known = known.into_iter().flatten().find(|one| one.nodes.is_copy_of(&job.nodes));
        known.cloned().unwrap_or_else(|| JobPlaces::new(&self.graph, job.nodes.clone()))
    }

    /// Decides how many groups a job gets; changes nothing in the ledger.
    ///
    /// - `asked`: exactly so many; 0 for its whole share, or what others leave of it.
    pub(crate) fn decide(
        &mut self,
        now: Moment,
        asked: &AskedShare<'_>,
    ) -> Result<u32, ShareError> {
        let AskedShare { account, places, groups } = *asked;
        self.asked = Some(places.clone());
        let job = places.share_job(account, None);
        if places.nodes.is_empty() {
            return Err(ShareError::NoNodes);
        }
        if job.leaves.is_empty() {
            return Err(ShareError::NotAttached);
        }
        let decided = self.ledger.decide(&job, groups);
        decided.map_err(|refusal| refused(&self.graph, now, &refusal))
    }

    fn note(&mut self, job: &JobRecord) {
        let Some(share) = &job.share else {
            // It may have lost one that was not stored.
            self.forget(&job.name);
            return;
        };
        let places = self.places_of(job);
        let noted = places.share_job(share.account.as_ref(), share.ends);
        self.ledger.insert(job.name.clone(), noted, share.groups);
        self.places.insert(job.name.clone(), places);
    }

    fn forget(&mut self, job: &JobName) {
        self.ledger.remove(job);
        self.places.remove(job);
    }
}

/// Request of a job.
pub(crate) struct AskedShare<'a> {
    pub(crate) account: Option<&'a AccountName>,
    pub(crate) places: &'a JobPlaces,
    pub(crate) groups: u32,
}

/// Counts the endpoints of each leaf switch.
fn endpoint_counts(graph: &Graph) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    for port in graph.endpoints().filter_map(|endpoint| graph.attachment(endpoint)) {
        *counts.entry(graph.switch_of(port).0).or_default() += 1;
    }
    counts
}

fn refused(graph: &Graph, now: Moment, refusal: &ShareRefusal) -> ShareError {
    let limit = match &refusal.limit {
        ShareLimit::Leaf { switch } => {
            format!("the entries of switch '{}'", graph.switch_name(SwitchId(*switch)))
        }
        other => other.to_string(),
    };
    let wait = refusal.from.map(|from| Moment(from).since(now));
    let others = matches!(refusal.limit, ShareLimit::Leaf { .. } | ShareLimit::AllJobs);
    ShareError::Refused { asked: refusal.asked, free: refusal.free, limit, others, wait }
}
