//! Entries written to a model of a switch, and read back.

use proptest::prelude::*;

use super::*;
use crate::action::{Action, Instruction};
use crate::fields::Field;
use crate::message::Body;
use crate::{Bucket, FlowCommand, GroupCommand, GroupType};

const MAPPING: Mapping = Mapping {
    table: 0,
    priority: 1000,
    addresses: Ipv4Addr::new(239, 192, 0, 0),
    colors: 20,
    first_group: 1,
    tables: TableKind::PerPort,
    endpoint_ports: PortSet::single(1),
    fault_tolerant: false,
};
const PER_SWITCH: Mapping = Mapping { tables: TableKind::PerSwitch, ..MAPPING };
const TWO_TREES: Mapping = Mapping { fault_tolerant: true, ..MAPPING };
const FENCE: Fence = Fence { term: 7, generation: 3 };

/// Groups and flows of a switch.
#[derive(Clone, Debug, Default)]
struct Switch {
    groups: Vec<GroupDesc>,
    flows: Vec<FlowStats>,
}

impl Switch {
    fn take(&mut self, bodies: impl IntoIterator<Item = Body>) {
        for body in bodies {
            if let Body::GroupMod(change) = body {
                self.change_group(change);
            } else if let Body::FlowMod(change) = body {
                self.flows.retain(|flow| {
                    (flow.priority, &flow.conditions) != (change.priority, &change.conditions)
                });
                if change.command == FlowCommand::Add {
                    self.flows.push(flow(&change));
                }
            } else {
                panic!("no change of a table: {body:?}");
            }
        }
    }

    fn change_group(&mut self, change: crate::GroupMod) {
        let known = self.groups.iter().position(|one| one.group == change.group);
        assert_eq!(known.is_none(), change.command == GroupCommand::Add, "{change:?}");
        known.map(|at| self.groups.remove(at));
        let crate::GroupMod { command, kind, group, buckets } = change;
        if command == GroupCommand::Delete {
            self.flows.retain(|flow| match &flow.instructions[..] {
                [Instruction::Apply(actions)] => !actions.contains(&Action::Group(group)),
                _ => true,
            });
        } else {
            self.groups.push(GroupDesc { kind, group, buckets });
        }
    }

    fn read(&self, mapping: &Mapping) -> Found {
        mapping.read(&self.flows, &self.groups)
    }
}

fn flow(change: &crate::FlowMod) -> FlowStats {
    FlowStats {
        table: change.table,
        seconds: 0,
        nanoseconds: 0,
        priority: change.priority,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: 0,
        importance: 0,
        cookie: change.cookie,
        packets: 0,
        bytes: 0,
        conditions: change.conditions.clone(),
        instructions: change.instructions.clone(),
    }
}

fn key(in_port: u8, color: u16) -> EntryKey {
    EntryKey { in_port, color }
}

fn out(ports: &[u8]) -> PortSet {
    ports.iter().copied().collect()
}

fn held(entries: &Entries) -> Found {
    Found { entries: entries.clone(), ..Found::default() }
}

/// A switch with two entries.
fn written() -> (Switch, Entries) {
    let entries = Entries::from([(key(1, 0), out(&[2, 3])), (key(4, 19), out(&[1]))]);
    let mut switch = Switch::default();
    switch.take(MAPPING.fence_changes(FENCE));
    switch.take(MAPPING.changes(&Found::default(), entries.clone(), FENCE.term));
    (switch, entries)
}

#[test]
fn ids_and_addresses_tell_port_and_color() {
    assert_eq!(MAPPING.group(key(3, 5)), 0x0003_0006);
    assert_eq!(MAPPING.address(19), Ipv4Addr::new(239, 192, 0, 19));
    assert_eq!(MAPPING.key(0x0003_0006), Some(key(3, 5)));
    for foreign in [0x0003_0000, 0x0003_0015, 0x0100_0001] {
        assert_eq!(MAPPING.key(foreign), None, "{foreign:#x}");
    }
}

