//! The smallest table that avoids merging, against equations and against trying every size.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::formats::{GroupRecord, allot_mgids};
use fabricast_routing::{
    BuildError, Capacity, CapacityQuestion, Change, EngineKind, EngineOptions, Grid, GroupSource,
    LayerPlan, LayoutError, MgidSpace, PatternError, Scenario, ScenarioError, build_engine,
    capacity, grid_groups,
};
use fabricast_topology::{EndpointId, Mgid, TableKind};
use proptest::prelude::*;

use crate::fabric::Fabric;

fn ask(scenario: &Scenario<'_>, limit: u16, sizes: &[u16]) -> Result<Capacity, ScenarioError> {
    let question = CapacityQuestion { limit, sizes: sizes.to_vec() };
    capacity(scenario, &question, &mut |_| {})
}

fn record(mgid: Option<u32>, members: &[u32]) -> GroupRecord {
    let members = members.iter().copied().map(EndpointId).collect();
    GroupRecord { mgid: mgid.map(Mgid), name: None, members }
}

/// Tells whether some of these groups are merged with tables of `colors` entries, by the paper's
/// equations (1) to (3) for leaves and spines with single links. No two groups have a member in
/// common.
fn merges(
    groups: &[(u32, BTreeSet<u32>)],
    spines: u32,
    hosts: u32,
    tables: TableKind,
    colors: u32,
) -> bool {
    let total = match tables {
        TableKind::PerPort => colors * spines,
        TableKind::PerSwitch => colors,
    };
    let leaves = |members: &BTreeSet<u32>| -> BTreeSet<u32> {
        members.iter().map(|member| member / hosts).collect()
    };
    let mut met: BTreeMap<u32, BTreeSet<(bool, u32)>> = BTreeMap::new(); // by spanning tree
    groups.iter().filter(|(_, members)| members.len() > 1).any(|(mgid, members)| {
        let spt = mgid % total;
        let leaves = leaves(members);
        let mut domains: BTreeSet<(bool, u32)> = BTreeSet::new();
        match tables {
            TableKind::PerPort if leaves.len() > 1 => {
                domains.extend(leaves.iter().map(|leaf| (false, *leaf)));
            }
            TableKind::PerPort => {}
            TableKind::PerSwitch => {
                domains.extend(leaves.iter().map(|leaf| (false, *leaf)));
                domains.extend((leaves.len() > 1).then_some((true, spt % spines)));
            }
        }
        let before = met.entry(spt).or_default();
        let meets = !before.is_disjoint(&domains);
        before.extend(domains);
        meets
    })
}

