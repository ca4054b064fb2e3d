//! Failover of group agents, one scenario each; time is simulated, so its bounds are exact.
//!
//! In all scenarios exactly one agent acts (G4, also checked at every step), ranks stay, the tree
//! is complete, and all members follow the new agent within [`FAILOVER`] of the fault.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_groups::flaps::{FlapDamping, FlapPolicy};
use fabricast_groups::names::NodeName;
use fabricast_groups::{Epoch, Pn};

use super::{GN, cut_off, in_one_group, in_one_group_of};
use crate::invariants::g2;
use crate::node::{index_of, name};
use crate::scenario::{Action, Party};
use crate::settings::{DETECTOR, Settings};
use crate::store::LEASE;
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

/// Time by which a dead agent's node is expelled, and also dead members, which the TIC probes once
/// more; one report later all nodes know, however many hints are lost.
const FAILOVER: Duration = DETECTOR
    .report_timeout
    .saturating_add(Duration::from_millis(2 * 3 * 500))
    .saturating_add(SECOND);

/// Returns the node of each rank.
fn ranks(world: &World) -> BTreeMap<Pn, NodeName> {
    world.directory().members(GN).map(|member| (member.pn, member.node.clone())).collect()
}

fn agent(world: &World) -> (usize, Epoch) {
    let directory = world.directory();
    let group = directory.group(GN).expect("it lives on");
    (index_of(group.agent.as_ref().expect("it has members")), group.epoch)
}

/// Checks that the agent at `at` is obeyed by all members, in one tree, and no other agent is
/// obeyed.
fn serves(world: &World, at: usize) {
    let (agent, epoch) = agent(world);
    assert_eq!(agent, at);
    let host = world.nodes[at].ga.as_ref().expect("its node is up");
    let (record, members) = host.query(GN).expect("it acts as the agent");
    assert_eq!(record.epoch, epoch, "G4");
    let held_ranks: BTreeMap<Pn, NodeName> =
        members.iter().map(|(view, _)| (view.member.pn, view.member.node.clone())).collect();
    assert_eq!(held_ranks, ranks(world), "G2: its table is the TIC's");
    for (view, position) in members {
        let node = &world.nodes[index_of(&view.member.node)];
        let held = node.oa.memberships().find(|held| held.member == view.member);
        let known = held.and_then(|held| held.position.as_ref());
        assert_eq!(known, Some(&position), "{:?} knows its place", view.member.node);
    }
}

/// Returns the ranks without those of some nodes.
fn without(ranks: &BTreeMap<Pn, NodeName>, gone: &[usize]) -> BTreeMap<Pn, NodeName> {
    let stays = |node: &NodeName| !gone.contains(&index_of(node));
    ranks.iter().filter(|(_, node)| stays(node)).map(|(pn, node)| (*pn, node.clone())).collect()
}

fn ways(from: &[Party], to: &[Party], cut: bool) -> Vec<Action> {
    let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
    pairs.map(|(from, to)| Action::Cut { from, to, cut }).collect()
}

fn do_all(world: &mut World, actions: Vec<Action>) {
    for action in actions {
        world.apply_action(action);
    }
}

const TICS: [Party; 2] = [Party::Tic(0), Party::Tic(1)];

#[test]
fn the_node_of_the_agent_dies() {
    let mut world = in_one_group(5);
    let before = ranks(&world);
    let (_, epoch) = agent(&world);
    world.apply_action(Action::Power { at: 0, on: false });
    world.run(DETECTOR.worst_case() + Duration::from_millis(100));
    assert_eq!(agent(&world), (1, epoch.next()), "it hosted an agent, so only the TIC had to ask");
    world.run(SECOND);
    serves(&world, 1);
    assert_eq!(ranks(&world), without(&before, &[0]));
    world.run(FAILOVER);
    g2::agrees(&world);
    world.apply_action(Action::Power { at: 0, on: true });
    world.run(SECOND);
    world.apply_action(Action::Join { at: 0, group: 7, process: 0 });
    world.run(SECOND * 5);
    g2::agrees(&world);
}

