//! All parts of one cluster, started separately.
//!
//! ```text
//!   fabric ◄── switch agents ◄── router ──► TIC (file) ◄── operating agents ──► fabric
//! ```

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::detector::{DetectorConfig, Policy};
use fabricast_operating::NodeSpec;
use fabricast_routing::{EngineKind, EngineOptions, MgidSpace};
use fabricast_topology::{FatTree, Faults, Graph, TableKind, ibnetdiscover, spec::TopologySpec};

use crate::audit::audit;
use crate::client::{Client, color_of};
use crate::part::{Bound, Part};
use crate::patience::eventually;
use crate::traffic::Traffic;
use crate::trees::member_tables_agree;

/// What switch agents prove themselves with.
pub const MANAGEMENT_KEY: &str = "integration";

const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Longer than a busy machine makes a process wait, as a wrong verdict would spoil a test.
const REPORT_TIMEOUT: Duration = Duration::from_millis(1_500);
const PROBE_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Long enough for a new color to reach every sender: some reports and the calls they lead to.
const DRAIN: Duration = Duration::from_millis(400);
const READ_BACK: Duration = Duration::from_millis(1_000);

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The network.
    pub graph: Arc<Graph>,
    /// What computes the trees.
    pub engine: EngineKind,
    /// Entries of a table (C).
    pub colors: u16,
    /// How tables are organised.
    pub tables: TableKind,
    /// The nodes of each operating agent process.
    pub hosts: Vec<Vec<NodeSpec>>,
    /// Switch agents that share the switches between them.
    pub switch_agents: usize,
    /// Time between two readings of all tables by the route service.
    pub read_back: Duration,
}

impl Layout {
    /// A generated fabric with one node `n<i>` for each endpoint `h<i>`, in two processes.
    ///
    /// # Panics
    ///
    /// If the text describes no fabric.
    #[must_use]
    pub fn of(topology: &str) -> Self {
        let graph = TopologySpec::parse(topology).expect("a spec").generate().expect("a fabric");
        let node = |endpoint| {
            let name: &str = graph.endpoint_name(endpoint);
            NodeSpec { name: name.replacen('h', "n", 1), endpoints: vec![name.to_owned()] }
        };
        let nodes: Vec<NodeSpec> = graph.endpoints().map(node).collect();
        let hosts = nodes.chunks(nodes.len().div_ceil(2)).map(<[_]>::to_vec).collect();
        Self {
            graph: Arc::new(graph),
            engine: EngineKind::CMr4lmsFixed,
            colors: 16,
            tables: TableKind::PerPort,
            hosts,
            switch_agents: 1,
            read_back: READ_BACK,
        }
    }

    /// Two levels: 4 leaves with 4 endpoints each, 2 spines, two links between each pair.
    #[must_use]
    pub fn leaf_spine() -> Self {
        Self::of(
            "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 4\nlanes0 = 2\n",
        )
    }

    /// Three levels of switches with 4 ports: 16 endpoints.
    #[must_use]
    pub fn three_levels() -> Self {
        Self::of("kind = 'k-ary-3-level'\nk = 4\n")
    }

    /// Four levels: 4 compute midplanes of 2 leaves in 2 blocks, 16 endpoints.
    #[must_use]
    pub fn four_levels() -> Self {
        Self::of(
            "kind = 'cn-tn-fat-tree'\nleaves_per_cn = 2\nspines_per_cn = 2\ntns_per_group = 2\n\
             blocks = 2\ncns_per_block = 2\nendpoints_per_leaf = 2\n",
        )
    }

    /// How MGIDs are numbered here.
    ///
    /// # Panics
    ///
    /// If the fabric is no fat tree.
    #[must_use]
    pub fn space(&self) -> MgidSpace {
        let tree = FatTree::detect(&self.graph).expect("a fat tree");
        let layout = fabricast_routing::Layout::new(tree.params(), self.colors, self.tables);
        *layout.expect("a layout").space()
    }

    /// The same with so many entries in a table.
    #[must_use]
    pub fn with_colors(self, colors: u16) -> Self {
        Self { colors, ..self }
    }

    /// The same with another engine.
    #[must_use]
    pub fn with_engine(self, engine: EngineKind) -> Self {
        Self { engine, ..self }
    }

    /// The same with so many switch agents.
    #[must_use]
    pub fn with_switch_agents(self, switch_agents: usize) -> Self {
        Self { switch_agents, ..self }
    }

    /// The same with other tables.
    #[must_use]
    pub fn with_tables(self, tables: TableKind) -> Self {
        Self { tables, ..self }
    }

    /// The same with other nodes, each list of them in a process of its own.
    #[must_use]
    pub fn with_hosts(self, hosts: Vec<Vec<NodeSpec>>) -> Self {
        Self { hosts, ..self }
    }
}

