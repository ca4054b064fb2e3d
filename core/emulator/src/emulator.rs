//! The fabric: a graph whose switches have tables, and packets that follow them.

use std::sync::Arc;

use fabricast_topology::{
    EndpointId, Faults, Graph, Peer, PortId, SwitchId, TableEntry, TableKind,
};
use thiserror::Error;

use crate::aggregation::Aggregation;
use crate::events::EventLog;
use crate::packet::{Deliveries, Outcome, Packet, PortCounters};
use crate::table::{EntryProblem, EntryWrite, Fence, SwitchTable};

/// Events kept for watchers: enough for eight hundred failures of a 40-port switch.
const EVENTS_KEPT: usize = 65_536;

/// A fabric of emulated switches.
///
/// - Tables: [`Emulator::write_table`], [`Emulator::read_table`], [`Emulator::fence`],
///   [`Emulator::free_entries`].
/// - Packets: [`Emulator::inject`], [`Emulator::counters`].
/// - Collectives: [`Emulator::write_aggregation`], [`Emulator::contribute`],
///   [`Emulator::run_aggregation`], [`Emulator::poll_finished`].
/// - Faults: [`Emulator::fail`], [`Emulator::heal`], [`Emulator::events_since`],
///   [`Emulator::disturb_table`].
#[derive(Clone, Debug)]
pub struct Emulator {
    pub(crate) graph: Arc<Graph>,
    pub(crate) tables: Vec<SwitchTable>,
    pub(crate) faults: Faults,
    /// Indexed by port: true if packets pass it. Derived from `faults`, so that a hop costs one
    /// lookup.
    pub(crate) live: Vec<bool>,
    pub(crate) counters: Vec<PortCounters>,
    pub(crate) events: EventLog,
    /// Input ports at which the present packet waits to be forwarded; kept to reuse its memory.
    pub(crate) arrivals: Vec<PortId>,
    pub(crate) hop_budget: u64,
    pub(crate) kind: TableKind,
    pub(crate) aggregation: Aggregation,
    colors: u16,
}

/// Fields of a packet that forwarding needs.
#[derive(Clone, Copy, Debug)]
struct PacketHeader {
    color: u16,
    bytes: u64,
}

/// A switch refused to have its table written or read. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("switch {switch}: {problem}")]
pub struct TableError {
    /// The switch's name, or its number if there is no such switch.
    pub switch: String,
    /// Reason of the refusal.
    pub problem: TableProblem,
}

/// Reason why a switch refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TableProblem {
    /// The graph has no such switch.
    #[error("not part of the fabric")]
    Unknown,
    /// The switch has failed.
    #[error("not answering")]
    Dead,
    /// A newer writer has written to the switch.
    #[error(
        "fence (term {}, generation {}) is older than (term {}, generation {})",
        offered.term, offered.generation, seen.term, seen.generation
    )]
    StaleFence {
        /// Fence of the write.
        offered: Fence,
        /// Newest fence that the switch has seen.
        seen: Fence,
    },
    /// An entry does not fit the switch; none of the batch was written.
    #[error("entry {index} (input port {}, color {}): {problem}", entry.in_port, entry.color)]
    Entry {
        /// Index of the entry in the batch, from 0.
        index: usize,
        /// The entry as given.
        entry: EntryWrite,
        /// Reason why it does not fit.
        problem: EntryProblem,
    },
}

impl Emulator {
    /// Powers on a fabric with empty tables of `colors` entries.
    ///
    /// The hop budget of a packet is the number of switch ports (plus the sender's link), which no
    /// tree exceeds.
    #[must_use]
    pub fn new(graph: Arc<Graph>, kind: TableKind, colors: u16) -> Self {
        let tables = graph
            .switches()
            .map(|switch| {
                let ports = u8::try_from(graph.ports(switch).len());
                SwitchTable::new(kind, colors, ports.expect("a switch has at most 255 ports"))
            })
            .collect();
        let faults = Faults::new();
        let ports = u32::try_from(graph.port_count()).expect("ports have 32-bit numbers");
        let live = (0..ports).map(|port| faults.port_is_live(&graph, PortId(port))).collect();
        Self {
            tables,
            faults,
            live,
            counters: vec![PortCounters::default(); graph.port_count()],
            events: EventLog::new(EVENTS_KEPT),
            arrivals: Vec::new(),
            hop_budget: u64::from(ports) + 1,
            aggregation: Aggregation::new(&graph),
            graph,
            kind,
            colors,
        }
    }

    /// Returns the graph.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Returns the kind of all tables.
    #[must_use]
    pub fn table_kind(&self) -> TableKind {
        self.kind
    }

    /// Returns the number of entries per input port, or per switch.
    #[must_use]
    pub fn colors(&self) -> u16 {
        self.colors
    }

