//! A simulated topology information center: the directory of `fabricast-groups` in a shell that
//! leads or waits.
//!
//! The shell keeps the rules of `services/tic`: decisions run ahead of what is durable, at most one
//! write is in flight, a command is answered only once it is durable, and after a failed write the
//! records are read again. It leads only while its own clock guarantees that no other TIC can.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use fabricast_groups::command::{Answer, Command, Expelled};
use fabricast_groups::directory::{Directory, NewGroup};
use fabricast_groups::record::Change;
use fabricast_groups::watch::{NodeIncarnation, NodeWatch, UNTOLD, WatchConfig, WatchOutput};
use fabricast_groups::{Moment, Refusal, TicRefusal};
use fabricast_topology::Mgid;

use crate::invariants::flaps;
use crate::invariants::g5_probes::OpenProbes;
use crate::message::{Message, Requester, StoreReply, StoreRequest};
use crate::node::{index_of, name};
use crate::scenario::Party;
use crate::settings::Settings;
use crate::store::LEASE;

/// Number of the gRPC status code of refusals; agents only pass it on.
const FAILED_PRECONDITION: u32 = 9;

type Outgoing = Vec<(Party, Message)>;

/// Interval at which a TIC that does not lead tries to acquire the leadership.
const CAMPAIGN_INTERVAL: Duration = Duration::from_millis(300);
const RENEW_INTERVAL: Duration = Duration::from_millis(400);
/// Timeout of a write, which then may be durable or not.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Tic {
    campaign_at: Moment,
    settings: Settings,
    leading: Option<Box<LeaderState>>,
}

/// State of a leader.
#[derive(Debug)]
struct LeaderState {
    term: u64,
    lease_until: Moment,
    renew_at: Moment,
    /// Records that are durable.
    committed: Directory,
    /// Records after all decisions, durable or not.
    ahead: Directory,
    queue: VecDeque<(Party, Requester, Command)>,
    writing: Option<PendingWrite>,
    writes: u64,
    watch: NodeWatch,
    probes: OpenProbes,
}

#[derive(Debug)]
struct PendingWrite {
    due: Moment,
    changes: Vec<Change>,
    answers: Vec<(Party, Requester, Result<Answer, Refusal>)>,
}

impl Tic {
    pub(crate) fn new(now: Moment, settings: Settings) -> Self {
        Self { campaign_at: now, settings, leading: None }
    }

    /// Returns the published records while it leads.
    pub(crate) fn directory(&self) -> Option<&Directory> {
        self.leading.as_ref().map(|leading| &leading.committed)
    }

    pub(crate) fn next_deadline(&self) -> Moment {
        let Some(leading) = &self.leading else { return self.campaign_at };
        let writing = leading.writing.as_ref().map(|writing| writing.due);
        let lease = leading.lease_until.min(leading.renew_at);
        writing
            .into_iter()
            .chain(leading.watch.next_deadline())
            .chain([lease])
            .min()
            .unwrap_or(lease)
    }

    pub(crate) fn tick(&mut self, now: Moment) -> Outgoing {
        let mut out = Vec::new();
        self.check_lease(now);
        match &mut self.leading {
            Some(leading) => leading.tick(now, &mut out),
            None if self.campaign_at <= now => {
                self.campaign_at = now.after(CAMPAIGN_INTERVAL);
                out.push((
                    Party::Store,
                    Message::StoreRequest(StoreRequest::Lead { sent: now, term: None }),
                ));
            }
            None => {}
        }
        out
    }

    pub(crate) fn handle(&mut self, now: Moment, from: Party, message: Message) -> Outgoing {
        let mut out = Vec::new();
        self.check_lease(now);
        match (message, &mut self.leading) {
            (Message::StoreReply(answer), _) => self.store_answered(now, answer, &mut out),
            (Message::ProbeAnswer(incarnation, probe), Some(leading)) => {
                if let Party::Node(at) = from {
                    let incarnation = NodeIncarnation { node: name(at), number: incarnation };
                    leading.probes.answered(&incarnation, probe);
                    leading.watch.probe_answered(now, &incarnation, probe);
                }
            }
            (Message::ProbeAnswer(..), None) => {}
            (_, None) => out.push((from, Message::NotLeader)),
            (message, Some(leading)) => leading.handle(now, from, message, &mut out),
        }
        out
    }

    /// Decides a command from outside the simulated parties, such as an operator's; ignored if this
    /// TIC does not lead.
    pub(crate) fn submit(&mut self, now: Moment, command: Command) -> Outgoing {
        let mut out = Vec::new();
        self.check_lease(now);
        if let Some(leading) = &mut self.leading {
            leading.queue.push_back((Party::Store, Requester::Nobody, command));
            leading.write_next(now, &mut out);
        }
        out
    }

