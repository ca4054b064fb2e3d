//! The driver on a simulated subnet, made of a graph and of switches with multicast tables.

mod by_lid;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fabricast_infiniband::{Block, BlockPlace, MulticastTable};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Peer, PortId, SwitchId, ibnetdiscover};
use fabricast_umad::{PACKET_BYTES, Received, To};
use parking_lot::{Mutex, MutexGuard};

use super::*;
use packets::Packets;

const ENTRIES: u16 = 64;

/// State that the subnet and the test share.
#[derive(Debug, Default)]
struct Hardware {
    dead: BTreeSet<PortId>,
    tables: BTreeMap<SwitchId, MulticastTable>,
    /// Blocks that switches do not take.
    stubborn: BTreeSet<BlockPlace>,
    writes: u32,
    /// LIDs that switches report; counters are read by these.
    addressed: BTreeMap<u16, SwitchId>,
    /// Switches that the unicast tables lead to, by LID.
    led: BTreeMap<u16, SwitchId>,
    /// Requests of subnet management: address and attribute.
    requested: Vec<(To, u16)>,
}

/// A subnet that answers packets, seen from its first endpoint.
#[derive(Clone, Debug)]
struct Fake {
    graph: Arc<Graph>,
    hardware: Arc<Mutex<Hardware>>,
    answers: VecDeque<Received>,
}

enum Place {
    Endpoint(EndpointId),
    Switch(PortId),
}

impl Fake {
    fn new() -> Self {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\n";
        let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
        // Written and read once, so that everything has a GUID.
        let graph = ibnetdiscover::read(&ibnetdiscover::write(&graph)).unwrap();
        let ports = |switch| u8::try_from(graph.ports(switch).len()).unwrap();
        let table = |switch| (switch, MulticastTable::new(ENTRIES, ports(switch)));
        let tables = graph.switches().map(table).collect();
        let hardware = Hardware { tables, ..Hardware::default() };
        Self {
            graph: Arc::new(graph),
            hardware: Arc::new(Mutex::new(hardware)),
            answers: VecDeque::new(),
        }
    }

    fn driver(&self, config: InfinibandConfig) -> InfinibandDriver {
        InfinibandDriver::new(PacketSender::start(self.clone()), config, None)
    }

