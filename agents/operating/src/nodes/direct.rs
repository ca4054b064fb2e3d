//! Members whose processes run the message layer themselves: the agent tells them their places and
//! carries frames between them and their neighbours, who see no difference.
//!
//! To other endpoints of its node such a member is on a node of its own, an *alias*, which changes
//! whenever frames between the two may have been lost; so their edge begins anew. To other nodes it
//! is where it was: its endpoint greets its neighbours there, and they begin anew. The link between
//! the nodes, which others use, stays as it is.
//!
//! A process that sends faster than its frames can be carried waits, one that takes them too slowly
//! loses some, and both for themselves only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_groups::ids::{Gn, Moment, Pn, Revision};
use fabricast_groups::message::Neighbor;
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::{Membership, Oa};
use fabricast_messages::{Body, DecodeError, Frame, MemberId, OpenError};
use fabricast_proto::v1;
use fabricast_wire::encode_tree;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::messages::{LinkState, NodeMessages};

/// Responses that may wait for a process; one that lets more wait loses frames, and its links begin
/// anew.
const QUEUE: usize = 8192;
/// Bytes that may wait for a process likewise, and for other nodes to take from it.
pub(crate) const MAX_WAITING: usize = 64 << 20;
/// Bytes that a frame takes beside its body.
const OVERHEAD: usize = 512;
/// Longest address and secret of a process, in bytes.
const MAX_ADDRESS: usize = 128;
const MAX_TOKEN: usize = 16;
/// First words of the names that [`alias`] makes; no text begins with this character.
const ALIAS: &str = "\u{FFFF}direct member ";

/// A member that its process serves.
#[derive(Debug)]
pub(super) struct DirectMember {
    /// Unique in this process.
    serial: u64,
    joined: Revision,
    /// As `serial` at first; another number after responses were lost.
    link: u64,
    responses: mpsc::Sender<Waiting<v1::OpenDirectPathResponse>>,
    /// Bytes that may still wait for the process.
    room: Arc<Semaphore>,
    told: Option<v1::DirectPlace>,
    /// There was no room for its present place.
    is_behind: bool,
    /// Neighbours have greeted its earlier endpoint.
    wakes: bool,
    needs_links: bool,
    losses: Losses,
    /// Tells [`DirectPath`](crate::processes::direct::DirectPath) of the end.
    _over: DropGuard,
}

/// Frames that a process has lost because it took them too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Losses {
    None,
    /// Its links begin anew, which it is still to be told.
    Untold,
    /// Its links have begun anew.
    Past,
}

/// A frame, and how its sender's process is reached if that serves its member itself.
#[derive(Debug)]
pub(crate) struct CarriedFrame {
    pub(crate) frame: Frame,
    pub(crate) direct: Option<v1::DirectEnd>,
    /// Room that it takes of its sender's, until it has been carried.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// A message that waits to be sent, and the room that it takes until then.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) message: T,
    _permit: Option<OwnedSemaphorePermit>,
}

/// A frame that a process sends, over a link that it has been told of.
#[derive(Debug)]
pub(crate) struct OutgoingFrame {
    link: u64,
    carried: CarriedFrame,
}

/// A member that a process serves, and the number of the opening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    key: MemberId,
    serial: u64,
}

/// The other end of a [`DirectMember`].
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) opening: Opening,
    pub(crate) responses: mpsc::Receiver<Waiting<v1::OpenDirectPathResponse>>,
    /// Cancelled when the member is no more, or another process's.
    pub(crate) over: CancellationToken,
}

/// A frame that a process may not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum DirectFrameError {
    #[error("frames.frame is missing")]
    Missing,
    #[error("frames.frame: it is of rank {pn} of group {gn}, which is another member")]
    Foreign { gn: u64, pn: u32 },
    #[error("frames.frame.direct: the address or the token is too long")]
    End,
    #[error("frames.frame.body: {0}")]
    Body(DecodeError),
}

/// The number of a new link, unique in this process and greater than all before.
pub(crate) fn next_link() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The node that a member is on as other endpoints of its node see it.
fn alias(link: u64) -> NodeName {
    NodeName::new(&format!("{ALIAS}{link}")).expect("a short text without control characters")
}

/// Tells if a name is one of an alias, present or past.
pub(super) fn is_alias(node: &NodeName) -> bool {
    node.as_str().starts_with(ALIAS)
}

fn neighbors(held: &Membership) -> impl Iterator<Item = &Neighbor> {
    held.position.iter().flat_map(|position| position.parent.iter().chain(&position.children))
}

