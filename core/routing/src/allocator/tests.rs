//! Tests of the choice of MGIDs.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::layers::Grid;

fn allocator(colors: u16, m: u32) -> MgidAllocator {
    MgidAllocator::new(MgidSpace::new(colors, m, TableKind::PerPort).unwrap())
}

/// The cost that [`MgidAllocator::choose`] must minimise, straight from its description.
fn cost(allocator: &MgidAllocator, spt: u32, members: &[u32]) -> [u32; 4] {
    let space = allocator.planner.space;
    let trees_of = |member: u32| -> BTreeSet<u32> {
        let known =
            allocator.groups.iter().filter_map(|(mgid, group)| Some((mgid, group.as_ref()?)));
        let groups = known.filter(|(_, group)| group.members.contains(&member));
        groups.map(|(mgid, _)| space.spt(*mgid)).collect()
    };
    let count = |test: &dyn Fn(&BTreeSet<u32>) -> bool| {
        u32::try_from(members.iter().filter(|member| test(&trees_of(**member))).count()).unwrap()
    };
    let breach = |one: &u32| *one != spt && space.color(*one) == space.color(spt);
    let on_tree = allocator.groups.keys().filter(|mgid| space.spt(**mgid) == spt).count();
    [
        count(&|trees| trees.iter().any(breach)),
        count(&|trees| trees.contains(&spt)),
        u32::try_from(on_tree).unwrap(),
        spt,
    ]
}

#[test]
fn a_grid_that_fits_is_allotted_without_breach() {
    let mut allocator = allocator(4, 3);
    for row in 0..6u32 {
        let members: Vec<u32> = (0..6).map(|at| row * 6 + at).collect();
        let choice = allocator.choose(&Wanted::of(&members)).unwrap();
        assert_eq!((choice.breaches, choice.merges), (0, 0));
        allocator.insert(choice.mgid, &Wanted::of(&members)).unwrap();
    }
    for column in 0..6u32 {
        let members: Vec<u32> = (0..6).map(|at| at * 6 + column).collect();
        let choice = allocator.choose(&Wanted::of(&members)).unwrap();
        assert_eq!(choice.breaches, 0);
        allocator.insert(choice.mgid, &Wanted::of(&members)).unwrap();
    }
}

/// A 12x12 grid with 3 processes to an endpoint: 48 endpoints, each in up to 5 groups.
fn lines() -> Vec<Vec<u32>> {
    let grid = Grid::plane(12, 12, 3).unwrap();
    grid.lines().map(|line| grid.endpoints_on(line)).collect()
}

fn batch(groups: &[Vec<u32>]) -> Vec<BatchGroup<'_>> {
    groups.iter().map(|members| BatchGroup::of(members)).collect()
}

/// Counts the endpoints that use a color on two spanning trees, once for each color.
fn breaches(allocator: &MgidAllocator) -> usize {
    let space = allocator.planner.space;
    let of_endpoint = |uses: &Arc<Vec<Use>>| {
        let colors: BTreeSet<u16> = uses.iter().map(|one| space.color(one.spt)).collect();
        uses.len() - colors.len()
    };
    allocator.planner.uses.iter().map(of_endpoint).sum()
}

/// Forms groups of which only the first member is known when the MGID is chosen; gives the breaches
/// left.
fn form(
    allocator: &mut MgidAllocator,
    groups: &[Vec<u32>],
    all_first: bool,
    hint: impl Fn(usize) -> Option<LayerHint<'static>>,
) -> usize {
    let mut open = Vec::new();
    for (at, members) in groups.iter().enumerate() {
        let wanted = Wanted { members: &members[..1], layer: hint(at), ..Wanted::default() };
        let choice = allocator.choose(&wanted).unwrap();
        allocator.insert(choice.mgid, &wanted).unwrap();
        open.push((choice.mgid, members));
        if !all_first {
            open.drain(..).for_each(|(mgid, members)| join_rest(allocator, mgid, members));
        }
    }
    open.into_iter().for_each(|(mgid, members)| join_rest(allocator, mgid, members));
    breaches(allocator)
}

fn join_rest(allocator: &mut MgidAllocator, mgid: Mgid, members: &[u32]) {
    members[1..].iter().for_each(|member| allocator.join(mgid, *member).unwrap());
}

