//! Files of recordings: their bounds, gaps and restarts.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use fabricast_reconciler::{
    Generations, Input, RecordedChoices, Recorder, Replay, Segment, SegmentEnd, SegmentName, Setup,
    Timing,
};
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{TableKind, ibnetdiscover};
use tempfile::TempDir;

use super::*;

fn fabric(endpoints_per_leaf: u32) -> Arc<Graph> {
    let spec = format!(
        "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = {endpoints_per_leaf}\n"
    );
    Arc::new(TopologySpec::parse(&spec).unwrap().generate().unwrap())
}

/// Length of the file with a topology.
fn topology_bytes(graph: &Graph) -> u64 {
    ibnetdiscover::write(graph).len() as u64
}

fn recorder(graph: &Arc<Graph>) -> Recorder {
    let second = Duration::from_secs(1);
    let setup = Setup {
        graph: Arc::clone(graph),
        engine: EngineKind::Mr4lms,
        engine_options: EngineOptions::new(4, TableKind::PerPort),
        timing: Timing { drain: second, read_back: second, read_back_rate: 1 },
        agents: vec!["agent".to_owned()],
        recorded: RecordedChoices::None,
        generations: Generations::default(),
    };
    Recorder::new(setup, 1 << 20, Moment(0)).unwrap()
}

/// The start of a section, without a record.
fn start(graph: &Arc<Graph>) -> (Recorder, SectionPart) {
    let mut recorder = recorder(graph);
    let part = recorder.take_part().unwrap();
    (recorder, part)
}

/// A part with one record of 10 bytes for each of so many numbers, and a few more.
fn part(recorder: &mut Recorder, numbers: usize) -> SectionPart {
    recorder.handle(Moment(0), Input::Loads(vec![u64::MAX; numbers]));
    recorder.take_part().unwrap()
}

/// Folder that does not exist yet.
fn place() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("recordings");
    (parent, path)
}

/// A folder with room for little beside a topology, in which a segment has begun.
struct SmallFolder {
    _parent: TempDir,
    path: PathBuf,
    graph: Arc<Graph>,
    topology: SegmentTopology,
    limit: u64,
    folder: SegmentFolder,
    /// Recorder of the segment.
    recorder: Recorder,
}

