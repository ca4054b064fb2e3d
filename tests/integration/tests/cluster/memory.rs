//! Payloads through memory that operating agents share with processes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fabricast_client::{Client, Group, Message, Reduction, Settings};
use fabricast_integration::{Cluster, Layout, eventually, soon};
use fabricast_proto::v1;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use fabricast_rpc::{fact_of, reason_of};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// The longest message.
const LONGEST: usize = 1 << 20;

/// Traces of the memory that an agent shares with its processes.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    /// Names that could be opened.
    names: usize,
    /// Files that this process, which is the agents and the clients, has open.
    open: usize,
}

fn traces(cluster: &Cluster, agent: usize) -> Traces {
    let socket = cluster.socket(agent).display().to_string().replace('/', ".");
    let prefix = format!("/dev/shm/fabricast{socket}.");
    let ours = |path: PathBuf| path.display().to_string().starts_with(&prefix);
    let names = std::fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.path());
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    Traces {
        names: names.filter(|path| ours(path.clone())).count(),
        open: open.filter(|path| ours(path.clone())).count(),
    }
}

/// Attached processes, each of which shares memory from its own length on, that take part in one
/// group.
async fn form(cluster: &Cluster, name: &str, share_from: &[usize]) -> Vec<Group> {
    let nodes = ["n0", "n9", "n1", "n12"];
    let mut groups = Vec::new();
    for (&share_from, node) in share_from.iter().zip(nodes) {
        let agent = usize::from(["n9", "n12"].contains(&node));
        let settings = Settings::at(cluster.socket(agent)).node(node).process(name);
        let client = Client::attach(settings.share_from(share_from)).await.unwrap();
        let group = client.join(name).await.unwrap();
        group.take_part().await.unwrap();
        groups.push(group);
    }
    for group in &groups {
        soon(group.wait_for(share_from.len())).await.unwrap();
    }
    groups
}

/// Bytes that tell a wrong place from the right one.
fn pattern(length: usize, from: u32) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at / 251 + at + from as usize) % 256).unwrap_or(0);
    (0..length).map(byte).collect()
}

/// Everybody sends to everybody, and they run operations; all is what it would be in one process.
async fn talk(groups: &[Group], length: usize) {
    let count = u32::try_from(groups.len()).unwrap();
    let one = |group: Group| async move {
        let rank = group.rank();
        let numbers = vec![u64::from(rank) + 1; length / 8];
        let own = pattern(length, rank);
        let (sent, heard) = tokio::join!(group.multicast(&own), async {
            let mut heard = Vec::new();
            for _ in 1..count {
                heard.push(group.receive().await?);
            }
            Ok::<_, fabricast_client::Error>(heard)
        });
        sent?;
        let sum = group.all_reduce(Reduction::Sum, &numbers).await?;
        let broadcast = group.broadcast(1, &own).await?;
        let parts = group.all_gather(&pattern(length / 8, rank)).await?;
        Ok::<_, fabricast_client::Error>((heard?, sum, broadcast, parts))
    };
    let running: Vec<_> = groups.iter().map(|group| tokio::spawn(one(group.clone()))).collect();
    for (rank, running) in (0_u32..).zip(running) {
        let (mut heard, sum, broadcast, parts) = soon(running).await.unwrap().unwrap();
        heard.sort_by_key(|message| message.sender);
        let others = (0..count).filter(|other| *other != rank);
        let wanted: Vec<Message> =
            others.map(|from| Message { sender: from, payload: pattern(length, from) }).collect();
        assert!(heard == wanted, "{length} bytes to rank {rank}");
        assert_eq!(sum, vec![u64::from(count * (count + 1) / 2); length / 8]);
        assert!(broadcast == pattern(length, 1), "{length} bytes to rank {rank}");
        let wanted: Vec<_> = (0..count).map(|from| (from, pattern(length / 8, from))).collect();
        assert!(parts == wanted, "{length} bytes to rank {rank}");
    }
}

