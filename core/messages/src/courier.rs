//! The message layer of one node: a station for each member, one link to each neighbouring node.
//!
//! Call an input, then drain [`Courier::poll_output`]; call [`Courier::tick`] when
//! [`Courier::next_deadline`] has come. Neighbours on the same node speak without a link.
//!
//! Every collection is bounded: by the members of the node, by those who take part in their groups, by
//! the window for each of those, and by [`Limits`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::{Gn, Moment, Pn};

use crate::frame::{Frame, Life, Notice, Packet};
use crate::operation::{OnFailure, Operation};
use crate::outputs::{Limits, Mode, OpenError, Output, Place, SendError, SendId, StartError};
use crate::station::Station;
use crate::switches::{Offer, Wide};

/// Members that are not here and that somebody has said hello to, at most.
const AWAITED: usize = 256;

/// The message layer of one node.
#[derive(Clone, Debug)]
pub struct Courier {
    node: NodeName,
    limits: Limits,
    stations: BTreeMap<(Gn, Pn), Station>,
    awaited: BTreeSet<(Gn, Pn)>,
    links: BTreeMap<NodeName, Link>,
    deadlines: BTreeSet<(Moment, (Gn, Pn))>,
    set: BTreeMap<(Gn, Pn), Moment>, // what is in `deadlines`
    wanted: BTreeMap<(Gn, Pn), BTreeMap<NodeName, Address>>,
    inside: VecDeque<Frame>, // between stations of this node
    output: VecDeque<Output>,
}

/// The link to another node.
#[derive(Clone, Debug, Default)]
struct Link {
    users: usize,
    up: bool,
    close_at: Option<Moment>,
}

impl Courier {
    /// Creates the message layer of a node without members.
    pub fn new(node: NodeName, limits: Limits) -> Self {
        Self {
            node,
            limits,
            stations: BTreeMap::new(),
            awaited: BTreeSet::new(),
            links: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            set: BTreeMap::new(),
            wanted: BTreeMap::new(),
            inside: VecDeque::new(),
            output: VecDeque::new(),
        }
    }

    /// Takes a member's place in its tree over, also one that has changed; another life in a place is
    /// another member.
    pub fn place(&mut self, now: Moment, place: Place) {
        let key = (place.gn, place.pn);
        if self.stations.get(&key).is_some_and(|station| station.life() != place.life) {
            self.remove(now, key.0, key.1);
        }
        let (node, limits) = (self.node.clone(), self.limits);
        let links = &self.links;
        let station =
            self.stations.entry(key).or_insert_with(|| Station::new(&place, node.clone(), limits));
        station
            .place(now, place, |peer| *peer == node || links.get(peer).is_some_and(|link| link.up));
        if self.awaited.remove(&key) {
            station.activate(now);
        }
        self.drain(now, key);
    }

    /// Answers the members whose places are needed: those here, and those that others ask for.
    pub fn members(&self) -> BTreeSet<(Gn, Pn)> {
        self.stations.keys().chain(&self.awaited).copied().collect()
    }

    /// Answers the members that others ask for and that have no place here.
    pub fn awaited(&self) -> impl Iterator<Item = (Gn, Pn)> {
        self.awaited.iter().copied()
    }

    /// Forgets a member whose membership has ended.
    pub fn remove(&mut self, now: Moment, gn: Gn, pn: Pn) {
        let key = (gn, pn);
        let Some(station) = self.stations.remove(&key) else { return };
        if station.is_active() {
            self.await_member(key); // whoever takes the place finds its neighbours acquainted
        }
        if let Some(at) = self.set.remove(&key) {
            self.deadlines.remove(&(at, key));
        }
        self.want(now, key, BTreeMap::new());
    }

    /// Lets a member's process take part.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the member has no place here or takes part already.
    pub fn open(&mut self, now: Moment, gn: Gn, pn: Pn) -> Result<(), OpenError> {
        let station = self.stations.get_mut(&(gn, pn)).ok_or(OpenError::NoPlace { gn, pn })?;
        if station.is_open() {
            return Err(OpenError::Open { gn, pn });
        }
        station.open(now);
        self.drain(now, (gn, pn));
        Ok(())
    }

