//! Messages and operations of the members hosted here: seats for processes, links between nodes.
//!
//! Each node has a [`Courier`] of `core/messages`, fed under the lock of the host like its other state
//! machines. It learns of members when somebody needs them: a process opens its seat, or another node
//! says hello. Nodes of this process hand frames over directly; other nodes are linked by streams
//! (`links.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_groups::ids::{Epoch, Gn, Moment, Pn, Revision, Version};
use fabricast_groups::message::Neighbor;
use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::operating::{Membership, Oa};
use fabricast_messages::{
    Call, Courier, Limits, Notice, Outcome, Output, Packet, Place, PlaceNeighbor, SendId,
};
use fabricast_proto::v1;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::DropGuard;

use crate::host::{Effect, Host, State};

mod combining;
mod links;
mod pump;
mod seats;

pub(crate) use combining::Contribution;
use combining::Way;
pub use seats::{Ended, Messages, Seat, SeatEvent, SeatEvents};

/// What the message layers of this process want done outside the lock.
#[derive(Debug)]
pub(crate) enum MessageEffect {
    /// Link a node hosted here to one that is not.
    Dial(NodeName, NodeName, Address),
    /// Send to the fabric.
    Packets(Vec<v1::EndpointPacket>),
    /// Have switches combine.
    Contribute(Box<Contribution>),
}

/// A node's message layer, and what its processes wait for.
#[derive(Debug)]
pub(crate) struct Messaging {
    pub(crate) courier: Courier,
    placed: BTreeMap<(Gn, Pn), Seen>,
    peers: BTreeMap<NodeName, Peering>,
    seats: BTreeMap<(Gn, Pn), Waiting>,
}

/// Which position the courier has: epoch, version, whose it is, and whether multicast is open.
type Seen = (Epoch, Version, Revision, bool);

/// Another node that this one is, or wants to be, linked to.
#[derive(Debug, Default)]
struct Peering {
    address: Option<Address>, // if this node wants the link
    dialing: bool,
    link: Link,
}

#[derive(Debug, Default)]
enum Link {
    #[default]
    Down,
    /// The other node is hosted here, too.
    Inside,
    /// A stream: its number, whether the first of the two by name has opened it, and its queue.
    Stream { id: u64, preferred: bool, frames: mpsc::Sender<v1::LinkFrame> },
}

/// What a seat's process waits for.
#[derive(Debug)]
struct Waiting {
    messages: mpsc::UnboundedSender<(Pn, Vec<u8>)>, // as many as the courier's inbox allows
    roster: watch::Sender<()>,                      // it has changed
    sends: BTreeMap<SendId, oneshot::Sender<Vec<Pn>>>,
    operation: Option<oneshot::Sender<(Call, Arc<Outcome>, bool)>>, // by the switches?
    room: Arc<Notify>,
    way: Option<Way>,       // to the switches
    run: Option<DropGuard>, // there; given up with this
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.room.notify_waiters(); // nobody waits for room at a seat that is gone
    }
}

impl Messaging {
    pub(crate) fn new(node: NodeName) -> Self {
        Self {
            courier: Courier::new(node, Limits::default()),
            placed: BTreeMap::new(),
            peers: BTreeMap::new(),
            seats: BTreeMap::new(),
        }
    }

    /// Whether a link is wanted to a node that may be hosted here.
    fn unlinked(&self) -> impl Iterator<Item = &NodeName> {
        let down = self.peers.iter().filter(|(_, peer)| matches!(peer.link, Link::Down));
        down.filter(|(_, peer)| peer.address.is_some()).map(|(node, _)| node)
    }

    /// When the passing of time may change something next.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        // Who can be linked is found out by trying.
        let unlinked = self.unlinked().next().map(|_| Moment(0));
        self.courier.next_deadline().into_iter().chain(unlinked).min()
    }

    /// Brings members of the courier up to date with the operating agent's.
    fn follow(&mut self, now: Moment, agent: &Oa, members: impl IntoIterator<Item = (Gn, Pn)>) {
        for (gn, pn) in members {
            let held = agent.member(gn, pn);
            if held.and_then(seen).is_some_and(|seen| self.placed.get(&(gn, pn)) == Some(&seen)) {
                continue;
            }
            let Some(place) = held.and_then(place) else {
                if held.is_none() && self.placed.remove(&(gn, pn)).is_some() {
                    self.courier.remove(now, gn, pn);
                    self.seats.remove(&(gn, pn));
                }
                continue;
            };
            self.take_place(now, held, place);
        }
    }

    fn take_place(&mut self, now: Moment, held: Option<&Membership>, place: Place) {
        let Some(seen) = held.and_then(seen) else { return };
        let key = (place.gn, place.pn);
        let before = self.placed.insert(key, seen);
        if before.is_some_and(|before| before.2 != seen.2) {
            self.seats.remove(&key); // another process has the place
        }
        if before != Some(seen) {
            self.courier.place(now, place);
        }
    }

    /// The process that has a seat is told what concerns it.
    fn tell(&mut self, output: Output) {
        match output {
            Output::Deliver { gn, pn, from, payload } => {
                if let Some(seat) = self.seats.get(&(gn, pn)) {
                    // Who has gone away closes the seat in a moment.
                    let _ = seat.messages.send((from, payload));
                }
            }
            Output::Acknowledged { gn, pn, id, missed } => {
                let seat = self.seats.get_mut(&(gn, pn));
                if let Some(tell) = seat.and_then(|seat| seat.sends.remove(&id)) {
                    let _ = tell.send(missed);
                }
            }
            Output::Room { gn, pn } => {
                if let Some(seat) = self.seats.get(&(gn, pn)) {
                    seat.room.notify_waiters();
                }
            }
            Output::Roster { gn, pn } => {
                if let Some(seat) = self.seats.get(&(gn, pn)) {
                    seat.roster.send_replace(());
                }
            }
            Output::Ended { gn, pn, call, outcome, by_switches } => {
                let seat = self.seats.get_mut(&(gn, pn));
                if let Some(tell) = seat.and_then(|seat| seat.operation.take()) {
                    let _ = tell.send((call, outcome, by_switches));
                }
            }
            // These concern others.
            Output::Connect { .. }
            | Output::Disconnect { .. }
            | Output::Frame { .. }
            | Output::Combine { .. }
            | Output::Withdraw { .. }
            | Output::Multicast { .. } => {}
        }
    }
}

