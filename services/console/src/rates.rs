//! Rates of packets at switch ports, from two readings of their counters.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use fabricast_topology::{Graph, PortId};
use tokio::time::Instant;

use crate::overlay::port;

/// Rates between two readings.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    /// Packets that a port received and sent in a second; idle ports are left out.
    pub(crate) by_port: BTreeMap<PortId, u32>,
}

/// Packets that each port has received and sent, and when that was read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    pub(crate) packets: BTreeMap<PortId, u64>,
}

/// Sums what ports have received and sent.
pub(crate) fn packets(graph: &Graph, counters: &[v1::SwitchCounters]) -> BTreeMap<PortId, u64> {
    let mut packets = BTreeMap::new();
    for switch in counters {
        for one in &switch.ports {
            if let Some(port) = port(graph, &switch.switch_name, one.port) {
                packets.insert(port, one.received_packets.saturating_add(one.sent_packets));
            }
        }
    }
    packets
}

/// Rates between two readings. A counter that has become smaller was cleared, and counts from 0; a
/// port that was not read before, as its agent did not answer, has no rate yet.
pub(crate) fn rates(last: &Reading, now: &Reading) -> Rates {
    let seconds = now.at.duration_since(last.at).as_secs_f64().max(0.001);
    let rate = |(port, sum): (&PortId, &u64)| {
        let before = last.packets.get(port)?;
        let new = if sum < before { *sum } else { *sum - *before };
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is shown rounded"
        )]
        let rate = (new as f64 / seconds).ceil() as u32;
        (rate > 0).then_some((*port, rate))
    };
    Rates { by_port: now.packets.iter().filter_map(rate).collect() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_what_came_in_a_second() {
        let reading = |at, counts: &[(u32, u64)]| {
            let packets = counts.iter().map(|(port, sum)| (PortId(*port), *sum)).collect();
            Reading { at, packets }
        };
        let begin = Instant::now();
        let first = reading(begin, &[(1, 10), (2, 500), (3, 7), (4, 0)]);
        let later = begin + Duration::from_secs(2);
        let second = reading(later, &[(1, 30), (2, 40), (3, 7), (4, 1), (5, 900)]);
        let found = rates(&first, &second).by_port;
        assert_eq!(found, BTreeMap::from([(PortId(1), 10), (PortId(2), 20), (PortId(4), 1)]));
    }
}
