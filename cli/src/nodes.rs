//! Groups endpoints by compute node, by their names.
//!
//! The topology knows adapters, not hosts. By convention the description of an adapter is the
//! host's name followed by the adapter's ("node018 HCA-1"), and a second port has a suffix ("/P2").

use std::collections::BTreeMap;

use fabricast_topology::Graph;

/// Endpoints of each node by the node's name; endpoints without a cable are left out.
#[must_use]
pub(crate) fn nodes_of(graph: &Graph) -> BTreeMap<String, Vec<String>> {
    let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for endpoint in graph.endpoints().filter(|endpoint| graph.attachment(*endpoint).is_some()) {
        let name = graph.endpoint_name(endpoint);
        nodes.entry(node_name(name).to_owned()).or_default().push(name.to_owned());
    }
    nodes
}

/// The node of each endpoint.
pub(crate) fn owners(graph: &Graph) -> BTreeMap<String, String> {
    let nodes = nodes_of(graph).into_iter();
    nodes.flat_map(|(node, owned)| owned.into_iter().map(move |one| (one, node.clone()))).collect()
}

/// The node's part of an endpoint's name.
fn node_name(endpoint: &str) -> &str {
    let adapter = match endpoint.rsplit_once("/P") {
        Some((adapter, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
            adapter
        }
        _ => endpoint,
    };
    match adapter.rsplit_once(' ') {
        Some((host, device)) if device.starts_with("HCA-") || device.starts_with("mlx") => host,
        _ => adapter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_and_ports_of_one_host_are_one_node() {
        assert_eq!(node_name("node018 HCA-1"), "node018");
        assert_eq!(node_name("node018 mlx5_0"), "node018");
        assert_eq!(node_name("H-0008f10403960558/P2"), "H-0008f10403960558");
        assert_eq!(node_name("h12"), "h12");
        assert_eq!(node_name("rack/Paris"), "rack/Paris");
    }
}
