//! Random changes of which some are undone.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::TableKind;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::allocator::{LayerHint, Wanted};
use crate::spt::MgidSpace;

/// MGIDs that changes name.
const MGIDS: u32 = 14;
const ENDPOINTS: u32 = 5;

#[derive(Clone, Debug)]
enum Change {
    Insert { members: BTreeSet<u32>, layer: Option<u32>, exclusive: bool, mgid: Option<u32> },
    Hold { mgid: u32 },
    Join { mgid: u32, endpoint: u32 },
    Leave { mgid: u32, endpoint: u32 },
    Remove { mgid: u32 },
    ChooseAlone { mgid: u32 },
}

fn change() -> impl Strategy<Value = Change> {
    let layer = proptest::option::of(0..3_u32);
    let given = proptest::option::of(0..MGIDS);
    let insert = (btree_set(0..ENDPOINTS, 0..4), layer, any::<bool>(), given);
    prop_oneof![
        4 => insert.prop_map(|(members, layer, exclusive, mgid)| {
            Change::Insert { members, layer, exclusive, mgid }
        }),
        1 => (0..MGIDS).prop_map(|mgid| Change::Hold { mgid }),
        4 => (0..MGIDS, 0..ENDPOINTS)
            .prop_map(|(mgid, endpoint)| Change::Join { mgid, endpoint }),
        4 => (0..MGIDS, 0..ENDPOINTS)
            .prop_map(|(mgid, endpoint)| Change::Leave { mgid, endpoint }),
        3 => (0..MGIDS).prop_map(|mgid| Change::Remove { mgid }),
        1 => (0..MGIDS).prop_map(|mgid| Change::ChooseAlone { mgid }),
    ]
}

/// Makes a change; one that is refused changes nothing.
fn make(allocator: &mut MgidAllocator, change: &Change) {
    match change {
        Change::Insert { members, layer, exclusive, mgid } => {
            let members: Vec<u32> = members.iter().copied().collect();
            let name = layer.map(|layer| format!("grid/{layer}"));
            let layer = name.as_deref().map(|name| LayerHint { name, ..LayerHint::default() });
            let wanted = Wanted { layer, exclusive: *exclusive, ..Wanted::of(&members) };
            let chosen = || Some(allocator.choose(&wanted)?.mgid);
            let Some(mgid) = mgid.map(Mgid).or_else(chosen) else { return };
            let _ = allocator.insert(mgid, &wanted);
        }
        Change::Hold { mgid } => _ = allocator.hold(Mgid(*mgid)),
        Change::Join { mgid, endpoint } => _ = allocator.join(Mgid(*mgid), *endpoint),
        Change::Leave { mgid, endpoint } => _ = allocator.leave(Mgid(*mgid), *endpoint),
        Change::Remove { mgid } => _ = allocator.remove(Mgid(*mgid)),
        Change::ChooseAlone { mgid } => {
            let before = View::of(allocator);
            let _ = allocator.choose_alone(Mgid(*mgid), &[]);
            assert_eq!(View::of(allocator), before, "a choice changes nothing");
        }
    }
}

/// Everything that choices depend on.
#[derive(Debug, PartialEq)]
struct View {
    groups: BTreeMap<Mgid, Option<(Vec<u32>, bool)>>,
    taken: Vec<bool>,
    load: Vec<u32>,
    exclusive: Vec<u32>,
    uses: Vec<Vec<(u32, u32)>>,
    layers: String,
}

impl View {
    fn of(allocator: &MgidAllocator) -> Self {
        let MgidAllocator { groups, planner, .. } = allocator;
        let known = |group: &KnownGroup| (group.members.clone(), group.is_exclusive);
        let groups = groups.iter().map(|(mgid, group)| (*mgid, group.as_ref().map(known)));
        let is_taken = |mgid: u32| {
            let turns = planner.taken.get(&planner.space.spt(Mgid(mgid)));
            turns.is_some_and(|turns| turns.contains(planner.turn(Mgid(mgid))))
        };
        let uses = planner.uses.iter();
        let mut uses: Vec<Vec<(u32, u32)>> =
            uses.map(|uses| uses.iter().map(|one| (one.spt, one.groups)).collect()).collect();
        uses.resize(ENDPOINTS as usize, Vec::new());
        Self {
            groups: groups.collect(),
            taken: (0..4 * MGIDS).map(is_taken).collect(),
            load: planner.load.clone(),
            exclusive: planner.exclusive.clone(),
            uses,
            layers: format!("{:?}", planner.layers),
        }
    }
}

proptest! {
    #[test]
    fn undone_changes_leave_nothing(
        batches in vec((vec(change(), 0..12), vec(change(), 0..6), any::<bool>()), 1..16),
    ) {
        let space = MgidSpace::new(3, 2, TableKind::PerPort).unwrap();
        let mut allocator = MgidAllocator::new(space);
        for (first, last, is_kept) in &batches {
            allocator.record_changes();
            let before = View::of(&allocator);
            first.iter().for_each(|change| make(&mut allocator, change));
            let (kept, middle) = (allocator.recorded_changes(), View::of(&allocator));
            last.iter().for_each(|change| make(&mut allocator, change));
            allocator.undo_changes(kept);
            prop_assert_eq!(View::of(&allocator), middle);
            if !is_kept {
                allocator.undo_changes(0);
                prop_assert_eq!(View::of(&allocator), before);
            }
        }
    }
}
