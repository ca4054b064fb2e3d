//! Message layers in simulated time. Links are cut, the multicast connection loses, repeats and
//! reorders packets, and members learn their places one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::tree::TreeShape;
use fabricast_groups::{Gn, Moment, Pn, Revision};
use fabricast_messages::{
    Body, Call, Content, Frame, Gathered, Limits, MemberId, MessageLayer, Mode, Notice, Offer,
    OnFailure, Operation, Outcome, Output, Packet, Place, PlaceNeighbor, SendError, SendId, Wide,
};

mod switches;

pub(crate) use switches::Switches;

pub(crate) const GN: Gn = Gn(7);

/// Chances in a thousand, and times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    pub(crate) multicast: bool,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) slowest: Duration,
}

pub(crate) const CALM: Conditions =
    Conditions { multicast: true, lost: 0, repeated: 0, slowest: Duration::from_millis(1) };

#[derive(Clone, Debug)]
enum Event {
    Place(NodeName, Place),
    LinkUp(NodeName, NodeName, u64),
    LinkDown(NodeName, NodeName),
    Frame { from: NodeName, to: NodeName, session: u64, gn: Gn, pns: (Pn, Pn), body: Vec<u8> },
    Packet(Pn, Revision, Vec<u8>),
    Tick(NodeName),
    Consume(Pn, Revision),
    Offer(Pn, Revision, Offer),
    Combined(Pn, Revision, u64, Option<Option<Wide>>),
    GiveUp(u32, u64),
}

#[derive(Clone, Debug, Default)]
struct Link {
    session: u64,
    up: bool,
    wanted: BTreeSet<NodeName>,
    cut_until: Moment,
    last: BTreeMap<NodeName, Moment>, // by receiver: links keep their order
}

/// Inputs that a process has had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) messages: Vec<(Pn, Vec<u8>)>,
    pub(crate) acknowledged: BTreeMap<SendId, Vec<Pn>>,
    pub(crate) ended: Vec<(Call, Arc<Outcome>)>,
    pub(crate) left_out: Vec<Pn>, // members left out of an outcome that it did not know to be gone
    pub(crate) room: bool,
    pub(crate) last_at: Moment, // when the last message came
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) joined: Revision,
    pub(crate) node: NodeName,
    pub(crate) seen: Seen,
    pub(crate) slow: bool, // takes messages only by `consume`
    pub(crate) calls: usize,
    called_among: BTreeMap<Pn, Revision>, // its roster at its last call
}

pub(crate) struct World {
    pub(crate) now: Moment,
    pub(crate) conditions: Conditions,
    pub(crate) tree: TreeShape,
    pub(crate) members: BTreeMap<Pn, Member>,
    pub(crate) past: Vec<(Pn, Member)>,
    pub(crate) multicast_open: bool,
    pub(crate) packets: u64,
    pub(crate) frames: BTreeMap<(Pn, Pn), u64>, // frames with parts, by edge
    pub(crate) early: BTreeSet<(Pn, Pn)>, // edges with frames of payloads sent before the outcome
    pub(crate) reports: usize,
    pub(crate) report_bytes: usize,
    pub(crate) outcome_bytes: usize,  // of frames as in `outcomes`
    pub(crate) outcomes: usize,       // frames with outcomes or pieces of them
    pub(crate) collected: usize,      // frames that tell which pieces a side has
    pub(crate) deaf: BTreeSet<Pn>,    // no packet comes to them
    pub(crate) without: BTreeSet<Pn>, // they know that no packet comes to them
    pub(crate) damaged: u64,          // chance in a thousand of a piece to change on its way
    pub(crate) switches: Option<Switches>, // if they combine
    layers: BTreeMap<NodeName, MessageLayer>,
    links: BTreeMap<(NodeName, NodeName), Link>,
    events: BTreeMap<(Moment, u64), Event>,
    placed: BTreeMap<Pn, Moment>, // time of the last place, which come in order
    limits: Limits,
    serial: u64,
    seed: u64,
    joins: u64,
}

impl World {
    pub(crate) fn new(seed: u64, conditions: Conditions, limits: Limits) -> Self {
        Self {
            now: Moment(0),
            conditions,
            tree: TreeShape::default(),
            members: BTreeMap::new(),
            past: Vec::new(),
            multicast_open: conditions.multicast,
            packets: 0,
            frames: BTreeMap::new(),
            early: BTreeSet::new(),
            reports: 0,
            report_bytes: 0,
            outcome_bytes: 0,
            outcomes: 0,
            collected: 0,
            deaf: BTreeSet::new(),
            without: BTreeSet::new(),
            damaged: 0,
            switches: None,
            layers: BTreeMap::new(),
            links: BTreeMap::new(),
            events: BTreeMap::new(),
            placed: BTreeMap::new(),
            limits,
            serial: 0,
            seed,
            joins: 0,
        }
    }

