//! Messages that change entries, and those that keep the fence of the writer.

use fabricast_topology::PortSet;

use crate::action::Instruction;
use crate::fields::Match;
use crate::flow::{FlowCommand, FlowMod};
use crate::group::{GroupCommand, GroupMod, GroupType};
use crate::mapping::{
    Entries, EntryKey, Flow, Leftover, Mapping, ProgramFlows, ProgramKey, buckets,
};
use crate::message::Body;

/// Term of the route service that writes, and generation of its plan. The order is by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence {
    /// Term.
    pub term: u64,
    /// Generation within the term.
    pub generation: u64,
}

impl Mapping {
    /// Messages that write entries, in the order in which they are to be sent: what is new or
    /// changes first, each group before its flow; then what is removed, each flow before its group.
    ///
    /// - `held`: entries that the switch holds; they decide between adding and changing a group.
    /// - `writes`: entries to write; without output ports they are removed.
    /// - `term`: of the writer, kept as the cookie of new flows.
    #[must_use]
    pub fn changes(
        &self,
        held: &Entries,
        writes: impl IntoIterator<Item = (EntryKey, PortSet)>,
        term: u64,
    ) -> Vec<Body> {
        let (mut kept, mut removed) = (Vec::new(), Vec::new());
        for (key, out) in writes {
            let is_held = held.contains_key(&key);
            if out.is_empty() {
                if is_held {
                    let flows = self.flows(key).into_iter();
                    removed.extend(flows.map(|flow| self.flow_removal(flow.conditions.matching())));
                    removed.push(self.group_mod(GroupCommand::Delete, key, out));
                }
            } else if is_held {
                kept.push(self.group_mod(GroupCommand::Modify, key, out));
            } else {
                kept.push(self.group_mod(GroupCommand::Add, key, out));
                kept.extend(self.flows(key).into_iter().map(|flow| self.flow_addition(flow, term)));
            }
        }
        kept.append(&mut removed);
        kept
    }

    /// Messages that have packets of programs led to other entries: first what is new or changes.
    ///
    /// - `held`: flows that the switch holds.
    /// - `wanted`: as [`Mapping::program_flows`] gives them.
    /// - `term`: of the newest writer, kept as the cookie of new flows.
    #[must_use]
    pub fn program_changes(
        &self,
        held: &ProgramFlows,
        wanted: &ProgramFlows,
        term: u64,
    ) -> Vec<Body> {
        let added = wanted.iter().filter(|(place, key)| held.get(place) != Some(key));
        let flow = |(place, key): (&ProgramKey, &EntryKey)| {
            self.flow_addition(self.program_flow(*place, *key), term)
        };
        let removed = held.keys().filter(|place| !wanted.contains_key(place));
        let removal =
            |place: &ProgramKey| self.flow_removal(Self::program_conditions(*place).matching());
        added.map(flow).chain(removed.map(removal)).collect()
    }

    /// Messages that leave a fence in the switch; packets of colors without an entry are dropped
    /// from then on. The generation comes first, so that a fence of which only half is there is
    /// none newer than the writer's.
    #[must_use]
    pub fn fence_changes(&self, fence: Fence) -> [Body; 2] {
        let generation = (2, self.all_marks(), fence.generation);
        let term = (1, self.all_addresses(), fence.term);
        [generation, term].map(|(below, all, cookie)| {
            let (priority, all) = (self.priority - below, all.matching());
            let flow = FlowMod::new(FlowCommand::Add, self.table, priority, all);
            Body::FlowMod(FlowMod { cookie, ..flow })
        })
    }

    /// Messages that remove what is no part of an entry.
    #[must_use]
    pub fn removals(&self, leftovers: &[Leftover]) -> Vec<Body> {
        let removal = |leftover: &Leftover| match leftover {
            Leftover::Group(group) => Body::GroupMod(GroupMod {
                command: GroupCommand::Delete,
                kind: GroupType::All,
                group: *group,
                buckets: Vec::new(),
            }),
            Leftover::Flow { priority, conditions } => {
                let (strict, conditions) = (FlowCommand::DeleteStrict, conditions.clone());
                Body::FlowMod(FlowMod::new(strict, self.table, *priority, conditions))
            }
        };
        leftovers.iter().map(removal).collect()
    }

    fn flow_addition(&self, flow: Flow, term: u64) -> Body {
        let add = FlowCommand::Add;
        let new = FlowMod::new(add, self.table, self.priority, flow.conditions.matching());
        let instructions = vec![Instruction::Apply(flow.actions)];
        Body::FlowMod(FlowMod { cookie: term, instructions, ..new })
    }

    fn flow_removal(&self, conditions: Match) -> Body {
        let strict = FlowCommand::DeleteStrict;
        Body::FlowMod(FlowMod::new(strict, self.table, self.priority, conditions))
    }

    fn group_mod(&self, command: GroupCommand, key: EntryKey, out: PortSet) -> Body {
        let (kind, group) = (GroupType::All, self.group(key));
        Body::GroupMod(GroupMod { command, kind, group, buckets: buckets(out) })
    }
}
