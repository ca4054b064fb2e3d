//! One member's place in its group's tree: its neighbours, and what is known of their sides.
//!
//! A station sleeps until its process takes part or a neighbour says hello; then it says hello to all
//! its neighbours, which wakes the whole tree. On every edge each end tells the other who takes part
//! on its side, and goes on telling changes; everything else that is said on an edge follows after.
//!
//! Invariants
//! - MSG-1: what a station has acknowledged towards a source, everybody on its side has taken who takes
//!   part and lives.
//! - MSG-2: a process gets the messages of each source in their order, each once, whole or not at all.
//! - MSG-3: all who take part in an operation and live to its end get the same outcome, and nobody gets
//!   that of a predecessor in its place.
//! - MSG-4: whoever gets the outcome of an operation knows already who is gone of those it leaves out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fabricast_groups::names::NodeName;
use fabricast_groups::tree::is_below;
use fabricast_groups::{Gn, Moment, Pn};

use crate::frame::{Body, Frame, Life, RosterChange};
use crate::outputs::{Limits, Output, Place, PlaceNeighbor};
use crate::roster::Roster;
use crate::stream::{Loose, Stream};

mod combining;
mod edges;
mod loose;
mod operations;
mod parts;

use operations::Operations;
use parts::Sends;

/// A neighbour that has not answered hears hello again after this.
const HELLO_AGAIN: Duration = Duration::from_millis(500);

/// The message layer of one member.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    gn: Gn,
    pn: Pn,
    life: Life,
    limits: Limits,
    node: NodeName,
    parent: Option<Pn>,
    multicast: bool,
    neighbors: BTreeMap<Pn, Neighbor>,
    active: bool,
    open: bool,
    roster: Roster,
    roster_told: u64,
    streams: BTreeMap<Pn, Stream>,
    restless: BTreeSet<Pn>, // sources of which somebody may lack something, or an acknowledgement
    loose: BTreeMap<Pn, Loose>,
    sends: Sends,
    inbox: usize,
    operations: Operations,
    beat_at: Option<Moment>,
    peers_differ: bool, // since they were asked for
    out: VecDeque<Output>,
}

/// The other end of an edge.
#[derive(Clone, Debug)]
struct Neighbor {
    at: PlaceNeighbor,
    linked: bool,
    met: bool,        // has said hello since the link is up
    claimed: bool,    // has been told who takes part on this side
    awaits_end: bool, // is to be told then how the last operation has ended
    hello_at: Moment,
    life: Option<Life>,
    hears: bool,
    side: BTreeMap<Pn, Life>, // who takes part on its side, as far as is known
    told: bool,               // it has said who
    wary_until: Moment,       // multicast has not reached it lately
}

impl Neighbor {
    fn new(at: PlaceNeighbor, linked: bool, side: BTreeMap<Pn, Life>) -> Self {
        Self {
            at,
            linked,
            met: false,
            claimed: false,
            awaits_end: false,
            hello_at: Moment(0),
            life: None,
            hears: false,
            side,
            told: false,
            wary_until: Moment(0),
        }
    }

    /// Whether anybody on its side has to be reckoned with.
    fn matters(&self) -> bool {
        !self.told || !self.side.is_empty()
    }

    /// Whether it can be told what depends on who takes part.
    fn ready(&self) -> bool {
        self.met && self.claimed
    }
}

impl Station {
    pub(crate) fn new(place: &Place, node: NodeName, limits: Limits) -> Self {
        Self {
            gn: place.gn,
            pn: place.pn,
            life: place.life,
            limits,
            node,
            parent: None,
            multicast: place.multicast,
            neighbors: BTreeMap::new(),
            active: false,
            open: false,
            roster: Roster::default(),
            roster_told: 0,
            streams: BTreeMap::new(),
            restless: BTreeSet::new(),
            loose: BTreeMap::new(),
            sends: Sends::default(),
            inbox: 0,
            operations: Operations::default(),
            beat_at: None,
            peers_differ: false,
            out: VecDeque::new(),
        }
    }

