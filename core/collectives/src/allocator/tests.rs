//! Allocations, refusals and listings; laws over random histories are in `laws`.

mod laws;

use std::sync::Arc;

use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{AggregationNode, EndpointId, Faults, SwitchId};

use super::*;

fn fabric(spec: &str) -> Fabric {
    let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
    Fabric::detect(graph)
}

const SMALL: &str = "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 4\n";

const FABRICS: [&str; 6] = [
    "kind = 'leaf-spine'\nleaves = 4\nspines = 3\nendpoints_per_leaf = 3\nlanes0 = 2\n",
    "kind = 'k-ary-3-level'\nk = 4\n",
    "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 1\nk = 2\nw = 2\nendpoints_per_leaf = 2\n",
    "kind = 'pruned-fat-tree'\nmidplanes = 3\nleaves = 2\nspines = 2\nuplinks_per_spine = 2\n\
     cores = 2\nline_ports = 2\ncore_spines = 2\nendpoints_per_leaf = 2\n",
    "kind = 'pruned-fat-tree'\nmidplanes = 3\nleaves = 2\nspines = 2\nuplinks_per_spine = 1\n\
     cores = 1\ncore_spines = 0\nendpoints_per_leaf = 2\n",
    "kind = 'dragonfly'\na = 3\np = 2\nh = 1\n",
];

fn settings(entries: u16, children: u32) -> Settings {
    let limits = Limits { switch_children: children, ..Limits::default() };
    Settings { entries, limits, ..Settings::default() }
}

fn owner(job: u64) -> Owner {
    Owner { tenant: TenantId(job / 2), job: JobId(job) }
}

fn request(id: u64, members: &[u32]) -> Request {
    Request {
        id: CollectiveId(id),
        owner: owner(id),
        members: members.iter().copied().map(EndpointId).collect(),
        operations: vec![Operation::AllReduce],
        bytes: SizeRange { min: 0, max: 8 },
        demand: Demand::Best,
    }
}

#[test]
fn a_full_switch_sends_the_next_tree_to_another_root() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(1, 8));
    let root = |collective: &Collective| {
        let (_, tree) = collective.service.switch_tree().unwrap();
        assert_eq!(tree.cost(), 1, "one switch takes all");
        tree.kept[0].switch
    };
    let first = root(allocator.allocate(request(1, &[0, 4])).unwrap());
    let second = root(allocator.allocate(request(2, &[0, 4, 5])).unwrap());
    assert_ne!(first, second);
    let third = &allocator.allocate(request(3, &[0, 8])).unwrap().service;
    let why = Fallback::NoEntries { above: 2, tried: 0 };
    assert_eq!(third, &Service::Adapters { why });
    assert_eq!(
        why.to_string(),
        "no entries left: 2 switches are above all members, 0 of them with an entry"
    );
    // A leaf's own members need no spine.
    let leaf = root(allocator.allocate(request(4, &[0, 1, 2])).unwrap());
    assert_eq!(allocator.holdings(leaf)[0].collective, CollectiveId(4));
    let demanded = Request { demand: Demand::SwitchTree, ..request(5, &[1, 9]) };
    assert_eq!(allocator.allocate(demanded), Err(Refusal::NoSwitchTree { why }));
    assert_eq!(allocator.collectives().len(), 4);
}

#[test]
fn a_full_leaf_switch_is_served_from_above() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(1, 8));
    let mut level = |id| {
        let collective = allocator.allocate(request(id, &[0, 1, 2])).unwrap();
        let root = collective.service.switch_tree().unwrap().1.kept[0].switch;
        allocator.fabric().level(root)
    };
    assert_eq!((level(1), level(2)), (Some(0), Some(1)));
}

