//! Slurm's `topology.conf`: the tree of switches as the job scheduler sees it.
//!
//! ```text
//! # comment                              one line for each switch, keys in any case,
//! SwitchName=leaf0 Nodes=node[001-018]   a backslash at the end goes on with the next line
//! SwitchName=top   Switches=leaf[0-3]
//! ```
//!
//! A fat tree has many switches above its leaves; in this file one name stands for all those of a
//! midplane, of a block, and of the fabric. Source: Slurm's manual page topology.conf(5), plugin
//! topology/tree.

mod compare;
mod read;

use std::collections::BTreeMap;
use std::fmt::Write;

use fabricast_topology::{FatTree, Graph};
use serde::Serialize;
use thiserror::Error;

pub use compare::Difference;
pub use read::read;

use crate::hostlist::{self, HostlistError};
use crate::refusal::JobNames;
use crate::topology::{JobTopology, LeafPosition, LeftOut, count};

/// The switches of a `topology.conf`; serialized with the name and what is below each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlurmTopology {
    switches: Vec<SlurmSwitch>,
}

/// A switch of the file, which may stand for several real ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct SlurmSwitch {
    #[serde(skip)]
    line: usize,
    name: String,
    #[serde(flatten)]
    below: Below,
}

/// Nodes or switches directly below a switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Below {
    Nodes(Vec<String>),
    Switches(Vec<String>),
}

/// Error in a file, with its line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct SlurmError {
    /// Number of the line, from 1; the first of those that a backslash joins.
    pub line: usize,
    /// Error in the line.
    pub problem: SlurmProblem,
}

/// Error in a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SlurmProblem {
    /// A word is not of the form `Key=Value`.
    #[error("{word:?} is not of the form Key=Value")]
    NotKeyValue {
        /// The word as given.
        word: String,
    },
    /// A key is not one of `SwitchName`, `Nodes`, `Switches` and `LinkSpeed`.
    #[error("{key}: not a key of a tree of switches (SwitchName, Nodes, Switches, LinkSpeed)")]
    UnknownKey {
        /// The key as given.
        key: String,
    },
    /// A key comes twice in a line.
    #[error("{key}: named twice")]
    KeyTwice {
        /// Name of the key.
        key: &'static str,
    },
    /// A line names no switch.
    #[error("SwitchName: missing")]
    NoName,
    /// A switch has neither nodes nor switches, or both.
    #[error("switch {name}: needs either Nodes or Switches")]
    NodesOrSwitches {
        /// Name of the switch.
        name: String,
    },
    /// A list of names is invalid.
    #[error("{key}: {source}")]
    List {
        /// Name of the key.
        key: &'static str,
        /// Error in the list.
        source: HostlistError,
    },
    /// Two lines are about one switch.
    #[error("SwitchName: {name} is the switch of line {first} too")]
    SwitchTwice {
        /// Name of the switch.
        name: String,
        /// Number of the other line.
        first: usize,
    },
    /// A node or switch is below two switches.
    #[error("{key}: {name} hangs on the switch of line {first} too")]
    Below {
        /// Name of the key.
        key: &'static str,
        /// The node or switch.
        name: String,
        /// Number of the other line.
        first: usize,
    },
    /// No line is about a switch.
    #[error("Switches: no line is about switch {name}")]
    UnknownSwitch {
        /// Name of the switch.
        name: String,
    },
    /// A switch is below itself.
    #[error("switch {name} hangs below itself")]
    Loop {
        /// Name of the switch.
        name: String,
    },
    /// Leaf switches are at different depths, so that classes are undefined.
    #[error("switch {name} has {depth} switches above it, the leaf switch of line {first} {other}")]
    Uneven {
        /// A leaf switch.
        name: String,
        /// Switches above it.
        depth: usize,
        /// Line of another leaf switch.
        first: usize,
        /// Switches above that.
        other: usize,
    },
    /// There are more than four levels.
    #[error("switch {name} has {depth} switches above it, at most 3 make a class")]
    TooDeep {
        /// A leaf switch.
        name: String,
        /// Switches above it.
        depth: usize,
    },
    /// Four levels have more than one root.
    #[error("switch {name} is a second root, four levels must end in one")]
    SecondRoot {
        /// Name of the switch.
        name: String,
    },
}

