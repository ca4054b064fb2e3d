//! Terms and reports of the route service.

use fabricast_proto::v1;
use tonic::Code;
use v1::directory_change::Kind;

use crate::harness::{Tic, join, reason};

async fn acquire(tic: &Tic) -> u64 {
    let request = v1::AcquireRouteTermRequest {
        router: "router".to_owned(),
        take_over: true,
        ..Default::default()
    };
    tic.client.clone().acquire_route_term(request).await.unwrap().into_inner().term
}

pub(crate) fn report(term: u64, gn: u64, color: u32) -> v1::ReportRoutesRequest {
    let route = v1::Route {
        routed_revision: 1,
        state: v1::RouteState::Routed.into(),
        color,
        second_color: Some(color + 1),
        virtual_group: 4,
        reason: String::new(),
        reason_code: v1::RouteReason::WaitsForEntries.into(),
        cut_off_endpoints: vec!["h7".to_owned()],
    };
    let routes = vec![v1::GroupRoute { gn, route: Some(route) }];
    let fence = Some(v1::Fence { term, generation: 1 });
    v1::ReportRoutesRequest { term, routes, fence, clean_revision: 0 }
}

#[tokio::test]
async fn a_reported_route_reaches_readers_watchers_and_the_agent() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    tic.join("g", 0, "p").await;
    let before = tic.group("g").await.unwrap();
    assert_eq!(before.route, None);
    let mut watch = tic.watch().await;
    assert!(watch.message().await.unwrap().unwrap().snapshot_end);
    let term = acquire(&tic).await;
    let request = report(term, before.gn, 5);
    let answer = tic.client.clone().report_routes(request.clone()).await.unwrap().into_inner();
    let after = tic.group("g").await.unwrap();
    assert_eq!(after.route, request.routes[0].route);
    assert_eq!((after.records_revision, after.members_revision), {
        (answer.revision, before.members_revision)
    });
    let seen = watch.message().await.unwrap().unwrap();
    assert_eq!(seen.revision, answer.revision);
    let Some(Kind::Group(group)) = &seen.changes[0].kind else { panic!("{seen:?}") };
    assert_eq!(group.route, after.route);

    let again = tic.client.clone().report_routes(request).await.unwrap().into_inner();
    assert_eq!(again.revision, answer.revision, "nothing new was said");
}

pub(crate) fn shared(term: u64, gn: u64, number: u64) -> v1::ReportRoutesRequest {
    let mut request = report(term, gn, 0);
    request.routes[0].route = Some(v1::Route {
        routed_revision: 1,
        state: v1::RouteState::UnicastOnly.into(),
        reason: format!("exclusive, {number}"),
        reason_code: v1::RouteReason::ExclusiveTreeShared.into(),
        ..Default::default()
    });
    request
}

/// A group that is reported as sharing gets another home with the same decision, until each
/// spanning tree that it could have alone was tried.
#[tokio::test]
async fn an_exclusive_group_that_would_share_its_tree_moves_until_it_has_one() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    let exclusive = v1::JoinGroupRequest { exclusive: true, ..join("mine", 0, "p") };
    tic.client.clone().join_group(exclusive).await.unwrap();
    tic.join("theirs", 0, "p").await;
    let (mine, theirs) = (tic.group("mine").await.unwrap(), tic.group("theirs").await.unwrap());
    let term = acquire(&tic).await;
    let mut homes = std::collections::BTreeSet::from([mine.mgid, theirs.mgid]);
    let report = async |request| tic.client.clone().report_routes(request).await.unwrap();
    for number in 0..3 {
        report(shared(term, mine.gn, number)).await;
        let moved = tic.group("mine").await.unwrap();
        assert_eq!(moved.mgid, mine.mgid, "members keep it");
        assert!(moved.members_revision > mine.members_revision);
        assert!(homes.insert(moved.home_mgid.unwrap()), "{moved:?}");
    }
    report(shared(term, theirs.gn, 9)).await;
    assert_eq!(tic.group("theirs").await.unwrap().home_mgid, None, "it may share");
    let before = tic.group("mine").await.unwrap();
    for number in 10..60 {
        report(shared(term, mine.gn, number)).await;
    }
    let last = tic.group("mine").await.unwrap();
    report(shared(term, mine.gn, 60)).await;
    assert_ne!(last.home_mgid, before.home_mgid);
    assert_eq!(tic.group("mine").await.unwrap().home_mgid, last.home_mgid, "all were tried");
}

