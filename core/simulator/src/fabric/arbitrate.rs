//! Who may send next: requests, and the matrix arbiter of every switch.
//!
//! A matrix arbiter prefers, of any two inputs, the one that was served longer ago; that order is kept
//! as the number of the last grant. Each switch has one over its buffers: those that something has
//! changed for are served in its order, each as far as outputs and credits are left.

use super::{Fabric, Lane, OUTPUT, Port, Stage, Touched, Transit, UNICAST};
use crate::event::Event;
use crate::model::MulticastPolicy;
use crate::queue::EventQueue;
use crate::slab::NONE;

impl<Q: EventQueue> Fabric<'_, Q> {
    /// The packet at the head of a buffer begins to ask for its outputs.
    pub(super) fn ready(&mut self, queue: u32) {
        let buffer = &mut self.lanes[queue as usize];
        let Transit { parcel, hop, to, bytes, .. } = self.transits[buffer.head];
        (buffer.bytes, buffer.hop) = (bytes, hop);
        let switch = self.ports[self.wiring.port(queue) as usize].switch;
        let wanting = if hop == UNICAST {
            let port = match self.has_faults {
                false => self.unicast.next(switch, to),
                true => self.unicast.next_around(switch, to, &self.wiring.dead),
            };
            self.lanes[queue as usize].single = port;
            if port == NONE {
                0
            } else {
                self.request(queue, port);
                1
            }
        } else {
            let routes = self.routes;
            routes.outs(hop).for_each(|out| self.request(queue, out.port));
            routes.fan_out(hop)
        };
        if wanting == 0 {
            self.counters.dropped_no_route += 1;
            if hop == UNICAST {
                self.parcels.remove(parcel);
            }
            return self.pop(queue);
        }
        let buffer = &mut self.lanes[queue as usize];
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
                self.gather(what, &mut candidates);
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
    fn gather(&mut self, what: u32, candidates: &mut Vec<(u64, u32)>) {
        if what & OUTPUT == 0 {
            return self.propose(what, candidates);
        }
        let promises = self.model.multicast == MulticastPolicy::Bulletin;
        if !promises && !self.is_idle(what & !OUTPUT) {
            return;
        }
        let port = what & !OUTPUT;
        let Port { mut requests, first_queue: mut base, .. } = self.ports[port as usize];
        for word in self.wiring.row(port).map(Some).chain([None]) {
            while requests != 0 {
                self.propose(base + requests.trailing_zeros(), candidates);
                requests &= requests - 1;
            }
            requests = word.map_or(0, |word| self.more_requests[word]);
            base += 64;
        }
    }

    fn propose(&mut self, queue: u32, candidates: &mut Vec<(u64, u32)>) {
        let Lane { hop, single, served, stage, .. } = self.lanes[queue as usize];
        if matches!(stage, Stage::Idle | Stage::Leaving) {
            return;
        }
        if hop != UNICAST || (self.is_idle(single) && self.has_credit(queue, single)) {
            candidates.push((served, queue));
        }
    }

    /// Serves a buffer as far as it can be served now.
    fn serve(&mut self, queue: u32) {
        let Lane { hop, single, stage, .. } = self.lanes[queue as usize];
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
        let reading = self.ports[self.wiring.port(queue) as usize].reading;
        reading > self.lanes[queue as usize].sending
    }

    /// Tells whether nobody sends by an output, holds it or is promised it.
    pub(super) fn is_idle(&self, port: u32) -> bool {
        self.ports[port as usize].is_idle()
    }

    /// The packet at the head of a buffer has got all its outputs.
    pub(super) fn leave(&mut self, queue: u32) {
        self.grants += 1;
        let buffer = &mut self.lanes[queue as usize];
        buffer.wanting = 0;
        buffer.stage = Stage::Leaving;
        buffer.served = self.grants;
    }

    fn request(&mut self, queue: u32, port: u32) {
        let (word, bit) = self.request_word(queue, port);
        *word |= bit;
    }

    /// Takes back a buffer's request for an output.
    pub(super) fn withdraw(&mut self, queue: u32, port: u32) {
        let (word, bit) = self.request_word(queue, port);
        *word &= !bit;
    }

    fn request_word(&mut self, queue: u32, port: u32) -> (&mut u64, u64) {
        let output = &mut self.ports[port as usize];
        let local = queue - output.first_queue;
        let bit = 1 << (local % 64);
        if local < 64 {
            return (&mut output.requests, bit);
        }
        let row = self.wiring.row(port).start;
        (&mut self.more_requests[row + local as usize / 64 - 1], bit)
    }

    /// Tells whether a buffer still asks for an output.
    pub(super) fn requests(&self, queue: u32, port: u32) -> bool {
        let output = &self.ports[port as usize];
        let local = queue - output.first_queue;
        let word = match local / 64 {
            0 => output.requests,
            more => self.more_requests[self.wiring.row(port).start + more as usize - 1],
        };
        word >> (local % 64) & 1 == 1
    }

    /// Reminds an adapter at a moment.
    pub(crate) fn wake(&mut self, port: u32, at: u64) {
        self.events.push(at, Event::Wake { port }.pack());
    }
}
