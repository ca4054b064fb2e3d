//! Every call refuses bad input with a message that names the field, and changes nothing (S2).

use fabricast_proto::v1;
use tonic::{Code, Status};

use crate::harness::{Tic, join, leave, reason, registration, switch};

/// One value that no name may have.
const BAD_NAMES: [&str; 3] = ["", "a\tb", "LONG"];

fn bad(name: &str) -> String {
    if name == "LONG" { "x".repeat(257) } else { name.to_owned() }
}

/// A TIC with nodes `n0` and `n1`, group `g` of `n0`'s process `p`, and term 1.
async fn ready() -> Tic {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    tic.register(1).await;
    tic.join("g", 0, "p").await;
    let request = v1::AcquireRouteTermRequest {
        router: "router".to_owned(),
        take_over: true,
        ..Default::default()
    };
    tic.client.clone().acquire_route_term(request).await.unwrap();
    tic
}

/// Everything that readers can see.
async fn state(tic: &Tic) -> (u64, Vec<v1::Group>, Vec<v1::Node>) {
    (tic.revision().await, tic.groups().await, tic.nodes().await)
}

#[track_caller]
fn check<T: std::fmt::Debug>(answer: Result<T, Status>, field: &str, why: &str) {
    let status = answer.unwrap_err();
    assert_eq!(reason(&status), why, "{status:?}");
    assert!(status.message().contains(field), "'{}' names no {field}", status.message());
}

#[tokio::test]
async fn bad_names_are_refused_by_every_call_that_takes_one() {
    let tic = ready().await;
    let before = state(&tic).await;
    for name in BAD_NAMES.map(bad) {
        bad_names_in_changes(&tic, &name).await;
        bad_names_in_reports(&tic, &name).await;
    }
    assert_eq!(state(&tic).await, before);
}

async fn bad_names_in_changes(tic: &Tic, name: &str) {
    let mut client = tic.client.clone();
    let name = || name.to_owned();
    let why = "NAME_INVALID";
    for (field, set) in [
        ("node.name", (|node, name| node.name = name) as fn(&mut v1::Node, String)),
        ("node.address", |node, name| node.address = name),
        ("node.endpoints", |node, name| node.endpoints = vec![name]),
    ] {
        let mut request = registration(2, "127.0.0.1:1", 1);
        set(request.node.as_mut().unwrap(), name());
        check(client.register_node(request).await, field, why);
    }
    for (field, set) in [
        ("request_id", (|to, name| to.request_id = name) as fn(&mut v1::JoinGroupRequest, String)),
        ("group", |to, name| to.group = name),
        ("node", |to, name| to.node = name),
        ("endpoint", |to, name| to.endpoint = name),
        ("process", |to, name| to.process = name),
    ] {
        let mut request = join("new", 1, "p");
        set(&mut request, name());
        check(client.join_group(request).await, field, why);
    }
    for (field, set) in [
        ("request_id", (|to, name| to.request_id = name) as fn(&mut v1::LeaveGroupRequest, String)),
        ("group", |to, name| to.group = name),
        ("node", |to, name| to.node = name),
        ("process", |to, name| to.process = name),
    ] {
        let mut request = leave("g", 0, "p");
        set(&mut request, name());
        check(client.leave_group(request).await, field, why);
    }
    let delete = v1::DeleteGroupRequest { request_id: name(), group: "g".to_owned() };
    check(client.delete_group(delete).await, "request_id", why);
    let delete = v1::DeleteGroupRequest { request_id: "d".to_owned(), group: name() };
    check(client.delete_group(delete).await, "group", why);
    let get = v1::GetGroupRequest { group: name(), gn: 0, ..Default::default() };
    check(client.get_group(get).await, "group", why);
}

