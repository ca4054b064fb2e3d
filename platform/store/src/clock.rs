//! The clock of the embedded store, an argument so that tests of leases need not wait.

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A monotonic clock. Only differences between two readings mean anything.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the time since some fixed moment.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that moves only by [`ManualClock::advance`].
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<Duration>,
}

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *self.now.lock() += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.now.lock()
    }
}
