//! Chooses MGIDs for new groups that come without one.
//!
//! The choice itself is `fabricast_routing`'s: it looks for the spanning tree on which the group's
//! endpoints conflict least. This keeps it informed of every change that is decided, and counts
//! the processes on each endpoint, which routing does not know of.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_groups::directory::{Directory, NewGroup};
use fabricast_groups::ids::Gn;
use fabricast_groups::names::EndpointName;
use fabricast_groups::record::{Change, MemberRecord};
use fabricast_routing::{Layout, LayoutError, Mgid, MgidAllocator, MgidSpace};
use fabricast_topology::{FatTree, Graph, TableKind};

/// MGIDs tried on the way to one that is free and clean.
const TRIES: usize = 1_024;

/// The MGIDs in use and what they are used for.
#[derive(Debug)]
pub(crate) struct MgidChoice {
    graph: Arc<Graph>,
    space: MgidSpace,
    limit: u32,
    allocator: MgidAllocator,
    mgids: BTreeMap<Gn, Mgid>,
    /// Members of a group on one endpoint; the allocator knows the endpoint once.
    processes: BTreeMap<(Gn, u32), u32>,
}

impl MgidChoice {
    /// Starts with the groups there are.
    ///
    /// A fabric that is no fat tree has one tree per color.
    pub(crate) fn new(
        graph: Arc<Graph>,
        colors: u16,
        tables: TableKind,
        directory: &Directory,
    ) -> Result<Self, LayoutError> {
        let space = match FatTree::detect(&graph) {
            Ok(tree) => *Layout::new(tree.params(), colors, tables)?.space(),
            Err(reason) => {
                tracing::warn!(%reason, "topology is no fat tree, mgids are chosen by color only");
                MgidSpace::new(colors, 1, tables)?
            }
        };
        let mut choice = Self {
            graph,
            space,
            limit: 0,
            allocator: MgidAllocator::new(space),
            mgids: BTreeMap::new(),
            processes: BTreeMap::new(),
        };
        choice.start_over(directory);
        Ok(choice)
    }

    /// Forgets everything and takes note of the groups there are.
    pub(crate) fn start_over(&mut self, directory: &Directory) {
        self.limit = directory.limits().mgids;
        self.allocator = MgidAllocator::new(self.space);
        self.mgids.clear();
        self.processes.clear();
        for group in directory.groups_from(Gn(0)) {
            self.applied(&Change::GroupPut(group.clone()));
            for member in directory.members(group.gn) {
                self.joined(member);
            }
        }
    }

    /// Takes note of a change of the directory.
    pub(crate) fn applied(&mut self, change: &Change) {
        match change {
            Change::GroupPut(group) => {
                if self.mgids.insert(group.gn, group.mgid).is_none() {
                    // Refused only if it is there as one that was not clean.
                    let _ = self.allocator.insert(group.mgid, &[]);
                }
            }
            // Its MGID stays with the allocator until no table holds it.
            Change::GroupDeleted(gn) => drop(self.mgids.remove(gn)),
            Change::MgidReleased(mgid) => {
                // Unknown if it was retired before this process started.
                let _ = self.allocator.remove(*mgid);
            }
            Change::MemberPut(member) => self.joined(member),
            Change::MemberDeleted(member) => self.left(member),
            Change::NodePut(_)
            | Change::MgidRetired(..)
            | Change::RequestPut(_)
            | Change::RequestDeleted(_)
            | Change::NextGnPut(_)
            | Change::RevisionPut(_) => {}
        }
    }

    /// Chooses an MGID that is free and clean.
    pub(crate) fn choose(&mut self, group: &NewGroup<'_>) -> Option<Mgid> {
        let endpoints = group.endpoints.iter().filter_map(|name| self.endpoint(name));
        let mut endpoints: Vec<u32> = endpoints.collect();
        endpoints.sort_unstable();
        endpoints.dedup();
        for _ in 0..TRIES {
            let chosen = self.allocator.choose(&endpoints)?;
            if (group.is_free)(chosen.mgid) {
                return Some(chosen.mgid);
            }
            if chosen.mgid.0 >= self.limit || self.allocator.insert(chosen.mgid, &[]).is_err() {
                break;
            }
            // It was not clean: now the allocator knows, until it is released.
        }
        (0..self.limit).map(Mgid).find(|mgid| (group.is_free)(*mgid))
    }

