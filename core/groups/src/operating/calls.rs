//! Calls of local processes: joins and leaves in progress.

use super::pending_calls::CallStage;
use super::{
    CallAnswer, CallError, CallId, Deregister, Gn, GroupName, Join, JoinCall, Joined, Joiner,
    Leave, LeaveCall, Membership, Moment, Oa, OaOutput, Phase, Pn, TicRefusal, ToldGroup,
};
use crate::ids::Revision;

impl Oa {
    /// Returns a membership by group and rank.
    pub fn member(&self, gn: Gn, pn: Pn) -> Option<&Membership> {
        self.memberships.get(gn, pn)
    }

    /// Starts a join; its result comes as [`OaOutput::Answered`].
    ///
    /// # Errors
    ///
    /// [`CallError`] if the node is stopped or has too many calls waiting.
    pub fn join(&mut self, now: Moment, call: JoinCall) -> Result<CallId, CallError> {
        self.call(now, CallStage::Join(call))
    }

    /// Starts a leave; its result comes as [`OaOutput::Answered`].
    ///
    /// # Errors
    ///
    /// [`CallError`] if the node is stopped or has too many calls waiting.
    pub fn leave(&mut self, now: Moment, call: LeaveCall) -> Result<CallId, CallError> {
        self.call(now, CallStage::Leave(call))
    }

    /// Handles the TIC's answer to a join.
    pub fn join_answered(&mut self, now: Moment, id: CallId, answer: Result<Joined, TicRefusal>) {
        let Some(CallStage::Join(_)) = self.calls.stage(id) else { return };
        match answer {
            Ok(joined) => {
                if self.phase != Phase::Up {
                    return; // granted to an earlier incarnation; repeated in the next
                }
                let (gn, pn) = (joined.member.gn, joined.member.pn);
                let held = self.memberships.get(gn, pn);
                if held.is_none_or(|held| held.member != joined.member) {
                    if self.seen.is_doubtful(gn, joined.member.joined) {
                        // The membership may have ended since. The call is repeated once the
                        // records are known.
                        self.calls.doubt(id);
                        return self.fetch(now, gn);
                    }
                    self.end(gn, &[pn]);
                }
                self.calls.grant(id, gn, pn);
                let agent = joined.group.agent.clone();
                let agent = agent.unwrap_or_else(|| self.identity.node.clone());
                let told = ToldGroup {
                    record: &joined.group,
                    agent: &agent,
                    agent_address: &joined.agent_address,
                    voucher: joined.voucher,
                };
                self.adopt(now, told, &joined.member);
                if self.memberships.get(gn, pn).is_some_and(|held| held.position.is_some()) {
                    self.finish_join(gn, pn);
                }
            }
            Err(refusal) => self.refused(id, refusal),
        }
    }

    /// Handles the TIC's answer to a leave: group, former rank, and revision of the leave.
    pub fn leave_answered(&mut self, id: CallId, answer: Result<(Gn, Pn, Revision), TicRefusal>) {
        let Some(CallStage::Leave(_)) = self.calls.stage(id) else { return };
        match answer {
            Ok((gn, pn, revision)) => {
                self.seen.note(gn, revision);
                // A rank taken again since the leave is another membership.
                let left = self.memberships.get(gn, pn);
                if left.is_some_and(|held| held.member.joined < revision) {
                    self.stop_registering(gn, pn);
                    self.fail_join(gn, pn);
                    let left = self.memberships.remove(gn, pn);
                    self.output.extend(left.map(deregistration));
                }
                self.answer(id, CallAnswer::Left);
            }
            Err(refusal) => self.refused(id, refusal),
        }
    }

