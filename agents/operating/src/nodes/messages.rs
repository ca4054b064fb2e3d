//! Messages and operations of one node's members: the message layer, its links, and the processes
//! that take part.
//!
//! The layer is fed under the lock of the nodes like the other state machines. It learns of a
//! member when a process opens it, or when another node refers to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::ids::{Epoch, Gn, Moment, Pn, Revision, Version};
use fabricast_groups::message::Neighbor;
use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::operating::{Membership, Oa};
use fabricast_messages::{
    Call, Limits, MemberId, MessageLayer, Mode, Offer, OpenError, Operation, Outcome, Output,
    Place, PlaceNeighbor, Run, SendError, SendId, StartError, Terms,
};
use fabricast_proto::v1;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::adapters::Adapters;
use super::direct::{CarriedFrame, DirectMember, Waiting};

/// A node's message layer, its links, and the processes that wait for it.
#[derive(Debug)]
pub(crate) struct NodeMessages {
    pub(crate) layer: MessageLayer,
    pub(super) node: NodeName,
    /// `None` if endpoints are attached to an emulated fabric.
    pub(super) adapters: Option<Arc<Adapters>>,
    positions: BTreeMap<MemberId, PositionVersion>,
    pub(crate) links: BTreeMap<NodeName, PeerLink>,
    open: BTreeMap<MemberId, OpenMember>,
    /// Members that take part, or have since they joined.
    pub(super) took_part: BTreeMap<MemberId, Part>,
    /// Members that their processes serve.
    pub(super) direct: BTreeMap<MemberId, DirectMember>,
    /// Those of them that have lost frames.
    pub(super) overflowed: BTreeSet<MemberId>,
    /// Frames of theirs for other nodes.
    pub(super) carried: Vec<(NodeName, CarriedFrame)>,
}

/// The position of a member that the layer has been given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PositionVersion {
    epoch: Epoch,
    version: Version,
    joined: Revision, // tells successive members of one rank apart
    multicast_open: bool,
    direct_neighbors: Vec<u64>,
}

/// Part that a member has taken since it joined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) joined: Revision,
    is_direct: bool,
}

/// The link from this node to another.
#[derive(Debug, Default)]
pub(crate) struct PeerLink {
    /// Address of the other node, if this node needs the link.
    pub(crate) address: Option<Address>,
    /// A task opens streams to the other node until the link is up or not needed.
    pub(crate) is_dialing: bool,
    pub(crate) state: LinkState,
}

#[derive(Debug, Default)]
pub(crate) enum LinkState {
    #[default]
    Down,
    /// The other node is hosted by this process. The number is unique in it.
    Local(u64),
    /// The other node is the alias of a member of this one that its process serves.
    Direct,
    Stream(LinkStream),
}

/// A stream to a node of another process.
#[derive(Debug)]
pub(crate) struct LinkStream {
    /// Unique in this process.
    pub(crate) id: u64,
    /// The first of the two nodes by name opened it.
    pub(crate) is_preferred: bool,
    pub(crate) frames: mpsc::Sender<Waiting<v1::LinkFrame>>,
}

/// A member whose process takes part, with what the process waits for.
#[derive(Debug)]
struct OpenMember {
    channels: MemberChannels,
    sends: BTreeMap<SendId, oneshot::Sender<Vec<Pn>>>,
    operation: Option<oneshot::Sender<OperationEnd>>,
    switch_path: Option<SwitchPath>,
    /// Cancels the contribution in flight to the switches when dropped.
    run: Option<DropGuard>,
}

/// Channels from the message layer to a process.
#[derive(Debug)]
pub(crate) struct MemberChannels {
    /// Messages by sender; the layer's inbox bounds their number.
    pub(crate) messages: mpsc::UnboundedSender<(Pn, Vec<u8>)>,
    pub(crate) roster_changed: watch::Sender<()>,
    /// Notified when there is room to send, and when the member is closed.
    pub(crate) room: Arc<Notify>,
}