    fn endpoint(&self, name: &EndpointName) -> Option<u32> {
        self.graph.find_endpoint(name.as_str()).map(|endpoint| endpoint.0)
    }

    fn joined(&mut self, member: &MemberRecord) {
        let (Some(endpoint), Some(mgid)) =
            (self.endpoint(&member.endpoint), self.mgids.get(&member.gn))
        else {
            return;
        };
        let processes = self.processes.entry((member.gn, endpoint)).or_default();
        *processes += 1;
        if *processes == 1 {
            self.allocator.join(*mgid, endpoint).expect("a group and its endpoints are noted once");
        }
    }

    fn left(&mut self, member: &MemberRecord) {
        let (Some(endpoint), Some(mgid)) =
            (self.endpoint(&member.endpoint), self.mgids.get(&member.gn))
        else {
            return;
        };
        let key = (member.gn, endpoint);
        let Some(processes) = self.processes.get_mut(&key) else { return };
        *processes -= 1;
        if *processes == 0 {
            self.processes.remove(&key);
            self.allocator.leave(*mgid, endpoint).expect("the endpoint was noted when it joined");
        }
    }
}

#[cfg(test)]
mod tests {
    use fabricast_groups::directory::Limits;
    use fabricast_groups::ids::{Epoch, Moment, Pn, Revision};
    use fabricast_groups::names::{GroupName, NodeName, ProcessName};
    use fabricast_groups::record::GroupRecord;
    use fabricast_topology::ibnetdiscover;

    use super::*;

    const ONE_HOST: &str = include_str!("../../../data/quirks/one-host.ibnetdiscover");

    /// A fabric that is a single leaf: two colors are two trees.
    fn choice() -> MgidChoice {
        let graph = Arc::new(ibnetdiscover::read(ONE_HOST).unwrap());
        let directory = Directory::new(Limits { mgids: 6, ..Limits::default() });
        MgidChoice::new(graph, 2, TableKind::PerPort, &directory).unwrap()
    }

    fn endpoint(choice: &MgidChoice) -> EndpointName {
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
        })
    }

    fn member(choice: &MgidChoice, gn: u64, pn: u32) -> MemberRecord {
        MemberRecord {
            gn: Gn(gn),
            pn: Pn(pn),
            node: NodeName::new("n").unwrap(),
            process: ProcessName::new(&format!("p{pn}")).unwrap(),
            endpoint: endpoint(choice),
            joined: Revision(gn),
        }
    }

    fn choose(choice: &mut MgidChoice, is_free: &dyn Fn(Mgid) -> bool) -> Option<u32> {
        let (name, endpoint) = (GroupName::new("new").unwrap(), endpoint(choice));
        let group = NewGroup { name: &name, endpoints: vec![&endpoint], is_free };
        choice.choose(&group).map(|mgid| mgid.0)
    }

    #[test]
    fn an_endpoint_counts_until_its_last_process_has_left() {
        let mut choice = choice();
        let (one, two) = (member(&choice, 1, 0), member(&choice, 1, 1));
        choice.applied(&group(1, 0));
        choice.applied(&group(2, 1));
        choice.applied(&group(3, 3));
        for member in [&one, &two] {
            choice.applied(&Change::MemberPut(member.clone()));
        }
        let free = |mgid: Mgid| ![0, 1, 3].contains(&mgid.0);
        // Tree 0 has fewer groups, but it has the endpoint already.
        assert_eq!(choose(&mut choice, &free), Some(5));
        choice.applied(&Change::MemberDeleted(one));
        assert_eq!(choose(&mut choice, &free), Some(5));
        choice.applied(&Change::MemberDeleted(two));
        assert_eq!(choose(&mut choice, &free), Some(2));
    }

    #[test]
    fn an_mgid_that_is_not_clean_is_passed_over_until_it_is_released() {
        let mut choice = choice();
        assert_eq!(choose(&mut choice, &|mgid| mgid.0 > 1), Some(2));
        assert_eq!(choose(&mut choice, &|_| true), Some(2), "0 and 1 are known to be taken");
        choice.applied(&Change::MgidReleased(Mgid(1)));
        assert_eq!(choose(&mut choice, &|_| true), Some(1));
    }

    #[test]
    fn the_last_free_mgid_is_found_and_then_there_is_none() {
        let mut choice = choice();
        assert_eq!(choose(&mut choice, &|mgid| mgid.0 == 4), Some(4));
        assert_eq!(choose(&mut choice, &|_| false), None);
    }
}