/// A running cluster; everything ends when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// What it was made from.
    pub layout: Layout,
    /// The emulated fabric.
    pub fabric: Part,
    /// The TIC.
    pub tic: Part,
    /// The switch agents.
    pub switches: Vec<Part>,
    /// The route service.
    pub router: Part,
    /// The operating agent processes, in the order of the layout.
    pub operating: Vec<Part>,
    /// Calls to all of them.
    pub client: Client,
    _store: tempfile::TempDir,
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
        let tic = tic(&layout, store.path().join("tic.redb")).await;
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
            switches.push(start_switch_agent(&name, share, key, tic.address()).await);
        }
        let addresses = addresses(&switches);
        Self::start_beside(layout, (fabric, tic, store), switches, addresses).await
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
        let tic = tic(&layout, store.path().join("tic.redb")).await;
        let addresses = agents(tic.address()).await;
        Self::start_beside(layout, (fabric, tic, store), Vec::new(), addresses).await
    }

    async fn start_beside(
        layout: Layout,
        (fabric, tic, store): (Part, Part, tempfile::TempDir),
        switches: Vec<Part>,
        switch_agents: Vec<SocketAddr>,
    ) -> Self {
        let agents = switch_agents.iter().map(ToString::to_string).collect();
        let router = router(&layout, tic.address(), agents).await;
        let mut operating = Vec::new();
        for (index, nodes) in layout.hosts.iter().enumerate() {
            let name = format!("operating-{index}");
            operating
                .push(operating_agent(name, nodes.clone(), tic.address(), fabric.address()).await);
        }
        let client = Client::new(
            [fabric.address(), tic.address(), router.address()],
            &switch_agents,
            &layout.hosts.iter().cloned().zip(addresses(&operating)).collect::<Vec<_>>(),
        );
        client.all_up(layout.hosts.iter().map(Vec::len).sum()).await;
        Self { layout, fabric, tic, switches, router, operating, client, _store: store }
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

fn text(error: impl std::fmt::Debug) -> String {
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
            graph: Arc::clone(&layout.graph),
            tables: layout.tables,
            colors: layout.colors,
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

async fn tic(layout: &Layout, file: PathBuf) -> Part {
    let layout = layout.clone();
    let topology: Arc<str> = ibnetdiscover::write(&layout.graph).into();
    Part::start("tic", move |listen| {
        let mut options = fabricast_tic::Options::new(
            listen,
            fabricast_tic::StoreLocation::File(file.clone()),
            Arc::clone(&topology),
            Arc::clone(&layout.graph),
        );
        options.colors = layout.colors;
        options.tables = layout.tables;
        let policy = Policy::Probe { timeout: PROBE_TIMEOUT, attempts: 1 };
        options.detector = DetectorConfig { report_timeout: REPORT_TIMEOUT, policy };
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
    tic: SocketAddr,
) -> Part {
    let switches: BTreeSet<String> = switches.iter().cloned().collect();
    let name = name.to_owned();
    Part::start("switch-agent", move |listen| {
        let (name, switches) = (name.clone(), switches.clone());
        async move {
            let driver =
                fabricast_switch::EmulatedDriver::new(&fabric.to_string(), key).map_err(text)?;
            let options = fabricast_switch::Options {
                listen,
                name,
                tic: tic.to_string(),
                driver: Arc::new(driver),
                switches,
                report_interval: Duration::from_secs(1),
            };
            let app = fabricast_switch::App::bind(options).map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}

async fn router(layout: &Layout, tic: SocketAddr, switch_agents: Vec<String>) -> Part {
    let layout = layout.clone();
    Part::start("router", move |listen| {
        let options = fabricast_router::Options {
            listen,
            name: "router".to_owned(),
            tic: tic.to_string(),
            switch_agents: switch_agents.clone(),
            engine: layout.engine,
            engine_options: EngineOptions::new(layout.colors, layout.tables),
            drain: DRAIN,
            read_back: layout.read_back,
        };
        async {
            let app = fabricast_router::App::bind(options).map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}

async fn operating_agent(
    name: String,
    nodes: Vec<NodeSpec>,
    tic: SocketAddr,
    fabric: SocketAddr,
) -> Part {
    Part::start(&name, move |listen| {
        let options = fabricast_operating::Options {
            listen,
            tic: tic.to_string(),
            fabric: fabric.to_string(),
            nodes: nodes.clone(),
            report_interval: REPORT_INTERVAL,
            report_timeout: REPORT_TIMEOUT,
            probe_timeout: PROBE_TIMEOUT,
        };
        async {
            let app = fabricast_operating::App::bind(options).map_err(text)?;
            Ok(Bound::new(app.address(), |stop| app.run(stop)))
        }
    })
    .await
}
