//! Runs a fabric: takes events in moment by moment, then lets adapters and switches decide.
//!
//! Invariants
//! - SIM-5: every copy made ends delivered or dropped for a stated reason, or is still under way.
//! - SIM-6: results do not depend on the order in which the events of one moment come out of the queue.

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, PortId};
use thiserror::Error;

use crate::event::Event;
use crate::fabric::{Counters, Deadlock, Fabric, Parcel, Trail};
use crate::model::{Model, ModelError};
use crate::queue::{EventQueue, TimingWheel};
use crate::routes::{Routes, TreeId};
use crate::traffic::Streams;

/// What adapters send, and what becomes of it.
///
/// All calls of one moment come in the order of the endpoints' numbers, deliveries first. An answer may
/// depend on nothing but earlier calls.
pub trait Workload {
    /// Gives the next packet of an endpoint on a virtual channel. It is asked when the adapter's buffer
    /// is empty, after every delivery to the endpoint, and at the moment it asked for.
    fn next(&mut self, now_ps: u64, from: EndpointId, channel: u8) -> Offer;

    /// Hears of a packet whose tail has arrived.
    fn delivered(&mut self, now_ps: u64, delivery: &Delivery);

    /// Does what is due at an endpoint beside sending, and gives the moment when it wants to be called
    /// again, in picoseconds. It is called at that moment and before an endpoint is asked for packets.
    fn act(&mut self, _now_ps: u64, _at: EndpointId) -> Option<u64> {
        None
    }
}

/// What an adapter does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It sends a packet as soon as link and credit allow.
    Send(Packet),
    /// It asks again at a later moment, in picoseconds.
    At(u64),
    /// It waits for a delivery, or for ever.
    Nothing,
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it goes.
    pub route: Route,
    /// Its length, header included; at most the buffers' size.
    pub bytes: u32,
    /// When it was made, in picoseconds: now or earlier.
    pub born_ps: u64,
    /// For the workload's own use.
    pub tag: u64,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To one endpoint.
    Unicast(EndpointId),
    /// Along a tree on which its endpoint can send.
    Tree(TreeId),
}

/// A copy that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Where.
    pub to: EndpointId,
    /// Who sent it.
    pub from: EndpointId,
    /// Its length.
    pub bytes: u32,
    /// When it was made.
    pub born_ps: u64,
    /// When its adapter started to send it.
    pub sent_ps: u64,
    /// As it was sent.
    pub tag: u64,
    /// Where it waited, if that is recorded.
    pub trail: Option<Trail>,
}

/// Why a run ended before its time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// Packets wait for each other in a circle.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// An endpoint was to send on a tree it is not part of.
    #[error("endpoint {} cannot send on tree {}", .endpoint.0, .tree.0)]
    NotASender {
        /// The endpoint.
        endpoint: EndpointId,
        /// The tree.
        tree: TreeId,
    },
    /// A packet does not fit a buffer, or is empty.
    #[error("a packet of {bytes} bytes, must be 1 to the {buffer} of a buffer")]
    Length {
        /// Its length.
        bytes: u32,
        /// Bytes of a buffer.
        buffer: u32,
    },
}

/// A fabric at work.
pub struct Simulator<'a, W, Q = TimingWheel> {
    fabric: Fabric<'a, Q>,
    workload: W,
    /// By endpoint and channel, and once more for what it does beside sending: when it asked to be
    /// reminded; 0 if not.
    reminders: Vec<u64>,
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    /// The wiring.
    pub graph: &'a Graph,
    /// Its fat-tree view, which unicast follows.
    pub fat_tree: &'a FatTree,
    /// The trees that multicast follows.
    pub routes: &'a Routes,
}

impl<'a, W: Workload> Simulator<'a, W> {
    /// Makes a fabric at rest, at time 0.
    ///
    /// # Errors
    ///
    /// [`ModelError`] naming the constant that is out of its range.
    pub fn new(network: Network<'a>, model: Model, workload: W) -> Result<Self, ModelError> {
        Self::with_queue(network, model, workload, TimingWheel::default())
    }
}