#[test]
fn entries_name_every_member_once_below_its_parent() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 3));
    // Two processes on endpoint 0.
    allocator.allocate(request(7, &[0, 0, 1, 4, 5, 8])).unwrap();
    let entries = allocator.entries(CollectiveId(7));
    assert_eq!(entries.iter().filter(|entry| entry.parent.is_none()).count(), 1);
    let children: Vec<AggregationNode> =
        entries.iter().flat_map(|entry| entry.children.clone()).collect();
    let mut processes: Vec<(u32, u32)> = children
        .iter()
        .filter_map(|child| match child {
            AggregationNode::Process { process, endpoint } => Some((*process, endpoint.0)),
            AggregationNode::Switch(_) => None,
        })
        .collect();
    processes.sort_unstable();
    assert_eq!(processes, [(0, 0), (1, 0), (2, 1), (3, 4), (4, 5), (5, 8)]);
    for entry in &entries {
        assert_eq!(children.contains(&entry.holder), entry.parent.is_some());
        assert!(entry.children.len() <= 3);
    }
    assert!(allocator.entries(CollectiveId(8)).is_empty());
}

#[test]
fn reserved_entries_are_kept_for_their_holder() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(2, 8));
    let mine = Holder::Job(owner(2));
    let reserve = |entries| Reservation { holder: mine, entries, endpoints: vec![EndpointId(0)] };
    assert_eq!(
        allocator.reserve(reserve(3)).map_err(|error| error.to_string()),
        Err("switch 0 lacks 1 of the entries".to_owned())
    );
    let id = allocator.reserve(reserve(2)).unwrap();
    let others = allocator.allocate(request(9, &[0, 1])).unwrap();
    assert!(others.service.switch_tree().is_none(), "everything above endpoint 0 is reserved");
    let elsewhere = allocator.allocate(request(10, &[4, 5])).unwrap();
    assert!(elsewhere.service.switch_tree().is_some(), "another leaf switch is not");
    let holders = allocator.allocate(request(2, &[0, 1])).unwrap();
    assert_eq!(holders.service.switch_tree().map(|(_, tree)| tree.cost()), Some(1));
    assert_eq!(allocator.free_entries(SwitchId(0), owner(2)), 1);
    assert_eq!(allocator.free_entries(SwitchId(0), owner(9)), 0);
    assert!(allocator.cancel(id).is_some() && allocator.cancel(id).is_none());
    assert_eq!(allocator.free_entries(SwitchId(0), owner(9)), 1);
}

#[test]
fn quotas_refuse_collectives_and_withhold_entries() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 8));
    let tenant = Holder::Tenant(TenantId(0));
    let quota = Quota { collectives: Some(3), entries: Some(1), entries_per_switch: None };
    allocator.set_quota(tenant, quota);
    allocator.allocate(request(0, &[0, 1])).unwrap();
    let second = allocator.allocate(request(1, &[0, 1])).unwrap();
    let Service::Adapters { why } = second.service else { panic!("an entry too many") };
    assert_eq!(why.to_string(), "tenant 0 may hold 1 entries, has 1 and would need 1 more");
    let third = Request { id: CollectiveId(5), ..request(0, &[0]) };
    allocator.allocate(third.clone()).unwrap();
    let refused = allocator.allocate(Request { id: CollectiveId(6), ..third }).unwrap_err();
    assert_eq!(refused.to_string(), "tenant 0 may hold 3 collectives and has them");
    assert_eq!(allocator.usage(tenant), Usage { collectives: 3, entries: 1 });
    allocator.set_quota(tenant, Quota::default());
    assert_eq!(allocator.quota(tenant), Quota::default());
    let spread = Quota { entries_per_switch: Some(1), ..Quota::default() };
    allocator.set_quota(Holder::Job(owner(8)), spread);
    for (id, level) in [(8, 0), (18, 1)] {
        let request = Request { owner: owner(8), ..request(id, &[4, 5]) };
        let (_, tree) = allocator.allocate(request).unwrap().service.switch_tree().unwrap();
        let root = tree.kept[0].switch;
        assert_eq!(allocator.fabric().level(root), Some(level), "the leaf switch gives one entry");
    }
}

