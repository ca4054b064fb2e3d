//! Operations of a group's members that switches combine, and what becomes of them when these fail.

use std::collections::BTreeSet;

use fabricast_groups::ids::Pn;
use fabricast_integration::{Cluster, Layout, eventually, soon};
use fabricast_messages::{Answer, OnFailure, Operation, Reduction, Values};
use fabricast_operating::{Ended, MemberError, MemberHandle};
use fabricast_proto::v1;
use fabricast_proto::v1::aggregation_node;
use fabricast_proto::v1::element::Kind;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_rpc::{Peer, Reason};
use tokio::task::JoinHandle;

const NODES: [&str; 4] = ["n0", "n5", "n9", "n12"];

/// One operation of one member, under way.
type Running = JoinHandle<Result<Ended, MemberError>>;

/// Members that take part in a group which has no multicast route, so that nothing but runs is on
/// the fabric.
async fn form(cluster: &Cluster) -> Vec<MemberHandle> {
    let mut handles = Vec::new();
    for node in NODES {
        let request = v1::OperatingAgentServiceJoinGroupRequest {
            node: node.to_owned(),
            group: "g".to_owned(),
            process: "p0".to_owned(),
            complete_at_member_count: 100,
            ..Default::default()
        };
        let member = cluster.client.join_with(request).await.unwrap();
        let (handle, mut events) = cluster.open_member(&member);
        tokio::spawn(async move { while events.next().await.is_some() {} });
        handles.push(handle);
    }
    eventually("everybody knows everybody", async || {
        let known: Vec<usize> = handles.iter().map(|handle| handle.roster().len()).collect();
        known.iter().all(|count| *count == NODES.len()).then_some(()).ok_or(format!("{known:?}"))
    })
    .await;
    handles
}

fn add(handle: &MemberHandle, on_failure: OnFailure) -> Running {
    let handle = handle.clone();
    tokio::spawn(async move {
        let values = Values::I64(vec![-7, 1 << handle.pn().0]);
        let sum = Operation::AllReduce { reduction: Reduction::Sum, values };
        handle.operate(&sum, on_failure).await
    })
}

/// All add up, and all get the right sum; answers whether switches brought it to all of them.
async fn adds_up(handles: &[MemberHandle]) -> bool {
    let running: Vec<Running> = handles.iter().map(|handle| add(handle, OnFailure::Fail)).collect();
    let mut by_switches = true;
    for one in running {
        let ended = soon(one).await.unwrap().unwrap();
        let count = i64::try_from(handles.len()).unwrap();
        let want = Values::I64(vec![-7 * count, (1 << count) - 1]);
        assert_eq!(ended.answer, Answer::Values(want));
        by_switches &= ended.by_switches;
    }
    by_switches
}

/// Waits until switches combine for all members.
async fn switches_combine(handles: &[MemberHandle]) {
    eventually("switches combine", async || {
        adds_up(handles).await.then_some(()).ok_or("the tree did".to_owned())
    })
    .await;
}

/// Packets that the ports of all switches have received.
async fn packets(cluster: &Cluster) -> u64 {
    let mut packets = 0;
    for agent in &cluster.switches {
        let peer = Peer::new(&agent.address().to_string()).unwrap();
        let mut client = SwitchAgentServiceClient::new(peer.channel());
        let all = v1::ReadCountersRequest::default();
        let mut stream = client.read_counters(all).await.unwrap().into_inner();
        while let Some(message) = stream.message().await.unwrap() {
            let ports = message.counters.unwrap_or_default().ports;
            packets += ports.iter().map(|port| port.received_packets).sum::<u64>();
        }
    }
    packets
}

fn root(collective: &v1::Collective) -> String {
    let entry = collective.switch_tree.as_ref().unwrap().entries.first().unwrap();
    match entry.holder.as_ref().unwrap().kind.as_ref().unwrap() {
        aggregation_node::Kind::SwitchName(name) => name.clone(),
        aggregation_node::Kind::Process(_) => panic!("a switch tree has switches"),
    }
}

