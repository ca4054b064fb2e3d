//! Decides which nodes the TIC probes and which it expels.
//!
//! The TIC learns of failures in three ways: the fabric reports that ports are down, a host of
//! group agents does not report, and a group agent reports that a member's node is silent. Each has
//! its own [`Policy`]. With [`Policy::Probe`] the node itself is probed before anything is decided
//! (G5), since a group agent knows only that *it* cannot reach the node.
//!
//! Every node is watched by somebody. A host of group agents has failed, or is probed, when its
//! report is late by the timeout of the detector. The node of a member is watched by the agents of
//! its groups, and here only from a suspicion until it has answered: it may work although it does
//! not reach the TIC. A node in no group tells when its next report comes, since a process that
//! hosts very many nodes reports them in turns; one whose report is overdue is probed.
//!
//! If very many nodes are silent at once, the TIC itself is more likely cut off than all of them
//! dead. While more than [`WatchConfig::max_silent_percent`] of the nodes are silent, none is
//! expelled, as Kubernetes' node controller does it. The watch then probes the silent ones again
//! and again, and others too, to learn whether they answer; what it found out meanwhile is void.
//! The same share holds for each block of the fabric ([`Blocks`]), but for a limited time: nodes of
//! a block may well be dead together.
//!
//! Invariants
//! - WATCH-1: no node is expelled while more than the set share of the nodes is silent, nor for
//!   silence in such a time.
//! - WATCH-2: no node of a block is expelled for silence while more than that share of the block's
//!   nodes, and at least three, have been silent for less than [`WatchConfig::block_patience`].
//!
//! Call an input, then drain [`NodeWatch::poll_output`]; call [`NodeWatch::poll`] at
//! [`NodeWatch::next_deadline`].

mod blocks;
mod deadlines;
mod disruption;
mod follow;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::detector::{Detector, DetectorConfig, DetectorOutput, Health, Policy};
use crate::ids::Moment;
use blocks::BlockHolds;
use deadlines::ReportDeadlines;
use disruption::Disruption;

pub use blocks::Blocks;
pub use deadlines::UNTOLD;
pub use follow::{NodeIncarnation, NodeLookup, affected_incarnations};

/// Most nodes that are suspected at one time because their reports are overdue. If all nodes are
/// cut off at once, more probes would show nothing more.
const MAX_OVERDUE: usize = 1_024;

/// Settings of the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchConfig {
    /// Timeouts for hosts of group agents, and the timing of probes.
    pub detector: DetectorConfig,
    /// Policy for a node that a group agent reports.
    pub on_report: Policy,
    /// Policy for a node none of whose ports is up.
    pub on_ports_down: Policy,
    /// No node is expelled while more than this percentage of the nodes is silent; 100 expels
    /// whatever their number.
    pub max_silent_percent: u8,
    /// Time for which nodes of a block are kept when more than this percentage of those that are
    /// known there are silent; zero keeps none.
    pub block_patience: Duration,
}

impl WatchConfig {
    /// Creates settings under which every node is probed before it is expelled, however many are
    /// silent.
    pub const fn new(detector: DetectorConfig) -> Self {
        Self {
            detector,
            on_report: Policy::Probe,
            on_ports_down: Policy::Probe,
            max_silent_percent: 100,
            block_patience: Duration::ZERO,
        }
    }
}

/// Reason of an expulsion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It answered no probe, or its report was overdue and the policy is not to probe.
    Silent,
    /// A group agent reported it, and the policy is not to probe.
    Reported,
    /// None of its ports is up, and the policy is not to probe.
    PortsDown,
}

/// Output of a [`NodeWatch`], to be carried out by its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchOutput {
    /// Probe the node, and pass its answer to [`NodeWatch::probe_answered`].
    Probe {
        /// Node to probe.
        incarnation: NodeIncarnation,
        /// Number of the probe.
        probe: u64,
    },
    /// Expel the node, then call [`NodeWatch::expelled`].
    Expel {
        /// Node to expel.
        incarnation: NodeIncarnation,
        /// Reason for the expulsion.
        cause: Cause,
    },
}

/// The TIC's watch over nodes.
#[derive(Clone, Debug)]
pub struct NodeWatch {
    config: WatchConfig,
    detector: Detector<NodeIncarnation>,
    suspects: BTreeSet<NodeIncarnation>,
    deadlines: ReportDeadlines,
    disruption: Disruption,
    blocks: Blocks,
    block_holds: BlockHolds,
    output: VecDeque<WatchOutput>,
}

