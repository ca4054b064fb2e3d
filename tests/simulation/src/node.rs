//! One simulated node: an operating agent, its host of group agents, and the shell that turns their
//! outputs into messages.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_groups::agent::{GaHost, GaOutput};
use fabricast_groups::command::Command;
use fabricast_groups::names::{Address, EndpointName, NodeName};
use fabricast_groups::operating::{CallAnswer, CallId, Identity, Oa, OaOutput};
use fabricast_groups::voucher::VoucherSeed;

use crate::invariants::g4::Obedience;
use crate::message::{Message, Requester};
use crate::scenario::Party;
use crate::settings::{OA, REPORT_INTERVAL, Settings};

/// Time after which a TIC that does not answer is replaced by another one.
const TIC_PATIENCE: Duration = Duration::from_millis(900);
/// Nobody guesses, so all nodes may have one; their keys differ by name and start.
const SEED: VoucherSeed = VoucherSeed([7; 16]);

#[derive(Debug)]
pub(crate) struct SimNode {
    pub(crate) index: usize,
    pub(crate) oa: Oa,
    pub(crate) ga: Option<GaHost>,
    /// True if the node sends no reports; everything else works.
    pub(crate) mute: bool,
    pub(crate) answers: BTreeMap<CallId, CallAnswer>,
    pub(crate) obedience: Obedience,
    next_report: Moment,
    /// Index of the TIC that is used, number of TICs, and since when an answer is awaited.
    tic: usize,
    tics: usize,
    settings: Settings,
    unanswered: Option<Moment>,
}

impl SimNode {
    pub(crate) fn new(index: usize, now: Moment, tics: usize, settings: Settings) -> Self {
        let endpoint = |port| EndpointName::new(&format!("h{index}/{port}")).expect("a good name");
        let identity = Identity {
            node: name(index),
            address: Address::new(&index.to_string()).expect("a good address"),
            endpoints: vec![endpoint(0), endpoint(1)],
        };
        // Taken from the clock, as by the real agent.
        let start_id = now.0 / 1_000 + 1;
        Self {
            index,
            oa: Oa::new(now, identity, start_id, SEED, OA),
            ga: None,
            mute: false,
            answers: BTreeMap::new(),
            obedience: Obedience::default(),
            next_report: now,
            tic: 0,
            tics,
            settings,
            unanswered: None,
        }
    }

    pub(crate) fn tick(&mut self, now: Moment) -> Vec<(Party, Message)> {
        self.oa.tick(now);
        if self.unanswered.is_some_and(|since| since.after(TIC_PATIENCE) <= now) {
            self.switch_tic();
        }
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
        let patience = self.unanswered.map(|since| since.after(TIC_PATIENCE));
        let all = self.oa.next_deadline().into_iter().chain(ga).chain(patience);
        all.fold(self.next_report, Moment::min)
    }

    fn report(&mut self, now: Moment, out: &mut Vec<(Party, Message)>) {
        for (_, address, report) in self.oa.reports(now) {
            out.push((party(&address), Message::Report(report)));
        }
        if let Some(ga) = &self.ga {
            out.push((Party::Tic(self.tic), Message::Status(ga.incarnation(), ga.status())));
        }
    }

