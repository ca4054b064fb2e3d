//! Which nodes the TIC asks whether they live, and which it expels.
//!
//! The three ways in which the TIC hears of a failure meet here: the fabric says that ports are down,
//! a host of group agents does not report, and a group agent says that a member's node is silent.
//! What follows is a [`Policy`] of its own for each. With [`Policy::Probe`] the node itself is asked
//! before anything is decided (G5): a group agent knows only that *it* cannot reach the node.
//!
//! Hosts of group agents are watched all the time. Other nodes are watched by the agents of their
//! groups; here they are guests, from a doubt until they have answered.
//!
//! Call an input, then drain [`NodeWatch::poll_output`]; call [`NodeWatch::poll`] when
//! [`NodeWatch::next_deadline`] has come.

use std::collections::{BTreeSet, VecDeque};

use crate::detector::{Detector, DetectorConfig, DetectorOutput, Health, Policy};
use crate::directory::Directory;
use crate::ids::{Incarnation, Moment};
use crate::names::NodeName;
use crate::record::NodeState;

/// One life of a node.
pub type Life = (NodeName, Incarnation);

/// How nodes are watched, and what is done about those that others hold for failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchConfig {
    /// How hosts of group agents are watched, and how a node is asked.
    pub detector: DetectorConfig,
    /// What to do about a node that a group agent reports.
    pub on_report: Policy,
    /// What to do about a node none of whose ports is up any more.
    pub on_ports_down: Policy,
}

impl WatchConfig {
    /// Nobody is expelled unasked.
    pub const fn new(detector: DetectorConfig) -> Self {
        Self { detector, on_report: Policy::Probe, on_ports_down: Policy::Probe }
    }
}

/// Why a node is expelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It did not answer, or it did not report and the policy is not to ask.
    Silent,
    /// A group agent reported it, and the policy is not to ask.
    Reported,
    /// None of its ports is up, and the policy is not to ask.
    PortsDown,
}

/// What the owner of a [`NodeWatch`] has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchOutput {
    /// Ask the node, and hand its answer in with the probe's number.
    Probe {
        /// Whom to ask.
        life: Life,
        /// The number of the probe.
        probe: u64,
    },
    /// Have it expelled, and say when that is done.
    Expel {
        /// Whom to expel.
        life: Life,
        /// Why.
        cause: Cause,
    },
}

/// The TIC's watch over nodes.
#[derive(Clone, Debug)]
pub struct NodeWatch {
    config: WatchConfig,
    detector: Detector<Life>,
    guests: BTreeSet<Life>,
    output: VecDeque<WatchOutput>,
}

impl NodeWatch {
    /// Creates a watch over nobody.
    pub fn new(config: WatchConfig) -> Self {
        let (detector, guests) = (Detector::new(config.detector), BTreeSet::new());
        Self { config, detector, guests, output: VecDeque::new() }
    }

    /// Judges by another configuration from now on, and nobody by the time that has passed.
    pub fn reconfigure(&mut self, now: Moment, config: WatchConfig) {
        self.config = config;
        self.detector.reconfigure(now, config.detector);
        self.start_over(now);
    }

    /// Watches exactly the hosts of group agents, and the guests.
    pub fn follow_hosts(&mut self, now: Moment, directory: &Directory) {
        let life = |node: &NodeName| Some((node.clone(), directory.node(node)?.incarnation));
        let hosts: BTreeSet<Life> = directory.hosts().filter_map(|(node, _)| life(node)).collect();
        self.guests.retain(|guest| !hosts.contains(guest) && is_up(directory, guest));
        let gone = |life: &&Life| !hosts.contains(*life) && !self.guests.contains(*life);
        let gone: Vec<Life> = self.detector.peers().filter(gone).cloned().collect();
        for life in gone {
            self.detector.unwatch(&life);
        }
        for life in hosts {
            if self.detector.health(&life).is_none() {
                self.detector.watch(life, now);
            }
        }
    }

    /// Notes the report of a host.
    pub fn heard(&mut self, now: Moment, life: &Life) {
        self.detector.heard(life, now);
    }

