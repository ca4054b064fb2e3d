//! The lives of the node: announced, admitted, expelled, switched off and on.

use super::{
    Call, CallAnswer, CallError, CallId, Membership, Oa, OaConfig, OaOutput, Phase, Seen, Wish,
};
use crate::Refusal;
use crate::command::RegisterNode;
use crate::ids::{Incarnation, Moment};
use crate::record::{NodeRecord, NodeState};

impl Oa {
    /// Works by another configuration from now on: what is waited for already is waited for as before.
    ///
    /// - `config`: with the same `retry` as before.
    pub fn reconfigure(&mut self, config: OaConfig) {
        self.config = config;
    }

    /// Takes the TIC's answer to an announcement, which is also how a doubt about the present life
    /// is settled.
    pub fn registered(&mut self, now: Moment, answer: Result<NodeRecord, Refusal>) {
        let ours = |node: &NodeRecord| node.start_id == self.start_id;
        match answer {
            _ if self.phase == Phase::Stopped => {}
            // The clock that starts are numbered by was set back.
            Ok(node) if self.phase == Phase::Registering && node.start_id > self.start_id => {
                self.start_id = node.start_id + 1;
                self.announce(now);
            }
            Ok(node) if !ours(&node) => {} // to an earlier announcement
            Ok(node) if node.state == NodeState::Failed => self.restart(now),
            Ok(node) if self.phase == Phase::Up && self.incarnation == node.incarnation => {}
            Ok(node) => {
                self.lose_everything(); // the TIC has forgotten the life it admitted before
                self.phase = Phase::Up;
                self.incarnation = node.incarnation;
                self.output.push_back(OaOutput::Up(node.incarnation));
                self.send_calls(now);
            }
            Err(refusal) => self.output.push_back(OaOutput::NodeRefused(refusal)),
        }
    }

    /// Notes that the TIC has expelled a life of this node.
    pub fn expelled(&mut self, now: Moment, incarnation: Incarnation) {
        if self.phase == Phase::Up && self.incarnation == incarnation {
            self.restart(now);
        }
    }

    /// Switches the node off, as if it had lost power: nothing is said to anybody.
    pub fn stop(&mut self, now: Moment) {
        let waiting: Vec<CallId> = self.calls.keys().copied().collect();
        for id in waiting {
            let node = self.identity.node.clone();
            self.answer(id, CallAnswer::Failed(CallError::Stopped { node }));
        }
        self.lose_everything();
        self.phase = Phase::Stopped;
        self.register_at = now;
    }

    /// Switches a stopped node on again, in a new life without memberships.
    pub fn start(&mut self, now: Moment) {
        if self.phase == Phase::Stopped {
            self.start_id += 1;
            self.announce(now);
        }
    }

    /// Answers a probe with the node's life; `None` if it does not take part.
    pub fn probe(&self) -> Option<Incarnation> {
        (self.phase == Phase::Up).then_some(self.incarnation)
    }

    pub(super) fn announce(&mut self, now: Moment) {
        self.phase = Phase::Registering;
        self.register_at = now.after(self.config.retry);
        self.ask_for_admission();
    }

    pub(super) fn ask_for_admission(&mut self) {
        self.output.push_back(OaOutput::RegisterNode(RegisterNode {
            name: self.identity.node.clone(),
            address: self.identity.address.clone(),
            endpoints: self.identity.endpoints.clone(),
            start_id: self.start_id,
        }));
    }

    /// Begins a new life after an expulsion; the calls that wait go into it.
    fn restart(&mut self, now: Moment) {
        self.lose_everything();
        self.start_id += 1;
        self.announce(now);
    }

    pub(super) fn lose_everything(&mut self) {
        let ended: Vec<Membership> = std::mem::take(&mut self.memberships).into_all();
        self.unplaced.clear();
        self.seen = Seen::default(); // what is late is known by the life it was said of
        self.asked.clear();
        self.unheard.clear();
        if self.phase == Phase::Up {
            self.output.push_back(OaOutput::Down(self.incarnation));
        }
        if !ended.is_empty() {
            self.output.push_back(OaOutput::Ended(ended));
        }
        // A granted seat is gone with the life it was granted to.
        let lost =
            |(id, call): (&CallId, &Call)| matches!(call.wish, Wish::Seat(..)).then_some(*id);
        for id in self.calls.iter().filter_map(lost).collect::<Vec<_>>() {
            let node = self.identity.node.clone();
            let refusal = Refusal::NodeFailed { node };
            self.answer(id, CallAnswer::Failed(CallError::Refused(refusal)));
        }
    }
}
