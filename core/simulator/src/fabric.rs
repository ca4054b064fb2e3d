//! Links and switches: buffers, credits, arbitration. The simulator tells it what happens when.
//!
//! A packet travels as *copies*. A copy lies in the buffer at the far end of a link as soon as its sender
//! starts it, with the moment from which it may ask for outputs; the sender has taken the credit for it.
//! It leaves the buffer when the tail of the last copy made of it has left.
//!
//! Invariants, checked in debug builds
//! - SIM-1: a sender never has more bytes in a buffer than it has room for.
//! - SIM-2: packets leave a buffer in the order in which they came.
//! - SIM-3: every copy is in one buffer or on its way to one endpoint; none is lost or there twice.
//! - SIM-4: an output sends one packet at a time.
//! - SIM-7: when nothing is under way, all credit is back, no output is held or asked for, and no packet is
//!   remembered.

mod acquire;
mod arbitrate;
mod deadlock;
mod state;
mod transit;

pub use deadlock::{Deadlock, Wait, WaitFor};

use fabricast_topology::{EndpointId, Faults, Graph, PortId};

use crate::event::Event;
use crate::model::{Model, ModelError};
use crate::queue::EventQueue;
use crate::routes::Routes;
use crate::simulator::{Network, Packet, PortStatistics};
use crate::slab::{NONE, Slab};
use crate::unicast::Unicast;
use crate::wiring::Wiring;
use state::{Lane, Port, Stage};

/// In a copy, instead of a hop of a tree.
const UNICAST: u32 = NONE;

/// What all copies of a packet have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel {
    pub(crate) source: EndpointId,
    /// Of a unicast packet.
    pub(crate) to: EndpointId,
    pub(crate) bytes: u32,
    /// Copies of a multicast packet that are under way; 0 of a unicast packet, which has one.
    copies: u32,
    pub(crate) born_ps: u64,
    pub(crate) sent_ps: u64,
    pub(crate) tag: u64,
}

/// A copy in a buffer, or on its way to an endpoint.
#[derive(Clone, Copy, Debug)]
struct Transit {
    parcel: u32,
    hop: u32,
    next: u32,      // behind it in the buffer
    to: EndpointId, // of a unicast packet
    bytes: u32,
    ready_ps: u64,
}

/// Where a copy has waited on its way, stage by stage: its adapter, then every switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    waits_ps: [u64; 8],
    stages: u8,
}

impl Trail {
    /// Lists the time between the moment when the head could have left a stage and the moment when it
    /// did, in picoseconds: what was waited for links, arbitration and credit.
    #[must_use]
    pub fn waits_ps(&self) -> &[u64] {
        &self.waits_ps[..usize::from(self.stages)]
    }

    fn push(&mut self, wait_ps: u64) {
        // An adapter and seven switches are the longest way in four levels.
        if let Some(place) = self.waits_ps.get_mut(usize::from(self.stages)) {
            *place = wait_ps;
            self.stages += 1;
        }
    }
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that adapters have started to send.
    pub injected: u64,
    /// Copies that started to cross a link, those of endpoints included: packet-hops.
    pub hops: u64,
    /// Copies that arrived at endpoints.
    pub delivered: u64,
    /// Copies sent into a cut link.
    pub dropped_cut: u64,
    /// Copies with nowhere to go: no way, or a tree that ends there.
    pub dropped_no_route: u64,
    /// Events that were taken in.
    pub events: u64,
}

