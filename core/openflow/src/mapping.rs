//! Table entries as groups and flows, and back.
//!
//! An entry is a group of type ALL with one bucket for each output port, and flows that lead the
//! packets of the entry's color there. Where it leads up two trees, one bucket leads to a failover
//! group instead (`mapping/failover.rs`). Between switches a packet carries its color in its
//! Ethernet source address, the mark ([`Mapping::mark`]). The mark is set where a packet comes in
//! from an endpoint: by the packet's IPv4 destination, which is the color's own address
//! ([`Mapping::address`]) or one that programs use ([`Mapping::program_flows`]). Receivers so get
//! packets with the destination that they were sent to.
//!
//! Two more flows of lower priority drop packets of all other colors, and keep the fence of the
//! newest writer in their cookies.
//!
//! Invariants
//! - OPENFLOW-1: what [`Mapping::changes`], [`Mapping::way_changes`] and
//!   [`Mapping::program_changes`] write, [`Mapping::read`] reads back as the same, with nothing
//!   left over.

mod conditions;
mod failover;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fabricast_topology::{PortSet, TableKind};
use thiserror::Error;

use crate::change::Fence;
use crate::fields::Match;
use crate::flow::{FlowRequest, FlowStats, NO_COOKIE_MASK};
use crate::group::{ANY_GROUP, Bucket, GroupDesc, GroupType};
use crate::message::Body;
use crate::multipart::Request;
use crate::port::ANY_PORT;
pub(crate) use conditions::Flow;
use conditions::FlowRole;
use failover::{choice, content};
pub(crate) use failover::{group_changes, group_removal};

/// Mark of color 0: a locally administered address, with the color in the last two bytes.
const MARKS: [u8; 6] = [0x02, 0xfa, 0xb0, 0, 0, 0];
/// Bits of a group id for color and first group; those above are the input port.
const COLOR_BITS: u32 = 16;
/// Bit of a group id that tells a failover group from the group of its entry.
const FAILOVER: u32 = 1 << 24;
/// Flows of a switch that are no entries.
pub(crate) const FENCE_FLOWS: u32 = 2;

/// Place of the entries of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Table of the flows.
    pub table: u8,
    /// Priority of the entries' flows, at least 2; those that keep the fence have the two
    /// priorities below.
    pub priority: u16,
    /// Address of color 0; that of color `c` is `c` addresses further.
    pub addresses: Ipv4Addr,
    /// Number of colors, at least 1.
    pub colors: u16,
    /// Lower 16 bits of the group id of color 0; the upper 16 are the input port.
    pub first_group: u16,
    /// Kind of the tables.
    pub tables: TableKind,
    /// Ports of the switch that lead to endpoints.
    pub endpoint_ports: PortSet,
    /// True if groups have two trees: of the two ways up of an entry, packets take one.
    pub fault_tolerant: bool,
}

/// Numbers of what a switch can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchCapacity {
    /// Ports in the topology.
    pub ports: u8,
    /// Groups of type ALL.
    pub groups: u32,
    /// Groups of type FAST_FAILOVER.
    pub failover_groups: u32,
    /// Flows of the table.
    pub flows: u32,
}

/// Reason why entries cannot be placed as wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MappingError {
    /// There are no colors.
    #[error("colors must be at least 1")]
    NoColors,
    /// The addresses do not begin at a multiple of their number, rounded up to a power of two.
    #[error("addresses must begin at a multiple of {size} for {colors} colors, unlike {addresses}")]
    Alignment {
        /// Address of color 0.
        addresses: Ipv4Addr,
        /// Number of colors.
        colors: u16,
        /// The number of which the address must be a multiple.
        size: u32,
    },
    /// The addresses are none of multicast.
    #[error("addresses must be multicast, 224.0.1.0 or above, unlike {addresses}")]
    NotMulticast {
        /// Address of color 0.
        addresses: Ipv4Addr,
    },
    /// The group ids do not fit into 16 bits.
    #[error("first_group {first_group} and {colors} colors exceed 65536 group ids")]
    Groups {
        /// Group id of color 0.
        first_group: u16,
        /// Number of colors.
        colors: u16,
    },
    /// There is no room for the flows with the fence.
    #[error("priority must be at least 2")]
    Priority,
    /// With per-switch tables each of two trees has a color, and the sender sends with both.
    #[error("fault_tolerant needs tables = \"per-port\"")]
    FaultTolerance,
}

