//! The parts of one source at one endpoint: received, delivered, and still needed by others.
//!
//! Parts are numbered from 1. No member needs the parts up to `base` any more, as the source has
//! found out. All parts up to `have` have come; those up to `taken` were delivered to the member
//! here. Every endpoint keeps parts that another member may need: when a neighbour is gone, the
//! members beyond it get them from others.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use fabricast_groups::{Moment, Pn};

use crate::frame::{Ack, JoinRevision, Part};

/// Parts that may come over a link before multicast brings them.
const AHEAD: u64 = 8;

/// The parts of one source.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) joined: JoinRevision,
    pub(crate) base: u64,
    pub(crate) have: u64,
    pub(crate) taken: u64,
    pub(crate) parts: BTreeMap<u64, Arc<Part>>,
    pub(crate) reach: BTreeMap<Pn, Reach>,
    /// The last acknowledgement sent upstream.
    pub(crate) told: Option<Ack>,
    pub(crate) assembly: Assembly,
    /// The last part that multicast has brought.
    heard: u64,
    /// The parts up to this came or were asked for.
    pub(crate) asked: u64,
}

/// Progress of a neighbour downstream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    /// All members on its side have taken the parts up to this; remains true without the edge.
    pub(crate) acked: u64,
    /// The parts up to this have arrived or are on the link.
    pub(crate) covered: u64,
    /// Time since which `covered` has this value.
    pub(crate) since: Moment,
}

impl Stream {
    pub(crate) fn new(joined: JoinRevision) -> Self {
        Self {
            joined,
            base: 0,
            have: 0,
            taken: 0,
            parts: BTreeMap::new(),
            reach: BTreeMap::new(),
            told: None,
            assembly: Assembly::default(),
            heard: 0,
            asked: 0,
        }
    }

    /// Returns whether the source has sent a part by multicast, as far as is known: it has sent
    /// those before it, or not long before.
    pub(crate) fn is_multicast(&self, number: u64) -> bool {
        self.heard > 0 && number <= self.heard + AHEAD
    }

    /// Notes a part that multicast has brought; returns those before it that are to be asked for.
    pub(crate) fn gap_before(&mut self, number: u64) -> Range<u64> {
        self.heard = self.heard.max(number);
        let gap = self.have.max(self.asked) + 1..number;
        self.asked = self.asked.max(number);
        gap
    }

    /// Returns whether parts have come or were skipped. No frames are due for other sources.
    pub(crate) fn is_used(&self) -> bool {
        self.have > 0 || !self.parts.is_empty()
    }

    /// Returns whether a part with this number has come before.
    pub(crate) fn is_copy(&self, number: u64) -> bool {
        number <= self.have || self.parts.contains_key(&number)
    }

    /// Keeps a new part and advances `have` over consecutive parts.
    pub(crate) fn keep(&mut self, part: Arc<Part>) {
        self.parts.insert(part.number, part);
        while self.parts.contains_key(&(self.have + 1)) {
            self.have += 1;
        }
    }

    /// Skips the parts up to `floor`; returns whether any were skipped.
    pub(crate) fn skip_to(&mut self, floor: u64) -> bool {
        if floor <= self.base {
            return false;
        }
        self.base = floor;
        self.parts = self.parts.split_off(&(floor + 1));
        self.have = self.have.max(floor);
        if self.taken < floor {
            self.taken = floor;
            self.assembly = Assembly::default();
        }
        while self.parts.contains_key(&(self.have + 1)) {
            self.have += 1;
        }
        true
    }

    /// Returns whether the last acknowledgement is out of date.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.told.is_some_and(|told| told.have < self.have)
    }

    /// Returns whether the last acknowledgement says all that there is to say.
    pub(crate) fn is_told(&self, side: u64) -> bool {
        self.told.is_some_and(|told| told.have >= self.have && told.side >= side)
    }

    /// Returns the last part that all members here and on the sides of `downstream` have taken.
    pub(crate) fn side(&self, downstream: &[Pn]) -> u64 {
        let reached = |pn: &Pn| self.reach.get(pn).map_or(0, |reach| reach.acked);
        downstream.iter().map(reached).fold(self.taken, u64::min).max(self.base)
    }
}

