//! The TIC has its topology from what the switch agent finds, and follows what is plugged in later.

use fabricast_config::RoutingName;
use fabricast_integration::{Layout, eventually};
use fabricast_topology::{Graph, Peer, TableKind};

use crate::World;

/// The first cable between two switches, by its lower port.
fn between_switches(graph: &Graph) -> (String, u8) {
    let mut ports = graph.switches().flat_map(|switch| graph.ports(switch));
    let port = ports.find(|port| matches!(graph.peer(*port), Peer::Switch(_))).unwrap();
    (graph.switch_name(graph.switch_of(port)).to_owned(), graph.port_number(port))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_found_is_the_topology_and_grows_when_more_is_plugged_in() {
    let layout = Layout { discovered: true, ..Layout::three_levels() };
    let layout = layout.with_tables(TableKind::PerSwitch);
    let whole = layout.graph.cables();
    let (switch, port) = between_switches(&layout.graph);
    let mut world = World::start_by(RoutingName::Directed, layout, Some((&switch, port))).await;
    let found = world.cluster.client.topology().await.unwrap().cables();
    assert_eq!(found.len() + 1, whole.len());
    assert!(found.is_subset(&whole));
    world.form_groups().await;
    world.agrees().await;
    let client = world.cluster.client.clone();
    assert_ne!(client.route_status().await.unwrap().irregularities, Vec::<String>::new());

    world.judge.ibsim.relink(&switch, port);
    eventually("the TIC knows the new cable", async || {
        let now = client.topology().await?.cables();
        if now == whole { Ok(()) } else { Err(format!("{} of {} cables", now.len(), whole.len())) }
    })
    .await;
    eventually("the route service knows it, too", async || {
        let irregularities = client.route_status().await?.irregularities;
        if irregularities.is_empty() { Ok(()) } else { Err(irregularities.join(", ")) }
    })
    .await;
    world.agrees().await;

    // A cable that is lost again has failed: it stays in the topology, and trees go round it.
    world.judge.ibsim.unlink(&switch, port);
    eventually("the cable counts as failed", async || {
        let failed = client.failed_elements().await?;
        if failed.len() == 1 { Ok(()) } else { Err(format!("{failed:?}")) }
    })
    .await;
    assert_eq!(client.topology().await.unwrap().cables(), whole);
    world.agrees().await;

    // An agent that starts while something is missing knows from the TIC that it is.
    world.agent.kill().await;
    world.agent.restart().await;
    world.agrees().await;
    assert_eq!(client.topology().await.unwrap().cables(), whole);
    assert_eq!(client.failed_elements().await.unwrap().len(), 1);
}