fn small_folder() -> SmallFolder {
    let ((parent, path), graph) = (place(), fabric(2));
    let topology = SegmentTopology::of(&graph);
    let limit = topology_bytes(&graph) + 3_000;
    let mut folder = SegmentFolder::open(path.clone(), limit).unwrap();
    let (recorder, first) = start(&graph);
    folder.begin(&first, &topology, 0).unwrap();
    SmallFolder { _parent: parent, path, graph, topology, limit, folder, recorder }
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn bytes_on_disk(path: &Path) -> u64 {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn topologies(path: &Path) -> Vec<u64> {
    names(path).iter().filter_map(|name| SegmentName::parse_topology(name)).collect()
}

/// The segments of a folder by number, each with the number of its records. All are played.
fn segments(path: &Path) -> Vec<(u64, SegmentEnd, usize)> {
    let read = |file: &String| {
        let name = SegmentName::parse(file)?;
        let segment = Segment::from_bytes(&fs::read(path.join(file)).unwrap()).unwrap();
        let text = fs::read_to_string(path.join(name.topology_file())).unwrap();
        let mut replay = Replay::new(&segment.section, segment.graph(&text).unwrap()).unwrap();
        let mut records = 0;
        while replay.step().unwrap().is_some() {
            records += 1;
        }
        Some((name.number, segment.end, records))
    };
    names(path).iter().filter_map(read).collect()
}

#[test]
fn the_oldest_segments_go_and_the_folder_stays_within_its_bytes() {
    let ((_parent, path), graph) = (place(), fabric(2));
    let topology = SegmentTopology::of(&graph);
    let limit = topology_bytes(&graph) + 10_000;
    let mut folder = SegmentFolder::open(path.clone(), limit).unwrap();
    for round in 0..20 {
        let (mut recorder, first) = start(&graph);
        folder.begin(&first, &topology, round).unwrap();
        for _ in 0..3 {
            folder.extend(&part(&mut recorder, 60)).unwrap();
            assert_eq!(folder.bytes(), bytes_on_disk(&path));
            assert!(folder.bytes() <= limit);
        }
    }
    let kept = segments(&path);
    assert!((2..20).contains(&kept.len()), "{kept:?}");
    for (number, found) in (0..20).rev().zip(kept.iter().rev()) {
        assert_eq!(*found, (number, SegmentEnd::Whole, 3));
    }
    assert_eq!(topologies(&path), [topology.digest]);
}

#[test]
fn a_segment_that_takes_all_room_ends_and_the_next_one_replaces_it() {
    let SmallFolder { _parent, path, graph, topology, limit, mut folder, mut recorder } =
        small_folder();
    let mut records = 0;
    let refused = loop {
        match folder.extend(&part(&mut recorder, 60)) {
            Ok(()) => records += 1,
            Err(error) => break error,
        }
    };
    assert!(refused.to_string().contains("needs more than"), "{refused}");
    assert_eq!(segments(&path), [(0, SegmentEnd::Whole, records)]);
    let (mut recorder, first) = start(&graph);
    folder.begin(&first, &topology, 0).unwrap();
    folder.extend(&part(&mut recorder, 60)).unwrap();
    assert_eq!(segments(&path), [(1, SegmentEnd::Whole, 1)]);
    assert_eq!(folder.bytes(), bytes_on_disk(&path));
    assert!(folder.bytes() <= limit);
}

#[test]
fn old_segments_stay_if_the_next_one_cannot_fit() {
    let SmallFolder { _parent, path, graph, topology, limit, mut folder, mut recorder } =
        small_folder();
    folder.extend(&part(&mut recorder, 60)).unwrap();
    let (mut recorder, first) = start(&graph);
    folder.begin(&first, &topology, 0).unwrap();
    assert!(folder.extend(&part(&mut recorder, 400)).is_err());
    let kept = [(0, SegmentEnd::Whole, 1), (1, SegmentEnd::Whole, 0)];
    assert_eq!(segments(&path), kept);
    let larger = fabric(40);
    assert!(topology_bytes(&larger) > limit);
    assert!(folder.begin(&first, &SegmentTopology::of(&larger), 0).is_err());
    assert_eq!(segments(&path), kept);
}

#[test]
fn files_that_somebody_deletes_are_written_anew() {
    let ((_parent, path), graph) = (place(), fabric(2));
    let topology = SegmentTopology::of(&graph);
    let mut folder = SegmentFolder::open(path.clone(), 1 << 20).unwrap();
    let (mut recorder, first) = start(&graph);
    folder.begin(&first, &topology, 0).unwrap();
    for name in names(&path) {
        fs::remove_file(path.join(name)).unwrap();
    }
    folder.extend(&part(&mut recorder, 1)).unwrap();
    let (mut recorder, first) = start(&graph);
    folder.begin(&first, &topology, 0).unwrap();
    folder.extend(&part(&mut recorder, 1)).unwrap();
    assert_eq!(segments(&path), [(1, SegmentEnd::Whole, 1)]);
    assert_eq!(folder.bytes(), bytes_on_disk(&path));
}

#[test]
fn only_the_user_of_the_route_service_reads_files_and_links_are_not_followed() {
    let ((parent, path), graph) = (place(), fabric(2));
    drop(SegmentFolder::open(path.clone(), 1 << 20).unwrap());
    let topology = SegmentTopology::of(&graph);
    let other = parent.path().join("other");
    fs::write(&other, "text").unwrap();
    let [taken, linked] = [0, 1].map(|number| {
        let name = SegmentName { number, topology: topology.digest };
        path.join(name.file())
    });
    fs::create_dir(&taken).unwrap();
    symlink(&other, &linked).unwrap();
    let mut folder = SegmentFolder::open(path.clone(), 1 << 20).unwrap();
    assert_eq!(folder.bytes(), 0);
    let (_recorder, first) = start(&graph);
    for _ in 0..2 {
        assert!(folder.begin(&first, &topology, 0).is_err(), "the name is taken");
    }
    folder.begin(&first, &topology, 0).unwrap();
    fs::remove_dir(&taken).unwrap();
    fs::remove_file(&linked).unwrap();
    assert_eq!(segments(&path), [(2, SegmentEnd::Whole, 0)]);
    assert_eq!(fs::read(&other).unwrap(), b"text");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
    assert_eq!(mode(&path), 0);
    for name in names(&path) {
        assert_eq!(mode(&path.join(&name)), 0, "{name}");
    }
}

#[test]
fn a_restart_goes_on_behind_what_a_killed_route_service_has_left() {
    let ((_parent, path), graph) = (place(), fabric(2));
    let topology = SegmentTopology::of(&graph);
    let begin = |limit: u64| {
        let mut folder = SegmentFolder::open(path.clone(), limit).unwrap();
        let (mut recorder, first) = start(&graph);
        folder.begin(&first, &topology, 0).unwrap();
        folder.extend(&part(&mut recorder, 60)).unwrap();
        folder.bytes()
    };
    let one = begin(1 << 20);
    let first = path.join(SegmentName { number: 0, topology: topology.digest }.file());
    let torn = [fs::read(&first).unwrap(), vec![9; 5]].concat();
    fs::write(&first, torn).unwrap();
    for other in ["00000000000000ab.topology.draft", "00000000000000ab.topology", "note.draft"] {
        fs::write(path.join(other), "x").unwrap();
    }
    begin(1 << 20);
    let [whole, torn] = [SegmentEnd::Whole, SegmentEnd::Torn { bytes: 5 }];
    assert_eq!(segments(&path), [(0, torn, 1), (1, whole, 1)]);
    assert_eq!(topologies(&path), [topology.digest], "the other one is of no segment");
    assert!(names(&path).contains(&"note.draft".to_owned()), "what is of somebody else stays");
    assert_eq!(names(&path).len(), 4);
    // With fewer bytes there is room for one segment.
    begin(one);
    assert_eq!(segments(&path), [(2, whole, 1)]);
}

#[test]
fn topologies_go_with_the_last_segment_that_has_them() {
    let ((_parent, path), before, after) = (place(), fabric(2), fabric(3));
    let limit = topology_bytes(&before) + topology_bytes(&after) + 4_000;
    let mut folder = SegmentFolder::open(path.clone(), limit).unwrap();
    let digests = [&before, &after].map(|graph| SegmentTopology::of(graph).digest);
    let mut begin = |graph: &Arc<Graph>| {
        let (mut recorder, first) = start(graph);
        folder.begin(&first, &SegmentTopology::of(graph), 0).unwrap();
        folder.extend(&part(&mut recorder, 60)).unwrap();
    };
    begin(&before);
    begin(&after);
    let mut both = digests;
    both.sort_unstable();
    assert_eq!(topologies(&path), both);
    for _ in 0..4 {
        begin(&after);
    }
    assert_eq!(topologies(&path), [digests[1]]);
    begin(&before);
    assert!(topologies(&path).contains(&digests[0]));
}

#[test]
fn a_folder_is_for_one_route_service_at_a_time() {
    let (_parent, path) = place();
    let first = SegmentFolder::open(path.clone(), 1_000).unwrap();
    let refused = SegmentFolder::open(path.clone(), 1_000).unwrap_err();
    assert_eq!(refused.to_string(), "another route service writes there");
    drop(first);
    assert!(SegmentFolder::open(path, 1_000).is_ok());
}

#[test]
fn all_that_is_queued_is_written_before_the_thread_ends() {
    let ((_parent, path), graph) = (place(), fabric(2));
    let files = RecordingFiles::start(path.clone(), 1 << 20, 1 << 20).unwrap();
    let mut queue = files.queue();
    let (mut recorder, first) = start(&graph);
    queue.put(first, &graph, Moment(0));
    for _ in 0..50 {
        queue.put(part(&mut recorder, 60), &graph, Moment(0));
    }
    assert!(!queue.wants_section(Moment(u64::MAX)), "it has no gap");
    drop((queue, files));
    assert_eq!(segments(&path), [(0, SegmentEnd::Whole, 50)]);
}

#[test]
fn a_part_without_room_ends_its_segment_and_the_next_section_has_another() {
    let ((_parent, path), graph) = (place(), fabric(2));
    // Room for all short parts of this test together.
    let files = RecordingFiles::start(path.clone(), 1 << 20, 4_000).unwrap();
    let (before, mut queue) = (metrics::ROUTER_RECORDING_DROPPED.get(), files.queue());
    let (mut recorder, first) = start(&graph);
    queue.put(first, &graph, Moment(0));
    queue.put(part(&mut recorder, 1), &graph, Moment(0));
    queue.put(part(&mut recorder, 400), &graph, Moment(0));
    queue.put(part(&mut recorder, 1), &graph, Moment(0));
    assert!(metrics::ROUTER_RECORDING_DROPPED.get() >= before + 2);
    assert!(!queue.wants_section(Moment(0)));
    let later = Moment(0).after(PAUSE);
    assert!(queue.wants_section(later));
    let (mut recorder, first) = start(&graph);
    queue.put(first, &graph, later);
    queue.put(part(&mut recorder, 1), &graph, later);
    assert!(!queue.wants_section(Moment(u64::MAX)));
    drop((queue, files));
    assert_eq!(segments(&path), [(0, SegmentEnd::Whole, 1), (1, SegmentEnd::Whole, 1)]);
}

#[test]
fn pauses_grow_while_each_segment_has_a_gap() {
    let ((_parent, path), graph) = (place(), fabric(2));
    let files = RecordingFiles::start(path, 1 << 20, 4_000).unwrap();
    let mut queue = files.queue();
    let begin = |queue: &mut SegmentQueue| {
        let (recorder, first) = start(&graph);
        // The thread makes room.
        while files.0.counts.queued.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        queue.put(first, &graph, Moment(0));
        recorder
    };
    let waited = |queue: &SegmentQueue, pause: Duration| {
        assert!(queue.wants_section(Moment(0).after(pause)), "{pause:?}");
        assert!(!queue.wants_section(Moment(Moment(0).after(pause).0 - 1)), "{pause:?}");
    };
    for pause in [PAUSE, PAUSE * 2, PAUSE * 4] {
        let mut recorder = begin(&mut queue);
        queue.put(part(&mut recorder, 400), &graph, Moment(0));
        waited(&queue, pause);
    }
    for _ in 0..4 {
        let mut recorder = begin(&mut queue);
        queue.put(part(&mut recorder, 400), &graph, Moment(0));
    }
    waited(&queue, LONGEST_PAUSE);
    // One without a gap, and the next.
    begin(&mut queue);
    let mut recorder = begin(&mut queue);
    queue.put(part(&mut recorder, 400), &graph, Moment(0));
    waited(&queue, PAUSE);
}

#[test]
fn a_folder_that_cannot_be_used_is_said_and_used_later() {
    let ((_parent, path), graph) = (place(), fabric(2));
    fs::write(&path, "no folder").unwrap();
    let files = RecordingFiles::start(path.clone(), 1 << 20, 1 << 20).unwrap();
    let (before, mut queue) = (metrics::ROUTER_RECORDING_DROPPED.get(), files.queue());
    let (mut recorder, first) = start(&graph);
    queue.put(first, &graph, Moment(0));
    while files.0.counts.failed.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    queue.put(part(&mut recorder, 1), &graph, Moment(0));
    assert!(metrics::ROUTER_RECORDING_DROPPED.get() > before);
    fs::remove_file(&path).unwrap();
    let later = Moment(0).after(PAUSE);
    assert!(queue.wants_section(later));
    let (mut recorder, first) = start(&graph);
    queue.put(first, &graph, later);
    queue.put(part(&mut recorder, 1), &graph, later);
    drop((queue, files));
    assert_eq!(segments(&path), [(0, SegmentEnd::Whole, 1)]);
}
