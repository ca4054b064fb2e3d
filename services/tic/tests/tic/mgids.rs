//! The TIC's choice of MGIDs: previews, and hints of requests that create groups.

use fabricast_proto::v1;

use crate::harness::{Tic, join, leave, reason};

fn group(name: &str, endpoints: &[&str]) -> v1::PlannedGroup {
    let endpoints = endpoints.iter().map(|name| (*name).to_owned()).collect();
    v1::PlannedGroup { group: name.to_owned(), endpoints }
}

async fn plan(tic: &Tic, groups: Vec<v1::PlannedGroup>) -> Vec<v1::PlannedMgid> {
    let request = v1::PlanMgidsRequest { groups };
    tic.client.clone().plan_mgids(request).await.unwrap().into_inner().mgids
}

#[tokio::test]
async fn a_plan_shows_the_later_choices_and_changes_nothing() {
    let tic = Tic::on_memory().await;
    for number in 0..3 {
        tic.register(number).await;
    }
    let groups = || vec![group("a", &["h0", "h1"]), group("b", &["h1", "h2"]), group("c", &["h4"])];
    let before = tic.revision().await;
    let planned = plan(&tic, groups()).await;
    assert_eq!(planned, plan(&tic, groups()).await);
    assert_eq!(tic.revision().await, before);
    let names: Vec<&str> = planned.iter().map(|one| one.group.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(planned.iter().all(|one| one.conflicting_members + one.merging_members == 0));
    assert_ne!(planned[0].color, planned[1].color, "h1 is in both");
    tic.join("a", 0, "p").await;
    assert_eq!(tic.group("a").await.unwrap().mgid, planned[0].mgid);
    assert_ne!(plan(&tic, groups()).await[0].mgid, planned[0].mgid, "it is taken now");

    let unknown = v1::PlanMgidsRequest { groups: vec![group("a", &["h0", "h9"])] };
    let refused = tic.client.clone().plan_mgids(unknown).await.unwrap_err();
    assert_eq!(reason(&refused), "UNKNOWN_ENDPOINT");
    assert_eq!(refused.message(), "groups.endpoints: no endpoint 'h9' in the topology");
}

/// A fabric of one spine has one spanning tree for each color, so MGIDs below 32 are colors.
#[tokio::test]
async fn expected_members_and_layers_keep_groups_apart() {
    let tic = Tic::on_memory().await;
    for number in 0..4 {
        tic.register(number).await;
    }
    let hinted = |name: &str, first: u32, hints: v1::MgidHints| v1::JoinGroupRequest {
        hints: Some(hints),
        ..join(name, first, "p")
    };
    let expecting = |endpoint: &str| v1::MgidHints {
        expected_endpoints: vec![endpoint.to_owned()],
        ..Default::default()
    };
    let in_layer = |name: &str| v1::MgidHints { layer: name.to_owned(), ..Default::default() };
    let mut client = tic.client.clone();
    // h3 is expected in both, though it has joined neither.
    let mgid = |answer: v1::JoinGroupResponse| answer.group.unwrap().mgid;
    let a = mgid(client.join_group(hinted("a", 0, expecting("h3"))).await.unwrap().into_inner());
    let b = mgid(client.join_group(hinted("b", 1, expecting("h3"))).await.unwrap().into_inner());
    assert_ne!(a % 32, b % 32);
    for name in ["a", "b"] {
        tic.join(name, 3, "p").await;
        client.leave_group(leave(name, 3, "p")).await.unwrap();
    }
    let rows = client.join_group(hinted("r", 0, in_layer("grid/rows"))).await.unwrap();
    let columns = client.join_group(hinted("k", 2, in_layer("grid/columns"))).await.unwrap();
    let (rows, columns) = (rows.into_inner().group.unwrap(), columns.into_inner().group.unwrap());
    assert_ne!(rows.mgid % 32, columns.mgid % 32, "they belong together");
    assert_eq!((rows.layer.as_str(), columns.layer.as_str()), ("grid/rows", "grid/columns"));

    let bad = hinted("x", 0, expecting("h9"));
    assert_eq!(reason(&client.join_group(bad).await.unwrap_err()), "UNKNOWN_ENDPOINT");
    let bad = hinted("x", 0, in_layer("a\nb"));
    assert_eq!(reason(&client.join_group(bad).await.unwrap_err()), "NAME_INVALID");
}
