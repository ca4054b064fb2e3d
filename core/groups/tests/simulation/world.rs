//! The simulated world: clock, network, the TIC's shell with its store, and the people who use it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_groups::command::{Answer, Command, FormGroup, GroupSpec, Joiner};
use fabricast_groups::directory::{Directory, Limits, NewGroup};
use fabricast_groups::host_watch::{HostWatch, HostWatchOutput};
use fabricast_groups::names::{EndpointName, GroupName, NodeName, ProcessName, RequestId};
use fabricast_groups::operating::{JoinCall, LeaveCall, Phase};
use fabricast_groups::record::{Change, Route, RouteState};
use fabricast_groups::{Gn, Moment, Refusal};
use fabricast_routing::Mgid;

use crate::node::{Asker, DETECTOR, Message, Party, SimNode};

pub(crate) use crate::node::name;

#[derive(Clone, Copy)]
pub(crate) struct Network {
    /// The longest way of a message; a tenth of them take all of it and as much again.
    pub(crate) delay: Duration,
    pub(crate) loss_percent: u64,
    pub(crate) duplicate_percent: u64,
}

pub(crate) struct World {
    pub(crate) now: Moment,
    pub(crate) network: Network,
    pub(crate) tic: Tic,
    pub(crate) nodes: Vec<SimNode>,
    pub(crate) delivered: u64,
    pub(crate) probes_answered: u64,
    in_flight: BTreeMap<(Moment, u64), (Party, Party, Message)>,
    sent: u64,
    chance: Chance,
    requests: u64,
}

/// The TIC's shell: decides, stores, applies, answers.
pub(crate) struct Tic {
    directory: Directory,
    watch: HostWatch,
    store: BTreeMap<String, Vec<u8>>,
    gns: BTreeSet<Gn>,
}

/// Randomness that depends on the seed alone.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(u64::try_from(end).unwrap())).unwrap()
    }
}

impl Tic {
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    fn new() -> Self {
        let directory = Directory::new(Limits::default());
        let watch = HostWatch::start(DETECTOR, &directory, Moment(0));
        Self { directory, watch, store: BTreeMap::new(), gns: BTreeSet::new() }
    }

    fn restart(&mut self, now: Moment) {
        let read = Directory::load(Limits::default(), self.store.iter()).unwrap();
        assert_eq!(read, self.directory, "S3: what was acknowledged is read back");
        self.directory = read;
        self.watch = HostWatch::start(DETECTOR, &self.directory, now);
    }

    fn decide(&mut self, now: Moment, command: &Command) -> Result<(Answer, Vec<Change>), Refusal> {
        let mut choose = |group: &NewGroup<'_>| (0..).map(Mgid).find(|mgid| (group.is_free)(*mgid));
        let decision = self.directory.decide(now, command, &mut choose)?;
        for change in &decision.changes {
            if let Change::GroupPut(group) = change
                && self.directory.group(group.gn).is_none()
            {
                assert!(self.gns.insert(group.gn), "G1");
            }
            match change.encode() {
                Some(value) => self.store.insert(change.store_key(), value),
                None => self.store.remove(&change.store_key()),
            };
            self.directory.apply(change);
        }
        for change in &decision.changes {
            self.watch.applied(change, &self.directory, now);
        }
        Ok((decision.answer, decision.changes))
    }
}

impl World {
    pub(crate) fn new(seed: u64, nodes: usize, network: Network) -> Self {
        let now = Moment(0);
        let mut world = Self {
            now,
            network,
            tic: Tic::new(),
            nodes: (0..nodes).map(|index| SimNode::new(index, now)).collect(),
            delivered: 0,
            probes_answered: 0,
            in_flight: BTreeMap::new(),
            sent: 0,
            chance: Chance(seed),
            requests: 0,
        };
        // Every run starts with known nodes: registration in a storm comes with the restarts.
        world.network.loss_percent = 0;
        world.run(network.delay * 5, false);
        world.network = network;
        world
    }

    pub(crate) fn run(&mut self, span: Duration, storm: bool) {
        self.run_until(self.now.after(span), storm);
    }

    fn run_until(&mut self, end: Moment, storm: bool) {
        let mut next_blow = self.now;
        let mut stuck = 0;
        loop {
            let deadlines = self.nodes.iter().map(SimNode::next_deadline);
            let message = self.in_flight.keys().next().map(|(at, _)| *at);
            let blow = storm.then_some(next_blow);
            let watch = self.tic.watch.next_deadline();
            let next = deadlines.chain(message).chain(blow).chain(watch).min().unwrap();
            if next > end {
                self.now = end;
                return;
            }
            stuck = if next > self.now { 0 } else { stuck + 1 };
            assert!(stuck < 100_000, "time stands still at {:?}", self.now);
            self.now = self.now.max(next);
            self.deliver_due();
            for index in 0..self.nodes.len() {
                let sent = self.nodes[index].tick(self.now);
                self.send(Party::Node(index), sent);
            }
            self.poll_watch();
            if storm && next_blow <= self.now {
                self.blow();
                next_blow = self.now.after(Duration::from_millis(150));
            }
        }
    }