impl NodeWatch {
    /// Creates a watch without nodes.
    pub fn new(config: WatchConfig) -> Self {
        Self {
            config,
            detector: Detector::new(config.detector),
            suspects: BTreeSet::new(),
            deadlines: ReportDeadlines::default(),
            disruption: Disruption::default(),
            blocks: Blocks::default(),
            block_holds: BlockHolds::default(),
            output: VecDeque::new(),
        }
    }

    /// Sets the blocks of the fabric.
    #[must_use]
    pub fn with_blocks(mut self, blocks: Blocks) -> Self {
        self.blocks = blocks;
        self
    }

    /// Replaces the configuration. Every node gets the full new timeouts.
    pub fn reconfigure(&mut self, now: Moment, config: WatchConfig) {
        self.config = config;
        self.detector.reconfigure(now, config.detector);
        self.start_over(now);
    }

    /// Returns how many nodes are kept only because too many are silent at once, in all or in their
    /// block.
    pub fn held(&self) -> usize {
        self.disruption.held_count() + self.block_holds.kept.len()
    }

    /// Returns the number of blocks whose nodes are kept only because too many there are silent at
    /// once.
    pub fn held_blocks(&self) -> usize {
        self.block_holds.count()
    }

    /// Expects a report of a node that has registered, or may have registered with another TIC.
    pub fn expect_report(&mut self, now: Moment, incarnation: &NodeIncarnation) {
        self.deadlines.expect(now, incarnation, UNTOLD, self.grace());
    }

    /// Records the report of a node.
    ///
    /// - `next`: time until its next report; only reports of hosts of group agents are expected
    ///   sooner.
    pub fn heard(&mut self, now: Moment, incarnation: &NodeIncarnation, next: Duration) {
        self.deadlines.expect(now, incarnation, next, self.grace());
        if self.disruption.release(incarnation) {
            self.detector.watch(incarnation.clone(), now);
        }
        self.block_holds.kept.remove(incarnation);
        self.detector.heard(incarnation, now);
    }

    /// Records that a group agent cannot reach a node.
    pub fn reported(
        &mut self,
        now: Moment,
        incarnation: &NodeIncarnation,
        directory: &impl NodeLookup,
    ) {
        self.accuse(now, incarnation, directory, Cause::Reported);
    }

    /// Records that none of a node's ports is up any more.
    pub fn ports_down(
        &mut self,
        now: Moment,
        incarnation: &NodeIncarnation,
        directory: &impl NodeLookup,
    ) {
        self.accuse(now, incarnation, directory, Cause::PortsDown);
    }

    /// Probes a node that may have failed, for instance because some of its ports are down.
    pub fn doubt(
        &mut self,
        now: Moment,
        incarnation: &NodeIncarnation,
        directory: &impl NodeLookup,
    ) {
        if !directory.is_up(incarnation) {
            return; // expelled already, or back in a newer incarnation
        }
        if self.detector.health(incarnation).is_none() {
            self.detector.watch(incarnation.clone(), now);
            self.suspects.insert(incarnation.clone());
        }
        self.detector.doubt(incarnation, now);
    }

    /// Applies the policy of an accusation.
    fn accuse(
        &mut self,
        now: Moment,
        incarnation: &NodeIncarnation,
        directory: &impl NodeLookup,
        cause: Cause,
    ) {
        let policy = match cause {
            Cause::Reported => self.config.on_report,
            Cause::PortsDown => self.config.on_ports_down,
            Cause::Silent => self.config.detector.policy,
        };
        match policy {
            Policy::ExpelAtOnce if self.disruption.lasts => self.doubt(now, incarnation, directory),
            Policy::Probe => self.doubt(now, incarnation, directory),
            Policy::ExpelAtOnce if directory.is_up(incarnation) => {
                self.output
                    .push_back(WatchOutput::Expel { incarnation: incarnation.clone(), cause });
            }
            Policy::ExpelAtOnce => {}
        }
    }

    /// Records the answer to a probe.
    pub fn probe_answered(&mut self, now: Moment, incarnation: &NodeIncarnation, probe: u64) {
        self.detector.probe_answered(incarnation, probe, now);
        if self.detector.health(incarnation) != Some(Health::Alive) {
            return;
        }
        self.disruption.release(incarnation);
        self.block_holds.kept.remove(incarnation);
        if self.suspects.remove(incarnation) {
            self.detector.unwatch(incarnation);
            self.disruption.answered.insert(incarnation.clone(), now);
        }
    }

