//! How new what the TIC has said of groups is, so that what it said earlier and comes late undoes nothing.

use std::collections::BTreeMap;

use crate::ids::{Gn, Revision};

/// Groups remembered one by one.
const GROUPS: usize = 1024;

/// The newest revision at which a group was seen; what is older than that is not believed.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    by_group: BTreeMap<Gn, Revision>,
    others: Revision,
}

impl Seen {
    /// Notes what revision of the records a group was seen at.
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

    /// Whether what the TIC said of a group at a revision is, or may be, out of date.
    pub(super) fn is_doubtful(&self, gn: Gn, revision: Revision) -> bool {
        revision < self.by_group.get(&gn).copied().unwrap_or(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_beyond_the_bound_are_doubted_together() {
        let mut seen = Seen::default();
        for at in 1..=1024 {
            seen.note(Gn(at), Revision(at));
        }
        seen.note(Gn(7), Revision(3)); // news of the past
        assert!(!seen.is_doubtful(Gn(7), Revision(7)) && seen.is_doubtful(Gn(7), Revision(6)));
        assert!(!seen.is_doubtful(Gn(9_999), Revision(0)));
        seen.note(Gn(2_000), Revision(2_000)); // the first one gives way
        assert!(!seen.is_doubtful(Gn(1), Revision(1)) && seen.is_doubtful(Gn(1), Revision(0)));
    }
}