#[test]
fn flows_that_hand_frames_to_the_controllers_are_no_part_of_the_table() {
    let (mut switch, entries) = written();
    let before = switch.flows.len();
    switch.take(MAPPING.controller_flows());
    let added = &switch.flows[before..];
    assert_eq!(u32::try_from(added.len()), Ok(crate::CONTROLLER_FLOWS));
    let all = vec![Instruction::Apply(vec![Action::Controller])];
    assert!(added.iter().all(|flow| flow.priority == 1001 && flow.instructions == all));
    let found = switch.read(&MAPPING);
    assert_eq!((found.entries, found.leftovers), (entries, vec![]));
    assert_eq!(switch.read(&PER_SWITCH).fence, Some(FENCE));
}

#[test]
fn an_entry_is_changed_by_its_group_alone_and_removed_flow_first() {
    let (mut switch, entries) = written();
    let change = MAPPING.changes(&held(&entries), [(key(1, 0), out(&[5]))], 8);
    assert!(matches!(change[..], [Body::GroupMod(_)]), "{change:?}");
    switch.take(change);
    let removal = MAPPING.changes(&held(&entries), [(key(4, 19), PortSet::EMPTY)], 8);
    assert!(matches!(removal[..], [Body::FlowMod(_), Body::GroupMod(_)]), "{removal:?}");
    switch.take(removal);
    let found = switch.read(&MAPPING);
    assert_eq!(found.entries, Entries::from([(key(1, 0), out(&[5]))]));
    assert_eq!((found.leftovers, found.fence), (vec![], Some(FENCE)));
    assert_eq!(MAPPING.changes(&held(&entries), [(key(9, 9), PortSet::EMPTY)], 8), []);
}

#[test]
fn what_is_no_entry_is_left_over_and_goes_away() {
    let (whole, entries) = written();
    let alter = |change: fn(&mut Switch)| {
        let mut switch = whole.clone();
        change(&mut switch);
        let found = switch.read(&MAPPING);
        assert_eq!(found.leftovers.len(), 1, "{found:?}");
        switch.take(MAPPING.removals(&found.leftovers));
        let again = switch.read(&MAPPING);
        assert_eq!(again.leftovers, []);
        assert_eq!(again.entries, found.entries);
        found.entries.len()
    };
    assert_eq!(entries.len(), 2);
    // A group that no flow leads to.
    assert_eq!(alter(|switch| drop(switch.flows.remove(2))), 1);
    // A bucket that does something else, a port that is there twice, another type of group.
    assert_eq!(alter(|switch| switch.groups[0].buckets[0].actions.push(Action::Output(9))), 1);
    assert_eq!(alter(|switch| switch.groups[0].buckets.push(Bucket::output(2))), 1);
    assert_eq!(alter(|switch| switch.groups[0].kind = GroupType::Select), 1);
    // A flow of another priority for one of the addresses, and one that leads elsewhere.
    assert_eq!(
        alter(|switch| {
            let more = FlowStats { priority: 2000, ..switch.flows[2].clone() };
            switch.flows.push(more);
        }),
        2
    );
    // An address beyond the last color, and an input port that cannot be one of ours.
    assert_eq!(
        alter(|switch| {
            let address = Ipv4Addr::new(239, 192, 0, 31);
            let mut more = switch.flows[2].clone();
            more.conditions.fields[2] = Field::Ipv4Dst { address, mask: None };
            switch.flows.push(more);
        }),
        2
    );
    assert_eq!(
        alter(|switch| {
            let mut more = switch.flows[2].clone();
            more.conditions.fields[0] = Field::InPort(300);
            switch.flows.push(more);
        }),
        2
    );
}

