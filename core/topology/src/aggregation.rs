//! What an aggregation engine of a switch or adapter holds, in the words that allocation and switches
//! share.

use serde::{Deserialize, Serialize};

use crate::ids::{EndpointId, SwitchId};

/// One entry: whose packets of a tree somebody combines, and where the result goes.
///
/// Children and parent are named, not ports: between them may be switches without an entry, which
/// pass the packets on by their unicast routes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AggregationEntry {
    /// Who holds it and combines.
    pub holder: AggregationNode,
    /// The tree; packets carry it.
    pub tree: u32,
    /// Who gets the result; none at the root, which sends it back down.
    pub parent: Option<AggregationNode>,
    /// Who sends to the holder, and gets the result from it. An adapter's own process is one of
    /// them.
    pub children: Vec<AggregationNode>,
}

/// A node of an aggregation tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AggregationNode {
    /// A switch.
    Switch(SwitchId),
    /// A process of the collective, and its adapter.
    Process {
        /// Its number in the collective.
        process: u32,
        /// Its endpoint, which several processes may share.
        endpoint: EndpointId,
    },
}
