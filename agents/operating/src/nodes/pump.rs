//! From the outputs of message layers to links, to the fabric, and to other nodes of this process.

use fabricast_groups::ids::{Moment, Pn};
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::Phase;
use fabricast_messages::{Body, MemberId, Output, Packet};

use super::direct::{CarriedFrame, is_alias, next_link};
use super::effect::Effect;
use super::messages::{LinkState, NodeMessages, PeerLink};
use super::state::{HostedNode, State};

/// One pass over nodes whose message layers may have outputs.
#[derive(Debug)]
struct Pass {
    now: Moment,
    /// Each node at most once.
    pending: Vec<NodeName>,
}

impl State {
    /// Takes the outputs of a node's message layer, and lets nodes of this process answer each
    /// other until none has an output.
    pub(super) fn pump(&mut self, node: &NodeName, now: Moment, effects: &mut Vec<Effect>) {
        self.pump_all(Pass { now, pending: vec![node.clone()] }, effects);
    }

    fn pump_all(&mut self, mut pass: Pass, effects: &mut Vec<Effect>) {
        let now = pass.now;
        while let Some(node) = pass.pending.pop() {
            let Some(hosted) = self.nodes.get_mut(&node) else { continue };
            let awaited: Vec<_> = hosted.messages.layer.awaited().collect();
            hosted.messages.follow(now, &hosted.operating, awaited);
            hosted.messages.renew_direct_links(now, &hosted.operating);
            let mut outputs = Vec::new();
            while let Some(output) = hosted.messages.layer.poll_output() {
                outputs.push(output);
            }
            for output in outputs {
                effects.extend(self.handle_output(&node, output, &mut pass));
            }
            self.carry_frames(&node, &mut pass, effects);
            let hosted = self.nodes.get(&node);
            if hosted.is_some_and(|hosted| hosted.messages.next_deadline().is_some()) {
                self.with_message_deadlines.insert(node);
            } else {
                self.with_message_deadlines.remove(&node);
            }
        }
    }

    /// Sends other nodes the frames of members that their processes serve, and tells these
    /// processes what has changed.
    fn carry_frames(&mut self, node: &NodeName, pass: &mut Pass, effects: &mut Vec<Effect>) {
        let Some(hosted) = self.nodes.get_mut(node) else { return };
        let frames = std::mem::take(&mut hosted.messages.carried);
        for (peer, carried) in frames {
            effects.extend(self.forward(node, &peer, carried, pass));
        }
        if let Some(hosted) = self.nodes.get_mut(node) {
            hosted.messages.tell_places(&hosted.operating);
            if !hosted.messages.overflowed.is_empty() {
                pass.mark(node);
            }
        }
    }

    /// Brings a node's message layer up to date after an input to its operating agent.
    ///
    /// - `is_down`: the node's incarnation has ended, and with it all links and open members.
    pub(super) fn follow_node(
        &mut self,
        node: &NodeName,
        is_down: bool,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let unlinked = if is_down { self.reset_messages(node, now) } else { Vec::new() };
        if let Some(hosted) = self.nodes.get_mut(node) {
            let mut members = hosted.messages.layer.members();
            members.extend(hosted.messages.direct.keys().map(|member| (member.gn, member.pn)));
            hosted.messages.follow(now, &hosted.operating, members);
        }
        let pending = unlinked.into_iter().chain([node.clone()]).collect();
        self.pump_all(Pass { now, pending }, effects);
    }

    /// Ticks the message layers that are due, and links nodes that have come up.
    pub(super) fn tick_messages(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        for node in self.with_message_deadlines.clone() {
            let Some(hosted) = self.nodes.get_mut(&node) else { continue };
            if hosted.messages.next_deadline().is_none_or(|due| due > now) {
                continue;
            }
            hosted.messages.layer.tick(now);
            let unlinked: Vec<NodeName> = hosted.messages.unlinked().cloned().collect();
            let mut pass = Pass { now, pending: vec![node.clone()] };
            for peer in unlinked {
                effects.extend(self.link(&node, &peer, &mut pass));
            }
            self.pump_all(pass, effects);
        }
    }

    /// Handles one output of a node's message layer.
    fn handle_output(
        &mut self,
        node: &NodeName,
        output: Output,
        pass: &mut Pass,
    ) -> Option<Effect> {
        let now = pass.now;
        let hosted = self.nodes.get_mut(node)?;
        match output {
            Output::Connect { node: peer, address } => {
                hosted.messages.links.entry(peer.clone()).or_default().address = Some(address);
                return self.link(node, &peer, pass);
            }
            Output::Disconnect { node: peer } => {
                hosted.messages.links.remove(&peer);
            }
            Output::Frame { node: peer, frame } => {
                return self.forward(
                    node,
                    &peer,
                    CarriedFrame { frame, direct: None, permit: None },
                    pass,
                );
            }
            Output::Multicast { pn, packet } => {
                self.multicast(node, pn, &packet, now);
                pass.mark(node);
            }
            Output::Combine { gn, pn, run } => {
                let sequence = run.sequence;
                if let Some(contribution) =
                    hosted.messages.contribution(node, MemberId { gn, pn }, run)
                {
                    return Some(Effect::Contribute(Box::new(contribution)));
                }
                hosted.messages.layer.combined(now, MemberId { gn, pn }, sequence, None);
                pass.mark(node);
            }
            Output::Withdraw { gn, pn } => hosted.messages.withdraw(MemberId { gn, pn }),
            Output::Deliver { .. }
            | Output::Acknowledged { .. }
            | Output::Room { .. }
            | Output::Roster { .. }
            | Output::Ended { .. } => hosted.messages.notify_process(output),
        }
        None
    }

