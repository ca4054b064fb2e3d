//! The simulated world of routes: clock, network, TIC, route services, switch agents, switches and senders.
//!
//! Every step is one event: something arrives, somebody's time has come. After each, whatever it may have
//! changed is looked at (`world/looks.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fabricast_emulator::Emulator;
use fabricast_groups::record::Route;
use fabricast_groups::{Moment, Revision};
use fabricast_router::{LiveSettings, Map, Pacing, Policy, RunError, route_unasked};
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Graph, PortId, SplitMix, SwitchId};
use tonic::Status;

use super::agent::{Caller, Shard, SimAgent};
use super::calls::{Answer, Ask, Felt, SimOutside, Touch};
use super::desk::{Desk, Work};
use super::scenario::{RouteParty, RouteScenario};
use super::senders::{Seat, Senders};
use super::tic::{ElementKey, SimTic, WatchKey};
use super::witness::Witness;
use crate::invariants::g4_routes::Fences;

mod deeds;
mod fabric;
mod looks;
mod network;
mod office;

/// How long old entries stay after senders were told.
pub(crate) const DRAIN: Duration = Duration::from_secs(1);
/// Senders hear of a route within this time: the drain must be longer.
const HEARING: Duration = Duration::from_millis(900);
const READ_BACK: Duration = Duration::from_secs(3);
/// Agents look at their hardware, and say what they see, this often.
const LOOK: Duration = Duration::from_millis(500);
/// A call is given up after this.
const PATIENCE: Duration = Duration::from_secs(2);
/// Who was killed is started again after this.
const RESTART: Duration = Duration::from_millis(700);

/// The world at one moment.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: Moment,
    pub(crate) tic: SimTic,
    pub(crate) witness: Witness,
    pub(crate) senders: Senders,
    pub(crate) delivered: u64,
    graph: Arc<Graph>,
    links: Vec<PortId>,
    emulator: Emulator,
    fences: Fences,
    policy: Policy,
    /// None where the process has been killed.
    routers: Vec<Option<SimRouter>>,
    agents: Vec<Option<SimAgent>>,
    shards: Vec<Shard>,
    /// When the last report of each agent reaches the TIC.
    seen_at: Vec<Moment>,
    lives: u64,
    tic_is_down: bool,
    frozen: BTreeSet<RouteParty>,
    /// Calls that wait for an agent that has stopped for a while.
    waiting: BTreeMap<usize, Vec<(Caller, Ask)>>,
    /// Ways on which nothing arrives.
    cut: BTreeSet<(RouteParty, RouteParty)>,
    queue: BTreeMap<(Moment, u64), Event>,
    queued: u64,
    /// Calls and touches on their way.
    under_way: u64,
    chance: SplitMix,
    delay: Duration,
    loss_percent: u32,
    switch_delay: Duration,
    failing_touches: (u32, bool),
    requests: u64,
}

/// One life of a route service: the real one in an outside that is simulated.
struct SimRouter {
    life: u64,
    desk: Desk<Ask, Answer>,
    work: Work<Result<(), RunError>>,
    streams: BTreeMap<u64, Stream>,
    /// It has no term, and waits for one.
    waits: bool,
    /// Its calls by which a turn goes on: what it does next follows from what it knew when the turn began.
    turn: BTreeSet<u64>,
}

impl std::fmt::Debug for SimRouter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimRouter").field("life", &self.life).finish_non_exhaustive()
    }
}

/// A watch as its reader has it.
#[derive(Debug, Default)]
struct Stream {
    arrived: VecDeque<Answer>,
    /// The call for the next message, if there is one.
    reader: Option<u64>,
    /// So many of all messages that the TIC has published are known by those that have arrived.
    seen: u64,
    /// No message overtakes another.
    last_at: Moment,
}

/// What happens at one moment.
#[derive(Debug)]
enum Event {
    /// A call reaches the TIC or a switch agent.
    Call(Caller, Ask),
    /// An answer reaches a route service.
    Answer(Caller, Answer),
    /// A call has had no answer for too long.
    GiveUp(Caller),
    /// A message of a watch reaches its reader, or the news that it is broken.
    Message(WatchKey, Answer),
    /// A route service has waited for this moment.
    Wake(usize),
    /// An agent's touch reaches a switch: agent, its life, its call.
    Touch((usize, u64, u64), Touch),
    /// What came of it reaches the agent.
    Felt((usize, u64, u64), Felt),
    /// An agent looks at its hardware, again and again in its life.
    Look(usize, u64),
    /// What an agent sees reaches the TIC.
    Seen(usize, BTreeSet<ElementKey>),
    /// A member hears of a route.
    Hear(Seat, Revision, Route),
    /// A process is started again.
    Start(RouteParty),
}

