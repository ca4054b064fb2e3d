//! The operating agent of one node: what its processes are members of, and how it got there.
//!
//! A join goes to the TIC, whose answer is durable, and then to the group's agent, whose answer is
//! the place in the tree; only then the process is told. Both questions are repeated until they
//! are answered or the caller's time is up. A membership formed by somebody else comes from the
//! group's agent with its place. Whatever else an agent knows better or does not know (a new epoch, a
//! membership that has ended) makes the node fetch the group from the TIC, whose records decide.
//!
//! Call an input, then drain [`Oa::poll_output`]; call [`Oa::tick`] when [`Oa::next_deadline`]
//! has come; send [`Oa::reports`] at fixed intervals.
//!
//! Departure from the paper: a leave is answered once the TIC has recorded it. The group's agent
//! is told at once but not waited for, as it would hear from the TIC anyway.
//!
//! Invariants
//! - OA-1: a position of an older epoch or version is never taken over (G4).
//! - OA-2: after a snapshot the node's memberships in the group are the TIC's at that revision,
//!   plus later joins.
//! - OA-3: a node that is not up has no memberships and accepts no packets.

use std::collections::{BTreeMap, VecDeque};

use fabricast_routing::Mgid;

use crate::Refusal;
use crate::asked::Asked;
use crate::command::{Join, Joined, Joiner, Leave};
use crate::directory::{GroupSnapshot, MemberView};
use crate::ids::{Gn, Incarnation, Moment, Pn, Revision};
use crate::message::{Deregister, MembershipStatus, OaReport, OaReportReply, Register};
use crate::names::{Address, EndpointName, GroupName, NodeName, ProcessName};
use crate::record::{GroupRecord, MemberRecord};

mod calls;
mod interface;
mod life;
mod memberships;
mod positions;
mod seen;
#[cfg(test)]
mod tests;

pub use interface::{
    CallAnswer, CallError, CallId, Identity, JoinCall, LeaveCall, OaConfig, OaOutput, Phase,
};
pub use memberships::Membership;
use memberships::Memberships;
use seen::Seen;

/// The operating agent of one node.
#[derive(Clone, Debug)]
pub struct Oa {
    identity: Identity,
    config: OaConfig,
    phase: Phase,
    start_id: u64,
    incarnation: Incarnation,
    register_at: Moment, // when to announce the node again
    memberships: Memberships,
    unplaced: BTreeMap<(Gn, Pn), Moment>, // members without a position: when to register again
    asked: Asked,                         // groups being fetched
    unheard: BTreeMap<NodeName, Moment>,  // hosts that owe an answer: when to stop waiting
    seen: Seen,                           // groups in the records; older views would undo it
    calls: BTreeMap<CallId, Call>,
    next_call: u64,
    output: VecDeque<OaOutput>,
}

#[derive(Clone, Debug)]
struct Call {
    wish: Wish,
    retry_at: Moment,
    deadline: Moment,
    doubted: bool, // its answer was, as it might be out of date
}

#[derive(Clone, Debug)]
enum Wish {
    Join(JoinCall),
    Seat(Gn, Pn), // the TIC has granted the join; the place is awaited
    Leave(LeaveCall),
}

impl Oa {
    /// Creates the agent of a node and announces the node.
    ///
    /// - `start_id`: higher than those of all earlier starts of the node, or it is made so when the TIC says which it
    ///   has seen; counted on from there.
    pub fn new(now: Moment, identity: Identity, start_id: u64, config: OaConfig) -> Self {
        let mut oa = Self {
            identity,
            config,
            phase: Phase::Stopped,
            start_id,
            incarnation: Incarnation(0),
            register_at: now,
            memberships: Memberships::default(),
            unplaced: BTreeMap::new(),
            asked: Asked::new(config.retry),
            unheard: BTreeMap::new(),
            seen: Seen::default(),
            calls: BTreeMap::new(),
            next_call: 0,
            output: VecDeque::new(),
        };
        oa.announce(now);
        oa
    }

    /// Answers what the node is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Answers whether the node takes part.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Answers the node's life; that of the last admission while it is not up.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Answers the reports that are due, one for each host of group agents: its node, its address
    /// and what to say. Call it once in every interval.
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
        self.unheard.retain(|host, _| by_host.contains_key(host));
        for host in by_host.keys() {
            self.unheard.entry((*host).clone()).or_insert(due);
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

    /// Takes a host's answer to a report.
    pub fn report_answered(&mut self, now: Moment, host: &NodeName, reply: &OaReportReply) {
        self.unheard.remove(host);
        for update in &reply.positions {
            // A refused one asks for what it needs itself.
            let _ = self.position(now, update);
        }
        for (gn, _) in &reply.unknown {
            self.fetch(now, *gn);
        }
    }

    /// Takes the TIC's view of a group over.
    pub fn group(&mut self, now: Moment, snapshot: &GroupSnapshot) {
        let gn = snapshot.group.gn;
        if self.phase != Phase::Up || self.seen.is_doubtful(gn, snapshot.revision) {
            return; // the question is still open and is asked again
        }
        self.seen.note(gn, snapshot.revision);
        if self.asked.answered(now, gn) {
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
            ours.joined <= snapshot.revision && stays.get(&ours.pn) != Some(&ours)
        });
        let ended: Vec<Pn> = ended.map(|held| held.member.pn).collect();
        self.end(gn, &ended);
        let agent = snapshot.group.agent.as_ref().zip(snapshot.agent_address.as_ref());
        let Some((agent, address)) = agent else { return };
        for member in stays.into_values() {
            self.hold(now, &snapshot.group, (agent, address), member);
        }
        self.ask_again(now, &snapshot.group.name);
    }

