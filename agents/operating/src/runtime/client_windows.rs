//! Limits the calls that each client has in progress: a client has a window of permits of its own,
//! and does not wait for those of others.
//!
//! Invariants
//! - Those that wait for permits of one client get them in their order.
//! - The window of a client is known while somebody has, or waits for, a permit of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The windows of all clients.
#[derive(Debug)]
pub(crate) struct ClientWindows {
    /// Permits of each client.
    size: usize,
    known: Arc<KnownWindows>,
}

/// Windows by client.
type KnownWindows = Mutex<BTreeMap<u64, Weak<Window>>>;

#[derive(Debug)]
struct Window {
    client: u64,
    free: Arc<Semaphore>,
    known: Arc<KnownWindows>,
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut known = self.known.lock();
        // Another one may have taken its place meanwhile.
        if known.get(&self.client).is_some_and(|window| window.strong_count() == 0) {
            known.remove(&self.client);
        }
    }
}

/// Permits of one client, until they are dropped.
#[derive(Debug)]
pub(crate) struct Permits {
    held: OwnedSemaphorePermit,
    window: Arc<Window>,
}

impl Permits {
    /// Takes one of them; `None` if none is left.
    pub(crate) fn split_one(&mut self) -> Option<Self> {
        let held = self.held.split(1)?;
        Some(Self { held, window: Arc::clone(&self.window) })
    }
}

impl ClientWindows {
    /// - `size`: permits of each client.
    pub(crate) fn new(size: usize) -> Self {
        Self { size, known: Arc::default() }
    }

    /// Waits for permits of a client.
    ///
    /// - `count`: not more than a client has.
    pub(crate) async fn take(&self, client: u64, count: usize) -> Permits {
        let window = self.window(client);
        let count = u32::try_from(count.min(self.size)).unwrap_or(u32::MAX);
        let held = Arc::clone(&window.free).acquire_many_owned(count).await;
        Permits { held: held.expect("it is never closed"), window }
    }

    fn window(&self, client: u64) -> Arc<Window> {
        let mut known = self.known.lock();
        if let Some(window) = known.get(&client).and_then(Weak::upgrade) {
            return window;
        }
        let free = Arc::new(Semaphore::new(self.size));
        let window = Arc::new(Window { client, free, known: Arc::clone(&self.known) });
        known.insert(client, Arc::downgrade(&window));
        window
    }

    /// Returns whether nobody has, or waits for, a permit.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.known.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::testing::at_once;

    #[tokio::test]
    async fn who_waits_for_permits_gets_them_in_order_and_nobody_waits_for_another_client() {
        let windows = ClientWindows::new(4);
        let first = windows.take(1, 3).await;
        let mut second = pin!(windows.take(1, 2));
        let mut third = pin!(windows.take(1, 1));
        assert!(at_once(second.as_mut()).await.is_none());
        assert!(at_once(third.as_mut()).await.is_none(), "one is free, but another was first");
        assert!(at_once(pin!(windows.take(2, 4))).await.is_some());
        drop(first);
        assert!(at_once(second.as_mut()).await.is_some());
        assert!(at_once(third.as_mut()).await.is_some());
    }

    #[tokio::test]
    async fn a_window_is_known_until_the_last_permit_is_given_back() {
        let windows = ClientWindows::new(4);
        let mut some = windows.take(1, 2).await;
        let one = some.split_one();
        drop(some);
        let mut waiting = Box::pin(windows.take(1, 4));
        assert!(at_once(waiting.as_mut()).await.is_none());
        drop(one);
        let all = at_once(waiting.as_mut()).await;
        assert!(!windows.is_empty());
        drop((waiting, all));
        assert!(windows.is_empty());
        // A caller that goes away while it waits.
        let all = windows.take(1, 4).await;
        let mut waiting = Box::pin(windows.take(1, 1));
        assert!(at_once(waiting.as_mut()).await.is_none());
        drop((waiting, all));
        assert!(windows.is_empty());
    }
}
