//! Properties of groups, and requests that are refused.

use fabricast_config::NodeConfig;
use fabricast_integration::{Client, Cluster, Layout, Traffic, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::OperatingAgentServiceJoinGroupRequest as JoinRequest;
use fabricast_rpc::reason_of;
use fabricast_topology::{Faults, Mgid, TableKind};
use tonic::{Code, Status};

fn join_request(group: &str, node: &str) -> JoinRequest {
    JoinRequest {
        group: group.to_owned(),
        node: node.to_owned(),
        process: "p0".to_owned(),
        ..Default::default()
    }
}

fn why<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    let status = answer.unwrap_err();
    reason_of(&status).unwrap_or_else(|| format!("no reason: {status}"))
}

fn route(group: &v1::Group) -> v1::Route {
    group.route.clone().unwrap()
}

/// Two MGIDs on one spanning tree.
fn two_on_one_tree(layout: &Layout) -> (u32, u32) {
    let space = layout.space();
    let other = (1..).find(|mgid| space.spt(Mgid(*mgid)) == space.spt(Mgid(0))).unwrap();
    (0, other)
}

async fn join_exclusive(client: &Client, group: &str, mgid: Option<u32>, nodes: &[&str]) {
    for node in nodes {
        let request = JoinRequest { exclusive: true, mgid, ..join_request(group, node) };
        client.join_with(request).await.unwrap();
    }
}

/// Checks that a group is routed, and alone on its tree.
async fn is_alone(client: &Client, group: &str) {
    let route = route(&client.group(group).await);
    assert_eq!(route.state(), v1::RouteState::Routed, "{group}: {}", route.reason);
    let plan = client.explain(group).await.unwrap();
    assert_eq!(plan.shares_with, [""; 0], "{group}");
}

/// The creator of another group gives that the spanning tree of an exclusive one, which moves to
/// another one while packets of a third group flow.
async fn exclusive_group_meets_another(layout: Layout) {
    let (mine, theirs) = two_on_one_tree(&layout);
    let cluster = Cluster::start(layout).await;
    let client = &cluster.client;
    let traffic = Traffic::listen(client).await;
    join_exclusive(client, "mine", Some(mine), &["n0", "n5", "n10"]).await;
    client.join_all("steady", &["n0", "n1", "n5", "n10", "n11"]).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    is_alone(client, "mine").await;
    let flow = traffic.flow(&[client.group("steady").await]);
    client.join_fixed("theirs", theirs, &["n1", "n5", "n11"]).await;
    client.settled().await;
    flow.stop().await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    is_alone(client, "mine").await;
    is_alone(client, "theirs").await;
    let moved = client.group("mine").await;
    assert_eq!(moved.mgid, mine, "its members send with the MGID that they know");
    assert!(moved.home_mgid.is_some());
    traffic.round(&[moved]).await.unwrap();
}

#[tokio::test]
async fn an_exclusive_group_is_never_merged_and_moves_to_a_tree_of_its_own() {
    exclusive_group_meets_another(Layout::leaf_spine()).await;
}

#[tokio::test]
async fn an_exclusive_group_is_never_merged_with_one_table_per_switch() {
    let layout = Layout::leaf_spine().with_tables(TableKind::PerSwitch);
    exclusive_group_meets_another(layout).await;
}

