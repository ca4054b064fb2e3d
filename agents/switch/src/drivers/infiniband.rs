//! The driver for InfiniBand switches: management packets through libibumad, on directed routes or
//! by LID.
//!
//! A switch has one multicast table, so tables are per switch. Color `c` is the multicast LID
//! 0xC000 + [`InfinibandConfig::first_entry`] + c. The driver writes multicast forwarding tables
//! and nothing else: a subnet manager may run beside it if it leaves those alone
//! (`disable_multicast TRUE` in OpenSM). Port counters are read by LID, so there are none before a
//! subnet manager has assigned LIDs.
//!
//! Hardware keeps no fence, so this driver does, in memory. After a restart it accepts the first
//! writer, until a newer one has written.

mod counters;
mod packets;
mod reach;
mod subnet;
mod tables;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::{Hardware, InfinibandConfig, RoutingName};
use fabricast_infiniband::{Attribute, Node, PortInfo};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::Graph;
use fabricast_umad::{Port, UmadError};
use parking_lot::RwLock;
use thiserror::Error;
use tokio::sync::{Mutex, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

use super::parts::{refusal, tell_failed};
use super::{DriverContext, DriverKind, OpenError};
use crate::driver::{Driver, DriverError, DriverStream, Written};
use packets::{PacketSender, RetryingPort};
use reach::{Reach, Request};
use subnet::ObservedSubnet;
use tables::{TableError, Window};

pub(super) const KIND: DriverKind = DriverKind { name: "infiniband", open };

fn open(context: &DriverContext<'_>) -> Result<Arc<dyn Driver>, OpenError> {
    let Hardware::Infiniband(config) = context.hardware else {
        unreachable!("the name of the driver is that of the settings");
    };
    let expected = config.topology.as_deref().map(context.read_topology).transpose();
    let expected = expected.map_err(OpenError::Topology)?;
    Ok(Arc::new(InfinibandDriver::open(config.clone(), expected)?))
}

/// Reason why the driver cannot be opened.
#[derive(Debug, Error)]
pub enum InfinibandError {
    /// The port cannot be opened.
    #[error("the InfiniBand port cannot be opened")]
    Open(#[from] UmadError),
}

/// Programs InfiniBand switches.
#[derive(Clone)]
pub struct InfinibandDriver {
    config: Arc<InfinibandConfig>,
    sender: PacketSender,
    subnet: Arc<Mutex<Option<Arc<ObservedSubnet>>>>,
    fences: Arc<Mutex<BTreeMap<String, v1::Fence>>>,
    /// Expected fabric, if it is configured or was set.
    expected: Arc<RwLock<Option<Arc<Graph>>>>,
}

impl fmt::Debug for InfinibandDriver {
    // The management key stays out of logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let adapter = &self.config.adapter;
        formatter.debug_struct("InfinibandDriver").field("adapter", adapter).finish_non_exhaustive()
    }
}

impl InfinibandDriver {
    /// Opens the port; nothing is sent yet.
    ///
    /// - `expected`: parts of it that are missing have failed; `None` to expect what the first
    ///   discovery finds.
    ///
    /// # Errors
    ///
    /// [`InfinibandError`] if libibumad or the port cannot be used.
    pub fn open(
        config: InfinibandConfig,
        expected: Option<Arc<Graph>>,
    ) -> Result<Self, InfinibandError> {
        let port = Port::open(config.adapter.as_deref(), config.port)?;
        let InfinibandConfig { timeout, retries, .. } = config;
        let sender = PacketSender::start(RetryingPort { port, timeout, retries });
        Ok(Self::new(sender, config, expected))
    }

    fn new(sender: PacketSender, config: InfinibandConfig, expected: Option<Arc<Graph>>) -> Self {
        let expected = Arc::new(RwLock::new(expected));
        let (subnet, fences) = (Arc::default(), Arc::default());
        Self { config: Arc::new(config), sender, subnet, fences, expected }
    }

    /// Discovers the subnet.
    async fn rediscover(&self) -> Result<Arc<ObservedSubnet>, DriverError> {
        let mut known = self.subnet.lock().await;
        let configured = self.expected.read().clone();
        let expected = configured.or_else(|| Some(Arc::clone(known.as_ref()?.expected())));
        let subnet =
            ObservedSubnet::discover(&self.sender, self.config.management_key, expected).await;
        let mut subnet = subnet.map_err(|error| self.unavailable(&error))?;
        if self.config.routing == RoutingName::Lid {
            subnet.find_lids(&self.sender, self.config.management_key).await;
        }
        let subnet = Arc::new(subnet);
        *known = Some(Arc::clone(&subnet));
        Ok(subnet)
    }

    /// Returns the subnet as of the last discovery.
    async fn last_subnet(&self) -> Result<Arc<ObservedSubnet>, DriverError> {
        let known = self.subnet.lock().await.clone();
        match known {
            Some(subnet) => Ok(subnet),
            None => self.rediscover().await,
        }
    }

    fn unavailable(&self, error: &dyn fmt::Display) -> DriverError {
        let adapter = self.config.adapter.as_deref().unwrap_or("the first active adapter");
        DriverError::Unavailable { fabric: adapter.to_owned(), message: error.to_string() }
    }

    fn window(&self, node: &Node) -> Window {
        let capacity = node.switch.map_or(0, |info| info.multicast_entries);
        let room = capacity.saturating_sub(self.config.first_entry);
        let colors = self.config.colors.map_or(room, |colors| colors.min(room));
        Window { first: self.config.first_entry, colors }
    }

    async fn reach<'a>(&'a self, subnet: &ObservedSubnet, node: &'a Node) -> Reach<'a> {
        Reach::to(&self.sender, node, subnet.lid(node), self.config.management_key).await
    }

    async fn switch(&self, subnet: &ObservedSubnet, node: &Node) -> v1::Switch {
        let window = self.window(node);
        let used = tables::read(&mut self.reach(subnet, node).await, window).await;
        v1::Switch {
            name: node.name(),
            description: node.description.clone(),
            port_count: u32::from(node.info.ports),
            table_kind: v1::TableKind::PerSwitch.into(),
            colors: u32::from(window.colors),
            live: used.is_ok(),
            used_entries: used
                .map_or(0, |entries| u32::try_from(entries.len()).unwrap_or(u32::MAX)),
        }
    }

    /// Writes the part of a switch. If the switch does not answer, discovers the subnet and tries
    /// once more on the new route.
    async fn write(&self, write: &v1::SwitchWrite) -> Result<(), TableError> {
        let mut lost = TableError::Unreachable;
        for attempt in 0..2 {
            let subnet =
                if attempt == 0 { self.last_subnet().await } else { self.rediscover().await };
            let subnet = subnet.map_err(|_| TableError::Unreachable)?;
            let node = subnet.switch(&write.switch_name).ok_or(TableError::Unreachable)?;
            let mut reach = self.reach(&subnet, node).await;
            match tables::write(&mut reach, self.window(node), &write.entries).await {
                Err(error @ TableError::Unreachable) => lost = error,
                ended => return ended,
            }
        }
        Err(lost)
    }
}

#[tonic::async_trait]
impl Driver for InfinibandDriver {
    async fn list_switches(&self) -> Result<Vec<v1::Switch>, DriverError> {
        let subnet = self.rediscover().await?;
        let mut switches = Vec::new();
        for node in subnet.switches() {
            switches.push(self.switch(&subnet, node).await);
        }
        switches.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(switches)
    }

    async fn read_tables(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchTable>, DriverError> {
        let subnet = self.last_subnet().await?;
        if let Some(switch) = switches.iter().find(|name| subnet.switch(name).is_none()) {
            return Err(DriverError::UnknownSwitch { switch: switch.clone() });
        }
        let driver = self.clone();
        let (tables, reading) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            for name in switches {
                let Some(node) = subnet.switch(&name) else { continue };
                let mut reach = driver.reach(&subnet, node).await;
                let table = tables::read(&mut reach, driver.window(node)).await;
                let fence = driver.fences.lock().await.get(&name).copied();
                let table = table
                    .map(|entries| v1::SwitchTable { switch_name: name.clone(), entries, fence })
                    .map_err(|error| driver.unavailable(&format!("{name}: {error}")));
                if tables.send(table).await.is_err() {
                    return; // the reader has gone away
                }
            }
        });
        Ok(Box::pin(tokio_stream::wrappers::ReceiverStream::new(reading)))
    }

    async fn write_tables(
        &self,
        fence: v1::Fence,
        writes: Vec<v1::SwitchWrite>,
    ) -> Result<Written, DriverError> {
        // Locked until all is written: of two writers the newer one comes last.
        let mut fences = self.fences.lock().await;
        let order = |fence: &v1::Fence| (fence.term, fence.generation);
        let is_stale = |write: &v1::SwitchWrite| {
            fences.get(&write.switch_name).is_some_and(|known| order(known) > order(&fence))
        };
        if writes.iter().any(is_stale) {
            let v1::Fence { term, generation } = fence;
            return Err(DriverError::StaleFence { term, generation });
        }
        let mut written = Written::default();
        for write in writes {
            match self.write(&write).await {
                Ok(()) => {
                    written.entries += u64::try_from(write.entries.len()).unwrap_or(u64::MAX);
                    fences.insert(write.switch_name, fence);
                }
                Err(error) => {
                    let message = error.to_string();
                    let refusal = refusal(&write.switch_name, Reason::SwitchDown, message);
                    written.refusals.push(refusal);
                }
            }
        }
        Ok(written)
    }

    async fn list_ports(&self, switch: &str) -> Result<Vec<v1::PortStatus>, DriverError> {
        let subnet = self.last_subnet().await?;
        let node = subnet
            .switch(switch)
            .ok_or_else(|| DriverError::UnknownSwitch { switch: switch.to_owned() })?;
        let request = |number: u8| Request::get(Attribute::PortInfo, number.into());
        let requests: Vec<Request> = (1..=node.info.ports).map(request).collect();
        let answers = self.reach(&subnet, node).await.request(&requests).await;
        let mut ports = Vec::with_capacity(answers.len());
        for (number, answer) in (1u8..).zip(answers) {
            let data = answer.map_err(|error| self.unavailable(&format!("{switch}: {error}")))?;
            let live = PortInfo::read(&data).is_ok_and(|info| info.has_link());
            let (peer, peer_port) = subnet.peer(switch, number);
            let port = u32::from(number);
            ports.push(v1::PortStatus { port, peer, peer_port, live, ..<_>::default() });
        }
        Ok(ports)
    }

    async fn read_counters(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchCounters>, DriverError> {
        let subnet = self.last_subnet().await?;
        if let Some(switch) = switches.iter().find(|name| subnet.switch(name).is_none()) {
            return Err(DriverError::UnknownSwitch { switch: switch.clone() });
        }
        let nodes: Vec<&Node> = switches.iter().filter_map(|name| subnet.switch(name)).collect();
        let lids = reach::lids(&self.sender, &nodes, self.config.management_key).await;
        if lids.iter().all(|lid| *lid == Some(0)) {
            return Err(DriverError::NoCounters);
        }
        let driver = self.clone();
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            let nodes = switches.iter().filter_map(|name| subnet.switch(name));
            for (node, lid) in nodes.zip(lids) {
                let Some(lid) = lid.filter(|lid| *lid > 0) else { continue };
                let Some(counters) = counters::read(&driver.sender, node, lid).await else {
                    continue;
                };
                if sender.send(Ok(counters)).await.is_err() {
                    return; // the reader has gone away
                }
            }
        });
        Ok(Box::pin(tokio_stream::wrappers::ReceiverStream::new(receiver)))
    }

    fn discovery_interval(&self) -> Option<Duration> {
        self.config.report_topology.then_some(self.config.sweep)
    }

    async fn discover(&self) -> Result<Arc<Graph>, DriverError> {
        Ok(Arc::clone(self.rediscover().await?.graph()))
    }

    fn expect(&self, fabric: Arc<Graph>) {
        *self.expected.write() = Some(fabric);
    }

    async fn watch_failed_elements(&self) -> Result<DriverStream<Vec<v1::Element>>, DriverError> {
        let first = self.rediscover().await?.failed();
        let (sender, receiver) = watch::channel(first);
        let driver = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sender.closed() => return,
                    () = tokio::time::sleep(driver.config.sweep) => {}
                }
                match driver.rediscover().await {
                    Ok(subnet) => tell_failed(&sender, subnet.failed()),
                    // The stream ends, and its reader opens another.
                    Err(error) => return tracing::debug!(%error, "subnet not discovered"),
                }
            }
        });
        Ok(Box::pin(WatchStream::new(receiver).map(Ok)))
    }
}

#[cfg(test)]
mod tests;
