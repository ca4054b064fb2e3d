//! The message layer of a membership, the edges of its tree, and what the agent has told.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::{Moment, Pn, Revision};
use fabricast_messages::{Body, Frame, MemberId, MessageLayer, Place, PlaceNeighbor};
use fabricast_proto::v1;
use fabricast_wire::decode_tree;
use tokio::sync::mpsc;

use super::connection::{Received, append_frame};
use super::edge::{Arrival, Edge};
use super::multicast::{GroupSocket, Heard, Multicast};
use super::open_part::OpenPart;

/// Bytes given to the agent after which it is asked whether it has taken them.
const MARKED: u64 = 1 << 20;
/// Bytes that may wait for the agent before best-effort frames are dropped.
const MAX_CARRIED: u64 = 64 << 20;
/// Bytes of a frame beside its body.
const OVERHEAD: u64 = 128;

/// All that the lock protects.
#[derive(Debug)]
pub(super) struct State {
    pub(super) layer: MessageLayer,
    pub(super) open: Option<OpenPart>,
    pub(super) edges: BTreeMap<Pn, Edge>,
    pub(super) multicast: Multicast,
    /// The member's place as the layer knows it.
    place: Option<Place>,
    requests: mpsc::UnboundedSender<v1::OpenDirectPathRequest>,
    needs_links: bool,
    pub(super) wakes_at: Option<Moment>,
    pub(super) carried: Carried,
}

/// Bytes of frames that were given to the agent, all since the beginning.
#[derive(Debug, Default)]
pub(super) struct Carried {
    given: u64,
    /// Given before the last mark.
    marked: u64,
    pub(super) last_mark: u64,
    /// The marks that the agent has not repeated, with what was given before each.
    marks: BTreeMap<u64, u64>,
    taken: u64,
}

impl Carried {
    /// Bytes that the agent may not have taken.
    fn waiting(&self) -> u64 {
        self.given - self.taken
    }

    pub(super) fn taken_up_to(&mut self, mark: u64) {
        let later = self.marks.split_off(&(mark.saturating_add(1)));
        if let Some((_, given)) = std::mem::replace(&mut self.marks, later).pop_last() {
            self.taken = given;
        }
    }
}

impl State {
    pub(super) fn new(
        layer: MessageLayer,
        requests: mpsc::UnboundedSender<v1::OpenDirectPathRequest>,
    ) -> Self {
        Self {
            layer,
            open: None,
            edges: BTreeMap::new(),
            multicast: Multicast::default(),
            place: None,
            requests,
            needs_links: false,
            wakes_at: None,
            carried: Carried::default(),
        }
    }

    /// Takes the member's place and the agents' links to its neighbours; returns a socket that is
    /// to be served from now on.
    pub(super) fn place(
        &mut self,
        now: Moment,
        id: MemberId,
        place: v1::DirectPlace,
    ) -> Option<Arc<GroupSocket>> {
        let v1::DirectPlace { joined_revision, parent, children, wake, multicast, tree, .. } =
            place;
        let tree = tree.as_ref().map(decode_tree).transpose();
        let tree = tree.ok()?.unwrap_or_default(); // one that is not known here is no place
        let socket = self.multicast.offer(now, multicast);
        let mut old = std::mem::take(&mut self.edges);
        for one in parent.iter().chain(&children) {
            let same = old.remove(&Pn(one.pn)).filter(|edge| edge.node == one.node);
            self.edges.insert(Pn(one.pn), same.unwrap_or_else(|| Edge::new(&one.node)));
        }
        old.values_mut().for_each(Edge::close);
        let neighbor = |one: &v1::DirectNeighbor| PlaceNeighbor {
            pn: Pn(one.pn),
            node: self.edges[&Pn(one.pn)].name.clone(),
            address: Address::new("direct").expect("a short text"),
        };
        let place = Place {
            gn: id.gn,
            pn: id.pn,
            joined: Revision(joined_revision),
            tree,
            parent: parent.as_ref().map(neighbor),
            children: children.iter().map(neighbor).collect(),
            multicast: self.multicast.is_heard(),
        };
        self.place = Some(place.clone());
        self.layer.place(now, place);
        self.renew_keys(now);
        for one in parent.iter().chain(&children) {
            let Some(edge) = self.edges.get_mut(&Pn(one.pn)) else { continue };
            if std::mem::replace(&mut edge.link, one.link) == one.link || edge.connection.is_some()
            {
                continue;
            }
            self.layer.link_down(now, &edge.name);
            if edge.link != 0 {
                self.layer.link_up(now, &edge.name);
            }
        }
        if wake {
            self.layer.wake(now, id);
        }
        socket
    }