/// The state of all links and switches at one moment.
pub(crate) struct Fabric<'a, Q> {
    pub(crate) graph: &'a Graph,
    pub(crate) routes: &'a Routes,
    pub(crate) model: Model,
    pub(crate) wiring: Wiring,
    pub(crate) now: u64,
    pub(crate) events: Q,
    pub(crate) counters: Counters,
    /// Copies that have arrived at this moment: port and copy.
    pub(crate) arrived: Vec<(u32, u32)>,
    /// Adapters with something to do at this moment.
    pub(crate) adapters: Vec<u32>,
    unicast: Unicast<'a>,
    has_faults: bool,
    parcels: Slab<Parcel>,
    transits: Slab<Transit>,
    ports: Vec<Port>,
    lanes: Vec<Lane>,
    /// Rows of the queues after the first 64 of a switch that ask for an output.
    more_requests: Vec<u64>,
    /// Buffers, and ports marked as such, that something has changed for; chained switch by switch.
    touched: Vec<Touched>,
    last_touched: Vec<u32>, // by switch
    touched_switches: Vec<u32>,
    candidates: Vec<(u64, u32)>,
    grants: u64,
    /// By copy, if they are recorded.
    pub(crate) trails: Option<Vec<Trail>>,
    /// The first deadlock found, with a policy that can have one.
    pub(crate) deadlock: Option<Deadlock>,
}

/// Something has changed for a buffer or port.
#[derive(Clone, Copy, Debug)]
struct Touched {
    what: u32,
    before: u32, // in the same switch
}

/// Marks a port in [`Touched`].
const OUTPUT: u32 = 1 << 31;

impl<'a, Q: EventQueue> Fabric<'a, Q> {
    pub(crate) fn new(network: Network<'a>, model: Model, events: Q) -> Result<Self, ModelError> {
        model.check()?;
        let Network { graph, fat_tree, routes } = network;
        let wiring = Wiring::new(graph, model.channels)?;
        let queues = wiring.ports() * usize::from(model.channels);
        Ok(Self {
            graph,
            routes,
            model,
            now: 0,
            events,
            counters: Counters::default(),
            arrived: Vec::new(),
            adapters: Vec::new(),
            unicast: Unicast::new(graph, fat_tree),
            has_faults: false,
            parcels: Slab::new(),
            transits: Slab::new(),
            ports: Port::all(&wiring),
            lanes: vec![Lane::new(model.buffer_bytes); queues],
            more_requests: vec![0; wiring.more_words()],
            touched: Vec::new(),
            last_touched: vec![NONE; wiring.switches()],
            touched_switches: Vec::new(),
            candidates: Vec::new(),
            grants: 0,
            trails: None,
            deadlock: None,
            wiring,
        })
    }

    /// Takes in what has happened; decisions come after all events of a moment.
    pub(crate) fn take_in(&mut self, event: Event) {
        self.counters.events += 1;
        match event {
            Event::Ready { queue } => self.ready(queue),
            Event::Sent { port } => self.sent(port),
            Event::SentAll { queue } => self.sent_all(queue),
            Event::Credit { queue, bytes } => {
                self.lanes[queue as usize].add(bytes);
                self.touch_output(self.wiring.port(queue));
            }
            Event::Arrived { port, copy } => self.arrived.push((port, copy)),
            Event::Wake { port } => self.adapters.push(port),
        }
    }

    /// Cuts the links of dead things.
    pub(crate) fn set_faults(&mut self, faults: &Faults) {
        self.wiring.fail(self.graph, faults);
        self.has_faults = !faults.is_empty();
        for (port, dead) in self.ports.iter_mut().zip(&self.wiring.dead) {
            port.dead = *dead;
            port.endless = *dead || self.wiring.is_endpoint(port.far);
        }
    }

    /// Makes what the copies of a packet have in common.
    pub(crate) fn parcel(&self, source: EndpointId, to: EndpointId, packet: &Packet) -> Parcel {
        let Packet { bytes, born_ps, tag, .. } = *packet;
        Parcel { source, to, bytes, copies: 0, born_ps, sent_ps: self.now, tag }
    }

    /// Puts a new packet into an adapter's empty buffer of a channel.
    pub(crate) fn inject(&mut self, port: u32, channel: u32, parcel: Parcel, hop: Option<u32>) {
        let queue = port * self.wiring.channels + channel;
        debug_assert_eq!(self.lanes[queue as usize].head, NONE, "an adapter offers one packet");
        let (bytes, to, hop) = (parcel.bytes, parcel.to, hop.unwrap_or(UNICAST));
        let parcel = self.parcels.insert(parcel);
        let transit = Transit { parcel, hop, next: NONE, to, bytes, ready_ps: self.now };
        let copy = self.append(queue, transit);
        if let Some(trail) = self.trails.as_mut().and_then(|trails| trails.get_mut(copy as usize)) {
            *trail = Trail::default();
        }
        let buffer = &mut self.lanes[queue as usize];
        (buffer.bytes, buffer.hop, buffer.single) = (bytes, hop, port);
        buffer.wanting = 1;
        buffer.stage = Stage::Waiting;
    }

