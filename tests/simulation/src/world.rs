//! The simulated world of group management: clock, network, store and all parties.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_groups::directory::Directory;
use fabricast_groups::operating::Phase;
use fabricast_topology::SplitMix;

use crate::invariants::g3;
use crate::invariants::g4::Appointments;
use crate::message::Message;
use crate::node::SimNode;
use crate::scenario::{Network, Party};
use crate::settings::Settings;
use crate::store::Store;
use crate::tic::Tic;

mod actions;
#[cfg(test)]
mod tests;

/// The world at one moment.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Moment,
    pub(crate) network: Network,
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    /// An error holds the moment at which a killed TIC is started again.
    pub(crate) tics: Vec<Result<Tic, Moment>>,
    pub(crate) nodes: Vec<SimNode>,
    pub(crate) delivered: u64,
    pub(crate) probes_answered: u64,
    appointments: Appointments,
    in_flight: BTreeMap<(Moment, u64), (Party, Party, Message)>,
    /// Messages that wait for a frozen party.
    frozen: BTreeMap<Party, Vec<(Party, Message)>>,
    /// Pairs of sender and receiver between which messages are dropped.
    cut: BTreeSet<(Party, Party)>,
    sent: u64,
    chance: SplitMix,
    requests: u64,
}

impl World {
    pub(crate) fn new(seed: u64, nodes: usize, tics: usize) -> Self {
        Self::with(Settings::of(seed), seed, nodes, tics)
    }

    pub(crate) fn with(settings: Settings, seed: u64, nodes: usize, tics: usize) -> Self {
        let now = Moment(0);
        Self {
            now,
            settings,
            network: Network::CALM,
            store: Store::default(),
            tics: (0..tics).map(|_| Ok(Tic::new(now, settings))).collect(),
            nodes: (0..nodes).map(|index| SimNode::new(index, now, tics, settings)).collect(),
            delivered: 0,
            probes_answered: 0,
            appointments: Appointments::default(),
            in_flight: BTreeMap::new(),
            frozen: BTreeMap::new(),
            cut: BTreeSet::new(),
            sent: 0,
            chance: SplitMix::new(seed),
            requests: 0,
        }
    }

    /// Returns the durable records.
    pub(crate) fn directory(&self) -> Directory {
        let read = Directory::load(self.settings.limits(), self.store.records.iter());
        read.expect("S3: what was written is read back")
    }

    pub(crate) fn is_up(&self, at: usize) -> bool {
        self.nodes[at].oa.phase() == Phase::Up
    }

    pub(crate) fn run(&mut self, span: Duration) {
        self.run_until(self.now.after(span));
    }

    pub(crate) fn run_until(&mut self, end: Moment) {
        let mut stuck = 0;
        loop {
            let next = self.next_event();
            if next > end {
                self.now = end;
                return;
            }
            stuck = if next > self.now { 0 } else { stuck + 1 };
            assert!(stuck < 100_000, "time stands still at {:?}", self.now);
            self.now = self.now.max(next);
            self.deliver_due();
            for index in 0..self.nodes.len() {
                if !self.frozen.contains_key(&Party::Node(index)) {
                    let sent = self.nodes[index].tick(self.now);
                    self.send(Party::Node(index), sent);
                    self.appointments.note(&self.nodes[index]);
                }
            }
            for index in 0..self.tics.len() {
                self.tick_tic(index);
            }
        }
    }

    fn next_event(&self) -> Moment {
        let runs = |party: Party| !self.frozen.contains_key(&party);
        let nodes = self.nodes.iter().filter(|node| runs(Party::Node(node.index)));
        let tics = self.tics.iter().enumerate().filter(|(at, _)| runs(Party::Tic(*at)));
        let message = self.in_flight.keys().next().map(|(at, _)| *at);
        let deadlines = nodes.map(SimNode::next_deadline);
        let deadlines = deadlines.chain(tics.map(|(_, tic)| match tic {
            Ok(tic) => tic.next_deadline(),
            Err(again) => *again,
        }));
        deadlines.chain(message).min().unwrap_or(Moment(u64::MAX))
    }

    fn tick_tic(&mut self, at: usize) {
        if self.frozen.contains_key(&Party::Tic(at)) {
            return;
        }
        if self.tics[at].as_ref().is_err_and(|again| *again <= self.now) {
            self.tics[at] = Ok(Tic::new(self.now, self.settings));
        }
        if let Ok(tic) = &mut self.tics[at] {
            let sent = tic.tick(self.now);
            self.send(Party::Tic(at), sent);
        }
    }

    fn deliver_due(&mut self) {
        while let Some(entry) = self.in_flight.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let (from, to, message) = entry.remove();
            if let Some(waiting) = self.frozen.get_mut(&to) {
                waiting.push((from, message));
            } else {
                self.deliver(from, to, message);
            }
        }
    }

    fn deliver(&mut self, from: Party, to: Party, message: Message) {
        self.delivered += 1;
        let sent = match to {
            Party::Store => return self.serve_store(from, message),
            Party::Tic(at) => {
                self.probes_answered += u64::from(matches!(message, Message::ProbeAnswer(..)));
                let Ok(tic) = &mut self.tics[at] else { return };
                tic.handle(self.now, from, message)
            }
            Party::Node(at) => {
                g3::acknowledged(&self.store, &message);
                let sent = self.nodes[at].handle(self.now, from, message);
                self.appointments.note(&self.nodes[at]);
                sent
            }
        };
        self.send(to, sent);
    }

    /// Serves a request to the store: it is queued for the store's delay and carried out then.
    fn serve_store(&mut self, from: Party, message: Message) {
        match (from, message) {
            (Party::Tic(at), Message::StoreRequest(request)) => {
                let delay = self.store.delay;
                self.enqueue(delay, Party::Store, Party::Store, Message::StoreWork(at, request));
            }
            (Party::Store, Message::StoreWork(at, request)) => {
                let answer = self.store.handle(self.now, at, request);
                self.send(Party::Store, vec![(Party::Tic(at), Message::StoreReply(answer))]);
            }
            (from, other) => panic!("{from} does not send {other:?} to the store"),
        }
    }

    pub(crate) fn send(&mut self, from: Party, messages: Vec<(Party, Message)>) {
        for (to, message) in messages {
            if from == to {
                self.enqueue(Duration::ZERO, from, to, message);
                continue;
            }
            // Clients of the store repeat lost messages, so none is lost here.
            let safe = from == Party::Store || to == Party::Store;
            let (loss, twice) = match safe {
                true => (0, 0),
                false => (self.network.loss_percent, self.network.duplicate_percent),
            };
            if self.cut.contains(&(from, to)) || self.chance.below(100) < loss {
                continue;
            }
            if self.chance.below(100) < twice {
                let delay = self.delay() * 3;
                self.enqueue(delay, from, to, message.clone());
            }
            let delay = self.delay();
            self.enqueue(delay, from, to, message);
        }
    }

    fn delay(&mut self) -> Duration {
        let most = u32::try_from(self.network.delay.as_micros()).expect("less than an hour");
        let slow = if self.chance.below(10) == 0 { most } else { 0 };
        Duration::from_micros(u64::from(1 + self.chance.below(most) + slow))
    }

    fn enqueue(&mut self, delay: Duration, from: Party, to: Party, message: Message) {
        self.sent += 1;
        self.in_flight.insert((self.now.after(delay), self.sent), (from, to, message));
    }
}
