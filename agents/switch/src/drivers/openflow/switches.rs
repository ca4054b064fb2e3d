//! The switches of the fabric: which of them are connected, and which parts have failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_openflow::{
    Body, Contradiction, Fence, Mapping, PortStatus, Programs, SeenSwitch, SwitchCapacity,
    SwitchPort,
};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_topology::{BuildError, Graph, Peer, PortId, PortSet};
use parking_lot::{Mutex, RwLock};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;

use super::connection::Closed;
use super::neighbors::Neighbors;
use super::nodes::Nodes;
use super::session::Session;
use super::watched::Watched;
use super::ways::Trees;
use crate::drivers::parts::{failed_links, far_end};

/// Reason why a switch that connects cannot be used.
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
    NoRoom(SwitchCapacity),
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
    state: SwitchState,
    /// Time at which the state began.
    since: Instant,
    session: Option<Arc<Session>>,
    /// Newest fence of anybody who wrote; the switch keeps it, too, until it loses its tables.
    fence: Option<Fence>,
}

impl Record {
    /// A switch that has not connected.
    fn absent(since: Instant) -> Self {
        Self { state: SwitchState::Absent, since, session: None, fence: None }
    }
}

/// All switches of the topology, and those that have connected without being known.
pub(super) struct Switches {
    /// The fabric as it ought to be; empty before it is known.
    fabric: RwLock<Arc<Graph>>,
    mapping: Mapping,
    nodes: Nodes,
    grace: Duration,
    /// `None` if no cables are looked for.
    neighbors: Option<Arc<Neighbors>>,
    /// By node id.
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
    /// - `grace`: time without a connection until a switch counts as failed.
    /// - `neighbors`: `None` if no cables are looked for.
    pub(super) fn new(
        fabric: Arc<Graph>,
        nodes: Nodes,
        mapping: Mapping,
        grace: Duration,
        neighbors: Option<Arc<Neighbors>>,
    ) -> Self {
        let since = Instant::now();
        let record = |switch| (fabric.switch_name(switch).to_owned(), Record::absent(since));
        let records = Mutex::new(fabric.switches().map(record).collect());
        let (changed, written) = (watch::Sender::new(0), watch::Sender::new(0));
        let (fabric, programs) = (RwLock::new(fabric), Arc::default());
        Self { fabric, mapping, nodes, grace, neighbors, records, programs, changed, written }
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Node id of a switch; `None` if it does not belong to the fabric.
    pub(super) fn node(&self, datapath: u64) -> Option<String> {
        self.nodes.name(datapath)
    }

    pub(super) fn neighbors(&self) -> Option<Arc<Neighbors>> {
        self.neighbors.clone()
    }

    /// The fabric as it ought to be.
    pub(super) fn fabric(&self) -> Arc<Graph> {
        Arc::clone(&self.fabric.read())
    }

    /// Sets the fabric as it ought to be. Switches that are new there have the grace time from now
    /// on.
    pub(super) fn expect(&self, fabric: Arc<Graph>) {
        let since = Instant::now();
        let mut records = self.records.lock();
        for switch in fabric.switches() {
            let name = fabric.switch_name(switch).to_owned();
            records.entry(name).or_insert_with(|| Record::absent(since));
        }
        let is_expected = |name: &str| fabric.find_switch(name).is_some();
        records.retain(|name, record| record.session.is_some() || is_expected(name));
        *self.fabric.write() = fabric;
        drop(records);
        self.note_change();
    }

    /// Follows a message of a switch that was not asked for, or that tells its ports.
    pub(super) fn follow(&self, watched: &Watched, body: &Body) {
        let mut is_news = watched.follow(body);
        if let (Some(neighbors), Some(datapath)) = (&self.neighbors, watched.datapath()) {
            match body {
                Body::PacketIn(packet) => is_news |= neighbors.take(datapath, packet),
                Body::PortStatus(PortStatus { port, .. }) if !watched.is_live(port.number) => {
                    if let Ok(number) = u8::try_from(port.number) {
                        neighbors.forget_port(SwitchPort { datapath, number });
                    }
                }
                _ => {}
            }
        }
        if is_news {
            self.note_change();
        }
    }

    /// Number of ports of a switch in the topology; of one that is not there, as it tells itself.
    pub(super) fn ports(&self, name: &str) -> u8 {
        let session = self.session(name).ok();
        port_count(&self.fabric(), name, session.as_deref())
    }

    /// Ports of a switch that lead to endpoints: in the topology, or by what is heard at ports that
    /// lead nowhere there.
    pub(super) fn endpoint_ports(&self, name: &str) -> PortSet {
        let (fabric, mut endpoint_ports) = (self.fabric(), PortSet::EMPTY);
        let mut heard = match (&self.neighbors, self.nodes.datapath(name)) {
            (Some(neighbors), Some(datapath)) => neighbors.endpoint_ports(datapath),
            (None, _) | (_, None) => PortSet::EMPTY,
        };
        let ports = fabric.find_switch(name).into_iter().flat_map(|switch| fabric.ports(switch));
        for port in ports {
            let number = fabric.port_number(port);
            match fabric.peer(port) {
                Peer::Endpoint(_) => endpoint_ports.insert(number),
                Peer::Switch(_) => heard.remove(number),
                Peer::None => {}
            }
        }
        endpoint_ports.union(heard)
    }

    /// The fabric as it is heard; `None` if no switch is connected, or no cables are looked for.
    pub(super) fn found(&self) -> Option<Result<Graph, BuildError>> {
        let (neighbors, fabric) = (self.neighbors.as_ref()?, self.fabric());
        let seen = |session: Arc<Session>| {
            let (name, datapath) = (session.name.clone(), session.watched().datapath()?);
            let known = fabric.find_switch(&name).map(|switch| fabric.switch_description(switch));
            let description = self.nodes.description(datapath).or(known);
            let description = description.unwrap_or_default().to_owned();
            Some(SeenSwitch { datapath, name, description, ports: session.watched().last_port() })
        };
        let switches: Vec<SeenSwitch> = self.sessions().into_iter().filter_map(seen).collect();
        (!switches.is_empty()).then(|| neighbors.graph(&switches, &self.nodes))
    }

    /// Cables of the expected fabric that lead elsewhere.
    ///
    /// - `fabric`: as [`Self::fabric`] gave it.
    pub(super) fn contradictions(&self, fabric: &Graph) -> BTreeMap<PortId, Contradiction> {
        let neighbors = self.neighbors.as_ref();
        neighbors.map_or_else(BTreeMap::new, |one| one.contradictions(fabric, &self.nodes))
    }

    pub(super) fn programs(&self) -> Arc<Mutex<Option<Programs>>> {
        Arc::clone(&self.programs)
    }

    /// The sessions of all connected switches.
    pub(super) fn sessions(&self) -> Vec<Arc<Session>> {
        self.records.lock().values().filter_map(|record| record.session.clone()).collect()
    }

    pub(super) fn is_known(&self, name: &str) -> bool {
        self.records.lock().contains_key(name) || self.fabric().find_switch(name).is_some()
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
        let (now, mut records) = (Instant::now(), self.records.lock());
        let record = records.entry(name.to_owned()).or_insert_with(|| Record::absent(now));
        record.fence = record.fence.max(found);
        if let Some(other) = record.session.replace(session) {
            other.connection.close(Closed::ByAgent); // both came at the same time
        }
        record.state = SwitchState::Ready;
        record.since = now;
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
        let fabric = self.fabric();
        let sessions = self.sessions_by_switch(&fabric);
        let is_down = |port: &PortId| {
            let session = &sessions[fabric.switch_of(*port).index()];
            let number = u32::from(fabric.port_number(*port));
            session.as_ref().is_some_and(|session| !session.watched().is_live(number))
        };
        let ports = fabric.switches().flat_map(|switch| fabric.ports(switch));
        let down: BTreeSet<PortId> = ports.filter(is_down).collect();
        let tables = sessions.iter().map(|session| session.as_ref().map(|one| one.seen()));
        Trees { fabric: Arc::clone(&fabric), tables: tables.collect(), down }
    }

    fn sessions_by_switch(&self, fabric: &Graph) -> Vec<Option<Arc<Session>>> {
        let records = self.records.lock();
        let session = |switch| records.get(fabric.switch_name(switch))?.session.clone();
        fabric.switches().map(session).collect()
    }

    /// All switches, ordered by node id.
    pub(super) fn list(&self) -> Vec<v1::Switch> {
        let (kind, fabric) = (fabric_kind(&self.mapping), self.fabric());
        let records = self.records.lock();
        let switch = |(name, record): (&String, &Record)| {
            let session = record.session.as_deref();
            let colors = session.map_or(self.mapping.colors, |session| session.colors());
            let known = fabric.find_switch(name).map(|switch| fabric.switch_description(switch));
            v1::Switch {
                name: name.clone(),
                description: known.unwrap_or_default().to_owned(),
                port_count: u32::from(port_count(&fabric, name, session)),
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
        let fabric = self.fabric();
        let switch = fabric.find_switch(name)?;
        let session = self.session(name).ok();
        let port = |port: PortId| {
            let number = u32::from(fabric.port_number(port));
            let (peer, peer_port) = far_end(&fabric, port);
            let live = session.as_ref().is_some_and(|session| session.watched().is_live(number));
            v1::PortStatus { port: number, peer, peer_port, live, ..<_>::default() }
        };
        Some(fabric.ports(switch).map(port).collect())
    }

    /// Parts that have failed, and the time at which more may count as failed. A cable that leads
    /// elsewhere has failed, too: nothing reaches its expected ends by it.
    pub(super) fn failed(&self, now: Instant) -> (Vec<v1::Element>, Option<Instant>) {
        let fabric = self.fabric();
        let elsewhere = self.contradictions(&fabric);
        let records = self.records.lock();
        let (mut kinds, mut next) = (Vec::new(), None::<Instant>);
        let is_missing = |name: &str, record: &Record| {
            record.session.is_none() && fabric.find_switch(name).is_some()
        };
        for (name, record) in records.iter().filter(|(name, record)| is_missing(name, record)) {
            let until = record.since + self.grace;
            if now >= until {
                kinds.push(Kind::SwitchName(name.clone()));
            } else {
                next = Some(next.map_or(until, |next| next.min(until)));
            }
        }
        let session = |port: PortId| {
            let name = fabric.switch_name(fabric.switch_of(port));
            records.get(name)?.session.as_ref()
        };
        let is_down = |port: PortId| {
            let number = u32::from(fabric.port_number(port));
            session(port).is_some_and(|session| !session.watched().is_live(number))
        };
        let leads_elsewhere = |port: PortId| elsewhere.contains_key(&port);
        kinds.extend(failed_links(&fabric, is_down, leads_elsewhere));
        (kinds.into_iter().map(|kind| v1::Element { kind: Some(kind) }).collect(), next)
    }
}

/// Number of ports of a switch in a topology; of one that is not there, as it tells itself.
fn port_count(fabric: &Graph, name: &str, session: Option<&Session>) -> u8 {
    match fabric.find_switch(name) {
        Some(switch) => u8::try_from(fabric.ports(switch).len()).unwrap_or(u8::MAX),
        None => session.map_or(0, |session| session.watched().last_port()),
    }
}

fn fabric_kind(mapping: &Mapping) -> v1::TableKind {
    match mapping.tables {
        fabricast_topology::TableKind::PerPort => v1::TableKind::PerPort,
        fabricast_topology::TableKind::PerSwitch => v1::TableKind::PerSwitch,
    }
}
