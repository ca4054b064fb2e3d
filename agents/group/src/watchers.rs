//! Watches of groups: woken when a member table may have changed, and from time to time.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use fabricast_groups::ids::Gn;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_stream::wrappers::{IntervalStream, WatchStream};
use tokio_stream::{Stream, StreamExt};

/// Changes that wake nobody, such as the end of a group agent, are seen after this time.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Changes in quick succession are sent together: each message has all members in it.
const SEND_INTERVAL: Duration = Duration::from_millis(100);

/// A stream of states, or the one error that ends it.
pub type Changes<T, E> = Pin<Box<dyn Stream<Item = Result<T, E>> + Send>>;

/// The watched groups, and the channels that wake those who watch them.
#[derive(Debug, Default)]
pub struct Watchers(Mutex<BTreeMap<Gn, watch::Sender<()>>>);

impl Watchers {
    /// Starts to watch a group.
    pub fn watch(&self, gn: Gn) -> watch::Receiver<()> {
        let mut groups = self.0.lock();
        groups.retain(|_, wake| wake.receiver_count() > 0);
        groups.entry(gn).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    /// Wakes those who watch a group.
    pub fn changed(&self, gn: Gn) {
        let groups = self.0.lock();
        if let Some(wake) = groups.get(&gn) {
            wake.send_replace(());
        }
    }
}

/// Streams a state: the first one, and after that each that differs from the one before. An error
/// ends the stream.
///
/// - `wakes`: changes when the state may have changed.
/// - `poll`: reads the state.
pub fn changes<T, E, W>(
    wakes: watch::Receiver<W>,
    mut poll: impl FnMut() -> Result<T, E> + Send + 'static,
) -> Changes<T, E>
where
    T: Clone + PartialEq + Send + 'static,
    E: Send + 'static,
    W: Clone + Send + Sync + 'static,
{
    let by_time = IntervalStream::new(tokio::time::interval(POLL_INTERVAL)).map(|_| ());
    let wakes = WatchStream::new(wakes).map(|_| ()).merge(by_time);
    let mut sent: Option<T> = None;
    let changes = wakes.filter_map(move |()| match poll() {
        Ok(state) if sent.as_ref() == Some(&state) => None,
        state => {
            sent = state.as_ref().ok().cloned();
            Some(state)
        }
    });
    Box::pin(changes.throttle(SEND_INTERVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn each_state_comes_once_and_an_error_is_passed_on() {
        let watchers = Watchers::default();
        let state = Arc::new(AtomicU32::new(1));
        let seen = Arc::clone(&state);
        let poll = move || match seen.load(Ordering::Relaxed) {
            0 => Err("over"),
            number => Ok(number),
        };
        let mut changes = changes(watchers.watch(Gn(1)), poll);
        assert_eq!(changes.next().await.unwrap().unwrap(), 1);
        state.store(2, Ordering::Relaxed);
        watchers.changed(Gn(2));
        watchers.changed(Gn(1));
        assert_eq!(changes.next().await.unwrap().unwrap(), 2);
        state.store(0, Ordering::Relaxed);
        assert!(changes.next().await.unwrap().is_err(), "nobody wakes the watch");
        drop(changes);
        drop(watchers.watch(Gn(3)));
        assert_eq!(watchers.0.lock().len(), 1, "groups that nobody watches are removed");
    }
}