/// The calls of a client that says what it likes, attached to node `n0`.
struct Raw {
    calls: ProcessServiceClient<Channel>,
    session: u64,
    _attached: Streaming<v1::AttachProcessResponse>,
}

/// A call that shares memory.
struct Sharing {
    say: mpsc::UnboundedSender<v1::ShareMemoryRequest>,
    answers: Streaming<v1::ShareMemoryResponse>,
    offered: v1::SharedMemory,
}

impl Raw {
    async fn attach(cluster: &Cluster, process: &str) -> Self {
        let socket = format!("unix://{}", cluster.socket(0).display());
        let channel = Endpoint::from_shared(socket).unwrap().connect().await.unwrap();
        let mut calls = ProcessServiceClient::new(channel);
        let (process, node) = (process.to_owned(), "n0".to_owned());
        let request = v1::AttachProcessRequest { process, node, ..<_>::default() };
        let mut attached = calls.attach_process(request).await.unwrap().into_inner();
        let session = attached.message().await.unwrap().unwrap().session;
        Self { calls, session, _attached: attached }
    }

    async fn try_to_share(&mut self) -> Result<Sharing, Status> {
        let (say, said) = mpsc::unbounded_channel();
        let request =
            v1::ShareMemoryRequest { session: self.session, least_bytes: 1, ..Default::default() };
        say.send(request).unwrap();
        let answers = soon(self.calls.share_memory(UnboundedReceiverStream::new(said))).await?;
        let mut answers = answers.into_inner();
        let first = soon(answers.message()).await?.unwrap();
        Ok(Sharing { say, answers, offered: first.memory.unwrap() })
    }

    /// Shares, and takes part in a group; messages go through the memory.
    async fn share_and_take_part(
        &mut self,
        group: &str,
    ) -> (Sharing, mpsc::UnboundedSender<v1::TakePartRequest>, Streaming<v1::TakePartResponse>)
    {
        let mut sharing = self.try_to_share().await.unwrap();
        sharing.say.send(v1::ShareMemoryRequest { opened: true, ..Default::default() }).unwrap();
        soon(sharing.answers.message()).await.unwrap().unwrap();
        let (session, group) = (self.session, group.to_owned());
        let join = v1::ProcessServiceJoinGroupRequest { session, group: group.clone() };
        soon(self.calls.join_group(join)).await.unwrap();
        let (ask, asked) = mpsc::unbounded_channel();
        ask.send(v1::TakePartRequest { session, group, more: 9, part: 1 }).unwrap();
        let news = soon(self.calls.take_part(UnboundedReceiverStream::new(asked))).await.unwrap();
        let mut news = news.into_inner();
        soon(news.message()).await.unwrap().unwrap();
        (sharing, ask, news)
    }

    async fn send(&mut self, payload: &[u8], range: v1::MemoryRange) -> Result<(), Status> {
        let request = v1::SendMessageRequest {
            session: self.session,
            group: "g".to_owned(),
            payload: payload.to_vec(),
            shared_payload: Some(range),
            ..Default::default()
        };
        soon(self.calls.send_message(request)).await.map(|_| ())
    }

    async fn run(&mut self, range: v1::MemoryRange) -> Result<v1::RunOperationResponse, Status> {
        let request = v1::RunOperationRequest {
            session: self.session,
            group: "g".to_owned(),
            shared_operation: Some(range),
            ..Default::default()
        };
        soon(self.calls.run_operation(request)).await.map(tonic::Response::into_inner)
    }
}

fn range(offset_bytes: u64, length_bytes: u64) -> v1::MemoryRange {
    v1::MemoryRange { offset_bytes, length_bytes }
}

