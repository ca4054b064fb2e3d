//! `fabricast slurm weights`: advice on which nodes Slurm should take first.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_placement::hostlist;
use fabricast_proto::v1;
use fabricast_topology::{Graph, SwitchId};
use serde::Serialize;

use crate::args::{Format, ServerArgs};
use crate::commands::job::running::all;
use crate::failure::Failure;
use crate::nodes::nodes_of;
use crate::output;
use crate::remote::Remote;

/// Nodes of one weight.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Weighted {
    weight: u64,
    nodes: Vec<String>,
}

/// Runs `slurm weights`.
pub(super) async fn weights(server: &ServerArgs, format: Format) -> Result<(), Failure> {
    let remote = Remote::new(server)?;
    let (graph, jobs) = (remote.graph().await?, all(&remote).await?);
    let nodes = nodes_of(&graph);
    if let Some(name) = nodes.keys().find(|name| !hostlist::is_node_name(name)) {
        return Err(Failure::input(format!("node '{name}' cannot stand in a hostlist")));
    }
    let reserved = reserved(&graph, &jobs);
    let mut by_weight: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (node, endpoints) in nodes {
        let switches = endpoints.iter().filter_map(|name| leaf_of(&graph, name));
        let groups = switches.filter_map(|switch| reserved.get(&switch).copied()).max();
        // Slurm's default is 1.
        by_weight.entry(1 + groups.unwrap_or(0)).or_default().push(node);
    }
    let weighted = by_weight.into_iter().map(|(weight, nodes)| Weighted { weight, nodes });
    output::print(format, &weighted.collect::<Vec<_>>(), |weighted| {
        let line = |Weighted { weight, nodes }: &Weighted| {
            let nodes = hostlist::compress(nodes.iter().map(String::as_str));
            format!("NodeName={nodes} Weight={weight}")
        };
        weighted.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

/// Groups that jobs have reserved on each leaf switch.
fn reserved(graph: &Graph, jobs: &[v1::Job]) -> BTreeMap<SwitchId, u64> {
    let mut reserved = BTreeMap::new();
    for job in jobs {
        let groups = job.share.as_ref().map_or(0, |share| u64::from(share.group_count));
        let endpoints = job.nodes.iter().flat_map(|node| &node.endpoints);
        let leaves: BTreeSet<SwitchId> =
            endpoints.filter_map(|name| leaf_of(graph, name)).collect();
        leaves.into_iter().for_each(|leaf| *reserved.entry(leaf).or_default() += groups);
    }
    reserved
}

fn leaf_of(graph: &Graph, endpoint: &str) -> Option<SwitchId> {
    let port = graph.attachment(graph.find_endpoint(endpoint)?)?;
    Some(graph.switch_of(port))
}
