//! A running TIC on a small fabric, and requests with the usual values.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::{RawTicConfig, TicConfig, checked};
use fabricast_groups::flaps::FlapDamping;
use fabricast_proto::v1;
use fabricast_store::Store;
use fabricast_tic::{App, RunError, Setup, StoreLocation, TopologySource};
use fabricast_topology::{AdapterFacts, EndpointFacts, Graph, GraphBuilder, PortId, SwitchFacts};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use v1::collective_service_client::CollectiveServiceClient;
use v1::job_service_client::JobServiceClient;
use v1::tic_service_client::TicServiceClient;

pub(crate) type Client = TicServiceClient<Channel>;

/// Two leaves `S-0` and `S-1` with four hosts each at ports 1 to 4, and the spine `S-2` at port 5.
pub(crate) fn graph() -> Graph {
    let mut builder = GraphBuilder::new();
    let [left, right, spine] =
        ["S-0", "S-1", "S-2"].map(|name| builder.add_switch(name, "", 5, SwitchFacts::default()));
    for host in 0..8u8 {
        let facts = AdapterFacts { ports: 1, ..AdapterFacts::default() };
        builder.add_adapter(&format!("H-{host}"), &format!("h{host}"), facts);
        let port_guid = 0xb100_0000 + u64::from(host);
        let facts = EndpointFacts { number: 1, port_guid, ..EndpointFacts::default() };
        let endpoint = builder.add_endpoint(facts);
        let leaf = if host < 4 { left } else { right };
        let port = builder.port(leaf, host % 4 + 1).unwrap();
        builder.attach(endpoint, port).unwrap();
    }
    for (leaf, number) in [(left, 1), (right, 2)] {
        let ends: [PortId; 2] =
            [builder.port(leaf, 5).unwrap(), builder.port(spine, number).unwrap()];
        builder.link(ends[0], ends[1]).unwrap();
    }
    builder.build().unwrap()
}

/// The topology as it is downloaded.
pub(crate) const TOPOLOGY: &str = "switches\n";

pub(crate) fn setup(store: StoreLocation) -> Setup {
    let config: TicConfig = checked(RawTicConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        store: Some("memory".into()),
        topology: Some("made here".into()),
        // The nodes of most tests do not exist, so no reports are expected of them.
        report_timeout: Duration::from_secs(3_600),
        ..RawTicConfig::default()
    })
    .unwrap();
    let config = TicConfig { store, damping: FlapDamping::default(), ..config };
    Setup::new(config, TopologySource::File(TOPOLOGY.into(), Arc::new(graph())))
}

/// A running TIC; dropped, it stops.
pub(crate) struct Tic {
    pub(crate) client: Client,
    pub(crate) address: String,
    stop: CancellationToken,
    task: Option<JoinHandle<Result<(), RunError>>>,
}

impl Tic {
    pub(crate) async fn start(setup: Setup) -> Self {
        Self::run(App::bind(setup).await.unwrap())
    }

    pub(crate) async fn on_memory() -> Self {
        Self::start(setup(StoreLocation::Memory)).await
    }

    pub(crate) async fn on_file(path: &Path) -> Self {
        Self::start(setup(StoreLocation::File(path.to_owned()))).await
    }

    pub(crate) async fn on_store(store: Arc<dyn Store>) -> Self {
        Self::run(App::bind_with_store(setup(StoreLocation::Memory), store).await.unwrap())
    }

    pub(crate) fn run(app: App) -> Self {
        let address = app.address().to_string();
        let stop = CancellationToken::new();
        let task = Some(tokio::spawn(app.run(stop.clone())));
        Self { client: client(&address), address, stop, task }
    }