#[test]
fn agents_die_one_after_the_other() {
    let mut world = in_one_group(7);
    let before = ranks(&world);
    for at in 0..3 {
        world.apply_action(Action::Power { at, on: false });
        world.run(FAILOVER);
        serves(&world, at + 1);
    }
    // The next one dies as soon as it has been named.
    world.apply_action(Action::Power { at: 3, on: false });
    world.apply_action(Action::Power { at: 5, on: false });
    world.run(DETECTOR.worst_case() + Duration::from_millis(30));
    assert_eq!(agent(&world).0, 4);
    world.apply_action(Action::Power { at: 4, on: false });
    // The one with the next rank is dead, and no agent was left to notice: it is named, and found
    // out.
    world.run(FAILOVER * 2);
    serves(&world, 6);
    assert_eq!(ranks(&world), without(&before, &[0, 1, 2, 3, 4, 5]));
    g2::agrees(&world);
}

#[test]
fn an_agent_that_only_the_tic_cannot_reach_is_replaced_and_obeyed_by_no_node() {
    let mut world = in_one_group(5);
    let before = ranks(&world);
    let cut = |cut| {
        let agent = [Party::Node(0)];
        [ways(&agent, &TICS, cut), ways(&TICS, &agent, cut)].concat()
    };
    do_all(&mut world, cut(true));
    world.run(FAILOVER);
    serves(&world, 1);
    assert_eq!(ranks(&world), without(&before, &[0]));
    let old = world.nodes[0].ga.as_ref().and_then(|ga| ga.query(GN));
    assert!(old.is_some(), "it does not know yet; all members follow the new one");
    do_all(&mut world, cut(false));
    world.run(FAILOVER);
    g2::agrees(&world);
    assert!(world.nodes[0].ga.as_ref().expect("it is back").query(GN).is_none());
}

/// G5: the TIC probes the nodes that the agent cannot reach, and keeps them.
#[test]
fn an_agent_that_some_members_cannot_reach_expels_nobody() {
    let mut world = in_one_group(6);
    let (before, first_agent) = (ranks(&world), agent(&world));
    let lost = [Party::Node(3), Party::Node(5)];
    let cut = |cut| {
        let agent = [Party::Node(0)];
        [ways(&agent, &lost, cut), ways(&lost, &agent, cut)].concat()
    };
    do_all(&mut world, cut(true));
    let answered = world.probes_answered;
    world.run(SECOND * 60);
    assert!(world.probes_answered > answered, "the TIC has asked");
    assert_eq!((ranks(&world), agent(&world)), (before.clone(), first_agent));
    // The tree changes meanwhile, and the cut-off members cannot learn of it from the agent.
    world.apply_action(Action::Power { at: 1, on: false });
    world.run(FAILOVER);
    assert_eq!(ranks(&world), without(&before, &[1]));
    do_all(&mut world, cut(false));
    world.run(SECOND * 5);
    serves(&world, 0);
    g2::agrees(&world);
    let answered = world.probes_answered;
    world.run(SECOND * 30);
    assert_eq!(world.probes_answered, answered, "no node is reported any more");
}

/// Cuts around an agent, each in one direction: which agent is replaced.
#[test]
fn one_way_cuts_replace_an_agent_only_if_the_tic_does_not_hear_it() {
    let (host, member) = ([Party::Node(0)], [Party::Node(2)]);
    let cases = [
        ("agent to TIC", &host[..], &TICS[..], 1),
        ("TIC to agent", &TICS, &host, 0), // its reports arrive
        ("agent to member", &host, &member, 0),
        ("member to agent", &member, &host, 0),
        ("member to TIC", &member, &TICS, 0),
        ("TIC to member", &TICS, &member, 0),
    ];
    for (what, from, to, agent_then) in cases {
        let mut world = in_one_group(4);
        let before = ranks(&world);
        do_all(&mut world, ways(from, to, true));
        world.run(FAILOVER);
        assert_eq!(agent(&world).0, agent_then, "{what}");
        world.run(SECOND * 40);
        let gone: Vec<usize> = (0..agent_then).collect();
        assert_eq!(ranks(&world), without(&before, &gone), "{what}");
        do_all(&mut world, ways(from, to, false));
        world.run(FAILOVER);
        serves(&world, agent_then);
        g2::agrees(&world);
    }
}

