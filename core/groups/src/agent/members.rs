//! Member tables of the agents: adds and removes members, and marks whose position has changed.

use super::{GaHost, MemberState, PeerNode};
use crate::directory::MemberView;
use crate::ids::{Gn, Moment, Pn, Version};
use crate::message::{Enrolment, Neighbor, PositionUpdate};

impl GaHost {
    pub(super) fn position(&self, gn: Gn, pn: Pn) -> Option<PositionUpdate> {
        let agent = self.groups.get(&gn)?;
        let state = agent.members.get(&pn)?;
        let place = agent.record.tree.position(pn, &agent.live)?;
        let neighbor = |pn: Pn| {
            let view = &agent.members.get(&pn)?.view;
            Some(Neighbor { pn, node: view.member.node.clone(), address: view.address.clone() })
        };
        Some(PositionUpdate {
            gn,
            epoch: agent.record.epoch,
            pn,
            node: state.view.member.node.clone(),
            tree: agent.record.tree,
            parent: place.parent.and_then(neighbor),
            children: place.children.into_iter().filter_map(neighbor).collect(),
            route: agent.record.route.clone(),
            version: state.version,
            enrolment: None,
        })
    }

    /// Returns a membership to send along with its position, while its node may not know it.
    pub(super) fn enrolment(&self, gn: Gn, pn: Pn) -> Option<Box<Enrolment>> {
        let agent = self.groups.get(&gn)?;
        let state = agent.members.get(&pn).filter(|state| !state.is_known)?;
        Some(Box::new(Enrolment {
            group: agent.record.name.clone(),
            mgid: agent.record.mgid,
            member: state.view.clone(),
            agent: self.node.clone(),
            // An agent's node is a member of the group.
            agent_address: self.peers.get(&self.node)?.address.clone(),
            known: agent.known,
            voucher: state.voucher,
        }))
    }

    /// Records that a member's node knows of it.
    pub(super) fn note_known(&mut self, gn: Gn, pn: Pn) {
        if let Some(state) = self.member_mut(gn, pn) {
            state.is_known = true;
        }
    }

    /// Adds a member that no snapshot has had. Its node is not watched before one has it.
    pub(super) fn register_new(&mut self, now: Moment, gn: Gn, view: MemberView) {
        let at = now.after(self.config.detector.report_timeout);
        self.unconfirmed.insert((at, gn, view.member.pn));
        self.insert_member(gn, view, Some(at));
    }

    /// Records that the TIC's snapshot has a member.
    pub(super) fn confirm_member(&mut self, now: Moment, gn: Gn, pn: Pn) {
        let Some(state) = self.member_mut(gn, pn) else { return };
        let Some(at) = state.confirm_at.take() else { return };
        let view = state.view.clone();
        self.unconfirmed.remove(&(at, gn, pn));
        self.watch_peer(now, &view);
    }

    pub(super) fn add_member(&mut self, now: Moment, gn: Gn, view: MemberView) {
        self.watch_peer(now, &view);
        self.insert_member(gn, view, None);
    }

    fn insert_member(&mut self, gn: Gn, view: MemberView, confirm_at: Option<Moment>) {
        let Some(agent) = self.groups.get_mut(&gn) else { return };
        let pn = view.member.pn;
        let colors = agent.record.route.as_ref().and_then(|route| route.colors_for(&view.member));
        let state = MemberState {
            view,
            version: Version(0),
            colors,
            resend_at: None,
            is_known: false,
            voucher: None,
            confirm_at,
        };
        agent.members.insert(pn, Box::new(state));
        agent.live.insert(pn);
        let touched = agent.record.tree.affected(pn, &agent.live);
        self.mark_changed(gn, touched);
    }

    /// Removes a member for another reason than a snapshot.
    pub(super) fn drop_member(&mut self, gn: Gn, pn: Pn) {
        self.remove_member(gn, pn);
        if let Some(agent) = self.groups.get_mut(&gn) {
            agent.matches_snapshot = false;
        }
    }

