//! Checks of request fields; each refusal names the field.

use std::collections::BTreeSet;

use fabricast_groups::names::{Address, EndpointName, NameError, NodeName, RequestId};
use fabricast_groups::voucher::{VOUCHER_KEY_BYTES, VoucherKey};
use fabricast_rpc::Reason;
use fabricast_telemetry::traces;
use fabricast_topology::{EndpointNameError, Graph};
use http::uri::Authority;
use tonic::Status;

use crate::domain::route_terms::Router;

/// Longest free text, in characters.
const MAX_TEXT_CHARS: usize = 4096;

/// Accepts a text as a name.
pub(crate) fn name<T>(
    field: &str,
    text: &str,
    accept: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<T, Status> {
    accept(text).map_err(|error| {
        Reason::NameInvalid.status(format!("{field}: {error}"), &[("field", field)])
    })
}

/// Accepts a number of entries.
pub(crate) fn few(field: &str, number: u32) -> Result<u16, Status> {
    u16::try_from(number).map_err(|_| {
        let text = format!("{field}: {number} is more than {}", u16::MAX);
        Reason::CollectiveInvalid.status(text, &[("field", field)])
    })
}

/// Accepts a request id, and adds it to the trace of the call.
pub(crate) fn request_id(text: &str) -> Result<RequestId, Status> {
    traces::note("fabricast.request_id", text);
    name("request_id", text, RequestId::new)
}

/// Accepts the voucher key of a node; older agents send none.
pub(crate) fn voucher_key(bytes: &[u8]) -> Result<Option<VoucherKey>, Status> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let key = <[u8; VOUCHER_KEY_BYTES]>::try_from(bytes).map_err(|_wrong_length| {
        let length = bytes.len();
        let text = format!("voucher_key: {length} bytes, a key has {VOUCHER_KEY_BYTES}");
        Reason::NameInvalid.status(text, &[("field", "voucher_key")])
    })?;
    Ok(Some(VoucherKey::new(key)))
}

/// Accepts an address of the form `host:port`.
pub(crate) fn address(field: &str, text: &str) -> Result<Address, Status> {
    let address = name(field, text, Address::new)?;
    let parsed = text.parse::<Authority>().ok().filter(|_| !text.contains('@'));
    let valid = parsed.is_some_and(|parsed| {
        !parsed.host().is_empty() && parsed.port_u16().is_some_and(|port| port > 0)
    });
    if valid {
        Ok(address)
    } else {
        let message = format!("{field}: '{text}' is not an address of the form host:port");
        Err(Reason::NameInvalid.status(message, &[("field", field)]))
    }
}

/// Accepts a caller's name for itself, which is only logged.
pub(crate) fn label<'a>(field: &str, text: &'a str) -> Result<&'a str, Status> {
    let kind = || "name".to_owned();
    let of_anybody = |error| match error {
        NameError::Empty { .. } => NameError::Empty { kind: kind() },
        NameError::TooLong { chars, .. } => NameError::TooLong { kind: kind(), chars },
        NameError::ControlCharacter { character, at, .. } => {
            NameError::ControlCharacter { kind: kind(), character, at }
        }
    };
    name(field, text, |text| NodeName::new(text).map_err(of_anybody)).map(|_| text)
}

/// Accepts the name and the address of a route service; the address may be empty.
pub(crate) fn router(name: &str, address: String) -> Result<Router, Status> {
    let name = label("router", name)?.to_owned();
    if !address.is_empty() {
        self::address("address", &address)?;
    }
    Ok(Router { name, address })
}

/// Accepts endpoints of the topology, at least one, and each named once.
pub(crate) fn endpoints(
    graph: &Graph,
    field: &str,
    names: &[String],
) -> Result<Vec<EndpointName>, Status> {
    let mut seen = BTreeSet::new();
    let mut endpoints = Vec::with_capacity(names.len());
    for text in names {
        let endpoint = endpoint(graph, field, text)?;
        if !seen.insert(endpoint.clone()) {
            let message = format!("{field}: '{endpoint}' is named twice");
            return Err(Reason::NameInvalid.status(message, &[("endpoint", text)]));
        }
        endpoints.push(endpoint);
    }
    if endpoints.is_empty() { Err(missing(field)) } else { Ok(endpoints) }
}

/// Accepts an endpoint by any of its names, and returns the one that records have.
pub(crate) fn endpoint(graph: &Graph, field: &str, text: &str) -> Result<EndpointName, Status> {
    name(field, text, EndpointName::new)?;
    let found = graph.resolve_endpoint(text).map_err(|error| endpoint_error(field, &error))?;
    name(field, graph.endpoint_name(found), EndpointName::new)
}

/// Refuses a name of no endpoint, or of several.
pub(crate) fn endpoint_error(field: &str, error: &EndpointNameError) -> Status {
    let fact = ("endpoint", error.name());
    Reason::UnknownEndpoint.status(format!("{field}: {error}"), &[fact])
}

/// Accepts the endpoints of a node, which knows them by the names that records have.
pub(crate) fn own_endpoints(graph: &Graph, names: &[String]) -> Result<Vec<EndpointName>, Status> {
    let field = "node.endpoints";
    let own = endpoints(graph, field, names)?;
    match names.iter().zip(&own).find(|(text, own)| **text != own.as_str()) {
        None => Ok(own),
        Some((text, own)) => {
            let message =
                format!("{field}: the topology calls '{text}' '{own}', and so must its agent");
            Err(Reason::NameInvalid.status(message, &[("endpoint", text)]))
        }
    }
}

/// Accepts free text of bounded length.
pub(crate) fn text<'a>(field: &str, text: &'a str) -> Result<&'a str, Status> {
    let chars = text.chars().count();
    if chars <= MAX_TEXT_CHARS {
        return Ok(text);
    }
    let message = format!("{field}: {chars} characters, at most {MAX_TEXT_CHARS} are allowed");
    Err(Reason::NameInvalid.status(message, &[("field", field)]))
}

/// Refuses a call because a required field is absent.
pub(crate) fn missing(field: &str) -> Status {
    Reason::FieldMissing.status(format!("{field}: required, but missing"), &[("field", field)])
}

/// Accepts a number other than zero, which stands for a missing field in a message.
pub(crate) fn not_zero(field: &str, number: u64) -> Result<u64, Status> {
    if number == 0 { Err(missing(field)) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_a_host_and_a_port() {
        assert!(address("node.address", "127.0.0.1:7000").is_ok());
        assert!(address("node.address", "[::1]:7000").is_ok());
        assert!(address("node.address", "node-3.cluster:7000").is_ok());
        for bad in ["", "host", "host:", ":1", "host:0", "host:99999", "a b:1", "h:1/x", "u@h:1"] {
            let status = address("node.address", bad).unwrap_err();
            assert!(status.message().starts_with("node.address: "), "{bad}: {status:?}");
        }
    }
}
