//! The message layer of one node: an endpoint for each member, one link to each neighbouring node.
//!
//! Call an input, then drain [`MessageLayer::poll_output`]; call [`MessageLayer::tick`] at
//! [`MessageLayer::next_deadline`]. Neighbours on the same node need no link.
//!
//! Every collection is bounded: by the members of the node, the members that take part in their
//! groups, the window for each of those, and [`Limits`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::{Gn, Moment, Pn};

use crate::frame::{Frame, JoinRevision, Notice, Packet};
use crate::member_endpoint::MemberEndpoint;
use crate::operation::{Operation, Terms};
use crate::outputs::{Limits, Mode, OpenError, Output, Place, SendError, SendId, StartError};
use crate::switches::{Offer, Wide};

/// Most members without a place here whose neighbours have said hello.
const MAX_AWAITED: usize = 256;

/// The message layer of one node.
#[derive(Clone, Debug)]
pub struct MessageLayer {
    node: NodeName,
    limits: Limits,
    endpoints: BTreeMap<MemberId, MemberEndpoint>,
    awaited: BTreeSet<MemberId>,
    links: BTreeMap<NodeName, Link>,
    deadlines: BTreeSet<(Moment, MemberId)>,
    deadline_of: BTreeMap<MemberId, Moment>, // index of `deadlines`
    wanted: BTreeMap<MemberId, BTreeMap<NodeName, Address>>,
    local: VecDeque<Frame>, // between endpoints of this node
    output: VecDeque<Output>,
}

/// Names a member by its group and rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberId {
    /// Number of the group.
    pub gn: Gn,
    /// Rank in the group.
    pub pn: Pn,
}

/// The link to another node.
#[derive(Clone, Debug, Default)]
struct Link {
    users: usize, // members here with a neighbour there
    up: bool,
    close_at: Option<Moment>,
}

impl MessageLayer {
    /// Creates the message layer of a node without members.
    pub fn new(node: NodeName, limits: Limits) -> Self {
        Self {
            node,
            limits,
            endpoints: BTreeMap::new(),
            awaited: BTreeSet::new(),
            links: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            deadline_of: BTreeMap::new(),
            wanted: BTreeMap::new(),
            local: VecDeque::new(),
            output: VecDeque::new(),
        }
    }

    /// Sets or changes a member's place in its tree. A place with another join revision is
    /// that of another member.
    pub fn place(&mut self, now: Moment, place: Place) {
        let key = MemberId { gn: place.gn, pn: place.pn };
        if self.endpoints.get(&key).is_some_and(|endpoint| endpoint.joined() != place.joined) {
            self.remove(now, key.gn, key.pn);
        }
        let (node, limits) = (self.node.clone(), self.limits);
        let links = &self.links;
        let endpoint = self
            .endpoints
            .entry(key)
            .or_insert_with(|| MemberEndpoint::new(&place, node.clone(), limits));
        endpoint
            .place(now, place, |peer| *peer == node || links.get(peer).is_some_and(|link| link.up));
        if self.awaited.remove(&key) {
            endpoint.activate(now);
        }
        self.drain(now, key);
    }

    /// Returns the members whose places are needed: those with an endpoint here and the awaited.
    pub fn members(&self) -> BTreeSet<(Gn, Pn)> {
        self.endpoints.keys().chain(&self.awaited).map(|member| (member.gn, member.pn)).collect()
    }

    /// Returns the members that neighbours have said hello to and that have no place here.
    pub fn awaited(&self) -> impl Iterator<Item = (Gn, Pn)> {
        self.awaited.iter().map(|member| (member.gn, member.pn))
    }

    /// Removes a member whose membership has ended.
    pub fn remove(&mut self, now: Moment, gn: Gn, pn: Pn) {
        let key = MemberId { gn, pn };
        let Some(endpoint) = self.forget(key) else { return };
        if endpoint.is_active() {
            // A successor must wake by itself: its neighbours may have said hello already.
            self.await_member(key);
        }
        self.update_links(now, key, BTreeMap::new());
    }

