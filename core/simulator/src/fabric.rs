//! Links and switches: buffers, credits, arbitration. The simulator tells it what happens when.
//!
//! A packet travels as *copies*. A copy lies in the buffer at the far end of a link as soon as its
//! sender starts it, with the moment from which it may ask for outputs; the sender has taken the
//! credit for it. It leaves the buffer when the tail of the last copy made of it has left.
//!
//! Invariants, checked in debug builds
//! - SIM-1: a sender never has more bytes in a buffer than it has room for.
//! - SIM-2: packets leave a buffer in the order in which they came.
//! - SIM-3: every copy is in one buffer or on its way to one endpoint; none is lost or there twice.
//! - SIM-4: an output sends one packet at a time.
//! - SIM-7: when nothing is under way, all credit is back, no output is held or asked for, and no
//!   packet is remembered.

mod arbitrate;
mod deadlock;
mod state;

pub use deadlock::{Deadlock, Wait, WaitFor};

use fabricast_topology::{EndpointId, Faults, Graph, PortId};

use crate::event::Event;
use crate::model::{Model, ModelError};
use crate::queue::EventQueue;
use crate::routes::Routes;
use crate::slab::{NONE, Slab};
use crate::unicast::Unicast;
use crate::wiring::Wiring;
use crate::workload::{Network, Packet, PortStatistics, Trail};
use state::{Port, Queue, Stage, Transit, UNICAST};

pub(crate) use state::PacketInfo;

/// Counters since the start.
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
    packets: Slab<PacketInfo>,
    transits: Slab<Transit>,
    ports: Vec<Port>,
    queues: Vec<Queue>,
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

/// Time of a copy between a switch and an endpoint inside it, in picoseconds: not 0, so that the
/// order of the events of one moment does not matter (SIM-6).
const NO_WIRE_PS: u64 = 1;

/// Marks a port in [`Touched`].
const OUTPUT: u32 = 1 << 31;

