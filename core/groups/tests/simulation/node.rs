//! One simulated node: an operating agent, the host of group agents beside it, and the shell that
//! turns their outputs into messages.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_groups::agent::{GaConfig, GaHost, GaOutput};
use fabricast_groups::command::{Command, Joined};
use fabricast_groups::detector::{DetectorConfig, Policy};
use fabricast_groups::directory::{GroupSnapshot, HostedGroup, Verdict};
use fabricast_groups::message::{
    AgentRefusal, Deregister, OaReport, OaReportReply, PositionUpdate, Register,
};
use fabricast_groups::names::{Address, EndpointName, NodeName};
use fabricast_groups::operating::{CallAnswer, CallId, Identity, Oa, OaConfig, OaOutput};
use fabricast_groups::record::NodeRecord;
use fabricast_groups::{Epoch, Gn, Incarnation, Moment, Pn, Refusal, Revision};

pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) const DETECTOR: DetectorConfig = DetectorConfig {
    report_timeout: Duration::from_secs(3),
    policy: Policy::Probe { timeout: Duration::from_millis(500), attempts: 3 },
};

const GA: GaConfig = GaConfig {
    detector: DETECTOR,
    resend: Duration::from_millis(2500),
    retry: Duration::from_millis(700),
};

const OA: OaConfig = OaConfig {
    retry: Duration::from_millis(700),
    host_timeout: Duration::from_secs(8),
    call_timeout: Duration::from_secs(5),
    calls: 64,
};

/// Who is asked or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    Tic,
    Node(usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    // to the TIC
    Decide(Asker, Command),
    Fetch(Gn, bool),
    Status(Incarnation, Vec<HostedGroup>),
    // from the TIC
    Registered(Result<NodeRecord, Refusal>),
    Joined(CallId, Result<Joined, Refusal>),
    Left(CallId, Result<(Gn, Pn, Revision), Refusal>),
    Group(Gn, bool, Option<GroupSnapshot>),
    Verdict(Incarnation, Verdict),
    Notify(Gn),
    // between nodes
    Register(Register),
    MemberRegistered(Gn, Pn, Result<PositionUpdate, AgentRefusal>),
    Deregister(Deregister),
    Report(OaReport),
    ReportReply(OaReportReply),
    Position(PositionUpdate),
    // from anyone to a node and back
    Probe(u64),
    ProbeAnswer(Incarnation, u64),
}

/// Whom a decision's answer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker {
    Registration,
    Join(CallId),
    Leave(CallId),
    Nobody,
}

pub(crate) struct SimNode {
    pub(crate) index: usize,
    pub(crate) oa: Oa,
    pub(crate) ga: Option<GaHost>,
    /// Neither reports to anybody; everything else works.
    pub(crate) mute: bool,
    /// No message reaches it or leaves it.
    pub(crate) cut_off: bool,
    pub(crate) next_report: Moment,
    pub(crate) answers: BTreeMap<CallId, CallAnswer>,
    /// The highest epoch taken over, by membership and life (G4).
    pub(crate) obeyed: BTreeMap<(Incarnation, Gn, Revision), Epoch>,
}

impl SimNode {
    pub(crate) fn new(index: usize, now: Moment) -> Self {
        let endpoint = |port| EndpointName::new(&format!("h{index}/{port}")).unwrap();
        let identity = Identity {
            node: name(index),
            address: Address::new(&index.to_string()).unwrap(),
            endpoints: vec![endpoint(0), endpoint(1)],
        };
        Self {
            index,
            oa: Oa::new(now, identity, 1, OA),
            ga: None,
            mute: false,
            cut_off: false,
            next_report: now,
            answers: BTreeMap::new(),
            obeyed: BTreeMap::new(),
        }
    }

    pub(crate) fn tick(&mut self, now: Moment) -> Vec<(Party, Message)> {
        self.oa.tick(now);
        if let Some(ga) = &mut self.ga {
            ga.tick(now);
        }
        let mut out = Vec::new();
        if self.next_report <= now {
            self.next_report = now.after(REPORT_INTERVAL);
            if !self.mute {
                self.report(now, &mut out);
            }
        }
        out.extend(self.drain(now));
        out
    }

    pub(crate) fn next_deadline(&self) -> Moment {
        let ga = self.ga.as_ref().and_then(GaHost::next_deadline);
        self.oa.next_deadline().into_iter().chain(ga).chain([self.next_report]).min().unwrap()
    }

    fn report(&mut self, now: Moment, out: &mut Vec<(Party, Message)>) {
        for (_, address, report) in self.oa.reports(now) {
            out.push((party(&address), Message::Report(report)));
        }
        if let Some(ga) = &self.ga {
            out.push((Party::Tic, Message::Status(ga.incarnation(), ga.status())));
        }
    }

