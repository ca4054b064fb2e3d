//! Questions to the TIC about nodes and groups, and registrations with group agents: what waits for one
//! destination goes in one call, and one call at a time is under way to it.
//!
//! A job launcher forms thousands of groups at once, and every one of their agents fetches its own; when
//! agents fail, members ask about every one of their groups. As calls of their own these would bury the
//! process, and what it has to say in time among them, under tasks; like this there is one task for each
//! destination, whatever waits.
//! Each question waits or is under way once: no more of them are kept than there are memberships.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fabricast_group::Hosts;
use fabricast_group::wire;
use fabricast_groups::command::RegisterNode;
use fabricast_groups::ids::{Epoch, Gn, Incarnation, Pn, Revision};
use fabricast_groups::message::Register;
use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::record::NodeRecord;
use fabricast_proto::v1;
use fabricast_rpc::{Peer, refusal_from_wire};
use fabricast_telemetry::traces::{Origin, Origins, Span};
use tokio::task::JoinSet;
use tonic::{Code, Status};
use tracing::debug;

use crate::host::{Host, lock};
use crate::requests::spread;
use crate::tic_wire::{self, Verdict};

/// Questions in one call: a few milliseconds of work.
const PER_CALL: usize = 256;
/// Hints that a group changed are gathered for this long before it is fetched for its agent.
const GATHER: Duration = Duration::from_millis(5);
/// A call is given up after this; the state machines ask again.
const DEADLINE: Duration = Duration::from_secs(5);

/// For whom a group is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum For {
    /// The node's processes in it.
    Members,
    /// The agent of the group, which wants all members.
    Agent,
}

type Admission = (NodeName, u64); // by its start
type Fetch = (NodeName, Gn);
type Place = (NodeName, Incarnation, Gn, Pn, Epoch);

/// Things to ask one destination: each waits, or is under way, once.
#[derive(Debug)]
struct Lane<K, V> {
    waiting: BTreeMap<K, V>,
    out: BTreeSet<K>,
    works: bool,
    /// The traced requests that what waits comes of.
    origins: Origins,
}

impl<K, V> Default for Lane<K, V> {
    fn default() -> Self {
        let (waiting, out, origins) = Default::default();
        Self { waiting, out, works: false, origins }
    }
}

impl<K: Ord + Clone, V> Lane<K, V> {
    /// Adds a question; answers whether somebody must begin to work it off.
    fn put(&mut self, key: K, value: V) -> bool {
        if !self.out.contains(&key) {
            self.waiting.insert(key, value);
            self.origins.add(Origin::kept());
        }
        !std::mem::replace(&mut self.works, true)
    }

    /// As [`Lane::take`], with a span for what is made of it.
    fn take_traced(&mut self, name: &'static str) -> (Vec<(K, V)>, Span) {
        (self.take(), std::mem::take(&mut self.origins).span(name))
    }

    /// Takes what goes in the next call; nothing ends the work.
    fn take(&mut self) -> Vec<(K, V)> {
        let rest = match self.waiting.keys().nth(PER_CALL).cloned() {
            Some(next) => self.waiting.split_off(&next),
            None => BTreeMap::new(),
        };
        let some: Vec<(K, V)> = std::mem::replace(&mut self.waiting, rest).into_iter().collect();
        self.out = some.iter().map(|(key, _)| key.clone()).collect();
        self.works = !some.is_empty();
        some
    }
}

/// Everything that is to be asked.
#[derive(Debug, Default)]
pub(crate) struct Errands {
    admissions: Lane<Admission, RegisterNode>,
    fetches: BTreeMap<For, Lane<Fetch, ()>>,
    places: BTreeMap<Address, Lane<Place, v1::RegisterMemberRequest>>,
}

impl Host {
    /// Has a node announced to the TIC.
    pub(crate) fn announce_soon(&self, node: NodeName, announced: RegisterNode) {
        let key = (node, announced.start_id);
        if lock(&self.0.errands).admissions.put(key, announced) {
            self.spawn(Self::announce_all);
        }
    }

