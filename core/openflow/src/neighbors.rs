//! Neighbors of switch ports, as frames tell them, and the fabric that they make.
//!
//! A frame shows that a cable carries packets in one direction. That is a cable unless another
//! frame contradicts it: one of which a direction is broken is still the cable that is there, and
//! ports say by themselves that they have no signal.
//!
//! A port keeps its neighbor until that was silent for a time or the port went down, so two
//! senders behind one port do not take turns. Only a switch takes the place of an endpoint at
//! once, because an endpoint is what anybody on a host says.
//!
//! Invariants
//! - OPENFLOW-2: at any time, no two ports have the same endpoint, by name or by address.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_topology::{
    AdapterFacts, BuildError, EndpointFacts, Graph, GraphBuilder, Peer, PortId, SwitchFacts,
};

/// A port of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SwitchPort {
    /// Datapath id of the switch.
    pub datapath: u64,
    /// Number of the port, from 1.
    pub number: u8,
}

/// Sender of the frames that a port receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Neighbor {
    /// A port of a switch.
    Switch(SwitchPort),
    /// An interface of a host.
    Endpoint {
        /// Name of the endpoint that the interface is.
        name: String,
        /// Ethernet address of the interface.
        address: [u8; 6],
    },
}

impl Neighbor {
    /// True if both are endpoints and one cannot be without the other being it.
    fn is_same_endpoint(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Endpoint { name, address },
                Self::Endpoint { name: other_name, address: other_address },
            ) => name == other_name || address == other_address,
            (Self::Switch(_), _) | (_, Self::Switch(_)) => false,
        }
    }

    /// Name of the endpoint, if it is one.
    fn endpoint(&self) -> Option<&str> {
        match self {
            Self::Endpoint { name, .. } => Some(name),
            Self::Switch(_) => None,
        }
    }
}

/// A frame that a switch has handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeardFrame {
    /// Port that it came in by.
    pub port: SwitchPort,
    /// Sender of the frame.
    pub neighbor: Neighbor,
    /// Time after which it is forgotten, unless another one of the same sender comes.
    pub silence: Duration,
}

/// A switch that the caller is connected with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenSwitch {
    /// Its datapath id.
    pub datapath: u64,
    /// Node id in the fabric.
    pub name: String,
    /// Free text; may be empty.
    pub description: String,
    /// Largest number of a port.
    pub ports: u8,
}

/// Neighbor that a port has in place of the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Port that hears it.
    pub port: SwitchPort,
    /// Sender of the frames there.
    pub neighbor: Neighbor,
}

/// The neighbor that each port hears.
///
/// `now` is the time since any fixed start. Call [`forget_silent`](Self::forget_silent) again and
/// again: nothing is forgotten by itself.
#[derive(Clone, Debug, Default)]
pub struct NeighborTable {
    heard: BTreeMap<SwitchPort, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    neighbor: Neighbor,
    until: Duration,
}

impl NeighborTable {
    /// Takes a frame. Returns true if it tells something new. Cost: constant but for news, which
    /// cost the number of ports.
    pub fn hear(&mut self, now: Duration, frame: HeardFrame) -> bool {
        let HeardFrame { port, neighbor, silence } = frame;
        let until = now.saturating_add(silence);
        if let Some(known) = self.heard.get_mut(&port) {
            if known.neighbor == neighbor {
                known.until = until;
                return false;
            }
            let takes_its_place =
                known.neighbor.endpoint().is_some() && neighbor.endpoint().is_none();
            if known.until > now && !takes_its_place {
                return false;
            }
        }
        if neighbor == Neighbor::Switch(port) {
            return false; // somebody sends the port's own frames back
        }
        self.forget_silent(now);
        if self.heard.values().any(|known| known.neighbor.is_same_endpoint(&neighbor)) {
            return false;
        }
        self.heard.insert(port, Entry { neighbor, until });
        true
    }

    /// Forgets what a port hears and who hears the port, because it is down. Returns true if there
    /// was something.
    pub fn forget_port(&mut self, port: SwitchPort) -> bool {
        let before = self.heard.len();
        let far = Neighbor::Switch(port);
        self.heard.retain(|one, entry| *one != port && entry.neighbor != far);
        self.heard.len() != before
    }

    /// Forgets neighbors that were silent for too long. Returns true if there were some.
    pub fn forget_silent(&mut self, now: Duration) -> bool {
        let before = self.heard.len();
        self.heard.retain(|_, entry| entry.until > now);
        self.heard.len() != before
    }

    /// Ports of a switch at which endpoints are heard.
    pub fn endpoint_ports(&self, datapath: u64) -> impl Iterator<Item = u8> {
        let port = |number| SwitchPort { datapath, number };
        let heard = self.heard.range(port(0)..=port(u8::MAX));
        heard.filter(|(_, entry)| entry.neighbor.endpoint().is_some()).map(|(port, _)| port.number)
    }

