//! A topology information center: the directory of `fabricast-groups` in a shell that leads or waits.
//!
//! The shell keeps the rules of `services/tic`: decisions run ahead of what is durable, one write is under way at
//! a time, nobody is answered before it is durable, and after a failure nothing is believed that was not
//! read again. It leads only as long as its own clock says that nobody else can.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use fabricast_groups::command::{Answer, Command};
use fabricast_groups::directory::{Directory, NewGroup};
use fabricast_groups::record::Change;
use fabricast_groups::watch::{NodeWatch, WatchConfig, WatchOutput};
use fabricast_groups::{Moment, Refusal};
use fabricast_routing::Mgid;

use crate::invariants::flaps;
use crate::invariants::g5::Asked;
use crate::message::{Asker, Message, StoreAnswer, StoreAsk};
use crate::node::{index_of, name};
use crate::scenario::Party;
use crate::settings::Settings;
use crate::store::LEASE;

type Out = Vec<(Party, Message)>;

/// Who does not lead asks for it this often.
const ASK: Duration = Duration::from_millis(300);
const RENEW: Duration = Duration::from_millis(400);
/// A write that is not answered by then may be durable or not.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Tic {
    ask_at: Moment,
    settings: Settings,
    office: Option<Box<Office>>,
}

/// What only a leader has.
#[derive(Debug)]
struct Office {
    term: u64,
    lease_until: Moment,
    renew_at: Moment,
    /// What is durable.
    committed: Directory,
    /// What is decided.
    ahead: Directory,
    queue: VecDeque<(Party, Asker, Command)>,
    writing: Option<Writing>,
    writes: u64,
    watch: NodeWatch,
    asked: Asked,
}

#[derive(Debug)]
struct Writing {
    due: Moment,
    changes: Vec<Change>,
    answers: Vec<(Party, Asker, Result<Answer, Refusal>)>,
}

impl Tic {
    pub(crate) fn new(now: Moment, settings: Settings) -> Self {
        Self { ask_at: now, settings, office: None }
    }

    /// The records as it publishes them, while it leads.
    pub(crate) fn directory(&self) -> Option<&Directory> {
        self.office.as_ref().map(|office| &office.committed)
    }

    pub(crate) fn next_deadline(&self) -> Moment {
        let Some(office) = &self.office else { return self.ask_at };
        let writing = office.writing.as_ref().map(|writing| writing.due);
        let lease = office.lease_until.min(office.renew_at);
        writing
            .into_iter()
            .chain(office.watch.next_deadline())
            .chain([lease])
            .min()
            .unwrap_or(lease)
    }

    pub(crate) fn tick(&mut self, now: Moment) -> Out {
        let mut out = Vec::new();
        self.look_at_lease(now);
        match &mut self.office {
            Some(office) => office.tick(now, &mut out),
            None if self.ask_at <= now => {
                self.ask_at = now.after(ASK);
                out.push((Party::Store, Message::Ask(StoreAsk::Lead { sent: now, term: None })));
            }
            None => {}
        }
        out
    }

    pub(crate) fn handle(&mut self, now: Moment, from: Party, message: Message) -> Out {
        let mut out = Vec::new();
        self.look_at_lease(now);
        match (message, &mut self.office) {
            (Message::Answer(answer), _) => self.store_answered(now, answer, &mut out),
            (Message::ProbeAnswer(incarnation, probe), Some(office)) => {
                if let Party::Node(at) = from {
                    let life = (name(at), incarnation);
                    office.asked.answered(&life, probe);
                    office.watch.probe_answered(now, &life, probe);
                }
            }
            (Message::ProbeAnswer(..), None) => {}
            (_, None) => out.push((from, Message::NotLeader)),
            (message, Some(office)) => office.serve(now, from, message, &mut out),
        }
        out
    }

    /// A command of somebody beside it, such as an operator; lost if it does not lead.
    pub(crate) fn order(&mut self, now: Moment, command: Command) -> Out {
        let mut out = Vec::new();
        self.look_at_lease(now);
        if let Some(office) = &mut self.office {
            office.queue.push_back((Party::Store, Asker::Nobody, command));
            office.work(now, &mut out);
        }
        out
    }

    fn look_at_lease(&mut self, now: Moment) {
        let over = |office: &Office| {
            let in_doubt = office.writing.as_ref().is_some_and(|writing| writing.due <= now);
            office.lease_until <= now || in_doubt
        };
        if self.office.as_deref().is_some_and(over) {
            self.step_down(now);
        }
    }

    fn step_down(&mut self, now: Moment) {
        self.office = None;
        self.ask_at = now.after(ASK);
    }

