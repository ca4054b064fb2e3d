//! Fetches of groups from the TIC that have not been answered yet.
//!
//! News of a group may arrive while its fetch is in flight, and the answer may be older than the
//! news. Such a group is fetched once more after the answer.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use crate::ids::{Gn, Moment, Revision};

/// Limit on open fetches; a node never has that many groups unless its callers are faulty.
const MAX_FETCHES: usize = 1 << 16;

/// The open fetches, at most one per group.
#[derive(Clone, Debug)]
pub(crate) struct PendingFetches {
    retry: Duration,
    open: BTreeMap<Gn, Fetch>,
}

#[derive(Clone, Copy, Debug)]
struct Fetch {
    sent: Moment, // for the first time
    repeat_at: Moment,
    again: bool, // news came after it was sent
}

impl PendingFetches {
    /// Creates an empty set of fetches.
    ///
    /// - `retry`: a fetch without an answer is repeated after this time.
    pub(crate) fn new(retry: Duration) -> Self {
        Self { retry, open: BTreeMap::new() }
    }

    /// Requests a fetch after news of a group; returns whether to send it now. A fetch in flight is
    /// repeated after its answer instead.
    pub(crate) fn request(&mut self, now: Moment, gn: Gn) -> bool {
        let full = self.open.len() >= MAX_FETCHES;
        match self.open.entry(gn) {
            Entry::Occupied(mut open) => {
                open.get_mut().again = true;
                false
            }
            Entry::Vacant(_) if full => false, // reports bring it up again
            Entry::Vacant(vacant) => {
                let repeat_at = now.after(self.retry);
                vacant.insert(Fetch { sent: now, repeat_at, again: false });
                true
            }
        }
    }

    /// Returns since when the answer about a group is awaited: it is no older than that.
    pub(crate) fn sent(&self, gn: Gn) -> Option<Moment> {
        self.open.get(&gn).map(|fetch| fetch.sent)
    }

    /// Records an answer; returns whether the group is to be fetched once more.
    pub(crate) fn answered(&mut self, now: Moment, gn: Gn) -> bool {
        let again = self.open.remove(&gn).is_some_and(|fetch| fetch.again);
        if self.open.is_empty() {
            self.open.clear(); // an emptied map keeps a node, and most of the time it is empty
        }
        again && self.request(now, gn)
    }

    /// Removes the fetch of a group that has ended.
    pub(crate) fn forget(&mut self, gn: Gn) {
        self.open.remove(&gn);
    }

    /// Removes all fetches.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    /// Returns the groups whose fetch is to be repeated now.
    pub(crate) fn due(&mut self, now: Moment) -> Vec<Gn> {
        let repeat_at = now.after(self.retry);
        let due = self.open.iter_mut().filter(|(_, fetch)| fetch.repeat_at <= now);
        let put = |(gn, fetch): (&Gn, &mut Fetch)| {
            fetch.repeat_at = repeat_at;
            *gn
        };
        due.map(put).collect()
    }

    /// Returns when the next fetch is to be repeated.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.open.values().map(|fetch| fetch.repeat_at).min()
    }
}

/// Returns whether an answer of the TIC may lack something only because it is older.
///
/// - `joined`: revision at which it is said to have begun.
/// - `confirm_at`: when the TIC is to be asked for it; `None` if the TIC has told of it.
/// - `answered`: revision of the answer, which was `asked` for at that time.
pub(crate) fn may_be_later(
    joined: Revision,
    confirm_at: Option<Moment>,
    answered: Revision,
    asked: Option<Moment>,
) -> bool {
    joined > answered && confirm_at.is_none_or(|at| asked < Some(at))
}
