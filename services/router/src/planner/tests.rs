//! Tests of the planner on small fabrics.

use super::*;
use crate::table_state::{TableState, Write};
use fabricast_topology::TableKind;
use fabricast_topology::spec::TopologySpec;

const FABRIC: &str = r#"
    kind = "leaf-spine"
    leaves = 2
    spines = 2
    endpoints_per_leaf = 4
"#;

pub(crate) fn planner() -> Planner {
    let graph = Arc::new(TopologySpec::parse(FABRIC).unwrap().generate().unwrap());
    let options = EngineOptions::new(2, TableKind::PerPort);
    Planner::new(&graph, EngineKind::CMr4lmsFixed, options).unwrap()
}

pub(crate) fn group(mgid: u32, endpoints: &[&str]) -> CachedGroup {
    CachedGroup {
        name: format!("g{mgid}"),
        mgid,
        members_revision: 7,
        endpoints: (0..).zip(endpoints.iter().map(|name| (*name).to_owned())).collect(),
        ..CachedGroup::default()
    }
}

pub(crate) fn planned(groups: Vec<CachedGroup>) -> (Planner, DirectoryCache) {
    let mut planner = planner();
    let mut directory = DirectoryCache::default();
    (1..).zip(groups).for_each(|(gn, group)| directory.put(gn, group));
    let gns: Vec<u64> = directory.groups.keys().copied().collect();
    planner.plan(&directory, &gns);
    (planner, directory)
}

#[test]
fn groups_on_one_tree_that_meet_share_it_unless_one_is_exclusive() {
    // Two colors with two trees each: MGIDs 0 and 4 stand for the same tree.
    let (first, second) = (group(0, &["h0", "h4"]), group(4, &["h0", "h5"]));
    let (planner, directory) = planned(vec![first.clone(), second.clone()]);
    let routes = planner.routes(&directory);
    assert_eq!(routes[&1].virtual_group, routes[&2].virtual_group);
    assert_eq!(planner.explain(&directory, "g4").unwrap().shares_with, ["g0"]);

    let alone = CachedGroup { exclusive: true, ..second };
    let (planner, directory) = planned(vec![first, alone]);
    let routes = planner.routes(&directory);
    assert_eq!(routes[&1].state(), v1::RouteState::Routed);
    assert_eq!(routes[&2].state(), v1::RouteState::UnicastOnly);
    assert!(routes[&2].reason_code() == v1::RouteReason::ExclusiveTreeShared, "{:?}", routes[&2]);
}

#[test]
fn a_group_of_one_endpoint_has_no_route_and_no_entries() {
    let (planner, directory) = planned(vec![group(3, &["h1", "h1"])]);
    let route = &planner.routes(&directory)[&1];
    assert_eq!(route.state(), v1::RouteState::UnicastOnly);
    assert_eq!(route.routed_revision, 7);
    assert_eq!(planner.desired().len(), 0);
}

#[test]
fn a_member_that_the_topology_does_not_have_is_named() {
    let (planner, directory) = planned(vec![group(3, &["h0", "h4", "h99"])]);
    let route = &planner.routes(&directory)[&1];
    assert_eq!(route.state(), v1::RouteState::Routed);
    assert_eq!(route.cut_off_endpoints, ["h99"]);
}

#[test]
fn a_dead_link_moves_a_group_and_its_repair_moves_the_group_back() {
    let (mut planner, directory) = planned(vec![group(0, &["h0", "h4"])]);
    let home = planner.desired();
    let link = planner.explain(&directory, "g0").unwrap().links;
    let link = link.iter().find(|link| link.peer_port > 0).unwrap();
    let name = v1::PortName { switch_name: link.switch_name.clone(), port: link.port };
    let dead = planner.set_failed(&[v1::Element { kind: Some(Kind::Link(name)) }]);
    assert!(dead.is_empty());
    planner.plan(&directory, &[]);
    assert_ne!(planner.desired(), home);
    let route = &planner.routes(&directory)[&1];
    assert_eq!(route.state(), v1::RouteState::Routed);
    assert!(route.reason.starts_with("moved"), "{}", route.reason);
    planner.set_failed(&[]);
    planner.plan(&directory, &[]);
    assert_eq!(planner.desired(), home);
}

#[test]
fn a_route_is_programmed_once_every_entry_is_confirmed() {
    let (planner, directory) = planned(vec![group(0, &["h0", "h4"])]);
    let route = &planner.routes(&directory)[&1];
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
    directory.remove(1);
    directory.put(9, group(0, &["h1", "h5"]));
    planner.plan(&directory, &[1, 9]);
    let routes = planner.routes(&directory);
    assert_eq!(routes.keys().collect::<Vec<_>>(), [&9]);
    assert_eq!(routes[&9].state(), v1::RouteState::Routed);
}
