//! Switch trees that members ask for: of the members that a group has, within entries and quotas.

use fabricast_proto::v1;
use tonic::Status;

use crate::choices;
use crate::harness::{Tic, join, leave, reason, switch};
use crate::shares::{reserve, reserved};

/// A request of process `p` on `n<number>`.
pub(crate) fn asks(group: &str, number: u32) -> v1::RequestSwitchTreeRequest {
    v1::RequestSwitchTreeRequest {
        group: group.to_owned(),
        node: format!("n{number}"),
        process: "p".to_owned(),
    }
}

pub(crate) async fn asked(
    tic: &Tic,
    request: v1::RequestSwitchTreeRequest,
) -> Result<v1::Collective, Status> {
    let answer = tic.collectives().request_switch_tree(request).await?;
    Ok(answer.into_inner().collective.unwrap())
}

/// The message of a refusal for want of a switch tree.
async fn no_tree(tic: &Tic, group: &str) -> String {
    let refused = asked(tic, asks(group, 0)).await.unwrap_err();
    assert_eq!(reason(&refused), "NO_SWITCH_TREE");
    refused.message().to_owned()
}

async fn shown(tic: &Tic, name: &str) -> Result<v1::Collective, Status> {
    let request = v1::GetCollectiveRequest { name: name.to_owned() };
    Ok(tic.collectives().get_collective(request).await?.into_inner().collective.unwrap())
}

pub(crate) async fn names(tic: &Tic) -> Vec<String> {
    let request = v1::ListCollectivesRequest::default();
    let listed = tic.collectives().list_collectives(request).await.unwrap().into_inner();
    listed.collectives.into_iter().map(|one| one.name).collect()
}

/// Entries that switches hold for collectives.
async fn entries(tic: &Tic) -> usize {
    let request = v1::GetEntryUsageRequest::default();
    let usage = tic.collectives().get_entry_usage(request).await.unwrap().into_inner();
    usage.switches.iter().map(|one| one.collectives.len()).sum()
}

/// Forms a group of process `p` on each of these nodes.
pub(crate) async fn form(tic: &Tic, group: &str, numbers: &[u32]) {
    for number in numbers {
        tic.register(*number).await;
        tic.join(group, *number, "p").await;
    }
}

async fn left(tic: &Tic, group: &str, number: u32) {
    tic.client.clone().leave_group(leave(group, number, "p")).await.unwrap();
}

pub(crate) async fn fails(tic: &Tic, elements: Vec<v1::Element>) {
    let reporter = "agent".to_owned();
    let report = v1::ReportFailedElementsRequest { reporter, elements };
    tic.client.clone().report_failed_elements(report).await.unwrap();
}

/// A collective of group `g` that an administrator creates.
pub(crate) async fn created(tic: &Tic, name: &str) -> Result<v1::Collective, Status> {
    let create = v1::CreateCollectiveRequest {
        name: name.to_owned(),
        group: "g".to_owned(),
        operations: vec![v1::CollectiveOperation::Barrier.into()],
        max_bytes: 8,
        ..Default::default()
    };
    let answer = tic.collectives().create_collective(create).await?;
    Ok(answer.into_inner().collective.unwrap())
}

async fn limit(tic: &Tic, tenant: &str, entries: Option<u32>) {
    let holder = Some(v1::CollectiveHolder { tenant: tenant.to_owned(), job: None });
    let quota = v1::CollectiveQuota { holder, entries, ..Default::default() };
    let request = v1::SetCollectiveQuotaRequest { quota: Some(quota) };
    tic.collectives().set_collective_quota(request).await.unwrap();
}

