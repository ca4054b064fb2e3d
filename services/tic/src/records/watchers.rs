//! Open watches of the directory.
//!
//! A watcher is added under the same lock that changes are published under, so its snapshot and its
//! first delta meet without a gap. A watcher whose queue is full is cut off at once: it starts
//! again with a snapshot, and nobody else waits for it.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use fabricast_proto::v1;
use prost::Message;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_stream::Stream;

/// Encoded size at which a message with changes is closed, which takes one place of the queue;
/// readers take at most 4 MiB unless told otherwise.
const BYTES_PER_DELTA: usize = 1 << 20;
/// The messages of a snapshot, which are made as they are read.
type Snapshot = Box<dyn Iterator<Item = v1::WatchDirectoryResponse> + Send>;

/// All open watches.
#[derive(Debug)]
pub(crate) struct Watchers {
    open: Vec<Watcher>,
    queue: usize,
    limit: usize,
}

#[derive(Debug)]
struct Watcher {
    deltas: mpsc::Sender<v1::WatchDirectoryResponse>,
    end: Arc<OnceLock<WatchEnd>>,
}

/// Reason why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum WatchEnd {
    #[error("the watch was read too slowly, start again")]
    ReaderTooSlow,
    #[error("another TIC leads, start again there")]
    NotLeader,
    #[error("the records were read anew from the store, start again")]
    RecordsReplaced,
    #[error("the TIC is stopping, start again later")]
    ShuttingDown,
}

/// One watch too many.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{limit} watches are open already")]
pub(crate) struct TooManyWatches {
    pub(crate) limit: usize,
}

impl Watchers {
    /// - `queue`: messages that one watcher may be behind.
    /// - `limit`: watchers at one time.
    pub(crate) fn new(queue: usize, limit: usize) -> Self {
        Self { open: Vec::new(), queue, limit }
    }

    /// Opens a watch that starts with a snapshot of everything published so far.
    pub(crate) fn open(
        &mut self,
        snapshot: impl FnOnce() -> Snapshot,
    ) -> Result<WatchStream, TooManyWatches> {
        self.open.retain(|watcher| !watcher.deltas.is_closed());
        if self.open.len() >= self.limit {
            return Err(TooManyWatches { limit: self.limit });
        }
        let (sender, deltas) = mpsc::channel(self.queue);
        let end = Arc::new(OnceLock::new());
        self.open.push(Watcher { deltas: sender, end: Arc::clone(&end) });
        Ok(WatchStream { snapshot: Some(snapshot()), deltas, end, ended: false })
    }

    /// Sends changes to all watchers.
    ///
    /// - `before`, `revision`: of the records without and with the changes.
    /// - `origins`: of the traced requests that caused them.
    pub(crate) fn publish(
        &mut self,
        before: u64,
        revision: u64,
        origins: &[String],
        changes: impl FnOnce() -> Vec<v1::DirectoryChange>,
    ) {
        if self.open.is_empty() {
            return;
        }
        let mut messages = messages(before, revision, changes());
        if let Some(last) = messages.last_mut() {
            last.traceparents = origins.to_vec();
        }
        let mut others = self.open.len();
        self.open.retain(|watcher| {
            others -= 1;
            let all = if others > 0 { messages.clone() } else { std::mem::take(&mut messages) };
            for message in all {
                match watcher.deltas.try_send(message) {
                    Ok(()) => {}
                    Err(mpsc::error::TrySendError::Closed(_)) => return false,
                    Err(mpsc::error::TrySendError::Full(_)) => {
                        tracing::warn!("directory watcher cut off, it reads too slowly");
                        end_with(&watcher.end, WatchEnd::ReaderTooSlow);
                        return false;
                    }
                }
            }
            true
        });
    }

    /// Ends every watch.
    pub(crate) fn close(&mut self, end: WatchEnd) {
        for watcher in self.open.drain(..) {
            end_with(&watcher.end, end);
        }
    }
}

fn end_with(cell: &OnceLock<WatchEnd>, end: WatchEnd) {
    // Set once: the watcher is dropped then.
    let _ = cell.set(end);
}

/// Cuts changes into messages. A revision without visible changes is sent as well, so that a reader
/// knows when it is up to date. Only the last message carries the new revision: a reader that has
/// seen a revision has seen all of it.
fn messages(
    before: u64,
    revision: u64,
    changes: Vec<v1::DirectoryChange>,
) -> Vec<v1::WatchDirectoryResponse> {
    let mut messages: Vec<v1::WatchDirectoryResponse> = Vec::new();
    let mut bytes = BYTES_PER_DELTA;
    for change in changes {
        if bytes >= BYTES_PER_DELTA {
            messages.push(v1::WatchDirectoryResponse { revision: before, ..Default::default() });
            bytes = 0;
        }
        bytes += change.encoded_len();
        messages.last_mut().expect("one was just pushed").changes.push(change);
    }
    if messages.is_empty() && revision > before {
        messages.push(v1::WatchDirectoryResponse::default());
    }
    if let Some(last) = messages.last_mut() {
        last.revision = revision;
    }
    messages
}

/// The messages of one watch: the snapshot, then deltas, then why it ended.
pub(crate) struct WatchStream {
    /// `None` once it is read.
    snapshot: Option<Snapshot>,
    deltas: mpsc::Receiver<v1::WatchDirectoryResponse>,
    end: Arc<OnceLock<WatchEnd>>,
    ended: bool,
}

