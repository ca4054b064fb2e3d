//! Choices of an engine that the TIC records, because they cannot be computed again.

use std::collections::BTreeMap;

use fabricast_groups::ids::{Gn, Revision};
use fabricast_topology::PortId;
use serde::{Deserialize, Serialize};

use crate::directory_cache::FailedElement;

/// A tree chosen for a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenTree {
    /// Number of the tree: 0, or 1 for the second tree of fault tolerance.
    pub tree: u8,
    /// Number of the spanning tree that it is a part of.
    pub part: u32,
    /// Number of its root, as the engine counts.
    pub root: u32,
    /// Ports of the tree, ascending; empty if another group has them.
    pub ports: Vec<PortId>,
    /// GN of the group that shares the tree and has its ports; `None` if this group has them.
    pub ports_gn: Option<Gn>,
}

/// Chosen trees by GN.
pub type Chosen = BTreeMap<Gn, Vec<ChosenTree>>;

/// Choices as recorded at the TIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPlan {
    /// Failed parts of the fabric when the choices were made.
    pub failed: Vec<FailedElement>,
    /// Trees by group; groups without a choice are missing.
    pub chosen: Chosen,
}

/// Choices of the engine to be made durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChoiceReport {
    /// Generation of the report; the TIC refuses older ones.
    pub generation: u64,
    /// Failed parts of the fabric when the choices were made.
    pub failed: Vec<FailedElement>,
    /// Revision of the records that the choices are for.
    pub revision: Revision,
    /// Choices that are new or have changed.
    pub changed: Vec<GroupChoices>,
    /// Groups that have no choices any more.
    pub removed: Vec<Gn>,
}

/// Choices for one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupChoices {
    /// Number of the group.
    pub gn: Gn,
    /// Trees that the engine has chosen for it.
    pub trees: Vec<ChosenTree>,
}

/// Choices that the TIC has recorded for earlier route services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordedChoices {
    /// There are none.
    #[default]
    None,
    /// They belong to another engine, other options or another topology. The next report replaces
    /// them.
    Foreign,
    /// They can be restored.
    Ours {
        /// Choices that fit the topology.
        plan: RecordedPlan,
        /// GNs of groups whose choices do not fit the topology.
        unreadable: Vec<Gn>,
    },
}
