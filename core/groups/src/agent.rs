//! Group agents: all groups whose agent lives on one node.
//!
//! An agent works from the TIC's snapshot of its group, tells every member its place in the tree,
//! and watches the members' nodes. Nothing rests on one message arriving: positions are pushed
//! until a report names them, snapshots are asked for until they come, and a failed node is
//! reported, ever less often, until a snapshot is free of it or it is heard of again: the TIC asks the
//! node itself before it expels it. What an agent says carries its epoch, and it obeys
//! nobody who follows another one (G4).
//!
//! Call an input, then drain [`GaHost::poll_output`]; call [`GaHost::tick`] when
//! [`GaHost::next_deadline`] has come.
//!
//! Invariants
//! - GA-1: after a snapshot the member table is the TIC's at that revision, plus members that
//!   registered with a later join (G2).
//! - GA-2: the output waiting is at most one position per member, and one each of a probe, a
//!   report and a refresh per node or group.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::asked::Asked;
use crate::detector::Detector;
use crate::directory::{HostedGroup, MemberView, Verdict};
use crate::ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision, Version};
use crate::message::{AgentRefusal, Deregister, OaReport, OaReportReply, PositionUpdate, Register};
use crate::names::{Address, NodeName};
use crate::record::{Colors, GroupRecord};

mod clock;
mod interface;
mod records;
mod seats;
#[cfg(test)]
mod tests;

pub use interface::{GaConfig, GaOutput};

/// The group agents of one node.
#[derive(Clone, Debug)]
pub struct GaHost {
    node: NodeName,
    incarnation: Incarnation,
    config: GaConfig,
    groups: BTreeMap<Gn, Agent>,
    peers: BTreeMap<NodeName, PeerNode>,
    detector: Detector<NodeName>,
    failed: BTreeMap<NodeName, Claim>, // reported to the TIC until it is out, or heard of again
    asked: Asked,                      // snapshots on their way
    dirty: BTreeSet<(Gn, Pn)>,         // positions to send
    resend: BTreeSet<(Moment, Gn, Pn)>, // positions sent and not confirmed
    last_version: Version, // of all groups: an office that is dropped and taken again in one epoch goes on
    output: VecDeque<GaOutput>,
}

#[derive(Clone, Debug)]
struct Agent {
    record: GroupRecord,
    known: Revision, // of the snapshot
    seats: BTreeMap<Pn, Seat>,
    live: BTreeSet<Pn>, // the keys of `seats`, as the tree wants them
    is_whole: bool,     // nobody of the snapshot was taken out since
}

#[derive(Clone, Debug)]
struct Seat {
    view: MemberView,
    version: Version,
    colors: Option<Colors>, // as last told
    resend_at: Option<Moment>,
    is_known: bool, // to its node, which has registered or reported it
}

/// That a node has failed, as the TIC is told.
#[derive(Clone, Copy, Debug)]
struct Claim {
    due: Moment,
    pause: Duration, // until it is told again; twice as long each time
}

#[derive(Clone, Debug)]
struct PeerNode {
    incarnation: Incarnation,
    address: Address,
    seats: usize,
}

impl GaHost {
    /// Creates a host without groups for one life of a node; a later life needs a new host.
    pub fn new(node: NodeName, incarnation: Incarnation, config: GaConfig) -> Self {
        Self {
            node,
            incarnation,
            config,
            groups: BTreeMap::new(),
            peers: BTreeMap::new(),
            detector: Detector::new(config.detector),
            failed: BTreeMap::new(),
            asked: Asked::new(config.retry),
            dirty: BTreeSet::new(),
            resend: BTreeSet::new(),
            last_version: Version(0),
            output: VecDeque::new(),
        }
    }

    /// Works by another configuration from now on; who is watched has the new time in full.
    ///
    /// - `config`: with the same `retry` as before.
    pub fn reconfigure(&mut self, now: Moment, config: GaConfig) {
        self.config = config;
        self.detector.reconfigure(now, config.detector);
    }

    /// Answers the node.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Answers the life of the node that this host belongs to.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Registers a member, which may be ahead of the TIC's snapshot.
    ///
    /// # Errors
    ///
    /// [`AgentRefusal`] if this is not the group's agent in that epoch or the member is no member;
    /// the asker should fetch the group from the TIC and try again.
    pub fn register(
        &mut self,
        now: Moment,
        register: &Register,
    ) -> Result<PositionUpdate, AgentRefusal> {
        let (gn, pn) = (register.gn, register.member.member.pn);
        let agent = self.agent_in_epoch(now, gn, register.epoch)?;
        let asks = &register.member;
        match agent.seats.get(&pn) {
            Some(seat) if seat.view.member == asks.member => {}
            Some(seat) if seat.view.member.joined >= asks.member.joined => {
                return Err(AgentRefusal::UnknownMember { gn, pn });
            }
            None if asks.member.joined <= agent.known => {
                return Err(AgentRefusal::UnknownMember { gn, pn });
            }
            Some(_) => {
                self.take_out(gn, pn); // its former holder must have left
                self.add_seat(now, gn, asks.clone());
            }
            None => self.add_seat(now, gn, asks.clone()),
        }
        self.dirty.remove(&(gn, pn)); // the answer tells it
        self.confirm(gn, pn);
        self.note_known(gn, pn);
        Ok(self.position(gn, pn).expect("the seat was taken just now"))
    }