#[test]
fn quotas_count_what_is_reserved() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(8, 8));
    let of = |holder, entries| Reservation { holder, entries, endpoints: vec![EndpointId(0)] };
    let (first, second) = (Holder::Job(owner(0)), Holder::Job(owner(1)));
    let tenant = Holder::Tenant(TenantId(0));
    let text = |reserved: Result<ReservationId, ReserveError>| {
        reserved.map(|_| ()).map_err(|error| error.to_string())
    };
    // The leaf switch of endpoint 0 and both spines.
    let quota = Quota { entries: Some(9), ..Quota::default() };
    allocator.set_quota(tenant, quota);
    allocator.reserve(of(first, 2)).unwrap();
    let state = allocator.state();
    let refused = "tenant 0 may hold 9 entries, and would have 12";
    assert_eq!(text(allocator.reserve(of(second, 2))), Err(refused.to_owned()));
    assert_eq!(text(allocator.reserve(of(tenant, 4))), Err(refused.to_owned()));
    assert_eq!(allocator.state(), state, "nothing is changed");
    allocator.reserve(of(tenant, 3)).unwrap(); // the job's are part of it
    allocator.allocate(request(0, &[0, 1])).unwrap();
    assert_eq!(allocator.usage(tenant).entries, 1, "from the job's own");
    let elsewhere = Request { owner: owner(1), ..request(1, &[4, 5]) };
    let Service::Adapters { why } = allocator.allocate(elsewhere).unwrap().service else {
        panic!("an entry too many")
    };
    assert_eq!(why.to_string(), "tenant 0 may hold 9 entries, has 9 and would need 1 more");

    let of_job = |entries| Quota { entries_per_switch: Some(entries), ..Quota::default() };
    allocator.set_quota(tenant, Quota::default());
    allocator.set_quota(second, of_job(2));
    let refused = "job 1 of tenant 0 may hold 2 entries, and would have 3";
    assert_eq!(text(allocator.reserve(of(second, 3))), Err(refused.to_owned()));
    allocator.reserve(of(second, 2)).unwrap();
    let full = Request { owner: owner(1), ..request(7, &[0, 1]) };
    assert!(allocator.allocate(full).unwrap().service.switch_tree().is_some());
    assert_eq!(allocator.holders().filter(|holder| *holder == second).count(), 3);
}

#[test]
fn a_reservation_keeps_its_number_on_another_fabric() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(2, 8));
    let holder = Holder::Job(owner(2));
    let reservation = Reservation { holder, entries: 2, endpoints: vec![EndpointId(4)] };
    allocator.set_quota(holder, Quota { entries: Some(0), ..Quota::default() });
    allocator.reserve_again(ReservationId(7), reservation.clone()).unwrap();
    assert_eq!(allocator.free_entries(SwitchId(1), owner(9)), 0);
    let too_many = allocator.reserve_again(ReservationId(8), reservation);
    assert!(matches!(too_many, Err(ReserveError::TooFew { missing: 2, .. })), "{too_many:?}");
    assert_eq!(allocator.reservations().map(|(id, _)| id).collect::<Vec<_>>(), [ReservationId(7)]);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 8));
    let mut refused = |request| allocator.allocate(request).unwrap_err().to_string();
    assert_eq!(refused(request(0, &[])), "members is empty");
    let idle = Request { operations: vec![], ..request(0, &[1]) };
    assert_eq!(refused(idle), "operations is empty");
    let bytes = SizeRange { min: 9, max: 8 };
    let sizes = Request { bytes, ..request(0, &[1]) };
    assert_eq!(refused(sizes), "bytes: smallest 9 is larger than largest 8");
    let nowhere = refused(request(0, &[1, 99]));
    assert_eq!(nowhere, "members[1]: endpoint #99 is not connected to a leaf switch");
    allocator.allocate(request(0, &[1, 2])).unwrap();
    let again = allocator.allocate(request(0, &[1, 2])).unwrap_err().to_string();
    assert_eq!(again, "collective 0 exists");
}

