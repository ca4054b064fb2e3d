//! Handwritten runs.

use std::time::Duration;

use fabricast_groups::flaps::FlapDamping;
use fabricast_groups::{Gn, Incarnation};

use super::World;
use crate::invariants::g2;
use crate::node::name;
use crate::scenario::{Action, Party};
use crate::settings::Settings;

const GN: Gn = Gn(1);

mod failover;

/// Creates a world in which all nodes have registered and are members of one group.
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
        world.apply_action(Action::Cut { from: Party::Node(at), to: other, cut });
        world.apply_action(Action::Cut { from: other, to: Party::Node(at), cut });
    }
}

/// G5, the second half.
#[test]
fn a_slow_node_that_answers_the_probe_is_not_expelled() {
    let mut world = in_one_group(4);
    for at in [0, 2] {
        // Its reports stop, both as a member and as a host, but it answers.
        world.apply_action(Action::Mute { at, silent: true });
    }
    world.run(Duration::from_secs(60));
    let revision = world.directory().revision();
    assert_eq!(world.directory().members(GN).count(), 4);
    assert!(world.probes_answered > 10, "it was asked");
    world.run(Duration::from_secs(60));
    assert_eq!(world.directory().revision(), revision, "no decision concerned it");
}

#[test]
fn a_replaced_agent_that_returns_is_obeyed_by_no_node() {
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
fn members_learn_of_a_group_that_a_launcher_formed() {
    let mut world = World::new(4, 5, 1);
    world.run(Duration::from_secs(2));
    world.form("rows/1", &[0, 1, 2, 3, 4]);
    assert!(world.nodes.iter().all(|node| node.oa.memberships().count() == 0));
    world.run(Duration::from_secs(5));
    assert!(world.nodes.iter().all(|node| node.oa.memberships().count() == 1));
    g2::agrees(&world);
}

/// A leader that freezes with a write in flight is not believed when it resumes.
#[test]
fn a_leader_that_wakes_up_late_changes_nothing() {
    let mut world = in_one_group(3);
    let leader = world.tics.iter().flatten().position(|tic| tic.directory().is_some());
    let leader = leader.expect("one leads");
    world.apply_action(Action::SlowStore { delay: Duration::from_secs(4) });
    world.apply_action(Action::Join { at: 1, group: 2, process: 0 });
    world.run(Duration::from_millis(100)); // the write is under way
    world.apply_action(Action::Freeze { who: Party::Tic(leader), stop: true });
    world.apply_action(Action::SlowStore { delay: Duration::ZERO });
    world.run(Duration::from_secs(3));
    let other = world.tics[1 - leader].as_ref().expect("no TIC was killed");
    assert!(other.directory().is_some(), "the other one leads");
    let revision = world.directory().revision();
    world.apply_action(Action::Freeze { who: Party::Tic(leader), stop: false });
    world.run(Duration::from_millis(50));
    let woken = world.tics[leader].as_ref().expect("no TIC was killed");
    assert!(woken.directory().is_none(), "it has stepped down");
    world.run(Duration::from_secs(10));
    assert!(world.directory().revision() >= revision);
    g2::agrees(&world);
}
