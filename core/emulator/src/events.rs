//! Changes of ports and switches for watchers: a bounded list with a cursor.

use std::collections::VecDeque;

use fabricast_topology::{PortId, SwitchId};
use thiserror::Error;

/// A change that a switch agent observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A port went up or down.
    Port {
        /// Port that changed.
        port: PortId,
        /// True if packets pass now.
        up: bool,
    },
    /// A switch lost power and its tables with it, or came back with empty ones.
    Switch {
        /// Switch that changed.
        switch: SwitchId,
        /// True if it came back.
        up: bool,
    },
}

/// The events after a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    /// Events, oldest first.
    pub events: Vec<Event>,
    /// Cursor for the next call.
    pub cursor: u64,
}

/// The cursor points to events that are no longer kept: read the whole state, then continue from
/// `cursor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{lost} events are no longer kept")]
pub struct EventsLost {
    /// Number of events missed.
    pub lost: u64,
    /// Cursor to continue with.
    pub cursor: u64,
}

/// Bounded list of the last events.
#[derive(Clone, Debug)]
pub(crate) struct EventLog {
    events: VecDeque<Event>,
    /// Number of events ever pushed.
    total: u64,
    limit: usize,
}

impl EventLog {
    pub(crate) fn new(limit: usize) -> Self {
        Self { events: VecDeque::new(), total: 0, limit }
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() == self.limit {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.total += 1;
    }

    /// Returns the events after `cursor`, which is the number of events seen so far.
    pub(crate) fn since(&self, cursor: u64) -> Result<EventPage, EventsLost> {
        let kept = u64::try_from(self.events.len()).expect("a length fits in 64 bits");
        let oldest = self.total - kept;
        // A cursor beyond the end is from an earlier run of the fabric: it has seen no event of
        // this one.
        let cursor = if cursor > self.total { 0 } else { cursor };
        if cursor < oldest {
            return Err(EventsLost { lost: oldest - cursor, cursor: self.total });
        }
        let skip = usize::try_from(cursor - oldest).expect("at most the length of the list");
        let events = self.events.iter().skip(skip).copied().collect();
        Ok(EventPage { events, cursor: self.total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(port: u32) -> Event {
        Event::Port { port: PortId(port), up: true }
    }

    #[test]
    fn a_cursor_gets_each_event_once() {
        let mut log = EventLog::new(10);
        log.push(up(1));
        let page = log.since(0).unwrap();
        assert_eq!(page.events, [up(1)]);
        log.push(up(2));
        assert_eq!(log.since(page.cursor), Ok(EventPage { events: vec![up(2)], cursor: 2 }));
        assert_eq!(log.since(2), Ok(EventPage { events: vec![], cursor: 2 }));
    }

    #[test]
    fn a_cursor_that_fell_behind_is_told_what_it_missed() {
        let mut log = EventLog::new(2);
        (0..5).for_each(|port| log.push(up(port)));
        assert_eq!(log.since(1), Err(EventsLost { lost: 2, cursor: 5 }));
        assert_eq!(log.since(3).unwrap().events, [up(3), up(4)]);
        assert_eq!(log.since(9), Err(EventsLost { lost: 3, cursor: 5 }));
    }
}
