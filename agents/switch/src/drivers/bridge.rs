//! The driver for Linux bridges: software bridges, and switches whose kernel driver takes over what
//! their bridge has been told (switchdev).
//!
//! ```text
//!  Driver calls ──► BridgeSwitch of each bridge ──► `ip` and `bridge` of iproute2 ──► kernel
//!                        ▲
//!  task of each bridge ──┘  looks when it is told, and every sweep
//!      ▲
//!  `ip monitor` of each namespace ──lines──► Dispatch: which bridges have changed
//!
//!  TIC ──colors of programs' addresses──► Moves ──► all bridges forget, then all lead
//! ```
//!
//! A bridge has one table, in which a group is an address, so tables are per switch. An entry is
//! one group of the bridge for each of its addresses (`switch.rs`). Nothing in a packet says which
//! tree it takes, so a tree that moves is left by all bridges before any leads by the new one
//! (`moves.rs`).
//!
//! A bridge keeps no fence. The driver does, in memory, and writes the term to the alias of the
//! bridge, with the ranges of addresses whose entries are its own, where an agent that starts again
//! finds both (`alias.rs`).

mod alias;
mod commands;
mod database;
mod dispatch;
mod follow;
mod link;
mod moves;
mod options;
mod switch;

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use fabricast_config::Hardware;
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_rpc::Reason;
use fabricast_topology::{Graph, PortId, PortSet};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::parts::{failed_links, far_end, out_ports, refusal, tell_failed, write_each};
use super::{DriverContext, DriverKind, OpenError, for_each};
use crate::driver::{Driver, DriverError, DriverStream, Written};
use commands::{Commands, System};
use follow::Follower;
use link::Look;
use moves::Moves;
use options::Options;
use switch::{BridgeSwitch, COMMANDS_AT_ONCE, Entries, Shared, WriteError};

pub(super) const KIND: DriverKind = DriverKind { name: "bridge", open };

fn open(context: &DriverContext<'_>) -> Result<Arc<dyn Driver>, OpenError> {
    let Hardware::Other { .. } = context.hardware else {
        unreachable!("the name of the driver is that of the settings");
    };
    let options: Options = context.options()?;
    options.check().map_err(OpenError::Options)?;
    let fabric = (context.read_topology)(&options.topology).map_err(OpenError::Topology)?;
    let commands = Arc::new(System { limit: options.timeout });
    let driver = BridgeDriver::start(&options, fabric, commands).map_err(OpenError::Options)?;
    Ok(Arc::new(driver))
}

/// Programs Linux bridges.
#[derive(Clone)]
pub(super) struct BridgeDriver {
    /// The fabric as it ought to be.
    fabric: Arc<Graph>,
    /// Bridges by node id.
    bridges: Arc<BTreeMap<String, Arc<BridgeSwitch>>>,
    /// Locked while a writer is compared with the newest ones and noted.
    raising: Arc<Mutex<()>>,
    moves: Arc<Moves>,
    /// Counts changes of ports and bridges.
    changed: watch::Sender<u64>,
    /// Ends all tasks with the last clone.
    _stop: Arc<DropGuard>,
}

impl fmt::Debug for BridgeDriver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bridges = self.bridges.len();
        formatter.debug_struct("BridgeDriver").field("bridges", &bridges).finish_non_exhaustive()
    }
}

impl BridgeDriver {
    fn start(
        options: &Options,
        fabric: Arc<Graph>,
        commands: Arc<dyn Commands>,
    ) -> Result<Self, String> {
        let addresses = Arc::new(options.addresses()?);
        let programs = Arc::new(Mutex::new(None));
        let changed = watch::Sender::new(0);
        let shared = Shared {
            commands: Arc::clone(&commands),
            addresses,
            most_colors: options.colors,
            programs: Arc::clone(&programs),
            changed: changed.clone(),
            running: Arc::new(Semaphore::new(COMMANDS_AT_ONCE)),
        };
        let bridge = |(name, place): (String, _)| {
            (name.clone(), Arc::new(BridgeSwitch::new(name, place, shared.clone())))
        };
        let bridges: BTreeMap<_, _> = options.places(&fabric)?.into_iter().map(bridge).collect();
        let pause = options.move_pause(bridges.len(), fabric.switch_count());
        let moves = Arc::new(Moves::new(bridges.values().cloned().collect(), programs, pause));
        let stop = CancellationToken::new();
        let follower = Follower { commands, moves: Arc::clone(&moves), sweep: options.sweep };
        follower.start(bridges.values(), &stop);
        let (bridges, raising) = (Arc::new(bridges), Arc::default());
        Ok(Self { fabric, bridges, raising, moves, changed, _stop: Arc::new(stop.drop_guard()) })
    }