/// A message being put together from its parts.
#[derive(Clone, Debug, Default)]
pub(crate) enum Assembly {
    /// Waits for the first part of a message; skips parts of a message whose first part is missing.
    #[default]
    Between,
    /// Has the first parts of a message.
    Within(Vec<u8>),
}

impl Assembly {
    /// Adds the next part; returns the message if it is complete.
    pub(crate) fn add(&mut self, part: &Part) -> Option<Vec<u8>> {
        let mut message = match std::mem::take(self) {
            _ if part.first => Vec::new(),
            Self::Between => return None,
            Self::Within(message) => message,
        };
        message.extend_from_slice(&part.payload);
        if part.last {
            return Some(message);
        }
        *self = Self::Within(message);
        None
    }

    /// Returns whether no message is begun.
    pub(crate) fn is_between(&self) -> bool {
        matches!(self, Self::Between)
    }

    /// Returns whether a part would complete a message.
    pub(crate) fn completes(&self, part: &Part) -> bool {
        part.last && (part.first || matches!(self, Self::Within(_)))
    }
}

/// Best-effort parts of one source at one endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct BestEffort {
    highest: u64,
    assembly: Assembly,
}

impl BestEffort {
    /// Adds a part that is newer than all before; returns `None` for an older one, else the message
    /// that it completes.
    pub(crate) fn take(&mut self, part: &Part) -> Option<Option<Vec<u8>>> {
        if part.number <= self.highest {
            return None;
        }
        if part.number != self.highest + 1 {
            self.assembly = Assembly::Between; // a piece is missing
        }
        self.highest = part.number;
        Some(self.assembly.add(part))
    }
}

#[cfg(test)]
mod tests {
    use fabricast_groups::Revision;

    use super::*;
    use crate::frame::Source;

    fn part(number: u64, first: bool, last: bool) -> Arc<Part> {
        let source = Source { pn: Pn(1), joined: Revision(1) };
        let payload = vec![u8::try_from(number).unwrap()];
        Arc::new(Part { source, number, floor: 0, first, last, payload })
    }

    #[test]
    fn consecutive_parts_count_when_a_gap_is_filled() {
        let mut stream = Stream::new(Revision(1));
        for number in [2, 3] {
            stream.keep(part(number, true, true));
        }
        assert_eq!(stream.have, 0);
        assert!(stream.is_copy(3) && !stream.is_copy(1));
        stream.keep(part(1, true, true));
        assert_eq!(stream.have, 3);
        stream.taken = 3;
        assert_eq!(stream.side(&[Pn(5)]), 0, "5 has nothing yet");
        stream.reach.entry(Pn(5)).or_default().acked = 2;
        assert_eq!(stream.side(&[Pn(5)]), 2);
        assert!(stream.skip_to(2));
        assert_eq!((stream.base, stream.have, stream.parts.len()), (2, 3, 1));
    }

    #[test]
    fn a_newcomer_skips_to_what_still_comes() {
        let mut stream = Stream::new(Revision(1));
        stream.keep(part(7, true, true));
        assert!(stream.skip_to(6) && !stream.skip_to(6));
        assert_eq!((stream.base, stream.have, stream.taken), (6, 7, 6));
    }

    #[test]
    fn an_incomplete_message_is_never_delivered() {
        let mut assembly = Assembly::default();
        assert!(!assembly.completes(&part(2, false, true)));
        assert_eq!(assembly.add(&part(2, false, true)), None, "its beginning is missing");
        assert_eq!(assembly.add(&part(3, true, false)), None);
        assert!(assembly.completes(&part(4, false, true)));
        assert_eq!(assembly.add(&part(4, false, true)), Some(vec![3, 4]));
    }

    #[test]
    fn best_effort_messages_come_once_and_whole() {
        let mut seen = BestEffort::default();
        assert_eq!(seen.take(&part(1, true, true)), Some(Some(vec![1])));
        assert_eq!(seen.take(&part(1, true, true)), None);
        assert_eq!(seen.take(&part(3, true, false)), Some(None));
        assert_eq!(seen.take(&part(5, false, true)), Some(None), "4 is missing");
        assert_eq!(seen.take(&part(4, false, false)), None, "too late");
    }
}