impl CarriedFrame {
    pub(super) fn into_wire(self) -> Waiting<v1::LinkFrame> {
        let Self { frame, direct, permit } = self;
        let message = v1::LinkFrame {
            gn: frame.gn.0,
            from_pn: frame.from.0,
            to_pn: frame.to.0,
            body: frame.body.encode(),
            direct,
        };
        Waiting { message, _permit: permit }
    }
}

impl OutgoingFrame {
    /// The bytes that a frame takes while it waits.
    pub(crate) fn cost(wire: &v1::DirectFrame) -> usize {
        OVERHEAD + wire.frame.as_ref().map_or(0, |frame| frame.body.len())
    }

    /// - `permit`: room that the frame takes ([`OutgoingFrame::cost`]).
    ///
    /// # Errors
    ///
    /// [`DirectFrameError`] if the frame is missing, not understood, or says too much of where its
    /// process is reached.
    pub(crate) fn decode(
        wire: v1::DirectFrame,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, DirectFrameError> {
        let v1::DirectFrame { link, frame } = wire;
        let v1::LinkFrame { gn, from_pn, to_pn, body, direct } =
            frame.ok_or(DirectFrameError::Missing)?;
        let is_short =
            |end: &v1::DirectEnd| end.address.len() <= MAX_ADDRESS && end.token.len() <= MAX_TOKEN;
        if !direct.as_ref().is_none_or(is_short) {
            return Err(DirectFrameError::End);
        }
        // Other agents cut a link over which they get what they do not understand.
        let body = Body::decode(&body).map_err(DirectFrameError::Body)?;
        let (gn, from, to) = (Gn(gn), Pn(from_pn), Pn(to_pn));
        let frame = Frame { gn, from, to, body };
        let carried = CarriedFrame { frame, direct, permit: Some(permit) };
        Ok(Self { link, carried })
    }
}

impl NodeMessages {
    /// Leaves a member to its process.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if there is no such member, or it has taken part before since it joined:
    /// the numbers of its messages continue those of its earlier endpoint.
    pub(crate) fn open_direct(
        &mut self,
        now: Moment,
        agent: &Oa,
        key: MemberId,
    ) -> Result<Opened, OpenError> {
        let MemberId { gn, pn } = key;
        let held = agent.member(gn, pn).ok_or(OpenError::NoPlace { gn, pn })?;
        let joined = held.member.joined;
        if self.took_part.get(&key).is_some_and(|part| part.joined == joined) {
            return Err(OpenError::Open { gn, pn });
        }
        self.note_part(key, joined, true);
        let (sender, responses) = mpsc::channel(QUEUE);
        let serial = next_link();
        let over = CancellationToken::new();
        let member = DirectMember {
            serial,
            joined,
            link: serial,
            responses: sender,
            room: Arc::new(Semaphore::new(MAX_WAITING)),
            told: None,
            is_behind: false,
            wakes: self.layer.delegate(now, key, BTreeMap::new()),
            needs_links: false,
            losses: Losses::None,
            _over: over.clone().drop_guard(),
        };
        self.direct.insert(key, member);
        self.forget_position(key);
        self.place_beside(now, agent, gn);
        self.tell_place(agent, key);
        Ok(Opened { opening: Opening { key, serial }, responses, over })
    }

    /// Ends what [`NodeMessages::open_direct`] began; the node's own layer relays for the member
    /// from now on.
    pub(crate) fn close_direct(&mut self, now: Moment, agent: &Oa, opening: Opening) {
        let Opening { key, serial } = opening;
        if self.direct.get(&key).is_none_or(|member| member.serial != serial) {
            return;
        }
        self.direct.remove(&key);
        self.layer.delegate(now, key, BTreeMap::new());
        match agent.member(key.gn, key.pn) {
            Some(held) => {
                self.place(now, held);
                self.layer.wake(now, key);
            }
            None => self.forget_part(key),
        }
        self.place_beside(now, agent, key.gn);
    }

    /// Ends the part of a process in a member that is no more, or another process's.
    pub(super) fn end_direct_before(&mut self, now: Moment, key: MemberId, joined: Revision) {
        if self.direct.get(&key).is_some_and(|member| member.joined != joined) {
            self.direct.remove(&key);
            self.layer.delegate(now, key, BTreeMap::new());
        }
    }

    /// Keeps links to the neighbours of a member from now on.
    pub(crate) fn need_links(&mut self, now: Moment, agent: &Oa, opening: Opening) {
        let Opening { key, serial } = opening;
        let member = self.direct.get_mut(&key).filter(|member| member.serial == serial);
        let Some(member) = member else { return };
        member.needs_links = true;
        if let Some(held) = agent.member(key.gn, key.pn) {
            self.keep_links(now, held);
        }
    }

