//! Changes of groups since the console began: their routes, and why; their agents.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use fabricast_proto::v1;

use crate::overlay::is_routed;

/// Most changes that are kept of a group, and most groups.
const MAX_MOVES: usize = 16;
const MAX_GROUPS: usize = 4_096;

/// A change of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) at: SystemTime,
    pub(crate) what: MoveKind,
    /// Reason, as the route service reported it; empty if the route is as planned.
    pub(crate) reason: String,
}

/// Kind of a change of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MoveKind {
    /// The switches hold a tree for it.
    Routed { color: u32, virtual_group: u64 },
    /// It has no hardware route.
    Unicast,
    /// A node hosts its agent.
    Agent(String),
}

/// Changes by group; cloning is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histories(Arc<BTreeMap<u64, Arc<VecDeque<Move>>>>);

impl Histories {
    /// Notes what a new record of a group changes.
    pub(crate) fn note(&mut self, before: &v1::Group, group: &v1::Group, at: SystemTime) {
        let route = |group: &v1::Group| {
            let route = group.route.as_ref()?;
            let what = match is_routed(group) {
                true => MoveKind::Routed { color: route.color, virtual_group: route.virtual_group },
                false => MoveKind::Unicast,
            };
            Some(Move { at, what, reason: route.reason.clone() })
        };
        let mut moves = Vec::new();
        if before.agent_node != group.agent_node && !group.agent_node.is_empty() {
            let what = MoveKind::Agent(group.agent_node.clone());
            moves.push(Move { at, what, reason: String::new() });
        }
        let now = route(group);
        if now != route(before) {
            moves.extend(now);
        }
        if moves.is_empty() {
            return;
        }
        let all = Arc::make_mut(&mut self.0);
        if all.len() >= MAX_GROUPS && !all.contains_key(&group.gn) {
            all.pop_first();
        }
        let own = Arc::make_mut(all.entry(group.gn).or_default());
        own.extend(moves);
        while own.len() > MAX_MOVES {
            own.pop_front();
        }
    }

    /// Forgets a group that has ended.
    pub(crate) fn forget(&mut self, gn: u64) {
        if self.0.contains_key(&gn) {
            Arc::make_mut(&mut self.0).remove(&gn);
        }
    }

    /// Forgets all groups but those that there are.
    pub(crate) fn keep_only(&mut self, groups: &BTreeMap<u64, Arc<v1::Group>>) {
        if self.0.keys().any(|gn| !groups.contains_key(gn)) {
            Arc::make_mut(&mut self.0).retain(|gn, _| groups.contains_key(gn));
        }
    }

    /// The changes of a group, oldest first.
    pub(crate) fn of(&self, gn: u64) -> impl DoubleEndedIterator<Item = &Move> {
        self.0.get(&gn).into_iter().flat_map(|moves| moves.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(gn: u64, color: u32, reason: &str) -> v1::Group {
        let route = v1::Route {
            state: v1::RouteState::Routed.into(),
            color,
            reason: reason.to_owned(),
            ..v1::Route::default()
        };
        let agent_node = "n1".to_owned();
        v1::Group { gn, agent_node, route: Some(route), ..v1::Group::default() }
    }

    #[test]
    fn only_changes_are_kept_with_their_reasons() {
        let (mut histories, at) = (Histories::default(), SystemTime::now());
        let (first, moved) = (group(1, 0, ""), group(1, 3, "its link failed"));
        let elsewhere = v1::Group { agent_node: "n2".to_owned(), ..moved.clone() };
        histories.note(&first, &first, at);
        histories.note(&first, &moved, at);
        histories.note(&moved, &elsewhere, at);
        let found: Vec<_> = histories.of(1).map(|one| (&one.what, one.reason.as_str())).collect();
        let routed = MoveKind::Routed { color: 3, virtual_group: 0 };
        let agent = MoveKind::Agent("n2".to_owned());
        assert_eq!(found, [(&routed, "its link failed"), (&agent, "")]);
        histories.forget(1);
        assert_eq!(histories.of(1).count(), 0);
    }

    #[test]
    fn histories_are_bounded() {
        let (mut histories, at) = (Histories::default(), SystemTime::now());
        let mut before = group(0, 0, "");
        for color in 1..100 {
            let next = group(0, color, "");
            histories.note(&before, &next, at);
            before = next;
        }
        assert_eq!(histories.of(0).count(), MAX_MOVES);
        for gn in 1..=MAX_GROUPS as u64 {
            histories.note(&group(gn, 0, ""), &group(gn, 1, ""), at);
        }
        assert_eq!(histories.0.len(), MAX_GROUPS);
        assert_eq!(histories.of(0).count(), 0, "the oldest group makes room");
    }
}
