//! The guarantees of the fixed-root engine, on fabrics small enough to check by hand.

use std::sync::Arc;

use fabricast_routing::verify::{Group, Options, Senders, Violation, verify};
use fabricast_routing::{
    Change, ChangeError, ChangeProblem, CutOffReason, Displacement, EngineOptions, FixedRootEngine,
    LayoutError, RoutingEngine, metrics, table_entries,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    EndpointId, FatTree, Faults, Graph, Mgid, PortId, PortSet, TableEntry, TableKind, ibnetdiscover,
};

fn fabric(text: &str) -> (Arc<Graph>, Arc<FatTree>) {
    let graph = TopologySpec::parse(text).expect("valid").generate().expect("valid");
    let fat_tree = FatTree::detect(&graph).expect("a fat tree");
    (Arc::new(graph), Arc::new(fat_tree))
}

/// Three leaves with two hosts each (h0 h1, h2 h3, h4 h5), two spines, single links; two colors.
fn small(tables: TableKind) -> (Arc<Graph>, FixedRootEngine) {
    let (graph, fat_tree) =
        fabric("kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nendpoints_per_leaf = 2");
    let options = EngineOptions::new(2, tables);
    let engine = FixedRootEngine::new(graph.clone(), fat_tree, options).expect("colors in range");
    (graph, engine)
}

fn put(mgid: u32, members: &[u32]) -> Change {
    Change::Put { mgid: Mgid(mgid), members: members.iter().copied().map(EndpointId).collect() }
}

fn up(graph: &Graph, leaf: &str, spine: u8) -> PortId {
    let leaf = graph.find_switch(leaf).expect("it is generated");
    graph.port(leaf, 3 + spine).expect("ports 3 and 4 lead up")
}

fn options(tables: TableKind) -> Options {
    Options { colors: 2, tables, senders: Senders::All, list: 100 }
}

#[test]
fn colors_out_of_range_are_refused() {
    let (graph, fat_tree) =
        fabric("kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nendpoints_per_leaf = 1");
    for colors in [0, 16_385] {
        let options = EngineOptions::new(colors, TableKind::PerPort);
        let refused = FixedRootEngine::new(graph.clone(), fat_tree.clone(), options).err();
        assert_eq!(refused, Some(LayoutError::Colors { colors: u32::from(colors) }));
    }
}

#[test]
fn a_refused_batch_names_the_change_and_changes_nothing() {
    let (_, mut engine) = small(TableKind::PerPort);
    engine.apply(&[put(1, &[0, 2])]).unwrap();
    let before = engine.plan().clone();
    let (mgid, endpoint) = (Mgid(1), EndpointId(2));
    for (change, problem) in [
        (put(3, &[4, 2, 4]), ChangeProblem::DuplicateMember { endpoint: EndpointId(4) }),
        (put(3, &[6]), ChangeProblem::UnknownEndpoint { endpoint: EndpointId(6) }),
        (put(2, &[]), ChangeProblem::PutTwice),
        (Change::Join { mgid, endpoint }, ChangeProblem::AlreadyMember { endpoint }),
        (
            Change::Leave { mgid, endpoint: EndpointId(5) },
            ChangeProblem::NotMember { endpoint: EndpointId(5) },
        ),
        (Change::Join { mgid: Mgid(9), endpoint }, ChangeProblem::UnknownGroup),
        (Change::Leave { mgid: Mgid(9), endpoint }, ChangeProblem::UnknownGroup),
        (Change::Delete { mgid: Mgid(9) }, ChangeProblem::UnknownGroup),
    ] {
        let mgid = change.mgid();
        let refused = engine.apply(&[put(2, &[1, 3]), change]);
        assert_eq!(refused, Err(ChangeError { index: 1, mgid, problem }));
        assert_eq!((engine.plan(), engine.group_count()), (&before, 1));
    }
    let again = [Change::Delete { mgid }, Change::Join { mgid, endpoint }];
    let problem = ChangeProblem::UnknownGroup;
    assert_eq!(engine.apply(&again), Err(ChangeError { index: 1, mgid, problem }));
}

