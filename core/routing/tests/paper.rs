//! Replays C-MR4LMS §4 on the paper's own fabric: 7 680 switches, 32 768 endpoints, 32 colors.
//!
//! Source: C-MR4LMS (Journal of Computer Research and Development 59(12), 2022), §4.2 and §4.3.
//! Every plan is judged by packets too: of every group a member behind each of its leaves sends, of
//! the patterns with 4 processes per endpoint, which are too slow for that unoptimized, the first
//! member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use fabricast_routing::verify::{Options, Senders, verify};
use fabricast_routing::{
    Change, DynamicRootEngine, EngineOptions, FixedRootEngine, Grid, LayerHint, LayerPlan, Line,
    Metrics, MgidAllocator, PatternGroup, RootScope, RoutingEngine, Wanted, grid_groups, metrics,
    random_groups, table_entries,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{FatTree, Graph, TableKind};

fn fabric() -> &'static (Arc<Graph>, Arc<FatTree>) {
    static FABRIC: OnceLock<(Arc<Graph>, Arc<FatTree>)> = OnceLock::new();
    FABRIC.get_or_init(|| {
        let graph = TopologySpec::paper().generate().expect("a valid description");
        let fat_tree = FatTree::detect(&graph).expect("a fat tree");
        (Arc::new(graph), Arc::new(fat_tree))
    })
}

fn engine(tables: TableKind, colors: u16) -> FixedRootEngine {
    let (graph, fat_tree) = fabric();
    FixedRootEngine::new(graph.clone(), fat_tree.clone(), EngineOptions::new(colors, tables))
        .expect("colors in range")
}

fn lines(grid: Grid, plan: LayerPlan) -> Vec<PatternGroup> {
    let engine = engine(TableKind::PerPort, 32);
    grid_groups(&grid, false, plan, engine.layout().space(), 32_768).expect("it fits")
}

/// Routes the groups with the fixed root, checks every rule with packets and gives the figures.
fn route(groups: Vec<PatternGroup>) -> Metrics {
    route_with(&mut engine(TableKind::PerPort, 32), groups)
}

fn route_with(engine: &mut dyn RoutingEngine, groups: Vec<PatternGroup>) -> Metrics {
    let (graph, _) = fabric();
    let puts: Vec<Change> = groups
        .into_iter()
        .map(|group| Change::Put { mgid: group.mgid, members: group.members })
        .collect();
    engine.apply(&puts).expect("valid groups");
    assert_eq!((engine.plan().moved().len(), engine.plan().unrouted().len()), (0, 0));
    let senders = if engine.group_count() < 4_000 { Senders::OnePerSwitch } else { Senders::First };
    let options = Options { colors: 32, tables: TableKind::PerPort, senders, list: 3 };
    let entries = table_entries(graph, engine.plan());
    let report = verify(graph, engine.faults(), &engine.delivery_groups(), &entries, options);
    assert!(report.is_clean(), "{:?}", report.violations);
    let figures = metrics(graph, engine.plan());
    assert!(figures.max_entries <= 32);
    figures
}

fn cube(x: u32, y: u32, z: u32, per_endpoint: u32, plan: LayerPlan) -> Metrics {
    route(lines(Grid::cube(x, y, z, per_endpoint).expect("a valid grid"), plan))
}

/// The same with dynamic roots.
fn dynamic_cube([x, y, z]: [u32; 3], per_endpoint: u32, root_scope: RootScope) -> Metrics {
    let (graph, fat_tree) = fabric();
    let options = EngineOptions {
        root_scope: Some(root_scope),
        ..EngineOptions::new(32, TableKind::PerPort)
    };
    let mut engine =
        DynamicRootEngine::new(graph.clone(), fat_tree.clone(), options).expect("colors in range");
    let grid = Grid::cube(x, y, z, per_endpoint).expect("a valid grid");
    route_with(&mut engine, lines(grid, LayerPlan::Compact))
}

/// §4.1: the fabric has 40 448 nodes, and 32 colors give 512 conflict-free spanning trees.
#[test]
fn the_fabric_is_the_papers() {
    let (graph, fat_tree) = fabric();
    assert_eq!((graph.switch_count(), graph.endpoint_count()), (7_680, 32_768));
    assert_eq!((fat_tree.params().cns, fat_tree.params().tns), (64, 96));
    assert_eq!(engine(TableKind::PerPort, 32).layout().space().total(), 512);
}

