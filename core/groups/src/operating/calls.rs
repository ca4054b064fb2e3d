//! The calls of local processes: joins and leaves on their way.

use super::{
    Call, CallAnswer, CallError, CallId, Deregister, Gn, GroupName, Join, JoinCall, Joined, Joiner,
    Leave, LeaveCall, Membership, Moment, Oa, OaOutput, Phase, Pn, Refusal, Wish,
};
use crate::ids::Revision;

impl Oa {
    /// Answers a membership by its rank.
    pub fn member(&self, gn: Gn, pn: Pn) -> Option<&Membership> {
        self.memberships.get(gn, pn)
    }

    /// Begins to join a process to a group; the end comes as [`OaOutput::Answered`].
    ///
    /// # Errors
    ///
    /// [`CallError`] if the node is stopped or has too many calls waiting.
    pub fn join(&mut self, now: Moment, wish: JoinCall) -> Result<CallId, CallError> {
        self.call(now, Wish::Join(wish))
    }

    /// Begins to take a process out of a group; the end comes as [`OaOutput::Answered`].
    ///
    /// # Errors
    ///
    /// [`CallError`] if the node is stopped or has too many calls waiting.
    pub fn leave(&mut self, now: Moment, wish: LeaveCall) -> Result<CallId, CallError> {
        self.call(now, Wish::Leave(wish))
    }

    /// Takes the TIC's answer to a join.
    pub fn join_answered(&mut self, now: Moment, id: CallId, answer: Result<Joined, Refusal>) {
        let Some(Call { wish: Wish::Join(_), .. }) = self.calls.get(&id) else { return };
        match answer {
            Ok(joined) => {
                if self.phase != Phase::Up {
                    return; // granted to a life that is over; asked again in the next
                }
                let (gn, pn) = (joined.member.gn, joined.member.pn);
                let held = self.memberships.get(gn, pn);
                if held.is_none_or(|held| held.member != joined.member) {
                    if self.seen.is_doubtful(gn, joined.member.joined) {
                        // It may have ended since. The records say so, and then the call is made again.
                        if let Some(call) = self.calls.get_mut(&id) {
                            call.doubted = true;
                        }
                        return self.fetch(now, gn);
                    }
                    self.end(gn, &[pn]);
                }
                if let Some(call) = self.calls.get_mut(&id) {
                    call.wish = Wish::Seat(gn, pn);
                }
                let agent = joined.group.agent.clone();
                let agent = agent.unwrap_or_else(|| self.identity.node.clone());
                let host = (&agent, &joined.agent_address);
                self.hold(now, &joined.group, host, &joined.member);
                if self.memberships.get(gn, pn).is_some_and(|held| held.position.is_some()) {
                    self.finish_join(gn, pn);
                }
            }
            Err(refusal) => self.refused(id, refusal),
        }
    }

    /// Takes the TIC's answer to a leave: the rank that is free now, and since when.
    pub fn leave_answered(&mut self, id: CallId, answer: Result<(Gn, Pn, Revision), Refusal>) {
        let Some(Call { wish: Wish::Leave(_), .. }) = self.calls.get(&id) else { return };
        match answer {
            Ok((gn, pn, revision)) => {
                self.seen.note(gn, revision);
                // A seat taken again since the leave is not the one that was left.
                let left = self.memberships.get(gn, pn);
                if left.is_some_and(|held| held.member.joined < revision) {
                    self.unplaced.remove(&(gn, pn));
                    self.lose_seat(gn, pn);
                    let left = self.memberships.remove(gn, pn);
                    self.output.extend(left.map(good_bye));
                }
                self.answer(id, CallAnswer::Left);
            }
            Err(refusal) => self.refused(id, refusal),
        }
    }

    fn call(&mut self, now: Moment, wish: Wish) -> Result<CallId, CallError> {
        if self.phase == Phase::Stopped {
            return Err(CallError::Stopped { node: self.identity.node.clone() });
        }
        let limit = self.config.calls;
        if self.calls.len() >= limit {
            return Err(CallError::Busy { limit });
        }
        let id = CallId(self.next_call);
        self.next_call += 1;
        let deadline = now.after(self.config.call_timeout);
        self.calls.insert(id, Call { wish, retry_at: now, deadline, doubted: false });
        if self.phase == Phase::Up {
            self.send_calls(now);
        }
        Ok(id)
    }