    /// Tells whether an adapter's buffer of a channel is empty.
    pub(crate) fn is_empty(&self, port: u32, channel: u32) -> bool {
        self.lanes[(port * self.wiring.channels + channel) as usize].head == NONE
    }

    /// Lets an adapter send the next packet if its link is idle.
    pub(crate) fn send_from_adapter(&mut self, port: u32) {
        if self.ports[port as usize].holder != NONE {
            return;
        }
        let first = port * self.wiring.channels;
        let mut oldest = None;
        for queue in first..first + self.wiring.channels {
            let Lane { stage, served, .. } = self.lanes[queue as usize];
            let older = oldest.is_none_or(|(than, _)| served < than);
            if stage == Stage::Waiting && older && self.has_credit(queue, port) {
                oldest = Some((served, queue));
            }
        }
        let Some((_, queue)) = oldest else { return };
        let head = self.transits[self.lanes[queue as usize].head];
        self.counters.injected += 1;
        self.parcels[head.parcel].sent_ps = self.now;
        self.leave(queue);
        self.spend(queue, port);
        self.send(queue, port, head.hop);
    }

    /// Takes a copy off at its endpoint.
    pub(crate) fn collect(&mut self, copy: u32) -> (Parcel, Option<Trail>) {
        let parcel = self.transits[copy].parcel;
        self.transits.remove(copy);
        let seen = self.parcels[parcel];
        self.release(parcel);
        self.counters.delivered += 1;
        (seen, self.trails.as_ref().map(|trails| trails[copy as usize]))
    }

    /// Gives what the statistics registers of a switch port say.
    pub(crate) fn statistics(&self, port: PortId) -> PortStatistics {
        let Port { sent_bytes, waited_ps, .. } = self.ports[port.index()];
        PortStatistics { sent_bytes, waited_ps }
    }

    /// Counts the copies under way.
    pub(crate) const fn in_flight(&self) -> usize {
        self.transits.len()
    }

    /// Counts the most copies that were ever under way.
    pub(crate) const fn peak_in_flight(&self) -> usize {
        self.transits.peak()
    }

    /// Checks in debug builds that a fabric without anything under way is as it was at the start.
    pub(crate) fn check_at_rest(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        assert_eq!(self.parcels.len(), 0, "SIM-7");
        assert!(self.more_requests.iter().all(|word| *word == 0), "SIM-7");
        for port in &self.ports {
            assert!(port.is_idle() && port.reading == 0 && port.requests == 0, "SIM-7");
        }
        for lane in &self.lanes {
            assert!(lane.head == NONE && lane.stage == Stage::Idle, "SIM-7");
            assert_eq!(lane.room(u64::MAX), self.model.buffer_bytes, "SIM-7");
        }
    }

    fn touch_output(&mut self, port: u32) {
        if self.wiring.is_endpoint(port) {
            self.adapters.push(port);
        } else {
            self.touch(self.ports[port as usize].switch, OUTPUT | port);
        }
    }

    fn touch_input(&mut self, port: u32) {
        if self.wiring.is_endpoint(port) {
            return;
        }
        let first = port * self.wiring.channels;
        let switch = self.ports[port as usize].switch;
        (first..first + self.wiring.channels).for_each(|queue| self.touch(switch, queue));
    }

    fn touch(&mut self, switch: u32, what: u32) {
        let at = u32::try_from(self.touched.len()).expect("at most a few for each port");
        let before = std::mem::replace(&mut self.last_touched[switch as usize], at);
        if before == NONE {
            self.touched_switches.push(switch);
        }
        self.touched.push(Touched { what, before });
    }
}
