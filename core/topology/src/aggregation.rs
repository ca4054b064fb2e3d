//! Entries of aggregation engines, in the terms that allocation and switches share.

use serde::{Deserialize, Serialize};

use crate::ids::{EndpointId, SwitchId};

/// One entry: the holder combines its children's packets of a tree and sends the result to its
/// parent.
///
/// Children and parent are nodes, not ports: there may be switches without an entry in between,
/// which forward the packets by their unicast routes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AggregationEntry {
    /// The switch or adapter that holds the entry and combines.
    pub holder: AggregationNode,
    /// Number of the tree, which packets carry.
    pub tree: u32,
    /// Receiver of the result; `None` at the root, which sends it back down.
    pub parent: Option<AggregationNode>,
    /// Nodes that send to the holder and get the result from it. An adapter's own process is one of
    /// them.
    pub children: Vec<AggregationNode>,
}

/// A node of an aggregation tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AggregationNode {
    /// A switch that reduces.
    Switch(SwitchId),
    /// A process of the collective, and its adapter.
    Process {
        /// Its number in the collective, from 0.
        process: u32,
        /// Its endpoint, which several processes may share.
        endpoint: EndpointId,
    },
}