/// Returns the name of every leaf switch in a scheduler's file: its description if that is a valid
/// and unique name, else its node id.
#[must_use]
pub fn leaf_names(graph: &Graph, fat_tree: &FatTree) -> Vec<String> {
    let switches = (0u32..).take(fat_tree.leaf_count()).map(|leaf| fat_tree.leaf_switch(leaf));
    let name = |switch| {
        let text = graph.switch_description(switch);
        let unique = graph.find_switch(text) == Some(switch);
        let name =
            if unique && hostlist::is_node_name(text) { text } else { graph.switch_name(switch) };
        name.to_owned()
    };
    switches.map(name).collect()
}

impl SlurmTopology {
    /// Creates the switches that describe a fabric. Nodes on no leaf switch, or on several, are
    /// left out.
    ///
    /// - `names`: all leaf switches and nodes of the topology must have one.
    #[must_use]
    pub fn of(topology: &JobTopology, names: &JobNames) -> Self {
        let mut on_leaf = vec![Vec::new(); names.leaves.len()];
        for (node, name) in (0u32..).zip(&names.nodes) {
            if let Some(leaf) = topology.leaf_of(node) {
                on_leaf[leaf as usize].push(name.clone());
            }
        }
        let mut switches = Vec::new();
        let mut describe = |name: String, parts: Vec<String>, below: fn(Vec<String>) -> Below| {
            let line = switches.len() + 1;
            // Switches without nodes below them are left out.
            (!parts.is_empty()).then(|| {
                switches.push(SlurmSwitch { line, name: name.clone(), below: below(parts) });
                name
            })
        };
        let leaves = names.leaves.iter().zip(on_leaf);
        let mut below: Vec<Option<String>> =
            leaves.map(|(name, nodes)| describe(name.clone(), nodes, Below::Nodes)).collect();
        let levels = topology.classes().count();
        for level in 1..levels {
            let units = count(topology.units(level));
            let name = |unit: u32| match ["", "midplane", "block", "top"][level] {
                _ if level + 1 == levels && units == 1 => "top".to_owned(),
                prefix => format!("{prefix}{unit}"),
            };
            let unit = |unit: u32| {
                let parts = topology.children(level, unit).into_iter();
                let parts = parts.filter_map(|part| below[part as usize].clone()).collect();
                describe(free_name(name(unit), &names.leaves), parts, Below::Switches)
            };
            below = (0..units).map(unit).collect();
        }
        Self { switches }
    }

