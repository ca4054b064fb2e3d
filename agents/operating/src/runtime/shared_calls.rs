//! Calls whose answer is the same for all callers of a key.
//!
//! Callers that come while a call is in flight may ask because of something that its answer does
//! not take into account yet. They share the next call, so that of each key one call is in flight
//! and one waits for its end, however many callers there are.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::tasks::Tasks;

/// Calls by key; clones share them.
pub(crate) struct SharedCalls<K, T>(Arc<Mutex<Waiting<K, T>>>);

/// By key of a call in flight: the one that waits for its end.
type Waiting<K, T> = BTreeMap<K, Option<SharedCall<T>>>;

/// A call that has not begun.
struct SharedCall<T> {
    work: Pin<Box<dyn Future<Output = T> + Send>>,
    answer: watch::Sender<Option<T>>,
}

impl<K, T> Clone for SharedCalls<K, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, T> Default for SharedCalls<K, T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, T> fmt::Debug for SharedCalls<K, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedCalls").finish_non_exhaustive()
    }
}

impl<K, T> SharedCalls<K, T>
where
    K: Ord + Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Makes a call, or shares one that has not begun; waits for its answer, which is `None` if the
    /// process stops.
    pub(crate) async fn call(
        &self,
        tasks: &Tasks,
        key: K,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let mut answer = self.share(tasks, key, Box::pin(work));
        let answered = answer.wait_for(Option::is_some).await.ok()?;
        answered.clone()
    }

    fn share(
        &self,
        tasks: &Tasks,
        key: K,
        work: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> watch::Receiver<Option<T>> {
        let mut waiting = self.0.lock();
        match waiting.entry(key) {
            Entry::Vacant(none) => {
                let (sender, answer) = watch::channel(None);
                let key = none.key().clone();
                none.insert(None);
                tasks.spawn(self.clone().make(key, SharedCall { work, answer: sender }));
                answer
            }
            Entry::Occupied(mut next) => match next.get() {
                Some(next) => next.answer.subscribe(),
                None => {
                    let (sender, answer) = watch::channel(None);
                    next.insert(Some(SharedCall { work, answer: sender }));
                    answer
                }
            },
        }
    }

    /// Makes a call, and those that wait for its end.
    async fn make(self, key: K, first: SharedCall<T>) {
        let mut next = Some(first);
        while let Some(SharedCall { work, answer }) = next {
            answer.send_replace(Some(work.await));
            next = self.next(&key);
        }
    }

    /// Takes the call that waits; without one, none is in flight any more.
    fn next(&self, key: &K) -> Option<SharedCall<T>> {
        let mut waiting = self.0.lock();
        let next = waiting.get_mut(key).and_then(Option::take);
        if next.is_none() {
            waiting.remove(key);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn who_comes_during_a_call_shares_the_next_one() {
        let (calls, tasks) = (SharedCalls::default(), Tasks::default());
        let made = Arc::new(AtomicU32::new(0));
        let count = || {
            let made = Arc::clone(&made);
            async move { made.fetch_add(1, Ordering::SeqCst) }
        };
        let (end, ended) = oneshot::channel::<()>();
        let counted = count();
        let first = calls.call(&tasks, 'a', async move {
            let _ = ended.await;
            counted.await
        });
        let later = async {
            let other = calls.call(&tasks, 'b', count()).await;
            assert_eq!(other, Some(0), "another key");
            let (second, third, ()) = tokio::join!(
                calls.call(&tasks, 'a', count()),
                calls.call(&tasks, 'a', count()),
                async { end.send(()).unwrap() },
            );
            (second, third)
        };
        // The first call is in flight when the others come.
        let (first, others) = tokio::join!(first, later);
        assert_eq!((first, others), (Some(1), (Some(2), Some(2))));
        assert_eq!(made.load(Ordering::SeqCst), 3);
        assert!(calls.0.lock().is_empty());
        tasks.stop().await;
        let never = std::future::pending();
        assert_eq!(calls.call(&tasks, 'a', never).await, None, "the process stops");
    }
}