    async fn announce_all(self) {
        loop {
            let some = lock(&self.0.errands).admissions.take();
            if some.is_empty() {
                return;
            }
            let mut calls = JoinSet::new(); // they share the TIC's commits
            for (key, announced) in some {
                let mut tic = self.tic();
                calls.spawn(async move {
                    let asked = tic.register_node(tic_wire::register_request(&announced)).await;
                    (
                        key,
                        asked.and_then(|answer| {
                            tic_wire::registered(&announced, answer.into_inner())
                        }),
                    )
                });
            }
            while let Some(called) = calls.join_next().await {
                let (key, answer) = called.expect("a call does not panic");
                lock(&self.0.errands).admissions.out.remove(&key);
                self.take_admission(&key.0, answer);
            }
        }
    }

    fn take_admission(&self, node: &NodeName, answer: Result<NodeRecord, Status>) {
        let answer = match answer {
            Ok(record) => Ok(record),
            Err(status) => {
                debug!(member = %node, error = %status.message(), "node not registered");
                let Verdict::Final(refusal) = tic_wire::verdict(node, &status) else { return };
                Err(refusal)
            }
        };
        self.input(node, |agent, now| agent.registered(now, answer));
    }

    /// Has a group fetched from the TIC.
    pub(crate) fn fetch_soon(&self, whom: For, node: NodeName, gn: Gn) {
        let idle = lock(&self.0.errands).fetches.entry(whom).or_default().put((node, gn), ());
        if idle {
            self.spawn(|host| host.fetch_all(whom));
        }
    }

    /// Has a member registered with the agent of its group.
    pub(crate) fn register_soon(
        &self,
        node: NodeName,
        agent: &NodeName,
        address: Address,
        register: &Register,
    ) {
        let (life, pn) = (register.member.incarnation, register.member.member.pn);
        let key = (node, life, register.gn, pn, register.epoch);
        let request = v1::RegisterMemberRequest {
            agent_node: agent.to_string(),
            gn: register.gn.0,
            epoch: register.epoch.0,
            member: Some(wire::member_to_wire(&register.member)),
        };
        let idle =
            lock(&self.0.errands).places.entry(address.clone()).or_default().put(key, request);
        if idle {
            self.spawn(|host| host.register_all(address));
        }
    }

    async fn fetch_all(self, whom: For) {
        loop {
            if whom == For::Agent {
                tokio::time::sleep(GATHER).await;
            }
            let (some, span) = {
                let mut errands = lock(&self.0.errands);
                errands.fetches.entry(whom).or_default().take_traced("fetch_groups")
            };
            if some.is_empty() {
                return;
            }
            span.origin().cover(self.fetch_some(whom, some)).await;
        }
    }

    async fn fetch_some(&self, whom: For, some: Vec<(Fetch, ())>) {
        let (answers, revision) = match self.get_many(whom, &some).await {
            Ok((answers, revision)) => (Ok(answers), revision),
            Err(status) => (Err(status), Revision(0)),
        };
        // They are answered before anybody sees it: what that gives rise to may be the same again.
        lock(&self.0.errands).fetches.entry(whom).or_default().out.clear();
        let asked = answers.as_ref().map_or(some.len(), Vec::len);
        for (((node, gn), ()), answer) in some.iter().zip(spread(answers)).take(asked) {
            self.take_group(whom, node, *gn, (answer, revision));
            // A group with all its members is some work; others are to have their turn in between.
            tokio::task::yield_now().await;
        }
        for ((node, gn), ()) in some.into_iter().skip(asked) {
            self.fetch_soon(whom, node, gn); // there was no room for it in the answer
        }
    }

    async fn get_many(
        &self,
        whom: For,
        some: &[(Fetch, ())],
    ) -> Result<(Vec<Result<v1::GetGroupResponse, Status>>, Revision), Status> {
        let get = |((node, gn), ()): &(Fetch, ())| v1::GetGroupRequest {
            gn: gn.0,
            members_on_node: match whom {
                For::Members => node.to_string(),
                For::Agent => String::new(),
            },
            unless_members_revision: match whom {
                For::Members => 0,
                For::Agent => self
                    .look_at_agents(node, |agents| agents.whole_at(*gn))
                    .flatten()
                    .map_or(0, |at| at.0),
            },
            ..Default::default()
        };
        let request = v1::GetManyRequest { gets: some.iter().map(get).collect() };
        let answer = in_time(self.tic_batches().get_many(request)).await?.into_inner();
        if answer.answers.is_empty() {
            return Err(Status::unavailable("the TIC answered nothing"));
        }
        Ok((answer.answers.into_iter().map(found).collect(), Revision(answer.revision)))
    }

