//! Runs a fabric: handles the events of each moment, then lets adapters and switches decide.
//!
//! Invariants
//! - SIM-5: every copy ends delivered or dropped for a stated reason, or is still in flight.
//! - SIM-6: results do not depend on the order in which the events of one moment come out of the
//!   queue.

use fabricast_topology::{EndpointId, Faults, PortId};
use thiserror::Error;

use crate::event::Event;
use crate::fabric::{Counters, Deadlock, Fabric, PacketInfo};
use crate::model::{Model, ModelError};
use crate::queue::{EventQueue, TimingWheel};
use crate::routes::TreeId;
use crate::traffic::Streams;
use crate::workload::{Delivery, Network, Offer, Packet, PortStatistics, Route, Workload};

/// Reason why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// Packets wait for each other in a cycle.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// The workload sent on a tree from an endpoint that cannot send on it.
    #[error("endpoint {} cannot send on tree {}", .endpoint.0, .tree.0)]
    NotASender {
        /// Endpoint that sends the packet.
        endpoint: EndpointId,
        /// Tree of the packet.
        tree: TreeId,
    },
    /// A packet does not fit a buffer, or is empty.
    #[error("a packet of {bytes} bytes, must be 1 to the {buffer} of a buffer")]
    Length {
        /// Length of the packet.
        bytes: u32,
        /// Bytes of a buffer.
        buffer: u32,
    },
}

/// A fabric, its workload and the present time.
pub struct Simulator<'a, W, Q = TimingWheel> {
    fabric: Fabric<'a, Q>,
    workload: W,
    /// For each endpoint, one per channel and one for [`Workload::act`]: time of the next call in
    /// picoseconds; 0 for none.
    reminders: Vec<u64>,
    /// Packets from endpoints of the same node that their receiver has not been told of.
    inside: Vec<Delivery>,
}

impl<'a, W: Workload> Simulator<'a, W> {
    /// Makes an idle fabric at time 0.
    ///
    /// # Errors
    ///
    /// [`ModelError`] naming the constant that is out of its range.
    pub fn new(network: Network<'a>, model: Model, workload: W) -> Result<Self, ModelError> {
        Self::with_queue(network, model, workload, TimingWheel::default())
    }
}

impl<'a, W: Workload, Q: EventQueue> Simulator<'a, W, Q> {
    /// Makes an idle fabric with the event queue of the caller.
    ///
    /// # Errors
    ///
    /// As for [`Simulator::new`].
    pub fn with_queue(
        network: Network<'a>,
        model: Model,
        workload: W,
        events: Q,
    ) -> Result<Self, ModelError> {
        let mut fabric = Fabric::new(network, model, events)?;
        let endpoints = fabric.graph.endpoint_count();
        let ports = fabric.graph.endpoints().map(|endpoint| fabric.wiring.port_of(endpoint));
        fabric.adapters.extend(ports);
        let reminders = vec![0; endpoints * (usize::from(model.channels) + 1)];
        Ok(Self { fabric, workload, reminders, inside: Vec::new() })
    }

    /// Cuts the links of failed parts: copies sent into them are lost. Unicast avoids them where it
    /// can; multicast follows its tree.
    pub fn set_faults(&mut self, faults: &Faults) {
        self.fabric.set_faults(faults);
    }

    /// Lets a switch port send more slowly than the model's links: what other traffic leaves of it.
    /// A rate above the model's changes nothing.
    pub fn slow_down(&mut self, port: PortId, ps_per_byte: u64) {
        self.fabric.slow_down(port, ps_per_byte);
    }

    /// Makes an endpoint a part of the switch that it is attached to, as a unit that reduces: no
    /// wire lies between them. All that it sends and receives crosses the switch.
    pub fn remove_wire(&mut self, endpoint: EndpointId) {
        self.fabric.remove_wire(endpoint);
    }

    /// Records waiting times from now on; of packets in flight the earlier ones are unknown.
    pub fn record_trails(&mut self) {
        self.fabric.trails.get_or_insert_default();
    }

    /// Runs up to a time, with the events of that time; returns true if events are left.
    ///
    /// # Errors
    ///
    /// [`RunError`]: a deadlock, or a mistake of the workload. The run cannot be continued.
    pub fn run_until(&mut self, until_ps: u64) -> Result<bool, RunError> {
        self.decide()?;
        while let Some(at) = self.fabric.events.next_at() {
            if at > until_ps {
                self.fabric.now = until_ps;
                return Ok(true);
            }
            self.fabric.now = at;
            while let Some(word) = self.fabric.events.pop_at(at) {
                self.fabric.handle_event(Event::unpack(word));
            }
            self.decide()?;
        }
        self.fabric.now = self.fabric.now.max(until_ps);
        if self.fabric.in_flight() > 0
            && let Some(deadlock) = self.fabric.find_any_deadlock()
        {
            return Err(deadlock.into());
        }
        debug_assert_eq!(self.fabric.in_flight(), 0, "SIM-3");
        self.fabric.check_at_rest();
        Ok(false)
    }

