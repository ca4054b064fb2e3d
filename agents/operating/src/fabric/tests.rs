//! The stream to the fabric, against a fabric that refuses at first.

use fabricast_proto::v1::fabric_service_server::{FabricService, FabricServiceServer};
use fabricast_rpc::{BoundServer, Services, reason_of};
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Streaming};

use super::*;
use crate::host::tests::host_and_messages;

fn answer(attached: &[&str], refusals: &[&str]) -> v1::AttachEndpointsResponse {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    v1::AttachEndpointsResponse {
        attached: owned(attached),
        refusals: owned(refusals),
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_another_connection_holds_is_attached_again_until_it_works() {
    let mut plugs = Plugs::default();
    let live = || vec!["h0".to_owned(), "h1".to_owned()];
    let refusal = "ENDPOINT_ATTACHED: endpoint 'h1' is attached by another process";
    plugs.answered(&answer(&["h0"], &[refusal]));
    for _ in 0..10 {
        plugs.due().await;
        assert_eq!(plugs.again(live()), ["h1"]);
        assert_eq!(plugs.again_at, None, "one attempt at a time");
        plugs.answered(&answer(&[], &[refusal]));
    }
    assert!(plugs.again_at.is_some_and(|at| at <= Instant::now() + ATTACH_AGAIN.most));
    plugs.due().await;
    plugs.answered(&answer(&["h1"], &[]));
    assert!(plugs.again(live()).is_empty());
    plugs.answered(&answer(&[], &["UNKNOWN_ENDPOINT: no endpoint 'h7' in the fabric"]));
    assert_eq!(plugs.again_at, None, "that will not get better");
}

#[tokio::test]
async fn packets_are_refused_without_a_stream_and_when_too_many_wait() {
    let (host, _, mut messages) = host_and_messages();
    let why = |sent: Result<(), Status>| reason_of(&sent.unwrap_err()).unwrap_or_default();
    let packets = || vec![v1::EndpointPacket::default()];
    assert_eq!(why(host.send_packets(packets())), "FABRIC_UNAVAILABLE");
    assert!(messages.try_recv().is_err(), "nothing was sent");
    host.0.attached.store(true, Ordering::Relaxed);
    host.send_packets(packets()).unwrap();
    assert_eq!(why(host.send_packets(packets())), "LIMIT_REACHED");
    assert_eq!(messages.try_recv().unwrap().packets, packets());
    drop(messages);
    assert_eq!(why(host.send_packets(packets())), "FABRIC_UNAVAILABLE");
}

/// A fabric that holds every endpoint for somebody else until it was asked this often.
struct Reluctant {
    refusals: usize,
    heard: mpsc::Sender<v1::AttachEndpointsRequest>,
}

type Answer<T> = Result<Response<T>, Status>;

fn nothing<T>() -> Answer<T> {
    Err(Status::unimplemented("only streams"))
}

#[tonic::async_trait]
impl FabricService for Reluctant {
    type AttachEndpointsStream = BoxStream<v1::AttachEndpointsResponse>;
    type WatchFailedElementsStream = BoxStream<v1::WatchFailedElementsResponse>;
    type ReadSwitchTablesStream = BoxStream<v1::ReadSwitchTablesResponse>;
    type ReadSwitchCountersStream = BoxStream<v1::ReadSwitchCountersResponse>;

    async fn attach_endpoints(
        &self,
        request: Request<Streaming<v1::AttachEndpointsRequest>>,
    ) -> Answer<Self::AttachEndpointsStream> {
        let (heard, mut refusals) = (self.heard.clone(), self.refusals);
        let answers = request.into_inner().then(move |request| {
            let request = request.unwrap();
            let names: Vec<&str> = request.attach.iter().map(String::as_str).collect();
            let mut said = answer(&names, &[]);
            if refusals > 0 {
                refusals -= 1;
                said = answer(&[], &["ENDPOINT_ATTACHED: by another process"]);
            }
            let heard = heard.clone();
            async move {
                heard.send(request).await.unwrap();
                Ok(said)
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn inject_packet(
        &self,
        _: Request<v1::InjectPacketRequest>,
    ) -> Answer<v1::InjectPacketResponse> {
        nothing()
    }

    async fn fail_element(
        &self,
        _: Request<v1::FailElementRequest>,
    ) -> Answer<v1::FailElementResponse> {
        nothing()
    }

    async fn heal_element(
        &self,
        _: Request<v1::HealElementRequest>,
    ) -> Answer<v1::HealElementResponse> {
        nothing()
    }

    async fn watch_failed_elements(
        &self,
        _: Request<v1::WatchFailedElementsRequest>,
    ) -> Answer<Self::WatchFailedElementsStream> {
        nothing()
    }

    async fn list_fabric_switches(
        &self,
        _: Request<v1::ListFabricSwitchesRequest>,
    ) -> Answer<v1::ListFabricSwitchesResponse> {
        nothing()
    }

    async fn read_switch_tables(
        &self,
        _: Request<v1::ReadSwitchTablesRequest>,
    ) -> Answer<Self::ReadSwitchTablesStream> {
        nothing()
    }

    async fn write_switch_tables(
        &self,
        _: Request<v1::WriteSwitchTablesRequest>,
    ) -> Answer<v1::WriteSwitchTablesResponse> {
        nothing()
    }

    async fn read_switch_counters(
        &self,
        _: Request<v1::ReadSwitchCountersRequest>,
    ) -> Answer<Self::ReadSwitchCountersStream> {
        nothing()
    }

    async fn disturb_switch(
        &self,
        _: Request<v1::DisturbSwitchRequest>,
    ) -> Answer<v1::DisturbSwitchResponse> {
        nothing()
    }

    async fn list_switch_ports(
        &self,
        _: Request<v1::ListSwitchPortsRequest>,
    ) -> Answer<v1::ListSwitchPortsResponse> {
        nothing()
    }
}

#[tokio::test]
async fn the_stream_asks_again_for_what_was_refused_and_carries_packets() {
    let (heard, mut requests) = mpsc::channel(16);
    let server = BoundServer::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let fabric = Peer::new(&server.address().to_string()).unwrap();
    let services =
        Services::new("fabric").with(FabricServiceServer::new(Reluctant { refusals: 2, heard }));
    let stop = CancellationToken::new();
    let (host, _, messages) = host_and_messages();
    let test = async {
        for attempt in 0..3 {
            let asked = requests.recv().await.unwrap().attach;
            assert_eq!(asked, ["h0"], "attempt {attempt}");
        }
        host.send_packets(vec![v1::EndpointPacket::default()]).unwrap();
        let carried = requests.recv().await.unwrap();
        assert_eq!((carried.attach.len(), carried.packets.len()), (0, 1), "it has what it wants");
    };
    tokio::select! {
        () = test => {}
        _ = server.serve(services, stop) => panic!("the server goes on"),
        () = host.clone().attach_forever(fabric, messages) => panic!("the agent goes on"),
    }
}
