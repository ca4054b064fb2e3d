//! Random histories of allocations, releases, reservations, limits and faults.

use std::collections::BTreeSet;

use fabricast_topology::{Faults, Peer, PortId};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// A step of a history; indices choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Allocate { job: u64, members: Vec<Index> },
    Release(Index),
    Reserve { holder: Holder, entries: u16, endpoint: Index },
    Cancel(Index),
    Limit { holder: Holder, quota: Quota },
    Fail { switches: Vec<Index>, ports: Vec<Index>, endpoints: Vec<Index> },
}

fn holder() -> impl Strategy<Value = Holder> {
    prop_oneof![
        (0..2_u64).prop_map(|tenant| Holder::Tenant(TenantId(tenant))),
        (0..4_u64).prop_map(|job| Holder::Job(owner(job))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let limit = || proptest::option::of(0..9_u32);
    let quota = (limit(), limit(), proptest::option::of(0..3_u16)).prop_map(
        |(collectives, entries, entries_per_switch)| Quota {
            collectives,
            entries,
            entries_per_switch,
        },
    );
    prop_oneof![
        8 => (0..4_u64, vec(any::<Index>(), 1..9))
            .prop_map(|(job, members)| Step::Allocate { job, members }),
        3 => any::<Index>().prop_map(Step::Release),
        2 => (holder(), 0..3_u16, any::<Index>())
            .prop_map(|(holder, entries, endpoint)| Step::Reserve { holder, entries, endpoint }),
        1 => any::<Index>().prop_map(Step::Cancel),
        1 => (holder(), quota).prop_map(|(holder, quota)| Step::Limit { holder, quota }),
        2 => (vec(any::<Index>(), 0..2), vec(any::<Index>(), 0..4), vec(any::<Index>(), 0..2))
            .prop_map(|(switches, ports, endpoints)| Step::Fail { switches, ports, endpoints }),
    ]
}

fn pick<T>(index: &Index, from: Vec<T>) -> Option<T> {
    let at = (!from.is_empty()).then(|| index.index(from.len()))?;
    from.into_iter().nth(at)
}

/// Takes a step; of faults it gives the collectives that changed.
fn take(allocator: &mut Allocator, id: u64, step: &Step) -> Option<FaultChanges> {
    let graph = Arc::clone(allocator.fabric().graph());
    match step {
        Step::Allocate { job, members } => {
            let members = members.iter().map(|member| member.index(graph.endpoint_count()));
            let members: Vec<u32> = members.map(|member| u32::try_from(member).unwrap()).collect();
            let _ = allocator.allocate(Request { owner: owner(*job), ..request(id, &members) });
        }
        Step::Release(index) => {
            let ids = allocator.collectives().map(|collective| collective.request.id).collect();
            pick(index, ids).map(|id| allocator.release(id).unwrap());
        }
        Step::Reserve { holder, entries, endpoint } => {
            let endpoint = pick(endpoint, graph.endpoints().collect()).unwrap();
            let endpoints = vec![endpoint];
            let _ =
                allocator.reserve(Reservation { holder: *holder, entries: *entries, endpoints });
        }
        Step::Cancel(index) => {
            let ids = allocator.reservations().map(|(id, _)| id).collect();
            pick(index, ids).map(|id| allocator.cancel(id).unwrap());
        }
        Step::Limit { holder, quota } => allocator.set_quota(*holder, *quota),
        Step::Fail { switches, ports, endpoints } => {
            let mut faults = Faults::new();
            for switch in switches {
                faults.fail_switch(pick(switch, graph.switches().collect()).unwrap());
            }
            for port in ports {
                let port = PortId(u32::try_from(port.index(graph.port_count())).unwrap());
                if graph.peer(port) != Peer::None {
                    faults.fail_link(&graph, port);
                }
            }
            for endpoint in endpoints {
                faults.fail_endpoint(pick(endpoint, graph.endpoints().collect()).unwrap());
            }
            let mut piecewise = allocator.clone();
            piecewise.begin_faults(faults.clone());
            while piecewise.is_following() {
                piecewise.follow_faults(1);
            }
            let changes = allocator.set_faults(faults);
            assert_eq!(piecewise.state(), allocator.state(), "pieces end as the whole does");
            return Some(changes);
        }
    }
    None
}

/// Entries that owners have in a switch, counted from what the collectives hold.
fn entries_in(allocator: &Allocator, switch: SwitchId) -> Vec<Owner> {
    let collectives = allocator.collectives();
    let with_tree = collectives.filter(|collective| {
        let tree = collective.service.switch_tree();
        tree.is_some_and(|(_, tree)| tree.kept.iter().any(|kept| kept.switch == switch))
    });
    with_tree.map(|collective| collective.request.owner).collect()
}

/// AGG-5, computed independently: entries in use and reserved entries fit.
fn check_budget(allocator: &Allocator, state: &AllocatorState, switch: SwitchId, budget: u16) {
    let owners = entries_in(allocator, switch);
    let count = |holder: Holder| owners.iter().filter(|owner| holder.covers(**owner)).count();
    let reserved = |holder: Holder| -> usize {
        let here = state.reservations.iter().filter(|(_, reservation, switches)| {
            reservation.holder == holder && switches.contains(&switch)
        });
        here.map(|(_, reservation, _)| usize::from(reservation.entries)).sum()
    };
    let open = |holder| reserved(holder).saturating_sub(count(holder));
    let open_of_tenants: usize = (0..2)
        .map(|tenant| {
            let jobs = [2 * tenant, 2 * tenant + 1].map(|job| open(Holder::Job(owner(job))));
            open(Holder::Tenant(TenantId(tenant))).max(jobs.iter().sum())
        })
        .sum();
    assert!(owners.len() + open_of_tenants <= budget.into(), "{switch:?}: {owners:?}");
    assert_eq!(allocator.holdings(switch).len(), owners.len());
}

/// Returns whether no failed part is on a tree.
fn avoids_faults(fabric: &Fabric, tree: &SwitchTree, members: &[EndpointId]) -> bool {
    let (graph, faults) = (fabric.graph(), fabric.faults());
    let ports = tree.physical.switches.iter().filter_map(|node| node.up).map(|up| up.port);
    let hosts = members.iter().filter_map(|member| graph.attachment(*member));
    // A live port is one of a live switch, so that leaves and all below the root are checked too.
    ports.chain(hosts).all(|port| faults.port_is_live(graph, port))
}

fn check(allocator: &Allocator, settings: &Settings) {
    let fabric = allocator.fabric();
    let graph = fabric.graph();
    let state = allocator.state();
    for switch in graph.switches() {
        check_budget(allocator, &state, switch, settings.entries);
        for port in graph.ports(switch) {
            // Its liveness is kept, and computed anew for the ports of changed parts only.
            let is_live = fabric.faults().port_is_live(graph, port);
            assert_eq!(fabric.is_live(port), is_live, "{port:?}");
        }
    }
    let mut numbers = BTreeSet::new();
    for Collective { request, service } in allocator.collectives() {
        let Some((number, tree)) = service.switch_tree() else { continue };
        assert!(numbers.insert(number), "a tree number is used twice");
        assert_eq!(state::check(tree, graph, &request.members), Ok(()));
        let most = settings.limits.switch_children;
        assert!(tree.children().iter().all(|children| (1..=most).contains(children)));
        assert!(avoids_faults(fabric, tree, &request.members), "AGG-7");
    }
    for job in 0..4 {
        let mine = || allocator.collectives().filter(|one| one.request.owner == owner(job));
        let entries: usize =
            mine().filter_map(|one| one.service.switch_tree()).map(|(_, tree)| tree.cost()).sum();
        let usage = allocator.usage(Holder::Job(owner(job)));
        assert_eq!((usage.collectives as usize, usage.entries as usize), (mine().count(), entries));
    }
}

proptest! {
    /// AGG-5, AGG-7; the ledger is a function of the present collectives.
    #[test]
    fn every_history_keeps_the_invariants_and_loads_equal(
        spec in prop::sample::select(&FABRICS[..]),
        (entries, children) in (1..4_u16, 2..6_u32),
        steps in vec(step(), 1..40),
    ) {
        let settings = settings(entries, children);
        let mut allocator = Allocator::new(fabric(spec), settings.clone());
        for (id, step) in (0..).zip(&steps) {
            let before = allocator.state();
            let changes = take(&mut allocator, id, step);
            check(&allocator, &settings);
            let state = allocator.state();
            if let Some(FaultChanges { new_trees, to_adapters, suspended, .. }) = changes {
                let changed = [new_trees, to_adapters, suspended].concat();
                for (before, after) in before.collectives.iter().zip(&state.collectives) {
                    let changed = changed.contains(&before.request.id);
                    let trees = (before.service.switch_tree(), after.service.switch_tree());
                    prop_assert_eq!(&before.request, &after.request);
                    prop_assert!(changed || trees.0 == trees.1);
                    prop_assert!(!changed || before.service != after.service);
                    let stays = trees.0.is_some_and(|(_, tree)| {
                        avoids_faults(allocator.fabric(), tree, &before.request.members)
                    });
                    prop_assert!(!stays || trees.0 == trees.1);
                }
            }
        }
        let (fabric, state) = (allocator.fabric().clone(), allocator.state());
        let restored = Allocator::restore(fabric, settings, state.clone()).unwrap();
        prop_assert_eq!(restored.state(), state);
        prop_assert_eq!(&restored.ledger, &allocator.ledger);
    }

    /// AGG-6.
    #[test]
    fn release_gives_everything_back(
        spec in prop::sample::select(&FABRICS[..]),
        steps in vec(step(), 0..20),
        (job, members) in (0..4_u64, vec(any::<Index>(), 1..9)),
    ) {
        let mut allocator = Allocator::new(fabric(spec), settings(3, 3));
        (0..).zip(&steps).for_each(|(id, step)| _ = take(&mut allocator, id, step));
        let (ledger, state) = (allocator.ledger.clone(), allocator.state());
        take(&mut allocator, 1_000, &Step::Allocate { job, members });
        allocator.release(CollectiveId(1_000));
        prop_assert_eq!(&allocator.ledger, &ledger);
        let next_tree = state.next_tree;
        prop_assert_eq!(AllocatorState { next_tree, ..allocator.state() }, state);
    }

    /// The state is as before, also after another attempt; then all follow what has failed.
    #[test]
    fn undone_changes_leave_nothing(
        spec in prop::sample::select(&FABRICS[..]),
        kept in vec(step(), 0..20),
        undone in vec(step(), 1..20),
    ) {
        let settings = settings(3, 3);
        let mut allocator = Allocator::new(fabric(spec), settings.clone());
        (0..).zip(&kept).for_each(|(id, step)| _ = take(&mut allocator, id, step));
        allocator.record_changes();
        let (ledger, state) = (allocator.ledger.clone(), allocator.state());
        for _ in 0..2 {
            (1_000..).zip(&undone).for_each(|(id, step)| _ = take(&mut allocator, id, step));
            allocator.undo_changes();
            prop_assert_eq!(&allocator.ledger, &ledger);
            prop_assert_eq!(allocator.state(), state.clone());
        }
        while allocator.is_following() {
            allocator.follow_faults(1);
        }
        check(&allocator, &settings);
    }
}