    pub(crate) fn handle(
        &mut self,
        now: Moment,
        from: Party,
        message: Message,
    ) -> Vec<(Party, Message)> {
        let mut out = Vec::new();
        if from == Party::Tic(self.tic) {
            self.unanswered = None;
        }
        match message {
            Message::NotLeader if from == Party::Tic(self.tic) => self.switch_tic(),
            Message::NotLeader | Message::NotReadmitted => {}
            Message::Registered(answer) => self.oa.registered(now, answer),
            Message::Joined(id, answer) => {
                self.oa.join_answered(now, id, answer.map(|joined| *joined));
            }
            Message::Left(id, answer) => self.oa.leave_answered(id, answer),
            Message::Group(_, false, Ok(snapshot)) => self.oa.group(now, &snapshot),
            Message::Group(gn, false, Err(revision)) => self.oa.no_group(gn, revision),
            Message::MemberRegistered(gn, pn, answer) => {
                self.oa.member_registered(now, gn, pn, answer.map(|update| *update));
            }
            Message::ReportReply(reply) => {
                if let Party::Node(host) = from {
                    self.oa.report_answered(now, &name(host), &reply);
                }
            }
            Message::Position(update) => {
                let is_sender =
                    |node: &NodeName| matches!(from, Party::Node(at) if *node == name(at));
                let _ = self.oa.position(now, &update, is_sender);
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
        self.obedience.note(&self.oa);
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
            Message::Group(_, true, Ok(snapshot)) => ga.snapshot(now, &snapshot),
            Message::SameMembers(revision, group) => ga.same_members(now, revision, &group),
            Message::Group(gn, true, Err(_)) => ga.gone(gn),
            Message::Notify(gn) => ga.refresh(now, gn),
            Message::Register(register) => {
                let answer = ga.register(now, &register).map(Box::new);
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

    pub(crate) fn drain(&mut self, now: Moment) -> Vec<(Party, Message)> {
        let mut out = Vec::new();
        while let Some(output) = self.oa.poll_output() {
            self.perform(output, &mut out);
        }
        while let Some(output) = self.ga.as_mut().and_then(|ga| ga.poll_output(now)) {
            out.push(match output {
                GaOutput::Position { address, update } => {
                    (party(&address), Message::Position(Box::new(update)))
                }
                GaOutput::Probe { address, probe, .. } => (party(&address), Message::Probe(probe)),
                GaOutput::NodeFailed { node, incarnation } => {
                    (Party::Tic(self.tic), Message::Unreachable(node, incarnation))
                }
                GaOutput::Refresh { gn } => {
                    let known = self.ga.as_ref().and_then(|ga| ga.whole_at(gn));
                    (Party::Tic(self.tic), Message::Fetch(gn, true, known))
                }
            });
        }
        let asks = |(to, message): &(Party, Message)| {
            matches!(to, Party::Tic(_)) && !matches!(message, Message::Unreachable(..))
        };
        if out.iter().any(asks) {
            self.unanswered.get_or_insert(now);
        }
        out
    }

    fn switch_tic(&mut self) {
        self.tic = (self.tic + 1) % self.tics;
        self.unanswered = None;
    }

    fn perform(&mut self, output: OaOutput, out: &mut Vec<(Party, Message)>) {
        let tic = Party::Tic(self.tic);
        let decide = |requester, command| (tic, Message::Decide(requester, Box::new(command)));
        match output {
            OaOutput::RegisterNode(node) => {
                out.push(decide(Requester::Registration, Command::RegisterNode(node)));
            }
            OaOutput::Join(id, join) => out.push(decide(Requester::Join(id), Command::Join(join))),
            OaOutput::Leave(id, leave) => {
                out.push(decide(Requester::Leave(id), Command::Leave(leave)))
            }
            OaOutput::FetchGroup(gn) => out.push((tic, Message::Fetch(gn, false, None))),
            OaOutput::RegisterMember { address, register, .. } => {
                out.push((party(&address), Message::Register(Box::new(register))));
            }
            OaOutput::DeregisterMember { address, deregister, .. } => {
                out.push((party(&address), Message::Deregister(deregister)));
            }
            OaOutput::Answered(id, answer) => {
                assert!(self.answers.insert(id, answer).is_none(), "a call is answered once");
            }
            OaOutput::Up(incarnation) => {
                let config = self.settings.agents();
                let key = self.oa.voucher_key();
                self.ga = Some(GaHost::new(name(self.index), incarnation, key, config));
            }
            OaOutput::Down(_) => self.ga = None,
            OaOutput::Ended(ended) => assert!(!ended.is_empty()),
            OaOutput::NodeRefused(refusal) => panic!("the TIC refuses a good node: {refusal}"),
        }
    }
}

pub(crate) fn name(index: usize) -> NodeName {
    NodeName::new(&format!("n{index}")).expect("a good name")
}

pub(crate) fn index_of(node: &NodeName) -> usize {
    node.as_str()[1..].parse().expect("names are made of numbers")
}

fn party(address: &Address) -> Party {
    Party::Node(address.as_str().parse().expect("addresses are numbers"))
}
