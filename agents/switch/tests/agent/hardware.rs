//! Hardware made of a few variables: it outlives the agents that drive it.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_switch::{Driver, DriverError, DriverStream, Written};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

/// Two leaves under one spine; h1 at S-1, h2 at S-2, ports 1 to 2, spine S-3.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    switches: Arc<Mutex<BTreeMap<String, v1::SwitchTable>>>,
    reachable: Arc<watch::Sender<bool>>,
    /// True while no switch has started.
    empty: Arc<watch::Sender<bool>>,
    failed: Arc<watch::Sender<Vec<v1::Element>>>,
}

impl Hardware {
    pub(crate) fn new() -> Self {
        let table = |name: &str| v1::SwitchTable { switch_name: name.into(), ..<_>::default() };
        let switches = ["S-1", "S-2", "S-3"].map(|name| (name.to_owned(), table(name)));
        Self {
            switches: Arc::new(Mutex::new(switches.into())),
            reachable: Arc::new(watch::Sender::new(true)),
            empty: Arc::default(),
            failed: Arc::new(watch::Sender::new(Vec::new())),
        }
    }

    pub(crate) fn set_reachable(&self, reachable: bool) {
        self.reachable.send_replace(reachable);
    }

    pub(crate) fn set_empty(&self, empty: bool) {
        self.empty.send_replace(empty);
    }

    pub(crate) fn set_failed(&self, elements: &[v1::Element]) {
        self.failed.send_replace(elements.to_vec());
    }

    pub(crate) fn table(&self, switch: &str) -> v1::SwitchTable {
        self.switches.lock()[switch].clone()
    }

    fn reach(&self) -> Result<(), DriverError> {
        if *self.reachable.borrow() {
            return Ok(());
        }
        Err(DriverError::Unavailable { fabric: "here".into(), message: "off".into() })
    }
}

#[tonic::async_trait]
impl Driver for Hardware {
    async fn list_switches(&self) -> Result<Vec<v1::Switch>, DriverError> {
        self.reach()?;
        if *self.empty.borrow() {
            return Ok(Vec::new());
        }
        let names = ["S-1", "S-2", "S-3"];
        Ok(names
            .map(|name| v1::Switch {
                name: name.into(),
                port_count: 2,
                table_kind: v1::TableKind::PerPort.into(),
                colors: 8,
                live: true,
                ..<_>::default()
            })
            .into())
    }

    async fn read_tables(
        &self,
        switches: Vec<String>,
    ) -> Result<DriverStream<v1::SwitchTable>, DriverError> {
        self.reach()?;
        let tables: Vec<_> = switches.iter().map(|name| Ok(self.table(name))).collect();
        Ok(Box::pin(tokio_stream::iter(tables)))
    }

    async fn write_tables(
        &self,
        fence: v1::Fence,
        writes: Vec<v1::SwitchWrite>,
    ) -> Result<Written, DriverError> {
        self.reach()?;
        let mut switches = self.switches.lock();
        let order = |fence: v1::Fence| (fence.term, fence.generation);
        let newer = |write: &v1::SwitchWrite| {
            switches[&write.switch_name].fence.is_some_and(|known| order(known) > order(fence))
        };
        if writes.iter().any(newer) {
            let v1::Fence { term, generation } = fence;
            return Err(DriverError::StaleFence { term, generation });
        }
        let mut written = Written::default();
        for mut write in writes {
            let table = switches.get_mut(&write.switch_name).expect("checked by the agent");
            table.fence = Some(fence);
            written.entries += u64::try_from(write.entries.len()).expect("few");
            table.entries.append(&mut write.entries);
        }
        Ok(written)
    }

    async fn list_ports(&self, switch: &str) -> Result<Vec<v1::PortStatus>, DriverError> {
        self.reach()?;
        let port = |port, peer: &str, peer_port| v1::PortStatus {
            port,
            peer: peer.into(),
            peer_port,
            ..<_>::default()
        };
        Ok(match switch {
            "S-1" => vec![port(1, "h1", 0), port(2, "S-3", 1)],
            "S-2" => vec![port(1, "h2", 0), port(2, "S-3", 2)],
            _ => vec![port(1, "S-1", 2), port(2, "S-2", 2)],
        })
    }

    async fn watch_failed_elements(&self) -> Result<DriverStream<Vec<v1::Element>>, DriverError> {
        self.reach()?;
        Ok(Box::pin(WatchStream::new(self.failed.subscribe()).map(Ok)))
    }
}
