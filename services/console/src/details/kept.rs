//! Answers that are kept for all viewers of a page (CONSOLE-2).

use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::bounded::Bounded;
use crate::snapshot::Snapshot;

/// Time for which an answer is given again, whatever has changed.
const FRESH: Duration = Duration::from_millis(150);
/// Time for which an answer is given again if no record has changed.
const KEEP: Duration = Duration::from_secs(2);
/// Most answers of a kind that are kept.
const MAX_KEPT: usize = 256;

/// An answer, or why there is none.
pub(crate) type Answer<T> = Arc<Result<T, String>>;

/// The state that an answer was fetched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    revision: u64,
    /// Revision that the route service has seen.
    routed: u64,
    fence: Option<v1::Fence>,
    entries: u64,
}

impl State {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let status = snapshot.status.as_ref();
        Self {
            revision: snapshot.revision,
            routed: status.map_or(0, |status| status.seen_revision),
            fence: status.and_then(|status| status.fence),
            entries: status.map_or(0, |status| status.programmed_entries),
        }
    }
}

/// Answers by what was asked; a request for one that is under way waits for it.
#[derive(Debug)]
pub(super) struct Kept<T> {
    /// Time for which an answer is given again if no record has changed.
    keep: Duration,
    entries: Mutex<Bounded<Entry<T>>>,
}

type Entry<T> = Arc<tokio::sync::Mutex<Option<KeptAnswer<T>>>>;

#[derive(Debug)]
struct KeptAnswer<T> {
    at: Instant,
    state: State,
    answer: Answer<T>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { keep: KEEP, entries: Mutex::new(Bounded::new(MAX_KEPT)) }
    }
}

impl<T> Kept<T> {
    /// Answers that take long: given again until a record changes.
    ///
    /// - `most`: number of answers that are kept.
    pub(super) fn until_a_change(most: usize) -> Self {
        Self { keep: Duration::MAX, entries: Mutex::new(Bounded::new(most)) }
    }

    pub(super) async fn get(
        &self,
        key: &str,
        state: State,
        fetch: impl Future<Output = Result<T, String>>,
    ) -> Answer<T> {
        let entry = self.entries.lock().get(key);
        let mut held = entry.lock().await;
        if let Some(kept) = &*held {
            let age = kept.at.elapsed();
            // A call that failed may succeed without a change of the records.
            let keep = if kept.answer.is_ok() { self.keep } else { KEEP };
            if age < FRESH || (age < keep && kept.state == state) {
                return Arc::clone(&kept.answer);
            }
        }
        let answer = Arc::new(fetch.await);
        *held = Some(KeptAnswer { at: Instant::now(), state, answer: Arc::clone(&answer) });
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    const STATE: State = State { revision: 1, routed: 1, fence: None, entries: 0 };

    #[tokio::test]
    async fn many_viewers_cost_one_call() {
        let kept = Arc::new(Kept::<u32>::default());
        let calls = Arc::new(AtomicU32::new(0));
        let mut asking = JoinSet::new();
        for _ in 0..200 {
            let (kept, calls) = (Arc::clone(&kept), Arc::clone(&calls));
            asking.spawn(async move {
                let fetch = async { Ok(calls.fetch_add(1, Ordering::Relaxed)) };
                kept.get("group", STATE, fetch).await
            });
        }
        for answer in asking.join_all().await {
            assert_eq!(*answer, Ok(0));
        }
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_fetched_again_after_a_change() {
        let kept = Kept::<u32>::default();
        assert_eq!(*kept.get("a", STATE, async { Ok(1) }).await, Ok(1));
        tokio::time::advance(FRESH).await;
        assert_eq!(*kept.get("a", STATE, async { Ok(2) }).await, Ok(1), "nothing has changed");
        let later = State { revision: 2, ..STATE };
        assert_eq!(*kept.get("a", later, async { Ok(3) }).await, Ok(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_answer_is_fetched_again_only_after_a_change() {
        let kept = Kept::<u32>::until_a_change(2);
        let later = State { routed: 2, ..STATE };
        assert_eq!(*kept.get("a", STATE, async { Ok(1) }).await, Ok(1));
        tokio::time::advance(100 * KEEP).await;
        assert_eq!(*kept.get("a", STATE, async { Ok(2) }).await, Ok(1));
        assert_eq!(*kept.get("a", later, async { Ok(3) }).await, Ok(3));
        let failed = Err("no answer".to_owned());
        assert_eq!(*kept.get("b", STATE, async { failed.clone() }).await, failed);
        tokio::time::advance(KEEP).await;
        assert_eq!(*kept.get("b", STATE, async { Ok(4) }).await, Ok(4));
    }
}
