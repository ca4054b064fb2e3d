//! All parts of one cluster, started separately.
//!
//! ```text
//!   fabric ◄── switch agents ◄── router ──► TIC (file) ◄── operating agents ──► fabric
//! ```

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::{
    RawFabricConfig, RawOperatingAgentConfig, RawSwitchAgentConfig, RawTicConfig, TicConfig,
    checked,
};
use fabricast_groups::flaps::FlapDamping;
use fabricast_groups::ids::{Gn, Pn};
use fabricast_groups::names::NodeName;
use fabricast_groups::watch::WatchConfig;
use fabricast_operating::{MemberEvents, MemberHandle};
use fabricast_proto::v1;
use fabricast_routing::EngineKind;
use fabricast_rpc::{Peer, Security};
use fabricast_tic::{Setup, StoreLocation, TopologySource};
use fabricast_topology::{Faults, ibnetdiscover};

use crate::audit::audit;
use crate::client::{Client, color_of};
use crate::layout::Layout;
use crate::part::{Bound, Part};
use crate::starters::{DETECTOR, MessagesOfAgent, REPORT_INTERVAL, operating_agent, router};
use crate::traffic::Traffic;
use crate::trees::member_tables_agree;
use crate::wait::eventually;

/// Management key of the fabric.
pub const MANAGEMENT_KEY: &str = "integration";
/// Name of the topology in settings; no part reads it from a file.
const IN_MEMORY: &str = "in memory";
/// File name of an embedded store.
const STORE: &str = "tic.redb";
/// The shortest lease that etcd grants.
const LEADER_LEASE: Duration = Duration::from_secs(2);

/// The parts that the others are started on.
struct Base {
    fabric: Part,
    tics: Vec<Part>,
    store: tempfile::TempDir,
}