    pub(crate) fn life(&self) -> Life {
        self.life
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    pub(crate) fn beat_at(&self) -> Option<Moment> {
        self.beat_at
    }

    /// The nodes that links are wanted to, if they may differ from when this was asked last.
    pub(crate) fn peers(&mut self) -> Option<impl Iterator<Item = &PlaceNeighbor>> {
        if !std::mem::take(&mut self.peers_differ) {
            return None;
        }
        let wanted = self.active;
        let far = self.neighbors.values().map(|one| &one.at).filter(|at| at.node != self.node);
        Some(far.filter(move |_| wanted))
    }

    /// Takes its place in the tree over; `linked` says which nodes can be reached now.
    pub(crate) fn place(&mut self, now: Moment, place: Place, linked: impl Fn(&NodeName) -> bool) {
        self.peers_differ = true;
        let was_root = self.parent.is_none() && self.active;
        self.parent = place.parent.as_ref().map(|parent| parent.pn);
        let hears = std::mem::replace(&mut self.multicast, place.multicast);
        let mut old = std::mem::take(&mut self.neighbors);
        let mut came = Vec::new();
        for at in place.parent.into_iter().chain(place.children) {
            let pn = at.pn;
            let neighbor = match old.remove(&pn) {
                Some(same) if same.at.node == at.node => Neighbor { at, ..same },
                moved => {
                    came.push(pn);
                    // Who was on some side before is on this one now, as far as is known, and goes on
                    // taking part until the neighbour says who does; a place on another node is another
                    // member's.
                    let mut side = self.far_members(pn);
                    if moved.is_some() {
                        side.remove(&pn);
                    }
                    let linked = linked(&at.node);
                    Neighbor::new(at, linked, side)
                }
            };
            self.neighbors.insert(pn, neighbor);
        }
        for stream in self.streams.values_mut() {
            let neighbors = &self.neighbors;
            stream.reach.retain(|pn, _| neighbors.contains_key(pn) && !came.contains(pn));
        }
        self.operations
            .retain_reports(|pn| self.neighbors.contains_key(&pn) && !came.contains(&pn));
        if !self.active {
            return;
        }
        self.stir();
        self.drop_the_departed(now);
        if !was_root && self.parent.is_none() {
            self.take_the_lead(now);
        }
        came.iter().for_each(|pn| self.greet(now, *pn, true));
        if hears != self.multicast {
            let met = self.neighbors.iter().filter(|(_, one)| one.met).map(|(pn, _)| *pn);
            met.collect::<Vec<_>>().into_iter().for_each(|pn| self.greet(now, pn, false));
        }
        self.claim_to_all(now); // who has not told is perhaps a neighbour no more
        self.settle(now);
    }

    /// Wakes the station up.
    pub(crate) fn activate(&mut self, now: Moment) {
        if std::mem::replace(&mut self.active, true) {
            return;
        }
        self.peers_differ = true;
        if self.parent.is_none() {
            self.take_the_lead(now);
        }
        let all: Vec<Pn> = self.neighbors.keys().copied().collect();
        all.into_iter().for_each(|pn| self.greet(now, pn, true));
        self.beat(now);
    }

    /// Lets the member's process take part.
    pub(crate) fn open(&mut self, now: Moment) {
        self.activate(now);
        self.open = true;
        let here = vec![(self.pn, self.life)];
        self.spread(now, None, RosterChange { whole: false, gone: Vec::new(), here });
        self.tell_own_floor();
        self.settle(now);
    }

    /// Ends that.
    pub(crate) fn close(&mut self, now: Moment) {
        self.open = false;
        self.inbox = 0;
        self.drop_sends();
        self.drop_the_run();
        self.offer(None);
        self.operations.drop_call();
        let gone = vec![self.pn];
        self.spread(now, None, RosterChange { whole: false, gone, here: Vec::new() });
        self.settle(now);
    }

    /// Notes that a node can be reached over a new link.
    pub(crate) fn link_up(&mut self, now: Moment, node: &NodeName) {
        self.link_down(node);
        for neighbor in self.neighbors.values_mut().filter(|one| one.at.node == *node) {
            neighbor.linked = true;
        }
        if self.active {
            let there = self.neighbors.iter().filter(|(_, one)| one.at.node == *node);
            let there: Vec<Pn> = there.map(|(pn, _)| *pn).collect();
            there.into_iter().for_each(|pn| self.greet(now, pn, true));
        }
    }

    /// Notes that a node cannot be reached.
    pub(crate) fn link_down(&mut self, node: &NodeName) {
        let mut cut = Vec::new();
        for (pn, neighbor) in self.neighbors.iter_mut().filter(|(_, one)| one.at.node == *node) {
            (neighbor.linked, neighbor.met, neighbor.claimed) = (false, false, false);
            cut.push(*pn);
        }
        for stream in self.streams.values_mut() {
            for pn in &cut {
                // What was under way may be lost; what was acknowledged is not.
                stream.reach.entry(*pn).and_modify(|reach| reach.covered = reach.acked);
            }
        }
        if !cut.is_empty() {
            self.stir();
        }
    }

    /// Takes a frame of a neighbour's station.
    pub(crate) fn frame(&mut self, now: Moment, node: &NodeName, from: Pn, body: Body) {
        if matches!(body, Body::Hello(_)) {
            self.activate(now);
        }
        let Some(neighbor) = self.neighbors.get(&from).filter(|one| one.at.node == *node) else {
            return; // one of us is behind; hello follows when both know
        };
        if let Body::Hello(hello) = body {
            return self.hello(now, from, hello);
        }
        if !neighbor.met {
            if !self.active {
                self.activate(now); // its acquaintance was with an earlier station
            }
            return;
        }
        match body {
            Body::Hello(_) => {}
            Body::Roster(change) => self.claims(now, from, change),
            Body::Floor { source, floor } => self.floor(now, from, source, floor),
            Body::Part(part) => self.part(now, Some(from), part),
            Body::Loose(part) => self.loose_part(now, Some(from), part),
            Body::Ack { source, have, side } => self.acked(now, from, source, (have, side)),
            Body::Round { round, decided } => self.round(now, from, (round, decided)),
            Body::Report(report) => self.report(now, from, report),
            Body::Decided { round, outcome } => self.decided(now, Some(from), round, &outcome),
            Body::Ask { number } => self.asked(now, from, number),
        }
    }

    /// Does what is due from time to time while something is open.
    pub(crate) fn tick(&mut self, now: Moment) {
        if self.beat_at.is_none_or(|at| at > now) {
            return;
        }
        self.beat_at = None;
        let silent = self.neighbors.iter().filter(|(_, one)| one.linked && !one.met);
        let due = silent.filter(|(_, one)| one.hello_at.after(HELLO_AGAIN) <= now);
        let due: Vec<Pn> = due.map(|(pn, _)| *pn).collect();
        due.into_iter().for_each(|pn| self.greet(now, pn, true));
        let unmet = self.neighbors.values().any(|one| one.linked && !one.met);
        let lagging = self.mend(now);
        if self.ask_for_the_end(now) || lagging || unmet {
            self.beat(now);
        }
    }

    /// Brings everything up to date with what is known now.
    fn settle(&mut self, now: Moment) {
        let used = self.streams.iter().filter(|(pn, one)| one.is_used() || **pn == self.pn);
        let sources: Vec<Pn> = used.map(|(pn, _)| *pn).collect();
        sources.into_iter().for_each(|source| self.advance(now, source));
        self.try_report(now);
        self.tell_roster();
    }

    /// Has all sources looked at again, after what may concern any of them.
    fn stir(&mut self) {
        let used = self.streams.iter().filter(|(_, one)| one.is_used()).map(|(pn, _)| *pn);
        self.restless.extend(used);
    }

    /// Sees to it that the station is looked at again soon.
    fn beat(&mut self, now: Moment) {
        self.beat_at.get_or_insert(now.after(self.limits.retry));
    }

    fn say(&mut self, to: Pn, body: Body) {
        let Some(neighbor) = self.neighbors.get(&to).filter(|one| one.linked) else { return };
        let frame = Frame { gn: self.gn, from: self.pn, to, body };
        self.out.push_back(Output::Frame { node: neighbor.at.node.clone(), frame });
    }

    /// Whether a member is, or would be, on the far side of the edge to a neighbour.
    fn is_beyond(&self, neighbor: Pn, member: Pn) -> bool {
        if self.parent == Some(neighbor) {
            !is_below(member, self.pn)
        } else {
            is_below(member, neighbor)
        }
    }

    /// The neighbour that the messages of a source come from.
    fn towards(&self, source: Pn) -> Option<Pn> {
        if source == self.pn {
            return None;
        }
        let children = self.neighbors.keys().filter(|pn| self.parent != Some(**pn));
        children.copied().find(|child| is_below(source, *child)).or(self.parent)
    }
}
