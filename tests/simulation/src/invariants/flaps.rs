//! FLAP-1: a suppressed node becomes a group's agent only where no member's node is free to be it.
//! At every decision.

use fabricast_groups::directory::Directory;
use fabricast_groups::names::NodeName;
use fabricast_groups::record::Change;
use fabricast_groups::{Gn, Moment};

/// Returns the groups that get another agent by changes that are about to be applied.
pub(crate) fn newly_chosen(before: &Directory, changes: &[Change]) -> Vec<Gn> {
    let chosen = |change: &Change| match change {
        Change::GroupPut(group) => {
            let known = before.group(group.gn).and_then(|known| known.agent.as_ref());
            (known != group.agent.as_ref()).then_some(group.gn)
        }
        _ => None,
    };
    changes.iter().filter_map(chosen).collect()
}

/// Checks the agents of groups that have just been chosen.
pub(crate) fn none_is_suppressed(after: &Directory, groups: &[Gn], now: Moment) {
    let is_free = |node: &NodeName| {
        let flaps = after.node(node).and_then(|node| node.flaps);
        flaps.is_none_or(|flaps| flaps.suppressed_until(now).is_none())
    };
    for gn in groups {
        let Some(agent) = after.group(*gn).and_then(|group| group.agent.as_ref()) else { continue };
        let other = after.members(*gn).any(|member| is_free(&member.node));
        assert!(is_free(agent) || !other, "FLAP-1: {agent:?} is suppressed and hosts {gn:?}");
    }
}
