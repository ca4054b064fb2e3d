//! Compares a scheduler's tree with the fabric.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::{Below, SlurmSwitch, SlurmTopology};
use crate::topology::JobTopology;

/// Difference between a scheduler's tree and the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Difference {
    /// The fabric has no such node.
    #[error("line {line}: Nodes: the fabric has no node {node}")]
    UnknownNode {
        /// Number of the line that names it.
        line: usize,
        /// Name of the node.
        node: String,
    },
    /// No line names a node of the fabric.
    #[error("no line names node {node}")]
    MissingNode {
        /// Name of the node.
        node: String,
    },
    /// One switch of the file covers several units.
    #[error("line {line}: the nodes below switch {switch} are on {}", list(*.level, .units))]
    Joined {
        /// Number of the line, from 1.
        line: usize,
        /// Name of the switch.
        switch: String,
        /// Level of the units.
        level: usize,
        /// Numbers of the units.
        units: BTreeSet<u32>,
    },
    /// The nodes of one unit are below several switches of the file.
    #[error("{} is split: its nodes are below the switches {}", JobTopology::unit_name(*.level, *.unit), .switches.join(", "))]
    Split {
        /// Level of the unit.
        level: usize,
        /// Number of the unit.
        unit: u32,
        /// Names of the switches.
        switches: Vec<String>,
    },
}

fn list(level: usize, units: &BTreeSet<u32>) -> String {
    let names: Vec<String> =
        units.iter().take(8).map(|unit| JobTopology::unit_name(level, *unit)).collect();
    let more = units.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

impl SlurmTopology {
    /// Returns the differences between the file and the fabric; empty if jobs placed by either keep
    /// the rules of both.
    ///
    /// - `nodes`: the name of each node of the topology.
    #[must_use]
    pub fn differences(&self, topology: &JobTopology, nodes: &[String]) -> Vec<Difference> {
        let numbers: BTreeMap<&str, u32> =
            (0u32..).zip(nodes).map(|(node, name)| (&**name, node)).collect();
        let mut found = Vec::new();
        let mut named = BTreeSet::new();
        for switch in &self.switches {
            if let Below::Nodes(names) = &switch.below {
                for name in names {
                    named.insert(&**name);
                    if !numbers.contains_key(&**name) {
                        found.push(Difference::UnknownNode {
                            line: switch.line,
                            node: name.clone(),
                        });
                    }
                }
            }
        }
        let missing = (0u32..)
            .zip(nodes)
            .filter(|(node, name)| topology.leaf_of(*node).is_some() && !named.contains(&***name));
        found.extend(missing.map(|(_, name)| Difference::MissingNode { node: name.clone() }));
        self.units(topology, &numbers, &mut found);
        found
    }

    fn units(
        &self,
        topology: &JobTopology,
        numbers: &BTreeMap<&str, u32>,
        found: &mut Vec<Difference>,
    ) {
        let mut below: BTreeMap<(usize, u32), Vec<String>> = BTreeMap::new();
        let by_name: BTreeMap<&str, &SlurmSwitch> =
            self.switches.iter().map(|switch| (&*switch.name, switch)).collect();
        for switch in &self.switches {
            let (mut nodes, mut level, mut open) = (Vec::new(), 0, vec![(switch, 0)]);
            while let Some((at, depth)) = open.pop() {
                level = level.max(depth);
                match &at.below {
                    Below::Nodes(names) => {
                        nodes.extend(names.iter().filter_map(|name| numbers.get(&**name)));
                    }
                    Below::Switches(names) => {
                        open.extend(names.iter().map(|name| (by_name[&**name], depth + 1)));
                    }
                }
            }
            if level >= topology.classes().count() {
                continue; // one more switch on top of everything joins nothing
            }
            let units = topology.units_of(level, &nodes);
            for unit in &units {
                below.entry((level, *unit)).or_default().push(switch.name.clone());
            }
            if units.len() > 1 {
                let (line, switch) = (switch.line, switch.name.clone());
                found.push(Difference::Joined { line, switch, level, units });
            }
        }
        let split = below.into_iter().filter(|(_, switches)| switches.len() > 1);
        found.extend(split.map(|((level, unit), switches)| Difference::Split {
            level,
            unit,
            switches,
        }));
    }
}