    /// Leaves a member of this node to a message layer of its own, and keeps the links that it
    /// needs. Returns whether the member had an active endpoint here: its neighbours then believe
    /// that what they sent it has arrived, so the new endpoint is to be woken
    /// ([`MessageLayer::wake`]).
    ///
    /// - `links`: addresses by node; none when the layer of its own has ended.
    pub fn delegate(
        &mut self,
        now: Moment,
        member: MemberId,
        links: BTreeMap<NodeName, Address>,
    ) -> bool {
        let was_active = self.forget(member).is_some_and(|endpoint| endpoint.is_active());
        let is_awaited = self.awaited.remove(&member); // its neighbours have greeted it already
        self.update_links(now, member, links);
        was_active || is_awaited
    }

    /// Has a member's endpoint greet its neighbours, once it has a place: it follows one that they
    /// have greeted, and they are to begin anew.
    pub fn wake(&mut self, now: Moment, member: MemberId) {
        if self.work(now, member, |endpoint| endpoint.activate(now)).is_none() {
            self.await_member(member);
        }
    }

    /// Tells if a member owes its neighbours nothing but what it has given out as frames: none is
    /// about to be told the last outcome or the roster first.
    pub fn is_settled(&self, member: MemberId) -> bool {
        self.endpoints.get(&member).is_none_or(MemberEndpoint::is_settled)
    }

    /// Removes a member's endpoint; the links that it needs are still to be released.
    fn forget(&mut self, key: MemberId) -> Option<MemberEndpoint> {
        let endpoint = self.endpoints.remove(&key)?;
        if let Some(at) = self.deadline_of.remove(&key) {
            self.deadlines.remove(&(at, key));
        }
        Some(endpoint)
    }

    /// Opens a member: its process takes part from now on.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the member has no place here or takes part already.
    pub fn open(&mut self, now: Moment, gn: Gn, pn: Pn) -> Result<(), OpenError> {
        let endpoint =
            self.endpoints.get_mut(&MemberId { gn, pn }).ok_or(OpenError::NoPlace { gn, pn })?;
        if endpoint.is_open() {
            return Err(OpenError::Open { gn, pn });
        }
        endpoint.open(now);
        self.drain(now, MemberId { gn, pn });
        Ok(())
    }

    /// Closes a member: the others no longer wait for it. Its messages that were not acknowledged
    /// reach some members or none.
    pub fn close(&mut self, now: Moment, gn: Gn, pn: Pn) {
        if let Some(endpoint) =
            self.endpoints.get_mut(&MemberId { gn, pn }).filter(|one| one.is_open())
        {
            endpoint.close(now);
            self.drain(now, MemberId { gn, pn });
        }
    }

    /// Returns the ranks that take part in a group, with their joins, as a member of this node
    /// knows them; `None` if the member does not take part itself.
    pub fn roster(&self, gn: Gn, pn: Pn) -> Option<BTreeMap<Pn, JoinRevision>> {
        let endpoint =
            self.endpoints.get(&MemberId { gn, pn }).filter(|endpoint| endpoint.is_open())?;
        Some(endpoint.roster().joins())
    }

    /// Sends a message; a reliable one ends with [`Output::Acknowledged`].
    ///
    /// # Errors
    ///
    /// [`SendError`] if the message is refused.
    pub fn send(
        &mut self,
        now: Moment,
        member: MemberId,
        mode: Mode,
        payload: &[u8],
    ) -> Result<SendId, SendError> {
        self.work(now, member, |endpoint| endpoint.send(now, mode, payload))
            .unwrap_or(Err(SendError::NotOpen { gn: member.gn, pn: member.pn }))
    }

