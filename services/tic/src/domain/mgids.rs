//! Chooses MGIDs for new groups that come without one, and for groups that have to move to another
//! spanning tree.
//!
//! `fabricast_routing` makes the choice: it looks for the spanning tree on which the group's
//! endpoints conflict least. This module informs it of every change that is decided, and counts the
//! processes on each endpoint, which routing does not know of.
//!
//! Changes of a batch that the store refuses are undone, each at its cost.

mod undo;
#[cfg(test)]
pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::command::GroupMove;
use fabricast_groups::directory::{Directory, NewGroup};
use fabricast_groups::ids::Gn;
use fabricast_groups::names::{EndpointName, LayerName};
use fabricast_groups::record::{Change, GroupRecord, MemberRecord};
use fabricast_routing::{
    EngineOptions, LayerHint, Layout, LayoutError, MgidAllocator, MgidPlanner, MgidSpace, Wanted,
};
use fabricast_topology::{FatTree, Graph, Mgid};

use crate::domain::elements::ElementKey;
use crate::domain::mgids::undo::UndoMap;

/// The MGIDs in use, with the groups and endpoints that use them.
#[derive(Debug)]
pub(crate) struct MgidAllocations {
    graph: Arc<Graph>,
    space: MgidSpace,
    allocator: MgidAllocator,
    /// MGID of the spanning tree that each group is on.
    homes: UndoMap<Gn, Mgid>,
    /// Members of a group on one endpoint, 0 while they are only expected; the allocator knows the
    /// endpoint once.
    processes: UndoMap<(Gn, u32), u32>,
    /// Endpoints known of groups for which an MGID was chosen, until they are decided.
    expected: BTreeMap<Mgid, Vec<u32>>,
    /// Spanning trees that exclusive groups could not have alone since they had a tree last, with
    /// the failed parts below.
    tried: UndoMap<Gn, Vec<u32>>,
    failed: BTreeSet<ElementKey>,
    /// Changes that the allocator had recorded after the latest decision.
    decided: usize,
}

/// Most spanning trees that an exclusive group tries.
const MOST_TRIED: usize = 32;

/// The numbering of spanning trees on a topology. One that is no fat tree has one tree per color.
///
/// # Errors
///
/// Colors that do not make a space of MGIDs on it.
pub(crate) fn space(graph: &Graph, options: EngineOptions) -> Result<MgidSpace, LayoutError> {
    match FatTree::detect(graph) {
        Ok(tree) => {
            let number = if options.fault_tolerant { Layout::dual } else { Layout::new };
            Ok(*number(tree.params(), options.colors, options.tables)?.space())
        }
        Err(reason) => {
            tracing::warn!(%reason, "topology is not a fat tree, MGIDs are chosen by color only");
            MgidSpace::new(options.colors, 1, options.tables)
        }
    }
}

impl MgidAllocations {
    /// Starts with the groups of a directory.
    pub(crate) fn new(
        graph: Arc<Graph>,
        options: EngineOptions,
        directory: &Directory,
    ) -> Result<Self, LayoutError> {
        let space = space(&graph, options)?;
        let mut choice = Self {
            graph,
            space,
            allocator: MgidAllocator::new(space),
            homes: UndoMap::default(),
            processes: UndoMap::default(),
            expected: BTreeMap::new(),
            tried: UndoMap::default(),
            failed: BTreeSet::new(),
            decided: 0,
        };
        choice.start_over(directory);
        Ok(choice)
    }

    /// The numbering of spanning trees.
    pub(crate) const fn space(&self) -> &MgidSpace {
        &self.space
    }