/// A running cluster; all parts end when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// Layout that the cluster was made from.
    pub layout: Layout,
    /// The emulated fabric.
    pub fabric: Part,
    /// The first TIC.
    pub tic: Part,
    /// The other TICs.
    pub other_tics: Vec<Part>,
    /// The switch agents.
    pub switches: Vec<Part>,
    /// The first route service.
    pub router: Part,
    /// The other route services.
    pub other_routers: Vec<Part>,
    /// The operating agent processes, in the order of the layout.
    pub operating: Vec<Part>,
    /// Clients of all parts.
    pub client: Client,
    messages: Vec<MessagesOfAgent>,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Starts all parts and waits until all nodes are up.
    ///
    /// # Panics
    ///
    /// If a part cannot start.
    pub async fn start(layout: Layout) -> Self {
        let fabric = start_fabric(&layout).await;
        let store = tempfile::tempdir().expect("a folder");
        let tics = start_tics(&layout, store.path().join(STORE)).await;
        let tic_addresses = addresses(&tics);
        let names: Vec<String> = layout
            .graph
            .switches()
            .map(|switch| layout.graph.switch_name(switch).to_owned())
            .collect();
        let mut switches = Vec::new();
        for share in names.chunks(names.len().div_ceil(layout.switch_agents)) {
            // An agent that has all switches needs no list.
            let share = if share.len() == names.len() { &[] } else { share };
            let name = format!("switch-agent-{}", switches.len());
            let (fabric, tics) = (fabric.address(), &tic_addresses);
            switches.push(start_switch_agent(&name, share, fabric, MANAGEMENT_KEY, tics).await);
        }
        let addresses = addresses(&switches);
        let base = Base { fabric, tics, store };
        Self::start_others(layout, base, switches, addresses).await
    }

    /// Starts all parts but the switch agents, which program other hardware. Packets of the nodes
    /// still go through the emulated fabric, whose tables stay empty.
    ///
    /// - `agents`: starts the switch agents, given the address of the TIC.
    ///
    /// # Panics
    ///
    /// If a part cannot start.
    pub async fn start_over(
        layout: Layout,
        agents: impl AsyncFnOnce(SocketAddr) -> Vec<SocketAddr>,
    ) -> Self {
        let fabric = start_fabric(&layout).await;
        let store = tempfile::tempdir().expect("a folder");
        let tics = start_tics(&layout, store.path().join(STORE)).await;
        let addresses = agents(tics[0].address()).await;
        let base = Base { fabric, tics, store };
        Self::start_others(layout, base, Vec::new(), addresses).await
    }

    async fn start_others(
        layout: Layout,
        Base { fabric, mut tics, store }: Base,
        switches: Vec<Part>,
        switch_agents: Vec<SocketAddr>,
    ) -> Self {
        let agents: Vec<String> = switch_agents.iter().map(ToString::to_string).collect();
        let tic_addresses = addresses(&tics);
        let mut routers = Vec::new();
        for _ in 0..layout.routers {
            routers.push(router(&layout, &tic_addresses, agents.clone()).await);
        }
        let (mut operating, mut messages) = (Vec::new(), Vec::new());
        for (index, nodes) in layout.hosts.iter().enumerate() {
            let name = format!("operating-{index}");
            let settings = RawOperatingAgentConfig {
                tic: tic_addresses.iter().collect(),
                fabric: match layout.has_direct_paths {
                    true => "none".to_owned(),
                    false => fabric.address().to_string(),
                },
                socket: Some(store.path().join(format!("{name}.sock"))),
                shared_memory: layout.shared_memory.clone().unwrap_or_default(),
                report_interval: REPORT_INTERVAL,
                color_addresses: Layout::color_addresses().to_string(),
                ..RawOperatingAgentConfig::default()
            };
            let (part, its_messages) =
                operating_agent(&name, nodes, settings, &layout.process_rules).await;
            operating.push(part);
            messages.push(its_messages);
        }
        let client = Client::new(
            [fabric.address(), tic_addresses[0], routers[0].address()],
            &switch_agents,
            &layout.hosts.iter().cloned().zip(addresses(&operating)).collect::<Vec<_>>(),
        )
        .with_standbys(&tic_addresses, &addresses(&routers));
        client.all_up(layout.hosts.iter().map(Vec::len).sum()).await;
        let (other_tics, other_routers) = (tics.split_off(1), routers.split_off(1));
        let (tic, router) = (tics.remove(0), routers.remove(0));
        Self {
            layout,
            fabric,
            tic,
            other_tics,
            switches,
            router,
            other_routers,
            operating,
            client,
            messages,
            folder: store,
        }
    }

    /// Socket of an operating agent process, where processes of its nodes attach.
    #[must_use]
    pub fn socket(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("operating-{index}.sock"))
    }

    /// The same cluster with another engine: a new route service at another address replaces the
    /// old one.
    ///
    /// # Panics
    ///
    /// If it cannot start.
    pub async fn with_engine(mut self, engine: EngineKind) -> Self {
        self.router.kill();
        self.layout.engine = engine;
        let agents = addresses(&self.switches);
        let named = agents.iter().map(ToString::to_string).collect();
        self.router = router(&self.layout, &[self.tic.address()], named).await;
        let parts = [self.fabric.address(), self.tic.address(), self.router.address()];
        let hosts: Vec<_> =
            self.layout.hosts.iter().cloned().zip(addresses(&self.operating)).collect();
        self.client = Client::new(parts, &agents, &hosts);
        self
    }

    /// Lets a member take part in its group's messages.
    ///
    /// # Panics
    ///
    /// If its agent refuses.
    #[must_use]
    pub fn open_member(&self, member: &v1::Membership) -> (MemberHandle, MemberEvents) {
        let home = self.client.homes[&member.node];
        let messages = self.messages[home].lock().clone();
        let node = NodeName::new(&member.node).expect("a name");
        let (gn, pn) = (Gn(member.gn), Pn(member.pn));
        let opened = messages.expect("the process was started").open_member(&node, gn, pn);
        opened.expect("the member takes no part yet")
    }

    /// File of the TIC's store, if it is embedded.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.folder.path().join(STORE)
    }

    /// Waits until no change is in flight, then checks all that must hold: tables against groups
    /// (R1, R2, R4), member tables and trees (G2), and a packet from every member.
    ///
    /// - `faults`: parts that are broken now.
    ///
    /// # Panics
    ///
    /// If it does not come about.
    pub async fn is_whole(&self, traffic: &Traffic, faults: &Faults) {
        let client = &self.client;
        eventually("tables, groups, trees and packets are right", async || {
            client.is_settled().await?;
            audit(client, &self.layout, faults).await?;
            member_tables_agree(client).await?;
            let groups = client.groups().await;
            let routed: Vec<_> = groups
                .into_iter()
                .filter(|group| color_of(group.route.as_ref()).is_some())
                .collect();
            traffic.round(&routed).await
        })
        .await;
    }
}

