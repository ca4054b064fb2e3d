//! The network graph: switches, ports, endpoints and cables by dense number.
//!
//! Immutable once built, and stored in columns: a fabric of a million endpoints takes some hundred
//! bytes per endpoint, names included. Every query takes constant time; finding by name is
//! logarithmic.
//!
//! Besides the wiring it keeps the facts that `ibnetdiscover` prints about every node, so that
//! export and import give an equal graph.

mod builder;
mod endpoint_lookup;
mod merged;
mod names;
mod without;

pub use builder::{BuildError, GraphBuilder};
pub use endpoint_lookup::{EndpointNameError, is_guid};

use std::collections::BTreeSet;

use crate::ids::{AdapterId, EndpointId, Peer, PortId, SwitchId, dense};
use endpoint_lookup::LazyLookup;
use names::NameIndex;
pub(crate) use names::Names;

/// Marks no value in a packed column.
const NONE: u32 = u32::MAX;
/// Bit that marks an endpoint in a packed peer.
const ENDPOINT: u32 = 1 << 31;

/// A network of switches and endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    // By switch.
    first_port: Vec<u32>, // one more than switches
    switch_names: Names,
    switch_descriptions: Names,
    switch_facts: Vec<SwitchFacts>,
    // By switch port.
    port_switch: Vec<u32>,
    peers: Vec<u32>,
    port_speeds: Vec<u32>,
    // By adapter.
    first_endpoint: Vec<u32>, // one more than adapters
    adapter_names: Names,
    adapter_descriptions: Names,
    adapter_facts: Vec<AdapterFacts>,
    // By endpoint.
    endpoint_names: Names,
    endpoint_adapter: Vec<u32>,
    endpoint_facts: Vec<EndpointFacts>,
    attachments: Vec<u32>,
    endpoint_speeds: Vec<u32>,
    // Shared.
    speeds: Names,
    find_switch: NameIndex,
    find_description: NameIndex,
    find_endpoint: NameIndex,
    endpoint_lookup: LazyLookup,
}

/// Facts of a switch besides its wiring; 0 where unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchFacts {
    /// Vendor id, as the node reports it.
    pub vendor: u32,
    /// Device id, as the node reports it.
    pub device: u32,
    /// GUID of the chassis or system.
    pub system_guid: u64,
    /// GUID of the node.
    pub guid: u64,
    /// GUID of the management port.
    pub port_guid: u64,
    /// Local identifier (LID).
    pub lid: u16,
    /// LID mask control.
    pub lmc: u8,
    /// True if the management port 0 is an enhanced one.
    pub enhanced_port0: bool,
}

/// Facts of an adapter; 0 where unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdapterFacts {
    /// Channel adapter or router.
    pub kind: AdapterKind,
    /// Number of ports of the card, connected or not.
    pub ports: u8,
    /// Vendor id, as the node reports it.
    pub vendor: u32,
    /// Device id, as the node reports it.
    pub device: u32,
    /// GUID of the system.
    pub system_guid: u64,
    /// GUID of the node.
    pub guid: u64,
}

/// Kind of an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdapterKind {
    /// A host's channel adapter.
    #[default]
    Channel,
    /// A router to another subnet.
    Router,
}

/// Facts of an adapter port; 0 where unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointFacts {
    /// Number of the port on its adapter, from 1.
    pub number: u8,
    /// LID mask control.
    pub lmc: u8,
    /// Local identifier (LID).
    pub lid: u16,
    /// GUID of the port.
    pub port_guid: u64,
}

impl Graph {
    /// Adds the parts of `found` that this graph lacks.
    ///
    /// Parts that `found` lacks stay: they have failed and may come back. Where the two contradict
    /// each other, `found` is right: a cable is where it was found, and the known cables at its two
    /// ends are removed; a node has the description it was found with.
    ///
    /// The known parts come first, in their order, and keep their facts and speeds, so merging a
    /// graph with parts of itself gives an equal graph. Cost: linear.
    #[must_use]
    pub fn merged(&self, found: &Self) -> Self {
        merged::merge(self, found)
    }