async fn with_collective(cluster: &Cluster) -> v1::Collective {
    let client = &cluster.client;
    let operations =
        [v1::CollectiveOperation::Barrier, v1::CollectiveOperation::AllReduce].map(i32::from);
    let request = v1::CreateCollectiveRequest {
        name: "c".to_owned(),
        group: "g".to_owned(),
        operations: operations.to_vec(),
        max_bytes: 64,
        ..Default::default()
    };
    client.collectives().create_collective(request).await.unwrap();
    client.collective("c", |one| one.switch_tree.is_some()).await
}

/// Waits until the members have begun an operation: they refuse another one themselves.
async fn are_under_way(handles: &[MemberHandle]) {
    for handle in handles {
        eventually("the operation is under way", async || {
            let long = Operation::AllGather { payload: vec![0; 2 << 20] };
            let refused = handle.operate(&long, OnFailure::Fail).await.unwrap_err();
            (refused.reason() == Reason::OperationRunning).then_some(()).ok_or(refused.to_string())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn switches_combine_once_the_group_has_a_collective() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let handles = form(&cluster).await;
    assert!(!adds_up(&handles).await, "there is no tree of switches yet");
    let before = packets(&cluster).await;
    assert_eq!(before, 0, "nothing of this went over the fabric");
    with_collective(&cluster).await;
    switches_combine(&handles).await;
    let first = packets(&cluster).await;
    assert!(first >= 4, "every member's contribution came in at a port: {first}");
    switches_combine(&handles).await;
    assert!(packets(&cluster).await > first);
    // Operations that the switches cannot do go over the tree as before.
    let floats = handles.iter().cloned().map(|handle| async move {
        let values = Values::F64(vec![0.5]);
        let sum = Operation::AllReduce { reduction: Reduction::Sum, values };
        handle.operate(&sum, OnFailure::Fail).await
    });
    for one in floats.map(tokio::spawn).collect::<Vec<_>>() {
        let ended = soon(one).await.unwrap().unwrap();
        assert_eq!(ended.answer, Answer::Values(Values::F64(vec![2.0])));
        assert!(!ended.by_switches);
    }
    switches_combine(&handles).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_switch_that_dies_in_the_middle_had_is_added_up_by_the_tree() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let handles = form(&cluster).await;
    let collective = with_collective(&cluster).await;
    switches_combine(&handles).await;
    let mut running: Vec<Running> =
        handles[..3].iter().map(|handle| add(handle, OnFailure::Fail)).collect();
    are_under_way(&handles[..3]).await;
    let dead = Kind::SwitchName(root(&collective));
    cluster.client.fail(dead.clone()).await;
    running.push(add(&handles[3], OnFailure::Fail));
    for one in running {
        let ended = soon(one).await.unwrap().unwrap();
        assert_eq!(ended.answer, Answer::Values(Values::I64(vec![-28, 15])));
        assert_eq!(ended.participants, (0..4).map(Pn).collect::<BTreeSet<_>>());
    }
    // The TIC gives the collective another tree, and switches combine again.
    switches_combine(&handles).await;
    let moved = cluster.client.collective("c", |one| one.switch_tree.is_some()).await;
    assert_ne!(root(&moved), root(&collective));
    cluster.client.heal(dead).await;
    switches_combine(&handles).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_dies_before_the_switches_have_its_part_is_named_or_left_out() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut handles = form(&cluster).await;
    with_collective(&cluster).await;
    switches_combine(&handles).await;
    let dead = handles.remove(2);
    let running: Vec<Running> = handles.iter().map(|handle| add(handle, OnFailure::Fail)).collect();
    are_under_way(&handles).await;
    cluster.client.stop_node(NODES[2]).await;
    for one in running {
        let refused = soon(one).await.unwrap().unwrap_err();
        assert_eq!(refused.to_string(), format!("members {} failed", dead.pn()));
    }
    let running: Vec<Running> =
        handles.iter().map(|handle| add(handle, OnFailure::Survivors)).collect();
    for one in running {
        let ended = soon(one).await.unwrap().unwrap();
        assert_eq!(ended.answer, Answer::Values(Values::I64(vec![-21, 0b1011])));
        assert!(!ended.by_switches, "the tree of switches is for four");
    }
}
