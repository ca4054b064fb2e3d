//! Places in the trees, as group agents tell them; with the first one a node may learn of the membership itself.

use super::{Membership, Oa, Phase};
use crate::ids::{Gn, Moment, Pn};
use crate::message::{AgentRefusal, PositionRefusal, PositionUpdate};

impl Oa {
    /// Takes a position over, pushed by a group agent or answered by it.
    ///
    /// # Errors
    ///
    /// [`PositionRefusal`] if the position is not for this node as it is now, or from an agent of
    /// the past.
    pub fn position(
        &mut self,
        now: Moment,
        update: &PositionUpdate,
    ) -> Result<(), PositionRefusal> {
        if self.phase != Phase::Up || update.node != self.identity.node {
            return Err(PositionRefusal::NotUp { node: update.node.clone() });
        }
        let (gn, pn, given) = (update.gn, update.pn, update.epoch);
        if !self.enrol(update) {
            self.fetch(now, gn); // ended, or not known to be newer
            return Err(PositionRefusal::UnknownMember { gn, pn });
        }
        let membership = self.memberships.get_mut(gn, pn).expect("it is enrolled");
        let known = membership.epoch;
        if given < known {
            return Err(PositionRefusal::StaleEpoch { gn, given, known });
        }
        let held = membership.position.as_ref().map(|held| (held.epoch, held.version));
        if held < Some((given, update.version)) {
            membership.position = Some(PositionUpdate { enrolment: None, ..update.clone() });
            membership.epoch = given;
        }
        self.unplaced.remove(&(gn, pn));
        if given > known {
            self.fetch(now, gn); // where the new agent lives, the TIC says
        }
        self.finish_join(gn, pn);
        Ok(())
    }

    /// Takes the answer of a group agent to a registration.
    pub fn member_registered(
        &mut self,
        now: Moment,
        gn: Gn,
        pn: Pn,
        answer: Result<PositionUpdate, AgentRefusal>,
    ) {
        match answer {
            Ok(update) => {
                // A refused one asks for what it needs itself.
                let _ = self.position(now, &update);
            }
            // The agent has moved, or is not in office yet: the TIC says which.
            Err(_) if self.memberships.get(gn, pn).is_some() => self.fetch(now, gn),
            Err(_) => {}
        }
    }

    /// Answers whether a membership is held that a position is for, or may be taken over from the position.
    fn enrol(&mut self, update: &PositionUpdate) -> bool {
        let held = self.memberships.get(update.gn, update.pn);
        let Some(enrolment) = &update.enrolment else { return held.is_some() };
        let view = &enrolment.member;
        if let Some(held) = held {
            return held.member == view.member;
        }
        let is_new = (view.member.gn, view.member.pn) == (update.gn, update.pn)
            && (&view.member.node, view.incarnation) == (&update.node, self.incarnation)
            && !self.seen.is_doubtful(update.gn, enrolment.known)
            // What the process had in the group has ended, then; the TIC says of both.
            && self.memberships.of_process(&enrolment.group, &view.member.process).is_none();
        if is_new {
            self.memberships.insert(Membership {
                group: enrolment.group.clone(),
                mgid: enrolment.mgid,
                member: view.member.clone(),
                epoch: update.epoch,
                agent: enrolment.agent.clone(),
                agent_address: enrolment.agent_address.clone(),
                position: None,
            });
        }
        is_new
    }
}