#[test]
fn large_messages_take_no_entries_and_mixed_ones_use_both() {
    let parameters = CostParameters { reduce_us_per_byte: 0.001, ..CostParameters::PAPER };
    let settings = Settings { parameters, ..settings(4, 64) };
    let spec = "kind = 'leaf-spine'\nleaves = 32\nspines = 16\nendpoints_per_leaf = 16\n";
    let mut allocator = Allocator::new(fabric(spec), settings);
    let everybody: Vec<u32> = (0..512).collect();
    let of = |id, min, max| Request { bytes: SizeRange { min, max }, ..request(id, &everybody) };
    let large = allocator.allocate(of(1, 1 << 20, 1 << 21)).unwrap();
    assert_eq!(large.service, Service::Adapters { why: Fallback::Slower });
    let mixed = allocator.allocate(of(2, 0, 1 << 21)).unwrap();
    assert!(mixed.service.switch_tree().is_some());
    let mut kind = |id, bytes| {
        allocator.choose(CollectiveId(id), Operation::AllReduce, bytes).map(|choice| choice.kind)
    };
    assert_eq!((kind(2, 8), kind(2, 1 << 21)), (Some(TreeKind::Switch), Some(TreeKind::Adapter)));
    assert_eq!((kind(1, 8), kind(3, 8)), (Some(TreeKind::Adapter), None));
    let mut tree =
        |bytes| allocator.adapter_tree(CollectiveId(2), Operation::AllReduce, bytes).unwrap();
    assert_eq!(tree(8).processes(), 512);
    assert!(tree(8).degree() <= 64 && tree(1 << 21).degree() < tree(8).degree());
}

#[test]
fn the_size_changes_the_width_of_an_adapter_tree_by_the_stated_constants() {
    let degrees = |parameters| {
        let settings = Settings { parameters, ..settings(0, 64) };
        let mut allocator = Allocator::new(fabric(SMALL), settings);
        // 40 processes on one endpoint, whose tree has the width alone.
        allocator.allocate(request(1, &[0; 40])).unwrap();
        [8, 1 << 16].map(|bytes| {
            let tree = allocator.adapter_tree(CollectiveId(1), Operation::AllReduce, bytes);
            tree.unwrap().degree()
        })
    };
    let [small, large] = degrees(CostParameters::DEFAULT);
    assert!(small > 20 && large < 10, "{small} and {large}");
    assert_eq!(degrees(CostParameters::PAPER), [39; 2], "bytes that cost nothing change nothing");
}

#[test]
fn a_width_that_was_kept_gives_the_same_adapter_tree() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 64));
    allocator.allocate(request(1, &[0, 1, 5, 6, 0, 1, 5, 6])).unwrap();
    let id = CollectiveId(1);
    let width = allocator.choose(id, Operation::AllReduce, 64).unwrap().widths.best;
    let tree = allocator.adapter_tree(id, Operation::AllReduce, 64);
    assert_eq!(allocator.adapter_tree_of_width(id, width), tree);
    assert!(tree.is_some() && allocator.adapter_tree_of_width(CollectiveId(2), width).is_none());
}

#[test]
fn a_member_that_is_cut_off_suspends_until_it_is_back() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 8));
    let (near, far) = (CollectiveId(1), CollectiveId(2));
    allocator.allocate(request(1, &[0, 1])).unwrap();
    allocator.allocate(request(2, &[0, 4])).unwrap();
    let mut faults = Faults::new();
    faults.fail_endpoint(EndpointId(4));
    let changes = allocator.set_faults(faults);
    assert_eq!(changes, FaultChanges { suspended: vec![far], ..FaultChanges::default() });
    let service = &allocator.collective(far).unwrap().service;
    assert_eq!(service, &Service::Suspended { member: 1 });
    assert_eq!(allocator.usage(Holder::Job(owner(2))), Usage { collectives: 1, entries: 0 });
    let unchanged = allocator.collective(near).cloned();
    let changes = allocator.set_faults(Faults::new());
    assert_eq!(changes, FaultChanges { new_trees: vec![far], ..FaultChanges::default() });
    assert_eq!(allocator.collective(near).cloned(), unchanged);
}

