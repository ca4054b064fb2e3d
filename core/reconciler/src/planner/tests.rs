//! Tests of the planner on small fabrics.

use super::*;
use crate::table_state::{TableState, Write};
use fabricast_groups::ids::{Pn, Revision};
use fabricast_groups::record;
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Peer, TableKind};

const FABRIC: &str = r#"
    kind = "leaf-spine"
    leaves = 2
    spines = 2
    endpoints_per_leaf = 4
"#;

pub(crate) fn planner() -> Planner {
    let graph = Arc::new(TopologySpec::parse(FABRIC).unwrap().generate().unwrap());
    endpoints_are_in_order(&graph);
    let options = EngineOptions::new(2, TableKind::PerPort);
    Planner::new(&graph, EngineKind::CMr4lmsFixed, options).unwrap()
}

/// Checks what [`group`] relies on.
pub(crate) fn endpoints_are_in_order(graph: &Graph) {
    let mut endpoints = (0..).zip(graph.endpoints());
    assert!(endpoints.all(|(at, endpoint)| graph.endpoint_name(endpoint) == format!("h{at}")));
}

/// A group of a fabric whose endpoints are named h0, h1 and so on, in the order of their numbers.
pub(crate) fn group(mgid: u32, endpoints: &[&str]) -> CachedGroup {
    let member = |name: &&str| {
        let number = name[1..].parse().unwrap();
        let unknown = || RecordedEndpoint::Unknown(Box::new(EndpointName::new(name).unwrap()));
        let known = || RecordedEndpoint::Known(EndpointId(number));
        let endpoint = if number < 64 { known() } else { unknown() };
        CachedMember { endpoint, joined: Revision(0), sends_only: false }
    };
    CachedGroup {
        mgid: Mgid(mgid),
        members_revision: Revision(7),
        members: (0..).map(Pn).zip(endpoints.iter().map(member)).collect(),
        ..CachedGroup::named(&format!("g{mgid}"))
    }
}

/// A route with a tree of this color.
pub(crate) fn routed(color: u16) -> Route {
    Route {
        revision: Revision(0),
        state: RouteState::Routed { colors: color.into(), virtual_group: 0 },
        reason: String::new(),
        reason_code: record::RouteReason::Unspecified,
        cut_off: Vec::new(),
    }
}

pub(crate) fn planned(groups: Vec<CachedGroup>) -> (Planner, DirectoryCache) {
    let mut planner = planner();
    let mut directory = DirectoryCache::default();
    (1..).zip(groups).for_each(|(gn, group)| directory.put(Gn(gn), group));
    let gns: Vec<Gn> = directory.groups.keys().copied().collect();
    planner.plan(&directory, &gns);
    (planner, directory)
}

#[test]
fn groups_on_one_tree_that_meet_share_it_unless_one_is_exclusive() {
    // Two colors with two trees each: MGIDs 0 and 4 stand for the same tree.
    let (first, second) = (group(0, &["h0", "h4"]), group(4, &["h0", "h5"]));
    let (planner, directory) = planned(vec![first.clone(), second.clone()]);
    let routes = planner.routes(&directory);
    assert_eq!(routes[&Gn(1)].state, routes[&Gn(2)].state);
    assert_eq!(planner.explain(&directory, "g4").unwrap().shares_with, ["g0"]);

    let alone = CachedGroup { exclusive: true, ..second };
    let (planner, directory) = planned(vec![first, alone]);
    let routes = planner.routes(&directory);
    assert!(routes[&Gn(1)].colors().is_some());
    assert_eq!(routes[&Gn(2)].state, RouteState::UnicastOnly);
    assert_eq!(routes[&Gn(2)].reason_code, record::RouteReason::ExclusiveTreeShared);
    let why = "exclusive, and its tree would be shared with 1 groups; 1 of 4 spanning trees have other groups";
    assert_eq!(routes[&Gn(2)].reason, why);
}

#[test]
fn a_group_has_a_spanning_tree_only_where_mgids_stand_for_one() {
    let (planner, directory) = planned(vec![group(1, &["h0", "h4"])]);
    let found = planner.explain(&directory, "g1").unwrap();
    assert_eq!(found.spanning_tree, Some(found.home_spanning_tree));

    let options = EngineOptions::new(2, TableKind::PerPort);
    let mut other = Planner::new(&planner.graph, EngineKind::Mr4lms, options).unwrap();
    other.plan(&directory, &[Gn(1)]);
    let found = other.explain(&directory, "g1").unwrap();
    assert!(found.color.is_some(), "{found:?}");
    assert_eq!(found.spanning_tree, None);
}

