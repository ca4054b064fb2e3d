//! The members that take part as one endpoint knows them, and those that have left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

use fabricast_groups::Pn;

use crate::frame::{JoinRevision, RosterChange};

/// Most departures kept for messages that are not acknowledged yet.
const DEPARTURES: usize = 1 << 16;

/// The members that take part, with a version that grows with every change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster {
    members: BTreeMap<Pn, (JoinRevision, u64)>, // with the version that added them
    pns: OnceLock<Arc<BTreeSet<Pn>>>,           // cache of their ranks
    version: u64,
    departures: VecDeque<Departure>,
}

#[derive(Clone, Copy, Debug)]
struct Departure {
    pn: Pn,
    since: u64,
    until: u64,
}

impl Roster {
    /// Applies a change; returns whether it changed anything.
    pub(crate) fn apply(&mut self, change: &RosterChange) -> bool {
        let before = self.version;
        for pn in &change.gone {
            if let Some((_, since)) = self.members.remove(pn) {
                self.version += 1;
                self.departures.push_back(Departure { pn: *pn, since, until: self.version });
            }
        }
        for (pn, joined) in &change.here {
            self.version += 1;
            self.members.insert(*pn, (*joined, self.version));
        }
        while self.departures.len() > DEPARTURES {
            self.departures.pop_front();
        }
        if self.version != before {
            self.pns.take();
        }
        self.version != before
    }

    /// Returns the revision of a member's join if it takes part.
    pub(crate) fn joined(&self, pn: Pn) -> Option<JoinRevision> {
        self.members.get(&pn).map(|(joined, _)| *joined)
    }

    pub(crate) fn joins(&self) -> BTreeMap<Pn, JoinRevision> {
        self.members.iter().map(|(pn, (joined, _))| (*pn, *joined)).collect()
    }

    /// Returns the ranks that take part; cheap while they stay the same.
    pub(crate) fn pns(&self) -> Arc<BTreeSet<Pn>> {
        Arc::clone(self.pns.get_or_init(|| Arc::new(self.members.keys().copied().collect())))
    }

    /// Version of the present state.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the members of the state at `version` that have left since, ascending.
    pub(crate) fn gone_since(&self, version: u64) -> Vec<Pn> {
        let missed =
            self.departures.iter().filter(|one| one.since <= version && version < one.until);
        missed.map(|one| one.pn).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Forgets departures before a version; all of them if it is `None`.
    pub(crate) fn forget(&mut self, before: Option<u64>) {
        let before = before.unwrap_or(self.version);
        while self.departures.front().is_some_and(|one| one.until <= before) {
            self.departures.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use fabricast_groups::Revision;

    use super::*;

    fn change(gone: &[u32], here: &[(u32, u64)]) -> RosterChange {
        RosterChange {
            whole: false,
            gone: gone.iter().copied().map(Pn).collect(),
            here: here.iter().map(|(pn, joined)| (Pn(*pn), Revision(*joined))).collect(),
        }
    }

    #[test]
    fn departures_are_named_for_the_versions_before_them() {
        let mut roster = Roster::default();
        assert!(roster.apply(&change(&[], &[(1, 1), (2, 1)])));
        let early = roster.version();
        assert!(roster.apply(&change(&[1], &[(1, 9)]))); // a successor
        let late = roster.version();
        assert!(roster.apply(&change(&[2], &[])));
        assert_eq!(roster.gone_since(early), [Pn(1), Pn(2)]);
        assert_eq!(roster.gone_since(late), [Pn(2)]);
        assert_eq!(roster.joined(Pn(1)), Some(Revision(9)));
        assert!(!roster.apply(&change(&[7], &[])), "it was not a member");
        roster.forget(Some(late));
        assert_eq!(roster.gone_since(early), [Pn(2)], "the first is forgotten");
    }
}