#[test]
fn groups_merge_where_they_meet_and_part_when_the_link_between_goes() {
    let (graph, mut engine) = small(TableKind::PerPort);
    // MGIDs 0, 4 and 8 have spanning tree 0.
    engine.apply(&[put(0, &[0, 2]), put(4, &[3, 4]), put(8, &[1, 5])]).unwrap();
    let merged = engine.plan().virtual_group_of(Mgid(8)).unwrap();
    assert_eq!(merged.groups, [Mgid(0), Mgid(4), Mgid(8)]);
    let figures = metrics(&graph, engine.plan());
    assert_eq!((figures.max_tfi, figures.trees, figures.groups), (3, 1, 3));
    assert_eq!((figures.switch_links.used, figures.switch_links.max_efi), (3, 3));
    assert_eq!((figures.all_links.used, figures.max_entries), (9, 1));
    engine.apply(&[Change::Delete { mgid: Mgid(8) }, put(4, &[4, 5])]).unwrap();
    let figures = metrics(&graph, engine.plan());
    assert_eq!((figures.max_tfi, figures.trees, figures.groups), (1, 2, 2));
    assert_eq!((figures.switch_links.used, figures.switch_links.max_efi), (2, 1));
    assert_eq!(engine.plan(), &engine.plan_from_scratch());
}

#[test]
fn fewer_than_two_members_have_no_tree() {
    let (graph, mut engine) = small(TableKind::PerPort);
    engine.apply(&[put(0, &[]), put(1, &[3])]).unwrap();
    assert!(table_entries(&graph, engine.plan()).is_empty());
    let group = engine.plan().group(Mgid(1)).unwrap();
    assert_eq!((group.live_members, group.has_tree(), group.cut_off), (1, false, &[][..]));
    assert_eq!(engine.group_trees(Mgid(1)), []);
}

#[test]
fn a_dead_link_moves_its_groups_and_healing_brings_them_home() {
    let (graph, mut engine) = small(TableKind::PerPort);
    engine.apply(&[put(0, &[0, 2]), put(1, &[1, 3])]).unwrap();
    let before = engine.plan().clone();
    let mut faults = Faults::new();
    faults.fail_link(&graph, up(&graph, "leaf0", 0));
    engine.set_faults(faults.clone());
    let moved = engine.plan().moved();
    assert_eq!((moved.len(), moved[0].mgid, moved[0].from), (1, Mgid(0), 0));
    assert!(matches!(moved[0].why, Displacement::TreeBroken { .. }));
    assert_eq!(engine.plan().group(Mgid(0)).unwrap().color, 1, "another color comes first");
    assert_eq!(engine.plan().changed_since(&before), [0, moved[0].to]);
    faults.fail_link(&graph, up(&graph, "leaf0", 1));
    engine.set_faults(faults);
    let cut = engine.plan().group(Mgid(0)).unwrap().cut_off;
    assert_eq!((cut[0].endpoint, cut[0].why), (EndpointId(0), CutOffReason::LeafCutOff));
    engine.set_faults(Faults::new());
    assert_eq!(engine.plan(), &before);
}

#[test]
fn a_color_in_use_moves_the_group_with_the_larger_mgid() {
    let (_, mut engine) = small(TableKind::PerPort);
    // Spanning trees 0 and 1 have color 0, 2 and 3 color 1; all three groups meet in h0.
    engine.apply(&[put(1, &[0, 4]), put(0, &[0, 2])]).unwrap();
    let moved = engine.plan().moved();
    assert_eq!((moved[0].mgid, moved[0].from, moved[0].to), (Mgid(1), 1, 2));
    assert_eq!(moved[0].why, Displacement::ColorHeld { endpoint: EndpointId(0), by: 0 });
    engine.apply(&[put(3, &[0, 3])]).unwrap();
    let places: Vec<u32> =
        [0, 1, 3].map(|mgid| engine.plan().group(Mgid(mgid)).unwrap().part).into();
    assert_eq!(places, [0, 0, 3], "both colors are in use at h0 now, and merging is allowed");
}

