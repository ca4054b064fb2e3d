//! The TIC's watch over the hosts of group agents.
//!
//! A host is watched from the decision that names it an agent until it has no office left, in one
//! life at a time. Hand every applied change to [`HostWatch::applied`]; after a restart of the
//! TIC, [`HostWatch::start`] gives every host its full time again.

use std::collections::BTreeMap;

use crate::detector::{Detector, DetectorConfig, DetectorOutput};
use crate::directory::Directory;
use crate::ids::{Incarnation, Moment};
use crate::names::{Address, NodeName};
use crate::record::Change;

/// Watches the nodes that host group agents.
#[derive(Clone, Debug)]
pub struct HostWatch {
    detector: Detector<NodeName>,
    lives: BTreeMap<NodeName, Incarnation>,
}

/// What the TIC has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostWatchOutput {
    /// Ask a node whether it lives, and hand its answer in with the probe's number.
    Probe {
        /// The node.
        node: NodeName,
        /// Where its operating agent listens.
        address: Address,
        /// The number of the probe.
        probe: u64,
    },
    /// Decide that the node has failed.
    Failed {
        /// The node.
        node: NodeName,
        /// The life that failed.
        incarnation: Incarnation,
    },
}

impl HostWatch {
    /// Starts to watch every present host, as if it had just reported.
    pub fn start(config: DetectorConfig, directory: &Directory, now: Moment) -> Self {
        let mut watch = Self { detector: Detector::new(config), lives: BTreeMap::new() };
        for (node, _) in directory.hosts() {
            watch.meet(directory, node, now);
        }
        watch
    }

    /// Notes that a change was applied to the directory.
    pub fn applied(&mut self, change: &Change, directory: &Directory, now: Moment) {
        if let Change::GroupPut(group) = change
            && let Some(node) = &group.agent
        {
            self.meet(directory, node, now);
        }
    }

    /// Notes a status report or any other sign of life.
    pub fn heard(&mut self, node: &NodeName, incarnation: Incarnation, now: Moment) {
        if self.lives.get(node) == Some(&incarnation) {
            self.detector.heard(node, now);
        }
    }

    /// Notes that a connection to a node has closed.
    pub fn hint_closed(&mut self, node: &NodeName, now: Moment) {
        self.detector.hint_closed(node, now);
    }

    /// Notes a node's answer to a probe.
    pub fn probe_answered(
        &mut self,
        node: &NodeName,
        incarnation: Incarnation,
        probe: u64,
        now: Moment,
    ) {
        if self.lives.get(node) == Some(&incarnation) {
            self.detector.probe_answered(node, probe, now);
        }
    }

    /// Draws the consequences of time passing and answers what to do.
    pub fn poll(&mut self, directory: &Directory, now: Moment) -> Vec<HostWatchOutput> {
        self.detector.poll(now);
        let mut outputs = Vec::new();
        while let Some(output) = self.detector.poll_output() {
            let (DetectorOutput::Probe { peer, .. } | DetectorOutput::Dead { peer }) = &output;
            let Some(incarnation) = self.lives.get(peer).copied() else { continue };
            let record = directory.node(peer).filter(|node| node.incarnation == incarnation);
            let Some(record) = record.filter(|_| directory.is_host(peer)) else {
                self.detector.unwatch(peer); // no office any more, so none of our business
                self.lives.remove(peer);
                continue;
            };
            outputs.push(match output {
                DetectorOutput::Probe { peer, probe } => {
                    let address = record.address.clone();
                    HostWatchOutput::Probe { node: peer, address, probe }
                }
                DetectorOutput::Dead { peer } => {
                    HostWatchOutput::Failed { node: peer, incarnation }
                }
            });
        }
        outputs
    }

