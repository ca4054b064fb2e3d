//! Plans and writes on a small fabric, as text.
//!
//! A file of `tests/golden` begins with a drawing of the fabric. Lines with `$` change something,
//! and what the reconciler then does stands below. `UPDATE_GOLDEN=1` rewrites what stands below.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_groups::ids::{Gn, Pn, Revision};
use fabricast_groups::names::GroupName;
use fabricast_groups::record::{Route, RouteState};
use fabricast_reconciler::{
    CachedMember, CallError, DirectoryChange, DirectoryUpdate, ErrorKind, FailedElement,
    Generations, GroupState, Input, Output, RecordedChoices, RecordedEndpoint, Recorder, Recording,
    RecordingError, Refusal, Renewal, Replay, ReplayError, Reply, Section, Segment, SegmentEnd,
    SegmentOrigin, Setup, StepKind, SwitchTable, Timing, TurnEnd, WatchEvent, Write,
};
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Graph, Mgid, SwitchId, TableKind, ibnetdiscover};

const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\n";
/// Names of the switches, in the order of their numbers.
const SWITCHES: [&str; 4] = ["leaf0", "leaf1", "spine0", "spine1"];
const DRAIN: Duration = Duration::from_millis(1000);
const PAUSE: Duration = Duration::from_millis(20);

/// A fabric whose one switch agent does what it is told, unless a script says otherwise.
struct World {
    graph: Arc<Graph>,
    reconciler: Recorder,
    now: Moment,
    revision: u64,
    mgids: BTreeMap<u32, Mgid>,
    tables: BTreeMap<SwitchId, BTreeMap<(u8, u16), Write>>,
    /// Switches that refuse the next write.
    refusing: BTreeSet<SwitchId>,
    loses_report: bool,
    /// Number of the latest write or report.
    generation: u64,
    log: String,
}

impl World {
    fn new(recording_bytes: usize) -> Self {
        let graph = Arc::new(TopologySpec::parse(FABRIC).unwrap().generate().unwrap());
        let setup = Setup {
            graph: Arc::clone(&graph),
            engine: EngineKind::CMr4lmsFixed,
            engine_options: EngineOptions::new(2, TableKind::PerPort),
            timing: Timing { drain: DRAIN, read_back: Duration::from_hours(1), read_back_rate: 1 },
            agents: vec!["agent".to_owned()],
            recorded: RecordedChoices::None,
            generations: Generations::default(),
        };
        let now = Moment(0);
        Self {
            reconciler: Recorder::new(setup, recording_bytes, now).unwrap(),
            graph,
            now,
            revision: 1,
            mgids: BTreeMap::new(),
            tables: BTreeMap::new(),
            refusing: BTreeSet::new(),
            loses_report: false,
            generation: 0,
            log: String::new(),
        }
    }

    fn line(&mut self, text: &str) {
        writeln!(self.log, "{:>5} ms  {text}", self.now.0 / 1_000_000).unwrap();
    }

