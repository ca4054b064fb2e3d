//! The newest known revision of each group, so that a late, older answer of the TIC undoes nothing.

use std::collections::BTreeMap;

use crate::ids::{Gn, Revision};

/// Limit on groups remembered individually.
const GROUPS: usize = 1024;

/// Revisions at which groups were last seen; older answers are ignored. Beyond the limit, the
/// oldest entries are merged into one.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenRevisions {
    by_group: BTreeMap<Gn, Revision>,
    others: Revision,
}

impl SeenRevisions {
    /// Records the revision of an answer about a group.
    pub(super) fn note(&mut self, gn: Gn, revision: Revision) {
        let last = self.by_group.entry(gn).or_default();
        *last = revision.max(*last);
        if self.by_group.len() > GROUPS
            && let Some((oldest, revision)) =
                self.by_group.iter().min_by_key(|(_, revision)| **revision)
        {
            let (oldest, revision) = (*oldest, *revision);
            self.others = self.others.max(revision);
            self.by_group.remove(&oldest);
        }
    }

    /// Returns whether an answer about a group at a revision is, or may be, out of date.
    pub(super) fn is_doubtful(&self, gn: Gn, revision: Revision) -> bool {
        revision < self.by_group.get(&gn).copied().unwrap_or(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_beyond_the_limit_share_one_revision() {
        let mut seen = SeenRevisions::default();
        for at in 1..=1024 {
            seen.note(Gn(at), Revision(at));
        }
        seen.note(Gn(7), Revision(3)); // an older answer
        assert!(!seen.is_doubtful(Gn(7), Revision(7)) && seen.is_doubtful(Gn(7), Revision(6)));
        assert!(!seen.is_doubtful(Gn(9_999), Revision(0)));
        seen.note(Gn(2_000), Revision(2_000)); // the first one is merged
        assert!(!seen.is_doubtful(Gn(1), Revision(1)) && seen.is_doubtful(Gn(1), Revision(0)));
    }
}
