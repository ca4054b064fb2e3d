//! The loop between plan and switches, as a state machine.
//!
//! The loop is level-triggered: each turn compares what is desired with what is confirmed. A missed
//! event does no harm, because the next turn sees the difference. `turn.rs` has the stages of a
//! turn.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::Moment;
use fabricast_groups::ids::{Gn, Revision};
use fabricast_groups::record::{Route, RouteState};
use fabricast_routing::{EngineKind, EngineOptions, PortLoads, VirtualGroup};
use fabricast_topology::{Graph, Mgid, SwitchId};
use serde::{Deserialize, Serialize};

use crate::choices::ChoiceLog;
use crate::debounce::Debounce;
use crate::directory_cache::{CachedGroup, DirectoryCache};
use crate::drain::{Drain, takes_away};
use crate::drift::DriftList;
use crate::interface::{Event, GroupRoute, Input, Output, Reply, SwitchTable, Timing, WatchEvent};
use crate::pace::Pace;
use crate::planner::{
    Handover, PlanError, PlanStatus, PlannedForSearch, Planner, RouteExplanation, has_color,
    needs_swap, sender_points, withdrawal,
};
use crate::recorded::RecordedChoices;
use crate::retiring::RetiringTrees;
use crate::switch_agents::SwitchAgents;
use crate::table_state::{EntryPoint, Write, Writes};
use crate::turn::Stage;

/// Parts and settings of a new reconciler.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Fabric whose switches are programmed.
    pub graph: Arc<Graph>,
    /// Engine that computes the trees.
    pub engine: EngineKind,
    /// Tables of the switches, and options of the engine.
    pub engine_options: EngineOptions,
    /// Settings that may change later.
    pub timing: Timing,
    /// Names of the switch agents, for messages; outputs name an agent by its index.
    pub agents: Vec<String>,
    /// Choices that earlier route services have recorded.
    pub recorded: RecordedChoices,
    /// Numbers that this term has used already; a new term begins with none.
    pub generations: Generations,
}

/// Numbers of the latest calls of a term; receivers refuse older ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generations {
    /// Of writes and reports.
    pub write: u64,
    /// Of reports of choices.
    pub choice: u64,
}

/// The state of a route service in one term, without sockets and clock.
///
/// Give it inputs by [`handle`](Self::handle), each with the present time. After each, carry out
/// what [`poll_output`](Self::poll_output) returns, and give its answer as an input. If it returns
/// nothing, the next input is an event of the watch or, at
/// [`next_deadline`](Self::next_deadline), [`Input::Deadline`]. Equal inputs at equal times give
/// equal outputs.
#[derive(Debug)]
pub struct Reconciler {
    pub(crate) timing: Timing,
    /// Number of the latest write or report; receivers refuse older ones.
    pub(crate) generation: u64,
    pub(crate) directory: DirectoryCache,
    pub(crate) planner: Planner,
    pub(crate) agents: SwitchAgents,
    pub(crate) choices: ChoiceLog,
    /// Routes as the TIC knows them, by GN.
    reported: BTreeMap<Gn, Route>,
    /// GNs whose last report failed: the TIC may have taken it.
    pub(crate) unconfirmed: BTreeSet<Gn>,
    /// GNs whose planned route may differ from the reported one.
    unreported: BTreeSet<Gn>,
    pub(crate) dead: BTreeSet<SwitchId>,
    /// Keeps old entries for senders that do not know their new color yet.
    pub(crate) drain: Drain,
    /// Keeps the entries of replaced trees that members still send by.
    pub(crate) retiring: RetiringTrees,
    /// True until the routes that another route service has reported were compared with the plan.
    is_new: bool,
    pub(crate) retry_at: Option<Moment>,
    /// Time of the next comparison of tables.
    pub(crate) read_back_at: Moment,
    pub(crate) has_snapshot: bool,
    pub(crate) debounce: Debounce,
    /// True if the watch is open. Senders hear of new colors only through the TIC.
    pub(crate) is_connected: bool,
    /// Loads that the engine does not know yet.
    loads: Option<Arc<PortLoads>>,
    /// Work that is carried out.
    pub(crate) stage: Stage,
    pub(crate) turn_started: Moment,
    pub(crate) output: Option<Output>,
    pub(crate) last_error: String,
    pub(crate) routed_revision: Revision,
}

