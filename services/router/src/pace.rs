//! How fast tables are read back while nothing is wrong.
//!
//! One round compares every table once. Its tables are spread over the interval of a round, so that switches and
//! agents always have a little to do and never much at once. Where that would be more tables in a second than are
//! allowed, a round takes longer.

use std::time::Duration;

/// Steps follow each other no faster; with more tables than steps, one step takes several.
const STEP: Duration = Duration::from_millis(100);

/// How many tables to read in which time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Time for a round.
    pub(crate) interval: Duration,
    /// Tables in a second at most, at least 1.
    pub(crate) rate: u32,
}

impl Pace {
    /// Gives how many tables to read now, and how long to wait before the next are read.
    ///
    /// - `tables`: in a round.
    pub(crate) fn step(self, tables: usize) -> (usize, Duration) {
        let tables = u32::try_from(tables).unwrap_or(u32::MAX).max(1);
        // Rounded up, so that the rate is never exceeded.
        let allowed = Duration::from_nanos(1_000_000_000_u64.div_ceil(self.rate.max(1).into()));
        let each = (self.interval / tables).max(allowed);
        let count = (STEP.as_nanos() / each.as_nanos()).max(1);
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(tables);
        (usize::try_from(count).unwrap_or(usize::MAX), each * count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(interval: u64, rate: u32) -> Pace {
        Pace { interval: Duration::from_secs(interval), rate }
    }

    #[test]
    fn a_round_is_spread_over_its_interval() {
        assert_eq!(pace(10, 200).step(10), (1, Duration::from_secs(1)));
        assert_eq!(pace(10, 200).step(1_000), (10, STEP));
        assert_eq!(pace(10, 200).step(0), (1, Duration::from_secs(10)));
    }

    #[test]
    fn a_round_takes_longer_rather_than_being_too_fast() {
        assert_eq!(pace(10, 200).step(7_680), (20, STEP));
        assert_eq!(pace(1, 2).step(100), (1, Duration::from_millis(500)));
    }

    proptest::proptest! {
        #[test]
        fn no_second_has_more_tables_than_are_allowed(
            interval in 1u64..100_000, rate in 1u32..100_000, tables in 0u32..100_000,
        ) {
            let pace = Pace { interval: Duration::from_millis(interval), rate };
            let (count, pause) = pace.step(usize::try_from(tables).unwrap());
            let most = pause.as_nanos() * u128::from(rate);
            let read = u32::try_from(count).unwrap();
            proptest::prop_assert!(read >= 1 && u128::from(read) * 1_000_000_000 <= most);
            // Nor is a round shorter than it is to be.
            let round = pause.as_secs_f64() / f64::from(read) * f64::from(tables.max(1));
            proptest::prop_assert!(round >= pace.interval.as_secs_f64() - 1e-3);
        }
    }
}