    /// Starts an operation of a member; it ends with [`Output::Ended`].
    ///
    /// # Errors
    ///
    /// [`StartError`] if it is refused.
    pub fn operate(
        &mut self,
        now: Moment,
        member: MemberId,
        operation: &Operation,
        terms: impl Into<Terms>,
    ) -> Result<(), StartError> {
        let terms = terms.into();
        self.work(now, member, |endpoint| endpoint.operate(now, operation, terms))
            .unwrap_or(Err(StartError::NotOpen { gn: member.gn, pn: member.pn }))
    }

    /// Sets the offer of the switches to a member, or that there is none.
    pub fn offer(&mut self, gn: Gn, pn: Pn, offer: Option<Offer>) {
        if let Some(endpoint) = self.endpoints.get_mut(&MemberId { gn, pn }) {
            endpoint.offer(offer);
        }
    }

    /// Ends a run of the switches for a member.
    ///
    /// - `sequence`: number of the run.
    /// - `brings`: numbers that the member gets; `None` if the run has failed.
    pub fn combined(
        &mut self,
        now: Moment,
        member: MemberId,
        sequence: u64,
        brings: Option<Option<Wide>>,
    ) {
        self.work(now, member, |endpoint| endpoint.combined(now, sequence, brings));
    }

    /// Sends neighbours the last outcome if they may still have to ask for it; the member goes.
    pub fn confirm(&mut self, now: Moment, member: MemberId) {
        self.work(now, member, |endpoint| endpoint.confirm_outcome());
    }

    /// Notes that a member's process has taken this many of its delivered messages.
    pub fn consumed(&mut self, now: Moment, gn: Gn, pn: Pn, messages: usize) {
        self.work(now, MemberId { gn, pn }, |endpoint| endpoint.consumed(now, messages));
    }

    /// Notes a new link to a node, whichever end has opened it.
    pub fn link_up(&mut self, now: Moment, node: &NodeName) {
        self.links.entry(node.clone()).or_default().up = true;
        self.all_endpoints(now, |endpoint| endpoint.link_up(now, node));
    }

    /// Notes that the link to a node is cut. The owner opens a needed link again by itself.
    pub fn link_down(&mut self, now: Moment, node: &NodeName) {
        let Some(link) = self.links.get_mut(node) else { return };
        link.up = false;
        if link.users == 0 && link.close_at.is_none() {
            self.links.remove(node);
        }
        self.all_endpoints(now, |endpoint| endpoint.link_down(node));
    }

    /// Handles a frame from a link. One with numbers that no correct member reaches is ignored.
    pub fn frame(&mut self, now: Moment, from: &NodeName, frame: Frame) {
        if !frame.body.is_plausible() {
            return;
        }
        let key = MemberId { gn: frame.gn, pn: frame.to };
        match self.endpoints.get_mut(&key) {
            Some(endpoint) => endpoint.handle_frame(now, from, frame.from, frame.body),
            None => self.await_member(key),
        }
        self.drain(now, key);
    }

    /// Handles a packet from the multicast connection, for one member of this node.
    pub fn packet(&mut self, now: Moment, pn: Pn, packet: &Packet) {
        let key = MemberId { gn: packet.gn, pn };
        let Some(endpoint) = self.endpoints.get_mut(&key).filter(|one| one.is_active()) else {
            return;
        };
        if !packet.notice.is_plausible() {
            return;
        }
        match &packet.notice {
            Notice::Part(part) => endpoint.handle_part(now, None, part.clone()),
            Notice::BestEffort(part) => endpoint.handle_best_effort(now, None, part.clone()),
            Notice::Decided { round, outcome } => {
                endpoint.handle_outcome(now, None, *round, outcome)
            }
            Notice::Piece(piece) => endpoint.handle_piece(now, None, piece),
        }
        self.drain(now, key);
    }

