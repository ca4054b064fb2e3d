//! What the TIC says of the groups hosted here.

use std::collections::{BTreeMap, BTreeSet};

use super::{Agent, GaHost, GaOutput};
use crate::directory::{GroupSnapshot, MemberView};
use crate::ids::{Gn, Moment, Pn, Revision};
use crate::record::GroupRecord;

impl GaHost {
    /// Takes the TIC's view of a group over: an appointment, a change, or the end of the office.
    pub fn snapshot(&mut self, now: Moment, snapshot: &GroupSnapshot) {
        let gn = snapshot.group.gn;
        if self.groups.get(&gn).is_some_and(|agent| snapshot.revision < agent.known) {
            return; // overtaken by a newer one
        }
        if self.asked.answered(now, gn) {
            self.output.push_back(GaOutput::Refresh { gn });
        }
        // An agent's node is a member. What was asked for in an earlier life appoints nobody in this one.
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
            self.drop_group(gn); // another office; its members are met anew
        }
        let agent = self.groups.entry(gn).or_insert_with(|| Agent {
            record: snapshot.group.clone(),
            known: snapshot.revision,
            seats: BTreeMap::new(),
            live: BTreeSet::new(),
            is_whole: true,
        });
        agent.record = snapshot.group.clone();
        agent.known = snapshot.revision;
        agent.is_whole = true;
        let stays: BTreeMap<Pn, &MemberView> =
            snapshot.members.iter().map(|view| (view.member.pn, view)).collect();
        let leavers: Vec<Pn> = agent
            .seats
            .iter()
            .filter(|(pn, seat)| {
                seat.view.member.joined <= snapshot.revision && stays.get(pn) != Some(&&seat.view)
            })
            .map(|(pn, _)| *pn)
            .collect();
        for pn in leavers {
            self.remove_seat(gn, pn);
        }
        for view in &snapshot.members {
            let taken = self.groups[&gn].seats.contains_key(&view.member.pn);
            if !taken {
                self.add_seat(now, gn, view.clone());
            }
        }
        self.recolor(gn);
    }

    /// Takes the TIC's view of a group over whose members are still those of [`GaHost::whole_at`].
    pub fn same_members(&mut self, now: Moment, revision: Revision, group: &GroupRecord) {
        let gn = group.gn;
        if self.groups.get(&gn).is_some_and(|agent| revision < agent.known) {
            return; // overtaken by a newer one
        }
        let mut asks = self.asked.answered(now, gn);
        let of_record = |record: &GroupRecord| (record.members_revision, record.epoch);
        match self.groups.get_mut(&gn) {
            Some(agent) if agent.is_whole && of_record(&agent.record) == of_record(group) => {
                agent.record = group.clone();
                agent.known = revision;
                self.recolor(gn);
            }
            // Another office, or somebody was taken out meanwhile: only a snapshot will do.
            at_odds => {
                if let Some(agent) = at_odds {
                    agent.is_whole = false;
                }
                asks |= self.asked.news(now, gn);
            }
        }
        if asks {
            self.output.push_back(GaOutput::Refresh { gn });
        }
    }

    /// Answers which revision of the members the table has at least; `None` if only a snapshot tells.
    pub fn whole_at(&self, gn: Gn) -> Option<Revision> {
        let agent = self.groups.get(&gn).filter(|agent| agent.is_whole)?;
        Some(agent.record.members_revision)
    }

    /// Notes that the TIC has no such group.
    pub fn gone(&mut self, gn: Gn) {
        self.asked.forget(gn);
        self.drop_group(gn);
    }
}
