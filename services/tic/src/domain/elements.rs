//! The failed parts of the fabric, as switch agents report them.
//!
//! They are durable although each reporter repeats its whole list: a restarted TIC that knew
//! nothing until the next round of reports would let the route service move groups back onto what
//! is broken. A reporter that falls silent keeps its last list, because silence says nothing about
//! cables.
//!
//! Links that an administrator has drained count as failed, too, as long as that cuts no endpoint
//! off from others: one that is the only way left is used until there is another. They are stored
//! like the list of a reporter without a name, which no reporter can have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

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

/// Reason why a reported element is not in the topology.
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
    #[error("no switch '{switch}' in the topology")]
    NoSwitch { switch: String },
    #[error("no link leads from {switch} to {peer}")]
    NotLinked { switch: String, peer: String },
    #[error("port: no link leads from port {port} of {switch} to {peer}")]
    NotLinkedAt { switch: String, port: u32, peer: String },
}

/// A link cannot be drained.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum DrainError {
    #[error(
        "without the link {endpoints} endpoints, {first} among them, could not be reached from others"
    )]
    Needed { endpoints: usize, first: String },
    #[error("{MAX_DRAINED} links are drained already")]
    TooMany,
}

/// Most links that are drained at a time.
const MAX_DRAINED: usize = 256;

/// Name under which the drained links are stored.
pub(crate) const DRAINED: &str = "";

