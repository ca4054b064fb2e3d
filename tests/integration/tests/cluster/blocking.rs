//! The client for programs without async: every call waits for its end on a thread of the program's
//! own.

use fabricast_client::blocking::{Client, Group};
use fabricast_client::{Error, Member, Message, Reduction, Settings};
use fabricast_integration::{Cluster, Layout, soon};
use tokio::task::{JoinHandle, spawn_blocking};

fn settings(cluster: &Cluster, node: &str) -> Settings {
    Settings::at(cluster.socket(usize::from(node == "n9"))).node(node).process("program")
}

/// Runs what a program does, in a thread that is of no async runtime.
async fn program<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    soon(spawn_blocking(work)).await.unwrap()
}

fn ranks(members: &[Member]) -> Vec<u32> {
    members.iter().map(|member| member.rank).collect()
}

/// The common work of two processes. Returns what this one saw.
fn talk(group: &Group) -> Result<Vec<String>, Error> {
    let (rank, other) = (group.rank(), 1 - group.rank());
    let own = [i64::from(rank) + 1];
    let mut seen = vec![format!("{:?}", group.wait_for(2)?)];
    // As a ring: one sends while the other receives.
    for source in 0..2 {
        if rank == source {
            seen.push(format!("{:?}", group.multicast(b"hello")?));
        } else {
            let Message { sender: from, payload } = group.receive()?;
            seen.push(format!("{} of {from}", payload.escape_ascii()));
        }
    }
    seen.push(format!("{:?}", group.barrier()?));
    seen.push(format!("{:?}", group.all_reduce(Reduction::Sum, &own)?));
    seen.push(format!("{:?}", group.among_survivors().all_reduce(Reduction::Max, &own)?));
    seen.push(format!("{:?}", group.reduce(0, Reduction::Sum, &own)?));
    seen.push(format!("{:?}", group.scan(Reduction::Sum, &own)?));
    seen.push(format!("{:?}", group.broadcast(1, &[u8::try_from(rank).unwrap_or(9)])?));
    seen.push(format!("{:?}", group.gather(1, &[7])?));
    seen.push(format!("{:?}", group.all_gather(&[8])?));
    seen.push(format!("{:?}", group.scatter(0, &[(other, vec![5])])?));
    seen.push(format!("{:?} {}", group.participants()?, group.combined_by_switches()));
    group.multicast_best_effort(b"perhaps")?;
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_join_send_receive_reduce_and_leave() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let first = settings(&cluster, "n0");
    let (client, group, watch) = program(move || {
        let client = Client::attach(first)?;
        let group = client.join("g")?;
        let mut watch = group.watch_members()?;
        assert_eq!(ranks(&watch.wait()?), [0], "those of now come at once");
        Ok((client, group, watch))
    })
    .await
    .unwrap();
    assert_eq!((client.node(), client.process()), ("n0", "program"));
    assert_eq!((group.name(), group.rank()), ("g", 0));

    let second = settings(&cluster, "n9");
    let other: JoinHandle<Result<_, Error>> = spawn_blocking(move || {
        let group = Client::attach(second)?.join("g")?;
        let seen = talk(&group)?;
        group.barrier()?; // it leaves after the other has seen all
        group.clone().leave()?;
        Ok((seen, group.members().err(), group.receive().err(), group.receive().err()))
    });
    let (seen, mut watch) = program(move || {
        let mut watch = watch;
        drop(client); // its groups keep the process attached
        assert_eq!(ranks(&watch.wait()?), [0, 1]);
        assert_eq!((group.size()?, ranks(&group.members()?)), (2, vec![0, 1]));
        group.take_part()?;
        let seen = talk(&group)?;
        group.barrier()?;
        assert_eq!(ranks(&watch.wait()?), [0], "the other has left");
        group.leave()?;
        Ok((seen, watch))
    })
    .await
    .unwrap();
    let (others, no_members, perhaps, no_message) = soon(other).await.unwrap().unwrap();
    let both = ["[0, 1]", "[3]", "[2]", "[1]", "[(0, [8]), (1, [8])]", "[0, 1] 0"];
    for (at, wanted) in [0, 4, 5, 7, 10, 12].into_iter().zip(both) {
        assert_eq!(seen[at], wanted, "{seen:?}");
        let scanned = if at == 7 { "[3]" } else { wanted };
        assert_eq!(others[at], scanned, "{others:?}");
    }
    assert_eq!(seen[1..3], ["[]", "hello of 1"]);
    assert_eq!(others[1..3], ["hello of 0", "[]"]);
    assert_eq!(
        (seen[3].as_str(), seen[6].as_str(), seen[8].as_str()),
        ("[0, 1]", "Some([3])", "[1]")
    );
    assert_eq!((others[6].as_str(), others[8].as_str()), ("None", "[1]"));
    assert_eq!((seen[9].as_str(), others[9].as_str()), ("None", "Some([(0, [7]), (1, [7])])"));
    assert_eq!((seen[11].as_str(), others[11].as_str()), ("None", "Some([5])"));
    // A message as best effort may have come before the end was told.
    for gone in [no_members, perhaps.or(no_message)] {
        assert!(matches!(gone, Some(Error::NotAMember { .. })), "{gone:?}");
    }
    let ended = program(move || watch.wait()).await;
    assert!(matches!(ended, Err(Error::NotAMember { .. })), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_is_an_error_of_the_call() {
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    let nowhere = cluster.socket(0).with_file_name("nowhere.sock");
    let at = nowhere.clone();
    let refused = program(move || Client::connect(at)).await;
    assert!(matches!(&refused, Err(Error::Unreachable { socket, .. }) if *socket == nowhere));
    let refused = program(Client::from_environment).await;
    assert!(matches!(refused, Err(Error::NoSocket)), "{refused:?}");

    let (here, agent) = (settings(&cluster, "n0"), cluster.socket(0));
    let group = program(move || {
        let refused = Client::connect(agent);
        assert!(matches!(refused, Err(Error::Refused { .. })), "which node? {refused:?}");
        let client = Client::attach(here)?;
        let refused = client.join("");
        assert!(matches!(&refused, Err(Error::Refused { reason, .. }) if reason == "NAME_INVALID"));
        let group = client.join("g")?;
        let refused = group.multicast(&vec![0; (1 << 20) + 1]);
        assert!(
            matches!(&refused, Err(Error::Refused { reason, .. }) if reason == "PAYLOAD_TOO_LONG"),
            "{refused:?}"
        );
        let refused = group.all_reduce(Reduction::Or, &[0.5]);
        assert!(
            matches!(&refused, Err(Error::Refused { reason, .. }) if reason == "CONTRIBUTION_INVALID"),
            "{refused:?}"
        );
        assert_eq!(group.barrier()?, [0], "and the group goes on");
        Ok(group)
    })
    .await
    .unwrap();
    // A call under way when the agent goes ends, too.
    let waiting = group.clone();
    let waits = spawn_blocking(move || waiting.receive());
    cluster.operating[0].kill();
    let gone = soon(waits).await.unwrap();
    assert!(matches!(gone, Err(Error::Detached { .. })), "{gone:?}");
    let gone = program(move || group.barrier()).await;
    assert!(matches!(gone, Err(Error::Detached { .. })), "{gone:?}");
}
