//! Numbers of the hybrid-tree protocol, each of a type of its own.
//!
//! All of them only grow and are never used again, except [`Pn`]: it is free again once its process
//! has left the group.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point on the caller's clock, in nanoseconds since any fixed start.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// Returns the moment `span` later; saturates at the end of the clock.
    pub fn after(self, span: Duration) -> Self {
        let nanoseconds = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanoseconds))
    }

    /// Returns the time since `earlier`; zero if `earlier` lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Returns the next number.
            ///
            /// # Panics
            ///
            /// If the numbers of this kind are used up, which no running system reaches.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.checked_add(1).expect("numbers of this kind never run out"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Group number, never used for another group (G1).
    Gn(u64)
);
number!(
    /// Process number: the rank of a process in its group; 0 is the first.
    Pn(u32)
);
number!(
    /// Number of times that a group has changed its agent; of two agents the higher epoch is right
    /// (G4).
    Epoch(u64)
);
number!(
    /// Number of decisions that the directory has taken; orders everything that the TIC sends.
    Revision(u64)
);
number!(
    /// Number of an incarnation of a node: a node that was expelled or restarted comes back with a
    /// higher one.
    Incarnation(u64)
);
number!(
    /// Number that orders the positions which one agent, in one epoch, gives to one member.
    Version(u64)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_saturates_at_its_end() {
        assert_eq!(Moment(u64::MAX - 1).after(Duration::from_secs(1)), Moment(u64::MAX));
        assert_eq!(Moment(3).since(Moment(5)), Duration::ZERO);
        assert_eq!(Moment(5).since(Moment(3)), Duration::from_nanos(2));
    }
}