    /// A number below `end`.
    pub(crate) fn draw(&mut self, end: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    fn soon(&mut self) -> Moment {
        let slowest = u64::try_from(self.conditions.slowest.as_nanos()).unwrap();
        let delay = 1_000 + self.draw(slowest);
        self.now.after(Duration::from_nanos(delay))
    }

    fn push(&mut self, at: Moment, event: Event) {
        self.serial += 1;
        self.events.insert((at, self.serial), event);
    }

    /// Lets a process join on a node of its own, or on that of another member.
    pub(crate) fn join(&mut self, pn: Pn, node: &str) {
        let node = NodeName::new(node).unwrap();
        self.joins += 1;
        let joined = Revision(self.joins);
        let limits = self.limits;
        self.layers.entry(node.clone()).or_insert_with(|| MessageLayer::new(node.clone(), limits));
        let (seen, called_among) = (Seen::default(), BTreeMap::new());
        let member = Member { joined, node, seen, slow: false, calls: 0, called_among };
        self.members.insert(pn, member);
    }

    /// Lets `count` processes join, each on a node of its own, and take part.
    pub(crate) fn form(&mut self, count: u32) {
        (0..count).for_each(|pn| self.join(Pn(pn), &format!("n{pn}")));
        self.publish();
        self.settle(Duration::from_millis(50));
        (0..count).for_each(|pn| self.open(Pn(pn)));
        self.settle(Duration::from_secs(2));
        let all: BTreeSet<Pn> = (0..count).map(Pn).collect();
        for pn in 0..count {
            let known: BTreeSet<Pn> = self.roster(Pn(pn)).into_keys().collect();
            assert_eq!(known, all, "as {pn} knows it");
        }
    }

    /// A member's node loses its power.
    pub(crate) fn kill(&mut self, pn: Pn) {
        let member = self.members.remove(&pn).unwrap();
        let node = member.node.clone();
        self.past.push((pn, member));
        self.layers.remove(&node);
        self.withdraw(pn);
        let cut: Vec<_> =
            self.links.keys().filter(|(a, b)| *a == node || *b == node).cloned().collect();
        for key in cut {
            self.links.remove(&key);
            let other = if key.0 == node { key.1 } else { key.0 };
            let at = self.soon();
            self.push(at, Event::LinkDown(other, node.clone()));
        }
    }

    /// Gives a member, which does not join again, a new endpoint that knows nothing: its process
    /// has begun to serve it, or does so no more. Links stay as they are, with all that is under
    /// way on them.
    pub(crate) fn hand_over(&mut self, pn: Pn) {
        let (now, node) = (self.now, self.members[&pn].node.clone());
        let member = MemberId { gn: GN, pn };
        let layer = self.layers.get_mut(&node).unwrap();
        let was_active = layer.delegate(now, member, BTreeMap::new());
        *layer = MessageLayer::new(node.clone(), self.limits);
        let up = self.links.iter().filter(|(_, link)| link.up).map(|(key, _)| key);
        for (a, b) in up.filter(|(a, b)| *a == node || *b == node) {
            layer.link_up(now, if *a == node { b } else { a });
        }
        if was_active {
            layer.wake(now, member);
        }
        self.publish();
    }

    /// Every member hears of its place, each in its own time.
    pub(crate) fn publish(&mut self) {
        let live: BTreeSet<Pn> = self.members.keys().copied().collect();
        for pn in &live {
            let at = self.tree.position(*pn, &live).unwrap();
            let neighbor = |pn: Pn| PlaceNeighbor {
                pn,
                node: self.members[&pn].node.clone(),
                address: Address::new("nowhere").unwrap(),
            };
            let Member { joined, node, .. } = self.members[pn].clone();
            let place = Place {
                gn: GN,
                pn: *pn,
                joined,
                tree: self.tree,
                parent: at.parent.map(neighbor),
                children: at.children.into_iter().map(neighbor).collect(),
                multicast: self.multicast_open && !self.without.contains(pn),
            };
            let at = self.soon().max(self.placed.get(pn).copied().unwrap_or_default());
            self.placed.insert(*pn, at);
            self.push(at, Event::Place(node, place));
        }
        self.plant();
    }

    pub(crate) fn open(&mut self, pn: Pn) {
        let (now, node) = (self.now, self.members[&pn].node.clone());
        self.layers.get_mut(&node).unwrap().open(now, GN, pn).unwrap();
        self.drain(&node);
    }

    pub(crate) fn leave(&mut self, pn: Pn) {
        let member = self.members.remove(&pn).unwrap();
        let (now, node) = (self.now, member.node.clone());
        self.past.push((pn, member));
        let layer = self.layers.get_mut(&node).unwrap();
        layer.close(now, GN, pn);
        layer.remove(now, GN, pn);
        self.drain(&node);
    }

    pub(crate) fn send(&mut self, pn: Pn, mode: Mode, payload: &[u8]) -> Result<SendId, SendError> {
        let (now, node) = (self.now, self.members[&pn].node.clone());
        let sent =
            self.layers.get_mut(&node).unwrap().send(now, MemberId { gn: GN, pn }, mode, payload);
        self.drain(&node);
        sent
    }

    pub(crate) fn operate(&mut self, pn: Pn, operation: &Operation, on_failure: OnFailure) {
        let (now, roster) = (self.now, self.roster(pn));
        let member = self.members.get_mut(&pn).unwrap();
        member.calls += 1;
        member.called_among = roster;
        let node = member.node.clone();
        let layer = self.layers.get_mut(&node).unwrap();
        layer.operate(now, MemberId { gn: GN, pn }, operation, on_failure).unwrap();
        self.drain(&node);
    }

    pub(crate) fn consume(&mut self, pn: Pn, messages: usize) {
        let (now, node) = (self.now, self.members[&pn].node.clone());
        self.layers.get_mut(&node).unwrap().consumed(now, GN, pn, messages);
        self.drain(&node);
    }

    pub(crate) fn roster(&self, pn: Pn) -> BTreeMap<Pn, Revision> {
        let layer = &self.layers[&self.members[&pn].node];
        layer.roster(GN, pn).unwrap_or_default()
    }

    /// Cuts the link between two nodes for a while.
    pub(crate) fn cut(&mut self, a: Pn, b: Pn, time: Duration) {
        let (a, b) = (self.members[&a].node.clone(), self.members[&b].node.clone());
        let key = if a < b { (a, b) } else { (b, a) };
        let until = self.now.after(time);
        let Some(link) = self.links.get_mut(&key) else { return };
        (link.up, link.cut_until) = (false, until);
        link.session += 1;
        for (at, other) in [(&key.0, &key.1), (&key.1, &key.0)] {
            let when = self.soon();
            self.push(when, Event::LinkDown(at.clone(), other.clone()));
        }
        self.connect(&key);
    }

    pub(crate) fn links(&self) -> usize {
        self.links.values().filter(|link| link.up).count()
    }

    fn connect(&mut self, key: &(NodeName, NodeName)) {
        let soon = self.soon().max(self.soon());
        let Some(link) = self.links.get_mut(key) else { return };
        if link.up || link.wanted.is_empty() {
            return;
        }
        link.up = true;
        link.session += 1;
        let (session, at) =
            (link.session, soon.max(link.cut_until).after(Duration::from_millis(2)));
        link.last = [(key.0.clone(), at), (key.1.clone(), at)].into();
        let later = at.after(self.conditions.slowest);
        if let Some(link) = self.links.get_mut(key) {
            link.last.insert(key.1.clone(), later);
        }
        self.push(at, Event::LinkUp(key.0.clone(), key.1.clone(), session));
        self.push(later, Event::LinkUp(key.1.clone(), key.0.clone(), session));
    }

    fn drain(&mut self, node: &NodeName) {
        while let Some(output) = self.layers.get_mut(node).and_then(MessageLayer::poll_output) {
            self.carry_out(node, output);
        }
        if let Some(at) = self.layers.get(node).and_then(MessageLayer::next_deadline) {
            self.push(at.max(self.now), Event::Tick(node.clone()));
        }
    }

    fn carry_out(&mut self, node: &NodeName, output: Output) {
        let key = |peer: &NodeName| {
            if node < peer { (node.clone(), peer.clone()) } else { (peer.clone(), node.clone()) }
        };
        match output {
            Output::Connect { node: peer, .. } => {
                if self.layers.contains_key(&peer) {
                    let link = self.links.entry(key(&peer)).or_default();
                    link.wanted.insert(node.clone());
                    self.connect(&key(&peer));
                }
            }
            Output::Disconnect { node: peer } => {
                let Some(link) = self.links.get_mut(&key(&peer)) else { return };
                link.wanted.remove(node);
                if link.wanted.is_empty() {
                    (link.up, link.session) = (false, link.session + 1);
                    let at = self.soon();
                    self.push(at, Event::LinkDown(peer, node.clone()));
                }
            }
            Output::Frame { node: peer, frame } => self.send_frame(node, &peer, &frame),
            Output::Multicast { pn, packet } => self.multicast(pn, &packet),
            Output::Deliver { pn, from, payload, .. } => {
                let now = self.now;
                let Some(member) = self.members.get_mut(&pn) else { return };
                member.seen.messages.push((from, payload));
                member.seen.last_at = now;
                let (joined, slow) = (member.joined, member.slow);
                if !slow {
                    let at = self.soon();
                    self.push(at, Event::Consume(pn, joined));
                }
            }
            Output::Acknowledged { pn, id, missed, .. } => {
                self.note(pn, |seen| _ = seen.acknowledged.insert(id, missed));
            }
            Output::Room { pn, .. } => self.note(pn, |seen| seen.room = true),
            Output::Roster { .. } => {}
            Output::Combine { pn, run, .. } => self.contribute(pn, run),
            Output::Withdraw { pn, .. } => self.withdraw(pn),
            Output::Ended { pn, call, outcome, .. } => {
                let mut left_out = self.left_out(pn, &outcome);
                self.note(pn, |seen| {
                    seen.ended.push((call, outcome));
                    seen.left_out.append(&mut left_out);
                });
            }
        }
    }

    fn note(&mut self, pn: Pn, work: impl FnOnce(&mut Seen)) {
        if let Some(member) = self.members.get_mut(&pn) {
            work(&mut member.seen);
        }
    }

    /// Sends a neighbour a frame that no correct member sends.
    pub(crate) fn forge(&mut self, from: Pn, to: Pn, body: Body) {
        let (node, peer) = (self.members[&from].node.clone(), self.members[&to].node.clone());
        self.send_frame(&node, &peer, &Frame { gn: GN, from, to, body });
    }

    fn send_frame(&mut self, node: &NodeName, peer: &NodeName, frame: &Frame) {
        if matches!(frame.body, Body::Part(_)) {
            *self.frames.entry((frame.from, frame.to)).or_default() += 1;
        }
        if is_early(&frame.body) {
            self.early.insert((frame.from, frame.to));
        }
        let body = frame.body.encode();
        if matches!(frame.body, Body::Report(_)) {
            (self.reports, self.report_bytes) = (self.reports + 1, self.report_bytes + body.len());
        }
        if matches!(frame.body, Body::Decided { .. } | Body::Piece(_)) {
            self.outcomes += 1;
            self.outcome_bytes += body.len();
        }
        self.collected += usize::from(matches!(frame.body, Body::Collected { .. }));
        let soon = self.soon();
        let key = if node < peer { (node, peer) } else { (peer, node) };
        let Some(link) = self.links.get_mut(&(key.0.clone(), key.1.clone())) else { return };
        let last = link.last.entry(peer.clone()).or_default();
        *last = soon.max(*last);
        let (at, session) = (*last, link.session);
        let (from, to, pns) = (node.clone(), peer.clone(), (frame.from, frame.to));
        self.push(at, Event::Frame { from, to, session, gn: frame.gn, pns, body });
    }

    pub(crate) fn multicast(&mut self, from: Pn, packet: &Packet) {
        self.packets += 1;
        assert!(packet.encode().len() <= Limits::default().packet);
        let others: Vec<(Pn, Revision)> =
            self.members.iter().map(|(pn, member)| (*pn, member.joined)).collect();
        for (pn, joined) in others.into_iter().filter(|(pn, _)| *pn != from) {
            let copies = match self.draw(1000) {
                _ if self.deaf.contains(&pn) || self.without.contains(&pn) => 0,
                chance if chance < self.conditions.lost => 0,
                chance if chance < self.conditions.lost + self.conditions.repeated => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let (at, mut bytes) = (self.soon(), packet.encode());
                if let Notice::Piece(_) = packet.notice
                    && self.damaged > 0
                    && self.draw(1000) < self.damaged
                {
                    *bytes.last_mut().unwrap() ^= 1;
                }
                self.push(at, Event::Packet(pn, joined, bytes));
            }
        }
    }

    fn input(&mut self, node: &NodeName, work: impl FnOnce(&mut MessageLayer)) {
        if let Some(layer) = self.layers.get_mut(node) {
            work(layer);
        }
    }

    /// Advances time until nothing is left to happen, by `most` at most.
    pub(crate) fn settle(&mut self, most: Duration) {
        let end = self.now.after(most);
        while self.step(end) {}
        self.now = end;
    }

    /// Advances time until a condition holds; panics if it does not within a minute.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = self.now.after(Duration::from_secs(60));
        while !holds(self) {
            assert!(self.step(end), "not in time: {what}");
        }
    }

