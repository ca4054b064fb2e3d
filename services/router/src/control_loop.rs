//! The loop of one term: gives the reconciler its inputs, and carries out what it says.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_reconciler::{
    Event, Generations, GroupLabel, Input, Output, PlannedForSearch, Recorder, Recording, Renewal,
    Reply, RouteExplanation, Setup, TurnEnd, WatchEvent,
};
use fabricast_routing::{HomeSearch, PlannedFabric};
use fabricast_rpc::Backoff;
use fabricast_telemetry::audit;
use fabricast_telemetry::traces::{Side, Span};
use fabricast_topology::Graph;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use crate::better_homes::HomeQuery;
use crate::counters::Loads;
use crate::environment::Environment;
use crate::faults::FaultQuery;
use crate::recording_files::{RecordingFiles, SegmentQueue};
use crate::run_error::RunError;
use crate::settings::RoutingSettings;
use crate::status::PlanStatus;
use crate::traced_requests::{TracedRequests, TurnSpans};
use crate::watch::{TopologySnapshot, WatchMessage};
use crate::wire::{self, Caller, choices};

/// A query of the API, with the channel for its answer.
#[derive(Debug)]
pub(crate) enum Query {
    Status(oneshot::Sender<PlanStatus>),
    Explain {
        group: String,
        reply: oneshot::Sender<Option<v1::RouteExplanation>>,
    },
    Drifts(oneshot::Sender<v1::ListTableDriftsResponse>),
    /// The planned groups, to look for better homes.
    Homes(oneshot::Sender<HomeQuery>),
    /// The planned groups, to plan them with other faults.
    Faults(oneshot::Sender<FaultQuery>),
    /// The recording, without the text of the topology; `None` if nothing is recorded.
    Recording(oneshot::Sender<Option<(Recording, Arc<Graph>)>>),
}

/// Reason why the loop ended.
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

/// A reconciler with its connections.
#[derive(Debug)]
pub(crate) struct ControlLoop<O> {
    environment: O,
    settings: RoutingSettings,
    topology: TopologySnapshot,
    scheme: v1::RouteChoiceScheme,
    term: u64,
    reconciler: Recorder,
    /// Queue of the recording's files, if there are any.
    segments: Option<SegmentQueue>,
    backoff: Backoff,
    loads: Loads,
    /// Trace parents of changes that the next turn takes.
    traceparents: Vec<String>,
    requests: TracedRequests,
    turn: Option<Turn>,
    /// Time when the last turn had its plan.
    planned: Moment,
    compute: Duration,
    program: Duration,
}

/// The turn that is carried out.
#[derive(Debug)]
struct Turn {
    spans: TurnSpans,
}

impl<O: Environment> ControlLoop<O> {
    /// Reads the recorded choices, and makes a reconciler with them.
    pub(crate) async fn start(
        environment: O,
        settings: RoutingSettings,
        term: Term<'_>,
    ) -> Result<Self, LoopEnd> {
        let Term { number, topology, loads } = term;
        let TopologySnapshot { graph, sha256 } = topology.clone();
        let scheme = choices::scheme(settings.engine, settings.engine_options, &sha256);
        let recorded = choices::load(&environment, &graph, &scheme).await;
        let setup = Setup {
            graph: graph.clone(),
            engine: settings.engine,
            engine_options: settings.engine_options,
            timing: settings.live.timing(),
            agents: environment.agents(),
            recorded,
            generations: Generations::default(),
        };
        let limit = settings.live.config().recording_bytes;
        let reconciler = Recorder::new(setup, limit, environment.now()).map_err(RunError::from)?;
        let segments = settings.recording_files.as_ref().map(RecordingFiles::queue);
        Ok(Self {
            environment,
            settings,
            topology: TopologySnapshot { graph, sha256 },
            scheme,
            term: number,
            reconciler,
            segments,
            backoff: Backoff::default(),
            loads,
            traceparents: Vec::new(),
            requests: TracedRequests::default(),
            turn: None,
            planned: Moment(0),
            compute: Duration::ZERO,
            program: Duration::ZERO,
        })
    }