#[test]
fn a_group_that_no_tree_can_serve_is_unrouted_and_says_why() {
    let (graph, mut engine) = small(TableKind::PerPort);
    let mut faults = Faults::new();
    faults.fail_link(&graph, up(&graph, "leaf0", 0));
    faults.fail_link(&graph, up(&graph, "leaf1", 1));
    engine.set_faults(faults);
    engine.apply(&[put(0, &[0, 2]), put(1, &[2, 4])]).unwrap();
    let unrouted = engine.plan().unrouted();
    assert_eq!((unrouted.len(), unrouted[0].mgid, unrouted[0].broken), (1, Mgid(0), 4));
    assert_eq!(engine.plan().group(Mgid(0)), None);
    assert_eq!(engine.plan().moved()[0].mgid, Mgid(1));
}

/// The real cluster: 96 hosts, six parallel links between each leaf and spine.
#[test]
fn the_real_cluster_uses_its_parallel_links() {
    let text = include_str!("../../../data/cluster-edr-96.ibnetdiscover");
    let graph = Arc::new(ibnetdiscover::read(text).unwrap());
    let fat_tree = Arc::new(FatTree::detect(&graph).unwrap());
    let params = *fat_tree.params();
    let options = EngineOptions::new(4, TableKind::PerPort);
    let mut engine = FixedRootEngine::new(graph.clone(), fat_tree, options).unwrap();
    assert_eq!(engine.layout().space().trees_per_color(), params.spines * params.lanes0);
    let endpoints = u32::try_from(graph.endpoint_count()).unwrap();
    // As many groups of everybody as there are conflict-free trees in a color share no link.
    let trees = engine.layout().space().trees_per_color();
    let halves: Vec<Change> = (0..trees)
        .map(|mgid| put(mgid, &(0..endpoints).filter(|at| at % trees == mgid).collect::<Vec<_>>()))
        .collect();
    engine.apply(&halves).unwrap();
    let figures = metrics(&graph, engine.plan());
    assert_eq!((figures.max_tfi, figures.trees), (1, trees));
    assert_eq!(figures.switch_links.max_efi, 1);
    let options = Options { colors: 4, tables: TableKind::PerPort, senders: Senders::All, list: 3 };
    let entries = table_entries(&graph, engine.plan());
    let report = verify(&graph, engine.faults(), &engine.delivery_groups(), &entries, options);
    assert_eq!((report.violations, report.unused_entries), (vec![], 0));
}

/// Rows of the small fabric by leaf or spine, input port, outputs; all of color 0.
fn rows(graph: &Graph, rows: &[(&str, u8, &[u8])]) -> Vec<TableEntry> {
    let row = |(switch, in_port, out): &(&str, u8, &[u8])| TableEntry {
        switch: graph.find_switch(switch).expect("it is generated"),
        in_port: *in_port,
        color: 0,
        out: out.iter().copied().collect::<PortSet>(),
    };
    rows.iter().map(row).collect()
}

fn pair(mgid: u32, virtual_group: u32, members: [u32; 2]) -> Group {
    let (members, only_senders) = (members.map(EndpointId).into(), Vec::new());
    Group { mgid: Mgid(mgid), colors: vec![0], copies: 1, virtual_group, members, only_senders }
}

fn violations(groups: &[Group], table: &[(&str, u8, &[u8])]) -> Vec<Violation> {
    let (graph, _) = small(TableKind::PerPort);
    let table = rows(&graph, table);
    verify(&graph, &Faults::new(), groups, &table, options(TableKind::PerPort)).violations
}