#[test]
fn grids_formed_one_member_at_a_time_find_their_layers() {
    let grids = [
        (Grid::plane(12, 12, 3).unwrap(), 8),
        (Grid::plane(20, 7, 1).unwrap(), 3),
        (Grid::cube(8, 6, 5, 2).unwrap(), 12),
        (Grid::cube(6, 7, 5, 1).unwrap(), 8),
        (Grid::cube(12, 5, 6, 4).unwrap(), 20),
    ];
    for (grid, colors) in grids {
        let groups: Vec<Vec<u32>> = grid.lines().map(|line| grid.endpoints_on(line)).collect();
        for all_first in [true, false] {
            let left = form(&mut allocator(colors, 4), &groups, all_first, |_| None);
            assert_eq!(left, 0, "{grid:?}, all first members first: {all_first}");
        }
    }
}

/// With fault tolerance a spanning tree takes two entries of per-switch tables.
#[test]
fn a_pair_of_entries_is_chosen_like_one() {
    let mut allocator = MgidAllocator::new(MgidSpace::dual(7, 2, TableKind::PerSwitch).unwrap());
    for turn in 0..9u32 {
        let members = [turn % 3, 3 + turn % 2];
        let choice = allocator.choose(&Wanted::of(&members)).unwrap();
        let spt = allocator.planner.space.spt(choice.mgid);
        let least = (0..3).map(|spt| cost(&allocator, spt, &members)).min().unwrap();
        assert_eq!(cost(&allocator, spt, &members), least);
        allocator.insert(choice.mgid, &Wanted::of(&members)).unwrap();
    }
}

#[test]
fn a_layer_that_the_creator_names_holds_whatever_the_order() {
    let grid = Grid::plane(12, 12, 1).unwrap();
    // Columns and rows in turn, each from its middle on.
    let mut groups: Vec<(usize, Vec<u32>)> =
        grid.lines().map(|line| (line.dimension(), grid.endpoints_on(line))).collect();
    groups.sort_by_key(|(_, members)| members[5] % 7);
    groups.iter_mut().for_each(|(_, members)| members.rotate_left(6));
    let (dimensions, groups): (Vec<usize>, Vec<Vec<u32>>) = groups.into_iter().unzip();
    assert!(form(&mut allocator(6, 4), &groups, true, |_| None) > 0, "else no hint is needed");
    let hint = |at: usize| {
        Some(LayerHint {
            name: ["job/rows", "job/columns"][dimensions[at]],
            ..LayerHint::default()
        })
    };
    assert_eq!(form(&mut allocator(6, 4), &groups, true, hint), 0);
}

#[test]
fn a_layer_of_known_size_takes_its_share_of_the_colors_at_once() {
    let colors_of = |hint: LayerHint<'static>| {
        let mut allocator = allocator(8, 2);
        let mut colors = BTreeSet::new();
        for endpoint in 0..12 {
            let wanted = Wanted { members: &[endpoint], layer: Some(hint), ..Wanted::default() };
            let choice = allocator.choose(&wanted).unwrap();
            colors.insert(allocator.planner.space.color(allocator.planner.space.spt(choice.mgid)));
            allocator.insert(choice.mgid, &wanted).unwrap();
        }
        colors.len()
    };
    let name = "j/x";
    assert_eq!(colors_of(LayerHint { name, groups: 12, all_groups: 16 }), 6);
    assert_eq!(
        colors_of(LayerHint { name, groups: 12, all_groups: 96 }),
        1,
        "the rest is for its family"
    );
    assert_eq!(colors_of(LayerHint { name, groups: 0, all_groups: 0 }), 2);
}

#[test]
fn layers_of_jobs_that_do_not_meet_have_colors_in_common_and_kin_never() {
    let mut allocator = allocator(8, 2);
    let mut color = |name: &'static str, members: &[u32]| {
        let layer = Some(LayerHint { name, ..LayerHint::default() });
        let wanted = Wanted { members, layer, ..Wanted::default() };
        let choice = allocator.choose(&wanted).unwrap();
        allocator.insert(choice.mgid, &wanted).unwrap();
        allocator.planner.space.color(allocator.planner.space.spt(choice.mgid))
    };
    let (rows, columns) = (color("a/rows", &[1]), color("a/columns", &[2]));
    assert_ne!(rows, columns, "they belong together");
    assert_eq!(color("b/rows", &[3]), columns, "the layer used last");
    assert_eq!(color("b/columns", &[4]), rows);
    assert!(![rows, columns].contains(&color("c/rows", &[2, 3, 1])));
    assert_eq!(color("a/rows", &[5]), rows);
}

