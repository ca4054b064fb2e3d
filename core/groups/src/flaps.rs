//! Flap damping: suppresses nodes that fail and return too often.
//!
//! Every flap of a node, an expulsion or a new start of its agent, adds 1 to the node's penalty.
//! The penalty halves in every half-life. A node whose penalty passes the limit is suppressed until
//! the penalty has fallen to half of the limit. That moment is computed at once and kept in the
//! node's record, so a new leader decides alike. The penalty is capped at four times the limit: no
//! node is suppressed for longer than three half-lives after its last flap.
//!
//! Source: BGP route flap damping, RFC 2439, section 4.2. There a table gives the decay at discrete
//! steps; here it is exact at every half-life and linear in between.
//!
//! Invariants
//! - FLAP-1: a suppressed node becomes a group's agent only if every member's node is suppressed.
//! - FLAP-2: a node is suppressed for at most three half-lives after its last flap.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Moment;

/// Penalty of one flap; penalties are counted in thousandths.
const ONE_FLAP: u64 = 1_000;
/// Cap of a penalty, as a multiple of the limit.
const CAP: u64 = 4;

/// Settings of flap damping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlapDamping {
    /// Restriction of a suppressed node.
    pub policy: FlapPolicy,
    /// Penalty in flaps above which a node is suppressed; 0 counts as 1.
    pub limit: u32,
    /// Time in which a penalty halves.
    pub half_life: Duration,
}

impl Default for FlapDamping {
    /// Creates settings that suppress no node.
    fn default() -> Self {
        Self { policy: FlapPolicy::Off, limit: 3, half_life: Duration::from_secs(60) }
    }
}

impl FlapDamping {
    fn most(&self) -> u64 {
        u64::from(self.limit.max(1)) * ONE_FLAP
    }
}

/// Restriction of a suppressed node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlapPolicy {
    /// Nobody is suppressed.
    Off,
    /// It hosts no group agents while another member's node can.
    NoHost,
    /// It is not readmitted.
    Refuse,
}

/// Penalty of a node, as kept in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaps {
    /// Penalty at the last flap, in thousandths of a flap.
    pub penalty: u64,
    /// Time of the last flap, on the TIC's clock.
    pub at: Moment,
    /// End of the suppression; `None` if the node was not suppressed at its last flap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
}

impl Flaps {
    /// Counts one flap more; `None` if damping is off.
    #[must_use]
    pub fn with_one_more(before: Option<Self>, now: Moment, damping: &FlapDamping) -> Option<Self> {
        if damping.policy == FlapPolicy::Off {
            return None;
        }
        let most = damping.most();
        let rest = before.map_or(0, |flaps| decayed(flaps.penalty, now.since(flaps.at), damping));
        let penalty = (rest + ONE_FLAP).min(CAP * most);
        let suppressed = before.is_some_and(|flaps| flaps.suppressed_until(now).is_some());
        let until = (penalty > most || suppressed)
            .then(|| now.after(time_to(penalty, most / 2, damping.half_life)));
        Some(Self { penalty, at: now, until })
    }

    /// Returns the end of the suppression if the node is suppressed at `now`.
    pub fn suppressed_until(&self, now: Moment) -> Option<Moment> {
        self.until.filter(|until| now < *until)
    }
}

impl fmt::Display for Flaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.penalty / 100;
        write!(f, "recent flaps count {}.{}", tenths / 10, tenths % 10)
    }
}

/// Returns a penalty after some time.
fn decayed(penalty: u64, elapsed: Duration, damping: &FlapDamping) -> u64 {
    let half_life = damping.half_life.as_nanos().max(1);
    let halvings = elapsed.as_nanos() / half_life;
    let Some(whole) = u32::try_from(halvings).ok().and_then(|n| penalty.checked_shr(n)) else {
        return 0;
    };
    let rest = elapsed.as_nanos() % half_life;
    let lost = u128::from(whole) * rest / (2 * half_life);
    whole - u64::try_from(lost).unwrap_or(whole)
}

/// Returns the time until a penalty has fallen to `target`.
fn time_to(mut penalty: u64, target: u64, half_life: Duration) -> Duration {
    let target = target.max(1);
    let mut time = Duration::ZERO;
    while penalty / 2 >= target {
        penalty /= 2;
        time += half_life;
    }
    let above = penalty.saturating_sub(target);
    let whole = penalty.max(1);
    // Within a half-life half of what was there at its beginning goes, evenly.
    let nanos = half_life.as_nanos() * 2 * u128::from(above) / u128::from(whole);
    time + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAMPING: FlapDamping =
        FlapDamping { policy: FlapPolicy::NoHost, limit: 2, half_life: Duration::from_secs(60) };

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    fn after(ends: &[u64]) -> Flaps {
        let step = |flaps, end: &u64| Flaps::with_one_more(flaps, at(*end), &DAMPING);
        ends.iter().fold(None, step).unwrap()
    }

    #[test]
    fn the_third_end_within_a_short_time_suppresses_and_a_slow_pace_does_not() {
        assert_eq!(after(&[0]), Flaps { penalty: 1_000, at: at(0), until: None });
        assert_eq!(after(&[0, 0]).until, None);
        // 3.0 falls to 1.0: a half-life to 1.5, then two thirds of one.
        assert_eq!(after(&[0, 0, 0]).until, Some(at(60 + 40)));
        assert_eq!(after(&[0, 60, 120]), Flaps { penalty: 1_750, at: at(120), until: None });
        assert_eq!(Flaps::with_one_more(None, at(0), &FlapDamping::default()), None);
    }

    #[test]
    fn a_suppressed_node_that_fails_again_is_suppressed_for_longer() {
        let first = after(&[0, 0, 0]);
        assert_eq!(first.suppressed_until(at(99)), Some(at(100)));
        assert_eq!(first.suppressed_until(at(100)), None);
        // 1.25 are left, less than the limit, but it is suppressed.
        let again = Flaps::with_one_more(Some(first), at(80), &DAMPING).unwrap();
        assert_eq!(again.penalty, 2_250);
        assert!(again.until > first.until);
    }

    proptest! {
        /// FLAP-2; and the stated time is when half of the limit is left.
        #[test]
        fn suppression_ends_within_three_half_lives(
            gaps in proptest::collection::vec(0u64..200, 1..30),
            limit in 0u32..6,
        ) {
            let damping = FlapDamping { limit, ..DAMPING };
            let mut now = 0;
            let mut flaps = None;
            for gap in gaps {
                now += gap;
                flaps = Flaps::with_one_more(flaps, at(now), &damping);
                let Some(until) = flaps.and_then(|flaps| flaps.until) else { continue };
                let span = until.since(at(now));
                prop_assert!(span <= damping.half_life * 3, "FLAP-2: {span:?}");
                let left = flaps.map_or(0, |flaps| decayed(flaps.penalty, span, &damping));
                prop_assert!(left.abs_diff(damping.most() / 2) <= 2, "{left}");
            }
        }
    }
}