    fn take_group(
        &self,
        whom: For,
        node: &NodeName,
        gn: Gn,
        (answer, revision): (Result<v1::GetGroupResponse, Status>, Revision),
    ) {
        let is_same = answer.as_ref().is_ok_and(|answer| answer.members_left_out);
        let snapshot = match answer.and_then(|answer| wire::snapshot(&answer)) {
            Ok(snapshot) => Some(snapshot),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => {
                debug!(group = gn.0, error = %status.message(), "group not fetched");
                return;
            }
        };
        match whom {
            For::Members => self.input(node, |agent, now| match &snapshot {
                Some(snapshot) => agent.group(now, snapshot),
                None => agent.no_group(gn, revision),
            }),
            For::Agent => self.with_agents(node, |agents, now| match &snapshot {
                Some(snapshot) if is_same => {
                    agents.same_members(now, snapshot.revision, &snapshot.group);
                }
                Some(snapshot) => agents.snapshot(now, snapshot),
                None => agents.gone(gn),
            }),
        };
    }

    async fn register_all(self, address: Address) {
        let peer = self.peer(address.as_str());
        loop {
            let (some, span) = {
                let mut errands = lock(&self.0.errands);
                errands.places.entry(address.clone()).or_default().take_traced("register_members")
            };
            if some.is_empty() {
                lock(&self.0.errands).places.retain(|_, lane| lane.works);
                return;
            }
            let Ok(peer) = &peer else { continue };
            span.origin().cover(self.register_some(peer, &address, some)).await;
        }
    }

    async fn register_some(
        &self,
        peer: &Peer,
        address: &Address,
        some: Vec<(Place, v1::RegisterMemberRequest)>,
    ) {
        let (keys, members): (Vec<Place>, Vec<_>) = some.into_iter().unzip();
        let request = v1::RegisterMembersRequest { members };
        let answer = in_time(self.agents_at(peer).register_members(request)).await;
        let answers = answer
            .map(|answer| answer.into_inner().answers.into_iter().map(placed).collect::<Vec<_>>());
        if let Some(lane) = lock(&self.0.errands).places.get_mut(address) {
            lane.out.clear();
        }
        for ((node, _, gn, pn, epoch), answer) in keys.into_iter().zip(spread(answers)) {
            if let Some(answer) = tic_wire::placed((gn, pn), epoch, answer) {
                self.input(&node, |agent, now| agent.member_registered(now, gn, pn, answer));
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn in_time<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = || Status::deadline_exceeded("no answer in time");
    tokio::time::timeout(DEADLINE, call).await.unwrap_or_else(|_| Err(late()))
}

fn found(answer: v1::GetAnswer) -> Result<v1::GetGroupResponse, Status> {
    match answer.answer {
        Some(v1::get_answer::Answer::Found(found)) => Ok(found),
        Some(v1::get_answer::Answer::Refusal(refusal)) => Err(refusal_from_wire(&refusal)),
        None => Err(Status::unavailable("the TIC did not answer this question")),
    }
}

fn placed(answer: v1::RegisterAnswer) -> Result<v1::Position, Status> {
    match answer.answer {
        Some(v1::register_answer::Answer::Position(position)) => Ok(position),
        Some(v1::register_answer::Answer::Refusal(refusal)) => Err(refusal_from_wire(&refusal)),
        None => Err(Status::unavailable("the agent did not answer this registration")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_waits_or_is_under_way_once() {
        let mut lane = Lane::default();
        assert!(lane.put(1, "a"), "somebody must begin");
        assert!(!lane.put(1, "b"));
        assert!(!lane.put(2, "c"));
        assert_eq!(lane.take(), [(1, "b"), (2, "c")]);
        assert!(!lane.put(1, "d"), "it is under way");
        lane.out.clear();
        assert!(!lane.put(1, "e"));
        assert_eq!(lane.take(), [(1, "e")]);
        assert!(lane.take().is_empty());
        assert!(lane.put(3, "f"), "whoever worked has ended");
    }

    #[test]
    fn a_call_is_bounded_and_leaves_nothing_out() {
        let mut lane = Lane::default();
        for number in 0..PER_CALL * 2 + 1 {
            lane.put(number, ());
        }
        let taken = [lane.take(), lane.take(), lane.take(), lane.take()];
        assert_eq!(taken.each_ref().map(Vec::len), [PER_CALL, PER_CALL, 1, 0]);
        assert!(taken.iter().flatten().map(|(number, ())| *number).eq(0..=PER_CALL * 2));
    }
}