    fn hardware(&self) -> MutexGuard<'_, Hardware> {
        self.hardware.lock()
    }

    /// The first link between two switches, by its lower port.
    fn link(&self) -> PortId {
        let ports = self.graph.switches().flat_map(|switch| self.graph.ports(switch));
        ports.into_iter().find(|port| matches!(self.graph.peer(*port), Peer::Switch(_))).unwrap()
    }

    fn is_dead(&self, port: PortId) -> bool {
        let dead = &self.hardware().dead;
        dead.contains(&port)
            || matches!(self.graph.peer(port), Peer::Switch(far) if dead.contains(&far))
    }

    fn walk(&self, hops: &[u8]) -> Option<Place> {
        let mut place = Place::Endpoint(EndpointId(0));
        for hop in hops {
            let port = match place {
                Place::Endpoint(endpoint) => self.graph.attachment(endpoint)?,
                Place::Switch(entered) => self.graph.port(self.graph.switch_of(entered), *hop)?,
            };
            if self.is_dead(port) {
                return None;
            }
            place = match (place, self.graph.peer(port)) {
                (Place::Endpoint(_), _) => Place::Switch(port),
                (Place::Switch(_), Peer::Switch(far)) => Place::Switch(far),
                (Place::Switch(_), Peer::Endpoint(endpoint)) => Place::Endpoint(endpoint),
                (Place::Switch(_), Peer::None) => return None,
            };
        }
        Some(place)
    }

    /// Place where a packet of subnet management arrives.
    fn place(&self, to: To, packet: &[u8; PACKET_BYTES]) -> Option<Place> {
        match (to, packet[1]) {
            (To::Route, 0x81) => self.walk(&packet[129..129 + usize::from(packet[7])]),
            (To::SubnetLid(lid), 0x01) => {
                let switch = *self.hardware().led.get(&lid)?;
                Some(Place::Switch(self.graph.ports(switch).next()?))
            }
            (to, class) => panic!("a packet of class {class:#x} to {to:?}"),
        }
    }

    fn answer(&self, to: To, packet: &[u8; PACKET_BYTES]) -> Option<[u8; 64]> {
        let attribute = u16::from_be_bytes([packet[16], packet[17]]);
        self.hardware().requested.push((to, attribute));
        let place = self.place(to, packet)?;
        let modifier = u32::from_be_bytes(packet[20..24].try_into().unwrap());
        let mut data = [0; 64];
        let (name, is_switch, entered) = match place {
            Place::Endpoint(endpoint) => {
                let adapter = self.graph.adapter_of(endpoint);
                data[12..20].copy_from_slice(&self.graph.adapter_facts(adapter).guid.to_be_bytes());
                (self.graph.adapter_description(adapter), false, PortId(0))
            }
            Place::Switch(entered) => {
                let switch = self.graph.switch_of(entered);
                data[12..20].copy_from_slice(&self.graph.switch_facts(switch).guid.to_be_bytes());
                (self.graph.switch_description(switch), true, entered)
            }
        };
        let switch = self.graph.switch_of(entered);
        match (attribute, is_switch) {
            (0x11, _) => {
                let ports = u8::try_from(self.graph.ports(switch).len()).unwrap();
                (data[2], data[3]) = if is_switch { (2, ports) } else { (1, 1) };
                data[36] = if is_switch { self.graph.port_number(entered) } else { 1 };
            }
            (0x10, _) => {
                data = [0; 64];
                data[..name.len()].copy_from_slice(name.as_bytes());
            }
            (0x12, true) => {
                data = [0; 64];
                data[4..6].copy_from_slice(&ENTRIES.to_be_bytes());
            }
            (0x15, true) if modifier == 0 => {
                data = [0; 64];
                let hardware = self.hardware();
                let lid = hardware.addressed.iter().find(|(_, at)| **at == switch);
                data[16..18].copy_from_slice(&lid.map_or(0, |(lid, _)| *lid).to_be_bytes());
                data[32] = 4;
            }
            (0x15, true) => {
                data = [0; 64];
                let port = self.graph.port(switch, u8::try_from(modifier).ok()?)?;
                let is_up = self.graph.peer(port) != Peer::None && !self.is_dead(port);
                data[32] = if is_up { 4 } else { 1 };
            }
            (0x1b, true) => return self.block(packet, switch, modifier),
            _ => return None,
        }
        Some(data)
    }

    /// Port n of a switch has sent n words in 10 n packets, received nothing and dropped one.
    fn counters(&self, lid: u16, packet: &[u8]) -> Option<[u8; 64]> {
        let switch = *self.hardware().addressed.get(&lid)?;
        let port = self.graph.port(switch, packet[65])?;
        let number = u64::from(self.graph.port_number(port));
        let mut data = [0; 64];
        match packet[17] {
            0x1d => {
                data[8..16].copy_from_slice(&number.to_be_bytes());
                data[24..32].copy_from_slice(&(10 * number).to_be_bytes());
            }
            0x12 => data[15] = 1,
            _ => return None,
        }
        Some(data)
    }

    fn block(&self, packet: &[u8], switch: SwitchId, modifier: u32) -> Option<[u8; 64]> {
        let place = BlockPlace {
            entries: u16::try_from(modifier & 0x1ff).ok()?,
            ports: u8::try_from(modifier >> 28).ok()?,
        };
        let mut hardware = self.hardware();
        let keeps = !hardware.stubborn.contains(&place);
        if packet[3] == 2 {
            hardware.writes += 1;
            if keeps {
                let block = Block::read(place, packet[64..128].try_into().unwrap());
                hardware.tables.get_mut(&switch)?.put(&block);
            }
        }
        Some(hardware.tables.get(&switch)?.block(place).data())
    }
}

impl Packets for Fake {
    fn send(&mut self, to: To, packet: &[u8; PACKET_BYTES]) -> Result<(), UmadError> {
        let mut back = Box::new(*packet);
        let answer = match to {
            To::Route | To::SubnetLid(_) => self.answer(to, packet),
            To::Lid(lid) => self.counters(lid, packet),
        };
        self.answers.push_back(match answer {
            Some(data) => {
                back[3] = 0x81;
                back[64..128].copy_from_slice(&data);
                Received::Packet(back)
            }
            None => Received::Unanswered(back),
        });
        Ok(())
    }

