//! Collective operations of many communicators at once: every process goes through its groups in
//! turn, round after round (C-MR4LMS §4.4).
//!
//! Operations follow the adapter-based collectives of the aggregation-tree paper. A barrier or
//! all-reduce gathers one packet of every adapter up a k-nomial tree, by unicast, and sends the
//! result down the group's multicast trees. A broadcast sends its data down these trees; its root
//! is done when all adapters have acknowledged, gathered in the same way. Processes of one adapter
//! are combined in it. A group with several trees sends each result on all of them; whatever comes
//! second is dropped.
//!
//! Invariants
//! - COLL-1: an adapter gathers one packet of each child for every operation, and no more.

mod adapter;
mod gathering;
mod groups;

use std::cmp::Reverse;

use fabricast_topology::EndpointId;

use crate::chance::Chance;
use crate::workload::{Delivery, Offer, Packet, Route, Workload};
use adapter::{Adapter, Message, Task};
use gathering::{GatheringTrees, Node};
pub use groups::{CollectiveError, ProcessPlan, grid_processes};

/// Operation that all groups run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Completes once all processes have entered.
    Barrier,
    /// Combines this many bytes of every process; all get the result.
    AllReduce(u32),
    /// The first process sends this many bytes to all.
    Broadcast(u32),
}

/// Constants and length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveSpec {
    /// Operation that all groups run.
    pub operation: Operation,
    /// Rounds of every process through its groups.
    pub rounds: u32,
    /// Header bytes of a packet.
    pub header_bytes: u32,
    /// Width of the gathering tree: k of the k-nomial tree, 2 or more.
    pub fan_in: u32,
    /// Picoseconds an adapter takes to match a packet it has received, one after the other; also to
    /// find that it is for none of its groups.
    pub match_ps: u64,
    /// Picoseconds that a process needs between the end of an operation and the start of the next.
    pub software_ps: u64,
    /// Mean picoseconds of an additional exponential delay.
    pub noise_ps: u64,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Times of one round of the first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Start of its first operation, in picoseconds.
    pub begun_ps: u64,
    /// End of its last operation, in picoseconds.
    pub done_ps: u64,
}

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectiveCounters {
    /// Operations that processes have completed.
    pub ended: u64,
    /// Results that arrived again, along another tree.
    pub duplicates: u64,
    /// Results of groups that the endpoint is not a member of (merged trees).
    pub strangers: u64,
}

/// State of the workload.
#[derive(Clone, Debug)]
pub struct Collective {
    spec: CollectiveSpec,
    gathering: GatheringTrees,
    processes: Vec<Process>,
    adapters: Vec<Adapter>, // by endpoint
    rounds: Vec<Round>,
    running: usize,
    counters: CollectiveCounters,
}

/// State of one process.
#[derive(Clone, Debug)]
struct Process {
    endpoint: EndpointId,
    nodes: Vec<u32>, // its node in each of its groups, in turn
    turn: usize,
    round: u32,
    begun_ps: u64,
    chance: Chance,
}

impl Collective {
    /// Makes a run. `trees` has the multicast trees of every group; a group of one adapter needs
    /// none.
    ///
    /// # Errors
    ///
    /// [`CollectiveError`] naming the process or group that does not fit.
    pub fn new(
        spec: CollectiveSpec,
        processes: &[ProcessPlan],
        trees: Vec<Vec<crate::routes::TreeId>>,
        endpoints: usize,
    ) -> Result<Self, CollectiveError> {
        let (gathering, nodes_of) = GatheringTrees::new(processes, trees, spec.fan_in)?;
        let mut adapters = vec![Adapter::default(); endpoints];
        let mut started = Vec::with_capacity(processes.len());
        for (number, (plan, nodes)) in (0u32..).zip(processes.iter().zip(nodes_of)) {
            let mut chance = Chance::new(spec.seed, number.into());
            let first = spec.software_ps + chance.wait_ps(spec.noise_ps);
            let adapter = adapters.get_mut(plan.endpoint.index());
            let unknown = CollectiveError::UnknownEndpoint { process: number };
            adapter.ok_or(unknown)?.add(first, Task::Begin { process: number });
            started.push(Process {
                endpoint: plan.endpoint,
                nodes,
                turn: 0,
                round: 0,
                begun_ps: first,
                chance,
            });
        }
        let running = started.iter().filter(|process| !process.nodes.is_empty()).count();
        Ok(Self {
            spec,
            gathering,
            running: if spec.rounds == 0 { 0 } else { running },
            processes: started,
            adapters,
            rounds: Vec::new(),
            counters: CollectiveCounters::default(),
        })
    }

