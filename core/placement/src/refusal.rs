//! Refusals of the allocator, with the rule and the counts.

use std::collections::BTreeMap;
use std::fmt;

use crate::job::{JobClass, JobId};
use crate::topology::{JobTopology, LeftOut};

/// Names of nodes, leaf switches and jobs for messages; those without a name appear by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobNames {
    /// Names of the nodes, by number.
    pub nodes: Vec<String>,
    /// Names of the leaf switches, by number.
    pub leaves: Vec<String>,
    /// Names of the jobs.
    pub jobs: BTreeMap<JobId, String>,
}

impl JobNames {
    fn node(&self, node: u32) -> String {
        self.nodes.get(node as usize).cloned().unwrap_or_else(|| node.to_string())
    }

    fn job(&self, job: JobId) -> String {
        self.jobs.get(&job).cloned().unwrap_or_else(|| job.0.to_string())
    }

    /// Returns the name of a unit: a leaf switch by its name, larger units by number.
    #[must_use]
    pub fn unit(&self, level: usize, unit: u32) -> String {
        match self.leaves.get(unit as usize).filter(|_| level == 0) {
            Some(name) => format!("leaf switch {name}"),
            None => JobTopology::unit_name(level, unit),
        }
    }
}

/// Reason why a job gets no nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRefusal {
    /// The job requests no nodes.
    NoNodes,
    /// A job with this number exists.
    Exists {
        /// Number of the job.
        job: JobId,
    },
    /// The fabric is too small even when empty.
    TooLarge {
        /// Number of nodes that were requested.
        asked: u32,
        /// Size of the largest possible job, in nodes.
        largest: u32,
    },
    /// Other jobs leave too little room.
    NoRoom(Box<NoRoom>),
    /// No node has the number.
    UnknownNode {
        /// The number as given.
        node: u32,
    },
    /// A node is named twice.
    Twice {
        /// Number of the node.
        node: u32,
    },
    /// A node belongs to a job (rule 1).
    Taken {
        /// Number of the node.
        node: u32,
        /// The job that has it.
        by: JobId,
    },
    /// The node is not available.
    LeftOut {
        /// Number of the node.
        node: u32,
        /// Reason why it is not available.
        why: LeftOut,
    },
    /// The job would share links with another job (rules 5 to 7).
    Shared {
        /// The class of the job that is refused.
        class: JobClass,
        /// Level of the unit.
        level: usize,
        /// Number of the unit.
        unit: u32,
        /// The other job.
        with: JobId,
    },
}

impl std::error::Error for JobRefusal {}

impl fmt::Display for JobRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(&JobNames::default()))
    }
}

impl JobRefusal {
    /// Formats the refusal with the given names.
    #[must_use]
    pub fn in_words(&self, names: &JobNames) -> String {
        match self {
            Self::NoNodes => "a job needs one node or more".to_owned(),
            Self::Exists { job } => format!("job {} has nodes already", names.job(*job)),
            Self::TooLarge { asked, largest } => {
                format!("{asked} nodes are asked for, one job can have {largest} at most")
            }
            Self::NoRoom(found) => found.in_words(names),
            Self::UnknownNode { node } => format!("there is no node {}", names.node(*node)),
            Self::Twice { node } => format!("node {} is named twice", names.node(*node)),
            Self::Taken { node, by } => {
                format!("node {} serves job {} (rule 1)", names.node(*node), names.job(*by))
            }
            Self::LeftOut { node, why } => {
                format!("node {} cannot be had: {why}", names.node(*node))
            }
            Self::Shared { class, level, unit, with } => format!(
                "the job is of class {class} and would share the links of {} with job {} (rule {})",
                names.unit(*level, *unit),
                names.job(*with),
                level + 5
            ),
        }
    }
}

/// The unit with the most room for a job, and what limits its room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The class of the job.
    pub class: JobClass,
    /// Number of nodes that were requested.
    pub asked: u32,
    /// Next class that would have room if the job may be spread.
    pub wider: Option<JobClass>,
    /// Free nodes of the whole fabric.
    pub free: u32,
    /// The unit with the most room.
    pub unit: u32,
    /// Nodes available there to a job of this class.
    pub room: u32,
    /// Free nodes there.
    pub free_in_unit: u32,
    /// Free nodes there on leaf switches, in midplanes and in blocks that other jobs reach out of
    /// (rules 5, 6, 7).
    pub held: [Held; 3],
    /// Free nodes there on leaf switches whose upward links are down.
    pub cut_off: u32,
}

/// Free nodes that a rule makes unavailable to a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of units that hold these nodes.
    pub units: u32,
    /// Number of nodes.
    pub nodes: u32,
}

impl NoRoom {
    fn in_words(&self, names: &JobNames) -> String {
        let Self { class, asked, room, .. } = self;
        let unit = names.unit(class.level(), self.unit);
        let lies = match class.rule() {
            Some(rule) => format!("which lies in one {} (rule {rule})", class.unit()),
            None => "which takes whole blocks".to_owned(),
        };
        let mut text = format!(
            "{asked} nodes are of class {class}, {lies}; {} nodes are free, {unit} has the most room, {room}",
            self.free
        );
        if self.free_in_unit > *room {
            text.push_str(&format!(": {} nodes are free in it", self.free_in_unit));
        }
        let places =
            [("leaf switch", "leaf switches"), ("midplane", "midplanes"), ("block", "blocks")];
        for (level, (held, (one, more))) in self.held.iter().zip(places).enumerate() {
            if held.nodes > 0 {
                let places = if held.units == 1 { one } else { more };
                let (serves, rule) = (level + 1, level + 5);
                text.push_str(&format!(
                    ", {} of them on {} {places} used by another job of class T{serves} or higher (rule {rule})",
                    held.nodes, held.units
                ));
            }
        }
        if self.cut_off > 0 {
            let cut_off = self.cut_off;
            text.push_str(&format!(
                ", {cut_off} of them on leaf switches whose links upwards are down"
            ));
        }
        if let Some(wider) = self.wider {
            text.push_str(&format!("; spread as class {wider} it finds room"));
        }
        text
    }
}