impl Reconciler {
    /// Makes a reconciler that knows nothing of records and switches yet.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if the engine does not fit the topology or the options.
    pub fn new(setup: Setup, now: Moment) -> Result<Self, PlanError> {
        let Setup { graph, engine, engine_options, timing, agents, recorded, generations } = setup;
        Ok(Self {
            timing,
            generation: generations.write,
            directory: DirectoryCache::default(),
            planner: Planner::new(&graph, engine, engine_options)?,
            agents: SwitchAgents::new(graph, agents),
            choices: ChoiceLog::new(recorded, generations.choice),
            reported: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            unreported: BTreeSet::new(),
            dead: BTreeSet::new(),
            drain: Drain::default(),
            retiring: RetiringTrees::default(),
            is_new: true,
            retry_at: None,
            read_back_at: now.after(timing.read_back),
            has_snapshot: false,
            debounce: Debounce::default(),
            is_connected: false,
            loads: None,
            stage: Stage::Idle,
            turn_started: now,
            output: None,
            last_error: String::new(),
            routed_revision: Revision(0),
        })
    }

    /// Takes an input.
    pub fn handle(&mut self, now: Moment, input: Input) {
        match input {
            Input::Watch(event) => self.debounce.push(event),
            Input::Timing(timing) => self.timing = timing,
            Input::Loads(loads) => {
                self.loads = Some(Arc::new(PortLoads::new(self.planner.graph(), loads)));
            }
            Input::Table(table) => {
                if let Stage::ReadBack(work) = &mut self.stage {
                    self.agents.read_table(work, table, now);
                } else if let Stage::Compare(work) = &mut self.stage {
                    self.agents.compare_table(&mut work.tables, table, now);
                }
            }
            Input::Reply(reply) => {
                self.take_reply(reply, now);
                self.advance(now);
            }
            Input::Deadline => {
                self.begin_work(now);
                self.advance(now);
            }
            Input::TurnEnded { pause } => self.end_turn(pause, now),
        }
    }

