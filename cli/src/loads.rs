//! Port loads from a file, for engines that choose roots by them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use fabricast_routing::PortLoads;
use fabricast_topology::Graph;
use serde::{Deserialize, Deserializer, de};

use crate::args::OfflineEngineArgs;
use crate::failure::Failure;
use crate::source::read_text;

/// The counters of one switch, as `switch show --counters --format json` prints them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Switch {
    switch_name: String,
    #[serde(default)]
    ports: Vec<Port>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    port: u8,
    #[serde(deserialize_with = "whole")]
    sent_bytes: u64,
}

/// Reads a 64-bit number, which is text in the JSON of protobuf, but may be written as a number.
fn whole<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Plain(u64),
        Text(String),
    }
    match Number::deserialize(value)? {
        Number::Plain(number) => Ok(number),
        Number::Text(text) => text.parse().map_err(de::Error::custom),
    }
}

/// Reads the loads for a root policy; none if it does not use loads.
///
/// # Errors
///
/// A policy that needs loads is given none; a file that cannot be read, with the place and the
/// field.
pub(crate) fn read(
    args: &OfflineEngineArgs,
    graph: &Graph,
) -> Result<Option<Arc<PortLoads>>, Failure> {
    match (&args.loads, args.engine.root_policy) {
        (None, Some(policy)) if policy.looks_at_load() => Err(Failure::input(format!(
            "--root-policy: {policy} chooses by the load of ports, which --loads has to give"
        ))),
        (None, _) => Ok(None),
        (Some(file), _) => Ok(Some(Arc::new(read_file(file, graph)?))),
    }
}

fn read_file(file: &Path, graph: &Graph) -> Result<PortLoads, Failure> {
    let text = read_text(file)?;
    let mut sent = vec![0; graph.port_count()];
    let switches = serde_json::Deserializer::from_str(&text).into_iter::<Switch>();
    for (number, switch) in (1..).zip(switches) {
        let place = || format!("'{}': switch {number}", file.display());
        let Switch { switch_name, ports } = switch.with_context(place)?;
        let known = graph.find_switch(&switch_name);
        let unknown = || anyhow!("switchName: no switch '{switch_name}' in the topology");
        let switch = known.ok_or_else(unknown).with_context(place)?;
        for Port { port, sent_bytes } in ports {
            let unknown = || anyhow!("port: '{switch_name}' has no port {port}");
            let port = graph.port(switch, port).ok_or_else(unknown).with_context(place)?;
            sent[port.index()] = sent_bytes;
        }
    }
    Ok(PortLoads::new(graph, sent))
}