/// R5: the entries of the tree that an exclusive group loses, or that a group leaves for another
/// home, stay until its senders know.
#[test]
fn the_tree_that_a_group_leaves_is_replaced() {
    let alone = CachedGroup { exclusive: true, ..group(0, &["h0", "h4"]) };
    let (mut planner, mut directory) = planned(vec![alone.clone()]);
    let left = planner.trees(&directory.groups[&Gn(1)]);
    directory.put(Gn(2), group(4, &["h0", "h5"]));
    let change = planner.plan(&directory, &[Gn(2)]);
    // Both groups use the leaf switches, and only the entry to h4 is gone.
    assert_eq!(change.replaced.keys().copied().collect::<Vec<_>>(), [Gn(1)]);
    directory.put(Gn(1), CachedGroup { mgid: Mgid(2), ..alone.clone() });
    let change = planner.plan(&directory, &[Gn(1)]);
    assert!(change.replaced.is_empty(), "it had no tree: {change:?}");
    let routes = planner.routes(&directory);
    assert_eq!(routes[&Gn(1)].colors(), Some(1.into()), "alone again");

    let (mut planner, mut directory) = planned(vec![alone.clone()]);
    directory.put(Gn(1), CachedGroup { mgid: Mgid(2), ..alone });
    let change = planner.plan(&directory, &[Gn(1)]);
    assert_eq!(change.replaced, BTreeMap::from([(Gn(1), left)]));
}

#[test]
fn a_group_of_one_endpoint_has_no_route_and_no_entries() {
    let (planner, directory) = planned(vec![group(3, &["h1", "h1"])]);
    let route = &planner.routes(&directory)[&Gn(1)];
    assert_eq!(route.state, RouteState::UnicastOnly);
    assert_eq!(route.revision, Revision(7));
    assert_eq!(planner.desired().len(), 0);
}

#[test]
fn a_member_that_the_topology_does_not_have_is_named() {
    let (planner, directory) = planned(vec![group(3, &["h0", "h4", "h99"])]);
    let route = &planner.routes(&directory)[&Gn(1)];
    assert!(route.colors().is_some());
    assert_eq!(route.cut_off, [EndpointName::new("h99").unwrap()]);
}

#[test]
fn a_dead_link_moves_a_group_and_its_repair_moves_the_group_back() {
    let (mut planner, directory) = planned(vec![group(0, &["h0", "h4"])]);
    let home = planner.desired();
    let link = planner.explain(&directory, "g0").unwrap().links;
    let is_inner = |port: PortId| matches!(planner.graph.peer(port), Peer::Switch(_));
    let link = link.iter().find(|link| is_inner(link.port)).unwrap().port;
    let dead = planner.set_failed(&[FailedElement::Link(link)]);
    assert!(dead.is_empty());
    planner.plan(&directory, &[]);
    assert_ne!(planner.desired(), home);
    let route = &planner.routes(&directory)[&Gn(1)];
    assert!(route.colors().is_some());
    assert!(route.reason.starts_with("moved"), "{}", route.reason);
    planner.set_failed(&[]);
    planner.plan(&directory, &[]);
    assert_eq!(planner.desired(), home);
}

#[test]
fn a_route_is_programmed_once_every_entry_is_confirmed() {
    let (planner, directory) = planned(vec![group(0, &["h0", "h4"])]);
    let route = &planner.routes(&directory)[&Gn(1)];
    let mut tables = Tables::new(TableState::default(), planner.desired());
    for switch in planner.graph().switches() {
        for entry in planner.entries(switch) {
            assert!(!planner.is_programmed(route, &tables), "{entry:?} is missing");
            let TableEntry { in_port, color, out, .. } = entry;
            tables.record(switch, &[Write { in_port, color, out }]);
        }
    }
    assert!(planner.is_programmed(route, &tables));
}

#[test]
fn a_deleted_group_makes_room_for_another_with_its_mgid() {
    let (mut planner, mut directory) = planned(vec![group(0, &["h0", "h4"])]);
    directory.remove(Gn(1));
    directory.put(Gn(9), group(0, &["h1", "h5"]));
    planner.plan(&directory, &[Gn(1), Gn(9)]);
    let routes = planner.routes(&directory);
    assert_eq!(routes.keys().collect::<Vec<_>>(), [&Gn(9)]);
    assert!(routes[&Gn(9)].colors().is_some());
}
