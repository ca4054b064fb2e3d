//! The simulated world: clock, network, and what the TIC is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_groups::command::{Answer, Command};
use fabricast_groups::detector::DetectorOutput;
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::Phase;
use fabricast_groups::record::Change;
use fabricast_groups::{Moment, Refusal};

use crate::node::{Asker, Message, Party, SimNode};

mod people;
mod tic;

use tic::Tic;

pub(crate) use crate::node::name;

#[derive(Clone, Copy)]
pub(crate) struct Network {
    /// The longest way of a message; a tenth of them take all of it and as much again.
    pub(crate) delay: Duration,
    pub(crate) loss_percent: u64,
    pub(crate) duplicate_percent: u64,
}

pub(crate) struct World {
    pub(crate) now: Moment,
    pub(crate) network: Network,
    pub(crate) tic: Tic,
    pub(crate) nodes: Vec<SimNode>,
    pub(crate) delivered: u64,
    pub(crate) probes_answered: u64,
    in_flight: BTreeMap<(Moment, u64), (Party, Party, Message)>,
    sent: u64,
    chance: Chance,
    requests: u64,
}

/// Randomness that depends on the seed alone.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(u64::try_from(end).unwrap())).unwrap()
    }
}

impl World {
    pub(crate) fn new(seed: u64, nodes: usize, network: Network) -> Self {
        let now = Moment(0);
        let mut world = Self {
            now,
            network,
            tic: Tic::new(),
            nodes: (0..nodes).map(|index| SimNode::new(index, now)).collect(),
            delivered: 0,
            probes_answered: 0,
            in_flight: BTreeMap::new(),
            sent: 0,
            chance: Chance(seed),
            requests: 0,
        };
        // Every run starts with known nodes: registration in a storm comes with the restarts.
        world.network.loss_percent = 0;
        world.run(network.delay * 5, false);
        world.network = network;
        world
    }

    pub(crate) fn run(&mut self, span: Duration, storm: bool) {
        self.run_until(self.now.after(span), storm);
    }

    fn run_until(&mut self, end: Moment, storm: bool) {
        let mut next_blow = self.now;
        let mut stuck = 0;
        loop {
            let deadlines = self.nodes.iter().map(SimNode::next_deadline);
            let message = self.in_flight.keys().next().map(|(at, _)| *at);
            let blow = storm.then_some(next_blow);
            let watch = self.tic.detector.next_deadline();
            let next = deadlines.chain(message).chain(blow).chain(watch).min().unwrap();
            if next > end {
                self.now = end;
                return;
            }
            stuck = if next > self.now { 0 } else { stuck + 1 };
            assert!(stuck < 100_000, "time stands still at {:?}", self.now);
            self.now = self.now.max(next);
            self.deliver_due();
            for index in 0..self.nodes.len() {
                let sent = self.nodes[index].tick(self.now);
                self.send(Party::Node(index), sent);
            }
            self.poll_watch();
            if storm && next_blow <= self.now {
                self.blow();
                next_blow = self.now.after(Duration::from_millis(150));
            }
        }
    }

