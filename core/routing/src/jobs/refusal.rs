//! Why a job gets no nodes, with the rule and the counts.

use std::fmt;

use thiserror::Error;

use super::{JobClass, JobGround, JobId, LeftOut};

/// Why a job gets no nodes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JobRefusal {
    /// The job asks for nothing.
    #[error("a job needs one node or more")]
    NoNodes,
    /// There is a job of that name.
    #[error("job {} has nodes already", .job.0)]
    Exists {
        /// The job.
        job: JobId,
    },
    /// The fabric is too small for it even when empty.
    #[error("{asked} nodes are asked for, the fabric has {largest} that one job can have")]
    TooLarge {
        /// Nodes asked for.
        asked: u32,
        /// The most there can be.
        largest: u32,
    },
    /// Other jobs leave too little room.
    #[error(transparent)]
    NoRoom(#[from] Box<NoRoom>),
    /// No node has the number.
    #[error("there is no node {node}")]
    UnknownNode {
        /// The number.
        node: u32,
    },
    /// A node is named twice.
    #[error("node {node} is named twice")]
    Twice {
        /// The node.
        node: u32,
    },
    /// A node has a job (rule 1).
    #[error("node {node} serves job {} (rule 1)", .by.0)]
    Taken {
        /// The node.
        node: u32,
        /// The job that has it.
        by: JobId,
    },
    /// No job gets the node.
    #[error("node {node} cannot be had: {why}")]
    LeftOut {
        /// The node.
        node: u32,
        /// Why.
        why: LeftOut,
    },
    /// It would share links with another job (rules 5 to 7).
    #[error(
        "the job is of class {class} and would share the links of {} with job {} (rule {})",
        JobGround::unit_name(*.level, *.unit), .with.0, .level + 5
    )]
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

/// What stands in the way of a job in the unit that has the most room for it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
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

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, asked, room, .. } = self;
        let unit = JobGround::unit_name(class.level(), self.unit);
        write!(f, "{asked} nodes are of class {class}")?;
        match class.rule() {
            Some(rule) => write!(f, ", which lies in one {} (rule {rule})", class.unit())?,
            None => f.write_str(", which takes whole blocks")?,
        }
        write!(
            f,
            "; {} nodes are free, {unit} has the most room, {room}: {} nodes are free in it",
            self.free, self.free_in_unit
        )?;
        let places = ["leaf switches", "midplanes", "blocks"];
        for (level, (held, place)) in self.held.iter().zip(places).enumerate() {
            if held.nodes > 0 {
                write!(
                    f,
                    ", {} of them on {} {place} that serve another job of class T{} or higher (rule {})",
                    held.nodes,
                    held.units,
                    level + 1,
                    level + 5
                )?;
            }
        }
        if self.cut_off > 0 {
            write!(f, ", {} of them on leaf switches whose links upwards are down", self.cut_off)?;
        }
        if let Some(wider) = self.wider {
            write!(f, "; spread as class {wider} it finds room")?;
        }
        Ok(())
    }
}
