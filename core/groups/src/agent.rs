//! Group agents: one host runs the agents of all groups assigned to its node.
//!
//! An agent works from the TIC's snapshot of its group, tells every member its place in the unicast
//! tree, and watches the members' nodes. No message needs to arrive: positions are sent until an
//! answer or a report confirms them, snapshots are fetched until they arrive, and a failed node is
//! reported, at growing intervals, until a snapshot is free of it or it reports again, because the
//! TIC probes the node before it expels it. Every message of an agent carries its epoch, and the
//! agent rejects messages of another epoch (G4).
//!
//! A node of the same process need not report over and over: see [`GaHost::exempt`].
//!
//! Call an input, then drain [`GaHost::poll_output`]; call [`GaHost::tick`] at
//! [`GaHost::next_deadline`].
//!
//! Invariants
//! - GA-1: after a snapshot the member table is the TIC's at that revision, plus members that
//!   registered with a later join (G2). They take nobody's rank, and the TIC is asked for them
//!   after a report timeout.
//! - GA-2: the pending output is at most one position per member, and one probe, one report and one
//!   refresh per node or group.
//! - GA-3: a member that no snapshot has had is added only with a voucher of the TIC for its join,
//!   the epoch and this incarnation of the node; without one the TIC is asked.
//! - GA-4: each member of an exempt node is one that its last report agreed with. The owner is
//!   asked for another report when such a member is removed, and the node is watched again when
//!   another member of it is added.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::detector::{Detector, DetectorOutput};
use crate::directory::{HostedGroup, MemberView, Verdict};
use crate::fetches::PendingFetches;
use crate::ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision, Version};
use crate::message::{
    AgentRefusal, Deregister, MAX_VERSION, OaReport, OaReportReply, PositionUpdate, Register,
};
use crate::names::{Address, NodeName};
use crate::record::{Colors, GroupRecord, Route};
use crate::voucher::{Voucher, VoucherKey};

mod interface;
mod members;
mod records;
#[cfg(test)]
mod tests;

pub use interface::{GaConfig, GaOutput};

/// Highest version of a position that a member may report: one that somebody else gave it, and many
/// changes since.
const MAX_REPORTED_VERSION: Version = Version(MAX_VERSION.0 + (1 << 32));

/// The group agents of one node.
#[derive(Clone, Debug)]
pub struct GaHost {
    node: NodeName,
    incarnation: Incarnation,
    voucher_key: VoucherKey, // of this incarnation
    config: GaConfig,
    groups: BTreeMap<Gn, Agent>,
    peers: BTreeMap<NodeName, PeerNode>,
    detector: Detector<NodeName>,
    failed: BTreeMap<NodeName, FailureReport>, // reported to the TIC until expelled or heard of again
    asked: BTreeSet<NodeName>,                 // exempt nodes that are to report once more
    fetches: PendingFetches,                   // snapshots being fetched
    dirty: BTreeSet<(Gn, Pn)>,                 // positions to send
    resend: BTreeSet<(Moment, Gn, Pn)>,        // positions sent and not confirmed
    unconfirmed: BTreeSet<(Moment, Gn, Pn)>,   // members to ask the TIC for
    last_version: Version, // shared by all groups, so that an agent dropped and appointed again in one epoch continues
    output: VecDeque<GaOutput>,
}

#[derive(Clone, Debug)]
struct Agent {
    record: GroupRecord,
    route: Option<Arc<Route>>, // that of `record`, for the positions of all members
    known: Revision,           // of the snapshot
    members: BTreeMap<Pn, Box<MemberState>>, // boxed: map nodes are half empty
    live: BTreeSet<Pn>,        // the keys of `members`, as `tree` takes them
    matches_snapshot: bool,    // no member of the snapshot was removed since
}

#[derive(Clone, Debug)]
struct MemberState {
    view: MemberView,
    version: Version,
    colors: Option<Colors>, // as last sent
    resend_at: Option<Moment>,
    is_known: bool,             // its node has registered or reported it
    voucher: Option<Voucher>,   // of the snapshot, for its node
    confirm_at: Option<Moment>, // it registered, and no snapshot has had it
}

