//! Who may send next: requests, and the matrix arbiter of every switch.
//!
//! A matrix arbiter prefers, of any two inputs, the one that was served longer ago; that order is kept
//! as the number of the last grant. Each switch has one over its buffers: those that something has
//! changed for are served in its order, each as far as outputs and credits are left.

use super::{Buffer, Fabric, OUTPUT, Parcel, Stage, Touched, UNICAST};
use crate::event::Event;
use crate::model::MulticastPolicy;
use crate::queue::EventQueue;
use crate::slab::NONE;

impl<Q: EventQueue> Fabric<'_, Q> {
    /// The packet at the head of a buffer begins to ask for its outputs.
    pub(super) fn ready(&mut self, queue: u32) {
        let head = self.transits[self.buffers[queue as usize].head];
        let switch = self.wiring.switch[self.wiring.port(queue) as usize];
        let Parcel { to, bytes, .. } = self.parcels[head.parcel];
        let buffer = &mut self.buffers[queue as usize];
        (buffer.bytes, buffer.hop) = (bytes, head.hop);
        let wanting = if head.hop == UNICAST {
            let port = match self.has_faults {
                false => self.unicast.next(switch, to),
                true => self.unicast.next_around(switch, to, &self.wiring.dead),
            };
            buffer.single = port;
            if port == NONE {
                0
            } else {
                self.request(queue, port);
                1
            }
        } else {
            let routes = self.routes;
            routes.outs(head.hop).for_each(|out| self.request(queue, out.port));
            routes.fan_out(head.hop)
        };
        if wanting == 0 {
            self.counters.dropped_no_route += 1;
            return self.pop(queue);
        }
        let buffer = &mut self.buffers[queue as usize];
        buffer.wanting = wanting;
        buffer.stage = Stage::Waiting;
        self.touch(switch, queue);
    }

    /// Lets every switch that something has changed in serve its buffers.
    pub(crate) fn arbitrate(&mut self) {
        let mut candidates = std::mem::take(&mut self.candidates);
        while let Some(switch) = self.touched_switches.pop() {
            let mut at = std::mem::replace(&mut self.last_touched[switch as usize], NONE);
            while at != NONE {
                let Touched { what, before } = self.touched[at as usize];
                self.gather(switch, what, &mut candidates);
                at = before;
            }
            if candidates.len() > 1 {
                candidates.sort_unstable(); // served longest ago first
            }
            for (_, queue) in candidates.drain(..) {
                self.serve(queue);
            }
        }
        self.candidates = candidates;
        self.touched.clear();
    }

    /// Lists the buffers that can perhaps be served after a change; some of them more than once.
    fn gather(&self, switch: u32, what: u32, candidates: &mut Vec<(u64, u32)>) {
        if what & OUTPUT == 0 {
            return self.propose(what, candidates);
        }
        let promises = self.model.multicast == MulticastPolicy::Bulletin;
        if !promises && !self.is_idle(what & !OUTPUT) {
            return;
        }
        let mut base = self.wiring.first_queue(switch);
        for word in &self.requests[self.wiring.row(what & !OUTPUT)] {
            let mut bits = *word;
            while bits != 0 {
                self.propose(base + bits.trailing_zeros(), candidates);
                bits &= bits - 1;
            }
            base += 64;
        }
    }

    fn propose(&self, queue: u32, candidates: &mut Vec<(u64, u32)>) {
        let Buffer { hop, single, served, stage, .. } = self.buffers[queue as usize];
        if matches!(stage, Stage::Idle | Stage::Leaving) {
            return;
        }
        if hop != UNICAST || (self.is_idle(single) && self.has_credit(queue, single)) {
            candidates.push((served, queue));
        }
    }

    /// Serves a buffer as far as it can be served now.
    fn serve(&mut self, queue: u32) {
        let Buffer { hop, single, stage, .. } = self.buffers[queue as usize];
        match stage {
            Stage::Idle | Stage::Leaving => return,
            Stage::Waiting if self.input_is_taken(queue) => return,
            Stage::Waiting | Stage::Acquiring => {}
        }
        if hop == UNICAST {
            if self.is_idle(single) && self.has_credit(queue, single) {
                self.withdraw(queue, single);
                self.leave(queue);
                self.spend(queue, single);
                self.send(queue, single, UNICAST);
            }
            return;
        }
        match self.model.multicast {
            MulticastPolicy::BulletinIdle => self.serve_when_idle(queue, hop),
            MulticastPolicy::Bulletin => self.serve_by_bulletin(queue, hop),
            MulticastPolicy::Splitting => self.serve_split(queue, hop),
            MulticastPolicy::FixedPriority => self.serve_by_priority(queue, hop),
            MulticastPolicy::HoldAndWait => self.serve_greedily(queue, hop),
        }
    }

    /// Tells whether another buffer of the same input is being read.
    fn input_is_taken(&self, queue: u32) -> bool {
        let buffer = &self.buffers[queue as usize];
        self.reading[self.wiring.port(queue) as usize] > buffer.sending
    }

    /// Tells whether nobody sends by an output, holds it or is promised it.
    pub(super) fn is_idle(&self, port: u32) -> bool {
        let output = &self.outputs[port as usize];
        output.holder == NONE && output.heir == NONE
    }

    /// The packet at the head of a buffer has got all its outputs.
    pub(super) fn leave(&mut self, queue: u32) {
        self.grants += 1;
        let buffer = &mut self.buffers[queue as usize];
        buffer.wanting = 0;
        buffer.stage = Stage::Leaving;
        buffer.served = self.grants;
    }

    fn request(&mut self, queue: u32, port: u32) {
        let (word, bit) = self.request_bit(queue, port);
        self.requests[word] |= bit;
    }

    /// Takes back a buffer's request for an output.
    pub(super) fn withdraw(&mut self, queue: u32, port: u32) {
        let (word, bit) = self.request_bit(queue, port);
        self.requests[word] &= !bit;
    }

    /// Tells whether a buffer still asks for an output.
    pub(super) fn requests(&self, queue: u32, port: u32) -> bool {
        let (word, bit) = self.request_bit(queue, port);
        self.requests[word] & bit != 0
    }

    fn request_bit(&self, queue: u32, port: u32) -> (usize, u64) {
        let switch = self.wiring.switch[port as usize];
        let local = queue - self.wiring.first_queue(switch);
        (self.wiring.row[port as usize] as usize + local as usize / 64, 1 << (local % 64))
    }

    /// Reminds an adapter at a moment.
    pub(crate) fn wake(&mut self, port: u32, at: u64) {
        self.events.push(at, Event::Wake { port }.pack());
    }
}
