//! The task behind one watch: follows etcd across broken streams and dead members.
//!
//! A stream of etcd ends when its member does. The next one begins after the last revision that
//! was delivered whole, so nothing is missed and nothing comes twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::error::StoreError;
use crate::etcd::client::Client;
use crate::etcd::keys::{Keys, prefix_end, to_signed, to_unsigned};
use crate::etcd::txn::header_revision;
use crate::etcd::wire::{self, EventType};
use crate::watch::{Change, WatchBatch};

/// Pause before a broken stream is opened again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MOST_PAUSE: Duration = Duration::from_millis(500);

/// Where a watch stands.
pub(crate) struct Pump {
    pub(crate) client: Arc<Client>,
    pub(crate) keys: Keys,
    pub(crate) prefix: Vec<u8>,
    /// The first revision that has not been delivered.
    pub(crate) next: u64,
    pub(crate) sender: mpsc::Sender<Result<WatchBatch, StoreError>>,
}

/// A stream of etcd's, with what keeps its sending side open.
pub(crate) struct Opened {
    answers: Streaming<wire::WatchResponse>,
    _requests: mpsc::Sender<wire::WatchRequest>,
    member: usize,
}

/// Why one stream ended.
enum End {
    /// The reader of the watch is gone.
    ReaderGone,
    /// The history does not reach back so far.
    Compacted { oldest: u64 },
    /// The stream broke.
    Broken(Status),
}

impl Pump {
    /// Opens the first stream and waits for etcd's word that the watch stands.
    ///
    /// # Errors
    ///
    /// [`StoreError::Compacted`]; [`StoreError::Unavailable`] if no member answers for `patience`.
    pub(crate) async fn begin(&mut self, patience: Duration) -> Result<Opened, StoreError> {
        let mut pause = FIRST_PAUSE;
        let mut waited = Duration::ZERO;
        loop {
            match self.open().await {
                Ok(opened) => return Ok(opened),
                Err(End::Broken(status)) if waited >= patience => {
                    return Err(StoreError::Unavailable { source: Arc::new(status) });
                }
                Err(End::Compacted { oldest }) => return Err(self.compacted(oldest)),
                Err(End::Broken(_) | End::ReaderGone) => {}
            }
            sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(MOST_PAUSE);
        }
    }

    /// Runs until the reader is gone or the history no longer reaches back to where it stands.
    pub(crate) async fn run(mut self, first: Opened) {
        let mut stream = Some(first);
        let mut pause = FIRST_PAUSE;
        loop {
            let before = self.next;
            let end = match stream.take() {
                Some(opened) => self.follow(opened).await,
                None => match self.open().await {
                    Ok(opened) => {
                        stream = Some(opened);
                        continue;
                    }
                    Err(end) => end,
                },
            };
            match end {
                End::ReaderGone => return,
                End::Compacted { oldest } => {
                    // A reader that is gone needs no reason.
                    let _ = self.sender.send(Err(self.compacted(oldest))).await;
                    return;
                }
                End::Broken(status) => {
                    tracing::debug!(error = status.message(), "etcd watch broken, opened again");
                }
            }
            pause = if self.next > before { FIRST_PAUSE } else { (pause * 2).min(MOST_PAUSE) };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.sender.closed() => return,
            }
        }
    }

    fn compacted(&self, oldest: u64) -> StoreError {
        StoreError::Compacted { asked: self.next, oldest }
    }

    async fn open(&mut self) -> Result<Opened, End> {
        let (requests, outbound) = mpsc::channel(1);
        let key = self.keys.data(&self.prefix);
        let create = wire::WatchCreateRequest {
            range_end: prefix_end(&key),
            key,
            start_revision: to_signed(self.next),
            progress_notify: true,
            fragment: true,
        };
        let create = wire::WatchRequest { create_request: Some(create) };
        // The channel is new and has room for one.
        let _ = requests.send(create).await;
        let member = self.client.member();
        let opened = self.client.stream(wire::path::WATCH, ReceiverStream::new(outbound)).await;
        let mut answers: Streaming<wire::WatchResponse> = opened.map_err(End::Broken)?;
        // etcd says "created" first, and then, if that is so, that the start is compacted.
        let created = answers.message().await.map_err(End::Broken)?;
        match created {
            Some(answer) if answer.canceled => Err(refused(&answer)),
            Some(answer) => {
                let opened = Opened { answers, _requests: requests, member };
                self.confirm(opened, header_revision(answer.header)).await
            }
            None => Err(End::Broken(Status::unavailable("the stream ended at once"))),
        }
    }

    /// Makes sure that a watch of the past was not refused right after it was created.
    ///
    /// - `newest`: etcd's revision at that time.
    async fn confirm(&self, opened: Opened, newest: u64) -> Result<Opened, End> {
        if self.next > newest {
            return Ok(opened);
        }
        let oldest = self.oldest().await?;
        if self.next < oldest { Err(End::Compacted { oldest }) } else { Ok(opened) }
    }

    /// The oldest revision that etcd still has, as far as this store knows; 0 if it never forgot
    /// one. Another's compaction is told by the stream.
    async fn oldest(&self) -> Result<u64, End> {
        let request = wire::RangeRequest { key: self.keys.compacted(), ..Default::default() };
        let first = Duration::from_secs(1);
        let found = self.client.call(wire::path::RANGE, &request, first).await;
        let found: wire::RangeResponse = found.map_err(|failure| End::Broken(failure.status))?;
        let number = |entry: &wire::KeyValue| std::str::from_utf8(&entry.value).ok()?.parse().ok();
        Ok(found.kvs.first().and_then(number).map_or(0, |until: u64| until + 1))
    }

    async fn follow(&mut self, opened: Opened) -> End {
        let Opened { mut answers, _requests, member } = opened;
        let mut batch = Gathered::default();
        loop {
            let answer = tokio::select! {
                answer = answers.message() => answer,
                () = self.sender.closed() => return End::ReaderGone,
            };
            let ended = || Status::unavailable("the stream ended");
            let answer = match answer.and_then(|answer| answer.ok_or_else(ended)) {
                Ok(answer) => answer,
                Err(status) => {
                    self.client.leave(member);
                    return End::Broken(status);
                }
            };
            if answer.canceled {
                return refused(&answer);
            }
            let (whole, newest) = (!answer.fragment, header_revision(answer.header));
            let is_idle = answer.events.is_empty();
            for batch in batch.take_in(&self.keys, answer.events, whole) {
                self.next = batch.revision + 1;
                if self.sender.send(Ok(batch)).await.is_err() {
                    return End::ReaderGone;
                }
            }
            if whole && is_idle {
                // Word that all up to here has been delivered.
                self.next = self.next.max(newest + 1);
            }
        }
    }
}

