//! The control loop: watch, plan, program, report.
//!
//! The loop is level-triggered: each turn compares what is desired with what is confirmed. A missed
//! event does no harm, because the next turn sees the difference.

mod drain;
mod phases;
mod readback;
mod retiring;

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

use crate::choices::{ChoiceLog, wire};
use crate::control_loop::drain::{Drain, takes_away};
use crate::control_loop::phases::{TurnError, report_error};
use crate::control_loop::retiring::RetiringTrees;
use crate::counters::Loads;
use crate::debounce::Debounce;
use crate::directory_cache::DirectoryCache;
use crate::environment::Environment;
use crate::planner::{Handover, PlanStatus, Planner, needs_swap, sender_points, withdrawal};
use crate::programmer::{Fence, Programmer};
use crate::run_error::RunError;
use crate::settings::RoutingSettings;
use crate::table_state::{EntryPoint, Writes};
use crate::traced_requests::TracedRequests;
use crate::watch::{TopologySnapshot, WatchEvent};

/// Most routes in one report.
const ROUTES_PER_REPORT: usize = 2000;

/// A query of the API, with the channel for its answer.
#[derive(Debug)]
pub(crate) enum Query {
    Status(oneshot::Sender<PlanStatus>),
    Explain { group: String, reply: oneshot::Sender<Option<v1::RouteExplanation>> },
    Drifts(oneshot::Sender<v1::ListTableDriftsResponse>),
}

/// Why the loop ended.
#[derive(Debug)]
pub(crate) enum LoopEnd {
    /// A newer route service is active; this one must not write any more.
    Deposed,
    /// The loop cannot go on.
    Failed(RunError),
}

impl From<RunError> for LoopEnd {
    fn from(error: RunError) -> Self {
        Self::Failed(error)
    }
}

/// Inputs of the loop that last for one term.
#[derive(Debug)]
pub(crate) struct Term<'a> {
    pub(crate) number: u64,
    pub(crate) topology: &'a TopologySnapshot,
    pub(crate) loads: Loads,
}

/// State of the loop.
#[derive(Debug)]
pub(crate) struct ControlLoop<O> {
    environment: O,
    settings: RoutingSettings,
    topology_sha256: Vec<u8>,
    term: u64,
    generation: u64,
    directory: DirectoryCache,
    planner: Planner,
    programmer: Programmer<O>,
    /// Routes as the TIC knows them, by GN.
    reported: BTreeMap<u64, v1::Route>,
    /// GNs whose last report failed: the TIC may have taken it.
    unconfirmed: BTreeSet<u64>,
    /// GNs whose planned route may differ from the reported one.
    unreported: BTreeSet<u64>,
    dead: BTreeSet<SwitchId>,
    /// Keeps old entries for senders that do not know their new color yet.
    drain: Drain,
    /// Keeps the entries of replaced trees that members still send by.
    retiring: RetiringTrees,
    /// True until the routes that another route service has reported were compared with the plan.
    is_new: bool,
    retry_at: Option<Moment>,
    backoff: Backoff,
    /// Time of the next comparison of tables.
    readback_at: Moment,
    has_snapshot: bool,
    debounce: Debounce,
    /// True if the watch is open. Senders hear of new colors only through the TIC.
    is_connected: bool,
    /// Figures of the last turn; [`Self::status`] adds the rest.
    status: v1::GetRouteStatusResponse,
    choices: ChoiceLog<O>,
    loads: Loads,
    requests: TracedRequests,
}

impl<O: Environment> ControlLoop<O> {
    pub(crate) async fn start(
        environment: O,
        settings: RoutingSettings,
        term: Term<'_>,
    ) -> Result<Self, LoopEnd> {
        let Term { number: term, topology: TopologySnapshot { graph, sha256 }, loads } = term;
        let graph = Arc::clone(graph);
        let planner = Planner::new(&graph, settings.engine, settings.engine_options);
        let planner = planner.map_err(RunError::from)?;
        let scheme = wire::scheme(settings.engine, settings.engine_options, sha256);
        let choices = ChoiceLog::load(environment.clone(), Arc::clone(&graph), scheme, term).await;
        let readback_at = environment.now().after(settings.live.config().read_back);
        let programmer = Programmer::new(graph, environment.clone());
        Ok(Self {
            environment,
            settings,
            topology_sha256: sha256.clone(),
            term,
            generation: 0,
            directory: DirectoryCache::default(),
            planner,
            programmer,
            reported: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            unreported: BTreeSet::new(),
            dead: BTreeSet::new(),
            drain: Drain::default(),
            retiring: RetiringTrees::default(),
            is_new: true,
            retry_at: None,
            backoff: Backoff::default(),
            readback_at,
            has_snapshot: false,
            debounce: Debounce::default(),
            is_connected: false,
            status: v1::GetRouteStatusResponse::default(),
            choices,
            loads,
            requests: TracedRequests::default(),
        })
    }