    /// Starts again with the groups of a directory, in the order of their creation.
    pub(crate) fn start_over(&mut self, directory: &Directory) {
        self.allocator = MgidAllocator::new(self.space).below(directory.limits().mgids);
        self.homes.clear();
        self.tried.clear();
        self.processes.clear();
        self.expected.clear();
        for group in directory.groups_from(Gn(0)) {
            let members = directory.members(group.gn).cloned().map(Arc::new).map(Change::MemberPut);
            let changes: Vec<Change> =
                std::iter::once(Change::GroupPut(group.clone())).chain(members).collect();
            self.applied(&changes);
        }
        for mgid in directory.retired_mgids() {
            // Taken until it is clean; an MGID is retired once.
            let _ = self.allocator.hold(mgid);
        }
        self.committed();
    }

    /// Notes that the decisions so far stay.
    pub(crate) fn committed(&mut self) {
        self.allocator.record_changes();
        self.decided = 0;
        self.homes.keep();
        self.processes.keep();
        self.tried.keep();
    }

    /// Undoes all decisions since the last that stay.
    pub(crate) fn roll_back(&mut self) {
        self.decided = 0;
        self.refused();
        self.homes.undo();
        self.processes.undo();
        self.tried.undo();
    }

    /// Forgets what was chosen for groups of a decision that is not made.
    pub(crate) fn refused(&mut self) {
        self.allocator.undo_changes(self.decided);
        self.expected.clear();
    }

    /// Follows the changes of one decision.
    pub(crate) fn applied(&mut self, changes: &[Change]) {
        let mut expected = std::mem::take(&mut self.expected);
        let mut first: BTreeMap<Gn, BTreeSet<u32>> = BTreeMap::new(); // endpoints that join with it
        for change in changes {
            if let Change::MemberPut(member) = change
                && let Some(endpoint) = self.endpoint(&member.endpoint)
            {
                first.entry(member.gn).or_default().insert(endpoint);
            }
        }
        for change in changes {
            match change {
                Change::GroupPut(group) => match self.homes.get(&group.gn).copied() {
                    None => {
                        let mut endpoints = first.remove(&group.gn).unwrap_or_default();
                        endpoints.extend(expected.remove(&group.mgid).unwrap_or_default());
                        self.created(group, endpoints);
                    }
                    Some(from) if from != group.home() => self.moved(from, group),
                    Some(_) => {}
                },
                // Its MGIDs stay with the allocator until no table holds them.
                Change::GroupDeleted(gn) => {
                    self.homes.set(*gn, None);
                    self.has_tree(*gn);
                }
                Change::MgidReleased(mgid) => {
                    // Fails only for an MGID that was retired twice.
                    let _ = self.allocator.remove(*mgid);
                }
                Change::MemberPut(member) => self.joined(member),
                Change::MemberDeleted(member) => self.left(member),
                Change::NodePut(_)
                | Change::NodeRemoved(_)
                | Change::FirstIncarnationPut(_)
                | Change::MgidRetired(..)
                | Change::JobPut(_)
                | Change::JobDeleted(_)
                | Change::RequestPut(_)
                | Change::RequestDeleted(_)
                | Change::NextGnPut(_)
                | Change::RevisionPut(_) => {}
            }
        }
        self.decided = self.allocator.recorded_changes();
    }

    /// Notes a new group with the endpoints that join at once or are expected, so that the next
    /// choice takes them into account.
    fn created(&mut self, group: &GroupRecord, endpoints: BTreeSet<u32>) {
        let home = group.home();
        self.homes.set(group.gn, Some(home));
        if home != group.mgid {
            // Fails only if it was noted before.
            let _ = self.allocator.hold(group.mgid);
        }
        let members: Vec<u32> = endpoints.into_iter().collect();
        match self.allocator.insert(home, &wanted(group, &members)) {
            Ok(()) => {
                for endpoint in members {
                    self.processes.set((group.gn, endpoint), Some(0));
                }
            }
            // It was noted before as not clean.
            Err(_taken) => {}
        }
    }

