//! All parts of one cluster, started separately.
//!
//! ```text
//!   fabric ◄── switch agents ◄── router ──► TIC (file) ◄── operating agents ──► fabric
//! ```

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fabricast_emulator::AggregationLimits;
use fabricast_groups::ids::{Gn, Pn};
use fabricast_groups::names::NodeName;
use fabricast_groups::watch::WatchConfig;
use fabricast_operating::{LocalSocket, Seat, SeatEvents};
use fabricast_proto::v1;
use fabricast_routing::EngineKind;
use fabricast_rpc::{Peer, Security};
use fabricast_tic::{StoreLocation, TopologySource};
use fabricast_topology::{Faults, ibnetdiscover};

use crate::audit::audit;
use crate::client::{Client, color_of};
use crate::layout::Layout;
use crate::part::{Bound, Part};
use crate::patience::eventually;
use crate::starters::{DETECTOR, Seats, operating_agent, router};
use crate::traffic::Traffic;
use crate::trees::member_tables_agree;

/// What switch agents prove themselves with.
pub const MANAGEMENT_KEY: &str = "integration";
/// The file of an embedded store.
const STORE: &str = "tic.redb";
/// As short as etcd grants.
const LEADER_LEASE: Duration = Duration::from_secs(2);

/// A running cluster; everything ends when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// What it was made from.
    pub layout: Layout,
    /// The emulated fabric.
    pub fabric: Part,
    /// The TIC, the first if there are several.
    pub tic: Part,
    /// The other TICs.
    pub other_tics: Vec<Part>,
    /// The switch agents.
    pub switches: Vec<Part>,
    /// The route service, the first if there are several.
    pub router: Part,
    /// The other route services.
    pub other_routers: Vec<Part>,
    /// The operating agent processes, in the order of the layout.
    pub operating: Vec<Part>,
    /// Calls to all of them.
    pub client: Client,
    seats: Vec<Seats>,
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
            // An agent that has all switches is not told which.
            let share = if share.len() == names.len() { &[] } else { share };
            let name = format!("switch-agent-{}", switches.len());
            let key = (fabric.address(), MANAGEMENT_KEY);
            switches.push(start_switch_agent(&name, share, key, &tic_addresses).await);
        }
        let addresses = addresses(&switches);
        Self::start_beside(layout, (fabric, tics, store), switches, addresses).await
    }

    /// Starts all parts but the switch agents, which program hardware that is not ours; packets of
    /// the nodes still go through the emulated fabric, whose tables stay empty.
    ///
    /// - `agents`: starts them, given the address of the TIC.
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
        Self::start_beside(layout, (fabric, tics, store), Vec::new(), addresses).await
    }

    async fn start_beside(
        layout: Layout,
        (fabric, mut tics, store): (Part, Vec<Part>, tempfile::TempDir),
        switches: Vec<Part>,
        switch_agents: Vec<SocketAddr>,
    ) -> Self {
        let agents: Vec<String> = switch_agents.iter().map(ToString::to_string).collect();
        let tic_addresses = addresses(&tics);
        let mut routers = Vec::new();
        for number in 0..layout.routers {
            routers.push(router(&layout, number, &tic_addresses, agents.clone()).await);
        }
        let (mut operating, mut seats) = (Vec::new(), Vec::new());
        for (index, nodes) in layout.hosts.iter().enumerate() {
            let name = format!("operating-{index}");
            let path = store.path().join(format!("{name}.sock"));
            let memory = layout.shared_memory.clone();
            let socket = LocalSocket { path, mode: 0o600, memory };
            let peers = (tic_addresses.as_slice(), fabric.address());
            let (part, its_seats) = operating_agent(name, nodes.clone(), peers, socket).await;
            operating.push(part);
            seats.push(its_seats);
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
            seats,
            folder: store,
        }
    }

    /// The socket of an operating agent process, where processes of its nodes attach.
    #[must_use]
    pub fn socket(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("operating-{index}.sock"))
    }

    /// The same with another engine: a new route service at another address, in place of the old one.
    ///
    /// # Panics
    ///
    /// If it cannot start.
    pub async fn with_engine(mut self, engine: EngineKind) -> Self {
        self.router.kill();
        self.layout.engine = engine;
        let agents = addresses(&self.switches);
        let named = agents.iter().map(ToString::to_string).collect();
        self.router = router(&self.layout, 0, &[self.tic.address()], named).await;
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
    pub fn open_seat(&self, member: &v1::Membership) -> (Seat, SeatEvents) {
        let home = self.client.homes[&member.node];
        let messages = self.seats[home].lock().unwrap_or_else(PoisonError::into_inner).clone();
        let node = NodeName::new(&member.node).expect("a name");
        let (gn, pn) = (Gn(member.gn), Pn(member.pn));
        let opened = messages.expect("the process was started").open_seat(&node, gn, pn);
        opened.expect("a member has a seat")
    }

    /// The file of the TIC's store, if it is embedded.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.folder.path().join(STORE)
    }

    /// Waits until nothing is in flight, then checks everything that must hold: tables against
    /// groups (R1, R2, R4), member tables and trees (G2), and a packet from every member.
    ///
    /// - `faults`: what is broken now.
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
        let options = fabricast_fabric::Options {
            listen,
            security: Security::plaintext(),
            graph: Arc::clone(&layout.graph),
            tables: layout.tables,
            colors: layout.colors,
            aggregation: AggregationLimits::default(),
            management_key: MANAGEMENT_KEY.to_owned(),
            queue: fabricast_fabric::DEFAULT_QUEUE,
        };
        async {
            let app = fabricast_fabric::App::bind(options).map_err(text)?;
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
        let mut options = fabricast_tic::Options::new(listen, store.clone(), source);
        options.colors = layout.colors;
        options.fault_tolerant = layout.fault_tolerant;
        options.tables = layout.tables;
        options.route_lease = layout.route_lease;
        options.leader_lease = LEADER_LEASE;
        options.watch = WatchConfig::new(DETECTOR);
        async {
            let app = fabricast_tic::App::bind(options).await.map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}

/// Starts a switch agent alone.
///
/// - `switches`: node ids; none means all.
/// - `key`: what it proves itself to the fabric with.
///
/// # Panics
///
/// If it cannot start.
pub async fn start_switch_agent(
    name: &str,
    switches: &[String],
    (fabric, key): (SocketAddr, &'static str),
    tics: &[SocketAddr],
) -> Part {
    let tics: Vec<String> = tics.iter().map(ToString::to_string).collect();
    let switches: BTreeSet<String> = switches.iter().cloned().collect();
    let name = name.to_owned();
    Part::start("switch-agent", move |listen| {
        let (name, switches, tic) = (name.clone(), switches.clone(), tics.clone());
        async move {
            let fabric = Peer::new(&fabric.to_string()).map_err(text)?;
            let driver = fabricast_switch::EmulatedDriver::new(fabric, key);
            let options = fabricast_switch::Options {
                listen,
                security: Security::plaintext(),
                name,
                tic,
                driver: Arc::new(driver),
                switches,
                report_interval: Duration::from_secs(1),
                discovery_interval: None,
            };
            let app = fabricast_switch::App::bind(options).map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}
