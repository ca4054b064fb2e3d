//! The task behind one watch: follows etcd across broken streams and dead members.
//!
//! A stream of etcd ends when its member does. The next one begins after the last revision that
//! was delivered whole, so nothing is missed and nothing comes twice.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::proto::{PbEvent, PbWatchResponse};
use etcd_client::{EventType, GetOptions, WatchOptions, WatchStream};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tonic::Status;

use crate::error::StoreError;
use crate::etcd::keys::{Keys, to_signed, to_unsigned};
use crate::etcd::members::{Members, QUICK, to_status};
use crate::watch::{Change, WatchBatch};

/// Pause before a broken stream is opened again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MOST_PAUSE: Duration = Duration::from_millis(500);

/// State of a watch.
pub(crate) struct Pump {
    pub(crate) members: Arc<Members>,
    pub(crate) keys: Keys,
    pub(crate) prefix: Vec<u8>,
    /// The first revision that was not delivered.
    pub(crate) next: u64,
    pub(crate) sender: mpsc::Sender<Result<WatchBatch, StoreError>>,
}

/// A stream from one member.
pub(crate) struct Opened {
    stream: WatchStream,
    /// Index of the member.
    member: usize,
}

impl Opened {
    async fn next(&mut self) -> Result<PbWatchResponse, Status> {
        let answer = self.stream.message().await.map_err(to_status)?;
        answer.map(|answer| answer.0).ok_or_else(|| Status::unavailable("the stream ended"))
    }
}

/// Reason why a stream ended.
enum End {
    /// The reader of the watch is gone.
    ReaderGone,
    /// The history no longer reaches back so far.
    Compacted { oldest: u64 },
    /// The stream broke.
    Broken(Status),
}

impl Pump {
    /// Opens the first stream and waits until etcd confirms the watch.
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

    /// Runs until the reader is gone or the history no longer reaches back to `next`.
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
                    // A failed send means that the reader is gone.
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
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(to_signed(self.next))
            .with_progress_notify()
            .with_fragment();
        let member = self.members.current();
        let stream = self.members.watch(self.keys.data(&self.prefix), options).await;
        let mut opened = Opened { stream: stream.map_err(End::Broken)?, member };
        // etcd first confirms the watch, and only then says that its start was compacted.
        let created = opened.next().await.map_err(End::Broken)?;
        if created.canceled {
            Err(refused(&created))
        } else {
            self.confirm(opened, newest(&created)).await
        }
    }

    /// Checks that a watch of the past is not refused right after its creation.
    ///
    /// - `newest`: etcd's revision at that time.
    async fn confirm(&self, opened: Opened, newest: u64) -> Result<Opened, End> {
        if self.next > newest {
            return Ok(opened);
        }
        let oldest = self.oldest().await?;
        if self.next < oldest { Err(End::Compacted { oldest }) } else { Ok(opened) }
    }

    /// Returns the oldest revision that etcd still has, as this store knows; 0 if it never
    /// compacted. The stream reports compactions by others.
    async fn oldest(&self) -> Result<u64, End> {
        let found = self.members.get(&self.keys.compacted(), &GetOptions::new(), QUICK).await;
        let found = found.map_err(|failure| End::Broken(failure.status))?;
        let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
        let compacted = found.kvs.first().and_then(|entry| number(&entry.value));
        Ok(compacted.map_or(0, |until: u64| until + 1))
    }

    async fn follow(&mut self, mut opened: Opened) -> End {
        let mut batch = Gathered::default();
        loop {
            let answer = tokio::select! {
                answer = opened.next() => answer,
                () = self.sender.closed() => return End::ReaderGone,
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(status) => {
                    self.members.leave(opened.member);
                    return End::Broken(status);
                }
            };
            if answer.canceled {
                return refused(&answer);
            }
            let (whole, newest) = (!answer.fragment, newest(&answer));
            let is_idle = answer.events.is_empty();
            for batch in batch.take_in(&self.keys, answer.events, whole) {
                self.next = batch.revision + 1;
                if self.sender.send(Ok(batch)).await.is_err() {
                    return End::ReaderGone;
                }
            }
            if whole && is_idle {
                // Everything up to here was delivered.
                self.next = self.next.max(newest + 1);
            }
        }
    }
}

/// etcd's revision when it answered.
fn newest(answer: &PbWatchResponse) -> u64 {
    to_unsigned(answer.header.as_ref().map_or(0, |header| header.revision))
}

fn refused(answer: &PbWatchResponse) -> End {
    if answer.compact_revision > 0 {
        End::Compacted { oldest: to_unsigned(answer.compact_revision) }
    } else {
        End::Broken(Status::unavailable(format!("watch cancelled: {}", answer.cancel_reason)))
    }
}

/// Assembles events into whole revisions.
#[derive(Default)]
struct Gathered {
    /// The newest revision, which may be incomplete.
    open: Option<WatchBatch>,
}

impl Gathered {
    /// Sorts events by revision and returns the revisions that are complete.
    ///
    /// - `whole`: no further fragment of the answer follows.
    fn take_in(&mut self, keys: &Keys, events: Vec<PbEvent>, whole: bool) -> Vec<WatchBatch> {
        let mut done = Vec::new();
        for event in events {
            let deleted = event.r#type == EventType::Delete as i32;
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
    use etcd_client::proto::PbKeyValue;

    use super::*;

    fn put(keys: &Keys, key: &str, revision: i64) -> PbEvent {
        let kv = PbKeyValue {
            key: keys.data(key.as_bytes()),
            mod_revision: revision,
            ..Default::default()
        };
        PbEvent { kv: Some(kv), ..Default::default() }
    }

    fn shape(batches: &[WatchBatch]) -> Vec<(u64, usize)> {
        batches.iter().map(|batch| (batch.revision, batch.changes.len())).collect()
    }

    #[test]
    fn a_revision_in_fragments_is_delivered_whole() {
        let keys = Keys::new("p");
        let mut gathered = Gathered::default();
        let first = vec![put(&keys, "a", 3), put(&keys, "a", 4), put(&keys, "b", 4)];
        assert_eq!(shape(&gathered.take_in(&keys, first, false)), [(3, 1)]);
        let rest = vec![put(&keys, "c", 4), put(&keys, "a", 7)];
        assert_eq!(shape(&gathered.take_in(&keys, rest, true)), [(4, 3), (7, 1)]);
        assert!(gathered.take_in(&keys, Vec::new(), true).is_empty());
    }
}