    /// Counts the switches.
    #[must_use]
    pub fn switch_count(&self) -> usize {
        self.switch_facts.len()
    }

    /// Counts the endpoints, connected or only listed.
    #[must_use]
    pub fn endpoint_count(&self) -> usize {
        self.attachments.len()
    }

    /// Counts the ports of all switches.
    #[must_use]
    pub fn port_count(&self) -> usize {
        self.peers.len()
    }

    /// Counts the adapters.
    #[must_use]
    pub fn adapter_count(&self) -> usize {
        self.adapter_facts.len()
    }

    /// Iterates over the switches.
    pub fn switches(&self) -> impl ExactSizeIterator<Item = SwitchId> + use<> {
        (0..dense(self.switch_count())).map(SwitchId)
    }

    /// Iterates over the endpoints.
    pub fn endpoints(&self) -> impl ExactSizeIterator<Item = EndpointId> + use<> {
        (0..dense(self.endpoint_count())).map(EndpointId)
    }

    /// Iterates over the adapters.
    pub fn adapters(&self) -> impl ExactSizeIterator<Item = AdapterId> + use<> {
        (0..dense(self.adapter_count())).map(AdapterId)
    }

    /// Iterates over the ports of a switch in the order of their physical numbers, from 1.
    #[inline]
    pub fn ports(&self, switch: SwitchId) -> impl ExactSizeIterator<Item = PortId> + use<> {
        (self.first_port[switch.index()]..self.first_port[switch.index() + 1]).map(PortId)
    }

    /// Returns the port of a switch with a physical number, if it has one.
    #[must_use]
    #[inline]
    pub fn port(&self, switch: SwitchId, number: u8) -> Option<PortId> {
        let first = self.first_port[switch.index()];
        let port = first + u32::from(number.checked_sub(1)?);
        (port < self.first_port[switch.index() + 1]).then_some(PortId(port))
    }

    /// Returns the switch a port belongs to.
    #[must_use]
    #[inline]
    pub fn switch_of(&self, port: PortId) -> SwitchId {
        SwitchId(self.port_switch[port.index()])
    }

    /// Returns the physical number of a port, from 1.
    #[must_use]
    #[inline]
    pub fn port_number(&self, port: PortId) -> u8 {
        let first = self.first_port[self.switch_of(port).index()];
        u8::try_from(port.0 - first + 1).expect("a switch has at most 255 ports")
    }

    /// Returns the peer of a switch port.
    #[must_use]
    #[inline]
    pub fn peer(&self, port: PortId) -> Peer {
        match self.peers[port.index()] {
            NONE => Peer::None,
            packed if packed & ENDPOINT != 0 => Peer::Endpoint(EndpointId(packed & !ENDPOINT)),
            packed => Peer::Switch(PortId(packed)),
        }
    }

    /// Returns the switch port that an endpoint is connected to.
    #[must_use]
    pub fn attachment(&self, endpoint: EndpointId) -> Option<PortId> {
        let port = self.attachments[endpoint.index()];
        (port != NONE).then_some(PortId(port))
    }

    /// Returns the node id of a switch as it was read: "S-" and a GUID.
    #[must_use]
    pub fn switch_name(&self, switch: SwitchId) -> &str {
        self.switch_names.get(switch.index())
    }

    /// Returns the description of a switch; may be empty, and need not be unique.
    #[must_use]
    pub fn switch_description(&self, switch: SwitchId) -> &str {
        self.switch_descriptions.get(switch.index())
    }

    /// Returns the name of an endpoint: its adapter's description if that is unique, else the node
    /// id; followed by "/P" and the port number if the adapter has several endpoints.
    #[must_use]
    pub fn endpoint_name(&self, endpoint: EndpointId) -> &str {
        self.endpoint_names.get(endpoint.index())
    }

