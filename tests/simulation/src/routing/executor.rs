//! An executor that is driven by hand: futures wait for calls, which are answered later or never,
//! and for simulated time.
//!
//! The world polls a future by [`ManualExecutor::poll`] whenever an event concerns it; nothing runs
//! in between.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use fabricast_groups::Moment;

/// A boxed future, polled by the world.
pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Calls, answers and timers of one process. Clones share their state.
#[derive(Debug)]
pub(super) struct ManualExecutor<Q, A>(Arc<Mutex<State<Q, A>>>);

impl<Q, A> Clone for ManualExecutor<Q, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct State<Q, A> {
    now: Moment,
    calls: u64,
    new_calls: Vec<(u64, Q)>,
    open: BTreeSet<u64>,
    answers: BTreeMap<u64, A>,
    alarms: BTreeSet<Moment>,
}

impl<Q, A> ManualExecutor<Q, A> {
    pub(super) fn new(now: Moment) -> Self {
        let (new_calls, open) = (Vec::new(), BTreeSet::new());
        let (answers, alarms) = (BTreeMap::new(), BTreeSet::new());
        Self(Arc::new(Mutex::new(State { now, calls: 0, new_calls, open, answers, alarms })))
    }

    fn state(&self) -> MutexGuard<'_, State<Q, A>> {
        // A broken rule ends a run by a panic; the next run has new executors.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of the latest poll.
    pub(super) fn now(&self) -> Moment {
        self.state().now
    }

    /// Makes a call at once; the future waits for its answer.
    pub(super) fn call(&self, question: Q) -> impl Future<Output = A> + Send + use<Q, A>
    where
        Q: Send,
        A: Send,
    {
        let executor = self.clone();
        let mut state = executor.state();
        state.calls += 1;
        let number = state.calls;
        state.new_calls.push((number, question));
        state.open.insert(number);
        drop(state);
        std::future::poll_fn(move |_| {
            executor.state().answers.remove(&number).map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Waits until a moment has come.
    pub(super) fn sleep_until(&self, at: Moment) -> impl Future<Output = ()> + Send + use<Q, A>
    where
        Q: Send,
        A: Send,
    {
        let executor = self.clone();
        std::future::poll_fn(move |_| {
            let mut state = executor.state();
            if state.now >= at {
                return Poll::Ready(());
            }
            state.alarms.insert(at);
            Poll::Pending
        })
    }

    /// Returns the calls made since the last time.
    pub(super) fn take_calls(&self) -> Vec<(u64, Q)> {
        std::mem::take(&mut self.state().new_calls)
    }

    /// Answers a call; a late or repeated answer is dropped.
    pub(super) fn answer(&self, call: u64, answer: A) {
        let mut state = self.state();
        if state.open.remove(&call) {
            state.answers.insert(call, answer);
        }
    }

    /// Returns the earliest moment that a future waits for.
    pub(super) fn alarm(&self) -> Option<Moment> {
        self.state().alarms.first().copied()
    }

    /// Sets the time and polls a future until it makes no more progress.
    pub(super) fn poll<T>(&self, now: Moment, future: &mut BoxFuture<T>) -> Poll<T> {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&flag));
        let mut context = Context::from_waker(&waker);
        self.state().now = now;
        while flag.0.swap(false, Ordering::Relaxed) {
            self.state().alarms.clear();
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    }
}

/// Set when a part of the future has woken another.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
