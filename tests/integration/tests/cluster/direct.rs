//! The direct path: processes that run the message layer of their members themselves.

use std::sync::Arc;
use std::time::Duration;

use fabricast_client::{Client, Error, Group, GroupPath, Message, Path, Reduction};
use fabricast_groups::{Pn, Revision};
use fabricast_integration::{Cluster, Layout, eventually, soon};
use fabricast_messages::{Body, Hello, Part, RosterChange, Source};
use fabricast_proto::v1;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use fabricast_rpc::{Reason, reason_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::talking::{self, NODES, all, form, settings};

fn layout() -> Layout {
    Layout::leaf_spine().with_direct_paths()
}

/// Waits until each of these processes has so many connections of its own.
async fn connected(groups: &[Group], counts: &[usize]) {
    eventually("processes are connected", async || {
        let found: Vec<usize> = groups.iter().map(Group::connections).collect();
        if found == counts { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_talk_in_order() {
    talking::check_order(layout()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_give_what_they_give_through_agents() {
    talking::check_operations(layout()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_receives_nothing_makes_the_source_wait() {
    talking::check_slow_process(layout()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_does_not_stop_the_source() {
    talking::check_death_of_a_receiver(layout()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_in_an_operation_is_named_or_left_out() {
    talking::check_death_in_an_operation(layout()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_ends_and_another_follows() {
    talking::check_end_of_a_part(layout()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_in_the_tree_connect_to_each_other() {
    let cluster = Cluster::start(layout()).await;
    let groups = form(&cluster, "g", &NODES).await;
    assert!(groups.iter().all(|group| group.path() == GroupPath::Direct));
    // Ranks 0, 2 and 3 are neighbours of 1, and of nobody else (docs/adr/0022).
    connected(&groups, &[1, 3, 1, 1]).await;
    let sums = all(&groups, |group| async move { group.all_reduce(Reduction::Sum, &[1]).await });
    assert_eq!(sums.await, vec![vec![4]; 4]);
}

/// Processes on these nodes, each with its own path, that take part in a group.
async fn mixed(cluster: &Cluster, name: &str, places: &[(&str, Path)]) -> Vec<Group> {
    let mut groups = Vec::new();
    for (number, (node, path)) in places.iter().enumerate() {
        let settings = settings(cluster, node).process(format!("{name}-{number}")).path(*path);
        let client = Client::attach(settings).await.unwrap();
        let group = client.join(name).await.unwrap();
        assert_eq!(group.path().is_direct(), *path == Path::Direct);
        group.take_part().await.unwrap();
        groups.push(group);
    }
    for group in &groups {
        soon(group.wait_for(places.len())).await.unwrap();
    }
    groups
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_both_paths_make_one_group() {
    use Path::{Agent, Direct};
    let cluster = Cluster::start(layout()).await;
    // On one node, on nodes of one agent, and of two; rank 1 is the root.
    let mixtures = [
        ("a", [("n0", Direct), ("n0", Agent), ("n0", Direct), ("n9", Direct)], [0, 0, 0, 0]),
        ("b", [("n0", Direct), ("n0", Direct), ("n0", Agent), ("n9", Direct)], [1, 2, 0, 1]),
        ("c", [("n0", Agent), ("n5", Direct), ("n9", Agent), ("n12", Direct)], [0, 1, 0, 1]),
    ];
    for (name, places, connections) in mixtures {
        let groups = mixed(&cluster, name, &places).await;
        connected(&groups, &connections).await;
        for (source, group) in (0_u32..).zip(&groups) {
            let long = vec![7; 300_000];
            assert_eq!(soon(group.multicast(&long)).await.unwrap(), Vec::<u32>::new());
            for (rank, other) in (0_u32..).zip(&groups).filter(|(rank, _)| *rank != source) {
                let message = soon(other.receive()).await.unwrap();
                assert!(message == Message { sender: source, payload: long.clone() }, "{rank}");
            }
        }
        let ends = all(&groups, |group| async move {
            let sum = group.all_reduce(Reduction::Sum, &[group.rank() + 1]).await?;
            Ok((group.barrier().await?, sum, group.broadcast(3, &[9; 100_000]).await?.len()))
        });
        assert_eq!(ends.await, vec![(vec![0, 1, 2, 3], vec![10], 100_000); 4], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_interfaces_offers_no_direct_path() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = Client::attach(settings(&cluster, "n0")).await.unwrap();
    assert_eq!(client.join("g").await.unwrap().path(), GroupPath::Agent);
    let settings = settings(&cluster, "n5").path(Path::Direct);
    let refused = Client::attach(settings).await.unwrap().join("g").await;
    let is_named =
        matches!(&refused, Err(Error::Refused { reason, .. }) if reason == "NO_DIRECT_PATH");
    assert!(is_named, "{refused:?}");
}

/// A process that speaks to its agent without the client library.
struct Raw {
    calls: ProcessServiceClient<Channel>,
    session: u64,
    _attached: Streaming<v1::AttachProcessResponse>,
}

/// An open direct path of such a process.
struct RawPath {
    requests: mpsc::UnboundedSender<v1::OpenDirectPathRequest>,
    responses: Streaming<v1::OpenDirectPathResponse>,
}

impl Raw {
    async fn attach(cluster: &Cluster, process: &str) -> Self {
        let address = format!("unix://{}", cluster.socket(0).display());
        let mut calls =
            ProcessServiceClient::new(Endpoint::from_shared(address).unwrap().connect_lazy());
        let (process, node) = (process.to_owned(), "n5".to_owned());
        let request = v1::AttachProcessRequest { process, node, ..Default::default() };
        let mut attached = calls.attach_process(request).await.unwrap().into_inner();
        let answer = attached.message().await.unwrap().unwrap();
        assert_eq!(answer.direct_host, "127.0.0.1");
        Self { calls, session: answer.session, _attached: attached }
    }

    async fn join(&mut self, group: &str) -> v1::Membership {
        let (session, group) = (self.session, group.to_owned());
        let request = v1::ProcessServiceJoinGroupRequest { session, group };
        self.calls.join_group(request).await.unwrap().into_inner().membership.unwrap()
    }

    async fn open(&mut self, group: &str) -> Result<RawPath, Status> {
        let (requests, stream) = mpsc::unbounded_channel();
        let (session, group) = (self.session, group.to_owned());
        let needs_links = true;
        let first = v1::OpenDirectPathRequest { session, group, needs_links, ..Default::default() };
        requests.send(first).unwrap();
        let opened = self.calls.open_direct_path(UnboundedReceiverStream::new(stream)).await;
        Ok(RawPath { requests, responses: opened?.into_inner() })
    }
}

impl RawPath {
    /// The reason for which the path ends when the process sends a frame.
    async fn end_after(mut self, frame: v1::LinkFrame) -> String {
        let frames = vec![v1::DirectFrame { link: 1, frame: Some(frame) }];
        self.requests.send(v1::OpenDirectPathRequest { frames, ..Default::default() }).unwrap();
        loop {
            match soon(self.responses.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ends without a reason"),
                Err(status) => return reason_of(&status).unwrap(),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_opened_once_and_ends_with_a_frame_that_is_not_the_members_own() {
    let cluster = Cluster::start(layout()).await;
    let mut raw = Raw::attach(&cluster, "raw").await;
    let refused = raw.open("g").await.err().unwrap();
    assert!(Reason::NotAMember.is_of(&refused), "{refused}");
    let foreign = |gn, from_pn| v1::LinkFrame { gn, from_pn, to_pn: 0, ..Default::default() };
    let groups = ["rank", "group", "garbage"];
    for group in groups {
        let v1::Membership { gn, pn, .. } = raw.join(group).await;
        let path = raw.open(group).await.unwrap();
        let frame = match group {
            "rank" => foreign(gn, pn + 1),
            "group" => foreign(gn + 1, pn),
            _ => v1::LinkFrame { body: vec![200], ..foreign(gn, pn) },
        };
        assert_eq!(path.end_after(frame).await, "FRAME_INVALID", "{group}");
        // Frames that it had sent by then bear numbers that a new endpoint would use again.
        let refused = raw.open(group).await.err().unwrap();
        assert!(Reason::TakesPartAlready.is_of(&refused), "{refused}");
        let first = v1::TakePartRequest {
            session: raw.session,
            group: group.to_owned(),
            ..Default::default()
        };
        let refused = raw.calls.take_part(tokio_stream::once(first)).await.unwrap_err();
        assert!(Reason::TakesPartAlready.is_of(&refused), "{refused}");
    }
}

/// Bytes that a process sends first, with a nonce and a proof of its choice.
fn greeting(gn: u64, ranks: [u32; 2], last: [&[u8]; 3]) -> Vec<u8> {
    let mut bytes = b"\x89FCedge1".to_vec();
    bytes.extend(gn.to_le_bytes());
    ranks.iter().for_each(|rank| bytes.extend(rank.to_le_bytes()));
    bytes.extend(1_u64.to_le_bytes());
    last.iter().for_each(|bytes_of| bytes.extend(*bytes_of));
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_not_answered_and_disturb_nobody() {
    let cluster = Cluster::start(layout()).await;
    let groups = form(&cluster, "g", &["n0", "n9"]).await;
    connected(&groups, &[1, 1]).await;
    // A member that never speaks learns where its neighbour listens, and the neighbour's secret.
    let mut raw = Raw::attach(&cluster, "raw").await;
    let gn = raw.join("g").await.gn;
    let mut path = raw.open("g").await.unwrap();
    let end = loop {
        let response = soon(path.responses.message()).await.unwrap().unwrap();
        let mut ends = response.frames.into_iter().filter_map(|frame| frame.direct);
        if let Some(end) = ends.next() {
            break end;
        }
    };
    let (theirs, none) = (end.token.as_slice(), [0; 16]);
    let greetings = [
        vec![b'x'; 1000],
        greeting(gn, [2, 1], [&none, &none, &none]),
        greeting(gn, [2, 1], [&none, theirs, theirs]),
        greeting(gn, [0, 1], [&none, theirs, &none]),
        greeting(gn, [0, 1], [theirs, theirs, theirs]),
        greeting(gn, [1, 1], [&none, theirs, &none]),
        greeting(gn + 1, [0, 1], [&none, theirs, &none]),
    ];
    for bytes in greetings {
        let mut stream = TcpStream::connect(&end.address).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        // Closed with bytes unread, it may also be reset.
        let _ = soon(stream.read_to_end(&mut answer)).await;
        assert_eq!(answer, b"", "{bytes:?}");
    }
    connected(&groups, &[1, 1]).await;
    drop((path, raw));
    let sums = all(&groups, |group| async move { group.all_reduce(Reduction::Sum, &[1]).await });
    assert_eq!(sums.await, vec![vec![2]; 2]);
}

/// Numbers of the links that a process is told of, in order of rank.
fn links(place: &v1::DirectPlace) -> Vec<u64> {
    place.parent.iter().chain(&place.children).map(|neighbor| neighbor.link).collect()
}

/// Sends best-effort messages until one arrives.
async fn end_reaches(source: &Group, receiver: &Group) {
    loop {
        match tokio::time::timeout(Duration::from_secs(1), receiver.receive()).await {
            Ok(message) if message.as_ref().is_ok_and(|one| one.payload == b"end") => return,
            Ok(message) => assert!(message.is_ok()),
            Err(_) => source.multicast_best_effort(b"end").await.unwrap(),
        }
    }
}

/// A part of a message whose source is no member.
fn part_of_nobody(joined: Revision) -> Body {
    let (source, payload) = (Source { pn: Pn(u32::MAX), joined }, vec![7; 4_000]);
    Body::Part(Arc::new(Part { source, number: 1, floor: 0, first: true, last: true, payload }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_takes_no_frames_or_sends_many_cuts_no_link_of_others() {
    let cluster = Cluster::start(layout()).await;
    let others = form(&cluster, "g", &["n9", "n12"]).await;
    let last = settings(&cluster, "n0").process("last").path(Path::Agent);
    let last = Client::attach(last).await.unwrap().join("g").await.unwrap();
    last.take_part().await.unwrap();
    // Two members of one process on n5: the links of the second are those of the first's node.
    let mut raw = Raw::attach(&cluster, "raw").await;
    let v1::Membership { gn, pn, .. } = raw.join("g").await;
    let mut flooded = raw.open("g").await.unwrap();
    let place = loop {
        let place = soon(flooded.responses.message()).await.unwrap().unwrap().place;
        if let Some(place) = place.filter(|place| links(place).iter().any(|link| *link != 0)) {
            break place;
        }
    };
    let client = Client::attach(settings(&cluster, "n12").process("witness")).await.unwrap();
    client.join("h").await.unwrap().take_part().await.unwrap();
    raw.join("h").await;
    let mut witness = raw.open("h").await.unwrap();
    let mut seen = Vec::new();
    while seen.iter().all(|link| *link == 0) {
        if let Some(place) = soon(witness.responses.message()).await.unwrap().unwrap().place {
            seen = links(&place);
        }
    }
    // It greets its neighbour and says that it takes part, so that it gets messages.
    let neighbor = place.parent.as_ref().unwrap_or_else(|| &place.children[0]);
    let frame = |body: &Body| v1::DirectFrame {
        link: neighbor.link,
        frame: Some(v1::LinkFrame {
            gn,
            from_pn: pn,
            to_pn: neighbor.pn,
            body: body.encode(),
            direct: None,
        }),
    };
    let joined = Revision(place.joined_revision);
    let hello = Hello { joined, reply: true, hears: false, round: 0, decided: 0 };
    let here = vec![(Pn(pn), joined)];
    let roster = RosterChange { whole: true, gone: Vec::new(), here };
    let frames = [Body::Hello(hello), Body::Roster(roster)].iter().map(frame).collect();
    flooded.requests.send(v1::OpenDirectPathRequest { frames, ..Default::default() }).unwrap();
    soon(others[0].wait_for(4)).await.unwrap();
    for _ in 0..9 {
        for _ in 0..60 {
            others[0].multicast_best_effort(&[7; 100_000]).await.unwrap();
        }
        others[0].multicast_best_effort(b"end").await.unwrap();
        end_reaches(&others[0], &last).await; // it goes the same way, and later
    }
    // The process that took no frames has lost some, and begins anew.
    let mut link = neighbor.link;
    while link == neighbor.link {
        if let Some(place) = soon(flooded.responses.message()).await.unwrap().unwrap().place {
            link = links(&place)[0];
        }
    } // Frames that it sends wait at its agent, not in the queue of the link.
    let part = v1::DirectFrame { link, ..frame(&part_of_nobody(joined)) };
    for _ in 0..10 {
        let frames = vec![part.clone(); 2_000];
        flooded.requests.send(v1::OpenDirectPathRequest { frames, ..Default::default() }).unwrap();
    }
    // The witness is told of every change of its links.
    let told = tokio::time::timeout(Duration::from_secs(1), async {
        loop {
            let place = witness.responses.message().await.unwrap().unwrap().place;
            if let Some(place) = place.filter(|place| links(place) != seen) {
                break place;
            }
        }
    });
    assert!(told.await.is_err(), "a link was cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_gone_right_after_an_operation_has_told_its_neighbours_the_end() {
    use Path::{Agent, Direct};
    let cluster = Cluster::start(layout()).await;
    for round in 0..20 {
        // Rank 1 is the root: the others learn the end from it, some while their edge moves from
        // the agents to a connection.
        let others = if round % 2 == 0 { Agent } else { Direct };
        let places = [("n0", others), ("n5", Direct), ("n9", others)];
        let mut groups = mixed(&cluster, &format!("g{round}"), &places).await;
        let root = groups.remove(1);
        let root = tokio::spawn(async move { root.broadcast(0, &[]).await });
        let ends = all(&groups, |group| async move { group.broadcast(0, &[7; 300_000]).await });
        for payload in ends.await {
            assert_eq!(payload.len(), 300_000);
        }
        soon(root).await.unwrap().unwrap();
    }
}