    /// Makes the fabric of what is heard: switches by datapath id, endpoints by their ports.
    ///
    /// - `switches`: those that the caller is connected with. Others are added as far as frames of
    ///   theirs are heard, because another agent may serve them.
    /// - `name`: node id by datapath id; `None` for a switch that is no part of the fabric.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if two switches have one name.
    pub fn graph(
        &self,
        switches: &[SeenSwitch],
        name: impl Fn(u64) -> Option<String>,
    ) -> Result<Graph, BuildError> {
        let mut nodes: BTreeMap<u64, SeenSwitch> =
            switches.iter().map(|one| (one.datapath, one.clone())).collect();
        let links = self.links();
        for end in links.iter().flatten().copied().chain(self.heard.keys().copied()) {
            let SwitchPort { datapath, number } = end;
            let Some(name) = name(datapath) else { continue };
            let description = String::new();
            let unseen = SeenSwitch { datapath, name, description, ports: 0 };
            let node = nodes.entry(datapath).or_insert(unseen);
            node.ports = node.ports.max(number);
        }
        let mut builder = GraphBuilder::new();
        let mut ids = BTreeMap::new();
        for (datapath, SeenSwitch { name, description, ports, .. }) in &nodes {
            let facts =
                SwitchFacts { guid: *datapath, port_guid: *datapath, ..SwitchFacts::default() };
            ids.insert(*datapath, builder.add_switch(name, description, *ports, facts));
        }
        let place = |builder: &GraphBuilder, port: SwitchPort| {
            builder.port(*ids.get(&port.datapath)?, port.number)
        };
        for (port, entry) in &self.heard {
            if let Neighbor::Endpoint { name, address } = &entry.neighbor
                && let Some(port) = place(&builder, *port)
            {
                add_endpoint(&mut builder, name, *address, port)?;
            }
        }
        for [one, other] in links {
            if let (Some(one), Some(other)) = (place(&builder, one), place(&builder, other)) {
                builder.link(one, other)?;
            }
        }
        builder.build()
    }

    /// Cables between switches, each once, by its lower end: of ports of which all frames say that
    /// they lead to each other.
    fn links(&self) -> Vec<[SwitchPort; 2]> {
        let mut told = BTreeMap::<SwitchPort, BTreeSet<SwitchPort>>::new();
        for (port, entry) in &self.heard {
            if let Neighbor::Switch(far) = entry.neighbor {
                told.entry(*port).or_default().insert(far);
                told.entry(far).or_default().insert(*port);
            }
        }
        let has_endpoint = |port: &SwitchPort| {
            self.heard.get(port).is_some_and(|entry| entry.neighbor.endpoint().is_some())
        };
        let only = |port: &SwitchPort| {
            let fars = told.get(port).filter(|fars| fars.len() == 1 && !has_endpoint(port))?;
            fars.first().copied()
        };
        let link = |port: &SwitchPort| {
            let far = only(port).filter(|far| port < far && only(far) == Some(*port))?;
            Some([*port, far])
        };
        told.keys().filter_map(link).collect()
    }

    /// Finds cables of an expected fabric that lead elsewhere, by the lower port of each, or by the
    /// port of an endpoint. Silence contradicts nothing. Cost: the ports of the fabric.
    ///
    /// - `datapath`: datapath id by node id.
    #[must_use]
    pub fn contradictions(
        &self,
        expected: &Graph,
        datapath: impl Fn(&str) -> Option<u64>,
    ) -> BTreeMap<PortId, Contradiction> {
        let place = |port: PortId| {
            let datapath = datapath(expected.switch_name(expected.switch_of(port)))?;
            Some(SwitchPort { datapath, number: expected.port_number(port) })
        };
        let endpoints = self.heard.iter();
        let endpoints = endpoints.filter_map(|(at, entry)| Some((entry.neighbor.endpoint()?, *at)));
        let by_name: BTreeMap<&str, SwitchPort> = endpoints.collect();
        let other = |port: SwitchPort, is_expected: &dyn Fn(&Neighbor) -> bool| {
            let entry = self.heard.get(&port).filter(|entry| !is_expected(&entry.neighbor))?;
            Some(Contradiction { port, neighbor: entry.neighbor.clone() })
        };
        let mut found = BTreeMap::new();
        for port in expected.switches().flat_map(|switch| expected.ports(switch)) {
            let Some(here) = place(port) else { continue };
            let contradiction = match expected.peer(port) {
                Peer::Switch(far) if port < far => place(far).and_then(|there| {
                    let is_at = |far| move |heard: &Neighbor| *heard == Neighbor::Switch(far);
                    other(here, &is_at(there)).or_else(|| other(there, &is_at(here)))
                }),
                Peer::Endpoint(endpoint) => {
                    let name = expected.endpoint_name(endpoint);
                    let elsewhere = by_name.get(name).copied().filter(|at| *at != here);
                    other(here, &|heard: &Neighbor| heard.endpoint() == Some(name))
                        .or_else(|| other(elsewhere?, &|_: &Neighbor| false))
                }
                Peer::Switch(_) | Peer::None => None,
            };
            found.extend(contradiction.map(|one| (port, one)));
        }
        found
    }
}

/// Adds an adapter with one port, named by its Ethernet address, at a port of a switch.
fn add_endpoint(
    builder: &mut GraphBuilder,
    name: &str,
    address: [u8; 6],
    port: PortId,
) -> Result<(), BuildError> {
    let guid = address.iter().fold(0, |guid: u64, byte| guid << 8 | u64::from(*byte));
    let facts = AdapterFacts { ports: 1, guid, ..AdapterFacts::default() };
    builder.add_adapter(&format!("H-{guid:016x}"), name, facts);
    let facts = EndpointFacts { number: 1, port_guid: guid, ..EndpointFacts::default() };
    let endpoint = builder.add_endpoint(facts);
    builder.attach(endpoint, port)
}

#[cfg(test)]
mod tests;
