//! The least and the greatest numbers in every 64-bit field of the TIC's requests: none of them may
//! shut out what comes after.

use fabricast_proto::v1;
use tonic::transport::{Channel, Endpoint};
use v1::collective_service_client::CollectiveServiceClient;
use v1::group_batch_service_client::GroupBatchServiceClient;

use crate::choices;
use crate::harness::{Tic, join, leave, registration, setup};
use fabricast_tic::StoreLocation;

const NUMBERS: [u64; 4] = [0, 1, 1 << 63, u64::MAX];

fn channel(tic: &Tic) -> Channel {
    Endpoint::from_shared(format!("http://{}", tic.address)).unwrap().connect_lazy()
}

fn route(revision: u64, virtual_group: u64) -> v1::Route {
    v1::Route {
        routed_revision: revision,
        state: v1::RouteState::Routed.into(),
        color: 3,
        virtual_group,
        ..Default::default()
    }
}

fn report(term: u64, generation: u64) -> v1::ReportRoutesRequest {
    let fence = Some(v1::Fence { term, generation });
    v1::ReportRoutesRequest { term, fence, ..Default::default() }
}

fn routes(gn: u64, route: v1::Route) -> Vec<v1::GroupRoute> {
    vec![v1::GroupRoute { gn, route: Some(route) }]
}

/// Sends every request of the TIC with `number` in one 64-bit field after the other. Most are
/// refused; what counts is what the TIC does afterwards.
async fn send_all(tic: &Tic, term: u64, gn: u64, number: u64) {
    send_of_nodes(tic, number).await;
    send_of_routes(tic, term, gn, number).await;
    send_of_choices(tic, term, gn, number).await;
    send_batches(tic, number).await;
}

fn membership(number: u64) -> (v1::JoinGroupRequest, v1::LeaveGroupRequest, v1::GetGroupRequest) {
    let joins = v1::JoinGroupRequest { incarnation: number, ..join("g", 0, "q") };
    let leaves = v1::LeaveGroupRequest { incarnation: number, ..leave("g", 0, "q") };
    let get =
        v1::GetGroupRequest { gn: number, unless_members_revision: number, ..Default::default() };
    (joins, leaves, get)
}

async fn send_of_nodes(tic: &Tic, number: u64) {
    let mut client = tic.client.clone();
    let (joins, leaves, get) = membership(number);
    let _ = client.register_node(registration(0, "127.0.0.1:1", number)).await;
    let _ = client.join_group(joins).await;
    let _ = client.leave_group(leaves).await;
    let _ = client.get_group(get.clone()).await;
    let by_name = v1::GetGroupRequest { gn: 0, group: "g".to_owned(), ..get.clone() };
    let _ = client.get_group(by_name).await;
    let failed = v1::ReportNodeFailureRequest {
        node: "n0".to_owned(),
        reporter: "test".to_owned(),
        incarnation: number.max(2), // 0 and 1 mean the node as it is, which a test may expel
        ..Default::default()
    };
    for probe_first in [true, false] {
        let _ = client
            .report_node_failure(v1::ReportNodeFailureRequest { probe_first, ..failed.clone() })
            .await;
    }
    for field in 0..4 {
        let at = |index| if index == field { number } else { 1 };
        let groups = vec![v1::HostedGroup { gn: at(1), epoch: at(2), known_revision: at(3) }];
        let next_report_in = Some(prost_types::Duration { seconds: i64::MIN, nanos: i32::MAX });
        let (node, incarnation) = ("n0".to_owned(), at(0));
        let status = v1::GroupAgentStatus { node, incarnation, groups, next_report_in };
        let _ = client
            .report_group_agents(v1::ReportGroupAgentsRequest { statuses: vec![status] })
            .await;
    }
}

async fn send_of_routes(tic: &Tic, term: u64, gn: u64, number: u64) {
    let mut client = tic.client.clone();
    let router = "impostor".to_owned();
    let renew = v1::RenewRouteTermRequest { router, term: number, ..<_>::default() };
    let _ = client.renew_route_term(renew).await;
    if number != term {
        let _ = client.release_route_term(v1::ReleaseRouteTermRequest { term: number }).await;
    }
    let _ = client.report_routes(report(number, 1)).await;
    let _ = client
        .report_routes(v1::ReportRoutesRequest { clean_revision: number, ..report(term, 1) })
        .await;
    for routes in
        [routes(gn, route(number, 1)), routes(gn, route(1, number)), routes(number, route(1, 1))]
    {
        let _ = client.report_routes(v1::ReportRoutesRequest { routes, ..report(term, 1) }).await;
    }
    let _ = client.report_routes(report(term, number)).await;
    let mut collectives = CollectiveServiceClient::new(channel(tic));
    for (term, revision) in [(number, 0), (term, number)] {
        let trees = v1::ReportAggregationTreesRequest { term, revision, missing_trees: vec![] };
        let _ = collectives.report_aggregation_trees(trees).await;
    }
}