/// The end of an operation as the message layer reports it.
#[derive(Debug)]
pub(crate) struct OperationEnd {
    pub(crate) call: Call,
    pub(crate) outcome: Arc<Outcome>,
    pub(crate) by_switches: bool,
}

/// The tree of switches that a member may contribute to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SwitchPath {
    pub(crate) offer: Offer,
    /// A contribution without sequence, work and values.
    pub(crate) template: v1::ContributeValuesRequest,
}

/// A contribution to be sent to the switches.
#[derive(Debug)]
pub(crate) struct Contribution {
    pub(crate) node: NodeName,
    pub(crate) member: MemberId,
    pub(crate) path: SwitchPath,
    pub(crate) run: Run,
    /// Cancelled when the member withdraws.
    pub(crate) withdrawn: CancellationToken,
}

impl LinkStream {
    /// Tells if there is room for frames that can wait or be lost. Half of the queue is left to
    /// others.
    pub(super) fn has_room(&self) -> bool {
        self.frames.capacity() * 2 >= self.frames.max_capacity()
    }
}

impl PeerLink {
    /// The link to a member of the node that its process serves.
    pub(super) fn direct() -> Self {
        Self { address: None, is_dialing: false, state: LinkState::Direct }
    }

    /// Tells if the link is this stream.
    pub(crate) fn is_stream(&self, id: u64) -> bool {
        matches!(&self.state, LinkState::Stream(stream) if stream.id == id)
    }
}

impl Drop for OpenMember {
    fn drop(&mut self) {
        self.channels.room.notify_waiters(); // sends that wait for room fail
    }
}

impl NodeMessages {
    pub(super) fn new(node: NodeName, adapters: Option<Arc<Adapters>>) -> Self {
        Self {
            layer: MessageLayer::new(node.clone(), Limits::default()),
            node,
            adapters,
            positions: BTreeMap::new(),
            links: BTreeMap::new(),
            open: BTreeMap::new(),
            took_part: BTreeMap::new(),
            direct: BTreeMap::new(),
            overflowed: BTreeSet::new(),
            carried: Vec::new(),
        }
    }

    /// Lets a process take part as a member.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the member has no position yet, takes part already, or has done so by the
    /// direct path.
    pub(crate) fn open(
        &mut self,
        now: Moment,
        agent: &Oa,
        key: MemberId,
        channels: MemberChannels,
    ) -> Result<(), OpenError> {
        if let Some(held) = agent.member(key.gn, key.pn) {
            let joined = held.member.joined;
            let part = self.took_part.get(&key);
            if part.is_some_and(|part| part.is_direct && part.joined == joined) {
                return Err(OpenError::Open { gn: key.gn, pn: key.pn });
            }
            self.place(now, held);
            self.layer.open(now, key.gn, key.pn)?;
            self.note_part(key, joined, false);
        }
        let (sends, operation, switch_path, run) = Default::default();
        self.open.insert(key, OpenMember { channels, sends, operation, switch_path, run });
        Ok(())
    }

    /// Notes how a member takes part.
    pub(super) fn note_part(&mut self, key: MemberId, joined: Revision, is_direct: bool) {
        self.took_part.insert(key, Part { joined, is_direct });
    }

    /// Forgets how a member took part, whose membership has ended.
    pub(super) fn forget_part(&mut self, key: MemberId) {
        self.took_part.remove(&key);
    }

    /// Lets the next position of a member be given to the layer, whichever it is.
    pub(super) fn forget_position(&mut self, key: MemberId) {
        self.positions.remove(&key);
    }

    /// Ends a member's part, unless another process has opened the member since.
    ///
    /// - `room`: as given to [`NodeMessages::open`].
    pub(crate) fn close(&mut self, now: Moment, key: MemberId, room: &Arc<Notify>) {
        let is_ours = |open: &OpenMember| Arc::ptr_eq(&open.channels.room, room);
        if self.open.get(&key).is_some_and(is_ours) {
            self.open.remove(&key);
            self.layer.close(now, key.gn, key.pn);
        }
    }

