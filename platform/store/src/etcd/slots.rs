//! Slots for the receipts of transactions under way: a bounded number of keys that are used again,
//! each with a growing number.

use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::StoreError;

/// Transactions under way at once.
const SLOTS: usize = 64;

/// The slots of one client.
#[derive(Debug)]
pub(crate) struct Slots {
    /// Distinguishes this client's receipts from those of others.
    pub(crate) client: u64,
    /// Free slots, each with the number of its last transaction.
    unused: Mutex<Vec<(usize, u64)>>,
    free: Semaphore,
    queue: Semaphore,
    max_queue: usize,
}

/// A slot in use; dropping it frees it.
pub(crate) struct Slot<'a> {
    slots: &'a Slots,
    pub(crate) index: usize,
    /// Number of the transaction that uses the slot.
    pub(crate) number: u64,
    _free: SemaphorePermit<'a>,
}

impl Slots {
    /// - `max_queue`: transactions that may wait for a slot.
    pub(crate) fn new(max_queue: usize) -> Self {
        Self {
            client: RandomState::new().hash_one(std::process::id()),
            unused: Mutex::new((0..SLOTS).map(|index| (index, 0)).collect()),
            free: Semaphore::new(SLOTS),
            queue: Semaphore::new(max_queue),
            max_queue,
        }
    }

    /// Waits for a slot; fails if too many transactions wait already.
    pub(crate) async fn take(&self) -> Result<Slot<'_>, StoreError> {
        let overloaded = |_| StoreError::Overloaded { queue: "write queue", limit: self.max_queue };
        let _queued = self.queue.try_acquire().map_err(overloaded)?;
        let free = self.free.acquire().await.map_err(|_| StoreError::Closed)?;
        let unused = self.unused.lock().pop();
        let (index, last) = unused.expect("there are as many permits as slots");
        Ok(Slot { slots: self, index, number: last + 1, _free: free })
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.unused.lock().push((self.index, self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_freed_slot_has_a_higher_number_next_time() {
        let slots = Slots::new(1);
        let (index, number) = {
            let slot = slots.take().await.unwrap();
            (slot.index, slot.number)
        };
        let slot = slots.take().await.unwrap();
        assert_eq!((slot.index, slot.number), (index, number + 1));
    }

    #[tokio::test]
    async fn a_caller_is_refused_when_too_many_wait() {
        let slots = Slots::new(1);
        let mut taken = Vec::new();
        for _ in 0..SLOTS {
            taken.push(slots.take().await.unwrap());
        }
        let waiting = slots.take();
        tokio::pin!(waiting);
        assert!(is_pending(&mut waiting).await);
        assert!(matches!(slots.take().await, Err(StoreError::Overloaded { .. })));
        taken.pop();
        assert!(waiting.await.is_ok());
    }

    /// Polls a future once and returns whether it has to wait.
    async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        })
        .await
    }
}
