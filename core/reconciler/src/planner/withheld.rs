//! Ports by which copies would only come to members that do not receive.
//!
//! A tree leads to all members of its groups, so that each of them can send. Engines know nothing
//! of members that only send: where no member that receives is beyond a port, the rows of the plan
//! are given to the switches without it (rule R2).

use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::ids::Gn;
use fabricast_routing::{Plan, VirtualGroupId};
use fabricast_topology::{EndpointId, Graph, Mgid, Peer, PortId, PortSet, SwitchId, TableEntry};

use crate::directory_cache::{CachedGroup, DirectoryCache};
use crate::planner::planned_groups::PlannedGroups;

/// A switch, and a color of its table.
type Place = (SwitchId, u16);

/// Output ports that the rows of a plan have, and the switches do not get.
///
/// They are kept by virtual group, so that a change of the plan costs no more than it concerns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WithheldPorts {
    /// The virtual groups that have a member that only sends.
    virtual_groups: BTreeMap<VirtualGroupId, Withheld>,
    /// Virtual group of each group in these.
    ids: BTreeMap<Mgid, VirtualGroupId>,
    /// Those that have ports at a place.
    at: BTreeMap<Place, BTreeSet<VirtualGroupId>>,
}

/// Ports of one virtual group.
#[derive(Debug, PartialEq, Eq)]
struct Withheld {
    groups: Vec<Mgid>,
    ports: BTreeMap<Place, PortSet>,
}

/// A plan, and the records that it was made of.
#[derive(Clone, Copy)]
pub(super) struct PlannedRecords<'a> {
    pub(super) graph: &'a Graph,
    pub(super) plan: &'a Plan,
    pub(super) planned: &'a PlannedGroups,
    pub(super) directory: &'a DirectoryCache,
}

impl WithheldPorts {
    /// Finds the ports of a new plan. Returns the switches that have other ports than before.
    ///
    /// - `changed`: MGIDs of all groups whose records, virtual groups or trees have changed since
    ///   the last call, and of those that are gone.
    /// - Cost: the members and trees of their virtual groups, of those that have a member that only
    ///   sends.
    pub(super) fn update(
        &mut self,
        records: PlannedRecords<'_>,
        changed: &BTreeSet<Mgid>,
    ) -> BTreeSet<SwitchId> {
        let known = changed.iter().filter_map(|mgid| self.ids.get(mgid).copied());
        let mut stale: BTreeSet<VirtualGroupId> = known.collect();
        let before = stale.iter().filter_map(|id| self.virtual_groups.get(id));
        let groups = before.flat_map(|one| &one.groups);
        let groups = groups.chain(changed.iter().filter(|mgid| records.has_only_senders(**mgid)));
        let id = |mgid: &Mgid| Some(records.plan.group(*mgid)?.virtual_group);
        let due: BTreeSet<VirtualGroupId> = groups.filter_map(id).collect();
        let found: BTreeMap<VirtualGroupId, Withheld> =
            due.iter().filter_map(|id| Some((*id, records.withheld(*id)?))).collect();
        stale.extend(due);
        let before = stale.iter().filter_map(|id| self.virtual_groups.get(id));
        let places = before.chain(found.values()).flat_map(|one| one.ports.keys().copied());
        let before: BTreeMap<Place, PortSet> =
            places.map(|place| (place, self.ports(place))).collect();
        stale.into_iter().for_each(|id| self.remove(id));
        found.into_iter().for_each(|(id, one)| self.insert(id, one));
        let differing = before.into_iter().filter(|(place, ports)| self.ports(*place) != *ports);
        differing.map(|((switch, _), _)| switch).collect()
    }

    /// Takes the ports out of a row; `None` if no other is left.
    pub(super) fn reduce(&self, row: TableEntry) -> Option<TableEntry> {
        let ports = self.ports((row.switch, row.color));
        if ports.is_empty() {
            return Some(row);
        }
        let out = row.out.difference(ports);
        (!out.is_empty()).then_some(TableEntry { out, ..row })
    }

    /// The ports of all virtual groups at a place.
    fn ports(&self, place: Place) -> PortSet {
        let ids = self.at.get(&place).into_iter().flatten();
        let ports = ids.filter_map(|id| self.virtual_groups.get(id)?.ports.get(&place));
        ports.fold(PortSet::EMPTY, |all, ports| all.union(*ports))
    }

