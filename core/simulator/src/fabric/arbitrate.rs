//! Arbitration: requests for outputs, and the matrix arbiter of every switch.
//!
//! A matrix arbiter prefers, of any two inputs, the one that was served longer ago; that order is
//! kept as the number of the last grant. Each switch has one over its buffers: those that something
//! has changed for are served in its order, each as far as outputs and credits are left.

use std::iter::once;

use super::state::{Port, Queue, Stage, Transit, UNICAST};
use super::{Fabric, OUTPUT, Touched};
use crate::event::Event;
use crate::model::MulticastPolicy;
use crate::queue::EventQueue;
use crate::slab::NONE;

impl<Q: EventQueue> Fabric<'_, Q> {
    /// The packet at the head of a buffer begins to ask for its outputs.
    pub(super) fn ready(&mut self, queue: u32) {
        let buffer = &mut self.queues[queue as usize];
        let Transit { packet, hop, to, bytes, .. } = self.transits[buffer.head];
        (buffer.bytes, buffer.hop) = (bytes, hop);
        let switch = self.ports[self.wiring.port(queue) as usize].switch;
        let wanting = if hop == UNICAST {
            let port = match self.has_faults {
                false => self.unicast.next(switch, to),
                true => self.unicast.next_around(switch, to, &self.wiring.dead),
            };
            self.queues[queue as usize].single = port;
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
                self.packets.remove(packet);
            }
            return self.pop(queue);
        }
        let buffer = &mut self.queues[queue as usize];
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
        let Queue { hop, single, served, stage, .. } = self.queues[queue as usize];
        if matches!(stage, Stage::Idle | Stage::Leaving) {
            return;
        }
        if hop != UNICAST || (self.is_idle(single) && self.has_credit(queue, single)) {
            candidates.push((served, queue));
        }
    }

    /// Serves a buffer as far as it can be served now.
    fn serve(&mut self, queue: u32) {
        let Queue { hop, single, stage, .. } = self.queues[queue as usize];
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
        reading > self.queues[queue as usize].sending
    }

    /// Tells whether nobody sends by an output, holds it or is promised it.
    pub(super) fn is_idle(&self, port: u32) -> bool {
        self.ports[port as usize].is_idle()
    }

    /// The packet at the head of a buffer has got all its outputs.
    pub(super) fn leave(&mut self, queue: u32) {
        self.grants += 1;
        let buffer = &mut self.queues[queue as usize];
        buffer.wanting = 0;
        buffer.stage = Stage::Leaving;
        buffer.served = self.grants;
    }

    fn request(&mut self, queue: u32, port: u32) {
        let (word, bit) = self.request_word(queue, port);
        *word |= bit;
    }

    /// Withdraws the request of a buffer for an output.
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

    /// Schedules a call of an adapter.
    pub(crate) fn schedule_wakeup(&mut self, port: u32, at: u64) {
        self.events.push(at, Event::Wake { port }.pack());
    }

    /// Takes all outputs at once, or none.
    pub(super) fn serve_when_idle(&mut self, queue: u32, hop: u32) {
        let routes = self.routes;
        let mut ready = |port: u32| self.is_idle(port) && self.has_credit(queue, port);
        if !routes.outs(hop).all(|out| ready(out.port)) {
            return;
        }
        self.leave(queue);
        for out in routes.outs(hop) {
            self.withdraw(queue, out.port);
            self.spend(queue, out.port);
        }
        self.send_all(queue, hop);
    }

    /// Takes all outputs without multicast at once; those that send unicast follow when they are
    /// done.
    pub(super) fn serve_by_bulletin(&mut self, queue: u32, hop: u32) {
        let routes = self.routes;
        let mut free = |port: u32| {
            let output = &self.ports[port as usize];
            output.next_holder == NONE
                && (output.holder == NONE || !output.multicast)
                && self.has_credit(queue, port)
        };
        if !routes.outs(hop).all(|out| free(out.port)) {
            return;
        }
        let mut promised = 0;
        for out in routes.outs(hop) {
            self.withdraw(queue, out.port);
            self.spend(queue, out.port);
            let output = &mut self.ports[out.port as usize];
            if output.holder == NONE {
                output.holder = queue;
                output.multicast = true;
            } else {
                output.next_holder = queue;
                promised += 1;
            }
        }
        self.dedicate(queue);
        self.queues[queue as usize].wanting = promised;
        if promised == 0 {
            self.launch(queue);
        }
    }

    /// Gives an idle output to the buffer that it was promised to.
    pub(super) fn promote_next_holder(&mut self, port: u32) {
        let output = &mut self.ports[port as usize];
        if output.next_holder == NONE {
            return;
        }
        output.holder = std::mem::replace(&mut output.next_holder, NONE);
        output.multicast = true;
        let queue = output.holder;
        self.queues[queue as usize].wanting -= 1;
        if self.queues[queue as usize].wanting == 0 {
            self.launch(queue);
        }
    }

    /// Takes each output when it is idle; the packet stays until the last copy has left.
    pub(super) fn serve_split(&mut self, queue: u32, hop: u32) {
        let routes = self.routes;
        for out in routes.outs(hop) {
            let wanted = self.requests(queue, out.port);
            if wanted && self.is_idle(out.port) && self.has_credit(queue, out.port) {
                self.withdraw(queue, out.port);
                self.spend(queue, out.port);
                self.queues[queue as usize].wanting -= 1;
                self.send(queue, out.port, out.next);
            }
        }
        if self.queues[queue as usize].wanting == 0 {
            self.leave(queue);
        }
    }

    /// Takes outputs one by one, unless a packet of higher priority wants one of them.
    pub(super) fn serve_by_priority(&mut self, queue: u32, hop: u32) {
        if self.queues[queue as usize].stage == Stage::Waiting && self.must_give_way(queue, hop) {
            return;
        }
        self.take_idle_outputs(queue, hop);
    }

    /// Takes outputs one by one.
    pub(super) fn serve_greedily(&mut self, queue: u32, hop: u32) {
        self.take_idle_outputs(queue, hop);
        if self.queues[queue as usize].stage == Stage::Acquiring && self.deadlock.is_none() {
            self.deadlock = self.find_deadlock(queue);
        }
    }

    /// Tells whether another multicast packet wants a common output and holds some already, or
    /// waits at an input with a higher number.
    fn must_give_way(&self, queue: u32, hop: u32) -> bool {
        let has_right = |other: u32| {
            let stage = self.queues[other as usize].stage;
            let unicast = self.head_is_unicast(other);
            other != queue
                && !unicast
                && (stage == Stage::Acquiring || (stage == Stage::Waiting && other > queue))
        };
        self.routes.outs(hop).any(|out| {
            let Port { holder, requests, first_queue, .. } = self.ports[out.port as usize];
            let more = self.wiring.row(out.port).map(|word| self.more_requests[word]);
            let mut words = (first_queue..).step_by(64).zip(once(requests).chain(more));
            (holder != NONE && has_right(holder))
                || words.any(|(base, word)| {
                    (0..64).any(|bit| word >> bit & 1 == 1 && has_right(base + bit))
                })
        })
    }

    fn take_idle_outputs(&mut self, queue: u32, hop: u32) {
        let routes = self.routes;
        for out in routes.outs(hop) {
            let wanted = self.requests(queue, out.port);
            if wanted && self.is_idle(out.port) && self.has_credit(queue, out.port) {
                if self.queues[queue as usize].stage == Stage::Waiting {
                    self.dedicate(queue);
                }
                self.withdraw(queue, out.port);
                self.spend(queue, out.port);
                self.queues[queue as usize].wanting -= 1;
                let output = &mut self.ports[out.port as usize];
                output.holder = queue;
                output.multicast = true;
            }
        }
        if self.queues[queue as usize].wanting == 0 {
            self.launch(queue);
        }
    }

    /// Reserves the input for a packet that has begun to take outputs.
    fn dedicate(&mut self, queue: u32) {
        self.queues[queue as usize].stage = Stage::Acquiring;
        self.queues[queue as usize].sending += 1; // a hold on the input, until it is launched
        self.ports[self.wiring.port(queue) as usize].reading += 1;
    }

    /// Sends the packet at the head of a buffer by all outputs, which are held for it.
    fn launch(&mut self, queue: u32) {
        let hop = self.queues[queue as usize].hop;
        self.queues[queue as usize].sending -= 1;
        self.ports[self.wiring.port(queue) as usize].reading -= 1;
        self.leave(queue);
        self.send_all(queue, hop);
    }
}
