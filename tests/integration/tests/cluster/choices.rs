//! Engines whose plan depends on the past: what they chose survives any part that dies, so that no
//! group that is right is routed anew.

use std::sync::Arc;
use std::time::Duration;

use fabricast_integration::{
    Client, Cluster, Flow, Layout, Traffic, copied, eventually, table_entries,
};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_routing::{
    Change, EngineKind, EngineOptions, RecordedChoice, RootScope, RoutingEngine, build_engine,
};
use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Mgid, Peer, PortId, TableEntry};

use crate::history::Chance;

/// Groups that come, at most, until their order matters.
const STEPS: u32 = 60;

fn layout(engine: EngineKind) -> Layout {
    Layout::four_levels().with_colors(2).with_engine(engine)
}

/// An engine that knows the groups and nothing of the past.
fn planned(layout: &Layout, groups: &[v1::Group]) -> Box<dyn RoutingEngine> {
    let view = FatTree::detect(&layout.graph).ok().map(Arc::new);
    let options = EngineOptions {
        root_scope: layout.root_scope,
        ..EngineOptions::new(layout.colors, layout.tables)
    };
    let graph = Arc::clone(&layout.graph);
    let mut engine = build_engine(layout.engine, graph, view, options).unwrap();
    let put = |group: &v1::Group| {
        let found = group.members.iter().map(|one| layout.graph.find_endpoint(&one.endpoint));
        let mut members: Vec<EndpointId> = found.map(Option::unwrap).collect();
        members.sort_unstable();
        members.dedup();
        Change::Put { mgid: Mgid(group.mgid), members }
    };
    engine.apply(&groups.iter().map(put).collect::<Vec<_>>()).unwrap();
    engine
}

/// The tables of an engine.
fn entries(engine: &dyn RoutingEngine) -> Vec<TableEntry> {
    let mut entries = fabricast_routing::table_entries(engine.graph(), engine.plan());
    entries.sort_unstable();
    entries
}

async fn is_from_scratch(cluster: &Cluster) -> bool {
    let (groups, tables) = (cluster.client.groups().await, cluster.client.tables().await);
    table_entries(&cluster.layout, &tables) == entries(&*planned(&cluster.layout, &groups))
}

/// Lets groups come and go until their order matters.
async fn make_history(cluster: &Cluster) {
    let (client, mut chance) = (&cluster.client, Chance(0x5eed_0011));
    let mut living: Vec<(String, Vec<String>)> = Vec::new();
    for step in 0..STEPS {
        if living.len() > 4 && chance.below(3) == 0 {
            let index = usize::try_from(chance.below(4)).unwrap();
            let (group, nodes) = living.remove(index);
            for node in nodes {
                client.leave(&group, &node).await.unwrap();
            }
        } else {
            let mut nodes: Vec<String> =
                (0..2 + chance.below(3)).map(|_| format!("n{}", chance.below(16))).collect();
            nodes.sort_unstable();
            nodes.dedup();
            let group = format!("g{step}");
            // Some of one spanning tree, so that they have to get along with each other.
            let mgid = step % 3 + step / 3 * 64;
            client.join_fixed(&group, mgid, &nodes.iter().map(|n| &**n).collect::<Vec<_>>()).await;
            living.push((group, nodes));
        }
        client.settled().await;
        if living.len() > 4 && !is_from_scratch(cluster).await {
            return;
        }
    }
    panic!("{}: the order of {STEPS} groups does not matter", cluster.layout.engine);
}

/// A cluster whose tables are those of its past.
async fn with_a_past(engine: EngineKind) -> (Cluster, Traffic) {
    with_a_past_in(layout(engine)).await
}

async fn with_a_past_in(layout: Layout) -> (Cluster, Traffic) {
    let cluster = Cluster::start(layout).await;
    let traffic = Traffic::listen(&cluster.client).await;
    make_history(&cluster).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    (cluster, traffic)
}

async fn chosen(client: &Client) -> v1::ListRouteChoicesResponse {
    let request = v1::ListRouteChoicesRequest::default();
    client.choices().list_route_choices(request).await.unwrap().into_inner()
}

async fn goes_on(flow: &Flow) {
    let before = flow.sent();
    eventually("packets are sent", async || {
        if flow.sent() > before + 20 { Ok(()) } else { Err(format!("{}", flow.sent())) }
    })
    .await;
}

