//! A TIC that loses its connection to some of its nodes, or nodes that fail.

use std::collections::BTreeSet;
use std::time::Duration;

use fabricast_topology::Mgid;

use crate::command::{Command, GroupSpec, Join, Joiner, RegisterNode};
use crate::detector::{DetectorConfig, Policy, Probing};
use crate::directory::{Directory, Limits};
use crate::ids::{Incarnation, Moment};
use crate::names::{Address, EndpointName, GroupName, NodeName, ProcessName, RequestId};
use crate::watch::{NodeIncarnation, NodeWatch, WatchConfig, WatchOutput};

const NODES: usize = 40;
/// Nodes of a block, one after the other.
const BLOCK: usize = 10;
const REPORT: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(50);

fn config() -> WatchConfig {
    let probing = Probing { timeout: REPORT, attempts: 2 };
    let detector = DetectorConfig::new(Duration::from_secs(2), probing);
    WatchConfig { max_silent_percent: 55, ..WatchConfig::new(detector) }
}

fn endpoint(number: usize) -> EndpointName {
    EndpointName::new(&format!("h{number}")).unwrap()
}

fn incarnation(number: usize) -> NodeIncarnation {
    let node = NodeName::new(&format!("n{number:02}")).unwrap();
    NodeIncarnation { node, number: Incarnation(1) }
}

fn run(directory: &mut Directory, command: &Command) {
    let mut next = (0..).map(Mgid);
    let mut choose = |_: &crate::directory::NewGroup<'_>| next.find(|_| true);
    let changes = directory.decide(Moment(0), command, &mut choose).unwrap().changes;
    changes.iter().for_each(|change| directory.apply(change));
}

/// A directory of [`NODES`], of which each `every`-th hosts the agent of a group.
fn directory(every: usize) -> Directory {
    let mut directory = Directory::new(Limits::default());
    for number in 0..NODES {
        let name = incarnation(number).node;
        let endpoint = endpoint(number);
        run(
            &mut directory,
            &Command::RegisterNode(RegisterNode {
                name: name.clone(),
                address: Address::new("a:1").unwrap(),
                endpoints: vec![endpoint.clone()],
                start_id: 1,
                voucher_key: None,
            }),
        );
        if number % every == 0 {
            let group = GroupSpec {
                mgid: Some(Mgid(u32::try_from(number).unwrap())),
                ..GroupSpec::new(GroupName::new(&format!("g{number}")).unwrap())
            };
            let process = ProcessName::new("p").unwrap();
            let incarnation = Incarnation(1);
            let member = Joiner { node: name, incarnation, endpoint, process, sends_only: false };
            let request_id = RequestId::new(&format!("r{number}")).unwrap();
            run(&mut directory, &Command::Join(Join { request_id, group, member }));
        }
    }
    directory
}

/// Runs the watch of a TIC, to which all nodes report, that does not reach the first `cut` nodes
/// for a time, and 20 s after; returns who was expelled, when the first was, and the most that were
/// held.
fn watch(
    config: WatchConfig,
    every: usize,
    cut: usize,
    time: Duration,
) -> (BTreeSet<NodeIncarnation>, Option<Duration>, usize) {
    let directory = directory(every);
    let begin = Duration::from_secs(5);
    let blocks =
        (0..NODES).map(|number| (endpoint(number), u32::try_from(number / BLOCK).unwrap()));
    let mut watch = NodeWatch::new(config).with_blocks(blocks.collect());
    watch.follow_hosts(Moment(0), &directory);
    let (mut expelled, mut first, mut held) = (BTreeSet::new(), None, 0);
    let mut elapsed = Duration::ZERO;
    while elapsed < begin + time + Duration::from_secs(20) {
        let now = Moment(0).after(elapsed);
        let lost = |number: usize| number < cut && elapsed >= begin && elapsed < begin + time;
        for number in 0..NODES {
            let due = elapsed + STEP * u32::try_from(number).unwrap();
            if due.as_nanos().is_multiple_of(REPORT.as_nanos()) && !lost(number) {
                watch.heard(now, &incarnation(number), REPORT);
            }
        }
        watch.poll(now, &directory);
        while let Some(output) = watch.poll_output() {
            match output {
                WatchOutput::Probe { incarnation, probe } => {
                    let number: usize = incarnation.node.as_str()[1..].parse().unwrap();
                    if !lost(number) {
                        watch.probe_answered(now, &incarnation, probe);
                    }
                }
                WatchOutput::Expel { incarnation, .. } => {
                    first.get_or_insert(elapsed.saturating_sub(begin));
                    watch.expelled(&incarnation);
                    expelled.insert(incarnation);
                }
            }
        }
        // Probing them again does not hide that they are kept.
        let lasts = cut == NODES && elapsed < begin + time;
        assert!(!lasts || held == 0 || watch.held() > 0, "at {elapsed:?} none is held");
        held = held.max(watch.held());
        assert!(watch.held_blocks() <= watch.held(), "at {elapsed:?}");
        elapsed += STEP;
    }
    assert_eq!((watch.held(), watch.held_blocks()), (0, 0), "all have answered or were expelled");
    (expelled, first, held)
}