    /// Takes a member out that has left.
    ///
    /// # Errors
    ///
    /// [`AgentRefusal`] if this is not the group's agent in that epoch; nothing is to be done, as
    /// the right agent hears of the leave from the TIC.
    pub fn deregister(&mut self, now: Moment, leaver: &Deregister) -> Result<(), AgentRefusal> {
        let agent = self.agent_in_epoch(now, leaver.gn, leaver.epoch)?;
        let seat = agent.seats.get(&leaver.pn);
        if seat.is_some_and(|seat| seat.view.member.node == leaver.node) {
            self.take_out(leaver.gn, leaver.pn);
        }
        // The TIC knows who is right, should this be an old message about a seat taken anew.
        self.refresh(now, leaver.gn);
        Ok(())
    }

    /// Takes a node's report: it lives, and learns what it was behind on.
    pub fn report(&mut self, now: Moment, report: &OaReport) -> OaReportReply {
        let mut reply = OaReportReply::default();
        let known = self.peers.get(&report.node).map(|peer| peer.incarnation);
        if known == Some(report.incarnation) {
            if self.failed.remove(&report.node).is_some() {
                self.detector.watch(report.node.clone(), now); // the TIC has asked it and kept it
            }
            self.detector.heard(&report.node, now);
        }
        for status in &report.memberships {
            let (gn, pn) = (status.gn, status.pn);
            let Some(agent) = self.groups.get(&gn) else {
                self.refresh(now, gn);
                reply.unknown.push((gn, pn));
                continue;
            };
            if status.epoch > agent.record.epoch {
                self.refresh(now, gn); // deposed, or appointed again
                continue;
            }
            match agent.seats.get(&pn) {
                Some(seat)
                    if seat.view.member.node == report.node
                        && seat.view.incarnation == report.incarnation
                        && seat.view.member.joined == status.joined =>
                {
                    if status.epoch == agent.record.epoch && status.version == seat.version {
                        self.confirm(gn, pn);
                    } else {
                        reply.positions.extend(self.position(gn, pn));
                    }
                    self.note_known(gn, pn);
                }
                Some(_) | None => {
                    self.refresh(now, gn); // behind the TIC, or the node is
                    reply.unknown.push((gn, pn));
                }
            }
        }
        reply
    }

    /// Notes a node's answer to a probe.
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

    /// Notes that a connection to a node has closed.
    pub fn hint_closed(&mut self, now: Moment, node: &NodeName) {
        self.detector.hint_closed(node, now);
        self.drain_detector(now);
    }

    /// Answers what to report to the TIC about this host's groups.
    pub fn status(&self) -> Vec<HostedGroup> {
        let hosted = |(gn, agent): (&Gn, &Agent)| HostedGroup {
            gn: *gn,
            epoch: agent.record.epoch,
            known: agent.known,
        };
        self.groups.iter().map(hosted).collect()
    }

    /// Takes the TIC's answer to the status report.
    pub fn verdict(&mut self, now: Moment, verdict: &Verdict) {
        if verdict.expelled {
            let all: Vec<Gn> = self.groups.keys().copied().collect();
            for gn in all {
                self.drop_group(gn);
            }
            self.asked.clear();
            return;
        }
        for gn in &verdict.drop {
            self.drop_group(*gn);
        }
        for gn in &verdict.refresh {
            self.refresh(now, *gn);
        }
    }

    /// Asks for a group's snapshot, now or once the one that is on its way is here; also a hint
    /// from outside.
    pub fn refresh(&mut self, now: Moment, gn: Gn) {
        if self.asked.news(now, gn) {
            self.output.push_back(GaOutput::Refresh { gn });
        }
    }

    /// Answers a group as its agent here knows it: its record, and each member with its place.
    pub fn query(&self, gn: Gn) -> Option<(&GroupRecord, Vec<(&MemberView, PositionUpdate)>)> {
        let agent = self.groups.get(&gn)?;
        let place = |(pn, seat)| self.position(gn, pn).map(|position| (seat, position));
        let members = agent.seats.iter().map(|(pn, seat)| (*pn, &seat.view)).filter_map(place);
        Some((&agent.record, members.collect()))
    }

    /// Answers the members of a group as its agent here knows them, by rank.
    pub fn members(&self, gn: Gn) -> Option<impl Iterator<Item = &MemberView>> {
        Some(self.groups.get(&gn)?.seats.values().map(|seat| &seat.view))
    }

    /// Answers the nodes that host members and are watched.
    pub fn watched(&self) -> impl Iterator<Item = &NodeName> {
        self.detector.peers()
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
            self.refresh(now, gn); // perhaps appointed a moment ago
        }
        let agent = self.groups.get(&gn).filter(|_| given == known);
        agent.ok_or(AgentRefusal::NotHosted { gn, epoch: given })
    }
}