/// Route service, TIC and both die and start again: no table changes.
async fn survives(engine: EngineKind) {
    let (mut cluster, traffic) = with_a_past(engine).await;
    let client = cluster.client.clone();
    let (tables, groups) = (client.tables().await, client.groups().await);
    let (choices, revision) = (chosen(&client).await, client.revision().await);
    assert_eq!(choices.scheme.as_ref().unwrap().engine, engine.name());
    let flow = traffic.flow(&groups);
    goes_on(&flow).await;
    for dies in [[true, false], [false, true], [true, true]] {
        let [router, tic] = dies;
        if router {
            cluster.router.kill();
        }
        if tic {
            cluster.tic.kill();
        }
        goes_on(&flow).await;
        if tic {
            cluster.tic.restart().await;
        }
        if router {
            cluster.router.restart().await;
        }
        client.settled().await;
        goes_on(&flow).await;
        assert_eq!(copied(&client.tables().await), copied(&tables), "{engine}, {dies:?}");
        assert_eq!(chosen(&client).await, choices, "{engine}, {dies:?}");
        assert_eq!(client.revision().await, revision, "{engine}, {dies:?}: nothing was reported");
    }
    flow.stop().await;
    traffic.all_arrived(&groups).await;
    assert!(!is_from_scratch(&cluster).await, "the order of groups matters");
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_of_c_mr4lms_with_dynamic_roots_survives() {
    survives(EngineKind::CMr4lmsDynamic).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_of_mr4lms_survives() {
    survives(EngineKind::Mr4lms).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_of_minhop_mc_survives() {
    survives(EngineKind::MinHopMc).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_of_sssp_mc_survives() {
    survives(EngineKind::SsspMc).await;
}

/// Dies when choices are durable and no switch has heard of them; the next one programs just those.
async fn dies_between_storing_and_programming(engine: EngineKind) {
    let (mut cluster, traffic) = with_a_past(engine).await;
    let client = cluster.client.clone();
    let tables = client.tables().await;
    // Without a switch agent nothing can be programmed.
    cluster.switches[0].kill();
    // A route service at work would report choices after each join, and its `seen_revision` does
    // not wait for the last report. One that starts after the joins makes one report for all.
    cluster.router.kill();
    client.join_fixed("late", 64 * 64, &["n1", "n6", "n11", "n12"]).await;
    let late = client.group("late").await.gn;
    cluster.router.restart().await;
    eventually("the choice is durable", async || {
        let now = chosen(&client).await;
        let is_known = now.choices.iter().any(|choice| choice.gn == late);
        if is_known { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    cluster.router.kill();
    let choices = chosen(&client).await;
    cluster.switches[0].restart().await;
    assert_eq!(client.tables().await, tables, "nothing has been programmed");
    cluster.router.restart().await;
    client.settled().await;
    assert_eq!(chosen(&client).await, choices, "{engine}: nothing was chosen anew");
    assert_ne!(copied(&client.tables().await), copied(&tables));
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stored_and_not_programmed_is_programmed_by_the_next() {
    for engine in [EngineKind::Mr4lms, EngineKind::CMr4lmsDynamic, EngineKind::SsspMc] {
        dies_between_storing_and_programming(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_store_what_it_chose_programs_nothing() {
    // Nobody gets the term back in the time of this test.
    let route_lease = Duration::from_secs(3_600);
    let (cluster, _traffic) =
        with_a_past_in(Layout { route_lease, ..layout(EngineKind::Mr4lms) }).await;
    let client = cluster.client.clone();
    let (tables, choices) = (client.tables().await, chosen(&client).await);
    // Somebody else has the term, and has not written to any switch, which would tell, too.
    let request = v1::AcquireRouteTermRequest {
        router: "another".to_owned(),
        take_over: true,
        ..Default::default()
    };
    client.tic().acquire_route_term(request).await.unwrap();
    client.join_fixed("late", 64 * 64, &["n1", "n6", "n11", "n12"]).await;
    eventually("the route service is at work no more", async || {
        let status = client.route_status().await?;
        if status.active { Err(format!("it is: {status:?}")) } else { Ok(()) }
    })
    .await;
    assert_eq!(client.tables().await, tables);
    assert_eq!(chosen(&client).await, choices);
}

/// A link dies while there is no route service. The next one does what the one before would have
/// done: it goes on from there, and does not plan anew.
async fn reroutes_only_what_was_hit(engine: EngineKind) {
    let (mut cluster, traffic) = with_a_past(engine).await;
    let (client, layout) = (cluster.client.clone(), cluster.layout.clone());
    let (groups, tables) = (client.groups().await, client.tables().await);
    let mut predecessor = planned(&layout, &groups);
    predecessor.restore(&recorded(&layout, &groups, chosen(&client).await)).unwrap();
    assert_eq!(entries(&*predecessor), table_entries(&layout, &tables), "{engine}");
    cluster.router.kill();
    let mut faults = Faults::new();
    for group in &groups[..2] {
        // Two links, of which at least one is in use.
        let endpoint = layout.graph.find_endpoint(&group.members[0].endpoint).unwrap();
        let leaf = layout.graph.switch_of(layout.graph.attachment(endpoint).unwrap());
        let up = |port: &PortId| matches!(layout.graph.peer(*port), Peer::Switch(_));
        let port = layout.graph.ports(leaf).find(up).unwrap();
        if faults.fail_link(&layout.graph, port) {
            client.fail(Kind::Link(name_of(&layout.graph, port))).await;
        }
    }
    cluster.router.restart().await;
    cluster.is_whole(&traffic, &faults).await;
    predecessor.set_faults(faults.clone());
    let now = table_entries(&layout, &client.tables().await);
    assert_ne!(now, table_entries(&layout, &tables), "{engine}: something was hit");
    assert_eq!(now, entries(&*predecessor), "{engine}");
    let mut anew = planned(&layout, &groups);
    anew.set_faults(faults);
    assert_ne!(now, entries(&*anew), "{engine}: the past matters");
}

fn name_of(graph: &Graph, port: PortId) -> v1::PortName {
    let switch_name = graph.switch_name(graph.switch_of(port)).to_owned();
    v1::PortName { switch_name, port: graph.port_number(port).into() }
}

/// Choices recorded by the TIC, in the form that engines take.
fn recorded(
    layout: &Layout,
    groups: &[v1::Group],
    list: v1::ListRouteChoicesResponse,
) -> Vec<RecordedChoice> {
    let mut choices = Vec::new();
    for choice in list.choices {
        let group = groups.iter().find(|group| group.gn == choice.gn).unwrap();
        for tree in choice.trees {
            let ports = tree.ports.iter().flat_map(|at| {
                let switch = layout.graph.find_switch(&at.switch_name).unwrap();
                let port = move |number: &u32| {
                    layout.graph.port(switch, u8::try_from(*number).unwrap()).unwrap()
                };
                at.ports.iter().map(port)
            });
            choices.push(RecordedChoice {
                mgid: Mgid(group.mgid),
                tree: u8::try_from(tree.tree).unwrap(),
                part: tree.part,
                root: tree.root,
                ports: ports.collect(),
            });
        }
    }
    choices.sort_by_key(|choice| (choice.mgid, choice.tree));
    choices
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_without_a_route_service_reroutes_only_what_was_hit() {
    for engine in [EngineKind::Mr4lms, EngineKind::CMr4lmsDynamic, EngineKind::SsspMc] {
        reroutes_only_what_was_hit(engine).await;
    }
}

#[tokio::test]
async fn an_engine_that_computes_everything_stores_nothing_and_drops_what_others_left() {
    let cluster = Cluster::start(layout(EngineKind::CMr4lmsFixed)).await;
    let client = cluster.client.clone();
    client.join_all("g", &["n0", "n5", "n9"]).await;
    client.settled().await;
    assert_eq!(chosen(&client).await, v1::ListRouteChoicesResponse::default());

    let (cluster, _traffic) = with_a_past(EngineKind::MinHopMc).await;
    let client = cluster.client.clone();
    assert!(!chosen(&client).await.choices.is_empty());
    let fixed = cluster.with_engine(EngineKind::CMr4lmsFixed).await;
    fixed.client.settled().await;
    let left = chosen(&fixed.client).await;
    assert_eq!(left.scheme.unwrap().engine, "c-mr4lms-fixed");
    assert_eq!(left.choices, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn roots_of_one_top_midplane_are_dropped_where_the_default_is_its_group() {
    let narrow = Layout { root_scope: Some(RootScope::Tn), ..layout(EngineKind::CMr4lmsDynamic) };
    let (mut cluster, traffic) = with_a_past_in(narrow).await;
    let before = chosen(&cluster.client).await;
    assert_eq!(before.scheme.unwrap().root_scope, "tn");
    cluster.layout.root_scope = None;
    cluster = cluster.with_engine(EngineKind::CMr4lmsDynamic).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let client = cluster.client.clone();
    let after = chosen(&client).await;
    assert_eq!(after.scheme.unwrap().root_scope, "tn-group");
    let groups = client.groups().await;
    assert!(!after.choices.is_empty());
    assert!(after.choices.iter().all(|one| groups.iter().any(|group| group.gn == one.gn)));
    let anew = planned(&cluster.layout, &groups);
    assert_eq!(table_entries(&cluster.layout, &client.tables().await), entries(&*anew));
}
