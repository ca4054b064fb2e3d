//! The whole protocol in one deterministic run: one TIC, some nodes, a network that delays, loses
//! and duplicates, nodes that die, stall and come back, and a TIC that restarts from its store.
//!
//! After the network has healed, G1, G2, G4 and G5 must hold and joins must succeed. A failing
//! case prints its seed; the same seed is the same run.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::time::Duration;

use proptest::prelude::*;

mod check;
mod node;
mod world;

use world::{Network, World};

const STORMY: Network =
    Network { delay: Duration::from_millis(400), loss_percent: 15, duplicate_percent: 10 };
const CALM: Network =
    Network { delay: Duration::from_millis(5), loss_percent: 0, duplicate_percent: 0 };

/// Long enough for every retry, every verdict and every new office, one after the other.
const SETTLE: Duration = Duration::from_secs(30);

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]

    /// G1, G2, G4, G5
    #[test]
    fn after_a_storm_every_table_and_tree_is_right_again(seed in any::<u64>()) {
        let mut world = World::new(seed, 7, STORMY);
        world.run(Duration::from_secs(25), true);
        world.network = CALM;
        world.calm_down();
        world.run(SETTLE, false);
        check::agrees(&world);
        check::a_fresh_join_succeeds_on_every_node(&mut world);
        check::a_dead_node_is_out_in_time(&mut world);
        world.run(SETTLE, false);
        check::agrees(&world);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let trace = |seed| {
        let mut world = World::new(seed, 5, STORMY);
        world.run(Duration::from_secs(15), true);
        (world.delivered, world.tic.directory().revision())
    };
    assert_eq!(trace(42), trace(42));
    let (delivered, decisions) = trace(42);
    assert!(delivered > 300 && decisions.0 > 20, "a storm: {delivered}, {decisions:?}");
}

/// G5, the second half.
#[test]
fn a_slow_node_that_answers_the_probe_is_not_expelled() {
    let mut world = World::new(1, 4, CALM);
    world.form("g", &[0, 1, 2, 3]);
    world.run(Duration::from_secs(5), false);
    let members = world.tic.directory().members(fabricast_groups::Gn(1)).count();
    assert_eq!(members, 4);
    for slow in [0, 2] {
        // Its reports stop, both as a member and as a host, but it answers.
        world.nodes[slow].mute = true;
    }
    world.run(Duration::from_secs(60), false);
    let revision = world.tic.directory().revision();
    assert_eq!(world.tic.directory().members(fabricast_groups::Gn(1)).count(), 4);
    assert!(world.probes_answered > 10, "it was asked");
    world.run(Duration::from_secs(60), false);
    assert_eq!(world.tic.directory().revision(), revision, "nothing was decided about it");
}

#[test]
fn a_deposed_agent_that_returns_is_obeyed_by_nobody() {
    let mut world = World::new(3, 4, CALM);
    world.form("g", &[0, 1, 2, 3]);
    world.run(Duration::from_secs(3), false);
    world.nodes[0].cut_off = true; // alive, but the network lost it
    world.run(Duration::from_secs(15), false);
    let gn = fabricast_groups::Gn(1);
    let group = world.tic.directory().group(gn).expect("it lives on").clone();
    assert_eq!(group.agent, Some(world::name(1)));
    assert!(world.nodes[0].ga.as_ref().is_some_and(|ga| ga.query(gn).is_some()), "it still acts");
    world.nodes[0].cut_off = false;
    world.run(Duration::from_secs(15), false);
    assert!(world.nodes[0].ga.as_ref().is_some_and(|ga| ga.query(gn).is_none()));
    assert!(world.nodes[0].oa.incarnation() > fabricast_groups::Incarnation(1));
    check::agrees(&world);
}

#[test]
fn a_group_formed_by_a_launcher_reaches_its_members_without_their_asking() {
    let mut world = World::new(4, 5, CALM);
    world.form("rows/1", &[0, 1, 2, 3, 4]);
    assert!(world.nodes.iter().all(|node| node.oa.memberships().count() == 0));
    world.run(Duration::from_secs(5), false);
    assert!(world.nodes.iter().all(|node| node.oa.memberships().count() == 1));
    check::agrees(&world);
}