/// Finds the links between two switches, by their lower ports.
///
/// - `port`: port of the first switch; 0 stands for all links.
pub(crate) fn links_between(
    graph: &Graph,
    [switch, peer]: [&str; 2],
    port: u32,
) -> Result<BTreeSet<ElementKey>, ElementError> {
    let find = |name: &str| {
        let unknown = || ElementError::NoSwitch { switch: name.to_owned() };
        graph.find_switch(name).ok_or_else(unknown)
    };
    let (from, to) = (find(switch)?, find(peer)?);
    let leads = |at: &PortId| match graph.peer(*at) {
        Peer::Switch(other) => graph.switch_of(other) == to,
        Peer::Endpoint(_) | Peer::None => false,
    };
    let is_meant = |at: &PortId| port == 0 || u32::from(graph.port_number(*at)) == port;
    let lower = |at: PortId| match graph.peer(at) {
        Peer::Switch(other) => ElementKey::Link(at.min(other)),
        Peer::Endpoint(_) | Peer::None => ElementKey::Link(at),
    };
    let links = graph.ports(from).filter(leads).filter(is_meant).map(lower);
    let links: BTreeSet<ElementKey> = links.collect();
    let (switch, peer) = (switch.to_owned(), peer.to_owned());
    match (links.is_empty(), port) {
        (false, _) => Ok(links),
        (true, 0) => Err(ElementError::NotLinked { switch, peer }),
        (true, port) => Err(ElementError::NotLinkedAt { switch, port, peer }),
    }
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

/// The failed parts that each reporter sees, and the drained links.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedElements {
    reports: BTreeMap<String, BTreeSet<ElementKey>>,
    /// Parts that any reporter sees down.
    failed: BTreeSet<ElementKey>,
    drained: BTreeSet<ElementKey>,
    /// Failed parts, and drained links that can be left out.
    union: Arc<BTreeSet<ElementKey>>,
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
            match reporter.as_str() {
                DRAINED => failed.drained = found,
                _ => drop(failed.reports.insert(reporter, found)),
            }
        }
        failed.unite(graph);
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
        graph: &Graph,
        reporter: &str,
        elements: BTreeSet<ElementKey>,
    ) -> Result<(Vec<ElementKey>, bool), TooManyReporters> {
        self.is_news(reporter, &elements)?;
        self.reports.insert(reporter.to_owned(), elements);
        Ok(self.unite(graph))
    }

    /// Forgets a reporter; returns whether the union changed.
    pub(crate) fn remove(&mut self, graph: &Graph, reporter: &str) -> bool {
        self.reports.remove(reporter).is_some() && self.unite(graph).1
    }

    /// The drained links.
    pub(crate) const fn drained(&self) -> &BTreeSet<ElementKey> {
        &self.drained
    }

    /// Checks that links may be drained besides those that are.
    pub(crate) fn check_drain(
        &self,
        graph: &Graph,
        links: &BTreeSet<ElementKey>,
    ) -> Result<(), DrainError> {
        if self.drained.union(links).count() > MAX_DRAINED {
            return Err(DrainError::TooMany);
        }
        let before = faults(graph, self.failed.union(&self.drained));
        let after = faults(graph, self.failed.iter().chain(&self.drained).chain(links));
        let lost = cut_off(graph, &before, &after);
        lost.first().map_or(Ok(()), |first| {
            let first = graph.endpoint_name(*first).to_owned();
            Err(DrainError::Needed { endpoints: lost.len(), first })
        })
    }

    /// Replaces the drained links; returns whether the union changed.
    pub(crate) fn set_drained(&mut self, graph: &Graph, links: BTreeSet<ElementKey>) -> bool {
        self.drained = links;
        self.unite(graph).1
    }

    /// Number of parts that any reporter sees down.
    pub(crate) fn count(&self) -> usize {
        self.failed.len()
    }

    /// The reporters, and how many parts each sees down.
    pub(crate) fn reporters(&self) -> Vec<(String, usize)> {
        self.reports.iter().map(|(name, elements)| (name.clone(), elements.len())).collect()
    }

    /// Joins all lists anew; returns the parts that are new, and whether the union changed.
    ///
    /// Cost: with drained links, the ports of the fabric for each of them, if they cannot all be
    /// left out.
    fn unite(&mut self, graph: &Graph) -> (Vec<ElementKey>, bool) {
        self.failed = self.reports.values().flatten().copied().collect();
        let mut union = self.failed.clone();
        union.extend(self.avoidable(graph));
        let new = union.difference(&self.union).copied().collect();
        let changed = union != *self.union;
        self.union = Arc::new(union);
        (new, changed)
    }

    /// The drained links without which every endpoint is reached as well as with them.
    fn avoidable(&self, graph: &Graph) -> BTreeSet<ElementKey> {
        if self.drained.is_empty() {
            return BTreeSet::new();
        }
        let now = faults(graph, &self.failed);
        let all = faults(graph, self.failed.union(&self.drained));
        if cut_off(graph, &now, &all).is_empty() {
            return self.drained.clone();
        }
        let mut without = now.clone();
        let mut avoidable = BTreeSet::new();
        for link in &self.drained {
            let mut next = without.clone();
            link.note_in(&mut next, graph);
            if cut_off(graph, &now, &next).is_empty() {
                without = next;
                avoidable.insert(*link);
            }
        }
        avoidable
    }

    /// True if one of the failures alone cuts the endpoint off, see
    /// [`ElementKey::endpoints_cut_off`].
    pub(crate) fn cuts_off(&self, graph: &Graph, endpoint: EndpointId) -> bool {
        let at = graph.attachment(endpoint);
        let ways = at.map(|at| [ElementKey::Link(at), ElementKey::Switch(graph.switch_of(at))]);
        let mut parts = ways.into_iter().flatten().chain([ElementKey::Endpoint(endpoint)]);
        parts.any(|part| self.union.contains(&part))
    }

    /// Everything that trees have to avoid, in order.
    pub(crate) fn all(&self) -> &Arc<BTreeSet<ElementKey>> {
        &self.union
    }

    /// The union as a message.
    pub(crate) fn to_wire(&self, graph: &Graph) -> v1::FailedElements {
        let elements = self.union.iter().map(|element| element.to_wire(graph)).collect();
        v1::FailedElements { elements }
    }
}

fn faults<'a>(graph: &Graph, elements: impl IntoIterator<Item = &'a ElementKey>) -> Faults {
    let mut faults = Faults::new();
    elements.into_iter().for_each(|element| element.note_in(&mut faults, graph));
    faults
}

/// Lists the endpoints that most others reach with some faults and not with more.
fn cut_off(graph: &Graph, before: &Faults, after: &Faults) -> Vec<EndpointId> {
    let components = [before, after].map(|faults| components(graph, faults));
    let component = |at: usize, endpoint| {
        let switch = graph.switch_of(graph.attachment(endpoint)?);
        components[at].get(&switch).copied()
    };
    let mut sizes: BTreeMap<SwitchId, usize> = BTreeMap::new();
    for endpoint in graph.endpoints() {
        if let Some(at) = component(1, endpoint) {
            *sizes.entry(at).or_default() += 1;
        }
    }
    let Some((largest, _)) = sizes.iter().max_by_key(|(_, size)| **size) else {
        return Vec::new();
    };
    // All of the largest component were on one before, too, as links have only gone.
    let mut endpoints = graph.endpoints();
    let home = endpoints
        .find(|one| component(1, *one) == Some(*largest))
        .and_then(|one| component(0, one));
    let is_lost =
        |one: &EndpointId| component(0, *one) == home && component(1, *one) != Some(*largest);
    graph.endpoints().filter(is_lost).collect()
}

