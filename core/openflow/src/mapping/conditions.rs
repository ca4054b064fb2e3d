//! The flows of entries, of programs and of the fence: their conditions, and their meaning when
//! they are read back.

use std::net::Ipv4Addr;

use fabricast_topology::TableKind;

use super::{EntryKey, MARKS, Mapping, ProgramKey};
use crate::action::{Action, Instruction};
use crate::fields::{Field, IPV4, Match};
use crate::flow::FlowStats;

/// A flow that leads packets to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) conditions: Conditions,
    pub(crate) actions: Vec<Action>,
}

/// Conditions of the flows that are written here; addresses with their masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    in_port: Option<u32>,
    source: Option<([u8; 6], [u8; 6])>,
    destination: Option<(Ipv4Addr, Ipv4Addr)>,
}

/// Meaning of a flow in the table.
pub(super) enum FlowRole {
    /// Of other addresses.
    Foreign,
    /// Leads to the group of its entry, as this flow does.
    Entry(EntryKey, Flow),
    /// Leads packets of programs to an entry, by input port and address.
    Program(ProgramKey, EntryKey),
    /// Its cookie is the term of the newest writer.
    Term,
    /// Its cookie is the generation of the newest writer.
    Generation,
    /// Ours by its addresses, and nothing that is written there.
    Leftover,
}

impl Conditions {
    pub(crate) fn matching(self) -> Match {
        let in_port = self.in_port.map(Field::InPort);
        let source = self.source.map(|(address, mask)| Field::EthSrc {
            address,
            mask: Some(mask).filter(|mask| *mask != [0xff; 6]),
        });
        let destination = self.destination.map(|(address, mask)| Field::Ipv4Dst {
            address,
            mask: Some(mask).filter(|mask| *mask != Ipv4Addr::BROADCAST),
        });
        let kind = destination.is_some().then_some(Field::EthType(IPV4));
        in_port.into_iter().chain(source).chain(kind).chain(destination).collect()
    }

    /// Reads conditions; false if there are others besides.
    fn read(conditions: &Match) -> (Self, bool) {
        let (mut read, mut others) = (Self::default(), false);
        for field in &conditions.fields {
            match field {
                Field::InPort(port) => read.in_port = Some(*port),
                Field::EthType(kind) => others |= *kind != IPV4,
                Field::EthSrc { address, mask } => {
                    read.source = Some((*address, mask.unwrap_or([0xff; 6])));
                }
                Field::Ipv4Dst { address, mask } => {
                    read.destination = Some((*address, mask.unwrap_or(Ipv4Addr::BROADCAST)));
                }
                Field::Other { .. } => others = true,
            }
        }
        // A mark is one whatever the packet is.
        others |= read.source.is_some() && conditions.fields.contains(&Field::EthType(IPV4));
        (read, !others)
    }
}

impl Mapping {
    /// Conditions of the packets that are sent to an address of any color.
    pub(crate) fn all_addresses(&self) -> Conditions {
        let mask = Ipv4Addr::from(!(self.address_count() - 1));
        Conditions { destination: Some((self.addresses, mask)), ..Conditions::default() }
    }

    /// Conditions of the packets with a mark of any color.
    pub(crate) fn all_marks(&self) -> Conditions {
        let [.., high, low] = (!(self.address_count() - 1)).to_be_bytes();
        let mask = [0xff, 0xff, 0xff, 0xff, high, low];
        Conditions { source: Some((MARKS, mask)), ..Conditions::default() }
    }

    /// Flows that lead to the group of an entry, without those for programs.
    pub(crate) fn flows(&self, key: EntryKey) -> Vec<Flow> {
        let (in_port, by_address, by_mark) = match self.tables {
            TableKind::PerPort => {
                let from_endpoint = self.endpoint_ports.contains(key.in_port);
                (Some(u32::from(key.in_port)), from_endpoint, !from_endpoint)
            }
            TableKind::PerSwitch => (None, true, true),
        };
        let mut flows = Vec::new();
        if by_address {
            let destination = Some((self.address(key.color), Ipv4Addr::BROADCAST));
            let conditions = Conditions { in_port, destination, source: None };
            flows.push(Flow { conditions, actions: self.marking(key) });
        }
        if by_mark {
            let source = Some((Self::mark(key.color), [0xff; 6]));
            let conditions = Conditions { in_port, source, destination: None };
            flows.push(Flow { conditions, actions: vec![Action::Group(self.group(key))] });
        }
        flows
    }