    fn bridge(&self, name: &str) -> Result<Arc<BridgeSwitch>, DriverError> {
        let unknown = || DriverError::UnknownSwitch { switch: name.to_owned() };
        self.bridges.get(name).cloned().ok_or_else(unknown)
    }

    fn check_names(&self, names: &[String]) -> Result<(), DriverError> {
        names.iter().try_for_each(|name| self.bridge(name).map(drop))
    }

    /// Notes a writer at all bridges, or at none if one of them has seen a newer one.
    fn raise_fence(&self, fence: v1::Fence, writes: &[v1::SwitchWrite]) -> Result<(), DriverError> {
        let _raising = self.raising.lock(); // nobody comes between the check and the note
        let bridges: Vec<_> =
            writes.iter().filter_map(|write| self.bridges.get(&write.switch_name)).collect();
        if bridges.iter().any(|bridge| bridge.has_newer_writer(fence)) {
            let v1::Fence { term, generation } = fence;
            return Err(DriverError::StaleFence { term, generation });
        }
        bridges.iter().for_each(|bridge| bridge.note_writer(fence));
        Ok(())
    }

    async fn describe(&self, name: String) -> Option<v1::Switch> {
        let bridge = self.bridges.get(&name)?;
        let _ = bridge.look().await; // the bridge keeps what it found
        let live = bridge.seen().is_ok();
        let switch = self.fabric.find_switch(&name)?;
        Some(v1::Switch {
            description: self.fabric.switch_description(switch).to_owned(),
            port_count: bridge.port_count(),
            table_kind: v1::TableKind::PerSwitch.into(),
            colors: u32::from(bridge.colors()),
            live,
            used_entries: bridge.used_entries(),
            name,
        })
    }

    /// Reads the table of a switch; `None` if it cannot be read.
    async fn read_table(&self, name: String) -> Option<v1::SwitchTable> {
        let bridge = self.bridges.get(&name)?;
        let entries = match bridge.read().await {
            Ok(entries) => entries,
            Err(error) => {
                let reason = error.to_string();
                tracing::warn!(switch = name, reason, "table not read");
                return None;
            }
        };
        let entry = |(color, ports): (u16, PortSet)| v1::TableEntry {
            in_port: 0,
            color: u32::from(color),
            out_ports: ports.iter().map(u32::from).collect(),
        };
        let entries = entries.into_iter().map(entry).collect();
        let fence = bridge.newest_writer();
        Some(v1::SwitchTable { switch_name: name, entries, fence })
    }

    async fn write(
        &self,
        fence: v1::Fence,
        write: v1::SwitchWrite,
    ) -> Result<(), v1::SwitchRefusal> {
        let name = write.switch_name;
        let refusal = |reason, message| refusal(&name, reason, message);
        let bridge = self.bridges.get(&name);
        let bridge = bridge.ok_or_else(|| refusal(Reason::SwitchDown, "no such bridge".into()))?;
        let mut entries = Entries::new();
        for entry in &write.entries {
            let Some((color, ports)) = read_entry(entry) else {
                let v1::TableEntry { in_port, color, .. } = entry;
                let message = format!("in_port {in_port}, color {color} do not fit a bridge");
                return Err(refusal(Reason::BadEntry, message));
            };
            entries.insert(color, ports);
        }
        bridge.write(fence, &entries).await.map_err(|error| {
            let reason = match &error {
                WriteError::Unusable(_) => Reason::SwitchDown,
                WriteError::Color { .. } => Reason::BadEntry,
                WriteError::Stale { .. } => Reason::StaleFence,
                WriteError::Full { .. } | WriteError::Refused { .. } | WriteError::Torn { .. } => {
                    Reason::WriteFailed
                }
            };
            refusal(reason, error.to_string())
        })
    }

    /// Parts that have failed, of those that belong to a bridge of this agent.
    fn failed(&self) -> Vec<v1::Element> {
        let seen: BTreeMap<&str, Option<Look>> =
            self.bridges.iter().map(|(name, one)| (name.as_str(), one.seen().ok())).collect();
        let missing = seen.iter().filter(|(_, look)| look.is_none());
        let mut kinds: Vec<Kind> =
            missing.map(|(name, _)| Kind::SwitchName((*name).to_owned())).collect();
        let is_down = |port: PortId| {
            let name = self.fabric.switch_name(self.fabric.switch_of(port));
            let look = seen.get(name).and_then(Option::as_ref);
            look.is_some_and(|look| !look.is_live(self.fabric.port_number(port)))
        };
        kinds.extend(failed_links(&self.fabric, is_down, |_| false));
        kinds.into_iter().map(|kind| v1::Element { kind: Some(kind) }).collect()
    }

