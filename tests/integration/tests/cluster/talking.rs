//! Attached processes that send messages and run operations, while some are slow and some die.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fabricast_client::{Client, Error, Group, GroupPath, Message, Reduction, Settings};
use fabricast_integration::{Cluster, Layout, eventually, soon};
use tokio::task::JoinHandle;

/// Messages that wait for a process that takes none: an inbox of the message layer, and those that
/// the client has asked its agent for, if the layer is the agent's.
fn ahead(path: GroupPath) -> usize {
    if path.is_direct() { 256 } else { 256 + 32 }
}

/// Nodes of both agents.
pub(super) const NODES: [&str; 4] = ["n0", "n5", "n9", "n12"];

pub(super) fn settings(cluster: &Cluster, node: &str) -> Settings {
    let agent = usize::from(NODES[2..].contains(&node));
    Settings::at(cluster.socket(agent)).node(node)
}

/// One attached process on each node, all of which take part in a group and know of each other.
pub(super) async fn form(cluster: &Cluster, name: &str, nodes: &[&str]) -> Vec<Group> {
    let mut groups = Vec::new();
    for node in nodes {
        let client = Client::attach(settings(cluster, node).process(name)).await.unwrap();
        let group = client.join(name).await.unwrap();
        group.take_part().await.unwrap();
        groups.push(group);
    }
    for group in &groups {
        soon(group.wait_for(nodes.len())).await.unwrap();
    }
    groups
}

/// Lets every process do the same, each with a copy of its membership.
pub(super) async fn all<T, F>(groups: &[Group], work: impl Fn(Group) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let running: Vec<JoinHandle<_>> =
        groups.iter().map(|group| tokio::spawn(work(group.clone()))).collect();
    let mut ends = Vec::new();
    for one in running {
        ends.push(soon(one).await.unwrap().unwrap());
    }
    ends
}

/// A real process that takes part in a group, and neither receives nor contributes anything.
fn silent(cluster: &Cluster, node: &str, group: &str) -> (Child, u32) {
    let settings = settings(cluster, node).process("silent");
    let mut child = Command::new(env!("CARGO_BIN_EXE_process"))
        .arg(group)
        .env(Settings::SOCKET, cluster.socket(usize::from(NODES[2..].contains(&node))))
        .env(Settings::NODE, node)
        .env(Settings::PROCESS, settings.process_name())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap_or_else(|_| panic!("no rank: '{line}'")))
}

/// The same beside three who take part, once they know that it and nobody else does.
async fn with_silent(cluster: &Cluster, node: &str, groups: &[Group]) -> (Child, u32) {
    knows(groups, &[0, 1, 2]).await;
    let silent = silent(cluster, node, groups[0].name());
    knows(groups, &[0, 1, 2, 3]).await;
    silent
}