/// The issue: groups whose members join one by one filled one color, and an exclusive group that
/// came among them had no tree, nor had it when it was formed again.
async fn exclusive_groups_among_others(layout: Layout, faults: &[&str]) {
    let cluster = Cluster::start(layout).await;
    let client = &cluster.client;
    let mut broken = Faults::new();
    for name in faults {
        let switch = cluster.layout.graph.find_switch(name).unwrap();
        let up = cluster.layout.graph.ports(switch).find(|port| {
            matches!(cluster.layout.graph.peer(*port), fabricast_topology::Peer::Switch(_))
        });
        let port = up.unwrap();
        broken.fail_link(&cluster.layout.graph, port);
        let number = u32::from(cluster.layout.graph.port_number(port));
        let end = v1::PortName { switch_name: (*name).to_owned(), port: number };
        client.fail(v1::element::Kind::Link(end)).await;
    }
    let traffic = Traffic::listen(client).await;
    let members: [&[&str]; 3] = [&["n0", "n5", "n10"], &["n1", "n5", "n11"], &["n2", "n6", "n14"]];
    for round in 0..2 {
        for (at, members) in (0..).zip(members) {
            client.join_all(&format!("before {round} {at}"), members).await;
        }
        join_exclusive(client, &format!("alone {round}"), None, &["n0", "n6", "n11", "n12"]).await;
        client.join_all(&format!("after {round}"), &["n3", "n7", "n11", "n15"]).await;
    }
    cluster.is_whole(&traffic, &broken).await;
    is_alone(client, "alone 0").await;
    is_alone(client, "alone 1").await;
    // One more group of every kind changes nothing for them.
    client.join_all("last", &["n0", "n6", "n11", "n12"]).await;
    join_exclusive(client, "alone 2", None, &["n0", "n6", "n11", "n12"]).await;
    cluster.is_whole(&traffic, &broken).await;
    for group in ["alone 0", "alone 1", "alone 2"] {
        is_alone(client, group).await;
    }
}

#[tokio::test]
async fn exclusive_groups_are_routed_alone_while_colors_are_free() {
    exclusive_groups_among_others(Layout::leaf_spine(), &[]).await;
}

#[tokio::test]
async fn exclusive_groups_are_routed_alone_on_a_damaged_fabric() {
    let layout = Layout::leaf_spine();
    let leaves = leaf_names(&layout);
    let leaves: Vec<&str> = leaves.iter().map(String::as_str).collect();
    exclusive_groups_among_others(layout, &leaves[..2]).await;
}

fn leaf_names(layout: &Layout) -> Vec<String> {
    let graph = &layout.graph;
    let leaves: std::collections::BTreeSet<_> = graph
        .endpoints()
        .filter_map(|endpoint| Some(graph.switch_of(graph.attachment(endpoint)?)))
        .collect();
    leaves.into_iter().map(|leaf| graph.switch_name(leaf).to_owned()).collect()
}

#[tokio::test]
async fn an_exclusive_group_without_a_home_says_why_and_has_one_when_another_group_is_gone() {
    // One color has four trees.
    let cluster = Cluster::start(Layout::leaf_spine().with_colors(1)).await;
    let client = &cluster.client;
    let traffic = Traffic::listen(client).await;
    let others: [&[&str]; 4] =
        [&["n0", "n4", "n8"], &["n1", "n5", "n9"], &["n2", "n6", "n10"], &["n3", "n7", "n11"]];
    for (at, members) in (0..4).zip(others) {
        client.join_fixed(&format!("other {at}"), at, members).await;
    }
    join_exclusive(client, "mine", None, &["n12", "n13"]).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    is_alone(client, "mine").await; // within a leaf it shares no link
    client.join("mine", "n0").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    let refused = route(&client.group("mine").await);
    assert_eq!(refused.state(), v1::RouteState::UnicastOnly);
    assert_eq!(refused.reason_code(), v1::RouteReason::ExclusiveTreeShared);
    let why = "exclusive, and its tree would be shared with 1 groups; 4 of 4 spanning trees have other groups";
    assert_eq!(refused.reason, why);
    for node in others[0] {
        client.leave("other 0", node).await.unwrap();
    }
    cluster.is_whole(&traffic, &Faults::new()).await;
    is_alone(client, "mine").await;
}