    /// Formats the file, one line for each switch, leaf switches first.
    #[must_use]
    pub fn write(&self) -> String {
        let mut text = String::new();
        for switch in &self.switches {
            let (key, names) = match &switch.below {
                Below::Nodes(names) => ("Nodes", names),
                Below::Switches(names) => ("Switches", names),
            };
            let names = hostlist::compress(names.iter().map(String::as_str));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "SwitchName={} {key}={names}", switch.name);
        }
        text
    }

    /// Formats the file topology.yaml of Slurm 25.05 and later, with this tree as the default of
    /// the cluster. Source: Slurm's manual page topology.yaml(5).
    #[must_use]
    pub fn write_yaml(&self) -> String {
        let mut text =
            "- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n".to_owned();
        for switch in &self.switches {
            let (key, names) = match &switch.below {
                Below::Nodes(names) => ("nodes", names),
                Below::Switches(names) => ("children", names),
            };
            let names = hostlist::compress(names.iter().map(String::as_str));
            // Quoted: a name may look like a number. No name has a quote.
            let (name, indent) = (&switch.name, "      ");
            let _ = writeln!(text, "{indent}- switch: \"{name}\"\n{indent}  {key}: \"{names}\"");
        }
        text
    }

    /// Creates the topology that jobs are placed on, and the names of its nodes and leaf switches.
    ///
    /// # Errors
    ///
    /// [`SlurmError`] if the leaf switches are at different depths, or the tree has more than four
    /// levels.
    pub fn job_topology(&self) -> Result<(JobTopology, JobNames), SlurmError> {
        let parents = self.parents();
        let chain = |switch: &SlurmSwitch| -> Vec<usize> {
            let mut chain = Vec::new();
            let mut name = &*switch.name;
            while let Some(at) = parents.get(name) {
                chain.push(*at);
                name = &self.switches[*at].name;
            }
            chain
        };
        let leaves: Vec<(&SlurmSwitch, Vec<usize>, &Vec<String>)> = self
            .switches
            .iter()
            .filter_map(|switch| match &switch.below {
                Below::Nodes(nodes) => Some((switch, chain(switch), nodes)),
                Below::Switches(_) => None,
            })
            .collect();
        let depth = self.depth(&leaves)?;
        // Midplanes are the parents of leaves, and blocks their parents; a missing level has one
        // unit.
        let mut numbers: [BTreeMap<usize, u32>; 2] = Default::default();
        let mut cn_block = Vec::new();
        let (mut leaves_found, mut names, mut places) =
            (Vec::new(), JobNames::default(), Vec::new());
        for (leaf, (switch, chain, nodes)) in (0u32..).zip(&leaves) {
            let [cns, blocks] = &mut numbers;
            let number = |level: usize, of: &mut BTreeMap<usize, u32>| {
                let next = count(of.len());
                *of.entry(chain.get(level).copied().unwrap_or(usize::MAX)).or_insert(next)
            };
            let (cn, block) = (number(0, cns), number(1, blocks));
            if cn as usize == cn_block.len() {
                cn_block.push(block);
            }
            leaves_found.push(LeafPosition { cn, rises: u8::try_from(depth).expect("at most 3") });
            names.leaves.push(switch.name.clone());
            names.nodes.extend(nodes.iter().cloned());
            places.resize(names.nodes.len(), (Some(leaf), None::<LeftOut>));
        }
        Ok((JobTopology::assemble(depth + 1, &leaves_found, cn_block, &places), names))
    }

    /// Returns the number of switches above each leaf switch, which must be the same for all.
    fn depth(
        &self,
        leaves: &[(&SlurmSwitch, Vec<usize>, &Vec<String>)],
    ) -> Result<usize, SlurmError> {
        let Some((first, chain, _)) = leaves.first() else { return Ok(0) };
        let other = chain.len();
        for (switch, chain, _) in leaves {
            let (name, depth) = (switch.name.clone(), chain.len());
            let at = |problem| SlurmError { line: switch.line, problem };
            if depth != other {
                return Err(at(SlurmProblem::Uneven { name, depth, first: first.line, other }));
            }
            if depth > 3 {
                return Err(at(SlurmProblem::TooDeep { name, depth }));
            }
            if depth == 3 && chain.last() != leaves[0].1.last() {
                let root = &self.switches[*chain.last().expect("three are above")];
                let problem = SlurmProblem::SecondRoot { name: root.name.clone() };
                return Err(SlurmError { line: root.line, problem });
            }
        }
        Ok(other)
    }

    /// Returns the parent of every switch.
    fn parents(&self) -> BTreeMap<&str, usize> {
        let mut parents = BTreeMap::new();
        for (at, switch) in self.switches.iter().enumerate() {
            if let Below::Switches(below) = &switch.below {
                parents.extend(below.iter().map(|name| (&**name, at)));
            }
        }
        parents
    }
}

/// Returns the name, with underscores appended until it is not taken.
fn free_name(mut name: String, taken: &[String]) -> String {
    while taken.contains(&name) {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests;