/// Gives each live switch the lowest switch that live links join it to.
fn components(graph: &Graph, faults: &Faults) -> BTreeMap<SwitchId, SwitchId> {
    let mut components = BTreeMap::new();
    for first in graph.switches().filter(|switch| faults.switch_is_live(*switch)) {
        let mut waiting = vec![first];
        while let Some(switch) = waiting.pop() {
            if components.contains_key(&switch) {
                continue;
            }
            components.insert(switch, first);
            let live = graph.ports(switch).filter(|port| faults.port_is_live(graph, *port));
            waiting.extend(live.filter_map(|port| match graph.peer(port) {
                Peer::Switch(other) => Some(graph.switch_of(other)),
                Peer::Endpoint(_) | Peer::None => None,
            }));
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    fn graph() -> Graph {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\n";
        TopologySpec::parse(spec).unwrap().generate().unwrap()
    }

    /// A drained link is left out unless it is the only way.
    #[test]
    fn a_drained_link_is_used_again_while_there_is_no_other_way() {
        let graph = graph();
        let mut switches = graph.switches().map(|switch| graph.switch_name(switch));
        let names: Vec<&str> = switches.by_ref().collect();
        let link = |a: usize, b: usize| links_between(&graph, [names[a], names[b]], 0);
        let of = |end: usize| (0..4).filter_map(|other| link(end, other).ok()).collect::<Vec<_>>();
        let leaf = usize::try_from(
            graph.switch_of(graph.attachment(graph.endpoints().next().unwrap()).unwrap()).0,
        )
        .unwrap();
        let [first, second] = <[_; 2]>::try_from(of(leaf)).unwrap();
        let mut failed = FailedElements::default();
        failed.check_drain(&graph, &first).unwrap();
        assert!(failed.set_drained(&graph, first.clone()));
        assert_eq!((&**failed.all(), failed.count()), (&first, 0));
        let both: BTreeSet<ElementKey> = first.union(&second).copied().collect();
        let refused = failed.check_drain(&graph, &both).unwrap_err();
        assert!(matches!(refused, DrainError::Needed { endpoints: 2, .. }), "{refused}");
        failed.report(&graph, "a", second.clone()).unwrap();
        assert_eq!(**failed.all(), second, "the drained one is the only way");
        failed.report(&graph, "a", BTreeSet::new()).unwrap();
        assert_eq!(**failed.all(), first);
        let text = vec![(DRAINED.to_owned(), text(&graph, &first))];
        assert_eq!(**FailedElements::load(&graph, text).all(), first);
        let unknown = ElementError::NoSwitch { switch: "none".to_owned() };
        assert_eq!(links_between(&graph, [names[leaf], "none"], 0), Err(unknown));
        let same = links_between(&graph, [names[leaf], names[leaf]], 0);
        assert!(matches!(same, Err(ElementError::NotLinked { .. })));
    }

    fn set(switches: &[u32]) -> BTreeSet<ElementKey> {
        switches.iter().map(|number| ElementKey::Switch(SwitchId(*number))).collect()
    }

    #[test]
    fn an_element_is_down_as_long_as_anybody_sees_it_down() {
        let graph = graph();
        let mut failed = FailedElements::default();
        let (new, changed) = failed.report(&graph, "a", set(&[1, 2])).unwrap();
        assert_eq!((new.len(), changed), (2, true));
        assert_eq!(failed.report(&graph, "b", set(&[2])).unwrap(), (vec![], false));
        assert_eq!(failed.report(&graph, "a", set(&[])).unwrap(), (vec![], true));
        assert_eq!(**failed.all(), set(&[2]));
        assert_eq!(failed.report(&graph, "b", set(&[])).unwrap(), (vec![], true));
        assert!(failed.all().is_empty());
        failed.report(&graph, "a", set(&[3])).unwrap();
        assert_eq!(failed.reporters(), [("a".to_owned(), 1), ("b".to_owned(), 0)]);
        assert!(
            failed.remove(&graph, "a")
                && !failed.remove(&graph, "b")
                && !failed.remove(&graph, "a")
        );
        assert!(failed.all().is_empty());
    }
}
