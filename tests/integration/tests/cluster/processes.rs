//! Processes at the socket of their operating agent: they attach, take part, die.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fabricast_client::{Client, Error, Settings};
use fabricast_integration::{Cluster, Layout, eventually, soon};

/// A process of node `n0` or another that the first agent serves.
async fn attached(cluster: &Cluster, node: &str, process: &str) -> Client {
    let settings = Settings::at(cluster.socket(0)).node(node).process(process);
    soon(Client::attach(settings)).await.unwrap()
}

fn ranks(members: &[fabricast_client::Member]) -> Vec<u32> {
    members.iter().map(|member| member.rank).collect()
}

/// Ranks of a group as the TIC records them.
async fn recorded(cluster: &Cluster, group: &str) -> Vec<u32> {
    let groups = cluster.client.groups().await;
    let group = groups.into_iter().find(|one| one.name == group);
    group.map(|group| group.members.iter().map(|member| member.pn).collect()).unwrap_or_default()
}

/// Waits until the TIC records these ranks.
async fn is_recorded(cluster: &Cluster, group: &str, ranks: &[u32]) {
    eventually(&format!("{group} has the ranks {ranks:?}"), async || {
        let found = recorded(cluster, group).await;
        if found == ranks { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

/// The reason of a refusal.
fn reason<T: std::fmt::Debug>(refused: Result<T, Error>) -> String {
    match refused {
        Err(Error::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// A real process; it joins the group and then waits.
fn started(cluster: &Cluster, node: &str, process: &str, group: &str) -> (Child, u32) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_process"))
        .arg(group)
        .env(Settings::SOCKET, cluster.socket(0))
        .env(Settings::NODE, node)
        .env(Settings::PROCESS, process)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let rank = line.trim().parse().unwrap_or_else(|_| panic!("no rank: '{line}'"));
    (child, rank)
}

#[tokio::test]
async fn processes_join_see_each_other_come_and_go_and_leave() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let (a, b) = (attached(&cluster, "n0", "a").await, attached(&cluster, "n1", "b").await);
    let ours = a.join("g").await.unwrap();
    assert_eq!((ours.rank(), ours.name(), a.node()), (0, "g", "n0"));
    let mut watch = ours.watch_members().await.unwrap();
    assert_eq!(ranks(&soon(watch.next()).await.unwrap()), [0]);
    let theirs = b.join("g").await.unwrap();
    assert_eq!(theirs.rank(), 1);
    let members = soon(watch.next()).await.unwrap();
    assert_eq!(ranks(&members), [0, 1]);
    assert_eq!((members[1].node.as_str(), members[1].process.as_str()), ("n1", "b"));
    // A process of a node that another agent serves is seen, too.
    cluster.client.join("g", "n12").await.unwrap();
    assert_eq!(ranks(&soon(watch.next()).await.unwrap()), [0, 1, 2]);
    assert_eq!(theirs.size().await.unwrap(), 3);
    assert_eq!(a.join("g").await.unwrap().rank(), 0, "a member is told what it is");
    theirs.leave().await.unwrap();
    assert_eq!(ranks(&soon(watch.next()).await.unwrap()), [0, 2]);
    let watch_of_b = b.join("other").await.unwrap();
    assert_eq!(watch_of_b.rank(), 0);
    // The group's agent was where the first member was; it moves, and nobody is told to ask again.
    let agent = cluster.client.group("g").await.agent_node;
    assert_eq!(agent, "n0");
    let third = b.join("g").await.unwrap();
    assert_eq!(ranks(&soon(watch.next()).await.unwrap()), [0, 1, 2]);
    // Left is left: the watch says so.
    ours.clone().leave().await.unwrap();
    let ended = soon(watch.next()).await;
    assert!(matches!(ended, Err(Error::NotAMember { .. })), "{ended:?}");
    let refused = ours.members().await;
    assert!(matches!(refused, Err(Error::NotAMember { .. })), "{refused:?}");
    assert_eq!(third.size().await.unwrap(), 2);
}

#[tokio::test]
async fn a_killed_process_is_out_of_its_groups_at_once_and_its_name_is_free() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let witness = attached(&cluster, "n1", "witness").await.join("g").await.unwrap();
    let mut watch = witness.watch_members().await.unwrap();
    assert_eq!(soon(watch.next()).await.unwrap().len(), 1);
    let (mut child, rank) = started(&cluster, "n0", "victim", "g");
    assert_eq!(rank, 1);
    assert_eq!(soon(watch.next()).await.unwrap().len(), 2);
    child.kill().unwrap();
    let members = soon(watch.next()).await.unwrap();
    assert_eq!(members.len(), 1, "{members:?}");
    assert_eq!(recorded(&cluster, "g").await, [0], "the TIC has recorded it");
    // A successor of the same name begins afresh.
    let (mut next, rank) = started(&cluster, "n0", "victim", "g");
    assert_eq!(rank, 1, "the rank was free");
    next.kill().unwrap();
    is_recorded(&cluster, "g", &[0]).await;
    let _ = (child.wait(), next.wait());
}

#[tokio::test]
async fn a_name_is_attached_once() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let first = attached(&cluster, "n0", "p").await;
    let group = first.join("g").await.unwrap();
    let again = Client::attach(Settings::at(cluster.socket(0)).node("n0").process("p")).await;
    assert_eq!(reason(again), "PROCESS_ATTACHED");
    assert_eq!(group.size().await.unwrap(), 1, "the first one has not noticed");
    let elsewhere = attached(&cluster, "n1", "p").await;
    assert_eq!(elsewhere.join("g").await.unwrap().rank(), 1, "on another node it is another");
    drop((first, group));
    // The agent hears of the end a moment later than the process that was.
    let next = soon(async {
        loop {
            let settings = Settings::at(cluster.socket(0)).node("n0").process("p");
            match Client::attach(settings).await {
                Ok(next) => break next,
                refused => assert_eq!(reason(refused), "PROCESS_ATTACHED"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(recorded(&cluster, "g").await, [1], "it waited for the end of the first");
    assert_eq!(next.join("g").await.unwrap().rank(), 0);
}

#[tokio::test]
async fn wrong_paths_names_and_permissions_are_said() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let nowhere = cluster.socket(0).with_file_name("nowhere.sock");
    let refused = Client::connect(&nowhere).await;
    assert!(matches!(&refused, Err(Error::Unreachable { socket, .. }) if *socket == nowhere));
    let mode = std::fs::metadata(cluster.socket(0)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the agent's own user may attach");
    let socket = || Settings::at(cluster.socket(0));
    assert_eq!(reason(Client::attach(socket()).await), "FIELD_MISSING");
    assert_eq!(reason(Client::attach(socket().node("n15")).await), "UNKNOWN_NODE");
    assert_eq!(reason(Client::attach(socket().node("n0").process("")).await), "NAME_INVALID");
    let client = attached(&cluster, "n0", "p").await;
    assert_eq!(reason(client.join("").await), "NAME_INVALID");
    let nodes = Client::nodes_at(cluster.socket(0)).await.unwrap();
    assert_eq!(nodes.len(), 8, "{nodes:?}");
}

#[tokio::test]
async fn a_process_learns_that_its_agent_is_gone_and_attaches_to_the_next() {
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = attached(&cluster, "n0", "p").await;
    let group = client.join("g").await.unwrap();
    let mut watch = group.watch_members().await.unwrap();
    soon(watch.next()).await.unwrap();
    cluster.operating[0].kill();
    let gone = soon(client.detached()).await;
    assert!(matches!(gone, Error::Detached { .. }), "{gone}");
    let refused = [group.members().await.err(), soon(watch.next()).await.err()];
    assert!(
        refused.iter().all(|error| matches!(error, Some(Error::Detached { .. }))),
        "{refused:?}"
    );
    cluster.operating[0].restart().await;
    let refused = client.join("g").await;
    assert!(matches!(refused, Err(Error::Detached { .. })), "an old client stays what it is");
    let next = attached(&cluster, "n0", "p").await;
    let group = soon(next.join("g")).await.unwrap();
    assert_eq!(ranks(&group.members().await.unwrap()), [group.rank()], "nobody else is there");
}

#[tokio::test]
async fn reserved_processes_find_their_places_and_others_lose_them() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let launcher = attached(&cluster, "n0", "launcher").await;
    let processes = [("b", "n3"), ("a", "n3"), ("c", "n1"), ("d", "n2")];
    let processes = processes.map(|(name, node)| (name.to_owned(), node.to_owned()));
    let reserved = launcher.reserve("g", &processes).await.unwrap();
    let places: Vec<_> = reserved.iter().map(|one| (one.process.as_str(), one.rank)).collect();
    assert_eq!(places, [("b", 0), ("a", 1), ("c", 2), ("d", 3)]);
    let c = attached(&cluster, "n1", "c").await.join("g").await.unwrap();
    assert_eq!((c.rank(), c.size().await.unwrap()), (2, 4));
    drop(launcher);
    is_recorded(&cluster, "g", &[2]).await;
    assert_eq!(
        reason(attached(&cluster, "n0", "x").await.reserve("g", &[]).await),
        "FIELD_MISSING"
    );
}

#[tokio::test]
async fn many_processes_come_together_and_go_together() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut joining = tokio::task::JoinSet::new();
    for number in 0..256 {
        let node = format!("n{}", number % 8);
        let settings = Settings::at(cluster.socket(0)).node(node).process(format!("p{number}"));
        joining.spawn(async move {
            let client = Client::attach(settings).await?;
            let group = client.join("all").await?;
            let mut watch = group.watch_members().await?;
            while watch.next().await?.len() < 256 {}
            Ok::<_, Error>(group)
        });
    }
    let mut groups = Vec::new();
    while let Some(joined) = soon(joining.join_next()).await {
        groups.push(joined.unwrap().unwrap());
    }
    let mut ranks: Vec<u32> = groups.iter().map(fabricast_client::Group::rank).collect();
    ranks.sort_unstable();
    assert!(ranks.into_iter().eq(0..256));
    drop(groups);
    is_recorded(&cluster, "all", &[]).await;
}