    pub(super) fn remove_member(&mut self, gn: Gn, pn: Pn) {
        self.confirm_position(gn, pn);
        self.dirty.remove(&(gn, pn));
        let Some(agent) = self.groups.get_mut(&gn) else { return };
        let touched = agent.record.tree.affected(pn, &agent.live);
        agent.live.remove(&pn);
        if let Some(state) = agent.members.remove(&pn) {
            self.release(gn, &state);
        }
        self.mark_changed(gn, touched);
    }

    /// Gives members whose position has changed a new version, to be sent.
    pub(super) fn mark_changed(&mut self, gn: Gn, touched: Vec<Pn>) {
        let Some(agent) = self.groups.get_mut(&gn) else { return };
        for pn in touched {
            if let Some(state) = agent.members.get_mut(&pn) {
                self.last_version = self.last_version.next();
                // The member may hold a higher one than this agent ever gave: see the reports.
                state.version = self.last_version.max(state.version.next());
                self.dirty.insert((gn, pn));
            }
        }
    }

    /// Marks the members whose colors the route has changed; its other fields do not matter to
    /// members.
    pub(super) fn update_colors(&mut self, gn: Gn) {
        let Some(agent) = self.groups.get_mut(&gn) else { return };
        let route = agent.record.route.as_ref();
        let mut changed = Vec::new();
        for (pn, state) in &mut agent.members {
            let colors = route.and_then(|route| route.colors_for(&state.view.member));
            if colors != state.colors {
                state.colors = colors;
                changed.push(*pn);
            }
        }
        self.mark_changed(gn, changed);
    }

    /// Stops sending a position again.
    pub(super) fn confirm_position(&mut self, gn: Gn, pn: Pn) {
        if let Some(due) = self.member_mut(gn, pn).and_then(|state| state.resend_at.take()) {
            self.resend.remove(&(due, gn, pn));
        }
    }

    pub(super) fn member_mut(&mut self, gn: Gn, pn: Pn) -> Option<&mut MemberState> {
        self.groups.get_mut(&gn)?.members.get_mut(&pn).map(Box::as_mut)
    }

    pub(super) fn drop_group(&mut self, gn: Gn) {
        let Some(agent) = self.groups.remove(&gn) else { return };
        for (pn, state) in agent.members {
            self.dirty.remove(&(gn, pn));
            if let Some(due) = state.resend_at {
                self.resend.remove(&(due, gn, pn));
            }
            self.release(gn, &state);
        }
    }

    /// Counts a member on a node. The node is watched from its first member on; a new incarnation
    /// replaces the former one.
    fn watch_peer(&mut self, now: Moment, view: &MemberView) {
        let node = &view.member.node;
        let (incarnation, address) = (view.incarnation, view.address.clone());
        let before = self.peers.get(node).map(|peer| (peer.incarnation, peer.members));
        let members = before.map_or(0, |(_, members)| members) + 1;
        if before.is_none_or(|(former, _)| former < incarnation) {
            self.peers.insert(node.clone(), PeerNode { incarnation, address, members });
            self.failed.remove(node);
            if *node != self.node {
                self.detector.watch(node.clone(), now);
            }
        } else if let Some(peer) = self.peers.get_mut(node) {
            peer.members = members;
        }
    }

    /// Forgets what a removed member was watched, or is asked for.
    fn release(&mut self, gn: Gn, state: &MemberState) {
        let node = &state.view.member.node;
        if let Some(at) = state.confirm_at {
            self.unconfirmed.remove(&(at, gn, state.view.member.pn));
            return;
        }
        let Some(peer) = self.peers.get_mut(node) else { return };
        peer.members -= 1;
        if peer.members == 0 {
            self.peers.remove(node);
            self.failed.remove(node);
            self.detector.unwatch(node);
        }
    }
}