#[tokio::test]
async fn processes_and_groups_that_share_an_endpoint_each_get_their_own() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    for (node, process) in [("n0", "p0"), ("n0", "p1"), ("n5", "p0"), ("n10", "p2")] {
        client.join_as("first", node, process).await.unwrap();
    }
    for (node, process) in [("n0", "p0"), ("n5", "p0"), ("n5", "p1"), ("n15", "p0")] {
        client.join_as("second", node, process).await.unwrap();
    }
    let traffic = Traffic::listen(client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    // One of two processes leaves: the endpoint stays in the tree for the other.
    client.leave_as("first", "n0", "p0").await.unwrap();
    client.leave_as("second", "n5", "p1").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    traffic.all_arrived(&client.groups().await).await;
}

#[tokio::test]
async fn a_node_with_two_endpoints_is_a_member_with_both() {
    let spec = |name: &str, endpoints: &[&str]| NodeConfig {
        name: name.to_owned(),
        endpoints: endpoints.iter().map(|name| (*name).to_owned()).collect(),
        interfaces: std::collections::BTreeMap::new(),
    };
    let hosts = vec![
        vec![spec("dual", &["h0", "h4"]), spec("a", &["h5"])],
        vec![spec("b", &["h9"]), spec("c", &["h14"])],
    ];
    let cluster = Cluster::start(Layout::leaf_spine().with_hosts(hosts)).await;
    let client = &cluster.client;
    let first = client.join("g", "dual").await.unwrap();
    assert_eq!(first.endpoint, "h0", "the first is the default");
    let second = JoinRequest {
        endpoint: "h4".to_owned(),
        process: "p1".into(),
        ..join_request("g", "dual")
    };
    assert_eq!(client.join_with(second).await.unwrap().endpoint, "h4");
    client.join_all("g", &["a", "b", "c"]).await;
    let elsewhere = JoinRequest { endpoint: "h4".to_owned(), ..join_request("g", "dual") };
    assert_eq!(why(client.join_with(elsewhere).await), "JOINED_ELSEWHERE");
    let foreign = JoinRequest {
        endpoint: "h9".to_owned(),
        process: "p2".into(),
        ..join_request("g", "dual")
    };
    assert_eq!(why(client.join_with(foreign).await), "UNKNOWN_ENDPOINT");
    let traffic = Traffic::listen(client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    client.leave_as("g", "dual", "p0").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    traffic.all_arrived(&client.groups().await).await;
}

#[tokio::test]
async fn a_group_of_one_needs_no_tree_until_a_second_one_joins() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let traffic = Traffic::listen(client).await;
    client.join("g", "n3").await.unwrap();
    client.settled().await;
    let alone = client.group("g").await;
    assert_eq!(route(&alone).state(), v1::RouteState::UnicastOnly);
    let packet = v1::SendPacketRequest {
        node: "n3".to_owned(),
        group: "g".to_owned(),
        process: "p0".to_owned(),
        payload: vec![1],
    };
    assert_eq!(why(client.home("n3").send_packet(packet).await), "NOT_ROUTED");
    client.join("g", "n12").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    traffic.round(&[client.group("g").await]).await.unwrap();
    client.leave("g", "n3").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert_eq!(route(&client.group("g").await).state(), v1::RouteState::UnicastOnly);
}

/// Joins at the TIC itself, which unlike an operating agent does not try again.
async fn join_at_tic(client: &Client, group: &str, mgid: u32) -> Result<(), Status> {
    let node = client.node("n0").await.unwrap();
    let request = v1::JoinGroupRequest {
        request_id: fabricast_rpc::request_id(),
        group: group.to_owned(),
        node: node.name,
        incarnation: node.incarnation,
        endpoint: "h0".to_owned(),
        process: "direct".to_owned(),
        mgid: Some(mgid),
        ..Default::default()
    };
    client.tic().join_group(request).await.map(|_| ())
}