    fn check_lease(&mut self, now: Moment) {
        let over = |leading: &LeaderState| {
            let in_doubt = leading.writing.as_ref().is_some_and(|writing| writing.due <= now);
            leading.lease_until <= now || in_doubt
        };
        if self.leading.as_deref().is_some_and(over) {
            self.step_down(now);
        }
    }

    fn step_down(&mut self, now: Moment) {
        self.leading = None;
        self.campaign_at = now.after(CAMPAIGN_INTERVAL);
    }

    fn store_answered(&mut self, now: Moment, answer: StoreReply, out: &mut Outgoing) {
        match (answer, &mut self.leading) {
            (StoreReply::Led { sent, term, records: None }, Some(leading)) => {
                if leading.term == term {
                    leading.lease_until = leading.lease_until.max(sent.after(LEASE));
                }
            }
            (StoreReply::Led { sent, term, records: Some(records) }, None) => {
                if now < sent.after(LEASE) {
                    let directory = Directory::load(self.settings.limits(), records.iter());
                    let directory = directory.expect("S3: what was written is read back");
                    let watch = NodeWatch::new(WatchConfig::new(self.settings.detector()));
                    let mut leading = LeaderState::new(term, sent.after(LEASE), directory, watch);
                    leading.watch.follow_hosts(now, &leading.committed);
                    self.leading = Some(Box::new(leading));
                }
            }
            (StoreReply::Led { .. }, _) => {}
            (StoreReply::NotYours { term: Some(term) }, Some(leading)) => {
                if leading.term == term {
                    self.step_down(now);
                }
            }
            (StoreReply::NotYours { .. }, _) => {}
            (StoreReply::Written { number }, Some(leading)) => {
                if number == leading.writes && leading.writing.is_some() {
                    leading.written(now, out);
                }
            }
            (StoreReply::Failed { number }, Some(leading)) => {
                if number == leading.writes && leading.writing.is_some() {
                    self.step_down(now);
                }
            }
            (StoreReply::Written { .. } | StoreReply::Failed { .. }, None) => {}
        }
    }
}

impl LeaderState {
    fn new(term: u64, lease_until: Moment, directory: Directory, watch: NodeWatch) -> Self {
        Self {
            term,
            lease_until,
            renew_at: Moment(0),
            committed: directory.clone(),
            ahead: directory,
            queue: VecDeque::new(),
            writing: None,
            // The numbers of different terms must differ.
            writes: term << 32,
            watch,
            probes: OpenProbes::default(),
        }
    }

    fn tick(&mut self, now: Moment, out: &mut Outgoing) {
        if self.renew_at <= now {
            self.renew_at = now.after(RENEW_INTERVAL);
            let request = StoreRequest::Lead { sent: now, term: Some(self.term) };
            out.push((Party::Store, Message::StoreRequest(request)));
        }
        self.watch.poll(now, &self.committed);
        self.handle_watch(now, out);
        self.write_next(now, out);
    }

    /// Carries out the outputs of the watch.
    fn handle_watch(&mut self, now: Moment, out: &mut Outgoing) {
        while let Some(output) = self.watch.poll_output() {
            match output {
                WatchOutput::Probe { incarnation, probe } => {
                    out.push((Party::Node(index_of(&incarnation.node)), Message::Probe(probe)));
                    self.probes.sent(incarnation, probe, now);
                }
                WatchOutput::Expel { incarnation, .. } => {
                    self.probes.expelled(&incarnation, now);
                    self.watch.expelled(&incarnation);
                    let NodeIncarnation { node, number } = incarnation;
                    let failed = Command::NodeFailed { node, incarnation: Some(number) };
                    self.queue.push_back((Party::Store, Requester::Nobody, failed));
                }
            }
        }
    }

    fn handle(&mut self, now: Moment, from: Party, message: Message, out: &mut Outgoing) {
        match message {
            Message::Decide(requester, command) => {
                self.queue.push_back((from, requester, *command));
                self.write_next(now, out);
            }
            Message::Fetch(gn, for_agent, known) => {
                let revision = self.committed.revision();
                if let Some(group) = self.committed.group(gn)
                    && known == Some(group.members_revision)
                {
                    let group = Box::new(group.clone());
                    return out.push((from, Message::SameMembers(revision, group)));
                }
                let snapshot = self.committed.snapshot(gn).map(Box::new).ok_or(revision);
                out.push((from, Message::Group(gn, for_agent, snapshot)));
            }
            Message::Unreachable(node, incarnation) => {
                let incarnation = NodeIncarnation { node, number: incarnation };
                self.watch.reported(now, &incarnation, &self.committed);
                self.handle_watch(now, out);
            }
            Message::Status(incarnation, groups) => {
                let Party::Node(at) = from else { return };
                let heard = NodeIncarnation { node: name(at), number: incarnation };
                self.watch.heard(now, &heard, UNTOLD);
                let verdict = self.committed.verdict(&name(at), incarnation, &groups);
                out.push((from, Message::Verdict(incarnation, verdict)));
            }
            other => panic!("a TIC is not sent {other:?}"),
        }
    }

