//! Nodes for jobs, and jobs that are already running, from files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use fabricast_placement::{JobAllocator, JobId, JobNames, JobTopology, hostlist, slurm};
use fabricast_topology::{EndpointId, Faults};

use crate::failure::Failure;
use crate::nodes::nodes_of;
use crate::source::{Topology, read_text};

/// Positions and names of the nodes.
pub(crate) struct JobInput {
    /// Positions of the nodes in the fabric.
    pub(crate) positions: Arc<JobTopology>,
    /// Names of nodes, leaf switches and jobs.
    pub(crate) names: JobNames,
    numbers: BTreeMap<String, u32>,
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
        let numbers = numbers(&names);
        let mut faults = Faults::new();
        for name in hostlist::expand(down.unwrap_or_default()).context("--down")? {
            let node = numbers.get(&name).ok_or_else(|| anyhow!("--down: no node '{name}'"))?;
            for endpoint in &endpoints[*node as usize] {
                faults.fail_endpoint(*endpoint);
            }
        }
        let positions = Arc::new(JobTopology::new(graph, &fat_tree, &faults, &endpoints));
        Ok(Self { positions, names, numbers })
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
        let numbers = numbers(&names);
        Ok(Self { positions: Arc::new(positions), names, numbers })
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
        let number = |node: &String| {
            self.numbers.get(node).copied().ok_or_else(|| anyhow!("nodes: no node '{node}'"))
        };
        let nodes = nodes.iter().map(number).collect::<anyhow::Result<Vec<u32>>>()?;
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
