//! Flap damping: a node that comes and goes is held off for a while.
//!
//! Every life of a node that ends, by expulsion or because its agent started anew, adds 1 to the node's
//! penalty; time takes it away again, half of it in every half-life. A node whose penalty passes the limit is
//! suppressed until no more than half of the limit is left. When that is, is known at once and kept in the node's
//! record, so a TIC that takes over says the same. The penalty stops at four times the limit: nobody is
//! suppressed for longer than three half-lives after its last life.
//!
//! The scheme is that of BGP route flap damping (RFC 2439, section 4.2); there a table gives the decay at steps of
//! time, here it is exact at every half-life and a straight line between two.
//!
//! Invariants
//! - FLAP-1: a suppressed node becomes a group's agent only where no member's node is free to be it.
//! - FLAP-2: a node is suppressed for at most three half-lives after its last life.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Moment;

/// What one ended life adds to a penalty, which is counted in thousandths.
const ONE_LIFE: u64 = 1_000;
/// A penalty stops at so many times the limit.
const CAP: u64 = 4;

/// What is done about nodes that come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlapDamping {
    /// What a suppressed node may not do.
    pub policy: FlapPolicy,
    /// A node is suppressed when its penalty passes this; 0 counts as 1.
    pub limit: u32,
    /// The time that takes half of a penalty away.
    pub half_life: Duration,
}

impl Default for FlapDamping {
    /// Suppresses nobody.
    fn default() -> Self {
        Self { policy: FlapPolicy::Off, limit: 3, half_life: Duration::from_secs(60) }
    }
}

impl FlapDamping {
    fn most(&self) -> u64 {
        u64::from(self.limit.max(1)) * ONE_LIFE
    }
}

/// What a suppressed node may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlapPolicy {
    /// Nobody is suppressed.
    Off,
    /// It hosts no group agents while another member's node can.
    NoHost,
    /// It is not readmitted.
    Refuse,
}

/// How often lives of a node have ended, as kept in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaps {
    /// The penalty when the last life ended, in thousandths of a life.
    pub penalty: u64,
    /// When that was, on the TIC's clock.
    pub at: Moment,
    /// Until when the node is suppressed; `None` if it was not suppressed then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
}

impl Flaps {
    /// Counts the end of one more life; `None` if nothing is counted.
    #[must_use]
    pub fn life_ended(before: Option<Self>, now: Moment, damping: &FlapDamping) -> Option<Self> {
        if damping.policy == FlapPolicy::Off {
            return None;
        }
        let most = damping.most();
        let rest = before.map_or(0, |flaps| decayed(flaps.penalty, now.since(flaps.at), damping));
        let penalty = (rest + ONE_LIFE).min(CAP * most);
        let suppressed = before.is_some_and(|flaps| flaps.suppressed_until(now).is_some());
        let until = (penalty > most || suppressed)
            .then(|| now.after(time_to(penalty, most / 2, damping.half_life)));
        Some(Self { penalty, at: now, until })
    }

    /// Answers until when the node is suppressed, if it is.
    pub fn suppressed_until(&self, now: Moment) -> Option<Moment> {
        self.until.filter(|until| now < *until)
    }
}

impl fmt::Display for Flaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.penalty / 100;
        write!(f, "lives that ended of late count {}.{}", tenths / 10, tenths % 10)
    }
}

/// What is left of a penalty after some time.
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

/// How long a penalty takes until no more than `target` is left.
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
        let step = |flaps, end: &u64| Flaps::life_ended(flaps, at(*end), &DAMPING);
        ends.iter().fold(None, step).unwrap()
    }

    #[test]
    fn the_third_end_within_a_short_time_suppresses_and_a_slow_pace_does_not() {
        assert_eq!(after(&[0]), Flaps { penalty: 1_000, at: at(0), until: None });
        assert_eq!(after(&[0, 0]).until, None);
        // 3.0 falls to 1.0: a half-life to 1.5, then two thirds of one.
        assert_eq!(after(&[0, 0, 0]).until, Some(at(60 + 40)));
        assert_eq!(after(&[0, 60, 120]), Flaps { penalty: 1_750, at: at(120), until: None });
        assert_eq!(Flaps::life_ended(None, at(0), &FlapDamping::default()), None);
    }

    #[test]
    fn who_is_suppressed_and_goes_once_more_is_suppressed_for_longer() {
        let first = after(&[0, 0, 0]);
        assert_eq!(first.suppressed_until(at(99)), Some(at(100)));
        assert_eq!(first.suppressed_until(at(100)), None);
        // 1.25 are left, less than the limit, but it is suppressed.
        let again = Flaps::life_ended(Some(first), at(80), &DAMPING).unwrap();
        assert_eq!(again.penalty, 2_250);
        assert!(again.until > first.until);
    }

    proptest! {
        /// FLAP-2; and the stated time is when half of the limit is left.
        #[test]
        fn nobody_is_suppressed_for_ever(
            gaps in proptest::collection::vec(0u64..200, 1..30),
            limit in 0u32..6,
        ) {
            let damping = FlapDamping { limit, ..DAMPING };
            let mut now = 0;
            let mut flaps = None;
            for gap in gaps {
                now += gap;
                flaps = Flaps::life_ended(flaps, at(now), &damping);
                let Some(until) = flaps.and_then(|flaps| flaps.until) else { continue };
                let span = until.since(at(now));
                prop_assert!(span <= damping.half_life * 3, "FLAP-2: {span:?}");
                let left = flaps.map_or(0, |flaps| decayed(flaps.penalty, span, &damping));
                prop_assert!(left.abs_diff(damping.most() / 2) <= 2, "{left}");
            }
        }
    }
}
