//! Copies on their way: out of a port, into the buffer at its far end, out of it, and the credit back.

use super::{Fabric, Stage, Trail, Transit, UNICAST};
use crate::event::Event;
use crate::queue::EventQueue;
use crate::slab::NONE;

impl<Q: EventQueue> Fabric<'_, Q> {
    /// Puts a copy at the end of a buffer.
    pub(super) fn append(&mut self, queue: u32, transit: Transit) -> u32 {
        if transit.hop != UNICAST {
            self.parcels[transit.parcel].copies += 1;
        }
        let copy = self.transits.insert(transit);
        let buffer = &mut self.lanes[queue as usize];
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
    pub(super) fn send(&mut self, queue: u32, port: u32, next: u32) {
        let tail = self.send_copy(queue, port, next);
        self.events.push(tail, Event::Sent { port }.pack());
    }

    /// Sends copies of a multicast packet by all its outputs at once.
    pub(super) fn send_all(&mut self, queue: u32, hop: u32) {
        let (routes, mut tail) = (self.routes, self.now);
        for out in routes.outs(hop) {
            tail = self.send_copy(queue, out.port, out.next);
        }
        self.events.push(tail, Event::SentAll { queue }.pack());
    }

    /// The same without the event; gives the moment when the tail will have left.
    fn send_copy(&mut self, queue: u32, port: u32, next: u32) -> u64 {
        let buffer = &mut self.lanes[queue as usize];
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
        let tail = self.now + self.model.sending_ps(bytes);
        self.counters.hops += 1;
        if dead {
            self.counters.dropped_cut += 1;
            if head.hop == UNICAST {
                self.parcels.remove(head.parcel);
            }
        } else if self.wiring.is_endpoint(far) {
            if head.hop != UNICAST {
                self.parcels[head.parcel].copies += 1;
            }
            let made = self.transits.insert(Transit { next: NONE, ready_ps: self.now, ..head });
            self.continue_trail(copy, made);
            let arrived = Event::Arrived { port: far, copy: made };
            self.events.push(tail + self.model.wire_ps, arrived.pack());
        } else {
            let there = far * self.wiring.channels + self.wiring.channel(queue);
            let ready_ps = self.now + self.model.wire_ps + self.model.switch_ps;
            let made = self.append(there, Transit { hop: next, next: NONE, ready_ps, ..head });
            self.continue_trail(copy, made);
            let buffer = &self.lanes[there as usize];
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

    /// The tail of a packet has left a port.
    pub(super) fn sent(&mut self, port: u32) {
        let queue = self.leave_output(port);
        self.leave_input(queue);
    }

    /// The tails of all copies of the packet at the head of a buffer have left their ports.
    pub(super) fn sent_all(&mut self, queue: u32) {
        let (routes, hop) = (self.routes, self.lanes[queue as usize].hop);
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
        self.inherit(port);
        self.ports[self.wiring.port(queue) as usize].reading -= 1;
        self.lanes[queue as usize].sending -= 1;
        self.touch_output(port);
        queue
    }

    /// Takes the packet at the head of a buffer out if it has left by all its outputs.
    fn leave_input(&mut self, queue: u32) {
        let buffer = &mut self.lanes[queue as usize];
        if buffer.sending == 0 && buffer.wanting == 0 {
            self.pop(queue);
        }
        let from = self.wiring.port(queue);
        if self.wiring.channels > 1 && self.ports[from as usize].reading == 0 {
            self.touch_input(from);
        }
    }

    /// Frees the place of the packet at the head of a buffer.
    pub(super) fn pop(&mut self, queue: u32) {
        let buffer = &mut self.lanes[queue as usize];
        let (copy, port) = (buffer.head, self.wiring.port(queue));
        let Transit { parcel, hop, next, .. } = self.transits[copy];
        buffer.head = next;
        buffer.stage = Stage::Idle;
        let bytes = buffer.bytes;
        self.transits.remove(copy);
        if hop != UNICAST {
            self.release(parcel);
        }
        if self.wiring.is_endpoint(port) {
            return self.adapters.push(port);
        }
        let sender = self.ports[port as usize].far * self.wiring.channels;
        let sender = sender + self.wiring.channel(queue);
        let at_ps = self.now + self.model.wire_ps;
        if !self.lanes[sender as usize].expect(self.now, at_ps, bytes) {
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

    /// Forgets a packet when its last copy is gone.
    pub(super) fn release(&mut self, parcel: u32) {
        let left = &mut self.parcels[parcel].copies;
        if *left > 1 {
            *left -= 1;
        } else {
            self.parcels.remove(parcel);
        }
    }

    /// Tells whether the far end of a port has room for the packet at the head of a buffer. If not, an
    /// event says when it may have.
    pub(super) fn has_credit(&mut self, queue: u32, port: u32) -> bool {
        if self.has_room(queue, port) {
            return true;
        }
        let at = self.credit_of(queue, port);
        if let Some((at_ps, bytes)) = self.lanes[at as usize].be_short(self.now) {
            self.events.push(at_ps, Event::Credit { queue: at, bytes }.pack());
        }
        false
    }

    /// The same without asking for an event.
    pub(super) fn has_room(&self, queue: u32, port: u32) -> bool {
        self.ports[port as usize].endless
            || self.lanes[self.credit_of(queue, port) as usize].room(self.now)
                >= self.lanes[queue as usize].bytes
    }

    /// Takes the credit for the packet at the head of a buffer.
    pub(super) fn spend(&mut self, queue: u32, port: u32) {
        if self.ports[port as usize].endless {
            return;
        }
        debug_assert!(self.has_room(queue, port), "SIM-1");
        let bytes = self.lanes[queue as usize].bytes;
        let at = self.credit_of(queue, port);
        self.lanes[at as usize].spend(bytes);
    }

    const fn credit_of(&self, queue: u32, port: u32) -> u32 {
        port * self.wiring.channels + self.wiring.channel(queue)
    }
}