    fn store_answered(&mut self, now: Moment, answer: StoreAnswer, out: &mut Out) {
        match (answer, &mut self.office) {
            (StoreAnswer::Led { sent, term, records: None }, Some(office)) => {
                if office.term == term {
                    office.lease_until = office.lease_until.max(sent.after(LEASE));
                }
            }
            (StoreAnswer::Led { sent, term, records: Some(records) }, None) => {
                if now < sent.after(LEASE) {
                    let directory = Directory::load(self.settings.limits(), records.iter());
                    let directory = directory.expect("S3: what was written is read back");
                    let watch = NodeWatch::new(WatchConfig::new(self.settings.detector()));
                    let mut office = Office::new(term, sent.after(LEASE), directory, watch);
                    office.watch.follow_hosts(now, &office.committed);
                    self.office = Some(Box::new(office));
                }
            }
            (StoreAnswer::Led { .. }, _) => {}
            (StoreAnswer::NotYours { term: Some(term) }, Some(office)) => {
                if office.term == term {
                    self.step_down(now);
                }
            }
            (StoreAnswer::NotYours { .. }, _) => {}
            (StoreAnswer::Written { number }, Some(office)) => {
                if number == office.writes && office.writing.is_some() {
                    office.written(now, out);
                }
            }
            (StoreAnswer::Failed { number }, Some(office)) => {
                if number == office.writes && office.writing.is_some() {
                    self.step_down(now);
                }
            }
            (StoreAnswer::Written { .. } | StoreAnswer::Failed { .. }, None) => {}
        }
    }
}

impl Office {
    fn new(term: u64, lease_until: Moment, directory: Directory, watch: NodeWatch) -> Self {
        Self {
            term,
            lease_until,
            renew_at: Moment(0),
            committed: directory.clone(),
            ahead: directory,
            queue: VecDeque::new(),
            writing: None,
            // Numbers of different terms must not be mixed up.
            writes: term << 32,
            watch,
            asked: Asked::default(),
        }
    }

    fn tick(&mut self, now: Moment, out: &mut Out) {
        if self.renew_at <= now {
            self.renew_at = now.after(RENEW);
            let ask = StoreAsk::Lead { sent: now, term: Some(self.term) };
            out.push((Party::Store, Message::Ask(ask)));
        }
        self.watch.poll(now);
        self.judge(now, out);
        self.work(now, out);
    }

    /// Does what the watch asks for.
    fn judge(&mut self, now: Moment, out: &mut Out) {
        while let Some(output) = self.watch.poll_output() {
            match output {
                WatchOutput::Probe { life, probe } => {
                    out.push((Party::Node(index_of(&life.0)), Message::Probe(probe)));
                    self.asked.sent(life, probe, now);
                }
                WatchOutput::Expel { life, .. } => {
                    self.asked.expelled(&life, now);
                    let (node, incarnation) = (life.0.clone(), Some(life.1));
                    let failed = Command::NodeFailed { node, incarnation };
                    self.queue.push_back((Party::Store, Asker::Nobody, failed));
                    self.watch.expelled(&life);
                }
            }
        }
    }

    fn serve(&mut self, now: Moment, from: Party, message: Message, out: &mut Out) {
        match message {
            Message::Decide(asker, command) => {
                self.queue.push_back((from, asker, *command));
                self.work(now, out);
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
                self.watch.reported(now, &(node, incarnation), &self.committed);
                self.judge(now, out);
            }
            Message::Status(incarnation, groups) => {
                let Party::Node(at) = from else { return };
                self.watch.heard(now, &(name(at), incarnation));
                let verdict = self.committed.verdict(&name(at), incarnation, &groups);
                out.push((from, Message::Verdict(incarnation, verdict)));
            }
            other => panic!("a TIC is not sent {other:?}"),
        }
    }

    /// Decides what waits and writes it, unless a write is under way.
    fn work(&mut self, now: Moment, out: &mut Out) {
        if self.writing.is_some() || self.queue.is_empty() {
            return;
        }
        let mut writing =
            Writing { due: now.after(WRITE_TIMEOUT), changes: Vec::new(), answers: Vec::new() };
        for (from, asker, command) in std::mem::take(&mut self.queue) {
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
            writing.answers.push((from, asker, answer));
        }
        let changes = writing.changes.clone();
        self.writing = Some(writing);
        self.writes += 1;
        if changes.is_empty() {
            return self.written(now, out);
        }
        let ask = StoreAsk::Write { term: self.term, number: self.writes, changes };
        out.push((Party::Store, Message::Ask(ask)));
    }

    /// Publishes what is durable now, hints at it, and answers.
    fn written(&mut self, now: Moment, out: &mut Out) {
        let Some(Writing { changes, answers, .. }) = self.writing.take() else { return };
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
        for (to, asker, answer) in answers {
            out.extend(reply(asker, answer).map(|message| (to, message)));
        }
        self.work(now, out);
    }
}

fn reply(asker: Asker, answer: Result<Answer, Refusal>) -> Option<Message> {
    Some(match (asker, answer) {
        (Asker::Nobody, _) => return None,
        (Asker::Registration, Ok(Answer::Node(node))) => Message::Registered(Ok(node)),
        (Asker::Registration, Ok(Answer::Suppressed(..))) => Message::NotReadmitted,
        (Asker::Registration, Err(refusal)) => Message::Registered(Err(refusal)),
        (Asker::Join(id), Ok(Answer::Joined(joined))) => Message::Joined(id, Ok(Box::new(joined))),
        (Asker::Join(id), Err(refusal)) => Message::Joined(id, Err(refusal)),
        (Asker::Leave(id), Ok(Answer::Left { gn, pn, revision })) => {
            Message::Left(id, Ok((gn, pn, revision)))
        }
        (Asker::Leave(id), Err(refusal)) => Message::Left(id, Err(refusal)),
        (_, Ok(answer)) => panic!("{answer:?} answers something else"),
    })
}