    /// Stops it in order.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        self.task.take().unwrap().await.unwrap().unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(mut self) -> RunError {
        self.task.take().unwrap().await.unwrap().unwrap_err()
    }

    /// Ends it as a crash would: nothing is finished or answered.
    pub(crate) async fn kill(mut self) {
        let task = self.task.take().unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }

    pub(crate) async fn revision(&self) -> u64 {
        let request = v1::ListGroupsRequest::default();
        self.client.clone().list_groups(request).await.unwrap().into_inner().revision
    }

    /// Registers node `n<number>` with endpoint `h<number>` and returns its incarnation.
    pub(crate) async fn register(&self, number: u32) -> u64 {
        self.register_at(number, "127.0.0.1:1").await
    }

    pub(crate) async fn register_at(&self, number: u32, address: &str) -> u64 {
        let request = registration(number, address, 1);
        let answer = self.client.clone().register_node(request).await.unwrap().into_inner();
        answer.node.unwrap().incarnation
    }

    pub(crate) async fn join(&self, group: &str, number: u32, process: &str) -> v1::Member {
        let answer = self.client.clone().join_group(join(group, number, process)).await;
        answer.unwrap().into_inner().member.unwrap()
    }

    pub(crate) async fn group(&self, name: &str) -> Result<v1::Group, Status> {
        let request = v1::GetGroupRequest { group: name.to_owned(), gn: 0, ..Default::default() };
        let answer = self.client.clone().get_group(request).await?;
        Ok(answer.into_inner().group.unwrap())
    }

    pub(crate) async fn groups(&self) -> Vec<v1::Group> {
        let request = v1::ListGroupsRequest { with_members: true, ..Default::default() };
        self.client.clone().list_groups(request).await.unwrap().into_inner().groups
    }

    /// The nodes as recorded: without their last contact, which is this TIC's own.
    pub(crate) async fn nodes(&self) -> Vec<v1::Node> {
        let request = v1::ListNodesRequest::default();
        let nodes = self.client.clone().list_nodes(request).await.unwrap().into_inner().nodes;
        nodes.into_iter().map(|node| v1::Node { last_contact_time: None, ..node }).collect()
    }

    pub(crate) fn jobs(&self) -> JobServiceClient<Channel> {
        JobServiceClient::new(self.channel())
    }

    pub(crate) fn collectives(&self) -> CollectiveServiceClient<Channel> {
        CollectiveServiceClient::new(self.channel())
    }

    fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect_lazy()
    }

    pub(crate) async fn watch(&self) -> Streaming<v1::WatchDirectoryResponse> {
        let request = v1::WatchDirectoryRequest {};
        self.client.clone().watch_directory(request).await.unwrap().into_inner()
    }
}

impl Drop for Tic {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) fn client(address: &str) -> Client {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    TicServiceClient::new(endpoint.connect_lazy())
}

pub(crate) fn registration(number: u32, address: &str, start_id: u64) -> v1::RegisterNodeRequest {
    let node = v1::Node {
        name: format!("n{number}"),
        address: address.to_owned(),
        endpoints: vec![format!("h{number}")],
        ..Default::default()
    };
    v1::RegisterNodeRequest { node: Some(node), start_id, ..Default::default() }
}

/// A join of a process on `n<number>`, in its first incarnation.
pub(crate) fn join(group: &str, number: u32, process: &str) -> v1::JoinGroupRequest {
    v1::JoinGroupRequest {
        request_id: format!("join {group} n{number} {process}"),
        group: group.to_owned(),
        node: format!("n{number}"),
        incarnation: 1,
        endpoint: format!("h{number}"),
        process: process.to_owned(),
        ..Default::default()
    }
}

pub(crate) fn leave(group: &str, number: u32, process: &str) -> v1::LeaveGroupRequest {
    v1::LeaveGroupRequest {
        request_id: format!("leave {group} n{number} {process}"),
        group: group.to_owned(),
        node: format!("n{number}"),
        incarnation: 1,
        process: process.to_owned(),
    }
}

pub(crate) fn switch(name: &str) -> v1::Element {
    v1::Element { kind: Some(v1::element::Kind::SwitchName(name.to_owned())) }
}

pub(crate) fn endpoint(name: &str) -> v1::Element {
    v1::Element { kind: Some(v1::element::Kind::Endpoint(name.to_owned())) }
}

pub(crate) fn link(switch_name: &str, port: u32) -> v1::Element {
    let end = v1::PortName { switch_name: switch_name.to_owned(), port };
    v1::Element { kind: Some(v1::element::Kind::Link(end)) }
}

pub(crate) fn reason(status: &Status) -> String {
    fabricast_rpc::reason_of(status).unwrap_or_else(|| format!("none: {status:?}"))
}
