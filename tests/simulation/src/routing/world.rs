//! The simulated world of routes: clock, network, TIC, route services, switch agents, switches and
//! senders.
//!
//! Every step handles one event: an arriving message or a timer. After each, the invariants of the
//! changed state are checked (`world/checks.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fabricast_config::{RawRouterConfig, checked};
use fabricast_emulator::Emulator;
use fabricast_groups::record::Route;
use fabricast_groups::{Moment, Revision};
use fabricast_router::{
    LiveSettings, RoutingSettings, RunError, TopologySnapshot, run_without_api,
};
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Graph, PortId, SplitMix, SwitchId};
use tonic::Status;

use super::agent::{Caller, Shard, SimAgent};
use super::calls::{RouterRequest, RouterResult, SimEnvironment, SwitchReply, SwitchRequest};
use super::executor::{BoxFuture, ManualExecutor};
use super::scenario::{RouteParty, RouteScenario};
use super::senders::{MemberKey, Senders};
use super::tic::{ElementKey, SimTic, WatchKey};
use super::witness::Witness;
use crate::invariants::g4_routes::Fences;

pub(crate) mod actions;
pub(crate) mod checks;
mod fabric;
mod network;

/// Time for which old entries stay after senders were told.
pub(crate) const DRAIN: Duration = Duration::from_secs(1);
/// Maximum time until senders learn of a route; must be shorter than the drain.
const ROUTE_NEWS: Duration = Duration::from_millis(900);
const READ_BACK: Duration = Duration::from_secs(3);
/// So few that recordings are renewed many times in a run.
const RECORDING_BYTES: usize = 64 << 10;
/// Interval at which agents poll their hardware and report failed parts.
const HARDWARE_POLL: Duration = Duration::from_millis(500);
/// Timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which a killed process is started again.
const RESTART: Duration = Duration::from_millis(700);

/// The world at one moment.
#[derive(Debug)]
pub(crate) struct RouteWorld {
    pub(crate) now: Moment,
    pub(crate) tic: SimTic,
    pub(crate) witness: Witness,
    pub(crate) senders: Senders,
    pub(crate) delivered: u64,
    graph: Arc<Graph>,
    links: Vec<PortId>,
    emulator: Emulator,
    fences: Fences,
    policy: RoutingSettings,
    /// `None` while the process is killed.
    routers: Vec<Option<SimRouter>>,
    agents: Vec<Option<SimAgent>>,
    shards: Vec<Shard>,
    /// Arrival of the latest report of each agent at the TIC.
    seen_at: Vec<Moment>,
    incarnations: u64,
    tic_is_down: bool,
    frozen: BTreeSet<RouteParty>,
    /// Calls that wait for a frozen agent.
    waiting: BTreeMap<usize, Vec<(Caller, RouterRequest)>>,
    /// Pairs of sender and receiver between which messages are dropped.
    cut: BTreeSet<(RouteParty, RouteParty)>,
    queue: BTreeMap<(Moment, u64), Event>,
    queued: u64,
    /// Calls, answers, requests and replies in flight.
    under_way: u64,
    chance: SplitMix,
    delay: Duration,
    loss_percent: u32,
    switch_delay: Duration,
    failing_requests: (u32, bool),
    requests: u64,
}

/// One incarnation of a route service, in a simulated environment.
struct SimRouter {
    incarnation: u64,
    executor: ManualExecutor<RouterRequest, RouterResult>,
    future: BoxFuture<Result<(), RunError>>,
    streams: BTreeMap<u64, Stream>,
    /// True while it waits for a term.
    waits: bool,
    /// Open calls of its current turn: what it does next follows from what it knew when the turn
    /// began.
    turn: BTreeSet<u64>,
}

impl std::fmt::Debug for SimRouter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimRouter").field("incarnation", &self.incarnation).finish_non_exhaustive()
    }
}

