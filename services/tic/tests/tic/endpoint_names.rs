//! Endpoints may be named by GUID; records have one name for each.

use fabricast_proto::v1;
use tonic::Code;

use crate::harness::{Tic, endpoint, graph, join, reason, registration};

/// GUID of the port of endpoint `h<number>`.
fn guid(number: u32) -> u64 {
    let graph = graph();
    let found = graph.find_endpoint(&format!("h{number}")).unwrap();
    graph.endpoint_facts(found).port_guid
}

#[tokio::test]
async fn members_that_join_by_guid_and_by_description_are_the_same() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    tic.register(1).await;
    tic.join("g", 0, "p").await;
    let mut request = join("g", 0, "q");
    request.endpoint = format!("0x{:x}", guid(0));
    request.hints = Some(v1::MgidHints {
        expected_endpoints: vec![format!("{:016X}", guid(1))],
        ..v1::MgidHints::default()
    });
    let member = tic.client.clone().join_group(request).await.unwrap().into_inner().member;
    assert_eq!(member.unwrap().endpoint, "h0");
    let members = tic.group("g").await.unwrap().members;
    assert!(members.len() == 2 && members.iter().all(|member| member.endpoint == "h0"));

    let report = v1::ReportFailedElementsRequest {
        reporter: "switch-agent".to_owned(),
        elements: vec![endpoint(&format!("{:x}", guid(1)))],
    };
    tic.client.clone().report_failed_elements(report).await.unwrap();
    let snapshot = tic.watch().await.message().await.unwrap().unwrap();
    let failed = snapshot.changes.into_iter().find_map(|change| match change.kind {
        Some(v1::directory_change::Kind::FailedElements(failed)) => Some(failed.elements),
        _ => None,
    });
    assert_eq!(failed.unwrap(), [endpoint("h1")]);
}

#[tokio::test]
async fn one_endpoint_under_two_names_is_named_twice() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    let mut request = join("g", 0, "p");
    let expected_endpoints = vec!["h1".to_owned(), format!("0x{:x}", guid(1))];
    request.hints = Some(v1::MgidHints { expected_endpoints, ..v1::MgidHints::default() });
    let refused = tic.client.clone().join_group(request).await.unwrap_err();
    assert_eq!(refused.message(), "hints.expected_endpoints: 'h1' is named twice");
}

#[tokio::test]
async fn an_agent_has_to_name_its_endpoints_as_the_topology_does() {
    let tic = Tic::on_memory().await;
    let mut request = registration(0, "127.0.0.1:1", 1);
    let text = format!("0x{:x}", guid(0));
    request.node.as_mut().unwrap().endpoints = vec![text.clone()];
    let refused = tic.client.clone().register_node(request).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::InvalidArgument, "NAME_INVALID"));
    let needle = format!("the topology calls '{text}' 'h0', and so must its agent");
    assert!(refused.message().contains(&needle), "{}", refused.message());
}