    /// Keeps the links that a member needs in its present place.
    pub(super) fn keep_links(&mut self, now: Moment, held: &Membership) {
        let key = MemberId { gn: held.member.gn, pn: held.member.pn };
        let needed = self.direct.get(&key).is_some_and(|member| member.needs_links);
        let far = neighbors(held).filter(|one| needed && one.node != self.node);
        let links = far.map(|one| (one.node.clone(), one.address.clone())).collect();
        self.layer.delegate(now, key, links);
    }

    /// Tells a process that its requests up to one were taken. One with a full queue is not told,
    /// and ceases to wait for it by itself.
    pub(crate) fn tell_mark(&self, opening: Opening, mark: u64) {
        let Opening { key, serial } = opening;
        let member = self.direct.get(&key).filter(|member| member.serial == serial);
        let Some(member) = member else { return };
        let message = v1::OpenDirectPathResponse { mark, ..Default::default() };
        let _ = member.responses.try_send(Waiting { message, _permit: None });
    }

    /// Tells if a frame that a member's process sends can be carried now.
    pub(crate) fn has_room(&self, agent: &Oa, outgoing: &OutgoingFrame) -> bool {
        let Frame { gn, from, to, .. } = outgoing.carried.frame;
        let neighbor = agent
            .member(gn, from)
            .and_then(|held| neighbors(held).find(|one| one.pn == to && one.node != self.node));
        match neighbor.and_then(|one| Some(&self.links.get(&one.node)?.state)) {
            Some(LinkState::Stream(stream)) => stream.has_room(),
            Some(LinkState::Down | LinkState::Local(_) | LinkState::Direct) | None => true,
        }
    }

    /// Takes a frame that a member's process sends.
    ///
    /// # Errors
    ///
    /// [`DirectFrameError`] if it is another member's.
    pub(crate) fn carry(
        &mut self,
        now: Moment,
        agent: &Oa,
        opening: Opening,
        outgoing: OutgoingFrame,
    ) -> Result<(), DirectFrameError> {
        let Opening { key, serial } = opening;
        let OutgoingFrame { link, carried } = outgoing;
        let Frame { gn, from, to, .. } = carried.frame;
        if (gn, from) != (key.gn, key.pn) {
            return Err(DirectFrameError::Foreign { gn: gn.0, pn: from.0 });
        }
        let held = agent.member(key.gn, key.pn);
        let member = self.direct.get(&key).filter(|member| member.serial == serial);
        let (Some(held), Some(member)) = (held, member) else { return Ok(()) };
        let neighbor = neighbors(held).find(|one| one.pn == to);
        let Some(neighbor) = neighbor.filter(|one| self.link_to(key.gn, member, one) == link)
        else {
            return Ok(()); // sent before the process knew of the change
        };
        if neighbor.node != self.node {
            self.carried.push((neighbor.node.clone(), carried));
            return Ok(());
        }
        let from = alias(member.link);
        self.receive(now, agent, &from, carried);
        Ok(())
    }

    /// Takes a frame for a member of this node.
    ///
    /// - `from`: the node that it comes from.
    pub(crate) fn receive(
        &mut self,
        now: Moment,
        agent: &Oa,
        from: &NodeName,
        carried: CarriedFrame,
    ) {
        let key = MemberId { gn: carried.frame.gn, pn: carried.frame.to };
        if self.direct.contains_key(&key) {
            self.send_to_process(agent, from, carried);
        } else {
            self.layer.frame(now, from, carried.frame);
        }
    }

    /// Sends the process of a member a frame of a neighbour. If too much waits for it already, the
    /// frame is lost, and the member's links begin anew.
    ///
    /// - `from`: the node that the frame comes from.
    pub(super) fn send_to_process(&mut self, agent: &Oa, from: &NodeName, carried: CarriedFrame) {
        let Frame { gn, from: source, to, .. } = carried.frame;
        let key = MemberId { gn, pn: to };
        let neighbor =
            agent.member(gn, to).and_then(|held| neighbors(held).find(|one| one.pn == source));
        if neighbor.is_none_or(|one| self.node_of(gn, one) != *from) {
            return; // the two know different trees
        }
        let is_placed = self.tell_place(agent, key);
        let Some(member) = self.direct.get(&key) else { return };
        if member.responses.is_closed() {
            return; // the process has gone away
        }
        let frame = CarriedFrame { permit: None, ..carried }.into_wire().message;
        let bytes =
            u32::try_from((OVERHEAD + frame.body.len()).min(MAX_WAITING)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&member.room).try_acquire_many_owned(bytes);
        let sent = permit.is_ok_and(|permit| {
            let message = v1::OpenDirectPathResponse { frames: vec![frame], ..Default::default() };
            let waiting = Waiting { message, _permit: Some(permit) };
            is_placed && member.responses.try_send(waiting).is_ok()
        });
        if !sent && member.losses != Losses::Untold {
            self.overflowed.insert(key);
        }
    }

