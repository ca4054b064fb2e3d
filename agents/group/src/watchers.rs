//! Whoever watches a group: woken when its member table may have changed, and looking again by itself.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fabricast_groups::ids::Gn;
use tokio::sync::watch;
use tokio_stream::wrappers::{IntervalStream, WatchStream};
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

/// What nobody is woken for, such as the end of an office, is seen after this time.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Changes in quick succession are told together: each telling has all members in it.
const PACE: Duration = Duration::from_millis(100);

/// A stream of news, or the one refusal that ends it.
pub type News<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The watched groups.
#[derive(Debug, Default)]
pub struct Watchers(Mutex<BTreeMap<Gn, watch::Sender<()>>>);

impl Watchers {
    /// Starts to watch a group.
    pub fn watch(&self, gn: Gn) -> watch::Receiver<()> {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|_, wake| wake.receiver_count() > 0);
        groups.entry(gn).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    /// Wakes whoever watches the group.
    pub fn changed(&self, gn: Gn) {
        let groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wake) = groups.get(&gn) {
            wake.send_replace(());
        }
    }
}

/// Streams what a look finds: at first, and whenever it differs after a wake, but not too often. A refusal
/// ends the stream.
pub fn news<T, W>(
    wakes: watch::Receiver<W>,
    mut look: impl FnMut() -> Result<T, Status> + Send + 'static,
) -> News<T>
where
    T: Clone + PartialEq + Send + 'static,
    W: Clone + Send + Sync + 'static,
{
    let by_itself = IntervalStream::new(tokio::time::interval(LOOK_AGAIN)).map(|_| ());
    let wakes = WatchStream::new(wakes).map(|_| ()).merge(by_itself);
    let mut told: Option<T> = None;
    let news = wakes.filter_map(move |()| match look() {
        Ok(found) if told.as_ref() == Some(&found) => None,
        found => {
            told = found.as_ref().ok().cloned();
            Some(found)
        }
    });
    Box::pin(news.throttle(PACE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn news_come_once_each_and_a_refusal_is_passed_on() {
        let watchers = Watchers::default();
        let state = Arc::new(AtomicU32::new(1));
        let seen = Arc::clone(&state);
        let look = move || match seen.load(Ordering::Relaxed) {
            0 => Err(Status::not_found("over")),
            number => Ok(number),
        };
        let mut news = news(watchers.watch(Gn(1)), look);
        assert_eq!(news.next().await.unwrap().unwrap(), 1);
        state.store(2, Ordering::Relaxed);
        watchers.changed(Gn(2));
        watchers.changed(Gn(1));
        assert_eq!(news.next().await.unwrap().unwrap(), 2);
        state.store(0, Ordering::Relaxed);
        assert!(news.next().await.unwrap().is_err(), "nobody wakes it");
        drop(news);
        drop(watchers.watch(Gn(3)));
        assert_eq!(watchers.0.lock().unwrap().len(), 1, "those that nobody watches are forgotten");
    }
}