#[test]
fn a_flow_that_leads_to_the_group_of_another_entry_is_no_entry() {
    let (mut switch, _) = written();
    let other = MAPPING.group(key(4, 19));
    let conditions = MAPPING.flows(key(1, 0))[0].conditions.matching();
    let at = switch.flows.iter().position(|flow| flow.conditions == conditions);
    switch.flows[at.unwrap()].instructions = vec![Instruction::Apply(vec![Action::Group(other)])];
    let found = switch.read(&MAPPING);
    assert_eq!(found.entries.keys().collect::<Vec<_>>(), [&key(4, 19)]);
    assert_eq!(found.leftovers.len(), 2, "the flow, and the group without it");
}

#[test]
fn flows_and_groups_of_others_are_not_looked_at() {
    let (mut switch, entries) = written();
    let mut other_table = switch.flows[2].clone();
    other_table.table = 9;
    let mut other_address = switch.flows[2].clone();
    let address = Ipv4Addr::new(239, 192, 0, 32);
    other_address.conditions.fields[2] = Field::Ipv4Dst { address, mask: None };
    other_address.conditions.fields[0] = Field::InPort(2); // leads to no endpoint
    let mut none = switch.flows[2].clone();
    none.conditions.fields.clear();
    switch.flows.extend([other_table, other_address, none]);
    switch.groups.push(GroupDesc { group: 0x0003_0000, ..switch.groups[0].clone() });
    let found = switch.read(&MAPPING);
    assert_eq!((found.entries, found.leftovers), (entries, vec![]));
    assert_eq!(found.programs, ProgramFlows::new());
}

#[test]
fn programs_are_led_from_the_ports_of_endpoints_only() {
    let (mut switch, entries) = written();
    let address = |last| Ipv4Addr::new(239, 1, 2, last);
    let programs = |list: &[(Ipv4Addr, u16)]| list.iter().copied().collect::<Programs>();
    // Color 19 comes in from a switch, color 5 has no entry, and the last address is a color's own.
    let all = [(address(1), 0), (address(2), 19), (address(3), 5), (MAPPING.address(7), 0)];
    let wanted = MAPPING.program_flows(&entries, &programs(&all));
    assert_eq!(
        wanted,
        ProgramFlows::from([(ProgramKey { in_port: 1, address: address(1) }, key(1, 0))])
    );
    switch.take(MAPPING.program_changes(&ProgramFlows::new(), &wanted, 7));
    assert_eq!(switch.read(&MAPPING).programs, wanted);
    let marked = Field::EthSrc { address: [2, 0xfa, 0xb0, 0, 0, 0], mask: None };
    let lead = vec![Action::SetField(marked), Action::Group(MAPPING.group(key(1, 0)))];
    assert_eq!(switch.flows.last().unwrap().instructions, [Instruction::Apply(lead)]);
    // The color moves: one change of a flow, in place.
    let more = (key(1, 3), out(&[9]));
    switch.take(MAPPING.changes(&held(&entries), [more], 7));
    let both: Entries = entries.into_iter().chain([more]).collect();
    let moved = MAPPING.program_flows(&both, &programs(&[(address(1), 3)]));
    let changes = MAPPING.program_changes(&wanted, &moved, 7);
    assert_eq!(changes.len(), 1);
    switch.take(changes);
    assert_eq!(switch.read(&MAPPING).programs, moved);
    assert_eq!(MAPPING.program_changes(&moved, &moved, 7), []);
    switch.take(MAPPING.program_changes(&moved, &ProgramFlows::new(), 7));
    let found = switch.read(&MAPPING);
    assert_eq!((found.programs, found.leftovers), (ProgramFlows::new(), vec![]));
}

