//! Members whose processes run the message layer themselves: the agent tells them their places and
//! carries frames between them and their neighbours, who see no difference.
//!
//! To other endpoints of its node such a member is on a node of its own, an *alias*, which changes
//! whenever frames between the two may have been lost; so their edge begins anew. To other nodes it
//! is where it was, so the link between the nodes is cut and made anew instead.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_groups::ids::{Gn, Moment, Pn, Revision};
use fabricast_groups::message::Neighbor;
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::{Membership, Oa};
use fabricast_messages::{Body, DecodeError, Frame, MemberId, OpenError};
use fabricast_proto::v1;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::messages::{LinkState, NodeMessages};

/// Responses that may wait for a process; one that lets more wait loses frames, and its links begin
/// anew.
const QUEUE: usize = 8192;
/// First words of the names that [`alias`] makes.
const ALIAS: &str = "direct member ";

/// A member that its process serves.
#[derive(Debug)]
pub(super) struct DirectMember {
    /// Unique in this process.
    serial: u64,
    joined: Revision,
    /// As `serial` at first; another number after responses were lost.
    link: u64,
    responses: mpsc::Sender<v1::OpenDirectPathResponse>,
    told: Option<v1::DirectPlace>,
    needs_links: bool,
    /// Tells [`DirectPath`](crate::processes::direct::DirectPath) of the end.
    _over: DropGuard,
}

/// A frame, and how its sender's process is reached if that serves its member itself.
#[derive(Debug)]
pub(crate) struct CarriedFrame {
    pub(crate) frame: Frame,
    pub(crate) direct: Option<v1::DirectEnd>,
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
    pub(crate) responses: mpsc::Receiver<v1::OpenDirectPathResponse>,
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
    pub(super) fn into_wire(self) -> v1::LinkFrame {
        let Self { frame, direct } = self;
        v1::LinkFrame {
            gn: frame.gn.0,
            from_pn: frame.from.0,
            to_pn: frame.to.0,
            body: frame.body.encode(),
            direct,
        }
    }
}

impl NodeMessages {
    /// Leaves a member to its process.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if there is no such member, or it has taken part before in this life: the
    /// numbers of its messages go on where its earlier endpoint was.
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
        let (told, needs_links) = Default::default();
        let over = CancellationToken::new();
        let _over = over.clone().drop_guard();
        let link = serial;
        let member =
            DirectMember { serial, joined, link, responses: sender, told, needs_links, _over };
        self.direct.insert(key, member);
        self.forget_position(key);
        if self.layer.delegate(now, key, BTreeMap::new()) {
            self.cut_links_of(held);
        }
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
        if let Some(held) = agent.member(key.gn, key.pn) {
            self.place(now, held);
            self.cut_links_of(held);
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

    /// Takes a frame that a member's process sends.
    pub(crate) fn carry(
        &mut self,
        now: Moment,
        agent: &Oa,
        opening: Opening,
        wire: v1::DirectFrame,
    ) -> Result<(), DirectFrameError> {
        let Opening { key, serial } = opening;
        let v1::DirectFrame { link, frame } = wire;
        let v1::LinkFrame { gn, from_pn, to_pn, body, direct } =
            frame.ok_or(DirectFrameError::Missing)?;
        if (Gn(gn), Pn(from_pn)) != (key.gn, key.pn) {
            return Err(DirectFrameError::Foreign { gn, pn: from_pn });
        }
        // Other agents cut a link over which they get what they do not understand.
        let body = Body::decode(&body).map_err(DirectFrameError::Body)?;
        let frame = Frame { gn: key.gn, from: key.pn, to: Pn(to_pn), body };
        let held = agent.member(key.gn, key.pn);
        let member = self.direct.get(&key).filter(|member| member.serial == serial);
        let (Some(held), Some(member)) = (held, member) else { return Ok(()) };
        let neighbor = neighbors(held).find(|one| one.pn == frame.to);
        let Some(neighbor) = neighbor.filter(|one| self.link_to(key.gn, member, one) == link)
        else {
            return Ok(()); // sent before the process knew of the change
        };
        if neighbor.node != self.node {
            self.carried.push((neighbor.node.clone(), CarriedFrame { frame, direct }));
            return Ok(());
        }
        let from = alias(member.link);
        self.receive(now, agent, &from, CarriedFrame { frame, direct });
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
            self.send_to_process(agent, key, carried);
        } else {
            self.layer.frame(now, from, carried.frame);
        }
    }

    /// Sends the process of a member a frame. If too much waits for it already, the frame is lost,
    /// and the member's links begin anew.
    pub(super) fn send_to_process(&mut self, agent: &Oa, key: MemberId, carried: CarriedFrame) {
        if !self.tell_place(agent, key) {
            return;
        }
        let Some(member) = self.direct.get(&key) else { return };
        let frames = vec![carried.into_wire()];
        let response = v1::OpenDirectPathResponse { place: None, frames };
        if let Err(mpsc::error::TrySendError::Full(_)) = member.responses.try_send(response) {
            self.overflowed.insert(key);
        }
    }

    /// Begins the links of members anew whose processes have lost frames.
    pub(super) fn renew_direct_links(&mut self, now: Moment, agent: &Oa) {
        for key in std::mem::take(&mut self.overflowed) {
            let Some(member) = self.direct.get_mut(&key) else { continue };
            warn!(group = key.gn.0, rank = key.pn.0, "process takes frames too slowly");
            member.link = next_link();
            if let Some(held) = agent.member(key.gn, key.pn) {
                self.cut_links_of(held);
            }
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
        };
        let Some(member) = self.direct.get_mut(&key) else { return false };
        if member.told.as_ref() == Some(&place) {
            return true;
        }
        let frames = Vec::new();
        let response = v1::OpenDirectPathResponse { place: Some(place.clone()), frames };
        let sent = member.responses.try_send(response).is_ok();
        if sent {
            member.told = Some(place);
        }
        sent
    }

    /// Has the links to the nodes of a member's neighbours made anew.
    fn cut_links_of(&mut self, held: &Membership) {
        let far = neighbors(held).filter(|one| one.node != self.node);
        self.to_cut.extend(far.map(|one| one.node.clone()));
    }

    /// Places the group's other members on this node again, whose neighbour has changed its alias.
    fn place_beside(&mut self, now: Moment, agent: &Oa, gn: Gn) {
        let here: Vec<_> = self.layer.members().into_iter().filter(|one| one.0 == gn).collect();
        self.follow(now, agent, here);
    }
}