    /// Runs until a newer route service is active; drop the future to stop the loop.
    pub(crate) async fn run(
        mut self,
        messages: &mut mpsc::Receiver<WatchMessage>,
        queries: &mut mpsc::Receiver<Query>,
    ) -> Result<(), LoopEnd> {
        loop {
            while let Some(output) = self.reconciler.poll_output() {
                // Before the input that follows, as a call may end the process, too.
                self.save_recording();
                if let Some(reply) = self.carry_out(output, queries).await? {
                    // A turn that begins now takes what has arrived meanwhile.
                    self.take_messages(messages)?;
                    self.plan(Input::Reply(reply));
                }
                self.log();
            }
            self.renew_recording();
            // While nothing is carried out there is a deadline.
            let due = self.reconciler.next_deadline().unwrap_or(Moment(0));
            let environment = self.environment.clone();
            tokio::select! {
                biased; // equal events give equal runs
                Some(query) = queries.recv() => self.answer(query),
                () = environment.sleep_until(due) => {
                    self.take_messages(messages)?;
                    self.meet_deadline();
                }
                Some(message) = messages.recv(), if self.reconciler.has_room() => {
                    self.take_message(message)?;
                }
            }
            self.log();
        }
    }

    fn renew_recording(&mut self) {
        self.save_recording();
        let now = self.environment.now();
        if self.segments.as_ref().is_some_and(|segments| segments.wants_section(now)) {
            self.reconciler.want_section();
        }
        match self.reconciler.renew(now) {
            Renewal::NotNow => {}
            Renewal::Done => self.save_recording(),
            Renewal::TooLarge(bytes) => {
                warn!(
                    bytes,
                    "records take more than `recording_bytes` allows, nothing is recorded"
                );
            }
        }
    }

    /// Queues for the files what was recorded since the last call.
    fn save_recording(&mut self) {
        let now = self.environment.now();
        save(&mut self.reconciler, &mut self.segments, &self.topology.graph, now);
    }

    fn handle(&mut self, input: Input) {
        let now = self.environment.now();
        let Self { reconciler, segments, topology, .. } = self;
        let save = |recorder: &mut Recorder| save(recorder, segments, &topology.graph, now);
        reconciler.handle_saved(now, input, save);
    }

    fn take_messages(
        &mut self,
        messages: &mut mpsc::Receiver<WatchMessage>,
    ) -> Result<(), LoopEnd> {
        while self.reconciler.has_room()
            && let Ok(message) = messages.try_recv()
        {
            self.take_message(message)?;
        }
        Ok(())
    }

    fn take_message(&mut self, message: WatchMessage) -> Result<(), LoopEnd> {
        let event = match message {
            WatchMessage::Snapshot(parts) => WatchEvent::Snapshot(parts),
            WatchMessage::Delta { update, mut traceparents } => {
                self.traceparents.append(&mut traceparents);
                WatchEvent::Delta(update)
            }
            WatchMessage::Lost => WatchEvent::Lost,
            WatchMessage::OtherTopology => return Err(RunError::OtherTopology.into()),
        };
        self.handle(Input::Watch(event));
        Ok(())
    }

    fn meet_deadline(&mut self) {
        self.handle(Input::Timing(self.settings.live.timing()));
        if let Some(loads) = self.loads.take_newer() {
            self.handle(Input::Loads(loads));
        }
        if self.reconciler.is_turn_due(self.environment.now()) {
            self.begin_turn();
        }
        self.plan(Input::Deadline);
    }

    /// Hands over an input that may start a turn, and measures how long planning takes.
    fn plan(&mut self, input: Input) {
        let was_in_turn = self.reconciler.is_in_turn();
        let started = self.environment.now();
        let origin = self.turn.as_ref().map(|turn| turn.spans.origin()).unwrap_or_default();
        let span = (!was_in_turn).then(|| Span::begin("plan", Side::Inner, &origin));
        self.handle(input);
        drop(span);
        if self.reconciler.is_in_turn() && !was_in_turn {
            self.begin_turn();
            self.planned = self.environment.now();
            self.compute = self.planned.since(started);
        }
    }

