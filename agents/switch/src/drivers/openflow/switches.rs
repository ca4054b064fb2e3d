//! The switches of the fabric: which of them are connected, and which parts have failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_openflow::{Fence, Mapping, Programs, Room};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_topology::{Graph, Peer, PortId, PortSet, SwitchId};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;

use super::connection::Closed;
use super::session::Session;
use super::ways::Trees;

/// Why a switch that connects cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unfit {
    /// It speaks neither 1.3 nor 1.4.
    #[error("it speaks neither OpenFlow 1.3 nor 1.4")]
    Version,
    /// No switch of the topology has its datapath id.
    #[error("datapath id {datapath:#018x} is not in the topology")]
    Unknown {
        /// The datapath id.
        datapath: u64,
    },
    /// Another connection has its datapath id, and works.
    #[error("datapath id {datapath:#018x} is connected already")]
    Twice {
        /// The datapath id.
        datapath: u64,
    },
    /// It has no groups of type ALL.
    #[error("it has no groups of type ALL")]
    NoGroups,
    /// It has no groups of type FAST_FAILOVER, and trees come in pairs.
    #[error("it has no groups of type FAST_FAILOVER")]
    NoFailover,
    /// It lacks the flow table.
    #[error("it has no flow table {table}")]
    NoTable {
        /// Number of the table.
        table: u8,
    },
    /// It has no room for a single color.
    #[error(
        "it has no room for a color: {} groups, {} failover groups, {} flows, {} ports",
        .0.groups, .0.failover_groups, .0.flows, .0.ports
    )]
    NoRoom(Room),
    /// It refused a question that every switch must answer.
    #[error("it refused to tell its {what}")]
    Silent {
        /// Subject of the question.
        what: &'static str,
    },
    /// The connection ended before all was known.
    #[error(transparent)]
    Closed(#[from] Closed),
}

/// State of a switch of the topology.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum SwitchState {
    /// It has not connected yet.
    #[error("the switch has not connected")]
    Absent,
    /// It has connected and cannot be used.
    #[error("the switch cannot be used: {0}")]
    Unfit(Unfit),
    /// Its connection has ended.
    #[error("the switch is not connected: {0}")]
    Lost(Closed),
    /// It is connected.
    #[error("the switch is connected")]
    Ready,
}

struct Record {
    switch: SwitchId,
    state: SwitchState,
    /// Time at which the state began.
    since: Instant,
    session: Option<Arc<Session>>,
    /// Newest fence of anybody who wrote; the switch keeps it, too, until it loses its tables.
    fence: Option<Fence>,
}

/// All switches of the topology.
pub(super) struct Switches {
    fabric: Arc<Graph>,
    mapping: Mapping,
    nodes: BTreeMap<u64, String>,
    grace: Duration,
    records: Mutex<BTreeMap<String, Record>>,
    /// Newest colors of the addresses of programs, once known; sessions share it.
    programs: Arc<Mutex<Option<Programs>>>,
    changed: watch::Sender<u64>,
    written: watch::Sender<u64>,
}

/// A write with a fence older than a switch has seen.
#[derive(Debug)]
pub(super) struct Stale;

