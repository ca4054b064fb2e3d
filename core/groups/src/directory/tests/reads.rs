//! Tests of snapshots, verdicts, look-ups and loading.

use super::*;
use crate::message::{Enrolment, Register};

#[test]
fn a_verdict_lists_the_groups_to_fetch_and_to_drop() {
    let mut tic = Tic::with_nodes(2);
    let known = tic.join("a", 0, "p").group;
    tic.join("b", 0, "p");
    tic.join("c", 1, "p");
    let hosted = |gn, epoch, known| HostedGroup { gn: Gn(gn), epoch: Epoch(epoch), known };
    let report = [hosted(1, 1, known.changed), hosted(3, 1, known.changed)];
    let verdict = tic.directory.verdict(&node_name(0), Incarnation(1), &report);
    assert_eq!(verdict, Verdict { expelled: false, refresh: vec![Gn(2)], drop: vec![Gn(3)] });
    tic.join("a", 1, "p");
    let verdict = tic.directory.verdict(&node_name(0), Incarnation(1), &report);
    assert_eq!(verdict.refresh, [Gn(1), Gn(2)]);
    tic.run(&node_failed(0)).unwrap();
    assert!(tic.directory.verdict(&node_name(0), Incarnation(1), &report).expelled);
    let moved = tic.directory.snapshot(Gn(1)).unwrap();
    assert_eq!(moved.agent_address.unwrap().as_str(), "10.0.0.1:1");
    assert_eq!(moved.members.len(), 1);
}

/// Each by the key of whom it is for, and of no use to others.
#[test]
fn the_records_vouch_for_members_to_their_nodes_and_for_joins_to_the_agent() {
    let mut tic = Tic::with_nodes(2);
    tic.join("g", 0, "p");
    let joined = tic.join("g", 1, "p");
    let key = |node| SEED.key(&node_name(node), 1);
    let registration = |epoch| Register {
        gn: joined.group.gn,
        epoch,
        member: tic.directory.snapshot(Gn(1)).unwrap().members[1].clone(),
        voucher: joined.voucher,
    };
    assert!(registration(Epoch(1)).is_vouched(&key(0)));
    assert!(
        !registration(Epoch(2)).is_vouched(&key(0)) && !registration(Epoch(1)).is_vouched(&key(1))
    );
    let told = tic.directory.snapshot(Gn(1)).unwrap();
    let enrolment = Enrolment {
        group: told.group.name.clone(),
        mgid: told.group.mgid,
        member: told.members[1].clone(),
        agent: node_name(0),
        agent_address: told.agent_address.unwrap(),
        known: told.revision,
        voucher: Some(told.vouchers[&Pn(1)]),
    };
    assert!(enrolment.is_vouched(Epoch(1), &key(1)) && !enrolment.is_vouched(Epoch(1), &key(0)));
    // Its next start has another key, and a node without a key gets none.
    tic.run(&register(1, 2)).unwrap();
    let Command::RegisterNode(mut old) = register(0, 2) else { panic!("a registration") };
    old.voucher_key = None;
    tic.run(&Command::RegisterNode(old)).unwrap();
    let group = spec("h");
    for (node, name) in [(0, "old"), (1, "new")] {
        let mut member = joiner(node, "p");
        member.incarnation = Incarnation(2);
        let (request_id, group) = (RequestId::new(name).unwrap(), group.clone());
        let answer = tic.run(&Command::Join(Join { request_id, group, member })).unwrap();
        let Answer::Joined(joined) = answer else { panic!("a join grants a membership") };
        assert_eq!(joined.voucher, None, "the agent has no key");
    }
    let told = tic.directory.snapshot(Gn(2)).unwrap();
    assert_eq!(told.vouchers.keys().collect::<Vec<_>>(), [&Pn(1)]);
}

#[test]
fn contradictory_records_are_named() {
    let mut tic = Tic::with_nodes(1);
    tic.join("g", 0, "p");
    let without = |key: &'static str| tic.store.iter().filter(move |(k, _)| k.as_str() != key);
    let lost = Directory::load(Limits::default(), without("group/0000000000000001")).unwrap_err();
    assert!(matches!(lost, LoadError::NoGroup { .. }));
    let lost = Directory::load(Limits::default(), without("counter/gn")).unwrap_err();
    assert!(matches!(lost, LoadError::CounterBehind { .. }));
}

#[test]
fn groups_of_an_endpoint_are_those_its_processes_are_in() {
    let mut tic = Tic::with_nodes(2);
    for (group, node, process) in [("a", 0, "p"), ("b", 0, "q"), ("b", 1, "p")] {
        tic.join(group, node, process);
    }
    let of = |endpoint| {
        let endpoint = EndpointName::new(endpoint).unwrap();
        tic.directory.groups_of_endpoint(&endpoint).map(|g| g.gn.0).collect::<Vec<_>>()
    };
    assert_eq!((of("h0/0"), of("h0/1"), of("h1/0")), (vec![1, 2], vec![], vec![2]));
}

#[test]
fn only_the_record_of_a_failed_node_is_removed_and_its_next_incarnation_is_a_later_one() {
    let mut tic = Tic::with_nodes(2);
    tic.join("g", 0, "p");
    let remove = |node| Command::RemoveNode { node: node_name(node) };
    let up = Refusal::NodeUp { node: node_name(0) };
    assert_eq!(tic.run(&remove(0)), Err(up), "it has members");
    tic.run(&node_failed(0)).unwrap();
    tic.run(&remove(0)).unwrap();
    tic.check();
    assert!(tic.directory.node(&node_name(0)).is_none());
    let unknown = Refusal::UnknownNode { node: node_name(0) };
    assert_eq!(tic.run(&remove(0)), Err(unknown));
    // The agent that was taken for dead registers again.
    let Ok(Answer::Node(node)) = tic.run(&register(0, 2)) else { panic!("it is welcome") };
    assert_eq!((node.incarnation, node.state), (Incarnation(2), NodeState::Up));
}