    /// Finds a switch by node id, or by description if that is unique.
    #[must_use]
    pub fn find_switch(&self, name: &str) -> Option<SwitchId> {
        let by_id = self.find_switch.find(&self.switch_names, name);
        let by_text = || self.find_description.find(&self.switch_descriptions, name);
        by_id.or_else(by_text).map(SwitchId)
    }

    /// Finds an endpoint by the name that [`Self::endpoint_name`] gives it; see
    /// [`Self::resolve_endpoint`] for names that people give.
    #[must_use]
    pub fn find_endpoint(&self, name: &str) -> Option<EndpointId> {
        self.find_endpoint.find(&self.endpoint_names, name).map(EndpointId)
    }

    /// Finds an endpoint by any of its names: that of [`Self::endpoint_name`]; description, node id
    /// or GUID of its adapter, also with "/P" and the port number; or the GUID of its port. A GUID
    /// is hexadecimal, with "0x" or with six digits and more.
    ///
    /// Cost: constant for the name of [`Self::endpoint_name`], if it is not a name of another
    /// endpoint, too. Otherwise logarithmic, and linear in the number of endpoints that have it.
    /// The first call sorts all names.
    ///
    /// # Errors
    ///
    /// [`EndpointNameError`] if none or several have it.
    pub fn resolve_endpoint(&self, name: &str) -> Result<EndpointId, EndpointNameError> {
        self.endpoint_lookup.resolve(self, name)
    }

    /// Returns the facts of a switch.
    #[must_use]
    pub fn switch_facts(&self, switch: SwitchId) -> &SwitchFacts {
        &self.switch_facts[switch.index()]
    }

    /// Returns the facts of an adapter.
    #[must_use]
    pub fn adapter_facts(&self, adapter: AdapterId) -> &AdapterFacts {
        &self.adapter_facts[adapter.index()]
    }

    /// Returns the node id of an adapter as it was read: "H-" or "R-" and a GUID.
    #[must_use]
    pub fn adapter_name(&self, adapter: AdapterId) -> &str {
        self.adapter_names.get(adapter.index())
    }

    /// Returns the description of an adapter; may be empty.
    #[must_use]
    pub fn adapter_description(&self, adapter: AdapterId) -> &str {
        self.adapter_descriptions.get(adapter.index())
    }

    /// Iterates over the endpoints of an adapter in the order of their port numbers.
    pub fn adapter_endpoints(
        &self,
        adapter: AdapterId,
    ) -> impl ExactSizeIterator<Item = EndpointId> + use<> {
        let at = adapter.index();
        (self.first_endpoint[at]..self.first_endpoint[at + 1]).map(EndpointId)
    }

    /// Returns the adapter an endpoint belongs to.
    #[must_use]
    pub fn adapter_of(&self, endpoint: EndpointId) -> AdapterId {
        AdapterId(self.endpoint_adapter[endpoint.index()])
    }

    /// Returns the facts of an endpoint.
    #[must_use]
    pub fn endpoint_facts(&self, endpoint: EndpointId) -> &EndpointFacts {
        &self.endpoint_facts[endpoint.index()]
    }

    /// Returns width and speed as the switch reports them, such as "4xEDR"; empty if unknown.
    #[must_use]
    pub fn port_speed(&self, port: PortId) -> &str {
        self.speeds.get(self.port_speeds[port.index()] as usize)
    }

    /// Returns width and speed as the adapter reports them; empty if unknown.
    #[must_use]
    pub fn endpoint_speed(&self, endpoint: EndpointId) -> &str {
        self.speeds.get(self.endpoint_speeds[endpoint.index()] as usize)
    }

    /// Returns the name of a port for messages: switch id, description if there is one, and number.
    #[must_use]
    pub fn port_label(&self, port: PortId) -> String {
        format!("{}[{}]", self.switch_label(self.switch_of(port)), self.port_number(port))
    }