    /// Sends a message; the end of a reliable one comes through `delivered`.
    pub(crate) fn send(
        &mut self,
        now: Moment,
        key: MemberId,
        mode: Mode,
        payload: &[u8],
    ) -> Result<Option<oneshot::Receiver<Vec<Pn>>>, SendError> {
        let id = self.layer.send(now, key, mode, payload)?;
        if mode == Mode::BestEffort {
            return Ok(None);
        }
        let (sender, delivered) = oneshot::channel();
        if let Some(open) = self.open.get_mut(&key) {
            open.sends.insert(id, sender);
        }
        Ok(Some(delivered))
    }

    /// Begins an operation; its end comes through the receiver.
    pub(crate) fn operate(
        &mut self,
        now: Moment,
        key: MemberId,
        operation: &Operation,
        terms: Terms,
    ) -> Result<oneshot::Receiver<OperationEnd>, StartError> {
        self.layer.operate(now, key, operation, terms)?;
        let (sender, ended) = oneshot::channel();
        if let Some(open) = self.open.get_mut(&key) {
            open.operation = Some(sender);
        }
        Ok(ended)
    }

    /// The members whose processes take part.
    pub(crate) fn open_members(&self) -> impl Iterator<Item = MemberId> {
        self.open.keys().copied()
    }

    /// Offers a member a tree of switches, in place of the one before.
    pub(crate) fn offer(&mut self, key: MemberId, path: Option<SwitchPath>) {
        let Some(open) = self.open.get_mut(&key) else { return };
        if open.switch_path != path {
            self.layer.offer(key.gn, key.pn, path.as_ref().map(|path| path.offer));
            open.switch_path = path;
        }
    }

    /// A member's contribution to a run; `None` if it has no tree of switches any more.
    pub(super) fn contribution(
        &mut self,
        node: &NodeName,
        member: MemberId,
        run: Run,
    ) -> Option<Contribution> {
        let open = self.open.get_mut(&member)?;
        let path = open.switch_path.clone()?;
        let withdrawn = CancellationToken::new();
        open.run = Some(withdrawn.clone().drop_guard());
        Some(Contribution { node: node.clone(), member, path, run, withdrawn })
    }

    /// Cancels a member's contribution in flight.
    pub(super) fn withdraw(&mut self, member: MemberId) {
        if let Some(open) = self.open.get_mut(&member) {
            open.run = None;
        }
    }

    /// Peers that this node needs a link to and has none.
    pub(super) fn unlinked(&self) -> impl Iterator<Item = &NodeName> {
        let down = self.links.iter().filter(|(_, link)| matches!(link.state, LinkState::Down));
        down.filter(|(_, link)| link.address.is_some()).map(|(node, _)| node)
    }

