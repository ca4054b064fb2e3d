//! Ports by which copies would only come to members that do not receive.
//!
//! A tree leads to all members of its groups, so that each of them can send. Engines know nothing
//! of members that only send: where no member that receives is beyond a port, the rows of the plan
//! are given to the switches without it (rule R2).

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::{Plan, VirtualGroupId};
use fabricast_topology::{EndpointId, Graph, Mgid, Peer, PortId, PortSet, SwitchId, TableEntry};

use crate::directory_cache::{CachedGroup, DirectoryCache};
use crate::planner::planned_groups::PlannedGroups;

/// Output ports that the rows of a plan have, and the switches do not get, by switch and color.
#[derive(Debug, Default)]
pub(super) struct WithheldPorts(BTreeMap<(SwitchId, u16), PortSet>);

impl WithheldPorts {
    /// Finds the ports of a plan.
    ///
    /// Cost: the members and trees of the virtual groups that have a member that only sends.
    pub(super) fn of(
        graph: &Graph,
        plan: &Plan,
        planned: &PlannedGroups,
        directory: &DirectoryCache,
    ) -> Self {
        let groups = directory.with_only_senders();
        let groups = groups.filter_map(|gn| plan.virtual_group_of(planned.mgid(gn)?));
        let shared: BTreeMap<VirtualGroupId, &[Mgid]> =
            groups.map(|shared| (shared.id, shared.groups)).collect();
        let mut withheld = Self::default();
        for mgids in shared.into_values() {
            let groups = mgids.iter().filter_map(|mgid| directory.groups.get(&planned.gn(*mgid)?));
            let silent: Vec<PortId> = only_senders(groups)
                .into_iter()
                .filter_map(|endpoint| graph.attachment(endpoint))
                .collect();
            let trees = mgids.first().map(|mgid| plan.virtual_group_trees(*mgid));
            for tree in trees.into_iter().flatten() {
                for port in without_receivers(graph, tree.ports, &silent) {
                    let key = (graph.switch_of(port), tree.color);
                    withheld.0.entry(key).or_default().insert(graph.port_number(port));
                }
            }
        }
        withheld
    }

    /// Takes the ports out of a row; `None` if no other is left.
    pub(super) fn reduce(&self, row: TableEntry) -> Option<TableEntry> {
        let Some(ports) = self.0.get(&(row.switch, row.color)) else { return Some(row) };
        let out = row.out.difference(*ports);
        (!out.is_empty()).then_some(TableEntry { out, ..row })
    }

    /// Lists the switches that have other ports in another plan.
    pub(super) fn differing(&self, other: &Self) -> BTreeSet<SwitchId> {
        let mut switches = BTreeSet::new();
        for (one, other) in [(self, other), (other, self)] {
            let differs = one.0.iter().filter(|(key, ports)| other.0.get(*key) != Some(*ports));
            switches.extend(differs.map(|((switch, _), _)| *switch));
        }
        switches
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

    use fabricast_groups::ids::{Gn, Pn, Revision};
    use fabricast_routing::verify::{self, Options, Senders};
    use fabricast_routing::{EngineKind, EngineOptions};
    use fabricast_topology::TableKind;
    use fabricast_topology::spec::TopologySpec;
    use proptest::prelude::*;

    use super::*;
    use crate::directory_cache::{CachedMember, RecordedEndpoint};
    use crate::planner::Planner;
    use crate::planner::tests::endpoints_are_in_order;

    /// Two endpoints at each leaf.
    const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 2\n";

    /// An endpoint and whether its member only sends.
    type Member = (u32, bool);

    fn planner(options: EngineOptions) -> Planner {
        let graph = Arc::new(TopologySpec::parse(FABRIC).unwrap().generate().unwrap());
        endpoints_are_in_order(&graph);
        Planner::new(&graph, EngineKind::CMr4lmsFixed, options).unwrap()
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
    }
}
