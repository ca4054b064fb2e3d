//! The layout of a cluster: its fabric, engine, agents and services.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::{NodeConfig, ProcessRule};
use fabricast_routing::{EngineKind, EngineOptions, MgidSpace, RootPolicy, RootScope, mgid_space};
use fabricast_topology::{FatTree, Graph, TableKind, spec::TopologySpec};

const READ_BACK: Duration = Duration::from_millis(1_000);
/// Short, so that a standby need not wait long after a crash.
const ROUTE_LEASE: Duration = Duration::from_millis(600);

/// Layout of a cluster.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Topology of the fabric.
    pub graph: Arc<Graph>,
    /// True if switch agents discover the topology; else the TIC reads it from a file.
    pub discovered: bool,
    /// Engine that computes the trees.
    pub engine: EngineKind,
    /// True if the settings of the route service name the engine; else it chooses the default.
    pub engine_is_named: bool,
    /// Entries of a table (C).
    pub colors: u16,
    /// Kind of the tables.
    pub tables: TableKind,
    /// True if every group has two trees.
    pub fault_tolerant: bool,
    /// True if groups stay on the tree that a dead link has moved them to.
    pub stays_after_healing: bool,
    /// Part of the fabric where dynamic roots are looked for; `None` for the default.
    pub root_scope: Option<RootScope>,
    /// Policy for the choice among equally good roots.
    pub root_policy: Option<RootPolicy>,
    /// The nodes of each operating agent process.
    pub hosts: Vec<Vec<NodeConfig>>,
    /// Number of switch agents, which share the switches.
    pub switch_agents: usize,
    /// Time between two readings of all tables by the route service.
    pub read_back: Duration,
    /// Number of route services, of which one is active.
    pub routers: usize,
    /// Number of TICs and the URL of the store that they share; `None` for one TIC with a file.
    pub tics: Option<(usize, String)>,
    /// Lease of the term of a route service.
    pub route_lease: Duration,
    /// Folder for the memory that operating agents share with processes; `None` to share none.
    pub shared_memory: Option<PathBuf>,
    /// True if endpoints are interfaces, and none is attached to the fabric.
    pub has_direct_paths: bool,
    /// Rules of the operating agents for their processes.
    pub process_rules: Vec<ProcessRule>,
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
            NodeConfig {
                name: name.replacen('h', "n", 1),
                endpoints: vec![name.to_owned()],
                interfaces: BTreeMap::new(),
            }
        };
        let nodes: Vec<NodeConfig> = graph.endpoints().map(node).collect();
        let hosts = nodes.chunks(nodes.len().div_ceil(2)).map(<[_]>::to_vec).collect();
        Self {
            graph: Arc::new(graph),
            discovered: false,
            engine: EngineKind::CMr4lmsFixed,
            engine_is_named: true,
            colors: 16,
            tables: TableKind::PerPort,
            fault_tolerant: false,
            stays_after_healing: false,
            root_scope: None,
            root_policy: None,
            hosts,
            switch_agents: 1,
            read_back: READ_BACK,
            routers: 1,
            tics: None,
            route_lease: ROUTE_LEASE,
            shared_memory: Some(PathBuf::from("/dev/shm")),
            has_direct_paths: false,
            process_rules: Vec::new(),
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

    /// Numbering of the MGIDs.
    ///
    /// # Panics
    ///
    /// If the fabric is no fat tree.
    #[must_use]
    pub fn space(&self) -> MgidSpace {
        let tree = FatTree::detect(&self.graph).expect("a fat tree");
        let space = mgid_space(EngineKind::CMr4lmsFixed, Some(&tree), self.engine_options());
        space.expect("a layout")
    }

    pub(crate) fn engine_options(&self) -> EngineOptions {
        EngineOptions {
            fault_tolerant: self.fault_tolerant,
            stay_after_healing: self.stays_after_healing,
            root_scope: self.root_scope,
            root_policy: self.root_policy,
            ..EngineOptions::new(self.colors, self.tables)
        }
    }

    /// The same with groups that stay where a dead link has sent them.
    #[must_use]
    pub fn with_staying_groups(self) -> Self {
        Self { stays_after_healing: true, ..self }
    }

    /// The same with two trees for every group.
    #[must_use]
    pub fn with_fault_tolerance(self) -> Self {
        Self { fault_tolerant: true, ..self }
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

    /// The same with roots chosen by a policy.
    #[must_use]
    pub fn with_root_policy(self, policy: RootPolicy) -> Self {
        Self { root_policy: Some(policy), ..self }
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

    /// The same with endpoints that are interfaces of the machine, so that processes may take the
    /// direct path. Nobody carries packets.
    #[must_use]
    pub fn with_direct_paths(mut self) -> Self {
        self.has_direct_paths = true;
        for node in self.hosts.iter_mut().flatten() {
            node.interfaces = [(format!("if-{}", node.name), node.endpoints[0].clone())].into();
        }
        self
    }

    /// The same with the loopback interface in place of the endpoints of these nodes, on which
    /// processes hear each other's multicast; at most one of each agent.
    #[must_use]
    pub fn with_loopback(mut self, nodes: &[&str]) -> Self {
        for node in self.hosts.iter_mut().flatten() {
            if nodes.contains(&&*node.name) {
                node.interfaces = [("lo".to_owned(), node.endpoints[0].clone())].into();
            }
        }
        self
    }

    /// Address of color 0 for processes: of this test alone, for all share the loopback interface.
    #[must_use]
    pub fn color_addresses() -> Ipv4Addr {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        Ipv4Addr::new(239, 200 + high % 16, low, 0)
    }

    /// The same with other nodes, each list of them in a process of its own.
    #[must_use]
    pub fn with_hosts(self, hosts: Vec<Vec<NodeConfig>>) -> Self {
        Self { hosts, ..self }
    }
}
