//! Requests to the allocator, and its answers.

use std::fmt;

use fabricast_topology::{AggregationEntry, AggregationNode, EndpointId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::ledger::Holder;
use crate::operation::Operation;
use crate::switch_tree::SwitchTree;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

number! {
    /// A collective, by the number its creator gave it.
    CollectiveId(u64)
}
number! {
    /// A tree as switches know it; never used twice.
    TreeId(u32)
}
number! {
    /// A job, unique within its tenant.
    JobId(u64)
}
number! {
    /// Number of a tenant, whose jobs share limits.
    TenantId(u64)
}

/// Owner of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    /// Tenant of the job.
    pub tenant: TenantId,
    /// Number of the job.
    pub job: JobId,
}

/// Message sizes, both ends included, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRange {
    /// Smallest message, in bytes.
    pub min: u32,
    /// Largest message, in bytes.
    pub max: u32,
}

/// Kinds of trees that are acceptable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    /// The faster kind that is available.
    #[default]
    Best,
    /// A switch tree only.
    SwitchTree,
}

/// A collective to allocate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number of the collective, chosen by the caller.
    pub id: CollectiveId,
    /// Owner of the collective.
    pub owner: Owner,
    /// Endpoint of each process; processes may share one.
    pub members: Vec<EndpointId>,
    /// Operations that it will run.
    pub operations: Vec<Operation>,
    /// Sizes of its messages.
    pub bytes: SizeRange,
    /// Acceptable kinds of trees.
    pub demand: Demand,
}

/// A collective and its tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collective {
    /// The request as given.
    pub request: Request,
    /// Tree that was allocated.
    pub service: Service,
}

/// Tree that a collective runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// A tree of switches, and adapter trees where those are faster.
    Switches {
        /// Number of the tree in the switches.
        id: TreeId,
        /// Switches and parents of the tree.
        tree: SwitchTree,
    },
    /// Adapter trees only, without switch entries.
    Adapters {
        /// Reason why there is no switch tree.
        why: Fallback,
    },
    /// No tree, until a disconnected member is reachable again.
    Suspended {
        /// Index of the member.
        member: usize,
    },
}

/// Reason why a collective has no switch tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// For all operations and sizes asked for, an adapter tree is faster.
    #[error("adapter trees are faster at these sizes")]
    Slower,
    /// Faults keep every switch from reaching all members downwards.
    #[error("no switch is above all members")]
    NoCommonSwitch,
    /// Switches on the way have no entry left for this job.
    #[error(
        "no entries left: {above} switches are above all members, {tried} of them with an entry"
    )]
    NoEntries {
        /// Switches that could be the root.
        above: usize,
        /// Those of them that had an entry left, and were tried.
        tried: usize,
    },
    /// The tree would take more entries than the job or tenant may have.
    #[error("{holder} may hold {limit} entries, has {has} and would need {needs} more")]
    Quota {
        /// Holder of the limit.
        holder: Holder,
        /// Limit of the holder.
        limit: u32,
        /// Entries in use by the holder.
        has: u32,
        /// Entries that the tree would add.
        needs: u32,
    },
}

/// Reason why a collective was not allocated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The number is taken: the caller's mistake, or a repeated call.
    #[error("collective {id} exists")]
    Exists {
        /// Number of the collective.
        id: CollectiveId,
    },
    /// The collective has no members.
    #[error("members is empty")]
    NoMembers,
    /// The collective has no operations.
    #[error("operations is empty")]
    NoOperations,
    /// The range of sizes is empty.
    #[error("bytes: smallest {min} is larger than largest {max}")]
    Sizes {
        /// The smallest size.
        min: u32,
        /// The largest size.
        max: u32,
    },
    /// No live link connects a member's endpoint to the fat tree: try again when it does.
    #[error("members[{member}]: {endpoint} is not connected to a leaf switch")]
    CutOff {
        /// Index of the member.
        member: usize,
        /// The name of its endpoint, or its number if there is no such endpoint.
        endpoint: String,
    },
    /// The job or tenant has as many collectives as it may.
    #[error("{holder} may hold {limit} collectives and has them")]
    Quota {
        /// Holder of the limit.
        holder: Holder,
        /// Limit of the holder.
        limit: u32,
    },
    /// A switch tree was demanded.
    #[error("no switch tree")]
    NoSwitchTree {
        /// Reason why there is none.
        #[source]
        why: Fallback,
    },
}

impl Request {
    /// Counts the processes.
    #[must_use]
    pub fn processes(&self) -> u32 {
        u32::try_from(self.members.len()).expect("fewer than 2^32 members")
    }

    /// Checks what does not depend on the fabric.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let SizeRange { min, max } = self.bytes;
        if self.members.is_empty() {
            return Err(Refusal::NoMembers);
        }
        if self.operations.is_empty() {
            return Err(Refusal::NoOperations);
        }
        if min > max { Err(Refusal::Sizes { min, max }) } else { Ok(()) }
    }
}

impl Collective {
    /// Returns the entries that switches must hold for it; none without a switch tree.
    #[must_use]
    pub fn entries(&self) -> Vec<AggregationEntry> {
        let Some((id, tree)) = self.service.switch_tree() else { return Vec::new() };
        let node = |place: u32| AggregationNode::Switch(tree.kept[place as usize].switch);
        let mut entries: Vec<AggregationEntry> = (0_u32..)
            .zip(&tree.kept)
            .map(|(place, kept)| AggregationEntry {
                holder: node(place),
                tree: id.0,
                parent: kept.parent.map(node),
                children: Vec::new(),
            })
            .collect();
        for (place, kept) in (0_u32..).zip(&tree.kept) {
            if let Some(parent) = kept.parent {
                entries[parent as usize].children.push(node(place));
            }
        }
        let members = (0_u32..).zip(&self.request.members).zip(&tree.member_parents);
        for ((process, endpoint), parent) in members {
            let child = AggregationNode::Process { process, endpoint: *endpoint };
            entries[*parent as usize].children.push(child);
        }
        entries
    }
}

impl Service {
    /// Returns the switch tree with its number, if there is one.
    #[must_use]
    pub const fn switch_tree(&self) -> Option<(TreeId, &SwitchTree)> {
        match self {
            Self::Switches { id, tree } => Some((*id, tree)),
            Self::Adapters { .. } | Self::Suspended { .. } => None,
        }
    }
}