/// §4.3.1: fixed root, one process per endpoint, 64x32x16: maximum TFI 7; 1 840 virtual groups in
/// our replay.
#[test]
fn grid_64x32x16_has_tfi_7() {
    let figures = cube(64, 32, 16, 1, LayerPlan::Compact);
    assert_eq!((figures.max_tfi, figures.trees), (7, 1_840));
}

/// §4.3.1: 32x32x32: maximum TFI 6; 2 240 virtual groups in our replay.
#[test]
fn grid_32x32x32_has_tfi_6() {
    let figures = cube(32, 32, 32, 1, LayerPlan::Compact);
    assert_eq!((figures.max_tfi, figures.trees), (6, 2_240));
}

/// §4.3.1: 25x50x26: more than 1; 7, mean 1.49, 2 150 virtual groups in our replay.
#[test]
fn grid_25x50x26_has_tfi_7() {
    let figures = cube(25, 50, 26, 1, LayerPlan::Compact);
    assert_eq!((figures.max_tfi, figures.trees), (7, 2_150));
    assert!((figures.mean_tfi - 1.49).abs() < 0.005);
}

/// §4.3.1: 2-D grids of 181x181 and 100x327 need no merging.
#[test]
fn plane_grids_are_not_merged() {
    for (x, y) in [(181, 181), (100, 327)] {
        let grid = Grid::plane(x, y, 1).unwrap();
        let figures = route(lines(grid, LayerPlan::Compact));
        assert_eq!((figures.max_tfi, figures.groups), (1, x + y));
    }
}

/// §4.3.1, dynamic: maximum TFI 1 for 64x32x16 and 32x32x32. With roots in one TN that cannot be (a
/// CN needs 576 and 544 of its 512 pairs of color and up-link): the least is 2. We reach 2 for the
/// first (a replay that merges with the lightest root instead of the fewest groups: 4) and 3 for
/// the second.
#[test]
fn roots_of_one_midplane_more_than_halve_the_tfi() {
    let figures = dynamic_cube([64, 32, 16], 1, RootScope::Tn);
    assert_eq!((figures.max_tfi, figures.groups), (2, 3_584));
    let figures = dynamic_cube([32, 32, 32], 1, RootScope::Tn);
    assert_eq!((figures.max_tfi, figures.groups), (3, 3_072));
}

/// §4.3.1, dynamic: TFI 1, which roots in all TNs of a group do reach.
#[test]
fn roots_of_a_whole_group_make_merging_needless() {
    for cube in [[64, 32, 16], [32, 32, 32]] {
        let figures = dynamic_cube(cube, 1, RootScope::TnGroup);
        assert_eq!((figures.max_tfi, figures.trees), (1, figures.groups), "{cube:?}");
    }
}

/// §4.3.1, dynamic, 25x50x26: more than 1 and no better than fixed, but for the mean (1.48, fixed
/// 1.49); with the whole group at most 2.
#[test]
fn dynamic_roots_help_25x50x26_in_the_mean_or_with_the_whole_group() {
    let figures = dynamic_cube([25, 50, 26], 1, RootScope::Tn);
    assert_eq!(figures.max_tfi, 7);
    assert!((figures.mean_tfi - 1.48).abs() < 0.005);
    assert_eq!(dynamic_cube([25, 50, 26], 1, RootScope::TnGroup).max_tfi, 2);
}

/// §4.3.2, 4 processes per endpoint, 100x50x26: fixed has 20; so has `tn`, the whole group 4.
#[test]
fn dynamic_roots_with_4_processes_have_tfi_20_and_4() {
    let figures = dynamic_cube([100, 50, 26], 4, RootScope::Tn);
    assert_eq!((figures.max_tfi, figures.groups), (20, 8_900));
    let figures = dynamic_cube([100, 50, 26], 4, RootScope::TnGroup);
    assert_eq!((figures.max_tfi, figures.groups), (4, 8_900));
}

/// §4.3.2: 4 processes per endpoint, 100x50x26: 148 less than MR4LMS's 168, which is 20.
#[test]
fn grid_100x50x26_with_4_processes_has_tfi_20() {
    let figures = cube(100, 50, 26, 4, LayerPlan::Compact);
    assert_eq!((figures.max_tfi, figures.groups), (20, 8_900));
    assert!(figures.trees >= 512);
}

