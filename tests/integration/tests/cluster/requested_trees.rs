//! Switch trees that programs ask for: operations run on them, and they end with their members.

use fabricast_client::{Error, Group, Reduction, SwitchTree};
use fabricast_integration::{Cluster, Layout, eventually};
use fabricast_proto::v1;

use crate::talking::{NODES, all, form, knows};

/// All ask at once.
async fn asked(groups: &[Group]) -> Vec<SwitchTree> {
    all(groups, |group| async move { group.request_switch_tree().await }).await
}

/// All add up their ranks, and all get the right sum.
async fn adds_up(groups: &[Group]) {
    let ranks: u32 = groups.iter().map(Group::rank).sum();
    let add = |group: Group| async move {
        let rank = group.rank();
        group.all_reduce(Reduction::Sum, &[rank]).await
    };
    let sums = all(groups, add).await;
    assert!(sums.iter().all(|sum| *sum == [ranks]), "{sums:?} in place of {ranks}");
}

/// All add up until switches have combined for all of them.
async fn switches_combine(groups: &[Group]) {
    let before: Vec<u64> = groups.iter().map(Group::combined_by_switches).collect();
    eventually("switches combine", async || {
        adds_up(groups).await;
        let now: Vec<u64> = groups.iter().map(Group::combined_by_switches).collect();
        let is_more = now.iter().zip(&before).all(|(now, before)| now > before);
        is_more.then_some(()).ok_or_else(|| format!("{before:?}, then {now:?}"))
    })
    .await;
}

/// The number of collectives, and of entries that switches hold for them.
async fn held(cluster: &Cluster) -> (usize, usize) {
    let mut tic = cluster.client.collectives();
    let listed = tic.list_collectives(v1::ListCollectivesRequest::default()).await.unwrap();
    let usage = tic.get_entry_usage(v1::GetEntryUsageRequest {}).await.unwrap().into_inner();
    let entries = usage.switches.iter().map(|one| one.collectives.len()).sum();
    (listed.into_inner().collectives.len(), entries)
}

/// Reason and message of a refusal.
fn refused(answer: Result<SwitchTree, Error>) -> (String, String) {
    match answer {
        Err(Error::Refused { reason, message, .. }) => (reason, message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_run_through_switches_once_a_program_has_asked() {
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut groups = form(&cluster, "g", &NODES).await;
    adds_up(&groups).await;
    assert!(groups.iter().all(|group| group.combined_by_switches() == 0));
    let trees = asked(&groups).await;
    let first = trees[0].clone();
    assert!(trees.iter().all(|tree| *tree == first) && first.max_bytes >= 8, "{trees:?}");
    let found = cluster.client.collective(&first.collective, |one| one.requested_by_member).await;
    assert_eq!((found.state(), found.processes.len()), (v1::CollectiveState::SwitchTree, 4));
    switches_combine(&groups).await;

    cluster.tic.kill();
    cluster.tic.restart().await;
    let after = cluster.client.collective(&first.collective, |_| true).await;
    assert_eq!(after.switch_tree, found.switch_tree);
    assert_eq!(asked(&groups).await, trees);
    switches_combine(&groups).await;

    // The tree ends with the first member that leaves, and the others ask for one of their own.
    groups.pop().unwrap().leave().await.unwrap();
    assert_eq!(held(&cluster).await, (0, 0));
    knows(&groups, &[0, 1, 2]).await;
    adds_up(&groups).await;
    let second = asked(&groups).await.remove(0);
    cluster.client.collective(&second.collective, |one| one.processes.len() == 3).await;
    switches_combine(&groups).await;
    for group in groups {
        group.leave().await.unwrap();
    }
    assert_eq!(held(&cluster).await, (0, 0), "the group has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_tree_counts_beside_one_of_former_members() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut groups = form(&cluster, "g", &NODES).await;
    // An administrator's stays, though its members are not those of the group any more.
    cluster.client.create_collective("a", "g", "").await.unwrap();
    groups.pop().unwrap().leave().await.unwrap();
    knows(&groups, &[0, 1, 2]).await;
    let trees = asked(&groups).await;
    assert!(trees.iter().all(|tree| tree.collective != "a"), "{trees:?}");
    switches_combine(&groups).await;
    assert_eq!(held(&cluster).await.0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_told_why_there_is_no_tree_and_goes_on_without() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut groups = form(&cluster, "poor/g", &NODES[..2]).await;
    let quota = v1::CollectiveQuota {
        holder: Some(v1::CollectiveHolder { tenant: "poor".to_owned(), job: None }),
        entries: Some(0),
        ..Default::default()
    };
    let request = v1::SetCollectiveQuotaRequest { quota: Some(quota) };
    cluster.client.collectives().set_collective_quota(request).await.unwrap();
    let (reason, message) = refused(groups[0].request_switch_tree().await);
    assert_eq!(reason, "NO_SWITCH_TREE");
    assert!(message.contains("tenant 'poor' may hold 0 entries"), "{message}");
    adds_up(&groups).await;
    assert_eq!(held(&cluster).await, (0, 0));
    let gone = groups.pop().unwrap();
    gone.clone().leave().await.unwrap();
    let answer = gone.request_switch_tree().await;
    assert!(matches!(answer, Err(Error::NotAMember { .. })), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_whose_fabric_is_not_emulated_have_no_switches_that_combine() {
    let cluster = Cluster::start(Layout::leaf_spine().with_direct_paths()).await;
    let groups = form(&cluster, "g", &NODES[..2]).await;
    let (reason, _) = refused(groups[0].request_switch_tree().await);
    assert_eq!(reason, "NO_AGGREGATION");
    adds_up(&groups).await;
}