    /// Carries out a command and all that is due at once, or until the end of a `wait`.
    fn run(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let mut until = self.now;
        match words.as_slice() {
            ["start"] => self.watch(WatchEvent::Snapshot(Vec::new())),
            ["group", gn, "mgid", mgid, members @ ..] => self.form(gn, mgid, members),
            ["join", gn, pn, endpoint] => {
                let change = self.joined(number(gn), number(pn), endpoint);
                self.change(vec![self.record_of(number(gn)), change]);
            }
            ["leave", gn, pn] => {
                let change =
                    DirectoryChange::Left { gn: Gn(number(gn).into()), pn: Pn(number(pn)) };
                self.change(vec![self.record_of(number(gn)), change]);
            }
            ["end", gn] => self.change(vec![DirectoryChange::Deleted(Gn(number(gn).into()))]),
            ["fail", switch, port] => {
                let port = self.graph.port(self.switch(switch), port.parse().unwrap()).unwrap();
                self.change(vec![DirectoryChange::Failed(vec![FailedElement::Link(port)])]);
            }
            ["heal"] => self.change(vec![DirectoryChange::Failed(Vec::new())]),
            ["refuse", switch] => drop(self.refusing.insert(self.switch(switch))),
            ["lose", "report"] => self.loses_report = true,
            ["wait", milliseconds] => {
                until = until.after(Duration::from_millis(number(milliseconds).into()));
            }
            _ => panic!("'{command}' is no command"),
        }
        while let Some(due) = self.reconciler.next_deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.reconciler.handle(self.now, Input::Deadline);
            while let Some(output) = self.reconciler.poll_output() {
                self.carry_out(output);
            }
        }
        self.now = until;
    }

    fn watch(&mut self, event: WatchEvent) {
        self.reconciler.handle(self.now, Input::Watch(event));
    }

    fn change(&mut self, changes: Vec<DirectoryChange>) {
        self.revision += 1;
        let revision = Revision(self.revision);
        self.watch(WatchEvent::Delta(DirectoryUpdate { revision, changes }));
    }

    fn form(&mut self, gn: &str, mgid: &str, members: &[&str]) {
        self.mgids.insert(number(gn), Mgid(number(mgid)));
        let group = self.record_of(number(gn));
        let joined = (0..).zip(members).map(|(pn, one)| self.joined(number(gn), pn, one));
        let changes = [group].into_iter().chain(joined).collect();
        self.change(changes);
    }

    /// Record of a group after the next change.
    fn record_of(&self, gn: u32) -> DirectoryChange {
        DirectoryChange::Group(GroupState {
            gn: Gn(gn.into()),
            name: GroupName::new(&format!("g{gn}")).unwrap(),
            mgid: self.mgids[&gn],
            exclusive: false,
            incomplete: false,
            members_revision: Revision(self.revision + 1),
            route: None,
        })
    }

    fn joined(&self, gn: u32, pn: u32, endpoint: &str) -> DirectoryChange {
        let endpoint: EndpointId = self.graph.find_endpoint(endpoint).unwrap();
        let endpoint = RecordedEndpoint::Known(endpoint);
        let member = CachedMember { endpoint, joined: Revision(0), sends_only: false };
        DirectoryChange::Joined { gn: Gn(gn.into()), pn: Pn(pn), member }
    }

    fn switch(&self, name: &str) -> SwitchId {
        let mut switches = self.graph.switches().zip(SWITCHES);
        let found = switches.find(|(_, known)| *known == name);
        found.unwrap_or_else(|| panic!("no switch is named '{name}'")).0
    }

    fn name(&self, switch: SwitchId) -> &'static str {
        self.graph.switches().zip(SWITCHES).find(|(id, _)| *id == switch).unwrap().1
    }

    fn carry_out(&mut self, output: Output) {
        let reply = match output {
            Output::Record(report) => panic!("the engine chooses nothing: {report:?}"),
            Output::List { .. } => {
                self.line("list switches");
                Reply::Listed(Ok(self.graph.switches().collect()))
            }
            Output::ReadBack { switches, .. } => {
                let all: Vec<SwitchId> = self.graph.switches().collect();
                let switches = if switches.is_empty() { all } else { switches };
                self.line(&format!("read {} tables", switches.len()));
                for switch in switches {
                    let table = self.tables.get(&switch);
                    let entries = table.into_iter().flat_map(BTreeMap::values).copied().collect();
                    let table = SwitchTable { switch, entries };
                    self.reconciler.handle(self.now, Input::Table(table));
                }
                Reply::Read(Ok(()))
            }
            Output::Write { generation, writes, .. } => {
                self.note(generation);
                let mut refusals = Vec::new();
                for write in writes {
                    let name = self.name(write.switch);
                    if write.entries.is_empty() {
                        self.line(&format!("write {generation}: {name} shows the term"));
                    }
                    if self.refusing.remove(&write.switch) {
                        self.line(&format!("write {generation}: {name} refuses"));
                        let (kind, message) = (ErrorKind::Other, "it is busy".to_owned());
                        let error = CallError { kind, message };
                        let switch = Some(write.switch);
                        refusals.push(Refusal { switch_name: name.to_owned(), switch, error });
                        continue;
                    }
                    for entry in write.entries {
                        self.record(generation, write.switch, entry);
                    }
                }
                Reply::Written(Ok(refusals))
            }
            Output::Report(report) => {
                self.note(report.generation);
                for group in &report.routes {
                    self.line(&format!("report g{}: {}", group.gn, text(&group.route)));
                }
                if report.routes.is_empty() {
                    self.line(&format!("report clean at revision {}", report.clean));
                }
                Reply::Reported(match std::mem::take(&mut self.loses_report) {
                    true => {
                        self.line("no answer to the report");
                        let (kind, message) = (ErrorKind::Other, "no answer".to_owned());
                        Err(CallError { kind, message })
                    }
                    false => Ok(()),
                })
            }
            Output::EndTurn(end) => {
                match end {
                    TurnEnd::Complete => {}
                    other => self.line(&format!("turn ends: {other:?}")),
                }
                return self.reconciler.handle(self.now, Input::TurnEnded { pause: PAUSE });
            }
        };
        self.reconciler.handle(self.now, Input::Reply(reply));
    }

    /// Receivers refuse older numbers.
    fn note(&mut self, generation: u64) {
        assert!(generation >= self.generation, "{generation} after {}", self.generation);
        self.generation = generation;
    }

    fn recording(&self) -> Recording {
        let recording = self.reconciler.recording(self.now).unwrap();
        let topology = ibnetdiscover::write(&self.graph);
        Recording { topology, ..recording }
    }

    /// Appends what was recorded to the file of its section, the last one.
    fn save(&mut self, files: &mut Vec<Vec<u8>>) {
        let topology = SegmentOrigin::digest(&ibnetdiscover::write(&self.graph));
        while let Some(part) = self.reconciler.take_part() {
            assert!(part.begins_section() || part.records() > 0);
            if part.begins_section() {
                files.push(Vec::new());
            }
            let bytes = part.to_bytes(SegmentOrigin { began_ms: 7, topology });
            files.last_mut().unwrap().extend(bytes);
        }
    }

    /// Plays the recording from its bytes, and compares the last state; returns its sections.
    fn replayed(&self) -> usize {
        let recording = self.recording();
        let read = Recording::from_bytes(&recording.to_bytes()).unwrap();
        assert_eq!(read, recording);
        let graph = read.graph().unwrap();
        for section in &read.sections {
            let mut replay = Replay::new(section, Arc::clone(&graph)).unwrap();
            let mut outputs = 0;
            while let Some(step) = replay.step().unwrap() {
                outputs += usize::from(matches!(step.kind, StepKind::Output(..)));
            }
            assert!(outputs > 0);
            if Some(section) == read.sections.last() {
                let (played, now) = (replay.reconciler(), &self.reconciler);
                assert_eq!(format!("{:?}", played.status()), format!("{:?}", now.status()));
                for switch in graph.switches() {
                    assert_eq!(played.held(switch), now.held(switch));
                }
            }
        }
        read.sections.len()
    }

    fn record(&mut self, generation: u64, switch: SwitchId, entry: Write) {
        let Write { in_port, color, out } = entry;
        let name = self.name(switch);
        let ports: Vec<String> = out.iter().map(|port| port.to_string()).collect();
        let table = self.tables.entry(switch).or_default();
        let old = if out.is_empty() {
            table.remove(&(in_port, color))
        } else {
            table.insert((in_port, color), entry)
        };
        let old: Vec<String> =
            old.iter().flat_map(|old| old.out.iter()).map(|port| port.to_string()).collect();
        let (old, ports) = (old.join(","), ports.join(","));
        let text = format!("{name} port {in_port} color {color}: [{old}] -> [{ports}]");
        self.line(&format!("write {generation}: {text}"));
    }
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

