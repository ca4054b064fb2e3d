//! Random batches of which the store refuses some.

use fabricast_collectives::{AllocatorState, CollectiveId, Quota, ReservationId};
use fabricast_groups::directory::Directory;
use fabricast_groups::ids::{Gn, Revision};
use fabricast_groups::record::{Change, GroupRecord};

use super::super::CollectiveTable;
use super::*;
use crate::domain::collectives::CollectiveAllocations;
use crate::domain::collectives::request::{CreateCollective, SetQuota};
use crate::domain::collectives::table::load::load;
use crate::domain::collectives::tests::{asks, collective, directory, entries, with_entries};
use crate::domain::collectives::text::{COLLECTIVE, Texts};
use crate::records::keys::Puts;

/// Entries of a switch: so few that some requests are refused.
const ENTRIES: u16 = 3;

/// Numbers that look random (Steele, Lea, Flood 2014), the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % most
    }
}

/// Everything that a table decides on.
#[derive(Debug, PartialEq)]
struct View {
    state: AllocatorState,
    texts: BTreeMap<String, Option<String>>,
    names: BTreeMap<CollectiveId, Arc<str>>,
    of_groups: BTreeSet<(u64, CollectiveId)>,
    requested: BTreeMap<u64, String>,
    tenants: Vec<Option<String>>,
    jobs: Vec<Option<(u64, String)>>,
}

impl View {
    fn of(table: &mut CollectiveTable) -> Self {
        let mut texts: BTreeMap<String, Option<String>> =
            table.items.keys().map(|name| (name.clone(), table.record_text(name))).collect();
        texts.extend(table.holder_texts().into_iter().map(|(key, text)| (key, Some(text))));
        texts.insert("ledger".to_owned(), Some(table.ledger_text("one")));
        Self {
            state: table.allocator.state(),
            texts,
            names: table.names.clone(),
            of_groups: table.of_groups.clone(),
            requested: table.requested.clone(),
            tenants: table.ledger.tenants.clone(),
            jobs: table.ledger.jobs.clone(),
        }
    }

    /// The state as it is read from the store.
    fn stored(allocations: &CollectiveAllocations) -> Self {
        let CollectiveAllocations { fabric, settings, topology, durable, table, .. } = allocations;
        Self::of(&mut load(fabric, settings, topology, durable, table.constants))
    }
}

/// Makes one request; those that are refused change nothing.
fn act(allocations: &mut CollectiveAllocations, directory: &Directory, numbers: &mut Numbers) {
    let mut puts = Puts::new();
    let tenant = format!("tenant-{}", numbers.below(3));
    let name = format!("c{}", numbers.below(4));
    match numbers.below(9) {
        0..=2 => {
            let switch_tree_required = numbers.below(2) == 0;
            let job = format!("job-{}", numbers.below(2));
            let create =
                CreateCollective { tenant, job, switch_tree_required, ..collective(&name) };
            let _ = allocations.create(&create, directory, &mut puts);
        }
        3 => _ = allocations.release(&name, &mut puts),
        4 => {
            let asked = entries(&tenant, usize::from(numbers.below(2) == 0), 1);
            let _ = allocations.reserve_for_job(asked, &mut puts);
        }
        5 => {
            let kept = allocations.table.reservations();
            let newest = kept.last().copied().unwrap_or(ReservationId(0));
            allocations.cancel(newest, &mut puts);
        }
        6 => {
            let collectives = Some(2).filter(|_| numbers.below(2) == 0);
            let quota = Quota { collectives, ..Quota::default() };
            let holder = HolderName { tenant, job: None };
            let _ = allocations.set_quota(&SetQuota { holder, quota }, &mut puts);
        }
        7 => _ = allocations.request_tree(&asks(0), directory, &mut puts),
        _ => allocations.applied(&Change::GroupDeleted(Gn(1)), &mut puts),
    }
}

#[test]
fn a_refused_batch_leaves_the_state_that_the_store_has() {
    let directory = directory(3);
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let mut allocations = with_entries(ENTRIES, "one", Texts::new());
        let (mut refused, mut stored) = (0, View::of(&mut allocations.table));
        for batch in 0..60 {
            for _ in 0..=numbers.below(4) {
                act(&mut allocations, &directory, &mut numbers);
            }
            if numbers.below(2) == 0 {
                allocations.committed();
                stored = View::stored(&allocations);
            } else {
                refused += usize::from(!allocations.pending.is_empty());
                allocations.roll_back();
            }
            let now = View::of(&mut allocations.table);
            assert_eq!(now, stored, "seed {seed}, batch {batch}");
        }
        assert!(refused > 10, "seed {seed}: {refused} batches with changes were refused");
    }
}

/// The first processes of a group, as of a revision of its members.
fn at_revision(revision: u64, members: u32) -> Directory {
    let mut directory = directory(members);
    let record = directory.group(Gn(1)).unwrap().clone();
    let members_revision = Revision(revision);
    directory.apply(&Change::GroupPut(GroupRecord { members_revision, ..record }));
    directory
}

#[test]
fn members_are_compared_anew_after_a_refused_batch_that_changed_no_collective() {
    let mut allocations = with_entries(9, "one", Texts::new());
    let ask = |allocations: &mut CollectiveAllocations, directory: &Directory| {
        let found = allocations.request_tree(&asks(0), directory, &mut Puts::new()).unwrap();
        found.listed().name.clone()
    };
    allocations.create(&collective("a"), &directory(3), &mut Puts::new()).unwrap();
    allocations.committed();
    // In the batch one member has left, and those who stay are the collective's.
    assert_eq!(ask(&mut allocations, &at_revision(5, 3)), "a");
    assert!(allocations.pending.is_empty());
    allocations.roll_back();
    // Next, another one joins, at the same revision.
    assert_ne!(ask(&mut allocations, &at_revision(5, 5)), "a", "it is of three");
}

#[test]
fn collectives_follow_a_failure_again_after_a_refused_batch() {
    let mut allocations = with_entries(9, "one", Texts::new());
    let directory = directory(8);
    for name in ["a", "b"] {
        allocations.create(&collective(name), &directory, &mut Puts::new()).unwrap();
    }
    allocations.committed();
    let root = |allocations: &CollectiveAllocations, name: &str| {
        let id = allocations.table.items[name].id;
        let collective = allocations.table.allocator.collective(id).unwrap();
        collective.service.switch_tree().map(|(_, tree)| tree.physical.switches[0].switch)
    };
    let dead = root(&allocations, "a").unwrap();
    let failed = BTreeSet::from([ElementKey::Switch(dead)]);
    let stored = View::stored(&allocations);
    for is_refused in [true, true, false] {
        assert_eq!(View::of(&mut allocations.table), stored);
        let mut puts = Puts::new();
        allocations.follow(&failed, &mut puts);
        let moved = puts.keys().filter(|key| String::from_utf8_lossy(key).contains(COLLECTIVE));
        assert!(moved.count() > 0, "those on the switch get other trees");
        assert_ne!(root(&allocations, "a"), Some(dead));
        if is_refused {
            allocations.roll_back();
            assert!(allocations.publisher.newest().failed.is_empty());
        } else {
            allocations.committed();
        }
    }
    assert_eq!(*allocations.publisher.newest().failed, failed);
    assert_eq!(View::of(&mut allocations.table), View::stored(&allocations));
    assert!(View::stored(&allocations) != stored);
}
