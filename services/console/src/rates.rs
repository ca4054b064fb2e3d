//! Rates of packets at switch ports, from two readings of their counters.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

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
    /// By port; none for a port that was not read. A map would take five times as much.
    packets: Vec<Option<NonZeroU64>>,
}

impl Reading {
    /// A reading of no port.
    pub(crate) fn new(graph: &Graph) -> Self {
        Self { at: Instant::now(), packets: vec![None; graph.port_count()] }
    }

    /// Adds the ports of a switch.
    pub(crate) fn add(&mut self, graph: &Graph, switch: &v1::SwitchCounters) {
        for one in &switch.ports {
            if let Some(port) = port(graph, &switch.switch_name, one.port) {
                self.set(port, one.received_packets.saturating_add(one.sent_packets));
            }
        }
    }

    fn set(&mut self, port: PortId, packets: u64) {
        self.packets[port.index()] = NonZeroU64::MIN.checked_add(packets);
    }

    fn get(&self, port: usize) -> Option<u64> {
        Some((*self.packets.get(port)?)?.get() - 1)
    }
}

/// Rates between two readings. A counter that has become smaller was cleared, and counts from 0; a
/// port that was not read before, as its agent did not answer, has no rate yet.
pub(crate) fn rates(last: &Reading, now: &Reading) -> Rates {
    let seconds = now.at.duration_since(last.at).as_secs_f64().max(0.001);
    let rate = |port: PortId| {
        let (before, sum) = (last.get(port.index())?, now.get(port.index())?);
        let new = if sum < before { sum } else { sum - before };
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is shown rounded"
        )]
        let rate = (new as f64 / seconds).ceil() as u32;
        (rate > 0).then_some((port, rate))
    };
    let count = u32::try_from(now.packets.len()).expect("ports have numbers of 32 bits");
    Rates { by_port: (0..count).map(PortId).filter_map(rate).collect() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_what_came_in_a_second() {
        let reading = |at, counts: &[(u32, u64)]| {
            let mut reading = Reading { at, packets: vec![None; 6] };
            counts.iter().for_each(|(port, sum)| reading.set(PortId(*port), *sum));
            reading
        };
        let begin = Instant::now();
        let first = reading(begin, &[(1, 10), (2, 500), (3, 7), (4, 0)]);
        let later = begin + Duration::from_secs(2);
        let second = reading(later, &[(1, 30), (2, 40), (3, 7), (4, 1), (5, 900)]);
        let found = rates(&first, &second).by_port;
        assert_eq!(found, BTreeMap::from([(PortId(1), 10), (PortId(2), 20), (PortId(4), 1)]));
    }
}
