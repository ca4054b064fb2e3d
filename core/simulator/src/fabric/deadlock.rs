//! Finds packets that wait for each other in a circle, and names them.

use std::collections::BTreeSet;
use std::fmt;

use fabricast_topology::{Graph, PortId, SwitchId};
use thiserror::Error;

use super::Fabric;
use super::state::{Stage, UNICAST};
use crate::queue::EventQueue;
use crate::slab::NONE;

/// Packets that wait for each other in a cycle and never move.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Deadlock {
    /// Time at which it was found, in picoseconds.
    pub at_ps: u64,
    /// The waiting packets in order: each waits for the next, the last for the first.
    pub circle: Vec<Wait>,
}

/// One packet in a circle of waiting ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Switch that the packet waits in.
    pub switch: SwitchId,
    /// The switch's name.
    pub name: String,
    /// Number of the input in whose buffer it waits.
    pub input: u8,
    /// Numbers of the outputs it holds, rising.
    pub holds: Vec<u8>,
    /// Number of the output it waits for, which the next one of the circle keeps from it.
    pub wants: u8,
    /// Reason why it does not get the output.
    pub why: WaitFor,
}

/// Reason why a packet does not get an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// Another packet holds it.
    Output,
    /// The buffer at its far end is full.
    Room,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock at {} ns:", self.at_ps / 1_000)?;
        for (index, wait) in self.circle.iter().enumerate() {
            let holds: Vec<String> = wait.holds.iter().map(|port| format!("P{port}")).collect();
            let holds = if holds.is_empty() { "nothing".to_owned() } else { holds.join(", ") };
            let separator = if index == 0 { "" } else { ";" };
            let Wait { name, input, wants, .. } = wait;
            write!(
                f,
                "{separator} {name}: the packet at P{input} holds {holds} and wants P{wants}"
            )?;
            if wait.why == WaitFor::Room {
                write!(f, ", whose far end is full")?;
            }
        }
        Ok(())
    }
}

impl<Q: EventQueue> Fabric<'_, Q> {
    /// Looks for a circle of waiting packets that one can get into from a buffer.
    pub(super) fn find_deadlock(&self, from: u32) -> Option<Deadlock> {
        let mut way = vec![(from, self.waits_for(from))];
        let mut seen = BTreeSet::from([from]);
        while let Some((_, waits)) = way.last_mut() {
            let Some((port, why, next)) = waits.pop() else {
                way.pop();
                continue;
            };
            let last = way.len() - 1;
            way[last].1.push((port, why, next)); // keep what was followed on top
            if let Some(start) = way.iter().position(|(queue, _)| *queue == next) {
                let circle = way[start..].iter().filter_map(|(queue, waits)| {
                    let (port, why, _) = waits.last()?;
                    Some(self.describe(*queue, *port, *why))
                });
                return Some(Deadlock { at_ps: self.now, circle: circle.collect() });
            }
            if seen.insert(next) {
                let waits = self.waits_for(next);
                way.push((next, waits));
                continue;
            }
            way[last].1.pop();
        }
        None
    }

    /// Looks for a circle anywhere; to be called when nothing happens any more.
    pub(crate) fn find_any_deadlock(&self) -> Option<Deadlock> {
        let numbers = 0..u32::try_from(self.queues.len()).expect("the wiring has checked it");
        numbers
            .filter(|queue| self.queues[*queue as usize].head != NONE)
            .find_map(|queue| self.find_deadlock(queue))
    }

    /// Lists what keeps the packet at the head of a buffer from leaving: output, reason, and the
    /// buffer whose packet has to move first.
    fn waits_for(&self, queue: u32) -> Vec<(u32, WaitFor, u32)> {
        let buffer = &self.queues[queue as usize];
        if !matches!(buffer.stage, Stage::Waiting | Stage::Acquiring) {
            return Vec::new();
        }
        let mut waits = Vec::new();
        let mut note = |port: u32| {
            let holder = self.ports[port as usize].holder;
            if holder != NONE {
                waits.push((port, WaitFor::Output, holder));
            } else if !self.has_room(queue, port) {
                let there = self.wiring.far[port as usize] * self.wiring.channels;
                waits.push((port, WaitFor::Room, there + self.wiring.channel(queue)));
            }
        };
        if self.wiring.is_endpoint(self.wiring.port(queue)) || self.head_is_unicast(queue) {
            note(buffer.single);
        } else {
            let wanted = self.routes.outs(buffer.hop).filter(|out| self.requests(queue, out.port));
            wanted.for_each(|out| note(out.port));
        }
        waits
    }

    /// Tells whether the packet at the head of a buffer is a unicast one.
    pub(super) fn head_is_unicast(&self, queue: u32) -> bool {
        let head = self.queues[queue as usize].head;
        head != NONE && self.queues[queue as usize].hop == UNICAST
    }

    fn describe(&self, queue: u32, wants: u32, why: WaitFor) -> Wait {
        let port = self.wiring.port(queue);
        let held = |port: &u32| self.ports[*port as usize].holder == queue;
        let number = |port: u32| self.graph.port_number(PortId(port));
        if self.wiring.is_endpoint(port) {
            let endpoint = self.wiring.endpoint(port);
            let name = self.graph.endpoint_name(endpoint).to_owned();
            let switch = SwitchId(self.wiring.switch[self.wiring.far[port as usize] as usize]);
            return Wait { switch, name, input: 0, holds: Vec::new(), wants: 1, why };
        }
        let switch = SwitchId(self.wiring.switch[port as usize]);
        let outputs = self.graph.ports(switch).map(|port| port.0);
        Wait {
            switch,
            name: switch_name(self.graph, switch),
            input: number(port),
            holds: outputs.filter(held).map(number).collect(),
            wants: number(wants),
            why,
        }
    }
}

/// Names a switch by its description, which says where it stands; else by its node id.
fn switch_name(graph: &Graph, switch: SwitchId) -> String {
    let text = graph.switch_description(switch);
    if text.is_empty() { graph.switch_name(switch).to_owned() } else { text.to_owned() }
}
