//! Parts of an expected fabric, as drivers tell of them.

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_topology::{Graph, Peer, PortId};

/// Name of the switch or endpoint at the other end of a port, and the number of its port there.
pub(crate) fn far_end(fabric: &Graph, port: PortId) -> (String, u32) {
    match fabric.peer(port) {
        Peer::None => (String::new(), 0),
        Peer::Endpoint(endpoint) => (fabric.endpoint_name(endpoint).to_owned(), 0),
        Peer::Switch(far) => {
            let name = fabric.switch_name(fabric.switch_of(far)).to_owned();
            (name, u32::from(fabric.port_number(far)))
        }
    }
}

/// Cables and endpoints that have failed, each cable once, by its lower port.
///
/// - `is_down`: true for a port by which no packet can cross.
/// - `leads_elsewhere`: true for a port with another cable than it ought to have.
pub(crate) fn failed_links(
    fabric: &Graph,
    is_down: impl Fn(PortId) -> bool,
    leads_elsewhere: impl Fn(PortId) -> bool,
) -> Vec<Kind> {
    let link = |port: PortId| {
        let switch_name = fabric.switch_name(fabric.switch_of(port)).to_owned();
        Kind::Link(v1::PortName { switch_name, port: u32::from(fabric.port_number(port)) })
    };
    let mut kinds = Vec::new();
    for port in fabric.switches().flat_map(|switch| fabric.ports(switch)) {
        match fabric.peer(port) {
            Peer::Switch(far) if port < far && (is_down(port) || is_down(far)) => {
                kinds.push(link(port));
            }
            Peer::Endpoint(endpoint) if is_down(port) => {
                kinds.push(Kind::Endpoint(fabric.endpoint_name(endpoint).to_owned()));
            }
            Peer::Switch(_) | Peer::Endpoint(_) if leads_elsewhere(port) => kinds.push(link(port)),
            Peer::Switch(_) | Peer::Endpoint(_) | Peer::None => {}
        }
    }
    kinds
}