impl World {
    pub(crate) fn new(scenario: &RouteScenario) -> Self {
        let spec = TopologySpec::parse(scenario.fabric).expect("the fabrics are well described");
        let graph = Arc::new(spec.generate().expect("the fabrics can be made"));
        let options = EngineOptions::new(scenario.colors, scenario.tables);
        let policy = Policy {
            engine: EngineKind::CMr4lmsFixed,
            engine_options: options,
            live: LiveSettings::new(Pacing {
                drain: DRAIN,
                read_back: READ_BACK,
                read_back_rate: 100,
                counter_interval: Duration::from_hours(1),
            }),
        };
        let switches: Vec<SwitchId> = graph.switches().collect();
        let shards = (0..scenario.agents).map(|at| Shard {
            graph: Arc::clone(&graph),
            switches: switches.iter().skip(at).step_by(scenario.agents).copied().collect(),
            tables: scenario.tables,
            colors: scenario.colors,
        });
        // An agent without switches would be one for all.
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
            lives: 0,
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
            failing_touches: (0, false),
            requests: 0,
        };
        world.register_nodes();
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
            self.happen(event);
            self.look();
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Call(caller, ask) => self.call(caller, ask),
            Event::Answer((router, life, call), answer) => {
                self.under_way -= 1;
                self.answer_router((router, life, call), answer);
            }
            Event::GiveUp(caller) => {
                self.answer_router(caller, Err(Status::unavailable("no answer in time")));
            }
            Event::Message(key, message) => self.stream_message(key, message),
            Event::Wake(router) => self.go_on(router),
            Event::Touch(from, touch) => self.touch(from, touch),
            Event::Felt((agent, life, call), felt) => {
                self.under_way -= 1;
                if let Some(agent) = self.agents[agent].as_ref().filter(|at| at.life == life) {
                    agent.desk.answer(call, felt);
                }
                self.go_on_agent(agent);
            }
            Event::Look(agent, life) => self.look_at_hardware(agent, life),
            Event::Seen(agent, elements) => self.seen(agent, elements),
            Event::Hear(seat, at, route) => self.hear(seat, at, route),
            Event::Start(who) => self.start(who),
        }
    }

    fn start(&mut self, who: RouteParty) {
        self.lives += 1;
        let life = self.lives;
        match who {
            RouteParty::Router(at) if self.routers[at].is_none() => {
                let desk = Desk::new(self.now);
                let outside = SimOutside { desk: desk.clone(), agents: self.agents.len() };
                let map = Map { graph: Arc::clone(&self.graph), sha256: vec![0; 32] };
                let name = format!("router {at}");
                let work = Box::pin(route_unasked(outside, name, map, self.policy.clone()));
                let (streams, turn) = (BTreeMap::new(), BTreeSet::new());
                let router = SimRouter { life, desk, work, streams, waits: true, turn };
                self.routers[at] = Some(router);
                self.go_on(at);
            }
            RouteParty::Agent(at) if self.agents[at].is_none() => {
                self.agents[at] = Some(SimAgent::new(self.now, life, &self.shards[at]));
                self.enqueue(Duration::ZERO, Event::Look(at, life));
            }
            RouteParty::Tic if self.tic_is_down => {
                self.tic_is_down = false;
                self.tic.restart(self.now);
            }
            RouteParty::Router(_) | RouteParty::Agent(_) | RouteParty::Tic => {}
        }
    }

    /// Lets a route service go on, and sends what it says.
    fn go_on(&mut self, at: usize) {
        if self.frozen.contains(&RouteParty::Router(at)) {
            return;
        }
        let Some(router) = &mut self.routers[at] else { return };
        let ended = router.desk.poll(self.now, &mut router.work);
        assert!(ended.is_pending(), "S3: a route service ends by itself: {ended:?}");
        let (life, asked, alarm) = (router.life, router.desk.take_asked(), router.desk.alarm());
        for (call, ask) in asked {
            self.ask((at, life, call), ask);
        }
        if let Some(alarm) = alarm {
            self.enqueue(alarm.since(self.now), Event::Wake(at));
        }
    }
}
