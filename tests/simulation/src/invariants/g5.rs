//! G5: a failed node is out within a bounded time, and the others are served, once everything is healed. At
//! every step: nobody is expelled who was not asked, or who has answered.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_groups::operating::CallAnswer;
use fabricast_groups::watch::Life;

use crate::invariants::g2;
use crate::node::name;
use crate::settings::{DETECTOR, REPORT_INTERVAL};
use crate::world::World;

/// The probes of one leader that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Asked(BTreeMap<Life, Vec<(u64, Moment)>>);

impl Asked {
    /// Notes a probe.
    pub(crate) fn sent(&mut self, life: Life, probe: u64, now: Moment) {
        self.0.entry(life).or_default().push((probe, now));
    }

    /// Notes an answer.
    pub(crate) fn answered(&mut self, life: &Life, probe: u64) {
        if let Some(asked) = self.0.get_mut(life) {
            asked.retain(|(number, _)| *number > probe);
        }
    }

    /// Looks at a verdict: the last probes must all have had their time.
    pub(crate) fn expelled(&mut self, life: &Life, now: Moment) {
        let probing = DETECTOR.probing;
        let asked = self.0.remove(life).unwrap_or_default();
        let waited = asked.iter().rev().zip(1..).all(|((_, at), back)| {
            back > probing.attempts || now.since(*at) >= probing.timeout * back
        });
        let enough = u32::try_from(asked.len()).is_ok_and(|count| count >= probing.attempts);
        assert!(waited && enough, "G5: {life:?} is expelled unasked, or too soon: {asked:?}");
    }
}

/// Lets every node join, and looks whether it is a member in time.
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

/// Detection, decision and the news of it, each within its time.
pub(crate) fn a_dead_node_is_out_in_time(world: &mut World) {
    let directory = world.directory();
    let busy = |at: &usize| directory.memberships(&name(*at)).count();
    let victim = (0..world.nodes.len()).max_by_key(busy).filter(|at| busy(at) > 0);
    let Some(victim) = victim else { return };
    world.nodes[victim].oa.stop(world.now);
    world.nodes[victim].drain(world.now);
    // Silence and probes of the agents of its groups, or of the TIC if it hosts agents; then the TIC's own
    // probes, where it was the agents that found it silent.
    world.run(DETECTOR.worst_case() + DETECTOR.probing.worst_case() + Duration::from_millis(100));
    let left = world.directory().memberships(&name(victim)).count();
    assert_eq!(left, 0, "G5: node {victim} is still a member");
}
