//! The operating agent of one node: which groups its processes are members of.
//!
//! A join goes first to the TIC, whose answer is durable, and then to the group's agent, which
//! answers with the place in the unicast tree. Only then is the process answered. Both requests are
//! repeated until they are answered or the call times out. A membership that another party created
//! arrives from the group's agent together with its place, and with a voucher of the TIC. If an
//! agent knows more or less than expected (a new epoch, a membership that has ended), the node
//! fetches the group from the TIC, whose records decide; so it does some time after an agent has
//! told it of a membership.
//!
//! Call an input, then drain [`Oa::poll_output`]; call [`Oa::tick`] at [`Oa::next_deadline`] and
//! send [`Oa::reports`] at fixed intervals.
//!
//! Departure from the paper: a leave is answered once the TIC has recorded it. The group's agent is
//! told at once, but its answer is not awaited, since it learns of the leave from the TIC anyway.
//!
//! Invariants
//! - OA-1: a position of an older epoch or version is never adopted (G4), and none of an epoch that
//!   the TIC has not told of, or of a sender that is not its agent.
//! - OA-2: after a snapshot the node's memberships in the group are the TIC's at that revision,
//!   plus later joins; the TIC is asked for those that only an agent has told of.
//! - OA-3: a node that is not up has no memberships and accepts no packets.
//! - OA-4: a membership that an agent tells of is taken only with a voucher for the epoch, the
//!   agent and the present start of the node; without one the TIC is asked.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fabricast_topology::Mgid;

use crate::command::{Join, Joined, Joiner, Leave};
use crate::directory::{GroupSnapshot, MemberView};
use crate::fetches::{PendingFetches, may_be_later};
use crate::ids::{Gn, Incarnation, Moment, Pn, Revision};
use crate::message::{
    AgentRefusal, Deregister, MAX_VERSION, MembershipStatus, OaReport, OaReportReply,
    PositionRefusal, PositionUpdate, Register,
};
use crate::names::{Address, EndpointName, GroupName, NodeName, ProcessName};
use crate::record::{GroupRecord, MemberRecord};
use crate::refusal::TicRefusal;
use crate::voucher::{Voucher, VoucherKey, VoucherSeed};

mod calls;
mod interface;
mod lifecycle;
mod memberships;
mod pending_calls;
mod seen;
#[cfg(test)]
mod tests;

pub use interface::{
    CallAnswer, CallError, CallId, Identity, JoinCall, LeaveCall, OaConfig, OaOutput, Phase,
};
pub use memberships::Membership;
use memberships::Memberships;
use pending_calls::PendingCalls;
use seen::SeenRevisions;

/// The operating agent of one node.
#[derive(Clone, Debug)]
pub struct Oa {
    identity: Identity,
    config: OaConfig,
    phase: Phase,
    start_id: u64,
    seed: VoucherSeed,
    voucher_key: VoucherKey, // of this start
    incarnation: Incarnation,
    register_at: Moment, // when to repeat the registration
    memberships: Memberships,
    unplaced: BTreeMap<(Gn, Pn), Unplaced>, // members without a position
    fetches: PendingFetches,                // groups being fetched
    awaited_replies: BTreeMap<NodeName, Moment>, // hosts that owe an answer, until when
    seen: SeenRevisions,                    // older answers of the TIC are ignored
    calls: PendingCalls,
    next_call: u64,
    output: VecDeque<OaOutput>,
}

/// A member without a position.
#[derive(Clone, Copy, Debug)]
struct Unplaced {
    register_at: Moment, // when to register again
    voucher: Option<Voucher>,
}

/// A group as the TIC has told of it, for a member on this node.
#[derive(Clone, Copy)]
struct ToldGroup<'a> {
    record: &'a GroupRecord,
    /// Node of its agent.
    agent: &'a NodeName,
    agent_address: &'a Address,
    /// Of the member's join, for the agent.
    voucher: Option<Voucher>,
}

