//! What happened to ports and switches, for whoever watches them: a bounded list with a cursor.

use std::collections::VecDeque;

use fabricast_topology::{PortId, SwitchId};
use thiserror::Error;

/// Something that a switch agent sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Packets pass a port again, or no longer.
    Port {
        /// The port.
        port: PortId,
        /// Whether packets pass.
        up: bool,
    },
    /// A switch lost power and its tables with it, or came back with empty ones.
    Switch {
        /// The switch.
        switch: SwitchId,
        /// Whether it is back.
        up: bool,
    },
}

/// The events after a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// The cursor to ask with next.
    pub cursor: u64,
}

/// The cursor points to events that are no longer kept: look at the whole state, then go on from
/// `cursor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{lost} events are no longer kept")]
pub struct EventsLost {
    /// How many were missed.
    pub lost: u64,
    /// The cursor to go on with.
    pub cursor: u64,
}

/// The last events.
#[derive(Clone, Debug)]
pub(crate) struct EventLog {
    events: VecDeque<Event>,
    /// How many there ever were.
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

    /// The events after `cursor`, which counts the events seen so far.
    pub(crate) fn since(&self, cursor: u64) -> Result<EventPage, EventsLost> {
        let kept = u64::try_from(self.events.len()).expect("a length fits in 64 bits");
        let oldest = self.total - kept;
        // A cursor beyond the end is one of an earlier life of the fabric: it has seen nothing of
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
