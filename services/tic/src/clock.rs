//! The wall clock, for the creation times of records, and a clock for leases.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabricast_groups::Moment;
use fabricast_store::Clock;
use rustix::time::{ClockId, clock_gettime};

/// Returns the time since 1970.
pub(crate) fn wall_clock() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Counts the time since the machine was started, also while it was suspended.
///
/// The clocks of the standard library and of tokio stop while a machine is suspended, but the
/// leases that a store has granted go on. A virtual machine that is paused from outside may not
/// notice it by any clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Duration {
        // It is negative before the machine has started.
        clock_gettime(ClockId::Boottime).try_into().unwrap_or_default()
    }
}