    fn deliver_due(&mut self) {
        while let Some(entry) = self.in_flight.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let (from, to, message) = entry.remove();
            self.delivered += 1;
            match to {
                Party::Tic => self.tic_handles(from, message),
                Party::Node(index) => {
                    if self.nodes[index].cut_off {
                        continue;
                    }
                    let sent = self.nodes[index].handle(self.now, from, message);
                    self.send(to, sent);
                }
            }
        }
    }

    pub(crate) fn send(&mut self, from: Party, messages: Vec<(Party, Message)>) {
        for (to, message) in messages {
            let cut = |party| matches!(party, Party::Node(index) if self.nodes[index].cut_off);
            let local = from == to;
            if cut(from) || (cut(to) && !local) {
                continue;
            }
            if local {
                self.enqueue(Duration::ZERO, from, to, message);
                continue;
            }
            if self.chance.below(100) < self.network.loss_percent {
                continue;
            }
            if self.chance.below(100) < self.network.duplicate_percent {
                let delay = self.delay() * 3;
                self.enqueue(delay, from, to, message.clone());
            }
            let delay = self.delay();
            self.enqueue(delay, from, to, message);
        }
    }

    fn delay(&mut self) -> Duration {
        let most = u64::try_from(self.network.delay.as_nanos()).unwrap();
        let slow = if self.chance.below(10) == 0 { most } else { 0 };
        Duration::from_nanos(1 + self.chance.below(most) + slow)
    }

    fn enqueue(&mut self, delay: Duration, from: Party, to: Party, message: Message) {
        self.sent += 1;
        self.in_flight.insert((self.now.after(delay), self.sent), (from, to, message));
    }

    fn tic_handles(&mut self, from: Party, message: Message) {
        let Party::Node(index) = from else { panic!("the TIC does not write to itself") };
        let now = self.now;
        let reply = match message {
            Message::Decide(asker, command) => {
                let answer = self.decide(&command);
                match (asker, answer) {
                    (Asker::Nobody, _) => return,
                    (Asker::Registration, Ok(Answer::Node(node))) => Message::Registered(Ok(node)),
                    (Asker::Registration, Err(refusal)) => Message::Registered(Err(refusal)),
                    (Asker::Join(id), Ok(Answer::Joined(joined))) => {
                        Message::Joined(id, Ok(joined))
                    }
                    (Asker::Join(id), Err(refusal)) => Message::Joined(id, Err(refusal)),
                    (Asker::Leave(id), Ok(Answer::Left { gn, pn, revision })) => {
                        Message::Left(id, Ok((gn, pn, revision)))
                    }
                    (Asker::Leave(id), Err(refusal)) => Message::Left(id, Err(refusal)),
                    (_, Ok(answer)) => panic!("{answer:?} answers something else"),
                }
            }
            Message::Fetch(gn, for_agent) => {
                Message::Group(gn, for_agent, self.tic.directory.snapshot(gn))
            }
            Message::Status(incarnation, groups) => {
                self.tic.watch.heard(&name(index), incarnation, now);
                let verdict = self.tic.directory.verdict(&name(index), incarnation, &groups);
                Message::Verdict(incarnation, verdict)
            }
            Message::ProbeAnswer(incarnation, probe) => {
                self.probes_answered += 1;
                self.tic.watch.probe_answered(&name(index), incarnation, probe, now);
                return;
            }
            other => panic!("the TIC is not sent {other:?}"),
        };
        self.send(Party::Tic, vec![(from, reply)]);
    }

    /// Decides, and hints at the change to the agents it concerns.
    fn decide(&mut self, command: &Command) -> Result<Answer, Refusal> {
        let (answer, changes) = self.tic.decide(self.now, command)?;
        let mut hints = BTreeSet::new();
        for change in &changes {
            if let Change::GroupPut(group) = change
                && let Some(agent) = &group.agent
            {
                hints.insert((agent.clone(), group.gn));
            }
        }
        for (agent, gn) in hints {
            let to = Party::Node(self.index_of(&agent));
            self.send(Party::Tic, vec![(to, Message::Notify(gn))]);
        }
        Ok(answer)
    }

    fn poll_watch(&mut self) {
        for output in self.tic.watch.poll(&self.tic.directory, self.now) {
            match output {
                HostWatchOutput::Probe { node, probe, .. } => {
                    let to = Party::Node(self.index_of(&node));
                    self.send(Party::Tic, vec![(to, Message::Probe(probe))]);
                }
                HostWatchOutput::Failed { node, incarnation } => {
                    let command = Command::NodeFailed { node, incarnation: Some(incarnation) };
                    self.decide(&command).expect("the watched node is registered");
                }
            }
        }
    }

    fn index_of(&self, node: &NodeName) -> usize {
        self.nodes.iter().position(|at| at.oa.identity().node == *node).unwrap()
    }

    /// One thing that people or fate do.
    fn blow(&mut self) {
        let at = self.chance.index(self.nodes.len());
        let group = format!("g{}", self.chance.below(4));
        let process = format!("p{}", self.chance.below(2));
        match self.chance.below(42) {
            0..=19 => self.join(at, &group, &process),
            20..=27 => self.leave(at, &group, &process),
            28 | 29 => self.nodes[at].oa.stop(self.now),
            30..=33 => self.nodes[at].oa.start(self.now),
            34 => self.nodes[at].mute ^= true,
            35 => self.nodes[at].cut_off ^= true,
            36 => self.tic.restart(self.now),
            37 => {
                let members = [at, self.chance.index(self.nodes.len())];
                let group = format!("f{}", self.chance.below(3));
                self.form(&group, &members);
            }
            38 => self.fail_process(at, &process),
            39 | 40 => self.route(),
            _ => self.delete(&group),
        }
        let sent = self.nodes[at].drain(self.now);
        self.send(Party::Node(at), sent);
    }

    /// Ends the storm's doings: every node is connected and reports again; the stopped stay so.
    pub(crate) fn calm_down(&mut self) {
        for node in &mut self.nodes {
            (node.mute, node.cut_off) = (false, false);
        }
    }

    fn request_id(&mut self) -> RequestId {
        self.requests += 1;
        RequestId::new(&format!("r{}", self.requests)).unwrap()
    }

    pub(crate) fn join(&mut self, at: usize, group: &str, process: &str) {
        let wish = JoinCall {
            request_id: self.request_id(),
            group: spec(group),
            process: ProcessName::new(process).unwrap(),
            endpoint: None,
        };
        let _ = self.nodes[at].oa.join(self.now, wish);
    }

    fn leave(&mut self, at: usize, group: &str, process: &str) {
        let wish = LeaveCall {
            request_id: self.request_id(),
            group: GroupName::new(group).unwrap(),
            process: ProcessName::new(process).unwrap(),
        };
        let _ = self.nodes[at].oa.leave(self.now, wish);
    }

    fn delete(&mut self, group: &str) {
        let request_id = self.request_id();
        let group = GroupName::new(group).unwrap();
        let _ = self.decide(&Command::DeleteGroup { request_id, group });
    }

    /// The route service has programmed the present groups, some with one endpoint left out.
    fn route(&mut self) {
        let revision = self.tic.directory.revision();
        let mut routes = Vec::new();
        for group in self.tic.directory.groups_from(Gn(0)) {
            let color = u16::try_from(self.chance.below(3)).unwrap();
            let endpoint = format!("h{}/0", self.chance.below(20));
            let route = Route {
                revision,
                state: RouteState::Routed { color, virtual_group: 0 },
                reason: String::new(),
                cut_off: vec![EndpointName::new(&endpoint).unwrap()],
            };
            routes.push((group.gn, route));
        }
        self.decide(&Command::Routed { routes, clean: Some(revision) }).expect("it is a report");
    }

    fn fail_process(&mut self, at: usize, process: &str) {
        let command = Command::ProcessFailed {
            node: name(at),
            incarnation: self.nodes[at].oa.incarnation(),
            process: ProcessName::new(process).unwrap(),
        };
        let _ = self.decide(&command);
    }

    pub(crate) fn form(&mut self, group: &str, nodes: &[usize]) {
        let joiner = |at: &usize| Joiner {
            node: name(*at),
            incarnation: self.nodes[*at].oa.incarnation(),
            endpoint: EndpointName::new(&format!("h{at}/1")).unwrap(),
            process: ProcessName::new("launched").unwrap(),
        };
        let members = nodes.iter().map(joiner).collect();
        let group = FormGroup { group: spec(group), members };
        self.decide(&Command::FormGroups(vec![group])).expect("a batch is answered group by group");
    }

    pub(crate) fn is_up(&self, at: usize) -> bool {
        self.nodes[at].oa.phase() == Phase::Up
    }
}

fn spec(group: &str) -> GroupSpec {
    let name = GroupName::new(group).unwrap();
    GroupSpec { name, mgid: None, persistent: group == "g0", exclusive: false }
}
