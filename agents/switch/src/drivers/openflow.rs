//! The driver for OpenFlow switches: Open vSwitch, and hardware that speaks 1.3 or 1.4.
//!
//! ```text
//!  Driver calls ──► Switches ──► Session of each switch ──► Connection ◄──► switch
//!                      ▲                                        ▲
//!                      └─ port states, ended connections        └─ Reach: accepts, connects
//!
//!  LLDP task ──frames, every interval──► Connection of each switch
//!  switches ──frames of neighbors──► Neighbors ──► the fabric as it is found
//! ```
//!
//! An entry is a group and a flow (`fabricast_openflow::Mapping`). A switch keeps the fence of the
//! newest writer twice: the term as the generation id of the controllers' roles, by which it
//! refuses older writers itself, and both numbers in the cookies of two flows, where an agent finds
//! them after a restart.
//!
//! A switch that is not connected is left out of readings, refuses writes, and counts as failed
//! after a grace time. The reason why it is not used stands in the log, in the refusal of a write,
//! and never in the way of other switches.
//!
//! Cables are found by frames that switches hand over: LLDP frames of other switches, and
//! announcements of hosts. Without a topology file, the fabric is what the TIC makes of them.

mod connection;
mod handshake;
mod lldp;
mod neighbors;
mod nodes;
mod options;
mod reach;
mod session;
mod switches;
mod watched;
mod ways;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::Hardware;
use fabricast_openflow::{EntryKey, Fence, Programs};
use fabricast_proto::v1;
use fabricast_rpc::{Reason, SecurityError, SwitchTls};
use fabricast_topology::{Graph, GraphBuilder, PortSet};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::parts::{out_ports, refusal, tell_failed, write_each};
use super::{DriverContext, DriverKind, OpenError, for_each};
use crate::driver::{Driver, DriverError, DriverStream, Written};
use neighbors::Neighbors;
use nodes::Nodes;
use options::Options;
use reach::Reach;
use session::WriteError;
use switches::{Stale, SwitchState, Switches};

pub(super) const KIND: DriverKind = DriverKind { name: "openflow", open };

fn open(context: &DriverContext<'_>) -> Result<Arc<dyn Driver>, OpenError> {
    let Hardware::Other { .. } = context.hardware else {
        unreachable!("the name of the driver is that of the settings");
    };
    let options: Options = context.options()?;
    options.check().map_err(OpenError::Options)?;
    let fabric = options.topology.as_deref().map(context.read_topology).transpose();
    let driver = OpenflowDriver::start(&options, fabric.map_err(OpenError::Topology)?)?;
    if let Some(address) = driver.address {
        tracing::info!(%address, "listening for switches");
    }
    Ok(Arc::new(driver))
}

/// Reason why the driver cannot be opened.
#[derive(Debug, Error)]
pub enum OpenflowError {
    /// Switches cannot connect.
    #[error("{address} cannot be listened on for switches")]
    Listen {
        /// Address in the settings.
        address: SocketAddr,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The certificates for switches cannot be used.
    #[error("switch_agent.driver_options.certificates cannot be used")]
    Certificates(#[source] SecurityError),
}

/// Programs OpenFlow switches.
#[derive(Clone)]
pub(super) struct OpenflowDriver {
    switches: Arc<Switches>,
    /// Address to which switches connect.
    address: Option<SocketAddr>,
    /// Time between two discoveries to be reported; `None` with a topology file.
    discovery_interval: Option<Duration>,
    /// Time at which all switches had the time to connect, and to hear each other.
    complete_at: Instant,
    /// Ends all tasks with the last clone.
    _stop: Arc<DropGuard>,
}

impl fmt::Debug for OpenflowDriver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.address;
        formatter.debug_struct("OpenflowDriver").field("address", address).finish_non_exhaustive()
    }
}