    /// Returns the next work for the caller, if there is any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.output.take()
    }

    /// Returns the time for [`Input::Deadline`]; `None` while an output is carried out.
    pub fn next_deadline(&self) -> Option<Moment> {
        let is_idle = matches!(self.stage, Stage::Idle) && self.output.is_none();
        is_idle.then(|| self.turns_due().fold(self.read_back_at, Moment::min))
    }

    /// Returns true if the next [`Input::Deadline`] starts a turn, perhaps after a comparison of
    /// tables.
    pub fn is_turn_due(&self, now: Moment) -> bool {
        self.turns_due().any(|at| now >= at)
    }

    /// Returns true from the start of a turn until the answer to [`Output::EndTurn`].
    pub fn is_in_turn(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Compare(_))
    }

    /// Returns false while so many events of the watch wait that no more should be read.
    pub fn has_room(&self) -> bool {
        self.debounce.has_room()
    }

    /// Takes the facts for the log since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        let mut events = self.planner.take_events();
        events.append(&mut self.agents.take_events());
        events
    }

    /// Returns the state, for people.
    pub fn status(&self) -> Status<'_> {
        let tables = self.agents.tables();
        let is_written = self.has_snapshot && tables.are_equal() && !self.choices.is_behind();
        Status {
            generation: self.generation,
            seen_revision: self.directory.revision,
            routed_revision: self.routed_revision,
            settled: is_written && self.knows_all_routes(),
            programmed_entries: tables.held().len(),
            last_error: &self.last_error,
            groups: self.directory.groups.len(),
            plan: self.planner.status(),
        }
    }

    /// Explains the route of a group; `None` if there is no such group.
    pub fn explain(&self, group: &str) -> Option<RouteExplanation> {
        self.planner.explain(&self.directory, group)
    }

    /// Returns the planned groups, to look for better homes. Cost: all memberships.
    pub fn planned_groups(&self) -> PlannedForSearch {
        self.planner.planned_groups(&self.directory)
    }

    /// Returns the entries that a switch has confirmed, rising by input port and color.
    pub fn held(&self, switch: SwitchId) -> Vec<Write> {
        self.agents.tables().held().entries(switch).collect()
    }

    /// Returns whether a table is as its switch has confirmed it.
    pub(crate) fn holds(&self, table: &SwitchTable) -> bool {
        self.agents.tables().held().entries(table.switch).eq(table.entries.iter().copied())
    }

    /// True if both hold and desire the same entries.
    pub(crate) fn has_tables_of(&self, other: &Self) -> bool {
        let (own, other) = (self.agents.tables(), other.agents.tables());
        own.held() == other.held() && own.desired() == other.desired()
    }

    /// Route of a group as reported last.
    pub(crate) fn reported_route(&self, gn: Gn) -> Option<Route> {
        self.reported.get(&gn).cloned()
    }

    /// True if nothing is carried out, waits or is in doubt.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_idle = self.next_deadline().is_some() && self.retry_at.is_none();
        let is_told = self.is_connected && self.has_snapshot && self.unconfirmed.is_empty();
        let is_left = !self.drain.is_blind() && self.drain.due().is_none();
        is_idle
            && is_told
            && is_left
            && self.knows_all_routes()
            && self.retiring.is_empty()
            && self.agents.are_known()
            && self.agents.tables().are_equal()
            && !self.directory.mgids_held_back
    }

    /// Names of the groups whose planned trees use a color at a switch.
    pub(crate) fn groups_at(&self, switch: SwitchId, color: u16) -> BTreeSet<&str> {
        let plan = self.planner.status().plan;
        let graph = self.planner.graph();
        let uses = |tree: &VirtualGroup<'_>| {
            tree.color == color && tree.ports.iter().any(|port| graph.switch_of(*port) == switch)
        };
        let mgids: BTreeSet<Mgid> =
            plan.virtual_groups().filter(uses).flat_map(|tree| tree.groups).copied().collect();
        let groups = self.directory.groups.values();
        groups.filter(|group| mgids.contains(&group.mgid)).map(CachedGroup::name).collect()
    }

    /// Lists the switches that held something else than they had confirmed.
    pub fn drifts(&self, now: Moment) -> DriftList {
        self.agents.drifts(now)
    }

    /// Times at which turns are due.
    pub(crate) fn turns_due(&self) -> impl Iterator<Item = Moment> + use<> {
        // A turn that failed must succeed before a drain can end.
        let drained = [self.drain.due(), self.retiring.due()].into_iter().flatten().min();
        let next = self.retry_at.or(drained.filter(|_| self.is_connected));
        let walk = self.planner.has_waiting_walks().then_some(Moment(0));
        next.into_iter().chain(self.debounce.due()).chain(walk)
    }

    /// Number of tables to compare now, and time until the next comparison.
    pub(crate) fn pace(&self) -> (usize, std::time::Duration) {
        let Timing { read_back, read_back_rate, .. } = self.timing;
        let pace = Pace { interval: read_back, rate: read_back_rate };
        pace.step(self.agents.table_count())
    }

    /// Time when all senders know what is reported at `now`.
    pub(crate) fn drained(&self, now: Moment) -> Moment {
        now.after(self.timing.drain)
    }

    pub(crate) fn apply(&mut self, event: WatchEvent, now: Moment) {
        match event {
            WatchEvent::Snapshot(snapshot) => {
                self.directory.replace(snapshot);
                // Senders use the routes that were reported last, perhaps a moment ago and by
                // another route service. A later snapshot may be older than our own reports.
                if !self.has_snapshot {
                    let routes = self.directory.groups.iter();
                    let routes = routes.filter_map(|(gn, group)| Some((*gn, group.route.clone()?)));
                    self.reported = routes.collect();
                }
                let until = self.drained(now);
                match self.has_snapshot {
                    true => {
                        self.drain.put_off(until);
                        self.retiring.put_off(until);
                    }
                    false => self.drain.start_blind(until),
                }
                (self.has_snapshot, self.is_connected) = (true, true);
                // A change that was missed may have emptied a switch.
                self.agents.doubt_all();
            }
            WatchEvent::Delta(update) => self.directory.apply(update),
            WatchEvent::Lost => self.is_connected = false,
        }
    }

    pub(crate) fn plan(&mut self) {
        if let Some(loads) = self.loads.take() {
            self.planner.set_loads(loads);
        }
        if let Some(recorded) = self.choices.take_recorded() {
            self.planner.resume(&self.directory, &recorded);
        }
        self.unreported.extend(self.planner.walk_waiting());
        let changes = self.directory.take_changes();
        if changes.failed {
            let dead = self.planner.set_failed(&self.directory.failed);
            for switch in self.dead.difference(&dead) {
                self.agents.doubt(*switch);
            }
            self.dead = dead;
        }
        if changes.failed || !changes.groups.is_empty() {
            let change = self.planner.plan(&self.directory, &changes.groups);
            for switch in change.switches {
                self.agents.set_desired(switch, self.planner.entries(switch));
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

    /// Returns the routes that the TIC does not know yet and the switches have confirmed.
    ///
    /// Entries are only removed when it is certain which route the TIC knows. So a group whose last
    /// report failed, and whose route has to wait now, is reported without a route.
    ///
    /// - `swaps`: entries still to be written; the groups that need them must wait.
    pub(crate) fn routes_to_report(&mut self, swaps: &Writes, now: Moment) -> ChangedRoutes {
        let until = self.drained(now);
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
        let changed = self.changed_routes(swaps);
        if std::mem::take(&mut self.is_new) {
            self.retiring.start_blind(self.unreported.clone());
        }
        changed
    }

    fn changed_routes(&mut self, swaps: &Writes) -> ChangedRoutes {
        let Self { directory, planner, agents, reported, unconfirmed, retiring, .. } = self;
        let groups = &directory.groups;
        let needs_swap = |gn: &Gn, reported: Option<&Route>, route: &Route| {
            needs_swap(planner.graph(), &groups[gn], reported, route, swaps)
        };
        let tables = agents.tables();
        let is_all_there = LazyCell::new(|| tables.covers_desired());
        // Groups of a virtual group share their trees.
        let mut programmed = BTreeMap::new();
        let mut is_programmed = |route: &Route| {
            let RouteState::Routed { virtual_group, .. } = route.state else { return true };
            let known = programmed.entry(virtual_group);
            *known.or_insert_with(|| planner.is_programmed(route, tables))
        };
        let mut is_ready = |gn: &Gn, route: &Route| {
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
                changed.routes.push(GroupRoute { gn: *gn, route });
            } else if is_unconfirmed {
                changed.routes.push(withdrawal(*gn, &groups[gn]));
            }
            true
        });
        changed
    }

    /// Notes that routes are about to be reported.
    pub(crate) fn note_unreported(&mut self, routes: &[GroupRoute]) {
        self.unreported.extend(routes.iter().map(|route| route.gn));
    }

    /// Notes that a report may or may not have arrived.
    pub(crate) fn note_unconfirmed(&mut self, routes: &[GroupRoute]) {
        for GroupRoute { gn, route } in routes {
            self.unconfirmed.insert(*gn);
            let points = self.sender_points(*gn, Some(route));
            self.drain.add_unconfirmed(*gn, points);
        }
    }

    /// Notes that the TIC has taken a route.
    pub(crate) fn note_reported(&mut self, report: GroupRoute, now: Moment) {
        let GroupRoute { gn, route } = report;
        if let Some(group) = self.directory.groups.get(&gn) {
            self.planner.note_reported(gn, group);
        }
        let before = self.reported.insert(gn, route.clone());
        // Senders that had another color, or served more members, need time to hear of the change.
        let was_unconfirmed = self.unconfirmed.remove(&gn);
        if was_unconfirmed || before.as_ref().is_some_and(|before| takes_away(before, &route)) {
            let until = self.drained(now);
            let points = self.sender_points(gn, before.as_ref());
            self.drain.start(until, points);
            self.drain.confirm(gn, until);
            // A route may be withdrawn whose tree stays in the plan until the next change.
            let group = self.directory.groups.get(&gn);
            let mut trees = group.map_or_else(Vec::new, |group| self.planner.trees(group));
            if !was_unconfirmed {
                trees.retain(|tree| before.as_ref().is_some_and(|one| has_color(one, tree.color)));
            }
            self.retiring.leave(trees, until);
            self.retiring.reported(gn, Some(until));
        } else {
            self.retiring.reported(gn, None);
        }
    }

    /// Entry points of the members that send by a route of a group.
    fn sender_points(&self, gn: Gn, route: Option<&Route>) -> Vec<EntryPoint> {
        let both = self.directory.groups.get(&gn).zip(route);
        let graph = self.planner.graph();
        both.map_or_else(Vec::new, |(group, route)| sender_points(graph, group, route).collect())
    }

    pub(crate) fn handover(&self) -> Handover<'_> {
        let Self { planner, directory, reported, .. } = self;
        Handover { planner, directory, reported }
    }

    /// True if every event is planned, every plan is walked and the TIC knows every planned route.
    fn knows_all_routes(&self) -> bool {
        let is_reported = |gn: &Gn| match self.directory.groups.get(gn) {
            Some(group) => {
                !self.unconfirmed.contains(gn)
                    && self.reported.get(gn) == Some(&self.planner.route(*gn, group))
            }
            None => true,
        };
        let is_planned = self.debounce.is_empty() && !self.planner.has_waiting_walks();
        is_planned && self.unreported.iter().all(is_reported)
    }

    fn take_reply(&mut self, reply: Reply, now: Moment) {
        let stage = std::mem::take(&mut self.stage);
        self.stage = self.replied(stage, reply, now);
    }
}

/// Routes that the TIC does not know yet.
#[derive(Debug, Default)]
pub(crate) struct ChangedRoutes {
    pub(crate) routes: Vec<GroupRoute>,
    /// GNs among them whose entries are still to be swapped.
    pub(crate) before_swap: Vec<Gn>,
}

/// State of a reconciler, for people.
#[derive(Clone, Copy, Debug)]
pub struct Status<'a> {
    /// Number of the latest write or report.
    pub generation: u64,
    /// Revision of the records that are planned, or wait for it.
    pub seen_revision: Revision,
    /// Revision of the records in the latest turn that left nothing undone.
    pub routed_revision: Revision,
    /// True if the switches hold the plan of these records, and the TIC knows its routes and has
    /// recorded its choices.
    pub settled: bool,
    /// Entries that the switches have confirmed.
    pub programmed_entries: usize,
    /// Reason why the last turn left something undone; empty if it did not.
    pub last_error: &'a str,
    /// Number of groups in the records.
    pub groups: usize,
    /// State of the planner.
    pub plan: PlanStatus<'a>,
}
