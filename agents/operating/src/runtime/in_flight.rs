//! Calls in flight that must not be made twice at a time.
//!
//! State machines repeat a request until it is answered. A repetition is dropped while the first
//! call is out, so that a slow peer is not flooded with copies of one request.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// Keys of the calls in flight; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct InFlight<K>(Arc<Mutex<BTreeSet<K>>>);

impl<K> Default for InFlight<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Ord + Clone> InFlight<K> {
    /// Makes a call, unless one with the same key is in flight; `None` if one is.
    ///
    /// The key is free again before the caller sees the answer, which may give rise to the same
    /// call, and also if the returned future is dropped.
    pub(crate) async fn call<F: Future>(&self, key: K, call: F) -> Option<F::Output> {
        if !self.0.lock().insert(key.clone()) {
            return None;
        }
        let _guard = Guard { calls: self, key };
        Some(call.await)
    }
}

struct Guard<'a, K: Ord> {
    calls: &'a InFlight<K>,
    key: K,
}

impl<K: Ord> Drop for Guard<'_, K> {
    fn drop(&mut self) {
        self.calls.0.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_in_flight_is_not_made_twice() {
        let calls = InFlight::default();
        let (answer, answered) = tokio::sync::oneshot::channel();
        let others = async {
            assert_eq!(calls.call(1, async { 2 }).await, None);
            assert_eq!(calls.call(2, async { 3 }).await, Some(3), "another key");
            answer.send(1).unwrap();
        };
        let (first, ()) = tokio::join!(calls.call(1, answered), others);
        assert_eq!(first, Some(Ok(1)));
        assert_eq!(calls.call(1, async { 4 }).await, Some(4), "the first is answered");
        drop(calls.call(1, std::future::pending::<()>()));
        assert!(calls.0.lock().is_empty());
    }
}
