//! What an aggregation engine of a switch holds, in the words that allocation and switches share.

use serde::{Deserialize, Serialize};

use crate::ids::{EndpointId, SwitchId};

/// One entry: whose packets of a tree a switch combines, and where the result goes.
///
/// Children and parent are named, not ports: between them may be switches without an entry, which
/// pass the packets on by their unicast routes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AggregationEntry {
    /// The switch that holds it.
    pub switch: SwitchId,
    /// The tree; packets carry it.
    pub tree: u32,
    /// The switch that the result is sent to; none at the root, which sends it back down.
    pub parent: Option<SwitchId>,
    /// Who sends to this switch, and gets the result from it.
    pub children: Vec<AggregationChild>,
}

/// A child in an aggregation tree.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum AggregationChild {
    /// A switch with an entry of the same tree.
    Switch(SwitchId),
    /// A process of the collective.
    Process {
        /// Its number in the collective.
        process: u32,
        /// Its endpoint, which several processes may share.
        endpoint: EndpointId,
    },
}
