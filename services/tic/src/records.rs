//! The committed records: what every reader sees.
//!
//! Only the writer changes them, after its store transaction is durable, so nothing here can be
//! taken back. Watches are opened and fed under the same lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use fabricast_groups::directory::Directory;
use fabricast_groups::ids::Gn;
use fabricast_groups::names::{EndpointName, NodeName};
use fabricast_groups::record::{Change, GroupRecord, MemberRecord, NodeState};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::Graph;
use tonic::Status;
use v1::directory_change::Kind;

use crate::clock::wall_clock;
use crate::collectives::published::Publisher;
use crate::elements::{ElementKey, FailedElements};
use crate::hints::Hint;
use crate::liveness::CutOff;
use crate::topology::Site;
use crate::watchers::{WatchStream, Watchers};
use crate::wire;

/// The committed records, shared by everything that reads them.
#[derive(Debug)]
pub(crate) struct Records {
    graph: Arc<Graph>,
    topology_sha256: Vec<u8>,
    state: RwLock<State>,
    /// The collectives, which have readers of their own.
    pub(crate) collectives: Arc<Publisher>,
}

#[derive(Debug)]
struct State {
    directory: Directory,
    failed: FailedElements,
    watchers: Watchers,
}

/// Whom a commit concerns beside the watchers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Concerned {
    /// Group agents that are behind now.
    pub(crate) hints: BTreeSet<Hint>,
    /// The set of nodes that host group agents may differ.
    pub(crate) hosts: bool,
}

impl Records {
    pub(crate) fn new(
        site: &Site,
        directory: Directory,
        failed: FailedElements,
        watchers: Watchers,
    ) -> Self {
        let state = State { directory, failed, watchers };
        Self {
            graph: Arc::clone(&site.graph),
            topology_sha256: site.sha256.to_vec(),
            state: RwLock::new(state),
            collectives: Arc::default(),
        }
    }

    /// Reads the directory.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Directory) -> T) -> T {
        // A panic while the lock is held leaves records that are whole: changes apply one by one.
        read(&self.state.read().unwrap_or_else(PoisonError::into_inner).directory)
    }

    /// Takes committed changes over and tells the watchers.
    ///
    /// - `origins`: of the traced requests behind them.
    pub(crate) fn publish(&self, changes: &[Change], origins: &[String]) -> Concerned {
        let mut guard = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State { directory, watchers, .. } = &mut *guard;
        let before = directory.revision().0;
        let mut concerned = Concerned::default();
        for change in changes {
            note(directory, change, &mut concerned);
            directory.apply(change);
        }
        let revision = directory.revision().0;
        watchers.publish((before, revision), origins, || wire_changes(directory, changes));
        concerned
    }

    /// Puts other records in place of these; watchers start again.
    pub(crate) fn replace(&self, directory: Directory) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.directory = directory;
        state.watchers.close(Reason::StoreFailed);
    }

    /// Ends all watches, as the part stops or does not lead any more.
    pub(crate) fn close(&self, reason: Reason) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.watchers.close(reason);
        self.collectives.close();
    }

    /// Opens a watch.
    pub(crate) fn watch(&self) -> Result<WatchStream, Status> {
        let mut guard = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State { directory, failed, watchers } = &mut *guard;
        watchers.open(directory.revision().0, &self.topology_sha256, || {
            let mut changes = everything(directory);
            changes.push(wrap(Kind::FailedElements(failed.to_wire(&self.graph))));
            changes
        })
    }

    /// Tells whether a reporter's list differs from its last one.
    pub(crate) fn is_news(
        &self,
        reporter: &str,
        elements: &BTreeSet<ElementKey>,
    ) -> Result<bool, Status> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.failed.is_news(reporter, elements)
    }

    /// Answers everything that anybody sees down.
    pub(crate) fn failed(&self) -> BTreeSet<ElementKey> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).failed.all().clone()
    }

    /// Tells whether the collectives have not been told yet of what is down.
    pub(crate) fn collectives_lag(&self) -> bool {
        self.collectives.newest().failed != self.failed()
    }

    /// Answers the nodes whose ports are down.
    pub(crate) fn cut_off(&self) -> CutOff {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let down = self.endpoints_down(state.failed.all());
        hit(&state.directory, &down, &down)
    }

    /// The endpoints that such failures cut off.
    fn endpoints_down<'a>(
        &self,
        failed: impl IntoIterator<Item = &'a ElementKey>,
    ) -> BTreeSet<EndpointName> {
        failed
            .into_iter()
            .flat_map(|element| element.endpoints_cut_off(&self.graph))
            .filter_map(|endpoint| EndpointName::new(self.graph.endpoint_name(endpoint)).ok())
            .collect()
    }

    /// Takes over what one reporter sees down. Answers how much is down in all, and the nodes
    /// that what is newly down cuts off.
    pub(crate) fn report_failed(
        &self,
        reporter: &str,
        elements: BTreeSet<ElementKey>,
    ) -> Result<(usize, CutOff), Status> {
        let mut guard = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State { directory, failed, watchers } = &mut *guard;
        let (new, changed) = failed.report(reporter, elements)?;
        if changed {
            let revision = directory.revision().0;
            let list = failed.to_wire(&self.graph);
            watchers.publish((revision, revision), &[], || vec![wrap(Kind::FailedElements(list))]);
        }
        let newly = self.endpoints_down(&new);
        if newly.is_empty() {
            return Ok((failed.all().len(), CutOff::default()));
        }
        let down = self.endpoints_down(failed.all());
        Ok((failed.all().len(), hit(directory, &newly, &down)))
    }
}

