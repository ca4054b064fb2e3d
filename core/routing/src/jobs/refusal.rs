//! Why a job gets no nodes, with the rule and the counts.

use std::collections::BTreeMap;
use std::fmt;

use super::{JobClass, JobGround, JobId, LeftOut};

/// What nodes, leaf switches and jobs are called; what has no name here goes by its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobNames {
    /// By node.
    pub nodes: Vec<String>,
    /// By leaf switch.
    pub leaves: Vec<String>,
    /// The jobs.
    pub jobs: BTreeMap<JobId, String>,
}

impl JobNames {
    fn node(&self, node: u32) -> String {
        self.nodes.get(node as usize).cloned().unwrap_or_else(|| node.to_string())
    }

    fn job(&self, job: JobId) -> String {
        self.jobs.get(&job).cloned().unwrap_or_else(|| job.0.to_string())
    }

    /// Names a unit: a leaf switch by its name, what is above by its number.
    #[must_use]
    pub fn unit(&self, level: usize, unit: u32) -> String {
        match self.leaves.get(unit as usize).filter(|_| level == 0) {
            Some(name) => format!("leaf switch {name}"),
            None => JobGround::unit_name(level, unit),
        }
    }
}

/// Why a job gets no nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRefusal {
    /// The job asks for nothing.
    NoNodes,
    /// There is a job of that name.
    Exists {
        /// The job.
        job: JobId,
    },
    /// The fabric is too small for it even when empty.
    TooLarge {
        /// Nodes asked for.
        asked: u32,
        /// The most there can be.
        largest: u32,
    },
    /// Other jobs leave too little room.
    NoRoom(Box<NoRoom>),
    /// No node has the number.
    UnknownNode {
        /// The number.
        node: u32,
    },
    /// A node is named twice.
    Twice {
        /// The node.
        node: u32,
    },
    /// A node has a job (rule 1).
    Taken {
        /// The node.
        node: u32,
        /// The job that has it.
        by: JobId,
    },
    /// No job gets the node.
    LeftOut {
        /// The node.
        node: u32,
        /// Why.
        why: LeftOut,
    },
    /// It would share links with another job (rules 5 to 7).
    Shared {
        /// The class of the job that is refused.
        class: JobClass,
        /// Level of the unit.
        level: usize,
        /// The unit.
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
    /// Says it with the names that people know.
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

/// What stands in the way of a job in the unit that has the most room for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The class of the job.
    pub class: JobClass,
    /// Nodes it asks for.
    pub asked: u32,
    /// The next class that would have room, if the job may be spread.
    pub wider: Option<JobClass>,
    /// Nodes that no job has, everywhere.
    pub free: u32,
    /// The unit with the most room.
    pub unit: u32,
    /// Nodes a job of this class can have there.
    pub room: u32,
    /// Nodes there that no job has.
    pub free_in_unit: u32,
    /// Of these, on leaf switches, in midplanes and in blocks that jobs reach out of (rules 5, 6, 7).
    pub held: [Held; 3],
    /// Of these, on leaf switches whose links upwards are down.
    pub cut_off: u32,
}

/// Free nodes that a rule keeps from a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Units that the nodes are in.
    pub units: u32,
    /// The nodes.
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
