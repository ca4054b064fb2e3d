//! The emulated fabric over real gRPC.

mod attach;
mod collectives;
mod faults;
mod tables;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::{FabricConfig, RawFabricConfig, checked};
use fabricast_fabric::{App, Dropped, RunError, StartError};
use fabricast_proto::v1;
use fabricast_proto::v1::fabric_aggregation_service_client::FabricAggregationServiceClient;
use fabricast_proto::v1::fabric_service_client::FabricServiceClient;
use fabricast_rpc::{Channel, Peer, Security, reason_of};
use fabricast_topology::{
    AdapterFacts, EndpointFacts, Graph, GraphBuilder, SwitchFacts, SwitchId, TableKind,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const KEY: &str = "sesame";

/// A fabric under test:
///
/// ```text
///  h0 h1 ── 1,2 [S-0 "left"] 3 ── 1 [S-2 "top"] 2 ── 3 [S-1 "right"] 1,2 ── h2 h3
/// ```
struct Fabric {
    client: FabricServiceClient<Channel>,
    engines: FabricAggregationServiceClient<Channel>,
    dropped: Dropped,
    stop: CancellationToken,
    running: JoinHandle<Result<(), RunError>>,
}

impl Fabric {
    fn start() -> Self {
        Self::start_with(TableKind::PerPort)
    }

    fn start_with(tables: TableKind) -> Self {
        Self::serving(bind(&config(LOOPBACK, tables)).expect("a free port"))
    }

    fn serving(app: App) -> Self {
        let peer = Peer::new(&app.address().to_string()).expect("an address");
        let client = FabricServiceClient::new(peer.channel());
        let engines = FabricAggregationServiceClient::new(peer.channel());
        let (dropped, stop) = (app.dropped(), CancellationToken::new());
        let running = tokio::spawn(app.run(stop.clone()));
        Self { client, engines, dropped, stop, running }
    }

    /// Starts with a tree of color 1 over all endpoints and one of color 2 over h0 and h1.
    async fn programmed() -> Self {
        let fabric = Self::start();
        fabric.program(TableKind::PerPort).await;
        fabric
    }

    async fn program(&self, kind: TableKind) {
        let all = |name: &str| v1::SwitchWrite {
            switch_name: name.into(),
            entries: tree(kind, 1, if name == "S-2" { &[1, 2] } else { &[1, 2, 3] }),
        };
        let mut writes = ["S-0", "S-1", "S-2"].map(all);
        writes[0].entries.extend(tree(kind, 2, &[1, 2]));
        let answer = self.write(1, 1, &writes).await.expect("a good write");
        assert_eq!(answer.refusals, []);
    }

    async fn write(
        &self,
        term: u64,
        generation: u64,
        writes: &[v1::SwitchWrite],
    ) -> Result<v1::WriteSwitchTablesResponse, Status> {
        let request = v1::WriteSwitchTablesRequest {
            management_key: KEY.into(),
            fence: Some(v1::Fence { term, generation }),
            writes: writes.to_vec(),
        };
        Ok(soon(self.client.clone().write_switch_tables(request)).await?.into_inner())
    }

    async fn inject(&self, from: &str, color: u32) -> Result<v1::InjectPacketResponse, Status> {
        let endpoint = from.into();
        let request = v1::InjectPacketRequest { endpoint, packet: Some(packet(color, "x")) };
        Ok(soon(self.client.clone().inject_packet(request)).await?.into_inner())
    }

    /// Opens a stream without any endpoint.
    async fn process(&self) -> Process {
        let (requests, outgoing) = mpsc::channel(16);
        let outgoing = ReceiverStream::new(outgoing);
        let answers = soon(self.client.clone().attach_endpoints(outgoing)).await;
        Process { requests, answers: answers.expect("a stream").into_inner() }
    }

    /// Opens a stream and attaches endpoints.
    async fn attached(&self, endpoints: &[&str]) -> Process {
        let mut process = self.process().await;
        process.send(attach(endpoints)).await;
        assert_eq!(process.answer().await.attached, endpoints);
        process
    }

    async fn stop(self) {
        self.stop.cancel();
        soon(self.running).await.expect("no panic").expect("a clean end");
    }
}

/// A process with an open stream.
struct Process {
    requests: mpsc::Sender<v1::AttachEndpointsRequest>,
    answers: Streaming<v1::AttachEndpointsResponse>,
}

impl Process {
    async fn send(&self, request: v1::AttachEndpointsRequest) {
        soon(self.requests.send(request)).await.expect("the stream is open");
    }

    async fn answer(&mut self) -> v1::AttachEndpointsResponse {
        soon(self.answers.message()).await.expect("no error").expect("the stream goes on")
    }

    /// Receives packets as (endpoint, payload), sorted.
    async fn receive(&mut self, count: usize) -> Vec<(String, String)> {
        let mut received = Vec::new();
        while received.len() < count {
            let answer = self.answer().await;
            assert_eq!(answer.refusals, Vec::<String>::new());
            received.extend(answer.packets.into_iter().map(|delivery| {
                let payload = delivery.packet.expect("every delivery has a packet").payload;
                (delivery.endpoint, String::from_utf8(payload).expect("text"))
            }));
        }
        received.sort();
        received
    }
}

fn attach(endpoints: &[&str]) -> v1::AttachEndpointsRequest {
    let attach = endpoints.iter().map(|name| (*name).to_owned()).collect();
    v1::AttachEndpointsRequest { attach, ..<_>::default() }
}

fn send(packets: &[(&str, v1::Packet)]) -> v1::AttachEndpointsRequest {
    let packets = packets.iter().map(|(endpoint, packet)| v1::EndpointPacket {
        endpoint: (*endpoint).to_owned(),
        packet: Some(packet.clone()),
    });
    v1::AttachEndpointsRequest { packets: packets.collect(), ..<_>::default() }
}

fn packet(color: u32, payload: &str) -> v1::Packet {
    v1::Packet { mgid: 7, color, payload: payload.as_bytes().to_vec(), ..Default::default() }
}

/// The entries of one switch in a tree through some of its ports.
fn tree(kind: TableKind, color: u32, ports: &[u32]) -> Vec<v1::TableEntry> {
    let whole = v1::TableEntry { in_port: 0, color, out_ports: ports.to_vec() };
    let but = |port: &u32| v1::TableEntry {
        in_port: *port,
        color,
        out_ports: ports.iter().copied().filter(|other| other != port).collect(),
    };
    match kind {
        TableKind::PerSwitch => vec![whole],
        TableKind::PerPort => ports.iter().map(but).collect(),
    }
}

fn graph() -> Graph {
    let mut builder = GraphBuilder::new();
    for (name, text) in [("S-0", "left"), ("S-1", "right"), ("S-2", "top")] {
        builder.add_switch(name, text, 4, SwitchFacts::default());
    }
    for host in 0..4u8 {
        let facts = AdapterFacts { ports: 1, ..AdapterFacts::default() };
        builder.add_adapter(&format!("H-{host}"), &format!("h{host}"), facts);
        let endpoint =
            builder.add_endpoint(EndpointFacts { number: 1, ..EndpointFacts::default() });
        let port = builder.port(SwitchId(u32::from(host / 2)), host % 2 + 1).expect("a port");
        builder.attach(endpoint, port).expect("free");
    }
    for leaf in 0..2u8 {
        let up = builder.port(SwitchId(u32::from(leaf)), 3).expect("a port");
        let down = builder.port(SwitchId(2), leaf + 1).expect("a port");
        builder.link(up, down).expect("free");
    }
    builder.build().expect("names differ")
}

fn config(listen: SocketAddr, tables: TableKind) -> FabricConfig {
    let raw = RawFabricConfig {
        listen,
        topology: Some("made here".into()),
        tables,
        colors: 4,
        management_key: Some(KEY.into()),
        ..RawFabricConfig::default()
    };
    checked(raw).expect("the settings are good")
}

fn bind(config: &FabricConfig) -> Result<App, StartError> {
    App::bind(config, Security::plaintext(), Arc::new(graph()))
}

/// Bounds every wait, so that a broken part fails a test instead of hanging it.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("answers in time")
}

/// Code and reason of a refusal.
fn why<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.expect_err("a refusal");
    (status.code(), reason_of(&status).unwrap_or_else(|| format!("no reason: {status}")))
}

fn refusal(code: Code, reason: &str) -> (Code, String) {
    (code, reason.to_owned())
}

#[tokio::test]
async fn an_address_in_use_is_refused() {
    let first = bind(&config(LOOPBACK, TableKind::PerPort)).unwrap();
    bind(&config(first.address(), TableKind::PerPort)).unwrap_err();
}

#[tokio::test]
async fn a_stopped_fabric_ends_its_streams_and_says_so() {
    let fabric = Fabric::start();
    let mut process = fabric.attached(&["h0"]).await;
    let watch = v1::WatchFailedElementsRequest { management_key: KEY.into() };
    let mut watch = fabric.client.clone().watch_failed_elements(watch).await.unwrap().into_inner();
    assert!(soon(watch.message()).await.unwrap().is_some());
    fabric.stop().await;
    let ended = soon(process.answers.message()).await;
    assert_eq!(why(ended), refusal(Code::Unavailable, "SHUTTING_DOWN"));
    assert!(!matches!(soon(watch.message()).await, Ok(Some(_))));
}
