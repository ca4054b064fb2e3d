//! The engines of today on every kind of fabric: rules R1, R2 and R4 as laws, what their trees are,
//! and what groups may rely on.

mod fabrics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_routing::verify::{Options, Report, Senders, verify};
use fabricast_routing::{
    Baseline, BaselineRule, Change, EngineOptions, Grid, LayerPlan, MgidSpace, MinHops,
    RestoreProblem, RoutingEngine, SwitchLinks, VirtualGroup, efi_by_port, grid_groups, metrics,
    table_entries,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Faults, Graph, Mgid, Peer, PortId, SwitchId, TableKind};
use proptest::prelude::*;

use fabrics::{Made, fabric, make, options, rule, steps};

/// Sends a packet from every live member of every routed group.
fn check(engine: &Baseline) -> Report {
    let plan = engine.plan();
    let options =
        Options { colors: plan.colors(), tables: plan.tables(), senders: Senders::All, list: 5 };
    let entries = table_entries(engine.graph(), plan);
    verify(engine.graph(), engine.faults(), &engine.delivery_groups(), &entries, options)
}

fn engine(graph: &Arc<Graph>, rule: BaselineRule, options: EngineOptions) -> Baseline {
    Baseline::new(graph.clone(), rule, options).expect("colors in range")
}

/// The same faults and groups, these in another order, on a new engine.
fn again(old: &Baseline, options: EngineOptions) -> Baseline {
    let mut new = engine(old.graph(), old.rule(), options);
    new.set_faults(old.faults().clone());
    let groups = old.groups().into_iter().rev();
    let put = |mgid| Change::Put { mgid, members: old.members(mgid).expect("it exists") };
    new.apply(&groups.map(put).collect::<Vec<_>>()).expect("changes that make sense");
    new
}

fn generate(text: &str) -> Arc<Graph> {
    let spec = TopologySpec::parse(text).expect("a valid description");
    Arc::new(spec.generate().expect("a valid fabric"))
}

fn put(mgid: u32, members: &[u32]) -> Change {
    Change::Put { mgid: Mgid(mgid), members: members.iter().copied().map(EndpointId).collect() }
}

/// Hops within a tree from its root to every switch it passes.
fn depths(graph: &Graph, tree: &VirtualGroup<'_>) -> BTreeMap<SwitchId, u8> {
    let root = tree.root.expect("it has a tree");
    let mut depths = BTreeMap::from([(root, 0)]);
    let mut queue = vec![root];
    while let Some(at) = queue.pop() {
        for port in graph.ports(at).filter(|port| tree.ports.contains(port)) {
            let Peer::Switch(peer) = graph.peer(port) else { continue };
            let to = graph.switch_of(peer);
            if !depths.contains_key(&to) {
                depths.insert(to, depths[&at] + 1);
                queue.push(to);
            }
        }
    }
    depths
}

