//! Clients that know nothing but an address, against everything served at one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::process::Command;

use fabricast_cli::Topology;
use fabricast_cli::cluster::{Cluster, Layout};
use fabricast_integration::soon;
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_rpc::{BoundServer, Peer, Security};
use fabricast_topology::TableKind;
use prost::Message;
use prost_reflect::DescriptorPool;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

/// Starts a cluster as `fabricast up` does. Returns the address of all services.
async fn up() -> (Cluster, String) {
    let topology = Topology::read("cluster").unwrap();
    let layout = Layout {
        topology,
        engine: EngineKind::CMr4lmsFixed,
        options: EngineOptions::new(32, TableKind::PerPort),
        store: fabricast_tic::StoreLocation::Memory,
        agent_hosts: 1,
        switch_agents: 1,
        socket: None,
        strict: true,
    };
    let front = BoundServer::bind("127.0.0.1:0".parse().unwrap(), Security::plaintext()).unwrap();
    let address = front.address().to_string();
    let cluster = Cluster::start(layout).await.unwrap();
    cluster.serve_at(front).await;
    (cluster, address)
}

/// True if reflection knows the service and all of its types.
async fn is_described(peer: &Peer, service: &str) -> bool {
    let ask =
        |question| ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let question = ask(MessageRequest::FileContainingSymbol(service.to_owned()));
    let mut client = ServerReflectionClient::new(peer.channel());
    let answers = client.server_reflection_info(tokio_stream::once(question)).await.unwrap();
    let answer = soon(answers.into_inner().message()).await.unwrap().unwrap();
    let Some(MessageResponse::FileDescriptorResponse(files)) = answer.message_response else {
        return false;
    };
    let mut open = files.file_descriptor_proto;
    let mut files = BTreeMap::new();
    while let Some(bytes) = open.pop() {
        let file = prost_types::FileDescriptorProto::decode(&*bytes).unwrap();
        for name in &file.dependency {
            let question = ask(MessageRequest::FileByFilename(name.clone()));
            let mut client = ServerReflectionClient::new(peer.channel());
            let answers =
                client.server_reflection_info(tokio_stream::once(question)).await.unwrap();
            let answer = soon(answers.into_inner().message()).await.unwrap().unwrap();
            if let Some(MessageResponse::FileDescriptorResponse(more)) = answer.message_response {
                open.extend(more.file_descriptor_proto);
            }
        }
        files.insert(file.name.clone(), file);
    }
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files.into_values()).is_ok()
        && pool.get_service_by_name(service).is_some()
}

#[tokio::test]
async fn every_listed_service_is_described_and_healthy() {
    let (cluster, address) = up().await;
    let peer = Peer::new(&address).unwrap();
    let list = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(peer.channel());
    let answers = client.server_reflection_info(tokio_stream::once(list)).await.unwrap();
    let answer = soon(answers.into_inner().message()).await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<String> = listed.service.into_iter().map(|service| service.name).collect();
    let ours: Vec<&String> =
        names.iter().filter(|name| name.starts_with("fabricast.v1.")).collect();
    assert_eq!(ours.len(), 15, "{names:?}");
    for name in ours {
        assert!(is_described(&peer, name).await, "{name}");
        let request = HealthCheckRequest { service: name.clone() };
        let health = HealthClient::new(peer.channel()).check(request).await.unwrap().into_inner();
        assert_eq!(health.status, 1, "{name} serves");
    }
    soon(cluster.stop()).await;
}

/// Runs a script of `tests/integration/reflection` with words before the address of all services,
/// and pages after it; returns its output.
async fn run(mut python: Command, script: &str, before: &[&OsStr], pages: &[&str]) -> String {
    let (cluster, address) = up().await;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    python.arg(format!("{root}tests/integration/reflection/{script}")).args(before).arg(address);
    python.args(pages.iter().map(|page| format!("{root}{page}")));
    let output = tokio::task::spawn_blocking(move || python.output().unwrap()).await.unwrap();
    let (said, wrong) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{wrong}");
    soon(cluster.stop()).await;
    said.into_owned()
}

mod needs_python {
    use super::*;

    #[tokio::test]
    async fn a_client_with_nothing_but_reflection_joins_lists_and_reads_tables() {
        let said = run(fabricast_testing::python(), "client.py", &[], &[]).await;
        assert!(said.contains("entries on"), "{said}");
    }
}

mod needs_grpcurl {
    use super::*;

    #[tokio::test]
    async fn every_command_of_the_page_on_administration_works_as_it_says() {
        let grpcurl = fabricast_testing::grpcurl();
        let page = "docs/administration.md";
        let python = fabricast_testing::python();
        let said = run(python, "administration.py", &[grpcurl.as_os_str()], &[page]).await;
        assert!(said.ends_with("commands\n"), "{said}");
    }
}
