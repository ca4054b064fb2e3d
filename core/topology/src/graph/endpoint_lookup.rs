//! Finds endpoints by all that `ibnetdiscover` prints of them: description, node id and GUIDs.
//!
//! Records have one name for an endpoint, that of [`Graph::endpoint_name`]. People and schedulers
//! use the names that their own tools show. So a name is resolved where it comes in.

use std::sync::OnceLock;

use thiserror::Error;

use super::Graph;
use super::names::Names;
use crate::ids::{AdapterId, EndpointId, dense};

/// Least number of digits of a GUID without "0x"; shorter texts are more likely names.
const BARE_GUID_DIGITS: usize = 6;

/// A text that names no endpoint, or several.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndpointNameError {
    /// No endpoint has the name.
    #[error("no endpoint '{name}' in the topology")]
    Unknown {
        /// Text that was given.
        name: String,
    },
    /// Several endpoints have the name.
    #[error("'{name}' is a name of '{first}' and of '{second}'")]
    Ambiguous {
        /// Text that was given.
        name: String,
        /// Name of one endpoint.
        first: String,
        /// Name of another endpoint.
        second: String,
    },
}

impl EndpointNameError {
    /// Returns the text that was given.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { name } | Self::Ambiguous { name, .. } => name,
        }
    }
}

/// The [`EndpointLookup`] of a graph, made when it is first needed. It follows from the graph, so
/// it makes no graphs differ.
#[derive(Clone, Debug, Default)]
pub(super) struct LazyLookup(OnceLock<EndpointLookup>);

impl PartialEq for LazyLookup {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for LazyLookup {}

impl LazyLookup {
    /// Does the work of [`Graph::resolve_endpoint`].
    pub(super) fn resolve(
        &self,
        graph: &Graph,
        name: &str,
    ) -> Result<EndpointId, EndpointNameError> {
        let lookup = self.0.get_or_init(|| EndpointLookup::new(graph));
        match graph.find_endpoint(name) {
            Some(found) if lookup.contested.binary_search(&found).is_err() => Ok(found),
            _ => lookup.resolve(graph, name),
        }
    }
}

/// Adapters and endpoints, each sorted by something that names them.
#[derive(Clone, Debug, Default)]
struct EndpointLookup {
    by_description: Vec<u32>,   // adapters
    by_id: Vec<u32>,            // adapters
    by_guid: Vec<u32>,          // adapters
    by_port_guid: Vec<u32>,     // endpoints
    contested: Vec<EndpointId>, // their name may also be a name of others
}

impl EndpointLookup {
    /// Sorts the adapters and endpoints of a graph.
    fn new(graph: &Graph) -> Self {
        let text = |names: &Names| {
            let mut order: Vec<u32> = (0..dense(names.len())).collect();
            order.sort_by(|a, b| names.get(*a as usize).cmp(names.get(*b as usize)));
            order
        };
        let guids = |count: usize, guid: &dyn Fn(usize) -> u64| {
            let mut order: Vec<u32> = (0..dense(count)).collect();
            order.sort_by_key(|at| guid(*at as usize));
            order
        };
        Self {
            by_description: text(&graph.adapter_descriptions),
            by_id: text(&graph.adapter_names),
            by_guid: guids(graph.adapter_count(), &|at| graph.adapter_facts[at].guid),
            by_port_guid: guids(graph.endpoint_count(), &|at| graph.endpoint_facts[at].port_guid),
            contested: contested(graph),
        }
    }

    /// Looks at all names of all endpoints.
    fn resolve(&self, graph: &Graph, name: &str) -> Result<EndpointId, EndpointNameError> {
        let endpoints = |text| {
            self.adapters_called(graph, text).flat_map(|adapter| graph.adapter_endpoints(adapter))
        };
        let mut found: Vec<EndpointId> = graph.find_endpoint(name).into_iter().collect();
        found.extend(self.with_port_guid(graph, name));
        found.extend(endpoints(name));
        if let Some((adapter, number)) = split_port(name) {
            let is_it = |one: &EndpointId| graph.endpoint_facts(*one).number == number;
            found.extend(endpoints(adapter).filter(is_it));
        }
        found.sort_unstable();
        found.dedup();
        let name = name.to_owned();
        match found[..] {
            [] => Err(EndpointNameError::Unknown { name }),
            [one] => Ok(one),
            [first, second, ..] => {
                let [first, second] =
                    [first, second].map(|one| graph.endpoint_name(one).to_owned());
                Err(EndpointNameError::Ambiguous { name, first, second })
            }
        }
    }

    fn with_port_guid(&self, graph: &Graph, text: &str) -> impl Iterator<Item = EndpointId> {
        let of = |at: &u32| graph.endpoint_facts[*at as usize].port_guid;
        let same = read_guid(text).map(|guid| equal(&self.by_port_guid, |at| of(at).cmp(&guid)));
        same.unwrap_or_default().iter().map(|at| EndpointId(*at))
    }

