//! The state `settled` of a reconciler whose engine chooses.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_groups::ids::{Gn, Pn, Revision};
use fabricast_groups::names::GroupName;
use fabricast_reconciler::{
    CachedMember, CallError, DirectoryChange, DirectoryUpdate, ErrorKind, FailedElement,
    Generations, GroupState, Input, Output, Reconciler, RecordedChoices, RecordedEndpoint, Reply,
    Setup, SwitchTable, Timing, TurnEnd, WatchEvent, Write,
};
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Graph, Mgid, SwitchId, TableKind};

const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\n";

/// A fabric whose one switch agent does what it is told.
struct World {
    graph: Arc<Graph>,
    reconciler: Reconciler,
    now: Moment,
    revision: u64,
}

impl World {
    fn new() -> Self {
        let graph = Arc::new(TopologySpec::parse(FABRIC).unwrap().generate().unwrap());
        let (drain, read_back) = (Duration::from_secs(1), Duration::from_hours(1));
        let setup = Setup {
            graph: Arc::clone(&graph),
            engine: EngineKind::MinHopMc,
            engine_options: EngineOptions::new(2, TableKind::PerPort),
            timing: Timing { drain, read_back, read_back_rate: 1 },
            agents: vec!["agent".to_owned()],
            recorded: RecordedChoices::None,
            generations: Generations::default(),
        };
        let reconciler = Reconciler::new(setup, Moment(0)).unwrap();
        let mut world = Self { graph, reconciler, now: Moment(0), revision: 1 };
        world.watch(WatchEvent::Snapshot(Vec::new()));
        world
    }

    fn watch(&mut self, event: WatchEvent) {
        self.reconciler.handle(self.now, Input::Watch(event));
    }

    fn change(&mut self, changes: Vec<DirectoryChange>) {
        self.revision += 1;
        let revision = Revision(self.revision);
        self.watch(WatchEvent::Delta(DirectoryUpdate { revision, changes }));
    }

    fn joined(&self, pn: u32, endpoint: &str) -> DirectoryChange {
        let endpoint = RecordedEndpoint::Known(self.graph.find_endpoint(endpoint).unwrap());
        let member = CachedMember { endpoint, joined: Revision(0), sends_only: false };
        DirectoryChange::Joined { gn: Gn(1), pn: Pn(pn), member }
    }

    fn form(&mut self, endpoints: [&str; 2]) {
        let group = DirectoryChange::Group(GroupState {
            gn: Gn(1),
            name: GroupName::new("g").unwrap(),
            mgid: Mgid(0),
            exclusive: false,
            incomplete: false,
            members_revision: Revision(self.revision + 1),
            route: None,
        });
        let joined = (0..).zip(endpoints).map(|(pn, endpoint)| self.joined(pn, endpoint));
        let changes = [group].into_iter().chain(joined).collect();
        self.change(changes);
    }

    /// Carries out all that is due within some seconds, or until choices are to be recorded;
    /// returns whether they are.
    fn is_to_record(&mut self) -> bool {
        let until = self.now.after(Duration::from_secs(5));
        loop {
            match self.reconciler.poll_output() {
                Some(Output::Record(_)) => return true,
                Some(output) => {
                    let input = self.carry_out(output);
                    self.reconciler.handle(self.now, input);
                }
                None => {
                    let due = self.reconciler.next_deadline().filter(|due| *due <= until);
                    let Some(due) = due else { return false };
                    self.now = self.now.max(due);
                    self.reconciler.handle(self.now, Input::Deadline);
                }
            }
        }
    }

    fn carry_out(&mut self, output: Output) -> Input {
        Input::Reply(match output {
            Output::Record(report) => panic!("{report:?}"),
            Output::List { .. } => Reply::Listed(Ok(self.graph.switches().collect())),
            Output::ReadBack { switches, .. } => {
                let all: Vec<SwitchId> = self.graph.switches().collect();
                for switch in if switches.is_empty() { all } else { switches } {
                    let table = SwitchTable { switch, entries: self.reconciler.held(switch) };
                    self.reconciler.handle(self.now, Input::Table(table));
                }
                Reply::Read(Ok(()))
            }
            Output::Write { .. } => Reply::Written(Ok(Vec::new())),
            Output::Report(_) => Reply::Reported(Ok(())),
            Output::EndTurn(end) => {
                assert!(matches!(end, TurnEnd::Complete | TurnEnd::Incomplete(_)), "{end:?}");
                return Input::TurnEnded { pause: Duration::from_millis(20) };
            }
        })
    }

    fn record(&mut self, recorded: Result<(), CallError>) {
        self.reconciler.handle(self.now, Input::Reply(Reply::Recorded(recorded)));
    }

    fn tables(&self) -> Vec<Vec<Write>> {
        self.graph.switches().map(|switch| self.reconciler.held(switch)).collect()
    }

    fn is_settled(&self) -> bool {
        self.reconciler.status().settled
    }
}

#[test]
fn nothing_is_settled_before_its_choices_are_recorded() {
    let mut world = World::new();
    world.form(["h0", "h2"]);
    while world.is_to_record() {
        assert!(!world.is_settled());
        world.record(Ok(()));
    }
    assert!(world.is_settled());
    let tables = world.tables();
    assert!(tables.iter().any(|entries| !entries.is_empty()), "the group has a tree");
    // The link of an endpoint without groups fails: tables and routes stay as they are.
    let unused = world.graph.find_endpoint("h1").unwrap();
    let link = FailedElement::Link(world.graph.attachment(unused).unwrap());
    world.change(vec![DirectoryChange::Failed(vec![link])]);
    assert!(world.is_to_record(), "the failed parts belong to the choices");
    assert!(!world.is_settled());
    let (kind, message) = (ErrorKind::Other, "the store is full".to_owned());
    world.record(Err(CallError { kind, message }));
    assert!(world.is_to_record(), "it is tried again");
    assert!(!world.is_settled());
    world.record(Ok(()));
    assert!(!world.is_to_record());
    assert!(world.is_settled());
    assert_eq!(world.tables(), tables);
}