impl<'a, Q: EventQueue> Fabric<'a, Q> {
    pub(crate) fn new(network: Network<'a>, model: Model, events: Q) -> Result<Self, ModelError> {
        model.check()?;
        let Network { graph, fat_tree, routes } = network;
        let wiring = Wiring::new(graph, model.channels)?;
        let queue_count = wiring.ports() * usize::from(model.channels);
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
            packets: Slab::new(),
            transits: Slab::new(),
            ports: Port::all(&wiring, model.ps_per_byte),
            queues: vec![Queue::new(model.buffer_bytes); queue_count],
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
    pub(crate) fn handle_event(&mut self, event: Event) {
        self.counters.events += 1;
        match event {
            Event::Ready { queue } => self.ready(queue),
            Event::Sent { port } => self.sent(port),
            Event::SentAll { queue } => self.sent_all(queue),
            Event::Credit { queue, bytes } => {
                self.queues[queue as usize].add(bytes);
                self.touch_output(self.wiring.port(queue));
            }
            Event::Arrived { port, copy } => self.arrived.push((port, copy)),
            Event::Wake { port } => self.adapters.push(port),
        }
    }

    /// Cuts the links of failed parts.
    pub(crate) fn set_faults(&mut self, faults: &Faults) {
        self.wiring.fail(self.graph, faults);
        self.has_faults = !faults.is_empty();
        for (port, dead) in self.ports.iter_mut().zip(&self.wiring.dead) {
            port.dead = *dead;
            port.endless = *dead || self.wiring.is_endpoint(port.far);
        }
    }

    /// Lets a switch port send more slowly than the model's links.
    pub(crate) fn slow_down(&mut self, port: PortId, ps_per_byte: u64) {
        let port = &mut self.ports[port.index()];
        port.ps_per_byte = port.ps_per_byte.max(ps_per_byte);
    }

    /// Takes the wire between an endpoint and its switch away.
    pub(crate) fn remove_wire(&mut self, endpoint: EndpointId) {
        let port = self.wiring.port_of(endpoint);
        for end in [port, self.wiring.far[port as usize]] {
            if let Some(end) = self.ports.get_mut(end as usize) {
                end.has_no_wire = true;
            }
        }
    }

    /// Makes what the copies of a packet have in common.
    pub(crate) fn packet_info(
        &self,
        source: EndpointId,
        to: EndpointId,
        packet: &Packet,
    ) -> PacketInfo {
        let Packet { bytes, born_ps, tag, .. } = *packet;
        PacketInfo { source, to, bytes, copies: 0, born_ps, sent_ps: self.now, tag }
    }

    /// Puts a new packet into an adapter's empty buffer of a channel.
    pub(crate) fn inject(&mut self, port: u32, channel: u32, packet: PacketInfo, hop: Option<u32>) {
        let queue = port * self.wiring.channels + channel;
        debug_assert_eq!(self.queues[queue as usize].head, NONE, "an adapter offers one packet");
        let (bytes, to, hop) = (packet.bytes, packet.to, hop.unwrap_or(UNICAST));
        let packet = self.packets.insert(packet);
        let transit = Transit { packet, hop, next: NONE, to, bytes, ready_ps: self.now };
        let copy = self.append(queue, transit);
        if let Some(trail) = self.trails.as_mut().and_then(|trails| trails.get_mut(copy as usize)) {
            *trail = Trail::default();
        }
        let buffer = &mut self.queues[queue as usize];
        (buffer.bytes, buffer.hop, buffer.single) = (bytes, hop, port);
        buffer.wanting = 1;
        buffer.stage = Stage::Waiting;
    }

    /// Tells whether an adapter's buffer of a channel is empty.
    pub(crate) fn is_empty(&self, port: u32, channel: u32) -> bool {
        self.queues[(port * self.wiring.channels + channel) as usize].head == NONE
    }

    /// Lets an adapter send the next packet if its link is idle.
    pub(crate) fn send_from_adapter(&mut self, port: u32) {
        if self.ports[port as usize].holder != NONE {
            return;
        }
        let first = port * self.wiring.channels;
        let mut oldest = None;
        for queue in first..first + self.wiring.channels {
            let Queue { stage, served, .. } = self.queues[queue as usize];
            let older = oldest.is_none_or(|(than, _)| served < than);
            if stage == Stage::Waiting && older && self.has_credit(queue, port) {
                oldest = Some((served, queue));
            }
        }
        let Some((_, queue)) = oldest else { return };
        let head = self.transits[self.queues[queue as usize].head];
        self.counters.injected += 1;
        self.packets[head.packet].sent_ps = self.now;
        self.leave(queue);
        self.spend(queue, port);
        self.send(queue, port, head.hop);
    }

    /// Takes a copy off at its endpoint.
    pub(crate) fn collect(&mut self, copy: u32) -> (PacketInfo, Option<Trail>) {
        let packet = self.transits[copy].packet;
        self.transits.remove(copy);
        let seen = self.packets[packet];
        self.release(packet);
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
        assert_eq!(self.packets.len(), 0, "SIM-7");
        assert!(self.more_requests.iter().all(|word| *word == 0), "SIM-7");
        for port in &self.ports {
            assert!(port.is_idle() && port.reading == 0 && port.requests == 0, "SIM-7");
        }
        for queue in &self.queues {
            assert!(queue.head == NONE && queue.stage == Stage::Idle, "SIM-7");
            assert_eq!(queue.room(u64::MAX), self.model.buffer_bytes, "SIM-7");
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

    /// Puts a copy at the end of a buffer.
    fn append(&mut self, queue: u32, transit: Transit) -> u32 {
        if transit.hop != UNICAST {
            self.packets[transit.packet].copies += 1;
        }
        let copy = self.transits.insert(transit);
        let buffer = &mut self.queues[queue as usize];
        if buffer.head == NONE {
            buffer.head = copy;
        } else {
            let last = &mut self.transits[buffer.tail];
            debug_assert!(last.ready_ps <= transit.ready_ps, "SIM-2");
            last.next = copy;
        }
        buffer.tail = copy;
        copy
    }

    /// Sends a copy of the packet at the head of a buffer by a port that it holds or that is idle.
    fn send(&mut self, queue: u32, port: u32, next: u32) {
        let tail = self.send_copy(queue, port, next);
        self.events.push(tail, Event::Sent { port }.pack());
    }

    /// Sends copies of a multicast packet by all its outputs at once.
    fn send_all(&mut self, queue: u32, hop: u32) {
        let (routes, mut tail) = (self.routes, self.now);
        for out in routes.outs(hop) {
            tail = tail.max(self.send_copy(queue, out.port, out.next));
        }
        self.events.push(tail, Event::SentAll { queue }.pack());
    }

    /// The same without the event; gives the moment when the tail will have left.
    fn send_copy(&mut self, queue: u32, port: u32, next: u32) -> u64 {
        let buffer = &mut self.queues[queue as usize];
        buffer.sending += 1;
        let (copy, bytes) = (buffer.head, buffer.bytes);
        let head = self.transits[copy];
        self.ports[self.wiring.port(queue) as usize].reading += 1;
        let output = &mut self.ports[port as usize];
        debug_assert!(output.holder == NONE || output.holder == queue, "SIM-4");
        output.holder = queue;
        output.multicast = head.hop != UNICAST;
        output.sent_bytes += u64::from(bytes);
        output.waited_ps += self.now - head.ready_ps;
        let (far, dead) = (output.far, output.dead);
        let wire_ps = if output.has_no_wire { NO_WIRE_PS } else { self.model.wire_ps };
        let tail = self.now + u64::from(bytes) * output.ps_per_byte;
        self.counters.hops += 1;
        if dead {
            self.counters.dropped_cut += 1;
            if head.hop == UNICAST {
                self.packets.remove(head.packet);
            }
        } else if self.wiring.is_endpoint(far) {
            if head.hop != UNICAST {
                self.packets[head.packet].copies += 1;
            }
            let made = self.transits.insert(Transit { next: NONE, ready_ps: self.now, ..head });
            self.continue_trail(copy, made);
            let arrived = Event::Arrived { port: far, copy: made };
            self.events.push(tail + wire_ps, arrived.pack());
        } else {
            let there = far * self.wiring.channels + self.wiring.channel(queue);
            // Behind a slow link the next one starts when it will not have to wait for bytes.
            let late_ps = tail - self.now - self.model.sending_ps(bytes);
            let ready_ps = self.now + late_ps + wire_ps + self.model.switch_ps;
            let made = self.append(there, Transit { hop: next, next: NONE, ready_ps, ..head });
            self.continue_trail(copy, made);
            let buffer = &self.queues[there as usize];
            if buffer.head == buffer.tail {
                self.events.push(ready_ps, Event::Ready { queue: there }.pack());
            }
        }
        tail
    }

    /// Notes for a copy where the one it was made of has waited, and how long this time.
    fn continue_trail(&mut self, from: u32, made: u32) {
        let Some(trails) = &mut self.trails else { return };
        let waited = self.now - self.transits[from].ready_ps;
        let mut trail = trails.get(from as usize).copied().unwrap_or_default();
        trail.push(waited);
        if trails.len() <= made as usize {
            trails.resize(made as usize + 1, Trail::default());
        }
        trails[made as usize] = trail;
    }

    /// Handles the tail of a packet leaving a port.
    fn sent(&mut self, port: u32) {
        let queue = self.leave_output(port);
        self.leave_input(queue);
    }

    /// The tails of all copies of the packet at the head of a buffer have left their ports.
    fn sent_all(&mut self, queue: u32) {
        let (routes, hop) = (self.routes, self.queues[queue as usize].hop);
        for out in routes.outs(hop) {
            let holder = self.leave_output(out.port);
            debug_assert_eq!(holder, queue, "SIM-4");
        }
        self.leave_input(queue);
    }

    /// Frees an output; gives the buffer it sent from.
    fn leave_output(&mut self, port: u32) -> u32 {
        let output = &mut self.ports[port as usize];
        let queue = std::mem::replace(&mut output.holder, NONE);
        output.multicast = false;
        self.promote_next_holder(port);
        self.ports[self.wiring.port(queue) as usize].reading -= 1;
        self.queues[queue as usize].sending -= 1;
        self.touch_output(port);
        queue
    }

    /// Takes the packet at the head of a buffer out if it has left by all its outputs.
    fn leave_input(&mut self, queue: u32) {
        let buffer = &mut self.queues[queue as usize];
        if buffer.sending == 0 && buffer.wanting == 0 {
            self.pop(queue);
        }
        let from = self.wiring.port(queue);
        if self.wiring.channels > 1 && self.ports[from as usize].reading == 0 {
            self.touch_input(from);
        }
    }

    /// Frees the place of the packet at the head of a buffer.
    fn pop(&mut self, queue: u32) {
        let buffer = &mut self.queues[queue as usize];
        let (copy, port) = (buffer.head, self.wiring.port(queue));
        let Transit { packet, hop, next, .. } = self.transits[copy];
        buffer.head = next;
        buffer.stage = Stage::Idle;
        let bytes = buffer.bytes;
        self.transits.remove(copy);
        if hop != UNICAST {
            self.release(packet);
        }
        if self.wiring.is_endpoint(port) {
            return self.adapters.push(port);
        }
        let Port { far, has_no_wire, .. } = self.ports[port as usize];
        let sender = far * self.wiring.channels + self.wiring.channel(queue);
        let at_ps = self.now + if has_no_wire { NO_WIRE_PS } else { self.model.wire_ps };
        if !self.queues[sender as usize].expect(self.now, at_ps, bytes) {
            self.events.push(at_ps, Event::Credit { queue: sender, bytes }.pack());
        }
        if next != NONE {
            let ready_ps = self.transits[next].ready_ps;
            if ready_ps <= self.now {
                self.ready(queue);
            } else {
                self.events.push(ready_ps, Event::Ready { queue }.pack());
            }
        }
    }

    /// Frees a packet once its last copy is gone.
    fn release(&mut self, packet: u32) {
        let left = &mut self.packets[packet].copies;
        if *left > 1 {
            *left -= 1;
        } else {
            self.packets.remove(packet);
        }
    }

    /// Tells whether the far end of a port has room for the packet at the head of a buffer. If not,
    /// an event says when it may have.
    fn has_credit(&mut self, queue: u32, port: u32) -> bool {
        if self.has_room(queue, port) {
            return true;
        }
        let at = self.credit_of(queue, port);
        if let Some((at_ps, bytes)) = self.queues[at as usize].request_credit_event(self.now) {
            self.events.push(at_ps, Event::Credit { queue: at, bytes }.pack());
        }
        false
    }

    /// The same without asking for an event.
    fn has_room(&self, queue: u32, port: u32) -> bool {
        self.ports[port as usize].endless
            || self.queues[self.credit_of(queue, port) as usize].room(self.now)
                >= self.queues[queue as usize].bytes
    }

    /// Takes the credit for the packet at the head of a buffer.
    fn spend(&mut self, queue: u32, port: u32) {
        if self.ports[port as usize].endless {
            return;
        }
        debug_assert!(self.has_room(queue, port), "SIM-1");
        let bytes = self.queues[queue as usize].bytes;
        let at = self.credit_of(queue, port);
        self.queues[at as usize].spend(bytes);
    }

    const fn credit_of(&self, queue: u32, port: u32) -> u32 {
        port * self.wiring.channels + self.wiring.channel(queue)
    }
}