/// Number of nodes that are expelled when the TIC is cut off from a share of all nodes for a time.
/// A tenth is four nodes at one leaf switch of ten, which count as dead. A half is two leaf
/// switches, whose nodes are kept for the patience of a block. Of all nodes none is lost.
#[test]
fn a_share_of_nodes_is_lost_only_by_cuts_longer_than_its_patience() {
    let config = WatchConfig { block_patience: Duration::from_secs(10), ..config() };
    let row = |percent| {
        [1, 3, 6, 10, 20, 30, 60].map(|seconds| {
            let cut = NODES * percent / 100;
            watch(config, 1, cut, Duration::from_secs(seconds)).0.len()
        })
    };
    assert_eq!(row(10), [0, 4, 4, 4, 4, 4, 4]);
    assert_eq!(row(50), [0, 0, 0, 0, 20, 20, 20]);
    assert_eq!(row(100), [0; 7]);
}

/// Blocks that are kept are counted as long as they are.
#[test]
fn a_block_that_is_kept_is_counted() {
    let config = WatchConfig { block_patience: Duration::from_secs(10), ..config() };
    let directory = directory(1);
    let blocks =
        (0..NODES).map(|number| (endpoint(number), u32::try_from(number / BLOCK).unwrap()));
    let mut watch = NodeWatch::new(config).with_blocks(blocks.collect());
    watch.follow_hosts(Moment(0), &directory);
    let mut counts = BTreeSet::new();
    let mut elapsed = Duration::ZERO;
    while elapsed < Duration::from_secs(30) {
        let now = Moment(0).after(elapsed);
        for number in 2 * BLOCK..NODES {
            watch.heard(now, &incarnation(number), REPORT);
        }
        watch.poll(now, &directory);
        while let Some(output) = watch.poll_output() {
            match output {
                WatchOutput::Expel { incarnation, .. } => watch.expelled(&incarnation),
                WatchOutput::Probe { .. } => {}
            }
        }
        counts.insert(watch.held_blocks());
        elapsed += STEP;
    }
    assert_eq!(counts, BTreeSet::from([0, 2]), "two of four blocks were silent");
}

/// WATCH-1: a TIC that is cut off from all nodes expels none, however long it lasts.
#[test]
fn a_watch_that_is_cut_off_from_all_nodes_expels_none() {
    for every in [1, 8, NODES] {
        for seconds in [1, 3, 6, 20, 60] {
            let (expelled, _, held) = watch(config(), every, NODES, Duration::from_secs(seconds));
            assert_eq!(expelled, BTreeSet::new(), "{seconds} s, every {every}th is a host");
            let holds = held > 0;
            assert!(holds || seconds <= 3, "{seconds} s, every {every}th is a host");
            assert!(!holds || seconds > 1, "{seconds} s, every {every}th is a host");
        }
    }
}

#[test]
fn more_than_the_set_share_is_kept_and_less_is_expelled() {
    let minute = Duration::from_secs(60);
    for every in [1, 8, NODES] {
        for (cut, expected) in [(1, 1), (4, 4), (20, 20), (22, 22), (23, 0), (36, 0)] {
            let expelled = watch(config(), every, cut, minute).0;
            assert_eq!(expelled.len(), expected, "{cut} of {NODES}, every {every}th is a host");
        }
    }
    let anyway = WatchConfig { max_silent_percent: 100, ..config() };
    assert_eq!(watch(anyway, 1, NODES, minute).0.len(), NODES);
}

/// WATCH-2: a block that is cut off for less than the patience keeps its nodes, and a dead one does
/// not; the nodes of a block of which most are alive are expelled in time.
#[test]
fn a_block_that_is_cut_off_keeps_its_nodes_for_a_while() {
    let patience = Duration::from_secs(10);
    let config = WatchConfig { block_patience: patience, ..config() };
    let detection = config.detector.report_timeout + config.detector.probing.worst_case();
    for every in [1, 2] {
        let hosts = BLOCK / every;
        for seconds in [1, 3, 6, 9] {
            let (expelled, _, held) = watch(config, every, BLOCK, Duration::from_secs(seconds));
            assert_eq!(expelled, BTreeSet::new(), "{seconds} s, every {every}th is a host");
            assert!(held > 0 || seconds <= 3, "{seconds} s, every {every}th is a host");
            assert!(held == 0 || seconds > 1, "{seconds} s, every {every}th is a host");
        }
        let (expelled, first, held) = watch(config, every, BLOCK, Duration::from_secs(60));
        assert_eq!((expelled.len(), held >= hosts), (BLOCK, true));
        let first = first.unwrap();
        let late = detection + patience;
        assert!(first + REPORT >= late && first <= late + detection, "{first:?}");
        // Two are no block.
        let (expelled, first, _) = watch(config, every, 2 * every, Duration::from_secs(60));
        assert_eq!(expelled.len(), 2 * every);
        assert!(first.unwrap() <= detection + 2 * STEP, "{first:?}");
        // Five of ten are no more than the share.
        let (expelled, first, _) = watch(config, every, 5, Duration::from_secs(60));
        assert_eq!(expelled.len(), 5);
        assert!(first.unwrap() <= 2 * detection, "{first:?}");
    }
}

/// A host that is the only one is no share of the nodes: those that host nothing answer.
#[test]
fn the_only_host_of_agents_is_expelled_in_time_if_other_nodes_answer() {
    for policy in [Policy::Probe, Policy::ExpelAtOnce] {
        let mut config = config();
        config.detector.policy = policy;
        let (expelled, first, _) = watch(config, NODES, 1, Duration::from_secs(60));
        assert_eq!(expelled, BTreeSet::from([incarnation(0)]));
        let probing = config.detector.probing.worst_case();
        assert!(first.unwrap() <= config.detector.report_timeout + probing + 2 * STEP, "{first:?}");
    }
}