#[tokio::test]
async fn a_member_that_only_sends_is_heard_and_hears_nothing() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let traffic = Traffic::listen(client).await;
    client.join_all("g", &["n0", "n6"]).await;
    let node = client.node("n12").await.unwrap();
    let request = v1::JoinGroupRequest {
        request_id: fabricast_rpc::request_id(),
        group: "g".to_owned(),
        node: node.name,
        incarnation: node.incarnation,
        endpoint: "h12".to_owned(),
        process: "sender".to_owned(),
        sends_only: true,
        ..Default::default()
    };
    client.tic().join_group(request).await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    // Its endpoint gets what another member there is to receive, and nothing after that has left.
    client.join("g", "n12").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    client.leave("g", "n12").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    traffic.all_arrived(&[client.group("g").await]).await;
}

#[tokio::test]
async fn an_mgid_is_used_again_only_after_the_tables_are_clean() {
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = cluster.client.clone();
    let traffic = Traffic::listen(&client).await;
    client.join_fixed("old", 7, &["n0", "n6", "n12"]).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let old = client.group("old").await;
    cluster.router.kill();
    for node in ["n0", "n6", "n12"] {
        client.leave("old", node).await.unwrap();
    }
    assert_eq!(why(join_at_tic(&client, "new", 7).await), "MGID_NOT_CLEAN");
    cluster.router.restart().await;
    eventually("the MGID is free again", async || {
        join_at_tic(&client, "new", 7).await.map_err(|status| status.message().to_owned())
    })
    .await;
    client.join_fixed("new", 7, &["n1", "n7"]).await;
    let new = client.group("new").await;
    assert!(new.gn > old.gn, "the number of a group is never used again");
    assert_eq!(new.mgid, 7);
}

#[tokio::test]
async fn an_operating_agent_waits_for_an_mgid_that_is_not_clean_yet() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let traffic = Traffic::listen(client).await;
    for round in 0..4 {
        let name = format!("round {round}");
        client.join_fixed(&name, 7, &["n0", "n6", "n12"]).await;
        cluster.is_whole(&traffic, &Faults::new()).await;
        for node in ["n0", "n6", "n12"] {
            client.leave(&name, node).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_changes_nothing() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    client.join_fixed("g", 7, &["n0", "n6"]).await;
    client.settled().await;
    let (before, revision) = (client.groups().await, client.revision().await);
    let with_mgid = |group, mgid| JoinRequest { mgid: Some(mgid), ..join_request(group, "n1") };
    let at =
        |endpoint: &str| JoinRequest { endpoint: endpoint.to_owned(), ..join_request("g", "n1") };
    let long = "x".repeat(257);
    let process = |name: &str| JoinRequest { process: name.to_owned(), ..join_request("g", "n1") };
    for (request, reason) in [
        (with_mgid("other", 7), "MGID_IN_USE"),
        (with_mgid("g", 8), "GROUP_DIFFERS"),
        (with_mgid("other", u32::MAX), "MGID_OUT_OF_RANGE"),
        (at("h99"), "UNKNOWN_ENDPOINT"),
        (at("h0"), "UNKNOWN_ENDPOINT"),
        (join_request(&long, "n1"), "NAME_INVALID"),
        (join_request("", "n1"), "NAME_INVALID"),
        (join_request("a\nb", "n1"), "NAME_INVALID"),
        (process(&long), "NAME_INVALID"),
        (process(""), "NAME_INVALID"),
    ] {
        let text = format!("{request:?}");
        assert_eq!(why(client.join_with(request).await), reason, "{text}");
    }
    let mut home = client.home("n1");
    assert_eq!(why(home.join_group(join_request("g", "n99")).await), "UNKNOWN_NODE");
    assert_eq!(why(client.leave("g", "n1").await), "NOT_A_MEMBER");
    assert_eq!(why(client.leave("nowhere", "n1").await), "UNKNOWN_GROUP");
    let again = client.join("g", "n0").await.unwrap();
    assert_eq!(again.pn, 0, "to join twice is to be told where one is");
    assert_eq!((client.groups().await, client.revision().await), (before, revision));
    let refused = join_at_tic(client, "other", 7).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);
    assert!(refused.message().contains("\"g\""), "it names the group: {}", refused.message());
}