/// Input port, 0 with per-switch tables, and color of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryKey {
    /// Port that the packet comes in by; 0 with a per-switch table.
    pub in_port: u8,
    /// Color of the packet, from 0.
    pub color: u16,
}

/// Output ports by entry; none is empty.
pub type Entries = BTreeMap<EntryKey, PortSet>;

/// Color by the IPv4 address that programs send to.
pub type Programs = BTreeMap<Ipv4Addr, u16>;

/// Port by which packets of programs come in, and the address that they are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramKey {
    /// Input port, which leads to an endpoint.
    pub in_port: u8,
    /// IPv4 address that a program sends to.
    pub address: Ipv4Addr,
}

/// Entries that packets of programs are led to.
pub type ProgramFlows = BTreeMap<ProgramKey, EntryKey>;

/// A group or flow in the place of entries that is no part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Number of an OpenFlow group.
    Group(u32),
    /// A flow of the table.
    Flow {
        /// Priority that it was found with.
        priority: u16,
        /// Conditions that it was found with.
        conditions: Match,
    },
}

/// A table as read back from a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Entries of which all flows and groups are there.
    pub entries: Entries,
    /// Groups and flows that are no part of an entry; they are to be removed.
    pub leftovers: Vec<Leftover>,
    /// Flows for addresses of programs.
    pub programs: ProgramFlows,
    /// Port to take first of the entries with two ways up of which packets take one
    /// ([`Mapping::ways`]).
    pub first_ways: BTreeMap<EntryKey, u8>,
    /// Fence of the newest writer; `None` if nobody has written since power-on.
    pub fence: Option<Fence>,
}

impl Mapping {
    /// Checks that all entries have a place.
    ///
    /// # Errors
    ///
    /// [`MappingError`] for the first setting that does not fit.
    pub fn check(&self) -> Result<(), MappingError> {
        let Self { addresses, colors, first_group, .. } = *self;
        if colors == 0 {
            return Err(MappingError::NoColors);
        }
        let size = self.address_count();
        if !u32::from(addresses).is_multiple_of(size) {
            return Err(MappingError::Alignment { addresses, colors, size });
        }
        // 224.0.0.0/24 is the local network's own: routers and hosts talk there.
        if !addresses.is_multicast() || addresses < Ipv4Addr::new(224, 0, 1, 0) {
            return Err(MappingError::NotMulticast { addresses });
        }
        if u32::from(first_group) + u32::from(colors) > 1 << COLOR_BITS {
            return Err(MappingError::Groups { first_group, colors });
        }
        if self.fault_tolerant && self.tables == TableKind::PerSwitch {
            return Err(MappingError::FaultTolerance);
        }
        if self.priority < 2 { Err(MappingError::Priority) } else { Ok(()) }
    }

    /// Most colors for which a switch has room, at most those of the mapping. With per-port tables
    /// a color may take an entry for each port, and a failover group for each that leads to an
    /// endpoint.
    #[must_use]
    pub fn colors_within(&self, capacity: SwitchCapacity) -> u16 {
        let SwitchCapacity { ports, groups, failover_groups, flows } = capacity;
        let flows = flows.saturating_sub(FENCE_FLOWS);
        let entries = match self.tables {
            TableKind::PerPort => groups.min(flows) / u32::from(ports).max(1),
            TableKind::PerSwitch => groups.min(flows / 2),
        };
        let failovers = match self.fault_tolerant {
            true => failover_groups / self.endpoint_ports.len().max(1),
            false => u32::MAX,
        };
        u16::try_from(entries.min(failovers)).unwrap_or(u16::MAX).min(self.colors)
    }