#[test]
fn an_agent_that_returns_from_a_freeze_steps_down() {
    let mut world = in_one_group(5);
    let before = ranks(&world);
    world.apply_action(Action::Freeze { who: Party::Node(0), stop: true });
    world.run(FAILOVER);
    serves(&world, 1);
    // While it is away, the group changes under the new agent.
    world.apply_action(Action::Power { at: 2, on: false });
    world.run(FAILOVER);
    serves(&world, 1);
    world.apply_action(Action::Freeze { who: Party::Node(0), stop: false });
    world.run(Duration::from_millis(100));
    serves(&world, 1);
    world.run(FAILOVER);
    assert_eq!(ranks(&world), without(&before, &[0, 2]));
    serves(&world, 1);
    g2::agrees(&world);
}

/// FLAP-1: a node that flaps is not the agent again, although its rank is the lowest.
#[test]
fn a_flapping_agent_is_not_chosen_again() {
    let damping =
        FlapDamping { policy: FlapPolicy::NoHost, limit: 2, half_life: Duration::from_secs(120) };
    let mut world = in_one_group_of(5, Settings { adaptive: false, damping });
    for _ in 0..3 {
        world.apply_action(Action::Power { at: 0, on: false });
        world.run(FAILOVER);
        world.apply_action(Action::Power { at: 0, on: true });
        world.run(SECOND);
        world.join(0, "g", "again");
        world.run(SECOND * 3);
        g2::agrees(&world);
    }
    assert_eq!(ranks(&world).first_key_value(), Some((&Pn(0), &name(0))), "it has rank 0 again");
    assert_eq!(agent(&world).0, 1);
    world.apply_action(Action::Power { at: 1, on: false });
    world.run(FAILOVER);
    serves(&world, 2);
    // When all others are gone, a suppressed node is better than none.
    for at in [2, 3, 4] {
        world.apply_action(Action::Power { at, on: false });
        world.run(FAILOVER);
    }
    serves(&world, 0);
    g2::agrees(&world);
}

#[test]
fn the_leading_tic_dies_while_an_agent_is_replaced() {
    // While the node is silent, while it is probed, and with the decision in flight to the store.
    for (after, slow) in [(2_000, 0), (3_600, 0), (4_600, 300)] {
        let mut world = in_one_group(5);
        let before = ranks(&world);
        world.apply_action(Action::Power { at: 0, on: false });
        world.apply_action(Action::SlowStore { delay: Duration::from_millis(slow) });
        world.run(Duration::from_millis(after));
        let leads = |tic: &crate::tic::Tic| tic.directory().is_some();
        let leader = world.tics.iter().position(|tic| tic.as_ref().is_ok_and(leads));
        world.apply_action(Action::KillTic { at: leader.expect("one leads") });
        // The next leader starts with a full report timeout for every node.
        world.run(LEASE + SECOND + FAILOVER);
        serves(&world, 1);
        assert_eq!(ranks(&world), without(&before, &[0]));
        g2::agrees(&world);
    }
}

/// A node is cut off completely, and reachable again while its expulsion is in flight.
#[test]
fn an_agent_reachable_again_when_expelled_starts_a_new_incarnation() {
    let mut world = in_one_group(4);
    let before = ranks(&world);
    world.apply_action(Action::SlowStore { delay: SECOND });
    cut_off(&mut world, 0, true);
    world.run(DETECTOR.worst_case() + Duration::from_millis(200));
    cut_off(&mut world, 0, false);
    world.run(FAILOVER);
    serves(&world, 1);
    assert_eq!(ranks(&world), without(&before, &[0]));
    g2::agrees(&world);
}
