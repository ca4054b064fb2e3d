//! A subnet as discovery found it: nodes and cables.

use std::collections::BTreeMap;
use std::fmt;

use fabricast_topology::{
    AdapterFacts, AdapterKind, BuildError, EndpointFacts, Graph, GraphBuilder, PortId, SwitchFacts,
};

use crate::attributes::{NodeInfo, NodeType, PortInfo, SwitchInfo};
use crate::smp::Path;

/// A port by the GUID of its node and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortName {
    /// GUID of the node.
    pub node: u64,
    /// Number of the port on the node.
    pub port: u8,
}

/// A cable between two ports, the lower name first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cable(pub PortName, pub PortName);

/// A node and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// NodeInfo of the node.
    pub info: NodeInfo,
    /// Its free text.
    pub description: String,
    /// The route on which it was found first.
    pub path: Path,
    /// Capacities, of a switch.
    pub switch: Option<SwitchInfo>,
    /// Ports that have answered; of a switch without port 0.
    pub ports: BTreeMap<u8, PortInfo>,
    /// GUIDs of ports, of an adapter.
    pub port_guids: BTreeMap<u8, u64>,
}

impl Node {
    /// Gives the name that `ibnetdiscover` gives the node.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = match self.info.kind {
            NodeType::Switch => 'S',
            NodeType::ChannelAdapter => 'H',
            NodeType::Router => 'R',
        };
        format!("{kind}-{:016x}", self.info.guid)
    }
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subnet {
    /// Nodes by GUID.
    pub nodes: BTreeMap<u64, Node>,
    /// The other end of every port with a cable, both ways.
    pub peers: BTreeMap<PortName, PortName>,
    /// Queries that nobody answered; parts of the subnet may be missing.
    pub unanswered: u32,
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}[{}]", self.node, self.port)
    }
}

impl Subnet {
    /// Lists the switches, by GUID.
    pub fn switches(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|node| node.info.kind == NodeType::Switch)
    }

    /// Lists the cables, each once, rising.
    pub fn cables(&self) -> impl Iterator<Item = Cable> + '_ {
        self.peers.iter().filter(|(a, b)| a <= b).map(|(a, b)| Cable(*a, *b))
    }

    /// Makes the graph of the subnet: switches and adapters by GUID, endpoints by port.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if two answers contradict each other, as when cables were moved meanwhile.
    pub fn graph(&self) -> Result<Graph, BuildError> {
        let mut builder = GraphBuilder::new();
        let mut switches = BTreeMap::new();
        for node in self.switches() {
            let NodeInfo { vendor, device, system_guid, guid, port_guid, .. } = node.info;
            let facts =
                SwitchFacts { vendor, device, system_guid, guid, port_guid, ..<_>::default() };
            let name = node.name();
            let id = builder.add_switch(&name, &node.description, node.info.ports, facts);
            switches.insert(guid, id);
        }
        let mut attachments = Vec::new();
        let adapters = self.nodes.values().filter(|node| node.info.kind != NodeType::Switch);
        for node in adapters {
            let NodeInfo { vendor, device, system_guid, guid, ports, .. } = node.info;
            let kind = match node.info.kind {
                NodeType::Router => AdapterKind::Router,
                NodeType::ChannelAdapter | NodeType::Switch => AdapterKind::Channel,
            };
            let facts = AdapterFacts { kind, ports, vendor, device, system_guid, guid };
            builder.add_adapter(&node.name(), &node.description, facts);
            for (number, port_guid) in &node.port_guids {
                let facts =
                    EndpointFacts { number: *number, port_guid: *port_guid, ..<_>::default() };
                let endpoint = builder.add_endpoint(facts);
                attachments.push((endpoint, PortName { node: guid, port: *number }));
            }
        }
        let place = |builder: &GraphBuilder, name: &PortName| -> Option<PortId> {
            builder.port(*switches.get(&name.node)?, name.port)
        };
        for (endpoint, name) in attachments {
            let far = self.peers.get(&name).and_then(|far| place(&builder, far));
            if let Some(port) = far {
                builder.attach(endpoint, port)?;
            }
        }
        for Cable(a, b) in self.cables() {
            if let (Some(a), Some(b)) = (place(&builder, &a), place(&builder, &b)) {
                builder.link(a, b)?;
            }
        }
        builder.build()
    }
}
