//! The committed records, which all readers see.
//!
//! Only the writer changes them, once its store transaction is durable, so nothing here is ever
//! undone. Watches are opened and fed under the same lock.

pub mod backup;
pub(crate) mod choices;
pub(crate) mod copy;
pub(crate) mod keys;
pub(crate) mod layout;
pub(crate) mod redo_log;
pub(crate) mod storage;
pub(crate) mod watch_snapshot;
pub(crate) mod watchers;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabricast_groups::directory::{Directory, DirectoryCopy, GroupCopy, copy_job, copy_jobs};
use fabricast_groups::ids::Gn;
use fabricast_groups::names::{EndpointName, JobName, NodeName};
use fabricast_groups::record::{Change, GroupRecord, MemberRecord, NodeRecord, NodeState};
use fabricast_groups::watch::{NodeIncarnation, NodeLookup, affected_incarnations};
use fabricast_proto::v1;
use fabricast_topology::Graph;
use fabricast_wire::{encode_group, encode_member, encode_node};
use parking_lot::{Mutex, RwLock};
use v1::directory_change::Kind;

use crate::clock::wall_clock;
use crate::domain::collectives::published::Publisher;
use crate::domain::elements::{DrainError, ElementKey, FailedElements, TooManyReporters};
use crate::domain::jobs::{JobNews, JobRecords};
use crate::domain::topology::TopologySnapshot;
use crate::liveness::hints::Hint;
use crate::liveness::inbox::CutOff;
use crate::records::watch_snapshot::WatchSnapshot;
use crate::records::watchers::{TooManyWatches, WatchEnd, WatchStream, Watchers};

/// Changes of jobs that are kept for those who place jobs; after more they read all jobs again.
const MOST_JOB_CHANGES: usize = 1 << 16;
/// A reader is logged that keeps the records for longer.
const LONG_READ: Duration = Duration::from_millis(20);

/// The committed records, shared by everything that reads them.
#[derive(Debug)]
pub(crate) struct Records {
    graph: Arc<Graph>,
    topology_sha256: Vec<u8>,
    state: RwLock<State>,
    /// Changes for those who place jobs.
    job_changes: Mutex<JobChanges>,
    pub(crate) collectives: Arc<Publisher>,
}

/// Changes of nodes and jobs since they were asked for.
#[derive(Debug, Default)]
struct JobChanges {
    /// Jobs that have changed; `None` if nodes have, too, or very many jobs.
    jobs: Option<BTreeSet<JobName>>,
}

#[derive(Debug)]
struct State {
    directory: Directory,
    failed: FailedElements,
    /// Opened by readers; fed by the task that owns the records.
    watchers: Mutex<Watchers>,
}

impl State {
    /// Tells watchers what trees have to avoid now.
    fn publish_failed(&mut self, graph: &Graph) {
        let Self { directory, failed, watchers } = self;
        let revision = directory.revision().0;
        let changes = || vec![wrap(Kind::FailedElements(failed.to_wire(graph)))];
        watchers.get_mut().publish(revision, revision, &[], changes);
    }
}

/// The effects of a commit beside those on watchers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Affected {
    /// Group agents that are now behind.
    pub(crate) hints: BTreeSet<Hint>,
    /// Incarnations of nodes that have begun or ended, or to host group agents.
    pub(crate) incarnations: BTreeSet<NodeIncarnation>,
    /// Nodes that have registered a new incarnation.
    pub(crate) nodes: Vec<NodeIncarnation>,
}

impl Records {
    pub(crate) fn new(
        topology: &TopologySnapshot,
        directory: Directory,
        failed: FailedElements,
        watchers: Watchers,
    ) -> Self {
        let state = State { directory, failed, watchers: Mutex::new(watchers) };
        Self {
            graph: Arc::clone(&topology.graph),
            topology_sha256: topology.sha256.to_vec(),
            state: RwLock::new(state),
            job_changes: Mutex::default(),
            collectives: Arc::default(),
        }
    }

