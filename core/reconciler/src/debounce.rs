//! Collects watch events between turns.
//!
//! While many groups change one after the other, as when a job starts, turns are long. The loop
//! then waits for a share of the length of a turn before the next, and plans more changes together.
//! The events wait here unapplied, so that queries see records and a plan that fit together.

use std::time::Duration;

use fabricast_groups::Moment;

use crate::interface::WatchEvent;

/// A turn that took no longer than this is followed by the next at once.
const SHORT_TURN: Duration = Duration::from_millis(50);
/// Share of the length of a longer turn for which events wait for more events, and the longest such
/// time.
const WAIT_SHARE: u32 = 4;
const MAX_WAIT: Duration = Duration::from_millis(100);
/// Most events that may wait; beyond that the watch stream is not read.
const CAPACITY: usize = 4096;

/// Events that wait for the next turn.
#[derive(Debug, Default)]
pub(crate) struct Debounce {
    events: Vec<WatchEvent>,
    until: Moment,
}

impl Debounce {
    pub(crate) fn has_room(&self) -> bool {
        self.events.len() < CAPACITY
    }

    pub(crate) fn push(&mut self, event: WatchEvent) {
        self.events.push(event);
    }

    /// True if no event waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Time of the next turn, if any event waits for it.
    pub(crate) fn due(&self) -> Option<Moment> {
        (!self.events.is_empty()).then_some(self.until)
    }

    /// Takes all events, oldest first.
    pub(crate) fn take(&mut self) -> Vec<WatchEvent> {
        std::mem::take(&mut self.events)
    }

    /// Sets the time of the next turn by the length of the last one.
    pub(crate) fn turn_ended(&mut self, started: Moment, ended: Moment) {
        let length = ended.since(started);
        let wait = length.saturating_sub(SHORT_TURN) / WAIT_SHARE;
        self.until = ended.after(wait.min(MAX_WAIT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_wait_for_a_share_of_the_last_turn_up_to_a_bound() {
        let mut debounce = Debounce::default();
        assert_eq!(debounce.due(), None);
        debounce.push(WatchEvent::Lost);
        assert_eq!(debounce.due(), Some(Moment(0)), "no turn was made yet");
        for (took, waits) in [(3, 0), (50, 0), (130, 20), (4_000, 100)] {
            assert_eq!(debounce.take().len(), 1);
            let ended = Moment(7).after(Duration::from_millis(took));
            debounce.turn_ended(Moment(7), ended);
            assert_eq!(debounce.due(), None, "the turn took all events");
            debounce.push(WatchEvent::Lost);
            assert_eq!(debounce.due(), Some(ended.after(Duration::from_millis(waits))));
        }
    }

    #[test]
    fn the_number_of_waiting_events_is_bounded() {
        let mut debounce = Debounce::default();
        for _ in 0..CAPACITY {
            assert!(debounce.has_room());
            debounce.push(WatchEvent::Lost);
        }
        assert!(!debounce.has_room());
        debounce.take();
        assert!(debounce.has_room());
    }
}