    fn call(&mut self, now: Moment, stage: CallStage) -> Result<CallId, CallError> {
        if self.phase == Phase::Stopped {
            return Err(CallError::Stopped { node: self.identity.node.clone() });
        }
        let limit = self.config.calls;
        if self.calls.len() >= limit {
            return Err(CallError::Busy { limit });
        }
        let id = CallId(self.next_call);
        self.next_call += 1;
        let is_up = self.phase == Phase::Up;
        let retry_at = if is_up { now.after(self.config.retry) } else { now };
        self.calls.insert(id, stage, retry_at, now.after(self.config.call_timeout));
        if is_up {
            self.send_call(id);
        }
        Ok(id)
    }

    /// Sends the requests to the TIC that are due.
    pub(super) fn send_calls(&mut self, now: Moment) {
        for id in self.calls.take_due(now, now.after(self.config.retry)) {
            self.send_call(id);
        }
    }

    fn send_call(&mut self, id: CallId) {
        let (node, incarnation) = (self.identity.node.clone(), self.incarnation);
        let request = match self.calls.stage(id) {
            Some(CallStage::Join(call)) => {
                let endpoint = call.endpoint.as_ref().or(self.identity.endpoints.first());
                let Some(endpoint) = endpoint.cloned() else { return };
                let (process, sends_only) = (call.process.clone(), call.sends_only);
                let join = Join {
                    request_id: call.request_id.clone(),
                    group: call.group.clone(),
                    member: Joiner { node, incarnation, endpoint, process, sends_only },
                };
                OaOutput::Join(id, join)
            }
            Some(CallStage::Leave(call)) => {
                let leave = Leave {
                    request_id: call.request_id.clone(),
                    group: call.group.clone(),
                    node,
                    incarnation,
                    process: call.process.clone(),
                };
                OaOutput::Leave(id, leave)
            }
            // The registration of a granted one is repeated, not the join.
            Some(CallStage::Granted(..)) | None => return,
        };
        self.output.push_back(request);
    }

    /// Repeats the joins to a group whose answer was doubted, now that the group is known.
    pub(super) fn retry_doubted_joins(&mut self, now: Moment, group: &GroupName) {
        if self.calls.retry_doubted(now, group) {
            self.send_calls(now);
        }
    }

    pub(super) fn expire_calls(&mut self, now: Moment) {
        for id in self.calls.late(now) {
            self.answer(id, CallAnswer::Failed(CallError::TimedOut));
        }
    }

    /// Answers the calls that wait for this membership.
    pub(super) fn finish_join(&mut self, gn: Gn, pn: Pn) {
        for id in self.calls.waiting_for(gn, pn) {
            let Some(held) = self.memberships.get(gn, pn).cloned() else { return };
            self.answer(id, CallAnswer::Joined(Box::new(held)));
        }
    }

    /// Fails the calls that wait for this membership, because it has ended.
    pub(super) fn fail_join(&mut self, gn: Gn, pn: Pn) {
        for id in self.calls.waiting_for(gn, pn) {
            // A repetition with the same request id gets the final outcome.
            self.answer(id, CallAnswer::Failed(CallError::TimedOut));
        }
    }

    /// Passes a refusal on to the process. A refusal that concerns this incarnation of the node is
    /// checked with the TIC instead, and the call is repeated.
    fn refused(&mut self, id: CallId, refusal: TicRefusal) {
        match refusal {
            TicRefusal::StaleIncarnation if self.phase == Phase::Up => self.send_registration(),
            TicRefusal::StaleIncarnation => {}
            TicRefusal::Final { .. } => {
                self.answer(id, CallAnswer::Failed(CallError::Refused(refusal)));
            }
        }
    }

    pub(super) fn answer(&mut self, id: CallId, answer: CallAnswer) {
        if self.calls.remove(id) {
            self.output.push_back(OaOutput::Answered(id, answer));
        }
    }
}

fn deregistration(left: Membership) -> OaOutput {
    let deregister = Deregister {
        gn: left.member.gn,
        epoch: left.epoch,
        pn: left.member.pn,
        node: left.member.node,
    };
    OaOutput::DeregisterMember { agent: left.agent, address: left.agent_address, deregister }
}
