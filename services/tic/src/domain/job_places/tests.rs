//! Nodes are found before a decision, and at it.

use fabricast_groups::directory::Limits;
use fabricast_groups::ids::{Incarnation, Revision};
use fabricast_groups::names::{Address, JobName};
use fabricast_groups::record::{Change, NodeRecord, NodeState};
use fabricast_topology::spec::TopologySpec;

use super::*;

/// Endpoints of more than one piece.
fn graph() -> Graph {
    let spec = "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 200\n";
    TopologySpec::parse(spec).unwrap().generate().unwrap()
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn endpoint_names(graph: &Graph) -> Vec<&str> {
    graph.endpoints().map(|endpoint| graph.endpoint_name(endpoint)).collect()
}

/// A directory with one node, which has the first two endpoints.
fn directory(graph: &Graph) -> Directory {
    let endpoints = endpoint_names(graph).into_iter().take(2);
    let endpoints = endpoints.map(|text| EndpointName::new(text).unwrap());
    let node = NodeRecord {
        name: name("node"),
        address: Address::new("10.0.0.1:1").unwrap(),
        endpoints: endpoints.collect(),
        incarnation: Incarnation(1),
        start_id: 1,
        state: NodeState::Up,
        flaps: None,
        drained: false,
        voucher_key: None,
    };
    let mut directory = Directory::new(Limits::default());
    directory.apply(&Change::NodePut(node));
    directory
}

fn job(nodes: JobNodes) -> JobRecord {
    let (created, revision) = (Moment(0), Revision(1));
    JobRecord {
        name: JobName::new("7").unwrap(),
        class: None,
        nodes,
        created,
        revision,
        share: None,
    }
}

#[test]
fn nodes_that_were_found_before_are_those_that_the_decision_would_find() {
    let graph = graph();
    let directory = directory(&graph);
    let others = endpoint_names(&graph).into_iter().skip(2).map(name);
    let names: BTreeSet<NodeName> = others.chain([name("node")]).collect();
    let mut pieces = 0;
    let asked = AskedNodes::new(names.clone()).find(&graph, None, |names| {
        pieces += 1;
        assert!(names.len() <= PIECE);
        find_nodes(&graph, &directory, names)
    });
    assert_eq!(pieces, 2);
    // This directory does not know the node.
    let before = asked.named(&graph, &Directory::new(Limits::default())).unwrap();
    let late = AskedNodes::new(names).named(&graph, &directory).unwrap();
    assert_eq!((&before.nodes, &before.endpoints), (&late.nodes, &late.endpoints));
    assert_eq!((before.nodes.len(), before.endpoints.len()), (599, 600));
    let share = before.share_job(None, None);
    assert_eq!(share, late.share_job(None, None));
    assert_eq!(share.leaves.values().copied().collect::<Vec<_>>(), [200; 3]);
}

#[test]
fn an_unknown_node_is_named_before_the_decision_and_at_it() {
    let (graph, names) = (graph(), BTreeSet::from([name("nobody")]));
    let directory = directory(&graph);
    let find = |names: &[&NodeName]| find_nodes(&graph, &directory, names);
    let asked = AskedNodes::new(names.clone());
    for asked in [asked, AskedNodes::new(names).find(&graph, None, find)] {
        let refused = asked.named(&graph, &directory).unwrap_err();
        assert_eq!(refused, ShareError::UnknownNode { node: name("nobody") });
    }
}

#[test]
fn a_job_has_the_nodes_that_it_began_with() {
    let graph = graph();
    // Jobs that were placed have their nodes in another order than that of the names.
    let node = |text: &&str| JobNode { name: name(text), endpoints: Vec::new() };
    let job_of = |nodes: &[&str]| job(nodes.iter().map(node).collect());
    let known = job_of(&["b", "a", "c"]);
    let asked = |names: &[&str]| AskedNodes::new(names.iter().map(|text| name(text)).collect());
    for (names, is_same) in [
        (&["a", "b", "c"][..], true),
        (&[][..], true),
        (&["a", "b"][..], false),
        (&["a", "b", "d"][..], false),
        (&["a", "b", "c", "d"][..], false),
    ] {
        assert_eq!(asked(names).are_of(&known), is_same, "{names:?}");
    }
    let found =
        asked(&["a", "b", "c"]).find(&graph, Some(&known), |_| panic!("the job has its nodes"));
    assert!(found.of_job(&known).is_some_and(|places| places.nodes.is_copy_of(&known.nodes)));
    let again = job_of(&["b", "a", "c"]);
    assert!(found.of_job(&again).is_none(), "it ended, and another one has its name");
}
