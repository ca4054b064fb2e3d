//! Messages that change entries, those that keep the fence of the writer, and those that have
//! frames handed to the controllers.

use fabricast_topology::PortSet;

use crate::action::{Action, Instruction};
use crate::announcement::Announcement;
use crate::fields::{Field, IPV4, Match};
use crate::flow::{FlowCommand, FlowMod};
use crate::lldp::LLDP;
use crate::mapping::{
    EntryKey, Flow, Found, Leftover, Mapping, ProgramFlows, ProgramKey, group_changes,
    group_removal,
};
use crate::message::Body;

/// Number of flows of [`Mapping::controller_flows`].
pub const CONTROLLER_FLOWS: u32 = 2;

/// Term of the route service that writes, and generation of its plan. The order is by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence {
    /// Term of the route service that writes.
    pub term: u64,
    /// Generation within the term.
    pub generation: u64,
}

impl Mapping {
    /// Messages that write entries, in the order in which they are to be sent: what is new or
    /// changes first, each group before its flow; then what is removed, each flow before its group.
    ///
    /// - `held`: what the switch holds; it decides between adding and changing a group.
    /// - `writes`: entries to write; without output ports they are removed.
    /// - `term`: of the writer, kept as the cookie of new flows.
    #[must_use]
    pub fn changes(
        &self,
        held: &Found,
        writes: impl IntoIterator<Item = (EntryKey, PortSet)>,
        term: u64,
    ) -> Vec<Body> {
        let (mut kept, mut removed) = (Vec::new(), Vec::new());
        for (key, out) in writes {
            let was = held.entries.get(&key).map_or_else(Vec::new, |was| {
                self.groups(key, *was, held.first_ways.get(&key).copied())
            });
            let now = match out.is_empty() {
                true => Vec::new(),
                false => self.groups(key, out, self.first_way(held, key, out)),
            };
            let (changed, mut gone) = group_changes(&was, &now);
            kept.extend(changed.into_iter().map(|(_, change)| change));
            let flows = self.flows(key).into_iter();
            match (was.is_empty(), now.is_empty()) {
                (true, false) => kept.extend(flows.map(|flow| self.flow_addition(flow, term))),
                (false, true) => {
                    removed.extend(flows.map(|flow| self.flow_removal(flow.conditions.matching())))
                }
                (true, true) | (false, false) => {}
            }
            removed.append(&mut gone);
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
            Leftover::Group(group) => group_removal(*group),
            Leftover::Flow { priority, conditions } => {
                let (strict, conditions) = (FlowCommand::DeleteStrict, conditions.clone());
                Body::FlowMod(FlowMod::new(strict, self.table, *priority, conditions))
            }
        };
        leftovers.iter().map(removal).collect()
    }

    /// Messages that have LLDP frames and announcements of hosts handed to the controllers. Their
    /// flows stand above all others of the table that are ours, so such frames go nowhere else.
    #[must_use]
    pub fn controller_flows(&self) -> [Body; 2] {
        let destination = Field::Ipv4Dst { address: Announcement::ADDRESS, mask: None };
        let conditions = [vec![Field::EthType(LLDP)], vec![Field::EthType(IPV4), destination]];
        conditions.map(|fields| {
            let (add, priority) = (FlowCommand::Add, self.priority.saturating_add(1));
            let flow = FlowMod::new(add, self.table, priority, Match { fields });
            let instructions = vec![Instruction::Apply(vec![Action::Controller])];
            Body::FlowMod(FlowMod { instructions, ..flow })
        })
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
}
