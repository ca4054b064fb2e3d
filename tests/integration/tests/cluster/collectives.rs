//! Collectives in the network: who gets which tree, what runs on it, and what failures do to it.

use fabricast_integration::{Client, Cluster, Layout, Operation, eventually, number};
use fabricast_proto::v1;
use fabricast_proto::v1::aggregation_node;
use fabricast_proto::v1::element::Kind;
use fabricast_rpc::reason_of;

const MEMBERS: &[&str] = &["n0", "n3", "n5", "n8", "n11", "n14"];

async fn with_groups() -> Cluster {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    cluster.client.join_all("wide", MEMBERS).await;
    cluster.client.join_all("near", &["n0", "n1"]).await;
    cluster
}

fn tree(collective: &v1::Collective) -> u32 {
    collective.switch_tree.as_ref().unwrap().tree
}

/// The root switch of a tree.
fn root(collective: &v1::Collective) -> String {
    let entries = &collective.switch_tree.as_ref().unwrap().entries;
    match entries[0].holder.as_ref().unwrap().kind.as_ref().unwrap() {
        aggregation_node::Kind::SwitchName(name) => name.clone(),
        aggregation_node::Kind::Process(_) => panic!("a switch tree has switches"),
    }
}

fn work(operation: v1::CollectiveOperation, root_process: u32) -> v1::CollectiveWork {
    let reduction = match operation {
        v1::CollectiveOperation::Reduce | v1::CollectiveOperation::AllReduce => v1::Reduction::Max,
        _ => v1::Reduction::Unspecified,
    };
    v1::CollectiveWork { operation: operation.into(), reduction: reduction.into(), root_process }
}

/// Runs one operation in which process N contributes N, if it contributes a value. Returns the
/// results of all.
async fn run(
    client: &Client,
    collective: &v1::Collective,
    sequence: u64,
    work: v1::CollectiveWork,
) -> Vec<Option<v1::CollectiveValues>> {
    let brings = |process: usize| match work.operation() {
        v1::CollectiveOperation::Barrier => false,
        v1::CollectiveOperation::Broadcast => process == work.root_process as usize,
        _ => true,
    };
    let parts: Vec<_> = (0..collective.processes.len())
        .map(|process| {
            let value = brings(process).then(|| number(i64::try_from(process).unwrap()));
            client.contribute(collective, process, Operation { sequence, work }, value)
        })
        .collect();
    let mut got = Vec::new();
    for part in parts {
        got.push(part.await.unwrap().unwrap().into_inner().values);
    }
    got
}

