//! Messages and operations of groups, over the unicast tree and over the fabric, while parts fail.

use std::sync::Arc;

use fabricast_groups::ids::Pn;
use fabricast_integration::{Cluster, Layout, eventually, soon};
use fabricast_messages::{Answer, Mode, OnFailure, Operation, Reduction, Values};
use fabricast_operating::{MemberEvent, MemberHandle};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::TableKind;
use parking_lot::Mutex;

/// A message, and who sent it.
type Message = (Pn, Vec<u8>);

/// A process that takes part and writes down what it gets.
struct Process {
    node: &'static str,
    handle: MemberHandle,
    got: Arc<Mutex<Vec<Message>>>,
}

impl Process {
    fn open(cluster: &Cluster, node: &'static str, member: &v1::Membership) -> Self {
        let (handle, mut events) = cluster.open_member(member);
        let got = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&got);
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let MemberEvent::Message { from, payload } = event {
                    notes.lock().push((from, payload));
                }
            }
        });
        Self { node, handle, got }
    }

    /// Messages that it got from another process, in order.
    fn from(&self, other: &Self) -> Vec<Vec<u8>> {
        let got = self.got.lock();
        let mine = got.iter().filter(|(from, _)| *from == other.handle.pn());
        mine.map(|(_, payload)| payload.clone()).collect()
    }
}

const NODES: [&str; 5] = ["n0", "n5", "n9", "n12", "n15"];

/// Joins one process on each node and waits until each knows of all others.
///
/// - `complete_at`: the group is not routed before it has so many members.
async fn form(cluster: &Cluster, group: &str, complete_at: u32) -> Vec<Process> {
    let mut processes = Vec::new();
    for node in NODES {
        let request = v1::OperatingAgentServiceJoinGroupRequest {
            node: node.to_owned(),
            group: group.to_owned(),
            process: "p0".to_owned(),
            complete_at_member_count: complete_at,
            ..Default::default()
        };
        let member = cluster.client.join_with(request).await.unwrap();
        processes.push(Process::open(cluster, node, &member));
    }
    know_each_other(&processes).await;
    processes
}

/// Waits until each knows of all others, and of nobody else.
async fn know_each_other(processes: &[Process]) {
    eventually("everybody knows everybody", async || {
        let known: Vec<usize> = processes.iter().map(|one| one.handle.roster().len()).collect();
        let all = known.iter().all(|count| *count == processes.len());
        all.then_some(()).ok_or(format!("{known:?}"))
    })
    .await;
}

/// Everybody sends so many messages; each arrives everywhere, in order.
async fn talk(processes: &[Process], about: &str, count: usize) {
    let all: Vec<Vec<u8>> = (0..count).map(|number| format!("{about} {number}").into()).collect();
    for process in processes {
        for message in &all {
            let missed = soon(process.handle.send(Mode::Reliable, message)).await.unwrap();
            assert_eq!(missed, []);
        }
    }
    for to in processes {
        for from in processes.iter().filter(|from| from.node != to.node) {
            let what = format!("{} has read what {} sent", to.node, from.node);
            eventually(&what, async || {
                let got = to.from(from);
                let now: Vec<&Vec<u8>> =
                    got.iter().filter(|message| message.starts_with(about.as_bytes())).collect();
                (now == all.iter().collect::<Vec<_>>()).then_some(()).ok_or(format!("{now:?}"))
            })
            .await;
        }
    }
}

/// Everybody adds its share; everybody gets the sum.
async fn add_up(processes: &[Process]) {
    let share = |pn: Pn| 10 + u64::from(pn.0);
    let sums = processes.iter().map(|process| {
        let handle = process.handle.clone();
        tokio::spawn(async move {
            let values = Values::U64(vec![share(handle.pn())]);
            let all_reduce = Operation::AllReduce { reduction: Reduction::Sum, values };
            handle.operate(&all_reduce, OnFailure::Fail).await.unwrap().answer
        })
    });
    let want: u64 = processes.iter().map(|process| share(process.handle.pn())).sum();
    for sum in sums.collect::<Vec<_>>() {
        assert_eq!(soon(sum).await.unwrap(), Answer::Values(Values::U64(vec![want])));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_a_route_talks_over_the_tree() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let processes = form(&cluster, "waiting", 100).await;
    let long = vec![7; 100_000];
    assert_eq!(soon(processes[3].handle.send(Mode::Reliable, &long)).await.unwrap(), []);
    for process in processes.iter().filter(|one| one.node != processes[3].node) {
        eventually("the long one has come", async || {
            let got = process.from(&processes[3]);
            (got == [long.clone()]).then_some(()).ok_or(format!("{} messages", got.len()))
        })
        .await;
    }
    talk(&processes, "tree", 5).await;
    add_up(&processes).await;
    let memberships = cluster.client.hosts().next().unwrap();
    let listed = { memberships }.list_memberships(v1::ListMembershipsRequest::default()).await;
    let open = listed.unwrap().into_inner().memberships.iter().any(|one| one.multicast_open);
    assert!(!open, "nothing of this went over the fabric");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_the_fabric_breaks_and_heals() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let processes = form(&cluster, "g", 0).await;
    eventually("the group is routed", async || cluster.client.is_settled().await).await;
    talk(&processes, "routed", 5).await;
    let link = cluster.client.tree_link("g").await;
    cluster.client.fail(link.clone()).await;
    talk(&processes, "cut", 5).await;
    add_up(&processes).await;
    cluster.client.heal(link).await;
    talk(&processes, "healed", 5).await;
    add_up(&processes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_two_trees_bring_twice_is_received_once() {
    let layout = Layout::leaf_spine().with_tables(TableKind::PerSwitch).with_fault_tolerance();
    let cluster = Cluster::start(layout).await;
    let processes = form(&cluster, "twice", 0).await;
    eventually("the group is routed", async || cluster.client.is_settled().await).await;
    let groups = cluster.client.groups().await;
    let route = groups.iter().find(|group| group.name.ends_with("twice")).unwrap().route.clone();
    assert!(route.unwrap().second_color.is_some(), "there are two trees");
    for about in ["first", "then"] {
        talk(&processes, about, 10).await;
        add_up(&processes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_dies_in_the_middle_of_an_operation_is_named_to_all() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut processes = form(&cluster, "g", 0).await;
    let dead = processes.remove(1);
    let barriers: Vec<_> = processes
        .iter()
        .map(|process| {
            let handle = process.handle.clone();
            tokio::spawn(async move { handle.operate(&Operation::Barrier, OnFailure::Fail).await })
        })
        .collect();
    cluster.client.stop_node(dead.node).await;
    for barrier in barriers {
        let failed = soon(barrier).await.unwrap().unwrap_err();
        assert_eq!(failed.reason(), Reason::MembersFailed);
        assert_eq!(failed.to_string(), format!("members {} failed", dead.handle.pn()));
    }
    talk(&processes, "survivors", 3).await;
    add_up(&processes).await;
    let gone = dead.handle.send(Mode::Reliable, b"from the grave").await.unwrap_err();
    assert_eq!(gone.reason(), Reason::NotAMember);
}
