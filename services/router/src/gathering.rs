//! What has come in and waits for the next turn.
//!
//! A turn costs what all groups cost, however few have changed. While many change one after the
//! other, as when a job is formed, about as much time passes between turns as goes into them. Until
//! its turn comes news is kept aside, so that what is said of records and plan fits together.

use std::time::Duration;

use fabricast_groups::Moment;

use crate::control::News;

/// A turn that is shorter is followed by the next at once.
const SHORT: Duration = Duration::from_millis(50);
/// News waits no longer than this for more of it.
const LONGEST: Duration = Duration::from_millis(500);
/// Messages that wait at most; then the watch does.
const MESSAGES: usize = 4096;

/// News that waits for its turn.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    news: Vec<News>,
    until: Moment,
}

impl Gathering {
    /// Whether more can wait.
    pub(crate) fn has_room(&self) -> bool {
        self.news.len() < MESSAGES
    }

    /// Puts news aside.
    pub(crate) fn put(&mut self, news: News) {
        self.news.push(news);
    }

    /// When to make a turn of it, if there is any.
    pub(crate) fn due(&self) -> Option<Moment> {
        (!self.news.is_empty()).then_some(self.until)
    }

    /// Takes everything, for a turn.
    pub(crate) fn take(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// A turn was made.
    pub(crate) fn turned(&mut self, begun: Moment, ended: Moment) {
        let took = ended.since(begun);
        self.until = ended.after(took.saturating_sub(SHORT).min(LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_is_gathered_for_as_long_as_a_turn_takes_and_no_longer_than_is_bearable() {
        let mut gathering = Gathering::default();
        assert_eq!(gathering.due(), None);
        gathering.put(News::Lost);
        assert_eq!(gathering.due(), Some(Moment(0)), "nothing to wait for yet");
        for (took, waits) in [(3, 0), (50, 0), (120, 70), (4_000, 500)] {
            assert_eq!(gathering.take().len(), 1);
            let ended = Moment(7).after(Duration::from_millis(took));
            gathering.turned(Moment(7), ended);
            assert_eq!(gathering.due(), None, "everything is in that turn");
            gathering.put(News::Lost);
            assert_eq!(gathering.due(), Some(ended.after(Duration::from_millis(waits))));
        }
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut gathering = Gathering::default();
        for _ in 0..MESSAGES {
            assert!(gathering.has_room());
            gathering.put(News::Lost);
        }
        assert!(!gathering.has_room());
        gathering.take();
        assert!(gathering.has_room());
    }
}
