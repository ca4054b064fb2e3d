//! Resolves the faults of a description to parts of the graph.

use super::{FaultSpec, LinkSpec, SpecError};
use crate::faults::Faults;
use crate::graph::Graph;
use crate::ids::{Peer, PortId, SwitchId};

pub(super) fn resolve(graph: &Graph, spec: &FaultSpec) -> Result<Faults, SpecError> {
    let mut faults = Faults::new();
    for name in &spec.switches {
        faults.fail_switch(find_switch(graph, "switches", name)?);
    }
    for name in &spec.endpoints {
        let endpoint = graph.resolve_endpoint(name).map_err(SpecError::Endpoint)?;
        faults.fail_endpoint(endpoint);
    }
    for (index, link) in spec.links.iter().enumerate() {
        for port in resolve_link(graph, index, link)? {
            faults.fail_link(graph, port);
        }
    }
    Ok(faults)
}

fn find_switch(graph: &Graph, field: &'static str, name: &str) -> Result<SwitchId, SpecError> {
    let unknown = || SpecError::UnknownName { field, what: "switch", name: name.to_owned() };
    graph.find_switch(name).ok_or_else(unknown)
}

fn resolve_link(graph: &Graph, index: usize, link: &LinkSpec) -> Result<Vec<PortId>, SpecError> {
    let bad = |problem: String| SpecError::BadLink { index, problem };
    let ports = match link {
        LinkSpec { endpoint: Some(name), switch: None, port: None, to: None, lane: None } => {
            let endpoint = graph.resolve_endpoint(name).map_err(|error| bad(error.to_string()))?;
            graph.attachment(endpoint).into_iter().collect()
        }
        LinkSpec {
            switch: Some(switch),
            port: Some(port),
            endpoint: None,
            to: None,
            lane: None,
        } => {
            let id = find_switch(graph, "links", switch)?;
            let found = graph.port(id, *port);
            found.into_iter().filter(|port| graph.peer(*port) != Peer::None).collect()
        }
        LinkSpec { switch: Some(switch), to: Some(to), lane, endpoint: None, port: None } => {
            let (from, to) =
                (find_switch(graph, "links", switch)?, find_switch(graph, "links", to)?);
            let leads = |port: &PortId| match graph.peer(*port) {
                Peer::Switch(other) => graph.switch_of(other) == to,
                Peer::None | Peer::Endpoint(_) => false,
            };
            let all: Vec<PortId> = graph.ports(from).filter(leads).collect();
            match lane {
                Some(lane) => all.get(*lane).copied().into_iter().collect(),
                None => all,
            }
        }
        _ => {
            return Err(bad(
                "give {switch, port}, {switch, to}, {switch, to, lane} or {endpoint}".into()
            ));
        }
    };
    if ports.is_empty() { Err(bad("there is no such link".into())) } else { Ok(ports) }
}
