//! The fabric: a graph whose switches have tables.

use std::sync::Arc;

use fabricast_topology::{Faults, Graph, PortId, SwitchId, TableEntry, TableKind};
use thiserror::Error;

use crate::aggregation::Aggregation;
use crate::events::EventLog;
use crate::table::{EntryProblem, EntryWrite, Fence, SwitchTable};

/// Events kept for watchers: eight hundred failures of a 40-port switch.
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
    /// By port: what `faults` says of it, kept so that a hop costs one look.
    pub(crate) live: Vec<bool>,
    pub(crate) counters: Vec<PortCounters>,
    pub(crate) events: EventLog,
    /// Input ports that the packet in hand has still to be forwarded from; kept for its memory.
    pub(crate) arrivals: Vec<PortId>,
    pub(crate) hop_budget: u64,
    pub(crate) kind: TableKind,
    pub(crate) aggregation: Aggregation,
    colors: u16,
}

/// What passed a switch port since its switch was powered on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets that came in.
    pub received: u64,
    /// Packets that went out.
    pub sent: u64,
    /// Bytes of the packets that came in, headers included.
    pub received_bytes: u64,
    /// Bytes of the packets that went out, headers included.
    pub sent_bytes: u64,
    /// Packets dropped: no entry for what came in here, or what should have gone out here could
    /// not.
    pub dropped: u64,
}

impl PortCounters {
    pub(crate) const fn receive(&mut self, bytes: u64) {
        self.received += 1;
        self.received_bytes += bytes;
    }

    pub(crate) const fn send(&mut self, bytes: u64) {
        self.sent += 1;
        self.sent_bytes += bytes;
    }
}

/// A switch refused to have its table written or read. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("switch {switch}: {problem}")]
pub struct TableError {
    /// The switch's name, or its number if there is no such switch.
    pub switch: String,
    /// What is wrong.
    pub problem: TableProblem,
}

/// Why a switch refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TableProblem {
    /// The graph has no such switch.
    #[error("not part of the fabric")]
    Unknown,
    /// The switch has failed.
    #[error("not answering")]
    Dead,
    /// Somebody newer has written to the switch.
    #[error(
        "fence (term {}, generation {}) is older than (term {}, generation {})",
        offered.term, offered.generation, seen.term, seen.generation
    )]
    StaleFence {
        /// What the write carried.
        offered: Fence,
        /// The newest the switch has seen.
        seen: Fence,
    },
    /// An entry does not fit the switch; none of the batch was written.
    #[error("entry {index} (input port {}, color {}): {problem}", entry.in_port, entry.color)]
    Entry {
        /// Its place in the batch, from 0.
        index: usize,
        /// The entry.
        entry: EntryWrite,
        /// What is wrong with it.
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

    /// Gives the graph.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Gives the kind of all tables.
    #[must_use]
    pub fn table_kind(&self) -> TableKind {
        self.kind
    }

    /// Gives the number of entries: per input port, or per switch.
    #[must_use]
    pub fn colors(&self) -> u16 {
        self.colors
    }

    /// Sets how many links the copies of one packet may use in all.
    pub fn set_hop_budget(&mut self, hops: u64) {
        self.hop_budget = hops;
    }

    /// Writes entries in one switch, all or none; of two for one place the later counts.
    ///
    /// The switch remembers the fence of a write it obeyed. An empty batch only leaves the fence,
    /// and so shuts out an older writer.
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

    /// Changes entries of one switch behind everybody's back, as bad memory would: no fence is looked at, and
    /// none is left.
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

    /// Gives the newest fence a switch has seen; zero since it was powered on and not yet written
    /// to.
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

    /// Gives the counters of a port; zeros for a port that does not exist.
    #[must_use]
    pub fn counters(&self, port: PortId) -> PortCounters {
        self.counters.get(port.index()).copied().unwrap_or_default()
    }

    /// Counts the bytes that all tables hold.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.tables.iter().map(SwitchTable::bytes).sum()
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