/// Repeated report to the TIC that a node has failed.
#[derive(Clone, Copy, Debug)]
struct FailureReport {
    due: Moment,
    pause: Duration, // until the next report; doubles each time
}

#[derive(Clone, Debug)]
struct PeerNode {
    incarnation: Incarnation,
    address: Address,
    members: usize,
    is_exempt: bool, // from reports
}

impl GaHost {
    /// Creates a host without groups, for one incarnation of a node; a later one needs a new host.
    ///
    /// - `voucher_key`: that the node has sent to the TIC in this incarnation.
    pub fn new(
        node: NodeName,
        incarnation: Incarnation,
        voucher_key: VoucherKey,
        config: GaConfig,
    ) -> Self {
        Self {
            node,
            incarnation,
            voucher_key,
            config,
            groups: BTreeMap::new(),
            peers: BTreeMap::new(),
            detector: Detector::new(config.detector),
            failed: BTreeMap::new(),
            asked: BTreeSet::new(),
            fetches: PendingFetches::new(config.retry),
            dirty: BTreeSet::new(),
            resend: BTreeSet::new(),
            unconfirmed: BTreeSet::new(),
            last_version: Version(0),
            output: VecDeque::new(),
        }
    }

    /// Replaces the configuration; watched nodes get the full new timeouts.
    ///
    /// - `config`: with the same `retry` as before.
    pub fn reconfigure(&mut self, now: Moment, config: GaConfig) {
        self.config = config;
        self.detector.reconfigure(now, config.detector);
    }

    /// Returns the name of the node.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Returns the incarnation of the node that this host belongs to.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Registers a member, which may be newer than the TIC's snapshot if the TIC has vouched for it
    /// (GA-3).
    ///
    /// # Errors
    ///
    /// [`AgentRefusal`] if this is not the group's agent in that epoch, the process is not a
    /// member, or another one has its rank; the caller should fetch the group from the TIC and try
    /// again. A newer member without a voucher is sent its place once the TIC has told of it.
    pub fn register(
        &mut self,
        now: Moment,
        register: &Register,
    ) -> Result<PositionUpdate, AgentRefusal> {
        let (gn, pn) = (register.gn, register.member.member.pn);
        let key = self.voucher_key;
        let agent = self.agent_in_epoch(now, gn, register.epoch)?;
        let asks = &register.member;
        let is_later = asks.member.joined > agent.known;
        match agent.members.get(&pn) {
            Some(state) if state.view.member == asks.member => {}
            None if is_later && register.is_vouched(&key) => {
                self.register_new(now, gn, asks.clone());
            }
            Some(_) | None => {
                if is_later {
                    self.refresh(now, gn); // a former process may have left, or this one joined
                }
                return Err(AgentRefusal::UnknownMember { gn, pn });
            }
        }
        self.dirty.remove(&(gn, pn)); // the answer carries it
        self.confirm_position(gn, pn);
        self.note_known(gn, pn);
        Ok(self.position(gn, pn).expect("the member was added just now"))
    }

    /// Removes a member that has left.
    ///
    /// # Errors
    ///
    /// [`AgentRefusal`] if this is not the group's agent in that epoch. The caller need not retry,
    /// since the right agent learns of the leave from the TIC.
    pub fn deregister(&mut self, now: Moment, leaver: &Deregister) -> Result<(), AgentRefusal> {
        let agent = self.agent_in_epoch(now, leaver.gn, leaver.epoch)?;
        let state = agent.members.get(&leaver.pn);
        if state.is_some_and(|state| state.view.member.node == leaver.node) {
            self.drop_member(leaver.gn, leaver.pn);
        }
        // The message may be old and the rank taken again; the snapshot decides.
        self.refresh(now, leaver.gn);
        Ok(())
    }

