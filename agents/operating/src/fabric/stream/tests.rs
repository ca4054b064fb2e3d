//! The stream to the fabric, against a fabric that refuses at first.

use fabricast_groups::names::EndpointName;
use fabricast_groups::record::Colors;
use fabricast_proto::v1::fabric_service_server::{FabricService, FabricServiceServer};
use fabricast_rpc::{BoundServer, Security, Services};
use fabricast_topology::Mgid;
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Streaming};

use super::*;
use crate::testing::{TestAgent, agent_with_fabric};

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
    let mut endpoints = AttachedEndpoints::default();
    let live = || vec!["h0".to_owned(), "h1".to_owned()];
    let refusal = "ENDPOINT_ATTACHED: endpoint 'h1' is attached by another process";
    endpoints.answered(&answer(&["h0"], &[refusal]));
    for _ in 0..10 {
        endpoints.retry_due().await;
        assert_eq!(endpoints.take_missing(live()), ["h1"]);
        assert_eq!(endpoints.retry_at, None, "one attempt at a time");
        endpoints.answered(&answer(&[], &[refusal]));
    }
    assert!(endpoints.retry_at.is_some_and(|at| at <= Instant::now() + ATTACH_AGAIN.most));
    endpoints.retry_due().await;
    endpoints.answered(&answer(&["h1"], &[]));
    assert!(endpoints.take_missing(live()).is_empty());
    endpoints.answered(&answer(&[], &["UNKNOWN_ENDPOINT: no endpoint 'h7' in the fabric"]));
    assert_eq!(endpoints.retry_at, None, "that will not get better");
}

/// A fabric that holds every endpoint for another connection at the first requests.
struct Reluctant {
    refusals: usize,
    heard: mpsc::Sender<v1::AttachEndpointsRequest>,
}

type Answer<T> = tonic::Result<Response<T>>;

fn nothing<T>() -> Answer<T> {
    Err(Reason::FabricUnavailable.status("only streams", &[]))
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
            let mut reply = answer(&names, &[]);
            if refusals > 0 {
                refusals -= 1;
                reply = answer(&[], &["ENDPOINT_ATTACHED: by another process"]);
            }
            let heard = heard.clone();
            async move {
                heard.send(request).await.unwrap();
                Ok(reply)
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
    let server = BoundServer::bind("127.0.0.1:0".parse().unwrap(), Security::plaintext()).unwrap();
    let fabric = server.address().to_string();
    let services =
        Services::new("fabric").with(FabricServiceServer::new(Reluctant { refusals: 2, heard }));
    let stop = CancellationToken::new();
    let TestAgent { agent, messages, .. } = agent_with_fabric(&fabric);
    let test = async {
        for attempt in 0..3 {
            let asked = requests.recv().await.unwrap().attach;
            assert_eq!(asked, ["h0"], "attempt {attempt}");
        }
        let endpoint = EndpointName::new("h0").unwrap();
        agent.packets.send(&endpoint, Mgid(1), Colors::from(0), b"payload").unwrap();
        let carried = requests.recv().await.unwrap();
        assert_eq!((carried.attach.len(), carried.packets.len()), (0, 1), "all are attached");
    };
    tokio::select! {
        () = test => {}
        _ = server.serve(services, stop) => panic!("the server goes on"),
        () = agent.fabric_stream().run(messages) => panic!("the agent goes on"),
    }
}
