//! The nodes that jobs can have, and the jobs that run already, from files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use fabricast_routing::jobs::{JobAllocator, JobGround, JobId, JobNames, hostlist, slurm};
use fabricast_topology::{EndpointId, Faults};

use crate::failure::Failure;
use crate::nodes::nodes_of;
use crate::source::{Topology, read_text};

/// Where the nodes are and what they are called.
pub(crate) struct Ground {
    /// Where they are.
    pub(crate) ground: Arc<JobGround>,
    /// What nodes and leaf switches are called, and jobs, once there are any.
    pub(crate) names: JobNames,
    numbers: BTreeMap<String, u32>,
}

impl Ground {
    /// Looks where the nodes of a topology are.
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
        let ground = Arc::new(JobGround::new(graph, &fat_tree, &faults, &endpoints));
        Ok(Self { ground, names, numbers })
    }

    /// Reads the nodes from Slurm's description of a fabric.
    ///
    /// # Errors
    ///
    /// Names the file, the line and the key.
    pub(crate) fn of_slurm(file: &Path) -> Result<Self, Failure> {
        let text = read_text(file)?;
        let read = slurm::read(&text).and_then(|topology| topology.ground());
        let (ground, names) = read.with_context(|| format!("'{}'", file.display()))?;
        let numbers = numbers(&names);
        Ok(Self { ground: Arc::new(ground), names, numbers })
    }

    /// Checks that all names can stand in a hostlist.
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

    /// Reads the jobs that run already: lines of a name and a hostlist.
    ///
    /// # Errors
    ///
    /// Names the file and the line.
    pub(crate) fn running(&mut self, file: Option<&Path>) -> Result<JobAllocator, Failure> {
        let mut allocator = JobAllocator::new(self.ground.clone());
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