    /// The moment at which the passing of time may change something next.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        // A peer that can be linked is found by trying at each tick, and so is a process with room.
        let tried = self.unlinked().next().is_some() || self.owes_places();
        self.layer.next_deadline().into_iter().chain(tried.then_some(Moment(0))).min()
    }

    /// Brings the layer's members up to date with the operating agent's.
    pub(super) fn follow(
        &mut self,
        now: Moment,
        agent: &Oa,
        members: impl IntoIterator<Item = (Gn, Pn)>,
    ) {
        for (gn, pn) in members {
            let key = MemberId { gn, pn };
            match agent.member(key.gn, key.pn) {
                Some(held) => {
                    self.end_direct_before(now, key, held.member.joined);
                    self.place(now, held);
                }
                None => {
                    self.forget_part(key);
                    if self.direct.remove(&key).is_some() {
                        self.layer.delegate(now, key, BTreeMap::new());
                    }
                    if self.positions.remove(&key).is_some() {
                        self.layer.remove(now, key.gn, key.pn);
                        self.open.remove(&key);
                    }
                }
            }
        }
    }

    /// Gives the layer a member's position, unless it has it, there is none yet, or the member's
    /// process serves it.
    pub(super) fn place(&mut self, now: Moment, held: &Membership) {
        let key = MemberId { gn: held.member.gn, pn: held.member.pn };
        if self.direct.contains_key(&key) {
            return self.keep_links(now, held);
        }
        let (Some(version), Some(place)) = (self.position_version(held), self.layer_place(held))
        else {
            return;
        };
        let before = self.positions.insert(key, version.clone());
        if before.as_ref().is_some_and(|before| before.joined != version.joined) {
            self.open.remove(&key); // another process has the rank now
        }
        if before != Some(version) {
            self.layer.place(now, place);
        }
    }

    /// The version of a member's position; `None` until its group's agent has answered.
    fn position_version(&self, held: &Membership) -> Option<PositionVersion> {
        let position = held.position.as_ref()?;
        Some(PositionVersion {
            epoch: position.epoch,
            version: position.version,
            joined: held.member.joined,
            multicast_open: held.colors().is_some(),
            direct_neighbors: self.direct_neighbors(held),
        })
    }

    /// A member's position as the layer takes it; `None` until its group's agent has answered.
    fn layer_place(&self, held: &Membership) -> Option<Place> {
        let position = held.position.as_ref()?;
        let neighbor = |one: &Neighbor| PlaceNeighbor {
            pn: one.pn,
            node: self.node_of(held.member.gn, one),
            address: one.address.clone(),
        };
        Some(Place {
            gn: held.member.gn,
            pn: held.member.pn,
            joined: held.member.joined,
            tree: position.tree,
            parent: position.parent.as_ref().map(neighbor),
            children: position.children.iter().map(neighbor).collect(),
            // At adapters, only processes that serve their members themselves send packets.
            multicast: self.adapters.is_none() && held.colors().is_some(),
        })
    }

    /// Passes an output on to the process that it is for.
    pub(super) fn notify_process(&mut self, output: Output) {
        match output {
            Output::Deliver { gn, pn, from, payload } => {
                if let Some(open) = self.open.get(&MemberId { gn, pn }) {
                    // A process that has gone away closes the member in a moment.
                    let _ = open.channels.messages.send((from, payload));
                }
            }
            Output::Acknowledged { gn, pn, id, missed } => {
                let open = self.open.get_mut(&MemberId { gn, pn });
                if let Some(sender) = open.and_then(|open| open.sends.remove(&id)) {
                    let _ = sender.send(missed);
                }
            }
            Output::Room { gn, pn } => {
                if let Some(open) = self.open.get(&MemberId { gn, pn }) {
                    open.channels.room.notify_waiters();
                }
            }
            Output::Roster { gn, pn } => {
                if let Some(open) = self.open.get(&MemberId { gn, pn }) {
                    open.channels.roster_changed.send_replace(());
                }
            }
            Output::Ended { gn, pn, call, outcome, by_switches } => {
                let open = self.open.get_mut(&MemberId { gn, pn });
                if let Some(sender) = open.and_then(|open| open.operation.take()) {
                    let _ = sender.send(OperationEnd { call, outcome, by_switches });
                }
            }
            // These concern links and switches.
            Output::Connect { .. }
            | Output::Disconnect { .. }
            | Output::Frame { .. }
            | Output::Combine { .. }
            | Output::Withdraw { .. }
            | Output::Multicast { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_links_queue_is_left_to_frames_that_cannot_wait() {
        let (frames, _queue) = mpsc::channel(4);
        let stream = LinkStream { id: 1, is_preferred: true, frames };
        let take = || stream.frames.clone().try_reserve_owned().ok();
        let _taken = (take(), take());
        assert!(stream.has_room());
        let third = take();
        assert!(!stream.has_room());
        drop(third);
        assert!(stream.has_room());
    }
}