    /// Answers when to call [`HostWatch::poll`] at the latest; also call it after a hint.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.detector.next_deadline()
    }

    fn meet(&mut self, directory: &Directory, node: &NodeName, now: Moment) {
        let Some(record) = directory.node(node) else { return };
        if self.lives.get(node) != Some(&record.incarnation) {
            self.lives.insert(node.clone(), record.incarnation);
            self.detector.watch(node.clone(), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fabricast_routing::Mgid;

    use super::*;
    use crate::command::{Command, FormGroup, GroupSpec, Joiner, RegisterNode};
    use crate::detector::Policy;
    use crate::directory::Limits;
    use crate::names::{EndpointName, GroupName, ProcessName};

    const CONFIG: DetectorConfig = DetectorConfig {
        report_timeout: Duration::from_secs(3),
        policy: Policy::Probe { timeout: Duration::from_secs(1), attempts: 1 },
    };

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    fn name(node: u32) -> NodeName {
        NodeName::new(&format!("n{node}")).unwrap()
    }

    fn run(directory: &mut Directory, watch: &mut HostWatch, now: Moment, command: &Command) {
        let decision = directory.decide(now, command, &mut |_| Some(Mgid(0))).unwrap();
        for change in &decision.changes {
            directory.apply(change);
            watch.applied(change, directory, now);
        }
    }

    /// Node 0 hosts the group's agent, node 1 is a member.
    fn two_nodes() -> (Directory, HostWatch) {
        let mut directory = Directory::new(Limits::default());
        let mut watch = HostWatch::start(CONFIG, &directory, at(0));
        let endpoint = |node| EndpointName::new(&format!("h{node}")).unwrap();
        for node in 0..2 {
            let register = Command::RegisterNode(RegisterNode {
                name: name(node),
                address: Address::new("x").unwrap(),
                endpoints: vec![endpoint(node)],
                start_id: 1,
            });
            run(&mut directory, &mut watch, at(0), &register);
        }
        let joiner = |node| Joiner {
            node: name(node),
            incarnation: Incarnation(1),
            endpoint: endpoint(node),
            process: ProcessName::new("p").unwrap(),
        };
        let name = GroupName::new("g").unwrap();
        let group = GroupSpec { name, mgid: None, persistent: false, exclusive: false };
        let form = FormGroup { group, members: vec![joiner(0), joiner(1)] };
        run(&mut directory, &mut watch, at(0), &Command::FormGroups(vec![form]));
        (directory, watch)
    }

    fn failed(node: u32) -> HostWatchOutput {
        HostWatchOutput::Failed { node: name(node), incarnation: Incarnation(1) }
    }

    #[test]
    fn a_silent_host_fails_and_its_successor_is_watched_in_turn() {
        let (mut directory, mut watch) = two_nodes();
        let probes = watch.poll(&directory, at(3));
        assert!(matches!(&probes[..], [HostWatchOutput::Probe { node, .. }] if *node == name(0)));
        assert_eq!(watch.poll(&directory, at(4)), [failed(0)]);
        let command = Command::NodeFailed { node: name(0), incarnation: Some(Incarnation(1)) };
        run(&mut directory, &mut watch, at(4), &command);
        watch.poll(&directory, at(7));
        assert_eq!(watch.poll(&directory, at(8)), [failed(1)]);
    }

    #[test]
    fn a_host_that_reports_or_answers_is_kept() {
        let (directory, mut watch) = two_nodes();
        watch.heard(&name(0), Incarnation(1), at(2));
        assert_eq!(watch.poll(&directory, at(4)), []);
        watch.hint_closed(&name(0), at(4));
        let [HostWatchOutput::Probe { probe, .. }] = watch.poll(&directory, at(4))[..] else {
            panic!("a closed connection is looked into at once");
        };
        watch.probe_answered(&name(0), Incarnation(2), probe, at(4));
        watch.probe_answered(&name(0), Incarnation(1), probe, at(4));
        assert_eq!(watch.poll(&directory, at(6)), []);
    }

    #[test]
    fn who_has_no_office_left_is_not_judged() {
        let (mut directory, mut watch) = two_nodes();
        let process = ProcessName::new("p").unwrap();
        let incarnation = Incarnation(1);
        let command = Command::ProcessFailed { node: name(0), incarnation, process };
        run(&mut directory, &mut watch, at(1), &command);
        let probes = watch.poll(&directory, at(4));
        assert!(matches!(&probes[..], [HostWatchOutput::Probe { node, .. }] if *node == name(1)));
    }

    #[test]
    fn a_restarted_tic_gives_every_host_its_full_time() {
        let (directory, _) = two_nodes();
        let watch = HostWatch::start(CONFIG, &directory, at(50));
        assert_eq!(watch.next_deadline(), Some(at(53)));
    }
}