    /// Links a node to another that is hosted here, or has a stream to it opened.
    fn link(&mut self, node: &NodeName, peer: &NodeName, pass: &mut Pass) -> Option<Effect> {
        if is_alias(peer) {
            let messages = &mut self.nodes.get_mut(node)?.messages;
            messages.links.insert(peer.clone(), PeerLink::direct());
            messages.layer.link_up(pass.now, peer);
            pass.mark(node);
            return None;
        }
        if !self.nodes.contains_key(peer) {
            let link = self.nodes.get_mut(node)?.messages.links.get_mut(peer)?;
            let must_dial = matches!(link.state, LinkState::Down) && !link.is_dialing;
            let address = link.address.clone().filter(|_| must_dial)?;
            link.is_dialing = true;
            return Some(Effect::OpenLink { node: node.clone(), peer: peer.clone(), address });
        }
        let is_up = |node: &NodeName| {
            self.nodes.get(node).is_some_and(|hosted| hosted.operating.phase() == Phase::Up)
        };
        if is_up(node) && is_up(peer) {
            let id = next_link();
            for (at, other) in [(node, peer), (peer, node)] {
                let messages = &mut self.nodes.get_mut(at)?.messages;
                messages.links.entry(other.clone()).or_default().state = LinkState::Local(id);
                messages.layer.link_up(pass.now, other);
                pass.mark(at);
            }
        }
        None
    }

    /// Forwards a frame over the link to the node that it is for. A stream whose queue is full is
    /// cut and opened anew; both ends then repeat what the other has not confirmed.
    fn forward(
        &mut self,
        node: &NodeName,
        peer: &NodeName,
        carried: CarriedFrame,
        pass: &mut Pass,
    ) -> Option<Effect> {
        let hosted = self.nodes.get_mut(node)?;
        match &hosted.messages.links.get(peer)?.state {
            LinkState::Down => None,
            LinkState::Local(_) => {
                let HostedNode { operating, messages, .. } = &mut **self.nodes.get_mut(peer)?;
                messages.receive(pass.now, operating, node, carried);
                pass.mark(peer);
                None
            }
            LinkState::Direct => {
                hosted.messages.send_to_process(&hosted.operating, node, carried);
                None
            }
            LinkState::Stream(stream) => {
                let is_best_effort = matches!(carried.frame.body, Body::BestEffort(_));
                if is_best_effort && !stream.has_room() {
                    return None; // it may be lost, and must not fill the link that others use
                }
                if stream.frames.try_send(carried.into_wire()).is_ok() {
                    return None;
                }
                self.link_anew(node, peer, pass)
            }
        }
    }

    /// Cuts the link to a node, if it is up, and makes it anew.
    fn link_anew(&mut self, node: &NodeName, peer: &NodeName, pass: &mut Pass) -> Option<Effect> {
        let messages = &mut self.nodes.get_mut(node)?.messages;
        let link = messages.links.get_mut(peer)?;
        if let LinkState::Stream(_) = link.state {
            link.state = LinkState::Down;
            messages.layer.link_down(pass.now, peer);
            pass.mark(node);
        }
        self.link(node, peer, pass)
    }

    /// Sends a packet as a member does: to the fabric, and to the members that share its endpoint,
    /// which the fabric does not serve. A packet that the fabric does not take is lost; the unicast
    /// tree carries its message.
    fn multicast(&mut self, node: &NodeName, pn: Pn, packet: &Packet, now: Moment) {
        let Some(hosted) = self.nodes.get_mut(node) else { return };
        let HostedNode { operating, messages, .. } = &mut **hosted;
        let Some(held) = operating.member(packet.gn, pn) else { return };
        let endpoint = &held.member.endpoint;
        let near = operating.accepts(held.mgid, endpoint).map(|near| &near.member);
        for near in near.filter(|near| near.gn == packet.gn && near.pn != pn) {
            messages.layer.packet(now, near.pn, packet);
        }
        if let Some(colors) = held.colors() {
            let _ = self.packets.send(endpoint, held.mgid, colors, &packet.encode());
        }
    }

    /// Gives a node a new message layer, and returns the nodes here that were linked to it.
    fn reset_messages(&mut self, node: &NodeName, now: Moment) -> Vec<NodeName> {
        let Some(hosted) = self.nodes.get_mut(node) else { return Vec::new() };
        let new = NodeMessages::new(node.clone(), hosted.messages.adapters.clone());
        let old = std::mem::replace(&mut hosted.messages, new);
        let is_local = |state: &LinkState| matches!(state, LinkState::Local(_));
        let linked = old.links.into_iter().filter(|(_, link)| is_local(&link.state));
        let linked: Vec<NodeName> = linked.map(|(peer, _)| peer).collect();
        for peer in &linked {
            let Some(other) = self.nodes.get_mut(peer) else { continue };
            if let Some(link) = other.messages.links.get_mut(node) {
                link.state = LinkState::Down;
            }
            other.messages.layer.link_down(now, node);
        }
        linked
    }
}

impl Pass {
    fn mark(&mut self, node: &NodeName) {
        if !self.pending.contains(node) {
            self.pending.push(node.clone());
        }
    }
}
