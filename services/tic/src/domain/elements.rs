//! The failed parts of the fabric, as switch agents report them.
//!
//! They are durable although each reporter repeats its whole list: a restarted TIC that knew
//! nothing until the next round of reports would let the route service move groups back onto what
//! is broken. A reporter that falls silent keeps its last list, because silence says nothing about
//! cables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use fabricast_proto::v1;
use fabricast_topology::{EndpointId, EndpointNameError, Faults, Graph, Peer, PortId, SwitchId};
use thiserror::Error;

/// Most reporters that are remembered; more than that is a mistake, as switch agents are few.
const MAX_REPORTERS: usize = 4096;

/// A part of the fabric, checked against the topology; a link is named by its lower port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ElementKey {
    Switch(SwitchId),
    Link(PortId),
    Endpoint(EndpointId),
}

/// Why a reported element is not in the topology.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ElementError {
    #[error("elements: an element names nothing")]
    Unnamed,
    #[error("elements: no switch '{switch}' in the topology")]
    UnknownSwitch { switch: String },
    #[error("elements: {0}")]
    Endpoint(EndpointNameError),
    #[error("elements: {switch} has no port {port}")]
    UnknownPort { switch: String, port: u32 },
    #[error("elements: no link at port {port} of {switch}")]
    NoLink { switch: String, port: u32 },
}

/// One reporter too many.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("reporter: {MAX_REPORTERS} reporters are known already")]
pub(crate) struct TooManyReporters;

impl ElementKey {
    /// Finds a reported element in the topology.
    pub(crate) fn find(graph: &Graph, element: &v1::Element) -> Result<Self, ElementError> {
        match &element.kind {
            None => Err(ElementError::Unnamed),
            Some(v1::element::Kind::SwitchName(name)) => graph
                .find_switch(name)
                .map(Self::Switch)
                .ok_or_else(|| ElementError::UnknownSwitch { switch: name.clone() }),
            Some(v1::element::Kind::Endpoint(name)) => {
                graph.resolve_endpoint(name).map(Self::Endpoint).map_err(ElementError::Endpoint)
            }
            Some(v1::element::Kind::Link(end)) => {
                let (name, number) = (&end.switch_name, end.port);
                let switch = graph
                    .find_switch(name)
                    .ok_or_else(|| ElementError::UnknownSwitch { switch: name.clone() })?;
                let port = u8::try_from(number).ok().and_then(|n| graph.port(switch, n));
                let port = port.ok_or_else(|| ElementError::UnknownPort {
                    switch: name.clone(),
                    port: number,
                })?;
                match graph.peer(port) {
                    Peer::None => Err(ElementError::NoLink { switch: name.clone(), port: number }),
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

    /// The element as it is reported.
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

    /// Returns the endpoints that this failure alone cuts off.
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

/// Writes a list for the store: one line per element, by name, since numbers may differ once the
/// topology is loaded anew.
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

/// The failed parts that each reporter sees, and their union.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedElements {
    reports: BTreeMap<String, BTreeSet<ElementKey>>,
    union: BTreeSet<ElementKey>,
}

impl FailedElements {
    /// Starts with the stored lists; parts that are no longer in the topology are left out.
    pub(crate) fn load(graph: &Graph, stored: Vec<(String, String)>) -> Self {
        let mut failed = Self::default();
        for (reporter, text) in stored {
            let found: BTreeSet<ElementKey> = text
                .lines()
                .filter_map(|line| {
                    let found = read_element(line).and_then(|e| ElementKey::find(graph, &e).ok());
                    if found.is_none() {
                        tracing::warn!(
                            element = line,
                            "stored failure names no part of the fabric"
                        );
                    }
                    found
                })
                .collect();
            failed.union.extend(&found);
            failed.reports.insert(reporter, found);
        }
        failed
    }

    /// Returns whether a list differs from the last one of its reporter.
    pub(crate) fn is_news(
        &self,
        reporter: &str,
        elements: &BTreeSet<ElementKey>,
    ) -> Result<bool, TooManyReporters> {
        if self.reports.len() >= MAX_REPORTERS && !self.reports.contains_key(reporter) {
            return Err(TooManyReporters);
        }
        let known = self.reports.get(reporter);
        Ok(known.map_or(!elements.is_empty(), |known| known != elements))
    }

    /// Replaces the list of one reporter; returns the parts that nobody had reported before, and
    /// whether the union changed.
    pub(crate) fn report(
        &mut self,
        reporter: &str,
        elements: BTreeSet<ElementKey>,
    ) -> Result<(Vec<ElementKey>, bool), TooManyReporters> {
        self.is_news(reporter, &elements)?;
        self.reports.insert(reporter.to_owned(), elements);
        Ok(self.unite())
    }

    /// Forgets a reporter; returns whether the union changed.
    pub(crate) fn remove(&mut self, reporter: &str) -> bool {
        self.reports.remove(reporter).is_some() && self.unite().1
    }

    /// The reporters, and how many parts each sees down.
    pub(crate) fn reporters(&self) -> Vec<(String, usize)> {
        self.reports.iter().map(|(name, elements)| (name.clone(), elements.len())).collect()
    }

    /// Joins all lists anew; returns the parts that are new, and whether the union changed.
    fn unite(&mut self) -> (Vec<ElementKey>, bool) {
        let union: BTreeSet<ElementKey> = self.reports.values().flatten().copied().collect();
        let new = union.difference(&self.union).copied().collect();
        let changed = union != self.union;
        self.union = union;
        (new, changed)
    }

    /// Everything that any reporter sees down, in order.
    pub(crate) fn all(&self) -> &BTreeSet<ElementKey> {
        &self.union
    }

    /// The union as a message.
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
        failed.report("a", set(&[3])).unwrap();
        assert_eq!(failed.reporters(), [("a".to_owned(), 1), ("b".to_owned(), 0)]);
        assert!(failed.remove("a") && !failed.remove("b") && !failed.remove("a"));
        assert!(failed.all().is_empty());
    }
}