    fn deliver_due(&mut self) {
        while let Some(entry) = self.in_flight.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let (from, to, message) = entry.remove();
            self.delivered += 1;
            match to {
                Party::Tic => self.tic_handles(from, message),
                Party::Node(index) => {
                    if self.nodes[index].cut_off {
                        continue;
                    }
                    let sent = self.nodes[index].handle(self.now, from, message);
                    self.send(to, sent);
                }
            }
        }
    }

    pub(crate) fn send(&mut self, from: Party, messages: Vec<(Party, Message)>) {
        for (to, message) in messages {
            let cut = |party| matches!(party, Party::Node(index) if self.nodes[index].cut_off);
            let local = from == to;
            if cut(from) || (cut(to) && !local) {
                continue;
            }
            if local {
                self.enqueue(Duration::ZERO, from, to, message);
                continue;
            }
            if self.chance.below(100) < self.network.loss_percent {
                continue;
            }
            if self.chance.below(100) < self.network.duplicate_percent {
                let delay = self.delay() * 3;
                self.enqueue(delay, from, to, message.clone());
            }
            let delay = self.delay();
            self.enqueue(delay, from, to, message);
        }
    }

    fn delay(&mut self) -> Duration {
        let most = u64::try_from(self.network.delay.as_nanos()).unwrap();
        let slow = if self.chance.below(10) == 0 { most } else { 0 };
        Duration::from_nanos(1 + self.chance.below(most) + slow)
    }

    fn enqueue(&mut self, delay: Duration, from: Party, to: Party, message: Message) {
        self.sent += 1;
        self.in_flight.insert((self.now.after(delay), self.sent), (from, to, message));
    }

    fn tic_handles(&mut self, from: Party, message: Message) {
        let Party::Node(index) = from else { panic!("the TIC does not write to itself") };
        let now = self.now;
        let reply = match message {
            Message::Decide(asker, command) => {
                let answer = self.decide(&command);
                match (asker, answer) {
                    (Asker::Nobody, _) => return,
                    (Asker::Registration, Ok(Answer::Node(node))) => Message::Registered(Ok(node)),
                    (Asker::Registration, Err(refusal)) => Message::Registered(Err(refusal)),
                    (Asker::Join(id), Ok(Answer::Joined(joined))) => {
                        Message::Joined(id, Ok(joined))
                    }
                    (Asker::Join(id), Err(refusal)) => Message::Joined(id, Err(refusal)),
                    (Asker::Leave(id), Ok(Answer::Left { gn, pn, revision })) => {
                        Message::Left(id, Ok((gn, pn, revision)))
                    }
                    (Asker::Leave(id), Err(refusal)) => Message::Left(id, Err(refusal)),
                    (_, Ok(answer)) => panic!("{answer:?} answers something else"),
                }
            }
            Message::Fetch(gn, for_agent) => {
                Message::Group(gn, for_agent, self.tic.directory.snapshot(gn))
            }
            Message::Status(incarnation, groups) => {
                self.tic.detector.heard(&(name(index), incarnation), now);
                let verdict = self.tic.directory.verdict(&name(index), incarnation, &groups);
                Message::Verdict(incarnation, verdict)
            }
            Message::ProbeAnswer(incarnation, probe) => {
                self.probes_answered += 1;
                self.tic.detector.probe_answered(&(name(index), incarnation), probe, now);
                return;
            }
            other => panic!("the TIC is not sent {other:?}"),
        };
        self.send(Party::Tic, vec![(from, reply)]);
    }

    /// Decides, and hints at the change to the agents it concerns.
    fn decide(&mut self, command: &Command) -> Result<Answer, Refusal> {
        let (answer, changes) = self.tic.decide(self.now, command)?;
        let mut hints = BTreeSet::new();
        for change in &changes {
            if let Change::GroupPut(group) = change
                && let Some(agent) = &group.agent
            {
                hints.insert((agent.clone(), group.gn));
            }
        }
        for (agent, gn) in hints {
            let to = Party::Node(self.index_of(&agent));
            self.send(Party::Tic, vec![(to, Message::Notify(gn))]);
        }
        Ok(answer)
    }

    fn poll_watch(&mut self) {
        self.tic.detector.poll(self.now);
        while let Some(output) = self.tic.detector.poll_output() {
            match output {
                DetectorOutput::Probe { peer: (node, _), probe } => {
                    let to = Party::Node(self.index_of(&node));
                    self.send(Party::Tic, vec![(to, Message::Probe(probe))]);
                }
                DetectorOutput::Dead { peer: (node, incarnation) } => {
                    let command = Command::NodeFailed { node, incarnation: Some(incarnation) };
                    self.decide(&command).expect("the watched node is registered");
                }
            }
        }
    }

    fn index_of(&self, node: &NodeName) -> usize {
        self.nodes.iter().position(|at| at.oa.identity().node == *node).unwrap()
    }

    pub(crate) fn is_up(&self, at: usize) -> bool {
        self.nodes[at].oa.phase() == Phase::Up
    }
}