#[tokio::test]
async fn every_operation_gives_what_a_plain_computation_gives() {
    let cluster = with_groups().await;
    let client = &cluster.client;
    client.create_collective("c", "wide", "t").await.unwrap();
    let wide = client.collective("c", |one| one.switch_tree.is_some()).await;
    client.adds_up(&wide, 1).await;
    let all = v1::CollectiveOperation::AllReduce;
    assert_eq!(run(client, &wide, 2, work(all, 0)).await, vec![Some(number(5)); 6]);
    let broadcast = v1::CollectiveOperation::Broadcast;
    assert_eq!(run(client, &wide, 3, work(broadcast, 4)).await, vec![Some(number(4)); 6]);
    let barrier = v1::CollectiveOperation::Barrier;
    assert_eq!(run(client, &wide, 4, work(barrier, 0)).await, vec![None; 6]);
    let reduced = run(client, &wide, 5, work(v1::CollectiveOperation::Reduce, 2)).await;
    let only = (0..6).map(|process| (process == 2).then(|| number(5)));
    assert_eq!(reduced, only.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_switch_that_dies_in_the_middle_ends_the_run_and_moves_only_what_it_carried() {
    let cluster = with_groups().await;
    let client = &cluster.client;
    client.create_collective("hit", "wide", "t").await.unwrap();
    client.create_collective("spared", "near", "t").await.unwrap();
    let hit = client.collective("hit", |one| one.switch_tree.is_some()).await;
    let spared = client.collective("spared", |one| one.switch_tree.is_some()).await;
    // All but the last have sent; what they wait for is gone with the switch.
    let sum = Operation { sequence: 1, work: work(v1::CollectiveOperation::AllReduce, 0) };
    let waiting: Vec<_> =
        (0..5).map(|process| client.contribute(&hit, process, sum, Some(number(1)))).collect();
    let dead = Kind::SwitchName(root(&hit));
    client.fail(dead.clone()).await;
    let last = client.contribute(&hit, 5, sum, Some(number(1)));
    for part in waiting.into_iter().chain([last]) {
        match part.await.unwrap() {
            // A late caller may hear that the tree is moving already.
            Err(refused) => {
                let reason = reason_of(&refused).unwrap();
                let told = ["COLLECTIVE_FAILED", "NOT_PROGRAMMED"].contains(&reason.as_str());
                assert!(told, "{refused:?}");
            }
            // On a slow machine all of them may have come when there was a new tree.
            Ok(answer) => assert_eq!(answer.into_inner().values, Some(number(6))),
        }
    }
    let moved = client.collective("hit", |one| tree(one) != tree(&hit)).await;
    client.adds_up(&moved, 2).await;
    let same = client.collective("spared", |_| true).await;
    assert_eq!(same.switch_tree, spared.switch_tree, "what was not hit stays");
    client.heal(dead).await;
    client.adds_up(&same, 3).await;
}

#[tokio::test]
async fn trees_survive_a_kill_of_every_part_and_switches_are_read_back() {
    let mut cluster = with_groups().await;
    cluster.client.create_collective("c", "wide", "t").await.unwrap();
    let before = cluster.client.collective("c", |one| one.switch_tree.is_some()).await;
    cluster.tic.kill();
    cluster.tic.restart().await;
    let after = cluster.client.collective("c", |_| true).await;
    assert_eq!((&after.switch_tree, &after.processes), (&before.switch_tree, &before.processes));
    cluster.router.kill();
    cluster.router.restart().await;
    for agent in &mut cluster.switches {
        agent.kill();
        agent.restart().await;
    }
    let client = &cluster.client;
    // A collective created meanwhile shows that the new route service is at work.
    client.create_collective("later", "near", "t").await.unwrap();
    let later = client.collective("later", |one| one.switch_tree.is_some()).await;
    assert_ne!(tree(&later), tree(&before), "a number is never used twice");
    client.adds_up(&later, 1).await;
    let after = client.collective("c", |_| true).await;
    assert_eq!(after.switch_tree, before.switch_tree);
    client.adds_up(&after, 2).await;
}

#[tokio::test]
async fn those_who_find_no_entry_run_on_adapters_and_say_why() {
    let cluster = with_groups().await;
    let client = &cluster.client;
    let quota = v1::CollectiveQuota {
        holder: Some(v1::CollectiveHolder { tenant: "poor".to_owned(), job: None }),
        collectives: Some(2),
        entries: Some(1),
        entries_per_switch: None,
    };
    let request = v1::SetCollectiveQuotaRequest { quota: Some(quota) };
    client.collectives().set_collective_quota(request).await.unwrap();
    client.create_collective("first", "wide", "poor").await.unwrap();
    client.create_collective("second", "wide", "poor").await.unwrap();
    let second = client.collective("second", |one| one.adapter_tree.is_some()).await;
    assert_eq!((second.state(), second.switch_entries), (v1::CollectiveState::Adapters, 0));
    let why = "tenant 'poor' may hold 1 entries, has 1 and would need 1 more";
    assert_eq!(second.reason, why);
    client.adds_up(&second, 1).await;
    let third = client.create_collective("third", "wide", "poor").await.unwrap_err();
    assert_eq!(reason_of(&third).unwrap(), "QUOTA_REACHED");
    let usage = client.collectives().get_entry_usage(v1::GetEntryUsageRequest {}).await;
    let usage = usage.unwrap().into_inner();
    let held: Vec<&str> =
        usage.switches.iter().flat_map(|one| &one.collectives).map(String::as_str).collect();
    assert_eq!(held, ["first"]);
    // A collective ends with its group, and its entries are free.
    for node in MEMBERS {
        client.leave("wide", node).await.unwrap();
    }
    eventually("the collectives are gone", async || {
        let all = v1::ListCollectivesRequest::default();
        let list = client.collectives().list_collectives(all).await;
        let list = list.unwrap().into_inner().collectives;
        if list.is_empty() { Ok(()) } else { Err(format!("{list:?}")) }
    })
    .await;
}
