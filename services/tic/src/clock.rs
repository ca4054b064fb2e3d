//! The wall clock, for the creation times of records.

use std::time::{SystemTime, UNIX_EPOCH};

use fabricast_groups::Moment;

/// Returns the time since 1970.
pub(crate) fn wall_clock() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
