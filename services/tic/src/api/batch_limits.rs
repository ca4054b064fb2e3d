//! Limits on batches: how many there are at one time, and how slowly their messages may come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_rpc::Reason;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_stream::StreamExt;
use tonic::Status;
use tonic::codegen::BoxStream;

/// Most batches that are read or formed at one time; each is held in memory.
const BATCHES: usize = 4;
/// Most of them of one client.
const CLIENT_BATCHES: usize = 2;
/// Time for the caller of a batch to send the next message, or to take the next answer.
pub(crate) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for all messages of a batch.
const BATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// The batches of each client that are read or formed.
#[derive(Debug, Default)]
pub(crate) struct BatchPermits(Mutex<BTreeMap<String, usize>>);

/// A batch that is read or formed.
#[derive(Debug)]
pub(crate) struct BatchPermit {
    permits: Arc<BatchPermits>,
    client: String,
}

impl BatchPermits {
    /// Takes a permit for one batch of a client.
    pub(crate) fn take(permits: &Arc<Self>, client: String) -> Result<BatchPermit, Status> {
        let mut open = permits.0.lock();
        let (all, own) = (open.values().sum::<usize>(), open.get(&client).copied().unwrap_or(0));
        let refused = match (all >= BATCHES, own >= CLIENT_BATCHES) {
            (true, _) => format!("{BATCHES} batches are being formed"),
            (_, true) => format!("{CLIENT_BATCHES} batches of this client are being formed"),
            (false, false) => {
                *open.entry(client.clone()).or_default() += 1;
                return Ok(BatchPermit { permits: Arc::clone(permits), client });
            }
        };
        Err(Reason::LimitReached.status(refused, &[]))
    }
}

impl Drop for BatchPermit {
    fn drop(&mut self) {
        let mut open = self.permits.0.lock();
        if let Some(own) = open.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.client);
            }
        }
    }
}

/// The messages of a batch, each of which must come in time.
pub(crate) struct PacedMessages {
    messages: BoxStream<v1::FormGroupsRequest>,
    deadline: Instant,
}

impl PacedMessages {
    pub(crate) fn new(messages: BoxStream<v1::FormGroupsRequest>) -> Self {
        Self { messages, deadline: Instant::now() + BATCH_TIMEOUT }
    }

    /// Waits for the next message; `None` after the last.
    ///
    /// # Errors
    ///
    /// That of the caller, or `DEADLINE_EXCEEDED` if none comes in time.
    pub(crate) async fn next(&mut self) -> Result<Option<v1::FormGroupsRequest>, Status> {
        let due = self.deadline.min(Instant::now() + MESSAGE_TIMEOUT);
        let late =
            |_elapsed| Status::deadline_exceeded("the messages of the batch come too slowly");
        timeout_at(due, self.messages.next()).await.map_err(late)?.transpose()
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::{iter, pending};
    use tonic::Code;

    use super::*;

    #[test]
    fn one_client_leaves_permits_to_others() {
        let permits = Arc::default();
        let take = |client: &str| BatchPermits::take(&permits, client.to_owned());
        let held: Vec<_> = (0..CLIENT_BATCHES).map(|_| take("a").unwrap()).collect();
        assert_eq!(take("a").unwrap_err().code(), Code::ResourceExhausted);
        let other: Vec<_> = (CLIENT_BATCHES..BATCHES).map(|_| take("b").unwrap()).collect();
        assert_eq!(take("c").unwrap_err().code(), Code::ResourceExhausted);
        drop(held);
        take("c").unwrap();
        drop(other);
        assert!(permits.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn every_message_must_come_in_time() {
        let begun = Instant::now();
        let one = || iter([Ok(v1::FormGroupsRequest::default())]);
        let mut silent = PacedMessages::new(Box::pin(pending()));
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
