//! The subnet as of the last discovery, compared with the expected fabric.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_infiniband::{
    Discovery, Method, Missing, Node, NodeType, Query, Route, Smp, Subnet, missing,
};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_topology::{BuildError, Graph, Peer, PortId};
use thiserror::Error;

use super::packets::{PacketSender, RequestError};
use super::reach::lids_that_work;

/// Reason why a discovery failed.
#[derive(Debug, Error)]
pub(super) enum DiscoverError {
    #[error("the local port does not answer")]
    Local,
    #[error("the InfiniBand port is gone")]
    Gone,
    #[error("the subnet changed during its discovery: {0}")]
    Graph(BuildError),
}

/// The discovered subnet.
#[derive(Debug)]
pub(super) struct ObservedSubnet {
    subnet: Subnet,
    guids: BTreeMap<String, u64>,
    graph: Arc<Graph>,
    expected: Arc<Graph>,
    /// LIDs of the switches that answer by theirs, by GUID; empty without [`Self::find_lids`].
    lids: BTreeMap<u64, u16>,
}

impl ObservedSubnet {
    /// Discovers the subnet.
    ///
    /// - `expected`: the expected fabric; `None` for what is found now.
    pub(super) async fn discover(
        sender: &PacketSender,
        key: u64,
        expected: Option<Arc<Graph>>,
    ) -> Result<Self, DiscoverError> {
        let mut discovery = Discovery::new();
        while !discovery.is_done() {
            let queries: Vec<Query> = std::iter::from_fn(|| discovery.next_query()).collect();
            let requests = queries.iter().map(|query| Smp {
                method: Method::Get,
                attribute: query.attribute,
                modifier: query.modifier,
                transaction: 0,
                key,
                route: Route::Directed(query.path.clone()),
                data: [0; 64],
            });
            let answers = sender.request(requests.collect::<Vec<_>>()).await;
            for (query, answer) in queries.iter().zip(answers) {
                match answer {
                    Ok(data) => discovery.answered(query.id, &data),
                    Err(RequestError::Gone) => return Err(DiscoverError::Gone),
                    Err(RequestError::NoAnswer | RequestError::Refused(_)) => {
                        discovery.unanswered(query.id);
                    }
                }
            }
        }
        let subnet = discovery.finish();
        if subnet.nodes.is_empty() {
            return Err(DiscoverError::Local);
        }
        let graph = Arc::new(subnet.graph().map_err(DiscoverError::Graph)?);
        let guids = subnet.switches().map(|node| (node.name(), node.info.guid)).collect();
        let expected = expected.unwrap_or_else(|| Arc::clone(&graph));
        Ok(Self { subnet, guids, graph, expected, lids: BTreeMap::new() })
    }

    /// Finds the switches that answer by LID.
    pub(super) async fn find_lids(&mut self, sender: &PacketSender, key: u64) {
        let switches: Vec<&Node> = self.switches().collect();
        self.lids = lids_that_work(sender, &switches, key).await;
    }

    /// LID by which a switch answered in [`Self::find_lids`].
    pub(super) fn lid(&self, node: &Node) -> Option<u16> {
        self.lids.get(&node.info.guid).copied()
    }

    pub(super) fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    pub(super) fn expected(&self) -> &Arc<Graph> {
        &self.expected
    }

    pub(super) fn switches(&self) -> impl Iterator<Item = &Node> {
        self.subnet.switches()
    }

    /// Finds a switch by its node id.
    pub(super) fn switch(&self, name: &str) -> Option<&Node> {
        let node = self.subnet.nodes.get(self.guids.get(name)?)?;
        (node.info.kind == NodeType::Switch).then_some(node)
    }

    /// Expected peer of a port, as the topology names it: name and port number, which is 0 for an
    /// endpoint. An empty name if no cable is known.
    pub(super) fn peer(&self, switch: &str, number: u8) -> (String, u32) {
        let port = |graph: &Graph| graph.port(graph.find_switch(switch)?, number);
        let known = |graph: &Graph| -> Option<(String, u32)> {
            match graph.peer(port(graph)?) {
                Peer::None => None,
                Peer::Endpoint(endpoint) => Some((graph.endpoint_name(endpoint).to_owned(), 0)),
                Peer::Switch(far) => {
                    let name = graph.switch_name(graph.switch_of(far)).to_owned();
                    Some((name, u32::from(graph.port_number(far))))
                }
            }
        };
        known(&self.expected).or_else(|| known(&self.graph)).unwrap_or_default()
    }

    /// Parts of the expected fabric that are missing.
    pub(super) fn failed(&self) -> Vec<v1::Element> {
        let expected = &self.expected;
        let link = |port: PortId| {
            let switch_name = expected.switch_name(expected.switch_of(port)).to_owned();
            Kind::Link(v1::PortName { switch_name, port: u32::from(expected.port_number(port)) })
        };
        let kinds = missing(expected, &self.graph).into_iter().map(|one| match one {
            Missing::Switch(switch) => Kind::SwitchName(expected.switch_name(switch).to_owned()),
            Missing::Link(port) => link(port),
            Missing::Endpoint(endpoint) => {
                Kind::Endpoint(expected.endpoint_name(endpoint).to_owned())
            }
        });
        kinds.map(|kind| v1::Element { kind: Some(kind) }).collect()
    }
}