#[test]
fn a_packet_is_marked_once_and_then_led_by_its_mark() {
    let flows = |mapping: &Mapping, key| mapping.flows(key);
    let from_endpoint = flows(&MAPPING, key(1, 0x13));
    let from_switch = flows(&MAPPING, key(2, 0x13));
    let both = flows(&PER_SWITCH, key(0, 0x13));
    assert_eq!((from_endpoint.len(), from_switch.len(), both.len()), (1, 1, 2));
    let mark = Field::EthSrc { address: [2, 0xfa, 0xb0, 0, 0, 0x13], mask: None };
    assert_eq!(from_endpoint[0].actions[0], Action::SetField(mark.clone()));
    assert_eq!(from_switch[0].conditions.matching().fields, [Field::InPort(2), mark.clone()]);
    assert_eq!(both[1].conditions.matching().fields, [mark]);
}

#[test]
fn tables_of_the_other_kind_are_left_over() {
    let (mut switch, _) = written();
    let found = switch.read(&PER_SWITCH);
    assert_eq!((found.entries.len(), found.leftovers.len()), (0, 4));
    switch.take(PER_SWITCH.removals(&found.leftovers[..2]));
    let groups = switch.read(&PER_SWITCH).leftovers;
    switch.take(PER_SWITCH.removals(&groups));
    assert_eq!(switch.read(&PER_SWITCH), Found { fence: Some(FENCE), ..Found::default() });
}

#[test]
fn half_a_fence_is_older_than_its_writer() {
    let mut switch = Switch::default();
    let [generation, term] = MAPPING.fence_changes(FENCE);
    switch.take([generation]);
    assert_eq!(switch.read(&MAPPING).fence, None);
    switch.take([term]);
    assert_eq!(switch.read(&MAPPING).fence, Some(FENCE));
    let next = Fence { term: 8, generation: 1 };
    switch.take(MAPPING.fence_changes(next).into_iter().take(1));
    assert!(switch.read(&MAPPING).fence.unwrap() < next);
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    assert_eq!(MAPPING.check(), Ok(()));
    let wrong = |change: fn(&mut Mapping)| {
        let mut mapping = MAPPING;
        change(&mut mapping);
        mapping.check().unwrap_err().to_string()
    };
    assert_eq!(wrong(|it| it.colors = 0), "colors must be at least 1");
    assert_eq!(wrong(|it| it.priority = 1), "priority must be at least 2");
    let twice = wrong(|it| (it.fault_tolerant, it.tables) = (true, TableKind::PerSwitch));
    assert_eq!(twice, "fault_tolerant needs tables = \"per-port\"");
    let aligned = "addresses must begin at a multiple of 32 for 20 colors, unlike 239.192.0.16";
    assert_eq!(wrong(|it| it.addresses = Ipv4Addr::new(239, 192, 0, 16)), aligned);
    let local = wrong(|it| it.addresses = Ipv4Addr::new(224, 0, 0, 0));
    assert!(local.starts_with("addresses must be multicast"), "{local}");
    let unicast = wrong(|it| it.addresses = Ipv4Addr::new(10, 0, 0, 0));
    assert!(unicast.starts_with("addresses must be multicast"), "{unicast}");
    let groups = wrong(|it| it.first_group = 65_530);
    assert_eq!(groups, "first_group 65530 and 20 colors exceed 65536 group ids");
}

#[test]
fn colors_are_as_many_as_the_smaller_budget_allows() {
    let colors = |mapping: &Mapping, groups, failover_groups, flows| {
        mapping.colors_within(SwitchCapacity { ports: 4, groups, failover_groups, flows })
    };
    const MANY: u32 = u32::MAX;
    assert_eq!(colors(&MAPPING, MANY, 0, MANY), 20);
    assert_eq!(colors(&MAPPING, 40, 0, MANY), 10);
    assert_eq!(colors(&MAPPING, MANY, 0, 34), 8);
    assert_eq!(colors(&PER_SWITCH, MANY, 0, 14), 6);
    assert_eq!(colors(&MAPPING, MANY, 0, 1), 0);
    let two_hosts = Mapping { endpoint_ports: out(&[1, 2]), ..TWO_TREES };
    assert_eq!(colors(&two_hosts, MANY, 7, MANY), 3);
    assert_eq!(colors(&two_hosts, 8, 7, MANY), 2);
}

