//! Slurm's `topology.conf`: the tree of switches as a job scheduler knows it.
//!
//! ```text
//! # comment                              one line for each switch, keys in any case,
//! SwitchName=leaf0 Nodes=node[001-018]   a backslash at the end goes on with the next line
//! SwitchName=top   Switches=leaf[0-3]
//! ```
//!
//! A fat tree has many switches above its leaves; in this tree one name stands for all those of a midplane,
//! of a block, and of the fabric. Source: Slurm's manual page topology.conf(5), plugin topology/tree.

mod compare;
mod read;

use std::collections::BTreeMap;
use std::fmt::Write;

use fabricast_topology::{FatTree, Graph};
use thiserror::Error;

pub use compare::Difference;
pub use read::read;

use super::ground::{LeafSite, count};
use super::hostlist::{self, HostlistError};
use super::{JobGround, JobNames, LeftOut};

/// The switches of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmTopology {
    switches: Vec<SlurmSwitch>,
}

/// One switch, which may stand for several.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SlurmSwitch {
    line: usize,
    name: String,
    below: Below,
}

/// What hangs on a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Below {
    Nodes(Vec<String>),
    Switches(Vec<String>),
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct SlurmError {
    /// The line, from 1; the first of those that a backslash joins.
    pub line: usize,
    /// What is wrong with it.
    pub problem: SlurmProblem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SlurmProblem {
    /// A word is not of the form `Key=Value`.
    #[error("{word:?} is not of the form Key=Value")]
    NotKeyValue {
        /// The word.
        word: String,
    },
    /// Only `SwitchName`, `Nodes`, `Switches` and `LinkSpeed` have a meaning.
    #[error("{key}: not a key of a tree of switches (SwitchName, Nodes, Switches, LinkSpeed)")]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A key comes twice in a line.
    #[error("{key}: named twice")]
    KeyTwice {
        /// The key.
        key: &'static str,
    },
    /// A line names no switch.
    #[error("SwitchName: missing")]
    NoName,
    /// A switch has neither nodes nor switches, or both.
    #[error("switch {name}: needs either Nodes or Switches")]
    NodesOrSwitches {
        /// The switch.
        name: String,
    },
    /// A list of names cannot be read.
    #[error("{key}: {source}")]
    List {
        /// The key.
        key: &'static str,
        /// What is wrong with the list.
        source: HostlistError,
    },
    /// Two lines are about one switch.
    #[error("SwitchName: {name} is the switch of line {first} too")]
    SwitchTwice {
        /// The switch.
        name: String,
        /// The other line.
        first: usize,
    },
    /// A node or switch hangs on two switches.
    #[error("{key}: {name} hangs on the switch of line {first} too")]
    Below {
        /// The key.
        key: &'static str,
        /// The node or switch.
        name: String,
        /// The other line.
        first: usize,
    },
    /// No line is about a switch.
    #[error("Switches: no line is about switch {name}")]
    UnknownSwitch {
        /// The switch.
        name: String,
    },
    /// A switch hangs below itself.
    #[error("switch {name} hangs below itself")]
    Loop {
        /// The switch.
        name: String,
    },
    /// Leaf switches are not all at one depth, so that there are no classes.
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
    /// Four levels do not end in one switch.
    #[error("switch {name} is a second root, four levels must end in one")]
    SecondRoot {
        /// The switch.
        name: String,
    },
}

/// Gives every leaf switch the name that a scheduler's file has for it: its description where that can be
/// a name and is unique, else its node id.
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
    /// Describes a fabric. Nodes that are on no leaf switch, or on several, are left out.
    ///
    /// - `names`: all leaf switches and nodes of the ground must have one.
    #[must_use]
    pub fn of(ground: &JobGround, names: &JobNames) -> Self {
        let mut on_leaf = vec![Vec::new(); names.leaves.len()];
        for (node, name) in (0u32..).zip(&names.nodes) {
            if let Some(leaf) = ground.leaf_of(node) {
                on_leaf[leaf as usize].push(name.clone());
            }
        }
        let mut switches = Vec::new();
        let mut describe = |name: String, parts: Vec<String>, below: fn(Vec<String>) -> Below| {
            let line = switches.len() + 1;
            // What has no node below it has no line.
            (!parts.is_empty()).then(|| {
                switches.push(SlurmSwitch { line, name: name.clone(), below: below(parts) });
                name
            })
        };
        let leaves = names.leaves.iter().zip(on_leaf);
        let mut below: Vec<Option<String>> =
            leaves.map(|(name, nodes)| describe(name.clone(), nodes, Below::Nodes)).collect();
        let levels = ground.classes().count();
        for level in 1..levels {
            let units = count(ground.units(level));
            let name = |unit: u32| match ["", "midplane", "block", "top"][level] {
                _ if level + 1 == levels && units == 1 => "top".to_owned(),
                prefix => format!("{prefix}{unit}"),
            };
            let unit = |unit: u32| {
                let parts = ground.children(level, unit).into_iter();
                let parts = parts.filter_map(|part| below[part as usize].clone()).collect();
                describe(free_name(name(unit), &names.leaves), parts, Below::Switches)
            };
            below = (0..units).map(unit).collect();
        }
        Self { switches }
    }

    /// Writes the file, one line for each switch, leaf switches first.
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

    /// Makes the ground that jobs are placed on, and says what its nodes and leaf switches are called.
    ///
    /// # Errors
    ///
    /// [`SlurmError`] if the leaf switches are at different depths, or the tree has more than four levels.
    pub fn ground(&self) -> Result<(JobGround, JobNames), SlurmError> {
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
        // Midplanes are the parents of leaves, blocks theirs; where there are none, one stands for all.
        let mut numbers: [BTreeMap<usize, u32>; 2] = Default::default();
        let mut cn_block = Vec::new();
        let (mut sites, mut names, mut places) = (Vec::new(), JobNames::default(), Vec::new());
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
            sites.push(LeafSite { cn, rises: u8::try_from(depth).expect("at most 3") });
            names.leaves.push(switch.name.clone());
            names.nodes.extend(nodes.iter().cloned());
            places.resize(names.nodes.len(), (Some(leaf), None::<LeftOut>));
        }
        Ok((JobGround::assemble(depth + 1, &sites, cn_block, &places), names))
    }

    /// Checks that all leaf switches have the same number of switches above them, and gives it.
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

    /// Gives the switch that every switch hangs on.
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

/// Makes a name different from all those taken.
fn free_name(mut name: String, taken: &[String]) -> String {
    while taken.contains(&name) {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests;
