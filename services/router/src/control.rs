//! The control loop: watch, plan, program, report; level-triggered from end to end.
//!
//! Each turn compares what ought to be with what is confirmed to be, so it does not matter which
//! event was missed: the next turn sees the difference.

mod drain;
mod look_back;
mod phase;

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_rpc::Backoff;
use fabricast_telemetry::traces::{Origin, Side, Span};
use fabricast_topology::SwitchId;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use crate::app::RunError;
use crate::causes::Causes;
use crate::choices::{ChoiceLog, Unrecorded, wire};
use crate::control::drain::{Drain, takes_away};
use crate::control::phase::{DEPOSED, report_failed};
use crate::counters::Loads;
use crate::gathering::Gathering;
use crate::image::{EntryPoint, Writes};
use crate::mirror::Mirror;
use crate::outside::Outside;
use crate::planner::{Planner, withdrawn};
use crate::programmer::{Fence, Programmer};
use crate::terms::Policy;
use crate::watch::Map;

/// Routes in one report.
const ROUTES_PER_REPORT: usize = 2000;

/// What the outside asks the loop.
#[derive(Debug)]
pub(crate) enum Question {
    Status(oneshot::Sender<v1::GetRouteStatusResponse>),
    Explain(String, oneshot::Sender<Option<v1::RouteExplanation>>),
    Drifts(oneshot::Sender<v1::ListTableDriftsResponse>),
}

/// News from the watch.
#[derive(Debug)]
pub(crate) enum News {
    /// The records as a whole; starts every stream.
    Snapshot(Box<Mirror>),
    /// What changed since.
    Delta(v1::WatchDirectoryResponse),
    /// The stream broke; a snapshot will start the next one.
    Lost,
}

/// Why the loop ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A newer route service is at work; this one must not write any more.
    Deposed,
    /// It cannot go on.
    Failed(RunError),
}

impl From<RunError> for Ended {
    fn from(error: RunError) -> Self {
        Self::Failed(error)
    }
}

/// State of the loop.
#[derive(Debug)]
pub(crate) struct Control<O> {
    outside: O,
    policy: Policy,
    topology_sha256: Vec<u8>,
    term: u64,
    generation: u64,
    mirror: Mirror,
    planner: Planner,
    programmer: Programmer<O>,
    /// Routes as the TIC knows them.
    reported: BTreeMap<u64, v1::Route>,
    /// Groups whose last report was not answered: the TIC may have taken it.
    doubted: BTreeSet<u64>,
    dead: BTreeSet<SwitchId>,
    /// Old entries stay for senders that do not know their new color yet.
    drain: Drain,
    retry_at: Option<Moment>,
    backoff: Backoff,
    /// When the next tables are compared.
    look_back_at: Moment,
    has_snapshot: bool,
    gathering: Gathering,
    /// Whether the TIC is there, through which senders hear of new colors.
    connected: bool,
    figures: v1::GetRouteStatusResponse,
    choices: ChoiceLog<O>,
    loads: Loads,
    causes: Causes,
}

impl<O: Outside> Control<O> {
    pub(crate) async fn start(
        outside: O,
        policy: Policy,
        (Map { graph, sha256 }, term): (&Map, u64),
        loads: Loads,
    ) -> Result<Self, Ended> {
        let graph = Arc::clone(graph);
        let planner = Planner::new(&graph, policy.engine, policy.engine_options);
        let planner = planner.map_err(RunError::from)?;
        let scheme = wire::scheme(policy.engine, policy.engine_options, sha256);
        let choices = ChoiceLog::load(outside.clone(), Arc::clone(&graph), scheme, term).await;
        let look_back_at = outside.now().after(policy.live.pacing().read_back);
        let programmer = Programmer::new(graph, outside.clone());
        Ok(Self {
            outside,
            policy,
            topology_sha256: sha256.clone(),
            term,
            generation: 0,
            mirror: Mirror::default(),
            planner,
            programmer,
            reported: BTreeMap::new(),
            doubted: BTreeSet::new(),
            dead: BTreeSet::new(),
            drain: Drain::default(),
            retry_at: None,
            backoff: Backoff::default(),
            look_back_at,
            has_snapshot: false,
            gathering: Gathering::default(),
            connected: false,
            figures: v1::GetRouteStatusResponse::default(),
            choices,
            loads,
            causes: Causes::default(),
        })
    }

