//! Reports of a route service.

use fabricast_proto::v1;

use super::groups::Groups;
use super::load::{Load, made};

/// Colors of the TIC's default settings.
const COLORS: u64 = 32;
/// Groups whose choices are in one message.
const CHOICES: usize = 1_000;
/// Groups that move with one call.
const MOVES: usize = 1_000;
/// Trees that are said to be missing.
const MISSING: u32 = 4_096;
const ROUTER: &str = "router";

/// Takes the term of the route service.
pub(super) async fn acquire(load: &Load) -> u64 {
    let router = ROUTER.to_owned();
    let request = v1::AcquireRouteTermRequest { router, take_over: true, address: String::new() };
    let term = made(async || load.tic.clone().acquire_route_term(request.clone()).await).await.term;
    let router = ROUTER.to_owned();
    let request = v1::RenewRouteTermRequest { router, term, address: String::new() };
    made(async || load.tic.clone().renew_route_term(request.clone()).await).await;
    term
}

async fn revision(load: &Load) -> u64 {
    let request = v1::ListGroupsRequest { page_size: 1, ..Default::default() };
    made(async || load.tic.clone().list_groups(request.clone()).await).await.revision
}

async fn report_routes(load: &Load, request: v1::ReportRoutesRequest) {
    made(async || load.tic.clone().report_routes(request.clone()).await).await;
}

/// Reports routes of all groups, then that all exclusive ones share their trees, so that they move.
pub(super) async fn report(load: &Load, groups: &Groups, term: u64) {
    let routed_revision = revision(load).await;
    let routed = groups.random.iter().map(|group| v1::GroupRoute {
        gn: group.gn,
        route: Some(v1::Route {
            routed_revision,
            state: v1::RouteState::Routed.into(),
            color: u32::try_from(group.gn % COLORS).expect("a small number"),
            virtual_group: group.gn,
            ..Default::default()
        }),
    });
    let shared = groups.exclusive.iter().map(|group| v1::GroupRoute {
        gn: group.gn,
        route: Some(v1::Route {
            routed_revision,
            state: v1::RouteState::UnicastOnly.into(),
            reason: "exclusive".to_owned(),
            reason_code: v1::RouteReason::ExclusiveTreeShared.into(),
            ..Default::default()
        }),
    });
    for (routes, generation) in [(routed.collect(), 1), (shared.collect(), 2)] {
        let fence = Some(v1::Fence { term, generation });
        let request = v1::ReportRoutesRequest { term, routes, fence, clean_revision: 0 };
        report_routes(load, request).await;
    }
}

/// Reports that no switch holds entries of groups that are gone.
pub(super) async fn report_clean(load: &Load, term: u64) {
    let clean_revision = revision(load).await;
    let fence = Some(v1::Fence { term, generation: 3 });
    let routes = Vec::new();
    report_routes(load, v1::ReportRoutesRequest { term, routes, fence, clean_revision }).await;
}

/// Reports trees of collectives.
pub(super) async fn report_trees(load: &Load, term: u64) {
    let missing_trees = (0..MISSING).collect();
    let request = v1::ReportAggregationTreesRequest { term, revision: 0, missing_trees };
    made(async || load.collectives.clone().report_aggregation_trees(request.clone()).await).await;
}

/// Records a choice for each group.
pub(super) async fn record_choices(
    load: &Load,
    groups: &Groups,
    term: u64,
    topology: &v1::TopologySummary,
) {
    let switch = load.graph.switches().next().expect("there are switches");
    let switch_name = load.graph.switch_name(switch);
    let choice = |group: &v1::FormedGroup| {
        let ports = vec![v1::SwitchPorts { switch_name: switch_name.to_owned(), ports: vec![1] }];
        let tree = v1::TreeChoice { tree: 0, part: 0, root: 0, ports, ports_gn: 0 };
        v1::RouteChoice { gn: group.gn, trees: vec![tree] }
    };
    let scheme = v1::RouteChoiceScheme {
        engine: "sssp-mc".to_owned(),
        color_count: 32,
        tables: v1::TableKind::PerPort.into(),
        root_scope: "tn".to_owned(),
        topology_sha256: topology.sha256.clone(),
        fault_tolerant: false,
    };
    let message = |groups: &[v1::FormedGroup]| v1::RecordRouteChoicesRequest {
        fence: Some(v1::Fence { term, generation: 1 }),
        scheme: Some(scheme.clone()),
        changed: groups.iter().map(choice).collect(),
        ..Default::default()
    };
    let mut messages: Vec<_> = groups.random.chunks(CHOICES).map(message).collect();
    messages.last_mut().expect("there are groups").last = true;
    made(async || {
        load.choices.clone().record_route_choices(tokio_stream::iter(messages.clone())).await
    })
    .await;
}

/// Moves groups, each to the tree of the next one.
pub(super) async fn move_groups(load: &Load, groups: &Groups) {
    let pairs = groups.random.iter().zip(groups.random.iter().skip(1)).take(MOVES);
    let moves = pairs.map(|(group, next)| v1::GroupMove {
        group: group.group.clone(),
        from_mgid: group.mgid,
        to_mgid: next.mgid,
    });
    let request = v1::MoveGroupsRequest { moves: moves.collect() };
    made(async || load.tic.clone().move_groups(request.clone()).await).await;
}

/// Gives the term up.
pub(super) async fn release(load: &Load, term: u64) {
    let request = v1::ReleaseRouteTermRequest { term };
    made(async || load.tic.clone().release_route_term(request).await).await;
}