/// A bucket: the port or group that it leads to, and the port that it watches.
type Told = (u32, Option<u32>);

/// Groups of a switch with their buckets.
fn told(switch: &Switch) -> Vec<(u32, GroupType, Vec<Told>)> {
    let bucket = |bucket: &Bucket| {
        let [Action::Output(to) | Action::Group(to)] = bucket.actions[..] else {
            panic!("{bucket:?}")
        };
        (to, Some(bucket.watch_port).filter(|port| *port != ANY_PORT))
    };
    let group =
        |group: &GroupDesc| (group.group, group.kind, group.buckets.iter().map(bucket).collect());
    switch.groups.iter().map(group).collect()
}

#[test]
fn packets_of_an_endpoint_take_one_of_two_trees() {
    let mapping = Mapping { endpoint_ports: out(&[1, 2]), ..TWO_TREES };
    let (mut switch, mut found) = (Switch::default(), Found::default());
    let write = |switch: &mut Switch, found: &mut Found, key, ports: &[u8]| {
        switch.take(mapping.changes(found, [(key, out(ports))], 1));
        mapping.note_written(found, [(key, out(ports))]);
        assert_eq!(switch.read(&mapping), *found, "{ports:?}");
    };
    // Port 2 leads to another endpoint, 7 and 9 up; from a switch there is no choice.
    write(&mut switch, &mut found, key(1, 5), &[2, 7, 9]);
    write(&mut switch, &mut found, key(7, 5), &[1, 2]);
    let (all, failover) = (GroupType::All, GroupType::FastFailover);
    let id = mapping.group(key(1, 5));
    let choice = 0x0101_0006;
    let entry = |first, second| {
        vec![
            (choice, failover, vec![(first, Some(first)), (second, Some(second))]),
            (id, all, vec![(2, None), (choice, None)]),
        ]
    };
    assert_eq!(told(&switch)[..2], entry(7, 9));
    // The other tree first: one change of one group, and it stays when an endpoint is added.
    let change = mapping.way_changes(&found, key(1, 5), Some(9));
    assert_eq!(change.len(), 1);
    switch.take(change);
    found.first_ways.insert(key(1, 5), 9);
    assert_eq!(switch.read(&mapping), found);
    write(&mut switch, &mut found, key(1, 5), &[7, 9]);
    assert_eq!(found.first_ways[&key(1, 5)], 9);
    // Both trees, and one again.
    switch.take(mapping.way_changes(&found, key(1, 5), None));
    found.first_ways.clear();
    assert_eq!(switch.read(&mapping), found);
    assert_eq!(told(&switch).len(), 2);
    switch.take(mapping.way_changes(&found, key(1, 5), Some(7)));
    found.first_ways.insert(key(1, 5), 7);
    assert_eq!(switch.read(&mapping), found);
    // Other trees, one tree, none: the failover group goes with its reason.
    write(&mut switch, &mut found, key(1, 5), &[2, 8, 9]);
    assert_eq!(found.first_ways[&key(1, 5)], 8);
    write(&mut switch, &mut found, key(1, 5), &[2, 8]);
    assert_eq!(found.first_ways.len(), 0);
    write(&mut switch, &mut found, key(1, 5), &[2, 8, 9]);
    write(&mut switch, &mut found, key(1, 5), &[]);
    write(&mut switch, &mut found, key(7, 5), &[]);
    assert_eq!((switch.groups.len(), switch.flows.len()), (0, 0));
    assert_eq!(mapping.way_changes(&found, key(1, 5), Some(7)), []);
}

