//! Finds nodes for jobs: what `fabricast_routing::jobs` decides, on the nodes there are.
//!
//! A node is what has registered under one name, or a single endpoint that no node has. Failed nodes and
//! those behind failed parts of the fabric are left out. The picture is drawn when it is first
//! needed, and anew when a node or the fabric has changed; jobs that come and go are noted in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::directory::Directory;
use fabricast_groups::job::{JobNode, JobRecord};
use fabricast_groups::names::{EndpointName, JobName, NodeName};
use fabricast_groups::record::{Change, NodeState};
use fabricast_routing::jobs::{
    JobAllocator, JobClass, JobGround, JobId, JobNames, JobRefusal, Spread, slurm,
};
use fabricast_rpc::Reason;
use fabricast_topology::{EndpointId, FatTree, Faults, Graph};
use tonic::Status;

use crate::elements::ElementKey;

/// Which nodes a job asks for.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// So many.
    Count(u32, Spread),
    /// These.
    Nodes(Vec<String>),
}

/// The writer's view of nodes and jobs.
#[derive(Debug)]
pub(crate) struct JobDesk {
    graph: Arc<Graph>,
    fat_tree: Option<Arc<FatTree>>,
    picture: Option<Picture>,
}

#[derive(Debug)]
struct Picture {
    failed: BTreeSet<ElementKey>,
    nodes: Vec<JobNode>,
    view: JobView,
    ids: BTreeMap<JobName, JobId>,
    next: u64,
}

/// Nodes and jobs as they are at one moment.
#[derive(Clone, Debug)]
pub(crate) struct JobView {
    pub(crate) allocator: JobAllocator,
    pub(crate) names: JobNames,
}

impl JobDesk {
    pub(crate) fn new(graph: Arc<Graph>) -> Self {
        let fat_tree = FatTree::detect(&graph).ok().map(Arc::new);
        Self { graph, fat_tree, picture: None }
    }

    /// Forgets everything, as the records may be others now.
    pub(crate) fn start_over(&mut self) {
        self.picture = None;
    }

    /// Takes note of a change of the directory.
    pub(crate) fn applied(&mut self, change: &Change) {
        match change {
            Change::NodePut(_) => self.picture = None,
            Change::JobPut(job) => {
                if let Some(picture) = &mut self.picture {
                    picture.note(job);
                }
            }
            Change::JobDeleted(name) => {
                if let Some(picture) = &mut self.picture {
                    picture.forget(name);
                }
            }
            Change::GroupPut(_)
            | Change::GroupDeleted(_)
            | Change::MemberPut(_)
            | Change::MemberDeleted(_)
            | Change::MgidRetired(..)
            | Change::MgidReleased(_)
            | Change::RequestPut(_)
            | Change::RequestDeleted(_)
            | Change::NextGnPut(_)
            | Change::RevisionPut(_) => {}
        }
    }

    /// Chooses nodes for a job; changes nothing.
    pub(crate) fn place(
        &mut self,
        directory: &Directory,
        failed: &BTreeSet<ElementKey>,
        wish: &Wish,
    ) -> Result<(JobClass, Vec<JobNode>), Status> {
        let picture = self.picture(directory, failed)?;
        let names = &picture.view.names;
        let numbers = match wish {
            Wish::Count(..) => Vec::new(),
            Wish::Nodes(nodes) => numbers(names, nodes)?,
        };
        let (id, allocator) = (JobId(picture.next), &mut picture.view.allocator);
        let placed = match wish {
            Wish::Count(count, spread) => allocator.allocate(id, *count, *spread),
            Wish::Nodes(_) => allocator.reserve(id, &numbers),
        };
        let job = placed.map_err(|refusal| refused(&refusal, names))?;
        let nodes = job.nodes.iter().map(|node| picture.nodes[*node as usize].clone());
        let chosen = (job.class, nodes.collect());
        allocator.release(id); // it counts when the change is applied
        Ok(chosen)
    }

    /// Shows nodes and jobs as they are.
    pub(crate) fn view(
        &mut self,
        directory: &Directory,
        failed: &BTreeSet<ElementKey>,
    ) -> Result<JobView, Status> {
        self.picture(directory, failed).map(|picture| picture.view.clone())
    }

    fn picture(
        &mut self,
        directory: &Directory,
        failed: &BTreeSet<ElementKey>,
    ) -> Result<&mut Picture, Status> {
        if self.picture.as_ref().is_some_and(|picture| picture.failed != *failed) {
            self.picture = None;
        }
        let Self { graph, fat_tree, picture } = self;
        let fat_tree = fat_tree.as_ref().ok_or_else(|| {
            Reason::NotAFatTree.status("jobs are placed on fat trees, this fabric is none", &[])
        })?;
        Ok(picture.get_or_insert_with(|| Picture::draw(graph, fat_tree, directory, failed)))
    }
}