    /// Sets the most links that the copies of one packet may cross in all.
    pub fn set_hop_budget(&mut self, hops: u64) {
        self.hop_budget = hops;
    }

    /// Writes entries of one switch, all or none; of two for the same input port and color the
    /// later counts.
    ///
    /// The switch remembers the fence of the write. An empty batch only sets the fence, which shuts
    /// out older writers.
    ///
    /// # Errors
    ///
    /// [`TableError`] naming the switch and the entry.
    pub fn write_table(
        &mut self,
        switch: SwitchId,
        fence: Fence,
        entries: &[EntryWrite],
    ) -> Result<(), TableError> {
        let table = self.answering(switch)?;
        if fence < table.fence() {
            let problem = TableProblem::StaleFence { offered: fence, seen: table.fence() };
            return Err(self.refusal(switch, problem));
        }
        let wrong = entries.iter().enumerate().find_map(|(index, entry)| {
            let problem = table.check(entry).err()?;
            Some(TableProblem::Entry { index, entry: *entry, problem })
        });
        if let Some(problem) = wrong {
            return Err(self.refusal(switch, problem));
        }
        let table = &mut self.tables[switch.index()];
        table.set_fence(fence);
        for entry in entries {
            table.write(entry);
        }
        Ok(())
    }

    /// Changes entries of one switch as faulty memory would: without checking or setting the fence.
    ///
    /// # Errors
    ///
    /// As [`Emulator::write_table`], but for the fence.
    pub fn disturb_table(
        &mut self,
        switch: SwitchId,
        entries: &[EntryWrite],
    ) -> Result<(), TableError> {
        let seen = self.fence(switch)?;
        self.write_table(switch, seen, entries)
    }

    /// Reads all entries of one switch, by input port and color.
    ///
    /// # Errors
    ///
    /// [`TableProblem::Unknown`], [`TableProblem::Dead`].
    pub fn read_table(&self, switch: SwitchId) -> Result<Vec<TableEntry>, TableError> {
        Ok(self.answering(switch)?.read(switch))
    }

    /// Returns the newest fence a switch has seen; zero if it was not written to since it was
    /// powered on.
    ///
    /// # Errors
    ///
    /// As [`Emulator::read_table`].
    pub fn fence(&self, switch: SwitchId) -> Result<Fence, TableError> {
        Ok(self.answering(switch)?.fence())
    }

    /// Counts the entries not in use for an input port (0: the whole switch, for per-switch
    /// tables); 0 for a port that does not exist.
    ///
    /// # Errors
    ///
    /// As [`Emulator::read_table`].
    pub fn free_entries(&self, switch: SwitchId, in_port: u8) -> Result<u16, TableError> {
        Ok(self.answering(switch)?.free(in_port))
    }

    /// Returns the counters of a port; zeros for a port that does not exist.
    #[must_use]
    pub fn counters(&self, port: PortId) -> PortCounters {
        self.counters.get(port.index()).copied().unwrap_or_default()
    }

    /// Counts the bytes that all tables hold.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.tables.iter().map(SwitchTable::bytes).sum()
    }

    /// Sends a packet from an endpoint; `deliveries` is cleared, then filled with the endpoints
    /// that got a copy.
    ///
    /// Copies are forwarded in order of distance from the sender, so that a loop cannot use up the
    /// hop budget of the rest of the tree. Endpoints take every packet, members of its group or
    /// not. A packet that cannot leave its sender (failed, without cable, unknown) counts as one
    /// dropped at a dead port.
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
        let header = PacketHeader { color: packet.color, bytes: packet.bytes() };
        self.arrivals.clear();
        self.arrivals.push(entry);
        let mut next = 0;
        while let Some(&in_port) = self.arrivals.get(next) {
            next += 1;
            self.forward(in_port, header, deliveries, &mut outcome);
        }
        outcome
    }

    /// Copies a packet that came in by `in_port` to the output ports that the table names.
    fn forward(
        &mut self,
        in_port: PortId,
        packet: PacketHeader,
        deliveries: &mut Deliveries,
        outcome: &mut Outcome,
    ) {
        let Self { graph, tables, live, counters, arrivals, .. } = self;
        let PacketHeader { color, bytes } = packet;
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

    fn answering(&self, switch: SwitchId) -> Result<&SwitchTable, TableError> {
        let table = self.tables.get(switch.index());
        let table = table.ok_or_else(|| self.refusal(switch, TableProblem::Unknown))?;
        if self.faults.switch_is_live(switch) {
            Ok(table)
        } else {
            Err(self.refusal(switch, TableProblem::Dead))
        }
    }

    fn refusal(&self, switch: SwitchId, problem: TableProblem) -> TableError {
        let known = switch.index() < self.graph.switch_count();
        let name = if known {
            self.graph.switch_name(switch).to_owned()
        } else {
            format!("#{}", switch.0)
        };
        TableError { switch: name, problem }
    }
}