    fn step(&mut self, end: Moment) -> bool {
        let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) else {
            return false;
        };
        let ((at, _), event) = entry.remove_entry();
        self.now = self.now.max(at);
        self.happen(event);
        true
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        let node = match event {
            Event::Place(node, place) => {
                let is = self.members.get(&place.pn).map(|member| member.joined);
                if is == Some(place.joined) {
                    self.input(&node, |layer| layer.place(now, place));
                }
                node
            }
            Event::LinkUp(at, peer, session) => {
                let key =
                    if at < peer { (at.clone(), peer.clone()) } else { (peer.clone(), at.clone()) };
                if self.links.get(&key).is_some_and(|link| link.up && link.session == session) {
                    self.input(&at, |layer| layer.link_up(now, &peer));
                }
                at
            }
            Event::LinkDown(at, peer) => {
                self.input(&at, |layer| layer.link_down(now, &peer));
                at
            }
            Event::Frame { from, to, session, gn, pns, body } => {
                let key =
                    if from < to { (from.clone(), to.clone()) } else { (to.clone(), from.clone()) };
                if self.links.get(&key).is_some_and(|link| link.up && link.session == session) {
                    let body = Body::decode(&body).unwrap();
                    let frame = Frame { gn, from: pns.0, to: pns.1, body };
                    self.input(&to, |layer| layer.frame(now, &from, frame));
                }
                to
            }
            Event::Packet(pn, joined, bytes) => {
                let Some(member) = self.members.get(&pn).filter(|one| one.joined == joined) else {
                    return;
                };
                let (node, packet) =
                    (member.node.clone(), Packet::decode(&bytes).unwrap().unwrap());
                self.input(&node, |layer| layer.packet(now, pn, &packet));
                node
            }
            Event::Tick(node) => {
                if self
                    .layers
                    .get(&node)
                    .and_then(MessageLayer::next_deadline)
                    .is_none_or(|at| at > now)
                {
                    return;
                }
                self.input(&node, |layer| layer.tick(now));
                node
            }
            Event::Consume(pn, joined) => {
                let Some(member) = self.members.get(&pn).filter(|one| one.joined == joined) else {
                    return;
                };
                let node = member.node.clone();
                self.input(&node, |layer| layer.consumed(now, GN, pn, 1));
                node
            }
            Event::Offer(pn, joined, _) | Event::Combined(pn, joined, ..) => {
                return self.deliver(pn, joined, event);
            }
            Event::GiveUp(tree, sequence) => return self.give_up(tree, sequence),
        };
        self.drain(&node);
    }

    /// Members that an outcome leaves out although the member has them in its roster, now and when
    /// it called.
    fn left_out(&self, pn: Pn, outcome: &Outcome) -> Vec<Pn> {
        let Some(member) = self.members.get(&pn) else { return Vec::new() };
        let (now, before) = (self.roster(pn), &member.called_among);
        let left_out = before.iter().filter(|(other, _)| !outcome.participants.contains(other));
        let left_out = left_out.filter(|(other, joined)| now.get(other) == Some(joined));
        left_out.map(|(other, _)| *other).collect()
    }
}

/// Tells if only members that multicast reaches understand a frame.
fn is_early(body: &Body) -> bool {
    let gathered = match body {
        Body::Report(report) => Some(&report.gathered),
        Body::Decided { outcome, .. } => outcome.verdict.as_ref().ok(),
        Body::Piece(piece) => return matches!(piece.of.content, Content::Payload { .. }),
        Body::Collected { of, .. } => return matches!(of.content, Content::Payload { .. }),
        Body::Missing(missing) => return matches!(missing.of.content, Content::Payload { .. }),
        _ => None,
    };
    matches!(gathered, Some(Gathered::Announced(_)))
}
