//! The failed parts of the fabric, as switch agents report them.
//!
//! Kept in memory only: every reporter repeats its whole list, so a restarted TIC knows them again
//! after one round of reports. A reporter that falls silent keeps its last list, because silence
//! says nothing about cables.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::{EndpointId, Graph, Peer, PortId, SwitchId};
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

/// What each reporter sees down, and the union of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedElements {
    reports: BTreeMap<String, BTreeSet<ElementKey>>,
    union: BTreeSet<ElementKey>,
}

impl FailedElements {
    /// Takes over the whole list of one reporter; answers what nobody had reported before, and
    /// whether the union changed.
    pub(crate) fn report(
        &mut self,
        reporter: &str,
        elements: BTreeSet<ElementKey>,
    ) -> Result<(Vec<ElementKey>, bool), Status> {
        if self.reports.len() >= MAX_REPORTERS && !self.reports.contains_key(reporter) {
            let text = format!("reporter: {MAX_REPORTERS} reporters are known already");
            return Err(Reason::LimitReached.status(text, &[]));
        }
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
