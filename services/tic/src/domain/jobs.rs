//! Finds nodes for jobs: applies `fabricast_placement` to the nodes of the directory.
//!
//! A node is what has registered under one name, or a single endpoint that no node has. Failed
//! nodes, silent and drained ones and those behind failed parts of the fabric are left out. The
//! allocator is built when it is first needed, and anew when a node or the fabric has changed,
//! which takes long; jobs that begin and end are followed. All of this happens outside of the
//! writer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::job::{JobNode, JobNodes, JobRecord};
use fabricast_groups::names::{EndpointName, JobName, NodeName};
use fabricast_groups::record::{NodeRecord, NodeState};
use fabricast_placement::{
    JobAllocator, JobClass, JobId, JobNames, JobRefusal, JobTopology, Spread, slurm,
};
use fabricast_topology::{EndpointId, FatTree, Faults, Graph};
use thiserror::Error;

use crate::domain::elements::ElementKey;

/// Parts of the fabric and nodes that jobs cannot use, although no record of a node says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Down {
    /// Failed parts of the fabric.
    pub(crate) elements: Arc<BTreeSet<ElementKey>>,
    /// Nodes that do not answer.
    pub(crate) nodes: Arc<BTreeSet<NodeName>>,
}

/// The nodes that a job asks for.
#[derive(Clone, Debug)]
pub(crate) enum PlacementRequest {
    /// Any nodes, this many.
    Count(u32, Spread),
    /// Nodes of these names.
    Nodes(Vec<String>),
}

/// Reason why a job gets no nodes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PlacementError {
    #[error("jobs are placed on fat trees, this fabric is none")]
    NotAFatTree,
    #[error("nodes: no node '{node}'")]
    UnknownNode { node: String },
    /// The allocator refuses it.
    #[error("{text}")]
    Refused {
        refusal: JobRefusal,
        /// The refusal with names in place of numbers.
        text: String,
    },
}

/// The nodes and jobs that an allocator is built from.
#[derive(Debug)]
pub(crate) struct JobRecords {
    /// All nodes, in the order of their names.
    pub(crate) nodes: Vec<Arc<NodeRecord>>,
    pub(crate) jobs: Vec<Arc<JobRecord>>,
}

/// Changes of nodes and jobs since somebody looked last.
#[derive(Debug)]
pub(crate) enum JobNews {
    /// Everything may have changed.
    All(JobRecords),
    /// Jobs that have begun or changed, and those that have ended.
    Jobs(Vec<(JobName, Option<Arc<JobRecord>>)>),
}

/// The jobs and their nodes, as of the last news.
#[derive(Debug)]
pub(crate) struct JobAllocations {
    graph: Arc<Graph>,
    fat_tree: Option<Arc<FatTree>>,
    snapshot: Option<JobSnapshot>,
}

#[derive(Debug)]
struct JobSnapshot {
    down: Down,
    nodes: Vec<JobNode>,
    /// The nodes of endpoints by number.
    owners: BTreeMap<EndpointName, u32>,
    view: JobView,
    ids: BTreeMap<JobName, JobId>,
    next: u64,
}

/// Nodes and jobs at one moment.
#[derive(Clone, Debug)]
pub(crate) struct JobView {
    pub(crate) allocator: JobAllocator,
    pub(crate) names: JobNames,
}

impl JobAllocations {
    pub(crate) fn new(graph: Arc<Graph>) -> Self {
        let fat_tree = FatTree::detect(&graph).ok().map(Arc::new);
        Self { graph, fat_tree, snapshot: None }
    }

    /// True if it has to be built anew.
    pub(crate) fn is_outdated(&self, down: &Down) -> bool {
        self.snapshot.as_ref().is_none_or(|snapshot| snapshot.down != *down)
    }

