//! Processes at the socket of an operating agent: their sessions, and the requests of their calls.

use std::path::{Path, PathBuf};

use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use fabricast_proto::v1::{
    AttachProcessRequest, LocalProcess, ProcessServiceJoinGroupRequest, ReserveMembersRequest,
    TakePartRequest,
};
use fabricast_rpc::Channel;
use serde_json::{Value, json};
use tonic::transport::Endpoint;

use super::load::{CONNECTIONS, Threads};
use super::requests::NODE;

/// The group that the processes are in.
const GROUP: &str = "acme/local";
/// Calls of members that take part.
const OF_PARTICIPANTS: [&str; 3] = ["ListParticipants", "SendMessage", "RunOperation"];
/// Calls whose answers have all members.
const OF_LISTS: [&str; 2] = ["ListMembers", "WatchMembers"];
/// Further members of a group that is listed.
const MEMBERS: usize = 1_000;
/// Processes that attach, and groups that are joined, one after the other.
const NAMES: usize = 500;
/// Bytes of the longest message and of the longest contribution to an operation.
const LONGEST: usize = 1 << 20;

/// A channel to a socket, for a runtime that has been entered.
pub(super) fn channel(socket: &Path) -> Channel {
    let address = format!("unix://{}", socket.display());
    let endpoint = Endpoint::from_shared(address).expect("the path of a temporary folder");
    Channel::new(endpoint.connect_lazy(), "socket".into())
}

/// Attaches a process for each connection, prepared for a call: all are members of one group. They
/// stay as long as the threads.
///
/// - `name`: beginning of their names.
pub(super) async fn attach(
    threads: &Threads,
    socket: &Path,
    name: &str,
    call: &'static str,
) -> Vec<u64> {
    let mut sessions = Vec::new();
    for at in 0..CONNECTIONS {
        let begun = begin(socket.to_owned(), format!("{name}-{at}"), call);
        sessions.push(threads.handle().spawn(begun).await.expect("it is attached"));
    }
    if OF_LISTS.contains(&call) {
        let reserved = reserve(socket.to_owned(), sessions[0]);
        threads.handle().spawn(reserved).await.expect("they are members");
    }
    sessions
}

async fn begin(socket: PathBuf, process: String, call: &'static str) -> u64 {
    let mut calls = ProcessServiceClient::new(channel(&socket));
    let node = NODE.to_owned();
    let attach = AttachProcessRequest { process, node, ..Default::default() };
    let mut attached = calls.attach_process(attach).await.expect("a rule is for it").into_inner();
    let answer = attached.message().await.expect("it is attached");
    let session = answer.expect("the answer comes at once").session;
    // The session lasts as long as this is read.
    tokio::spawn(async move { while let Ok(Some(_)) = attached.message().await {} });
    let join = ProcessServiceJoinGroupRequest { session, group: GROUP.to_owned() };
    calls.join_group(join).await.expect("it is a group of its tenant");
    if OF_PARTICIPANTS.contains(&call) {
        let part = TakePartRequest { session, group: GROUP.to_owned(), more: u32::MAX, part: 0 };
        let events = calls.take_part(tokio_stream::once(part)).await.expect("it is a member");
        let mut events = events.into_inner();
        tokio::spawn(async move { while let Ok(Some(_)) = events.message().await {} });
    }
    session
}

/// Makes the group of a session long.
async fn reserve(socket: PathBuf, session: u64) {
    let member = |i| LocalProcess { process: format!("m{i:04}"), node: NODE.to_owned() };
    let processes = (0..MEMBERS).map(member).collect();
    let reserve = ReserveMembersRequest { session, group: GROUP.to_owned(), processes, user: None };
    let reserved = ProcessServiceClient::new(channel(&socket)).reserve_members(reserve).await;
    reserved.expect("it is a group of its tenant");
}

/// Requests of a call, without the session that makes them.
pub(super) fn requests(call: &str) -> Vec<Value> {
    let names = |prefix: &'static str| (0..NAMES).map(move |i| format!("{prefix}{i}"));
    match call {
        "ListLocalNodes" => vec![json!({})],
        "AttachProcess" => {
            names("n").map(|process| json!({ "process": process, "node": NODE })).collect()
        }
        "JoinGroup" => names("acme/n").map(|group| json!({ "group": group })).collect(),
        "ReserveMembers" => {
            vec![json!({ "group": GROUP, "processes": [{ "process": "r", "node": NODE }] })]
        }
        "ShareMemory" => vec![json!({ "opened": true })],
        "TakePart" => vec![json!({ "group": GROUP, "more": 1_000 })],
        "SendMessage" => {
            // In base64, four letters are three bytes.
            let payload = "AAAA".repeat(LONGEST / 3);
            vec![json!({ "group": GROUP, "payload": payload })]
        }
        "RunOperation" => {
            let numbers = json!({ "f64": { "numbers": vec![0.5; LONGEST / 8] } });
            let operation = json!({
                "kind": "OPERATION_KIND_ALL_REDUCE", "reduction": "REDUCTION_SUM",
                "numbers": numbers,
            });
            vec![json!({ "group": GROUP, "operation": operation })]
        }
        _ => vec![json!({ "group": GROUP })],
    }
}