async fn bad_names_in_reports(tic: &Tic, name: &str) {
    let mut client = tic.client.clone();
    let name = || name.to_owned();
    let why = "NAME_INVALID";
    let (node, reporter) = ("n0".to_owned(), "r".to_owned());
    let failure =
        v1::ReportNodeFailureRequest { node, incarnation: 0, reporter: name(), probe_first: false };
    check(client.report_node_failure(failure).await, "reporter", why);
    let failure =
        v1::ReportNodeFailureRequest { node: name(), incarnation: 0, reporter, probe_first: false };
    check(client.report_node_failure(failure).await, "node", why);
    let get = v1::GetNodeRequest { node: name() };
    check(client.get_node(get).await, "node", why);
    let remove = v1::RemoveNodeRequest { node: name() };
    check(client.remove_node(remove).await, "node", why);
    let status = v1::GroupAgentStatus { node: name(), incarnation: 1, ..Default::default() };
    let report = v1::ReportGroupAgentsRequest { statuses: vec![status] };
    check(client.report_group_agents(report).await, "statuses.node", why);
    let report = v1::ReportFailedElementsRequest { reporter: name(), elements: vec![] };
    check(client.report_failed_elements(report).await, "reporter", why);
    let term =
        v1::AcquireRouteTermRequest { router: name(), take_over: true, ..Default::default() };
    check(client.acquire_route_term(term).await, "router", why);
    let mut routes = routes();
    routes.routes[0].route.as_mut().unwrap().cut_off_endpoints = vec![name()];
    check(client.report_routes(routes).await, "cut_off_endpoints", why);
}

fn routes() -> v1::ReportRoutesRequest {
    let route = v1::Route { state: v1::RouteState::UnicastOnly.into(), ..Default::default() };
    v1::ReportRoutesRequest {
        term: 1,
        routes: vec![v1::GroupRoute { gn: 1, route: Some(route) }],
        fence: Some(v1::Fence { term: 1, generation: 1 }),
        clean_revision: 0,
    }
}

#[tokio::test]
async fn a_missing_field_is_named() {
    let tic = ready().await;
    let before = state(&tic).await;
    let mut client = tic.client.clone();
    let why = "FIELD_MISSING";
    let none = v1::RegisterNodeRequest { start_id: 1, ..Default::default() };
    check(client.register_node(none).await, "node", why);
    check(client.register_node(registration(2, "127.0.0.1:1", 0)).await, "start_id", why);
    let mut bare = registration(2, "127.0.0.1:1", 1);
    bare.node.as_mut().unwrap().endpoints.clear();
    check(client.register_node(bare).await, "node.endpoints", why);
    let mut request = join("new", 1, "p");
    request.incarnation = 0;
    check(client.join_group(request).await, "incarnation", why);
    let mut request = leave("g", 0, "p");
    request.incarnation = 0;
    check(client.leave_group(request).await, "incarnation", why);
    for (field, status) in [
        ("incarnation", v1::GroupAgentStatus { node: "n0".to_owned(), ..Default::default() }),
        (
            "gn",
            v1::GroupAgentStatus {
                node: "n0".to_owned(),
                incarnation: 1,
                groups: vec![v1::HostedGroup::default()],
                ..Default::default()
            },
        ),
    ] {
        let report = v1::ReportGroupAgentsRequest { statuses: vec![status] };
        check(client.report_group_agents(report).await, field, why);
    }
    let elements = vec![v1::Element { kind: None }];
    let report = v1::ReportFailedElementsRequest { reporter: "r".to_owned(), elements };
    check(client.report_failed_elements(report).await, "elements", why);
    for (field, set) in [
        ("term", (|to| to.term = 0) as fn(&mut v1::ReportRoutesRequest)),
        ("fence", |to| to.fence = None),
        ("gn", |to| to.routes[0].gn = 0),
        ("routes.route", |to| to.routes[0].route = None),
        ("state", |to| to.routes[0].route.as_mut().unwrap().state = 0),
        ("state", |to| to.routes[0].route.as_mut().unwrap().state = 99),
    ] {
        let mut request = routes();
        set(&mut request);
        check(client.report_routes(request).await, field, why);
    }
    assert_eq!(state(&tic).await, before);
}