    /// Conditions of a program's packets.
    pub(crate) fn program_conditions(place: ProgramKey) -> Conditions {
        let destination = Some((place.address, Ipv4Addr::BROADCAST));
        Conditions { in_port: Some(place.in_port.into()), destination, source: None }
    }

    /// The flow for a program's packets.
    pub(crate) fn program_flow(&self, place: ProgramKey, key: EntryKey) -> Flow {
        Flow { conditions: Self::program_conditions(place), actions: self.marking(key) }
    }

    /// Marks a packet and leads it to the group of an entry.
    fn marking(&self, key: EntryKey) -> Vec<Action> {
        let mark = Field::EthSrc { address: Self::mark(key.color), mask: None };
        vec![Action::SetField(mark), Action::Group(self.group(key))]
    }

    pub(super) fn role(&self, flow: &FlowStats) -> FlowRole {
        let (conditions, is_pure) = Conditions::read(&flow.conditions);
        let color = match (conditions.source, conditions.destination) {
            (Some((mark, _)), _) if self.has_mark(mark) => {
                Some(u16::from_be_bytes([mark[4], mark[5]]))
            }
            (_, Some((address, _))) if self.has_address(address) => {
                u16::try_from(u32::from(address) - u32::from(self.addresses)).ok()
            }
            _ => None,
        };
        let Some(color) = color else { return self.program_role(flow, conditions, is_pure) };
        if is_pure && flow.instructions.is_empty() {
            if flow.priority == self.priority - 1 && conditions == self.all_addresses() {
                return FlowRole::Term;
            }
            if flow.priority == self.priority - 2 && conditions == self.all_marks() {
                return FlowRole::Generation;
            }
        }
        let in_port = match (self.tables, conditions.in_port) {
            (TableKind::PerPort, Some(port)) => u8::try_from(port).ok().filter(|port| *port > 0),
            (TableKind::PerSwitch, None) => Some(0),
            (TableKind::PerPort, None) | (TableKind::PerSwitch, Some(_)) => None,
        };
        let key = in_port
            .filter(|_| is_pure && flow.priority == self.priority && color < self.colors)
            .map(|in_port| EntryKey { in_port, color });
        let written = key.and_then(|key| {
            let is_same = |one: &Flow| one.conditions == conditions && does(flow, &one.actions);
            Some((key, self.flows(key).into_iter().find(is_same)?))
        });
        written.map_or(FlowRole::Leftover, |(key, flow)| FlowRole::Entry(key, flow))
    }

    /// Meaning of a flow without a mark or an address of a color.
    fn program_role(&self, flow: &FlowStats, conditions: Conditions, is_pure: bool) -> FlowRole {
        let place = || {
            let in_port = u8::try_from(conditions.in_port?).ok()?;
            Some(ProgramKey { in_port, address: conditions.destination?.0 })
        };
        let leads = flow.instructions.iter().find_map(|instruction| match instruction {
            Instruction::Apply(actions) => actions.iter().find_map(|action| match action {
                Action::Group(group) => self.key(*group),
                Action::Output(_)
                | Action::Controller
                | Action::SetField(_)
                | Action::Other { .. } => None,
            }),
            Instruction::Write(_) | Instruction::Other { .. } => None,
        });
        let (Some(place), Some(key)) = (place(), leads) else { return FlowRole::Foreign };
        let wanted = self.program_flow(place, key);
        let is_program = is_pure
            && flow.priority == self.priority
            && self.endpoint_ports.contains(place.in_port)
            && wanted.conditions == conditions
            && does(flow, &wanted.actions);
        if is_program { FlowRole::Program(place, key) } else { FlowRole::Foreign }
    }

    fn has_mark(&self, mark: [u8; 6]) -> bool {
        let color = u32::from(u16::from_be_bytes([mark[4], mark[5]]));
        mark[..4] == MARKS[..4] && color < self.address_count()
    }
}

/// True if a flow does these actions and nothing else.
fn does(flow: &FlowStats, actions: &[Action]) -> bool {
    let [Instruction::Apply(found) | Instruction::Write(found)] = &flow.instructions[..] else {
        return false;
    };
    found == actions
}
