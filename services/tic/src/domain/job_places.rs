//! Finds the nodes that a reservation names, and where the nodes of a job are on the fabric.
//!
//! A job may have all nodes, and a look-up of each keeps the writer for too long. So a call finds
//! them before its request waits for the writer. A job has the endpoints that its nodes have while
//! its reservation is being made: whether that is when the call comes or when it is decided does
//! not matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::directory::Directory;
use fabricast_groups::ids::Moment;
use fabricast_groups::job::{JobNode, JobNodes, JobRecord};
use fabricast_groups::names::{AccountName, EndpointName, NodeName};
use fabricast_placement::share::ShareJob;
use fabricast_topology::{EndpointId, Graph};

use crate::domain::shares::ShareError;

/// Nodes that are found at a time, while the records are kept as they are.
const PIECE: usize = 512;

/// The nodes of a job, and where they are on the fabric. A copy shares them.
#[derive(Clone, Debug)]
pub(crate) struct JobPlaces {
    pub(crate) nodes: JobNodes,
    /// Those of their endpoints that the topology has.
    pub(crate) endpoints: Arc<[EndpointId]>,
    /// Number of these on each leaf switch, by number of the switch.
    leaves: Arc<BTreeMap<u32, u32>>,
}

impl JobPlaces {
    /// Cost: some hundred nanoseconds for each endpoint.
    pub(crate) fn new(graph: &Graph, nodes: JobNodes) -> Self {
        let names = nodes.iter().flat_map(|node| &node.endpoints);
        let endpoints = names.filter_map(|name| graph.find_endpoint(name.as_str()));
        let endpoints: Arc<[EndpointId]> = endpoints.collect();
        let mut leaves: BTreeMap<u32, u32> = BTreeMap::new();
        for port in endpoints.iter().filter_map(|endpoint| graph.attachment(*endpoint)) {
            *leaves.entry(graph.switch_of(port).0).or_default() += 1;
        }
        Self { nodes, endpoints, leaves: Arc::new(leaves) }
    }

    /// The job as its share is decided. Cost: O(leaf switches).
    pub(crate) fn share_job(
        &self,
        account: Option<&AccountName>,
        ends: Option<Moment>,
    ) -> ShareJob {
        let account = account.map_or_else(String::new, ToString::to_string);
        let leaves = BTreeMap::clone(&self.leaves);
        ShareJob { account, leaves, ends: ends.map(|ends| ends.0) }
    }
}

/// The nodes that a reservation names.
#[derive(Debug)]
pub(crate) struct AskedNodes {
    names: BTreeSet<NodeName>,
    found: Option<Found>,
}

/// Nodes that were found before the decision.
#[derive(Debug)]
enum Found {
    /// Those of the job, which was there already and has the nodes asked for.
    OfJob(JobPlaces),
    /// Those that have the names.
    Named(Result<JobPlaces, ShareError>),
}

impl AskedNodes {
    /// - `names`: may be empty for a job that exists.
    pub(crate) fn new(names: BTreeSet<NodeName>) -> Self {
        Self { names, found: None }
    }

    /// Finds the nodes, so that the decision does not have to.
    ///
    /// - `known`: the job, if it is there already.
    /// - `find`: finds some hundreds of nodes, see [`find_nodes`].
    #[must_use]
    pub(crate) fn find(
        self,
        graph: &Graph,
        known: Option<&JobRecord>,
        find: impl FnMut(&[&NodeName]) -> Result<Vec<JobNode>, ShareError>,
    ) -> Self {
        let found = match known.filter(|known| self.are_of(known)) {
            Some(known) => Found::OfJob(JobPlaces::new(graph, known.nodes.clone())),
            None => {
                let names: Vec<&NodeName> = self.names.iter().collect();
                let pieces: Result<Vec<_>, _> = names.chunks(PIECE).map(find).collect();
                let nodes = pieces.map(|pieces| pieces.into_iter().flatten().collect());
                Found::Named(nodes.map(|nodes| JobPlaces::new(graph, nodes)))
            }
        };
        Self { found: Some(found), ..self }
    }

    /// True if these are the nodes of a job, or none were named.
    pub(crate) fn are_of(&self, job: &JobRecord) -> bool {
        let Self { names, .. } = self;
        let is_sorted_alike = || job.nodes.iter().map(|node| &node.name).eq(names);
        let are_all = || {
            let has: BTreeSet<&NodeName> = job.nodes.iter().map(|node| &node.name).collect();
            has.into_iter().eq(names)
        };
        names.is_empty() || names.len() <= job.nodes.len() && (is_sorted_alike() || are_all())
    }

    /// Returns the nodes of a job that has those asked for, if they were found before.
    pub(crate) fn of_job(&self, job: &JobRecord) -> Option<&JobPlaces> {
        match &self.found {
            Some(Found::OfJob(places)) => Some(places).filter(|it| it.nodes.is_copy_of(&job.nodes)),
            Some(Found::Named(_)) | None => None,
        }
    }

    /// Returns the nodes that have the names. They are looked for once more if the job, whose nodes
    /// were to be taken, has ended meanwhile.
    ///
    /// # Errors
    ///
    /// [`ShareError::UnknownNode`].
    pub(crate) fn named(
        self,
        graph: &Graph,
        directory: &Directory,
    ) -> Result<JobPlaces, ShareError> {
        match self.found {
            Some(Found::Named(found)) => found,
            Some(Found::OfJob(_)) | None => {
                let names: Vec<&NodeName> = self.names.iter().collect();
                let nodes = find_nodes(graph, directory, &names)?;
                Ok(JobPlaces::new(graph, JobNodes::new(nodes)))
            }
        }
    }
}

/// Finds nodes by name, or by the name of an endpoint that no node has.
pub(crate) fn find_nodes(
    graph: &Graph,
    directory: &Directory,
    names: &[&NodeName],
) -> Result<Vec<JobNode>, ShareError> {
    let find = |name: &&NodeName| {
        let name = NodeName::clone(name);
        if let Some(node) = directory.node(&name) {
            return Ok(JobNode { name, endpoints: node.endpoints.clone() });
        }
        let endpoint = graph.find_endpoint(name.as_str());
        let endpoint = endpoint.and_then(|_| EndpointName::new(name.as_str()).ok());
        match endpoint {
            Some(endpoint) => Ok(JobNode { name, endpoints: vec![endpoint] }),
            None => Err(ShareError::UnknownNode { node: name }),
        }
    };
    names.iter().map(find).collect()
}

#[cfg(test)]
mod tests;