    /// Does the work that is due at `now`.
    pub fn tick(&mut self, now: Moment) {
        while let Some((_, key)) = self.deadlines.first().filter(|(at, _)| *at <= now).copied() {
            self.deadlines.pop_first();
            self.deadline_of.remove(&key);
            self.work(now, key, |endpoint| endpoint.tick(now));
        }
        let due = |link: &Link| link.close_at.is_some_and(|at| at <= now);
        let idle = self.links.iter().filter(|(_, link)| due(link));
        for node in idle.map(|(node, _)| node.clone()).collect::<Vec<_>>() {
            self.links.remove(&node);
            self.all_endpoints(now, |endpoint| endpoint.link_down(&node));
            self.output.push_back(Output::Disconnect { node });
        }
    }

    /// Returns the next output, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    /// Returns the time of the next [`MessageLayer::tick`].
    pub fn next_deadline(&self) -> Option<Moment> {
        let links = self.links.values().filter_map(|link| link.close_at).min();
        self.deadlines.first().map(|(at, _)| *at).into_iter().chain(links).min()
    }

    fn await_member(&mut self, key: MemberId) {
        if self.awaited.len() >= MAX_AWAITED {
            self.awaited.pop_first(); // its neighbours repeat their hello
        }
        self.awaited.insert(key);
    }

    fn all_endpoints(&mut self, now: Moment, work: impl Fn(&mut MemberEndpoint)) {
        let keys: Vec<MemberId> = self.endpoints.keys().copied().collect();
        for key in keys {
            self.work(now, key, &work);
        }
    }

    /// Lets a member's endpoint work, then takes its outputs; `None` if it has no endpoint here.
    fn work<T>(
        &mut self,
        now: Moment,
        key: MemberId,
        work: impl FnOnce(&mut MemberEndpoint) -> T,
    ) -> Option<T> {
        let result = work(self.endpoints.get_mut(&key)?);
        self.drain(now, key);
        Some(result)
    }

    /// Moves an endpoint's outputs to the queue, and its frames to endpoints of this node.
    fn drain(&mut self, now: Moment, key: MemberId) {
        self.take_outputs(now, key);
        while let Some(frame) = self.local.pop_front() {
            let key = MemberId { gn: frame.gn, pn: frame.to };
            let node = self.node.clone();
            match self.endpoints.get_mut(&key) {
                Some(endpoint) => endpoint.handle_frame(now, &node, frame.from, frame.body),
                None => self.await_member(key),
            }
            self.take_outputs(now, key);
        }
    }

    fn take_outputs(&mut self, now: Moment, key: MemberId) {
        let Some(endpoint) = self.endpoints.get_mut(&key) else { return };
        while let Some(output) = endpoint.poll_output() {
            if let Output::Frame { node, frame } = &output
                && *node == self.node
            {
                self.local.push_back(frame.clone());
            } else {
                self.output.push_back(output);
            }
        }
        let tick_at = endpoint.tick_at();
        if self.deadline_of.get(&key).copied() != tick_at {
            if let Some(at) = self.deadline_of.remove(&key) {
                self.deadlines.remove(&(at, key));
            }
            if let Some(at) = tick_at {
                self.deadline_of.insert(key, at);
                self.deadlines.insert((at, key));
            }
        }
        let wanted = endpoint
            .peers()
            .map(|peers| peers.map(|at| (at.node.clone(), at.address.clone())).collect());
        if let Some(wanted) = wanted {
            self.update_links(now, key, wanted);
        }
    }

    /// Opens the links that an endpoint needs now and releases those that it no longer needs.
    fn update_links(&mut self, now: Moment, key: MemberId, wanted: BTreeMap<NodeName, Address>) {
        let before = self.wanted.get(&key);
        if before.map_or(wanted.is_empty(), |before| *before == wanted) {
            return;
        }
        let before = self.wanted.remove(&key).unwrap_or_default();
        for (node, address) in wanted.iter().filter(|(node, _)| !before.contains_key(*node)) {
            let link = self.links.entry(node.clone()).or_default();
            link.users += 1;
            let is_open = link.users > 1 || link.close_at.take().is_some();
            if !is_open {
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
