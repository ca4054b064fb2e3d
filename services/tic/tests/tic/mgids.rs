//! The TIC's choice of MGIDs: previews, and hints of requests that create groups.

use std::collections::BTreeMap;

use fabricast_proto::v1;

use crate::batches::batches;
use crate::harness::{Tic, join, leave, reason};

fn group(name: &str, endpoints: &[&str]) -> v1::PlannedGroup {
    let endpoints = endpoints.iter().map(|name| (*name).to_owned()).collect();
    v1::PlannedGroup { group: name.to_owned(), endpoints, ..Default::default() }
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
    let again = plan(&tic, [groups(), vec![group("d", &["h0", "h1"])]].concat()).await;
    assert_eq!(again[0].mgid, planned[0].mgid, "a group that exists keeps its MGID");
    let crossed = again[0].conflicting_members + again[0].merging_members;
    assert_eq!(crossed, 0, "h0 is a member already, and not met on the tree of its own group");
    assert_ne!(again[3].mgid, planned[0].mgid, "it is taken now");

    let unknown = v1::PlanMgidsRequest { groups: vec![group("a", &["h0", "h9"])] };
    let refused = tic.client.clone().plan_mgids(unknown).await.unwrap_err();
    assert_eq!(reason(&refused), "UNKNOWN_ENDPOINT");
    assert_eq!(refused.message(), "groups.endpoints: no endpoint 'h9' in the topology");
}

/// Rows and columns of 4x4 processes, two to a node, in an order that depends on `seed`.
fn grid(seed: u64) -> Vec<v1::PlannedGroup> {
    let host = |at: u64| format!("h{}", at / 2);
    let distinct = |mut endpoints: Vec<String>| {
        endpoints.dedup();
        endpoints
    };
    let rows = (0..4).map(|row| ("row", row, (0..4).map(|at| host(4 * row + at)).collect()));
    let columns = (0..4).map(|column| {
        ("column", column, (0..4).map(|at| host(4 * at + column)).collect::<Vec<_>>())
    });
    let mut groups: Vec<v1::PlannedGroup> = rows
        .chain(columns)
        .map(|(kind, at, endpoints): (_, _, Vec<String>)| v1::PlannedGroup {
            group: format!("{kind}/{at}"),
            endpoints: distinct(endpoints),
            ..Default::default()
        })
        .collect();
    let scatter = |name: &str| {
        name.bytes()
            .fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    groups.sort_by_cached_key(|group| scatter(&group.group));
    groups
}

fn by_name(mgids: &[v1::PlannedMgid]) -> BTreeMap<String, u32> {
    mgids.iter().map(|one| (one.group.clone(), one.mgid)).collect()
}

/// Forms the groups with one call, several processes on each endpoint.
async fn form(tic: &Tic, groups: &[v1::PlannedGroup], id: &str) -> BTreeMap<String, u32> {
    let member = |endpoint: &String, process: u32| v1::FormedMember {
        endpoint: endpoint.clone(),
        process: format!("p{process}"),
        ..Default::default()
    };
    let spec = |group: &v1::PlannedGroup| v1::FormedGroupSpec {
        group: group.group.clone(),
        members: group
            .endpoints
            .iter()
            .flat_map(|name| [member(name, 0), member(name, 1)])
            .collect(),
        mgid: group.mgid,
        layer: group.layer.clone(),
        ..Default::default()
    };
    // Two messages, so that no message is the whole batch.
    let (first, second) = groups.split_at(groups.len() / 2);
    let messages = [first, second].map(|groups| v1::FormGroupsRequest {
        request_id: id.to_owned(),
        groups: groups.iter().map(spec).collect(),
        ..Default::default()
    });
    let mut batches = batches(tic);
    let mut answers = batches.form_groups(tokio_stream::iter(messages)).await.unwrap().into_inner();
    let mut mgids = BTreeMap::new();
    while let Some(answer) = answers.message().await.unwrap() {
        mgids.extend(answer.groups.into_iter().map(|group| (group.group, group.mgid)));
    }
    mgids
}

#[tokio::test]
async fn what_is_planned_is_what_is_formed_whatever_the_order() {
    let mut formed = Vec::new();
    for seed in 0..3 {
        let tic = Tic::on_memory().await;
        for number in 0..8 {
            tic.register(number).await;
        }
        tic.join("there/before", 3, "p").await;
        let mut groups = grid(seed);
        let fixed = groups.iter().position(|group| group.group == "row/2").unwrap();
        groups[fixed].mgid = Some(77);
        let in_layer = groups.iter().position(|group| group.group == "row/3").unwrap();
        groups[in_layer].layer = "job/rows".to_owned();
        groups.push(group("there/before", &["h3", "h4"]));
        let planned = plan(&tic, groups.clone()).await;
        let conflicts = planned.iter().map(|one| one.conflicting_members);
        assert_eq!(conflicts.sum::<u32>(), 0, "{planned:?}");
        let planned = by_name(&planned);
        assert_eq!(planned["row/2"], 77);
        assert_eq!(planned, by_name(&plan(&tic, reordered(&groups, seed + 7)).await));
        let mgids = form(&tic, &groups, "one").await;
        assert_eq!(mgids, planned);
        assert_eq!(mgids, form(&tic, &groups, "one").await, "a repetition");
        assert_eq!(mgids, by_name(&plan(&tic, groups).await), "they exist now");
        formed.push(mgids);
    }
    formed.dedup();
    assert_eq!(formed.len(), 1);
}

/// The same groups in another order.
fn reordered(groups: &[v1::PlannedGroup], turn: u64) -> Vec<v1::PlannedGroup> {
    let mut groups = groups.to_vec();
    let turn = usize::try_from(turn).unwrap() % groups.len();
    groups.rotate_left(turn);
    groups.reverse();
    groups
}

#[tokio::test]
async fn a_plan_is_refused_for_what_forming_would_be_refused_for() {
    let tic = Tic::on_memory().await;
    tic.register(0).await;
    let there = {
        tic.join("there", 0, "p").await;
        tic.group("there").await.unwrap().mgid
    };
    let refused = |groups: Vec<v1::PlannedGroup>| {
        let request = v1::PlanMgidsRequest { groups };
        let mut client = tic.client.clone();
        async move { reason(&client.plan_mgids(request).await.unwrap_err()) }
    };
    let given =
        |name: &str, mgid: u32| v1::PlannedGroup { mgid: Some(mgid), ..group(name, &["h0"]) };
    assert_eq!(refused(vec![given("new", there)]).await, "MGID_IN_USE");
    assert_eq!(refused(vec![given("", there)]).await, "MGID_IN_USE");
    assert_eq!(refused(vec![given("there", there + 1)]).await, "GROUP_DIFFERS");
    assert_eq!(refused(vec![given("new", u32::MAX)]).await, "MGID_OUT_OF_RANGE");
    assert_eq!(refused(vec![given("a", 90), given("b", 90)]).await, "MGID_IN_USE");
    assert_eq!(refused(vec![group("a\nb", &["h0"])]).await, "NAME_INVALID");
    let layer = v1::PlannedGroup { layer: "x\ny".to_owned(), ..group("new", &["h0"]) };
    assert_eq!(refused(vec![layer]).await, "NAME_INVALID");
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
