//! Tests of flap damping in decisions.

use std::time::Duration;

use super::*;
use crate::flaps::{FlapDamping, FlapPolicy};

const MINUTE: Duration = Duration::from_secs(60);

/// Nodes 0 to 3; the second flap within a short time suppresses a node.
fn damped(policy: FlapPolicy) -> Tic {
    let damping = FlapDamping { policy, limit: 1, half_life: MINUTE };
    let mut tic = Tic::new(Limits { damping, ..Limits::default() });
    for node in 0..4 {
        tic.run(&register(node, 1)).unwrap();
    }
    tic
}

fn suppressed(tic: &Tic, node: u32) -> Option<Moment> {
    tic.directory.node(&node_name(node)).unwrap().flaps?.suppressed_until(tic.now)
}

/// FLAP-1: suppressed nodes host no agents.
#[test]
fn a_suppressed_node_hosts_no_agent_while_another_can() {
    let mut tic = damped(FlapPolicy::NoHost);
    tic.run(&register(1, 2)).unwrap(); // a new start ends an incarnation, too
    tic.run(&node_failed(1)).unwrap();
    tic.run(&register(1, 3)).unwrap();
    assert!(suppressed(&tic, 1).is_some(), "it is up, and suppressed");
    for (node, incarnation) in [(0, 1), (1, 3), (2, 1)] {
        tic.run(&join_in("g", node, incarnation)).unwrap();
    }
    tic.run(&node_failed(0)).unwrap();
    assert_eq!(tic.group("g").agent, Some(node_name(2)), "not the lowest rank, which is of node 1");
    tic.run(&node_failed(2)).unwrap();
    assert_eq!(tic.group("g").agent, Some(node_name(1)), "nobody else is left");
    tic.check();
    // After the suppression it hosts a group that it founds.
    tic.now = tic.now.after(MINUTE * 3);
    assert_eq!(suppressed(&tic, 1), None);
    tic.run(&join_in("h", 1, 3)).unwrap();
    assert_eq!(tic.group("h").agent, Some(node_name(1)));
}

#[test]
fn a_node_that_is_not_readmitted_is_out_until_the_stated_time() {
    let mut tic = damped(FlapPolicy::Refuse);
    tic.join("g", 0, "p");
    tic.join("g", 1, "p");
    tic.run(&node_failed(1)).unwrap();
    tic.run(&register(1, 2)).unwrap();
    tic.run(&join_in("g", 1, 2)).unwrap();
    // It starts anew a second time: its incarnation ends, and no other begins.
    let Ok(Answer::Suppressed(record, until)) = tic.run(&register(1, 3)) else {
        panic!("it is not readmitted")
    };
    assert_eq!((record.state, record.incarnation), (NodeState::Failed, Incarnation(2)));
    assert_eq!(tic.directory.member_count(tic.group("g").gn), 1);
    tic.check();
    let revision = tic.directory.revision();
    assert!(matches!(tic.run(&register(1, 3)), Ok(Answer::Suppressed(..))));
    assert_eq!(tic.directory.revision(), revision, "asking again changes nothing");
    tic.now = until;
    let Ok(Answer::Node(node)) = tic.run(&register(1, 3)) else { panic!("its time has come") };
    assert_eq!((node.state, node.incarnation), (NodeState::Up, Incarnation(3)));
}

#[test]
fn an_administrator_clears_the_flap_history() {
    let mut tic = damped(FlapPolicy::Refuse);
    for incarnation in 2..4 {
        let _ = tic.run(&register(1, incarnation)).unwrap();
    }
    assert!(suppressed(&tic, 1).is_some());
    let forget = |node| Command::ForgetFlaps { node: node_name(node) };
    tic.run(&forget(1)).unwrap();
    assert!(matches!(tic.run(&register(1, 4)), Ok(Answer::Node(_))));
    tic.check();
    let revision = tic.directory.revision();
    tic.run(&forget(2)).unwrap();
    assert_eq!(tic.directory.revision(), revision, "there was nothing to forget");
    let unknown = tic.run(&forget(9)).unwrap_err();
    assert_eq!(unknown, Refusal::UnknownNode { node: node_name(9) });
}

/// A join of process `p` in one incarnation of a node.
fn join_in(group: &str, node: u32, incarnation: u64) -> Command {
    Command::Join(Join {
        request_id: RequestId::new(&format!("{group}/{node}/{incarnation}")).unwrap(),
        group: spec(group),
        member: Joiner { incarnation: Incarnation(incarnation), ..joiner(node, "p") },
    })
}
