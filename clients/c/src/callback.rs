//! Threads that call functions of the program: one for each function that it registers, so that a
//! function that takes its time delays no other.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::failure::{Code, Failure, record};
use crate::runtime::block_signals;

thread_local! {
    /// True in the threads of listeners.
    static IS_LISTENER: Cell<bool> = const { Cell::new(false) };
}

/// A thread that calls a function of the program for each event. Dropping it ends the thread.
pub(crate) struct Listener {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Events, and the function that gets them.
pub(crate) trait Events: Send + 'static {
    type Event;

    /// Waits for the next event. Dropping the future loses none.
    fn next(&mut self) -> impl Future<Output = Result<Self::Event, Failure>>;

    /// Calls the function with an event, or with the code of the failure after which there are no
    /// more.
    fn call(&self, event: Result<&Self::Event, Code>);
}

impl Listener {
    /// Starts the thread.
    pub(crate) fn start(runtime: Arc<Runtime>, events: impl Events) -> Result<Self, Failure> {
        let (stop, stopped) = oneshot::channel();
        let body = move || {
            block_signals();
            IS_LISTENER.set(true);
            listen(&runtime, events, stopped);
        };
        let thread = thread::Builder::new().name("fabricast-calls".to_owned()).spawn(body);
        let failed = |error| Failure::new(Code::System, format!("cannot start a thread: {error}"));
        Ok(Self { stop: Some(stop), thread: Some(thread.map_err(failed)?) })
    }

    /// Puts another listener, or none, into a place. When this returns, the former one's function
    /// does not run any more, unless the caller is such a function.
    pub(crate) fn replace(place: &Mutex<Option<Self>>, next: Option<Self>) {
        // Dropped without the lock: the function that it waits for may take it.
        let former = std::mem::replace(&mut *place.lock(), next);
        drop(former);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.stop.take());
        // No listener waits for one: that could be itself, or one that waits for it.
        if let Some(thread) = self.thread.take()
            && !IS_LISTENER.get()
        {
            // It catches panics, and after an end of another kind there is nothing to do either.
            let _ = thread.join();
        }
    }
}

/// Waits for events and delivers them until it is stopped or there are no more.
fn listen(runtime: &Runtime, mut events: impl Events, mut stopped: oneshot::Receiver<()>) {
    loop {
        let next = async {
            tokio::select! {
                biased;
                _ = &mut stopped => None,
                event = events.next() => Some(event),
            }
        };
        let next = catch_unwind(AssertUnwindSafe(|| runtime.block_on(next)));
        let failure = match next {
            Ok(None) => return,
            Ok(Some(Ok(event))) => {
                events.call(Ok(&event));
                continue;
            }
            Ok(Some(Err(failure))) => failure,
            Err(panic) => Failure::panicked(&*panic),
        };
        events.call(Err(record(failure)));
        return;
    }
}
