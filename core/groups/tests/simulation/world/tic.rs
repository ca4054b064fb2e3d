//! The TIC's shell in the simulation, with its store.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::command::{Answer, Command};
use fabricast_groups::detector::Detector;
use fabricast_groups::directory::{Directory, Limits, NewGroup};
use fabricast_groups::names::NodeName;
use fabricast_groups::record::Change;
use fabricast_groups::{Gn, Incarnation, Moment, Refusal};
use fabricast_routing::Mgid;

use crate::node::DETECTOR;

/// One life of a node.
pub(super) type Life = (NodeName, Incarnation);

/// The TIC's shell: decides, stores, applies, answers.
pub(crate) struct Tic {
    pub(super) directory: Directory,
    pub(super) detector: Detector<Life>,
    store: BTreeMap<String, Vec<u8>>,
    gns: BTreeSet<Gn>,
}

impl Tic {
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(super) fn new() -> Self {
        let directory = Directory::new(Limits::default());
        let detector = Detector::new(DETECTOR);
        Self { directory, detector, store: BTreeMap::new(), gns: BTreeSet::new() }
    }

    pub(super) fn restart(&mut self, now: Moment) {
        let read = Directory::load(Limits::default(), self.store.iter()).unwrap();
        assert_eq!(read, self.directory, "S3: what was acknowledged is read back");
        self.directory = read;
        self.detector = Detector::new(DETECTOR);
        self.follow_hosts(now);
    }

    pub(super) fn decide(
        &mut self,
        now: Moment,
        command: &Command,
    ) -> Result<(Answer, Vec<Change>), Refusal> {
        let mut choose = |group: &NewGroup<'_>| (0..).map(Mgid).find(|mgid| (group.is_free)(*mgid));
        let decision = self.directory.decide(now, command, &mut choose)?;
        for change in &decision.changes {
            if let Change::GroupPut(group) = change
                && self.directory.group(group.gn).is_none()
            {
                assert!(self.gns.insert(group.gn), "G1");
            }
            match change.encode() {
                Some(value) => self.store.insert(change.store_key(), value),
                None => self.store.remove(&change.store_key()),
            };
            self.directory.apply(change);
        }
        self.follow_hosts(now);
        Ok((decision.answer, decision.changes))
    }

    /// Watches exactly the lives that host group agents, as `services/tic` does.
    fn follow_hosts(&mut self, now: Moment) {
        let life = |node: &NodeName| Some((node.clone(), self.directory.node(node)?.incarnation));
        let hosts: BTreeSet<Life> =
            self.directory.hosts().filter_map(|(node, _)| life(node)).collect();
        let gone = self.detector.peers().filter(|life| !hosts.contains(*life)).cloned();
        for life in gone.collect::<Vec<_>>() {
            self.detector.unwatch(&life);
        }
        for life in hosts {
            if self.detector.health(&life).is_none() {
                self.detector.watch(life, now);
            }
        }
    }
}