    /// Gathers a group along a tree of one's own instead of the k-nomial one: `parents` are those
    /// of its adapters, in the order in which its processes name them.
    ///
    /// # Errors
    ///
    /// [`CollectiveError::NotATree`] if the ways up do not all end at the first adapter.
    pub fn gathering(
        mut self,
        group: u32,
        parents: &[Option<u32>],
    ) -> Result<Self, CollectiveError> {
        self.gathering.replace_tree(group, parents)?;
        Ok(self)
    }

    /// Lists the completed rounds of the first process.
    #[must_use]
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// Counts the processes with rounds left.
    #[must_use]
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counters(&self) -> &CollectiveCounters {
        &self.counters
    }

    /// Starts the next operation of a process.
    fn begin(&mut self, now_ps: u64, process: u32) {
        let me = &mut self.processes[process as usize];
        let (Some(node), operation) = (me.nodes.get(me.turn).copied(), me.round) else { return };
        if me.turn == 0 {
            me.begun_ps = now_ps;
        }
        let here = &mut self.gathering[node];
        match self.spec.operation {
            Operation::Barrier | Operation::AllReduce(_) => {
                here.waiting.push(process);
                here.entered += 1;
                self.gather(now_ps, node, operation);
            }
            Operation::Broadcast(_) if here.root_process == Some(process) => {
                self.send_result(node, operation);
                self.arrived(now_ps, node, operation);
            }
            Operation::Broadcast(_) if here.results > operation => self.end(now_ps, process),
            Operation::Broadcast(_) => here.waiting.push(process),
        }
    }

    /// Passes on a barrier or all-reduce that is complete below a node: up, or at the root down
    /// again.
    fn gather(&mut self, now_ps: u64, node: u32, operation: u32) {
        let here = &mut self.gathering[node];
        if here.entered < here.locals || here.gathered(operation) < here.children {
            return;
        }
        here.entered = 0;
        here.clear(operation);
        match here.parent {
            Some(parent) => self.send_up(node, parent, operation),
            None => {
                self.send_result(node, operation);
                self.arrived(now_ps, node, operation);
            }
        }
    }

    /// Passes on the acknowledgements of a broadcast once they are complete below a node.
    fn acknowledge(&mut self, now_ps: u64, node: u32, operation: u32) {
        let here = &mut self.gathering[node];
        let due = here.results > operation && here.acknowledged == operation;
        if !due || here.gathered(operation) < here.children {
            return;
        }
        here.clear(operation);
        here.acknowledged += 1;
        match here.parent {
            Some(parent) => self.send_up(node, parent, operation),
            None => {
                if let Some(root) = here.root_process {
                    self.end(now_ps, root);
                }
            }
        }
    }

    /// Handles the result of an operation at a node.
    fn arrived(&mut self, now_ps: u64, node: u32, operation: u32) {
        let here = &mut self.gathering[node];
        if here.results != operation {
            self.counters.duplicates += 1;
            return;
        }
        here.results += 1;
        let mut waiting = std::mem::take(&mut here.waiting);
        waiting.drain(..).for_each(|process| self.end(now_ps, process));
        self.gathering[node].waiting = waiting;
        if matches!(self.spec.operation, Operation::Broadcast(_)) {
            self.acknowledge(now_ps, node, operation);
        }
    }

