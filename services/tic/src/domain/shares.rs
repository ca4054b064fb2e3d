//! Decides how many groups jobs may form: applies `fabricast_placement::share` to the jobs of the
//! directory.
//!
//! The ledger follows the jobs that begin and end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::directory::Directory;
use fabricast_groups::ids::Moment;
use fabricast_groups::job::{JobNode, JobRecord};
use fabricast_groups::names::{AccountName, EndpointName, JobName, NodeName};
use fabricast_groups::record::Change;
use fabricast_placement::share::{ShareJob, ShareLedger, ShareLimit, ShareRefusal, ShareRules};
use fabricast_topology::{Graph, SwitchId};
use thiserror::Error;

/// Why a job gets no share.
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
}

impl JobShares {
    /// Starts with the jobs of a directory.
    pub(crate) fn new(graph: Arc<Graph>, rules: ShareRules, directory: &Directory) -> Self {
        let ledger = build(&graph, &rules, directory);
        Self { graph, rules, ledger }
    }

    /// Starts again with the jobs of a directory.
    pub(crate) fn start_over(&mut self, directory: &Directory) {
        self.ledger = build(&self.graph, &self.rules, directory);
    }

    /// Follows a change of the directory.
    pub(crate) fn applied(&mut self, change: &Change) {
        if let Change::JobPut(job) = change {
            note(&self.graph, &mut self.ledger, job);
        } else if let Change::JobDeleted(name) = change {
            self.ledger.remove(name);
        }
    }

    /// The ledger as tests compare it.
    #[cfg(test)]
    pub(crate) fn view(&self) -> String {
        format!("{:?}", self.ledger)
    }

    /// Finds the nodes of a job, by name or by the name of an endpoint that no node has.
    pub(crate) fn find_nodes(
        &self,
        directory: &Directory,
        names: &BTreeSet<NodeName>,
    ) -> Result<Vec<JobNode>, ShareError> {
        let find = |name: &NodeName| {
            if let Some(node) = directory.node(name) {
                return Ok(JobNode { name: name.clone(), endpoints: node.endpoints.clone() });
            }
            let endpoint = self.graph.find_endpoint(name.as_str());
            let endpoint = endpoint.and_then(|_| EndpointName::new(name.as_str()).ok());
            let unknown = || ShareError::UnknownNode { node: name.clone() };
            let endpoints = vec![endpoint.ok_or_else(unknown)?];
            Ok(JobNode { name: name.clone(), endpoints })
        };
        names.iter().map(find).collect()
    }

    /// Decides how many groups a job gets; changes nothing.
    ///
    /// - `asked`: exactly so many; 0 for its whole share, or what others leave of it.
    pub(crate) fn decide(&self, now: Moment, asked: &AskedShare<'_>) -> Result<u32, ShareError> {
        let Self { graph, ledger, .. } = self;
        let job = share_job(graph, asked.account, asked.nodes, None);
        if asked.nodes.is_empty() {
            return Err(ShareError::NoNodes);
        }
        if job.leaves.is_empty() {
            return Err(ShareError::NotAttached);
        }
        ledger.decide(&job, asked.groups).map_err(|refusal| refused(graph, now, &refusal))
    }
}

/// Request of a job.
pub(crate) struct AskedShare<'a> {
    pub(crate) account: Option<&'a AccountName>,
    pub(crate) nodes: &'a [JobNode],
    pub(crate) groups: u32,
}

fn build(graph: &Graph, rules: &ShareRules, directory: &Directory) -> ShareLedger<JobName> {
    let mut endpoints: BTreeMap<u32, u32> = BTreeMap::new();
    for port in graph.endpoints().filter_map(|endpoint| graph.attachment(endpoint)) {
        *endpoints.entry(graph.switch_of(port).0).or_default() += 1;
    }
    let mut ledger = ShareLedger::new(rules.clone(), endpoints);
    directory.jobs_after(None).for_each(|job| note(graph, &mut ledger, job));
    ledger
}

fn note(graph: &Graph, ledger: &mut ShareLedger<JobName>, job: &JobRecord) {
    match &job.share {
        Some(share) => {
            let noted = share_job(graph, share.account.as_ref(), &job.nodes, share.ends);
            ledger.insert(job.name.clone(), noted, share.groups);
        }
        // It may have lost one that was not stored.
        None => ledger.remove(&job.name),
    }
}

fn share_job(
    graph: &Graph,
    account: Option<&AccountName>,
    nodes: &[JobNode],
    ends: Option<Moment>,
) -> ShareJob {
    let mut leaves: BTreeMap<u32, u32> = BTreeMap::new();
    let names = nodes.iter().flat_map(|node| &node.endpoints);
    let endpoints = names.filter_map(|name| graph.find_endpoint(name.as_str()));
    for port in endpoints.filter_map(|endpoint| graph.attachment(endpoint)) {
        *leaves.entry(graph.switch_of(port).0).or_default() += 1;
    }
    let account = account.map_or_else(String::new, ToString::to_string);
    ShareJob { account, leaves, ends: ends.map(|ends| ends.0) }
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
