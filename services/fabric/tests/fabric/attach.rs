//! Attached processes and their packets.

use std::sync::Arc;

use fabricast_fabric::App;
use fabricast_proto::v1;
use fabricast_rpc::Security;
use fabricast_topology::TableKind;
use tonic::Code;

use crate::{Fabric, LOOPBACK, attach, config, graph, packet, refusal, send, soon, why};

fn at(deliveries: &[(&str, &str)]) -> Vec<(String, String)> {
    deliveries.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn packets_reach_every_other_endpoint_of_their_tree_once() {
    for kind in [TableKind::PerPort, TableKind::PerSwitch] {
        let fabric = Fabric::start_with(kind);
        fabric.program(kind).await;
        let mut near = fabric.attached(&["h0", "h1"]).await;
        let mut far = fabric.attached(&["h2", "h3"]).await;
        near.send(send(&[("h0", packet(1, "all")), ("h1", packet(2, "left"))])).await;
        assert_eq!(near.receive(2).await, at(&[("h0", "left"), ("h1", "all")]));
        assert_eq!(far.receive(2).await, at(&[("h2", "all"), ("h3", "all")]));
        far.send(send(&[("h3", packet(1, "back"))])).await;
        assert_eq!(near.receive(2).await, at(&[("h0", "back"), ("h1", "back")]));
        assert_eq!(far.receive(1).await, at(&[("h2", "back")]));
        fabric.stop().await;
    }
}

#[tokio::test]
async fn packets_of_one_sender_arrive_in_order() {
    let fabric = Fabric::programmed().await;
    let mut process = fabric.attached(&["h0", "h1"]).await;
    let texts: Vec<_> = (0..200).map(|number| format!("{number:03}")).collect();
    let packets: Vec<_> = texts.iter().map(|text| ("h0", packet(2, text))).collect();
    process.send(send(&packets)).await;
    let mut arrived = Vec::new();
    while arrived.len() < texts.len() {
        let deliveries = process.answer().await.packets;
        arrived.extend(deliveries.into_iter().map(|delivery| delivery.packet.unwrap().payload));
    }
    assert!(arrived.iter().eq(texts.iter().map(|text| text.as_bytes())));
    fabric.stop().await;
}

#[tokio::test]
async fn an_endpoint_has_one_process_at_a_time() {
    let fabric = Fabric::programmed().await;
    let mut first = fabric.attached(&["h0", "h1"]).await;
    let mut second = fabric.process().await;
    second.send(attach(&["h1", "h2"])).await;
    let answer = second.answer().await;
    assert_eq!(answer.attached, ["h2"]);
    let taken = "ENDPOINT_ATTACHED: endpoint 'h1' is attached by another process";
    assert_eq!(answer.refusals, [taken]);
    // Attaching again is no change.
    first.send(attach(&["h0"])).await;
    assert_eq!(first.answer().await.attached, ["h0"]);
    let detach = v1::AttachEndpointsRequest { detach: vec!["h1".into()], ..<_>::default() };
    first.send(detach.clone()).await;
    first.send(detach).await;
    let twice = "UNKNOWN_ENDPOINT: endpoint 'h1' is not attached by this process";
    assert_eq!(first.answer().await.refusals, [twice]);
    second.send(attach(&["h1"])).await;
    assert_eq!(second.answer().await.attached, ["h1"]);
    fabric.stop().await;
}

#[tokio::test]
async fn endpoints_are_free_again_when_their_stream_ends() {
    let fabric = Fabric::programmed().await;
    let mut closing = fabric.attached(&["h0"]).await;
    drop(closing.requests);
    assert_eq!(soon(closing.answers.message()).await.unwrap(), None, "both sides end");
    let torn = fabric.attached(&["h0", "h1"]).await;
    let mut heir = fabric.process().await;
    drop(torn);
    // The end of a torn stream is noticed in its own time; until then the heir is refused.
    let mut attached = Vec::new();
    while attached.is_empty() {
        heir.send(attach(&["h0"])).await;
        attached = heir.answer().await.attached;
    }
    assert_eq!(attached, ["h0"]);
    fabric.stop().await;
}

#[tokio::test]
async fn a_half_closed_stream_still_gives_what_had_arrived() {
    let fabric = Fabric::programmed().await;
    let mut process = fabric.process().await;
    let mut request = send(&[("h0", packet(2, "last words"))]);
    request.attach = vec!["h0".into(), "h1".into()];
    process.send(request).await;
    drop(std::mem::replace(&mut process.requests, tokio::sync::mpsc::channel(1).0));
    let (mut attached, mut arrived) = (0, 0);
    while let Some(answer) = soon(process.answers.message()).await.unwrap() {
        attached += answer.attached.len();
        arrived += answer.packets.len();
    }
    assert_eq!((attached, arrived), (2, 1));
    fabric.stop().await;
}

#[tokio::test]
async fn what_is_wrong_is_refused_and_the_rest_is_done() {
    let fabric = Fabric::programmed().await;
    let mut process = fabric.process().await;
    let mut request = send(&[
        ("h9", packet(2, "from nowhere")),
        ("h2", packet(2, "from somebody else's")),
        ("h0", packet(4, "color too high")),
        ("h0", packet(70_000, "color far too high")),
        ("h0", packet(2, &"x".repeat(4097))),
        ("h0", packet(2, "good")),
    ]);
    request.attach = ["h0", "h1", "h8"].map(str::to_owned).to_vec();
    request.packets.push(v1::EndpointPacket { endpoint: "h0".into(), packet: None });
    process.send(request).await;
    let (mut answer, mut arrived) = (None, Vec::new());
    while answer.is_none() || arrived.is_empty() {
        let mut message = process.answer().await;
        arrived.append(&mut message.packets);
        if !message.refusals.is_empty() {
            answer = Some(message);
        }
    }
    assert_eq!(arrived[0].packet, Some(packet(2, "good")));
    let answer = answer.unwrap();
    assert_eq!(answer.attached, ["h0", "h1"]);
    let expected = [
        "UNKNOWN_ENDPOINT: no endpoint 'h8' in the fabric",
        "UNKNOWN_ENDPOINT: no endpoint 'h9' in the fabric",
        "UNKNOWN_ENDPOINT: endpoint 'h2' is not attached by this process",
        "COLOR_OUT_OF_RANGE: packet.color 4 is not below 4",
        "COLOR_OUT_OF_RANGE: packet.color 70000 is not below 4",
        "PAYLOAD_TOO_LONG: packet.payload has 4097 bytes, more than 4096",
        "FIELD_MISSING: packet is missing",
    ];
    assert_eq!(answer.refusals, expected);
    fabric.stop().await;
}

#[tokio::test]
async fn an_injected_packet_needs_no_process_and_says_where_it_went() {
    let fabric = Fabric::programmed().await;
    let mut process = fabric.attached(&["h2"]).await;
    let answer = fabric.inject("h0", 1).await.unwrap();
    let mut delivered = answer.delivered.clone();
    delivered.sort();
    assert_eq!(delivered, ["h1", "h2", "h3"]);
    // h0 in, h1 out, up, down, h2 out, h3 out.
    assert_eq!((answer.hops, answer.dropped_no_entry, answer.looped), (6, 0, false));
    assert_eq!(process.receive(1).await, at(&[("h2", "x")]));
    let strange = fabric.inject("h0", 3).await.unwrap();
    assert_eq!((strange.dropped_no_entry, strange.delivered.len()), (1, 0));
    fabric.stop().await;
}

#[tokio::test]
async fn a_loop_in_the_tables_is_reported() {
    let fabric = Fabric::start();
    let entry = |in_port, out_port| v1::TableEntry { in_port, color: 0, out_ports: vec![out_port] };
    let part = |switch: &str, entries| v1::SwitchWrite { switch_name: switch.into(), entries };
    // Between left and top, back and forth for ever.
    let writes = [part("S-0", vec![entry(1, 3), entry(3, 3)]), part("S-2", vec![entry(1, 1)])];
    fabric.write(1, 1, &writes).await.unwrap();
    assert!(fabric.inject("h0", 0).await.unwrap().looped);
    fabric.stop().await;
}

#[tokio::test]
async fn a_bad_injection_is_refused() {
    let fabric = Fabric::programmed().await;
    let inject = async |endpoint: &str, packet| {
        let request = v1::InjectPacketRequest { endpoint: endpoint.into(), packet };
        why(soon(fabric.client.clone().inject_packet(request)).await)
    };
    let bad = |reason| refusal(Code::InvalidArgument, reason);
    assert_eq!(inject("h9", Some(packet(1, ""))).await, bad("UNKNOWN_ENDPOINT"));
    assert_eq!(inject("h0", None).await, bad("FIELD_MISSING"));
    assert_eq!(inject("h0", Some(packet(4, ""))).await, bad("COLOR_OUT_OF_RANGE"));
    let long = packet(1, &"x".repeat(4097));
    assert_eq!(inject("h0", Some(long)).await, bad("PAYLOAD_TOO_LONG"));
    fabric.stop().await;
}

/// FAB-1, with more bytes than any buffer between the fabric and the receiver holds.
#[tokio::test]
async fn a_slow_receiver_loses_packets_and_holds_up_nobody() {
    const PACKETS: u64 = 2000;
    let config = config(LOOPBACK, TableKind::PerPort);
    let app = App::bind_with_queue(&config, Security::plaintext(), Arc::new(graph()), 8);
    let fabric = Fabric::serving(app.unwrap());
    fabric.program(TableKind::PerPort).await;
    let mut slow = fabric.attached(&["h1"]).await;
    let request = v1::InjectPacketRequest {
        endpoint: "h0".into(),
        packet: Some(packet(2, &"x".repeat(4096))),
    };
    for _ in 0..PACKETS {
        soon(fabric.client.clone().inject_packet(request.clone())).await.unwrap();
    }
    let dropped = fabric.dropped.count();
    assert!((1..PACKETS).contains(&dropped), "{dropped}");
    // It gets the rest, and what is sent from now on.
    let rest = usize::try_from(PACKETS - dropped).unwrap();
    assert_eq!(slow.receive(rest).await.len(), rest);
    fabric.inject("h0", 2).await.unwrap();
    assert_eq!(slow.receive(1).await, at(&[("h1", "x")]));
    fabric.stop().await;
}