/// A watch on the reader's side.
#[derive(Debug, Default)]
struct Stream {
    arrived: VecDeque<RouterResult>,
    /// Open call for the next message, if there is one.
    reader: Option<u64>,
    /// Number of published messages that the arrived ones include.
    seen: u64,
    /// Arrival of the latest message; messages do not overtake each other.
    last_at: Moment,
}

/// An event of the simulation.
#[derive(Debug)]
enum Event {
    /// A call reaches the TIC or a switch agent.
    Call(Caller, RouterRequest),
    /// An answer reaches a route service.
    Answer(Caller, RouterResult),
    /// A call times out.
    TimedOut(Caller),
    /// A message of a watch, or its failure, reaches the reader.
    Message(WatchKey, RouterResult),
    /// A timer of a route service fires.
    Wake(usize),
    /// An agent's request reaches a switch.
    SwitchRequest(Caller, SwitchRequest),
    /// A switch's reply reaches the agent.
    SwitchReply(Caller, SwitchReply),
    /// An agent polls its hardware, periodically as long as it runs.
    PollHardware(usize, u64),
    /// An agent's report of failed parts reaches the TIC.
    FaultsSeen(usize, BTreeSet<ElementKey>),
    /// A member learns of a route.
    RouteHeard(MemberKey, Revision, Route),
    /// A killed process is started again.
    Start(RouteParty),
}

impl RouteWorld {
    pub(crate) fn new(scenario: &RouteScenario) -> Self {
        let spec = TopologySpec::parse(scenario.fabric).expect("the fabrics are well described");
        let graph = Arc::new(spec.generate().expect("the fabrics can be made"));
        let options = EngineOptions::new(scenario.colors, scenario.tables);
        let config = checked(RawRouterConfig {
            colors: scenario.colors,
            tables: scenario.tables,
            drain: DRAIN,
            read_back: READ_BACK,
            read_back_rate: 100,
            counter_interval: Duration::from_hours(1),
            recording_bytes: RECORDING_BYTES,
            ..RawRouterConfig::default()
        });
        let live = LiveSettings::new(config.expect("the settings are good"));
        let policy = RoutingSettings::new(EngineKind::CMr4lmsFixed, live);
        let switches: Vec<SwitchId> = graph.switches().collect();
        let shards = (0..scenario.agents).map(|at| Shard {
            graph: Arc::clone(&graph),
            switches: switches.iter().skip(at).step_by(scenario.agents).copied().collect(),
            tables: scenario.tables,
            colors: scenario.colors,
        });
        // An empty list of switches would mean all switches.
        let shards: Vec<Shard> = shards.filter(|shard| !shard.switches.is_empty()).collect();
        let mut world = Self {
            now: Moment(0),
            tic: SimTic::new(),
            witness: Witness::new(Arc::clone(&graph), options),
            senders: Senders::default(),
            delivered: 0,
            links: fabric::links(&graph),
            emulator: Emulator::new(Arc::clone(&graph), scenario.tables, scenario.colors),
            graph,
            fences: Fences::default(),
            policy,
            routers: (0..scenario.routers).map(|_| None).collect(),
            agents: shards.iter().map(|_| None).collect(),
            seen_at: vec![Moment(0); shards.len()],
            shards,
            incarnations: 0,
            tic_is_down: false,
            frozen: BTreeSet::new(),
            waiting: BTreeMap::new(),
            cut: BTreeSet::new(),
            queue: BTreeMap::new(),
            queued: 0,
            under_way: 0,
            chance: SplitMix::new(scenario.seed),
            delay: Duration::from_millis(3),
            loss_percent: 0,
            switch_delay: Duration::from_millis(2),
            failing_requests: (0, false),
            requests: 0,
        };
        actions::register_nodes(&mut world);
        (0..world.agents.len()).for_each(|at| world.start(RouteParty::Agent(at)));
        (0..world.routers.len()).for_each(|at| world.start(RouteParty::Router(at)));
        world
    }