impl Switches {
    /// - `nodes`: node id by datapath id, of all switches of the fabric.
    /// - `grace`: time without a connection until a switch counts as failed.
    pub(super) fn new(
        fabric: Arc<Graph>,
        nodes: BTreeMap<u64, String>,
        mapping: Mapping,
        grace: Duration,
    ) -> Self {
        let since = Instant::now();
        let record = |switch| {
            let state = SwitchState::Absent;
            let record = Record { switch, state, since, session: None, fence: None };
            (fabric.switch_name(switch).to_owned(), record)
        };
        let records = Mutex::new(fabric.switches().map(record).collect());
        let (changed, written) = (watch::Sender::new(0), watch::Sender::new(0));
        let programs = Arc::default();
        Self { fabric, mapping, nodes, grace, records, programs, changed, written }
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub(super) fn node(&self, datapath: u64) -> Option<&str> {
        self.nodes.get(&datapath).map(String::as_str)
    }

    /// Number of ports of a switch in the topology.
    pub(super) fn ports(&self, name: &str) -> u8 {
        let count = self.fabric.find_switch(name).map(|switch| self.fabric.ports(switch).len());
        u8::try_from(count.unwrap_or(0)).unwrap_or(u8::MAX)
    }

    /// Ports of a switch that lead to endpoints in the topology.
    pub(super) fn endpoint_ports(&self, name: &str) -> PortSet {
        let ports = self.fabric.find_switch(name).into_iter();
        let is_endpoint = |port: &PortId| matches!(self.fabric.peer(*port), Peer::Endpoint(_));
        let ports = ports.flat_map(|switch| self.fabric.ports(switch)).filter(is_endpoint);
        ports.map(|port| self.fabric.port_number(port)).collect()
    }

    pub(super) fn programs(&self) -> Arc<Mutex<Option<Programs>>> {
        Arc::clone(&self.programs)
    }

    /// The sessions of all connected switches.
    pub(super) fn sessions(&self) -> Vec<Arc<Session>> {
        self.records.lock().values().filter_map(|record| record.session.clone()).collect()
    }

    pub(super) fn is_known(&self, name: &str) -> bool {
        self.fabric.find_switch(name).is_some()
    }

    /// The session of a switch; otherwise why there is none.
    pub(super) fn session(&self, name: &str) -> Result<Arc<Session>, SwitchState> {
        let records = self.records.lock();
        let record = records.get(name).ok_or(SwitchState::Absent)?;
        record.session.clone().ok_or_else(|| record.state.clone())
    }

    /// Newest fence of anybody who wrote to a switch.
    pub(super) fn fence(&self, name: &str) -> Option<Fence> {
        self.records.lock().get(name).and_then(|record| record.fence)
    }

    /// Notes a writer at all the switches, or at none if one of them has seen a newer one.
    pub(super) fn raise_fence<'a>(
        &self,
        names: impl Iterator<Item = &'a str> + Clone,
        fence: Fence,
    ) -> Result<(), Stale> {
        let mut records = self.records.lock();
        let mut known = names.clone().filter_map(|name| records.get(name)?.fence);
        if known.any(|known| known > fence) {
            return Err(Stale);
        }
        for name in names {
            if let Some(record) = records.get_mut(name) {
                record.fence = Some(fence);
            }
        }
        Ok(())
    }

    /// Takes a session in, with the fence that was found in the switch.
    pub(super) fn connected(&self, name: &str, session: Arc<Session>, found: Option<Fence>) {
        let mut records = self.records.lock();
        if let Some(record) = records.get_mut(name) {
            record.fence = record.fence.max(found);
            if let Some(other) = record.session.replace(session) {
                other.connection.close(Closed::ByAgent); // both came at the same time
            }
            record.state = SwitchState::Ready;
            record.since = Instant::now();
        }
        drop(records);
        self.note_change();
    }

    /// Notes that a session has ended.
    pub(super) fn ended(&self, name: &str, session: &Arc<Session>, reason: Closed) {
        let mut records = self.records.lock();
        if let Some(record) = records.get_mut(name)
            && record.session.as_ref().is_some_and(|known| Arc::ptr_eq(known, session))
        {
            record.session = None;
            record.state = SwitchState::Lost(reason);
            record.since = Instant::now();
        }
        drop(records);
        self.note_change();
    }

    /// Notes that a switch has connected and cannot be used.
    pub(super) fn refused(&self, name: &str, reason: Unfit) {
        let mut records = self.records.lock();
        // A switch that connects twice works all the same. The time goes on: nothing is better.
        if let Some(record) = records.get_mut(name).filter(|record| record.session.is_none()) {
            record.state = SwitchState::Unfit(reason);
        }
    }

