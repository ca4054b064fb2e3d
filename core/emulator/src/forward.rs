//! Packets through tables.
//!
//! A packet's copies are handled in order of distance from the sender, so that a loop somewhere
//! cannot starve the rest of the tree of its share of the hop budget. Tables and faults do not
//! change while a packet is under way.

use fabricast_topology::{EndpointId, Peer, PortId, TableKind};

use crate::emulator::Emulator;
use crate::packet::{Deliveries, Outcome, Packet};

impl Emulator {
    /// Sends a packet from an endpoint; `deliveries` is emptied and then holds the endpoints that
    /// got a copy.
    ///
    /// Endpoints take every packet: whether they are members of its group is theirs to say. A
    /// packet that cannot leave its sender (dead, not plugged in, not there) counts as one dropped
    /// at a dead port.
    ///
    /// Cost: O(hops), no allocation once the buffers have grown.
    pub fn inject(
        &mut self,
        from: EndpointId,
        packet: &Packet,
        deliveries: &mut Deliveries,
    ) -> Outcome {
        deliveries.0.clear();
        let mut outcome = Outcome::default();
        let attachment = (from.index() < self.graph.endpoint_count())
            .then(|| self.graph.attachment(from))
            .flatten()
            .filter(|port| self.live[port.index()]);
        let Some(entry) = attachment else {
            outcome.dropped.dead_port = 1;
            return outcome;
        };
        outcome.hops = 1;
        let bytes = packet.bytes();
        self.arrivals.clear();
        self.arrivals.push(entry);
        let mut next = 0;
        while let Some(&in_port) = self.arrivals.get(next) {
            next += 1;
            self.forward(in_port, (packet.color, bytes), deliveries, &mut outcome);
        }
        outcome
    }

    /// Copies a packet that came in by `in_port` to the output ports that the table names.
    fn forward(
        &mut self,
        in_port: PortId,
        (color, bytes): (u16, u64),
        deliveries: &mut Deliveries,
        outcome: &mut Outcome,
    ) {
        let Self { graph, tables, live, counters, arrivals, .. } = self;
        let switch = graph.switch_of(in_port);
        let number = graph.port_number(in_port);
        // Physical numbers begin at 1, and the ports of a switch are contiguous.
        let port_zero = in_port.0.wrapping_sub(u32::from(number));
        counters[in_port.index()].receive(bytes);
        let mut copied = false;
        for (word, bits) in (0_u32..).zip(tables[switch.index()].lookup(number, color)) {
            let mut bits = *bits;
            if self.kind == TableKind::PerSwitch && u32::from(number / 64) == word {
                bits &= !(1 << (number % 64));
            }
            while bits != 0 {
                let out = PortId(port_zero.wrapping_add(word * 64 + bits.trailing_zeros()));
                bits &= bits - 1;
                copied = true;
                let counter = &mut counters[out.index()];
                if !live[out.index()] {
                    counter.dropped += 1;
                    outcome.dropped.dead_port += 1;
                } else if outcome.hops >= self.hop_budget {
                    counter.dropped += 1;
                    outcome.dropped.hop_budget += 1;
                } else {
                    counter.send(bytes);
                    outcome.hops += 1;
                    match graph.peer(out) {
                        Peer::Switch(peer) => arrivals.push(peer),
                        Peer::Endpoint(endpoint) => {
                            deliveries.0.push(endpoint);
                            outcome.delivered += 1;
                        }
                        // Not live, see above.
                        Peer::None => {}
                    }
                }
            }
        }
        if !copied {
            counters[in_port.index()].dropped += 1;
            outcome.dropped.no_entry += 1;
        }
    }
}
