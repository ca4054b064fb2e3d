//! From the outputs of message layers to links, to the fabric, and to other nodes of this process.

use fabricast_groups::ids::{Moment, Pn};
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::Phase;
use fabricast_messages::{Frame, Output, Packet};
use fabricast_proto::v1;

use super::{Link, MessageEffect};
use crate::host::{Effect, Host, Hosted, State};

impl Host {
    /// Takes what a node's message layer wants done, and lets nodes of this process answer each other.
    pub(crate) fn pump(&self, state: &mut State, node: &NodeName, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut open = vec![node.clone()];
        while let Some(node) = open.pop() {
            let Some(hosted) = state.nodes.get_mut(&node) else { continue };
            let awaited: Vec<_> = hosted.messages.courier.awaited().collect();
            hosted.messages.follow(now, &hosted.operating, awaited);
            let mut outputs = Vec::new();
            while let Some(output) = hosted.messages.courier.poll_output() {
                outputs.push(output);
            }
            for output in outputs {
                effects.extend(self.obey(state, &node, output, &mut open));
            }
            let hosted = state.nodes.get(&node);
            match hosted.is_some_and(|hosted| hosted.messages.next_deadline().is_some()) {
                true => state.talking.insert(node),
                false => state.talking.remove(&node),
            };
        }
        effects
    }

    /// Does one thing that a node's message layer wants; nodes to look at again go to `open`.
    fn obey(
        &self,
        state: &mut State,
        node: &NodeName,
        output: Output,
        open: &mut Vec<NodeName>,
    ) -> Option<Effect> {
        let now = self.now();
        match output {
            Output::Connect { node: peer, address } => {
                let hosted = state.nodes.get_mut(node)?;
                let peering = hosted.messages.peers.entry(peer.clone()).or_default();
                peering.address = Some(address);
                self.link(state, node, &peer, open)
            }
            Output::Disconnect { node: peer } => {
                let hosted = state.nodes.get_mut(node)?;
                hosted.messages.peers.remove(&peer);
                None
            }
            Output::Frame { node: peer, frame } => self.pass(state, (node, &peer), frame, open),
            Output::Multicast { pn, packet } => {
                let hosted = state.nodes.get_mut(node)?;
                let packets = self.multicast(hosted, now, pn, &packet);
                look_at(open, node);
                packets.map(|packets| Effect::Message(MessageEffect::Packets(packets)))
            }
            Output::Combine { gn, pn, run } => {
                let (messages, sequence) = (&mut state.nodes.get_mut(node)?.messages, run.sequence);
                if let Some(part) = messages.contribution(node, (gn, pn), run) {
                    let part = MessageEffect::Contribute(Box::new(part));
                    return Some(Effect::Message(part));
                }
                messages.courier.combined(now, (gn, pn), sequence, None);
                look_at(open, node);
                None
            }
            Output::Withdraw { gn, pn } => {
                state.nodes.get_mut(node)?.messages.withdraw((gn, pn));
                None
            }
            output => {
                state.nodes.get_mut(node)?.messages.tell(output);
                None
            }
        }
    }

    /// Links a node to another that is hosted here, or has it called.
    pub(super) fn link(
        &self,
        state: &mut State,
        node: &NodeName,
        peer: &NodeName,
        open: &mut Vec<NodeName>,
    ) -> Option<Effect> {
        let now = self.now();
        let is_up = |state: &State, node: &NodeName| {
            state.nodes.get(node).is_some_and(|hosted| hosted.operating.phase() == Phase::Up)
        };
        if !state.nodes.contains_key(peer) {
            let peering = state.nodes.get_mut(node)?.messages.peers.get_mut(peer)?;
            let calls = matches!(peering.link, Link::Down) && !peering.dialing;
            let address = peering.address.clone().filter(|_| calls)?;
            peering.dialing = true;
            let dial = MessageEffect::Dial(node.clone(), peer.clone(), address);
            return Some(Effect::Message(dial));
        }
        if is_up(state, node) && is_up(state, peer) {
            for (at, other) in [(node, peer), (peer, node)] {
                let messages = &mut state.nodes.get_mut(at)?.messages;
                messages.peers.entry(other.clone()).or_default().link = Link::Inside;
                messages.courier.link_up(now, other);
                look_at(open, at);
            }
        }
        None
    }

    /// Passes a frame to the node that it is for.
    fn pass(
        &self,
        state: &mut State,
        (node, peer): (&NodeName, &NodeName),
        frame: Frame,
        open: &mut Vec<NodeName>,
    ) -> Option<Effect> {
        let now = self.now();
        let peering = state.nodes.get_mut(node)?.messages.peers.get_mut(peer)?;
        match &peering.link {
            Link::Down => None,
            Link::Inside => {
                let other = &mut state.nodes.get_mut(peer)?.messages;
                other.courier.frame(now, node, frame);
                look_at(open, peer);
                None
            }
            Link::Stream { frames, .. } => {
                let frame = v1::LinkFrame {
                    gn: frame.gn.0,
                    from_pn: frame.from.0,
                    to_pn: frame.to.0,
                    body: frame.body.encode(),
                };
                if frames.try_send(frame).is_ok() {
                    return None;
                }
                // A peer that takes nothing is cut off; both ends begin anew from what they have.
                peering.link = Link::Down;
                state.nodes.get_mut(node)?.messages.courier.link_down(now, peer);
                look_at(open, node);
                self.link(state, node, peer, open)
            }
        }
    }

    /// Sends a packet as a member does: to the fabric, and to the members that share its endpoint,
    /// which the fabric does not serve.
    fn multicast(
        &self,
        hosted: &mut Hosted,
        now: Moment,
        pn: Pn,
        packet: &Packet,
    ) -> Option<Vec<v1::EndpointPacket>> {
        let held = hosted.operating.member(packet.gn, pn)?;
        let (mgid, endpoint) = (held.mgid, held.member.endpoint.clone());
        let near = hosted.operating.accepts(mgid, &endpoint).map(|near| &near.member);
        for near in near.filter(|near| near.gn == packet.gn && near.pn != pn) {
            hosted.messages.courier.packet(now, near.pn, packet);
        }
        let colors = held.colors()?;
        let (source, sequence) = self.number_packet(mgid);
        let payload = packet.encode();
        let packet = |color: u16| v1::EndpointPacket {
            endpoint: endpoint.to_string(),
            packet: Some(v1::Packet {
                mgid: mgid.0,
                color: u32::from(color),
                payload: payload.clone(),
                source,
                sequence,
            }),
        };
        Some([colors.first].into_iter().chain(colors.second).map(packet).collect())
    }
}

/// Has a node looked at, once for all that has happened to it.
fn look_at(open: &mut Vec<NodeName>, node: &NodeName) {
    if !open.contains(node) {
        open.push(node.clone());
    }
}
