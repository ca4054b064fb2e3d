//! Bounds the rate of log lines that strangers can cause.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines in one interval.
const LINES: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(10);

/// Lines that may be logged.
#[derive(Debug, Default)]
pub(crate) struct LogBudget(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    began: Option<Instant>,
    lines: u32,
    unlogged: u64,
}

impl LogBudget {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State { began: None, lines: 0, unlogged: 0 }))
    }

    /// Takes one line; gives the number of lines that were left out before it, or `None` if this
    /// one is to be left out, too.
    pub(crate) fn take(&self) -> Option<u64> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        if state.began.is_none_or(|began| began + INTERVAL <= now) {
            (state.began, state.lines) = (Some(now), 0);
        }
        if state.lines >= LINES {
            state.unlogged += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_few_lines_and_its_size() {
        let (budget, start) = (LogBudget::new(), Instant::now());
        let logged: Vec<u64> = (0..10_000).filter_map(|_| budget.take_at(start)).collect();
        assert_eq!(logged, [0; 10]);
        assert_eq!(budget.take_at(start + INTERVAL), Some(9_990));
        assert_eq!(budget.take_at(start + INTERVAL), Some(0));
    }
}