    /// Returns the nodes that are overdue or suspected and have not answered yet. Cost: the hosts,
    /// if there is any.
    pub fn silent(&self) -> impl Iterator<Item = &NodeIncarnation> {
        let (_, silent) = self.detector.counts();
        let is_silent = |incarnation: &&NodeIncarnation| {
            self.detector.health(incarnation) != Some(Health::Alive)
        };
        self.detector.peers().take(if silent > 0 { usize::MAX } else { 0 }).filter(is_silent)
    }

    /// Records that a node has been expelled, or that the expulsion is void.
    pub fn expelled(&mut self, incarnation: &NodeIncarnation) {
        self.suspects.remove(incarnation);
        self.deadlines.forget(incarnation);
        self.disruption.forget(incarnation);
        self.block_holds.kept.remove(incarnation);
        self.detector.unwatch(incarnation);
    }

    /// Restarts all timeouts, because this process did not run for a while: reports and answers are
    /// waiting unread.
    pub fn start_over(&mut self, now: Moment) {
        let is_open = |incarnation: &&NodeIncarnation| {
            self.detector.health(incarnation) != Some(Health::Dead)
                || self.disruption.held.contains(*incarnation)
        };
        let open: Vec<NodeIncarnation> = self.detector.peers().filter(is_open).cloned().collect();
        self.disruption.held.clear();
        self.disruption.again.clear();
        self.deadlines.start_over(now, self.grace());
        for incarnation in open {
            self.detector.watch(incarnation.clone(), now);
            if self.suspects.contains(&incarnation) {
                self.detector.doubt(&incarnation, now);
            }
        }
    }

    /// Handles everything that is due at `now`.
    pub fn poll(&mut self, now: Moment, directory: &impl NodeLookup) {
        self.detector.poll(now);
        self.doubt_overdue(now, directory);
        self.take_verdicts();
        let DetectorConfig { report_timeout, probing, .. } = self.config.detector;
        let valid = report_timeout + probing.worst_case();
        self.disruption.answered.retain(|_, at| now.since(*at) < valid);
        let (alive, silent) = self.detector.counts();
        let nodes = alive + silent + self.disruption.answered.len();
        let disrupted = silent * 100 > nodes * usize::from(self.config.max_silent_percent);
        match (std::mem::replace(&mut self.disruption.lasts, disrupted), disrupted) {
            (false, false) => {
                self.decide_held(now, directory);
            }
            // Probes that failed while too many nodes were silent count against none of them.
            (true, false) => self.probe_silent(now),
            (_, true) if self.disruption.probe_again.is_none_or(|at| at <= now) => {
                self.disruption.probe_again = Some(now.after(report_timeout));
                self.probe_held(now);
                self.probe_others(now, directory, silent);
            }
            (_, true) => {}
        }
        if !disrupted {
            self.disruption.probe_again = None;
            self.disruption.again.clear();
        }
        self.take_verdicts();
    }

    /// Probes the nodes in no group whose reports are overdue, unless too many are known to be
    /// silent.
    fn doubt_overdue(&mut self, now: Moment, directory: &impl NodeLookup) {
        while let Some(incarnation) = self.deadlines.pop_overdue(now, self.grace()) {
            let is_member = directory.is_member(&incarnation.node);
            if !directory.is_up(&incarnation) {
                self.deadlines.forget(&incarnation);
            } else if !is_member
                && self.detector.health(&incarnation).is_none()
                && !self.disruption.lasts
                && self.suspects.len() < MAX_OVERDUE
            {
                self.doubt(now, &incarnation, directory);
            }
        }
    }

    /// Time after which a report that was expected is overdue.
    fn grace(&self) -> Duration {
        self.config.detector.report_timeout
    }

    /// Takes the outputs of the detector; who is dead is held until [`NodeWatch::poll`] decides.
    fn take_verdicts(&mut self) {
        while let Some(output) = self.detector.poll_output() {
            match output {
                DetectorOutput::Probe { peer, probe } => {
                    self.output.push_back(WatchOutput::Probe { incarnation: peer, probe });
                }
                DetectorOutput::Dead { peer } => {
                    self.disruption.held.insert(peer);
                }
            }
        }
    }

    /// Begins again to probe every node that has not answered.
    fn probe_silent(&mut self, now: Moment) {
        self.probe_held(now);
        let suspected = |incarnation: &&NodeIncarnation| {
            self.detector.health(incarnation) == Some(Health::Suspect)
        };
        let suspected: Vec<NodeIncarnation> =
            self.detector.peers().filter(suspected).cloned().collect();
        for incarnation in suspected {
            self.detector.watch(incarnation.clone(), now);
            self.detector.doubt(&incarnation, now);
        }
    }

