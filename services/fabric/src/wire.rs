//! Codec between the wire and the emulator; what does not fit becomes a [`Refusal`].

use fabricast_emulator::{Component, EntryWrite, Fence, Packet};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_rpc::Reason;
use fabricast_topology::{
    EndpointId, EndpointNameError, Faults, Graph, Peer, PortId, PortSet, SwitchId, TableEntry,
    TableKind,
};
use thiserror::Error;

/// Most payload bytes of a packet.
pub(crate) const PAYLOAD_LIMIT: usize = 4096;
/// Most numbers of a contribution.
pub(crate) const VALUES_LIMIT: usize = 8_192;

/// Reason why a part of a request was refused.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    #[error("{field} is missing")]
    Missing { field: &'static str },
    #[error("no endpoint '{name}' in the fabric")]
    UnknownEndpoint { name: String },
    #[error(transparent)]
    AmbiguousEndpoint(EndpointNameError),
    #[error(transparent)]
    AmbiguousElement(EndpointNameError),
    #[error("endpoint '{name}' is attached by another process")]
    Attached { name: String },
    #[error("endpoint '{name}' is not attached by this process")]
    NotAttached { name: String },
    #[error("packet.color {color} is not below {colors}")]
    Color { color: u32, colors: u16 },
    #[error("packet.payload has {bytes} bytes, more than {PAYLOAD_LIMIT}")]
    Payload { bytes: usize },
    #[error("no switch '{name}' in the fabric")]
    UnknownSwitch { name: String },
    #[error("no {element} in the fabric")]
    UnknownElement { element: String },
    #[error("work.reduction: switches have no {name}")]
    Reduction { name: &'static str },
    #[error("values: {count} numbers, at most {VALUES_LIMIT} are allowed")]
    TooManyValues { count: usize },
}

impl Refusal {
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Missing { .. } => Reason::FieldMissing,
            Self::UnknownEndpoint { .. }
            | Self::AmbiguousEndpoint(_)
            | Self::NotAttached { .. } => Reason::UnknownEndpoint,
            Self::Attached { .. } => Reason::EndpointAttached,
            Self::Color { .. } => Reason::ColorOutOfRange,
            Self::Payload { .. } | Self::TooManyValues { .. } => Reason::PayloadTooLong,
            Self::Reduction { .. } => Reason::ContributionInvalid,
            Self::UnknownSwitch { .. } => Reason::UnknownSwitch,
            Self::UnknownElement { .. } | Self::AmbiguousElement(_) => Reason::UnknownElement,
        }
    }

    /// Text of the refusal inside a stream that goes on: reason, colon, details.
    pub(crate) fn line(&self) -> String {
        format!("{}: {self}", self.reason().text())
    }

    /// Key and value of the fact that goes with the reason.
    pub(crate) fn fact(&self) -> (&'static str, String) {
        match self {
            Self::Missing { field } => ("field", (*field).to_owned()),
            Self::AmbiguousEndpoint(error) => ("endpoint", error.name().to_owned()),
            Self::UnknownEndpoint { name }
            | Self::Attached { name }
            | Self::NotAttached { name } => ("endpoint", name.clone()),
            Self::Reduction { name } => ("reduction", (*name).to_owned()),
            Self::Color { color, .. } => ("color", color.to_string()),
            Self::Payload { bytes } => ("bytes", bytes.to_string()),
            Self::UnknownSwitch { name } => ("switch", name.clone()),
            Self::UnknownElement { element } => ("element", element.clone()),
            Self::AmbiguousElement(error) => ("element", error.name().to_owned()),
            Self::TooManyValues { .. } => ("field", "values".to_owned()),
        }
    }
}

/// Finds an endpoint.
pub(crate) fn endpoint(graph: &Graph, name: &str) -> Result<EndpointId, Refusal> {
    graph.resolve_endpoint(name).map_err(|error| match error {
        EndpointNameError::Unknown { name } => Refusal::UnknownEndpoint { name },
        EndpointNameError::Ambiguous { .. } => Refusal::AmbiguousEndpoint(error),
    })
}

/// Finds a switch.
pub(crate) fn switch(graph: &Graph, name: &str) -> Result<SwitchId, Refusal> {
    graph.find_switch(name).ok_or_else(|| Refusal::UnknownSwitch { name: name.to_owned() })
}