    fn decide(&mut self) -> Result<(), RunError> {
        let fabric = &mut self.fabric;
        if !fabric.arrived.is_empty() {
            let mut arrived = std::mem::take(&mut fabric.arrived);
            arrived.sort_unstable_by_key(|(port, _)| *port);
            for (port, copy) in arrived.drain(..) {
                let (info, trail) = fabric.collect(copy);
                let PacketInfo { source, bytes, born_ps, sent_ps, tag, .. } = info;
                let to = fabric.wiring.endpoint(port);
                let delivery = Delivery { to, from: source, bytes, born_ps, sent_ps, tag, trail };
                self.workload.delivered(fabric.now, &delivery);
                fabric.adapters.push(port);
            }
            fabric.arrived = arrived;
        }
        if !fabric.adapters.is_empty() {
            let mut adapters = std::mem::take(&mut fabric.adapters);
            adapters.sort_unstable();
            adapters.dedup();
            for port in adapters.drain(..) {
                self.poll(port)?;
            }
            debug_assert!(self.fabric.adapters.is_empty(), "sending takes time");
            self.fabric.adapters = adapters;
        }
        self.fabric.arbitrate();
        self.fabric.deadlock.take().map_or(Ok(()), |deadlock| Err(deadlock.into()))
    }

    /// Fills the empty buffers of an adapter and lets it send.
    fn poll(&mut self, port: u32) -> Result<(), RunError> {
        let fabric = &mut self.fabric;
        let (endpoint, channels) = (fabric.wiring.endpoint(port), fabric.model.channels);
        let now = fabric.now;
        for delivery in self.inside.extract_if(.., |one| one.to == endpoint && one.sent_ps < now) {
            self.workload.delivered(now, &delivery);
        }
        if let Some(at) = self.workload.act(fabric.now, endpoint) {
            self.remind(port, channels, at);
        }
        for channel in 0..channels {
            if self.fabric.is_empty(port, channel.into()) {
                self.fill(port, channel)?;
            }
        }
        self.fabric.send_from_adapter(port);
        Ok(())
    }

    /// Asks for packets until one goes into the empty buffer of an adapter or there is none.
    fn fill(&mut self, port: u32, channel: u8) -> Result<(), RunError> {
        let endpoint = self.fabric.wiring.endpoint(port);
        loop {
            let packet = match self.workload.next(self.fabric.now, endpoint, channel) {
                Offer::Nothing => return Ok(()),
                Offer::At(at) => {
                    self.remind(port, channel, at);
                    return Ok(());
                }
                Offer::Send(packet) => packet,
            };
            let fabric = &mut self.fabric;
            let buffer = fabric.model.buffer_bytes;
            if packet.bytes == 0 || packet.bytes > buffer {
                return Err(RunError::Length { bytes: packet.bytes, buffer });
            }
            let (to, hop) = match packet.route {
                Route::Unicast(to) => (to, None),
                Route::Inside(to) => {
                    self.hand_over(endpoint, to, &packet);
                    continue;
                }
                Route::Tree(tree) => {
                    let hop = fabric.routes.entry(tree, endpoint);
                    let hop = hop.ok_or(RunError::NotASender { endpoint, tree })?;
                    (endpoint, Some(hop))
                }
            };
            let info = fabric.packet_info(endpoint, to, &packet);
            fabric.inject(port, channel.into(), info, hop);
            return Ok(());
        }
    }

    /// Gives a packet to an endpoint of the same node: it is told a picosecond later, so that the
    /// order of calls of one moment does not matter (SIM-6).
    fn hand_over(&mut self, from: EndpointId, to: EndpointId, packet: &Packet) {
        let Packet { bytes, born_ps, tag, .. } = *packet;
        let sent_ps = self.fabric.now;
        self.inside.push(Delivery { to, from, bytes, born_ps, sent_ps, tag, trail: None });
        let port = self.fabric.wiring.port_of(to);
        self.fabric.schedule_wakeup(port, sent_ps + 1);
    }

    /// Schedules a call for an endpoint; `what` is a channel, or their number for
    /// [`Workload::act`].
    fn remind(&mut self, port: u32, what: u8, at: u64) {
        let Self { fabric, reminders, .. } = self;
        let row = fabric.wiring.endpoint(port).index() * (usize::from(fabric.model.channels) + 1);
        let reminder = &mut reminders[row + usize::from(what)];
        // An earlier reminder still to come makes the call as well.
        if *reminder <= fabric.now || at < *reminder {
            *reminder = at.max(fabric.now + 1);
            fabric.schedule_wakeup(port, *reminder);
        }
    }

    /// Returns the present time in picoseconds.
    pub const fn now_ps(&self) -> u64 {
        self.fabric.now
    }

    /// Returns the counters since the start.
    pub const fn counters(&self) -> &Counters {
        &self.fabric.counters
    }

    /// Returns the workload.
    pub const fn workload(&self) -> &W {
        &self.workload
    }

    /// Returns the workload, to change it between two runs.
    pub const fn workload_mut(&mut self) -> &mut W {
        &mut self.workload
    }

    /// Returns the statistics registers of a switch port.
    pub fn port_statistics(&self, port: PortId) -> PortStatistics {
        self.fabric.statistics(port)
    }

    /// Counts the copies in flight: now, and the most so far.
    pub const fn copies_in_flight(&self) -> (usize, usize) {
        (self.fabric.in_flight(), self.fabric.peak_in_flight())
    }
}

impl<Q: EventQueue> Simulator<'_, Streams, Q> {
    /// Runs up to a time, and reads the statistics registers at their interval.
    ///
    /// # Errors
    ///
    /// As for [`Simulator::run_until`].
    pub fn run_sampled_until(&mut self, until_ps: u64) -> Result<(), RunError> {
        loop {
            let reading_ps = self.workload.registers().next_ps();
            self.run_until(reading_ps.min(until_ps))?;
            if reading_ps > until_ps {
                return Ok(());
            }
            let Self { fabric, workload, .. } = self;
            workload.registers().read(|port| fabric.statistics(port));
        }
    }
}