#[test]
fn colors_are_free_again_when_their_groups_are_gone() {
    let mut allocator = allocator(2, 1);
    let wanted = Wanted::of(&[7]);
    for expected in [0, 1] {
        let choice = allocator.choose(&wanted).unwrap();
        assert_eq!((choice.mgid, choice.breaches), (Mgid(expected), 0));
        allocator.insert(choice.mgid, &wanted).unwrap();
    }
    allocator.remove(Mgid(0)).unwrap();
    allocator.remove(Mgid(1)).unwrap();
    assert_eq!(allocator.choose(&wanted).unwrap().mgid, Mgid(0));
}

#[test]
fn groups_known_together_are_put_into_layers_at_once() {
    let groups = lines();
    let mut together = allocator(6, 2);
    let choices = together.planner().choose_all(&batch(&groups)).unwrap();
    assert!(choices.iter().all(|choice| choice.breaches == 0), "{choices:?}");
    for (choice, members) in choices.iter().zip(&groups) {
        together.insert(choice.mgid, &Wanted::of(members)).unwrap();
    }
    assert_eq!(breaches(&together), 0);
}

/// Lines of a grid whose endpoints have other numbers, listed in another order.
fn shuffled(grid: Grid, numbers: u64, lines: u64) -> Vec<Vec<u32>> {
    let scatter =
        |value: u64, key: u64| value.wrapping_add(key).wrapping_mul(0x9e37_79b9_7f4a_7c15 | key);
    let mut number: Vec<u32> = (0..grid.endpoints()).collect();
    if numbers > 0 {
        number.sort_by_key(|endpoint| scatter(u64::from(*endpoint), numbers) >> 20);
    }
    let renumbered = |line| {
        let endpoints = grid.endpoints_on(line).into_iter();
        endpoints.map(|endpoint| number[endpoint as usize]).collect()
    };
    let mut groups: Vec<Vec<u32>> = grid.lines().map(renumbered).collect();
    groups.sort_by_cached_key(|members| {
        scatter(u64::from(members[0]) << 20 | u64::from(members[1]), lines) >> 20
    });
    groups
}

/// With as many layers as dimensions no endpoint breaches, however groups and endpoints are listed.
#[test]
fn shuffled_grids_fall_into_as_few_layers_as_there_are_dimensions() {
    for grid in [
        Grid::cube(8, 16, 16, 1).unwrap(),
        Grid::cube(12, 12, 12, 1).unwrap(),
        Grid::plane(40, 30, 1).unwrap(),
    ] {
        let dimensions = if grid.z > 1 { 3 } else { 2 };
        for (numbers, lines) in [(0, 1), (0, 2), (3, 1), (5, 7)] {
            let groups = shuffled(grid, numbers, lines);
            let choices = allocator(dimensions, 8).planner().choose_all(&batch(&groups)).unwrap();
            let breaches: u32 = choices.iter().map(|choice| choice.breaches).sum();
            assert_eq!(breaches, 0, "{grid:?}, {numbers}, {lines}");
        }
    }
}

/// The issue: groups whose members join one by one filled one color, and the exclusive group was
/// put among them.
#[test]
fn an_exclusive_group_has_a_color_to_itself_until_colors_run_out() {
    let mut allocator = allocator(3, 2);
    let mut form = |member: u32, exclusive: bool| {
        let members = [member];
        let wanted = Wanted { exclusive, ..Wanted::of(&members) };
        let choice = allocator.choose(&wanted).unwrap();
        allocator.insert(choice.mgid, &wanted).unwrap();
        allocator.planner.space.spt(choice.mgid)
    };
    // Trees 0 and 1 have color 0, and so on.
    assert_eq!([form(0, false), form(1, false), form(2, false)], [0, 1, 0]);
    assert_eq!(form(3, true), 2);
    assert_eq!([form(4, false), form(5, false)], [1, 0], "color 1 is kept");
    assert_eq!(form(6, true), 4);
    assert_eq!(form(7, true), 3, "no color is left, so it shares that of another exclusive group");
    assert_eq!(form(3, true), 5, "its member has color 1 on another tree");
    assert_eq!(form(0, false), 0, "merged, as only trees of exclusive groups are left besides");
}