    /// Runs until a newer route service shows up; the caller drops the future to stop it.
    pub(crate) async fn run(
        mut self,
        news: &mut mpsc::Receiver<News>,
        questions: &mut mpsc::Receiver<Question>,
    ) -> Result<(), Ended> {
        loop {
            let (outside, due) = (self.outside.clone(), self.due());
            tokio::select! {
                biased; // the same events are the same run
                Some(question) = questions.recv() => self.answer(question),
                () = outside.sleep_until(due) => {
                    if !self.look_back().await {
                        continue;
                    }
                    let begun = self.outside.now();
                    while self.gathering.has_room() && let Ok(more) = news.try_recv() {
                        self.gathering.put(more);
                    }
                    self.gathering.take().into_iter().for_each(|news| self.take_in(news));
                    let round = self.causes.begin();
                    round.origin().cover(Box::pin(self.turn())).await?;
                    round.ended(self.mirror.revision, &self.figures.last_error);
                    self.gathering.turned(begun, self.outside.now());
                }
                Some(one) = news.recv(), if self.gathering.has_room() => self.gathering.put(one),
            }
        }
    }

    fn take_in(&mut self, news: News) {
        match news {
            News::Snapshot(snapshot) => {
                self.mirror.replace_with(*snapshot);
                // Senders use what was reported last, perhaps by another route service, perhaps
                // only a moment ago. A later snapshot may be older than our own reports.
                if !self.has_snapshot {
                    let routes = self.mirror.groups.iter();
                    let routes = routes.filter_map(|(gn, group)| Some((*gn, group.route.clone()?)));
                    self.reported = routes.collect();
                }
                let until = self.outside.now().after(self.policy.live.pacing().drain);
                match self.has_snapshot {
                    true => self.drain.begin(until, []),
                    false => self.drain.begin_blind(until),
                }
                (self.has_snapshot, self.connected) = (true, true);
                // Whatever went by unseen may have emptied a switch.
                self.programmer.doubt_all();
            }
            News::Delta(message) => {
                self.causes.note(&message.traceparents);
                self.mirror.apply(message);
            }
            News::Lost => self.connected = false,
        }
    }

    /// One turn: plan what changed, make durable what was chosen, write the difference, report.
    async fn turn(&mut self) -> Result<(), Ended> {
        self.retry_at = None;
        if self.mirror.is_of_other_topology(&self.topology_sha256) {
            return Err(RunError::OtherTopology.into());
        }
        if !self.has_snapshot {
            return Ok(());
        }
        let started = self.outside.now();
        let planning = Span::begin("plan", Side::Inner, &Origin::current());
        self.plan();
        drop(planning);
        let computed = self.outside.now();
        let outcome = match self.choices.record(&self.planner, &self.mirror).await {
            Ok(()) => self.program_and_report().await,
            Err(Unrecorded::Deposed) => return Err(Ended::Deposed),
            Err(Unrecorded::OtherTopology) => return Err(RunError::OtherTopology.into()),
            Err(Unrecorded::Failed(reason)) => Err(reason),
        };
        let programmed = self.outside.now();
        match outcome {
            Err(reason) if reason == DEPOSED => return Err(Ended::Deposed),
            Err(reason) => {
                // Said once, not at every attempt.
                if self.figures.last_error != reason {
                    warn!(%reason, "round incomplete");
                }
                self.figures.last_error = reason;
                let pause = self.outside.pause(&mut self.backoff);
                self.retry_at = Some(self.outside.now().after(pause));
            }
            Ok(()) => {
                self.figures.last_error.clear();
                self.causes.settled();
                self.backoff = Backoff::default();
                self.figures.routed_revision = self.mirror.revision;
                self.programmer.settle_drifts(self.planner.desired());
            }
        }
        self.figures.last_compute_us = micros(computed.since(started));
        self.figures.last_program_us = micros(programmed.since(computed));
        Ok(())
    }

    fn plan(&mut self) {
        if let Some(loads) = self.loads.take_newer() {
            self.planner.set_loads(loads);
        }
        if let Some(past) = self.choices.take_past() {
            self.planner.resume(&self.mirror, &past);
        }
        let changes = self.mirror.take_changes();
        if changes.failed {
            let dead = self.planner.set_failed(&self.mirror.failed);
            let back: Vec<SwitchId> = self.dead.difference(&dead).copied().collect();
            for switch in back {
                self.programmer.doubt(switch);
            }
            self.dead = dead;
        }
        if changes.failed || !changes.groups.is_empty() {
            self.planner.plan(&self.mirror, &changes.groups);
            self.choices.planned();
        }
    }

    /// Tells the TIC the routes that it does not know yet and the switches have confirmed. What it knows of a group
    /// must be certain before anything is taken away: one in doubt whose route has to wait is told that it has none.
    ///
    /// - `swaps`: entries that are still to be written; the groups that need them must wait.
    async fn report(&mut self, swaps: &Writes) -> Result<(), String> {
        let routes = self.planner.routes(&self.mirror);
        self.reported.retain(|gn, _| routes.contains_key(gn));
        self.doubted.retain(|gn| routes.contains_key(gn));
        let (news, early) = self.news(&routes, swaps);
        let told = self.tell(news).await;
        early.into_iter().for_each(|gn| self.planner.note_told_early(gn));
        told
    }

