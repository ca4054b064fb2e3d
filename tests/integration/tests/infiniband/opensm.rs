//! A subnet manager beside us: OpenSM keeps LIDs and unicast, we keep the multicast tables.

use fabricast_integration::{eventually, soon};
use fabricast_proto::v1;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::Peer;
use tonic::Status;

use super::{World, real_cluster};

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

#[tokio::test(flavor = "multi_thread")]
async fn opensm_keeps_unicast_and_we_keep_the_multicast_tables() {
    let Some(mut world) = World::start(real_cluster(24)).await else { return };
    world.form_groups().await;
    world.agrees().await;
    let v1::element::Kind::Link(port) = world.cluster.client.tree_link("every-1").await else {
        panic!("a tree of several switches has links");
    };
    // The simulated switches have LIDs from the start, but nothing leads to them.
    assert_eq!(counters(&world, &port).await.unwrap(), None);

    let opensm = world.judge.start_opensm(&world.cluster.layout.graph);
    let up = |sweeps: usize| {
        let opensm = &opensm;
        async move {
            eventually("the subnet is up", async || match opensm.sweeps() {
                count if count >= sweeps => Ok(()),
                count => Err(format!("{count} sweeps")),
            })
            .await;
        }
    };
    up(1).await;
    world.agrees().await;
    let nodes = world.nodes();
    for node in nodes.iter().step_by(4) {
        world.cluster.client.leave("every-1", node).await.unwrap();
    }
    world.agrees().await;

    // Its whole sweep leaves our tables as they are.
    let before = world.cluster.client.tables().await;
    opensm.sweep();
    up(2).await;
    assert_eq!(world.cluster.client.tables().await, before);
    world.agrees().await;

    // Both go round a link that is cut.
    let v1::element::Kind::Link(cut) = world.cluster.client.tree_link("every-1").await else {
        panic!("a tree of several switches has links");
    };
    world.judge.ibsim.unlink(&cut.switch_name, u8::try_from(cut.port).unwrap());
    opensm.sweep();
    up(3).await;
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