    fn probe_held(&mut self, now: Moment) {
        for incarnation in std::mem::take(&mut self.disruption.held) {
            self.detector.watch(incarnation.clone(), now);
            self.detector.doubt(&incarnation, now);
            self.disruption.again.insert(incarnation);
        }
    }

    /// Probes nodes that are not watched here, to learn whether they answer.
    fn probe_others(&mut self, now: Moment, directory: &impl NodeLookup, silent: usize) {
        let is_other = |incarnation: &NodeIncarnation| {
            self.detector.health(incarnation).is_none()
                && !self.disruption.answered.contains_key(incarnation)
        };
        for incarnation in disruption::others(directory, is_other, silent) {
            self.doubt(now, &incarnation, directory);
        }
    }

    /// Returns the next output; call it until it returns `None`.
    pub fn poll_output(&mut self) -> Option<WatchOutput> {
        self.take_verdicts();
        self.output.pop_front()
    }

    /// Returns when to call [`NodeWatch::poll`] next, at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        let detector = self.detector.next_deadline().into_iter();
        detector.chain(self.disruption.probe_again).chain(self.deadlines.next()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, RegisterNode};
    use crate::detector::Probing;
    use crate::directory::{Directory, Limits};
    use crate::ids::Incarnation;
    use crate::names::{Address, EndpointName, NodeName};

    const PROBING: Probing = Probing { timeout: Duration::from_secs(1), attempts: 2 };
    const CONFIG: WatchConfig =
        WatchConfig::new(DetectorConfig::new(Duration::from_secs(3), PROBING));

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    /// The records of one node that hosts nothing, and its incarnation.
    fn one_node() -> (Directory, NodeIncarnation) {
        let mut directory = Directory::new(Limits::default());
        let name = NodeName::new("n0").unwrap();
        let announced = Command::RegisterNode(RegisterNode {
            name: name.clone(),
            address: Address::new("10.0.0.1:1").unwrap(),
            endpoints: vec![EndpointName::new("h0").unwrap()],
            start_id: 1,
            voucher_key: None,
        });
        for change in directory.decide(at(0), &announced, &mut |_| None).unwrap().changes {
            directory.apply(&change);
        }
        (directory, NodeIncarnation { node: name, number: Incarnation(1) })
    }

    fn outputs(watch: &mut NodeWatch, now: Moment, directory: &Directory) -> Vec<WatchOutput> {
        watch.poll(now, directory);
        std::iter::from_fn(|| watch.poll_output()).collect()
    }

    fn probe(incarnation: &NodeIncarnation, probe: u64) -> WatchOutput {
        WatchOutput::Probe { incarnation: incarnation.clone(), probe }
    }

    #[test]
    fn after_a_reconfiguration_every_node_gets_the_full_new_timeout() {
        let (directory, incarnation) = one_node();
        let mut watch = NodeWatch::new(CONFIG);
        watch.doubt(at(0), &incarnation, &directory);
        assert_eq!(outputs(&mut watch, at(0), &directory), [probe(&incarnation, 0)]);
        let slower = Probing { timeout: Duration::from_secs(7), attempts: 1 };
        watch.reconfigure(
            at(1),
            WatchConfig::new(DetectorConfig::new(Duration::from_secs(3), slower)),
        );
        assert_eq!(
            outputs(&mut watch, at(1), &directory),
            [probe(&incarnation, 1)],
            "who was asked is asked again"
        );
        assert_eq!(outputs(&mut watch, at(7), &directory), []);
        let silent = WatchOutput::Expel { incarnation, cause: Cause::Silent };
        assert_eq!(outputs(&mut watch, at(8), &directory), [silent]);
    }

    /// G5: a node that answers is kept.
    #[test]
    fn a_node_that_a_group_agent_cannot_reach_is_probed_and_stays_if_it_answers() {
        let (directory, incarnation) = one_node();
        let mut watch = NodeWatch::new(CONFIG);
        for round in 0..3 {
            watch.reported(at(10 * round), &incarnation, &directory);
            assert_eq!(
                outputs(&mut watch, at(10 * round), &directory),
                [probe(&incarnation, round)]
            );
            watch.probe_answered(at(10 * round + 1), &incarnation, round);
            assert_eq!(watch.next_deadline(), None, "it is not watched here any more");
        }
        watch.reported(at(30), &incarnation, &directory);
        assert_eq!(outputs(&mut watch, at(30), &directory), [probe(&incarnation, 3)]);
        assert_eq!(outputs(&mut watch, at(31), &directory), [probe(&incarnation, 4)]);
        let expel = WatchOutput::Expel { incarnation: incarnation.clone(), cause: Cause::Silent };
        assert_eq!(outputs(&mut watch, at(32), &directory), [expel]);
        watch.expelled(&incarnation);
        assert_eq!(outputs(&mut watch, at(99), &directory), []);
    }