/// A refusal: its reason, the field it names, and its text.
fn refusal<T: std::fmt::Debug>(refused: Result<T, Status>) -> (String, String, String) {
    let status = refused.unwrap_err();
    let field = fact_of(&status, "field").unwrap_or_default();
    (reason_of(&status).unwrap_or_default(), field, status.message().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_of_any_length_arrive_the_same_through_memory_and_through_the_socket() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let threshold = Settings::SHARE_FROM;
    let lengths = [0, 8, threshold - 8, threshold, threshold + 8, 300_000, LONGEST];
    let ways = [
        ("memory", [1, 1, 1, 1], Traces { names: 0, open: 4 }),
        ("socket", [usize::MAX; 4], Traces { names: 0, open: 0 }),
        ("both", [threshold, usize::MAX, 1, threshold], Traces { names: 0, open: 4 }),
    ];
    for (name, share_from, wanted) in ways {
        let groups = form(&cluster, name, &share_from).await;
        assert_eq!(traces(&cluster, 0), wanted, "two processes, each and the agent have a file");
        for length in lengths {
            talk(&groups, length).await;
        }
        drop(groups);
        eventually("nothing is open any more", async || {
            let left = traces(&cluster, 0);
            (left.open == 0).then_some(()).ok_or(format!("{left:?}"))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_at_once_than_there_is_room_for_arrives_all_the_same() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let groups = form(&cluster, "g", &[1, 1, 1]).await;
    let source = groups[0].clone();
    let sending = tokio::spawn(async move {
        // Begun together: those that find no room go through the socket.
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..12 {
            let source = source.clone();
            running.spawn(async move { source.multicast(&[7; LONGEST]).await });
        }
        while let Some(sent) = running.join_next().await {
            sent.unwrap().unwrap();
        }
        source.multicast(b"the last").await.unwrap();
    });
    for group in &groups[1..] {
        for _ in 0..12 {
            let message = soon(group.receive()).await.unwrap();
            assert!(message.payload == vec![7; LONGEST]);
        }
        assert_eq!(soon(group.receive()).await.unwrap().payload, b"the last");
    }
    soon(sending).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_given_up_spoils_no_other_message() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let groups = form(&cluster, "g", &[1, 1]).await;
    for from in 0..40 {
        let payload = pattern(LONGEST / 2, from);
        // However the call ends, no other call gets its room before the agent has read it.
        let _ = tokio::time::timeout(Duration::from_millis(1), groups[0].multicast(&payload)).await;
    }
    let source = groups[0].clone();
    let end = tokio::spawn(async move { source.multicast(b"end").await });
    loop {
        let payload = soon(groups[1].receive()).await.unwrap().payload;
        if payload == b"end" {
            break;
        }
        assert!(payload == pattern(LONGEST / 2, payload[0].into()), "whole: {}", payload[0]);
    }
    soon(end).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_leaves_no_file_nor_one_that_never_opens_it() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut child = Command::new(env!("CARGO_BIN_EXE_process"))
        .arg("g")
        .env(Settings::SOCKET, cluster.socket(0))
        .env(Settings::NODE, "n0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    assert_eq!(traces(&cluster, 0), Traces { names: 0, open: 1 }, "the agent has it open");
    child.kill().unwrap();
    child.wait().unwrap();
    let clean = async || {
        let left = traces(&cluster, 0);
        (left == Traces { names: 0, open: 0 }).then_some(()).ok_or(format!("{left:?}"))
    };
    eventually("the agent has let go of it", clean).await;
    let mut raw = Raw::attach(&cluster, "raw").await;
    let sharing = raw.try_to_share().await.unwrap();
    assert!(Path::new(&sharing.offered.path).exists(), "it is there to be opened");
    let again = refusal(raw.try_to_share().await.map(|sharing| sharing.offered));
    assert_eq!(again.0, "MEMORY_SHARED");
    drop((sharing, raw));
    eventually("the name is gone", clean).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_range_is_refused_with_its_field_and_changes_nothing() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut raw = Raw::attach(&cluster, "raw").await;
    let (none, field, _) = refusal(raw.send(b"", range(0, 4)).await);
    assert_eq!((none.as_str(), field.as_str()), ("NOT_A_MEMBER", ""), "it is in no group");
    let (sharing, _ask, mut news) = raw.share_and_take_part("g").await;
    let half = sharing.offered.half_bytes;
    let bad = [
        (range(half, 1), "shared_payload.offset_bytes"),
        (range(u64::MAX, u64::MAX), "shared_payload.offset_bytes"),
        (range(half - 1, 2), "shared_payload.length_bytes"),
        (range(1, u64::MAX), "shared_payload.length_bytes"),
    ];
    for (range, names) in bad {
        let (reason, field, text) = refusal(raw.send(b"", range).await);
        assert_eq!((reason.as_str(), field.as_str()), ("RANGE_INVALID", "shared_payload"));
        assert!(text.starts_with(names), "{text}");
    }
    let (reason, _, text) = refusal(raw.send(b"twice", range(0, 1)).await);
    assert_eq!((reason.as_str(), text.contains("too")), ("RANGE_INVALID", true), "{text}");
    let longest = u64::try_from(LONGEST).unwrap();
    assert_eq!(refusal(raw.send(b"", range(0, longest + 1)).await).0, "PAYLOAD_TOO_LONG");
    let (reason, field, text) = refusal(raw.run(range(7, half)).await);
    assert_eq!((reason.as_str(), field.as_str()), ("RANGE_INVALID", "shared_operation"), "{text}");

    // An operation is read as it was meant, one that is none is refused.
    let memory = std::fs::File::options().write(true).open(&sharing.offered.path);
    assert!(memory.is_err(), "the name is gone: {memory:?}");
    let (reason, field, text) = refusal(raw.run(range(0, 9)).await);
    assert_eq!((reason.as_str(), field.as_str()), ("RANGE_INVALID", "shared_operation"), "{text}");
    // Nobody was told anything, and everything still goes.
    let other = Client::attach(Settings::at(cluster.socket(0)).node("n1").share_from(1));
    let other = other.await.unwrap().join("g").await.unwrap();
    soon(other.wait_for(2)).await.unwrap();
    soon(other.multicast(b"hello")).await.unwrap();
    let found = loop {
        if let Some(v1::take_part_response::Event::Message(message)) =
            soon(news.message()).await.unwrap().unwrap().event
        {
            break message;
        }
    };
    let lent = found.shared_payload.unwrap();
    assert_eq!((found.payload.as_slice(), lent), (&b""[..], range(half, 5)));
    // A range that was not lent cannot be given back; the agent shares no more with this one.
    sharing
        .say
        .send(v1::ShareMemoryRequest { read: vec![half + 1], ..Default::default() })
        .unwrap();
    let mut answers = sharing.answers;
    let (reason, field, _) = refusal(soon(answers.message()).await);
    assert_eq!((reason.as_str(), field.as_str()), ("RANGE_INVALID", "read"));
    assert_eq!(refusal(raw.send(b"", range(0, 1)).await).0, "NO_SHARED_MEMORY");
    soon(other.multicast(b"hello")).await.unwrap();
    let Some(v1::take_part_response::Event::Message(message)) =
        soon(news.message()).await.unwrap().unwrap().event
    else {
        panic!("a message")
    };
    assert_eq!((message.payload.as_slice(), message.shared_payload), (&b"hello"[..], None));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_folder_in_memory_payloads_go_through_the_socket() {
    let disk = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    for folder in [None, Some(PathBuf::from("/dev/shm/none/such")), Some(disk.path().to_owned())] {
        let layout = Layout { shared_memory: folder.clone(), ..Layout::leaf_spine() };
        let cluster = Cluster::start(layout).await;
        let groups = form(&cluster, "g", &[1, 1, 1, 1]).await;
        talk(&groups, 100_000).await;
        let (reason, _, text) =
            refusal(Raw::attach(&cluster, "raw").await.try_to_share().await.map(|_| ()));
        assert_eq!(reason, "NO_SHARED_MEMORY", "{folder:?}: {text}");
    }
    assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 0, "nothing is left of the tries");
}
