//! Rule R5: while anything changes, packets of groups whose members do not change arrive exactly
//! once.

use fabricast_integration::{Cluster, Layout, Traffic, color_of, eventually};
use fabricast_proto::v1;
use fabricast_topology::{Faults, Mgid, TableKind};

use crate::standby::status;

/// Members on every leaf but the last.
const STEADY: &[&str] = &["n0", "n1", "n5", "n10"];

/// A cluster with the group "steady" at this MGID.
async fn with_steady(layout: Layout, mgid: u32) -> (Cluster, Traffic, Vec<v1::Group>) {
    let cluster = Cluster::start(layout).await;
    cluster.client.join_fixed("steady", mgid, STEADY).await;
    let traffic = Traffic::listen(&cluster.client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let steady = vec![cluster.client.group("steady").await];
    (cluster, traffic, steady)
}

/// The first MGID from `from` on that is (not) on the spanning tree of `other`, and of its color.
fn mgid_of_same_color(layout: &Layout, other: u32, from: u32, same_tree: bool) -> u32 {
    let space = layout.space();
    let home = space.spt(Mgid(other));
    let fits = |mgid: &u32| {
        let spt = space.spt(Mgid(*mgid));
        space.color(spt) == space.color(home) && (spt == home) == same_tree && *mgid != other
    };
    (from..).find(fits).unwrap()
}

async fn others_merge_and_part(layout: Layout) {
    let mgid = 200;
    let sharing = mgid_of_same_color(&layout, mgid, 300, true);
    let (cluster, traffic, steady) = with_steady(layout, mgid).await;
    let client = &cluster.client;
    let flow = traffic.flow(&steady);
    for round in 0..3 {
        // They touch the steady group's tree with its color: one virtual group.
        client.join_fixed("sharing", sharing, &["n1", "n6", "n14"]).await;
        for group in ["a", "b", "c"] {
            let name = format!("{group}{round}");
            client.join_all(&name, &["n0", "n5", "n9", "n12"]).await;
        }
        client.settled().await;
        let shared = client.explain("steady").await.unwrap().shares_with;
        assert_eq!(shared, ["sharing"], "the test tests merging");
        for node in ["n6", "n1", "n14"] {
            client.leave("sharing", node).await.unwrap();
        }
        for node in ["n12", "n0", "n9", "n5"] {
            client.leave(&format!("b{round}"), node).await.unwrap();
        }
        client.settled().await;
        assert_eq!(client.explain("steady").await.unwrap().shares_with, [""; 0]);
        // The name and the MGID are free again; the MGID only once the tables are clean.
    }
    flow.stop().await;
    traffic.all_arrived(&steady).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_standing_group_loses_nothing_while_others_merge_with_it_and_part() {
    others_merge_and_part(Layout::leaf_spine()).await;
}

#[tokio::test]
async fn a_standing_group_loses_nothing_with_one_table_per_switch() {
    others_merge_and_part(Layout::three_levels().with_tables(TableKind::PerSwitch)).await;
}

#[tokio::test]
async fn a_standing_group_loses_nothing_on_four_levels_with_two_switch_agents() {
    others_merge_and_part(Layout::four_levels().with_switch_agents(2)).await;
}

/// Others join, are rerouted, merge, come home, part and leave under one flow, and in the middle of
/// it the route service is taken over by another one.
async fn every_kind_of_change(layout: Layout) {
    let mgid = 200;
    let sharing = mgid_of_same_color(&layout, mgid, 300, true);
    let elsewhere = mgid_of_same_color(&layout, mgid, 100, false);
    let (mut cluster, traffic, steady) = with_steady(Layout { routers: 2, ..layout }, mgid).await;
    let client = cluster.client.clone();
    let flow = traffic.flow(&steady);
    for takeover in [false, true] {
        client.join_fixed("elsewhere", elsewhere, &["n2", "n7", "n11"]).await;
        client.settled().await;
        let link = client.tree_link("elsewhere").await;
        client.fail(link.clone()).await;
        if takeover {
            let one = &mut cluster.router;
            let other = &mut cluster.other_routers[0];
            if status(one).await.active { one.kill() } else { other.kill() }
        }
        client.moved("elsewhere", true).await;
        client.join_fixed("sharing", sharing, &["n1", "n6", "n14"]).await;
        client.settled().await;
        let shared = client.explain("steady").await.unwrap().shares_with;
        assert_eq!(shared, ["sharing"], "the test tests merging");
        client.heal(link).await;
        client.moved("elsewhere", false).await;
        for node in ["n6", "n14", "n1"] {
            client.leave("sharing", node).await.unwrap();
        }
        client.settled().await;
        assert_eq!(client.explain("steady").await.unwrap().shares_with, [""; 0]);
        for node in ["n7", "n2", "n11"] {
            client.leave("elsewhere", node).await.unwrap();
        }
        client.settled().await;
    }
    assert!(flow.stop().await > 0);
    traffic.all_arrived(&steady).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_standing_group_loses_nothing_through_every_kind_of_change() {
    every_kind_of_change(Layout::leaf_spine()).await;
}

#[tokio::test]
async fn a_standing_group_loses_nothing_through_every_kind_of_change_with_two_agents() {
    every_kind_of_change(Layout::leaf_spine().with_switch_agents(2)).await;
}

/// Breaks a link of the steady group, lets it settle elsewhere, and heals the link under traffic.
async fn moves_home(layout: Layout) {
    let (cluster, traffic, steady) = with_steady(layout, 5).await;
    let link = cluster.client.tree_link("steady").await;
    cluster.client.fail(link.clone()).await;
    cluster.client.moved("steady", true).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let flow = traffic.flow(&steady);
    cluster.client.heal(link).await;
    cluster.client.moved("steady", false).await;
    cluster.client.settled().await;
    flow.stop().await;
    traffic.all_arrived(&steady).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_group_moves_home_after_healing_without_losing_a_packet() {
    moves_home(Layout::leaf_spine()).await;
}

#[tokio::test]
async fn a_group_moves_home_on_three_levels_with_two_switch_agents() {
    moves_home(Layout::three_levels().with_switch_agents(2)).await;
}

#[tokio::test]
async fn a_group_moves_home_with_one_table_per_switch() {
    moves_home(Layout::leaf_spine().with_tables(TableKind::PerSwitch)).await;
}

#[tokio::test]
async fn a_group_moves_home_within_the_only_color_there_is() {
    moves_home(Layout::leaf_spine().with_colors(1).with_switch_agents(2)).await;
}

#[tokio::test]
async fn a_group_that_a_newcomer_pushes_to_another_color_loses_nothing_and_comes_back() {
    let layout = Layout::leaf_spine();
    let mgid = 200;
    // Smaller, so that it has the first choice; the same color on another tree, so that both
    // cannot have it where they share an endpoint.
    let newcomer = mgid_of_same_color(&layout, mgid, 0, false);
    assert!(newcomer < mgid);
    let (cluster, traffic, steady) = with_steady(layout, mgid).await;
    let client = &cluster.client;
    let flow = traffic.flow(&steady);
    client.join_fixed("newcomer", newcomer, &["n1", "n14"]).await;
    client.moved("steady", true).await;
    client.settled().await;
    traffic.flows("the newcomer is served", &[client.group("newcomer").await]).await;
    client.leave("newcomer", "n1").await.unwrap();
    client.leave("newcomer", "n14").await.unwrap();
    client.moved("steady", false).await;
    client.settled().await;
    flow.stop().await;
    traffic.all_arrived(&steady).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_new_color_that_only_a_dead_tic_knows_costs_nothing() {
    let layout = Layout::leaf_spine();
    let newcomer = mgid_of_same_color(&layout, 200, 0, false);
    let (mut cluster, traffic, steady) = with_steady(layout, 200).await;
    let client = cluster.client.clone();
    let flow = traffic.flow(&steady);
    client.join_fixed("newcomer", newcomer, &["n1"]).await;
    client.settled().await;
    let before = color_of(client.group("steady").await.route.as_ref());
    client.join_fixed("newcomer", newcomer, &["n14"]).await;
    eventually("the new color is recorded", async || {
        let now = color_of(client.group("steady").await.route.as_ref());
        if now == before { Err("it is not") } else { Ok(()) }.map_err(str::to_owned)
    })
    .await;
    cluster.tic.kill();
    // Far longer than old entries are kept for senders to hear of it.
    let sent = flow.sent();
    eventually("many packets are sent", async || {
        if flow.sent() > sent + 400 { Ok(()) } else { Err(format!("{}", flow.sent())) }
    })
    .await;
    cluster.tic.restart().await;
    client.settled().await;
    flow.stop().await;
    traffic.all_arrived(&steady).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn a_broken_link_costs_only_the_groups_that_use_it() {
    let (cluster, traffic, _steady) = with_steady(Layout::leaf_spine(), 5).await;
    let client = &cluster.client;
    client.join_all("inside one leaf", &["n12", "n13", "n14", "n15"]).await;
    let elsewhere = mgid_of_same_color(&cluster.layout, 5, 100, false);
    client.join_fixed("elsewhere", elsewhere, &["n2", "n7", "n11"]).await;
    client.settled().await;
    let link = client.tree_link("elsewhere").await;
    let carried = client.explain("steady").await.unwrap().links;
    let untouched = |link: &v1::element::Kind| match link {
        v1::element::Kind::Link(end) => carried.iter().all(|one| {
            (&one.switch_name, one.port) != (&end.switch_name, end.port)
                && (&one.peer, one.peer_port) != (&end.switch_name, end.port)
        }),
        _ => false,
    };
    assert!(untouched(&link), "trees of one color have no link in common");
    let standing = [client.group("steady").await, client.group("inside one leaf").await];
    let flow = traffic.flow(&standing);
    client.fail(link.clone()).await;
    client.moved("elsewhere", true).await;
    client.settled().await;
    client.heal(link).await;
    client.moved("elsewhere", false).await;
    client.settled().await;
    flow.stop().await;
    traffic.all_arrived(&standing).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}
