//! Logic that several drivers share: parts of an expected fabric, writes, and failed parts.

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_rpc::Reason;
use fabricast_topology::{Graph, Peer, PortId, PortSet};
use tokio::sync::watch;

use crate::driver::{DriverError, Written};

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

/// Ports of an entry; `None` if one of them has a number that no port can have.
pub(crate) fn out_ports(entry: &v1::TableEntry) -> Option<PortSet> {
    entry.out_ports.iter().map(|port| u8::try_from(*port).ok()).collect()
}

/// The answer of a switch that does not take its part of a write.
pub(crate) fn refusal(switch: &str, reason: Reason, message: String) -> v1::SwitchRefusal {
    let (switch_name, reason) = (switch.to_owned(), reason.text().to_owned());
    v1::SwitchRefusal { switch_name, reason, message }
}

/// Writes to all switches at once, and gathers their answers.
///
/// - `fabric`: name of the fabric in the error of a write that has ended by a panic.
/// - `write`: writes the part of one switch.
pub(crate) async fn write_each<F>(
    fabric: &str,
    writes: Vec<v1::SwitchWrite>,
    write: impl Fn(v1::SwitchWrite) -> F + Send,
) -> Result<Written, DriverError>
where
    F: Future<Output = Result<(), v1::SwitchRefusal>> + Send + 'static,
{
    let begin = |part: v1::SwitchWrite| {
        let entries = u64::try_from(part.entries.len()).unwrap_or(u64::MAX);
        (entries, tokio::spawn(write(part)))
    };
    let parts: Vec<_> = writes.into_iter().map(begin).collect();
    let mut written = Written::default();
    for (entries, part) in parts {
        match part.await {
            Ok(Ok(())) => written.entries += entries,
            Ok(Err(refusal)) => written.refusals.push(refusal),
            Err(error) => {
                let (fabric, message) = (fabric.to_owned(), error.to_string());
                return Err(DriverError::Unavailable { fabric, message });
            }
        }
    }
    Ok(written)
}

/// Tells which parts have failed, unless that was told last.
pub(crate) fn tell_failed(told: &watch::Sender<Vec<v1::Element>>, failed: Vec<v1::Element>) {
    told.send_if_modified(|before| {
        let is_other = *before != failed;
        *before = failed;
        is_other
    });
}
