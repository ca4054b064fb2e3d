//! The member tables of the agents: who sits where, and who must be told of a change.

use super::{GaHost, PeerNode, Seat};
use crate::directory::MemberView;
use crate::ids::{Gn, Moment, Pn, Version};
use crate::message::{Enrolment, Neighbor, PositionUpdate};
use crate::names::NodeName;
use crate::tree;

impl GaHost {
    pub(super) fn position(&self, gn: Gn, pn: Pn) -> Option<PositionUpdate> {
        let agent = self.groups.get(&gn)?;
        let seat = agent.seats.get(&pn)?;
        let place = tree::position(pn, &agent.live)?;
        let neighbor = |pn: Pn| {
            let view = &agent.seats.get(&pn)?.view;
            Some(Neighbor { pn, node: view.member.node.clone(), address: view.address.clone() })
        };
        Some(PositionUpdate {
            gn,
            epoch: agent.record.epoch,
            pn,
            node: seat.view.member.node.clone(),
            parent: place.parent.and_then(neighbor),
            children: place.children.into_iter().filter_map(neighbor).collect(),
            route: agent.record.route.clone(),
            version: seat.version,
            enrolment: None,
        })
    }

    /// A membership for its node, if that may not have heard of it.
    pub(super) fn enrolment(&self, gn: Gn, pn: Pn) -> Option<Box<Enrolment>> {
        let agent = self.groups.get(&gn)?;
        let seat = agent.seats.get(&pn).filter(|seat| !seat.is_known)?;
        Some(Box::new(Enrolment {
            group: agent.record.name.clone(),
            mgid: agent.record.mgid,
            member: seat.view.clone(),
            agent: self.node.clone(),
            // An agent's node is a member of the group.
            agent_address: self.peers.get(&self.node)?.address.clone(),
            known: agent.known,
        }))
    }

    /// Notes that a member's node knows of it.
    pub(super) fn note_known(&mut self, gn: Gn, pn: Pn) {
        if let Some(seat) = self.seat_mut(gn, pn) {
            seat.is_known = true;
        }
    }

    pub(super) fn add_seat(&mut self, now: Moment, gn: Gn, view: MemberView) {
        self.meet(now, &view);
        let Some(agent) = self.groups.get_mut(&gn) else { return };
        let pn = view.member.pn;
        let colors = agent.record.route.as_ref().and_then(|route| route.colors_for(&view.member));
        let version = Version(0);
        agent.seats.insert(pn, Seat { view, version, colors, resend_at: None, is_known: false });
        agent.live.insert(pn);
        let touched = tree::affected(pn, &agent.live);
        self.touch(gn, touched);
    }

    /// Takes a member out on other grounds than a snapshot.
    pub(super) fn take_out(&mut self, gn: Gn, pn: Pn) {
        self.remove_seat(gn, pn);
        if let Some(agent) = self.groups.get_mut(&gn) {
            agent.is_whole = false;
        }
    }

    pub(super) fn remove_seat(&mut self, gn: Gn, pn: Pn) {
        self.confirm(gn, pn);
        self.dirty.remove(&(gn, pn));
        let Some(agent) = self.groups.get_mut(&gn) else { return };
        let touched = tree::affected(pn, &agent.live);
        agent.live.remove(&pn);
        if let Some(seat) = agent.seats.remove(&pn) {
            self.part(&seat.view.member.node);
        }
        self.touch(gn, touched);
    }

    /// Gives the members whose place has changed a new version to be told.
    pub(super) fn touch(&mut self, gn: Gn, touched: Vec<Pn>) {
        let Some(agent) = self.groups.get_mut(&gn) else { return };
        for pn in touched {
            if let Some(seat) = agent.seats.get_mut(&pn) {
                self.last_version = self.last_version.next();
                seat.version = self.last_version;
                self.dirty.insert((gn, pn));
            }
        }
    }

    /// Tells the members for whom the route's colors have changed; the rest of it is news to nobody.
    pub(super) fn recolor(&mut self, gn: Gn) {
        let Some(agent) = self.groups.get_mut(&gn) else { return };
        let route = agent.record.route.as_ref();
        let mut changed = Vec::new();
        for (pn, seat) in &mut agent.seats {
            let colors = route.and_then(|route| route.colors_for(&seat.view.member));
            if colors != seat.colors {
                seat.colors = colors;
                changed.push(*pn);
            }
        }
        self.touch(gn, changed);
    }

    /// Stops sending a position again.
    pub(super) fn confirm(&mut self, gn: Gn, pn: Pn) {
        if let Some(due) = self.seat_mut(gn, pn).and_then(|seat| seat.resend_at.take()) {
            self.resend.remove(&(due, gn, pn));
        }
    }

    pub(super) fn seat_mut(&mut self, gn: Gn, pn: Pn) -> Option<&mut Seat> {
        self.groups.get_mut(&gn)?.seats.get_mut(&pn)
    }

    pub(super) fn drop_group(&mut self, gn: Gn) {
        let Some(agent) = self.groups.remove(&gn) else { return };
        for (pn, seat) in agent.seats {
            self.dirty.remove(&(gn, pn));
            if let Some(due) = seat.resend_at {
                self.resend.remove(&(due, gn, pn));
            }
            self.part(&seat.view.member.node);
        }
    }

    /// Counts a seat of a node, and watches the node from its first; a new life starts afresh.
    pub(super) fn meet(&mut self, now: Moment, view: &MemberView) {
        let node = &view.member.node;
        let (incarnation, address) = (view.incarnation, view.address.clone());
        let before = self.peers.get(node).map(|peer| (peer.incarnation, peer.seats));
        let seats = before.map_or(0, |(_, seats)| seats) + 1;
        if before.is_none_or(|(life, _)| life < incarnation) {
            self.peers.insert(node.clone(), PeerNode { incarnation, address, seats });
            self.failed.remove(node);
            if *node != self.node {
                self.detector.watch(node.clone(), now);
            }
        } else if let Some(peer) = self.peers.get_mut(node) {
            peer.seats = seats;
        }
    }

    pub(super) fn part(&mut self, node: &NodeName) {
        let Some(peer) = self.peers.get_mut(node) else { return };
        peer.seats -= 1;
        if peer.seats == 0 {
            self.peers.remove(node);
            self.failed.remove(node);
            self.detector.unwatch(node);
        }
    }
}
