//! The parts of one source at one station: what came, what was taken, what others still need.
//!
//! Parts are numbered from 1. Up to `base` nobody in the group needs anything any more, as its source
//! has found out; up to `have` all parts came; up to `taken` the member here has taken them. Every
//! station keeps what may be needed by somebody: when a neighbour is gone, those who were supplied by it
//! turn to others.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_groups::{Moment, Pn};

use crate::frame::{Life, Part};

/// The parts of one source.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) life: Life,
    pub(crate) base: u64,
    pub(crate) have: u64,
    pub(crate) taken: u64,
    pub(crate) parts: BTreeMap<u64, Arc<Part>>,
    pub(crate) reach: BTreeMap<Pn, Reach>,
    /// What the neighbour towards the source was told last: have, side.
    pub(crate) told: Option<(u64, u64)>,
    pub(crate) assembly: Assembly,
}

/// How far a neighbour away from the source is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    /// Everybody on its side has taken the parts up to this; stays true when the edge is gone.
    pub(crate) acked: u64,
    /// It has the parts up to this, or they are on the link.
    pub(crate) covered: u64,
    /// Since when it has been so.
    pub(crate) since: Moment,
}

impl Stream {
    pub(crate) fn new(life: Life) -> Self {
        Self {
            life,
            base: 0,
            have: 0,
            taken: 0,
            parts: BTreeMap::new(),
            reach: BTreeMap::new(),
            told: None,
            assembly: Assembly::default(),
        }
    }

    /// Whether anything has come of the source, or will not come any more: of all others there is nothing to say.
    pub(crate) fn is_used(&self) -> bool {
        self.have > 0 || !self.parts.is_empty()
    }

    /// Whether a part of this number is a copy of one that came.
    pub(crate) fn is_copy(&self, number: u64) -> bool {
        number <= self.have || self.parts.contains_key(&number)
    }

    /// Keeps a new part; later ones that came before it may complete the row.
    pub(crate) fn keep(&mut self, part: Arc<Part>) {
        self.parts.insert(part.number, part);
        while self.parts.contains_key(&(self.have + 1)) {
            self.have += 1;
        }
    }

    /// Skips what will not come any more; answers whether that was anything.
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

    /// Whether the neighbour towards the source does not know of everything that came.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.told.is_some_and(|(have, _)| have < self.have)
    }

    /// Answers up to where everybody here and on the sides of `outs` has taken the parts.
    pub(crate) fn side(&self, outs: &[Pn]) -> u64 {
        let reached = |pn: &Pn| self.reach.get(pn).map_or(0, |reach| reach.acked);
        outs.iter().map(reached).fold(self.taken, u64::min).max(self.base)
    }
}

/// A message being put together from its parts.
#[derive(Clone, Debug, Default)]
pub(crate) enum Assembly {
    /// The next part must begin a message; others are of one whose beginning is missing.
    #[default]
    Between,
    /// The beginning is here.
    Within(Vec<u8>),
}

impl Assembly {
    /// Adds the next part; answers the message if it is whole now.
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

    /// Whether a part would complete a message.
    pub(crate) fn completes(&self, part: &Part) -> bool {
        part.last && (part.first || matches!(self, Self::Within(_)))
    }
}

/// Parts that nobody misses, of one source at one station.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loose {
    highest: u64,
    assembly: Assembly,
}

impl Loose {
    /// Takes a part that is newer than all before; `None` for a copy or one that comes too late, else the
    /// message that it completes.
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
        let source = Source { pn: Pn(1), life: Revision(1) };
        let payload = vec![u8::try_from(number).unwrap()];
        Arc::new(Part { source, number, floor: 0, first, last, payload })
    }

    #[test]
    fn a_row_is_complete_when_its_gap_is_filled() {
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
    fn half_a_message_is_never_handed_over() {
        let mut assembly = Assembly::default();
        assert!(!assembly.completes(&part(2, false, true)));
        assert_eq!(assembly.add(&part(2, false, true)), None, "its beginning is missing");
        assert_eq!(assembly.add(&part(3, true, false)), None);
        assert!(assembly.completes(&part(4, false, true)));
        assert_eq!(assembly.add(&part(4, false, true)), Some(vec![3, 4]));
    }

    #[test]
    fn what_nobody_misses_comes_once_and_whole() {
        let mut loose = Loose::default();
        assert_eq!(loose.take(&part(1, true, true)), Some(Some(vec![1])));
        assert_eq!(loose.take(&part(1, true, true)), None);
        assert_eq!(loose.take(&part(3, true, false)), Some(None));
        assert_eq!(loose.take(&part(5, false, true)), Some(None), "4 is missing");
        assert_eq!(loose.take(&part(4, false, false)), None, "too late");
    }
}