    /// Reads the directory. Changes wait meanwhile: what may be long is copied, and encoded after
    /// it.
    #[track_caller]
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Directory) -> T) -> T {
        let reader = Location::caller();
        let guard = self.state.read();
        let begun = Instant::now();
        let found = read(&guard.directory);
        let held = begun.elapsed();
        drop(guard);
        if held > LONG_READ {
            let elapsed_ms = u64::try_from(held.as_millis()).unwrap_or(u64::MAX);
            tracing::debug!(elapsed_ms, %reader, "a reader kept the records");
        }
        found
    }

    /// Applies committed changes and sends them to the watchers.
    ///
    /// - `origins`: of the traced requests that caused them.
    pub(crate) fn publish(&self, changes: &[Change], origins: &[String]) -> Affected {
        let mut guard = self.state.write();
        let State { directory, watchers, .. } = &mut *guard;
        let before = directory.revision().0;
        let mut affected = Affected::default();
        for change in changes {
            note_affected(directory, change, &mut affected);
            affected.incarnations.extend(affected_incarnations(directory, change));
            directory.apply(change);
        }
        self.job_changes.lock().note(changes);
        let revision = directory.revision().0;
        let changes = || wire_changes(directory, changes);
        watchers.get_mut().publish(before, revision, origins, changes);
        affected
    }

    /// Returns what has happened to nodes and jobs since the last call.
    ///
    /// - `all`: what there is, whatever has happened.
    pub(crate) fn job_news(&self, all: bool) -> JobNews {
        let state = self.state.read();
        match self.job_changes.lock().jobs.replace(BTreeSet::new()).filter(|_| !all) {
            Some(names) => {
                let job = |name: JobName| (name.clone(), copy_job(&state.directory, &name));
                JobNews::Jobs(names.into_iter().map(job).collect())
            }
            None => {
                let (nodes, jobs) = copy_jobs(&state.directory);
                JobNews::All(JobRecords { nodes, jobs })
            }
        }
    }

    /// Replaces the records; watchers have to start again.
    pub(crate) fn replace(&self, directory: Directory) {
        let mut state = self.state.write();
        state.directory = directory;
        self.job_changes.lock().jobs = None;
        state.watchers.get_mut().close(WatchEnd::RecordsReplaced);
    }

    /// Ends all watches.
    pub(crate) fn close(&self, end: WatchEnd) {
        let mut state = self.state.write();
        state.watchers.get_mut().close(end);
        self.collectives.close();
    }

    /// Opens a watch. Others read meanwhile; changes wait until the records are copied.
    pub(crate) fn watch(&self) -> Result<WatchStream, TooManyWatches> {
        let guard = self.state.read();
        let State { directory, failed, watchers } = &*guard;
        watchers.lock().open(|| {
            let failed = failed.to_wire(&self.graph);
            Box::new(WatchSnapshot::new(
                DirectoryCopy::of(directory),
                failed,
                &self.topology_sha256,
            ))
        })
    }

    /// Returns whether a reporter's list differs from its last one.
    pub(crate) fn is_news(
        &self,
        reporter: &str,
        elements: &BTreeSet<ElementKey>,
    ) -> Result<bool, TooManyReporters> {
        let state = self.state.read();
        state.failed.is_news(reporter, elements)
    }

    /// Everything that trees have to avoid: failed parts, and drained links.
    pub(crate) fn failed(&self) -> Arc<BTreeSet<ElementKey>> {
        Arc::clone(self.state.read().failed.all())
    }

    /// Returns whether the collectives do not take all failures into account yet.
    pub(crate) fn collectives_lag(&self) -> bool {
        self.collectives.newest().failed != self.failed()
    }

    /// The nodes that are up.
    pub(crate) fn nodes_up(&self) -> Vec<NodeIncarnation> {
        let state = self.state.read();
        let up = state.directory.nodes().filter(|node| node.state == NodeState::Up);
        up.map(NodeIncarnation::of).collect()
    }

    /// The nodes whose ports are down.
    pub(crate) fn cut_off(&self) -> CutOff {
        let state = self.state.read();
        self.nodes_hit(&state.directory, &state.failed, state.failed.all().iter())
    }

    /// The nodes that are up and own an endpoint that some of the failures cut off. Cost: the
    /// endpoints of these nodes.
    fn nodes_hit<'a>(
        &self,
        directory: &Directory,
        failed: &FailedElements,
        new: impl IntoIterator<Item = &'a ElementKey>,
    ) -> CutOff {
        let graph = &self.graph;
        let is_down = |name: &EndpointName| {
            let endpoint = graph.find_endpoint(name.as_str());
            endpoint.is_some_and(|endpoint| failed.cuts_off(graph, endpoint))
        };
        let mut cut_off = CutOff::default();
        for endpoint in new.into_iter().flat_map(|element| element.endpoints_cut_off(graph)) {
            let name = EndpointName::new(graph.endpoint_name(endpoint)).ok();
            let Some(node) = name.and_then(|name| directory.owner(&name)) else { continue };
            let all = node.endpoints.iter().all(is_down);
            let nodes = if all { &mut cut_off.all } else { &mut cut_off.some };
            nodes.insert(NodeIncarnation::of(node));
        }
        cut_off
    }

    /// The reporters of failures, and how many parts each sees down.
    pub(crate) fn reporters(&self) -> Vec<(String, usize)> {
        self.state.read().failed.reporters()
    }

    /// True if this reporter has sent a list.
    pub(crate) fn knows_reporter(&self, reporter: &str) -> bool {
        self.state.read().failed.reporters().iter().any(|(name, _)| name == reporter)
    }

    /// Forgets the list of one reporter. Returns the number of parts that are still down.
    pub(crate) fn remove_reporter(&self, reporter: &str) -> usize {
        let mut guard = self.state.write();
        if guard.failed.remove(&self.graph, reporter) {
            guard.publish_failed(&self.graph);
        }
        guard.failed.count()
    }

    /// The drained links, each with whether it is used, as there is no other way.
    pub(crate) fn drained(&self) -> Vec<(ElementKey, bool)> {
        let state = self.state.read();
        let drained = state.failed.drained().iter();
        drained.map(|link| (*link, !state.failed.all().contains(link))).collect()
    }

    /// Checks that links may be drained besides those that are.
    pub(crate) fn check_drain(&self, links: &BTreeSet<ElementKey>) -> Result<(), DrainError> {
        self.state.read().failed.check_drain(&self.graph, links)
    }

    /// Replaces the drained links.
    pub(crate) fn set_drained(&self, links: BTreeSet<ElementKey>) {
        let mut guard = self.state.write();
        if guard.failed.set_drained(&self.graph, links) {
            guard.publish_failed(&self.graph);
        }
    }

    /// Takes the list of one reporter. Returns the number of parts that are down in all, and the
    /// nodes that the new failures cut off.
    pub(crate) fn report_failed(
        &self,
        reporter: &str,
        elements: BTreeSet<ElementKey>,
    ) -> Result<(usize, CutOff), TooManyReporters> {
        let mut guard = self.state.write();
        let (new, changed) = guard.failed.report(&self.graph, reporter, elements)?;
        if changed {
            guard.publish_failed(&self.graph);
        }
        let State { directory, failed, .. } = &*guard;
        Ok((failed.count(), self.nodes_hit(directory, failed, &new)))
    }
}

