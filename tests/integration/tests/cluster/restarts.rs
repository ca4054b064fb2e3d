//! Every single part is killed and started again while others work.

use std::collections::BTreeSet;

use fabricast_integration::{Client, Cluster, Layout, Traffic, copied, eventually, soon};
use fabricast_proto::v1;
use fabricast_topology::Faults;
use tokio::task::JoinSet;

/// Three groups over all leaves.
const GROUPS: [(&str, &[&str]); 3] = [
    ("all", &["n0", "n3", "n5", "n8", "n11", "n14"]),
    ("left", &["n0", "n1", "n4", "n6"]),
    ("right", &["n9", "n10", "n12", "n15"]),
];

/// A cluster with the three groups, routed.
async fn working(layout: Layout) -> (Cluster, Traffic, Vec<v1::Group>) {
    let cluster = Cluster::start(layout).await;
    for (group, nodes) in GROUPS {
        cluster.client.join_all(group, nodes).await;
    }
    let traffic = Traffic::listen(&cluster.client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let groups = cluster.client.groups().await;
    (cluster, traffic, groups)
}

/// Joins processes of all nodes to one group at once; answers those that were acknowledged.
fn many_joins(client: &Client, group: &'static str, processes: u32) -> JoinSet<(String, u32)> {
    let mut joins = JoinSet::new();
    for index in 0..16 * processes {
        let client = client.clone();
        let (node, process) = (format!("n{}", index % 16), format!("q{}", index / 16));
        joins.spawn(async move {
            let member = client.join_as(group, &node, &process).await.expect("joins in the end");
            (format!("{node}/{process}"), member.pn)
        });
    }
    joins
}

#[tokio::test]
async fn acknowledged_joins_survive_a_kill_of_the_tic_and_packets_flow_meanwhile() {
    let (mut cluster, traffic, groups) = working(Layout::leaf_spine()).await;
    let flow = traffic.flow(&groups);
    let mut joins = many_joins(&cluster.client, "crowd", 8);
    let mut acknowledged = BTreeSet::new();
    while acknowledged.len() < 20 {
        acknowledged.insert(soon(joins.join_next()).await.unwrap().unwrap());
    }
    cluster.tic.kill();
    cluster.tic.restart().await;
    while let Some(joined) = soon(joins.join_next()).await {
        acknowledged.insert(joined.unwrap());
    }
    let crowd = cluster.client.group("crowd").await;
    let recorded: BTreeSet<(String, u32)> = crowd
        .members
        .iter()
        .map(|member| (format!("{}/{}", member.node, member.process), member.pn))
        .collect();
    assert_eq!(recorded, acknowledged);
    cluster.client.settled().await;
    assert!(flow.stop().await > 0);
    traffic.all_arrived(&groups).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let gns = |groups: &[v1::Group]| groups.iter().map(|group| group.gn).collect::<Vec<_>>();
    assert_eq!(gns(&cluster.client.groups().await)[..3], gns(&groups));
}

#[tokio::test]
async fn a_new_router_writes_nothing_if_nothing_changed_while_there_was_none() {
    let (mut cluster, traffic, groups) = working(Layout::leaf_spine()).await;
    let (tables, revision) = (cluster.client.tables().await, cluster.client.revision().await);
    let flow = traffic.flow(&groups);
    cluster.router.kill();
    traffic_goes_on(&flow).await;
    cluster.router.restart().await;
    cluster.client.settled().await;
    let term = |fence: Option<v1::Fence>| fence.unwrap().term;
    let status = cluster.client.route_status().await.unwrap();
    let before = tables.iter().filter_map(|table| table.fence).next();
    assert!(term(status.fence) > term(before), "it is a new one");
    assert_eq!(copied(&cluster.client.tables().await), copied(&tables));
    assert_eq!(cluster.client.revision().await, revision, "nothing was reported anew");
    flow.stop().await;
    traffic.all_arrived(&groups).await;
}

/// Lets a flow send some packets.
async fn traffic_goes_on(flow: &fabricast_integration::Flow) {
    let before = flow.sent();
    eventually("packets are sent", async || {
        if flow.sent() > before + 50 { Ok(()) } else { Err(format!("{}", flow.sent())) }
    })
    .await;
}

#[tokio::test]
async fn changes_made_without_a_router_are_programmed_by_the_next_one() {
    let (mut cluster, traffic, groups) = working(Layout::leaf_spine()).await;
    let flow = traffic.flow(&groups[..1]);
    cluster.router.kill();
    cluster.client.join_all("late", &["n2", "n7", "n13"]).await;
    cluster.client.join_all("left", &["n15"]).await;
    cluster.client.leave("right", "n9").await.unwrap();
    traffic_goes_on(&flow).await;
    cluster.router.restart().await;
    cluster.client.settled().await;
    traffic_goes_on(&flow).await;
    flow.stop().await;
    traffic.all_arrived(&groups[..1]).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_new_router_moves_a_group_home_without_losing_a_packet() {
    let (mut cluster, traffic, groups) = working(Layout::leaf_spine()).await;
    let link = cluster.client.tree_link("all").await;
    cluster.client.fail(link.clone()).await;
    cluster.client.moved("all", true).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let flow = traffic.flow(&groups);
    cluster.router.kill();
    cluster.client.heal(link).await;
    traffic_goes_on(&flow).await;
    cluster.router.restart().await;
    cluster.client.moved("all", false).await;
    cluster.client.settled().await;
    traffic_goes_on(&flow).await;
    flow.stop().await;
    traffic.all_arrived(&groups).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_restart_of_the_tic_moves_no_group_onto_a_link_that_is_still_cut() {
    let (mut cluster, traffic, groups) = working(Layout::leaf_spine()).await;
    let link = cluster.client.tree_link("all").await;
    cluster.client.fail(link).await;
    cluster.client.moved("all", true).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let tables = cluster.client.tables().await;
    let flow = traffic.flow(&groups);
    cluster.tic.kill();
    cluster.tic.restart().await;
    cluster.client.join_all("later", &["n2", "n7"]).await;
    cluster.client.settled().await;
    cluster.client.leave("later", "n2").await.unwrap();
    cluster.client.leave("later", "n7").await.unwrap();
    cluster.client.settled().await;
    flow.stop().await;
    traffic.all_arrived(&groups).await;
    assert_eq!(copied(&cluster.client.tables().await), copied(&tables));
}

#[tokio::test]
async fn packets_flow_without_a_switch_agent_and_the_next_one_finds_nothing_to_write() {
    let (mut cluster, traffic, groups) = working(Layout::leaf_spine()).await;
    let tables = cluster.client.tables().await;
    let flow = traffic.flow(&groups);
    cluster.switches[0].kill();
    eventually("the router notices", async || {
        let status = cluster.client.route_status().await?;
        if status.last_error.is_empty() { Err("no error yet".to_owned()) } else { Ok(()) }
    })
    .await;
    cluster.switches[0].restart().await;
    cluster.client.settled().await;
    assert_eq!(cluster.client.tables().await, tables);
    flow.stop().await;
    traffic.all_arrived(&groups).await;
}

#[tokio::test]
async fn joins_made_without_one_of_two_switch_agents_are_programmed_when_it_is_back() {
    let layout = Layout { switch_agents: 2, ..Layout::leaf_spine() };
    let (mut cluster, traffic, groups) = working(layout).await;
    let flow = traffic.flow(&groups);
    cluster.switches[1].kill();
    cluster.client.join_all("late", &["n2", "n7", "n13"]).await;
    let late = cluster.client.group("late").await;
    assert_eq!(late.member_count, 3, "a join does not wait for the hardware");
    traffic_goes_on(&flow).await;
    cluster.switches[1].restart().await;
    cluster.client.settled().await;
    flow.stop().await;
    traffic.all_arrived(&groups).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_fabric_that_lost_its_tables_is_programmed_again() {
    let (mut cluster, traffic, _groups) = working(Layout::leaf_spine()).await;
    let tables = copied(&cluster.client.tables().await);
    cluster.fabric.kill();
    cluster.fabric.restart().await;
    eventually("the tables are there again", async || {
        let found = copied(&cluster.client.read_tables().await?);
        if found == tables { Ok(()) } else { Err(format!("{} switches", found.len())) }
    })
    .await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn nodes_of_a_killed_agent_process_come_back_as_new_ones_and_their_memberships_are_over() {
    let (mut cluster, traffic, groups) = working(Layout::leaf_spine()).await;
    let before = cluster.client.nodes().await.unwrap();
    cluster.operating[0].kill(); // n0 to n7, group agents of "all" and "left" among them
    cluster.operating[0].restart().await;
    let lost = |node: &v1::Node| cluster.layout.hosts[0].iter().any(|one| one.name == node.name);
    for node in before.iter().filter(|node| lost(node)) {
        eventually("the node has a new incarnation", async || {
            let now = cluster.client.node(&node.name).await?;
            let new = now.incarnation > node.incarnation && now.state() == v1::NodeState::Up;
            if new { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
    }
    let names: BTreeSet<&str> = cluster.layout.hosts[0].iter().map(|n| n.name.as_str()).collect();
    let now = cluster.client.groups().await;
    let mut left: Vec<v1::Group> = groups.clone();
    for group in &mut left {
        group.members.retain(|member| !names.contains(member.node.as_str()));
    }
    left.retain(|group| !group.members.is_empty());
    let shape = |groups: &[v1::Group]| -> Vec<String> {
        let members = |group: &v1::Group| -> Vec<String> {
            group.members.iter().map(|member| format!("{} {}", member.pn, member.node)).collect()
        };
        groups.iter().map(|one| format!("{} {} {:?}", one.name, one.gn, members(one))).collect()
    };
    assert_eq!(shape(&now), shape(&left), "the others keep their groups and ranks");
    cluster.is_whole(&traffic, &Faults::new()).await;
    // They join again like anybody else.
    cluster.client.join_all("left", GROUPS[1].1).await;
    cluster.client.join_all("all", &["n0", "n3", "n5"]).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn after_a_power_cut_of_everything_the_groups_that_were_to_stay_are_there() {
    let (mut cluster, traffic, groups) = working(Layout::leaf_spine()).await;
    let lasting = v1::OperatingAgentServiceJoinGroupRequest {
        node: "n0".to_owned(),
        group: "lasting".to_owned(),
        process: "p0".to_owned(),
        persistent: true,
        ..Default::default()
    };
    let lasting = cluster.client.join_with(lasting).await.unwrap();
    for part in [&mut cluster.tic, &mut cluster.router, &mut cluster.fabric] {
        part.kill();
    }
    cluster.switches.iter_mut().chain(&mut cluster.operating).for_each(|part| part.kill());
    // In an order that nobody planned.
    for part in cluster.operating.iter_mut().rev() {
        part.restart().await;
    }
    cluster.router.restart().await;
    cluster.switches[0].restart().await;
    cluster.tic.restart().await;
    cluster.fabric.restart().await;
    eventually("all nodes have a new incarnation and only the lasting group is left", async || {
        let nodes = cluster.client.nodes().await.map_err(|status| status.to_string())?;
        let (left, _) = cluster.client.records().await.map_err(|status| status.to_string())?;
        let names: Vec<&str> = left.iter().map(|group| group.name.as_str()).collect();
        let new = nodes.iter().all(|node| node.incarnation > 1);
        if new && names == ["lasting"] { Ok(()) } else { Err(format!("{names:?} {nodes:?}")) }
    })
    .await;
    assert_eq!(cluster.client.group("lasting").await.gn, lasting.gn);
    for (group, nodes) in GROUPS {
        cluster.client.join_all(group, nodes).await;
    }
    cluster.is_whole(&traffic, &Faults::new()).await;
    let newest = groups.iter().map(|group| group.gn).max().unwrap().max(lasting.gn);
    let again = cluster.client.group("all").await;
    assert!(again.gn > newest, "a GN is never used again");
}