    #[test]
    fn without_probes_a_reported_node_is_expelled_at_once() {
        let (directory, incarnation) = one_node();
        let expel = |cause| [WatchOutput::Expel { incarnation: incarnation.clone(), cause }];
        let mut watch = NodeWatch::new(WatchConfig {
            on_report: Policy::ExpelAtOnce,
            on_ports_down: Policy::ExpelAtOnce,
            ..CONFIG
        });
        watch.reported(at(1), &incarnation, &directory);
        assert_eq!(outputs(&mut watch, at(1), &directory), expel(Cause::Reported));
        watch.ports_down(at(1), &incarnation, &directory);
        assert_eq!(outputs(&mut watch, at(1), &directory), expel(Cause::PortsDown));
        // Some of its ports down is a question under any policy.
        watch.doubt(at(1), &incarnation, &directory);
        assert_eq!(outputs(&mut watch, at(1), &directory), [probe(&incarnation, 0)]);
    }

    /// A node in no group has nobody else who would notice.
    #[test]
    fn a_node_that_hosts_nothing_is_probed_and_expelled_when_its_report_is_overdue() {
        let (directory, incarnation) = one_node();
        let mut watch = NodeWatch::new(CONFIG);
        watch.expect_report(at(0), &incarnation);
        assert_eq!(outputs(&mut watch, at(32), &directory), []);
        watch.heard(at(32), &incarnation, Duration::from_secs(5));
        assert_eq!(outputs(&mut watch, at(39), &directory), []);
        assert_eq!(watch.silent().count(), 0);
        assert_eq!(watch.next_deadline(), Some(at(40)), "5 s until its report, 3 s of grace");
        assert_eq!(outputs(&mut watch, at(40), &directory), [probe(&incarnation, 0)]);
        assert_eq!(watch.silent().collect::<Vec<_>>(), [&incarnation]);
        watch.probe_answered(at(41), &incarnation, 0);
        assert_eq!(watch.silent().count(), 0);
        assert_eq!(outputs(&mut watch, at(47), &directory), []);
        assert_eq!(
            outputs(&mut watch, at(48), &directory),
            [probe(&incarnation, 1)],
            "no report yet"
        );
        assert_eq!(outputs(&mut watch, at(49), &directory), [probe(&incarnation, 2)]);
        let expel = WatchOutput::Expel { incarnation: incarnation.clone(), cause: Cause::Silent };
        assert_eq!(outputs(&mut watch, at(50), &directory), [expel]);
        watch.expelled(&incarnation);
        assert_eq!(watch.next_deadline(), None);
    }

    /// A node that registers and dies before its first report.
    #[test]
    fn a_node_that_never_reports_is_probed_as_well() {
        let (directory, incarnation) = one_node();
        let mut watch = NodeWatch::new(CONFIG);
        watch.expect_report(at(0), &incarnation);
        assert_eq!(outputs(&mut watch, at(33), &directory), [probe(&incarnation, 0)]);
    }

    #[test]
    fn a_report_of_an_incarnation_that_has_ended_is_not_waited_for() {
        let (directory, incarnation) = one_node();
        let ended = NodeIncarnation { number: Incarnation(0), ..incarnation };
        let mut watch = NodeWatch::new(CONFIG);
        watch.expect_report(at(0), &ended);
        assert_eq!(outputs(&mut watch, at(99), &directory), []);
        assert_eq!(watch.next_deadline(), None);
    }

    #[test]
    fn reports_about_an_ended_incarnation_are_ignored() {
        let (directory, incarnation) = one_node();
        let ended = NodeIncarnation { number: Incarnation(0), ..incarnation };
        for policy in [Policy::Probe, Policy::ExpelAtOnce] {
            let mut watch = NodeWatch::new(WatchConfig { on_report: policy, ..CONFIG });
            watch.reported(at(1), &ended, &directory);
            assert_eq!(outputs(&mut watch, at(99), &directory), []);
        }
    }

    #[test]
    fn after_a_pause_of_the_process_nodes_are_probed_again() {
        let (directory, incarnation) = one_node();
        let mut watch = NodeWatch::new(CONFIG);
        watch.doubt(at(1), &incarnation, &directory);
        assert_eq!(outputs(&mut watch, at(1), &directory), [probe(&incarnation, 0)]);
        watch.start_over(at(90));
        assert_eq!(outputs(&mut watch, at(90), &directory), [probe(&incarnation, 1)]);
    }
}