    fn insert(&mut self, id: VirtualGroupId, one: Withheld) {
        self.ids.extend(one.groups.iter().map(|mgid| (*mgid, id)));
        for place in one.ports.keys() {
            self.at.entry(*place).or_default().insert(id);
        }
        self.virtual_groups.insert(id, one);
    }

    fn remove(&mut self, id: VirtualGroupId) {
        let Some(Withheld { groups, ports }) = self.virtual_groups.remove(&id) else { return };
        for mgid in groups {
            self.ids.remove(&mgid);
        }
        for place in ports.into_keys() {
            if let Some(ids) = self.at.get_mut(&place) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.at.remove(&place);
                }
            }
        }
    }
}

impl PlannedRecords<'_> {
    fn has_only_senders(&self, mgid: Mgid) -> bool {
        self.planned.gn(mgid).is_some_and(|gn| self.directory.has_only_senders(gn))
    }

    /// Finds the ports of a virtual group; `None` if all of its members receive.
    fn withheld(&self, id: VirtualGroupId) -> Option<Withheld> {
        let Self { graph, plan, planned, directory } = *self;
        let first = Mgid(id.0); // a virtual group is named after its first group
        let mgids = plan.virtual_group_of(first)?.groups;
        if !mgids.iter().any(|mgid| self.has_only_senders(*mgid)) {
            return None;
        }
        let gns: Vec<Gn> = mgids.iter().filter_map(|mgid| planned.gn(*mgid)).collect();
        let groups = gns.iter().filter_map(|gn| directory.groups.get(gn));
        let silent: Vec<PortId> = only_senders(groups)
            .into_iter()
            .filter_map(|endpoint| graph.attachment(endpoint))
            .collect();
        let mut ports: BTreeMap<Place, PortSet> = BTreeMap::new();
        for tree in plan.virtual_group_trees(first) {
            for port in without_receivers(graph, tree.ports, &silent) {
                let place = (graph.switch_of(port), tree.color);
                ports.entry(place).or_default().insert(graph.port_number(port));
            }
        }
        Some(Withheld { groups: mgids.to_vec(), ports })
    }
}

/// Lists the endpoints that have members of some groups, none of which receives. A group that waits
/// for its members has none yet.
fn only_senders<'a>(groups: impl Iterator<Item = &'a CachedGroup>) -> BTreeSet<EndpointId> {
    let (mut senders, mut receivers) = (BTreeSet::new(), BTreeSet::new());
    let complete = groups.filter(|group| !group.incomplete);
    for member in complete.flat_map(|group| group.members.values()) {
        let list = if member.sends_only { &mut senders } else { &mut receivers };
        list.extend(member.known());
    }
    senders.difference(&receivers).copied().collect()
}

