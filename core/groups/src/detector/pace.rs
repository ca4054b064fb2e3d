//! Adaptive timeouts from the intervals of a peer's earlier reports.
//!
//! Source: Hayashibara, Défago, Yared, Katayama, "The φ accrual failure detector", SRDS 2004,
//! section 5. There the level of suspicion `phi = -log10(P)` rises with the time since the last
//! report, where `P` is the probability that a report still arrives if the intervals are normally
//! distributed. A threshold on `phi` corresponds to a time: the mean interval plus a number of
//! standard deviations. A deadline therefore suffices, and the level need not be polled.
//!
//! Departures: 32 intervals are remembered instead of 1000, to keep the memory per pair of hosts
//! small, and the timeout never exceeds the fixed one, so that the bound of G5 holds (DET-4).

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Allowed levels of suspicion: from one wrong suspicion in three reports to one in 10^16.
pub const PHI: RangeInclusive<f64> = 0.5..=16.0;

/// Intervals remembered for each peer.
const WINDOW: usize = 32;
/// Intervals needed before timeouts adapt.
const FIRST: usize = 8;

/// Settings of timeouts that follow a peer's report intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    deviations: f64, // never NaN
    least: Duration,
}

impl Eq for Adaptive {}

impl Adaptive {
    /// Creates settings for a level of suspicion; `None` if `phi` is outside [`PHI`].
    ///
    /// - `phi`: 8 means that one report in 10^8 arrives after its timeout.
    /// - `least`: lower bound of the timeout, however regular the reports are. Two report intervals
    ///   are a good choice, so that one lost report raises no suspicion.
    pub fn new(phi: f64, least: Duration) -> Option<Self> {
        PHI.contains(&phi).then(|| Self { deviations: deviations(phi), least })
    }
}

/// Returns the number of standard deviations above the mean that a normally distributed value
/// exceeds with probability 10^-phi.
///
/// Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.23; the error is below
/// 0.00045.
fn deviations(phi: f64) -> f64 {
    let t = (2.0 * std::f64::consts::LN_10 * phi).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

/// The last intervals between reports of one peer, in microseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace(VecDeque<u32>);

impl Pace {
    /// Records an interval between two reports.
    ///
    /// - `most`: cap of the interval; a longer one means that the peer was away.
    pub(super) fn note(&mut self, interval: Duration, most: Duration) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        let micros = interval.min(most).as_micros();
        self.0.push_back(u32::try_from(micros).unwrap_or(u32::MAX));
    }

    /// Returns the timeout for the next report, at most `fixed` (DET-4). Cost: the intervals
    /// remembered.
    pub(super) fn timeout(&self, adaptive: Adaptive, fixed: Duration) -> Duration {
        let Ok(count) = u32::try_from(self.0.len()) else { return fixed };
        if self.0.len() < FIRST {
            return fixed;
        }
        let mean = self.0.iter().copied().map(f64::from).sum::<f64>() / f64::from(count);
        let square = |interval: &u32| (f64::from(*interval) - mean).powi(2);
        let variance = self.0.iter().map(square).sum::<f64>() / f64::from(count);
        let micros = mean + adaptive.deviations * variance.sqrt();
        let wait = Duration::try_from_secs_f64(micros / 1e6).unwrap_or(fixed);
        wait.max(adaptive.least).min(fixed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIXED: Duration = Duration::from_secs(2);
    const LEAST: Duration = Duration::from_millis(200);

    fn pace(intervals: &[u64]) -> Pace {
        let mut pace = Pace::default();
        for millis in intervals {
            pace.note(Duration::from_millis(*millis), FIXED);
        }
        pace
    }

    #[test]
    fn a_level_of_suspicion_is_the_quantile_of_the_normal_distribution() {
        // Tables of the normal distribution: P(x > z) = 10^-phi.
        for (phi, z) in [(1.0, 1.28155), (2.0, 2.32635), (3.0, 3.09023), (8.0, 5.61200)] {
            assert!((deviations(phi) - z).abs() < 0.000_5, "{phi}: {}", deviations(phi));
        }
        assert!(Adaptive::new(0.4, LEAST).is_none() && Adaptive::new(f64::NAN, LEAST).is_none());
    }

    #[test]
    fn regular_reports_are_overdue_earlier_than_irregular_ones() {
        let adaptive = Adaptive::new(8.0, LEAST).unwrap();
        let even = pace(&[500; 20]).timeout(adaptive, FIXED);
        assert_eq!(even, Duration::from_millis(500));
        let uneven = pace(&[400, 600].repeat(10)).timeout(adaptive, FIXED);
        assert_eq!(uneven.as_millis(), 500 + 561);
        assert_eq!(pace(&[50; 20]).timeout(adaptive, FIXED), LEAST);
        assert_eq!(pace(&[500; FIRST - 1]).timeout(adaptive, FIXED), FIXED, "too few to tell");
    }

    #[test]
    fn old_intervals_are_forgotten() {
        let adaptive = Adaptive::new(3.0, LEAST).unwrap();
        let mut intervals = vec![1_900; 40];
        intervals.extend([300; WINDOW]);
        assert_eq!(pace(&intervals).timeout(adaptive, FIXED), Duration::from_millis(300));
    }

    proptest! {
        /// DET-4.
        #[test]
        fn no_timeout_is_longer_than_the_fixed_one(
            intervals in proptest::collection::vec(0u64..100_000, 0..80),
            phi in 0.5f64..16.0,
            least in 0u64..5_000,
        ) {
            let adaptive = Adaptive::new(phi, Duration::from_millis(least)).unwrap();
            prop_assert!(pace(&intervals).timeout(adaptive, FIXED) <= FIXED);
        }
    }
}
