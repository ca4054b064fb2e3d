//! The operations, and the kinds of trees that they run on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A collective operation of one message to many, or many to one.
///
/// Contents of its packets, for a message of S bytes:
///
/// | operation | gathered | sent back |
/// | --- | --- | --- |
/// | barrier | nothing | nothing |
/// | broadcast | nothing | S |
/// | reduce | S, reduced | nothing (adapter tree: the root has it), S (switch tree) |
/// | all-reduce | S, reduced | S |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// No process continues before all have arrived.
    Barrier,
    /// One process's message to all.
    Broadcast,
    /// All processes' values, combined, to one.
    Reduce,
    /// All processes' values, combined, to all.
    AllReduce,
}

impl Operation {
    /// All operations, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Barrier, Self::Broadcast, Self::Reduce, Self::AllReduce];

    /// Returns the bytes that a packet on its way to the root carries and that are reduced there:
    /// the paper's S' and S*, which are equal here.
    #[must_use]
    pub const fn gathered_bytes(self, message: u32) -> u32 {
        match self {
            Self::Barrier | Self::Broadcast => 0,
            Self::Reduce | Self::AllReduce => message,
        }
    }

    /// Returns the bytes that a packet from the root carries; none if none is sent.
    #[must_use]
    pub const fn returned_bytes(self, message: u32, kind: TreeKind) -> Option<u32> {
        match (self, kind) {
            (Self::Barrier, _) => Some(0),
            (Self::Reduce, TreeKind::Adapter) => None,
            (Self::Broadcast | Self::AllReduce, _) | (Self::Reduce, TreeKind::Switch) => {
                Some(message)
            }
        }
    }

    /// Names it as in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllReduce => "all-reduce",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// Kind of an aggregation tree, by the nodes that reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeKind {
    /// The processes' adapters: the paper's type I. Takes nothing in any switch.
    Adapter,
    /// Switches: the paper's type II. Takes an entry in each of them.
    Switch,
}

impl fmt::Display for TreeKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Adapter => "adapter",
            Self::Switch => "switch",
        })
    }
}