    /// Ends that: the others do not wait for the member any more. What it has sent and was not
    /// acknowledged may arrive at some.
    pub fn close(&mut self, now: Moment, gn: Gn, pn: Pn) {
        if let Some(station) = self.stations.get_mut(&(gn, pn)).filter(|one| one.is_open()) {
            station.close(now);
            self.drain(now, (gn, pn));
        }
    }

    /// Answers who takes part in a group, and in which life, as far as a member of this node knows;
    /// `None` if the member takes no part itself.
    pub fn roster(&self, gn: Gn, pn: Pn) -> Option<BTreeMap<Pn, Life>> {
        let station = self.stations.get(&(gn, pn)).filter(|station| station.is_open())?;
        Some(station.roster().lives())
    }

    /// Sends a message; a reliable one ends with [`Output::Acknowledged`].
    ///
    /// # Errors
    ///
    /// [`SendError`] if the message is not taken.
    pub fn send(
        &mut self,
        now: Moment,
        (gn, pn): (Gn, Pn),
        mode: Mode,
        payload: &[u8],
    ) -> Result<SendId, SendError> {
        let station = self.stations.get_mut(&(gn, pn)).ok_or(SendError::NotOpen { gn, pn })?;
        let sent = station.send(now, mode, payload);
        self.drain(now, (gn, pn));
        sent
    }

    /// Begins an operation of a member; it ends with [`Output::Ended`].
    ///
    /// # Errors
    ///
    /// [`StartError`] if it is not begun.
    pub fn operate(
        &mut self,
        now: Moment,
        (gn, pn): (Gn, Pn),
        operation: &Operation,
        on_failure: OnFailure,
    ) -> Result<(), StartError> {
        let station = self.stations.get_mut(&(gn, pn)).ok_or(StartError::NotOpen { gn, pn })?;
        let begun = station.operate(now, operation, on_failure);
        self.drain(now, (gn, pn));
        begun
    }

    /// Takes over what switches offer to a member, or that they offer nothing.
    pub fn offer(&mut self, gn: Gn, pn: Pn, offer: Option<Offer>) {
        if let Some(station) = self.stations.get_mut(&(gn, pn)) {
            station.offer(offer);
        }
    }

    /// Takes how a run of the switches has ended for a member, by its sequence number.
    ///
    /// - `brings`: what the member gets; `None` if the run has failed.
    pub fn combined(
        &mut self,
        now: Moment,
        (gn, pn): (Gn, Pn),
        sequence: u64,
        brings: Option<Option<Wide>>,
    ) {
        if let Some(station) = self.stations.get_mut(&(gn, pn)) {
            station.combined(now, sequence, brings);
            self.drain(now, (gn, pn));
        }
    }

    /// Notes that a member's process has taken messages that were delivered.
    pub fn consumed(&mut self, now: Moment, gn: Gn, pn: Pn, messages: usize) {
        if let Some(station) = self.stations.get_mut(&(gn, pn)) {
            station.consumed(now, messages);
            self.drain(now, (gn, pn));
        }
    }

    /// Notes that there is a new link to a node, whoever asked for it.
    pub fn link_up(&mut self, now: Moment, node: &NodeName) {
        self.links.entry(node.clone()).or_default().up = true;
        self.all_stations(now, |station| station.link_up(now, node));
    }

    /// Notes that the link to a node is cut. If it is still needed, a new one is expected without
    /// asking.
    pub fn link_down(&mut self, now: Moment, node: &NodeName) {
        let Some(link) = self.links.get_mut(node) else { return };
        link.up = false;
        if link.users == 0 && link.close_at.is_none() {
            self.links.remove(node);
        }
        self.all_stations(now, |station| station.link_down(node));
    }

    /// Takes a frame from a link.
    pub fn frame(&mut self, now: Moment, from: &NodeName, frame: Frame) {
        let key = (frame.gn, frame.to);
        match self.stations.get_mut(&key) {
            Some(station) => station.frame(now, from, frame.from, frame.body),
            None => self.await_member(key),
        }
        self.drain(now, key);
    }

    /// Takes a packet from the multicast connection, for one of the members of this node.
    pub fn packet(&mut self, now: Moment, pn: Pn, packet: &Packet) {
        let key = (packet.gn, pn);
        let Some(station) = self.stations.get_mut(&key).filter(|one| one.is_active()) else {
            return;
        };
        match &packet.notice {
            Notice::Part(part) => station.part(now, None, part.clone()),
            Notice::Loose(part) => station.loose_part(now, None, part.clone()),
            Notice::Decided { round, outcome } => station.decided(now, None, *round, outcome),
        }
        self.drain(now, key);
    }