/// Checks a packet against the fabric's limits.
pub(crate) fn packet(packet: Option<v1::Packet>, colors: u16) -> Result<Packet, Refusal> {
    let packet = packet.ok_or(Refusal::Missing { field: "packet" })?;
    let v1::Packet { mgid, color, payload, source, sequence } = packet;
    if payload.len() > PAYLOAD_LIMIT {
        return Err(Refusal::Payload { bytes: payload.len() });
    }
    match u16::try_from(color) {
        Ok(color) if color < colors => {
            Ok(Packet { mgid, color, payload, origin: (source, sequence) })
        }
        _ => Err(Refusal::Color { color, colors }),
    }
}

/// Finds the part of the fabric that an element names.
pub(crate) fn component(graph: &Graph, element: Option<v1::Element>) -> Result<Component, Refusal> {
    let kind = element.and_then(|element| element.kind);
    match kind.ok_or(Refusal::Missing { field: "element" })? {
        Kind::Link(end) => {
            let port = graph
                .find_switch(&end.switch_name)
                .and_then(|switch| graph.port(switch, u8::try_from(end.port).ok()?))
                .filter(|port| graph.peer(*port) != Peer::None);
            let v1::PortName { switch_name, port: number } = end;
            let element = || format!("link at port {number} of switch '{switch_name}'");
            port.map(Component::Link).ok_or_else(|| Refusal::UnknownElement { element: element() })
        }
        Kind::SwitchName(name) => graph
            .find_switch(&name)
            .map(Component::Switch)
            .ok_or_else(|| Refusal::UnknownElement { element: format!("switch '{name}'") }),
        Kind::Endpoint(name) => {
            graph.resolve_endpoint(&name).map(Component::Endpoint).map_err(|error| match error {
                EndpointNameError::Unknown { name } => {
                    Refusal::UnknownElement { element: format!("endpoint '{name}'") }
                }
                EndpointNameError::Ambiguous { .. } => Refusal::AmbiguousElement(error),
            })
        }
    }
}

/// Lists all failed parts: switches, links (once each, by the lower port), endpoints.
pub(crate) fn failed_elements(graph: &Graph, faults: &Faults) -> Vec<v1::Element> {
    let switches =
        faults.dead_switches().map(|switch| Kind::SwitchName(graph.switch_name(switch).to_owned()));
    let is_upper_end =
        |port: &PortId| matches!(graph.peer(*port), Peer::Switch(other) if other < *port);
    let links = faults.dead_link_ports().filter(|port| !is_upper_end(port)).map(|port| {
        Kind::Link(v1::PortName {
            switch_name: graph.switch_name(graph.switch_of(port)).to_owned(),
            port: graph.port_number(port).into(),
        })
    });
    let endpoints = faults
        .dead_endpoints()
        .map(|endpoint| Kind::Endpoint(graph.endpoint_name(endpoint).to_owned()));
    let element = |kind| v1::Element { kind: Some(kind) };
    switches.chain(links).chain(endpoints).map(element).collect()
}

/// Decodes an entry to be written; the error names the number that no table can hold.
pub(crate) fn entry_write(entry: &v1::TableEntry) -> Result<EntryWrite, String> {
    let v1::TableEntry { in_port, color, out_ports } = entry;
    let port = |field: &str, number: u32| {
        u8::try_from(number).map_err(|_| format!("{field} {number} is not a port number"))
    };
    let mut out = PortSet::EMPTY;
    for number in out_ports {
        out.insert(port("out_ports", *number)?);
    }
    Ok(EntryWrite {
        in_port: port("in_port", *in_port)?,
        color: u16::try_from(*color)
            .map_err(|_| format!("color {color} is not an entry number"))?,
        out,
    })
}

/// Encodes an entry that was read.
pub(crate) fn entry(entry: &TableEntry) -> v1::TableEntry {
    v1::TableEntry {
        in_port: entry.in_port.into(),
        color: entry.color.into(),
        out_ports: entry.out.iter().map(u32::from).collect(),
    }
}

/// Encodes the fence of a switch; a switch that was never written has none.
pub(crate) fn fence(fence: Fence) -> Option<v1::Fence> {
    let Fence { term, generation } = fence;
    (fence != Fence::default()).then_some(v1::Fence { term, generation })
}

/// Encodes the kind of tables.
pub(crate) fn table_kind(kind: TableKind) -> v1::TableKind {
    match kind {
        TableKind::PerPort => v1::TableKind::PerPort,
        TableKind::PerSwitch => v1::TableKind::PerSwitch,
    }
}