fn text(route: &Route) -> String {
    let mut text = match route.state {
        RouteState::Routed { colors, virtual_group } => {
            format!("color {} in virtual group {virtual_group}", colors.first)
        }
        RouteState::UnicastOnly => "unicast only".to_owned(),
    };
    if !route.cut_off.is_empty() {
        let names: Vec<&str> = route.cut_off.iter().map(|name| name.as_str()).collect();
        write!(text, ", without {}", names.join(" ")).unwrap();
    }
    if !route.reason.is_empty() {
        write!(text, " ({})", route.reason).unwrap();
    }
    text
}

/// Runs the commands of a file; returns what it ought to hold.
fn play(file: &str) -> String {
    let mut world = World::new(1 << 20);
    let mut all = String::new();
    for line in file.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            world.run(command);
            writeln!(all, "{line}\n{}", std::mem::take(&mut world.log)).unwrap();
        } else if line.starts_with('#') || line.is_empty() && !all.contains("\n$") {
            writeln!(all, "{line}").unwrap();
        }
    }
    let settled = world.reconciler.status().settled;
    writeln!(all, "settled: {settled}").unwrap();
    assert_eq!(world.replayed(), 1, "one section");
    all
}

#[test]
#[expect(clippy::disallowed_methods, reason = "golden files are read, and written on request")]
fn the_reconciler_does_what_the_golden_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut differing = Vec::new();
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for path in files {
        let file = std::fs::read_to_string(&path).unwrap();
        let now = play(&file);
        if now == file {
            continue;
        }
        if std::env::var("UPDATE_GOLDEN").is_ok() {
            std::fs::write(&path, now).unwrap();
        } else {
            differing.push(format!("{}, now:\n{now}", path.display()));
        }
    }
    assert!(differing.is_empty(), "UPDATE_GOLDEN=1 rewrites these:\n{}", differing.join("\n"));
}