    fn receive(&mut self, _timeout: Duration) -> Result<Option<Received>, UmadError> {
        Ok(self.answers.pop_back()) // the newest first: order must not matter
    }
}

fn entry(color: u32, out_ports: &[u32]) -> v1::TableEntry {
    v1::TableEntry { in_port: 0, color, out_ports: out_ports.to_vec() }
}

fn part(switch_name: &str, entries: Vec<v1::TableEntry>) -> v1::SwitchWrite {
    v1::SwitchWrite { switch_name: switch_name.to_owned(), entries }
}

fn fence(term: u64, generation: u64) -> v1::Fence {
    v1::Fence { term, generation }
}

async fn table(driver: &InfinibandDriver, switch: &str) -> v1::SwitchTable {
    let mut tables = driver.read_tables(vec![switch.to_owned()]).await.unwrap();
    tables.next().await.unwrap().unwrap()
}

#[tokio::test]
async fn switches_are_found_with_their_tables() {
    let fake = Fake::new();
    let driver = fake.driver(InfinibandConfig { colors: Some(20), ..<_>::default() });
    let switches = driver.list_switches().await.unwrap();
    assert_eq!(switches.len(), fake.graph.switch_count());
    for switch in &switches {
        assert!(fake.graph.find_switch(&switch.name).is_some(), "{}", switch.name);
        assert_eq!((switch.colors, switch.live, switch.used_entries), (20, true, 0));
        assert_eq!(switch.table_kind(), v1::TableKind::PerSwitch);
    }
}

#[tokio::test]
async fn a_write_can_be_read_and_the_rest_of_the_table_stays() {
    let fake = Fake::new();
    let driver = fake.driver(InfinibandConfig::default());
    let switch = driver.list_switches().await.unwrap()[0].clone();
    assert_eq!(switch.colors, u32::from(ENTRIES) - 1, "entry 0 is not ours");
    let id = fake.graph.find_switch(&switch.name).unwrap();
    let broadcast = [1, 2].into_iter().collect();
    fake.hardware().tables.get_mut(&id).unwrap().set(0, broadcast);
    let entries = vec![entry(0, &[1, 3]), entry(62, &[2])];
    let written =
        driver.write_tables(fence(1, 1), vec![part(&switch.name, entries.clone())]).await.unwrap();
    assert_eq!((written.entries, written.refusals), (2, vec![]));
    let read = table(&driver, &switch.name).await;
    assert_eq!((read.entries, read.fence), (entries, Some(fence(1, 1))));
    driver.write_tables(fence(1, 2), vec![part(&switch.name, vec![entry(0, &[])])]).await.unwrap();
    assert_eq!(table(&driver, &switch.name).await.entries, [entry(62, &[2])]);
    assert_eq!(fake.hardware().tables[&id].get(0), broadcast);
}

#[tokio::test]
async fn an_older_writer_changes_nothing() {
    let fake = Fake::new();
    let driver = fake.driver(InfinibandConfig::default());
    let names: Vec<String> =
        driver.list_switches().await.unwrap().into_iter().map(|switch| switch.name).collect();
    let write = |index: usize, ports: &[u32]| part(&names[index], vec![entry(1, ports)]);
    driver.write_tables(fence(2, 1), vec![write(0, &[1])]).await.unwrap();
    let both = vec![write(1, &[2]), write(0, &[2])];
    let late = driver.write_tables(fence(1, 9), both).await;
    assert!(matches!(late, Err(DriverError::StaleFence { term: 1, generation: 9 })));
    assert_eq!(table(&driver, &names[0]).await.entries, [entry(1, &[1])]);
    assert_eq!(table(&driver, &names[1]).await.entries, []);
}

#[tokio::test]
async fn a_part_that_is_not_taken_whole_is_undone() {
    let fake = Fake::new();
    let driver = fake.driver(InfinibandConfig::default());
    let name = driver.list_switches().await.unwrap()[0].name.clone();
    fake.hardware().stubborn.insert(BlockPlace { entries: 1, ports: 0 });
    let entries = vec![entry(3, &[1]), entry(40, &[2])];
    let written = driver.write_tables(fence(1, 1), vec![part(&name, entries)]).await.unwrap();
    assert_eq!(written.entries, 0);
    assert!(written.refusals[0].message.contains("did not keep entries 32 to 63"), "{written:?}");
    assert_eq!(table(&driver, &name).await.entries, []);
}