    /// Looks at all bridges that have not been looked at.
    async fn look_at_all(&self) {
        let look = |bridge: &Arc<BridgeSwitch>| {
            let bridge = Arc::clone(bridge);
            tokio::spawn(async move { drop(bridge.ready().await) })
        };
        for looked in self.bridges.values().map(look).collect::<Vec<_>>() {
            let _ = looked.await; // what it found is kept by the bridge
        }
    }
}

/// Reads an entry; `None` if it is not one of a bridge.
fn read_entry(entry: &v1::TableEntry) -> Option<(u16, PortSet)> {
    let color = u16::try_from(entry.color).ok().filter(|_| entry.in_port == 0)?;
    Some((color, out_ports(entry)?))
}

#[tonic::async_trait]
impl Driver for BridgeDriver {
    async fn list_switches(&self) -> Result<Vec<v1::Switch>, DriverError> {
        let driver = self.clone();
        let described = for_each(self.bridges.keys().cloned().collect(), move |name| {
            let driver = driver.clone();
            async move { driver.describe(name).await }
        });
        described.collect::<Result<Vec<_>, _>>().await
    }

    async fn read_tables(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchTable>, DriverError> {
        self.check_names(&switches)?;
        let driver = self.clone();
        Ok(for_each(switches, move |name| {
            let driver = driver.clone();
            async move { driver.read_table(name).await }
        }))
    }

    async fn write_tables(
        &self,
        fence: v1::Fence,
        writes: Vec<v1::SwitchWrite>,
    ) -> Result<Written, DriverError> {
        self.look_at_all().await; // an alias may have a term
        self.raise_fence(fence, &writes)?;
        let write = |part: v1::SwitchWrite| {
            let driver = self.clone();
            async move { driver.write(fence, part).await }
        };
        write_each("bridge", writes, write).await
    }

    async fn list_ports(&self, switch: &str) -> Result<Vec<v1::PortStatus>, DriverError> {
        let bridge = self.bridge(switch)?;
        let _ = bridge.look().await; // the bridge keeps what it found
        let look = bridge.seen().ok();
        let unknown = || DriverError::UnknownSwitch { switch: switch.to_owned() };
        let ports = self.fabric.ports(self.fabric.find_switch(switch).ok_or_else(unknown)?);
        let status = |port: PortId| {
            let number = self.fabric.port_number(port);
            let (peer, peer_port) = far_end(&self.fabric, port);
            let seen = look.as_ref().and_then(|look| look.ports.get(&number));
            let counted = seen.map(|seen| seen.counters).unwrap_or_default();
            v1::PortStatus {
                port: u32::from(number),
                peer,
                peer_port,
                live: seen.is_some_and(|seen| seen.is_live),
                received_packets: counted.received_packets,
                sent_packets: counted.sent_packets,
                dropped_packets: counted.dropped_packets,
            }
        };
        Ok(ports.map(status).collect())
    }

    async fn read_counters(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchCounters>, DriverError> {
        self.check_names(&switches)?;
        let driver = self.clone();
        Ok(for_each(switches, move |name| {
            let bridge = driver.bridges.get(&name).cloned();
            async move {
                let bridge = bridge?;
                let look = bridge.look().await.ok()?;
                let none = |port| v1::PortCounters { port, ..<_>::default() };
                let port = |port: u32| {
                    let seen = u8::try_from(port).ok().and_then(|port| look.ports.get(&port));
                    seen.map_or_else(|| none(port), |seen| seen.counters)
                };
                let ports = (1..=bridge.port_count()).map(port).collect();
                Some(v1::SwitchCounters { switch_name: name, ports })
            }
        }))
    }

    fn carries_programs(&self) -> bool {
        true
    }

    async fn carry_programs(&self, programs: BTreeMap<Ipv4Addr, u16>) {
        self.moves.carry(programs).await;
    }

    async fn watch_failed_elements(&self) -> Result<DriverStream<Vec<v1::Element>>, DriverError> {
        let mut changes = self.changed.subscribe();
        self.look_at_all().await;
        let driver = self.clone();
        let (sender, receiver) = watch::channel(driver.failed());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sender.closed() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                }
                tell_failed(&sender, driver.failed());
            }
        });
        Ok(Box::pin(WatchStream::new(receiver).map(Ok)))
    }
}

#[cfg(test)]
mod tests;
