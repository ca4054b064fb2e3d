//! Laws of better homes for groups that got theirs one after the other.

use std::collections::BTreeMap;

use fabricast_routing::{
    BetterHomes, Change, EngineKind, EngineOptions, HomeError, HomeSearch, HomedGroup,
    RoutingEngine, better_homes, efi_by_port,
};
use fabricast_topology::{EndpointId, Faults, Mgid, Peer, PortId, TableKind};
use proptest::prelude::*;

use crate::check;
use crate::fabrics::{Fabric, any_way, fabric, make, steps};

fn put(group: &HomedGroup, home: Mgid) -> Change {
    Change::Put { mgid: home, members: group.members.clone() }
}

/// The sum of the EFI of all links.
fn sum_efi(engine: &dyn RoutingEngine) -> u64 {
    let graph = engine.graph();
    let loads = (0..).zip(efi_by_port(graph, engine.plan()));
    let counted = loads.filter(|(port, _)| match graph.peer(PortId(*port)) {
        Peer::Switch(other) => *port < other.0,
        Peer::Endpoint(_) => true,
        Peer::None => false,
    });
    counted.map(|(_, load)| u64::from(load)).sum()
}

/// Every second group is exclusive if it is alone on its tree.
fn groups_of(engine: &dyn RoutingEngine) -> Vec<HomedGroup> {
    let homed = |mgid: Mgid| {
        let mut members = engine.members(mgid).expect("it is listed");
        members.sort_unstable();
        let shared = engine.plan().virtual_group_of(mgid);
        let exclusive = mgid.0.is_multiple_of(2) && shared.is_some_and(|one| one.groups.len() == 1);
        HomedGroup { home: mgid, members, exclusive }
    };
    engine.groups().into_iter().map(homed).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// HOMES-1, HOMES-2; the figures are those of the plan with and without the moves, which keeps
    /// R1, R2 and R4.
    #[test]
    fn moves_make_the_plan_better_and_disturb_no_exclusive_group(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(40),
    ) {
        let mut engine = fabric.engine(colors, way);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        let groups = groups_of(&engine);
        let search = HomeSearch {
            graph: fabric.graph.clone(),
            kind: engine.kind(),
            options: EngineOptions {
                fault_tolerant: engine.plan().is_dual(),
                ..EngineOptions::new(colors, way.0)
            },
            faults: engine.faults().clone(),
            groups: groups.clone(),
        };
        let found = better_homes(&search, 5).expect("the groups are planned already");
        prop_assert!(found.moves.len() <= 5);
        prop_assert_eq!(found.links[0], sum_efi(&engine));
        let unrouted = |engine: &dyn RoutingEngine| engine.plan().unrouted().len();
        let mut before = (unrouted(&engine), found.links[0]);
        let groups: BTreeMap<Mgid, &HomedGroup> =
            groups.iter().map(|group| (group.home, group)).collect();
        for one in &found.moves {
            prop_assert!(!groups[&one.from].exclusive);
            prop_assert_ne!(engine.space().spt(one.from), one.tree);
            let moved = [Change::Delete { mgid: one.from }, put(groups[&one.from], one.to)];
            engine.apply(&moved).expect("the home is free");
            let after = (unrouted(&engine), sum_efi(&engine));
            prop_assert!(after < before, "{:?}: {:?}, {:?} before", one, after, before);
            prop_assert_eq!(
                before.1.cast_signed() - after.1.cast_signed(), one.saved_links
            );
            before = after;
        }
        prop_assert_eq!(found.links[1], before.1);
        for (home, group) in groups.iter().filter(|(_, group)| group.exclusive) {
            let shared = engine.plan().virtual_group_of(*home);
            prop_assert!(shared.is_none_or(|one| one.groups.len() == 1), "{:?}", group);
        }
        let report = check(&fabric.graph, &engine);
        prop_assert_eq!(&report.violations, &vec![]);
    }
}

/// Four leaves below two spines, and groups that all have their homes on the first tree.
fn crowded(kind: &str) -> (Fabric, Result<BetterHomes, HomeError>) {
    let spec = "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nendpoints_per_leaf = 4";
    let fabric = Fabric::new(spec.to_owned(), None).expect("a fat tree");
    // Two colors, two spines: four trees; every fourth MGID is on the first one.
    let group = |at: u32| HomedGroup {
        home: Mgid(at * 4),
        members: vec![EndpointId(at), EndpointId(4 + at)],
        exclusive: false,
    };
    let search = HomeSearch {
        graph: fabric.graph.clone(),
        kind: kind.parse::<EngineKind>().expect("an engine"),
        options: EngineOptions::new(2, TableKind::PerPort),
        faults: Faults::new(),
        groups: (0..4).map(group).collect(),
    };
    let found = better_homes(&search, 100);
    (fabric, found)
}

/// Four groups of the same two leaves are merged on one tree, while three trees are free.
#[test]
fn groups_of_one_tree_spread_over_those_that_are_free() {
    let (_fabric, found) = crowded("c-mr4lms-fixed");
    let found = found.expect("the engine plans by MGID");
    // Merged, each of 4 packets crosses 2 links between switches and 8 to endpoints; alone 2 and 2.
    assert_eq!(found.links, [40, 16]);
    assert_eq!([found.metrics[0].max_tfi, found.metrics[1].max_tfi], [4, 1]);
    assert_eq!(found.moves.len(), 3);
    assert!(!found.is_partial);
    let again: Vec<u32> = found.moves.iter().map(|one| one.tree).collect();
    assert!(again.iter().all(|tree| *tree != 0), "{again:?}");
}

#[test]
fn engines_that_choose_trees_themselves_are_refused() {
    let (_fabric, refused) = crowded("mr4lms");
    let refused = refused.expect_err("it has no homes");
    assert_eq!(refused.to_string(), "mr4lms chooses trees itself, whatever home a group has");
}