#[test]
fn the_verifier_has_members_that_only_send_get_nothing() {
    let (mgid, receiver, sender) = (Mgid(7), EndpointId(0), EndpointId(1));
    let group = Group { members: vec![receiver], only_senders: vec![sender], ..pair(7, 7, [0, 1]) };
    let alone = std::slice::from_ref(&group);
    let [there, back]: [(&str, u8, &[u8]); 2] = [("leaf0", 2, &[1]), ("leaf0", 1, &[2])];
    assert_eq!(violations(alone, &[there]), []);
    let missed = Violation::NotDelivered { mgid, from: sender, to: receiver };
    assert_eq!(violations(alone, &[]), [missed]);
    let stray = Violation::DeliveredToStranger { mgid, from: receiver, to: sender };
    assert_eq!(violations(alone, &[there, back]), [stray]);
    // In another group of the virtual group it receives.
    let other = pair(8, 7, [0, 1]);
    assert_eq!(violations(&[group, other], &[there, back]), []);
}

#[test]
fn the_verifier_names_every_kind_of_violation() {
    let (mgid, from, to) = (Mgid(7), EndpointId(0), EndpointId(1));
    let good: [(&str, u8, &[u8]); 2] = [("leaf0", 1, &[2]), ("leaf0", 2, &[1])];
    let group = pair(7, 7, [0, 1]);
    let alone = std::slice::from_ref(&group);
    assert_eq!(violations(alone, &good), []);
    assert_eq!(violations(alone, &good[1..]), [Violation::NotDelivered { mgid, from, to }]);
    // h2 is nobody's; leaf1 hands it a copy that came over spine0.
    let mut leaky = good.to_vec();
    leaky[0] = ("leaf0", 1, &[2, 3]);
    leaky.extend([("spine0", 1, &[2u8][..]), ("leaf1", 3, &[1])]);
    let to = EndpointId(2);
    assert_eq!(violations(alone, &leaky), [Violation::DeliveredToStranger { mgid, from, to }]);
    let insider = pair(8, 7, [2, 3]);
    assert!(
        !violations(&[group.clone(), insider], &leaky).contains(&Violation::DeliveredToStranger {
            mgid,
            from,
            to
        })
    );
    // Up over spine0, round leaf1, down over spine1: h1 gets a second copy.
    let mut twice = leaky.clone();
    twice[3] = ("leaf1", 3, &[4]);
    twice.extend([("spine1", 2, &[1u8][..]), ("leaf0", 4, &[2])]);
    let to = EndpointId(1);
    assert_eq!(violations(alone, &twice), [Violation::DeliveredTwice { mgid, from, to }]);
    // The copy that comes down goes up again: it never ends.
    let mut round = twice.clone();
    round[5] = ("leaf0", 4, &[3]);
    assert!(matches!(&violations(alone, &round)[..], [Violation::Loop { port: 1, .. }]));
    // Two virtual groups on one row.
    let other = pair(9, 9, [0, 1]);
    assert!(matches!(
        &violations(&[group.clone(), other], &good)[..],
        [Violation::SharedEntry { first: 7, second: 9, .. }, Violation::SharedEntry { .. }]
    ));
    let doubled = [good[0], good[1], good[1]];
    assert!(matches!(&violations(alone, &doubled)[..], [Violation::DuplicateEntry { .. }]));
    let unknown = [good[0], good[1], ("leaf1", 9, &[1])];
    assert!(matches!(&violations(alone, &unknown)[..], [Violation::UnknownPort { port: 9, .. }]));
    let beyond = Group { colors: vec![2], ..group.clone() };
    assert_eq!(violations(&[beyond], &good), [Violation::ColorOutOfRange { mgid, color: 2 }]);
    let (graph, _) = small(TableKind::PerPort);
    let mut faults = Faults::new();
    faults.fail_endpoint(EndpointId(1));
    let table = rows(&graph, &good);
    let report = verify(&graph, &faults, alone, &table, options(TableKind::PerPort));
    assert!(report.violations.contains(&Violation::Detached { mgid, endpoint: EndpointId(1) }));
    let mut table = table;
    table[0].color = 2;
    let report = verify(&graph, &Faults::new(), &[], &table, options(TableKind::PerPort));
    assert!(matches!(report.violations[..], [Violation::EntryOutOfRange { .. }]));
}