/// Which position a member has; `None` until its group's agent has answered.
fn seen(held: &Membership) -> Option<Seen> {
    let position = held.position.as_ref()?;
    Some((position.epoch, position.version, held.member.joined, held.colors().is_some()))
}

/// A member's place in the courier's words; `None` until its group's agent has answered.
fn place(held: &Membership) -> Option<Place> {
    let position = held.position.as_ref()?;
    let neighbor = |one: &Neighbor| PlaceNeighbor {
        pn: one.pn,
        node: one.node.clone(),
        address: one.address.clone(),
    };
    Some(Place {
        gn: held.member.gn,
        pn: held.member.pn,
        life: held.member.joined,
        parent: position.parent.as_ref().map(neighbor),
        children: position.children.iter().map(neighbor).collect(),
        multicast: held.colors().is_some(),
    })
}

impl Host {
    /// Gives a node's message layer an input; `None` if the node is not hosted here.
    pub(crate) fn messages<T>(
        &self,
        node: &NodeName,
        work: impl FnOnce(&mut Messaging, &Oa, Moment) -> T,
    ) -> Option<T> {
        let now = self.now();
        let mut state = self.state();
        let hosted = state.nodes.get_mut(node)?;
        let answer = work(&mut hosted.messages, &hosted.operating, now);
        let effects = self.pump(&mut state, node, now);
        drop(state);
        self.0.stirred.notify_one();
        self.carry_out(effects);
        Some(answer)
    }

    /// Takes a packet of a message layer that came in at an endpoint; answers whether it was one.
    pub(crate) fn layer_packet(&self, endpoint: &str, mgid: u32, payload: &[u8]) -> bool {
        let Ok(Some(packet)) = Packet::decode(payload) else { return false };
        let Ok(endpoint) = fabricast_groups::names::EndpointName::new(endpoint) else {
            return true;
        };
        let now = self.now();
        let mut state = self.state();
        let Some(node) = state.owners.get(&endpoint).cloned() else { return true };
        let Some(hosted) = state.nodes.get_mut(&node) else { return true };
        let mgid = fabricast_routing::Mgid(mgid);
        let members = hosted.operating.accepts(mgid, &endpoint).map(|held| &held.member);
        for member in members.filter(|member| member.gn == packet.gn) {
            if matches!(&packet.notice, Notice::Part(part) if part.source.pn == member.pn) {
                continue; // its own
            }
            hosted.messages.courier.packet(now, member.pn, &packet);
        }
        let effects = self.pump(&mut state, &node, now);
        drop(state);
        self.0.stirred.notify_one();
        self.carry_out(effects);
        true
    }

    /// Lets a node's message layer follow what has become of the node; `is_down`: its life is over.
    pub(crate) fn pump_after(
        &self,
        state: &mut State,
        node: &NodeName,
        is_down: bool,
    ) -> Vec<Effect> {
        let now = self.now();
        let touched = if is_down { self.forget_messages(state, node) } else { Vec::new() };
        if let Some(hosted) = state.nodes.get_mut(node) {
            let members = hosted.messages.courier.members();
            hosted.messages.follow(now, &hosted.operating, members);
        }
        let nodes = touched.iter().chain([node]);
        nodes.flat_map(|node| self.pump(state, node, now)).collect()
    }

    /// Ends all links and seats of a node whose life is over.
    fn forget_messages(&self, state: &mut State, node: &NodeName) -> Vec<NodeName> {
        let now = self.now();
        let Some(hosted) = state.nodes.get_mut(node) else { return Vec::new() };
        let old = std::mem::replace(&mut hosted.messages, Messaging::new(node.clone()));
        let mut touched = Vec::new();
        for (peer, _) in old.peers.iter().filter(|(_, one)| matches!(one.link, Link::Inside)) {
            let Some(other) = state.nodes.get_mut(peer) else { continue };
            if let Some(peering) = other.messages.peers.get_mut(node) {
                peering.link = Link::Down;
            }
            other.messages.courier.link_down(now, node);
            touched.push(peer.clone());
        }
        touched
    }

    /// Gives the message layers whose time has come their tick, and links nodes that have come up.
    pub(crate) fn tick_messages(&self) {
        let now = self.now();
        let mut state = self.state();
        let mut effects = Vec::new();
        for node in state.talking.clone() {
            let Some(hosted) = state.nodes.get_mut(&node) else { continue };
            if hosted.messages.next_deadline().is_none_or(|due| due > now) {
                continue;
            }
            hosted.messages.courier.tick(now);
            let unlinked: Vec<NodeName> = hosted.messages.unlinked().cloned().collect();
            let mut open = vec![node.clone()];
            for peer in unlinked {
                effects.extend(self.link(&mut state, &node, &peer, &mut open));
            }
            for node in open {
                effects.extend(self.pump(&mut state, &node, now));
            }
        }
        drop(state);
        self.carry_out(effects);
    }
}
