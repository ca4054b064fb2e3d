//! A clock to judge others by: time in which this process could not listen does not count.
//!
//! Whoever is silent for too long is taken for dead. But a process that was frozen, or whose workers
//! were all busy, has heard nobody, whoever spoke: what was said waits unread. So its owner beats the
//! clock from a task beside those that listen, and only time between two beats that came soon after one
//! another is counted in full. If the task has to wait for its turn, so have the others, and the clock
//! goes slower by as much; others get the time that this process was short of.
//!
//! An answer is the work of many tasks, one after the other, each of which waits for its turn. So what counts of one
//! wait is little: eight of them together are still less than the shortest patience that anybody has.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often to beat it.
pub const BEAT: Duration = Duration::from_millis(20);
/// What counts at most of the time between two beats.
const MOST: Duration = Duration::from_millis(60);

/// The clock; it starts at zero, and never goes back.
#[derive(Debug)]
pub struct Pace(Mutex<State>);

#[derive(Debug)]
struct State {
    counted: Duration,
    beaten: Instant,
}

impl State {
    fn now(&self) -> Duration {
        self.counted + self.beaten.elapsed().min(MOST)
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self(Mutex::new(State { counted: Duration::ZERO, beaten: Instant::now() }))
    }
}

impl Pace {
    /// Says that the owner's tasks get their turn; to be called every [`BEAT`].
    pub fn beat(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State { counted: state.now(), beaten: Instant::now() };
    }

    /// The time that has passed, as far as it counts.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_counts_for_little_and_time_that_is_listened_through_in_full() {
        let pace = Pace::default();
        for _ in 0..50 {
            tokio::time::advance(BEAT).await;
            pace.beat();
        }
        assert_eq!(pace.now(), BEAT * 50);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(pace.now(), BEAT * 50 + MOST, "nobody listened");
        pace.beat();
        assert_eq!(pace.now(), BEAT * 50 + MOST, "nor is it made up for");
        tokio::time::advance(BEAT).await;
        assert_eq!(pace.now(), BEAT * 51 + MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_whose_every_step_waits_for_its_turn_is_not_late() {
        let pace = Pace::default();
        for _ in 0..8 {
            tokio::time::advance(Duration::from_millis(90)).await;
            pace.beat();
        }
        assert_eq!(pace.now(), MOST * 8);
        assert!(pace.now() < Duration::from_millis(500), "{:?}", pace.now());
    }
}
