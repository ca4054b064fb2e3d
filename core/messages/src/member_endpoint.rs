//! One member's place in its group's tree: its neighbours, and the rosters of their sides.
//!
//! An endpoint sleeps until its process takes part or a neighbour says hello. Then it says hello to
//! all its neighbours, which wakes the whole tree. On every edge each end first sends the other the
//! roster of its side, and every change of it; all other frames on the edge come after that. The
//! states are in `state.rs`.
//!
//! Invariants
//! - MSG-1: what an endpoint has acknowledged towards a source, every live member that takes part
//!   on its side has taken.
//! - MSG-2: a process gets the messages of each source in their order, each once, whole or not at
//!   all.
//! - MSG-3: all members that take part in an operation and live to its end get the same outcome,
//!   and no member gets the outcome of its predecessor.
//! - MSG-4: a member that gets an outcome already knows which of the members it leaves out are
//!   gone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use fabricast_groups::names::NodeName;
use fabricast_groups::tree::TreeShape;
use fabricast_groups::{Gn, Moment, Pn};

use crate::frame::{Body, Frame, JoinRevision, RosterChange};
use crate::outputs::{Limits, Output, Place, PlaceNeighbor};
use crate::roster::Roster;
use crate::stream::{BestEffort, Stream};

mod collection;
mod combining;
mod edges;
mod operations;
mod parts;
mod pieces;
mod state;

use collection::Pieces;
use operations::Operations;
use parts::{Pace, Sends};
use state::{Edge, EdgeEvent, Knowledge, Participation, ParticipationEvent};

/// Time after which hello is repeated to a neighbour that has not answered.
const HELLO_AGAIN: Duration = Duration::from_millis(500);

/// Repeated hellos of a neighbour that are taken at once; more wait until it repeats them.
const HELLOS_AT_ONCE: u8 = 4;

/// The message layer of one member.
#[derive(Clone, Debug)]
pub(crate) struct MemberEndpoint {
    gn: Gn,
    pn: Pn,
    joined: JoinRevision,
    limits: Limits,
    node: NodeName,
    tree: TreeShape,
    ranks: Range<u64>, // here and below
    parent: Option<Pn>,
    multicast: bool,
    neighbors: BTreeMap<Pn, Neighbor>,
    participation: Participation,
    roster: Roster,
    roster_told: u64,
    streams: BTreeMap<Pn, Stream>,
    unsettled: BTreeSet<Pn>, // sources with parts or acknowledgements that may be missing somewhere
    best_effort: BTreeMap<Pn, BestEffort>,
    ack_delay: Duration, // of neighbours that multicast reaches, smoothed
    sends: Sends,
    pace: Pace,
    inbox: usize,
    operations: Operations,
    pieces: BTreeMap<u64, Pieces>, // by operation
    tick_at: Option<Moment>,
    peers_differ: bool, // since the last call of `peers`
    out: VecDeque<Output>,
}

/// The other end of an edge.
#[derive(Clone, Debug)]
struct Neighbor {
    at: PlaceNeighbor,
    ranks: Range<u64>, // at its place and below
    edge: Edge,
    hello_at: Moment,
    heard_hellos: u8, // that ask for a reply, since `heard_since`
    heard_since: Moment,
    joined: Option<JoinRevision>,
    hears: bool,                      // multicast reaches its node
    side: BTreeMap<Pn, JoinRevision>, // who takes part on its side
    knowledge: Knowledge,             // of `side`
    unicast_until: Moment,            // multicast has missed it lately
}

impl Neighbor {
    fn new(at: PlaceNeighbor, tree: TreeShape, linked: bool) -> Self {
        Self {
            ranks: tree.range(at.pn),
            at,
            edge: Edge::new(linked),
            hello_at: Moment(0),
            heard_hellos: 0,
            heard_since: Moment(0),
            joined: None,
            hears: false,
            side: BTreeMap::new(),
            knowledge: Knowledge::Presumed,
            unicast_until: Moment(0),
        }
    }

