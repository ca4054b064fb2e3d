//! Messages that change entries, and those that keep the fence of the writer.

use fabricast_topology::PortSet;

use crate::action::{Action, Instruction};
use crate::flow::{FlowCommand, FlowMod};
use crate::group::{GroupCommand, GroupMod, GroupType};
use crate::mapping::{Entries, EntryKey, Leftover, Mapping, buckets};
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
                    removed.push(Body::FlowMod(self.flow(FlowCommand::DeleteStrict, key)));
                    removed.push(self.group_mod(GroupCommand::Delete, key, out));
                }
            } else if is_held {
                kept.push(self.group_mod(GroupCommand::Modify, key, out));
            } else {
                kept.push(self.group_mod(GroupCommand::Add, key, out));
                let lead = Instruction::Apply(vec![Action::Group(self.group(key))]);
                let flow = self.flow(FlowCommand::Add, key);
                kept.push(Body::FlowMod(FlowMod {
                    cookie: term,
                    instructions: vec![lead],
                    ..flow
                }));
            }
        }
        kept.append(&mut removed);
        kept
    }

    /// Messages that leave a fence in the switch; packets of colors without an entry are dropped
    /// from then on. The generation comes first, so that a fence of which only half is there is
    /// none newer than the writer's.
    #[must_use]
    pub fn fence_changes(&self, fence: Fence) -> [Body; 2] {
        [(2, fence.generation), (1, fence.term)].map(|(below, cookie)| {
            let (priority, all) = (self.priority - below, self.all_addresses());
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

    fn flow(&self, command: FlowCommand, key: EntryKey) -> FlowMod {
        FlowMod::new(command, self.table, self.priority, self.conditions(key))
    }

    fn group_mod(&self, command: GroupCommand, key: EntryKey, out: PortSet) -> Body {
        let (kind, group) = (GroupType::All, self.group(key));
        Body::GroupMod(GroupMod { command, kind, group, buckets: buckets(out) })
    }
}
