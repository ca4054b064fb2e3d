//! Random histories: what is followed change by change is what a walk over all hosts finds.

use std::time::Duration;

use fabricast_topology::Mgid;
use proptest::prelude::*;

use super::*;
use crate::detector::{DetectorConfig, Probing};
use crate::directory::Limits;
use crate::ids::{Epoch, Revision};
use crate::names::{Address, GroupName};
use crate::record::GroupRecord;
use crate::tree::TreeShape;
use crate::watch::{WatchConfig, WatchOutput};

const NODES: u64 = 5;
const GROUPS: u64 = 4;
const REPORT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
enum Step {
    Put {
        node: u64,
        incarnation: u64,
        is_up: bool,
    },
    Remove(u64),
    Host {
        gn: u64,
        agent: Option<u64>,
    },
    End(u64),
    Report {
        node: u64,
        incarnation: u64,
    },
    Suspect {
        node: u64,
        incarnation: u64,
    },
    /// Answers the last probe of a node.
    Answer(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let incarnation = || (0..NODES, 1..4_u64);
    prop_oneof![
        4 => (incarnation(), any::<bool>()).prop_map(|((node, incarnation), is_up)| Step::Put {
            node,
            incarnation,
            is_up,
        }),
        1 => (0..NODES).prop_map(Step::Remove),
        4 => (0..GROUPS, proptest::option::of(0..NODES))
            .prop_map(|(gn, agent)| Step::Host { gn, agent }),
        1 => (0..GROUPS).prop_map(Step::End),
        3 => incarnation().prop_map(|(node, incarnation)| Step::Report { node, incarnation }),
        3 => incarnation().prop_map(|(node, incarnation)| Step::Suspect { node, incarnation }),
        2 => (0..NODES).prop_map(Step::Answer),
    ]
}

fn name(node: u64) -> NodeName {
    NodeName::new(&format!("n{node}")).unwrap()
}

fn node_incarnation(node: u64, number: u64) -> NodeIncarnation {
    NodeIncarnation { node: name(node), number: Incarnation(number) }
}

/// The change of the records that a step makes, if it makes one: the host of an agent is up.
fn change(step: &Step, directory: &Directory) -> Option<Change> {
    let is_up =
        |node: &u64| directory.node(&name(*node)).is_some_and(|node| node.state == NodeState::Up);
    let is_possible = match step {
        Step::Put { node, is_up: false, .. } | Step::Remove(node) => {
            !directory.is_host(&name(*node))
        }
        Step::Host { agent, .. } => agent.as_ref().is_none_or(is_up),
        Step::Put { .. }
        | Step::End(_)
        | Step::Report { .. }
        | Step::Suspect { .. }
        | Step::Answer(_) => true,
    };
    Some(match *step {
        _ if !is_possible => return None,
        Step::Put { node, incarnation, is_up } => Change::NodePut(NodeRecord {
            name: name(node),
            address: Address::new("a:1").unwrap(),
            endpoints: vec![EndpointName::new(&format!("h{node}")).unwrap()],
            incarnation: Incarnation(incarnation),
            start_id: incarnation,
            state: if is_up { NodeState::Up } else { NodeState::Failed },
            flaps: None,
            drained: false,
            voucher_key: None,
        }),
        Step::Remove(node) => Change::NodeRemoved(name(node)),
        Step::Host { gn, agent } => Change::GroupPut(GroupRecord {
            gn: Gn(gn),
            name: GroupName::new(&format!("g{gn}")).unwrap(),
            mgid: Mgid(u32::try_from(gn).unwrap()),
            agent: agent.map(name),
            epoch: Epoch(0),
            members_revision: Revision(1),
            changed: Revision(1),
            persistent: true,
            exclusive: false,
            created: Moment(0),
            route: None,
            layer: None,
            job: None,
            expected: None,
            home: None,
            tree: TreeShape::default(),
        }),
        Step::End(gn) => Change::GroupDeleted(Gn(gn)),
        Step::Report { .. } | Step::Suspect { .. } | Step::Answer(_) => return None,
    })
}

fn watch(max_silent_percent: u8) -> NodeWatch {
    let probing = Probing { timeout: Duration::from_secs(1), attempts: 2 };
    let config = WatchConfig::new(DetectorConfig::new(REPORT, probing));
    let blocks = (0..NODES).map(|node| {
        let endpoint = EndpointName::new(&format!("h{node}")).unwrap();
        (endpoint, u32::try_from(node % 2).unwrap())
    });
    let block_patience = Duration::from_secs(4);
    let watch = NodeWatch::new(WatchConfig { max_silent_percent, block_patience, ..config });
    watch.with_blocks(blocks.collect())
}

/// Takes a step that changes no record, and handles what is due; gives the outputs.
fn take(
    watch: &mut NodeWatch,
    now: Moment,
    step: &Step,
    directory: &Directory,
) -> Vec<WatchOutput> {
    match *step {
        Step::Report { node, incarnation } => {
            watch.heard(now, &node_incarnation(node, incarnation), REPORT);
        }
        Step::Suspect { node, incarnation } => {
            watch.reported(now, &node_incarnation(node, incarnation), directory);
        }
        Step::Answer(node) => {
            let asked: Vec<_> = watch
                .detector
                .peers()
                .filter(|incarnation| incarnation.node == name(node))
                .cloned()
                .collect();
            asked.iter().for_each(|incarnation| watch.probe_answered(now, incarnation, u64::MAX));
        }
        Step::Put { .. } | Step::Remove(_) | Step::Host { .. } | Step::End(_) => {}
    }
    watch.poll(now, directory);
    std::iter::from_fn(|| watch.poll_output()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn incarnations_are_followed_as_if_all_hosts_were_looked_at(
        steps in proptest::collection::vec((step(), 0..3_u64), 1..60),
        max_silent_percent in 30..101_u8,
    ) {
        let mut directory = Directory::new(Limits::default());
        let mut followed = watch(max_silent_percent);
        let mut walked = followed.clone();
        let mut now = Moment(0);
        for (step, pause) in &steps {
            now = now.after(Duration::from_secs(*pause));
            if let Some(change) = change(step, &directory) {
                let incarnations = affected_incarnations(&directory, &change);
                directory.apply(&change);
                for incarnation in &incarnations {
                    followed.follow(now, incarnation, &directory);
                }
                walked.follow_hosts(now, &directory);
            }
            let outputs = [&mut followed, &mut walked]
                .map(|watch| take(watch, now, step, &directory));
            prop_assert_eq!(&outputs[0], &outputs[1]);
            prop_assert_eq!(format!("{followed:?}"), format!("{walked:?}"));
            let hosts: BTreeSet<NodeIncarnation> =
                directory.hosts_after(None).into_iter().collect();
            let watched: BTreeSet<NodeIncarnation> = followed.detector.peers().cloned().collect();
            prop_assert!(hosts.is_subset(&watched), "{hosts:?} of {watched:?}");
            prop_assert!(watched.iter().all(|one| directory.is_up(one)), "{watched:?}");
        }
    }
}
