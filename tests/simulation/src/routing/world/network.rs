//! The network: calls and answers, watches, and requests to switches, each with its delay.

use std::time::Duration;

use fabricast_groups::command::{Answer, Command};
use fabricast_groups::record::{Change, GroupRecord, Route};
use fabricast_groups::{Gn, Refusal, Revision};
use fabricast_proto::v1;
use tonic::Status;

use super::{CALL_TIMEOUT, Event, ROUTE_NEWS, RouteWorld, Stream};
use crate::routing::agent::Caller;
use crate::routing::calls::{RouterReply, RouterRequest, RouterResult};
use crate::routing::scenario::RouteParty;
use crate::routing::senders::MemberKey;
use crate::routing::tic::{WatchKey, routed};

impl RouteWorld {
    pub(super) fn send_request(&mut self, caller: Caller, request: RouterRequest) {
        let router = caller.at;
        if let RouterRequest::Next(watch) = request {
            let router = self.routers[router].as_mut().expect("it has just asked");
            let stream = router.streams.entry(watch).or_default();
            stream.reader = Some(caller.call);
            return self.read_on(caller.at, watch);
        }
        let asking = self.routers[router].as_mut().expect("it has just asked");
        asking.waits |= matches!(request, RouterRequest::Acquire);
        if request.agent().is_some() || matches!(request, RouterRequest::Report(_)) {
            asking.turn.insert(caller.call);
        }
        self.enqueue(CALL_TIMEOUT, Event::TimedOut(caller));
        let to = request.agent().map_or(RouteParty::Tic, RouteParty::Agent);
        let lost = self.is_lost(RouteParty::Router(router), to);
        if self.chance.below(100) < self.loss_percent {
            let delay = self.draw_message_delay() * 4;
            self.under_way += 1;
            self.enqueue(delay, Event::Call(caller, request.clone()));
        }
        if !lost {
            let delay = self.draw_message_delay();
            self.under_way += 1;
            self.enqueue(delay, Event::Call(caller, request));
        }
    }

    pub(super) fn call(&mut self, caller: Caller, request: RouterRequest) {
        self.under_way -= 1;
        match request.agent() {
            Some(agent) if self.frozen.contains(&RouteParty::Agent(agent)) => {
                self.waiting.entry(agent).or_default().push((caller, request));
            }
            Some(agent) => match &mut self.agents[agent] {
                Some(serving) => {
                    serving.serve(caller, request);
                    self.resume_agent(agent);
                }
                None => {
                    let refused = Err(Status::unavailable("connection refused"));
                    self.send_answer(RouteParty::Agent(agent), caller, refused);
                }
            },
            None if self.tic_is_down => {
                let refused = Err(Status::unavailable("connection refused"));
                self.send_answer(RouteParty::Tic, caller, refused);
            }
            None => {
                let answer = self.serve_tic(caller, request);
                self.send_answer(RouteParty::Tic, caller, answer);
            }
        }
    }

    pub(super) fn send_answer(&mut self, from: RouteParty, caller: Caller, answer: RouterResult) {
        if !self.is_lost(from, RouteParty::Router(caller.at)) {
            let delay = self.draw_message_delay();
            self.under_way += 1;
            self.enqueue(delay, Event::Answer(caller, answer));
        }
    }

    pub(super) fn answer_router(&mut self, caller: Caller, answer: RouterResult) {
        let Caller { at, incarnation, call } = caller;
        if let Some(router) =
            self.routers[at].as_mut().filter(|router| router.incarnation == incarnation)
        {
            router.waits &= !matches!(answer, Ok(RouterReply::Acquired(_)));
            router.turn.remove(&call);
            router.executor.answer(call, answer);
            self.resume(at);
        }
    }

    pub(super) fn resume_agent(&mut self, at: usize) {
        if self.frozen.contains(&RouteParty::Agent(at)) {
            return;
        }
        let Some(agent) = &mut self.agents[at] else { return };
        let answers = agent.resume(self.now);
        let (incarnation, requests) = (agent.incarnation, agent.executor.take_calls());
        for (call, request) in requests {
            let delay = self.draw_switch_delay();
            self.under_way += 1;
            self.enqueue(delay, Event::SwitchRequest(Caller { at, incarnation, call }, request));
        }
        for (caller, answer) in answers {
            self.send_answer(RouteParty::Agent(at), caller, answer);
        }
    }

    pub(super) fn stream_message(&mut self, key: WatchKey, message: RouterResult) {
        if let Some(stream) = self.stream(key) {
            stream.seen += 1;
            stream.arrived.push_back(message);
            self.read_on(key.router, key.watch);
        }
    }

    /// Returns a watch on the reader's side; `None` if the reader has been killed.
    pub(super) fn stream(&mut self, key: WatchKey) -> Option<&mut Stream> {
        let router = self.routers[key.router]
            .as_mut()
            .filter(|router| router.incarnation == key.incarnation)?;
        Some(router.streams.entry(key.watch).or_default())
    }

    /// Passes the next message of a watch to its reader, if both are there.
    pub(super) fn read_on(&mut self, at: usize, watch: u64) {
        let Some(router) = &mut self.routers[at] else { return };
        let Some(stream) = router.streams.get_mut(&watch) else { return };
        if stream.arrived.is_empty() {
            return;
        }
        if let Some(call) = stream.reader.take() {
            let message = stream.arrived.pop_front().expect("there is one");
            router.executor.answer(call, message);
            self.enqueue(Duration::ZERO, Event::Wake(at));
        }
    }