fn refused(answer: &wire::WatchResponse) -> End {
    if answer.compact_revision > 0 {
        End::Compacted { oldest: to_unsigned(answer.compact_revision) }
    } else {
        End::Broken(Status::unavailable(format!("watch cancelled: {}", answer.cancel_reason)))
    }
}

/// Events on their way to whole revisions.
#[derive(Default)]
struct Gathered {
    /// The newest revision, of which more may come.
    open: Option<WatchBatch>,
}

impl Gathered {
    /// Sorts events by revision and answers the revisions that are whole.
    ///
    /// - `whole`: no further piece of this answer follows.
    fn take_in(&mut self, keys: &Keys, events: Vec<wire::Event>, whole: bool) -> Vec<WatchBatch> {
        let mut done = Vec::new();
        for event in events {
            let deleted = event.kind == i32::from(EventType::Delete);
            let Some(kv) = event.kv else { continue };
            let Some(key) = keys.callers(&kv.key) else { continue };
            let revision = to_unsigned(kv.mod_revision);
            let change = Change { key, value: (!deleted).then_some(kv.value) };
            match &mut self.open {
                Some(open) if open.revision == revision => open.changes.push(change),
                _ => done.extend(self.open.replace(WatchBatch { revision, changes: vec![change] })),
            }
        }
        if whole {
            done.extend(self.open.take());
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(keys: &Keys, key: &str, revision: i64) -> wire::Event {
        let kv = wire::KeyValue {
            key: keys.data(key.as_bytes()),
            mod_revision: revision,
            ..Default::default()
        };
        wire::Event { kind: EventType::Put.into(), kv: Some(kv) }
    }

    fn shape(batches: &[WatchBatch]) -> Vec<(u64, usize)> {
        batches.iter().map(|batch| (batch.revision, batch.changes.len())).collect()
    }

    #[test]
    fn a_revision_that_came_in_pieces_is_delivered_whole() {
        let keys = Keys::new("p");
        let mut gathered = Gathered::default();
        let first = vec![put(&keys, "a", 3), put(&keys, "a", 4), put(&keys, "b", 4)];
        assert_eq!(shape(&gathered.take_in(&keys, first, false)), [(3, 1)]);
        let rest = vec![put(&keys, "c", 4), put(&keys, "a", 7)];
        assert_eq!(shape(&gathered.take_in(&keys, rest, true)), [(4, 3), (7, 1)]);
        assert!(gathered.take_in(&keys, Vec::new(), true).is_empty());
    }
}