impl Stream for WatchStream {
    type Item = Result<v1::WatchDirectoryResponse, WatchEnd>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(message) = self.snapshot.as_mut().and_then(Iterator::next) {
            return Poll::Ready(Some(Ok(message)));
        }
        self.snapshot = None;
        if self.ended {
            return Poll::Ready(None);
        }
        self.deltas.poll_recv(context).map(|message| match message {
            Some(message) => Some(Ok(message)),
            None => {
                self.ended = true;
                Some(Err(self.end.get().copied().unwrap_or(WatchEnd::ShuttingDown)))
            }
        })
    }
}

impl std::fmt::Debug for WatchStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WatchStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;

    use super::*;

    /// A snapshot of one message.
    fn snapshot(revision: u64) -> Snapshot {
        Box::new(std::iter::once(v1::WatchDirectoryResponse {
            revision,
            snapshot: true,
            snapshot_end: true,
            ..Default::default()
        }))
    }

    fn deleted(gn: u64) -> v1::DirectoryChange {
        v1::DirectoryChange { kind: Some(v1::directory_change::Kind::DeletedGn(gn)) }
    }

    #[tokio::test]
    async fn a_watch_starts_with_its_snapshot_and_goes_on_with_deltas() {
        let mut watchers = Watchers::new(4, 1);
        let mut stream = watchers.open(|| snapshot(7)).unwrap();
        watchers.publish(7, 8, &[], || vec![deleted(1)]);
        let first = stream.next().await.unwrap().unwrap();
        assert!(first.snapshot && first.snapshot_end && first.changes.is_empty());
        assert_eq!(first.revision, 7);
        let second = stream.next().await.unwrap().unwrap();
        assert_eq!((second.revision, second.snapshot, second.changes.len()), (8, false, 1));
    }

    #[tokio::test]
    async fn all_readers_get_the_same_beside_gone_and_slow_ones() {
        for [gone, slow, reads] in [[0, 1, 2], [0, 2, 1], [2, 0, 1], [1, 2, 0]] {
            let mut watchers = Watchers::new(2, 3);
            let mut open: Vec<_> =
                (0..3).map(|_| Some(watchers.open(|| snapshot(0)).unwrap())).collect();
            drop(open[gone].take());
            let mut reader = open[reads].take().unwrap();
            reader.next().await.unwrap().unwrap();
            for revision in 1..=4 {
                watchers.publish(revision - 1, revision, &[], || vec![deleted(revision)]);
                let got = reader.next().await.unwrap().unwrap();
                assert_eq!((got.revision, got.changes), (revision, vec![deleted(revision)]));
            }
            let queued: Vec<_> = open[slow].take().unwrap().collect().await;
            let revisions: Vec<_> = queued.iter().flatten().map(|one| one.revision).collect();
            assert_eq!(revisions, [0, 1, 2], "and then that it is too slow");
        }
    }

    #[tokio::test]
    async fn a_slow_reader_gets_what_is_queued_and_then_the_reason() {
        let mut watchers = Watchers::new(2, 1);
        let stream = watchers.open(|| snapshot(0)).unwrap();
        for revision in 1..=3 {
            watchers.publish(revision - 1, revision, &[], || vec![deleted(revision)]);
        }
        let mut got: Vec<_> = stream.collect().await;
        let end = got.pop().unwrap().unwrap_err();
        assert_eq!(end, WatchEnd::ReaderTooSlow);
        assert_eq!(got.len(), 3, "the snapshot and two deltas");
        assert!(got.iter().all(Result::is_ok));
        assert!(watchers.open(|| snapshot(3)).is_ok(), "its place is free again");
    }

    #[tokio::test]
    async fn a_revision_without_visible_changes_is_sent() {
        let mut watchers = Watchers::new(4, 1);
        let mut stream = watchers.open(|| snapshot(5)).unwrap();
        watchers.publish(5, 6, &[], Vec::new);
        watchers.publish(6, 6, &[], Vec::new);
        watchers.publish(6, 7, &[], || vec![deleted(1)]);
        stream.next().await.unwrap().unwrap();
        let second = stream.next().await.unwrap().unwrap();
        assert_eq!((second.revision, second.changes.len()), (6, 0));
        assert_eq!(stream.next().await.unwrap().unwrap().revision, 7);
    }

    #[tokio::test]
    async fn only_the_last_message_of_a_large_change_carries_its_revision() {
        let mut watchers = Watchers::new(4, 1);
        let mut stream = watchers.open(|| snapshot(5)).unwrap();
        let long = v1::Group { name: "g".repeat(BYTES_PER_DELTA), ..Default::default() };
        let long = v1::DirectoryChange { kind: Some(v1::directory_change::Kind::Group(long)) };
        watchers.publish(5, 6, &[], || vec![deleted(1), long, deleted(2)]);
        stream.next().await.unwrap().unwrap();
        let first = stream.next().await.unwrap().unwrap();
        let second = stream.next().await.unwrap().unwrap();
        assert_eq!((first.revision, first.changes.len()), (5, 2));
        assert_eq!((second.revision, second.changes.len()), (6, 1));
    }

    #[test]
    fn watches_are_bounded_and_closed_ones_do_not_count() {
        let mut watchers = Watchers::new(1, 1);
        let open = watchers.open(|| snapshot(0)).unwrap();
        assert_eq!(watchers.open(|| snapshot(0)).unwrap_err(), TooManyWatches { limit: 1 });
        drop(open);
        assert!(watchers.open(|| snapshot(0)).is_ok());
    }
}