    /// Draws the consequences of time passing.
    pub fn tick(&mut self, now: Moment) {
        while let Some((_, key)) = self.deadlines.first().filter(|(at, _)| *at <= now).copied() {
            self.deadlines.pop_first();
            self.set.remove(&key);
            if let Some(station) = self.stations.get_mut(&key) {
                station.tick(now);
            }
            self.drain(now, key);
        }
        let due = |link: &Link| link.close_at.is_some_and(|at| at <= now);
        let idle = self.links.iter().filter(|(_, link)| due(link));
        for node in idle.map(|(node, _)| node.clone()).collect::<Vec<_>>() {
            self.links.remove(&node);
            self.all_stations(now, |station| station.link_down(&node));
            self.output.push_back(Output::Disconnect { node });
        }
    }

    /// Answers the next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// Answers when to call [`Courier::tick`] at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let links = self.links.values().filter_map(|link| link.close_at).min();
        self.deadlines.first().map(|(at, _)| *at).into_iter().chain(links).min()
    }

    fn await_member(&mut self, key: (Gn, Pn)) {
        if self.awaited.len() >= AWAITED {
            self.awaited.pop_first(); // its neighbours go on saying hello
        }
        self.awaited.insert(key);
    }

    fn all_stations(&mut self, now: Moment, work: impl Fn(&mut Station)) {
        let keys: Vec<(Gn, Pn)> = self.stations.keys().copied().collect();
        for key in keys {
            if let Some(station) = self.stations.get_mut(&key) {
                work(station);
            }
            self.drain(now, key);
        }
    }

    /// Takes what a station wants done, and lets stations of this node answer each other.
    fn drain(&mut self, now: Moment, key: (Gn, Pn)) {
        self.take_outputs(now, key);
        while let Some(frame) = self.inside.pop_front() {
            let key = (frame.gn, frame.to);
            let node = self.node.clone();
            match self.stations.get_mut(&key) {
                Some(station) => station.frame(now, &node, frame.from, frame.body),
                None => self.await_member(key),
            }
            self.take_outputs(now, key);
        }
    }

    fn take_outputs(&mut self, now: Moment, key: (Gn, Pn)) {
        let Some(station) = self.stations.get_mut(&key) else { return };
        while let Some(output) = station.poll_output() {
            if let Output::Frame { node, frame } = &output
                && *node == self.node
            {
                self.inside.push_back(frame.clone());
            } else {
                self.output.push_back(output);
            }
        }
        let beat_at = station.beat_at();
        if self.set.get(&key).copied() != beat_at {
            if let Some(at) = self.set.remove(&key) {
                self.deadlines.remove(&(at, key));
            }
            if let Some(at) = beat_at {
                self.set.insert(key, at);
                self.deadlines.insert((at, key));
            }
        }
        let wanted = station
            .peers()
            .map(|peers| peers.map(|at| (at.node.clone(), at.address.clone())).collect());
        if let Some(wanted) = wanted {
            self.want(now, key, wanted);
        }
    }

    /// Opens the links that a station needs now, and lets go of those that it needed before.
    fn want(&mut self, now: Moment, key: (Gn, Pn), wanted: BTreeMap<NodeName, Address>) {
        let before = self.wanted.get(&key);
        if before.map_or(wanted.is_empty(), |before| *before == wanted) {
            return;
        }
        let before = self.wanted.remove(&key).unwrap_or_default();
        for (node, address) in wanted.iter().filter(|(node, _)| !before.contains_key(*node)) {
            let link = self.links.entry(node.clone()).or_default();
            link.users += 1;
            let asked_for = link.users > 1 || link.close_at.take().is_some();
            if !asked_for {
                let (node, address) = (node.clone(), address.clone());
                self.output.push_back(Output::Connect { node, address });
            }
        }
        for node in before.keys().filter(|node| !wanted.contains_key(*node)) {
            if let Some(link) = self.links.get_mut(node) {
                link.users -= 1;
                if link.users == 0 {
                    link.close_at = Some(now.after(self.limits.linger));
                }
            }
        }
        if !wanted.is_empty() {
            self.wanted.insert(key, wanted);
        }
    }
}
