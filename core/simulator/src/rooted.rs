//! Trees by way of a root: which roots a group can have, and the tree each of them gives.
//!
//! Source: Dawning §4.2.1, Theorem 1: once a root among the nearest common ancestors is chosen,
//! every path is unique. A root is chosen by the up-ports that lead to it, lowest level first: the
//! candidates of a source are numbered `slot + slots * (u + us * v)`, so that candidate `source %
//! candidates` is the one that the Cyclic policy takes (up-port h + p_l at level l).

use fabricast_topology::{EndpointId, FatTree, Graph, Peer, PortId};
use thiserror::Error;

use crate::routes::{Routes, TreeError, TreeId};

/// The roots of a fat tree.
#[derive(Clone, Copy, Debug)]
pub struct Roots<'a> {
    graph: &'a Graph,
    tree: &'a FatTree,
}

/// Reason why there is no tree through a root.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RootedError {
    /// An endpoint is not connected to a leaf switch.
    #[error("endpoint {} is not connected to a leaf switch", .endpoint.0)]
    NotOnLeaf {
        /// Number of the endpoint.
        endpoint: EndpointId,
    },
    /// The fabric lacks a link that the tree needs.
    #[error("endpoint {} has no link to root {candidate}", .endpoint.0)]
    NoLink {
        /// Endpoint whose path lacks the link.
        endpoint: EndpointId,
        /// Number of the candidate root.
        candidate: u32,
    },
    /// The ports are no tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl<'a> Roots<'a> {
    /// Looks at a fat tree.
    #[must_use]
    pub const fn new(graph: &'a Graph, tree: &'a FatTree) -> Self {
        Self { graph, tree }
    }

    /// Gives the height of the nearest common ancestors: links from a leaf up to them, 0 to 3.
    ///
    /// # Errors
    ///
    /// [`RootedError::NotOnLeaf`] for the first endpoint that is not connected.
    pub fn height(
        &self,
        endpoints: impl IntoIterator<Item = EndpointId>,
    ) -> Result<u32, RootedError> {
        let mut height = 0;
        let mut first = None;
        for endpoint in endpoints {
            let leaf = self.leaf(endpoint)?;
            let (cn, block) = (self.tree.cn_of_leaf(leaf), self.block(leaf));
            let (leaf_0, cn_0, block_0) = *first.get_or_insert((leaf, cn, block));
            let apart = if block != block_0 {
                3
            } else if cn != cn_0 {
                2
            } else {
                u32::from(leaf != leaf_0)
            };
            height = height.max(apart);
        }
        Ok(height)
    }

    /// Counts the roots at a height.
    #[must_use]
    pub fn candidates(&self, height: u32) -> u32 {
        self.widths().iter().take(height as usize).product()
    }

    /// Lists the up-ports from an endpoint's leaf to a root, `height` of them.
    ///
    /// # Errors
    ///
    /// [`RootedError`] if the fabric lacks one of these links.
    pub fn climb(
        &self,
        endpoint: EndpointId,
        height: u32,
        candidate: u32,
    ) -> Result<Vec<PortId>, RootedError> {
        let leaf = self.leaf(endpoint)?;
        let (cn, block) =
            (self.tree.cn_of_leaf(leaf), self.tree.block_of_cn(self.tree.cn_of_leaf(leaf)));
        let params = self.tree.params();
        let [slots, us, _] = self.widths();
        let (slot, u, v) = (candidate % slots, candidate / slots % us, candidate / slots / us);
        let g = slot / params.lanes0.max(1);
        let tn = g * params.tns_per_group + u % params.tns_per_group.max(1);
        let steps = [
            self.tree.leaf_up(leaf, slot),
            self.tree.l1_up(cn, g, u),
            self.tree.l2_up(tn, block, v),
        ];
        let ports = steps.into_iter().take(height as usize).collect::<Option<Vec<PortId>>>();
        ports.ok_or(RootedError::NoLink { endpoint, candidate })
    }

    /// Adds the tree of one source by way of a root at the height of all of them; the source gets a
    /// copy of its own only if it is a member.
    ///
    /// # Errors
    ///
    /// [`RootedError`] if an endpoint cannot be reached that way.
    pub fn add(
        &self,
        routes: &mut Routes,
        source: EndpointId,
        members: &[EndpointId],
        candidate: u32,
    ) -> Result<TreeId, RootedError> {
        let height = self.height(members.iter().copied().chain([source]))?;
        let climb = self.climb(source, height, candidate)?;
        let mut descent = Vec::new();
        for member in members {
            let port = self.graph.attachment(*member);
            descent.push(port.ok_or(RootedError::NotOnLeaf { endpoint: *member })?);
            for up in self.climb(*member, height, candidate)? {
                if let Peer::Switch(down) = self.graph.peer(up) {
                    descent.push(down);
                }
            }
        }
        descent.sort_unstable();
        descent.dedup();
        Ok(routes.add_rooted(self.graph, source, &climb, &descent)?)
    }

    /// Up-ports of a switch at every level.
    fn widths(&self) -> [u32; 3] {
        let params = self.tree.params();
        let widths = [params.leaf_up_ports(), params.l1_up_ports(), params.l2_up_ports()];
        widths.map(|width| width.max(1))
    }

    fn leaf(&self, endpoint: EndpointId) -> Result<u32, RootedError> {
        self.tree.leaf_of_endpoint(endpoint).ok_or(RootedError::NotOnLeaf { endpoint })
    }

    fn block(&self, leaf: u32) -> u32 {
        self.tree.block_of_cn(self.tree.cn_of_leaf(leaf))
    }
}