#[test]
fn collectives_follow_faults_in_pieces_and_new_ones_avoid_them_at_once() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 8));
    let root = |allocator: &Allocator, id| {
        let collective = allocator.collective(CollectiveId(id)).unwrap();
        collective.service.switch_tree().map(|(_, tree)| tree.kept[0].switch)
    };
    for id in 0..4 {
        allocator.allocate(request(id, &[0, 4])).unwrap();
    }
    let dead = root(&allocator, 0).unwrap();
    let hit: Vec<u64> = (0..4).filter(|id| root(&allocator, *id) == Some(dead)).collect();
    assert_eq!(hit.len(), 2, "two spines have two trees each");
    let mut faults = Faults::new();
    faults.fail_switch(dead);
    allocator.begin_faults(faults);
    let first = allocator.follow_faults(1);
    assert_eq!(first.new_trees, [CollectiveId(0)]);
    assert!(allocator.is_following());
    allocator.allocate(request(9, &[0, 4])).unwrap();
    assert_ne!(root(&allocator, 9), Some(dead));
    let rest = allocator.follow_faults(usize::MAX);
    // The last entry of the other spine went to the new one.
    assert_eq!([rest.new_trees, rest.to_adapters], [vec![], vec![CollectiveId(hit[1])]]);
    assert!(!allocator.is_following());
    assert_eq!(allocator.follow_faults(usize::MAX), FaultChanges::default());
}

#[test]
fn a_large_collective_follows_faults_in_a_piece_of_its_own() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 8));
    allocator.allocate(request(0, &[0, 4])).unwrap();
    let all: Vec<u32> = (0..12).collect();
    allocator.allocate(request(1, &all)).unwrap();
    let mut faults = Faults::new();
    faults.fail_endpoint(EndpointId(0));
    allocator.begin_faults(faults);
    for id in 0..2 {
        // The first one leaves some of it, but not 12.
        assert_eq!(allocator.follow_faults(12).suspended, [CollectiveId(id)]);
    }
    assert_eq!(allocator.follow_faults(usize::MAX), FaultChanges::default());
    assert!(!allocator.is_following());
}

#[test]
fn a_large_collective_that_keeps_its_tree_ends_no_piece() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 8));
    let others: Vec<u32> = (1..12).collect();
    for (id, members) in [(0, &[0, 4][..]), (1, &others[..]), (2, &[0, 8][..])] {
        allocator.allocate(request(id, members)).unwrap();
    }
    let kept = allocator.collective(CollectiveId(1)).cloned();
    let mut faults = Faults::new();
    faults.fail_endpoint(EndpointId(0));
    allocator.begin_faults(faults);
    assert_eq!(allocator.follow_faults(12).suspended, [0, 2].map(CollectiveId));
    assert_eq!(allocator.collective(CollectiveId(1)).cloned(), kept);
}

#[test]
fn what_a_collective_gives_back_later_serves_one_that_lost_its_tree_before() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(1, 8));
    // Each takes the only entry of a spine.
    allocator.allocate(request(0, &[0, 4])).unwrap();
    allocator.allocate(request(1, &[0, 5])).unwrap();
    let mut faults = Faults::new();
    faults.fail_endpoint(EndpointId(5));
    let root = |allocator: &Allocator| {
        let collective = allocator.collective(CollectiveId(0)).unwrap();
        collective.service.switch_tree().map(|(_, tree)| tree.kept[0].switch)
    };
    faults.fail_switch(root(&allocator).unwrap());
    let changes = allocator.set_faults(faults);
    let expected = FaultChanges {
        new_trees: vec![CollectiveId(0)],
        suspended: vec![CollectiveId(1)],
        ..FaultChanges::default()
    };
    assert_eq!(changes, expected);
    assert!(root(&allocator).is_some());
}