    pub(crate) fn storm(&mut self, scenario: &RouteScenario) {
        (self.delay, self.loss_percent) = (scenario.delay, scenario.loss_percent);
    }

    pub(crate) fn run(&mut self, span: Duration) {
        self.run_until(self.now.after(span));
    }

    pub(crate) fn run_until(&mut self, end: Moment) {
        let mut stuck = 0;
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let at = entry.key().0;
            stuck = if at > self.now { 0 } else { stuck + 1 };
            assert!(stuck < 100_000, "time stands still at {:?}", self.now);
            self.now = self.now.max(at);
            let event = entry.remove();
            self.delivered += 1;
            self.handle(event);
            checks::check(self);
        }
        self.now = end;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Call(caller, request) => self.call(caller, request),
            Event::Answer(caller, answer) => {
                self.under_way -= 1;
                self.answer_router(caller, answer);
            }
            Event::TimedOut(caller) => {
                self.answer_router(caller, Err(Status::unavailable("no answer in time")));
            }
            Event::Message(key, message) => self.stream_message(key, message),
            Event::Wake(router) => self.resume(router),
            Event::SwitchRequest(from, request) => self.handle_switch_request(from, request),
            Event::SwitchReply(to, reply) => {
                self.under_way -= 1;
                if let Some(agent) =
                    self.agents[to.at].as_ref().filter(|agent| agent.incarnation == to.incarnation)
                {
                    agent.executor.answer(to.call, reply);
                }
                self.resume_agent(to.at);
            }
            Event::PollHardware(agent, incarnation) => self.poll_hardware(agent, incarnation),
            Event::FaultsSeen(agent, elements) => self.seen(agent, elements),
            Event::RouteHeard(member_key, at, route) => self.hear(member_key, at, route),
            Event::Start(who) => self.start(who),
        }
    }

    fn start(&mut self, who: RouteParty) {
        self.incarnations += 1;
        let incarnation = self.incarnations;
        match who {
            RouteParty::Router(at) if self.routers[at].is_none() => {
                let executor = ManualExecutor::new(self.now);
                let environment =
                    SimEnvironment { executor: executor.clone(), agents: self.agents.len() };
                let map = TopologySnapshot { graph: Arc::clone(&self.graph), sha256: vec![0; 32] };
                let name = format!("router {at}");
                let future = Box::pin(run_without_api(environment, name, map, self.policy.clone()));
                let (streams, turn) = (BTreeMap::new(), BTreeSet::new());
                let router =
                    SimRouter { incarnation, executor, future, streams, waits: true, turn };
                self.routers[at] = Some(router);
                self.resume(at);
            }
            RouteParty::Agent(at) if self.agents[at].is_none() => {
                self.agents[at] = Some(SimAgent::new(self.now, incarnation, &self.shards[at]));
                self.enqueue(Duration::ZERO, Event::PollHardware(at, incarnation));
            }
            RouteParty::Tic if self.tic_is_down => {
                self.tic_is_down = false;
                self.tic.restart(self.now);
            }
            RouteParty::Router(_) | RouteParty::Agent(_) | RouteParty::Tic => {}
        }
    }

    /// Polls a route service and sends the calls that it makes.
    fn resume(&mut self, at: usize) {
        if self.frozen.contains(&RouteParty::Router(at)) {
            return;
        }
        let Some(router) = &mut self.routers[at] else { return };
        let ended = router.executor.poll(self.now, &mut router.future);
        assert!(ended.is_pending(), "S3: a route service ends by itself: {ended:?}");
        let (incarnation, calls, alarm) =
            (router.incarnation, router.executor.take_calls(), router.executor.alarm());
        for (call, request) in calls {
            self.send_request(Caller { at, incarnation, call }, request);
        }
        if let Some(alarm) = alarm {
            self.enqueue(alarm.since(self.now), Event::Wake(at));
        }
    }
}