impl Oa {
    /// Creates the agent of a node and registers the node.
    ///
    /// - `start_id`: number of this start, normally higher than those of all earlier starts of the
    ///   node. If it is not, the agent continues from the number that the TIC reports.
    /// - `seed`: random, unless vouchers need not be trusted.
    pub fn new(
        now: Moment,
        identity: Identity,
        start_id: u64,
        seed: VoucherSeed,
        config: OaConfig,
    ) -> Self {
        let voucher_key = seed.key(&identity.node, start_id);
        let mut oa = Self {
            identity,
            config,
            phase: Phase::Stopped,
            start_id,
            seed,
            voucher_key,
            incarnation: Incarnation(0),
            register_at: now,
            memberships: Memberships::default(),
            unplaced: BTreeMap::new(),
            fetches: PendingFetches::new(config.retry),
            awaited_replies: BTreeMap::new(),
            seen: SeenRevisions::default(),
            calls: PendingCalls::default(),
            next_call: 0,
            output: VecDeque::new(),
        };
        oa.announce(now);
        oa
    }

    /// Returns the node's name, address and endpoints.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the phase of the node.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the node's incarnation; the latest one while the node is not up.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns one report for each host of group agents, with the host's node and address. Call it
    /// once per report interval.
    pub fn reports(&mut self, now: Moment) -> Vec<(NodeName, Address, OaReport)> {
        if self.phase != Phase::Up {
            return Vec::new();
        }
        let mut by_host: BTreeMap<&NodeName, (&Address, Vec<MembershipStatus>)> = BTreeMap::new();
        for membership in self.memberships.iter() {
            let host = by_host.entry(&membership.agent);
            let (_, statuses) = host.or_insert((&membership.agent_address, Vec::new()));
            statuses.push(membership.status());
        }
        let due = now.after(self.config.host_timeout);
        self.awaited_replies.retain(|host, _| by_host.contains_key(host));
        for host in by_host.keys() {
            self.awaited_replies.entry((*host).clone()).or_insert(due);
        }
        let report = |memberships| OaReport {
            node: self.identity.node.clone(),
            incarnation: self.incarnation,
            memberships,
        };
        let report = |(host, (address, statuses)): (&NodeName, (&Address, Vec<_>))| {
            (host.clone(), address.clone(), report(statuses))
        };
        by_host.into_iter().map(report).collect()
    }

    /// Handles a host's answer to a report.
    pub fn report_answered(&mut self, now: Moment, host: &NodeName, reply: &OaReportReply) {
        self.awaited_replies.remove(host);
        if self.awaited_replies.is_empty() {
            self.awaited_replies.clear(); // an emptied map keeps a node
        }
        for update in &reply.positions {
            // A refused position triggers its own fetch.
            let _ = self.take_position(now, update, |agent| agent == host);
        }
        for (gn, _) in &reply.unknown {
            self.fetch(now, *gn);
        }
    }

    /// Adopts a position that a group agent has sent. It counts only from the agent that the TIC
    /// has named for the epoch; before that the group is fetched, and the agent sends it again.
    ///
    /// - `may_speak_for`: returns whether the sender may act for a node.
    ///
    /// # Errors
    ///
    /// [`PositionRefusal`] if the position is not for this incarnation of the node, does not come
    /// from the agent of the group, or has a version above [`MAX_VERSION`].
    pub fn position(
        &mut self,
        now: Moment,
        update: &PositionUpdate,
        may_speak_for: impl Fn(&NodeName) -> bool,
    ) -> Result<(), PositionRefusal> {
        if update.version > MAX_VERSION {
            return Err(PositionRefusal::VersionOutOfRange {
                gn: update.gn,
                given: update.version,
            });
        }
        self.take_position(now, update, may_speak_for)
    }