    /// Follows what has happened.
    ///
    /// - `down`: when the news were taken.
    ///
    /// # Errors
    ///
    /// [`PlacementError::NotAFatTree`].
    pub(crate) fn follow(&mut self, news: JobNews, down: &Down) -> Result<(), PlacementError> {
        let Self { graph, fat_tree, snapshot } = self;
        let fat_tree = fat_tree.as_ref().ok_or(PlacementError::NotAFatTree)?;
        match (news, snapshot) {
            (JobNews::All(records), snapshot) => {
                *snapshot = Some(JobSnapshot::build(graph, fat_tree, &records, down));
            }
            (JobNews::Jobs(jobs), Some(snapshot)) => {
                for (name, job) in jobs {
                    snapshot.forget(&name);
                    job.iter().for_each(|job| snapshot.note(job));
                }
            }
            (JobNews::Jobs(_), None) => {}
        }
        Ok(())
    }

    /// Chooses nodes for a job; changes nothing.
    pub(crate) fn place(
        &mut self,
        request: &PlacementRequest,
    ) -> Result<(JobClass, JobNodes), PlacementError> {
        let snapshot = self.snapshot.as_mut().ok_or(PlacementError::NotAFatTree)?;
        let names = &snapshot.view.names;
        let numbers = match request {
            PlacementRequest::Count(..) => Vec::new(),
            PlacementRequest::Nodes(nodes) => numbers(names, nodes)?,
        };
        let (id, allocator) = (JobId(snapshot.next), &mut snapshot.view.allocator);
        let placed = match request {
            PlacementRequest::Count(count, spread) => allocator.allocate(id, *count, *spread),
            PlacementRequest::Nodes(_) => allocator.reserve(id, &numbers),
        };
        let job = placed.map_err(|refusal| {
            let text = format!("{}: {}", field(&refusal), refusal.in_words(names));
            PlacementError::Refused { refusal, text }
        })?;
        let nodes = job.nodes.iter().map(|node| snapshot.nodes[*node as usize].clone());
        let chosen = (job.class, nodes.collect());
        allocator.release(id); // it is noted when the news of it come
        Ok(chosen)
    }

    /// Copies nodes and jobs.
    pub(crate) fn view(&self) -> Result<JobView, PlacementError> {
        self.snapshot
            .as_ref()
            .map(|snapshot| snapshot.view.clone())
            .ok_or(PlacementError::NotAFatTree)
    }
}

impl JobSnapshot {
    fn build(graph: &Graph, fat_tree: &FatTree, records: &JobRecords, down: &Down) -> Self {
        let mut faults = Faults::new();
        down.elements.iter().for_each(|element| element.note_in(&mut faults, graph));
        let nodes = nodes_in_order(graph, &records.nodes, &mut faults, &down.nodes);
        let endpoints: Vec<Vec<EndpointId>> =
            nodes.iter().map(|(endpoints, _)| endpoints.iter().copied().collect()).collect();
        let nodes: Vec<JobNode> = nodes.into_iter().map(|(_, node)| node).collect();
        let drained = records.nodes.iter().filter(|node| node.drained).map(|node| &node.name);
        let drained: BTreeSet<&NodeName> = drained.collect();
        let drained = (0u32..).zip(&nodes).filter(|(_, node)| drained.contains(&node.name));
        let topology = JobTopology::new(graph, fat_tree, &faults, &endpoints)
            .without(drained.map(|(number, _)| number));
        let names = JobNames {
            nodes: nodes.iter().map(|node| node.name.to_string()).collect(),
            leaves: slurm::leaf_names(graph, fat_tree),
            jobs: BTreeMap::new(),
        };
        let allocator = JobAllocator::new(Arc::new(topology));
        let view = JobView { allocator, names };
        let down = down.clone();
        let owned = (0u32..).zip(&nodes).flat_map(|(number, node)| {
            node.endpoints.iter().map(move |endpoint| (endpoint.clone(), number))
        });
        let owners = owned.collect();
        let mut snapshot = Self { down, nodes, owners, view, ids: BTreeMap::new(), next: 0 };
        records.jobs.iter().for_each(|job| snapshot.note(job));
        snapshot
    }

