//! `fabricast group send`: sends one packet and counts the members that get it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_proto::v1;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::args::Format;
use crate::commands::group::MemberArgs;
use crate::failure::Failure;
use crate::output;
use crate::remote::Remote;

/// Most members whose agents are asked whether the packet arrives.
const MOST_ASKED: usize = 64;
/// Most members that the text names.
const MOST_NAMED: usize = 8;
/// Longest time for an agent to start listening.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time for the packet to arrive.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Members that a packet reached.
#[derive(Debug, Serialize)]
struct Delivery {
    group: String,
    /// Reason why the members could not be listed; none of them was asked then.
    #[serde(skip_serializing_if = "Option::is_none")]
    members_unknown: Option<String>,
    /// Number of members, without the sender.
    members: usize,
    /// Number of members whose agents listened for the packet.
    asked: usize,
    /// Number of members that got it.
    reached: usize,
    /// Members that did not get it, as node and process.
    missed: Vec<String>,
    /// Nodes whose agents could not be asked, and why.
    not_asked: BTreeMap<String, String>,
}

/// Processes of one node that wait for the packet.
struct Listener {
    node: String,
    processes: BTreeSet<String>,
    stream: tonic::Streaming<v1::ReceivePacketsResponse>,
}

/// Sends a packet from a member and listens at the agents of the others, at most 64 of them.
///
/// # Errors
///
/// That of the failed call; [`Failure::No`] if a member that was asked does not get the packet.
pub(super) async fn run(
    member: MemberArgs,
    payload: String,
    format: Format,
) -> Result<(), Failure> {
    let remote = Remote::new(&member.server)?.host_of(&member.node).await?;
    let (node, name) = (member.node.clone(), member.group.clone());
    let query = v1::OperatingAgentServiceQueryGroupRequest { node, group: name };
    // Packets travel without the TIC; only the list of members needs it.
    let queried = remote.answer(remote.agent().query_group(query)).await;
    let members_unknown = queried.as_ref().err().map(Failure::message);
    let group = queried.ok().and_then(|answer| answer.group).unwrap_or_default();
    let is_sender =
        |other: &v1::Member| other.node == member.node && other.process == member.process;
    let others: Vec<&v1::Member> = group.members.iter().filter(|one| !is_sender(one)).collect();
    let (listeners, not_asked) = listen(&remote, &spread(&others)).await;
    let request = v1::SendPacketRequest {
        node: member.node,
        group: member.group.clone(),
        process: member.process,
        payload: payload.clone().into_bytes(),
    };
    remote.answer(remote.agent().send_packet(request)).await?;
    let asked = listeners.iter().map(|listener| listener.processes.len()).sum();
    let missed = missed(listeners, group.gn, payload.as_bytes()).await;
    let reached = asked - missed.len();
    let members = others.len();
    let group = member.group;
    let delivery = Delivery { group, members_unknown, members, asked, reached, missed, not_asked };
    output::print(format, &delivery, text)?;
    match delivery.missed.len() {
        0 => Ok(()),
        1 => Err(Failure::No("1 member did not get the packet".to_owned())),
        count => Err(Failure::No(format!("{count} members did not get the packet"))),
    }
}

/// Takes members at equal distances, so many as are asked.
fn spread<'a>(members: &[&'a v1::Member]) -> Vec<&'a v1::Member> {
    let count = members.len().min(MOST_ASKED);
    (0..count).map(|at| members[at * members.len() / count]).collect()
}

/// Opens a stream of packets at the agent of each node. Returns the nodes whose agents refuse or
/// do not answer, and why.
async fn listen(
    remote: &Remote,
    members: &[&v1::Member],
) -> (Vec<Listener>, BTreeMap<String, String>) {
    let mut nodes: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for member in members {
        let at = (member.node.as_str(), member.address.as_str());
        nodes.entry(at).or_default().insert(member.process.clone());
    }
    let mut opening = JoinSet::new();
    for ((node, address), processes) in nodes {
        let (remote, node, address) = (remote.clone(), node.to_owned(), address.to_owned());
        opening.spawn(async move {
            match timeout(LISTEN_TIMEOUT, open(&remote, &node, &address)).await {
                Ok(Ok(stream)) => Ok(Listener { node, processes, stream }),
                Ok(Err(failure)) => Err((node, failure.message())),
                Err(_) => Err((node, format!("no answer from {address}"))),
            }
        });
    }
    let (mut listeners, mut not_asked) = (Vec::new(), BTreeMap::new());
    for opened in opening.join_all().await {
        match opened {
            Ok(listener) => listeners.push(listener),
            Err((node, why)) => drop(not_asked.insert(node, why)),
        }
    }
    (listeners, not_asked)
}

/// Opens a stream of the packets for a node, at the sender's agent if that hosts the node, too.
async fn open(
    remote: &Remote,
    node: &str,
    address: &str,
) -> Result<tonic::Streaming<v1::ReceivePacketsResponse>, Failure> {
    let request = v1::ReceivePacketsRequest { node: node.to_owned() };
    if let Ok(stream) = remote.answer(remote.agent().receive_packets(request.clone())).await {
        return Ok(stream);
    }
    let agent = remote.elsewhere(address)?;
    agent.answer(agent.agent().receive_packets(request)).await
}

/// Waits for a packet at all listeners. Returns the members that did not get it in time.
async fn missed(listeners: Vec<Listener>, gn: u64, payload: &[u8]) -> Vec<String> {
    let deadline = Instant::now() + ARRIVAL_TIMEOUT;
    let mut waiting = JoinSet::new();
    for Listener { node, mut processes, mut stream } in listeners {
        let payload = payload.to_vec();
        waiting.spawn(async move {
            while !processes.is_empty()
                && let Ok(Ok(Some(message))) = timeout_at(deadline, stream.message()).await
            {
                for packet in message.packets {
                    if packet.gn == gn && packet.payload == payload {
                        processes.remove(&packet.process);
                    }
                }
            }
            processes.into_iter().map(|process| format!("{node}/{process}")).collect::<Vec<_>>()
        });
    }
    let mut missed: Vec<String> = waiting.join_all().await.into_iter().flatten().collect();
    missed.sort_unstable();
    missed
}

fn text(delivery: &Delivery) -> String {
    let Delivery { group, members_unknown, members, asked, reached, missed, not_asked } = delivery;
    if let Some(why) = members_unknown {
        return format!(
            "group {group}: sent; the members that it may have reached are not known: {why}"
        );
    }
    let mut text = if members == asked {
        format!("group {group}: sent; reached {reached} of {members} members")
    } else if *asked == 0 {
        format!(
            "group {group}: sent; none of the {members} members could be asked whether it arrived"
        )
    } else {
        format!("group {group}: sent; reached {reached} of {asked} members asked, {members} in all")
    };
    if !missed.is_empty() {
        let named = missed.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>();
        text.push_str(&format!("\nnot reached: {}", named.join(", ")));
        if let more @ 1.. = missed.len() - named.len() {
            text.push_str(&format!(" and {more} more"));
        }
    }
    for (node, why) in not_asked.iter().take(MOST_NAMED) {
        text.push_str(&format!("\nnot asked: node {node}: {why}"));
    }
    if let more @ 1.. = not_asked.len().saturating_sub(MOST_NAMED) {
        text.push_str(&format!("\nnot asked: {more} more nodes"));
    }
    text
}