/// The space of these tests: two groups that are asked onto one tree get different MGIDs of it.
#[tokio::test]
async fn groups_move_to_the_trees_that_are_asked_for() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    for name in ["a", "b", "c"] {
        tic.join(name, 0, "p").await;
    }
    let alone = v1::JoinGroupRequest { exclusive: true, ..join("alone", 0, "p") };
    tic.client.clone().join_group(alone).await.unwrap();
    let group = async |name: &str| tic.group(name).await.unwrap();
    let (a, b, c, alone) =
        (group("a").await, group("b").await, group("c").await, group("alone").await);
    let one = |group: &v1::Group, from_mgid, to_mgid| v1::GroupMove {
        group: group.name.clone(),
        from_mgid,
        to_mgid,
    };
    let moved = async |moves| {
        let request = v1::MoveGroupsRequest { moves };
        tic.client.clone().move_groups(request).await.map(tonic::Response::into_inner)
    };
    let missing = v1::Group { name: "gone".to_owned(), ..Default::default() };
    let answer = moved(vec![
        one(&a, a.mgid, c.mgid),
        one(&b, b.mgid, c.mgid),
        one(&c, c.mgid + 1, a.mgid), // it is not there
        one(&alone, alone.mgid, c.mgid),
        one(&missing, 0, 1),
    ]);
    let answer = answer.await.unwrap();
    assert_eq!(answer.moved_groups, ["a", "b"]);
    let homes = [group("a").await, group("b").await].map(|group| group.home_mgid.unwrap());
    assert_ne!(homes[0], homes[1]);
    let planned = tic.client.clone().plan_mgids(v1::PlanMgidsRequest::default()).await;
    planned.unwrap();
    for (before, after) in [(&a, group("a").await), (&b, group("b").await)] {
        assert_eq!(after.mgid, before.mgid, "members keep it");
        assert!(after.members_revision > before.members_revision);
        assert_eq!(after.members_revision, answer.revision);
    }
    assert_eq!((group("c").await, group("alone").await), (c.clone(), alone));

    // The home is another one by now; nothing changes.
    let again = moved(vec![one(&a, a.mgid, c.mgid)]).await.unwrap();
    assert_eq!((again.moved_groups, again.revision), (vec![], answer.revision));
    let back = moved(vec![one(&a, homes[0], a.mgid), one(&a, homes[0], b.mgid)]).await.unwrap();
    assert_eq!(back.moved_groups, ["a"], "the first of two counts");

    let refused = moved(vec![one(&c, c.mgid, a.mgid); 1001]).await.unwrap_err();
    assert_eq!(reason(&refused), "LIMIT_REACHED");
    assert_eq!(refused.message(), "moves: 1001 exceed the limit of 1000");
    let invalid = v1::Group { name: "a\n".to_owned(), ..Default::default() };
    let refused = moved(vec![one(&c, c.mgid, a.mgid), one(&invalid, 0, 0)]).await.unwrap_err();
    assert_eq!(reason(&refused), "NAME_INVALID");
    assert_eq!(group("c").await.home_mgid, None);
}

#[tokio::test]
async fn an_older_route_service_is_refused() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    tic.join("g", 0, "p").await;
    let gn = tic.group("g").await.unwrap().gn;
    let (old, new) = (acquire(&tic).await, acquire(&tic).await);
    assert!(new > old);
    let revision = tic.revision().await;
    for term in [old, new + 1] {
        let refused = tic.client.clone().report_routes(report(term, gn, 5)).await.unwrap_err();
        assert_eq!((refused.code(), reason(&refused).as_str()), (Code::Aborted, "STALE_TERM"));
    }
    assert_eq!(tic.revision().await, revision);
    assert_eq!(tic.group("g").await.unwrap().route, None);
    tic.client.clone().report_routes(report(new, gn, 5)).await.unwrap();
}