    pub(crate) fn handle(
        &mut self,
        now: Moment,
        from: Party,
        message: Message,
    ) -> Vec<(Party, Message)> {
        let mut out = Vec::new();
        match message {
            Message::Registered(answer) => self.oa.registered(now, answer),
            Message::Joined(id, answer) => self.oa.join_answered(now, id, answer),
            Message::Left(id, answer) => self.oa.leave_answered(id, answer),
            Message::Group(_, false, Some(snapshot)) => self.oa.group(now, &snapshot),
            Message::Group(gn, false, None) => self.oa.no_group(gn),
            Message::MemberRegistered(gn, pn, answer) => {
                self.oa.member_registered(now, gn, pn, answer);
            }
            Message::ReportReply(reply) => {
                if let Party::Node(host) = from {
                    self.oa.report_answered(now, &name(host), &reply);
                }
            }
            Message::Position(update) => {
                let _ = self.oa.position(now, &update);
            }
            Message::Verdict(incarnation, verdict) => {
                if verdict.expelled {
                    self.oa.expelled(now, incarnation);
                }
                if let Some(ga) = self.ga.as_mut().filter(|ga| ga.incarnation() == incarnation) {
                    ga.verdict(now, &verdict);
                }
            }
            Message::Probe(probe) => {
                if let Some(incarnation) = self.oa.probe() {
                    out.push((from, Message::ProbeAnswer(incarnation, probe)));
                }
            }
            other => self.handle_as_host(now, from, other, &mut out),
        }
        self.note_obedience();
        out.extend(self.drain(now));
        out
    }

    fn handle_as_host(
        &mut self,
        now: Moment,
        from: Party,
        message: Message,
        out: &mut Vec<(Party, Message)>,
    ) {
        let Some(ga) = &mut self.ga else { return };
        match message {
            Message::Group(_, true, Some(snapshot)) => ga.snapshot(now, &snapshot),
            Message::Group(gn, true, None) => ga.gone(gn),
            Message::Notify(gn) => ga.refresh(now, gn),
            Message::Register(register) => {
                let answer = ga.register(now, &register);
                let pn = register.member.member.pn;
                out.push((from, Message::MemberRegistered(register.gn, pn, answer)));
            }
            Message::Deregister(leaver) => {
                let _ = ga.deregister(now, &leaver);
            }
            Message::Report(report) => {
                out.push((from, Message::ReportReply(ga.report(now, &report))));
            }
            Message::ProbeAnswer(incarnation, probe) => {
                if let Party::Node(peer) = from {
                    ga.probe_answered(now, &name(peer), incarnation, probe);
                }
            }
            other => panic!("a node is not sent {other:?}"),
        }
    }

    fn note_obedience(&mut self) {
        for held in self.oa.memberships() {
            let Some(position) = &held.position else { continue };
            let key = (self.oa.incarnation(), held.member.gn, held.member.joined);
            let before = self.obeyed.insert(key, position.epoch);
            assert!(before <= Some(position.epoch), "G4: an agent of the past was obeyed");
        }
    }

    pub(crate) fn drain(&mut self, now: Moment) -> Vec<(Party, Message)> {
        let mut out = Vec::new();
        while let Some(output) = self.oa.poll_output() {
            self.perform(output, &mut out);
        }
        while let Some(output) = self.ga.as_mut().and_then(|ga| ga.poll_output(now)) {
            out.push(match output {
                GaOutput::Position { address, update } => {
                    (party(&address), Message::Position(update))
                }
                GaOutput::Probe { address, probe, .. } => (party(&address), Message::Probe(probe)),
                GaOutput::NodeFailed { node, incarnation } => {
                    let failed = Command::NodeFailed { node, incarnation: Some(incarnation) };
                    (Party::Tic, Message::Decide(Asker::Nobody, failed))
                }
                GaOutput::Refresh { gn } => (Party::Tic, Message::Fetch(gn, true)),
            });
        }
        out
    }

    fn perform(&mut self, output: OaOutput, out: &mut Vec<(Party, Message)>) {
        let decide = |asker, command| (Party::Tic, Message::Decide(asker, command));
        match output {
            OaOutput::RegisterNode(node) => {
                out.push(decide(Asker::Registration, Command::RegisterNode(node)));
            }
            OaOutput::Join(id, join) => out.push(decide(Asker::Join(id), Command::Join(join))),
            OaOutput::Leave(id, leave) => out.push(decide(Asker::Leave(id), Command::Leave(leave))),
            OaOutput::FetchGroup(gn) => out.push((Party::Tic, Message::Fetch(gn, false))),
            OaOutput::RegisterMember { address, register, .. } => {
                out.push((party(&address), Message::Register(register)));
            }
            OaOutput::DeregisterMember { address, deregister, .. } => {
                out.push((party(&address), Message::Deregister(deregister)));
            }
            OaOutput::Answered(id, answer) => {
                assert!(self.answers.insert(id, answer).is_none(), "a call is answered once");
            }
            OaOutput::Up(incarnation) => {
                self.ga = Some(GaHost::new(name(self.index), incarnation, GA));
            }
            OaOutput::Down(_) => self.ga = None,
            OaOutput::Ended(ended) => assert!(!ended.is_empty()),
            OaOutput::NodeRefused(refusal) => panic!("the TIC refuses a good node: {refusal}"),
        }
    }
}

pub(crate) fn name(index: usize) -> NodeName {
    NodeName::new(&format!("n{index}")).unwrap()
}

pub(crate) fn party(address: &Address) -> Party {
    Party::Node(address.as_str().parse().unwrap())
}
