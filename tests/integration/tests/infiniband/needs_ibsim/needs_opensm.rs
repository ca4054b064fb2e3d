//! A subnet manager beside us: OpenSM keeps LIDs and unicast, we keep the multicast tables.

use fabricast_config::RoutingName;
use fabricast_integration::{eventually, soon};
use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::Peer;
use fabricast_testing::OpenSm;
use tonic::Status;

use crate::{World, real_cluster};

/// The counters of one port, by the switch agent; none if its switch is left out.
async fn counters(world: &World, port: &v1::PortName) -> Result<Option<v1::PortCounters>, Status> {
    let peer = Peer::new(&world.agent.address().to_string()).unwrap();
    let mut client = SwitchAgentServiceClient::new(peer.channel());
    let request = v1::ReadCountersRequest { switch_names: vec![port.switch_name.clone()] };
    let mut stream = soon(client.read_counters(request)).await?.into_inner();
    let Some(message) = soon(stream.message()).await? else { return Ok(None) };
    let ports = message.counters.expect("a message has counters").ports;
    Ok(ports.into_iter().find(|one| one.port == port.port))
}

/// Waits until the subnet manager has brought the subnet up so often.
async fn up(opensm: &OpenSm, sweeps: usize) {
    eventually("the subnet is up", async || match opensm.sweeps() {
        count if count >= sweeps => Ok(()),
        count => Err(format!("{count} sweeps")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opensm_keeps_unicast_and_we_keep_the_multicast_tables() {
    let mut world = World::start(real_cluster(24)).await;
    world.form_groups().await;
    world.agrees().await;
    let v1::element::Kind::Link(port) = world.cluster.client.tree_link("every-1").await else {
        panic!("a tree of several switches has links");
    };
    // The simulated switches have LIDs from the start, but nothing leads to them.
    assert_eq!(counters(&world, &port).await.unwrap(), None);

    let opensm = world.judge.start_opensm(&world.cluster.layout.graph);
    up(&opensm, 1).await;
    world.agrees().await;
    let nodes = world.nodes();
    for node in nodes.iter().step_by(4) {
        world.cluster.client.leave("every-1", node).await.unwrap();
    }
    world.agrees().await;

    // Its whole sweep leaves our tables as they are.
    let before = world.cluster.client.tables().await;
    opensm.sweep();
    up(&opensm, 2).await;
    assert_eq!(world.cluster.client.tables().await, before);
    world.agrees().await;

    // Both go round a link that is cut.
    let v1::element::Kind::Link(cut) = world.cluster.client.tree_link("every-1").await else {
        panic!("a tree of several switches has links");
    };
    world.judge.ibsim.unlink(&cut.switch_name, u8::try_from(cut.port).unwrap());
    opensm.sweep();
    up(&opensm, 3).await;
    world.agrees().await;

    let number = u8::try_from(port.port).unwrap();
    world.judge.ibsim.set_counter(&port.switch_name, number, "PortXmitDiscards", 5);
    world.judge.ibsim.set_counter(&port.switch_name, number, "PortRcvSwitchRelayErrors", 2);
    eventually("the losses are counted", async || {
        let found = counters(&world, &port).await.map_err(|status| status.to_string())?;
        let dropped = found.as_ref().map(|found| found.dropped_packets);
        if dropped == Some(7) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    let received = async || counters(&world, &port).await.unwrap().unwrap().received_packets;
    let first = received().await;
    let theirs = world.judge.received_packets(&port.switch_name, port.port);
    let last = received().await;
    assert!(first <= theirs && theirs <= last, "{first}, {theirs}, {last}");
}

/// Until the subnet manager has made the LIDs lead anywhere everything goes along directed routes.
#[tokio::test(flavor = "multi_thread")]
async fn tables_are_read_and_written_by_lid_once_opensm_has_given_them() {
    let mut world = World::start_by(RoutingName::Lid, real_cluster(24), None).await;
    let by_lid = "fabricast_switch_agent_lid_answers_total";
    world.form_groups().await;
    world.agrees().await;
    assert_eq!(world.agent.metric(by_lid).await, 0);

    let opensm = world.judge.start_opensm(&world.cluster.layout.graph);
    up(&opensm, 1).await;
    let switches = u64::try_from(world.cluster.layout.graph.switch_count()).unwrap();
    // A table of 1 024 entries is 96 blocks; finding out who answers by LID is one packet a switch.
    eventually("tables are read by LID", async || {
        let before = world.agent.metric(by_lid).await;
        world.cluster.client.read_tables().await?;
        let read = world.agent.metric(by_lid).await - before;
        if read >= 90 * switches { Ok(()) } else { Err(format!("{read} answers by LID")) }
    })
    .await;
    for node in world.nodes().iter().step_by(4) {
        world.cluster.client.leave("every-1", node).await.unwrap();
    }
    world.agrees().await;

    // Unicast tables that lead into a cut link are no obstacle.
    let v1::element::Kind::Link(cut) = world.cluster.client.tree_link("every-1").await else {
        panic!("a tree of several switches has links");
    };
    world.judge.ibsim.unlink(&cut.switch_name, u8::try_from(cut.port).unwrap());
    world.agrees().await;
    opensm.sweep();
    up(&opensm, 2).await;
    world.agrees().await;
}