#[tokio::test]
async fn a_switch_is_written_by_another_route_when_a_link_dies() {
    let fake = Fake::new();
    let driver = fake.driver(InfinibandConfig::default());
    driver.list_switches().await.unwrap();
    let link = fake.link();
    let Peer::Switch(far) = fake.graph.peer(link) else { unreachable!("chosen so") };
    fake.hardware().dead.insert(link);
    for end in [link, far] {
        let name = fake.graph.switch_name(fake.graph.switch_of(end));
        let write = vec![part(name, vec![entry(5, &[1])])];
        let written = driver.write_tables(fence(1, 1), write).await.unwrap();
        assert_eq!((written.entries, written.refusals), (1, vec![]));
    }
}

#[tokio::test]
async fn failed_parts_are_reported_until_they_are_repaired() {
    let fake = Fake::new();
    let link = fake.link();
    fake.hardware().dead.insert(link);
    let config = InfinibandConfig { sweep: Duration::from_millis(1), ..<_>::default() };
    let expected = Some(Arc::clone(&fake.graph));
    let driver = InfinibandDriver::new(PacketSender::start(fake.clone()), config, expected);
    let mut lists = driver.watch_failed_elements().await.unwrap();
    let name = v1::PortName {
        switch_name: fake.graph.switch_name(fake.graph.switch_of(link)).to_owned(),
        port: u32::from(fake.graph.port_number(link)),
    };
    let dead = v1::Element { kind: Some(v1::element::Kind::Link(name)) };
    assert_eq!(lists.next().await.unwrap().unwrap(), [dead]);
    fake.hardware().dead.clear();
    assert_eq!(lists.next().await.unwrap().unwrap(), []);
    let last = EndpointId(3);
    fake.hardware().dead.insert(fake.graph.attachment(last).unwrap());
    let gone = fake.graph.endpoint_name(last).to_owned();
    let gone = v1::Element { kind: Some(v1::element::Kind::Endpoint(gone)) };
    assert_eq!(lists.next().await.unwrap().unwrap(), [gone]);
}

#[tokio::test]
async fn ports_show_their_peer_and_whether_it_is_live() {
    let fake = Fake::new();
    let driver = fake.driver(InfinibandConfig::default());
    let link = fake.link();
    let name = fake.graph.switch_name(fake.graph.switch_of(link)).to_owned();
    driver.list_switches().await.unwrap();
    fake.hardware().dead.insert(link);
    let number = u32::from(fake.graph.port_number(link));
    for port in driver.list_ports(&name).await.unwrap() {
        let has_peer = !port.peer.is_empty();
        assert_eq!(port.live, has_peer && port.port != number, "{port:?}");
    }
    let unknown = driver.list_ports("S-9").await;
    assert!(matches!(unknown, Err(DriverError::UnknownSwitch { .. })));
}

#[tokio::test]
async fn counters_are_read_once_a_subnet_manager_has_assigned_lids() {
    let fake = Fake::new();
    let driver = fake.driver(InfinibandConfig::default());
    let switches = driver.list_switches().await.unwrap();
    let names: Vec<String> = switches.iter().map(|switch| switch.name.clone()).collect();
    let refused = driver.read_counters(names.clone()).await.map(drop).unwrap_err();
    assert!(matches!(refused, DriverError::NoCounters), "{refused}");

    let first = fake.graph.find_switch(&names[0]).unwrap();
    fake.hardware().addressed.insert(7, first);
    let counters: Vec<_> = driver.read_counters(names.clone()).await.unwrap().collect().await;
    let [Ok(counters)] = &counters[..] else { panic!("only one has a LID: {counters:?}") };
    assert_eq!((&counters.switch_name, counters.ports.len()), (&names[0], 4));
    let third = v1::PortCounters {
        port: 3,
        sent_packets: 30,
        sent_bytes: 12,
        dropped_packets: 1,
        ..Default::default()
    };
    assert_eq!(counters.ports[2], third);
}