    /// Runs until a newer route service is active; drop the future to stop the loop.
    pub(crate) async fn run(
        mut self,
        events: &mut mpsc::Receiver<WatchEvent>,
        queries: &mut mpsc::Receiver<Query>,
    ) -> Result<(), LoopEnd> {
        loop {
            let (environment, due) = (self.environment.clone(), self.due());
            tokio::select! {
                biased; // equal events give equal runs
                Some(query) = queries.recv() => self.answer(query),
                () = environment.sleep_until(due) => {
                    if !self.read_back_if_due().await {
                        continue;
                    }
                    let started = self.environment.now();
                    while self.debounce.has_room() && let Ok(event) = events.try_recv() {
                        self.debounce.push(event);
                    }
                    self.debounce.take().into_iter().for_each(|event| self.apply(event));
                    let spans = self.requests.begin_turn();
                    spans.origin().cover(Box::pin(self.turn())).await?;
                    spans.end(self.directory.revision, &self.status.last_error);
                    self.debounce.turn_ended(started, self.environment.now());
                }
                Some(event) = events.recv(), if self.debounce.has_room() => {
                    self.debounce.push(event);
                }
            }
        }
    }

    fn apply(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Snapshot(snapshot) => {
                self.directory.replace_with(*snapshot);
                // Senders use the routes that were reported last, perhaps a moment ago and by
                // another route service. A later snapshot may be older than our own reports.
                if !self.has_snapshot {
                    let routes = self.directory.groups.iter();
                    let routes = routes.filter_map(|(gn, group)| Some((*gn, group.route.clone()?)));
                    self.reported = routes.collect();
                }
                let until = self.environment.now().after(self.settings.live.config().drain);
                match self.has_snapshot {
                    true => {
                        self.drain.put_off(until);
                        self.retiring.put_off(until);
                    }
                    false => self.drain.start_blind(until),
                }
                (self.has_snapshot, self.is_connected) = (true, true);
                // A change that was missed may have emptied a switch.
                self.programmer.doubt_all();
            }
            WatchEvent::Delta(message) => {
                self.requests.add(&message.traceparents);
                self.directory.apply(message);
            }
            WatchEvent::Lost => self.is_connected = false,
        }
    }

    /// One turn: plans what changed, makes choices durable, writes the difference, reports.
    async fn turn(&mut self) -> Result<(), LoopEnd> {
        self.retry_at = None;
        if self.directory.is_of_other_topology(&self.topology_sha256) {
            return Err(RunError::OtherTopology.into());
        }
        if !self.has_snapshot {
            return Ok(());
        }
        let started = self.environment.now();
        let span = Span::begin("plan", Side::Inner, &Origin::current());
        self.plan();
        drop(span);
        let computed = self.environment.now();
        let recorded = self.choices.record(&self.planner, &self.directory).await;
        let outcome = match recorded.map_err(TurnError::from) {
            Ok(()) => self.program_and_report().await,
            Err(error) => Err(error),
        };
        let programmed = self.environment.now();
        match outcome {
            Err(TurnError::Deposed) => return Err(LoopEnd::Deposed),
            Err(TurnError::OtherTopology) => return Err(RunError::OtherTopology.into()),
            Err(error) => {
                let reason = error.to_string();
                // Logged once, not at every attempt.
                if self.status.last_error != reason {
                    warn!(%reason, "turn incomplete");
                }
                self.status.last_error = reason;
                let pause = self.environment.pause(&mut self.backoff);
                self.retry_at = Some(self.environment.now().after(pause));
            }
            Ok(()) => {
                self.status.last_error.clear();
                self.requests.clear();
                self.backoff = Backoff::default();
                self.status.routed_revision = self.directory.revision;
                self.programmer.settle_drifts();
            }
        }
        self.status.last_compute_us = micros(computed.since(started));
        self.status.last_program_us = micros(programmed.since(computed));
        Ok(())
    }

    fn plan(&mut self) {
        if let Some(loads) = self.loads.take_newer() {
            self.planner.set_loads(loads);
        }
        if let Some(recorded) = self.choices.take_recorded() {
            self.planner.resume(&self.directory, &recorded);
        }
        self.unreported.extend(self.planner.walk_waiting());
        let changes = self.directory.take_changes();
        if changes.failed {
            let dead = self.planner.set_failed(&self.directory.failed);
            let back: Vec<SwitchId> = self.dead.difference(&dead).copied().collect();
            for switch in back {
                self.programmer.doubt(switch);
            }
            self.dead = dead;
        }
        if changes.failed || !changes.groups.is_empty() {
            let change = self.planner.plan(&self.directory, &changes.groups);
            for switch in change.switches {
                self.programmer.set_desired(switch, self.planner.entries(switch));
            }
            for (gn, mut trees) in change.replaced {
                if !self.unconfirmed.contains(&gn) {
                    let route = self.reported.get(&gn);
                    trees.retain(|tree| route.is_some_and(|one| has_color(one, tree.color)));
                }
                self.retiring.replace(gn, trees);
            }
            self.unreported.extend(change.groups);
            self.choices.plan_changed();
        }
    }

    /// Reports the routes that the TIC does not know yet and the switches have confirmed.
    ///
    /// Entries are only removed when it is certain which route the TIC knows. So a group whose last
    /// report failed, and whose route has to wait now, is reported without a route.
    ///
    /// - `swaps`: entries still to be written; the groups that need them must wait.
    async fn report(&mut self, swaps: &Writes) -> Result<(), TurnError> {
        let until = self.environment.now().after(self.settings.live.config().drain);
        let Self { directory, reported, unconfirmed, unreported, drain, retiring, .. } = self;
        unreported.retain(|gn| {
            let exists = directory.groups.contains_key(gn);
            if !exists {
                reported.remove(gn);
                unconfirmed.remove(gn);
                drain.confirm(*gn, until);
                retiring.reported(*gn, None);
            }
            exists
        });
        let ChangedRoutes { routes, before_swap } = self.changed_routes(swaps);
        if std::mem::take(&mut self.is_new) {
            self.retiring.start_blind(self.unreported.clone());
        }
        let reported = self.report_routes(routes).await;
        before_swap.into_iter().for_each(|gn| self.planner.note_reported_early(gn));
        reported
    }

    fn changed_routes(&mut self, swaps: &Writes) -> ChangedRoutes {
        let Self { directory, planner, programmer, reported, unconfirmed, retiring, .. } = self;
        let groups = &directory.groups;
        let needs_swap = |gn: &u64, reported: Option<&v1::Route>, route: &v1::Route| {
            needs_swap(planner.graph(), &groups[gn], reported, route, swaps)
        };
        let tables = programmer.tables();
        let is_all_there = LazyCell::new(|| tables.covers_desired());
        // Groups of a virtual group share their trees.
        let mut programmed = BTreeMap::new();
        let mut is_programmed = |route: &v1::Route| {
            let known = programmed.entry((route.state, route.virtual_group));
            *known.or_insert_with(|| planner.is_programmed(route, tables))
        };
        let mut is_ready = |gn: &u64, route: &v1::Route| {
            let reported = reported.get(gn).filter(|_| !unconfirmed.contains(gn));
            !needs_swap(gn, reported, route) && (*is_all_there || is_programmed(route))
        };
        let mut changed = ChangedRoutes::default();
        self.unreported.retain(|gn| {
            let route = planner.route(*gn, &groups[gn]);
            let is_unconfirmed = unconfirmed.contains(gn);
            if !is_unconfirmed && reported.get(gn) == Some(&route) {
                retiring.reported(*gn, None);
                return false;
            }
            if is_ready(gn, &route) {
                changed.before_swap.extend(needs_swap(gn, None, &route).then_some(*gn));
                changed.routes.push(v1::GroupRoute { gn: *gn, route: Some(route) });
            } else if is_unconfirmed {
                changed.routes.push(withdrawal(*gn, &groups[gn]));
            }
            true
        });
        changed
    }

    /// Sends reports, each with a generation of its own: a report that was given up and arrives
    /// late is refused.
    async fn report_routes(&mut self, routes: Vec<v1::GroupRoute>) -> Result<(), TurnError> {
        self.unreported.extend(routes.iter().map(|route| route.gn));
        for part in routes.chunks(ROUTES_PER_REPORT) {
            self.generation += 1;
            if let Err(error) = self.send_report(part.to_vec(), 0).await {
                self.unconfirmed.extend(part.iter().map(|route| route.gn));
                for route in part {
                    let points = self.sender_points(route.gn, route.route.as_ref());
                    self.drain.add_unconfirmed(route.gn, points);
                }
                return Err(error);
            }
            let until = self.environment.now().after(self.settings.live.config().drain);
            for route in part {
                self.note_reported(route, until);
            }
        }
        Ok(())
    }

    async fn send_report(
        &self,
        routes: Vec<v1::GroupRoute>,
        clean_revision: u64,
    ) -> Result<(), TurnError> {
        let fence = Some(Fence { term: self.term, generation: self.generation });
        let request = v1::ReportRoutesRequest { term: self.term, routes, fence, clean_revision };
        self.environment.report_routes(request).await.map_err(|error| report_error(&error))
    }

    /// - `until`: time when all senders know the route.
    fn note_reported(&mut self, report: &v1::GroupRoute, until: Moment) {
        let Some(route) = &report.route else { return };
        if let Some(group) = self.directory.groups.get(&report.gn) {
            self.planner.note_reported(report.gn, group);
        }
        let before = self.reported.insert(report.gn, route.clone());
        // Senders that had another color, or served more members, need time to hear of the change.
        let was_unconfirmed = self.unconfirmed.remove(&report.gn);
        if was_unconfirmed || before.as_ref().is_some_and(|before| takes_away(before, route)) {
            let points = self.sender_points(report.gn, before.as_ref());
            self.drain.start(until, points);
            self.drain.confirm(report.gn, until);
            // A route may be withdrawn whose tree stays in the plan until the next change.
            let group = self.directory.groups.get(&report.gn);
            let mut trees = group.map_or_else(Vec::new, |group| self.planner.trees(group));
            if !was_unconfirmed {
                trees.retain(|tree| before.as_ref().is_some_and(|one| has_color(one, tree.color)));
            }
            self.retiring.leave(trees, until);
            self.retiring.reported(report.gn, Some(until));
        } else {
            self.retiring.reported(report.gn, None);
        }
    }

    /// Entry points of the members that send by a route of a group.
    fn sender_points(&self, gn: u64, route: Option<&v1::Route>) -> Vec<EntryPoint> {
        let both = self.directory.groups.get(&gn).zip(route);
        let graph = self.planner.graph();
        both.map_or_else(Vec::new, |(group, route)| sender_points(graph, group, route).collect())
    }

    fn handover(&self) -> Handover<'_> {
        let Self { planner, directory, reported, .. } = self;
        Handover { planner, directory, reported }
    }

    fn answer(&mut self, query: Query) {
        // A failed send means that the caller has gone away.
        match query {
            Query::Status(reply) => drop(reply.send(self.status())),
            Query::Explain { group, reply } => {
                drop(reply.send(self.planner.explain(&self.directory, &group)));
            }
            Query::Drifts(reply) => drop(reply.send(self.programmer.drifts())),
        }
    }

    /// True if every event is planned, every plan is walked and the TIC knows every planned route.
    fn knows_all_routes(&self) -> bool {
        let is_reported = |gn: &u64| match self.directory.groups.get(gn) {
            Some(group) => {
                !self.unconfirmed.contains(gn)
                    && self.reported.get(gn) == Some(&self.planner.route(*gn, group))
            }
            None => true,
        };
        let is_planned = self.debounce.is_empty() && !self.planner.has_waiting_walks();
        is_planned && self.unreported.iter().all(is_reported)
    }

    fn status(&self) -> PlanStatus {
        let tables = self.programmer.tables();
        let mut status = v1::GetRouteStatusResponse {
            active: true,
            fence: Some(Fence { term: self.term, generation: self.generation }),
            seen_revision: self.directory.revision,
            settled: self.has_snapshot && tables.are_equal() && self.knows_all_routes(),
            programmed_entries: u64::try_from(tables.held().len()).unwrap_or(u64::MAX),
            ..self.status.clone()
        };
        self.loads.describe(self.settings.engine_options.root_policy, &mut status);
        self.planner.status(status, self.directory.groups.len())
    }
}

/// Routes that the TIC does not know yet.
#[derive(Debug, Default)]
struct ChangedRoutes {
    routes: Vec<v1::GroupRoute>,
    /// GNs among them whose entries are still to be swapped.
    before_swap: Vec<u64>,
}

/// True if members send with this color by a route.
fn has_color(route: &v1::Route, color: u16) -> bool {
    let colors = [Some(route.color), route.second_color];
    route.state() == v1::RouteState::Routed && colors.contains(&Some(color.into()))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