    /// Notes that the TIC has no such group at a revision: all memberships in it have ended.
    pub fn no_group(&mut self, gn: Gn, revision: Revision) {
        self.asked.forget(gn);
        self.seen.note(gn, revision);
        let ended: Vec<Pn> = self.memberships.of_group(gn).map(|held| held.member.pn).collect();
        self.end(gn, &ended);
    }

    /// Answers the memberships that a packet is for.
    pub fn accepts(
        &self,
        mgid: Mgid,
        endpoint: &EndpointName,
    ) -> impl Iterator<Item = &Membership> {
        self.memberships.at_address(mgid, endpoint)
    }

    /// Answers all memberships, by GN and PN.
    pub fn memberships(&self) -> impl Iterator<Item = &Membership> {
        self.memberships.iter()
    }

    /// Answers a process's membership in a group.
    pub fn membership(&self, group: &GroupName, process: &ProcessName) -> Option<&Membership> {
        self.memberships.of_process(group, process)
    }

    /// Draws the consequences of time passing.
    pub fn tick(&mut self, now: Moment) {
        self.time_calls_out(now);
        match self.phase {
            Phase::Stopped => {}
            Phase::Registering if self.register_at <= now => self.announce(now),
            Phase::Registering => {}
            Phase::Up => {
                self.send_calls(now);
                self.doubt_hosts(now);
                let due = |(key, at): (&(Gn, Pn), &Moment)| (*at <= now).then_some(*key);
                for key in self.unplaced.iter().filter_map(due).collect::<Vec<_>>() {
                    self.register_member(now, key);
                }
                let unanswered = self.asked.due(now).into_iter();
                self.output.extend(unanswered.map(OaOutput::FetchGroup));
            }
        }
    }

    /// Answers the next thing to do.
    pub fn poll_output(&mut self) -> Option<OaOutput> {
        self.output.pop_front()
    }

    /// Answers when to call [`Oa::tick`] at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let calls = self.calls.values().map(|call| match self.phase {
            Phase::Up => call.deadline.min(call.retry_at),
            Phase::Registering | Phase::Stopped => call.deadline,
        });
        let registering = (self.phase == Phase::Registering).then_some(self.register_at);
        let waiting = self.unplaced.values().chain(self.unheard.values()).copied();
        calls.chain(waiting).chain(self.asked.next_deadline()).chain(registering).min()
    }

    /// Asks the TIC about the groups of hosts that answer no reports: an agent that died with its
    /// group leaves nobody who would tell the members.
    fn doubt_hosts(&mut self, now: Moment) {
        let silent = self.unheard.iter().filter(|(_, due)| **due <= now);
        for host in silent.map(|(host, _)| host.clone()).collect::<Vec<_>>() {
            let hosted = self.memberships.iter().filter(|held| held.agent == host);
            for gn in hosted.map(|held| held.member.gn).collect::<Vec<_>>() {
                self.fetch(now, gn);
            }
            self.unheard.insert(host, now.after(self.config.host_timeout));
        }
    }

    /// Holds a membership that the TIC has, and registers it if it is new here.
    fn hold(
        &mut self,
        now: Moment,
        group: &GroupRecord,
        agent: (&NodeName, &Address),
        member: &MemberRecord,
    ) {
        let (agent, agent_address) = (agent.0.clone(), agent.1.clone());
        if let Some(held) = self.memberships.get_mut(group.gn, member.pn) {
            if group.epoch >= held.epoch {
                (held.epoch, held.agent, held.agent_address) = (group.epoch, agent, agent_address);
            }
            return;
        }
        self.memberships.insert(Membership {
            group: group.name.clone(),
            mgid: group.mgid,
            member: member.clone(),
            epoch: group.epoch,
            agent,
            agent_address,
            position: None,
        });
        self.register_member(now, (group.gn, member.pn));
    }

    fn register_member(&mut self, now: Moment, (gn, pn): (Gn, Pn)) {
        let Some(held) = self.memberships.get(gn, pn) else {
            self.unplaced.remove(&(gn, pn));
            return;
        };
        self.unplaced.insert((gn, pn), now.after(self.config.retry));
        let member = MemberView {
            member: held.member.clone(),
            incarnation: self.incarnation,
            address: self.identity.address.clone(),
        };
        self.output.push_back(OaOutput::RegisterMember {
            agent: held.agent.clone(),
            address: held.agent_address.clone(),
            register: Register { gn, epoch: held.epoch, member },
        });
    }

    fn fetch(&mut self, now: Moment, gn: Gn) {
        if self.phase == Phase::Up && self.asked.news(now, gn) {
            self.output.push_back(OaOutput::FetchGroup(gn));
        }
    }

    fn end(&mut self, gn: Gn, pns: &[Pn]) {
        let mut ended = Vec::new();
        for pn in pns {
            self.unplaced.remove(&(gn, *pn));
            ended.extend(self.memberships.remove(gn, *pn));
            self.lose_seat(gn, *pn);
        }
        if !ended.is_empty() {
            self.output.push_back(OaOutput::Ended(ended));
        }
    }
}
