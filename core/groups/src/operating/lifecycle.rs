//! Lifecycle of the node: registration, admission, expulsion, stop and start.

use super::{CallAnswer, CallError, Membership, Oa, OaConfig, OaOutput, Phase, SeenRevisions};
use crate::command::RegisterNode;
use crate::ids::{Incarnation, Moment};
use crate::record::{NodeRecord, NodeState};
use crate::refusal::TicRefusal;
use crate::voucher::VoucherKey;

impl Oa {
    /// Replaces the configuration; timeouts that already run are not affected.
    ///
    /// - `config`: with the same `retry` as before.
    pub fn reconfigure(&mut self, config: OaConfig) {
        self.config = config;
    }

    /// Handles the TIC's answer to a registration. A registration is also sent to check whether the
    /// present incarnation is still valid.
    pub fn registered(&mut self, now: Moment, answer: Result<NodeRecord, TicRefusal>) {
        let ours = |node: &NodeRecord| node.start_id == self.start_id;
        match answer {
            _ if self.phase == Phase::Stopped => {}
            // The clock that start ids are taken from was set back.
            Ok(node) if self.phase == Phase::Registering && node.start_id > self.start_id => {
                self.start_id = node.start_id.saturating_add(1);
                self.announce(now);
            }
            Ok(node) if !ours(&node) => {} // answers an earlier registration
            Ok(node) if node.state == NodeState::Failed => self.restart(now),
            Ok(node) if self.phase == Phase::Up && self.incarnation == node.incarnation => {}
            Ok(node) => {
                self.reset(); // the TIC no longer knows the incarnation it admitted before
                self.phase = Phase::Up;
                self.incarnation = node.incarnation;
                self.output.push_back(OaOutput::Up(node.incarnation));
                self.send_calls(now);
            }
            Err(refusal) => self.output.push_back(OaOutput::NodeRefused(refusal)),
        }
    }

    /// Records that the TIC has expelled an incarnation of this node.
    pub fn expelled(&mut self, now: Moment, incarnation: Incarnation) {
        if self.phase == Phase::Up && self.incarnation == incarnation {
            self.restart(now);
        }
    }

    /// Stops the node without a message to any other party, as a loss of power would.
    pub fn stop(&mut self, now: Moment) {
        for id in self.calls.ids() {
            let node = self.identity.node.clone();
            self.answer(id, CallAnswer::Failed(CallError::Stopped { node }));
        }
        self.reset();
        self.phase = Phase::Stopped;
        self.register_at = now;
    }

    /// Starts a stopped node, in a new incarnation without memberships.
    pub fn start(&mut self, now: Moment) {
        if self.phase == Phase::Stopped {
            self.start_id += 1;
            self.announce(now);
        }
    }

    /// Answers a probe with the node's incarnation; `None` if the node is not up.
    pub fn probe(&self) -> Option<Incarnation> {
        (self.phase == Phase::Up).then_some(self.incarnation)
    }

    /// Returns the key of the present start, under which the TIC vouches to this node.
    pub fn voucher_key(&self) -> VoucherKey {
        self.voucher_key
    }

    pub(super) fn announce(&mut self, now: Moment) {
        self.phase = Phase::Registering;
        self.voucher_key = self.seed.key(&self.identity.node, self.start_id);
        self.register_at = now.after(self.config.retry);
        self.send_registration();
    }

    pub(super) fn send_registration(&mut self) {
        self.output.push_back(OaOutput::RegisterNode(RegisterNode {
            name: self.identity.node.clone(),
            address: self.identity.address.clone(),
            endpoints: self.identity.endpoints.clone(),
            start_id: self.start_id,
            voucher_key: Some(self.voucher_key),
        }));
    }

    /// Starts a new incarnation after an expulsion; open calls continue in it.
    fn restart(&mut self, now: Moment) {
        self.reset();
        self.start_id += 1;
        self.announce(now);
    }

    pub(super) fn reset(&mut self) {
        let ended: Vec<Membership> = std::mem::take(&mut self.memberships).into_all();
        self.unplaced.clear();
        self.seen = SeenRevisions::default(); // late answers carry the former incarnation
        self.fetches.clear();
        self.awaited_replies.clear();
        if self.phase == Phase::Up {
            self.output.push_back(OaOutput::Down(self.incarnation));
        }
        if !ended.is_empty() {
            self.output.push_back(OaOutput::Ended(ended));
        }
        // A granted membership ended with the incarnation it was granted to.
        for id in self.calls.granted() {
            let refusal = TicRefusal::StaleIncarnation;
            self.answer(id, CallAnswer::Failed(CallError::Refused(refusal)));
        }
    }
}