    /// Sends the questions to the TIC that are due.
    pub(super) fn send_calls(&mut self, now: Moment) {
        for (id, call) in &mut self.calls {
            if call.retry_at > now {
                continue;
            }
            call.retry_at = now.after(self.config.retry);
            let node = self.identity.node.clone();
            let incarnation = self.incarnation;
            match &call.wish {
                Wish::Join(wish) => {
                    let endpoint = wish.endpoint.as_ref().or(self.identity.endpoints.first());
                    let Some(endpoint) = endpoint.cloned() else { continue };
                    let process = wish.process.clone();
                    let join = Join {
                        request_id: wish.request_id.clone(),
                        group: wish.group.clone(),
                        member: Joiner { node, incarnation, endpoint, process },
                    };
                    self.output.push_back(OaOutput::Join(*id, join));
                }
                Wish::Leave(wish) => {
                    let leave = Leave {
                        request_id: wish.request_id.clone(),
                        group: wish.group.clone(),
                        node,
                        incarnation,
                        process: wish.process.clone(),
                    };
                    self.output.push_back(OaOutput::Leave(*id, leave));
                }
                Wish::Seat(..) => {} // the registration is repeated, not the join
            }
        }
    }

    /// Makes the joins to a group that wait for an answer once more, as the group is known better now.
    pub(super) fn ask_again(&mut self, now: Moment, group: &GroupName) {
        let mut waits = false;
        for call in self.calls.values_mut() {
            if matches!(&call.wish, Wish::Join(wish) if wish.group.name == *group) && call.doubted {
                (call.retry_at, call.doubted, waits) = (now, false, true);
            }
        }
        if waits {
            self.send_calls(now);
        }
    }

    pub(super) fn time_calls_out(&mut self, now: Moment) {
        let late = |(id, call): (&CallId, &Call)| (call.deadline <= now).then_some(*id);
        for id in self.calls.iter().filter_map(late).collect::<Vec<_>>() {
            self.answer(id, CallAnswer::Failed(CallError::TimedOut));
        }
    }

    /// Tells the processes that wait for this seat that they have it.
    pub(super) fn finish_join(&mut self, gn: Gn, pn: Pn) {
        let Some(held) = self.memberships.get(gn, pn).cloned() else { return };
        for id in self.waiting_for(gn, pn) {
            self.answer(id, CallAnswer::Joined(Box::new(held.clone())));
        }
    }

    /// Tells the processes that wait for this seat that it is lost again.
    pub(super) fn lose_seat(&mut self, gn: Gn, pn: Pn) {
        for id in self.waiting_for(gn, pn) {
            // Asking again with the same name tells the process what has become of its request.
            self.answer(id, CallAnswer::Failed(CallError::TimedOut));
        }
    }

    fn waiting_for(&self, gn: Gn, pn: Pn) -> Vec<CallId> {
        let waits = |(id, call): (&CallId, &Call)| match call.wish {
            Wish::Seat(group, rank) if (group, rank) == (gn, pn) => Some(*id),
            Wish::Seat(..) | Wish::Join(_) | Wish::Leave(_) => None,
        };
        self.calls.iter().filter_map(waits).collect()
    }

    /// Passes a refusal on, unless it says that this life is over: then that is looked into, and
    /// the call is made again.
    fn refused(&mut self, id: CallId, refusal: Refusal) {
        if is_about_the_life(&refusal) {
            if self.phase == Phase::Up {
                self.ask_for_admission();
            }
        } else {
            self.answer(id, CallAnswer::Failed(CallError::Refused(refusal)));
        }
    }

    pub(super) fn answer(&mut self, id: CallId, answer: CallAnswer) {
        if self.calls.remove(&id).is_some() {
            self.output.push_back(OaOutput::Answered(id, answer));
        }
    }
}

fn good_bye(left: Membership) -> OaOutput {
    let deregister = Deregister {
        gn: left.member.gn,
        epoch: left.epoch,
        pn: left.member.pn,
        node: left.member.node,
    };
    OaOutput::DeregisterMember { agent: left.agent, address: left.agent_address, deregister }
}

fn is_about_the_life(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::StaleIncarnation { .. }
        | Refusal::NodeFailed { .. }
        | Refusal::UnknownNode { .. } => true,
        Refusal::UnknownGroup { .. }
        | Refusal::NoEndpoints { .. }
        | Refusal::UnknownEndpoint { .. }
        | Refusal::EndpointUnowned { .. }
        | Refusal::EndpointTaken { .. }
        | Refusal::MgidInUse { .. }
        | Refusal::MgidNotClean { .. }
        | Refusal::MgidMismatch { .. }
        | Refusal::MgidOutOfRange { .. }
        | Refusal::NoMgidFree { .. }
        | Refusal::JoinedElsewhere { .. }
        | Refusal::NotAMember { .. }
        | Refusal::MembershipEnded { .. }
        | Refusal::RequestIdReused { .. }
        | Refusal::GroupExists { .. }
        | Refusal::GroupNamedTwice { .. }
        | Refusal::NoMembers { .. }
        | Refusal::UnknownJob { .. }
        | Refusal::JobExists { .. }
        | Refusal::JobEnded { .. }
        | Refusal::EndpointInJob { .. }
        | Refusal::LimitReached { .. } => false,
    }
}