    /// Sends a message of a watch, behind those sent before.
    pub(super) fn send_message(&mut self, key: WatchKey, message: RouterResult) {
        let way = self.draw_message_delay();
        let arrives = self.now.after(way);
        let Some(stream) = self.stream(key) else { return };
        stream.last_at = stream.last_at.max(arrives);
        let delay = stream.last_at.since(self.now);
        self.enqueue(delay, Event::Message(key, message));
    }

    /// Sends a message to all watchers; a watch whose connection is cut breaks.
    pub(super) fn publish(&mut self, message: &v1::WatchDirectoryResponse) {
        self.tic.published += 1;
        for key in self.tic.watches.clone() {
            if self.cut.contains(&(RouteParty::Tic, RouteParty::Router(key.router))) {
                self.break_watch(key);
            } else {
                self.send_message(key, Ok(RouterReply::Message(Some(Box::new(message.clone())))));
            }
        }
    }

    pub(super) fn break_watch(&mut self, key: WatchKey) {
        if self.tic.watches.remove(&key) {
            self.send_message(key, Err(Status::unavailable("the watch is broken")));
        }
    }

    pub(super) fn serve_tic(&mut self, caller: Caller, request: RouterRequest) -> RouterResult {
        let Caller { at: router, incarnation, .. } = caller;
        match request {
            RouterRequest::Watch
                if self.stream(WatchKey { router, incarnation, watch: 0 }).is_none() =>
            {
                Err(Status::unavailable("the caller has died"))
            }
            RouterRequest::Watch => {
                let (watch, messages) = self.tic.watch(&self.graph, router, incarnation);
                let key = WatchKey { router, incarnation, watch };
                // The snapshot contains everything that was published before.
                let before = self.tic.published.saturating_sub(messages.len() as u64);
                if let Some(stream) = self.stream(key) {
                    stream.seen = before;
                }
                for message in messages {
                    self.send_message(key, Ok(RouterReply::Message(Some(Box::new(message)))));
                }
                Ok(RouterReply::Watching(watch))
            }
            RouterRequest::ListChoices => {
                Ok(RouterReply::Choices(v1::ListRouteChoicesResponse::default()))
            }
            RouterRequest::Record => panic!("an engine without a past chooses nothing"),
            RouterRequest::Report(report) => {
                self.tic.check_report(&report)?;
                let decided = self.decide(&routed(&report));
                decided.map(|_| RouterReply::Done).map_err(|why| Status::internal(why.to_string()))
            }
            terms => self.tic.serve_term(self.now, &terms),
        }
    }

    /// Decides a command and sends the changes to watchers and senders.
    pub(super) fn decide(&mut self, command: &Command) -> Result<Answer, Refusal> {
        let groups = self.tic.directory.groups_from(Gn(0));
        let before: Vec<_> = groups.map(|group| (group.gn, group.home())).collect();
        let (answer, changes, message) = self.tic.decide(self.now, command)?;
        let directory = &self.tic.directory;
        let home = |gn: Gn| directory.group(gn).map(GroupRecord::home);
        let gone = before.iter().filter(|(gn, mgid)| home(*gn) != Some(*mgid));
        let gone: Vec<_> = gone.map(|(_, mgid)| *mgid).collect();
        let mut changed: Vec<_> = changes.iter().filter_map(group_of).collect();
        changed.sort_unstable();
        changed.dedup();
        self.witness.decided(directory, &gone, &changed);
        let to_tell = self.senders.decided(directory, &changes);
        let at = directory.revision();
        for (member_key, route) in to_tell {
            let most = u32::try_from(ROUTE_NEWS.as_micros()).expect("less than an hour");
            let delay = Duration::from_micros(self.chance.below(most).into());
            self.enqueue(delay, Event::RouteHeard(member_key, at, route));
        }
        if !changes.is_empty() {
            self.publish(&message);
        }
        Ok(answer)
    }

    /// A member learns of a route from its group agent, which has it from the TIC.
    pub(super) fn hear(&mut self, member_key: MemberKey, at: Revision, route: Route) {
        if self.tic_is_down {
            // Its group agent tries again.
            self.enqueue(Duration::from_millis(100), Event::RouteHeard(member_key, at, route));
        } else if self.senders.hear(member_key, at, route) {
            self.witness.news.groups.insert(member_key.0);
        }
    }

    pub(super) fn is_lost(&mut self, from: RouteParty, to: RouteParty) -> bool {
        let lost = self.chance.below(100) < self.loss_percent;
        lost || self.cut.contains(&(from, to))
    }

    pub(super) fn draw_message_delay(&mut self) -> Duration {
        self.draw_delay(self.delay)
    }

    pub(super) fn draw_switch_delay(&mut self) -> Duration {
        self.draw_delay(self.switch_delay)
    }

    pub(super) fn draw_delay(&mut self, most: Duration) -> Duration {
        let most = u32::try_from(most.as_micros()).expect("less than an hour");
        let slow = if self.chance.below(10) == 0 { 2 * most } else { 0 };
        Duration::from_micros(u64::from(1 + self.chance.below(most) + slow))
    }

    pub(super) fn enqueue(&mut self, delay: Duration, event: Event) {
        self.queued += 1;
        self.queue.insert((self.now.after(delay), self.queued), event);
    }
}

fn group_of(change: &Change) -> Option<Gn> {
    match change {
        Change::GroupPut(group) => Some(group.gn),
        Change::MemberPut(member) | Change::MemberDeleted(member) => Some(member.gn),
        _ => None,
    }
}