impl<'a, W: Workload, Q: EventQueue> Simulator<'a, W, Q> {
    /// The same with an event queue of one's own.
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
        Ok(Self { fabric, workload, reminders })
    }

    /// Cuts the links of dead things: copies sent into them are lost. Unicast goes round them where it
    /// can; multicast follows its tree.
    pub fn set_faults(&mut self, faults: &Faults) {
        self.fabric.set_faults(faults);
    }

    /// Records from now on where copies wait; packets under way have lost what lies behind them.
    pub fn record_trails(&mut self) {
        self.fabric.trails.get_or_insert_default();
    }

    /// Runs until a moment, its events included, and gives whether anything is left to happen.
    ///
    /// # Errors
    ///
    /// [`RunError`]: a deadlock, or the workload's mistake. The run cannot be continued.
    pub fn run_until(&mut self, until_ps: u64) -> Result<bool, RunError> {
        self.decide()?;
        while let Some(at) = self.fabric.events.next_at() {
            if at > until_ps {
                self.fabric.now = until_ps;
                return Ok(true);
            }
            self.fabric.now = at;
            while let Some(word) = self.fabric.events.pop_at(at) {
                self.fabric.take_in(Event::unpack(word));
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
                let (parcel, trail) = fabric.collect(copy);
                let Parcel { source, bytes, born_ps, sent_ps, tag, .. } = parcel;
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
        if let Some(at) = self.workload.act(fabric.now, endpoint) {
            self.remind(port, channels, at);
        }
        for channel in 0..channels {
            let fabric = &mut self.fabric;
            if !fabric.is_empty(port, channel.into()) {
                continue;
            }
            match self.workload.next(fabric.now, endpoint, channel) {
                Offer::Nothing => {}
                Offer::At(at) => self.remind(port, channel, at),
                Offer::Send(packet) => {
                    let buffer = fabric.model.buffer_bytes;
                    if packet.bytes == 0 || packet.bytes > buffer {
                        return Err(RunError::Length { bytes: packet.bytes, buffer });
                    }
                    let (to, hop) = match packet.route {
                        Route::Unicast(to) => (to, None),
                        Route::Tree(tree) => {
                            let hop = fabric.routes.entry(tree, endpoint);
                            let hop = hop.ok_or(RunError::NotASender { endpoint, tree })?;
                            (endpoint, Some(hop))
                        }
                    };
                    let parcel = fabric.parcel(endpoint, to, &packet);
                    fabric.inject(port, channel.into(), parcel, hop);
                }
            }
        }
        self.fabric.send_from_adapter(port);
        Ok(())
    }

    /// Asks an endpoint again at a moment; `what` is a channel, or their number for acting.
    fn remind(&mut self, port: u32, what: u8, at: u64) {
        let Self { fabric, reminders, .. } = self;
        let row = fabric.wiring.endpoint(port).index() * (usize::from(fabric.model.channels) + 1);
        let reminder = &mut reminders[row + usize::from(what)];
        // An earlier reminder that is still to come will ask again.
        if *reminder <= fabric.now || at < *reminder {
            *reminder = at.max(fabric.now + 1);
            fabric.wake(port, *reminder);
        }
    }

    /// Gives the present moment, in picoseconds.
    pub const fn now_ps(&self) -> u64 {
        self.fabric.now
    }

    /// Gives what was counted since the start.
    pub const fn counters(&self) -> &Counters {
        &self.fabric.counters
    }

    /// Gives the workload.
    pub const fn workload(&self) -> &W {
        &self.workload
    }

    /// Gives the workload, to be changed between two runs.
    pub const fn workload_mut(&mut self) -> &mut W {
        &mut self.workload
    }

    /// Gives what the statistics registers of a switch port say.
    pub fn port_statistics(&self, port: PortId) -> PortStatistics {
        self.fabric.statistics(port)
    }

    /// Counts the copies under way, now and at the worst moment.
    pub const fn copies_in_flight(&self) -> (usize, usize) {
        (self.fabric.in_flight(), self.fabric.peak_in_flight())
    }
}

/// What the statistics registers of a port have counted since the start (Dawning §4.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStatistics {
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Picoseconds that packets waited at the head of a buffer before this port sent them.
    pub waited_ps: u64,
}

impl<Q: EventQueue> Simulator<'_, Streams, Q> {
    /// Runs until a moment and reads the statistics registers whenever their time has come.
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