    /// Begins the links of members anew whose processes have lost frames.
    pub(super) fn renew_direct_links(&mut self, now: Moment, agent: &Oa) {
        for key in std::mem::take(&mut self.overflowed) {
            let Some(member) = self.direct.get_mut(&key) else { continue };
            if std::mem::replace(&mut member.losses, Losses::Untold) == Losses::None {
                warn!(group = key.gn.0, rank = key.pn.0, "process takes frames too slowly");
            }
            member.link = next_link();
            self.place_beside(now, agent, key.gn);
        }
    }

    /// Tells all processes that serve their members of changed places and links.
    pub(super) fn tell_places(&mut self, agent: &Oa) {
        let all: Vec<MemberId> = self.direct.keys().copied().collect();
        for key in all {
            self.tell_place(agent, key);
        }
    }

    /// Tells if a process is still to be told of its place, for which there was no room.
    pub(super) fn owes_places(&self) -> bool {
        self.direct.values().any(|member| member.is_behind)
    }

    /// Numbers of the links to the neighbours of a member that are on this node and served by their
    /// processes.
    pub(super) fn direct_neighbors(&self, held: &Membership) -> Vec<u64> {
        let here = neighbors(held).filter(|one| one.node == self.node);
        let key = |one: &Neighbor| MemberId { gn: held.member.gn, pn: one.pn };
        here.filter_map(|one| Some(self.direct.get(&key(one))?.link)).collect()
    }

    /// The node of a neighbour, as an endpoint of this node sees it.
    pub(super) fn node_of(&self, gn: Gn, neighbor: &Neighbor) -> NodeName {
        let member = self.direct.get(&MemberId { gn, pn: neighbor.pn });
        match member.filter(|_| neighbor.node == self.node) {
            Some(member) => alias(member.link),
            None => neighbor.node.clone(),
        }
    }

    /// Number of the link from a member to a neighbour; 0 while there is none.
    fn link_to(&self, gn: Gn, member: &DirectMember, neighbor: &Neighbor) -> u64 {
        let link = if neighbor.node == self.node {
            self.direct.get(&MemberId { gn, pn: neighbor.pn }).map_or(0, |other| other.link)
        } else {
            match self.links.get(&neighbor.node).map(|link| &link.state) {
                Some(LinkState::Stream(stream)) => stream.id,
                Some(LinkState::Local(id)) => *id,
                Some(LinkState::Down | LinkState::Direct) | None => return 0,
            }
        };
        link.max(member.link)
    }

    /// Tells a process the place of its member if it has changed; returns whether the process is
    /// being told the present one.
    fn tell_place(&mut self, agent: &Oa, key: MemberId) -> bool {
        let Some(held) = agent.member(key.gn, key.pn) else { return false };
        let (Some(member), Some(position)) = (self.direct.get(&key), &held.position) else {
            return false;
        };
        let neighbor = |one: &Neighbor| v1::DirectNeighbor {
            pn: one.pn.0,
            node: one.node.to_string(),
            link: self.link_to(key.gn, member, one),
        };
        let place = v1::DirectPlace {
            gn: key.gn.0,
            pn: key.pn.0,
            joined_revision: member.joined.0,
            parent: position.parent.as_ref().map(neighbor),
            children: position.children.iter().map(neighbor).collect(),
            wake: member.wakes,
            multicast: self.adapters.as_ref().and_then(|adapters| adapters.multicast(held)),
            tree: encode_tree(position.tree),
        };
        let Some(member) = self.direct.get_mut(&key) else { return false };
        if member.told.as_ref() == Some(&place) {
            member.is_behind = false;
            return true;
        }
        let place_told = Some(place.clone());
        let message = v1::OpenDirectPathResponse { place: place_told, ..Default::default() };
        let sent = member.responses.try_send(Waiting { message, _permit: None });
        member.is_behind = matches!(sent, Err(mpsc::error::TrySendError::Full(_)));
        if sent.is_ok() {
            member.told = Some(place);
            if member.losses == Losses::Untold {
                member.losses = Losses::Past;
            }
        }
        sent.is_ok()
    }

    /// Places the group's other members on this node again, whose neighbour has changed its alias.
    fn place_beside(&mut self, now: Moment, agent: &Oa, gn: Gn) {
        let here: Vec<_> = self.layer.members().into_iter().filter(|one| one.0 == gn).collect();
        self.follow(now, agent, here);
    }
}