fn addresses(parts: &[Part]) -> Vec<SocketAddr> {
    parts.iter().map(Part::address).collect()
}

pub(crate) fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

/// Starts an emulated fabric alone.
///
/// # Panics
///
/// If it cannot start.
pub async fn start_fabric(layout: &Layout) -> Part {
    let layout = layout.clone();
    Part::start("fabric", move |listen| {
        let config = checked(RawFabricConfig {
            listen,
            topology: Some(IN_MEMORY.into()),
            tables: layout.tables,
            colors: layout.colors,
            management_key: Some(MANAGEMENT_KEY.to_owned()),
            ..RawFabricConfig::default()
        });
        let graph = Arc::clone(&layout.graph);
        async {
            let config = config.map_err(text)?;
            let app = fabricast_fabric::App::bind(&config, Security::plaintext(), graph);
            let app = app.map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}

async fn start_tics(layout: &Layout, file: PathBuf) -> Vec<Part> {
    let (count, store) = match &layout.tics {
        Some((count, url)) => (*count, url.parse().expect("the URL of a store")),
        None => (1, StoreLocation::File(file)),
    };
    let mut tics = Vec::new();
    for _ in 0..count {
        tics.push(tic(layout, store.clone()).await);
    }
    tics
}

async fn tic(layout: &Layout, store: StoreLocation) -> Part {
    let layout = layout.clone();
    let topology: Arc<str> = ibnetdiscover::write(&layout.graph).into();
    Part::start("tic", move |listen| {
        let source = match layout.discovered {
            false => TopologySource::File(Arc::clone(&topology), Arc::clone(&layout.graph)),
            true => TopologySource::Discovered,
        };
        let config = checked(RawTicConfig {
            listen,
            store: Some(store.to_string()),
            topology: Some(IN_MEMORY.into()),
            colors: layout.colors,
            fault_tolerant: layout.fault_tolerant,
            tables: layout.tables,
            route_lease: layout.route_lease,
            leader_lease: LEADER_LEASE,
            ..RawTicConfig::default()
        });
        async {
            let (watch, damping) = (WatchConfig::new(DETECTOR), FlapDamping::default());
            let config = TicConfig { watch, damping, ..config.map_err(text)? };
            let app = fabricast_tic::App::bind(Setup::new(config, source)).await.map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}

/// Starts a switch agent alone.
///
/// - `switches`: node ids; none means all.
/// - `fabric`: address of the emulated fabric.
/// - `key`: its management key.
///
/// # Panics
///
/// If it cannot start.
pub async fn start_switch_agent(
    name: &str,
    switches: &[String],
    fabric: SocketAddr,
    key: &'static str,
    tics: &[SocketAddr],
) -> Part {
    let settings = RawSwitchAgentConfig {
        name: Some(name.to_owned()),
        tic: tics.iter().collect(),
        fabric: fabric.to_string(),
        management_key: Some(key.to_owned()),
        switches: Some(switches.to_vec()).filter(|switches| !switches.is_empty()),
        ..RawSwitchAgentConfig::default()
    };
    Part::start("switch-agent", move |listen| {
        let config = checked(RawSwitchAgentConfig { listen, ..settings.clone() });
        async move {
            let fabric = Peer::new(&fabric.to_string()).map_err(text)?;
            let driver = Arc::new(fabricast_switch::EmulatedDriver::new(fabric, key));
            let config = config.map_err(text)?;
            let app = fabricast_switch::App::bind(config, Security::plaintext(), driver);
            let app = app.map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}
