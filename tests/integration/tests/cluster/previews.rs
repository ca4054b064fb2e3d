//! Previews of failures come true when the parts fail.

use fabricast_integration::{Client, Cluster, Layout, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_rpc::Reason;

fn request(failed: Kind, links_of: &str) -> v1::PlanFaultsRequest {
    let failed = vec![v1::Element { kind: Some(failed) }];
    v1::PlanFaultsRequest { failed, links_of: links_of.to_owned(), ..Default::default() }
}

/// The tree of a route, without what is said of it.
fn tree(route: &v1::RouteExplanation) -> (Option<u32>, Option<u32>, String, Vec<v1::TreeLink>) {
    let mut links = route.links.clone();
    links.sort_by_key(|link| (link.switch_name.clone(), link.port, link.tree));
    (route.color, route.spanning_tree, route.root.clone(), links)
}

/// Waits until the TIC knows of so many failed parts, and the tables are made for them.
async fn settled_with_failures(client: &Client, count: usize) {
    eventually("the TIC knows what failed", async || {
        let failed = client.failed_elements().await?;
        (failed.len() == count).then_some(()).ok_or_else(|| format!("{failed:?}"))
    })
    .await;
    client.settled().await;
}

async fn previews_come_true(layout: Layout) {
    let cluster = Cluster::start(layout).await;
    let client = &cluster.client;
    for (group, members) in [("a", ["n0", "n5", "n10"]), ("b", ["n1", "n6", "n11"])] {
        client.join_all(group, &members).await;
    }
    client.settled().await;
    let (before, link) = (client.explain("a").await.unwrap(), client.tree_link("a").await);
    let revision = client.revision().await;
    let planned = client.router().plan_faults(request(link.clone(), "a")).await;
    let planned = planned.unwrap().into_inner();
    assert_eq!(client.revision().await, revision, "it only plans");
    let change = planned.changes.iter().find(|one| one.after.as_ref().unwrap().group == "a");
    let change = change.expect("its tree has the link");
    assert_eq!(tree(change.before.as_ref().unwrap()), tree(&before));
    assert_eq!(planned.changed_groups as usize, planned.changes.len());
    let unnamed = client.router().plan_faults(request(link.clone(), "")).await;
    let unnamed = unnamed.unwrap().into_inner();
    assert_eq!(unnamed.changes[0], *change, "the first one that has a tree then");

    client.fail(link.clone()).await;
    settled_with_failures(client, 1).await;
    let after = client.explain("a").await.unwrap();
    assert_eq!(tree(change.after.as_ref().unwrap()), tree(&after));
    assert_eq!(change.after.as_ref().unwrap().reason, after.reason);
    let status = client.route_status().await.unwrap();
    let figures = planned.after.unwrap();
    assert_eq!((figures.max_efi, figures.max_tfi), (status.max_efi, status.max_tfi));

    let healed = v1::PlanFaultsRequest {
        healed: vec![v1::Element { kind: Some(link.clone()) }],
        links_of: "a".to_owned(),
        ..Default::default()
    };
    let planned = client.router().plan_faults(healed).await.unwrap().into_inner();
    client.heal(link).await;
    settled_with_failures(client, 0).await;
    let back = client.explain("a").await.unwrap();
    let change = planned.changes.iter().find(|one| one.after.as_ref().unwrap().group == "a");
    match change {
        Some(change) => assert_eq!(tree(change.after.as_ref().unwrap()), tree(&back)),
        None => assert_eq!(tree(&back), tree(&after), "it stays where it is"),
    }
}

#[tokio::test]
async fn a_preview_of_a_failure_comes_true() {
    previews_come_true(Layout::leaf_spine()).await;
}

#[tokio::test]
async fn a_preview_of_an_engine_with_choices_comes_true() {
    let layout = Layout { engine: "c-mr4lms-dynamic".parse().unwrap(), ..Layout::leaf_spine() };
    previews_come_true(layout).await;
}

#[tokio::test]
async fn changes_are_listed_after_a_group() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    for (group, members) in [("a", ["n0", "n5", "n10"]), ("b", ["n0", "n6", "n11"])] {
        client.join_all(group, &members).await;
    }
    client.settled().await;
    let cases: [(&str, &[&str]); 3] = [("", &["a", "b"]), ("a", &["b"]), ("b", &[])];
    for (after_group, listed) in cases {
        let request = v1::PlanFaultsRequest {
            after_group: after_group.to_owned(),
            ..request(Kind::Endpoint("h0".to_owned()), "")
        };
        let planned = client.router().plan_faults(request).await.unwrap().into_inner();
        assert_eq!(planned.changed_groups, 2, "after '{after_group}'");
        let mut names = Vec::new();
        for change in planned.changes {
            assert_eq!(change.member_count, 3);
            let after = change.after.unwrap();
            assert_eq!(after.cut_off_endpoints, ["h0"]);
            names.push(after.group);
        }
        assert_eq!(names, listed);
    }
}

#[tokio::test]
async fn loads_of_links_are_those_of_the_routes() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = &cluster.client;
    client.join_all("a", &["n0", "n5"]).await;
    client.settled().await;
    let loads = client.router().list_link_loads(v1::ListLinkLoadsRequest {}).await;
    let loads = loads.unwrap().into_inner();
    let sum: u32 = loads.switches.iter().flat_map(|one| &one.groups).sum();
    let route = client.explain("a").await.unwrap();
    assert_eq!(sum as usize, route.links.len(), "each link of the only tree carries one group");
}

#[tokio::test]
async fn previews_of_nothing_and_of_unknown_parts_are_refused() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut router = cluster.client.router();
    let nothing = router.plan_faults(v1::PlanFaultsRequest::default()).await.unwrap_err();
    assert!(Reason::FieldMissing.is_of(&nothing), "{nothing}");
    let unknown = request(Kind::SwitchName("no such switch".to_owned()), "");
    let unknown = router.plan_faults(unknown).await.unwrap_err();
    assert!(Reason::UnknownElement.is_of(&unknown), "{unknown}");
    let mut many = request(Kind::SwitchName("no such switch".to_owned()), "");
    many.healed = vec![many.failed[0].clone(); 1000];
    let many = router.plan_faults(many).await.unwrap_err();
    assert!(Reason::LimitReached.is_of(&many), "{many}");
}