impl Picture {
    fn draw(
        graph: &Graph,
        fat_tree: &FatTree,
        directory: &Directory,
        failed: &BTreeSet<ElementKey>,
    ) -> Self {
        let mut faults = Faults::new();
        failed.iter().for_each(|element| element.note_in(&mut faults, graph));
        let sites = sites(graph, directory, &mut faults);
        let endpoints: Vec<Vec<EndpointId>> =
            sites.iter().map(|(endpoints, _)| endpoints.iter().copied().collect()).collect();
        let nodes: Vec<JobNode> = sites.into_iter().map(|(_, node)| node).collect();
        let ground = JobGround::new(graph, fat_tree, &faults, &endpoints);
        let names = JobNames {
            nodes: nodes.iter().map(|node| node.name.to_string()).collect(),
            leaves: slurm::leaf_names(graph, fat_tree),
            jobs: BTreeMap::new(),
        };
        let allocator = JobAllocator::new(Arc::new(ground));
        let view = JobView { allocator, names };
        let failed = failed.clone();
        let mut picture = Self { failed, nodes, view, ids: BTreeMap::new(), next: 0 };
        directory.jobs_after(None).for_each(|job| picture.note(job));
        picture
    }

    /// Takes a job over that has been decided.
    fn note(&mut self, job: &JobRecord) {
        let id = JobId(self.next);
        self.next += 1;
        let has: BTreeSet<&EndpointName> =
            job.nodes.iter().flat_map(|node| &node.endpoints).collect();
        let nodes: Vec<u32> = (0u32..)
            .zip(&self.nodes)
            .filter(|(_, node)| node.endpoints.iter().any(|endpoint| has.contains(endpoint)))
            .map(|(number, _)| number)
            .collect();
        match self.view.allocator.restore(id, &nodes) {
            Ok(_) => {
                self.ids.insert(job.name.clone(), id);
                self.view.names.jobs.insert(id, job.name.to_string());
            }
            // The topology has changed since: the job keeps its record and no node.
            Err(error) => tracing::warn!(%error, "job cannot be placed where it was"),
        }
    }

    fn forget(&mut self, name: &JobName) {
        if let Some(id) = self.ids.remove(name) {
            self.view.allocator.release(id);
            self.view.names.jobs.remove(&id);
        }
    }
}

/// Lists the nodes in the order of their endpoints; those that failed are added to the faults.
fn sites(
    graph: &Graph,
    directory: &Directory,
    faults: &mut Faults,
) -> Vec<(BTreeSet<EndpointId>, JobNode)> {
    let mut owned = BTreeSet::new();
    let mut sites: Vec<(BTreeSet<EndpointId>, JobNode)> = Vec::new();
    // Of an endpoint that a failed node had, the node that has it now counts.
    let (up, failed): (Vec<_>, Vec<_>) =
        directory.nodes().partition(|node| node.state == NodeState::Up);
    for node in up.into_iter().chain(failed) {
        let has = node.endpoints.iter().filter_map(|name| {
            graph.find_endpoint(name.as_str()).filter(|endpoint| owned.insert(*endpoint))
        });
        let has: BTreeSet<EndpointId> = has.collect();
        if node.state == NodeState::Failed {
            for endpoint in &has {
                faults.fail_endpoint(*endpoint);
            }
        }
        if !has.is_empty() {
            let endpoints = node.endpoints.clone();
            sites.push((has, JobNode { name: node.name.clone(), endpoints }));
        }
    }
    let alone = graph.endpoints().filter(|endpoint| !owned.contains(endpoint));
    for endpoint in alone.filter(|endpoint| graph.attachment(*endpoint).is_some()) {
        let name = graph.endpoint_name(endpoint);
        // A name that is too long to register under is too long for a job.
        if let (Ok(node), Ok(own)) = (NodeName::new(name), EndpointName::new(name)) {
            let node = JobNode { name: node, endpoints: vec![own] };
            sites.push((BTreeSet::from([endpoint]), node));
        }
    }
    sites.sort_by_key(|(endpoints, _)| endpoints.first().copied());
    sites
}

fn numbers(names: &JobNames, nodes: &[String]) -> Result<Vec<u32>, Status> {
    let numbers: BTreeMap<&str, u32> = names.nodes.iter().map(String::as_str).zip(0u32..).collect();
    let number = |node: &String| {
        numbers.get(&**node).copied().ok_or_else(|| {
            Reason::UnknownNode.status(format!("nodes: no node '{node}'"), &[("node", node)])
        })
    };
    nodes.iter().map(number).collect()
}

/// Turns a refusal into the status its caller gets.
fn refused(refusal: &JobRefusal, names: &JobNames) -> Status {
    let (reason, field) = match refusal {
        JobRefusal::NoNodes => (Reason::FieldMissing, "node_count"),
        JobRefusal::Exists { .. } => (Reason::JobExists, "job"),
        JobRefusal::TooLarge { .. } | JobRefusal::NoRoom(_) => (Reason::NoRoom, "node_count"),
        JobRefusal::UnknownNode { .. } => (Reason::UnknownNode, "nodes"),
        JobRefusal::Twice { .. } => (Reason::NameInvalid, "nodes"),
        JobRefusal::Taken { .. } => (Reason::NodeTaken, "nodes"),
        JobRefusal::LeftOut { .. } => (Reason::NodeDown, "nodes"),
        JobRefusal::Shared { .. } => (Reason::LinksShared, "nodes"),
    };
    reason.status(format!("{field}: {}", refusal.in_words(names)), &[("field", field)])
}