#[tokio::test]
async fn unknown_and_unfitting_values_are_refused() {
    let tic = ready().await;
    let before = state(&tic).await;
    let mut client = tic.client.clone();
    let mut node = registration(2, "127.0.0.1:1", 1);
    node.node.as_mut().unwrap().endpoints = vec!["h99".to_owned()];
    check(client.register_node(node.clone()).await, "h99", "UNKNOWN_ENDPOINT");
    node.node.as_mut().unwrap().endpoints = vec!["h0".to_owned()];
    check(client.register_node(node.clone()).await, "h0", "ENDPOINT_TAKEN");
    node.node.as_mut().unwrap().endpoints = vec!["h2".to_owned(), "h2".to_owned()];
    check(client.register_node(node).await, "twice", "NAME_INVALID");
    check(client.register_node(registration(2, "no port", 1)).await, "address", "NAME_INVALID");
    check(client.join_group(join("g", 5, "p")).await, "n5", "UNKNOWN_NODE");
    let mut request = join("g", 1, "p");
    request.endpoint = "h0".to_owned();
    check(client.join_group(request).await, "h0", "UNKNOWN_ENDPOINT");
    let mut request = join("g", 1, "p");
    request.incarnation = 7;
    check(client.join_group(request).await, "7", "STALE_INCARNATION");
    check(client.leave_group(leave("none", 0, "p")).await, "none", "UNKNOWN_GROUP");
    check(client.leave_group(leave("g", 1, "p")).await, "g", "NOT_A_MEMBER");
    let delete = v1::DeleteGroupRequest { request_id: "d".to_owned(), group: "none".to_owned() };
    check(client.delete_group(delete).await, "none", "UNKNOWN_GROUP");
    let get = v1::GetGroupRequest { group: String::new(), gn: 99, ..Default::default() };
    check(client.get_group(get).await, "99", "UNKNOWN_GROUP");
    let page = |page_token: &str| page_token.to_owned();
    let list = v1::ListGroupsRequest { page_token: page("x"), ..Default::default() };
    check(client.list_groups(list).await, "page_token", "PAGE_TOKEN_INVALID");
    let list = v1::ListNodesRequest { page_token: page("x"), ..Default::default() };
    check(client.list_nodes(list).await, "page_token", "PAGE_TOKEN_INVALID");
    let (node, reporter) = ("n9".to_owned(), "r".to_owned());
    let failure =
        v1::ReportNodeFailureRequest { node, incarnation: 0, reporter, probe_first: false };
    check(client.report_node_failure(failure).await, "n9", "UNKNOWN_NODE");
    let elements = vec![switch("S-0"), switch("S-9")];
    let report = v1::ReportFailedElementsRequest { reporter: "r".to_owned(), elements };
    check(client.report_failed_elements(report).await, "S-9", "UNKNOWN_ELEMENT");
    let mut request = routes();
    let route = request.routes[0].route.as_mut().unwrap();
    (route.state, route.color) = (v1::RouteState::Routed.into(), 32);
    check(client.report_routes(request).await, "color 32", "COLOR_OUT_OF_RANGE");
    let mut request = routes();
    let route = request.routes[0].route.as_mut().unwrap();
    (route.state, route.second_color) = (v1::RouteState::Routed.into(), Some(33));
    check(client.report_routes(request).await, "second_color", "COLOR_OUT_OF_RANGE");
    assert_eq!(state(&tic).await, before);
}

#[tokio::test]
async fn an_unknown_element_refuses_the_whole_report() {
    let tic = ready().await;
    let mut client = tic.client.clone();
    let report = |elements| v1::ReportFailedElementsRequest { reporter: "r".to_owned(), elements };
    let refused = client.report_failed_elements(report(vec![switch("S-0"), switch("?")])).await;
    assert!(refused.is_err());
    let answer = client.report_failed_elements(report(vec![])).await.unwrap().into_inner();
    assert_eq!(answer.failed_count, 0);
    let mut watch = tic.watch().await;
    assert_eq!(watch.message().await.unwrap().unwrap().revision, tic.revision().await);
}

#[tokio::test]
async fn a_full_queue_refuses_instead_of_growing() {
    let mut setup = crate::harness::setup(fabricast_tic::StoreLocation::Memory);
    setup.order_queue = 1;
    let tic = Tic::start(setup).await;
    tic.register(0).await;
    let mut joins = tokio::task::JoinSet::new();
    for number in 0..200 {
        let mut client = tic.client.clone();
        joins.spawn(async move { client.join_group(join("g", 0, &format!("p{number}"))).await });
    }
    let answers = joins.join_all().await;
    let granted = answers.iter().filter(|answer| answer.is_ok()).count();
    for refused in answers.into_iter().filter_map(Result::err) {
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
        assert_eq!(reason(&refused), "LIMIT_REACHED");
    }
    let members = tic.group("g").await.unwrap().member_count;
    assert_eq!(usize::try_from(members).unwrap(), granted);
    assert!(granted < 200, "the queue was never full");
}
