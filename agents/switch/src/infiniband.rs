//! The driver for InfiniBand switches: management packets through libibumad, on directed routes or by LID.
//!
//! A switch has one multicast table, so tables are per switch, and a color `c` is the multicast
//! LID 0xC000 + [`InfinibandOptions::first_entry`] + c. Nothing but multicast forwarding tables is
//! written: a subnet manager may run beside it, as long as it leaves those alone
//! (`disable_multicast TRUE` in OpenSM). Port counters are read by LID, so there are none before a
//! subnet manager has given LIDs.
//!
//! Hardware keeps no fence, so this driver does, in memory: after a restart it takes the first
//! writer that comes, until a newer one has written.

mod counters;
mod fabric;
mod reach;
mod tables;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fabricast_infiniband::{Attribute, Node, PortInfo};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::Graph;
use fabricast_umad::{Port, UmadError};
use thiserror::Error;
use tokio::sync::{Mutex, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;
use tonic::Status;

use crate::driver::{Driver, DriverError, DriverStream, Written};
use fabric::Fabric;
pub use reach::Routing;
use reach::{Reach, Request};
use tables::{TableError, Window};
use wire::{PatientPort, Wire};

/// Settings of the driver.
#[derive(Clone, Debug)]
pub struct InfinibandOptions {
    /// Adapter, such as `mlx5_0`; none takes the first with an active port.
    pub adapter: Option<String>,
    /// Port of the adapter, 0 for the first active one.
    pub port: u8,
    /// Management key of the switches; 0 where there is none.
    pub key: u64,
    /// Table entry of color 0. Entry 0 is the IPoIB broadcast group's where OpenSM runs.
    pub first_entry: u16,
    /// Entries to use at most; none takes all that a switch has.
    pub colors: Option<u16>,
    /// The fabric as it ought to be: what is missing of it has failed. None takes what the first
    /// discovery finds.
    pub expected: Option<Arc<Graph>>,
    /// Time between two looks at the fabric.
    pub sweep: Duration,
    /// How long a switch has to answer, and how often it is asked again.
    pub patience: (Duration, u16),
    /// What switches are asked by; discovery takes directed routes always.
    pub routing: Routing,
}

impl Default for InfinibandOptions {
    fn default() -> Self {
        Self {
            adapter: None,
            port: 0,
            key: 0,
            first_entry: 1,
            colors: None,
            expected: None,
            sweep: Duration::from_secs(2),
            patience: (Duration::from_millis(200), 3),
            routing: Routing::default(),
        }
    }
}

/// Why there is no driver.
#[derive(Debug, Error)]
pub enum InfinibandError {
    /// The port cannot be opened.
    #[error("the InfiniBand port cannot be opened")]
    Open(#[from] UmadError),
}

/// Programs InfiniBand switches.
#[derive(Clone)]
pub struct InfinibandDriver {
    options: Arc<InfinibandOptions>,
    wire: Wire,
    fabric: Arc<Mutex<Option<Arc<Fabric>>>>,
    fences: Arc<Mutex<BTreeMap<String, v1::Fence>>>,
    /// The fabric as it ought to be, if anybody has said so.
    expected: Arc<RwLock<Option<Arc<Graph>>>>,
}

impl fmt::Debug for InfinibandDriver {
    // The management key stays out of logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let adapter = &self.options.adapter;
        formatter.debug_struct("InfinibandDriver").field("adapter", adapter).finish_non_exhaustive()
    }
}

impl InfinibandDriver {
    /// Opens the port; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`InfinibandError`] if libibumad or the port cannot be used.
    pub fn open(options: InfinibandOptions) -> Result<Self, InfinibandError> {
        let port = Port::open(options.adapter.as_deref(), options.port)?;
        let (timeout, retries) = options.patience;
        let wire = Wire::start(PatientPort { port, timeout, retries });
        Ok(Self::over(wire, options))
    }

    fn over(wire: Wire, options: InfinibandOptions) -> Self {
        let expected = Arc::new(RwLock::new(options.expected.clone()));
        let (fabric, fences) = (Arc::default(), Arc::default());
        Self { options: Arc::new(options), wire, fabric, fences, expected }
    }

    /// Looks at the subnet anew.
    async fn look(&self) -> Result<Arc<Fabric>, DriverError> {
        let mut known = self.fabric.lock().await;
        let said = self.expected.read().unwrap_or_else(PoisonError::into_inner).clone();
        let expected = said.or_else(|| Some(Arc::clone(known.as_ref()?.expected())));
        let fabric = Fabric::discover(&self.wire, self.options.key, expected).await;
        let mut fabric = fabric.map_err(|why| self.unavailable(&why))?;
        if self.options.routing == Routing::Lid {
            fabric.find_lids(&self.wire, self.options.key).await;
        }
        let fabric = Arc::new(fabric);
        *known = Some(Arc::clone(&fabric));
        Ok(fabric)
    }

    /// Gives the subnet as it was seen last.
    async fn known(&self) -> Result<Arc<Fabric>, DriverError> {
        let known = self.fabric.lock().await.clone();
        match known {
            Some(fabric) => Ok(fabric),
            None => self.look().await,
        }
    }

    fn unavailable(&self, why: &dyn fmt::Display) -> DriverError {
        let adapter = self.options.adapter.as_deref().unwrap_or("the first active adapter");
        DriverError::Unavailable {
            fabric: adapter.to_owned(),
            source: Status::unavailable(why.to_string()),
        }
    }

    fn window(&self, node: &Node) -> Window {
        let capacity = node.switch.map_or(0, |info| info.multicast_entries);
        let room = capacity.saturating_sub(self.options.first_entry);
        let colors = self.options.colors.map_or(room, |colors| colors.min(room));
        Window { first: self.options.first_entry, colors }
    }

    async fn reach<'a>(&'a self, fabric: &Fabric, node: &'a Node) -> Reach<'a> {
        Reach::to(&self.wire, node, fabric.lid(node), self.options.key).await
    }

    async fn switch(&self, fabric: &Fabric, node: &Node) -> v1::Switch {
        let window = self.window(node);
        let used = tables::read(&mut self.reach(fabric, node).await, window).await;
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

    /// Writes a switch's part; once more by a new route if nobody answers on the old one.
    async fn write(&self, write: &v1::SwitchWrite) -> Result<(), TableError> {
        let mut lost = TableError::Unreachable;
        for attempt in 0..2 {
            let fabric = if attempt == 0 { self.known().await } else { self.look().await };
            let fabric = fabric.map_err(|_| TableError::Unreachable)?;
            let node = fabric.switch(&write.switch_name).ok_or(TableError::Unreachable)?;
            let mut reach = self.reach(&fabric, node).await;
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
        let fabric = self.look().await?;
        let mut switches = Vec::new();
        for node in fabric.switches() {
            switches.push(self.switch(&fabric, node).await);
        }
        switches.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(switches)
    }

    async fn read_tables(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchTable>, DriverError> {
        let fabric = self.known().await?;
        if let Some(switch) = switches.iter().find(|name| fabric.switch(name).is_none()) {
            return Err(DriverError::UnknownSwitch { switch: switch.clone() });
        }
        let driver = self.clone();
        let (tables, reading) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            for name in switches {
                let Some(node) = fabric.switch(&name) else { continue };
                let mut reach = driver.reach(&fabric, node).await;
                let table = tables::read(&mut reach, driver.window(node)).await;
                let fence = driver.fences.lock().await.get(&name).copied();
                let table = table
                    .map(|entries| v1::SwitchTable { switch_name: name.clone(), entries, fence })
                    .map_err(|why| driver.unavailable(&format!("{name}: {why}")));
                if tables.send(table).await.is_err() {
                    return; // nobody reads any more
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
        // Held to the end: of two writers the newer one has the last word.
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
                Err(error) => written.refusals.push(v1::SwitchRefusal {
                    switch_name: write.switch_name,
                    reason: Reason::SwitchDown.text().to_owned(),
                    message: error.to_string(),
                }),
            }
        }
        Ok(written)
    }

    async fn list_ports(&self, switch: &str) -> Result<Vec<v1::PortStatus>, DriverError> {
        let fabric = self.known().await?;
        let node = fabric
            .switch(switch)
            .ok_or_else(|| DriverError::UnknownSwitch { switch: switch.to_owned() })?;
        let ask = |number: u8| Request::get(Attribute::PortInfo, number.into());
        let requests: Vec<Request> = (1..=node.info.ports).map(ask).collect();
        let answers = self.reach(&fabric, node).await.ask(&requests).await;
        let mut ports = Vec::with_capacity(answers.len());
        for (number, answer) in (1u8..).zip(answers) {
            let data = answer.map_err(|why| self.unavailable(&format!("{switch}: {why}")))?;
            let live = PortInfo::read(&data).is_ok_and(|info| info.has_link());
            let (peer, peer_port) = fabric.peer(switch, number);
            let port = u32::from(number);
            ports.push(v1::PortStatus { port, peer, peer_port, live, ..<_>::default() });
        }
        Ok(ports)
    }

    async fn read_counters(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchCounters>, DriverError> {
        let fabric = self.known().await?;
        if let Some(switch) = switches.iter().find(|name| fabric.switch(name).is_none()) {
            return Err(DriverError::UnknownSwitch { switch: switch.clone() });
        }
        let nodes: Vec<&Node> = switches.iter().filter_map(|name| fabric.switch(name)).collect();
        let lids = reach::lids(&self.wire, &nodes, self.options.key).await;
        if lids.iter().all(|lid| *lid == Some(0)) {
            return Err(DriverError::NoCounters);
        }
        let driver = self.clone();
        let (telling, told) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            let nodes = switches.iter().filter_map(|name| fabric.switch(name));
            for (node, lid) in nodes.zip(lids) {
                let Some(lid) = lid.filter(|lid| *lid > 0) else { continue };
                let Some(counters) = counters::read(&driver.wire, node, lid).await else {
                    continue;
                };
                if telling.send(Ok(counters)).await.is_err() {
                    return; // nobody reads any more
                }
            }
        });
        Ok(Box::pin(tokio_stream::wrappers::ReceiverStream::new(told)))
    }

    async fn discover(&self) -> Result<Arc<Graph>, DriverError> {
        Ok(Arc::clone(self.look().await?.graph()))
    }

    fn expect(&self, fabric: Arc<Graph>) {
        *self.expected.write().unwrap_or_else(PoisonError::into_inner) = Some(fabric);
    }

    async fn watch_failed_elements(&self) -> Result<DriverStream<Vec<v1::Element>>, DriverError> {
        let first = self.look().await?.failed();
        let (telling, told) = watch::channel(first);
        let driver = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = telling.closed() => return,
                    () = tokio::time::sleep(driver.options.sweep) => {}
                }
                match driver.look().await {
                    Ok(fabric) => {
                        let now = fabric.failed();
                        telling.send_if_modified(|before| {
                            let changed = *before != now;
                            if changed {
                                *before = now;
                            }
                            changed
                        });
                    }
                    // The stream ends; whoever follows it asks again.
                    Err(error) => return tracing::debug!(%error, "fabric not seen"),
                }
            }
        });
        Ok(Box::pin(WatchStream::new(told).map(Ok)))
    }
}

#[cfg(test)]
mod tests;