impl OpenflowDriver {
    /// Listens and connects.
    ///
    /// - `fabric`: the fabric as it ought to be; `None` to find it.
    fn start(options: &Options, fabric: Option<Arc<Graph>>) -> Result<Self, OpenError> {
        let interval = options.lldp_interval();
        let discovery_interval = interval.filter(|_| fabric.is_none());
        let (fabric, nodes) = match fabric {
            Some(fabric) => {
                let names = options.nodes(&fabric).map_err(OpenError::Options)?;
                (fabric, Nodes::of_file(names))
            }
            None => {
                let nothing = GraphBuilder::new().build().expect("no two names are equal");
                let descriptions = options.descriptions().map_err(OpenError::Options)?;
                (Arc::new(nothing), Nodes::Discovered { descriptions })
            }
        };
        let key = options.lldp_key.as_ref().map(|key| key.reveal());
        let neighbors = interval.map(|interval| Arc::new(Neighbors::new(interval, key)));
        let (mapping, grace) = (options.mapping(), options.grace);
        let switches = Arc::new(Switches::new(fabric, nodes, mapping, grace, neighbors));
        let stop = CancellationToken::new();
        let certificates = options.certificates.as_deref().map(SwitchTls::new).transpose();
        let certificates = certificates.map_err(OpenflowError::Certificates)?;
        let reach = Reach::new(Arc::clone(&switches), options.timeout, certificates, stop.clone());
        let mut bound = None;
        if let Some(address) = options.listen {
            let failed = |source| OpenflowError::Listen { address, source };
            let listener = listen(address).map_err(failed)?;
            bound = Some(listener.local_addr().map_err(failed)?);
            if options.certificates.is_none() && !address.ip().is_loopback() {
                tracing::warn!(%address, "switches connect without certificates");
            }
            tokio::spawn(reach.clone().listen(listener));
        }
        if options.fault_tolerant {
            tokio::spawn(ways::follow(Arc::clone(&switches), stop.clone()));
        }
        tokio::spawn(lldp::follow(Arc::clone(&switches), stop.clone()));
        for target in options.connect.clone() {
            tokio::spawn(reach.clone().connect(target));
        }
        Ok(Self {
            switches,
            address: bound,
            discovery_interval,
            complete_at: Instant::now() + grace + interval.unwrap_or_default(),
            _stop: Arc::new(stop.drop_guard()),
        })
    }

    fn check_names(&self, names: &[String]) -> Result<(), DriverError> {
        match names.iter().find(|name| !self.switches.is_known(name)) {
            Some(switch) => Err(DriverError::UnknownSwitch { switch: switch.clone() }),
            None => Ok(()),
        }
    }

    /// Reads the table of a switch; `None` if it does not answer.
    async fn read_table(&self, name: String) -> Option<v1::SwitchTable> {
        let session = self.switches.session(&name).ok()?;
        let found = match session.read().await {
            Ok(found) => found,
            Err(error) => {
                let reason = error.to_string();
                tracing::warn!(switch = name, reason, "table not read");
                return None;
            }
        };
        let entry = |(key, out): (EntryKey, PortSet)| v1::TableEntry {
            in_port: u32::from(key.in_port),
            color: u32::from(key.color),
            out_ports: out.iter().map(u32::from).collect(),
        };
        let entries = found.entries.into_iter().map(entry).collect();
        let fence = found.fence.max(self.switches.fence(&name));
        let fence = fence.map(|Fence { term, generation }| v1::Fence { term, generation });
        Some(v1::SwitchTable { switch_name: name, entries, fence })
    }

    async fn write(&self, fence: Fence, write: &v1::SwitchWrite) -> Result<(), v1::SwitchRefusal> {
        let refusal = |reason, message| refusal(&write.switch_name, reason, message);
        let down = |state: SwitchState| refusal(Reason::SwitchDown, state.to_string());
        let session = self.switches.session(&write.switch_name).map_err(down)?;
        let mut entries = BTreeMap::new();
        for entry in &write.entries {
            let Some((key, out)) = read_entry(entry, session.colors()) else {
                let v1::TableEntry { in_port, color, .. } = entry;
                let message = format!("in_port {in_port}, color {color} do not fit the switch");
                return Err(refusal(Reason::BadEntry, message));
            };
            entries.insert(key, out);
        }
        let written = session.write(fence, &entries).await;
        self.switches.note_write();
        written.map_err(|error| {
            let reason = match &error {
                WriteError::Closed(_) | WriteError::NoTable => Reason::SwitchDown,
                WriteError::Refused(_) | WriteError::NotKept { .. } => Reason::WriteFailed,
                WriteError::Stale { .. } => Reason::StaleFence,
            };
            refusal(reason, error.to_string())
        })
    }

