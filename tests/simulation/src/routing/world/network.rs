//! The network: calls and their answers, watches, and what agents do at switches, each on its way.

use std::time::Duration;

use fabricast_proto::v1;
use tonic::Status;

use super::{Event, PATIENCE, Stream, World};
use crate::routing::agent::Caller;
use crate::routing::calls::{Answer, Ask, Reply};
use crate::routing::scenario::RouteParty;
use crate::routing::tic::WatchKey;

impl World {
    pub(super) fn ask(&mut self, caller: Caller, ask: Ask) {
        let (router, ..) = caller;
        if let Ask::Next(watch) = ask {
            let router = self.routers[router].as_mut().expect("it has just asked");
            let stream = router.streams.entry(watch).or_default();
            stream.reader = Some(caller.2);
            return self.read_on(caller.0, watch);
        }
        let asking = self.routers[router].as_mut().expect("it has just asked");
        asking.waits |= matches!(ask, Ask::Acquire);
        if ask.agent().is_some() || matches!(ask, Ask::Report(_)) {
            asking.turn.insert(caller.2);
        }
        self.enqueue(PATIENCE, Event::GiveUp(caller));
        let to = ask.agent().map_or(RouteParty::Tic, RouteParty::Agent);
        let lost = self.is_lost(RouteParty::Router(router), to);
        if self.chance.below(100) < self.loss_percent {
            let delay = self.way() * 4;
            self.under_way += 1;
            self.enqueue(delay, Event::Call(caller, ask.clone()));
        }
        if !lost {
            let delay = self.way();
            self.under_way += 1;
            self.enqueue(delay, Event::Call(caller, ask));
        }
    }

    pub(super) fn call(&mut self, caller: Caller, ask: Ask) {
        self.under_way -= 1;
        match ask.agent() {
            Some(agent) if self.frozen.contains(&RouteParty::Agent(agent)) => {
                self.waiting.entry(agent).or_default().push((caller, ask));
            }
            Some(agent) => match &mut self.agents[agent] {
                Some(serving) => {
                    serving.serve(caller, ask);
                    self.go_on_agent(agent);
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
                let answer = self.serve_tic(caller, ask);
                self.send_answer(RouteParty::Tic, caller, answer);
            }
        }
    }

    pub(super) fn send_answer(&mut self, from: RouteParty, caller: Caller, answer: Answer) {
        if !self.is_lost(from, RouteParty::Router(caller.0)) {
            let delay = self.way();
            self.under_way += 1;
            self.enqueue(delay, Event::Answer(caller, answer));
        }
    }

    pub(super) fn answer_router(&mut self, (at, life, call): Caller, answer: Answer) {
        if let Some(router) = self.routers[at].as_mut().filter(|router| router.life == life) {
            router.waits &= !matches!(answer, Ok(Reply::Acquired(_)));
            router.turn.remove(&call);
            router.desk.answer(call, answer);
            self.go_on(at);
        }
    }

    pub(super) fn go_on_agent(&mut self, at: usize) {
        if self.frozen.contains(&RouteParty::Agent(at)) {
            return;
        }
        let Some(agent) = &mut self.agents[at] else { return };
        let answers = agent.go_on(self.now);
        let (life, touches) = (agent.life, agent.desk.take_asked());
        for (call, touch) in touches {
            let delay = self.touch_way();
            self.under_way += 1;
            self.enqueue(delay, Event::Touch((at, life, call), touch));
        }
        for (caller, answer) in answers {
            self.send_answer(RouteParty::Agent(at), caller, answer);
        }
    }

    pub(super) fn stream_message(&mut self, (at, life, watch): WatchKey, message: Answer) {
        if let Some(stream) = self.stream((at, life, watch)) {
            stream.seen += 1;
            stream.arrived.push_back(message);
            self.read_on(at, watch);
        }
    }

    /// A watch as its reader has it, unless that has been killed.
    pub(super) fn stream(&mut self, (at, life, watch): WatchKey) -> Option<&mut Stream> {
        let router = self.routers[at].as_mut().filter(|router| router.life == life)?;
        Some(router.streams.entry(watch).or_default())
    }

    /// Gives the reader of a watch the next message, if there are both.
    pub(super) fn read_on(&mut self, at: usize, watch: u64) {
        let Some(router) = &mut self.routers[at] else { return };
        let Some(stream) = router.streams.get_mut(&watch) else { return };
        if stream.arrived.is_empty() {
            return;
        }
        if let Some(call) = stream.reader.take() {
            let message = stream.arrived.pop_front().expect("there is one");
            router.desk.answer(call, message);
            self.enqueue(Duration::ZERO, Event::Wake(at));
        }
    }

    /// Sends a message of a watch, behind those that were sent before.
    pub(super) fn send_message(&mut self, key: WatchKey, message: Answer) {
        let way = self.way();
        let arrives = self.now.after(way);
        let Some(stream) = self.stream(key) else { return };
        stream.last_at = stream.last_at.max(arrives);
        let delay = stream.last_at.since(self.now);
        self.enqueue(delay, Event::Message(key, message));
    }

    /// Sends a message to everybody who watches; where the way is cut, the watch breaks.
    pub(super) fn publish(&mut self, message: &v1::WatchDirectoryResponse) {
        self.tic.published += 1;
        for key in self.tic.watches.clone() {
            if self.cut.contains(&(RouteParty::Tic, RouteParty::Router(key.0))) {
                self.break_watch(key);
            } else {
                self.send_message(key, Ok(Reply::Message(Some(Box::new(message.clone())))));
            }
        }
    }

    pub(super) fn break_watch(&mut self, key: WatchKey) {
        if self.tic.watches.remove(&key) {
            self.send_message(key, Err(Status::unavailable("the watch is broken")));
        }
    }

    pub(super) fn is_lost(&mut self, from: RouteParty, to: RouteParty) -> bool {
        let lost = self.chance.below(100) < self.loss_percent;
        lost || self.cut.contains(&(from, to))
    }

    pub(super) fn way(&mut self) -> Duration {
        self.draw(self.delay)
    }

    pub(super) fn touch_way(&mut self) -> Duration {
        self.draw(self.switch_delay)
    }

    pub(super) fn draw(&mut self, most: Duration) -> Duration {
        let most = u32::try_from(most.as_micros()).expect("less than an hour");
        let slow = if self.chance.below(10) == 0 { 2 * most } else { 0 };
        Duration::from_micros(u64::from(1 + self.chance.below(most) + slow))
    }

    pub(super) fn enqueue(&mut self, delay: Duration, event: Event) {
        self.queued += 1;
        self.queue.insert((self.now.after(delay), self.queued), event);
    }
}
