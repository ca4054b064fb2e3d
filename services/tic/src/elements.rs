//! The failed parts of the fabric, as switch agents report them.
//!
//! Durable, though every reporter repeats its whole list: a restarted TIC that knew nothing until
//! the next round of reports would let the route service move groups back onto what is broken. A
//! reporter that falls silent keeps its last list, because silence says nothing about cables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::{EndpointId, Faults, Graph, Peer, PortId, SwitchId};
use tonic::Status;

/// Most reporters remembered; switch agents are few, so more of them is a mistake somewhere.
const MAX_REPORTERS: usize = 4096;

/// A part of the fabric, checked against the topology; a link is named by its lower port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ElementKey {
    Switch(SwitchId),
    Link(PortId),
    Endpoint(EndpointId),
}

impl ElementKey {
    /// Finds a reported element in the topology.
    pub(crate) fn find(graph: &Graph, element: &v1::Element) -> Result<Self, Status> {
        let unknown = |text: String| Reason::UnknownElement.status(text, &[]);
        match &element.kind {
            None => Err(Reason::FieldMissing.status("elements: an element names nothing", &[])),
            Some(v1::element::Kind::SwitchName(name)) => graph
                .find_switch(name)
                .map(Self::Switch)
                .ok_or_else(|| unknown(format!("elements: no switch '{name}' in the topology"))),
            Some(v1::element::Kind::Endpoint(name)) => graph
                .find_endpoint(name)
                .map(Self::Endpoint)
                .ok_or_else(|| unknown(format!("elements: no endpoint '{name}' in the topology"))),
            Some(v1::element::Kind::Link(end)) => {
                let switch = graph.find_switch(&end.switch_name).ok_or_else(|| {
                    unknown(format!("elements: no switch '{}' in the topology", end.switch_name))
                })?;
                let port = u8::try_from(end.port).ok().and_then(|n| graph.port(switch, n));
                let port = port.ok_or_else(|| {
                    unknown(format!("elements: {} has no port {}", end.switch_name, end.port))
                })?;
                match graph.peer(port) {
                    Peer::None => Err(unknown(format!(
                        "elements: no link at port {} of {}",
                        end.port, end.switch_name
                    ))),
                    Peer::Endpoint(_) => Ok(Self::Link(port)),
                    Peer::Switch(other) => Ok(Self::Link(port.min(other))),
                }
            }
        }
    }

    /// Adds the element to the faults of a fabric.
    pub(crate) fn note_in(self, faults: &mut Faults, graph: &Graph) {
        let _was_live = match self {
            Self::Switch(switch) => faults.fail_switch(switch),
            Self::Link(port) => faults.fail_link(graph, port),
            Self::Endpoint(endpoint) => faults.fail_endpoint(endpoint),
        };
    }

    /// Names the element in the way it is reported.
    pub(crate) fn to_wire(self, graph: &Graph) -> v1::Element {
        let kind = match self {
            Self::Switch(switch) => {
                v1::element::Kind::SwitchName(graph.switch_name(switch).to_owned())
            }
            Self::Endpoint(endpoint) => {
                v1::element::Kind::Endpoint(graph.endpoint_name(endpoint).to_owned())
            }
            Self::Link(port) => v1::element::Kind::Link(v1::PortName {
                switch_name: graph.switch_name(graph.switch_of(port)).to_owned(),
                port: u32::from(graph.port_number(port)),
            }),
        };
        v1::Element { kind: Some(kind) }
    }

    /// Answers the endpoints that this failure alone cuts off.
    pub(crate) fn endpoints_cut_off(self, graph: &Graph) -> Vec<EndpointId> {
        let at = |port| match graph.peer(port) {
            Peer::Endpoint(endpoint) => Some(endpoint),
            Peer::None | Peer::Switch(_) => None,
        };
        match self {
            Self::Endpoint(endpoint) => vec![endpoint],
            Self::Link(port) => at(port).into_iter().collect(),
            Self::Switch(switch) => graph.ports(switch).filter_map(at).collect(),
        }
    }
}