    /// Adopts a position, also of a version that only the agent's answers have: after somebody else
    /// gave the member a high one.
    fn take_position(
        &mut self,
        now: Moment,
        update: &PositionUpdate,
        may_speak_for: impl Fn(&NodeName) -> bool,
    ) -> Result<(), PositionRefusal> {
        if self.phase != Phase::Up || update.node != self.identity.node {
            return Err(PositionRefusal::NotUp { node: update.node.clone() });
        }
        let (gn, pn, given) = (update.gn, update.pn, update.epoch);
        if !self.enrol(now, update, &may_speak_for) {
            self.fetch(now, gn); // ended, or not known to be newer
            return Err(PositionRefusal::UnknownMember { gn, pn });
        }
        let membership = self.memberships.get_mut(gn, pn).expect("it is enrolled");
        let known = membership.epoch;
        if given < known {
            if membership.confirm_at.is_some() {
                self.fetch(now, gn); // its epoch is the word of an agent
            }
            return Err(PositionRefusal::StaleEpoch { gn, given, known });
        }
        if given > known || !may_speak_for(&membership.agent) {
            self.fetch(now, gn); // the TIC knows the agent
            return Err(PositionRefusal::UnknownAgent { gn, given });
        }
        let held = membership.position.as_ref().map(|held| (held.epoch, held.version));
        if held < Some((given, update.version)) {
            membership.position = Some(PositionUpdate { enrolment: None, ..update.clone() });
        }
        self.stop_registering(gn, pn);
        self.finish_join(gn, pn);
        Ok(())
    }

    /// Handles a group agent's answer to a registration.
    pub fn member_registered(
        &mut self,
        now: Moment,
        gn: Gn,
        pn: Pn,
        answer: Result<PositionUpdate, AgentRefusal>,
    ) {
        match answer {
            // The agent that was asked answers, and only for the member it was asked for.
            Ok(update) if (update.gn, update.pn) == (gn, pn) => {
                // A refused position triggers its own fetch.
                let _ = self.take_position(now, &update, |_| true);
            }
            Ok(_other) => {}
            // The agent has moved, or has not been appointed yet: the TIC knows.
            Err(_) if self.memberships.get(gn, pn).is_some() => self.fetch(now, gn),
            Err(_) => {}
        }
    }

    /// Returns whether the membership of a position is known, or may be adopted from the position
    /// (OA-4). The TIC is asked for an adopted one later: it may have ended since the voucher was
    /// made.
    fn enrol(
        &mut self,
        now: Moment,
        update: &PositionUpdate,
        may_speak_for: impl Fn(&NodeName) -> bool,
    ) -> bool {
        let held = self.memberships.get(update.gn, update.pn);
        let Some(enrolment) = &update.enrolment else { return held.is_some() };
        let view = &enrolment.member;
        if let Some(held) = held {
            return held.member == view.member;
        }
        let is_new = may_speak_for(&enrolment.agent)
            && (view.member.gn, view.member.pn) == (update.gn, update.pn)
            && (&view.member.node, view.incarnation) == (&update.node, self.incarnation)
            && view.member.joined <= enrolment.known
            // Later records that the node has seen had no such membership, whatever the agent says.
            && !self.seen.is_doubtful(update.gn, view.member.joined)
            // An earlier membership of the process must have ended; the TIC's snapshot tells of
            // both.
            && self.memberships.of_process(&enrolment.group, &view.member.process).is_none()
            && enrolment.is_vouched(update.epoch, &self.voucher_key);
        if is_new {
            self.memberships.insert(Membership {
                group: enrolment.group.clone(),
                mgid: enrolment.mgid,
                member: view.member.clone(),
                epoch: update.epoch,
                agent: enrolment.agent.clone(),
                agent_address: enrolment.agent_address.clone(),
                position: None,
                confirm_at: Some(now.after(self.confirmation_delay(update.gn, update.pn))),
            });
        }
        is_new
    }

    /// Time after which the TIC is asked for a membership that an agent has told of: between one
    /// and nine times `host_timeout`, so that the members of a formed group do not ask at once.
    fn confirmation_delay(&self, gn: Gn, pn: Pn) -> Duration {
        let turn = u32::try_from((gn.0 % 64 + u64::from(pn.0)) % 64).unwrap_or(0);
        self.config.host_timeout * (8 + turn) / 8
    }

