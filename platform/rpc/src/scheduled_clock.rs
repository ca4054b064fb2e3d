//! A clock for failure detection that does not count time in which this process was not scheduled.
//!
//! A node that is silent for too long is taken for failed. But a process that was frozen, or whose
//! workers were all busy, has received nothing, whatever was sent: messages wait unread in its
//! sockets. So its owner ticks the clock from a task beside those that receive. Only time between
//! two ticks in quick succession counts in full; if that task has to wait for a worker, so have the
//! others, and the clock runs slower by as much.
//!
//! An answer is the work of many tasks in sequence, each of which may have to wait. So little of
//! one wait counts: eight in a row are still shorter than the shortest timeout of failure
//! detection.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Most that counts of the time between two ticks.
const MOST_COUNTED: Duration = Duration::from_millis(60);

/// The clock. It starts at zero and never goes back.
#[derive(Debug)]
pub struct ScheduledClock(Mutex<State>);

#[derive(Debug)]
struct State {
    counted: Duration,
    last_tick: Instant,
}

impl State {
    fn now(&self) -> Duration {
        self.counted + self.last_tick.elapsed().min(MOST_COUNTED)
    }
}

impl Default for ScheduledClock {
    fn default() -> Self {
        Self(Mutex::new(State { counted: Duration::ZERO, last_tick: Instant::now() }))
    }
}

impl ScheduledClock {
    /// Interval of [`ScheduledClock::tick`].
    pub const TICK: Duration = Duration::from_millis(20);

    /// Notes that the tasks of this process are scheduled; to be called every
    /// [`ScheduledClock::TICK`].
    pub fn tick(&self) {
        let mut state = self.0.lock();
        *state = State { counted: state.now(), last_tick: Instant::now() };
    }

    /// Time since the start, as far as it counts.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.0.lock().now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = ScheduledClock::TICK;

    #[tokio::test(start_paused = true)]
    async fn time_between_ticks_counts_in_full_and_a_pause_for_little() {
        let clock = ScheduledClock::default();
        for _ in 0..50 {
            tokio::time::advance(TICK).await;
            clock.tick();
        }
        assert_eq!(clock.now(), TICK * 50);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(clock.now(), TICK * 50 + MOST_COUNTED, "the process was not scheduled");
        clock.tick();
        assert_eq!(clock.now(), TICK * 50 + MOST_COUNTED, "and the clock does not catch up");
        tokio::time::advance(TICK).await;
        assert_eq!(clock.now(), TICK * 51 + MOST_COUNTED);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_each_of_whose_steps_waits_for_a_worker_is_not_late() {
        let clock = ScheduledClock::default();
        for _ in 0..8 {
            tokio::time::advance(Duration::from_millis(90)).await;
            clock.tick();
        }
        assert_eq!(clock.now(), MOST_COUNTED * 8);
        assert!(clock.now() < Duration::from_millis(500), "{:?}", clock.now());
    }
}
