//! Runs that are written by hand.

use std::time::Duration;

use fabricast_groups::flaps::FlapDamping;
use fabricast_groups::{Gn, Incarnation};

use super::World;
use crate::invariants::g2;
use crate::node::name;
use crate::scenario::{Deed, Party};
use crate::settings::Settings;

const GN: Gn = Gn(1);

mod failover;

/// A world in which everybody has registered and is in one group.
fn in_one_group(nodes: usize) -> World {
    in_one_group_of(nodes, Settings { adaptive: false, damping: FlapDamping::default() })
}

fn in_one_group_of(nodes: usize, settings: Settings) -> World {
    let mut world = World::with(settings, 1, nodes, 2);
    world.run(Duration::from_secs(2));
    world.form("g", &(0..nodes).collect::<Vec<_>>());
    world.run(Duration::from_secs(3));
    g2::agrees(&world);
    world
}

fn cut_off(world: &mut World, at: usize, cut: bool) {
    let others = (0..world.nodes.len()).filter(|other| *other != at).map(Party::Node);
    let others: Vec<Party> = others.chain([Party::Tic(0), Party::Tic(1)]).collect();
    for other in others {
        world.do_deed(Deed::Cut { from: Party::Node(at), to: other, cut });
        world.do_deed(Deed::Cut { from: other, to: Party::Node(at), cut });
    }
}

/// G5, the second half.
#[test]
fn a_slow_node_that_answers_the_probe_is_not_expelled() {
    let mut world = in_one_group(4);
    for at in [0, 2] {
        // Its reports stop, both as a member and as a host, but it answers.
        world.do_deed(Deed::Mute { at, silent: true });
    }
    world.run(Duration::from_secs(60));
    let revision = world.directory().revision();
    assert_eq!(world.directory().members(GN).count(), 4);
    assert!(world.probes_answered > 10, "it was asked");
    world.run(Duration::from_secs(60));
    assert_eq!(world.directory().revision(), revision, "nothing was decided about it");
}

#[test]
fn a_deposed_agent_that_returns_is_obeyed_by_nobody() {
    let mut world = in_one_group(4);
    cut_off(&mut world, 0, true); // alive, but the network lost it
    world.run(Duration::from_secs(15));
    let agent = world.directory().group(GN).expect("it lives on").agent.clone();
    assert_eq!(agent, Some(name(1)));
    let acts = |world: &World| world.nodes[0].ga.as_ref().is_some_and(|ga| ga.query(GN).is_some());
    assert!(acts(&world), "it still acts");
    cut_off(&mut world, 0, false);
    world.run(Duration::from_secs(15));
    assert!(!acts(&world));
    assert!(world.nodes[0].oa.incarnation() > Incarnation(1));
    g2::agrees(&world);
}

#[test]
fn a_group_formed_by_a_launcher_reaches_its_members_without_their_asking() {
    let mut world = World::new(4, 5, 1);
    world.run(Duration::from_secs(2));
    world.form("rows/1", &[0, 1, 2, 3, 4]);
    assert!(world.nodes.iter().all(|node| node.oa.memberships().count() == 0));
    world.run(Duration::from_secs(5));
    assert!(world.nodes.iter().all(|node| node.oa.memberships().count() == 1));
    g2::agrees(&world);
}

/// A leader that stops for a while with a write on its way is not believed when it goes on.
#[test]
fn a_leader_that_wakes_up_late_changes_nothing() {
    let mut world = in_one_group(3);
    let leader = world.tics.iter().flatten().position(|tic| tic.directory().is_some());
    let leader = leader.expect("one leads");
    world.do_deed(Deed::SlowStore { delay: Duration::from_secs(4) });
    world.do_deed(Deed::Join { at: 1, group: 2, process: 0 });
    world.run(Duration::from_millis(100)); // the write is under way
    world.do_deed(Deed::Freeze { who: Party::Tic(leader), stop: true });
    world.do_deed(Deed::SlowStore { delay: Duration::ZERO });
    world.run(Duration::from_secs(3));
    let other = world.tics[1 - leader].as_ref().expect("nobody was killed");
    assert!(other.directory().is_some(), "the other one leads");
    let revision = world.directory().revision();
    world.do_deed(Deed::Freeze { who: Party::Tic(leader), stop: false });
    world.run(Duration::from_millis(50));
    let woken = world.tics[leader].as_ref().expect("nobody was killed");
    assert!(woken.directory().is_none(), "it has stepped down");
    world.run(Duration::from_secs(10));
    assert!(world.directory().revision() >= revision);
    g2::agrees(&world);
}
