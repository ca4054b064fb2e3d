//! Copies on their way: out of a port, into the buffer at its far end, out of it, and the credit back.

use super::{Fabric, Stage, Trail, Transit, UNICAST};
use crate::event::Event;
use crate::queue::EventQueue;
use crate::slab::NONE;

impl<Q: EventQueue> Fabric<'_, Q> {
    /// Puts a copy at the end of a buffer.
    pub(super) fn append(&mut self, queue: u32, parcel: u32, hop: u32, ready_ps: u64) -> u32 {
        self.parcels[parcel].copies += 1;
        let copy = self.transits.insert(Transit { parcel, hop, next: NONE, ready_ps });
        let buffer = &mut self.buffers[queue as usize];
        if buffer.head == NONE {
            buffer.head = copy;
        } else {
            debug_assert!(self.transits[buffer.tail].ready_ps <= ready_ps, "SIM-2");
            self.transits[buffer.tail].next = copy;
        }
        buffer.tail = copy;
        copy
    }

    /// Sends a copy of the packet at the head of a buffer by a port that it holds or that is idle.
    pub(super) fn send(&mut self, queue: u32, port: u32, next: u32) {
        let buffer = &mut self.buffers[queue as usize];
        buffer.sending += 1;
        let (copy, bytes) = (buffer.head, buffer.bytes);
        let head = self.transits[copy];
        let output = &mut self.outputs[port as usize];
        debug_assert!(output.holder == NONE || output.holder == queue, "SIM-4");
        output.holder = queue;
        output.multicast = head.hop != UNICAST;
        self.reading[self.wiring.port(queue) as usize] += 1;
        self.port_bytes[port as usize] += u64::from(bytes);
        self.port_waits[port as usize] += self.now - head.ready_ps;
        let tail = self.now + self.model.sending_ps(bytes);
        self.events.push(tail, Event::Sent { port }.pack());
        self.counters.hops += 1;
        let far = self.wiring.far[port as usize];
        if self.wiring.dead[port as usize] {
            self.counters.dropped_cut += 1;
        } else if self.wiring.is_endpoint(far) {
            self.parcels[head.parcel].copies += 1;
            let transit =
                Transit { parcel: head.parcel, hop: NONE, next: NONE, ready_ps: self.now };
            let made = self.transits.insert(transit);
            self.continue_trail(copy, made);
            let arrived = Event::Arrived { port: far, copy: made };
            self.events.push(tail + self.model.wire_ps, arrived.pack());
        } else {
            let there = far * self.wiring.channels + self.wiring.channel(queue);
            let ready_ps = self.now + self.model.wire_ps + self.model.switch_ps;
            let made = self.append(there, head.parcel, next, ready_ps);
            self.continue_trail(copy, made);
            let buffer = &self.buffers[there as usize];
            if buffer.head == buffer.tail {
                self.events.push(ready_ps, Event::Ready { queue: there }.pack());
            }
        }
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
        let output = &mut self.outputs[port as usize];
        let queue = std::mem::replace(&mut output.holder, NONE);
        output.multicast = false;
        self.inherit(port);
        let from = self.wiring.port(queue);
        self.reading[from as usize] -= 1;
        let buffer = &mut self.buffers[queue as usize];
        buffer.sending -= 1;
        if buffer.sending == 0 && buffer.wanting == 0 {
            self.pop(queue);
        }
        self.touch_output(port);
        if self.wiring.channels > 1 && self.reading[from as usize] == 0 {
            self.touch_input(from);
        }
    }

    /// Frees the place of the packet at the head of a buffer.
    pub(super) fn pop(&mut self, queue: u32) {
        let buffer = &mut self.buffers[queue as usize];
        let (copy, port) = (buffer.head, self.wiring.port(queue));
        let Transit { parcel, next, .. } = self.transits[copy];
        buffer.head = next;
        buffer.stage = Stage::Idle;
        let bytes = buffer.bytes;
        self.transits.remove(copy);
        self.release(parcel);
        if self.wiring.is_endpoint(port) {
            return self.adapters.push(port);
        }
        let sender = self.wiring.far[port as usize] * self.wiring.channels;
        let queue_of_sender = sender + self.wiring.channel(queue);
        let credit = Event::Credit { queue: queue_of_sender, bytes };
        self.events.push(self.now + self.model.wire_ps, credit.pack());
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
        *left -= 1;
        if *left == 0 {
            self.parcels.remove(parcel);
        }
    }

    /// Tells whether the far end of a port has room for the packet at the head of a buffer.
    pub(super) fn has_credit(&self, queue: u32, port: u32) -> bool {
        let credit = &self.credits[self.credit_of(queue, port)];
        self.outputs[port as usize].endless
            || credit.limit.wrapping_sub(credit.sent) >= self.buffers[queue as usize].bytes
    }

    /// Takes the credit for the packet at the head of a buffer.
    pub(super) fn spend(&mut self, queue: u32, port: u32) {
        let bytes = self.buffers[queue as usize].bytes;
        if self.outputs[port as usize].endless {
            return;
        }
        let at = self.credit_of(queue, port);
        let credit = &mut self.credits[at];
        debug_assert!(credit.limit.wrapping_sub(credit.sent) >= bytes, "SIM-1");
        credit.sent = credit.sent.wrapping_add(bytes);
    }

    fn credit_of(&self, queue: u32, port: u32) -> usize {
        (port * self.wiring.channels + self.wiring.channel(queue)) as usize
    }
}
