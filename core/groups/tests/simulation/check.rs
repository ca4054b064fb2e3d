//! What must hold once nothing is in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_groups::operating::{CallAnswer, Phase};
use fabricast_groups::record::{MemberRecord, NodeState};
use fabricast_groups::tree;
use fabricast_groups::{Gn, Pn};

use crate::node::{DETECTOR, REPORT_INTERVAL};
use crate::world::{World, name};

/// G2 (tables and trees), G4 (one agent), and the nodes' own views.
pub(crate) fn agrees(world: &World) {
    let directory = world.tic.directory();
    let mut at_oas: BTreeMap<(Gn, Pn), &MemberRecord> = BTreeMap::new();
    for (index, node) in world.nodes.iter().enumerate() {
        let record = directory.node(&name(index)).unwrap();
        match node.oa.phase() {
            Phase::Stopped => assert_eq!(directory.memberships(&name(index)).count(), 0, "G5"),
            Phase::Registering => panic!("n{index} has not come back"),
            Phase::Up => {
                let known = (record.state, record.incarnation);
                assert_eq!(known, (NodeState::Up, node.oa.incarnation()), "n{index}");
            }
        }
        for held in node.oa.memberships() {
            let double = at_oas.insert((held.member.gn, held.member.pn), &held.member);
            assert!(double.is_none(), "G1: two processes have one rank");
        }
    }
    let in_directory: BTreeMap<(Gn, Pn), &MemberRecord> = directory
        .groups_from(Gn(0))
        .flat_map(|group| directory.members(group.gn))
        .map(|member| ((member.gn, member.pn), member))
        .collect();
    for (seat, held) in &at_oas {
        assert_eq!(in_directory.get(seat), Some(held), "G2: a node holds a seat it lost");
    }
    for (seat, member) in &in_directory {
        assert_eq!(at_oas.get(seat), Some(member), "G2: a node does not hold its seat");
    }
    for group in directory.groups_from(Gn(0)) {
        group_agrees(world, group.gn);
    }
    for node in &world.nodes {
        for hosted in node.ga.iter().flat_map(|ga| ga.status()) {
            let agent = directory.group(hosted.gn).and_then(|group| group.agent.clone());
            assert_eq!(agent, Some(name(node.index)), "G4: an agent of the past goes on");
        }
    }
}

fn group_agrees(world: &World, gn: Gn) {
    let directory = world.tic.directory();
    let group = directory.group(gn).unwrap();
    let members: Vec<&MemberRecord> = directory.members(gn).collect();
    let Some(agent) = &group.agent else {
        assert!(members.is_empty());
        return;
    };
    let at = world.nodes.iter().find(|node| name(node.index) == *agent).unwrap();
    let host = at.ga.as_ref().expect("an agent's node is up");
    let (record, seats) = host.query(gn).expect("the agent knows its office");
    assert_eq!(record, group, "{gn:?} at {agent:?}");
    let at_agent: Vec<&MemberRecord> = seats.iter().map(|(view, _)| &view.member).collect();
    assert_eq!(at_agent, members, "G2: the agent's table is the TIC's");
    let live: BTreeSet<Pn> = members.iter().map(|member| member.pn).collect();
    for (view, position) in &seats {
        let place = tree::position(position.pn, &live).unwrap();
        assert_eq!(position.parent.as_ref().map(|at| at.pn), place.parent);
        assert_eq!(position.children.iter().map(|at| at.pn).collect::<Vec<_>>(), place.children);
        let node = world.nodes.iter().find(|node| name(node.index) == view.member.node).unwrap();
        let held = node.oa.memberships().find(|held| held.member == view.member).unwrap();
        let mut known = held.position.clone().expect("every member has its place");
        known.route.clone_from(&position.route); // told only where it changes the color
        assert_eq!(known, *position, "G2: the members know their places");
        let colors = group.route.as_ref().and_then(|route| route.colors_for(&view.member));
        assert_eq!(held.colors(), colors, "{gn:?} {:?}", position.pn);
        assert_eq!((held.epoch, &held.agent), (group.epoch, agent));
    }
}

pub(crate) fn a_fresh_join_succeeds_on_every_node(world: &mut World) {
    let up: Vec<usize> = (0..world.nodes.len()).filter(|at| world.is_up(*at)).collect();
    for at in &up {
        let node = &mut world.nodes[*at];
        node.answers.clear();
        world.join(*at, "fresh", "p9");
    }
    world.run(Duration::from_secs(2), false);
    for at in &up {
        let answers: Vec<&CallAnswer> = world.nodes[*at].answers.values().collect();
        let [CallAnswer::Joined(membership)] = answers[..] else {
            panic!("n{at} could not join: {answers:?}");
        };
        assert_eq!(membership.group.as_str(), "fresh");
    }
    world.run(REPORT_INTERVAL * 4, false);
    agrees(world);
}

/// G5: detection, decision and the news of it, each within its time.
pub(crate) fn a_dead_node_is_out_in_time(world: &mut World) {
    let busy = |at: &usize| world.tic.directory().memberships(&name(*at)).count();
    let Some(victim) = (0..world.nodes.len()).max_by_key(busy) else { return };
    if busy(&victim) == 0 {
        return;
    }
    world.nodes[victim].oa.stop(world.now);
    world.nodes[victim].drain(world.now);
    world.run(DETECTOR.worst_case() + Duration::from_millis(100), false);
    assert_eq!(busy_now(world, victim), 0, "G5: n{victim} is still a member");
}

fn busy_now(world: &World, at: usize) -> usize {
    world.tic.directory().memberships(&name(at)).count()
}