/// §4.3.2: 4 processes per endpoint, 256x32x16: 25 more than MR4LMS's 1, which is 26.
#[test]
fn grid_256x32x16_with_4_processes_has_tfi_26() {
    let figures = cube(256, 32, 16, 4, LayerPlan::Compact);
    assert_eq!((figures.max_tfi, figures.groups), (26, 12_800));
    assert!(figures.trees >= 512);
}

/// Equation (5) as rebuilt (`wide`) gives 38 and 43 where `compact` gives 20 and 26.
#[test]
fn wide_layers_merge_more() {
    assert_eq!(cube(100, 50, 26, 4, LayerPlan::Wide).max_tfi, 38);
    assert_eq!(cube(256, 32, 16, 4, LayerPlan::Wide).max_tfi, 43);
}

/// §4.3.2: 1 000 random groups leave at least 512 trees, with 1 process per endpoint and with 4.
#[test]
fn a_thousand_random_groups_keep_512_trees() {
    let space = *engine(TableKind::PerPort, 32).layout().space();
    for per_endpoint in [1, 4] {
        let figures = route(random_groups(1_000, per_endpoint, 32_768, 1, &space).unwrap());
        assert!(figures.trees >= 512, "{figures:?}");
        assert_eq!((figures.groups, figures.max_tfi), (1_000, 2));
    }
}

/// Spec, "Per-switch tables": the spanning-tree number is the entry; nothing of a group is lost by
/// that.
#[test]
fn per_switch_tables_serve_every_group() {
    let (graph, _) = fabric();
    let mut engine = engine(TableKind::PerSwitch, 512);
    let grid = Grid::cube(64, 32, 16, 1).unwrap();
    let space = *engine.layout().space();
    let groups = grid_groups(&grid, false, LayerPlan::Compact, &space, 32_768).unwrap();
    let puts: Vec<Change> = groups
        .into_iter()
        .map(|group| Change::Put { mgid: group.mgid, members: group.members })
        .collect();
    engine.apply(&puts).unwrap();
    let options =
        Options { colors: 512, tables: TableKind::PerSwitch, senders: Senders::First, list: 3 };
    let entries = table_entries(graph, engine.plan());
    let report = verify(graph, engine.faults(), &engine.delivery_groups(), &entries, options);
    assert!(report.is_clean(), "{:?}", report.violations);
    let colors: BTreeSet<u16> = engine.plan().groups().map(|group| group.color).collect();
    assert_eq!(colors.len(), 512);
}

/// Gives groups the MGIDs they get if all of them are created by their first members, before
/// anybody else joins; `sized` tells the layers and how many groups they will have.
fn formed_one_by_one(groups: Vec<PatternGroup>, sized: Option<&Grid>) -> Vec<PatternGroup> {
    let names: Vec<String> = sized.map_or_else(Vec::new, |grid| {
        let layer = |line: Line| grid.layer(LayerPlan::Compact, line);
        grid.lines().map(|line| format!("grid/{}.{}", line.dimension(), layer(line))).collect()
    });
    let all_groups = u32::try_from(names.len()).expect("lines are counted in 32 bits");
    let mut counts = BTreeMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_insert(0) += 1);
    let mut allocator = MgidAllocator::new(*engine(TableKind::PerPort, 32).layout().space());
    let mut choose = |(at, group): (usize, PatternGroup)| {
        let hint = names.get(at).map(|name| LayerHint { name, groups: counts[name], all_groups });
        let wanted = Wanted { members: &[group.members[0].0], layer: hint, ..Wanted::default() };
        let mgid = allocator.choose(&wanted).expect("MGIDs are left").mgid;
        allocator.insert(mgid, &wanted).expect("it is free");
        PatternGroup { mgid, ..group }
    };
    groups.into_iter().enumerate().map(&mut choose).collect()
}

/// Spec, "What the authors leave for later": MGIDs are chosen for the user, knowing first members
/// only. No group is unrouted or moved (`route` checks it); the maximum TFI is 52 instead of 20,
/// and 20 again if layers are told.
#[test]
fn a_grid_formed_one_member_at_a_time_is_routed_whole() {
    let grid = Grid::cube(100, 50, 26, 4).unwrap();
    let groups = || lines(grid, LayerPlan::Compact);
    let figures = route(formed_one_by_one(groups(), None));
    assert_eq!((figures.max_tfi, figures.groups), (52, 8_900));
    let told = route(formed_one_by_one(groups(), Some(&grid)));
    assert_eq!((told.max_tfi, told.groups), (20, 8_900));
}