/// The records are kept for each look-up alone.
impl NodeLookup for Records {
    fn is_up(&self, incarnation: &NodeIncarnation) -> bool {
        self.read(|directory| directory.is_up(incarnation))
    }

    fn hosts_agents(&self, incarnation: &NodeIncarnation) -> bool {
        self.read(|directory| directory.hosts_agents(incarnation))
    }

    fn is_member(&self, node: &NodeName) -> bool {
        self.read(|directory| directory.is_member(node))
    }

    fn first_endpoint(&self, node: &NodeName) -> Option<EndpointName> {
        self.read(|directory| directory.first_endpoint(node))
    }

    fn up_after(&self, after: Option<&NodeName>) -> Vec<NodeIncarnation> {
        self.read(|directory| directory.up_after(after))
    }

    fn hosts_after(&self, after: Option<&NodeName>) -> Vec<NodeIncarnation> {
        self.read(|directory| directory.hosts_after(after))
    }
}

impl JobChanges {
    fn note(&mut self, changes: &[Change]) {
        let Some(jobs) = &mut self.jobs else { return };
        let is_of_node =
            |change: &Change| matches!(change, Change::NodePut(_) | Change::NodeRemoved(_));
        jobs.extend(changes.iter().filter_map(|change| match change {
            Change::JobPut(job) if job.class.is_some() => Some(job.name.clone()),
            Change::JobDeleted(name) => Some(name.clone()),
            _ => None,
        }));
        if jobs.len() > MOST_JOB_CHANGES || changes.iter().any(is_of_node) {
            self.jobs = None;
        }
    }
}

/// A group as a message, with its agent's address and without its members.
pub(crate) fn wire_group(directory: &Directory, group: &GroupRecord) -> v1::Group {
    let agent = group.agent.as_ref().and_then(|node| directory.node(node));
    let address = agent.map_or("", |node| node.address.as_str());
    v1::Group {
        member_count: u32::try_from(directory.member_count(group.gn)).unwrap_or(u32::MAX),
        ..encode_group(group, address)
    }
}