    /// Handles a node's report: records that the node is alive and returns what it is behind on.
    pub fn report(&mut self, now: Moment, report: &OaReport) -> OaReportReply {
        let mut reply = OaReportReply::default();
        let known = self.peers.get(&report.node).map(|peer| peer.incarnation);
        if known == Some(report.incarnation) {
            if self.failed.remove(&report.node).is_some() {
                self.detector.watch(report.node.clone(), now); // the TIC has probed it and kept it
            }
            self.detector.heard(&report.node, now);
        }
        for status in &report.memberships {
            let (gn, pn) = (status.gn, status.pn);
            let Some(agent) = self.groups.get_mut(&gn) else {
                self.refresh(now, gn);
                reply.unknown.push((gn, pn));
                continue;
            };
            if status.epoch > agent.record.epoch {
                self.refresh(now, gn); // replaced, or appointed again
                continue;
            }
            let state = agent.members.get_mut(&pn).filter(|state| {
                state.view.member.node == report.node
                    && state.view.incarnation == report.incarnation
                    && state.view.member.joined == status.joined
            });
            let Some(state) = state else {
                self.refresh(now, gn); // this agent or the node is behind the TIC
                reply.unknown.push((gn, pn));
                continue;
            };
            state.is_known = true;
            if status.epoch == agent.record.epoch
                && status.version > state.version
                && status.version <= MAX_REPORTED_VERSION
            {
                // Somebody else gave it that version, and it accepts no lower one. Other members
                // are not concerned, since a node may also report what is not so.
                state.version = status.version.next();
            }
            if status.epoch != agent.record.epoch || status.version != state.version {
                reply.positions.extend(self.position(gn, pn));
            } else if let Some(due) = state.resend_at.take() {
                self.resend.remove(&(due, gn, pn)); // the position has arrived
            }
        }
        reply
    }

    /// Records that a node has taken a position: it is not sent again.
    pub fn position_taken(&mut self, update: &PositionUpdate) {
        let Some(agent) = self.groups.get(&update.gn) else { return };
        let state = agent.members.get(&update.pn);
        if agent.record.epoch == update.epoch
            && state.is_some_and(|state| state.version == update.version)
        {
            self.confirm_position(update.gn, update.pn);
        }
    }

    /// Records a node's answer to a probe.
    pub fn probe_answered(
        &mut self,
        now: Moment,
        node: &NodeName,
        incarnation: Incarnation,
        probe: u64,
    ) {
        if self.peers.get(node).is_some_and(|peer| peer.incarnation == incarnation) {
            self.detector.probe_answered(node, probe, now);
        }
    }

    /// Records that a connection to a node has closed.
    pub fn hint_closed(&mut self, now: Moment, node: &NodeName) {
        self.detector.hint_closed(node, now);
        self.drain_detector(now);
    }

    /// Returns the status report of this host's groups for the TIC.
    pub fn status(&self) -> Vec<HostedGroup> {
        let hosted = |(gn, agent): (&Gn, &Agent)| HostedGroup {
            gn: *gn,
            epoch: agent.record.epoch,
            known: agent.known,
        };
        self.groups.iter().map(hosted).collect()
    }

    /// Handles the TIC's answer to the status report.
    pub fn verdict(&mut self, now: Moment, verdict: &Verdict) {
        if verdict.expelled {
            let all: Vec<Gn> = self.groups.keys().copied().collect();
            for gn in all {
                self.drop_group(gn);
            }
            self.fetches.clear();
            return;
        }
        for gn in &verdict.drop {
            self.drop_group(*gn);
        }
        for gn in &verdict.refresh {
            self.refresh(now, *gn);
        }
    }

    /// Fetches a group's snapshot, now or after the fetch in flight. Also called when a hint
    /// arrives.
    pub fn refresh(&mut self, now: Moment, gn: Gn) {
        if self.fetches.request(now, gn) {
            self.output.push_back(GaOutput::Refresh { gn });
        }
    }

    /// Returns a group's record and all members with their places, as its agent here knows them.
    pub fn query(&self, gn: Gn) -> Option<(&GroupRecord, Vec<(&MemberView, PositionUpdate)>)> {
        let agent = self.groups.get(&gn)?;
        let place = |(pn, state)| self.position(gn, pn).map(|position| (state, position));
        let members = agent.members.iter().map(|(pn, state)| (*pn, &state.view)).filter_map(place);
        Some((&agent.record, members.collect()))
    }

