//! Groups that were asked about at the TIC and whose answer is awaited.
//!
//! An answer may have been given before the news came that arrived while it was awaited, so such
//! news is remembered and the question put once more.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use crate::ids::{Gn, Moment};

/// Questions at one time; more than a node has groups only if askers are wrong.
const MAX_ASKED: usize = 1 << 16;

/// The open questions.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    retry: Duration,
    open: BTreeMap<Gn, Question>,
}

#[derive(Clone, Copy, Debug)]
struct Question {
    repeat_at: Moment,
    stale: bool, // news came after it was put
}

impl Asked {
    /// Creates an empty set of questions.
    ///
    /// - `retry`: one without an answer is put again after this.
    pub(crate) fn new(retry: Duration) -> Self {
        Self { retry, open: BTreeMap::new() }
    }

    /// Notes that there is news of a group; answers whether it is to be asked about now.
    pub(crate) fn news(&mut self, now: Moment, gn: Gn) -> bool {
        let full = self.open.len() >= MAX_ASKED;
        match self.open.entry(gn) {
            Entry::Occupied(mut open) => {
                open.get_mut().stale = true;
                false
            }
            Entry::Vacant(_) if full => false, // reports bring it up again
            Entry::Vacant(vacant) => {
                vacant.insert(Question { repeat_at: now.after(self.retry), stale: false });
                true
            }
        }
    }

    /// Notes an answer; answers whether the group is to be asked about once more.
    pub(crate) fn answered(&mut self, now: Moment, gn: Gn) -> bool {
        let stale = self.open.remove(&gn).is_some_and(|question| question.stale);
        stale && self.news(now, gn)
    }

    /// Forgets a question: the group is gone, and its number does not come back.
    pub(crate) fn forget(&mut self, gn: Gn) {
        self.open.remove(&gn);
    }

    /// Forgets all questions.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    /// Takes the questions that are to be put again now.
    pub(crate) fn due(&mut self, now: Moment) -> Vec<Gn> {
        let repeat_at = now.after(self.retry);
        let due = self.open.iter_mut().filter(|(_, question)| question.repeat_at <= now);
        let put = |(gn, question): (&Gn, &mut Question)| {
            question.repeat_at = repeat_at;
            *gn
        };
        due.map(put).collect()
    }

    /// Answers when the first question is to be put again.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.open.values().map(|question| question.repeat_at).min()
    }
}
