//! Reads port counters by LID.

use fabricast_infiniband::{Counters, CountersQuery, Node, Traffic, dropped_packets};
use fabricast_proto::v1;

use super::packets::PacketSender;

/// Reads the counters of all ports of a switch; `None` if one port does not answer.
pub(super) async fn read(
    sender: &PacketSender,
    node: &Node,
    lid: u16,
) -> Option<v1::SwitchCounters> {
    let read = |counters| {
        let query = move |port| CountersQuery { lid, counters, port, transaction: 0 };
        sender.request((1..=node.info.ports).map(query))
    };
    let (traffic, losses) = tokio::join!(read(Counters::Extended), read(Counters::Basic));
    let mut ports = Vec::with_capacity(traffic.len());
    for (port, (traffic, losses)) in (1..).zip(traffic.into_iter().zip(losses)) {
        let traffic = Traffic::read(&traffic.ok()?);
        ports.push(v1::PortCounters {
            port,
            received_packets: traffic.received_packets,
            sent_packets: traffic.sent_packets,
            received_bytes: traffic.received_bytes,
            sent_bytes: traffic.sent_bytes,
            dropped_packets: dropped_packets(&losses.ok()?),
        });
    }
    Some(v1::SwitchCounters { switch_name: node.name(), ports })
}