    /// Notes that a group is on another spanning tree. Its own MGID stays with it; any other that
    /// it leaves is held until no table has it.
    fn moved(&mut self, from: Mgid, group: &GroupRecord) {
        let gn = group.gn;
        let of_group = self.processes.range((gn, 0)..=(gn, u32::MAX));
        let members: Vec<u32> = of_group.map(|((_, endpoint), _)| *endpoint).collect();
        self.allocator.remove(from).expect("a group's home is noted");
        self.allocator.hold(from).expect("it was removed in the line above");
        let noted = self.allocator.insert(group.home(), &wanted(group, &members));
        noted.expect("the directory moves groups to free MGIDs only");
        self.homes.set(gn, Some(group.home()));
    }

    /// Finds a spanning tree where an exclusive group is alone, other than those that it was on
    /// since it had a tree last or other parts had failed.
    pub(crate) fn alone(&mut self, gn: Gn, failed: &BTreeSet<ElementKey>) -> Option<GroupMove> {
        if self.failed != *failed {
            self.failed.clone_from(failed);
            self.tried.clear();
        }
        let from = *self.homes.get(&gn)?;
        let (mut tried, spt) =
            (self.tried.get(&gn).cloned().unwrap_or_default(), self.space.spt(from));
        if !tried.contains(&spt) {
            tried.push(spt);
            self.tried.set(gn, Some(tried.clone()));
        }
        if tried.len() > MOST_TRIED {
            return None;
        }
        Some(GroupMove { gn, from, to: self.allocator.choose_alone(from, &tried)? })
    }

    /// Gives each move a free MGID of the tree that it names; leaves out moves to trees without
    /// one.
    pub(crate) fn free_homes(&self, moves: &[GroupMove]) -> Vec<GroupMove> {
        let mut given = BTreeSet::new();
        let homed = moves.iter().filter_map(|one| {
            let mut free = self.allocator.free_mgids(self.space.spt(one.to));
            let to = free.find(|mgid| given.insert(*mgid))?;
            Some(GroupMove { to, ..*one })
        });
        homed.collect()
    }

    /// Notes that a group has a tree.
    pub(crate) fn has_tree(&mut self, gn: Gn) {
        if self.tried.get(&gn).is_some() {
            self.tried.set(gn, None);
        }
    }

    /// Chooses an MGID that is free and clean: the planned one, if nobody else has taken it since.
    pub(crate) fn choose(&mut self, group: &NewGroup<'_>) -> Option<Mgid> {
        let known = group.endpoints.iter().copied().chain(&group.hints.expected);
        let mut endpoints: Vec<u32> = known.filter_map(|name| self.endpoint(name)).collect();
        endpoints.sort_unstable();
        endpoints.dedup();
        let layer = group.hints.layer.as_ref().map(|layer| LayerHint {
            name: layer.name.as_str(),
            groups: layer.groups,
            all_groups: layer.all_groups,
        });
        if let Some(planned) = group.hints.planned
            && !self.allocator.has(planned)
            && (group.is_free)(planned)
        {
            self.expected.insert(planned, endpoints);
            return Some(planned);
        }
        loop {
            let exclusive = group.is_exclusive;
            let wanted = Wanted { layer, exclusive, ..Wanted::of(&endpoints) };
            let chosen = self.allocator.choose(&wanted)?;
            if (group.is_free)(chosen.mgid) {
                self.expected.insert(chosen.mgid, endpoints);
                return Some(chosen.mgid);
            }
            // Another group of the same decision has it, or it is not clean; the allocator skips it
            // until it is released.
            let hold = Wanted { layer, ..Wanted::default() };
            self.allocator.insert(chosen.mgid, &hold).expect("it was free");
        }
    }

    /// Copies what the choices for groups that would be formed together depend on.
    pub(crate) fn planner(&self) -> MgidPlanner {
        self.allocator.planner()
    }

    fn endpoint(&self, name: &EndpointName) -> Option<u32> {
        self.graph.find_endpoint(name.as_str()).map(|endpoint| endpoint.0)
    }

