//! Runs the operations of one membership one after another, in the order in which they were
//! started.
//!
//! All members match operations by the order of their calls, and the agent refuses one that begins
//! before the last has ended. So the order is fixed when an operation is started, on the thread of
//! the program, and not when its task happens to run.

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Operations of one queue run in the order in which they were started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queue {
    Collective,
    Messages,
}

/// The order of one queue.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last: Mutex<Option<oneshot::Receiver<()>>>,
}

/// A place in the queue; the next one has its turn when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    before: Option<oneshot::Receiver<()>>,
    _done: oneshot::Sender<()>,
}

impl Turns {
    /// Takes the next place.
    pub(crate) fn next(&self) -> Turn {
        let (done, ended) = oneshot::channel();
        Turn { before: self.last.lock().replace(ended), _done: done }
    }
}

impl Turn {
    /// Waits until all that were started before have ended.
    pub(crate) async fn wait(&mut self) {
        if let Some(before) = &mut self.before {
            // An error says that the one before has ended, which is all that it ever says.
            let _ = before.await;
            self.before = None;
        }
    }
}
