//! The control plane with every engine: groups, failures, and a route service that starts anew.

use fabricast_integration::{Cluster, Layout, Traffic};
use fabricast_routing::EngineKind;
use fabricast_topology::{Faults, Graph, TableKind};

/// Groups that meet, on few colors.
async fn form_groups(cluster: &Cluster) {
    let nodes: Vec<String> =
        cluster.layout.hosts.iter().flatten().map(|node| node.name.clone()).collect();
    for stride in 1..5 {
        let members: Vec<&str> = nodes.iter().step_by(stride).map(|node| &**node).collect();
        cluster.client.join_all(&format!("every-{stride}"), &members).await;
    }
}

fn without(graph: &Graph, link: &fabricast_proto::v1::element::Kind) -> Faults {
    let fabricast_proto::v1::element::Kind::Link(name) = link else { panic!("a link") };
    let switch = graph.find_switch(&name.switch_name).unwrap();
    let mut faults = Faults::new();
    faults.fail_link(graph, graph.port(switch, u8::try_from(name.port).unwrap()).unwrap());
    faults
}

/// Groups come, a link dies and returns, members leave, the route service dies: after each,
/// every packet arrives where it should and nowhere else.
async fn works(layout: Layout) {
    let cluster = Cluster::start(layout).await;
    let traffic = Traffic::listen(&cluster.client).await;
    form_groups(&cluster).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let link = cluster.client.tree_link("every-1").await;
    cluster.client.fail(link.clone()).await;
    cluster.is_whole(&traffic, &without(&cluster.layout.graph, &link)).await;
    cluster.client.heal(link).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    for node in ["n0", "n4", "n8"] {
        cluster.client.leave("every-1", node).await.unwrap();
    }
    cluster.client.leave("every-4", "n0").await.unwrap();
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_engine_serves_a_fat_tree() {
    for engine in EngineKind::ALL {
        works(Layout::three_levels().with_colors(4).with_engine(*engine)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torus_is_served_by_engines_that_need_no_fat_tree() {
    let torus = "kind = 'torus'\nx = 2\ny = 3\nz = 3\nendpoints_per_switch = 1\n";
    for engine in EngineKind::ALL.iter().filter(|engine| !engine.needs_fat_tree()) {
        for tables in [TableKind::PerPort, TableKind::PerSwitch] {
            let layout = Layout::of(torus).with_engine(*engine).with_tables(tables);
            works(layout.with_colors(4)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_that_fits_is_chosen_where_none_is_named() {
    let torus = "kind = 'torus'\nx = 2\ny = 3\nz = 3\nendpoints_per_switch = 1\n";
    for (layout, engine) in
        [(Layout::of(torus), EngineKind::Mr4lms), (Layout::leaf_spine(), EngineKind::CMr4lmsFixed)]
    {
        let layout = layout.with_tables(TableKind::PerSwitch).with_colors(4);
        let cluster = Cluster::start(Layout { engine, engine_is_named: false, ..layout }).await;
        let traffic = Traffic::listen(&cluster.client).await;
        form_groups(&cluster).await;
        cluster.is_whole(&traffic, &Faults::new()).await;
        assert_eq!(cluster.client.route_status().await.unwrap().engine, engine.name());
    }
}
