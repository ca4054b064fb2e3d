//! A switch agent with its driver against the real fabric.

use fabricast_integration::{
    Client, Conformance, Layout, MANAGEMENT_KEY, Part, soon, start_fabric, start_switch_agent,
};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::{Channel, Peer, reason_of};
use fabricast_switch::{Driver, EmulatedDriver};
use fabricast_topology::TableKind;
use tokio_stream::StreamExt;
use tonic::Status;

/// No TIC listens here.
const NO_TIC: &str = "127.0.0.1:1";

async fn agent(fabric: &Part, key: &'static str) -> Part {
    let tic = NO_TIC.parse().unwrap();
    start_switch_agent("agent", &[], fabric.address(), key, &[tic]).await
}

fn client(agent: &Part) -> SwitchAgentServiceClient<Channel> {
    let peer = Peer::new(&agent.address().to_string()).unwrap();
    SwitchAgentServiceClient::new(peer.channel())
}

fn fabric_client(fabric: &Part) -> Client {
    let nowhere = NO_TIC.parse().unwrap();
    Client::new([fabric.address(), nowhere, nowhere], &[], &[])
}

/// One entry, color 3 at port 1.
fn write(term: u64, generation: u64, switch: &str) -> v1::WriteTablesRequest {
    let entry = v1::TableEntry { in_port: 1, color: 3, out_ports: vec![2, 3] };
    let part = v1::SwitchWrite { switch_name: switch.to_owned(), entries: vec![entry] };
    let fence = Some(v1::Fence { term, generation });
    v1::WriteTablesRequest { fence, writes: vec![part] }
}

fn reason<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    reason_of(&answer.unwrap_err()).unwrap()
}

async fn switches(client: &mut SwitchAgentServiceClient<Channel>) -> Vec<String> {
    let answer = client.list_switches(v1::ListSwitchesRequest {}).await.unwrap().into_inner();
    answer.switches.into_iter().map(|switch| switch.name).collect()
}

#[tokio::test]
async fn a_fence_is_remembered_by_the_switches_when_their_agent_is_replaced() {
    let fabric = start_fabric(&Layout::leaf_spine()).await;
    let mut first = agent(&fabric, MANAGEMENT_KEY).await;
    let mut calls = client(&first);
    let names = switches(&mut calls).await;
    assert_eq!(names.len(), 6);
    let written = calls.write_tables(write(5, 2, &names[0])).await.unwrap().into_inner();
    assert_eq!((written.written_entries, written.refusals), (1, vec![]));
    assert_eq!(reason(calls.write_tables(write(5, 1, &names[0])).await), "STALE_FENCE");
    first.kill();
    let second = agent(&fabric, MANAGEMENT_KEY).await;
    let mut calls = client(&second);
    // Also at a switch that the newer writer has not written to yet.
    assert_eq!(reason(calls.write_tables(write(4, 9, &names[1])).await), "STALE_FENCE");
    let all = v1::ReadTablesRequest::default();
    let mut tables = calls.read_tables(all).await.unwrap().into_inner();
    let mut entries = Vec::new();
    while let Some(part) = soon(tables.message()).await.unwrap() {
        entries.extend(part.table.unwrap().entries);
    }
    assert_eq!(entries, write(5, 2, &names[0]).writes[0].entries);
    let ports = v1::ListPortsRequest { switch_name: names[0].clone() };
    assert_eq!(calls.list_ports(ports).await.unwrap().into_inner().ports.len(), 8);
}

#[tokio::test]
async fn a_dead_switch_is_told_and_takes_nothing() {
    let fabric = start_fabric(&Layout::leaf_spine()).await;
    let agent = agent(&fabric, MANAGEMENT_KEY).await;
    let mut calls = client(&agent);
    let names = switches(&mut calls).await;
    let fabric_peer = Peer::new(&fabric.address().to_string()).unwrap();
    let driver = EmulatedDriver::new(fabric_peer, MANAGEMENT_KEY);
    let mut watch = driver.watch_failed_elements().await.unwrap();
    assert_eq!(soon(watch.next()).await.unwrap().unwrap(), vec![]);
    let kind = Kind::SwitchName(names[1].clone());
    fabric_client(&fabric).fail(kind.clone()).await;
    let failed = soon(watch.next()).await.unwrap().unwrap();
    assert_eq!(failed, vec![v1::Element { kind: Some(kind) }]);
    let refusals = calls.write_tables(write(6, 1, &names[1])).await.unwrap().into_inner().refusals;
    assert_eq!(refusals[0].reason, "SWITCH_DOWN");
}

#[tokio::test]
async fn an_agent_with_the_wrong_key_learns_nothing() {
    let fabric = start_fabric(&Layout::leaf_spine()).await;
    let agent = agent(&fabric, "wrong").await;
    let listed = client(&agent).list_switches(v1::ListSwitchesRequest {}).await;
    assert_eq!(reason(listed), "FABRIC_UNAVAILABLE");
}

#[tokio::test]
async fn an_agent_rides_over_a_restart_of_the_fabric_and_still_refuses_older_writers() {
    let mut fabric = start_fabric(&Layout::leaf_spine()).await;
    let agent = agent(&fabric, MANAGEMENT_KEY).await;
    let mut calls = client(&agent);
    let names = switches(&mut calls).await;
    calls.write_tables(write(6, 1, &names[0])).await.unwrap();
    fabric.kill();
    let listed = calls.list_switches(v1::ListSwitchesRequest {}).await;
    assert_eq!(reason(listed), "FABRIC_UNAVAILABLE");
    fabric.restart().await;
    assert_eq!(switches(&mut calls).await, names);
    assert_eq!(reason(calls.write_tables(write(5, 9, &names[0])).await), "STALE_FENCE");
    let written = calls.write_tables(write(6, 1, &names[0])).await.unwrap().into_inner();
    assert_eq!(written.written_entries, 1);
}

#[tokio::test]
async fn the_driver_of_the_emulated_fabric_conforms() {
    for layout in [Layout::three_levels(), Layout::leaf_spine().with_tables(TableKind::PerSwitch)] {
        let fabric = start_fabric(&layout).await;
        let agent = agent(&fabric, MANAGEMENT_KEY).await;
        let suite = Conformance::new(client(&agent), 7);
        let link = suite.check().await;
        let (switch_name, port) = link.clone();
        let cut = Kind::Link(v1::PortName { switch_name, port });
        fabric_client(&fabric).fail(cut.clone()).await;
        suite.link_is(&link, false).await;
        fabric_client(&fabric).heal(cut).await;
        suite.link_is(&link, true).await;
    }
}

#[tokio::test]
async fn a_part_that_is_told_to_stop_ends_soon_and_frees_its_port() {
    let mut fabric = start_fabric(&Layout::leaf_spine()).await;
    let mut agent = agent(&fabric, MANAGEMENT_KEY).await;
    switches(&mut client(&agent)).await;
    for part in [&mut agent, &mut fabric] {
        let took = part.stop().await;
        assert!(took.as_secs() < 5, "{took:?}");
        part.restart().await;
    }
    assert_eq!(switches(&mut client(&agent)).await.len(), 6);
}
