//! Nodes for jobs, and jobs that are already running, from files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use fabricast_placement::{JobAllocator, JobId, JobNames, JobTopology, hostlist, slurm};
use fabricast_topology::{EndpointId, EndpointNameError, Faults, Graph};

use crate::failure::Failure;
use crate::nodes::nodes_of;
use crate::source::{Topology, read_text};

/// Positions and names of the nodes.
pub(crate) struct JobInput {
    /// Positions of the nodes in the fabric.
    pub(crate) positions: Arc<JobTopology>,
    /// Names of nodes, leaf switches and jobs.
    pub(crate) names: JobNames,
    nodes: NodeNumbers,
}

/// Numbers of nodes by all their names.
#[derive(Default)]
struct NodeNumbers {
    by_name: BTreeMap<String, u32>,
    by_endpoint: BTreeMap<EndpointId, u32>,
    /// The topology, whose endpoints have names; `None` if nodes have nothing but theirs.
    graph: Option<Arc<Graph>>,
}

impl NodeNumbers {
    /// Finds a node by its name, or by any name of one of its endpoints.
    fn find(&self, name: &str) -> anyhow::Result<u32> {
        let unknown = || anyhow!("no node '{name}'");
        if let Some(number) = self.by_name.get(name) {
            return Ok(*number);
        }
        match self.graph.as_ref().ok_or_else(unknown)?.resolve_endpoint(name) {
            Ok(endpoint) => self.by_endpoint.get(&endpoint).copied().ok_or_else(unknown),
            Err(EndpointNameError::Unknown { .. }) => Err(unknown()),
            Err(error @ EndpointNameError::Ambiguous { .. }) => Err(error.into()),
        }
    }
}

impl JobInput {
    /// Finds the nodes of a topology.
    ///
    /// # Errors
    ///
    /// The topology is no fat tree, or `down` names no nodes of it.
    pub(crate) fn of_topology(topology: &Topology, down: Option<&str>) -> Result<Self, Failure> {
        let graph = &topology.graph;
        let fat_tree = topology.fat_tree()?;
        let nodes = nodes_of(graph);
        let endpoints: Vec<Vec<EndpointId>> = nodes
            .values()
            .map(|names| names.iter().filter_map(|name| graph.find_endpoint(name)).collect())
            .collect();
        let names = JobNames {
            nodes: nodes.into_keys().collect(),
            leaves: slurm::leaf_names(graph, &fat_tree),
            ..JobNames::default()
        };
        let owned = (0u32..).zip(&endpoints);
        let by_endpoint = owned.flat_map(|(node, own)| own.iter().map(move |one| (*one, node)));
        let nodes = NodeNumbers {
            by_name: numbers(&names),
            by_endpoint: by_endpoint.collect(),
            graph: Some(Arc::clone(graph)),
        };
        let mut faults = Faults::new();
        for name in hostlist::expand(down.unwrap_or_default()).context("--down")? {
            let node = nodes.find(&name).context("--down")?;
            for endpoint in &endpoints[node as usize] {
                faults.fail_endpoint(*endpoint);
            }
        }
        let positions = Arc::new(JobTopology::new(graph, &fat_tree, &faults, &endpoints));
        Ok(Self { positions, names, nodes })
    }

    /// Reads the nodes from Slurm's description of a fabric.
    ///
    /// # Errors
    ///
    /// Names the file, the line and the key.
    pub(crate) fn of_slurm(file: &Path) -> Result<Self, Failure> {
        let text = read_text(file)?;
        let read = slurm::read(&text).and_then(|topology| topology.job_topology());
        let (positions, names) = read.with_context(|| format!("'{}'", file.display()))?;
        let nodes = NodeNumbers { by_name: numbers(&names), ..NodeNumbers::default() };
        Ok(Self { positions: Arc::new(positions), names, nodes })
    }

    /// Checks that all names fit into a hostlist.
    ///
    /// # Errors
    ///
    /// The first name that cannot.
    pub(crate) fn check_names(&self) -> Result<(), Failure> {
        match self.names.nodes.iter().find(|name| !hostlist::is_node_name(name)) {
            None => Ok(()),
            Some(name) => Err(Failure::input(format!("node '{name}' cannot stand in a hostlist"))),
        }
    }

    /// Reads the running jobs: lines of a name and a hostlist.
    ///
    /// # Errors
    ///
    /// Names the file and the line.
    pub(crate) fn running(&mut self, file: Option<&Path>) -> Result<JobAllocator, Failure> {
        let mut allocator = JobAllocator::new(self.positions.clone());
        let Some(file) = file else { return Ok(allocator) };
        let text = read_text(file)?;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                self.restore(&mut allocator, line)
                    .with_context(|| format!("'{}': line {number}", file.display()))?;
            }
        }
        Ok(allocator)
    }

    fn restore(&mut self, allocator: &mut JobAllocator, line: &str) -> anyhow::Result<()> {
        let (name, list) = line
            .split_once(char::is_whitespace)
            .ok_or_else(|| anyhow!("not a name and a list of nodes, as j7 node[001-016]"))?;
        if self.names.jobs.values().any(|other| other == name) {
            bail!("name: there are two jobs '{name}'");
        }
        let nodes = hostlist::expand(list.trim()).context("nodes")?;
        let nodes = nodes.iter().map(|node| self.nodes.find(node));
        let nodes = nodes.collect::<anyhow::Result<Vec<u32>>>().context("nodes")?;
        let id = JobId(u64::try_from(self.names.jobs.len())?);
        allocator
            .restore(id, &nodes)
            .map_err(|refusal| anyhow!("nodes: {}", refusal.in_words(&self.names)))?;
        self.names.jobs.insert(id, name.to_owned());
        Ok(())
    }

    /// The nodes as a hostlist.
    pub(crate) fn hostlist(&self, nodes: &[u32]) -> String {
        hostlist::compress(nodes.iter().map(|node| &*self.names.nodes[*node as usize]))
    }
}

fn numbers(names: &JobNames) -> BTreeMap<String, u32> {
    names.nodes.iter().cloned().zip(0u32..).collect()
}