async fn send_of_choices(tic: &Tic, term: u64, gn: u64, number: u64) {
    let mut records = choices::client(&tic.address);
    let choice = || vec![choices::choice(gn, 0)];
    let mut of_gn = choices::choice(number, 0);
    let mut of_ports = choices::choice(gn, 0);
    of_gn.gn = number;
    of_ports.trees[0].ports_gn = number;
    for request in [
        choices::request(number, 1, choice()),
        choices::request(term, 1, vec![of_gn]),
        choices::request(term, 1, vec![of_ports]),
        v1::RecordRouteChoicesRequest {
            seen_revision: number,
            ..choices::request(term, 1, choice())
        },
        v1::RecordRouteChoicesRequest {
            removed_gns: vec![number],
            ..choices::request(term, 1, choice())
        },
        choices::request(term, number, choice()),
    ] {
        let _ = records.record_route_choices(tokio_stream::iter([request])).await;
    }
}

async fn send_batches(tic: &Tic, number: u64) {
    let mut batches = GroupBatchServiceClient::new(channel(tic));
    let (joins, leaves, get) = membership(number);
    let _ = batches.join_many(v1::JoinManyRequest { joins: vec![joins] }).await;
    let _ = batches.leave_many(v1::LeaveManyRequest { leaves: vec![leaves] }).await;
    let _ = batches.get_many(v1::GetManyRequest { gets: vec![get] }).await;
    let member = v1::FormedMember {
        endpoint: "h1".to_owned(),
        process: "formed".to_owned(),
        node: String::new(),
        incarnation: number,
    };
    let formed = v1::FormedGroupSpec {
        group: format!("formed {number}"),
        members: vec![member],
        ..Default::default()
    };
    let batch = v1::FormGroupsRequest {
        request_id: format!("batch {number}"),
        groups: vec![formed],
        ..Default::default()
    };
    let _ = batches.form_groups(tokio_stream::iter([batch])).await;
}

/// All works as if nothing had been sent before.
async fn all_works(tic: &Tic, start_id: u64, generation: u64) {
    let mut client = tic.client.clone();
    let admitted = client.register_node(registration(0, "127.0.0.1:1", start_id)).await.unwrap();
    let node = admitted.into_inner().node.unwrap();
    assert_eq!(node.state(), v1::NodeState::Up);
    let joined = v1::JoinGroupRequest {
        request_id: format!("after {start_id}"),
        incarnation: node.incarnation,
        ..join("g", 0, "after")
    };
    client.join_group(joined).await.unwrap();
    let group = tic.group("g").await.unwrap();
    let term = choices::acquire(tic).await;
    let now = tic.revision().await;
    let wanted = route(now, 1);
    let routes = routes(group.gn, wanted.clone());
    let request =
        v1::ReportRoutesRequest { routes, clean_revision: now, ..report(term, generation) };
    client.report_routes(request).await.unwrap();
    assert_eq!(
        tic.group("g").await.unwrap().route.unwrap().routed_revision,
        wanted.routed_revision
    );
    let mut records = choices::client(&tic.address);
    let choice = choices::request(term, generation, vec![choices::choice(group.gn, 0)]);
    records.record_route_choices(tokio_stream::iter([choice])).await.unwrap();
    let trees = v1::ReportAggregationTreesRequest { term, revision: 0, missing_trees: vec![] };
    CollectiveServiceClient::new(channel(tic)).report_aggregation_trees(trees).await.unwrap();
}

#[tokio::test]
async fn no_number_shuts_out_later_ones_not_even_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = StoreLocation::File(folder.path().join("tic.redb"));
    let mut start_id = 1;
    for number in NUMBERS {
        let tic = Tic::start(setup(file.clone())).await;
        for node in 0..2 {
            let request = registration(node, "127.0.0.1:1", start_id);
            tic.client.clone().register_node(request).await.unwrap();
        }
        let request = v1::JoinGroupRequest {
            request_id: format!("before {number}"),
            incarnation: tic.nodes().await[0].incarnation,
            persistent: true,
            ..join("g", 0, "p")
        };
        tic.client.clone().join_group(request).await.unwrap();
        let gn = tic.group("g").await.unwrap().gn;
        let term = choices::acquire(&tic).await;
        send_all(&tic, term, gn, number).await;
        start_id += 1;
        all_works(&tic, start_id, 1).await;
        tic.stop().await;
        let again = Tic::start(setup(file.clone())).await;
        start_id += 1;
        all_works(&again, start_id, 1).await;
        again.stop().await;
    }
}
