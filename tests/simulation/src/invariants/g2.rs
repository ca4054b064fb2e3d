//! G2: when nothing is in flight, all tables agree and every tree is one tree over exactly its live
//! members.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::directory::Directory;
use fabricast_groups::operating::Phase;
use fabricast_groups::record::{MemberRecord, NodeState};
use fabricast_groups::{Gn, Pn};

use crate::node::{index_of, name};
use crate::tic::Tic;
use crate::world::World;

/// Checks G2 (tables and trees), G4 (one agent), and the nodes' own views.
pub(crate) fn agrees(world: &World) {
    let directory = &world.directory();
    let mut leaders = world.tics.iter().flatten().filter_map(Tic::directory);
    assert_eq!(leaders.next(), Some(directory), "G2: the leader publishes what is durable");
    assert!(leaders.next().is_none(), "G4: two TICs lead");
    let mut at_oas: BTreeMap<(Gn, Pn), &MemberRecord> = BTreeMap::new();
    for (index, node) in world.nodes.iter().enumerate() {
        let record = directory.node(&name(index)).expect("G2: every node has registered");
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
    for (rank, held) in &at_oas {
        assert_eq!(
            in_directory.get(rank),
            Some(held),
            "G2: a node holds a membership that has ended"
        );
    }
    for (rank, member) in &in_directory {
        assert_eq!(at_oas.get(rank), Some(member), "G2: a node lacks a membership");
    }
    for group in directory.groups_from(Gn(0)) {
        group_agrees(world, directory, group.gn);
    }
    for node in &world.nodes {
        for hosted in node.ga.iter().flat_map(|ga| ga.status()) {
            let agent = directory.group(hosted.gn).and_then(|group| group.agent.clone());
            assert_eq!(agent, Some(name(node.index)), "G4: an agent of the past goes on");
        }
    }
}

fn group_agrees(world: &World, directory: &Directory, gn: Gn) {
    let group = directory.group(gn).expect("it was listed");
    let members: Vec<&MemberRecord> = directory.members(gn).collect();
    let Some(agent) = &group.agent else {
        assert!(members.is_empty());
        return;
    };
    let at = &world.nodes[index_of(agent)];
    let host = at.ga.as_ref().expect("an agent's node is up");
    let (record, members_there) = host.query(gn).expect("the agent knows its group");
    assert_eq!(record, group, "{gn:?} at {agent:?}");
    let at_agent: Vec<&MemberRecord> = members_there.iter().map(|(view, _)| &view.member).collect();
    assert_eq!(at_agent, members, "G2: the agent's table is the TIC's");
    let live: BTreeSet<Pn> = members.iter().map(|member| member.pn).collect();
    for (view, position) in &members_there {
        let place = group.tree.position(position.pn, &live).expect("it is live");
        assert_eq!(position.parent.as_ref().map(|at| at.pn), place.parent);
        assert_eq!(position.children.iter().map(|at| at.pn).collect::<Vec<_>>(), place.children);
        let node = &world.nodes[index_of(&view.member.node)];
        let held = node.oa.memberships().find(|held| held.member == view.member);
        let held = held.expect("seen above");
        let mut known = held.position.clone().expect("every member has its place");
        known.route.clone_from(&position.route); // sent only if it changes the color
        assert_eq!(known, *position, "G2: the members know their places");
        let colors = group.route.as_ref().and_then(|route| route.colors_for(&view.member));
        assert_eq!(held.colors(), colors, "{gn:?} {:?}", position.pn);
        assert_eq!((held.epoch, &held.agent), (group.epoch, agent));
    }
}