/// The switches of a tree's members.
fn leaves(graph: &Graph, tree: &VirtualGroup<'_>) -> BTreeSet<SwitchId> {
    let slots = tree.ports.iter().filter(|port| matches!(graph.peer(**port), Peer::Endpoint(_)));
    slots.map(|port| graph.switch_of(*port)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// R1, R2, R4: after every step packets reach whom they must, and no row is stale.
    #[test]
    fn packets_reach_exactly_the_members(
        fabric in fabric(), rule in rule(), options in options(), history in steps(),
    ) {
        let mut engine = engine(&fabric, rule, options);
        for step in &history {
            let Some(made) = make(&mut engine, step) else { continue };
            let report = check(&engine);
            prop_assert_eq!(&report.violations, &vec![], "after {:?}", made);
            prop_assert_eq!(report.unused_entries, 0);
            let figures = metrics(&fabric, engine.plan());
            prop_assert_eq!(figures.groups as usize, report.groups);
            let colors = engine.plan().groups().map(|group| group.color).max();
            prop_assert!(colors.is_none_or(|color| color < options.colors));
            prop_assert!(rule != BaselineRule::GlobalTree || figures.max_entries <= 1);
            let (routed, all) = (engine.plan().groups().count(), engine.group_count());
            prop_assert_eq!(routed, all, "groups without a tree are in the plan, too");
        }
    }

    /// MINIHOP-MC, SSSP-MC: the root's farthest member is as near as it can be, and every member is
    /// at the end of a way of least hops.
    #[test]
    fn trees_are_as_low_as_they_can_be(
        fabric in fabric(), rule in rule(), options in options(), history in steps(),
    ) {
        let mut old = engine(&fabric, rule, options);
        for step in &history {
            make(&mut old, step);
        }
        let engine = again(&old, options); // who kept a tree when a link healed may have a high one
        let hops = MinHops::new(&fabric, engine.faults());
        for tree in engine.plan().virtual_groups().filter(|tree| !tree.ports.is_empty()) {
            let (root, depths) = (tree.root.unwrap(), depths(&fabric, &tree));
            let leaves = leaves(&fabric, &tree);
            let height = |root| leaves.iter().map(|leaf| hops.hops(root, *leaf)).max().flatten();
            for leaf in leaves.iter().filter(|_| rule != BaselineRule::GlobalTree) {
                prop_assert_eq!(depths.get(leaf).copied(), hops.hops(root, *leaf));
            }
            let lowest = fabric.switches().filter_map(|root| {
                leaves.iter().map(|leaf| hops.hops(root, *leaf)).collect::<Option<Vec<_>>>()
            });
            let lowest = lowest.filter_map(|hops| hops.into_iter().max()).min();
            prop_assert!(rule == BaselineRule::GlobalTree || height(root) == lowest);
        }
    }

    /// Only the color of the group that changed is planned anew; with a fault only what is broken
    /// or serves others.
    #[test]
    fn what_is_not_touched_stays(
        fabric in fabric(), options in options(), history in steps(), sssp: bool,
    ) {
        let rule = if sssp { BaselineRule::LightestPath } else { BaselineRule::MinHop };
        let mut engine = engine(&fabric, rule, options);
        for step in &history {
            let before = engine.clone();
            let Some(made) = make(&mut engine, step) else { continue };
            let changed = engine.plan().changed_since(before.plan());
            match made {
                Made::Change(mgid) => {
                    let color = |engine: &Baseline| engine.plan().group(mgid).map(|group| group.part);
                    let touched = [color(&before), color(&engine)];
                    prop_assert!(changed.iter().all(|part| touched.contains(&Some(*part))));
                }
                Made::Faults => for part in changed {
                    let mut trees = before.plan().virtual_groups_on(part, 0);
                    let faults = engine.faults();
                    let is_broken = trees.any(|tree| {
                        tree.ports.iter().any(|port| !faults.port_is_live(&fabric, *port))
                    });
                    let mut groups = before.plan().groups().filter(|group| group.part == part);
                    let serves_others = groups.any(|group| {
                        let now = engine.plan().group(group.mgid).unwrap();
                        now.cut_off != group.cut_off
                    });
                    prop_assert!(is_broken || serves_others);
                }
            }
            let faults = engine.faults().clone();
            let before = engine.plan().clone();
            engine.set_faults(faults);
            prop_assert_eq!(engine.plan(), &before, "the same faults again change nothing");
        }
    }

    /// Groups, faults and recorded choices make the plan again; the global tree needs no choices.
    #[test]
    fn recorded_choices_make_the_plan_again(
        fabric in fabric(), rule in rule(), options in options(), history in steps(),
    ) {
        let mut old = engine(&fabric, rule, options);
        for step in &history {
            make(&mut old, step);
        }
        let mut new = again(&old, options);
        let choices = old.choices();
        prop_assert_eq!(choices.is_empty(), rule == BaselineRule::GlobalTree || old.group_count() == 0);
        new.restore(&choices).unwrap();
        prop_assert_eq!(new.plan(), old.plan());
        prop_assert_eq!(new.choices(), choices);
    }
}

/// Two groups of one color get a tree each while the fabric is in two, and keep them when it is
/// mended.
#[test]
fn trees_that_were_made_apart_are_made_again_apart() {
    let graph = generate("kind = 'torus'\nx = 4\ny = 1\nz = 1\nendpoints_per_switch = 2");
    for (rule, tables) in [
        (BaselineRule::MinHop, TableKind::PerPort),
        (BaselineRule::LightestPath, TableKind::PerSwitch),
        (BaselineRule::MinHop, TableKind::PerSwitch),
    ] {
        let options = EngineOptions::new(1, tables);
        let mut old = engine(&graph, rule, options);
        let mut faults = Faults::new();
        for switch in [0, 2] {
            // Between switches 1 and 2, and between 3 and 0.
            let cable = |port: &PortId| match graph.peer(*port) {
                Peer::Switch(peer) => graph.switch_of(peer).0 == (switch + 3) % 4,
                Peer::Endpoint(_) | Peer::None => false,
            };
            faults.fail_link(&graph, graph.ports(SwitchId(switch)).find(cable).unwrap());
        }
        old.set_faults(faults);
        old.apply(&[put(0, &[0, 2]), put(1, &[4, 6])]).unwrap();
        old.set_faults(Faults::new());
        assert_eq!(old.plan().virtual_groups().count(), 2);
        let mut new = again(&old, options);
        new.restore(&old.choices()).unwrap();
        assert_eq!(new.plan(), old.plan(), "{rule:?}");
        assert!(check(&new).is_clean());
    }
}

/// A group and its color that are recorded wrongly change nothing.
#[test]
fn choices_that_do_not_fit_are_refused_and_trees_that_broke_are_made_anew() {
    let graph = generate("kind = 'torus'\nx = 4\ny = 3\nz = 1\nendpoints_per_switch = 1");
    let options = EngineOptions::new(2, TableKind::PerSwitch);
    let mut engine = engine(&graph, BaselineRule::MinHop, options);
    engine.apply(&[put(1, &[0, 5]), put(2, &[3, 7, 9])]).unwrap();
    let good = engine.choices();
    let before = engine.plan().clone();
    for (problem, spoil) in [
        (RestoreProblem::UnknownGroup, 0),
        (RestoreProblem::UnknownTree, 1),
        (RestoreProblem::UnknownTree, 2),
        (RestoreProblem::Twice, 3),
    ] {
        let mut bad = good.clone();
        match spoil {
            0 => bad[1].mgid = Mgid(7),
            1 => bad[1].part = 2,
            2 => bad[1].root = 12,
            _ => bad[1].mgid = Mgid(1),
        }
        let refused = engine.restore(&bad).unwrap_err();
        assert_eq!((refused.index, refused.problem), (1, problem));
        assert_eq!(engine.plan(), &before);
    }
    let mut cut = good.clone();
    cut[1].ports.pop();
    engine.restore(&cut).unwrap();
    assert!(check(&engine).is_clean());
    assert_eq!(engine.choices()[0], good[0]);
    let mut global = Baseline::new(graph, BaselineRule::GlobalTree, options).unwrap();
    global.apply(&[put(1, &[0, 5])]).unwrap();
    let problem = global.restore(&good[..1]).unwrap_err().problem;
    assert!(matches!(problem, RestoreProblem::NothingToChoose { .. }));
}

/// OpenSM's rule: towards each member the first port of least hops, never mind who else uses it.
#[test]
fn minhop_takes_first_ports_and_sssp_takes_light_ones() {
    // Two leaves under four spines; the spines differ in load only.
    let graph =
        generate("kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 4\nlanes0 = 4");
    let options = EngineOptions::new(8, TableKind::PerSwitch);
    let groups: Vec<Change> = (0..4).map(|at| put(at, &[at, at + 4])).collect();
    let loads = |rule| {
        let mut engine = engine(&graph, rule, options);
        engine.apply(&groups).unwrap();
        let efi = efi_by_port(&graph, engine.plan());
        let ups: Vec<u32> =
            graph.ports(SwitchId(0)).skip(4).map(|port| efi[port.index()]).collect();
        ups
    };
    assert_eq!(loads(BaselineRule::MinHop), [4, 0, 0, 0]);
    assert_eq!(loads(BaselineRule::LightestPath), [1, 1, 1, 1]);
    assert_eq!(loads(BaselineRule::GlobalTree), [4, 0, 0, 0]);
}

#[test]
fn groups_share_colors_only_when_all_are_used_and_evenly_then() {
    let graph = generate("kind = 'torus'\nx = 5\ny = 5\nz = 1\nendpoints_per_switch = 1");
    let mut engine =
        engine(&graph, BaselineRule::LightestPath, EngineOptions::new(3, TableKind::PerPort));
    let colors = |engine: &Baseline| -> Vec<u16> {
        engine
            .plan()
            .groups()
            .map(|group| (group.mgid, group.color))
            .collect::<BTreeMap<_, _>>()
            .into_values()
            .collect()
    };
    for at in 0..7 {
        engine.apply(&[put(at, &[at, at + 9])]).unwrap();
    }
    assert_eq!(colors(&engine), [0, 1, 2, 0, 1, 2, 0]);
    let shared = engine.plan().virtual_group_of(Mgid(6)).unwrap();
    assert_eq!(shared.groups, [Mgid(0), Mgid(3), Mgid(6)]);
    engine.apply(&[Change::Delete { mgid: Mgid(4) }, put(9, &[1, 2])]).unwrap();
    assert_eq!(engine.plan().group(Mgid(9)).unwrap().color, 1, "it has the fewest groups");
}

/// Islands of the fabric that cannot reach one another have a tree each, of one color.
#[test]
fn groups_of_one_color_on_two_islands_have_a_tree_each() {
    let graph = generate("kind = 'torus'\nx = 4\ny = 1\nz = 1\nendpoints_per_switch = 2");
    let mut engine =
        engine(&graph, BaselineRule::MinHop, EngineOptions::new(1, TableKind::PerPort));
    engine.apply(&[put(0, &[0, 2]), put(1, &[4, 6]), put(2, &[1, 3, 5])]).unwrap();
    let links = SwitchLinks::new(&graph, &Faults::new());
    let mut faults = Faults::new();
    for (from, to) in [(1, 2), (3, 0)] {
        let link = links.of(SwitchId(from)).find(|link| link.to == SwitchId(to)).unwrap();
        faults.fail_link(&graph, link.port);
    }
    engine.set_faults(faults);
    assert!(check(&engine).is_clean());
    let groups: Vec<&[Mgid]> = engine.plan().virtual_groups().map(|tree| tree.groups).collect();
    assert_eq!(groups, [&[Mgid(0), Mgid(2)][..], &[Mgid(1)]]);
    let cut_off: Vec<EndpointId> = engine.plan().cut_off().map(|cut| cut.endpoint).collect();
    assert_eq!(cut_off, [EndpointId(5)]);
}

/// MR4LMS §4.4: the largest EFI of MINIHOP-MC is above that of SSSP-MC.
#[test]
fn sssp_spreads_groups_better_than_minhop() {
    let graph = generate(
        "kind = 'random-regular'\nswitches = 64\nswitch_ports = 16\nendpoints_per_switch = 6",
    );
    let grid = Grid::cube(8, 8, 6, 1).unwrap();
    let space = MgidSpace::any(512).unwrap();
    let groups = grid_groups(&grid, false, LayerPlan::Compact, &space, 384).unwrap();
    let puts: Vec<Change> = groups
        .into_iter()
        .map(|group| Change::Put { mgid: group.mgid, members: group.members })
        .collect();
    let [minhop, sssp, global] =
        [BaselineRule::MinHop, BaselineRule::LightestPath, BaselineRule::GlobalTree].map(|rule| {
            let mut engine = engine(&graph, rule, EngineOptions::new(512, TableKind::PerSwitch));
            engine.apply(&puts).unwrap();
            assert!(check(&engine).is_clean());
            metrics(&graph, engine.plan())
        });
    assert_eq!((minhop.trees, sssp.trees, global.trees), (160, 160, 1));
    let efi = [sssp, minhop, global].map(|figures| figures.switch_links.max_efi);
    assert!(efi.is_sorted_by(|a, b| a < b), "{efi:?}");
    assert_eq!((efi[2], global.max_tfi), (160, 160));
}