#[tokio::test]
async fn members_have_one_tree_whoever_of_them_asks_and_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tic.redb");
    let tic = Tic::on_file(&file).await;
    form(&tic, "g", &[0, 1, 4]).await;
    let first = asked(&tic, asks("g", 0)).await.unwrap();
    assert_eq!((first.state(), first.group.as_str()), (v1::CollectiveState::SwitchTree, "g"));
    assert!(first.requested_by_member && first.switch_tree_required && first.max_bytes > 0);
    let operations = [
        v1::CollectiveOperation::Barrier,
        v1::CollectiveOperation::Broadcast,
        v1::CollectiveOperation::AllReduce,
    ];
    assert_eq!(first.operations, operations.map(i32::from));
    assert!(first.processes.is_empty() && first.switch_tree.is_none(), "these are long");
    let whole = shown(&tic, &first.name).await.unwrap();
    let nodes: Vec<&str> = whole.processes.iter().map(|one| one.node.as_str()).collect();
    assert_eq!(nodes, ["n0", "n1", "n4"]);
    assert!(whole.switch_tree.is_some());
    for number in [4, 1, 0] {
        assert_eq!(asked(&tic, asks("g", number)).await.unwrap(), first);
    }
    tic.kill().await;

    let tic = Tic::on_file(&file).await;
    assert_eq!(shown(&tic, &first.name).await.unwrap(), whole);
    assert_eq!(asked(&tic, asks("g", 1)).await.unwrap(), first);
    left(&tic, "g", 4).await;
    assert_eq!(names(&tic).await, Vec::<String>::new());
    tic.kill().await;

    let tic = Tic::on_file(&file).await;
    assert_eq!(names(&tic).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_tree_ends_when_the_members_change_and_with_the_group() {
    let tic = Tic::on_memory().await;
    form(&tic, "g", &[0, 1]).await;
    let first = asked(&tic, asks("g", 0)).await.unwrap();
    tic.join("g", 1, "p").await;
    assert_eq!(asked(&tic, asks("g", 1)).await.unwrap(), first, "who has joined joins again");
    assert!(entries(&tic).await > 0);
    form(&tic, "g", &[2]).await;
    assert_eq!(reason(&shown(&tic, &first.name).await.unwrap_err()), "UNKNOWN_COLLECTIVE");
    assert_eq!(entries(&tic).await, 0);
    let second = asked(&tic, asks("g", 2)).await.unwrap();
    assert_eq!(shown(&tic, &second.name).await.unwrap().processes.len(), 3);
    left(&tic, "g", 2).await;
    assert_eq!(names(&tic).await, Vec::<String>::new());
    asked(&tic, asks("g", 0)).await.unwrap();
    left(&tic, "g", 0).await;
    left(&tic, "g", 1).await;
    assert_eq!((names(&tic).await.len(), entries(&tic).await), (0, 0));
    assert_eq!(reason(&asked(&tic, asks("g", 0)).await.unwrap_err()), "UNKNOWN_GROUP");
}

#[tokio::test]
async fn a_tree_is_for_two_members_or_more_and_for_nobody_else() {
    let tic = Tic::on_memory().await;
    form(&tic, "g", &[0]).await;
    tic.register(1).await;
    let by = |process: &str| v1::RequestSwitchTreeRequest {
        process: process.to_owned(),
        ..asks("g", 0)
    };
    for (request, why) in [
        (by("p"), "NO_SWITCH_TREE"),
        (by("q"), "NOT_A_MEMBER"),
        (by(""), "NAME_INVALID"),
        (asks("g", 1), "NOT_A_MEMBER"),
        (asks("h", 0), "UNKNOWN_GROUP"),
    ] {
        let refused = asked(&tic, request.clone()).await.unwrap_err();
        assert_eq!(reason(&refused), why, "{request:?}");
    }
    assert_eq!(names(&tic).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_tree_takes_entries_of_the_groups_tenant_or_job_and_none_of_others() {
    let tic = Tic::on_memory().await;
    form(&tic, "rows/1", &[0, 1]).await;
    form(&tic, "rows/2", &[0, 1]).await;
    // All entries of all switches.
    let reservation = v1::CollectiveReservation {
        holder: Some(v1::CollectiveHolder { tenant: "others".to_owned(), job: None }),
        entries: 16,
        endpoints: vec!["h0".to_owned(), "h4".to_owned()],
        ..Default::default()
    };
    let request = v1::ReserveEntriesRequest { reservation: Some(reservation) };
    let kept = tic.collectives().reserve_entries(request).await.unwrap().into_inner();
    let why = no_tree(&tic, "rows/1").await;
    assert!(why.starts_with("no switch tree: no entries left"), "{why}");
    assert_eq!(names(&tic).await, Vec::<String>::new());
    let id = kept.reservation.unwrap().id;
    let cancel = v1::CancelReservationRequest { id };
    tic.collectives().cancel_reservation(cancel).await.unwrap();

    let first = asked(&tic, asks("rows/1", 0)).await.unwrap();
    assert_eq!((first.tenant.as_str(), first.job.as_str()), ("rows", ""));
    limit(&tic, "rows", Some(1)).await;
    assert_eq!(
        no_tree(&tic, "rows/2").await,
        "no switch tree: tenant 'rows' may hold 1 entries, has 1 and would need 1 more"
    );
    assert_eq!(asked(&tic, asks("rows/1", 1)).await.unwrap(), first);

    let nodes = reserve("slurm-7", &["n0", "n1"]);
    let job = v1::ReserveJobRequest { account: "physics".to_owned(), ..nodes };
    reserved(&tic, job.clone()).await.unwrap();
    for number in [0, 1] {
        let join = join("job/slurm-7/a", number, "p");
        let join = v1::JoinGroupRequest { job_token: job.token.clone(), ..join };
        tic.client.clone().join_group(join).await.unwrap();
    }
    let of_job = asked(&tic, asks("job/slurm-7/a", 0)).await.unwrap();
    assert_eq!((of_job.tenant.as_str(), of_job.job.as_str()), ("physics", "slurm-7"));
}

#[tokio::test]
async fn an_administrators_tree_of_the_same_members_is_theirs() {
    let tic = Tic::on_memory().await;
    form(&tic, "g", &[0, 1]).await;
    created(&tic, "c").await.unwrap();
    let found = asked(&tic, asks("g", 0)).await.unwrap();
    assert_eq!((found.name.as_str(), found.requested_by_member), ("c", false));
    form(&tic, "g", &[2]).await;
    let own = asked(&tic, asks("g", 2)).await.unwrap();
    assert!(own.requested_by_member);
    assert_eq!(names(&tic).await, ["c".to_owned(), own.name]);
}

#[tokio::test]
async fn a_tree_that_a_failure_took_comes_back_and_is_asked_for_again() {
    let tic = Tic::on_memory().await;
    form(&tic, "rows/1", &[0, 4]).await;
    let first = asked(&tic, asks("rows/1", 0)).await.unwrap();
    fails(&tic, vec![switch("S-2")]).await;
    let why = no_tree(&tic, "rows/1").await;
    assert_eq!(why, "no switch tree: no switch is above all members");
    let waiting = shown(&tic, &first.name).await.unwrap();
    assert_eq!(waiting.state(), v1::CollectiveState::Adapters);
    fails(&tic, Vec::new()).await;
    let again = asked(&tic, asks("rows/1", 4)).await.unwrap();
    assert_eq!((again.state(), &again.name), (v1::CollectiveState::SwitchTree, &first.name));

    // Nothing but another request ends the wait for a quota.
    fails(&tic, vec![switch("S-2")]).await;
    no_tree(&tic, "rows/1").await;
    limit(&tic, "rows", Some(0)).await;
    fails(&tic, Vec::new()).await;
    let why = no_tree(&tic, "rows/1").await;
    assert!(why.contains("tenant 'rows' may hold 0 entries"), "{why}");
    limit(&tic, "rows", None).await;
    let again = asked(&tic, asks("rows/1", 0)).await.unwrap();
    assert_eq!((again.state(), &again.name), (v1::CollectiveState::SwitchTree, &first.name));
    assert_eq!(names(&tic).await, [first.name]);
    assert!(entries(&tic).await > 0);
}

#[tokio::test]
async fn nobody_else_gives_the_names_of_trees_that_members_ask_for() {
    let tic = Tic::on_memory().await;
    form(&tic, "g", &[0, 1]).await;
    for name in ["requested/1", "requested/"] {
        let refused = created(&tic, name).await.unwrap_err();
        assert_eq!(reason(&refused), "NAME_INVALID");
        assert!(refused.message().starts_with("name: "), "{}", refused.message());
    }
    let own = asked(&tic, asks("g", 0)).await.unwrap();
    assert!(own.name.starts_with("requested/"), "{}", own.name);
    assert_eq!(created(&tic, "requested").await.unwrap().name, "requested");
}

#[tokio::test]
async fn a_list_that_the_caller_has_is_left_out() {
    let tic = Tic::on_memory().await;
    form(&tic, "g", &[0, 1]).await;
    let list = async |unless_revision| {
        let request = v1::ListCollectivesRequest { unless_revision, ..Default::default() };
        tic.collectives().list_collectives(request).await.unwrap().into_inner()
    };
    let empty = list(0).await;
    assert!(empty.revision > 0 && !empty.unchanged && empty.collectives.is_empty());
    let same = list(empty.revision).await;
    assert!(same.unchanged && same.collectives.is_empty() && same.revision == empty.revision);
    let whole = created(&tic, "c").await.unwrap();
    assert!(whole.switch_tree.is_some() && whole.processes.len() == 2 && whole.revision > 0);
    let filled = list(empty.revision).await;
    let expected = v1::Collective {
        processes: vec![],
        switch_tree: None,
        adapter_tree: None,
        ..whole.clone()
    };
    assert_eq!((filled.unchanged, &filled.collectives), (false, &vec![expected]));
    assert!(list(filled.revision).await.unchanged);
    let term = choices::acquire(&tic).await;
    let trees = v1::ReportAggregationTreesRequest { term, revision: 1, missing_trees: vec![] };
    tic.collectives().report_aggregation_trees(trees.clone()).await.unwrap();
    let programmed = list(filled.revision).await;
    assert!(programmed.collectives[0].programmed && !filled.collectives[0].programmed);
    tic.collectives().report_aggregation_trees(trees).await.unwrap();
    assert!(list(programmed.revision).await.unchanged, "the report says nothing new");
    let missing_trees = vec![whole.switch_tree.unwrap().tree];
    let trees = v1::ReportAggregationTreesRequest { term, revision: 1, missing_trees };
    tic.collectives().report_aggregation_trees(trees).await.unwrap();
    assert!(!list(programmed.revision).await.collectives[0].programmed);
}