/// A group with its members as a message.
///
/// - `vouches`: the TIC vouches for the members, since the agent of the group has asked.
pub(crate) fn wire_copy(copy: GroupCopy, vouches: bool) -> v1::Group {
    let address = copy.agent.as_ref().map_or("", |node| node.address.as_str());
    let mut group = encode_group(&copy.record, address);
    group.member_count = u32::try_from(copy.member_count()).unwrap_or(u32::MAX);
    let record = Arc::clone(&copy.record);
    let agent = copy.agent.clone().filter(|_| vouches);
    let member = |(member, node): (Arc<MemberRecord>, Option<Arc<NodeRecord>>)| {
        let node = node.as_deref();
        let voucher = node
            .zip(agent.as_deref())
            .and_then(|(node, agent)| node.vouch_for_enrolment(&record, agent, &member));
        let voucher = voucher.map(|voucher| voucher.0);
        v1::Member { voucher, ..encode_member(&member, node) }
    };
    group.members = copy.into_members().map(member).collect();
    group
}

/// The members of a group on one node, as messages.
pub(crate) fn wire_members_on(directory: &Directory, gn: Gn, node: &NodeName) -> Vec<v1::Member> {
    directory.members_on(gn, node).map(|member| wire_member(directory, member)).collect()
}

/// A member as a message, with its node's address and incarnation.
pub(crate) fn wire_member(directory: &Directory, member: &MemberRecord) -> v1::Member {
    encode_member(member, directory.node(&member.node))
}

fn wrap(kind: Kind) -> v1::DirectoryChange {
    v1::DirectoryChange { kind: Some(kind) }
}

fn member_change(directory: &Directory, member: &MemberRecord) -> v1::MemberChange {
    v1::MemberChange { gn: member.gn.0, member: Some(wire_member(directory, member)) }
}

/// Notes the effects of a change that is about to be applied.
fn note_affected(directory: &Directory, change: &Change, affected: &mut Affected) {
    let mut hint = |node: Option<&NodeName>, gn: Gn| {
        let Some(node) = node.and_then(|node| directory.node(node)) else { return };
        let (address, node) = (node.address.to_string(), node.name.to_string());
        affected.hints.insert(Hint { address, node, gn: gn.0 });
    };
    match change {
        Change::GroupPut(group) => {
            let before = directory.group(group.gn).and_then(|group| group.agent.as_ref());
            hint(group.agent.as_ref(), group.gn);
            if before != group.agent.as_ref() {
                hint(before, group.gn);
            }
        }
        Change::GroupDeleted(gn) => {
            hint(directory.group(*gn).and_then(|group| group.agent.as_ref()), *gn);
        }
        Change::NodePut(node) => {
            let before = directory.node(&node.name).map(|node| node.incarnation);
            if node.state == NodeState::Up && before != Some(node.incarnation) {
                affected.nodes.push(NodeIncarnation::of(node));
            }
        }
        Change::NodeRemoved(_)
        | Change::MemberPut(_)
        | Change::MemberDeleted(_)
        | Change::MgidRetired(..)
        | Change::MgidReleased(_)
        | Change::JobPut(_)
        | Change::JobDeleted(_)
        | Change::RequestPut(_)
        | Change::RequestDeleted(_)
        | Change::NextGnPut(_)
        | Change::FirstIncarnationPut(_)
        | Change::RevisionPut(_) => {}
    }
}

/// The changes of one commit as messages. A group that changed several times is sent once, where it
/// first appears and as it is now, because a reader needs it before its members.
fn wire_changes(directory: &Directory, changes: &[Change]) -> Vec<v1::DirectoryChange> {
    let mut groups = BTreeMap::new();
    for change in changes {
        if let Change::GroupPut(group) = change {
            groups.insert(group.gn, group);
        }
    }
    let message = |change: &Change| match change {
        Change::NodePut(node) => Some(Kind::Node(encode_node(node, wall_clock()))),
        Change::NodeRemoved(name) => Some(Kind::RemovedNode(name.to_string())),
        Change::GroupPut(group) => {
            groups.remove(&group.gn).map(|group| Kind::Group(wire_group(directory, group)))
        }
        Change::GroupDeleted(gn) => Some(Kind::DeletedGn(gn.0)),
        Change::MemberPut(member) => Some(Kind::Joined(member_change(directory, member))),
        Change::MemberDeleted(member) => Some(Kind::Left(member_change(directory, member))),
        Change::MgidRetired(..)
        | Change::MgidReleased(_)
        | Change::JobPut(_)
        | Change::JobDeleted(_)
        | Change::RequestPut(_)
        | Change::RequestDeleted(_)
        | Change::NextGnPut(_)
        | Change::FirstIncarnationPut(_)
        | Change::RevisionPut(_) => None,
    };
    changes.iter().filter_map(message).map(wrap).collect()
}

#[cfg(test)]
mod tests;
