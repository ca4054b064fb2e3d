//! G5: once everything is healed, a failed node is expelled within a bounded time, and the other
//! nodes are served.

use std::time::Duration;

use fabricast_groups::operating::CallAnswer;

use crate::invariants::g2;
use crate::node::name;
use crate::settings::{DETECTOR, REPORT_INTERVAL};
use crate::world::World;

/// Joins a process on every node, and checks that each is a member in time.
pub(crate) fn a_fresh_join_succeeds_on_every_node(world: &mut World) {
    let up: Vec<usize> = (0..world.nodes.len()).filter(|at| world.is_up(*at)).collect();
    for at in &up {
        world.nodes[*at].answers.clear();
        world.join(*at, "fresh", "p9");
    }
    world.run(Duration::from_secs(2));
    for at in &up {
        let answers: Vec<&CallAnswer> = world.nodes[*at].answers.values().collect();
        let [CallAnswer::Joined(membership)] = answers[..] else {
            panic!("G5: node {at} could not join: {answers:?}");
        };
        assert_eq!(membership.group.as_str(), "fresh");
    }
    world.run(REPORT_INTERVAL * 4);
    g2::agrees(world);
}

/// Stops a node and checks that it is expelled within the times of detection and decision.
pub(crate) fn a_dead_node_is_out_in_time(world: &mut World) {
    let directory = world.directory();
    let busy = |at: &usize| directory.memberships(&name(*at)).count();
    let victim = (0..world.nodes.len()).max_by_key(busy).filter(|at| busy(at) > 0);
    let Some(victim) = victim else { return };
    world.nodes[victim].oa.stop(world.now);
    world.nodes[victim].drain(world.now);
    // Silence and probes of the agents of its groups, or of the TIC if it hosts agents; then the
    // TIC's own probes, if the agents found it silent.
    world.run(DETECTOR.worst_case() + DETECTOR.probing.worst_case() + Duration::from_millis(100));
    let left = world.directory().memberships(&name(victim)).count();
    assert_eq!(left, 0, "G5: node {victim} is still a member");
}