    /// Handles the TIC's snapshot of a group (OA-2).
    pub fn group(&mut self, now: Moment, snapshot: &GroupSnapshot) {
        let gn = snapshot.group.gn;
        if self.phase != Phase::Up || self.seen.is_doubtful(gn, snapshot.revision) {
            return; // the fetch stays open and is repeated
        }
        self.seen.note(gn, snapshot.revision);
        let asked = self.fetches.sent(gn);
        if self.fetches.answered(now, gn) {
            self.output.push_back(OaOutput::FetchGroup(gn));
        }
        let here = |view: &&MemberView| {
            view.member.node == self.identity.node && view.incarnation == self.incarnation
        };
        let stays: BTreeMap<Pn, &MemberRecord> = snapshot
            .members
            .iter()
            .filter(here)
            .map(|view| (view.member.pn, &view.member))
            .collect();
        let ended = self.memberships.of_group(gn).filter(|held| {
            let ours = &held.member;
            let is_later = may_be_later(ours.joined, held.confirm_at, snapshot.revision, asked);
            !is_later && stays.get(&ours.pn) != Some(&ours)
        });
        let ended: Vec<Pn> = ended.map(|held| held.member.pn).collect();
        self.end(gn, &ended);
        let agent = snapshot.group.agent.as_ref().zip(snapshot.agent_address.as_ref());
        let Some((agent, agent_address)) = agent else { return };
        let record = &snapshot.group;
        let told = ToldGroup { record, agent, agent_address, voucher: None };
        for member in stays.into_values() {
            self.adopt(now, told, member);
        }
        self.retry_doubted_joins(now, &snapshot.group.name);
    }

    /// Handles the TIC's answer that a group does not exist at a revision: all memberships in it
    /// have ended.
    pub fn no_group(&mut self, gn: Gn, revision: Revision) {
        self.fetches.forget(gn);
        self.seen.note(gn, revision);
        let ended: Vec<Pn> = self.memberships.of_group(gn).map(|held| held.member.pn).collect();
        self.end(gn, &ended);
    }

    /// Returns the memberships that a packet to an MGID, received at an endpoint, is for: not those
    /// that only send.
    pub fn accepts(
        &self,
        mgid: Mgid,
        endpoint: &EndpointName,
    ) -> impl Iterator<Item = &Membership> {
        let held = self.memberships.at_address(mgid, endpoint);
        held.filter(|held| !held.member.sends_only)
    }

    /// Returns all memberships, by GN and PN.
    pub fn memberships(&self) -> impl Iterator<Item = &Membership> {
        self.memberships.iter()
    }

    /// Returns the membership of a process in a group.
    pub fn membership(&self, group: &GroupName, process: &ProcessName) -> Option<&Membership> {
        self.memberships.of_process(group, process)
    }

    /// Handles everything that is due at `now`.
    pub fn tick(&mut self, now: Moment) {
        self.expire_calls(now);
        match self.phase {
            Phase::Stopped => {}
            Phase::Registering if self.register_at <= now => self.announce(now),
            Phase::Registering => {}
            Phase::Up => {
                self.send_calls(now);
                self.refetch_from_silent_hosts(now);
                let due = |(key, waiting): (&(Gn, Pn), &Unplaced)| {
                    (waiting.register_at <= now).then_some((*key, waiting.voucher))
                };
                for ((gn, pn), voucher) in self.unplaced.iter().filter_map(due).collect::<Vec<_>>()
                {
                    self.register_member(now, gn, pn, voucher);
                }
                while let Some(gn) = self.memberships.take_due(now) {
                    self.fetch(now, gn);
                }
                let unanswered = self.fetches.due(now).into_iter();
                self.output.extend(unanswered.map(OaOutput::FetchGroup));
            }
        }
    }

    /// Returns the next output; call it until it returns `None`.
    pub fn poll_output(&mut self) -> Option<OaOutput> {
        let next = self.output.pop_front();
        if next.is_none() {
            self.output.shrink_to_fit(); // outputs are large, and most nodes have none for long
        }
        next
    }