    fn awaits_hello(&self) -> bool {
        self.edge.is_linked() && !self.edge.is_met()
    }

    /// Returns whether another hello that asks for a reply is taken now. Each makes this end send
    /// again all that was not acknowledged.
    fn takes_hello(&mut self, now: Moment) -> bool {
        if self.heard_since.after(HELLO_AGAIN) <= now {
            (self.heard_hellos, self.heard_since) = (0, now);
        }
        self.heard_hellos = self.heard_hellos.saturating_add(1);
        self.heard_hellos <= HELLOS_AT_ONCE
    }

    /// Returns whether members on its side may take part.
    fn may_take_part(&self) -> bool {
        self.knowledge == Knowledge::Presumed || !self.side.is_empty()
    }

    /// Returns whether a rank has its place or one below it.
    fn covers(&self, member: Pn) -> bool {
        self.ranks.contains(&u64::from(member.0))
    }

    /// Returns whether the multicast connection reaches it, as far as is known.
    fn is_heard_by(&self, now: Moment) -> bool {
        self.hears && self.unicast_until <= now
    }

    /// Returns whether it has this side's roster, which all other frames depend on.
    fn is_ready(&self) -> bool {
        self.edge.is_ready()
    }
}

impl MemberEndpoint {
    pub(crate) fn new(place: &Place, node: NodeName, limits: Limits) -> Self {
        Self {
            gn: place.gn,
            pn: place.pn,
            joined: place.joined,
            limits,
            node,
            tree: place.tree,
            ranks: place.tree.range(place.pn),
            parent: None,
            multicast: place.multicast,
            neighbors: BTreeMap::new(),
            participation: Participation::Asleep,
            roster: Roster::default(),
            roster_told: 0,
            streams: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            best_effort: BTreeMap::new(),
            ack_delay: Duration::ZERO,
            sends: Sends::default(),
            pace: Pace::default(),
            inbox: 0,
            operations: Operations::default(),
            pieces: BTreeMap::new(),
            tick_at: None,
            peers_differ: false,
            out: VecDeque::new(),
        }
    }

    pub(crate) fn joined(&self) -> JoinRevision {
        self.joined
    }

    pub(crate) fn is_active(&self) -> bool {
        self.participation != Participation::Asleep
    }

    pub(crate) fn is_open(&self) -> bool {
        self.participation == Participation::Open
    }

    pub(crate) fn is_settled(&self) -> bool {
        let is_told = |one: &Neighbor| one.is_ready() || !one.may_take_part();
        self.neighbors.values().all(is_told) && !self.is_announcing()
    }

    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    pub(crate) fn tick_at(&self) -> Option<Moment> {
        self.tick_at
    }

    /// Returns the nodes to link to; `None` if they are the same as at the last call.
    pub(crate) fn peers(&mut self) -> Option<impl Iterator<Item = &PlaceNeighbor>> {
        if !std::mem::take(&mut self.peers_differ) {
            return None;
        }
        let wanted = self.is_active();
        let far = self.neighbors.values().map(|one| &one.at).filter(|at| at.node != self.node);
        Some(far.filter(move |_| wanted))
    }

    /// Moves to a place in the tree; `linked` returns whether there is a link to a node.
    pub(crate) fn place(&mut self, now: Moment, place: Place, linked: impl Fn(&NodeName) -> bool) {
        self.peers_differ = true;
        let was_root = self.parent.is_none() && self.is_active();
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
                    // Members that were on any side before are presumed on this one until the
                    // neighbour sends its roster. At another node the place is another member's.
                    let linked = linked(&at.node);
                    let mut neighbor = Neighbor::new(at, self.tree, linked);
                    neighbor.side = self.far_members(&neighbor);
                    if moved.is_some() {
                        neighbor.side.remove(&pn);
                    }
                    neighbor
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
        if !self.is_active() {
            return;
        }
        if hears && !self.multicast && self.limits.relies_on_multicast {
            self.operations.report_again(); // no announcements any more
        }
        self.recheck_all();
        self.remove_departed(now);
        if !was_root && self.parent.is_none() {
            self.begin_round(now);
        }
        came.iter().for_each(|pn| self.send_hello(now, *pn, true));
        if hears != self.multicast {
            let met = self.neighbors.iter().filter(|(_, one)| one.edge.is_met()).map(|(pn, _)| *pn);
            met.collect::<Vec<_>>().into_iter().for_each(|pn| self.send_hello(now, pn, false));
        }
        self.send_roster_to_all(now); // a neighbour whose roster was missing may be gone
        self.settle(now);
    }