    fn joined(&mut self, member: &MemberRecord) {
        let (Some(endpoint), Some(mgid)) =
            (self.endpoint(&member.endpoint), self.homes.get(&member.gn))
        else {
            return;
        };
        let key = (member.gn, endpoint);
        let before = self.processes.get(&key).copied();
        if before.is_none() {
            let noted = self.allocator.join(*mgid, endpoint);
            noted.expect("a group and its endpoints are noted once");
        }
        self.processes.set(key, Some(before.unwrap_or(0) + 1));
    }

    fn left(&mut self, member: &MemberRecord) {
        let (Some(endpoint), Some(mgid)) =
            (self.endpoint(&member.endpoint), self.homes.get(&member.gn))
        else {
            return;
        };
        let key = (member.gn, endpoint);
        let Some(before) = self.processes.get(&key).copied() else { return };
        let left = before - 1;
        if left == 0 {
            self.allocator.leave(*mgid, endpoint).expect("the endpoint was noted when it joined");
        }
        self.processes.set(key, Some(left).filter(|left| *left > 0));
    }
}

/// Describes a group for the allocator.
fn wanted<'a>(group: &'a GroupRecord, members: &'a [u32]) -> Wanted<'a> {
    let name = group.layer.as_ref().map(LayerName::as_str);
    let layer = name.map(|name| LayerHint { name, ..LayerHint::default() });
    Wanted { layer, exclusive: group.exclusive, ..Wanted::of(members) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use fabricast_groups::directory::Limits;
    use fabricast_groups::hints::MgidHints;
    use fabricast_groups::ids::{Epoch, Moment, Pn, Revision};
    use fabricast_groups::names::{GroupName, NodeName, ProcessName};
    use fabricast_groups::tree::TreeShape;
    use fabricast_topology::ibnetdiscover;

    use fabricast_topology::TableKind;

    use super::*;

    const ONE_HOST: &str = include_str!("../../../../data/quirks/one-host.ibnetdiscover");

    /// A fabric that is a single leaf: two colors are two trees.
    fn choice() -> MgidAllocations {
        choice_for(&Directory::new(Limits { mgids: 6, ..Limits::default() }))
    }

    fn choice_for(directory: &Directory) -> MgidAllocations {
        let graph = Arc::new(ibnetdiscover::read(ONE_HOST).unwrap());
        MgidAllocations::new(graph, EngineOptions::new(2, TableKind::PerPort), directory).unwrap()
    }

    fn endpoint(choice: &MgidAllocations) -> EndpointName {
        let first = choice.graph.endpoints().next().unwrap();
        EndpointName::new(choice.graph.endpoint_name(first)).unwrap()
    }

    fn group(gn: u64, mgid: u32) -> Change {
        Change::GroupPut(GroupRecord {
            gn: Gn(gn),
            name: GroupName::new(&format!("g{gn}")).unwrap(),
            mgid: Mgid(mgid),
            agent: None,
            epoch: Epoch(0),
            members_revision: Revision(gn),
            changed: Revision(gn),
            persistent: true,
            exclusive: false,
            created: Moment(0),
            route: None,
            layer: None,
            job: None,
            expected: None,
            home: None,
            tree: TreeShape::default(),
        })
    }

    fn member(choice: &MgidAllocations, gn: u64, pn: u32) -> MemberRecord {
        MemberRecord {
            gn: Gn(gn),
            pn: Pn(pn),
            node: NodeName::new("n").unwrap(),
            process: ProcessName::new(&format!("p{pn}")).unwrap(),
            endpoint: endpoint(choice),
            joined: Revision(gn),
            sends_only: false,
        }
    }

    fn choose(choice: &mut MgidAllocations, is_free: &dyn Fn(Mgid) -> bool) -> Option<u32> {
        let (name, endpoint) = (GroupName::new("new").unwrap(), endpoint(choice));
        let hints = MgidHints::default();
        let group = NewGroup {
            name: &name,
            endpoints: vec![&endpoint],
            is_exclusive: false,
            hints: &hints,
            is_free,
        };
        choice.choose(&group).map(|mgid| mgid.0)
    }

    #[test]
    fn an_endpoint_counts_until_its_last_process_has_left() {
        let mut choice = choice();
        let (one, two) = (member(&choice, 1, 0), member(&choice, 1, 1));
        choice.applied(&[group(1, 0)]);
        choice.applied(&[group(2, 1)]);
        choice.applied(&[group(3, 3)]);
        for member in [&one, &two] {
            choice.applied(&[Change::MemberPut(Arc::new(member.clone()))]);
        }
        let free = |mgid: Mgid| ![0, 1, 3].contains(&mgid.0);
        // Tree 0 has fewer groups, but it has the endpoint already.
        assert_eq!(choose(&mut choice, &free), Some(5));
        choice.applied(&[Change::MemberDeleted(Arc::new(one))]);
        assert_eq!(choose(&mut choice, &free), Some(5));
        choice.applied(&[Change::MemberDeleted(Arc::new(two))]);
        assert_eq!(choose(&mut choice, &free), Some(2));
    }

    #[test]
    fn an_mgid_that_is_not_clean_is_passed_over_until_it_is_released() {
        let mut choice = choice();
        assert_eq!(choose(&mut choice, &|mgid| mgid.0 > 1), Some(2));
        assert_eq!(choose(&mut choice, &|_| true), Some(2), "0 and 1 are known to be taken");
        choice.applied(&[Change::MgidReleased(Mgid(0)), Change::MgidReleased(Mgid(1))]);
        assert_eq!(choose(&mut choice, &|_| true), Some(0));
    }

    /// Chooses an MGID that is not retired, and says how many had to be asked about.
    fn choose_clean(choice: &mut MgidAllocations, retired: &BTreeSet<u32>) -> (u32, u32) {
        let looks = Cell::new(0);
        let is_free = |mgid: Mgid| {
            looks.set(looks.get() + 1);
            !retired.contains(&mgid.0)
        };
        (choose(choice, &is_free).unwrap(), looks.get())
    }

    /// Nobody says that an MGID is clean while no route service works.
    #[test]
    fn a_new_group_costs_one_look_however_many_have_ended() {
        const ENDED: u64 = 20_000;
        let limits = Limits { mgids: 1 << 16, ..Limits::default() };
        let mut choice = choice_for(&Directory::new(limits.clone()));
        let (mut retired, mut stored) = (BTreeSet::new(), Directory::new(limits));
        for gn in 0..ENDED {
            let (mgid, looks) = choose_clean(&mut choice, &retired);
            assert_eq!(looks, 1, "after {gn} ends");
            let only = Arc::new(member(&choice, gn, 0));
            choice.applied(&[group(gn, mgid), Change::MemberPut(Arc::clone(&only))]);
            let retires = Change::MgidRetired(Mgid(mgid), Revision(gn));
            stored.apply(&retires);
            choice.applied(&[Change::MemberDeleted(only), Change::GroupDeleted(Gn(gn)), retires]);
            choice.committed();
            assert!(retired.insert(mgid));
        }
        // Also in a TIC that has just become the leader.
        choice.start_over(&stored);
        assert_eq!(choose_clean(&mut choice, &retired).1, 1);
        choice.refused();
        let clean = *retired.first().unwrap();
        retired.remove(&clean);
        choice.applied(&[Change::MgidReleased(Mgid(clean))]);
        assert_eq!(choose_clean(&mut choice, &retired), (clean, 1));
    }

    #[test]
    fn the_last_free_mgid_is_found_and_then_there_is_none() {
        let mut choice = choice();
        assert_eq!(choose(&mut choice, &|mgid| mgid.0 == 4), Some(4));
        assert_eq!(choose(&mut choice, &|_| false), None);
    }
}
