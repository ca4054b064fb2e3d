//! Limits on batches: how many there are at one time, and how slowly their messages may come, as
//! those of other streams that are collected.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fabricast_rpc::Reason;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_stream::StreamExt;
use tonic::Status;
use tonic::codegen::BoxStream;

/// Most batches that are read or formed at one time; each is held in memory.
const BATCHES: usize = 4;
/// Most of them of one client, with those that wait.
const CLIENT_BATCHES: usize = 2;
/// Longest time to wait for others.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the caller of a stream to send the next message, or to take the next answer.
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for all messages of a batch, and time to wait for its caller after them.
pub(crate) const BATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// The same while others wait for a batch.
const CONTENDED_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for all messages of a topology, or of a report of choices.
pub(crate) const UPLOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which a batch that waits for its caller looks for others that wait.
const LOOK: Duration = Duration::from_secs(1);

/// The batches that are read or formed; others wait in the order in which they came.
#[derive(Debug)]
pub(crate) struct BatchPermits {
    free: Arc<Semaphore>,
    /// The batches of each client, with those that wait.
    clients: Mutex<BTreeMap<String, usize>>,
    waiting: AtomicUsize,
}

impl Default for BatchPermits {
    fn default() -> Self {
        let free = Arc::new(Semaphore::new(BATCHES));
        Self { free, clients: Mutex::default(), waiting: AtomicUsize::new(0) }
    }
}

/// A batch that waits; it no longer counts when this is dropped, also if its caller is gone.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A batch of a client; it no longer counts when this is dropped.
#[derive(Debug)]
struct ClientBatch {
    permits: Arc<BatchPermits>,
    client: String,
}

/// A batch that is read or formed.
#[derive(Debug)]
pub(crate) struct BatchPermit {
    of_client: ClientBatch,
    _permit: OwnedSemaphorePermit,
}

impl BatchPermits {
    /// Takes a permit for one batch of a client, and waits for it if there is none.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` / `LIMIT_REACHED` if the client has too many, or none is free in time.
    pub(crate) async fn take(permits: &Arc<Self>, client: String) -> Result<BatchPermit, Status> {
        let of_client = Self::count(permits, client)?;
        let waiting = Waiting::begin(&permits.waiting);
        let free = Arc::clone(&permits.free).acquire_owned();
        let permit = timeout(PERMIT_TIMEOUT, free).await;
        drop(waiting);
        match permit {
            Ok(Ok(permit)) => Ok(BatchPermit { of_client, _permit: permit }),
            _ => {
                Err(Reason::LimitReached.status(format!("{BATCHES} batches are being formed"), &[]))
            }
        }
    }

    /// Counts a batch of a client.
    fn count(permits: &Arc<Self>, client: String) -> Result<ClientBatch, Status> {
        let mut clients = permits.clients.lock();
        let own = clients.entry(client.clone()).or_default();
        if *own >= CLIENT_BATCHES {
            let refused = format!("{CLIENT_BATCHES} batches of this client are being formed");
            return Err(Reason::LimitReached.status(refused, &[]));
        }
        *own += 1;
        Ok(ClientBatch { permits: Arc::clone(permits), client })
    }
}

impl BatchPermit {
    fn others_wait(&self) -> bool {
        self.of_client.permits.waiting.load(Ordering::Relaxed) > 0
    }
}

impl Drop for ClientBatch {
    fn drop(&mut self) {
        let mut open = self.permits.clients.lock();
        if let Some(own) = open.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.client);
            }
        }
    }
}

/// The messages of a stream, each of which must come in time.
pub(crate) struct PacedMessages<T> {
    messages: BoxStream<T>,
    begun: Instant,
    /// Time for all of them.
    most: Duration,
    /// Permit to read the messages after the first.
    permit: Option<BatchPermit>,
}

impl<T> PacedMessages<T> {
    /// The messages of a batch.
    pub(crate) fn new(messages: BoxStream<T>) -> Self {
        Self::within(BATCH_TIMEOUT, messages)
    }

    /// The messages of a stream that has to end in some time.
    pub(crate) fn within(most: Duration, messages: BoxStream<T>) -> Self {
        Self { messages, begun: Instant::now(), most, permit: None }
    }

    /// Goes on with the messages after the first.
    pub(crate) fn permit(&mut self, permit: BatchPermit) {
        (self.begun, self.permit) = (Instant::now(), Some(permit));
    }

    /// Ends the reading; the permit is for the forming then.
    pub(crate) fn into_caller_time(self) -> CallerTime {
        CallerTime { permit: self.permit, waited: Duration::ZERO }
    }

    /// Waits for the next message; `None` after the last.
    ///
    /// # Errors
    ///
    /// That of the caller, or `DEADLINE_EXCEEDED` / `REQUEST_TOO_SLOW` if none comes in time.
    pub(crate) async fn next(&mut self) -> Result<Option<T>, Status> {
        let due = Instant::now() + MESSAGE_TIMEOUT;
        loop {
            let is_contended = self.permit.as_ref().is_some_and(BatchPermit::others_wait);
            let all = if is_contended { CONTENDED_TIMEOUT } else { self.most };
            let due = due.min(self.begun + all);
            let look = due.min(Instant::now() + LOOK);
            if let Ok(message) = timeout_at(look, self.messages.next()).await {
                return message.transpose();
            }
            if due <= Instant::now() {
                let late = "the messages of the call come too slowly";
                return Err(Reason::RequestTooSlow.status(late, &[]));
            }
        }
    }
}