    /// Wakes the endpoint, once.
    pub(crate) fn activate(&mut self, now: Moment) {
        if self.is_active() {
            return;
        }
        self.participation = self.participation.next(ParticipationEvent::Wake);
        self.peers_differ = true;
        if self.parent.is_none() {
            self.begin_round(now);
        }
        let all: Vec<Pn> = self.neighbors.keys().copied().collect();
        all.into_iter().for_each(|pn| self.send_hello(now, pn, true));
        self.schedule_tick(now);
    }

    /// Opens the endpoint: the member's process takes part.
    pub(crate) fn open(&mut self, now: Moment) {
        self.activate(now);
        self.participation = self.participation.next(ParticipationEvent::Open);
        let here = vec![(self.pn, self.joined)];
        self.change_roster(now, None, RosterChange { whole: false, gone: Vec::new(), here });
        self.send_own_floor();
        self.settle(now);
    }

    /// Closes the endpoint: the member's process no longer takes part.
    pub(crate) fn close(&mut self, now: Moment) {
        self.participation = self.participation.next(ParticipationEvent::Close);
        self.inbox = 0;
        self.confirm_outcome();
        self.drop_sends();
        self.drop_run();
        self.offer(None);
        self.operations.drop_call();
        let gone = vec![self.pn];
        self.change_roster(now, None, RosterChange { whole: false, gone, here: Vec::new() });
        self.settle(now);
    }

    /// Notes a new link to a node.
    pub(crate) fn link_up(&mut self, now: Moment, node: &NodeName) {
        self.link_down(node);
        for neighbor in self.neighbors.values_mut().filter(|one| one.at.node == *node) {
            neighbor.edge = neighbor.edge.next(EdgeEvent::LinkUp);
        }
        if self.is_active() {
            let there = self.neighbors.iter().filter(|(_, one)| one.at.node == *node);
            let there: Vec<Pn> = there.map(|(pn, _)| *pn).collect();
            there.into_iter().for_each(|pn| self.send_hello(now, pn, true));
        }
    }

    /// Notes that the link to a node is cut.
    pub(crate) fn link_down(&mut self, node: &NodeName) {
        let mut cut = Vec::new();
        for (pn, neighbor) in self.neighbors.iter_mut().filter(|(_, one)| one.at.node == *node) {
            neighbor.edge = neighbor.edge.next(EdgeEvent::LinkDown);
            cut.push(*pn);
        }
        for stream in self.streams.values_mut() {
            for pn in &cut {
                // Parts under way may be lost, acknowledged ones are not.
                stream.reach.entry(*pn).and_modify(|reach| reach.covered = reach.acked);
            }
        }
        if !cut.is_empty() {
            self.recheck_all();
        }
    }