#[test]
fn a_batch_gives_its_exclusive_groups_trees_first() {
    let members: Vec<[u32; 2]> = (0..6).map(|at| [2 * at, 2 * at + 1]).collect();
    let group = |at: usize| BatchGroup { exclusive: at == 5, ..BatchGroup::of(&members[at]) };
    let groups: Vec<BatchGroup<'_>> = (0..6).map(group).collect();
    let planner = allocator(2, 2).planner();
    let choices = planner.clone().choose_all(&groups).unwrap();
    let spt = |at: usize| planner.space.spt(choices[at].mgid);
    assert!((0..5).all(|at| spt(at) != spt(5)), "{choices:?}");
}

#[test]
fn a_held_mgid_is_not_chosen_and_is_on_no_tree() {
    let mut allocator = allocator(1, 2);
    allocator.hold(Mgid(0)).unwrap();
    assert_eq!(allocator.hold(Mgid(0)), Err(AllocatorError::Taken { mgid: Mgid(0) }));
    let unknown = AllocatorError::Unknown { mgid: Mgid(0) };
    assert_eq!(allocator.join(Mgid(0), 1), Err(unknown));
    let exclusive = Wanted { exclusive: true, ..Wanted::of(&[1]) };
    assert_eq!(allocator.choose(&exclusive).unwrap().mgid, Mgid(2), "tree 0 has no group");
    allocator.remove(Mgid(0)).unwrap();
    assert_eq!(allocator.choose(&exclusive).unwrap().mgid, Mgid(0));
}

#[test]
fn a_tree_that_is_avoided_is_not_chosen_nor_one_of_its_place_if_there_is_another() {
    let allocator = allocator(3, 2);
    let choose = |avoid: &[u32]| {
        let wanted = Wanted { exclusive: true, avoid, ..Wanted::of(&[1]) };
        allocator.choose(&wanted).map(|choice| allocator.planner.space.spt(choice.mgid))
    };
    assert_eq!([choose(&[]), choose(&[0]), choose(&[0, 1])], [Some(0), Some(1), Some(2)]);
    assert_eq!(choose(&[0, 1, 2, 3, 4, 5]), None);
}

#[test]
fn a_name_keeps_groups_in_a_layer_of_their_own() {
    let members: Vec<[u32; 2]> = (0..8).map(|at| [2 * at, 2 * at + 1]).collect();
    let layer = |at: usize| (at % 2 == 1).then_some("odd");
    let named: Vec<BatchGroup<'_>> = members
        .iter()
        .enumerate()
        .map(|(at, members)| BatchGroup { layer: layer(at), ..BatchGroup::of(members) })
        .collect();
    let planner = allocator(4, 2).planner();
    let choices = planner.clone().choose_all(&named).unwrap();
    let color = |at: usize| planner.space.color(planner.space.spt(choices[at].mgid));
    let odd: BTreeSet<u16> = (0..8).filter(|at| at % 2 == 1).map(color).collect();
    let even: BTreeSet<u16> = (0..8).filter(|at| at % 2 == 0).map(color).collect();
    assert!(odd.is_disjoint(&even), "{odd:?} {even:?}");
}

/// Some endpoint is in more groups than there are colors, so there are no layers.
#[test]
fn a_batch_without_layers_takes_the_least_conflict() {
    let groups: Vec<Vec<u32>> = (1..9).map(|other| vec![0, other]).collect();
    let choices = allocator(4, 2).planner().choose_all(&batch(&groups)).unwrap();
    let merges: u32 = choices.iter().map(|choice| choice.merges).sum();
    assert_eq!((choices.iter().filter(|choice| choice.breaches == 0).count(), merges), (8, 4));
}