    fn begin_turn(&mut self) {
        if self.turn.is_none() {
            self.requests.add(&std::mem::take(&mut self.traceparents));
            self.turn = Some(Turn { spans: self.requests.begin_turn() });
        }
    }

    /// Carries out one output; returns the answer to a call. Queries are answered meanwhile.
    async fn carry_out(
        &mut self,
        output: Output,
        queries: &mut mpsc::Receiver<Query>,
    ) -> Result<Option<Reply>, LoopEnd> {
        let origin = self.turn.as_ref().map(|turn| turn.spans.origin()).unwrap_or_default();
        Ok(Some(match output {
            Output::EndTurn(end) => {
                self.end_turn(end)?;
                return Ok(None);
            }
            Output::ReadBack { agent, switches } => {
                let environment = self.environment.clone();
                let Self { reconciler, segments, topology, .. } = self;
                let graph = &topology.graph;
                let names = switches.iter().map(|one| graph.switch_name(*one).to_owned());
                let names = names.collect();
                let mut take = |table: v1::SwitchTable| {
                    if let Some(table) = wire::decode_table(graph, &table) {
                        let now = environment.now();
                        let save = |recorder: &mut Recorder| save(recorder, segments, graph, now);
                        reconciler.handle_saved(now, Input::Table(table), save);
                    }
                };
                let read = origin.cover(Box::pin(environment.read_tables(agent, names, &mut take)));
                Reply::Read(read.await.map_err(wire::call_error))
            }
            output => {
                let caller = self.caller();
                let call = origin.cover(Box::pin(caller.call(self.environment.clone(), output)));
                tokio::pin!(call);
                loop {
                    tokio::select! {
                        biased;
                        Some(query) = queries.recv() => self.answer(query),
                        reply = &mut call => break reply,
                    }
                }
            }
        }))
    }

    fn caller(&self) -> Caller {
        let graph = self.topology.graph.clone();
        Caller { term: self.term, scheme: self.scheme.clone(), graph }
    }

    fn end_turn(&mut self, end: TurnEnd) -> Result<(), LoopEnd> {
        let mut pause = Duration::ZERO;
        let mut error = String::new();
        match end {
            TurnEnd::Complete => {
                self.requests.clear();
                self.backoff = Backoff::default();
            }
            TurnEnd::Incomplete(reason) => {
                // Logged once, not at every attempt.
                if self.reconciler.status().last_error != reason {
                    warn!(%reason, "turn incomplete");
                }
                pause = self.environment.pause(&mut self.backoff);
                error = reason;
            }
            TurnEnd::Deposed => return Err(LoopEnd::Deposed),
            TurnEnd::OtherTopology => return Err(RunError::OtherTopology.into()),
        }
        self.handle(Input::TurnEnded { pause });
        self.program = self.environment.now().since(self.planned);
        if let Some(Turn { spans }) = self.turn.take() {
            spans.end(self.reconciler.status().seen_revision.0, &error);
        }
        Ok(())
    }

