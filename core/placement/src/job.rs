//! A job, its class and its nodes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of unit that holds a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobClass {
    /// One leaf switch.
    T0,
    /// One compute midplane.
    T1,
    /// One block of midplanes.
    T2,
    /// Any nodes of the fabric.
    T3,
}

impl JobClass {
    /// All classes, ascending.
    pub const ALL: [Self; 4] = [Self::T0, Self::T1, Self::T2, Self::T3];

    /// Returns the level of the unit: 0 leaf switch, 1 compute midplane, 2 block, 3 fabric.
    #[must_use]
    pub const fn level(self) -> usize {
        self as usize
    }

    /// Returns the name of the unit for messages.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::T0 => "leaf switch",
            Self::T1 => "compute midplane",
            Self::T2 => "block",
            Self::T3 => "fabric",
        }
    }

    /// Returns the number of the rule that keeps a job of this class in one unit; `None` for T3.
    #[must_use]
    pub const fn rule(self) -> Option<u8> {
        match self {
            Self::T0 => Some(2),
            Self::T1 => Some(3),
            Self::T2 => Some(4),
            Self::T3 => None,
        }
    }
}

impl fmt::Display for JobClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["T0", "T1", "T2", "T3"][self.level()])
    }
}

/// Number of a job, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct JobId(pub u64);

/// A job with its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Kind of unit that holds the nodes.
    pub class: JobClass,
    /// Numbers of its nodes, ascending.
    pub nodes: Vec<u32>,
}

/// Permission to place a job in a larger unit than its size requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Not permitted: rules 2 to 4 hold strictly.
    #[default]
    No,
    /// Permitted: if no unit of its class has room, the next class is tried. The job still shares
    /// no link.
    Yes,
}