#[test]
fn settled_mgids_are_noted_before_any_choice() {
    let mut allocator = allocator(2, 2);
    allocator.insert(Mgid(0), &Wanted::of(&[1, 2])).unwrap();
    let given = BatchGroup { mgid: BatchMgid::Given(Mgid(1)), ..BatchGroup::of(&[5]) };
    let grown = BatchGroup { mgid: BatchMgid::Existing(Mgid(0)), ..BatchGroup::of(&[5]) };
    let open = BatchGroup::of(&[5]);
    let choices = allocator.planner().choose_all(&[open, given, grown]).unwrap();
    let costs: Vec<[u32; 3]> =
        choices.iter().map(|choice| [choice.mgid.0, choice.breaches, choice.merges]).collect();
    // Endpoint 5 uses color 0 on both trees, so the open group gets color 1.
    assert_eq!(costs[0], [2, 0, 0]);
    assert_eq!([costs[1][0], costs[2][0]], [1, 0]);
    let again = BatchGroup { mgid: BatchMgid::Given(Mgid(0)), ..open };
    let refused = allocator.planner().choose_all(&[again]);
    assert_eq!(refused, Err(AllocatorError::Taken { mgid: Mgid(0) }));
}

/// One endpoint in many groups makes every two of them neighbours.
#[test]
fn a_batch_around_one_endpoint_is_put_into_as_many_layers() {
    let groups: Vec<Vec<u32>> = (1..1_001).map(|other| vec![0, other]).collect();
    let choices = allocator(1_024, 1).planner().choose_all(&batch(&groups)).unwrap();
    assert!(choices.iter().all(|choice| choice.breaches + choice.merges == 0));
}

#[test]
fn the_smallest_free_mgid_is_used_again() {
    let mut allocator = allocator(1, 2);
    for expected in [0, 1, 2, 3] {
        let choice = allocator.choose(&Wanted::of(&[])).unwrap();
        assert_eq!(choice.mgid, Mgid(expected));
        allocator.insert(choice.mgid, &Wanted::of(&[])).unwrap();
    }
    allocator.remove(Mgid(1)).unwrap();
    assert_eq!(allocator.choose(&Wanted::of(&[])).unwrap().mgid, Mgid(1));
}

/// It takes minutes if a group looks at the MGIDs or layers of all groups before it.
#[test]
fn a_hundred_thousand_groups_of_the_same_two_are_planned_one_after_the_other() {
    let groups = vec![vec![0, 1]; 100_000];
    let choices = allocator(2, 1).planner().choose_all(&batch(&groups)).unwrap();
    let mgids: BTreeSet<u32> = choices.iter().map(|choice| choice.mgid.0).collect();
    assert_eq!((mgids.len(), mgids.last()), (100_000, Some(&99_999)));
}

#[test]
fn no_mgid_is_chosen_from_the_limit_on() {
    let allocator = allocator(2, 2).below(5);
    let plan = |count| allocator.planner().choose_all(&batch(&vec![vec![3]; count]));
    let mut mgids: Vec<u32> = plan(5).unwrap().iter().map(|choice| choice.mgid.0).collect();
    mgids.sort_unstable();
    assert_eq!(mgids, [0, 1, 2, 3, 4]);
    assert_eq!(plan(6), Err(AllocatorError::Full));
}

#[test]
fn a_planner_copies_the_uses_of_an_endpoint_when_it_changes_them() {
    let mut allocator = allocator(4, 4);
    allocator.insert(Mgid(0), &Wanted::of(&[0, 1])).unwrap();
    let mut planner = allocator.planner();
    planner.choose_all(&[BatchGroup::of(&[0])]).unwrap();
    let is_shared = |at: usize| Arc::ptr_eq(&planner.uses[at], &allocator.planner.uses[at]);
    assert!(!is_shared(0) && is_shared(1));
    assert_eq!((allocator.planner.uses[0].len(), planner.uses[0].len()), (1, 2));
}

#[test]
fn a_choice_looks_at_a_bounded_number_of_uses() {
    let mut allocator = allocator(16_384, 1);
    let uses = Arc::new((0..16_384).map(|spt| Use { spt, groups: 1 }).collect());
    allocator.planner.uses = vec![uses; 100];
    let members: Vec<u32> = (0..100).collect();
    let uses: usize = allocator.planner.uses_of(&members).map(<[Use]>::len).sum();
    assert_eq!(uses, MOST_USES);
    assert_eq!(allocator.planner.uses_of(&members[..3]).count(), 3);
}

