//! Nodes that reported failures cut off.

use fabricast_groups::directory::Limits;
use fabricast_groups::ids::{Incarnation, Revision};
use fabricast_groups::names::Address;
use fabricast_groups::record::NodeRecord;
use fabricast_routing::EngineOptions;
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Peer, SplitMix, TableKind, ibnetdiscover};
use tokio_stream::StreamExt;

use super::*;
use crate::domain::topology::TopologySource;

/// Endpoints of the nodes; the third has failed, and one endpoint is not in the topology.
const NODES: [&[&str]; 5] = [&["h0", "h4"], &["h1"], &["h2"], &["h3", "h5", "h6"], &["h7", "x"]];
const FAILED: usize = 2;

fn nodes() -> impl Iterator<Item = NodeRecord> {
    NODES.iter().enumerate().map(|(number, endpoints)| NodeRecord {
        name: NodeName::new(&format!("n{number}")).unwrap(),
        address: Address::new("10.0.0.1:1").unwrap(),
        endpoints: endpoints.iter().map(|name| EndpointName::new(name).unwrap()).collect(),
        incarnation: Incarnation(1),
        start_id: 1,
        state: if number == FAILED { NodeState::Failed } else { NodeState::Up },
        flaps: None,
        drained: false,
        voucher_key: None,
    })
}

fn records() -> Records {
    let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 4\n";
    let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
    let source = TopologySource::File(ibnetdiscover::write(&graph).into(), graph);
    let options = EngineOptions::new(2, TableKind::PerPort);
    let topology = TopologySnapshot::new(&source, None, options);
    let mut directory = Directory::new(Limits::default());
    nodes().for_each(|node| directory.apply(&Change::NodePut(node)));
    Records::new(&topology, directory, FailedElements::default(), Watchers::new(1, 1))
}

/// All nodes are looked at, and all failed parts for each.
fn hit(graph: &Graph, newly: &BTreeSet<ElementKey>, all: &BTreeSet<ElementKey>) -> CutOff {
    let names = |parts: &BTreeSet<ElementKey>| -> BTreeSet<String> {
        let endpoints = parts.iter().flat_map(|part| part.endpoints_cut_off(graph));
        endpoints.map(|endpoint| graph.endpoint_name(endpoint).to_owned()).collect()
    };
    let (newly, down) = (names(newly), names(all));
    let mut cut_off = CutOff::default();
    for node in nodes().filter(|node| node.state == NodeState::Up) {
        let count = |names: &BTreeSet<String>| {
            node.endpoints.iter().filter(|name| names.contains(name.as_str())).count()
        };
        if count(&newly) > 0 {
            let is_all = count(&down) == node.endpoints.len();
            let nodes = if is_all { &mut cut_off.all } else { &mut cut_off.some };
            nodes.insert(NodeIncarnation::of(&node));
        }
    }
    cut_off
}

#[test]
fn reported_failures_hit_the_nodes_that_a_walk_over_all_finds() {
    let records = records();
    let graph = Arc::clone(&records.graph);
    let switches = graph.switches().map(ElementKey::Switch);
    let ports = graph.switches().flat_map(|switch| graph.ports(switch));
    // A link between switches is named by its lower port.
    let links = ports.filter(|port| match graph.peer(*port) {
        Peer::Switch(other) => *port < other,
        Peer::Endpoint(_) => true,
        Peer::None => false,
    });
    let endpoints = graph.endpoints().map(ElementKey::Endpoint);
    let parts: Vec<ElementKey> =
        switches.chain(links.map(ElementKey::Link)).chain(endpoints).collect();
    let mut chance = SplitMix::new(1);
    let (mut some, mut all) = (0, 0);
    for _ in 0..400 {
        let reporter = format!("agent-{}", chance.below(3));
        let list = parts.iter().filter(|_| chance.below(9) == 0).copied().collect();
        let before = records.failed();
        let (_, cut_off) = records.report_failed(&reporter, list).unwrap();
        let after = records.failed();
        let newly: BTreeSet<ElementKey> = after.difference(&before).copied().collect();
        assert_eq!(cut_off, hit(&graph, &newly, &after));
        assert_eq!(records.cut_off(), hit(&graph, &after, &after));
        (some, all) = (some + cut_off.some.len(), all + cut_off.all.len());
    }
    assert!(some > 20 && all > 20, "{some} nodes with some ports down, {all} with all");
}

/// The records of a large cluster take a while to be copied.
#[tokio::test]
async fn a_watch_is_opened_beside_readers_and_misses_no_change() {
    let records = records();
    // It would wait for this reader without end if it needed the records for itself.
    let mut watch = records.read(|_| records.watch().unwrap());
    let before = records.read(Directory::revision);
    records.publish(&[Change::RevisionPut(Revision(before.0 + 1))], &[]);
    let mut seen = Vec::new();
    while seen.last() != Some(&(before.0 + 1)) {
        seen.push(watch.next().await.unwrap().unwrap().revision);
    }
    assert_eq!(seen.first(), Some(&before.0), "{seen:?}");
}
