//! Member tables of the agents: adds and removes members, and marks whose position has changed.

use std::collections::BTreeSet;

use super::{GaHost, MemberState, PeerNode};
use crate::directory::MemberView;
use crate::ids::{Gn, Moment, Pn, Version};
use crate::message::{Enrolment, MembershipStatus, Neighbor, OaReport, PositionUpdate};
use crate::names::NodeName;

impl GaHost {
    /// Exempts a node of the same process from reports if the one that it has just made agrees with
    /// the member tables in everything, and returns whether it does. The owner then leaves reports
    /// out until [`GaHost::take_asked`] names the node, or its memberships change. It calls
    /// [`GaHost::expect_reports`] when the node goes down, for the agents of all memberships that
    /// the node had.
    pub fn exempt(&mut self, now: Moment, report: &OaReport) -> bool {
        let agrees = self.agrees(report);
        if agrees && let Some(peer) = self.peers.get_mut(&report.node) {
            peer.is_exempt = true;
            self.detector.unwatch(&report.node);
        } else {
            self.expect_reports(now, &report.node);
        }
        agrees
    }

    /// Ends the exemption of a node: it is watched as if it had just reported.
    pub fn expect_reports(&mut self, now: Moment, node: &NodeName) {
        let Some(peer) = self.peers.get_mut(node).filter(|peer| peer.is_exempt) else { return };
        peer.is_exempt = false;
        self.asked.insert(node.clone());
        if *node != self.node {
            self.detector.watch(node.clone(), now);
        }
    }

    /// Takes the exempt nodes that are to report once more, because the tables have changed.
    pub fn take_asked(&mut self) -> BTreeSet<NodeName> {
        std::mem::take(&mut self.asked)
    }

    /// Returns the nodes that are exempt from reports.
    pub fn exempt_nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.peers.iter().filter(|(_, peer)| peer.is_exempt).map(|(node, _)| node)
    }

    /// Returns whether a report has exactly the members of its node that snapshots have had, each
    /// with its newest position.
    fn agrees(&self, report: &OaReport) -> bool {
        let has = |status: &MembershipStatus| {
            let Some(agent) = self.groups.get(&status.gn) else { return false };
            agent.members.get(&status.pn).is_some_and(|state| {
                let MemberView { member, incarnation, .. } = &state.view;
                state.confirm_at.is_none()
                    && (&member.node, *incarnation) == (&report.node, report.incarnation)
                    && member.joined == status.joined
                    && (agent.record.epoch, state.version) == (status.epoch, status.version)
            })
        };
        self.peers.get(&report.node).is_some_and(|peer| peer.members == report.memberships.len())
            && report.memberships.iter().all(has)
    }

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
            route: agent.route.clone(),
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
        self.expect_reports(now, node); // it may not know of the member
        let (incarnation, address) = (view.incarnation, view.address.clone());
        let before = self.peers.get(node).map(|peer| (peer.incarnation, peer.members));
        let members = before.map_or(0, |(_, members)| members) + 1;
        if before.is_none_or(|(former, _)| former < incarnation) {
            let peer = PeerNode { incarnation, address, members, is_exempt: false };
            self.peers.insert(node.clone(), peer);
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
        if peer.is_exempt {
            self.asked.insert(node.clone()); // it may still have the member
        }
        peer.members -= 1;
        if peer.members == 0 {
            self.peers.remove(node);
            self.failed.remove(node);
            self.detector.unwatch(node);
        }
    }
}