    async fn counters(&self, name: String) -> Option<v1::SwitchCounters> {
        let session = self.switches.session(&name).ok()?;
        let counted = match session.counters().await {
            Ok(counted) => counted,
            Err(error) => {
                let reason = error.to_string();
                tracing::warn!(switch = name, reason, "counters not read");
                return None;
            }
        };
        let port = |port| {
            let none = v1::PortCounters { port, ..<_>::default() };
            counted.get(&port).copied().unwrap_or(none)
        };
        let ports = (1..=u32::from(self.switches.ports(&name))).map(port).collect();
        Some(v1::SwitchCounters { switch_name: name, ports })
    }
}

/// Reads an entry; `None` if it is not one of the switch.
fn read_entry(entry: &v1::TableEntry, colors: u16) -> Option<(EntryKey, PortSet)> {
    let in_port = u8::try_from(entry.in_port).ok()?;
    let color = u16::try_from(entry.color).ok().filter(|color| *color < colors)?;
    Some((EntryKey { in_port, color }, out_ports(entry)?))
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

#[tonic::async_trait]
impl Driver for OpenflowDriver {
    async fn list_switches(&self) -> Result<Vec<v1::Switch>, DriverError> {
        Ok(self.switches.list())
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
        let v1::Fence { term, generation } = fence;
        let fence = Fence { term, generation };
        let names = writes.iter().map(|write| write.switch_name.as_str());
        let raised = self.switches.raise_fence(names, fence);
        raised.map_err(|Stale| DriverError::StaleFence { term, generation })?;
        let write = |part: v1::SwitchWrite| {
            let driver = self.clone();
            async move { driver.write(fence, &part).await }
        };
        write_each("openflow", writes, write).await
    }

    async fn list_ports(&self, switch: &str) -> Result<Vec<v1::PortStatus>, DriverError> {
        let unknown = || DriverError::UnknownSwitch { switch: switch.to_owned() };
        let mut ports = self.switches.list_ports(switch).ok_or_else(unknown)?;
        if let Some(counters) = self.counters(switch.to_owned()).await {
            for (port, counted) in ports.iter_mut().zip(counters.ports) {
                port.received_packets = counted.received_packets;
                port.sent_packets = counted.sent_packets;
                port.dropped_packets = counted.dropped_packets;
            }
        }
        Ok(ports)
    }

    async fn read_counters(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchCounters>, DriverError> {
        self.check_names(&switches)?;
        let driver = self.clone();
        Ok(for_each(switches, move |name| {
            let driver = driver.clone();
            async move { driver.counters(name).await }
        }))
    }

    fn discovery_interval(&self) -> Option<Duration> {
        self.discovery_interval
    }

    async fn discover(&self) -> Result<Arc<Graph>, DriverError> {
        if self.switches.neighbors().is_none() {
            return Err(DriverError::NoDiscovery);
        }
        tokio::time::sleep_until(self.complete_at).await;
        let unavailable = |message: String| {
            let fabric = "openflow".to_owned();
            DriverError::Unavailable { fabric, message }
        };
        match self.switches.found() {
            Some(Ok(graph)) => Ok(Arc::new(graph)),
            Some(Err(error)) => Err(unavailable(error.to_string())),
            None => Err(unavailable("no switch is connected".to_owned())),
        }
    }

    fn expect(&self, fabric: Arc<Graph>) {
        self.switches.expect(fabric);
    }

    fn carries_programs(&self) -> bool {
        true
    }

    async fn carry_programs(&self, programs: Programs) {
        *self.switches.programs().lock() = Some(programs);
        let each = self
            .switches
            .sessions()
            .into_iter()
            .map(|session| tokio::spawn(async move { session.follow_programs().await }));
        for session in each.collect::<Vec<_>>() {
            // It has logged what failed.
            let _ = session.await;
        }
    }

    async fn watch_failed_elements(&self) -> Result<DriverStream<Vec<v1::Element>>, DriverError> {
        let (switches, mut changes) = (Arc::clone(&self.switches), self.switches.changes());
        // The first list comes when all are connected or had the time for it.
        while let (_, Some(next)) = switches.failed(Instant::now()) {
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
        let (sender, receiver) = watch::channel(switches.failed(Instant::now()).0);
        tokio::spawn(async move {
            loop {
                let (failed, next) = switches.failed(Instant::now());
                tell_failed(&sender, failed);
                let pause = async {
                    match next {
                        Some(next) => tokio::time::sleep_until(next).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = sender.closed() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                    () = pause => {}
                }
            }
        });
        Ok(Box::pin(WatchStream::new(receiver).map(Ok)))
    }
}

#[cfg(test)]
mod tests;