    /// Notes that ports of a switch may have changed.
    pub(super) fn note_change(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Notes that entries were written.
    pub(super) fn note_write(&self) {
        self.written.send_modify(|count| *count += 1);
    }

    pub(super) fn writes(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    /// Tables and cables as they are known now.
    pub(super) fn trees(&self) -> Trees {
        let sessions = self.sessions_by_switch();
        let is_down = |port: &PortId| {
            let session = &sessions[self.fabric.switch_of(*port).index()];
            let number = u32::from(self.fabric.port_number(*port));
            session.as_ref().is_some_and(|session| !session.is_live(number))
        };
        let ports = self.fabric.switches().flat_map(|switch| self.fabric.ports(switch));
        let down: BTreeSet<PortId> = ports.filter(is_down).collect();
        let tables = sessions.iter().map(|session| session.as_ref().map(|one| one.seen()));
        Trees { fabric: Arc::clone(&self.fabric), tables: tables.collect(), down }
    }

    fn sessions_by_switch(&self) -> Vec<Option<Arc<Session>>> {
        let records = self.records.lock();
        let session = |switch| records.get(self.fabric.switch_name(switch))?.session.clone();
        self.fabric.switches().map(session).collect()
    }

    /// All switches, ordered by node id.
    pub(super) fn list(&self) -> Vec<v1::Switch> {
        let kind = fabric_kind(&self.mapping);
        let records = self.records.lock();
        let switch = |(name, record): (&String, &Record)| {
            let session = record.session.as_ref();
            let colors = session.map_or(self.mapping.colors, |session| session.colors());
            v1::Switch {
                name: name.clone(),
                description: self.fabric.switch_description(record.switch).to_owned(),
                port_count: u32::from(self.ports(name)),
                table_kind: kind.into(),
                colors: u32::from(colors),
                live: session.is_some(),
                used_entries: session.map_or(0, |session| session.used_entries()),
            }
        };
        records.iter().map(switch).collect()
    }

    /// Ports of a switch with their peers and states; without counters.
    pub(super) fn list_ports(&self, name: &str) -> Option<Vec<v1::PortStatus>> {
        let switch = self.fabric.find_switch(name)?;
        let session = self.session(name).ok();
        let port = |port: PortId| {
            let number = u32::from(self.fabric.port_number(port));
            let (peer, peer_port) = match self.fabric.peer(port) {
                Peer::None => (String::new(), 0),
                Peer::Endpoint(endpoint) => (self.fabric.endpoint_name(endpoint).to_owned(), 0),
                Peer::Switch(far) => {
                    let name = self.fabric.switch_name(self.fabric.switch_of(far)).to_owned();
                    (name, u32::from(self.fabric.port_number(far)))
                }
            };
            let live = session.as_ref().is_some_and(|session| session.is_live(number));
            v1::PortStatus { port: number, peer, peer_port, live, ..<_>::default() }
        };
        Some(self.fabric.ports(switch).map(port).collect())
    }

    /// Parts that have failed, and the time at which more may count as failed.
    pub(super) fn failed(&self, now: Instant) -> (Vec<v1::Element>, Option<Instant>) {
        let records = self.records.lock();
        let (mut kinds, mut next) = (Vec::new(), None::<Instant>);
        for (name, record) in records.iter().filter(|(_, record)| record.session.is_none()) {
            let until = record.since + self.grace;
            if now >= until {
                kinds.push(Kind::SwitchName(name.clone()));
            } else {
                next = Some(next.map_or(until, |next| next.min(until)));
            }
        }
        let session = |port: PortId| {
            let name = self.fabric.switch_name(self.fabric.switch_of(port));
            records.get(name)?.session.as_ref()
        };
        let is_down = |port: PortId| {
            let number = u32::from(self.fabric.port_number(port));
            session(port).is_some_and(|session| !session.is_live(number))
        };
        for port in self.fabric.switches().flat_map(|switch| self.fabric.ports(switch)) {
            match self.fabric.peer(port) {
                // Each cable once, by its lower port.
                Peer::Switch(far) if port < far && (is_down(port) || is_down(far)) => {
                    let switch_name = self.fabric.switch_name(self.fabric.switch_of(port));
                    let port = u32::from(self.fabric.port_number(port));
                    let switch_name = switch_name.to_owned();
                    kinds.push(Kind::Link(v1::PortName { switch_name, port }));
                }
                Peer::Endpoint(endpoint) if is_down(port) => {
                    kinds.push(Kind::Endpoint(self.fabric.endpoint_name(endpoint).to_owned()));
                }
                Peer::Switch(_) | Peer::Endpoint(_) | Peer::None => {}
            }
        }
        (kinds.into_iter().map(|kind| v1::Element { kind: Some(kind) }).collect(), next)
    }
}

fn fabric_kind(mapping: &Mapping) -> v1::TableKind {
    match mapping.tables {
        fabricast_topology::TableKind::PerPort => v1::TableKind::PerPort,
        fabricast_topology::TableKind::PerSwitch => v1::TableKind::PerSwitch,
    }
}
