//! Groups whose members' tree has another shape than two below each.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_client::{Client, GroupPath, Reduction};
use fabricast_groups::ids::Pn;
use fabricast_integration::{Cluster, Layout, eventually, soon};
use fabricast_messages::{Answer, OnFailure, Operation, Reduction as Rule, Values};
use fabricast_operating::MemberHandle;
use fabricast_proto::v1;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::talking::{NODES, all, settings};

fn shape(family: v1::TreeFamily, width: u32, block: u32) -> v1::TreeShape {
    v1::TreeShape { family: family.into(), width, block }
}

/// Forms a group of one process on each of these nodes; answers the group as the TIC has it.
async fn form(cluster: &Cluster, spec: v1::FormedGroupSpec, nodes: &[String]) -> v1::Group {
    let known = cluster.client.nodes().await.unwrap();
    let member = |name: &String| {
        let node = known.iter().find(|node| node.name == *name).expect("a node of the cluster");
        v1::FormedMember {
            endpoint: node.endpoints[0].clone(),
            process: "p".to_owned(),
            ..Default::default()
        }
    };
    let spec = v1::FormedGroupSpec { members: nodes.iter().map(member).collect(), ..spec };
    let name = spec.group.clone();
    let request = v1::FormGroupsRequest {
        request_id: format!("form {name}"),
        groups: vec![spec],
        ..Default::default()
    };
    let formed = cluster.client.batches().form_groups(tokio_stream::iter([request])).await.unwrap();
    assert_eq!(formed.into_inner().message().await.unwrap().unwrap().groups.len(), 1);
    cluster.client.group(&name).await
}

/// Lets every member take part, at its agent.
async fn open(cluster: &Cluster, group: &v1::Group, nodes: &[String]) -> Vec<MemberHandle> {
    let mut handles = Vec::new();
    for (pn, node) in (0..).zip(nodes) {
        let mut home = cluster.client.home(node);
        let mut membership = v1::Membership::default();
        eventually("the agent knows the member's place", async || {
            let request = v1::ListMembershipsRequest { node: node.clone() };
            let held = home.list_memberships(request).await.unwrap().into_inner().memberships;
            let found = held.into_iter().find(|one| one.gn == group.gn && one.position.is_some());
            membership = found.ok_or_else(|| node.clone())?;
            Ok(())
        })
        .await;
        assert_eq!(membership.pn, pn);
        let position = membership.position.clone().unwrap_or_default();
        assert_eq!(position.tree, group.tree, "the agent passes the shape on");
        let (handle, mut events) = cluster.open_member(&membership);
        tokio::spawn(async move { while events.next().await.is_some() {} });
        handles.push(handle);
    }
    eventually("everybody knows everybody", async || {
        let known: Vec<usize> = handles.iter().map(|handle| handle.roster().len()).collect();
        let all = known.iter().all(|count| *count == nodes.len());
        all.then_some(()).ok_or(format!("{known:?}"))
    })
    .await;
    handles
}

/// Begins a sum over all members; `begun` counts those that have.
fn begin(
    handles: &[MemberHandle],
    on_failure: OnFailure,
    begun: &Arc<Semaphore>,
) -> Vec<JoinHandle<Result<u64, String>>> {
    let run = |handle: &MemberHandle| {
        let (handle, begun) = (handle.clone(), Arc::clone(begun));
        tokio::spawn(async move {
            let values = Values::U64(vec![1 << handle.pn().0]);
            let sum = Operation::AllReduce { reduction: Rule::Sum, values };
            // The first poll of the operation begins it.
            let begins = async { begun.add_permits(1) };
            let (ended, ()) = tokio::join!(biased; handle.operate(&sum, on_failure), begins);
            match ended {
                Ok(ended) => match ended.answer {
                    Answer::Values(Values::U64(sums)) => Ok(sums[0]),
                    other => panic!("{other:?}"),
                },
                Err(error) => Err(error.to_string()),
            }
        })
    };
    handles.iter().map(run).collect()
}

async fn outcomes(running: Vec<JoinHandle<Result<u64, String>>>) -> BTreeSet<Result<u64, String>> {
    let mut found = BTreeSet::new();
    for one in running {
        found.insert(soon(one).await.unwrap());
    }
    found
}

async fn sums(handles: &[MemberHandle], on_failure: OnFailure) -> BTreeSet<Result<u64, String>> {
    outcomes(begin(handles, on_failure, &Arc::new(Semaphore::new(0)))).await
}