/// A world with two groups whose members come and go, and what `renew` said after each change.
fn busy_world(recording_bytes: usize) -> (World, Vec<Renewal>) {
    let mut world = World::new(recording_bytes);
    let mut renewals = Vec::new();
    for command in ["start", "group 1 mgid 0 h0 h2", "group 2 mgid 1 h1 h3"] {
        world.run(command);
    }
    for round in 0..40 {
        for command in
            ["join 1 7 h3", "wait 3000", "fail leaf0 3", "leave 1 7", "wait 3000", "heal"]
        {
            world.run(command);
            renewals.push(world.reconciler.renew(world.now));
        }
        if round % 8 == 0 {
            world.run("refuse leaf1");
            world.run("join 2 9 h0");
            world.run("lose report");
            world.run("leave 2 9");
            world.run("wait 50");
        }
    }
    world.run("wait 3000");
    (world, renewals)
}

#[test]
fn renewed_recordings_stay_bounded_and_change_nothing() {
    let (world, renewals) = busy_world(20_000);
    let count = renewals.iter().filter(|one| **one == Renewal::Done).count();
    assert!(count > 2, "{count} renewals");
    let recording = world.recording();
    let bytes: usize = recording.sections.iter().map(Section::len).sum();
    assert!(bytes <= 20_000, "{bytes}");
    assert!(world.replayed() > 1);

    let (unrenewed, renewals) = busy_world(1 << 30);
    assert!(renewals.iter().all(|one| *one == Renewal::NotNow));
    assert!(world.reconciler.status().settled && unrenewed.reconciler.status().settled);
    assert_eq!(world.tables, unrenewed.tables);
}

/// A turn walks 1,000 groups at most.
#[test]
fn recordings_of_many_groups_are_renewed() {
    let mut world = World::new(1 << 20);
    world.run("start");
    let mut changes = Vec::new();
    for group in 0..1200 {
        world.mgids.insert(group, Mgid(2 * group));
        changes.push(world.record_of(group));
        changes.extend([world.joined(group, 0, "h0"), world.joined(group, 1, "h2")]);
    }
    world.change(changes.clone());
    world.run("wait 3000");
    let mut rounds = 0;
    while world.reconciler.renew(world.now) == Renewal::NotNow {
        world.change(changes.clone());
        world.run("wait 3000");
        rounds += 1;
        assert!(rounds < 20, "it never rests");
    }
    assert_eq!(world.replayed(), 2);
}

#[test]
fn records_that_are_too_large_are_not_recorded() {
    let (world, renewals) = busy_world(400);
    let too_large = renewals.iter().filter(|one| matches!(one, Renewal::TooLarge(_))).count();
    assert_eq!(too_large, 1, "said once");
    assert!(world.reconciler.recording(world.now).is_none());
    let (world, renewals) = busy_world(0);
    assert!(renewals.iter().all(|one| *one == Renewal::NotNow));
    assert!(world.reconciler.recording(world.now).is_none());
    assert!(world.reconciler.status().settled);
}

#[test]
fn damaged_recordings_are_refused() {
    let (world, _) = busy_world(6_000);
    let file = world.recording().to_bytes();
    assert!(Recording::from_bytes(b"").is_err());
    assert!(Recording::from_bytes(&file[..file.len() - 1]).is_err());
    let mut differing = 0;
    for at in (0..file.len()).step_by(7) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x15;
        let Ok(read) = Recording::from_bytes(&damaged) else { continue };
        let Ok(graph) = read.graph() else { continue };
        for section in &read.sections {
            let Ok(mut replay) = Replay::new(section, Arc::clone(&graph)) else { continue };
            loop {
                match replay.step() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => {
                        differing += usize::from(matches!(error, ReplayError::Differs { .. }));
                        break;
                    }
                }
            }
        }
    }
    assert!(differing > 0, "a changed input gives other outputs");
}

/// A world whose recording goes to files, and these.
fn saved_world() -> (World, Vec<Vec<u8>>) {
    let (mut world, mut files) = (World::new(6_000), Vec::new());
    for command in ["start", "group 1 mgid 0 h0 h2", "group 2 mgid 1 h1 h3"] {
        world.run(command);
        world.save(&mut files);
    }
    for _ in 0..40 {
        for command in ["join 1 7 h3", "wait 3000", "leave 1 7", "wait 3000"] {
            world.run(command);
            world.save(&mut files);
            world.reconciler.renew(world.now);
            world.save(&mut files);
        }
    }
    (world, files)
}