/// A tenant of two trees may have one only, loses one, and gives the other back later.
#[test]
fn a_tree_lost_by_a_quota_is_tried_again_also_after_a_restart_or_an_undone_piece() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 8));
    let tenant = Holder::Tenant(TenantId(0));
    let (first, second) = (CollectiveId(0), CollectiveId(1));
    allocator.allocate(request(0, &[0, 4])).unwrap();
    allocator.allocate(request(1, &[0, 5])).unwrap();
    allocator.set_quota(tenant, Quota { entries: Some(1), ..Quota::default() });
    let mut faults = Faults::new();
    faults.fail_endpoint(EndpointId(5));
    let (_, tree) = allocator.collective(first).unwrap().service.switch_tree().unwrap();
    faults.fail_switch(tree.kept[0].switch);
    allocator.record_changes();
    allocator.begin_faults(faults.clone());
    assert_eq!(allocator.follow_faults(1).to_adapters, [first]);
    let Service::Adapters { why } = allocator.collective(first).unwrap().service else {
        panic!("the other tree has the tenant's entry")
    };
    assert!(matches!(why, Fallback::Quota { .. }), "{why}");
    allocator.record_changes(); // the piece is durable
    let state = allocator.state();
    let expected =
        FaultChanges { new_trees: vec![first], suspended: vec![second], ..FaultChanges::default() };
    assert_eq!(allocator.follow_faults(usize::MAX), expected);
    allocator.undo_changes();
    assert_eq!(allocator.state(), state);
    assert_eq!(allocator.follow_faults(usize::MAX), expected);
    let mut restarted = Allocator::restore(fabric(SMALL), settings(4, 8), state).unwrap();
    assert_eq!(restarted.set_faults(faults), expected);
}

#[test]
fn holders_are_known_as_long_as_they_have_something() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 8));
    let (tenant, job) = (Holder::Tenant(TenantId(0)), Holder::Job(owner(1)));
    let known = |allocator: &Allocator| [tenant, job].map(|one| allocator.is_known(one));
    assert_eq!(known(&allocator), [false, false]);
    allocator.allocate(request(1, &[0, 4])).unwrap();
    assert_eq!(known(&allocator), [true, true]);
    allocator.release(CollectiveId(1));
    assert_eq!(known(&allocator), [false, false]);
    let of_job = Reservation { holder: job, entries: 1, endpoints: vec![EndpointId(0)] };
    let ids = [0, 1].map(|_| allocator.reserve(of_job.clone()).unwrap());
    allocator.cancel(ids[0]);
    assert_eq!(known(&allocator), [true, true], "a job's reservation is one of its tenant");
    assert_eq!(allocator.reservation(ids[1]), Some(&of_job));
    assert_eq!(allocator.reserved_switches(ids[1]).len(), 3, "a leaf switch and two spines");
    allocator.cancel(ids[1]);
    assert_eq!(known(&allocator), [false, false]);
    allocator.set_quota(tenant, Quota { entries: Some(1), ..Quota::default() });
    assert_eq!(known(&allocator), [true, false]);
    allocator.set_quota(tenant, Quota::default());
    assert_eq!(known(&allocator), [false, false]);
}

#[test]
fn a_state_of_another_fabric_is_refused() {
    let mut allocator = Allocator::new(fabric(SMALL), settings(4, 8));
    allocator.allocate(request(1, &[0, 4, 8])).unwrap();
    let state = allocator.state();
    let restore = |spec, entries, state: &AllocatorState| {
        let restored = Allocator::restore(fabric(spec), settings(entries, 8), state.clone());
        restored.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(restore(SMALL, 4, &state), Ok(()));
    let misfit = Err("the switch tree of collective 1 does not fit the fabric".to_owned());
    assert_eq!(restore(FABRICS[1], 4, &state), misfit);
    let lacking = restore(SMALL, 0, &state).unwrap_err();
    assert!(lacking.ends_with("lacks 1 of the entries that are held and reserved"), "{lacking}");
    let twice = AllocatorState {
        collectives: [state.collectives.clone(), state.collectives.clone()].concat(),
        ..state.clone()
    };
    assert_eq!(restore(SMALL, 4, &twice), Err("collective 1 is there twice".to_owned()));
    let reused = AllocatorState { next_tree: 0, ..state };
    assert_eq!(
        restore(SMALL, 4, &reused),
        Err("tree 0 of collective 1 has a number that was not given out yet".to_owned())
    );
}