/// Waits until all know that these take part.
pub(super) async fn knows(groups: &[Group], ranks: &[u32]) {
    for group in groups {
        eventually("it is known who takes part", async || {
            let here = group.participants().await.unwrap();
            (here == ranks).then_some(()).ok_or(format!("{here:?}"))
        })
        .await;
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Waits until an operation of a process is under way; answers its end.
async fn begun<T: Send + 'static>(
    group: &Group,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> JoinHandle<Result<T, Error>> {
    let running = tokio::spawn(work);
    eventually("the operation is under way", async || {
        if running.is_finished() {
            return Ok(()); // the caller sees how
        }
        // Bits of floats are refused after the question whether another one is running.
        match group.all_reduce(Reduction::Or, &[0.5]).await {
            Err(Error::Refused { reason, .. }) if reason == "OPERATION_RUNNING" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    running
}

/// Sends so many numbered messages one after the other, and counts those that were acknowledged;
/// the end names who may lack some.
fn send_all(group: &Group, count: usize) -> (Arc<AtomicUsize>, JoinHandle<Vec<u32>>) {
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let (group, counter) = (group.clone(), Arc::clone(&acknowledged));
    let sending = tokio::spawn(async move {
        let mut unknown = Vec::new();
        for number in 0..count {
            unknown.extend(group.multicast(&number.to_be_bytes()).await.unwrap());
            counter.fetch_add(1, Ordering::Relaxed);
        }
        unknown
    });
    (acknowledged, sending)
}

/// Waits until a source has come as far as it may while somebody takes nothing, and sees that it
/// stays there.
async fn stalls(ahead: usize, acknowledged: &AtomicUsize, sending: &mut JoinHandle<Vec<u32>>) {
    eventually("the slow one's queues are full", async || {
        let count = acknowledged.load(Ordering::Relaxed);
        (count >= ahead).then_some(()).ok_or(format!("{count} acknowledged"))
    })
    .await;
    let early = tokio::time::timeout(Duration::from_millis(200), sending).await;
    assert!(early.is_err(), "it waits for the slow one: {early:?}");
    assert_eq!(acknowledged.load(Ordering::Relaxed), ahead);
}

/// Receives so many numbered messages of one source, which come in order.
async fn receive_all(group: &Group, from: u32, count: usize) {
    for number in 0..count {
        let message = soon(group.receive()).await.unwrap();
        assert_eq!(message, Message { sender: from, payload: number.to_be_bytes().to_vec() });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_of_several_agents_talk_in_order() {
    check_order(Layout::leaf_spine()).await;
}

pub(super) async fn check_order(layout: Layout) {
    let cluster = Cluster::start(layout).await;
    let groups = form(&cluster, "g", &NODES).await;
    let senders: Vec<_> = groups.iter().map(|group| send_all(group, 40).1).collect();
    for group in &groups {
        let mut next = [0_usize; NODES.len()];
        for _ in 0..40 * (NODES.len() - 1) {
            let message = soon(group.receive()).await.unwrap();
            let number = &mut next[message.sender as usize];
            assert_eq!(message.payload, number.to_be_bytes(), "from {}", message.sender);
            *number += 1;
        }
        assert_eq!(next[group.rank() as usize], 0, "nobody hears itself");
    }
    for sender in senders {
        assert_eq!(soon(sender).await.unwrap(), Vec::<u32>::new());
    }
    let long = vec![7; 300_000];
    soon(groups[2].multicast(&long)).await.unwrap();
    assert_eq!(soon(groups[0].receive()).await.unwrap(), Message { sender: 2, payload: long });
    soon(groups[1].multicast_best_effort(b"perhaps")).await.unwrap();
    let too_long = soon(groups[1].multicast(&vec![0; (1 << 20) + 1])).await;
    assert!(matches!(too_long, Err(Error::Refused { reason, .. }) if reason == "PAYLOAD_TOO_LONG"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_gives_what_a_plain_computation_gives() {
    check_operations(Layout::leaf_spine()).await;
}

pub(super) async fn check_operations(layout: Layout) {
    let cluster = Cluster::start(layout).await;
    let groups = form(&cluster, "g", &NODES).await;
    let came = all(&groups, |group| async move { group.barrier().await }).await;
    assert_eq!(came, vec![vec![0, 1, 2, 3]; 4]);
    let text = |rank: u32| format!("of {rank}").into_bytes();
    let ends = all(&groups, |group| async move {
        let rank = group.rank();
        let signed = [i64::from(rank) - 2, 7];
        Ok((
            group.broadcast(2, &text(rank)).await?,
            group.reduce(1, Reduction::Max, &signed).await?,
            group.all_reduce(Reduction::Sum, &[0.5 * f64::from(rank)]).await?,
            group.gather(3, &text(rank)).await?,
            group.scatter(0, &[(1, text(10)), (3, text(30))]).await?,
            group.all_gather(&text(rank)).await?,
            group.scan(Reduction::Or, &[1_u32 << rank]).await?,
        ))
    })
    .await;
    let everybody: Vec<_> = (0..4).map(|rank| (rank, text(rank))).collect();
    for (rank, end) in (0_u32..).zip(ends) {
        let want = (
            text(2),
            (rank == 1).then(|| vec![1, 7]),
            vec![3.0],
            (rank == 3).then(|| everybody.clone()),
            match rank {
                1 => Some(text(10)),
                3 => Some(text(30)),
                _ => None,
            },
            everybody.clone(),
            vec![(2 << rank) - 1],
        );
        assert_eq!(end, want, "rank {rank}");
    }
    let [a, b] = [groups[0].clone(), groups[1].clone()];
    let differ = tokio::spawn(async move { a.barrier().await });
    let others = groups[2..].iter().cloned().map(|group| async move { group.barrier().await });
    let others: Vec<_> = others.map(tokio::spawn).collect();
    let refused = [soon(b.all_gather(b"")).await.err(), soon(differ).await.unwrap().err()];
    for refused in refused {
        let differ = matches!(&refused, Some(Error::Refused { reason, .. }) if reason == "OPERATIONS_DIFFER");
        assert!(differ, "{refused:?}");
    }
    for other in others {
        assert!(soon(other).await.unwrap().is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_receives_nothing_makes_the_source_wait_and_loses_nothing() {
    check_slow_process(Layout::leaf_spine()).await;
}

pub(super) async fn check_slow_process(layout: Layout) {
    let cluster = Cluster::start(layout).await;
    for nodes in [["n0", "n9", "n5"], ["n9", "n0", "n12"]] {
        let groups = form(&cluster, nodes[0], &nodes).await;
        let (acknowledged, mut sending) = send_all(&groups[0], 400);
        let quick = groups[1].clone();
        let quick = tokio::spawn(async move { receive_all(&quick, 0, 400).await });
        stalls(ahead(groups[0].path()), &acknowledged, &mut sending).await;
        receive_all(&groups[2], 0, 400).await;
        assert_eq!(soon(sending).await.unwrap(), Vec::<u32>::new(), "all have everything");
        soon(quick).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_does_not_stop_the_source_and_is_named() {
    check_death_of_a_receiver(Layout::leaf_spine()).await;
}

pub(super) async fn check_death_of_a_receiver(layout: Layout) {
    let cluster = Cluster::start(layout).await;
    let groups = form(&cluster, "g", &["n0", "n9"]).await;
    let (child, rank) = silent(&cluster, "n5", "g");
    soon(groups[0].wait_for(3)).await.unwrap();
    let (acknowledged, mut sending) = send_all(&groups[0], 400);
    let heard = groups[1].clone();
    let heard = tokio::spawn(async move { receive_all(&heard, 0, 400).await });
    stalls(ahead(groups[0].path()), &acknowledged, &mut sending).await;
    kill(child);
    assert_eq!(soon(sending).await.unwrap(), [rank], "the one under way may have reached it");
    soon(heard).await.unwrap();
    assert_eq!(soon(groups[0].participants()).await.unwrap(), [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_in_the_middle_of_an_operation_is_named_or_left_out() {
    check_death_in_an_operation(Layout::leaf_spine()).await;
}

pub(super) async fn check_death_in_an_operation(layout: Layout) {
    let cluster = Cluster::start(layout).await;
    let groups = form(&cluster, "g", &["n0", "n9", "n12"]).await;
    for node in ["n5", "n9"] {
        let (child, rank) = with_silent(&cluster, node, &groups).await;
        let mut running = Vec::new();
        for group in &groups {
            let one = group.clone();
            running.push(begun(group, async move { one.barrier().await }).await);
        }
        kill(child);
        for one in running {
            let failed = soon(one).await.unwrap();
            let named =
                matches!(&failed, Err(Error::MembersFailed { failed }) if *failed == [rank]);
            assert!(named, "{failed:?}");
        }
        let (child, rank) = with_silent(&cluster, node, &groups).await;
        let mut running = Vec::new();
        for group in &groups {
            let one = group.among_survivors();
            let sum = async move { one.all_reduce(Reduction::Sum, &[one.rank(), 1]).await };
            running.push(begun(group, sum).await);
        }
        kill(child);
        for one in running {
            assert_eq!(soon(one).await.unwrap().unwrap(), [3, 3], "without {rank}");
        }
        let came = all(&groups, |group| async move { group.barrier().await }).await;
        assert_eq!(came, vec![vec![0, 1, 2]; 3], "those who live go on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_part_is_said_and_another_may_follow() {
    check_end_of_a_part(Layout::leaf_spine()).await;
}

pub(super) async fn check_end_of_a_part(layout: Layout) {
    let cluster = Cluster::start(layout).await;
    let groups = form(&cluster, "g", &["n0", "n9"]).await;
    let second = Client::attach(settings(&cluster, "n5")).await.unwrap();
    let second = (second.join("g").await.unwrap(), second.join("g").await.unwrap());
    second.0.take_part().await.unwrap();
    let taken = second.1.take_part().await;
    assert!(matches!(taken, Err(Error::Refused { reason, .. }) if reason == "SEAT_TAKEN"));
    soon(groups[0].wait_for(3)).await.unwrap();
    // It takes part no more, and stays a member.
    drop(second.0);
    knows(&groups, &[0, 1]).await;
    assert_eq!(second.1.size().await.unwrap(), 3);
    eventually("the member can be opened again", async || {
        second.1.take_part().await.map_err(|error| error.to_string())
    })
    .await;
    soon(second.1.wait_for(3)).await.unwrap();
    soon(groups[1].multicast(b"the last")).await.unwrap();
    let leaver = groups[0].clone();
    let barrier = begun(&groups[0], async move { leaver.barrier().await }).await;
    groups[0].clone().leave().await.unwrap();
    let ended = soon(barrier).await.unwrap();
    assert!(matches!(ended, Err(Error::NotAMember { .. })), "{ended:?}");
    assert_eq!(soon(groups[0].receive()).await.unwrap().payload, b"the last");
    let ended = soon(groups[0].receive()).await;
    assert!(matches!(ended, Err(Error::NotAMember { .. })), "{ended:?}");
}