    fn answer(&mut self, query: Query) {
        // A failed send means that the caller has gone away.
        match query {
            Query::Status(reply) => drop(reply.send(self.status())),
            Query::Explain { group, reply } => {
                let explanation = self.reconciler.explain(&group);
                let graph = &self.topology.graph;
                let encode = |one: RouteExplanation| wire::encode_explanation(graph, one);
                drop(reply.send(explanation.map(encode)));
            }
            Query::Homes(reply) => {
                let RoutingSettings { engine, engine_options, .. } = self.settings;
                let PlannedForSearch { faults, groups, .. } = self.reconciler.planned_groups();
                let (labels, groups): (Vec<GroupLabel>, _) = groups.into_iter().unzip();
                let names = labels.into_iter().map(|label| label.name).collect();
                let graph = self.topology.graph.clone();
                let options = engine_options;
                let search = HomeSearch { graph, kind: engine, options, faults, groups };
                drop(reply.send(HomeQuery { search, names }));
            }
            Query::Faults(reply) => {
                let RoutingSettings { engine: kind, engine_options: options, .. } = self.settings;
                let PlannedForSearch { faults, groups, choices } = self.reconciler.planned_groups();
                let (labels, groups) = groups.into_iter().unzip();
                let graph = self.topology.graph.clone();
                let now = PlannedFabric { graph, kind, options, faults, groups, choices };
                drop(reply.send(FaultQuery { now, labels }));
            }
            Query::Recording(reply) => {
                let now = self.environment.now();
                let recording = self.reconciler.recording(now);
                let graph = self.topology.graph.clone();
                drop(reply.send(recording.map(|recording| (recording, graph))));
            }
            Query::Drifts(reply) => {
                let list = self.reconciler.drifts(self.environment.now());
                drop(reply.send(wire::encode_drifts(&self.topology.graph, &list)));
            }
        }
    }

    fn status(&self) -> PlanStatus {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let status = self.reconciler.status();
        let mut encoded = v1::GetRouteStatusResponse {
            active: true,
            fence: Some(v1::Fence { term: self.term, generation: status.generation }),
            seen_revision: status.seen_revision.0,
            routed_revision: status.routed_revision.0,
            settled: status.settled,
            programmed_entries: u64::try_from(status.programmed_entries).unwrap_or(u64::MAX),
            last_error: status.last_error.to_owned(),
            last_compute_us: micros(self.compute),
            last_program_us: micros(self.program),
            engine: status.plan.engine.name().to_owned(),
            irregularities: status.plan.irregularities.to_vec(),
            missing_groups: u32::try_from(status.plan.missing_groups).unwrap_or(u32::MAX),
            ..v1::GetRouteStatusResponse::default()
        };
        self.loads.describe(self.settings.engine_options.root_policy, &mut encoded);
        PlanStatus {
            status: encoded,
            graph: self.topology.graph.clone(),
            plan: status.plan.plan.clone(),
            groups: status.groups,
        }
    }

    fn log(&mut self) {
        let graph = &self.topology.graph;
        for event in self.reconciler.take_events() {
            match event {
                Event::GroupRefused { gn, error } => {
                    warn!(group = gn.0, %error, "group refused by the engine");
                }
                Event::MembersMissed { gn, missed } => {
                    warn!(group = gn.0, missed, "planned trees do not reach all members");
                }
                Event::ChoiceDropped { gn, error } => {
                    info!(group = gn.0, %error, "recorded choice does not fit");
                }
                Event::AllChoicesDropped { error } => {
                    warn!(reason = %error, "recorded choices dropped, planning from scratch");
                }
                Event::ChoicesRestored { dropped } => {
                    info!(dropped, "recorded choices restored");
                }
                Event::TableDrifted { switch, difference } => {
                    let (missing, extra) = (difference.missing, difference.extra);
                    let (switch, altered) = (graph.switch_name(switch), difference.altered);
                    warn!(switch, missing, extra, altered, "table drifted");
                }
                Event::TableRepaired { switch, difference } => {
                    let switch = graph.switch_name(switch);
                    info!(switch, "table repaired");
                    let request = json!({
                        "switch": switch,
                        "missing": difference.missing,
                        "extra": difference.extra,
                        "altered": difference.altered,
                    });
                    audit("router", "RepairTable", "OK", &request.to_string());
                }
            }
        }
    }
}

/// Queues for the files what was recorded since the last call, if there are files.
fn save(
    recorder: &mut Recorder,
    segments: &mut Option<SegmentQueue>,
    graph: &Arc<Graph>,
    now: Moment,
) {
    if let Some(segments) = segments
        && let Some(part) = recorder.take_part()
    {
        segments.put(part, graph, now);
    }
}