    /// Decides the queued commands and writes the changes, unless a write is in flight.
    fn write_next(&mut self, now: Moment, out: &mut Outgoing) {
        if self.writing.is_some() || self.queue.is_empty() {
            return;
        }
        let mut writing = PendingWrite {
            due: now.after(WRITE_TIMEOUT),
            changes: Vec::new(),
            answers: Vec::new(),
        };
        for (from, requester, command) in std::mem::take(&mut self.queue) {
            let mut choose =
                |group: &NewGroup<'_>| (0..).map(Mgid).find(|mgid| (group.is_free)(*mgid));
            let answer = self.ahead.decide(now, &command, &mut choose).map(|decision| {
                let chosen = flaps::newly_chosen(&self.ahead, &decision.changes);
                for change in &decision.changes {
                    self.ahead.apply(change);
                }
                flaps::none_is_suppressed(&self.ahead, &chosen, now);
                writing.changes.extend(decision.changes);
                decision.answer
            });
            match answer {
                Ok(Answer::Expelled(Expelled { done: false, .. })) => {
                    self.queue.push_back((from, requester, command));
                }
                answer => writing.answers.push((from, requester, answer)),
            }
        }
        let changes = writing.changes.clone();
        self.writing = Some(writing);
        self.writes += 1;
        if changes.is_empty() {
            return self.written(now, out);
        }
        let request = StoreRequest::Write { term: self.term, number: self.writes, changes };
        out.push((Party::Store, Message::StoreRequest(request)));
    }

    /// Publishes what is durable now, sends hints to agents, and answers.
    fn written(&mut self, now: Moment, out: &mut Outgoing) {
        let Some(PendingWrite { changes, answers, .. }) = self.writing.take() else { return };
        let mut hints = BTreeSet::new();
        for change in &changes {
            self.committed.apply(change);
            if let Change::GroupPut(group) = change
                && let Some(agent) = &group.agent
            {
                hints.insert((index_of(agent), group.gn));
            }
        }
        self.watch.follow_hosts(now, &self.committed);
        out.extend(hints.into_iter().map(|(at, gn)| (Party::Node(at), Message::Notify(gn))));
        for (to, requester, answer) in answers {
            out.extend(reply(requester, answer).map(|message| (to, message)));
        }
        self.write_next(now, out);
    }
}

fn reply(requester: Requester, answer: Result<Answer, Refusal>) -> Option<Message> {
    Some(match (requester, answer) {
        (Requester::Nobody, _) => return None,
        (Requester::Registration, Ok(Answer::Node(node))) => Message::Registered(Ok(node)),
        (Requester::Registration, Ok(Answer::Suppressed(..))) => Message::NotReadmitted,
        (Requester::Registration, Err(refusal)) => Message::Registered(Err(on_wire(&refusal))),
        (Requester::Join(id), Ok(Answer::Joined(joined))) => {
            Message::Joined(id, Ok(Box::new(joined)))
        }
        (Requester::Join(id), Err(refusal)) => Message::Joined(id, Err(on_wire(&refusal))),
        (Requester::Leave(id), Ok(Answer::Left { gn, pn, revision })) => {
            Message::Left(id, Ok((gn, pn, revision)))
        }
        (Requester::Leave(id), Err(refusal)) => Message::Left(id, Err(on_wire(&refusal))),
        (_, Ok(answer)) => panic!("{answer:?} answers something else"),
    })
}

/// A refusal as an operating agent reads it from the TIC's reply.
fn on_wire(refusal: &Refusal) -> TicRefusal {
    let is_stale = matches!(
        refusal,
        Refusal::StaleIncarnation { .. } | Refusal::NodeFailed { .. } | Refusal::UnknownNode { .. }
    );
    if is_stale {
        return TicRefusal::StaleIncarnation;
    }
    let message = refusal.to_string();
    TicRefusal::Final { code: FAILED_PRECONDITION, reason: String::new(), message }
}