    /// Notes that a group agent cannot reach a node.
    pub fn reported(&mut self, now: Moment, life: &Life, directory: &Directory) {
        self.accused(now, life, directory, (self.config.on_report, Cause::Reported));
    }

    /// Notes that none of a node's ports is up any more.
    pub fn ports_down(&mut self, now: Moment, life: &Life, directory: &Directory) {
        self.accused(now, life, directory, (self.config.on_ports_down, Cause::PortsDown));
    }

    /// Asks a node that may have failed, for instance as some of its ports are down.
    pub fn doubt(&mut self, now: Moment, life: &Life, directory: &Directory) {
        if !is_up(directory, life) {
            return; // it is out already, or has come back since
        }
        if self.detector.health(life).is_none() {
            self.detector.watch(life.clone(), now);
            self.guests.insert(life.clone());
        }
        self.detector.doubt(life, now);
    }

    fn accused(
        &mut self,
        now: Moment,
        life: &Life,
        directory: &Directory,
        (policy, cause): (Policy, Cause),
    ) {
        match policy {
            Policy::Probe => self.doubt(now, life, directory),
            Policy::ExpelAtOnce if is_up(directory, life) => {
                self.output.push_back(WatchOutput::Expel { life: life.clone(), cause });
            }
            Policy::ExpelAtOnce => {}
        }
    }

    /// Notes the answer to a probe.
    pub fn probe_answered(&mut self, now: Moment, life: &Life, probe: u64) {
        self.detector.probe_answered(life, probe, now);
        if self.detector.health(life) == Some(Health::Alive) && self.guests.remove(life) {
            self.detector.unwatch(life);
        }
    }

    /// Notes that a node has been expelled, or need not be.
    pub fn expelled(&mut self, life: &Life) {
        self.guests.remove(life);
        self.detector.unwatch(life);
    }

    /// Judges nobody by the time that has passed: it was the watch that slept, and reports and answers
    /// wait unread.
    pub fn start_over(&mut self, now: Moment) {
        let is_open = |life: &&Life| self.detector.health(life) != Some(Health::Dead);
        let open: Vec<Life> = self.detector.peers().filter(is_open).cloned().collect();
        for life in open {
            self.detector.watch(life.clone(), now);
            if self.guests.contains(&life) {
                self.detector.doubt(&life, now);
            }
        }
    }

    /// Draws the consequences of time passing.
    pub fn poll(&mut self, now: Moment) {
        self.detector.poll(now);
    }

    /// Answers the next thing to do.
    pub fn poll_output(&mut self) -> Option<WatchOutput> {
        let next = || {
            Some(match self.detector.poll_output()? {
                DetectorOutput::Probe { peer, probe } => WatchOutput::Probe { life: peer, probe },
                DetectorOutput::Dead { peer } => {
                    WatchOutput::Expel { life: peer, cause: Cause::Silent }
                }
            })
        };
        self.output.pop_front().or_else(next)
    }

    /// Answers when to call [`NodeWatch::poll`] at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.detector.next_deadline()
    }
}