    /// Returns when to call [`Oa::tick`] next, at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let retry = (self.phase == Phase::Up).then(|| self.calls.next_retry()).flatten();
        let calls = self.calls.next_deadline().into_iter().chain(retry);
        let registering = (self.phase == Phase::Registering).then_some(self.register_at);
        let unplaced = self.unplaced.values().map(|waiting| waiting.register_at);
        let waiting = unplaced.chain(self.awaited_replies.values().copied());
        let waiting = waiting.chain(self.memberships.next_confirmation());
        calls.chain(waiting).chain(self.fetches.next_deadline()).chain(registering).min()
    }

    /// Fetches the groups of hosts that do not answer reports: if an agent died together with its
    /// group, no other party would tell the members.
    fn refetch_from_silent_hosts(&mut self, now: Moment) {
        let silent = self.awaited_replies.iter().filter(|(_, due)| **due <= now);
        for host in silent.map(|(host, _)| host.clone()).collect::<Vec<_>>() {
            let hosted = self.memberships.iter().filter(|held| held.agent == host);
            for gn in hosted.map(|held| held.member.gn).collect::<Vec<_>>() {
                self.fetch(now, gn);
            }
            self.awaited_replies.insert(host, now.after(self.config.host_timeout));
        }
    }

    /// Adopts a membership that the TIC has recorded, and registers it if it is new here.
    fn adopt(&mut self, now: Moment, group: ToldGroup<'_>, member: &MemberRecord) {
        let ToldGroup { record: group, agent, agent_address, voucher } = group;
        let told = Membership {
            group: group.name.clone(),
            mgid: group.mgid,
            member: member.clone(),
            epoch: group.epoch,
            agent: agent.clone(),
            agent_address: agent_address.clone(),
            position: None,
            confirm_at: None,
        };
        match self.memberships.get_mut(group.gn, member.pn) {
            Some(held) if held.confirm_at.is_none() || held.keeps_its_place_as(&told) => {
                if group.epoch >= held.epoch {
                    held.epoch = group.epoch;
                    (held.agent, held.agent_address) = (told.agent, told.agent_address);
                }
                self.memberships.confirm(group.gn, member.pn);
                return;
            }
            // The answer may be older than the agent; the TIC is asked once more.
            Some(held) if held.epoch > told.epoch && held.confirm_at.is_some_and(|at| now < at) => {
                return;
            }
            // Somebody else than its agent has told of it.
            Some(_) | None => self.memberships.insert(told),
        }
        self.register_member(now, group.gn, member.pn, voucher);
    }

    fn register_member(&mut self, now: Moment, gn: Gn, pn: Pn, voucher: Option<Voucher>) {
        let Some(held) = self.memberships.get(gn, pn) else {
            self.stop_registering(gn, pn);
            return;
        };
        let register_at = now.after(self.config.retry);
        self.unplaced.insert((gn, pn), Unplaced { register_at, voucher });
        let member = MemberView {
            member: held.member.clone(),
            incarnation: self.incarnation,
            address: self.identity.address.clone(),
        };
        self.output.push_back(OaOutput::RegisterMember {
            agent: held.agent.clone(),
            address: held.agent_address.clone(),
            register: Register { gn, epoch: held.epoch, member, voucher },
        });
    }

    /// Forgets that a member has no position.
    fn stop_registering(&mut self, gn: Gn, pn: Pn) {
        self.unplaced.remove(&(gn, pn));
        if self.unplaced.is_empty() {
            self.unplaced.clear(); // an emptied map keeps a node
        }
    }

    fn fetch(&mut self, now: Moment, gn: Gn) {
        if self.phase == Phase::Up && self.fetches.request(now, gn) {
            self.output.push_back(OaOutput::FetchGroup(gn));
        }
    }

    fn end(&mut self, gn: Gn, pns: &[Pn]) {
        let mut ended = Vec::new();
        for pn in pns {
            self.stop_registering(gn, *pn);
            ended.extend(self.memberships.remove(gn, *pn));
            self.fail_join(gn, *pn);
        }
        if !ended.is_empty() {
            self.output.push_back(OaOutput::Ended(ended));
        }
    }
}