fn any_tables() -> impl Strategy<Value = TableKind> {
    prop_oneof![Just(TableKind::PerPort), Just(TableKind::PerSwitch)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// CAP-1 against the equations: the size found is the first of all sizes at which they merge
    /// nothing.
    #[test]
    fn the_size_found_is_the_first_at_which_the_equations_merge_nothing(
        (leaves, spines, hosts) in (2u32..5, 1u32..4, 2u32..5),
        tables in any_tables(),
        owners in proptest::collection::vec(0usize..8, 20),
        mgids in proptest::collection::btree_set(0u32..60, 8),
        limit in 1u16..40,
    ) {
        let fabric = Fabric::new(&format!(
            "kind = 'leaf-spine'\nleaves = {leaves}\nspines = {spines}\nendpoints_per_leaf = {hosts}"
        ));
        let mut groups: Vec<(u32, BTreeSet<u32>)> =
            mgids.into_iter().map(|mgid| (mgid, BTreeSet::new())).collect();
        for (endpoint, owner) in (0..leaves * hosts).zip(owners) {
            groups[owner].1.insert(endpoint);
        }
        let expected = (1..=limit)
            .find(|colors| !merges(&groups, spines, hosts, tables, u32::from(*colors)));
        let records: Vec<GroupRecord> = groups
            .iter()
            .map(|(mgid, members)| record(Some(*mgid), &members.iter().copied().collect::<Vec<_>>()))
            .collect();
        let groups = GroupSource::Listed(&records);
        let found = ask(&fabric.scenario(EngineKind::CMr4lmsFixed, EngineOptions::new(1, tables), groups), limit, &[]);
        let found = found.unwrap();
        prop_assert_eq!(found.least, expected, "{:?}", found);
        for one in &found.sizes {
            let avoids = one.cost.unwrap().avoids_merging();
            prop_assert_eq!(avoids, Some(one.colors) == expected, "{:?}", one);
        }
    }
}

const FABRICS: [&str; 4] = [
    "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 3",
    "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 3\n[faults]\n\
     links = [{switch='leaf0',to='spine0'},{switch='leaf0',to='spine1'}]",
    "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 1\nk = 2\nw = 1\nendpoints_per_leaf = 2",
    "kind = 'torus'\nx = 3\ny = 3\nz = 1\nendpoints_per_switch = 1",
];

/// Tries every size from 1, with nothing but the engine.
fn first_without_merging(
    fabric: &Fabric,
    kind: EngineKind,
    options: EngineOptions,
    records: &[GroupRecord],
) -> Option<u16> {
    (1..=LIMIT).find(|colors| {
        let options = EngineOptions { colors: *colors, ..options };
        let built = build_engine(kind, fabric.graph.clone(), fabric.fat_tree.clone(), options);
        let mut engine = match built {
            Err(BuildError::Layout(LayoutError::NoSecondEntry)) => return false,
            built => built.expect("it fits"),
        };
        let mgids = allot_mgids(records, *engine.space());
        let put = |(mgid, record): (&Mgid, &GroupRecord)| Change::Put {
            mgid: *mgid,
            members: record.members.clone(),
        };
        engine
            .apply(&mgids.iter().zip(records).map(put).collect::<Vec<_>>())
            .expect("the groups fit");
        let plan = engine.plan();
        // A group of one tree with others, or of none, has no tree of its own.
        mgids.iter().zip(records).all(|(mgid, record)| match plan.virtual_group_of(*mgid) {
            _ if record.members.len() < 2 => true,
            Some(shared) => shared.groups == [*mgid],
            None => false,
        })
    })
}

const LIMIT: u16 = 14;

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// CAP-1 and CAP-2 for every engine, with members in common, with MGIDs and without.
    #[test]
    fn no_size_below_the_one_found_avoids_merging(
        fabric in 0..FABRICS.len(),
        tables in any_tables(),
        fault_tolerant in any::<bool>(),
        groups in proptest::collection::vec(
            (any::<bool>(), proptest::collection::btree_set(0u32..8, 0..5)), 0..9),
    ) {
        let fabric = Fabric::new(FABRICS[fabric]);
        let records: Vec<GroupRecord> = (0u32..)
            .zip(&groups)
            .map(|(at, (fixed, members))| {
                let members: Vec<u32> = members.iter().copied().collect();
                record(fixed.then_some(at * 7 % 30), &members)
            })
            .collect();
        for kind in EngineKind::ALL {
            if kind.needs_fat_tree() && fabric.fat_tree.is_none() {
                continue;
            }
            let scenario = fabric.scenario(*kind, EngineOptions::new(1, tables), GroupSource::Listed(&records));
            let fault_tolerant = fault_tolerant && kind.supports_fault_tolerance();
            let options = EngineOptions { fault_tolerant, ..scenario.options };
            let expected = first_without_merging(&fabric, *kind, options, &records);
            let scenario = Scenario { options, ..scenario };
            let found = ask(&scenario, LIMIT, &[]).unwrap();
            prop_assert_eq!(found.least, expected, "{} {:?}", kind, found);
            prop_assert!(expected.is_none_or(|least| found.bound <= u32::from(least)));
        }
    }
}

/// MGIDs 0 and 6 on two spines: trees 0 and 2 of four, but both tree 0 of six.
#[test]
fn a_larger_table_can_merge_what_a_smaller_one_keeps_apart() {
    let fabric = Fabric::new(FABRICS[0]);
    let records = [record(Some(0), &[0, 3]), record(Some(6), &[1, 4])];
    let groups = GroupSource::Listed(&records);
    let scenario = fabric.scenario(
        EngineKind::CMr4lmsFixed,
        EngineOptions::new(1, TableKind::PerPort),
        groups,
    );
    let found = ask(&scenario, 16, &[3, 2, 1, 3, 4]).unwrap();
    assert_eq!((found.least, found.bound, found.tried), (Some(2), 1, 2));
    let tfi: Vec<(u16, u32)> =
        found.sizes.iter().map(|one| (one.colors, one.cost.unwrap().metrics.max_tfi)).collect();
    assert_eq!(tfi, [(1, 2), (2, 1), (3, 2), (4, 1)]);
    assert_eq!(ask(&scenario, 1, &[]).unwrap().least, None);
}

/// A plane of processes needs a color for each of its two layers at least.
#[test]
fn sizes_with_fewer_entries_than_layers_have_no_cost() {
    let fabric = Fabric::new(FABRICS[0]);
    let make = |space: &MgidSpace| -> Result<_, PatternError> {
        let grid = Grid::plane(3, 3, 1).unwrap();
        grid_groups(&grid, false, LayerPlan::Compact, space, 9)
    };
    let scenario = fabric.scenario(
        EngineKind::CMr4lmsFixed,
        EngineOptions::new(1, TableKind::PerPort),
        GroupSource::Pattern(&make),
    );
    let found = ask(&scenario, 8, &[1, 2, 4]).unwrap();
    assert_eq!(
        found.sizes.iter().map(|one| one.cost.is_some()).collect::<Vec<_>>(),
        [false, true, true]
    );
    let least = found.least.unwrap();
    assert!(least > 2 && ask(&scenario, least - 1, &[]).unwrap().least.is_none(), "{found:?}");
    let make = |space: &MgidSpace| -> Result<_, PatternError> {
        grid_groups(&Grid::plane(9, 9, 1).unwrap(), false, LayerPlan::Compact, space, 9)
    };
    let scenario = Scenario { groups: GroupSource::Pattern(&make), ..scenario };
    assert!(matches!(ask(&scenario, 8, &[]), Err(ScenarioError::Pattern(_))));
}
