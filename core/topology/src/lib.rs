//! The network: graph, faults, fat-tree view, generators, import and export.
//!
//! Read [`Graph`] first: switches, their ports, endpoints and cables, all by dense number.
//! [`FatTree::detect`] finds the levels, midplanes and lanes that routing works with, and lists
//! what is irregular. Graphs come from [`ibnetdiscover::read`] or from a [`spec::TopologySpec`];
//! [`Faults`] lies over a graph without changing it.
//!
//! Nothing here reads a file, a clock or a source of randomness: values in, values out.
#![warn(clippy::wildcard_enum_match_arm)]

mod aggregation;
mod chance;
mod disjoint;
mod fat_tree;
mod faults;
mod graph;
pub mod ibnetdiscover;
mod ids;
mod mgid;
pub mod spec;
mod summary;
mod tables;

pub use aggregation::{AggregationEntry, AggregationNode};
pub use chance::SplitMix;
pub use fat_tree::{FatTree, FatTreeParams, Irregularity, NotFatTree, Place, Reason};
pub use faults::Faults;
pub use graph::{
    AdapterFacts, AdapterKind, BuildError, EndpointFacts, EndpointNameError, Graph, GraphBuilder,
    SwitchFacts, is_guid,
};
pub use ids::{AdapterId, EndpointId, Peer, PortId, SwitchId};
pub use mgid::Mgid;
pub use summary::{FatTreeSummary, GraphSummary};
pub use tables::{PortSet, TableEntry, TableKind};
