//! The seam between code that waits and the simulation: calls that are answered later, or never, and time
//! that is told.
//!
//! Whoever runs a future polls it by [`Desk::poll`] whenever something has come in; in between nothing happens.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use fabricast_groups::Moment;

/// A future that somebody else drives.
pub(super) type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The place where one process leaves its calls and finds the answers; a clone is the same place.
#[derive(Debug)]
pub(super) struct Desk<Q, A>(Arc<Mutex<State<Q, A>>>);

impl<Q, A> Clone for Desk<Q, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct State<Q, A> {
    now: Moment,
    calls: u64,
    asked: Vec<(u64, Q)>,
    open: BTreeSet<u64>,
    answers: BTreeMap<u64, A>,
    alarms: BTreeSet<Moment>,
}

impl<Q, A> Desk<Q, A> {
    pub(super) fn new(now: Moment) -> Self {
        let (asked, open) = (Vec::new(), BTreeSet::new());
        let (answers, alarms) = (BTreeMap::new(), BTreeSet::new());
        Self(Arc::new(Mutex::new(State { now, calls: 0, asked, open, answers, alarms })))
    }

    fn state(&self) -> MutexGuard<'_, State<Q, A>> {
        // A broken rule ends a run by a panic; the next run has desks of its own.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time as it was told last.
    pub(super) fn now(&self) -> Moment {
        self.state().now
    }

    /// Leaves a call, at once; what it answers is waited for.
    pub(super) fn call(&self, question: Q) -> impl Future<Output = A> + Send + use<Q, A>
    where
        Q: Send,
        A: Send,
    {
        let desk = self.clone();
        let mut state = desk.state();
        state.calls += 1;
        let number = state.calls;
        state.asked.push((number, question));
        state.open.insert(number);
        drop(state);
        std::future::poll_fn(move |_| {
            desk.state().answers.remove(&number).map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Waits until a moment.
    pub(super) fn sleep_until(&self, at: Moment) -> impl Future<Output = ()> + Send + use<Q, A>
    where
        Q: Send,
        A: Send,
    {
        let desk = self.clone();
        std::future::poll_fn(move |_| {
            let mut state = desk.state();
            if state.now >= at {
                return Poll::Ready(());
            }
            state.alarms.insert(at);
            Poll::Pending
        })
    }

    /// Takes the calls that have been left since.
    pub(super) fn take_asked(&self) -> Vec<(u64, Q)> {
        std::mem::take(&mut self.state().asked)
    }

    /// Lays an answer down; one that comes too late, or for the second time, is nobody's.
    pub(super) fn answer(&self, call: u64, answer: A) {
        let mut state = self.state();
        if state.open.remove(&call) {
            state.answers.insert(call, answer);
        }
    }

    /// The next moment for which somebody waits.
    pub(super) fn alarm(&self) -> Option<Moment> {
        self.state().alarms.first().copied()
    }

    /// Tells the time and lets a piece of work go on as far as it can.
    pub(super) fn poll<T>(&self, now: Moment, work: &mut Work<T>) -> Poll<T> {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&flag));
        let mut context = Context::from_waker(&waker);
        self.state().now = now;
        while flag.0.swap(false, Ordering::Relaxed) {
            self.state().alarms.clear();
            if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    }
}

/// Notes that one part of the work has woken another.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