/// A list as it lies in the store: a line for each element, by name, as numbers may differ when
/// the topology was loaded anew.
pub(crate) fn text(graph: &Graph, elements: &BTreeSet<ElementKey>) -> String {
    let mut text = String::new();
    for element in elements {
        // Writing to a string cannot fail.
        let _ = match element.to_wire(graph).kind {
            Some(v1::element::Kind::SwitchName(name)) => writeln!(text, "switch {name}"),
            Some(v1::element::Kind::Endpoint(name)) => writeln!(text, "endpoint {name}"),
            Some(v1::element::Kind::Link(end)) => {
                writeln!(text, "link {} {}", end.port, end.switch_name)
            }
            None => Ok(()),
        };
    }
    text
}

/// Reads a line of [`text`].
pub(crate) fn read_element(line: &str) -> Option<v1::Element> {
    let (what, name) = line.split_once(' ')?;
    let kind = match what {
        "switch" => v1::element::Kind::SwitchName(name.to_owned()),
        "endpoint" => v1::element::Kind::Endpoint(name.to_owned()),
        "link" => {
            let (port, switch) = name.split_once(' ')?;
            let port = port.parse().ok()?;
            v1::element::Kind::Link(v1::PortName { switch_name: switch.to_owned(), port })
        }
        _ => return None,
    };
    Some(v1::Element { kind: Some(kind) })
}

/// What each reporter sees down, and the union of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedElements {
    reports: BTreeMap<String, BTreeSet<ElementKey>>,
    union: BTreeSet<ElementKey>,
}

impl FailedElements {
    /// Starts with what the store holds; what the topology does not have any more is left out.
    pub(crate) fn load(graph: &Graph, stored: Vec<(String, String)>) -> Self {
        let mut failed = Self::default();
        for (reporter, text) in stored {
            let found: BTreeSet<ElementKey> = text
                .lines()
                .filter_map(|line| {
                    let found = read_element(line).and_then(|e| ElementKey::find(graph, &e).ok());
                    if found.is_none() {
                        tracing::warn!(reason = line, "stored failure is of no part of the fabric");
                    }
                    found
                })
                .collect();
            failed.union.extend(&found);
            failed.reports.insert(reporter, found);
        }
        failed
    }

    /// Tells whether a list says anything new; refuses one reporter too many.
    pub(crate) fn is_news(
        &self,
        reporter: &str,
        elements: &BTreeSet<ElementKey>,
    ) -> Result<bool, Status> {
        if self.reports.len() >= MAX_REPORTERS && !self.reports.contains_key(reporter) {
            let text = format!("reporter: {MAX_REPORTERS} reporters are known already");
            return Err(Reason::LimitReached.status(text, &[]));
        }
        let known = self.reports.get(reporter);
        Ok(known.map_or(!elements.is_empty(), |known| known != elements))
    }

    /// Takes over the whole list of one reporter; answers what nobody had reported before, and
    /// whether the union changed.
    pub(crate) fn report(
        &mut self,
        reporter: &str,
        elements: BTreeSet<ElementKey>,
    ) -> Result<(Vec<ElementKey>, bool), Status> {
        self.is_news(reporter, &elements)?;
        self.reports.insert(reporter.to_owned(), elements);
        let union: BTreeSet<ElementKey> = self.reports.values().flatten().copied().collect();
        let new = union.difference(&self.union).copied().collect();
        let changed = union != self.union;
        self.union = union;
        Ok((new, changed))
    }

    /// Everything that anybody sees down, in order.
    pub(crate) fn all(&self) -> &BTreeSet<ElementKey> {
        &self.union
    }

    /// The union as it travels.
    pub(crate) fn to_wire(&self, graph: &Graph) -> v1::FailedElements {
        let elements = self.union.iter().map(|element| element.to_wire(graph)).collect();
        v1::FailedElements { elements }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(switches: &[u32]) -> BTreeSet<ElementKey> {
        switches.iter().map(|number| ElementKey::Switch(SwitchId(*number))).collect()
    }

    #[test]
    fn an_element_is_down_as_long_as_anybody_sees_it_down() {
        let mut failed = FailedElements::default();
        let (new, changed) = failed.report("a", set(&[1, 2])).unwrap();
        assert_eq!((new.len(), changed), (2, true));
        assert_eq!(failed.report("b", set(&[2])).unwrap(), (vec![], false));
        assert_eq!(failed.report("a", set(&[])).unwrap(), (vec![], true));
        assert_eq!(failed.all(), &set(&[2]));
        assert_eq!(failed.report("b", set(&[])).unwrap(), (vec![], true));
        assert!(failed.all().is_empty());
    }
}