/// Plays a section to its end; returns the number of its steps.
fn steps(section: &Section, graph: Arc<Graph>) -> usize {
    let mut replay = Replay::new(section, graph).unwrap();
    let mut steps = 0;
    while replay.step().unwrap().is_some() {
        steps += 1;
    }
    steps
}

#[test]
fn files_have_all_sections_and_each_is_played_by_itself() {
    let (world, files) = saved_world();
    let topology = ibnetdiscover::write(&world.graph);
    let segments: Vec<Segment> =
        files.iter().map(|file| Segment::from_bytes(file).unwrap()).collect();
    for segment in &segments {
        assert_eq!((segment.origin.began_ms, segment.end), (7, SegmentEnd::Whole));
        assert!(steps(&segment.section, segment.graph(&topology).unwrap()) > 0);
        let other = segment.graph(&topology.replace("leaf0", "leaf9"));
        assert!(matches!(other, Err(RecordingError::Damaged(_))));
    }
    let saved: Vec<Section> = segments.into_iter().map(|segment| segment.section).collect();
    let kept = world.recording().sections;
    assert!(saved.ends_with(&kept));
    assert!(saved.len() > kept.len(), "the oldest sections are in files only");
}

#[test]
fn a_section_begins_early_if_one_is_wanted() {
    let (mut world, _) = busy_world(1 << 20);
    let mut files = Vec::new();
    world.save(&mut files);
    assert_eq!(world.reconciler.renew(world.now), Renewal::NotNow, "it is short");
    world.reconciler.want_section();
    assert_eq!(world.reconciler.renew(world.now), Renewal::Done);
    world.save(&mut files);
    assert_eq!(files.len(), 2);
    world.run("wait 3000");
    assert_eq!(world.reconciler.renew(world.now), Renewal::NotNow, "it was wanted once");
    assert_eq!(world.replayed(), 2);
}

#[test]
fn an_input_is_saved_before_it_is_handled() {
    let mut world = World::new(1 << 20);
    world.watch(WatchEvent::Snapshot(Vec::new()));
    world.save(&mut Vec::new());
    let mut saved = None;
    let due = world.reconciler.next_deadline().unwrap();
    world.reconciler.handle_saved(due, Input::Deadline, |recorder| {
        assert!(!recorder.is_in_turn());
        saved = recorder.take_part();
    });
    assert!(world.reconciler.is_in_turn());
    assert_eq!(saved.map(|part| part.records()), Some(1));
    assert!(world.reconciler.take_part().is_none());
}

#[test]
fn a_file_whose_writer_was_killed_is_played_up_to_there() {
    let (world, files) = saved_world();
    let (mut torn, mut most) = (0, 0);
    for cut in (0..files[0].len()).step_by(11) {
        let segment = match Segment::from_bytes(&files[0][..cut]) {
            Ok(segment) => segment,
            Err(error) => {
                assert!(matches!(error, RecordingError::Unbegun) && most == 0, "{cut}: {error}");
                continue;
            }
        };
        if let SegmentEnd::Torn { bytes } = segment.end {
            assert!(bytes < cut, "{cut}");
            torn += 1;
        } else {
            assert_eq!(segment.end, SegmentEnd::Whole, "{cut}");
        }
        let steps = steps(&segment.section, Arc::clone(&world.graph));
        assert!(steps >= most, "{cut}");
        most = steps;
    }
    assert!(torn > 0 && most > 0);
}

#[test]
fn a_file_with_changed_bytes_is_played_up_to_them() {
    let (world, files) = saved_world();
    let all = steps(&Segment::from_bytes(&files[0]).unwrap().section, Arc::clone(&world.graph));
    let mut damaged_files = 0;
    for at in (0..files[0].len()).step_by(11) {
        let mut damaged = files[0].clone();
        damaged[at] ^= 0x15;
        let Ok(segment) = Segment::from_bytes(&damaged) else { continue };
        assert_ne!(segment.end, SegmentEnd::Whole, "{at}");
        damaged_files += usize::from(matches!(segment.end, SegmentEnd::Damaged { .. }));
        assert!(steps(&segment.section, Arc::clone(&world.graph)) < all, "{at}");
    }
    assert!(damaged_files > 0);
}