    /// Address by which packets are sent with a color.
    #[must_use]
    pub fn address(&self, color: u16) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.addresses) + u32::from(color))
    }

    /// Ethernet source address of packets with a color, between switches.
    #[must_use]
    pub fn mark(color: u16) -> [u8; 6] {
        let [high, low] = color.to_be_bytes();
        [MARKS[0], MARKS[1], MARKS[2], MARKS[3], high, low]
    }

    /// Number of flows that lead to the group of an entry, without those for programs.
    #[must_use]
    pub fn flow_count(&self, key: EntryKey) -> usize {
        self.flows(key).len()
    }

    /// Flows that lead packets of programs to the entries of their colors.
    ///
    /// - `entries`: of the switch; a color without one gets no flow.
    /// - `programs`: an address of a color itself is ignored, as that leads there anyway.
    #[must_use]
    pub fn program_flows(&self, entries: &Entries, programs: &Programs) -> ProgramFlows {
        let mut by_color = BTreeMap::<u16, Vec<Ipv4Addr>>::new();
        for (address, color) in programs.iter().filter(|(address, _)| !self.has_address(**address))
        {
            by_color.entry(*color).or_default().push(*address);
        }
        let mut flows = ProgramFlows::new();
        for key in entries.keys() {
            let ports = match self.tables {
                TableKind::PerPort => PortSet::single(key.in_port),
                TableKind::PerSwitch => self.endpoint_ports,
            };
            for in_port in ports.intersection(self.endpoint_ports).iter() {
                let addresses = by_color.get(&key.color).into_iter().flatten();
                let place = |address: &Ipv4Addr| ProgramKey { in_port, address: *address };
                flows.extend(addresses.map(|address| (place(address), *key)));
            }
        }
        flows
    }

    /// Id of the group of an entry.
    #[must_use]
    pub fn group(&self, key: EntryKey) -> u32 {
        let low = u32::from(self.first_group) + u32::from(key.color);
        u32::from(key.in_port) << COLOR_BITS | low
    }

    /// Requests whose answers [`Self::read`] takes.
    #[must_use]
    pub fn requests(&self) -> [Request; 2] {
        let flows = FlowRequest {
            table: self.table,
            out_port: ANY_PORT,
            out_group: ANY_GROUP,
            cookie: 0,
            cookie_mask: NO_COOKIE_MASK,
            conditions: Match::default(), // by address, and by mark
        };
        [Request::Flows(flows), Request::Groups]
    }

    /// Reads the entries of a switch. Cost: O(n log n) for n groups and flows.
    ///
    /// - `flows`, `groups`: answers to [`Self::requests`]; others than those of the table with our
    ///   addresses, marks or groups, or of the group ids, are ignored.
    #[must_use]
    pub fn read(&self, flows: &[FlowStats], groups: &[GroupDesc]) -> Found {
        let mut found = Found::default();
        let mut led = BTreeMap::<EntryKey, Vec<Flow>>::new();
        let (mut term, mut generation) = (None, None);
        for flow in flows.iter().filter(|flow| flow.table == self.table) {
            match self.role(flow) {
                FlowRole::Foreign => {}
                FlowRole::Entry(key, flow) => {
                    let flows = led.entry(key).or_default();
                    if !flows.contains(&flow) {
                        flows.push(flow);
                    }
                }
                FlowRole::Program(place, key) => drop(found.programs.insert(place, key)),
                FlowRole::Term => term = Some(flow.cookie),
                FlowRole::Generation => generation = Some(flow.cookie),
                FlowRole::Leftover => found.leftovers.push(Leftover::Flow {
                    priority: flow.priority,
                    conditions: flow.conditions.clone(),
                }),
            }
        }
        let failover = |group: &'_ GroupDesc| self.failover_key(group.group);
        let mut failovers: BTreeMap<EntryKey, &GroupDesc> =
            groups.iter().filter_map(|group| Some((failover(group)?, group))).collect();
        for group in groups {
            let Some(key) = self.key(group.group) else { continue };
            if found.entries.contains_key(&key) {
                continue; // a switch that tells a group twice
            }
            // A switch removes with a group the flows that lead there.
            let count = led.remove(&key).unwrap_or_default().len();
            match content(self, key, group, failovers.get(&key).copied()) {
                Some((out, first)) if count == self.flow_count(key) => {
                    found.entries.insert(key, out);
                    if let Some(first) = first {
                        found.first_ways.insert(key, first);
                        failovers.remove(&key);
                    }
                }
                Some(_) | None => found.leftovers.push(Leftover::Group(group.group)),
            }
        }
        let unused = failovers.into_values().map(|group| Leftover::Group(group.group));
        found.leftovers.extend(unused);
        let orphans = led.into_values().flatten();
        found.leftovers.extend(orphans.map(|flow| Leftover::Flow {
            priority: self.priority,
            conditions: flow.conditions.matching(),
        }));
        found.programs.retain(|_, key| found.entries.contains_key(key));
        // The term is written last: without it the other one means nothing.
        found.fence = term.map(|term| Fence { term, generation: generation.unwrap_or(0) });
        found
    }

    /// The two ports by which an entry leads up, rising, if each is the way to one of two trees;
    /// `None` if there is no choice.
    #[must_use]
    pub fn ways(&self, key: EntryKey, out: PortSet) -> Option<[u8; 2]> {
        let has_two_trees = self.fault_tolerant
            && self.tables == TableKind::PerPort
            && self.endpoint_ports.contains(key.in_port);
        let up: Vec<u8> = out.difference(self.endpoint_ports).iter().collect();
        if has_two_trees { up.try_into().ok() } else { None }
    }

    /// Way to take first by an entry that is written: the one that the switch takes already, or
    /// the lower port.
    #[must_use]
    pub fn first_way(&self, held: &Found, key: EntryKey, out: PortSet) -> Option<u8> {
        let ways = self.ways(key, out)?;
        let known = held.entries.get(&key).filter(|known| self.ways(key, **known) == Some(ways));
        match known {
            Some(_) => held.first_ways.get(&key).copied(),
            None => Some(ways[0]),
        }
    }

    /// Groups of an entry: the failover group, if there is one, and then the one that leads to it.
    #[must_use]
    pub fn groups(&self, key: EntryKey, out: PortSet, first: Option<u8>) -> Vec<GroupDesc> {
        let ways = self.ways(key, out).zip(first).filter(|(ways, first)| ways.contains(first));
        let Some((ways, first)) = ways else {
            let buckets = out.iter().map(|port| Bucket::output(port.into())).collect();
            return vec![GroupDesc { kind: GroupType::All, group: self.group(key), buckets }];
        };
        let second = if ways[0] == first { ways[1] } else { ways[0] };
        let (failover, leading) = choice(self.failover_group(key), [first, second]);
        let near = out.intersection(self.endpoint_ports);
        let mut buckets: Vec<_> = near.iter().map(|port| Bucket::output(port.into())).collect();
        buckets.push(leading);
        vec![failover, GroupDesc { kind: GroupType::All, group: self.group(key), buckets }]
    }

    /// Messages that have the packets of an entry take another way first, or both ways.
    #[must_use]
    pub fn way_changes(&self, held: &Found, key: EntryKey, first: Option<u8>) -> Vec<Body> {
        let Some(out) = held.entries.get(&key).copied() else { return Vec::new() };
        let was = held.first_ways.get(&key).copied();
        let (was, now) = (self.groups(key, out, was), self.groups(key, out, first));
        let (kept, removed) = group_changes(&was, &now);
        let kept = kept.into_iter().filter(|(group, _)| !was.contains(group));
        kept.map(|(_, change)| change).chain(removed).collect()
    }

    /// Notes entries that were written.
    pub fn note_written(
        &self,
        held: &mut Found,
        writes: impl IntoIterator<Item = (EntryKey, PortSet)>,
    ) {
        for (key, out) in writes {
            match self.first_way(held, key, out) {
                Some(first) => held.first_ways.insert(key, first),
                None => held.first_ways.remove(&key),
            };
            if out.is_empty() {
                held.entries.remove(&key);
            } else {
                held.entries.insert(key, out);
            }
        }
        // A switch removes with a group the flows that lead there.
        let Found { entries, programs, .. } = held;
        programs.retain(|_, key| entries.contains_key(key));
    }

    /// Id of the failover group of an entry.
    fn failover_group(&self, key: EntryKey) -> u32 {
        self.group(key) | FAILOVER
    }

    /// Entry of the id of a failover group; `None` if it is not ours.
    fn failover_key(&self, group: u32) -> Option<EntryKey> {
        (group & FAILOVER != 0).then(|| self.key(group & !FAILOVER))?
    }

    /// Number of addresses, a power of two.
    fn address_count(&self) -> u32 {
        u32::from(self.colors).next_power_of_two()
    }

    fn has_address(&self, address: Ipv4Addr) -> bool {
        u32::from(address) & !(self.address_count() - 1) == u32::from(self.addresses)
    }

    /// Entry of a group id, also of the other kind of tables; `None` if it is not ours.
    fn key(&self, group: u32) -> Option<EntryKey> {
        let in_port = u8::try_from(group >> COLOR_BITS).ok()?;
        let low = u16::try_from(group & ((1 << COLOR_BITS) - 1)).ok()?;
        let color = low.checked_sub(self.first_group)?;
        (color < self.colors).then_some(EntryKey { in_port, color })
    }
}

#[cfg(test)]
mod tests;