/// Time that a batch waits for its caller once it has been read: until the client's other work is
/// done and paid for, and until answers are taken.
pub(crate) struct CallerTime {
    permit: Option<BatchPermit>,
    /// All waits so far.
    waited: Duration,
}

impl CallerTime {
    /// Waits for a step of the caller; `None` if that takes too long by itself, or with all waits
    /// before it.
    ///
    /// - `most`: longest time for this step.
    pub(crate) async fn wait<T>(
        &mut self,
        most: Duration,
        step: impl Future<Output = T>,
    ) -> Option<T> {
        let begun = Instant::now();
        let mut step = pin!(step);
        loop {
            let is_contended = self.permit.as_ref().is_some_and(BatchPermit::others_wait);
            let all = if is_contended { CONTENDED_TIMEOUT } else { BATCH_TIMEOUT };
            let due = begun + most.min(all.saturating_sub(self.waited));
            let look = due.min(Instant::now() + LOOK);
            if let Ok(done) = timeout_at(look, step.as_mut()).await {
                self.waited += begun.elapsed();
                return Some(done);
            }
            if due <= Instant::now() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fabricast_proto::v1;
    use tokio_stream::{iter, pending};
    use tonic::Code;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_client_leaves_permits_to_others() {
        let permits = Arc::default();
        let take = |client: &str| BatchPermits::take(&permits, client.to_owned());
        let held = [take("a").await.unwrap(), take("a").await.unwrap()];
        assert_eq!(take("a").await.unwrap_err().code(), Code::ResourceExhausted);
        let other = [take("b").await.unwrap(), take("b").await.unwrap()];
        let begun = Instant::now();
        assert_eq!(take("c").await.unwrap_err().code(), Code::ResourceExhausted);
        assert_eq!(begun.elapsed(), PERMIT_TIMEOUT);
        // A caller that is gone waits no more.
        assert!(timeout(LOOK, take("d")).await.is_err());
        assert!(!other[0].others_wait());
        drop(held);
        take("c").await.unwrap();
        drop(other);
        assert!(permits.clients.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn batches_that_come_bit_by_bit_keep_nobody_waiting_for_long() {
        let permits = Arc::<BatchPermits>::default();
        let bits = || iter(std::iter::repeat_with(|| Ok(v1::FormGroupsRequest::default())));
        for client in ["a", "a", "b", "b"] {
            let permit = BatchPermits::take(&permits, client.to_owned()).await.unwrap();
            let mut slow = PacedMessages::new(Box::pin(bits().throttle(LOOK * 3)));
            slow.permit(permit);
            tokio::spawn(async move { while slow.next().await.is_ok() {} });
        }
        tokio::time::sleep(LOOK).await;
        let begun = Instant::now();
        BatchPermits::take(&permits, "c".to_owned()).await.unwrap();
        assert!(begun.elapsed() <= CONTENDED_TIMEOUT, "{:?}", begun.elapsed());
    }

    /// Takes an answer of a batch each nine seconds.
    async fn take_slowly(mut caller: CallerTime) {
        let answer = || tokio::time::sleep(MESSAGE_TIMEOUT - LOOK);
        while caller.wait(MESSAGE_TIMEOUT, answer()).await.is_some() {}
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_take_answers_slowly_keep_nobody_waiting_for_long() {
        let permits = Arc::<BatchPermits>::default();
        let caller = async |client: &str| {
            let permit = BatchPermits::take(&permits, client.to_owned()).await.unwrap();
            CallerTime { permit: Some(permit), waited: Duration::ZERO }
        };
        let begun = Instant::now();
        take_slowly(caller("a").await).await;
        assert_eq!(begun.elapsed(), BATCH_TIMEOUT, "while nobody waits");
        for client in ["a", "a", "b", "b"] {
            tokio::spawn(take_slowly(caller(client).await));
        }
        tokio::time::sleep(LOOK * 20).await;
        let begun = Instant::now();
        BatchPermits::take(&permits, "c".to_owned()).await.unwrap();
        assert!(begun.elapsed() <= LOOK * 2, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn every_message_must_come_in_time() {
        let begun = Instant::now();
        let one = || iter([Ok(v1::FormGroupsRequest::default())]);
        let mut silent = PacedMessages::<v1::FormGroupsRequest>::new(Box::pin(pending()));
        assert_eq!(silent.next().await.unwrap_err().code(), Code::DeadlineExceeded);
        assert_eq!(begun.elapsed(), MESSAGE_TIMEOUT);
        let mut stalled = PacedMessages::new(Box::pin(one().chain(pending())));
        stalled.next().await.unwrap().unwrap();
        assert_eq!(stalled.next().await.unwrap_err().code(), Code::DeadlineExceeded);
        let mut complete = PacedMessages::new(Box::pin(one()));
        complete.next().await.unwrap().unwrap();
        assert!(complete.next().await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_comes_bit_by_bit_ends_all_the_same() {
        let begun = Instant::now();
        let bits = iter(std::iter::repeat_with(|| Ok(v1::FormGroupsRequest::default())));
        let slow = bits.throttle(MESSAGE_TIMEOUT / 2);
        let mut slow = PacedMessages::new(Box::pin(slow));
        while slow.next().await.is_ok() {}
        assert_eq!(begun.elapsed(), BATCH_TIMEOUT);
    }
}
