//! Discovery of a subnet: which packets to send, and what their answers say.
//!
//! Breadth first from the local node. A node is known by its GUID, so the many routes to it are
//! asked once; a cable found from one end is not asked for from the other.
//!
//! ```text
//! while let Some(query) = discovery.next_query() { send it, or keep it for later }
//! discovery.answered(id, &data) or discovery.unanswered(id), once for each query
//! discovery.is_done() -> discovery.finish()
//! ```
//!
//! Cost: for a switch of n ports n + 3 queries, and one for each cable.

use std::collections::{BTreeMap, VecDeque};

use crate::attributes::{NodeDescription, NodeInfo, NodeType, PortInfo, SwitchInfo};
use crate::smp::{Attribute, Data, Path};
use crate::subnet::{Node, PortName, Subnet};

/// Number of a query within one discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueryId(pub u32);

/// A request to send, with method Get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Id to pass back with the answer.
    pub id: QueryId,
    /// Path to the node.
    pub path: Path,
    /// Attribute that is requested.
    pub attribute: Attribute,
    /// Attribute modifier, which selects a part of the attribute.
    pub modifier: u32,
}

/// Purpose of a query in flight.
#[derive(Clone, Debug)]
enum Asked {
    /// Node behind a port; none for the local node.
    Node {
        path: Path,
        from: Option<PortName>,
    },
    Description {
        node: u64,
    },
    Capacity {
        node: u64,
    },
    Port {
        name: PortName,
    },
}

/// State of one discovery.
#[derive(Clone, Debug)]
pub struct Discovery {
    subnet: Subnet,
    waiting: VecDeque<Query>,
    asked: BTreeMap<QueryId, Asked>,
    next: u32,
}

impl Default for Discovery {
    fn default() -> Self {
        Self::new()
    }
}

impl Discovery {
    /// Starts at the local node.
    #[must_use]
    pub fn new() -> Self {
        let mut discovery = Self {
            subnet: Subnet::default(),
            waiting: VecDeque::new(),
            asked: BTreeMap::new(),
            next: 0,
        };
        discovery.ask_node(Path::local(), None);
        discovery
    }

    /// Returns the next request, if one can be sent now.
    pub fn next_query(&mut self) -> Option<Query> {
        self.waiting.pop_front()
    }

    /// True once every query has been answered or has failed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.asked.is_empty()
    }

    /// Handles an answer; an invalid one counts as no answer.
    pub fn answered(&mut self, id: QueryId, data: &Data) {
        let Some(asked) = self.asked.remove(&id) else { return };
        let understood = match asked {
            Asked::Node { path, from } => self.found(path, from, data),
            Asked::Description { node } => {
                let text = NodeDescription::read(data).0;
                self.update(node, |found| found.description = text)
            }
            Asked::Capacity { node } => {
                let info = SwitchInfo::read(data);
                self.update(node, |found| found.switch = Some(info))
            }
            Asked::Port { name } => self.port(name, data),
        };
        if understood.is_none() {
            self.subnet.unanswered += 1;
        }
    }

    /// Records that a query got no answer.
    pub fn unanswered(&mut self, id: QueryId) {
        if self.asked.remove(&id).is_some() {
            self.subnet.unanswered += 1;
        }
    }

    /// Returns the subnet that was found.
    #[must_use]
    pub fn finish(self) -> Subnet {
        self.subnet
    }

    fn ask(&mut self, path: Path, attribute: Attribute, modifier: u32, asked: Asked) {
        let id = QueryId(self.next);
        self.next += 1;
        self.asked.insert(id, asked);
        self.waiting.push_back(Query { id, path, attribute, modifier });
    }

    fn ask_node(&mut self, path: Path, from: Option<PortName>) {
        let asked = Asked::Node { path: path.clone(), from };
        self.ask(path, Attribute::NodeInfo, 0, asked);
    }

    fn update(&mut self, node: u64, change: impl FnOnce(&mut Node)) -> Option<()> {
        self.subnet.nodes.get_mut(&node).map(change)
    }

    fn found(&mut self, path: Path, from: Option<PortName>, data: &Data) -> Option<()> {
        let info = NodeInfo::read(data).ok()?;
        let here = PortName { node: info.guid, port: info.local_port };
        if let Some(from) = from {
            self.subnet.peers.insert(from, here);
            self.subnet.peers.insert(here, from);
        }
        let is_new = !self.subnet.nodes.contains_key(&info.guid);
        let node = self.subnet.nodes.entry(info.guid).or_insert_with(|| Node {
            info,
            description: String::new(),
            path: path.clone(),
            switch: None,
            ports: BTreeMap::new(),
            port_guids: BTreeMap::new(),
        });
        if info.kind != NodeType::Switch {
            node.port_guids.insert(info.local_port, info.port_guid);
        }
        if is_new {
            let asked = Asked::Description { node: info.guid };
            self.ask(path.clone(), Attribute::NodeDescription, 0, asked);
        }
        match info.kind {
            NodeType::Switch if is_new => self.ask_switch(&path, &info),
            // From an adapter there is a way on only where we started.
            NodeType::ChannelAdapter | NodeType::Router if from.is_none() => {
                let on = path.by(info.local_port).ok()?;
                self.ask_node(on, Some(here));
            }
            NodeType::Switch | NodeType::ChannelAdapter | NodeType::Router => {}
        }
        Some(())
    }

    fn ask_switch(&mut self, path: &Path, info: &NodeInfo) {
        let asked = Asked::Capacity { node: info.guid };
        self.ask(path.clone(), Attribute::SwitchInfo, 0, asked);
        for port in 1..=info.ports {
            let asked = Asked::Port { name: PortName { node: info.guid, port } };
            self.ask(path.clone(), Attribute::PortInfo, u32::from(port), asked);
        }
    }

    fn port(&mut self, name: PortName, data: &Data) -> Option<()> {
        let info = PortInfo::read(data).ok()?;
        let node = self.subnet.nodes.get_mut(&name.node)?;
        node.ports.insert(name.port, info);
        if info.has_link() && !self.subnet.peers.contains_key(&name) {
            let on = node.path.by(name.port).ok()?;
            self.ask_node(on, Some(name));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