    /// Completes the operation of a process and schedules the next.
    fn end(&mut self, now_ps: u64, process: u32) {
        self.counters.ended += 1;
        let me = &mut self.processes[process as usize];
        me.turn += 1;
        if me.turn == me.nodes.len() {
            me.turn = 0;
            me.round += 1;
            if process == 0 {
                self.rounds.push(Round { begun_ps: me.begun_ps, done_ps: now_ps });
            }
            if me.round == self.spec.rounds {
                self.running -= 1;
                return;
            }
        }
        let next = now_ps + self.spec.software_ps + me.chance.wait_ps(self.spec.noise_ps);
        self.adapters[me.endpoint.index()].add(next, Task::Begin { process });
    }

    fn send_up(&mut self, node: u32, parent: u32, operation: u32) {
        let data = match self.spec.operation {
            Operation::AllReduce(bytes) => bytes,
            Operation::Barrier | Operation::Broadcast(_) => 0,
        };
        let Node { group, endpoint, .. } = self.gathering[node];
        let route = Route::Unicast(self.gathering[parent].endpoint);
        let tag = Message { is_result: false, group, operation }.pack();
        self.send(endpoint, route, data, tag);
    }

    fn send_result(&mut self, node: u32, operation: u32) {
        let data = match self.spec.operation {
            Operation::AllReduce(bytes) | Operation::Broadcast(bytes) => bytes,
            Operation::Barrier => 0,
        };
        let Node { group, endpoint, .. } = self.gathering[node];
        let tag = Message { is_result: true, group, operation }.pack();
        for at in 0..self.gathering.trees(group).len() {
            let route = Route::Tree(self.gathering.trees(group)[at]);
            self.send(endpoint, route, data, tag);
        }
    }

    fn send(&mut self, from: EndpointId, route: Route, data: u32, tag: u64) {
        let bytes = self.spec.header_bytes + data;
        self.adapters[from.index()].sends.push_back(Packet { route, bytes, born_ps: 0, tag });
    }
}

impl Workload for Collective {
    fn act(&mut self, now_ps: u64, at: EndpointId) -> Option<u64> {
        loop {
            let adapter = &mut self.adapters[at.index()];
            if adapter.due_ps > now_ps {
                return (adapter.due_ps < u64::MAX).then_some(adapter.due_ps);
            }
            let Some(Reverse((due, _, task))) = adapter.tasks.peek().copied() else {
                adapter.due_ps = u64::MAX;
                return None;
            };
            if due > now_ps {
                adapter.due_ps = due;
                return Some(due);
            }
            adapter.tasks.pop();
            match task {
                Task::Begin { process } => self.begin(now_ps, process),
                Task::Result { node, operation } => self.arrived(now_ps, node, operation),
                Task::Matched { node, operation } => {
                    self.gathering[node].gather_one(operation);
                    match self.spec.operation {
                        Operation::Broadcast(_) => self.acknowledge(now_ps, node, operation),
                        Operation::Barrier | Operation::AllReduce(_) => {
                            self.gather(now_ps, node, operation);
                        }
                    }
                }
            }
        }
    }

    fn next(&mut self, now_ps: u64, from: EndpointId, channel: u8) -> Offer {
        if channel > 0 {
            return Offer::Nothing;
        }
        let packet = self.adapters[from.index()].sends.pop_front();
        packet.map_or(Offer::Nothing, |packet| Offer::Send(Packet { born_ps: now_ps, ..packet }))
    }

    fn delivered(&mut self, now_ps: u64, delivery: &Delivery) {
        let Message { is_result, group, operation } = Message::unpack(delivery.tag);
        let adapter = &mut self.adapters[delivery.to.index()];
        let matched_ps = adapter.matching_until_ps.max(now_ps) + self.spec.match_ps;
        adapter.matching_until_ps = matched_ps;
        let Some(node) = self.gathering.find(group, delivery.to) else {
            self.counters.strangers += 1;
            return;
        };
        adapter.add(
            matched_ps,
            match is_result {
                true => Task::Result { node, operation },
                false => Task::Matched { node, operation },
            },
        );
    }
}