fn is_up(directory: &Directory, (node, incarnation): &Life) -> bool {
    directory
        .node(node)
        .is_some_and(|node| node.state == NodeState::Up && node.incarnation == *incarnation)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::command::{Command, RegisterNode};
    use crate::detector::Probing;
    use crate::directory::Limits;
    use crate::names::{Address, EndpointName};

    const PROBING: Probing = Probing { timeout: Duration::from_secs(1), attempts: 2 };
    const CONFIG: WatchConfig =
        WatchConfig::new(DetectorConfig::new(Duration::from_secs(3), PROBING));

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    /// The records of one node that hosts nothing, and its life.
    fn one_node() -> (Directory, Life) {
        let mut directory = Directory::new(Limits::default());
        let name = NodeName::new("n0").unwrap();
        let announced = Command::RegisterNode(RegisterNode {
            name: name.clone(),
            address: Address::new("10.0.0.1:1").unwrap(),
            endpoints: vec![EndpointName::new("h0").unwrap()],
            start_id: 1,
        });
        for change in directory.decide(at(0), &announced, &mut |_| None).unwrap().changes {
            directory.apply(&change);
        }
        (directory, (name, Incarnation(1)))
    }

    fn outputs(watch: &mut NodeWatch, now: Moment) -> Vec<WatchOutput> {
        watch.poll(now);
        std::iter::from_fn(|| watch.poll_output()).collect()
    }

    fn probe(life: &Life, probe: u64) -> WatchOutput {
        WatchOutput::Probe { life: life.clone(), probe }
    }

    #[test]
    fn with_other_timeouts_everybody_has_the_new_time_in_full() {
        let (directory, life) = one_node();
        let mut watch = NodeWatch::new(CONFIG);
        watch.doubt(at(0), &life, &directory);
        assert_eq!(outputs(&mut watch, at(0)), [probe(&life, 0)]);
        let slower = Probing { timeout: Duration::from_secs(7), attempts: 1 };
        watch.reconfigure(
            at(1),
            WatchConfig::new(DetectorConfig::new(Duration::from_secs(3), slower)),
        );
        assert_eq!(outputs(&mut watch, at(1)), [probe(&life, 1)], "who was asked is asked again");
        assert_eq!(outputs(&mut watch, at(7)), []);
        let silent = WatchOutput::Expel { life, cause: Cause::Silent };
        assert_eq!(outputs(&mut watch, at(8)), [silent]);
    }

    /// G5.
    #[test]
    fn a_node_that_a_group_agent_cannot_reach_is_asked_and_stays_if_it_answers() {
        let (directory, life) = one_node();
        let mut watch = NodeWatch::new(CONFIG);
        for round in 0..3 {
            watch.reported(at(10 * round), &life, &directory);
            assert_eq!(outputs(&mut watch, at(10 * round)), [probe(&life, round)]);
            watch.probe_answered(at(10 * round + 1), &life, round);
            assert_eq!(watch.next_deadline(), None, "it is not watched here any more");
        }
        watch.reported(at(30), &life, &directory);
        assert_eq!(outputs(&mut watch, at(30)), [probe(&life, 3)]);
        assert_eq!(outputs(&mut watch, at(31)), [probe(&life, 4)]);
        let expel = WatchOutput::Expel { life: life.clone(), cause: Cause::Silent };
        assert_eq!(outputs(&mut watch, at(32)), [expel]);
        watch.expelled(&life);
        assert_eq!(outputs(&mut watch, at(99)), []);
    }

    #[test]
    fn who_is_not_asked_by_policy_is_expelled_at_once() {
        let (directory, life) = one_node();
        let expel = |cause| [WatchOutput::Expel { life: life.clone(), cause }];
        let mut watch = NodeWatch::new(WatchConfig {
            on_report: Policy::ExpelAtOnce,
            on_ports_down: Policy::ExpelAtOnce,
            ..CONFIG
        });
        watch.reported(at(1), &life, &directory);
        assert_eq!(outputs(&mut watch, at(1)), expel(Cause::Reported));
        watch.ports_down(at(1), &life, &directory);
        assert_eq!(outputs(&mut watch, at(1)), expel(Cause::PortsDown));
        // Some of its ports down is a question under any policy.
        watch.doubt(at(1), &life, &directory);
        assert_eq!(outputs(&mut watch, at(1)), [probe(&life, 0)]);
    }

    #[test]
    fn a_life_that_is_over_concerns_nobody() {
        let (directory, (name, _)) = one_node();
        for policy in [Policy::Probe, Policy::ExpelAtOnce] {
            let mut watch = NodeWatch::new(WatchConfig { on_report: policy, ..CONFIG });
            watch.reported(at(1), &(name.clone(), Incarnation(0)), &directory);
            assert_eq!(outputs(&mut watch, at(99)), []);
        }
    }

    #[test]
    fn a_watch_that_slept_asks_again_before_it_judges() {
        let (directory, life) = one_node();
        let mut watch = NodeWatch::new(CONFIG);
        watch.doubt(at(1), &life, &directory);
        assert_eq!(outputs(&mut watch, at(1)), [probe(&life, 0)]);
        watch.start_over(at(90));
        assert_eq!(outputs(&mut watch, at(90)), [probe(&life, 1)]);
    }
}