    /// Lists the adapters with a description, node id or GUID.
    fn adapters_called(&self, graph: &Graph, text: &str) -> impl Iterator<Item = AdapterId> {
        let Self { by_description, by_id, by_guid, .. } = self;
        let described =
            equal(by_description, |at| graph.adapter_descriptions.get(*at as usize).cmp(text));
        let named = equal(by_id, |at| graph.adapter_names.get(*at as usize).cmp(text));
        let guid = read_guid(split_node_id(text));
        let of = |at: &u32| graph.adapter_facts[*at as usize].guid;
        let numbered = guid.map(|guid| equal(by_guid, |at| of(at).cmp(&guid))).unwrap_or_default();
        // An adapter without a description has none to be found by.
        let described = if text.is_empty() { &[] } else { described };
        described.iter().chain(named).chain(numbered).map(|at| AdapterId(*at))
    }
}

/// Lists the endpoints whose name is that of another one, too, or can be read as a GUID.
fn contested(graph: &Graph) -> Vec<EndpointId> {
    let has_guid = |endpoint: &EndpointId| {
        let name = graph.endpoint_name(*endpoint);
        let adapter = split_port(name).map_or(name, |(adapter, _)| adapter);
        read_guid(name).or_else(|| read_guid(split_node_id(adapter))).is_some()
    };
    let mut contested: Vec<EndpointId> = graph.endpoints().filter(has_guid).collect();
    for adapter in (0..dense(graph.adapter_count())).map(AdapterId) {
        let at = adapter.index();
        for text in [graph.adapter_descriptions.get(at), graph.adapter_names.get(at)] {
            if text.is_empty() {
                continue;
            }
            if let Some(found) = graph.find_endpoint(text) {
                let is_other = |endpoint| endpoint != found;
                contested.extend(graph.adapter_endpoints(adapter).any(is_other).then_some(found));
            }
            for endpoint in graph.adapter_endpoints(adapter) {
                let named = format!("{text}/P{}", graph.endpoint_facts(endpoint).number);
                let found = graph.find_endpoint(&named);
                contested.extend(found.filter(|found| *found != endpoint));
            }
        }
    }
    contested.sort_unstable();
    contested.dedup();
    contested
}

/// Splits a port number off an adapter's name.
fn split_port(name: &str) -> Option<(&str, u8)> {
    let (adapter, number) = name.rsplit_once("/P")?;
    Some((adapter, number.parse().ok()?))
}

/// Takes the letter off a node id, as in "H-0002c90300a1b2c3".
fn split_node_id(text: &str) -> &str {
    let node_id = text.split_once('-').filter(|(letter, _)| matches!(*letter, "H" | "R"));
    node_id.map_or(text, |(_, guid)| guid)
}

/// Tells whether a text can be the GUID of a port or adapter.
#[must_use]
pub fn is_guid(text: &str) -> bool {
    read_guid(text).is_some()
}

/// Reads a GUID; 0 stands for an unknown one.
fn read_guid(text: &str) -> Option<u64> {
    let marked = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = marked.unwrap_or(text);
    // A sign would pass for a number.
    let is_clean = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_guid = is_clean && (marked.is_some() || digits.len() >= BARE_GUID_DIGITS);
    u64::from_str_radix(digits, 16).ok().filter(|guid| is_guid && *guid != 0)
}

/// The part of a sorted list that is equal to what is looked for.
fn equal(order: &[u32], compare: impl Fn(&u32) -> std::cmp::Ordering) -> &[u32] {
    let start = order.partition_point(|at| compare(at).is_lt());
    let length = order[start..].partition_point(|at| compare(at).is_eq());
    &order[start..start + length]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SplitMix;
    use crate::graph::{AdapterFacts, EndpointFacts, GraphBuilder};

    const TEXTS: [&str; 8] =
        ["a", "a/P1", "a/P2", "0xabcdef", "H-abcdef", "abcdef", "H-abcdef/P1", ""];

    /// A graph whose adapters have names that other adapters have, too.
    fn graph(chance: &mut SplitMix) -> Option<Graph> {
        let mut pick = |count| usize::try_from(chance.below(count)).unwrap();
        let mut builder = GraphBuilder::new();
        for _ in 0..3 {
            let (id, description) = (TEXTS[pick(7)], TEXTS[pick(8)]);
            let guid = [0, 0xab_cdef, 7][pick(3)];
            builder.add_adapter(id, description, AdapterFacts { guid, ..AdapterFacts::default() });
            for number in 1..=[1, 2][pick(2)] {
                let port_guid = [0, 0xab_cdef][pick(2)];
                let facts = EndpointFacts { number, port_guid, ..EndpointFacts::default() };
                builder.add_endpoint(facts);
            }
        }
        builder.build().ok() // fails if two adapters have one id
    }

    #[test]
    fn a_name_that_is_found_at_once_is_no_name_of_another_endpoint() {
        let mut chance = SplitMix::new(7);
        let graphs: Vec<Graph> = (0..3000).filter_map(|_| graph(&mut chance)).collect();
        let mut at_once = 0;
        for graph in &graphs {
            let lookup = EndpointLookup::new(graph);
            for endpoint in graph.endpoints() {
                let name = graph.endpoint_name(endpoint);
                let found = lookup.resolve(graph, name);
                assert_eq!(graph.resolve_endpoint(name), found, "{graph:?}");
                at_once += usize::from(!lookup.contested.contains(&endpoint));
            }
        }
        assert!(graphs.len() > 1000 && at_once > 100, "{} graphs, {at_once}", graphs.len());
    }
}