/// Sums values of all members for the first one; answers what each of them gets.
async fn reduced(handles: &[MemberHandle]) -> Vec<Answer> {
    let run = |handle: &MemberHandle| {
        let handle = handle.clone();
        tokio::spawn(async move {
            let values = Values::U64(vec![1 << handle.pn().0]);
            let sum = Operation::Reduce { root: Pn(0), reduction: Rule::Sum, values };
            handle.operate(&sum, OnFailure::Fail).await.unwrap().answer
        })
    };
    let running: Vec<JoinHandle<Answer>> = handles.iter().map(run).collect();
    let mut answers = Vec::new();
    for one in running {
        answers.push(soon(one).await.unwrap());
    }
    answers
}

/// Fifteen of the sixteen nodes, none of which is the last.
fn nodes() -> Vec<String> {
    (0..15).map(|node| format!("n{node}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_every_shape_agree_also_when_one_dies() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let shapes = [
        shape(v1::TreeFamily::KAry, 5, 0),
        shape(v1::TreeFamily::KNomial, 2, 0),
        shape(v1::TreeFamily::KNomial, 16, 0),
        shape(v1::TreeFamily::Hierarchical, 2, 4),
    ];
    let mut opened = Vec::new();
    for (number, tree) in shapes.into_iter().enumerate() {
        let group = format!("g{number}");
        let spec = v1::FormedGroupSpec { group, tree: Some(tree), ..Default::default() };
        let group = form(&cluster, spec, &nodes()).await;
        assert_eq!(group.tree, Some(tree));
        let handles = open(&cluster, &group, &nodes()).await;
        let all = BTreeSet::from([Ok((1 << 15) - 1)]);
        assert_eq!(sums(&handles, OnFailure::Fail).await, all, "{tree:?}");
        let mut answers = vec![Answer::Nothing; 15];
        answers[0] = Answer::Values(Values::U64(vec![(1 << 15) - 1]));
        assert_eq!(reduced(&handles).await, answers, "{tree:?}");
        opened.push(handles);
    }
    // The root of the k-nomial trees dies while all others wait for it.
    opened.iter_mut().for_each(|handles| drop(handles.remove(0)));
    let begun = Arc::new(Semaphore::new(0));
    let waiting: Vec<_> =
        opened.iter().map(|handles| begin(handles, OnFailure::Fail, &begun)).collect();
    let all = waiting.iter().map(Vec::len).sum::<usize>();
    let _ = soon(begun.acquire_many(u32::try_from(all).unwrap())).await.unwrap();
    cluster.client.stop_node("n0").await;
    let named = BTreeSet::from([Err("members 0 failed".to_owned())]);
    let without = BTreeSet::from([Ok((1 << 15) - 2)]);
    for running in waiting {
        let outcomes = outcomes(running).await;
        assert!(outcomes == named || outcomes == without, "no agreement: {outcomes:?}");
    }
    for handles in opened {
        let rest = BTreeSet::from([Ok((1 << 15) - 2)]);
        assert_eq!(sums(&handles, OnFailure::Survivors).await, rest);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_on_the_direct_path_follow_the_shape() {
    let cluster = Cluster::start(Layout::leaf_spine().with_direct_paths()).await;
    let nodes = NODES.map(str::to_owned);
    let tree = Some(shape(v1::TreeFamily::KNomial, 8, 0));
    let spec = v1::FormedGroupSpec { group: "g".to_owned(), tree, ..Default::default() };
    form(&cluster, spec, &nodes).await;
    let mut groups = Vec::new();
    for node in &nodes {
        let client = Client::attach(settings(&cluster, node).process("p")).await.unwrap();
        let group = client.join("g").await.unwrap();
        group.take_part().await.unwrap();
        groups.push(group);
    }
    for group in &groups {
        soon(group.wait_for(nodes.len())).await.unwrap();
    }
    assert!(groups.iter().all(|group| group.path() == GroupPath::Direct));
    eventually("the first is the neighbour of all", async || {
        let found: Vec<usize> = groups.iter().map(fabricast_client::Group::connections).collect();
        if found == [3, 1, 1, 1] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    let sums = all(&groups, |group| async move { group.all_reduce(Reduction::Sum, &[1]).await });
    assert_eq!(sums.await, vec![vec![4]; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shape_that_no_tree_has_is_refused_and_forms_nothing() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let tree = Some(shape(v1::TreeFamily::KAry, 1, 0));
    let member = v1::FormedMember {
        endpoint: cluster.client.nodes().await.unwrap()[0].endpoints[0].clone(),
        process: "p".to_owned(),
        ..Default::default()
    };
    let spec = v1::FormedGroupSpec {
        group: "g".to_owned(),
        members: vec![member],
        tree,
        ..Default::default()
    };
    let request = v1::FormGroupsRequest {
        request_id: "r".to_owned(),
        groups: vec![spec],
        ..Default::default()
    };
    let refused = cluster.client.batches().form_groups(tokio_stream::iter([request])).await;
    let refused = match refused {
        Ok(answers) => answers.into_inner().message().await.unwrap_err(),
        Err(refused) => refused,
    };
    let text = "groups[0].tree.width: a tree of width 1, which must be 2 to 64";
    assert_eq!(refused.message(), text);
    assert!(cluster.client.groups().await.is_empty());
}

/// Constants of agents on one machine.
fn constants() -> v1::TreeConstants {
    v1::TreeConstants {
        path_link_count: 4.0,
        link_us: 15.0,
        matching_us: 10.0,
        store_us_per_byte: 0.001,
        reduce_us_per_byte: 0.002,
        software_us: 20.0,
        measurement_count: 20,
        r_squared: 0.9,
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn measured_constants_choose_the_trees_of_later_groups() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let spec = |group: &str, bytes| v1::FormedGroupSpec {
        group: group.to_owned(),
        operation_byte_count: bytes,
        ..Default::default()
    };
    let before = form(&cluster, spec("before", None), &nodes()).await;
    assert_eq!(before.tree, None, "two below each");
    let mut collectives = cluster.client.collectives();
    let set = |constants| v1::SetTreeConstantsRequest { constants: Some(constants) };
    let zero = v1::TreeConstants { reduce_us_per_byte: 0.0, ..constants() };
    let refused = collectives.set_tree_constants(set(zero)).await.unwrap_err();
    let text = "constants.reduce_us_per_byte is 0, which must be a number of more than 0";
    assert_eq!(refused.message(), text);
    collectives.set_tree_constants(set(constants())).await.unwrap();
    let short = form(&cluster, spec("short", None), &nodes()).await;
    let long = form(&cluster, spec("long", Some(1 << 20)), &nodes()).await;
    assert!(short.tree.is_some() && short.tree != long.tree, "{short:?} {long:?}");
    assert_eq!(cluster.client.group("before").await.tree, None, "it keeps its own");
    let handles = open(&cluster, &short, &nodes()).await;
    assert_eq!(sums(&handles, OnFailure::Fail).await, BTreeSet::from([Ok((1 << 15) - 1)]));
    let request = v1::GetTreeConstantsRequest {};
    let kept = collectives.get_tree_constants(request).await.unwrap().into_inner().constants;
    let kept = kept.unwrap();
    assert!(kept.set_time.is_some());
    assert_eq!(v1::TreeConstants { set_time: None, ..kept }, constants());
    let none = v1::SetTreeConstantsRequest { constants: None };
    collectives.set_tree_constants(none).await.unwrap();
    assert_eq!(form(&cluster, spec("after", None), &nodes()).await.tree, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_measure_operations_together() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let nodes: Vec<String> = (0..4).map(|node| format!("n{node}")).collect();
    let spec = v1::FormedGroupSpec { group: "m".to_owned(), ..Default::default() };
    form(&cluster, spec, &nodes).await;
    let step = |operation: v1::CollectiveOperation, byte_count| v1::MeasuredOperation {
        operation: operation.into(),
        byte_count,
        round_count: 5,
    };
    let operations = vec![
        step(v1::CollectiveOperation::Barrier, 0),
        step(v1::CollectiveOperation::Broadcast, 4096),
        step(v1::CollectiveOperation::Reduce, 800),
        step(v1::CollectiveOperation::AllReduce, 1 << 20),
    ];
    let measured = |node: &String, operations: Vec<v1::MeasuredOperation>| {
        let mut agent = cluster.client.home(node);
        let request = v1::MeasureOperationsRequest {
            node: node.clone(),
            group: "m".to_owned(),
            process: "p".to_owned(),
            member_count: 4,
            operations,
        };
        tokio::spawn(async move { agent.measure_operations(request).await })
    };
    let odd = vec![step(v1::CollectiveOperation::Reduce, 7)];
    let refused = soon(measured(&nodes[0], odd)).await.unwrap().unwrap_err();
    let text = "operations[0].byte_count is 7, which must be a multiple of 8 and at most 1048576";
    assert_eq!(refused.message(), text);
    let running: Vec<_> = nodes.iter().map(|node| measured(node, operations.clone())).collect();
    for one in running {
        let times = soon(one).await.unwrap().unwrap().into_inner().times;
        let rounds: Vec<usize> = times.iter().map(|one| one.seconds.len()).collect();
        assert_eq!(rounds, [5; 4]);
        assert!(times.iter().flat_map(|one| &one.seconds).all(|seconds| *seconds > 0.0));
    }
}
