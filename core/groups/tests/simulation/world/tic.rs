//! The TIC's shell in the simulation, with its store.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::command::{Answer, Command};
use fabricast_groups::directory::{Directory, Limits, NewGroup};
use fabricast_groups::host_watch::HostWatch;
use fabricast_groups::record::Change;
use fabricast_groups::{Gn, Moment, Refusal};
use fabricast_routing::Mgid;

use crate::node::DETECTOR;

/// The TIC's shell: decides, stores, applies, answers.
pub(crate) struct Tic {
    pub(super) directory: Directory,
    pub(super) watch: HostWatch,
    store: BTreeMap<String, Vec<u8>>,
    gns: BTreeSet<Gn>,
}

impl Tic {
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(super) fn new() -> Self {
        let directory = Directory::new(Limits::default());
        let watch = HostWatch::start(DETECTOR, &directory, Moment(0));
        Self { directory, watch, store: BTreeMap::new(), gns: BTreeSet::new() }
    }

    pub(super) fn restart(&mut self, now: Moment) {
        let read = Directory::load(Limits::default(), self.store.iter()).unwrap();
        assert_eq!(read, self.directory, "S3: what was acknowledged is read back");
        self.directory = read;
        self.watch = HostWatch::start(DETECTOR, &self.directory, now);
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
        for change in &decision.changes {
            self.watch.applied(change, &self.directory, now);
        }
        Ok((decision.answer, decision.changes))
    }
}