    /// Handles a frame of a neighbour's endpoint.
    pub(crate) fn handle_frame(&mut self, now: Moment, node: &NodeName, from: Pn, body: Body) {
        if matches!(body, Body::Hello(_)) {
            self.activate(now);
        }
        let Some(neighbor) = self.neighbors.get(&from).filter(|one| one.at.node == *node) else {
            return; // the two know different trees; hello follows when they agree
        };
        if let Body::Hello(hello) = body {
            return self.handle_hello(now, from, hello);
        }
        if !neighbor.edge.is_met() {
            if !self.is_active() {
                self.activate(now); // it has met an earlier endpoint of this member
            }
            return;
        }
        match body {
            Body::Hello(_) => {}
            Body::Roster(change) => self.handle_roster(now, from, change),
            Body::Floor { source, floor } => self.handle_floor(now, from, source, floor),
            Body::Part(part) => self.handle_part(now, Some(from), part),
            Body::BestEffort(part) => self.handle_best_effort(now, Some(from), part),
            Body::Ack { source, ack } => self.handle_ack(now, from, source, ack),
            Body::Round { round, decided } => self.handle_round(now, from, round, decided),
            Body::Report(report) => self.handle_report(now, from, report),
            Body::Decided { round, outcome } => {
                self.handle_outcome(now, Some(from), round, &outcome)
            }
            Body::Query { number } => self.handle_query(now, from, number),
            Body::Lacks { source, from: first, to } => self.handle_lacks(from, source, first..to),
            Body::Piece(piece) => self.handle_piece(now, Some(from), &piece),
            Body::Collected { of, have } => self.handle_collected(now, from, of, have),
            Body::Missing(missing) => self.handle_missing(now, from, missing),
        }
    }

    /// Repeats hellos, parts and queries that are overdue.
    pub(crate) fn tick(&mut self, now: Moment) {
        if self.tick_at.is_none_or(|at| at > now) {
            return;
        }
        self.tick_at = None;
        let silent = self.neighbors.iter().filter(|(_, one)| one.awaits_hello());
        let due = silent.filter(|(_, one)| one.hello_at.after(HELLO_AGAIN) <= now);
        let due: Vec<Pn> = due.map(|(pn, _)| *pn).collect();
        due.into_iter().for_each(|pn| self.send_hello(now, pn, true));
        let unmet = self.neighbors.values().any(|one| one.awaits_hello());
        let lagging = self.resend(now);
        let collecting = self.ask_for_pieces(now);
        if self.query_outcome(now) || lagging || collecting || unmet {
            self.schedule_tick(now);
        }
    }

    /// Advances all sources and the operation under way after a change.
    fn settle(&mut self, now: Moment) {
        let used = self.streams.iter().filter(|(pn, one)| one.is_used() || **pn == self.pn);
        let sources: Vec<Pn> = used.map(|(pn, _)| *pn).collect();
        sources.into_iter().for_each(|source| self.advance(now, source));
        self.announce(now);
        self.try_report(now);
        self.notify_roster();
        if !self.unsettled.is_empty() {
            self.schedule_tick(now);
        }
    }

    /// Marks all sources for the next tick.
    fn recheck_all(&mut self) {
        let used = self.streams.iter().filter(|(_, one)| one.is_used()).map(|(pn, _)| *pn);
        self.unsettled.extend(used);
    }

    /// Schedules a tick, unless one is scheduled.
    fn schedule_tick(&mut self, now: Moment) {
        self.tick_at.get_or_insert(now.after(self.limits.retry));
    }

    fn send_frame(&mut self, to: Pn, body: Body) {
        let Some(neighbor) = self.neighbors.get(&to).filter(|one| one.edge.is_linked()) else {
            return;
        };
        let frame = Frame { gn: self.gn, from: self.pn, to, body };
        self.out.push_back(Output::Frame { node: neighbor.at.node.clone(), frame });
    }

    /// Returns whether a rank belongs to the far side of the edge to a neighbour.
    fn is_beyond(&self, neighbor: &Neighbor, member: Pn) -> bool {
        if self.parent == Some(neighbor.at.pn) {
            !self.ranks.contains(&u64::from(member.0))
        } else {
            neighbor.covers(member)
        }
    }

    /// The neighbour on the side of a source; `None` for the member itself.
    fn upstream(&self, source: Pn) -> Option<Pn> {
        if source == self.pn {
            return None;
        }
        let mut children = self.neighbors.iter().filter(|(pn, _)| self.parent != Some(**pn));
        let child = children.find(|(_, child)| child.covers(source));
        child.map(|(pn, _)| *pn).or(self.parent)
    }
}
