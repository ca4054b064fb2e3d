//! Handles the TIC's answers about the groups hosted here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Agent, GaHost, GaOutput, MemberState};
use crate::directory::{GroupSnapshot, MemberView};
use crate::fetches::may_be_later;
use crate::ids::{Gn, Moment, Pn, Revision};
use crate::record::GroupRecord;

impl GaHost {
    /// Handles the TIC's snapshot of a group: an appointment, a change, or the end of an
    /// appointment.
    pub fn snapshot(&mut self, now: Moment, snapshot: &GroupSnapshot) {
        let gn = snapshot.group.gn;
        if self.groups.get(&gn).is_some_and(|agent| snapshot.revision < agent.known) {
            return; // overtaken by a newer one
        }
        let asked = self.fetches.sent(gn);
        if self.fetches.answered(now, gn) {
            self.output.push_back(GaOutput::Refresh { gn });
        }
        // An agent's node is a member. A fetch of an earlier incarnation appoints no agent in this
        // one.
        let is_ours = |view: &MemberView| {
            (&view.member.node, view.incarnation) == (&self.node, self.incarnation)
        };
        if snapshot.group.agent.as_ref() != Some(&self.node)
            || !snapshot.members.iter().any(is_ours)
        {
            self.drop_group(gn);
            return;
        }
        if self.groups.get(&gn).is_some_and(|a| a.record.epoch != snapshot.group.epoch) {
            self.drop_group(gn); // appointed again in another epoch, with a new table
        }
        let agent = self.groups.entry(gn).or_insert_with(|| Agent {
            record: snapshot.group.clone(),
            route: None,
            known: snapshot.revision,
            members: BTreeMap::new(),
            live: BTreeSet::new(),
            matches_snapshot: true,
        });
        agent.set_record(&snapshot.group);
        agent.known = snapshot.revision;
        agent.matches_snapshot = true;
        let stays: BTreeMap<Pn, &MemberView> =
            snapshot.members.iter().map(|view| (view.member.pn, view)).collect();
        let leavers = agent.members.iter().filter(|(pn, state)| {
            let told = stays.get(pn);
            told != Some(&&state.view)
                && (told.is_some() || !state.may_be_later(asked, snapshot.revision))
        });
        for pn in leavers.map(|(pn, _)| *pn).collect::<Vec<_>>() {
            self.remove_member(gn, pn);
        }
        for view in &snapshot.members {
            let pn = view.member.pn;
            if self.groups[&gn].members.contains_key(&pn) {
                self.confirm_member(now, gn, pn);
            } else {
                self.add_member(now, gn, view.clone());
            }
            if let Some(state) = self.member_mut(gn, pn) {
                state.voucher = snapshot.vouchers.get(&pn).copied().or(state.voucher);
            }
        }
        self.update_colors(gn);
    }

    /// Handles the TIC's answer that the members of a group are still those of
    /// [`GaHost::whole_at`].
    pub fn same_members(&mut self, now: Moment, revision: Revision, group: &GroupRecord) {
        let gn = group.gn;
        if self.groups.get(&gn).is_some_and(|agent| revision < agent.known) {
            return; // overtaken by a newer one
        }
        let asked = self.fetches.sent(gn);
        let mut asks = self.fetches.answered(now, gn);
        let of_record = |record: &GroupRecord| (record.members_revision, record.epoch);
        match self.groups.get_mut(&gn) {
            Some(agent)
                if agent.matches_snapshot && of_record(&agent.record) == of_record(group) =>
            {
                agent.set_record(group);
                agent.known = revision;
                let leavers = agent.members.iter().filter(|(_, state)| {
                    state.confirm_at.is_some() && !state.may_be_later(asked, revision)
                });
                for pn in leavers.map(|(pn, _)| *pn).collect::<Vec<_>>() {
                    self.remove_member(gn, pn);
                }
                self.update_colors(gn);
            }
            // Another epoch, or a member was removed meanwhile: only a snapshot will do.
            at_odds => {
                if let Some(agent) = at_odds {
                    agent.matches_snapshot = false;
                }
                asks |= self.fetches.request(now, gn);
            }
        }
        if asks {
            self.output.push_back(GaOutput::Refresh { gn });
        }
    }

    /// Returns the revision of the membership that the table has; `None` if it needs a snapshot.
    pub fn whole_at(&self, gn: Gn) -> Option<Revision> {
        let agent = self.groups.get(&gn).filter(|agent| agent.matches_snapshot)?;
        Some(agent.record.members_revision)
    }

    /// Handles the TIC's answer that the group does not exist.
    pub fn gone(&mut self, gn: Gn) {
        self.fetches.forget(gn);
        self.drop_group(gn);
    }
}

impl Agent {
    fn set_record(&mut self, record: &GroupRecord) {
        if self.route.as_deref() != record.route.as_ref() {
            self.route = record.route.clone().map(Arc::new);
        }
        self.record.clone_from(record);
    }
}

impl MemberState {
    /// Returns whether the member may have joined after a revision that the TIC was asked for.
    fn may_be_later(&self, asked: Option<Moment>, revision: Revision) -> bool {
        may_be_later(self.view.member.joined, self.confirm_at, revision, asked)
    }
}
