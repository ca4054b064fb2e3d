//! The ways in which a multicast packet gets its outputs. See [`crate::MulticastPolicy`].

use std::iter::once;

use super::{Fabric, Port, Stage};
use crate::queue::EventQueue;
use crate::slab::NONE;

impl<Q: EventQueue> Fabric<'_, Q> {
    /// All outputs at one moment, or none.
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

    /// All outputs without multicast at one moment; those that send unicast follow when they are done.
    pub(super) fn serve_by_bulletin(&mut self, queue: u32, hop: u32) {
        let routes = self.routes;
        let mut free = |port: u32| {
            let output = &self.ports[port as usize];
            output.heir == NONE
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
                output.heir = queue;
                promised += 1;
            }
        }
        self.dedicate(queue);
        self.lanes[queue as usize].wanting = promised;
        if promised == 0 {
            self.launch(queue);
        }
    }

    /// Gives an output that has become idle to whom it was promised.
    pub(super) fn inherit(&mut self, port: u32) {
        let output = &mut self.ports[port as usize];
        if output.heir == NONE {
            return;
        }
        output.holder = std::mem::replace(&mut output.heir, NONE);
        output.multicast = true;
        let queue = output.holder;
        self.lanes[queue as usize].wanting -= 1;
        if self.lanes[queue as usize].wanting == 0 {
            self.launch(queue);
        }
    }

    /// Each output when it is idle; the packet stays until the last copy has left.
    pub(super) fn serve_split(&mut self, queue: u32, hop: u32) {
        let routes = self.routes;
        for out in routes.outs(hop) {
            let wanted = self.requests(queue, out.port);
            if wanted && self.is_idle(out.port) && self.has_credit(queue, out.port) {
                self.withdraw(queue, out.port);
                self.spend(queue, out.port);
                self.lanes[queue as usize].wanting -= 1;
                self.send(queue, out.port, out.next);
            }
        }
        if self.lanes[queue as usize].wanting == 0 {
            self.leave(queue);
        }
    }

    /// One output after the other, unless a packet with more right wants one of them.
    pub(super) fn serve_by_priority(&mut self, queue: u32, hop: u32) {
        if self.lanes[queue as usize].stage == Stage::Waiting && self.must_give_way(queue, hop) {
            return;
        }
        self.take_idle_outputs(queue, hop);
    }

    /// One output after the other.
    pub(super) fn serve_greedily(&mut self, queue: u32, hop: u32) {
        self.take_idle_outputs(queue, hop);
        if self.lanes[queue as usize].stage == Stage::Acquiring && self.deadlock.is_none() {
            self.deadlock = self.find_deadlock(queue);
        }
    }

    /// Tells whether another multicast packet wants a common output and holds some already, or waits
    /// at an input with a higher number.
    fn must_give_way(&self, queue: u32, hop: u32) -> bool {
        let has_right = |other: u32| {
            let stage = self.lanes[other as usize].stage;
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
                if self.lanes[queue as usize].stage == Stage::Waiting {
                    self.dedicate(queue);
                }
                self.withdraw(queue, out.port);
                self.spend(queue, out.port);
                self.lanes[queue as usize].wanting -= 1;
                let output = &mut self.ports[out.port as usize];
                output.holder = queue;
                output.multicast = true;
            }
        }
        if self.lanes[queue as usize].wanting == 0 {
            self.launch(queue);
        }
    }

    /// Keeps the input for a packet that has begun to take outputs.
    fn dedicate(&mut self, queue: u32) {
        self.lanes[queue as usize].stage = Stage::Acquiring;
        self.lanes[queue as usize].sending += 1; // a hold on the input, until it is launched
        self.ports[self.wiring.port(queue) as usize].reading += 1;
    }

    /// Sends the packet at the head of a buffer by all outputs, which are held for it.
    fn launch(&mut self, queue: u32) {
        let hop = self.lanes[queue as usize].hop;
        self.lanes[queue as usize].sending -= 1;
        self.ports[self.wiring.port(queue) as usize].reading -= 1;
        self.leave(queue);
        self.send_all(queue, hop);
    }
}