/// Lists the ports of a tree beyond which no member receives.
///
/// - `ports`: of the tree, rising.
/// - `silent`: ports of endpoints that do not receive; others than those of the tree are ignored.
fn without_receivers(graph: &Graph, ports: &[PortId], silent: &[PortId]) -> BTreeSet<PortId> {
    let has = |port: &PortId| ports.binary_search(port).is_ok();
    let mut open: BTreeMap<SwitchId, BTreeSet<PortId>> = BTreeMap::new();
    for port in ports {
        open.entry(graph.switch_of(*port)).or_default().insert(*port);
    }
    let mut found = BTreeSet::new();
    let mut waiting: Vec<PortId> = silent.iter().copied().filter(has).collect();
    while let Some(port) = waiting.pop() {
        if !found.insert(port) {
            continue;
        }
        let switch = graph.switch_of(port);
        let left = open.entry(switch).or_default();
        left.remove(&port);
        let first = ports.partition_point(|port| graph.switch_of(*port) < switch);
        let own = ports[first..].iter().take_while(|port| graph.switch_of(**port) == switch);
        // Copies that come in by a port leave by the others: without one, none need come in.
        let useless = own.filter(|port| left.iter().all(|other| other == *port));
        let far = useless.filter_map(|port| match graph.peer(*port) {
            Peer::Switch(far) => Some(far),
            Peer::Endpoint(_) | Peer::None => None,
        });
        waiting.extend(far.filter(has));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fabricast_groups::ids::{Pn, Revision};
    use fabricast_routing::verify::{self, Options, Senders};
    use fabricast_routing::{EngineKind, EngineOptions};
    use fabricast_topology::TableKind;
    use fabricast_topology::spec::TopologySpec;
    use proptest::prelude::*;

    use super::*;
    use crate::directory_cache::{CachedMember, FailedElement, RecordedEndpoint};
    use crate::planner::Planner;
    use crate::planner::tests::endpoints_are_in_order;

    /// Two endpoints at each leaf.
    const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 2\n";

    /// An endpoint and whether its member only sends.
    type Member = (u32, bool);

    /// Engines, and whether groups have two trees; they merge groups in different ways.
    const ENGINES: [(EngineKind, bool); 6] = [
        (EngineKind::CMr4lmsFixed, false),
        (EngineKind::CMr4lmsFixed, true),
        (EngineKind::CMr4lmsDynamic, false),
        (EngineKind::CMr4lmsHybrid, false),
        (EngineKind::Mr4lms, false),
        (EngineKind::MinHopMc, false),
    ];

    fn planner(options: EngineOptions) -> Planner {
        planner_of(EngineKind::CMr4lmsFixed, options)
    }

    fn planner_of(kind: EngineKind, options: EngineOptions) -> Planner {
        let graph = Arc::new(TopologySpec::parse(FABRIC).unwrap().generate().unwrap());
        endpoints_are_in_order(&graph);
        Planner::new(&graph, kind, options).unwrap()
    }

    /// A change of one group.
    #[derive(Clone, Debug)]
    enum Step {
        /// The group is new or another one; if it has `moved`, it has another MGID.
        Put {
            moved: bool,
            exclusive: bool,
            members: Vec<Member>,
        },
        /// Members that received only send now, and the others receive.
        Invert,
        Delete,
    }

    fn step() -> impl Strategy<Value = Step> {
        let members = prop::collection::vec((0..8u32, any::<bool>()), 0..6);
        let put = (prop::bool::weighted(0.2), prop::bool::weighted(0.2), members);
        let put =
            put.prop_map(|(moved, exclusive, members)| Step::Put { moved, exclusive, members });
        prop_oneof![5 => put, 2 => Just(Step::Invert), 1 => Just(Step::Delete)]
    }

    fn invert(directory: &mut DirectoryCache, gn: Gn) {
        let Some(mut group) = directory.groups.get(&gn).cloned() else { return };
        group.members.values_mut().for_each(|member| member.sends_only ^= true);
        directory.put(gn, group);
    }

    /// The ports of the present plan, found anew.
    fn found_at_once(planner: &Planner, directory: &DirectoryCache) -> WithheldPorts {
        let plan = planner.engine.plan();
        let planned = &planner.planned;
        let records = PlannedRecords { graph: &planner.graph, plan, planned, directory };
        let all: BTreeSet<Mgid> = plan.groups().map(|group| group.mgid).collect();
        let mut found = WithheldPorts::default();
        found.update(records, &all);
        found
    }

    fn group(mgid: u32, members: &[Member]) -> CachedGroup {
        let member = |&(endpoint, sends_only): &Member| CachedMember {
            endpoint: RecordedEndpoint::Known(EndpointId(endpoint)),
            joined: Revision(0),
            sends_only,
        };
        CachedGroup {
            mgid: Mgid(mgid),
            members: (0..).map(Pn).zip(members.iter().map(member)).collect(),
            ..CachedGroup::named(&format!("g{mgid}"))
        }
    }

    fn rows(planner: &Planner) -> Vec<TableEntry> {
        planner.graph.switches().flat_map(|switch| planner.entries(switch)).collect()
    }

    /// The groups of the plan, with the endpoints that receive apart from the others.
    fn served(planner: &Planner, directory: &DirectoryCache) -> Vec<verify::Group> {
        let split = |group: verify::Group| {
            let gn = planner.planned.gn(group.mgid).unwrap();
            let all = &directory.groups[&gn].members;
            let receives = |endpoint: &EndpointId| {
                let mut here = all.values().filter(|one| one.known() == Some(*endpoint));
                here.any(|one| !one.sends_only)
            };
            let (members, only_senders): (Vec<_>, Vec<_>) =
                group.members.iter().copied().partition(receives);
            verify::Group { members, only_senders, ..group }
        };
        planner.engine.delivery_groups().into_iter().map(split).collect()
    }

    /// Rule R2 for the rows that switches get, and no row too many.
    fn check(planner: &Planner, directory: &DirectoryCache) {
        let plan = planner.engine.plan();
        let (colors, tables) = (plan.colors(), plan.tables());
        let options = Options { colors, tables, senders: Senders::All, list: 3 };
        let groups = served(planner, directory);
        let faults = planner.engine.faults();
        let report = verify::verify(&planner.graph, faults, &groups, &rows(planner), options);
        assert_eq!(report.violations, [], "{groups:?}");
        assert_eq!(report.unused_entries, 0, "{groups:?}");
    }

    #[test]
    fn nothing_is_sent_towards_a_leaf_that_only_sends() {
        let mut planner = planner(EngineOptions::new(2, TableKind::PerPort));
        let mut directory = DirectoryCache::default();
        // h0 receives; h4 and h5 are both at the third leaf.
        directory.put(Gn(1), group(0, &[(0, false), (4, true), (5, true)]));
        planner.plan(&directory, &[Gn(1)]);
        check(&planner, &directory);
        let outputs =
            |planner: &Planner| -> u32 { rows(planner).iter().map(|row| row.out.len()).sum() };
        // Of each sender up, down from the spine, and out to h0.
        assert_eq!(outputs(&planner), 4);
        // One of them joins in the proper way, and both members are there for a time.
        directory.put(Gn(1), group(0, &[(0, false), (4, true), (5, true), (4, false)]));
        let change = planner.plan(&directory, &[Gn(1)]);
        assert_eq!(change.switches.len(), 3, "both leaves and the spine");
        check(&planner, &directory);
        directory.put(Gn(1), group(0, &[(4, true), (5, true)]));
        planner.plan(&directory, &[Gn(1)]);
        assert_eq!(outputs(&planner), 0, "nobody receives");
    }

    proptest! {
        /// R2 with members that only send; PLAN-1 for the switches.
        #[test]
        fn members_that_only_send_reach_all_others_and_get_nothing(
            steps in prop::collection::vec(
                (0..4u32, prop::collection::vec((0..8u32, any::<bool>()), 0..6)),
                1..8,
            ),
            per_switch in any::<bool>(),
            fault_tolerant in any::<bool>(),
        ) {
            let tables = if per_switch { TableKind::PerSwitch } else { TableKind::PerPort };
            let options = EngineOptions { fault_tolerant, ..EngineOptions::new(4, tables) };
            let mut planner = planner(options);
            let mut directory = DirectoryCache::default();
            for (at, members) in steps {
                // The first three share a spanning tree.
                let mgid = [0, 8, 16, 1][at as usize];
                let gn = Gn(u64::from(mgid) + 1);
                directory.put(gn, group(mgid, &members));
                let before = rows(&planner);
                let change = planner.plan(&directory, &[gn]);
                check(&planner, &directory);
                let stays = |rows: Vec<TableEntry>| -> Vec<TableEntry> {
                    let is_left = |row: &TableEntry| !change.switches.contains(&row.switch);
                    rows.into_iter().filter(is_left).collect()
                };
                prop_assert_eq!(stays(before), stays(rows(&planner)));
            }
        }

        /// Groups come, change, move and go, and links fail; each plan looks at what changed.
        #[test]
        fn ports_found_change_by_change_are_those_found_at_once(
            (kind, fault_tolerant) in prop::sample::select(ENGINES.to_vec()),
            steps in prop::collection::vec((0..6u32, step(), prop::option::of(0..32usize)), 1..16),
        ) {
            // With two colors there are four spanning trees, or two pairs.
            let options = EngineOptions::new(2, TableKind::PerPort);
            let mut planner = planner_of(kind, EngineOptions { fault_tolerant, ..options });
            let mut directory = DirectoryCache::default();
            let is_inner = |port: &PortId| matches!(planner.graph.peer(*port), Peer::Switch(_));
            let ports = planner.graph.switches().flat_map(|switch| planner.graph.ports(switch));
            let links: Vec<PortId> = ports.filter(is_inner).collect();
            for (number, step, failed) in steps {
                let gn = Gn(u64::from(number) + 1);
                match step {
                    Step::Put { moved, exclusive, members } => {
                        let mgid = 4 * number + u32::from(moved);
                        directory.put(gn, CachedGroup { exclusive, ..group(mgid, &members) });
                    }
                    Step::Invert => invert(&mut directory, gn),
                    Step::Delete => directory.remove(gn),
                }
                let failed = failed.map(|at| FailedElement::Link(links[at % links.len()]));
                planner.set_failed(failed.as_slice());
                planner.plan(&directory, &[gn]);
                prop_assert_eq!(&planner.withheld, &found_at_once(&planner, &directory));
            }
        }
    }
}