    /// Returns the name of a switch for messages: id, and description in parentheses if it is
    /// unique.
    #[must_use]
    pub fn switch_label(&self, switch: SwitchId) -> String {
        let (name, text) = (self.switch_name(switch), self.switch_description(switch));
        if self.find_description.find(&self.switch_descriptions, text).is_some() && !text.is_empty()
        {
            format!("{name} ({text})")
        } else {
            name.to_owned()
        }
    }

    /// Returns all cables by the names of their ends, the same for all graphs that are wired alike:
    /// `switch:port` in ascending order, or one of these and the name of an endpoint.
    #[must_use]
    pub fn cables(&self) -> BTreeSet<[String; 2]> {
        let end =
            |port| format!("{}:{}", self.switch_name(self.switch_of(port)), self.port_number(port));
        let ports = self.switches().flat_map(|switch| self.ports(switch));
        let cables = ports.filter_map(|port| match self.peer(port) {
            Peer::None => None,
            Peer::Endpoint(far) => Some([end(port), self.endpoint_name(far).to_owned()]),
            Peer::Switch(far) => Some([end(port).min(end(far)), end(port).max(end(far))]),
        });
        cables.collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Switches 0 and 1 with one host each at port 1 and switch 2 above them at port 2.
    pub(crate) fn two_leaves_one_spine() -> Graph {
        let mut builder = GraphBuilder::new();
        for (name, ports) in [("S-0", 2), ("S-1", 2), ("S-2", 3)] {
            builder.add_switch(name, "", ports, SwitchFacts::default());
        }
        for leaf in 0..2u8 {
            let id = SwitchId(u32::from(leaf));
            builder.add_adapter(
                &format!("H-{leaf}"),
                &format!("h{leaf}"),
                AdapterFacts { ports: 1, ..AdapterFacts::default() },
            );
            let endpoint =
                builder.add_endpoint(EndpointFacts { number: 1, ..EndpointFacts::default() });
            builder.attach(endpoint, builder.port(id, 1).unwrap()).unwrap();
            let (up, down) =
                (builder.port(id, 2).unwrap(), builder.port(SwitchId(2), leaf + 1).unwrap());
            builder.link(up, down).unwrap();
        }
        builder.build().unwrap()
    }

    #[test]
    fn ports_of_a_switch_are_contiguous_and_numbered_from_one() {
        let graph = two_leaves_one_spine();
        let ports: Vec<_> = graph.ports(SwitchId(1)).collect();
        assert_eq!(ports, [PortId(2), PortId(3)]);
        assert_eq!(graph.port(SwitchId(1), 2), Some(PortId(3)));
        assert_eq!((graph.port(SwitchId(1), 0), graph.port(SwitchId(1), 3)), (None, None));
        assert_eq!((graph.switch_of(PortId(3)), graph.port_number(PortId(3))), (SwitchId(1), 2));
    }

    #[test]
    fn cables_are_seen_from_both_ends() {
        let graph = two_leaves_one_spine();
        assert_eq!(graph.peer(PortId(3)), Peer::Switch(PortId(5)));
        assert_eq!(graph.peer(PortId(5)), Peer::Switch(PortId(3)));
        assert_eq!(graph.peer(PortId(2)), Peer::Endpoint(EndpointId(1)));
        assert_eq!(graph.attachment(EndpointId(1)), Some(PortId(2)));
        assert_eq!(graph.peer(PortId(6)), Peer::None);
        let cables = [["S-0:1", "h0"], ["S-0:2", "S-2:1"], ["S-1:1", "h1"], ["S-1:2", "S-2:2"]];
        let cables = BTreeSet::from(cables.map(|ends| ends.map(str::to_owned)));
        assert_eq!(graph.cables(), cables);
    }

    #[test]
    fn switches_and_endpoints_are_found_by_name() {
        let graph = two_leaves_one_spine();
        assert_eq!(graph.find_switch("S-1"), Some(SwitchId(1)));
        assert_eq!(graph.find_endpoint("h1"), Some(EndpointId(1)));
        assert_eq!((graph.find_switch("S-3"), graph.find_endpoint("H-1")), (None, None));
        assert_eq!(graph.find_switch(""), None);
    }
}
