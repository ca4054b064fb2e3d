//! Packets through the emulated fabric: one in every group, which must arrive once at each member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::checks::text;
use crate::parts::{AGENTS, nodes_of};
use crate::programs::agent;

/// Longer than a packet takes through fabric and agents.
const FLIGHT: Duration = Duration::from_millis(500);

/// Packets by payload and receiver: group, node, process.
type Received = Arc<Mutex<BTreeMap<(Vec<u8>, String, String), u32>>>;

/// Sends one packet from the first member of each routed group.
pub(crate) async fn arrive(groups: &[v1::Group], dead: &BTreeSet<String>) -> Result<(), String> {
    let received = Received::default();
    let mut listening = tokio::task::JoinSet::new();
    let live = (0..AGENTS).filter(|index| !nodes_of(*index).any(|node| dead.contains(&node)));
    for index in live {
        let request = v1::ReceivePacketsRequest::default();
        let mut packets = agent(index).receive_packets(request).await.map_err(text)?.into_inner();
        let received = Arc::clone(&received);
        listening.spawn(async move {
            while let Ok(Some(answer)) = packets.message().await {
                for packet in answer.packets {
                    let key = (packet.payload, packet.node, packet.process);
                    *received.lock().entry(key).or_default() += 1;
                }
            }
        });
    }
    let mut expected = BTreeMap::new();
    for group in groups {
        let endpoints: BTreeSet<&str> =
            group.members.iter().map(|member| member.endpoint.as_str()).collect();
        let Some(sender) = group.members.first().filter(|_| endpoints.len() > 1) else { continue };
        let route = group.route.as_ref();
        if route.map(v1::Route::state) != Some(v1::RouteState::Routed) {
            return Err(format!("{} has no route: {route:?}", group.name));
        }
        let payload = group.name.clone().into_bytes();
        send(group, sender, &payload).await?;
        for member in group.members.iter().filter(|member| member.pn != sender.pn) {
            expected.insert((payload.clone(), member.node.clone(), member.process.clone()), 1);
        }
    }
    sleep(FLIGHT).await;
    let got = received.lock().clone();
    match got == expected {
        true => Ok(()),
        false => Err(format!("packets arrived at {got:?}, expected {expected:?}")),
    }
}

async fn send(group: &v1::Group, sender: &v1::Member, payload: &[u8]) -> Result<(), String> {
    let home = (0..AGENTS).find(|index| nodes_of(*index).any(|node| node == sender.node));
    let home = home.ok_or_else(|| format!("{} is no node", sender.node))?;
    let request = v1::SendPacketRequest {
        node: sender.node.clone(),
        group: group.name.clone(),
        process: sender.process.clone(),
        payload: payload.to_vec(),
    };
    agent(home).send_packet(request).await.map(drop).map_err(text)
}