    /// What is to be told, and the groups that are told before their swaps.
    fn news(
        &self,
        routes: &BTreeMap<u64, v1::Route>,
        swaps: &Writes,
    ) -> (Vec<v1::GroupRoute>, Vec<u64>) {
        let meets = |gn: &u64, told: Option<&v1::Route>, route: &v1::Route| {
            self.planner.meets(&self.mirror.groups[gn], (told, route), swaps)
        };
        let (held, desired) = (self.programmer.held(), self.planner.desired());
        let is_all_there = LazyCell::new(|| held.covers_all(desired));
        // Groups of a virtual group have their trees in common.
        let mut programmed = BTreeMap::new();
        let mut is_programmed = |route: &v1::Route| {
            let known = programmed.entry((route.state, route.virtual_group));
            *known.or_insert_with(|| self.planner.is_programmed(route, held))
        };
        let mut is_ready = |gn: &u64, route: &v1::Route| {
            let told = self.reported.get(gn).filter(|_| !self.doubted.contains(gn));
            !meets(gn, told, route) && (*is_all_there || is_programmed(route))
        };
        let (mut news, mut early) = (Vec::new(), Vec::new());
        for (gn, route) in routes {
            let is_doubted = self.doubted.contains(gn);
            if !is_doubted && self.reported.get(gn) == Some(route) {
                continue;
            }
            if is_ready(gn, route) {
                news.push(v1::GroupRoute { gn: *gn, route: Some(route.clone()) });
                early.extend(meets(gn, None, route).then_some(*gn));
            } else if is_doubted {
                news.push(withdrawn(*gn, &self.mirror.groups[gn]));
            }
        }
        (news, early)
    }

    /// Under a generation of its own, so that a report that was given up and arrives late is refused.
    async fn tell(&mut self, news: Vec<v1::GroupRoute>) -> Result<(), String> {
        for part in news.chunks(ROUTES_PER_REPORT) {
            self.generation += 1;
            if let Err(why) = self.send_report(part.to_vec(), 0).await {
                self.doubted.extend(part.iter().map(|route| route.gn));
                for route in part {
                    let points = self.points_told(route.gn, route.route.as_ref());
                    self.drain.doubt(points);
                }
                return Err(why);
            }
            for route in part {
                self.note_reported(route);
            }
        }
        Ok(())
    }

    async fn send_report(
        &self,
        routes: Vec<v1::GroupRoute>,
        clean_revision: u64,
    ) -> Result<(), String> {
        let fence = Some(Fence { term: self.term, generation: self.generation });
        let request = v1::ReportRoutesRequest { term: self.term, routes, fence, clean_revision };
        self.outside.report_routes(request).await.map_err(|status| report_failed(&status))
    }

    fn note_reported(&mut self, news: &v1::GroupRoute) {
        let Some(route) = &news.route else { return };
        if let Some(group) = self.mirror.groups.get(&news.gn) {
            self.planner.note_told(news.gn, group);
        }
        let before = self.reported.insert(news.gn, route.clone());
        // Senders of a group that had another color, or served more members, need time to hear of it.
        let was_doubted = self.doubted.remove(&news.gn);
        if was_doubted || before.as_ref().is_some_and(|before| takes_away(before, route)) {
            let leaving = self.points_told(news.gn, before.as_ref());
            self.drain.begin(self.outside.now().after(self.policy.live.pacing().drain), leaving);
        }
    }

    /// Where members enter that send by a route.
    fn points_told(&self, gn: u64, told: Option<&v1::Route>) -> Vec<EntryPoint> {
        let both = self.mirror.groups.get(&gn).zip(told);
        both.map_or_else(Vec::new, |(group, told)| self.planner.points_told(group, told).collect())
    }

    fn answer(&mut self, question: Question) {
        // An asker that has gone away needs no answer.
        match question {
            Question::Status(answer) => drop(answer.send(self.status())),
            Question::Explain(name, answer) => {
                drop(answer.send(self.planner.explain(&self.mirror, &name)));
            }
            Question::Drifts(answer) => drop(answer.send(self.programmer.drifts())),
        }
    }

    fn status(&self) -> v1::GetRouteStatusResponse {
        let mut status = v1::GetRouteStatusResponse {
            active: true,
            fence: Some(Fence { term: self.term, generation: self.generation }),
            seen_revision: self.mirror.revision,
            settled: self.has_snapshot && self.programmer.held() == self.planner.desired(),
            programmed_entries: u64::try_from(self.programmer.held().len()).unwrap_or(u64::MAX),
            ..self.figures.clone()
        };
        self.loads.describe(self.policy.engine_options.root_policy, &mut status);
        self.planner.describe(&self.mirror, &mut status);
        status
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