    /// Returns the members of a group as its agent here knows them, by rank.
    pub fn members(&self, gn: Gn) -> Option<impl Iterator<Item = &MemberView>> {
        Some(self.groups.get(&gn)?.members.values().map(|state| &state.view))
    }

    /// Returns the nodes that host members and are watched.
    pub fn watched(&self) -> impl Iterator<Item = &NodeName> {
        self.detector.peers()
    }

    /// Handles everything that is due at `now`.
    pub fn tick(&mut self, now: Moment) {
        self.detector.poll(now);
        self.drain_detector(now);
        let most = self.config.detector.report_timeout.max(self.config.retry);
        for (node, report) in self.failed.iter_mut().filter(|(_, report)| report.due <= now) {
            let pause = report.pause;
            *report = FailureReport { due: now.after(pause), pause: (pause * 2).min(most) };
            if let Some(peer) = self.peers.get(node) {
                let (node, incarnation) = (node.clone(), peer.incarnation);
                self.output.push_back(GaOutput::NodeFailed { node, incarnation });
            }
        }
        let unanswered = self.fetches.due(now).into_iter();
        self.output.extend(unanswered.map(|gn| GaOutput::Refresh { gn }));
        while let Some((due, gn, pn)) = self.resend.first().copied() {
            if due > now {
                break;
            }
            self.confirm_position(gn, pn);
            self.dirty.insert((gn, pn));
        }
        while let Some((_, gn, _)) =
            self.unconfirmed.first().filter(|(at, _, _)| *at <= now).copied()
        {
            self.unconfirmed.pop_first();
            self.refresh(now, gn);
        }
    }

    /// Returns the next output; call it until it returns `None`.
    pub fn poll_output(&mut self, now: Moment) -> Option<GaOutput> {
        if let Some(output) = self.output.pop_front() {
            return Some(output);
        }
        let Some((gn, pn)) = self.dirty.pop_first() else {
            self.output.shrink_to_fit(); // outputs are large, and most hosts have none for long
            return None;
        };
        let mut update = self.position(gn, pn).expect("removed members are not dirty");
        update.enrolment = self.enrolment(gn, pn);
        self.confirm_position(gn, pn);
        let due = now.after(self.config.resend);
        self.resend.insert((due, gn, pn));
        let state = self.member_mut(gn, pn).expect("removed members are not dirty");
        state.resend_at = Some(due);
        Some(GaOutput::Position { address: state.view.address.clone(), update })
    }

    /// Returns when to call [`GaHost::tick`] next, at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let first = |set: &BTreeSet<(Moment, Gn, Pn)>| set.first().map(|(due, _, _)| *due);
        let waiting =
            self.failed.values().map(|report| report.due).chain(self.fetches.next_deadline());
        let waiting = waiting.chain(first(&self.resend)).chain(first(&self.unconfirmed));
        waiting.chain(self.detector.next_deadline()).min()
    }

    pub(super) fn drain_detector(&mut self, now: Moment) {
        while let Some(output) = self.detector.poll_output() {
            match output {
                DetectorOutput::Probe { peer, probe } => {
                    if let Some(at) = self.peers.get(&peer) {
                        let address = at.address.clone();
                        self.output.push_back(GaOutput::Probe { node: peer, address, probe });
                    }
                }
                DetectorOutput::Dead { peer } => {
                    self.failed.insert(peer, FailureReport { due: now, pause: self.config.retry });
                }
            }
        }
    }

    fn agent_in_epoch(
        &mut self,
        now: Moment,
        gn: Gn,
        given: Epoch,
    ) -> Result<&Agent, AgentRefusal> {
        let known = self.groups.get(&gn).map_or(Epoch(0), |agent| agent.record.epoch);
        if given < known {
            return Err(AgentRefusal::StaleEpoch { gn, given, known });
        }
        if given > known {
            self.refresh(now, gn); // perhaps just appointed
        }
        let agent = self.groups.get(&gn).filter(|_| given == known);
        agent.ok_or(AgentRefusal::NotHosted { gn, epoch: given })
    }
}