#[test]
fn what_contradicts_the_groups_is_refused_and_changes_nothing() {
    let mut allocator = allocator(2, 2);
    allocator.insert(Mgid(5), &Wanted::of(&[1, 2])).unwrap();
    let before = allocator.planner.uses.clone();
    let (mgid, unknown) = (Mgid(5), Mgid(6));
    assert_eq!(allocator.insert(mgid, &Wanted::of(&[3])), Err(AllocatorError::Taken { mgid }));
    assert_eq!(
        allocator.insert(unknown, &Wanted::of(&[3, 3])),
        Err(AllocatorError::AlreadyMember { mgid: unknown, endpoint: 3 })
    );
    assert_eq!(allocator.join(mgid, 1), Err(AllocatorError::AlreadyMember { mgid, endpoint: 1 }));
    assert_eq!(allocator.leave(mgid, 9), Err(AllocatorError::NotMember { mgid, endpoint: 9 }));
    assert_eq!(allocator.remove(unknown), Err(AllocatorError::Unknown { mgid: unknown }));
    assert_eq!(allocator.planner.uses, before);
}

proptest! {
    /// BATCH-1, and every choice is one of those that `choose_among` finds best.
    #[test]
    fn the_order_of_a_batch_changes_nothing(
        colors in 1u16..6, m in 1u32..4,
        there in proptest::collection::vec(proptest::collection::btree_set(0u32..10, 1..4), 0..6),
        groups in proptest::collection::vec((proptest::collection::btree_set(0u32..10, 1..6), 0u8..3, 0u8..6), 1..14),
        seed in any::<u64>(),
    ) {
        let mut allocator = allocator(colors, m);
        for members in there {
            let members: Vec<u32> = members.into_iter().collect();
            let choice = allocator.choose(&Wanted::of(&members)).unwrap();
            allocator.insert(choice.mgid, &Wanted::of(&members)).unwrap();
        }
        let names: Vec<String> = (0..groups.len()).map(|at| format!("g{at}")).collect();
        let members: Vec<Vec<u32>> =
            groups.iter().map(|(members, ..)| members.iter().copied().collect()).collect();
        let listed: Vec<BatchGroup<'_>> = (0..groups.len())
            .map(|at| BatchGroup {
                name: &names[at],
                members: &members[at],
                mgid: if groups[at].2 == 0 {
                    BatchMgid::Given(Mgid(1_000 + u32::try_from(at).unwrap()))
                } else {
                    BatchMgid::Open
                },
                layer: [None, Some("a/x"), Some("a/y")][usize::from(groups[at].1)],
                exclusive: groups[at].2 == 1,
            })
            .collect();
        let plan = |groups: &[BatchGroup<'_>]| -> BTreeMap<String, Choice> {
            let choices = allocator.planner().choose_all(groups).unwrap();
            let name = |group: &BatchGroup<'_>| group.name.to_owned();
            groups.iter().map(name).zip(choices).collect()
        };
        let mut other = listed.clone();
        other.sort_by_key(|group| (u64::from(group.name.as_bytes()[1]) ^ seed).wrapping_mul(seed | 1));
        other.reverse();
        let planned = plan(&listed);
        let backwards: Vec<BatchGroup<'_>> = listed.iter().rev().copied().collect();
        prop_assert_eq!(&planned, &plan(&other));
        prop_assert_eq!(&planned, &plan(&backwards));
        let mgids: BTreeSet<Mgid> = planned.values().map(|choice| choice.mgid).collect();
        prop_assert_eq!(mgids.len(), listed.len());
    }

    #[test]
    fn one_group_of_a_batch_gets_what_a_search_of_all_trees_finds(
        colors in 1u16..5, m in 1u32..5,
        there in proptest::collection::vec((0u32..40, any::<bool>(), proptest::collection::btree_set(0u32..8, 0..5)), 0..14),
        members in proptest::collection::btree_set(0u32..8, 1..6), exclusive in any::<bool>(),
    ) {
        let mut allocator = allocator(colors, m);
        for (mgid, exclusive, members) in there {
            let members: Vec<u32> = members.into_iter().collect();
            // An MGID that is taken is refused, and changes nothing.
            let _ = allocator.insert(Mgid(mgid), &Wanted { exclusive, ..Wanted::of(&members) });
        }
        let members: Vec<u32> = members.into_iter().collect();
        let wanted = Wanted { exclusive, ..Wanted::of(&members) };
        let everywhere =
            allocator.planner.choose_among(&wanted, 0..allocator.planner.space.total());
        let group = BatchGroup { exclusive, ..BatchGroup::of(&members) };
        let choice = allocator.planner().choose_all(&[group]).unwrap();
        prop_assert_eq!(Some(choice[0]), everywhere);
    }

    /// EXCL-1, for groups that come one by one and in a batch, and go.
    #[test]
    fn exclusive_groups_are_alone_while_there_is_room(
        colors in 1u16..6, m in 1u32..4, per_switch in any::<bool>(),
        steps in proptest::collection::vec((0u8..5, proptest::collection::btree_set(0u32..10, 0..5)), 1..30),
    ) {
        let tables = if per_switch { TableKind::PerSwitch } else { TableKind::PerPort };
        let mut allocator = MgidAllocator::new(MgidSpace::new(colors, m, tables).unwrap());
        for (kind, members) in steps {
            let members: Vec<u32> = members.into_iter().collect();
            if kind == 0 {
                // The lowest group goes.
                let first = allocator.groups.first_key_value().map(|(mgid, _)| *mgid);
                first.map_or(Ok(()), |mgid| allocator.remove(mgid)).unwrap();
                continue;
            }
            let exclusive = kind < 3;
            let wanted = Wanted { exclusive, ..Wanted::of(&members) };
            let trees = 0..allocator.planner.space.total();
            let has_exclusive = |spt: u32| {
                let mut groups = allocator.groups.iter();
                groups.any(|(mgid, group)| {
                    let is_exclusive = group.as_ref().is_some_and(|group| group.is_exclusive);
                    is_exclusive && allocator.planner.space.spt(*mgid) == spt
                })
            };
            let serves = |spt: u32| match exclusive {
                true => matches!(cost(&allocator, spt, &members), [0, _, 0, _]),
                false => !has_exclusive(spt),
            };
            let there_is = trees.clone().any(serves);
            let choice = allocator.choose(&wanted).unwrap();
            prop_assert_eq!(serves(allocator.planner.space.spt(choice.mgid)), there_is);
            let batch = [BatchGroup { exclusive, ..BatchGroup::of(&members) }];
            let planned = allocator.planner().choose_all(&batch).unwrap()[0];
            prop_assert_eq!(serves(allocator.planner.space.spt(planned.mgid)), there_is);
            allocator.insert(choice.mgid, &wanted).unwrap();
        }
    }

    #[test]
    fn no_choice_has_fewer_breaches_whatever_the_history(
        colors in 1u16..4, m in 1u32..4,
        steps in proptest::collection::vec((0u8..4, 0u32..16, proptest::collection::btree_set(0u32..8, 0..5)), 0..25),
        members in proptest::collection::btree_set(0u32..8, 0..5),
    ) {
        let mut allocator = allocator(colors, m);
        for (kind, mgid, members) in steps {
            let members: Vec<u32> = members.into_iter().collect();
            let first = members.first().copied().unwrap_or(0);
            // Refusals are part of the history: they must change nothing.
            let _ = match kind {
                0 => allocator.insert(Mgid(mgid), &Wanted::of(&members)),
                1 => allocator.join(Mgid(mgid), first),
                2 => allocator.leave(Mgid(mgid), first),
                _ => allocator.remove(Mgid(mgid)),
            };
        }
        let members: Vec<u32> = members.into_iter().collect();
        let choice = allocator.choose(&Wanted::of(&members)).unwrap();
        let spt = allocator.planner.space.spt(choice.mgid);
        let trees = 0..allocator.planner.space.total();
        let least = trees.map(|spt| cost(&allocator, spt, &members)).min().unwrap();
        let [breaches, merges, ..] = cost(&allocator, spt, &members);
        prop_assert_eq!((choice.breaches, choice.merges), (breaches, merges));
        prop_assert_eq!(breaches, least[0], "no tree has fewer breaches");
        prop_assert!(breaches == 0 || cost(&allocator, spt, &members) == least);
        prop_assert!(!allocator.groups.contains_key(&choice.mgid));
        // Taking back what was added leaves the choice as it was.
        let mut again = allocator.clone();
        again.insert(choice.mgid, &Wanted::of(&members)).unwrap();
        again.remove(choice.mgid).unwrap();
        prop_assert_eq!(again.choose(&Wanted::of(&members)).map(|choice| choice.breaches), Some(breaches));
    }
}