    /// Notes a job that was placed, once: its record may change. Nodes that a scheduler has chosen
    /// are left to it.
    fn note(&mut self, job: &JobRecord) {
        if job.class.is_none() || self.ids.contains_key(&job.name) {
            return;
        }
        let id = JobId(self.next);
        self.next += 1;
        let endpoints = job.nodes.iter().flat_map(|node| &node.endpoints);
        let nodes: BTreeSet<u32> =
            endpoints.filter_map(|endpoint| self.owners.get(endpoint).copied()).collect();
        let nodes: Vec<u32> = nodes.into_iter().collect();
        match self.view.allocator.restore(id, &nodes) {
            Ok(_) => {
                self.ids.insert(job.name.clone(), id);
                self.view.names.jobs.insert(id, job.name.to_string());
            }
            // The topology has changed since: the job keeps its record, but no node.
            Err(error) => tracing::warn!(%error, "job does not fit on its nodes any more"),
        }
    }

    fn forget(&mut self, name: &JobName) {
        if let Some(id) = self.ids.remove(name) {
            self.view.allocator.release(id);
            self.view.names.jobs.remove(&id);
        }
    }
}

/// Lists the nodes in the order of their endpoints; those that failed or are silent are added to
/// the faults.
fn nodes_in_order(
    graph: &Graph,
    records: &[Arc<NodeRecord>],
    faults: &mut Faults,
    silent: &BTreeSet<NodeName>,
) -> Vec<(BTreeSet<EndpointId>, JobNode)> {
    let mut owned = BTreeSet::new();
    let mut nodes: Vec<(BTreeSet<EndpointId>, JobNode)> = Vec::new();
    // An endpoint of a failed node may belong to another node by now, which comes first.
    let (up, failed): (Vec<_>, Vec<_>) =
        records.iter().partition(|node| node.state == NodeState::Up);
    for node in up.into_iter().chain(failed) {
        let has = node.endpoints.iter().filter_map(|name| {
            graph.find_endpoint(name.as_str()).filter(|endpoint| owned.insert(*endpoint))
        });
        let has: BTreeSet<EndpointId> = has.collect();
        if node.state == NodeState::Failed || silent.contains(&node.name) {
            for endpoint in &has {
                faults.fail_endpoint(*endpoint);
            }
        }
        if !has.is_empty() {
            let endpoints = node.endpoints.clone();
            nodes.push((has, JobNode { name: node.name.clone(), endpoints }));
        }
    }
    let alone = graph.endpoints().filter(|endpoint| !owned.contains(endpoint));
    for endpoint in alone.filter(|endpoint| graph.attachment(*endpoint).is_some()) {
        let name = graph.endpoint_name(endpoint);
        // A name that is too long for a node is left out.
        if let (Ok(node), Ok(own)) = (NodeName::new(name), EndpointName::new(name)) {
            let node = JobNode { name: node, endpoints: vec![own] };
            nodes.push((BTreeSet::from([endpoint]), node));
        }
    }
    nodes.sort_by_key(|(endpoints, _)| endpoints.first().copied());
    nodes
}

fn numbers(names: &JobNames, nodes: &[String]) -> Result<Vec<u32>, PlacementError> {
    let numbers: BTreeMap<&str, u32> = names.nodes.iter().map(String::as_str).zip(0u32..).collect();
    let number = |node: &String| {
        let unknown = || PlacementError::UnknownNode { node: node.clone() };
        numbers.get(&**node).copied().ok_or_else(unknown)
    };
    nodes.iter().map(number).collect()
}

/// The field of the request that a refusal is about.
pub(crate) fn field(refusal: &JobRefusal) -> &'static str {
    match refusal {
        JobRefusal::Exists { .. } => "job",
        JobRefusal::NoNodes | JobRefusal::TooLarge { .. } | JobRefusal::NoRoom(_) => "node_count",
        JobRefusal::UnknownNode { .. }
        | JobRefusal::Twice { .. }
        | JobRefusal::Taken { .. }
        | JobRefusal::LeftOut { .. }
        | JobRefusal::Shared { .. } => "nodes",
    }
}
