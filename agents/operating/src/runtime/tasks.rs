//! Tasks that end when the process stops.

use std::pin::Pin;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Spawns tasks, and waits for them at the end; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Runs a future until it is done or the process stops.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(Box::pin(work));
    }

    /// Takes one type for all work, because tokio's tasks are compiled again for each type.
    fn spawn_boxed(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
            }
        });
    }

    /// Cancels all tasks and waits until they have ended.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
