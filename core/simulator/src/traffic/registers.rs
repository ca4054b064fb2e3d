//! The statistics registers of switches as root policies see them: late and stale.
//!
//! Every so often the registers of all ports are read; what was read is known some time later and
//! stays all that is known until the next reading is (Dawning §4.2.2: read over a network of its
//! own).

use fabricast_topology::{Graph, PortId};

use crate::workload::PortStatistics;

/// Register that stands for the load of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadMeasure {
    /// Bytes sent since the last reading.
    Bandwidth,
    /// Picoseconds that packets waited for the port since the last reading.
    #[default]
    Delay,
}

/// Interval, delay and measure of register readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Picoseconds from one reading to the next.
    pub every_ps: u64,
    /// Picoseconds until a reading is known; at most those between readings.
    pub delay_ps: u64,
    /// Register that is read.
    pub measure: LoadMeasure,
}

/// Readings of all ports.
#[derive(Clone, Debug)]
pub struct Registers {
    reading: Reading,
    next_ps: u64,
    before: Vec<u64>, // by port: the register at the last reading
    known: Loads,
    coming: Loads,
    known_from_ps: u64,  // the coming one
    switch_of: Vec<u32>, // by port
}

/// Loads of ports and switches.
#[derive(Clone, Debug)]
struct Loads {
    ports: Vec<u64>,
    switches: Vec<u64>,
}

impl Registers {
    /// Starts with loads of 0.
    #[must_use]
    pub fn new(graph: &Graph, reading: Reading) -> Self {
        let (ports, switches) = (graph.port_count(), graph.switch_count());
        let loads = Loads { ports: vec![0; ports], switches: vec![0; switches] };
        let of_switch = |switch| graph.ports(switch).map(move |_| switch.0);
        let every_ps = reading.every_ps.max(1);
        Self {
            reading: Reading { every_ps, delay_ps: reading.delay_ps.min(every_ps), ..reading },
            next_ps: every_ps,
            before: vec![0; ports],
            known: loads.clone(),
            coming: loads,
            known_from_ps: u64::MAX,
            switch_of: graph.switches().flat_map(of_switch).collect(),
        }
    }

    /// Gives the moment of the next reading.
    #[must_use]
    pub const fn next_ps(&self) -> u64 {
        self.next_ps
    }

    /// Reads the registers of all ports; the moment is that of the next reading.
    pub fn read(&mut self, statistics: impl Fn(PortId) -> PortStatistics) {
        self.look(self.next_ps); // what was coming is known by now
        self.coming.switches.fill(0);
        for ((port, before), switch) in (0u32..).zip(&mut self.before).zip(&self.switch_of) {
            let PortStatistics { sent_bytes, waited_ps } = statistics(PortId(port));
            let now = match self.reading.measure {
                LoadMeasure::Bandwidth => sent_bytes,
                LoadMeasure::Delay => waited_ps,
            };
            let load = now - std::mem::replace(before, now);
            self.coming.ports[port as usize] = load;
            self.coming.switches[*switch as usize] += load;
        }
        self.known_from_ps = self.next_ps + self.reading.delay_ps;
        self.next_ps += self.reading.every_ps;
    }

    /// Takes over what has become known by a moment.
    pub fn look(&mut self, now_ps: u64) {
        if now_ps >= self.known_from_ps {
            std::mem::swap(&mut self.known, &mut self.coming);
            self.known_from_ps = u64::MAX;
        }
    }

    /// Gives the known load of a port as an output.
    #[must_use]
    pub fn port(&self, port: PortId) -> u64 {
        self.known.ports[port.index()]
    }

    /// Gives the known load of a switch: the sum over its outputs.
    #[must_use]
    pub fn switch(&self, switch: u32) -> u64 {
        self.known.switches[switch as usize]
    }
}
