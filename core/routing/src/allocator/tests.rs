//! Tests of the choice of MGIDs.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn allocator(colors: u16, m: u32) -> MgidAllocator {
    MgidAllocator::new(MgidSpace::new(colors, m, TableKind::PerPort).unwrap())
}

/// What [`MgidAllocator::choose`] must minimise, straight from its description.
fn cost(allocator: &MgidAllocator, spt: u32, members: &[u32]) -> [u32; 4] {
    let space = allocator.space;
    let trees_of = |member: u32| -> BTreeSet<u32> {
        let groups = allocator.groups.iter().filter(|(_, members)| members.contains(&member));
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
        let choice = allocator.choose(&members).unwrap();
        assert_eq!((choice.breaches, choice.merges), (0, 0));
        allocator.insert(choice.mgid, &members).unwrap();
    }
    for column in 0..6u32 {
        let members: Vec<u32> = (0..6).map(|at| at * 6 + column).collect();
        let choice = allocator.choose(&members).unwrap();
        assert_eq!(choice.breaches, 0);
        allocator.insert(choice.mgid, &members).unwrap();
    }
}

#[test]
fn groups_known_together_find_colors_where_one_by_one_they_do_not() {
    // A 12x12 grid with 3 processes to an endpoint: 48 endpoints, each in up to 5 groups.
    let grid = crate::layers::Grid::plane(12, 12, 3).unwrap();
    let groups: Vec<Vec<u32>> = grid.lines().map(|line| grid.endpoints_on(line)).collect();
    let mut together = allocator(6, 2);
    let choices = together.choose_all(&groups).unwrap();
    assert!(choices.iter().all(|choice| choice.breaches == 0), "{choices:?}");
    let mut single = allocator(6, 2);
    let mut breaches = 0;
    for members in &groups {
        let choice = single.choose(members).unwrap();
        breaches += choice.breaches;
        single.insert(choice.mgid, members).unwrap();
    }
    assert!(breaches > 0, "else the layers are not needed");
}

#[test]
fn the_smallest_free_mgid_is_used_again() {
    let mut allocator = allocator(1, 2);
    for expected in [0, 1, 2, 3] {
        let choice = allocator.choose(&[]).unwrap();
        assert_eq!(choice.mgid, Mgid(expected));
        allocator.insert(choice.mgid, &[]).unwrap();
    }
    allocator.remove(Mgid(1)).unwrap();
    assert_eq!(allocator.choose(&[]).unwrap().mgid, Mgid(1));
}

#[test]
fn what_contradicts_the_groups_is_refused_and_changes_nothing() {
    let mut allocator = allocator(2, 2);
    allocator.insert(Mgid(5), &[1, 2]).unwrap();
    let before = allocator.uses.clone();
    let (mgid, unknown) = (Mgid(5), Mgid(6));
    assert_eq!(allocator.insert(mgid, &[3]), Err(AllocatorError::Taken { mgid }));
    assert_eq!(
        allocator.insert(unknown, &[3, 3]),
        Err(AllocatorError::AlreadyMember { mgid: unknown, endpoint: 3 })
    );
    assert_eq!(allocator.join(mgid, 1), Err(AllocatorError::AlreadyMember { mgid, endpoint: 1 }));
    assert_eq!(allocator.leave(mgid, 9), Err(AllocatorError::NotMember { mgid, endpoint: 9 }));
    assert_eq!(allocator.remove(unknown), Err(AllocatorError::Unknown { mgid: unknown }));
    assert_eq!(allocator.uses, before);
}

proptest! {
    #[test]
    fn the_choice_is_the_cheapest_whatever_the_history(
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
                0 => allocator.insert(Mgid(mgid), &members),
                1 => allocator.join(Mgid(mgid), first),
                2 => allocator.leave(Mgid(mgid), first),
                _ => allocator.remove(Mgid(mgid)),
            };
        }
        let members: Vec<u32> = members.into_iter().collect();
        let choice = allocator.choose(&members).unwrap();
        let best = (0..allocator.space.total())
            .min_by_key(|spt| cost(&allocator, *spt, &members))
            .unwrap();
        let [breaches, merges, ..] = cost(&allocator, best, &members);
        prop_assert_eq!(allocator.space.spt(choice.mgid), best);
        prop_assert_eq!((choice.breaches, choice.merges), (breaches, merges));
        prop_assert!(!allocator.groups.contains_key(&choice.mgid));
        let mut again = MgidAllocator::new(allocator.space);
        for (mgid, members) in allocator.groups.iter().rev() {
            again.insert(*mgid, members).unwrap();
        }
        prop_assert_eq!(again.choose(&members), Some(choice));
    }
}
