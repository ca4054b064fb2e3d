//! Nodes and switches that die, come back, or are only slow.

use std::time::{Duration, Instant};

use fabricast_integration::{Client, Cluster, Layout, Traffic, copied, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_rpc::{reason_of, request_id};
use fabricast_topology::Faults;

const MEMBERS: &[&str] = &["n0", "n3", "n5", "n8", "n11", "n14"];

/// Silence, then a probe of the group agent's and one of the TIC's, then the slack of a busy
/// machine.
const EXPELLED_WITHIN: Duration = Duration::from_millis(1_500 + 2 * 1_000 + 3_000);

async fn with_group(layout: Layout) -> (Cluster, Traffic) {
    let cluster = Cluster::start(layout).await;
    cluster.client.join_all("g", MEMBERS).await;
    cluster.client.join_all("h", &["n1", "n9", "n14"]).await;
    let traffic = Traffic::listen(&cluster.client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    (cluster, traffic)
}

/// A join of a process in one incarnation of its node.
fn join_in(node: &v1::Node) -> v1::JoinGroupRequest {
    v1::JoinGroupRequest {
        request_id: request_id(),
        group: "g".to_owned(),
        node: node.name.clone(),
        incarnation: node.incarnation,
        endpoint: node.endpoints[0].clone(),
        process: "late".to_owned(),
        ..Default::default()
    }
}

/// Waits until the node is out of every group and says how long that took.
async fn expelled(client: &Client, node: &str) -> Duration {
    let started = Instant::now();
    eventually(&format!("{node} is expelled"), async || {
        let record = client.node(node).await?;
        let member = client
            .groups()
            .await
            .iter()
            .any(|group| group.members.iter().any(|member| member.node == node));
        let gone = record.state() == v1::NodeState::Failed && !member;
        if gone { Ok(()) } else { Err(format!("{record:?}")) }
    })
    .await;
    started.elapsed()
}

/// The node dies, its groups go on without it, it comes back and joins again.
async fn dies_and_returns(cluster: &Cluster, traffic: &Traffic, victim: &str) {
    let client = &cluster.client;
    let before = client.node(victim).await.unwrap();
    let epochs: Vec<(String, u64)> =
        client.groups().await.iter().map(|group| (group.name.clone(), group.epoch)).collect();
    client.stop_node(victim).await;
    let took = expelled(client, victim).await;
    assert!(took < EXPELLED_WITHIN, "{took:?}");
    cluster.is_whole(traffic, &Faults::new()).await;
    for (name, epoch) in epochs {
        let group = client.group(&name).await;
        assert_ne!(group.agent_node, victim);
        assert!(group.epoch >= epoch, "epochs only grow");
    }
    let late = client.tic().join_group(join_in(&before)).await.unwrap_err();
    assert_eq!(reason_of(&late).unwrap(), "STALE_INCARNATION", "while it is expelled");
    let after = client.start_node(victim).await;
    assert!(after.incarnation > before.incarnation);
    let late = client.tic().join_group(join_in(&before)).await.unwrap_err();
    assert_eq!(reason_of(&late).unwrap(), "STALE_INCARNATION", "and after its return");
    cluster.is_whole(traffic, &Faults::new()).await;
    client.join("g", victim).await.unwrap();
    cluster.is_whole(traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_member_dies_and_comes_back() {
    let (cluster, traffic) = with_group(Layout::leaf_spine()).await;
    dies_and_returns(&cluster, &traffic, "n11").await;
}

#[tokio::test]
async fn the_node_of_the_group_agent_dies_and_comes_back() {
    let (cluster, traffic) = with_group(Layout::leaf_spine()).await;
    let group = cluster.client.group("g").await;
    let pns = |group: &v1::Group| -> Vec<(u32, String)> {
        group.members.iter().map(|member| (member.pn, member.node.clone())).collect()
    };
    dies_and_returns(&cluster, &traffic, &group.agent_node).await;
    let after = cluster.client.group("g").await;
    assert!(after.epoch > group.epoch, "another agent took over");
    assert_eq!(pns(&after), pns(&group), "the others keep their ranks, the vacant one is taken");
}

#[tokio::test]
async fn group_agents_die_one_after_the_other() {
    let (cluster, traffic) = with_group(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let before = client.group("g").await;
    let mut epoch = before.epoch;
    let mut gone = Vec::new();
    for _ in 0..3 {
        let victim = client.group("g").await.agent_node;
        client.stop_node(&victim).await;
        gone.push(victim.clone());
        expelled(client, &victim).await;
        cluster.is_whole(&traffic, &Faults::new()).await;
        let after = client.group("g").await;
        assert!(after.epoch > epoch && !gone.contains(&after.agent_node), "{after:?}");
        epoch = after.epoch;
        let ranks = |group: &v1::Group| -> Vec<(u32, String)> {
            let stays = group.members.iter().filter(|member| !gone.contains(&member.node));
            stays.map(|member| (member.pn, member.node.clone())).collect()
        };
        assert_eq!(ranks(&after), ranks(&before), "ranks stay");
        assert_eq!(after.members.len(), MEMBERS.len() - gone.len());
    }
}

/// G5: what a group agent says that cannot reach a member is no verdict, however often it says it.
#[tokio::test]
async fn a_node_that_only_its_group_agent_cannot_reach_stays() {
    let (cluster, traffic) = with_group(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let before = client.node("n5").await.unwrap();
    let revision = client.revision().await;
    let report = v1::ReportNodeFailureRequest {
        node: "n5".to_owned(),
        incarnation: before.incarnation,
        reporter: "group agents on n0".to_owned(),
        probe_first: true,
    };
    for _ in 0..20 {
        client.tic().report_node_failure(report.clone()).await.unwrap();
    }
    // The same about a node that is dead is one.
    client.stop_node("n11").await;
    let incarnation = client.node("n11").await.unwrap().incarnation;
    let report = v1::ReportNodeFailureRequest { node: "n11".to_owned(), incarnation, ..report };
    client.tic().report_node_failure(report).await.unwrap();
    expelled(client, "n11").await;
    assert_eq!(client.node("n5").await.unwrap(), before);
    assert!(client.revision().await > revision);
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert!(client.group("g").await.members.iter().any(|member| member.node == "n5"));
}

#[tokio::test]
async fn the_root_dies_though_the_agent_lives_elsewhere() {
    let (cluster, traffic) = with_group(Layout::three_levels()).await;
    let client = &cluster.client;
    // The agent's node stays agent when its process leaves; rank 1 is the root then.
    client.leave("g", "n0").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
    let group = client.group("g").await;
    let root = &group.members[0];
    let other = group.members.iter().find(|one| one.node != group.agent_node).unwrap();
    let victim = if root.node == group.agent_node { &other.node } else { &root.node };
    dies_and_returns(&cluster, &traffic, victim).await;
    dies_and_returns(&cluster, &traffic, &group.agent_node).await;
}

#[tokio::test]
async fn a_node_that_network_management_gives_up_comes_back_by_itself_without_memberships() {
    let (cluster, traffic) = with_group(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let before = client.node("n5").await.unwrap();
    let report = v1::ReportNodeFailureRequest {
        node: "n5".to_owned(),
        incarnation: before.incarnation,
        reporter: "management".to_owned(),
        probe_first: false,
    };
    let answer = client.tic().report_node_failure(report.clone()).await.unwrap().into_inner();
    assert_eq!(answer.ended_memberships, 1);
    eventually("the node notices and registers anew", async || {
        let now = client.node("n5").await?;
        let new = now.state() == v1::NodeState::Up && now.incarnation > before.incarnation;
        if new { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    // The same report once more is about an incarnation that is over.
    let answer = client.tic().report_node_failure(report).await.unwrap().into_inner();
    assert_eq!(answer.ended_memberships, 0);
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert!(client.group("g").await.members.iter().all(|member| member.node != "n5"));
    client.join("g", "n5").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
}

async fn entries_of(client: &Client, switch: &str) -> Result<usize, String> {
    let tables = client.read_tables().await?;
    Ok(tables.iter().find(|one| one.switch_name == switch).map_or(0, |one| one.entries.len()))
}

#[tokio::test]
async fn a_dead_spine_is_routed_around_and_programmed_anew_when_it_is_back() {
    let (cluster, traffic) = with_group(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let root = client.explain("g").await.unwrap().root;
    assert!(entries_of(client, &root).await.unwrap() > 0);
    let tables = copied(&client.tables().await);
    let mut faults = Faults::new();
    faults.fail_switch(cluster.layout.graph.find_switch(&root).unwrap());
    client.fail(Kind::SwitchName(root.clone())).await;
    client.moved("g", true).await;
    cluster.is_whole(&traffic, &faults).await;
    client.heal(Kind::SwitchName(root.clone())).await;
    client.moved("g", false).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert!(entries_of(client, &root).await.unwrap() > 0, "it had lost its tables");
    assert_eq!(copied(&client.tables().await), tables);
}

#[tokio::test]
async fn a_switch_that_loses_power_too_briefly_to_be_missed_is_programmed_anew() {
    let (cluster, traffic) = with_group(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let root = client.explain("g").await.unwrap().root;
    let tables = copied(&client.tables().await);
    client.fail(Kind::SwitchName(root.clone())).await;
    client.heal(Kind::SwitchName(root.clone())).await;
    eventually("the entries are there again", async || {
        let found = copied(&client.read_tables().await?);
        if found == tables { Ok(()) } else { Err(format!("{} switches", found.len())) }
    })
    .await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_dead_leaf_cuts_off_its_endpoints_and_the_others_are_served() {
    let (cluster, traffic) = with_group(Layout::leaf_spine()).await;
    let client = &cluster.client;
    let graph = &cluster.layout.graph;
    let endpoint = graph.find_endpoint("h0").unwrap();
    let leaf = graph.switch_of(graph.attachment(endpoint).unwrap());
    let name = graph.switch_name(leaf).to_owned();
    let mut faults = Faults::new();
    faults.fail_switch(leaf);
    client.fail(Kind::SwitchName(name.clone())).await;
    eventually("they are named", async || {
        let cut_off = client.group("g").await.route.unwrap_or_default().cut_off_endpoints;
        if cut_off == ["h0", "h3"] { Ok(()) } else { Err(format!("{cut_off:?}")) }
    })
    .await;
    cluster.is_whole(&traffic, &faults).await;
    let group = client.group("g").await;
    assert_eq!(usize::try_from(group.member_count).unwrap(), MEMBERS.len(), "nobody is expelled");
    assert_eq!(client.explain("g").await.unwrap().cut_off_endpoints, ["h0", "h3"]);
    client.heal(Kind::SwitchName(name)).await;
    eventually("nobody is cut off any more", async || {
        let cut_off = client.group("g").await.route.unwrap_or_default().cut_off_endpoints;
        if cut_off.is_empty() { Ok(()) } else { Err(format!("{cut_off:?}")) }
    })
    .await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_core_switch_of_three_levels_dies_and_heals() {
    let (cluster, traffic) = with_group(Layout::three_levels()).await;
    let client = &cluster.client;
    let root = client.explain("g").await.unwrap().root;
    let mut faults = Faults::new();
    faults.fail_switch(cluster.layout.graph.find_switch(&root).unwrap());
    client.fail(Kind::SwitchName(root.clone())).await;
    client.moved("g", true).await;
    cluster.is_whole(&traffic, &faults).await;
    client.heal(Kind::SwitchName(root)).await;
    client.moved("g", false).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}
