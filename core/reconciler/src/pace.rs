//! Periodic comparison of tables: a few at a time, for as long as the loop runs.
//!
//! One round compares every table once. The comparisons are spread over the interval of a round, so
//! that switches and agents always have a little work and never much at once. A round takes longer
//! if it would compare more tables per second than allowed.

use std::time::Duration;

/// Shortest time between two steps; if there are more tables than steps, one step takes several.
const MIN_STEP: Duration = Duration::from_millis(100);

/// Rate at which tables are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Time of a round.
    pub(crate) interval: Duration,
    /// Most tables per second, at least 1.
    pub(crate) rate: u32,
}

impl Pace {
    /// Number of tables to compare now, and time until the next step.
    ///
    /// - `tables`: number of tables in a round.
    pub(crate) fn step(self, tables: usize) -> (usize, Duration) {
        let tables = u32::try_from(tables).unwrap_or(u32::MAX).max(1);
        // Rounded up, so that the rate is never exceeded.
        let allowed = Duration::from_nanos(1_000_000_000_u64.div_ceil(self.rate.max(1).into()));
        let each = (self.interval / tables).max(allowed);
        let count = (MIN_STEP.as_nanos() / each.as_nanos()).max(1);
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
        assert_eq!(pace(10, 200).step(1_000), (10, MIN_STEP));
        assert_eq!(pace(10, 200).step(0), (1, Duration::from_secs(10)));
    }

    #[test]
    fn a_round_takes_longer_than_its_interval_if_the_rate_demands_it() {
        assert_eq!(pace(10, 200).step(7_680), (20, MIN_STEP));
        assert_eq!(pace(1, 2).step(100), (1, Duration::from_millis(500)));
    }

    proptest::proptest! {
        #[test]
        fn the_rate_is_never_exceeded_and_no_round_is_too_short(
            interval in 1u64..100_000, rate in 1u32..100_000, tables in 0u32..100_000,
        ) {
            let pace = Pace { interval: Duration::from_millis(interval), rate };
            let (count, pause) = pace.step(usize::try_from(tables).unwrap());
            let most = pause.as_nanos() * u128::from(rate);
            let read = u32::try_from(count).unwrap();
            proptest::prop_assert!(read >= 1 && u128::from(read) * 1_000_000_000 <= most);
            // And no round is shorter than its interval.
            let round = pause.as_secs_f64() / f64::from(read) * f64::from(tables.max(1));
            proptest::prop_assert!(round >= pace.interval.as_secs_f64() - 1e-3);
        }
    }
}