/// The nodes that are up and have one of the endpoints `newly` down.
fn hit(
    directory: &Directory,
    newly: &BTreeSet<EndpointName>,
    down: &BTreeSet<EndpointName>,
) -> CutOff {
    let mut cut_off = CutOff::default();
    for node in directory.nodes().filter(|node| node.state == NodeState::Up) {
        if node.endpoints.iter().any(|endpoint| newly.contains(endpoint)) {
            let all = node.endpoints.iter().all(|endpoint| down.contains(endpoint));
            let nodes = if all { &mut cut_off.all } else { &mut cut_off.some };
            nodes.insert((node.name.clone(), node.incarnation));
        }
    }
    cut_off
}

/// A group as it travels, with its agent's address looked up.
pub(crate) fn wire_group(
    directory: &Directory,
    group: &GroupRecord,
    with_members: bool,
) -> v1::Group {
    let agent = group.agent.as_ref().and_then(|node| directory.node(node));
    let address = agent.map_or("", |node| node.address.as_str());
    let members = if with_members {
        directory.members(group.gn).map(|member| wire_member(directory, member)).collect()
    } else {
        Vec::new()
    };
    wire::group(group, address, directory.member_count(group.gn), members)
}

/// The members of a group on one node, as they travel.
pub(crate) fn wire_members_on(directory: &Directory, gn: Gn, node: &NodeName) -> Vec<v1::Member> {
    directory.members_on(gn, node).map(|member| wire_member(directory, member)).collect()
}

/// A member as it travels, with its node's address and incarnation looked up.
pub(crate) fn wire_member(directory: &Directory, member: &MemberRecord) -> v1::Member {
    wire::member(member, directory.node(&member.node))
}

fn wrap(kind: Kind) -> v1::DirectoryChange {
    v1::DirectoryChange { kind: Some(kind) }
}

fn member_change(directory: &Directory, member: &MemberRecord) -> v1::MemberChange {
    v1::MemberChange { gn: member.gn.0, member: Some(wire_member(directory, member)) }
}

/// Notes whom a change that is about to be applied concerns.
fn note(directory: &Directory, change: &Change, concerned: &mut Concerned) {
    let mut hint = |node: Option<&NodeName>, gn: Gn| {
        let Some(node) = node.and_then(|node| directory.node(node)) else { return };
        let (address, node) = (node.address.to_string(), node.name.to_string());
        concerned.hints.insert(Hint { address, node, gn: gn.0 });
    };
    match change {
        Change::GroupPut(group) => {
            let before = directory.group(group.gn).and_then(|group| group.agent.as_ref());
            hint(group.agent.as_ref(), group.gn);
            if before != group.agent.as_ref() {
                hint(before, group.gn);
                concerned.hosts = true;
            }
        }
        Change::GroupDeleted(gn) => {
            hint(directory.group(*gn).and_then(|group| group.agent.as_ref()), *gn);
            concerned.hosts = true;
        }
        Change::NodePut(_) => concerned.hosts = true,
        Change::MemberPut(_)
        | Change::MemberDeleted(_)
        | Change::MgidRetired(..)
        | Change::MgidReleased(_)
        | Change::JobPut(_)
        | Change::JobDeleted(_)
        | Change::RequestPut(_)
        | Change::RequestDeleted(_)
        | Change::NextGnPut(_)
        | Change::RevisionPut(_) => {}
    }
}

/// The changes of one commit as they travel. A group that changed often travels once, where it
/// first appears and as it is now: a reader needs it before its members, and the last word.
fn wire_changes(directory: &Directory, changes: &[Change]) -> Vec<v1::DirectoryChange> {
    let mut groups = BTreeMap::new();
    for change in changes {
        if let Change::GroupPut(group) = change {
            groups.insert(group.gn, group);
        }
    }
    let travels = |change: &Change| match change {
        Change::NodePut(node) => Some(Kind::Node(wire::node(node, wall_clock()))),
        Change::GroupPut(group) => {
            groups.remove(&group.gn).map(|group| Kind::Group(wire_group(directory, group, false)))
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
        | Change::RevisionPut(_) => None,
    };
    changes.iter().filter_map(travels).map(wrap).collect()
}

/// All records as changes from nothing.
fn everything(directory: &Directory) -> Vec<v1::DirectoryChange> {
    let now = wall_clock();
    let nodes = directory.nodes().map(|node| Kind::Node(wire::node(node, now)));
    let groups = directory.groups_from(Gn(0)).flat_map(|group| {
        let members = directory.members(group.gn);
        std::iter::once(Kind::Group(wire_group(directory, group, false)))
            .chain(members.map(|member| Kind::Joined(member_change(directory, member))))
    });
    nodes.chain(groups).map(wrap).collect()
}