    /// True if the member is the root of the tree.
    pub(super) fn is_root(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.parent.is_none())
    }

    /// Has the root make a key for the multicast connection, and speak again: it has neighbours
    /// that may not have heard it.
    fn renew_keys(&mut self, now: Moment) {
        if self.is_root() {
            self.multicast.make_key();
            self.multicast.speak_soon(now);
        }
    }

    /// Takes what has come over the connection to a neighbour.
    pub(super) fn received(&mut self, now: Moment, id: MemberId, from: Pn, received: Received) {
        match received {
            Received::Frame(body) => {
                let Some(edge) = self.edges.get(&from) else { return };
                let frame = Frame { gn: id.gn, from, to: id.pn, body };
                self.layer.frame(now, &edge.name, frame);
            }
            Received::Key(key) => {
                let parent = self.place.as_ref().and_then(|place| place.parent.as_ref());
                if parent.is_some_and(|parent| parent.pn == from) {
                    self.multicast.keys.adopt(key);
                }
            }
        }
    }

    /// Takes packets of the multicast connection, and does what is due there.
    pub(super) fn heard(&mut self, now: Moment, id: MemberId, packets: &[Vec<u8>]) {
        for bytes in packets {
            match self.multicast.read(now, id.pn, bytes) {
                Some(Heard::Packet(packet)) if packet.gn == id.gn => {
                    self.layer.packet(now, id.pn, &packet);
                }
                Some(Heard::Question) => self.multicast.queue(id.pn, &[]),
                Some(Heard::Packet(_) | Heard::Presence) | None => {}
            }
        }
        let is_root = self.is_root();
        let children: Vec<Pn> = self.edges.keys().copied().filter(|_| is_root).collect();
        self.multicast.tick(now, id.pn, is_root.then_some(&children));
        self.follow_multicast(now);
    }

    /// Tells the layer whether the multicast connection reaches this process.
    fn follow_multicast(&mut self, now: Moment) {
        let is_heard = self.multicast.is_heard();
        if let Some(place) = self.place.as_mut().filter(|place| place.multicast != is_heard) {
            place.multicast = is_heard;
            let place = place.clone();
            self.layer.place(now, place);
        }
    }

    /// Sends what has been collected for connections, and on the multicast connection. The key for
    /// that goes to all neighbours away from the root.
    pub(super) fn flush(&mut self, id: MemberId) {
        let parent = self.place.as_ref().and_then(|place| place.parent.as_ref());
        let parent = parent.map(|parent| parent.pn);
        let key = self.multicast.keys.current();
        for (pn, edge) in &mut self.edges {
            if let Some(key) = key.filter(|_| Some(*pn) != parent && *pn != id.pn) {
                edge.tell_key(key);
            }
            edge.flush();
        }
        self.multicast.flush();
    }

    /// Takes a frame that the agents have carried; returns the edge that is to be dialed.
    pub(super) fn carried_frame(
        &mut self,
        now: Moment,
        id: MemberId,
        wire: v1::LinkFrame,
    ) -> Option<(Pn, NodeName)> {
        let v1::LinkFrame { gn, from_pn, to_pn, body, direct } = wire;
        let (from, mut body) = (Pn(from_pn), Body::decode(&body).ok()?);
        if let Body::Hello(hello) = &mut body {
            hello.hears = false; // it has no key: that comes over a connection
        }
        if (gn, to_pn) != (id.gn.0, id.pn.0) {
            return None;
        }
        let edge = self.edges.get_mut(&from)?;
        let before = (edge.connection.is_some(), edge.connections);
        let arrival = edge.note(direct, &body);
        if before != (edge.connection.is_some(), edge.connections) {
            // The neighbour has dropped what it got over a connection, or before one.
            self.layer.link_down(now, &edge.name);
            if edge.is_up() {
                self.layer.link_up(now, &edge.name);
            }
        }
        let is_to_be_dialed = !edge.is_dialing && edge.is_to_be_dialed(id.pn, from);
        edge.is_dialing |= is_to_be_dialed;
        let name = edge.name.clone();
        if arrival == Arrival::Current {
            self.layer.frame(now, &name, Frame { gn: id.gn, from, to: id.pn, body });
        }
        is_to_be_dialed.then_some((from, name))
    }

    /// Sends a frame by the connection to its receiver, or else by the agents.
    pub(super) fn send(&mut self, frame: &Frame, address: &str) {
        let Some(edge) = self.edges.get_mut(&frame.to) else { return };
        if edge.connection.is_some() {
            append_frame(&mut edge.outgoing, &frame.body);
        } else if edge.link != 0 {
            let carried = edge.carried(frame, address);
            let bytes = carried.frame.as_ref().map_or(0, |frame| frame.body.len());
            if matches!(frame.body, Body::BestEffort(_)) && self.carried.waiting() > MAX_CARRIED {
                return; // it may be lost, and the agent takes no more
            }
            self.carried.given += OVERHEAD + u64::try_from(bytes).unwrap_or(u64::MAX);
            let frames = vec![carried];
            // A membership that has ended sends nothing any more.
            let _ = self.requests.send(v1::OpenDirectPathRequest { frames, ..Default::default() });
            if self.carried.given - self.carried.marked > MARKED {
                self.mark();
            }
        }
    }

    /// Asks the agent to say when it has taken all frames so far, unless it is asked already.
    pub(super) fn mark(&mut self) {
        let carried = &mut self.carried;
        if carried.given == carried.marked {
            return;
        }
        carried.marked = carried.given;
        carried.last_mark += 1;
        carried.marks.insert(carried.last_mark, carried.given);
        let mark = carried.last_mark;
        let _ = self.requests.send(v1::OpenDirectPathRequest { mark, ..Default::default() });
    }

    /// Has the agents link the nodes, once.
    pub(super) fn need_links(&mut self) {
        if !std::mem::replace(&mut self.needs_links, true) {
            let request = v1::OpenDirectPathRequest { needs_links: true, ..Default::default() };
            let _ = self.requests.send(request);
        }
    }
}