#[test]
fn failover_groups_of_no_entry_are_left_over() {
    let mut whole = Switch::default();
    whole.take(TWO_TREES.changes(&Found::default(), [(key(1, 5), out(&[7, 9]))], 1));
    let left = |mapping: &Mapping, change: fn(&mut Switch)| {
        let mut switch = whole.clone();
        change(&mut switch);
        let found = switch.read(mapping);
        switch.take(mapping.removals(&found.leftovers));
        assert_eq!((switch.groups.len(), switch.read(mapping)), (0, Found::default()));
        found.leftovers.len()
    };
    assert_eq!(left(&TWO_TREES, |switch| drop(switch.groups.remove(1))), 2, "and the flow");
    assert_eq!(left(&TWO_TREES, |switch| drop(switch.groups.remove(0))), 1);
    assert_eq!(left(&TWO_TREES, |switch| drop(switch.groups[0].buckets.pop())), 2);
    assert_eq!(left(&TWO_TREES, |switch| switch.groups[0].kind = GroupType::All), 2);
    assert_eq!(left(&TWO_TREES, |switch| switch.groups[0].buckets[0].watch_port = 9), 2);
    assert_eq!(left(&TWO_TREES, |switch| switch.groups[1].buckets.push(Bucket::output(7))), 2);
    // One that its entry does not lead to, which is none the worse for it.
    let mut switch = whole.clone();
    let ports = [7, 9].map(Bucket::output);
    switch.groups[1].buckets = ports.into();
    let found = switch.read(&TWO_TREES);
    assert_eq!(found.leftovers, [Leftover::Group(0x0101_0006)]);
    assert_eq!((found.entries[&key(1, 5)], found.first_ways.len()), (out(&[7, 9]), 0));
    // Without fault tolerance nobody keeps the choice.
    assert_eq!(left(&MAPPING, |_| {}), 2);
}

fn writes(
    in_ports: std::ops::Range<u8>,
    most: u8,
) -> impl Strategy<Value = Vec<(EntryKey, PortSet)>> {
    let ports = proptest::collection::btree_set(1..=most, 0..6);
    let write = (in_ports, 0u16..20, ports)
        .prop_map(|(in_port, color, ports)| (key(in_port, color), ports.into_iter().collect()));
    proptest::collection::vec(write, 0..30)
}

proptest! {
    /// OPENFLOW-1.
    #[test]
    fn what_is_written_is_read_back(
        per_port in writes(1..200, 254),
        per_switch in writes(0..1, 254),
        two_trees in writes(1..4, 6),
        turns in proptest::collection::vec(0usize..3, 30),
    ) {
        let two = Mapping { endpoint_ports: (1..=2).chain(5..=252).collect(), ..TWO_TREES };
        for (mapping, writes) in [(MAPPING, per_port), (PER_SWITCH, per_switch), (two, two_trees)] {
            let (mut switch, mut held) = (Switch::default(), Found::default());
            for (write, turn) in writes.into_iter().zip(&turns) {
                switch.take(mapping.changes(&held, [write], 1));
                mapping.note_written(&mut held, [write]);
                let ways = mapping.ways(write.0, write.1);
                let first = ways.and_then(|ways| ways.get(*turn).copied());
                if ways.is_some() {
                    switch.take(mapping.way_changes(&held, write.0, first));
                    held.first_ways.retain(|key, _| *key != write.0);
                    held.first_ways.extend(first.map(|first| (write.0, first)));
                }
                let before = switch.read(&mapping).programs;
                let address = |color| (Ipv4Addr::from(0xef01_0000 + u32::from(color % 7)), color);
                let wanted = mapping.program_flows(&held.entries, &(0..20).map(address).collect());
                switch.take(mapping.program_changes(&before, &wanted, 1));
                let found = switch.read(&mapping);
                prop_assert_eq!(&found.entries, &held.entries);
                prop_assert_eq!(&found.first_ways, &held.first_ways);
                prop_assert_eq!(found.programs, wanted);
                prop_assert_eq!(found.leftovers, vec![]);
            }
        }
    }
}
