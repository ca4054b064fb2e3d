//! The pieces of one operation at one endpoint, on their way in and out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use fabricast_groups::{Moment, Pn};

use crate::frame::{Announcement, Body, Piece};
use crate::operation::Outcome;

/// Reason to keep the pieces of a payload. A better one makes place for others of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evidence {
    /// Some member has multicast one, or asks for some.
    Heard,
    /// A neighbour has sent one over its link.
    Sent,
    /// A report or an outcome names the payload.
    Named,
}

/// The pieces of one operation at one endpoint.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    pub(super) of: Announcement,
    /// The payload, once all its pieces have come.
    pub(super) payload: Option<Arc<[u8]>>,
    /// The outcome without the payload, and its round, once it is known.
    pub(super) decided: Option<(u64, Arc<Outcome>)>,
    pub(super) held: Vec<Option<Arc<Piece>>>,
    pub(super) bytes: usize,
    /// All before this are held.
    pub(super) have: u32,
    /// Those before this were sent by multicast; only where they come from.
    pub(super) sent: Option<u32>,
    /// The same of the neighbours on the other ways, for all on their sides.
    pub(super) reach: BTreeMap<Pn, u32>,
    /// Pieces that neighbours have asked for before they were here.
    pub(super) wanted: BTreeMap<Pn, BTreeSet<u32>>,
    /// Those before this were under way together when one was lost; only where they come from.
    pub(super) slowed: u32,
    /// The last that was said of this side.
    pub(super) told: u32,
    /// Those before this came or were asked for.
    pub(super) asked: u32,
    /// Multicast has brought some.
    pub(super) heard: bool,
    /// Reason to keep these, and not others.
    pub(super) evidence: Evidence,
    /// Time of the last piece, or of the last question for pieces.
    pub(super) progress_at: Moment,
}

impl Pieces {
    pub(super) fn new(now: Moment, of: Announcement, evidence: Evidence) -> Self {
        let held = vec![None; usize::try_from(of.pieces).unwrap_or(0)];
        Self {
            of,
            payload: None,
            decided: None,
            held,
            bytes: 0,
            have: 0,
            sent: None,
            reach: BTreeMap::new(),
            wanted: BTreeMap::new(),
            slowed: 0,
            told: 0,
            asked: 0,
            heard: false,
            evidence,
            progress_at: now,
        }
    }

    /// All pieces, to be sent from here.
    pub(super) fn all(now: Moment, of: Announcement, content: &[u8], size: usize) -> Self {
        let mut all = Self::new(now, of, Evidence::Named);
        for (index, payload) in (0..).zip(content.chunks(size)) {
            all.keep(&Arc::new(Piece { of, index, payload: payload.to_vec() }));
        }
        all.sent = Some(0);
        all
    }

    pub(super) fn is_complete(&self) -> bool {
        self.have == self.of.pieces
    }

    /// Returns whether the root has decided, as far as is known: what is missing is all that the
    /// member waits for.
    pub(super) fn is_decided(&self) -> bool {
        self.of.source().is_none() || self.decided.is_some()
    }

    pub(super) fn is_announcing(&self) -> bool {
        self.sent.is_some_and(|sent| sent < self.of.pieces)
    }

    /// Keeps a piece; returns false for one that is held or cannot be.
    pub(super) fn keep(&mut self, piece: &Arc<Piece>) -> bool {
        let place = usize::try_from(piece.index).ok().and_then(|at| self.held.get_mut(at));
        let Some(place) = place.filter(|place| place.is_none()) else { return false };
        self.bytes += piece.payload.len();
        *place = Some(piece.clone());
        while self.held.get(self.have as usize).is_some_and(Option::is_some) {
            self.have += 1;
        }
        true
    }

    pub(super) fn range(&self, range: Range<u32>) -> Vec<Arc<Piece>> {
        let all = self.held.iter().skip(range.start as usize).take(range.len());
        all.flatten().cloned().collect()
    }

    /// The rows of pieces in a range that are not held.
    pub(super) fn gaps(&self, range: Range<u32>) -> Vec<Range<u32>> {
        let mut gaps: Vec<Range<u32>> = Vec::new();
        for index in range.start..range.end.min(self.of.pieces) {
            if self.held.get(index as usize).is_some_and(Option::is_some) {
                continue;
            }
            match gaps.last_mut() {
                Some(gap) if gap.end == index => gap.end += 1,
                _ => gaps.push(index..index + 1),
            }
        }
        gaps
    }

    /// Notes what a neighbour lacks of a range and is not held here; returns what is held.
    pub(super) fn want(&mut self, pn: Pn, range: Range<u32>) -> Vec<Arc<Piece>> {
        let lacking = self.gaps(range.clone()).into_iter().flatten();
        self.wanted.entry(pn).or_default().extend(lacking);
        self.range(range)
    }

    /// The neighbours that want a piece; each of them only once.
    pub(super) fn take_wanting(&mut self, index: u32) -> Vec<Pn> {
        let wanting = self.wanted.iter_mut().filter_map(|(pn, pieces)| {
            let is_wanted = pieces.remove(&index);
            is_wanted.then_some(*pn)
        });
        wanting.collect()
    }

    /// Returns whether a loss of this piece is the first among those that were under way together:
    /// further ones, also of other members, have the same cause.
    pub(super) fn is_first_loss(&mut self, index: u32) -> bool {
        let Some(sent) = self.sent.filter(|_| index >= self.slowed) else { return false };
        self.slowed = sent;
        true
    }

    /// The bytes of all pieces that are held, which may be many: they are copied once.
    pub(super) fn content(&self) -> Arc<[u8]> {
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, self.bytes).collect();
        let mut rest = Arc::get_mut(&mut bytes).expect("nobody else has them yet");
        for piece in self.held.iter().flatten() {
            let (place, behind) = rest.split_at_mut(piece.payload.len());
            place.copy_from_slice(&piece.payload);
            rest = behind;
        }
        bytes
    }

    /// The outcome that was decided in a round, if the pieces are one.
    pub(super) fn outcome(&self, decided_in: u64) -> Option<Arc<Outcome>> {
        match Body::decode(&self.content()) {
            Ok(Body::Decided { round, outcome })
                if (outcome.number, round) == (self.of.number, decided_in) =>
            {
                Some(outcome)
            }
            Ok(_) | Err(_) => None,
        }
    }
}

/// A digest of a payload, the same on every machine: FNV-1a over words, turned so that every bit
/// counts. It tells one payload from another, and does not keep out who makes it up.
pub(super) fn digest(payload: &[u8]) -> u64 {
    let word = |some: &[u8]| {
        let mut word = [0; 8];
        word[..some.len()].copy_from_slice(some);
        u64::from_le_bytes(word)
    };
    let start = 0xcbf2_9ce4_8422_2325 ^ u64::try_from(payload.len()).unwrap_or(u64::MAX);
    payload
        .chunks(8)
        .map(word)
        .fold(start, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Content;

    /// The pieces that are here of an outcome of ten.
    fn pieces(held: &[u32]) -> Pieces {
        let of = Announcement { number: 1, content: Content::Outcome { round: 0 }, pieces: 10 };
        let mut pieces = Pieces::new(Moment(0), of, Evidence::Sent);
        for index in held {
            assert!(pieces.keep(&Arc::new(Piece { of, index: *index, payload: vec![1] })));
        }
        pieces
    }

    #[test]
    fn only_what_is_missing_is_asked_for() {
        assert_eq!(pieces(&[0, 3, 4, 7]).gaps(1..9), [1..3, 5..7, 8..9]);
        assert_eq!(pieces(&[0, 1]).gaps(2..u32::MAX).first(), Some(&(2..10)));
        assert_eq!(pieces(&[2, 3]).gaps(2..4), Vec::<Range<u32>>::new());
    }

    #[test]
    fn the_content_is_that_of_all_pieces_in_their_order() {
        let content = [1, 2, 3, 4, 5, 6, 7];
        let of = Announcement { pieces: 3, ..pieces(&[]).of };
        assert_eq!(*Pieces::all(Moment(0), of, &content, 3).content(), content);
        assert!(pieces(&[]).content().is_empty());
    }

    #[test]
    fn a_second_question_of_a_neighbour_keeps_the_first() {
        let mut pieces = pieces(&[3]);
        assert!(pieces.want(Pn(1), 0..2).is_empty());
        assert_eq!(pieces.want(Pn(1), 3..5).len(), 1, "one is here");
        assert!(pieces.want(Pn(2), 4..u32::MAX).is_empty());
        let wanting: Vec<Vec<Pn>> = (0..6).map(|index| pieces.take_wanting(index)).collect();
        let (one, other) = (vec![Pn(1)], vec![Pn(2)]);
        let both = vec![Pn(1), Pn(2)];
        assert_eq!(wanting, [one.clone(), one, vec![], vec![], both, other]);
        assert!(pieces.take_wanting(4).is_empty(), "they have it");
    }

    #[test]
    fn losses_of_pieces_that_were_under_way_together_count_once() {
        let mut root = pieces(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        root.sent = Some(4);
        assert!(root.is_first_loss(1));
        assert!(!root.is_first_loss(2) && !root.is_first_loss(1) && !root.is_first_loss(3));
        root.sent = Some(8);
        assert!(!root.is_first_loss(3), "it is asked for again");
        assert!(root.is_first_loss(4));
        assert!(!root.is_first_loss(7));
        assert!(!pieces(&[0]).is_first_loss(1), "nothing comes from here");
    }

    #[test]
    fn every_bit_of_a_payload_and_its_length_count() {
        let payload = vec![7; 20];
        let all = digest(&payload);
        for bit in 0..8 * payload.len() {
            let mut other = payload.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(digest(&other), all, "bit {bit}");
        }
        assert_ne!(digest(&[0; 9]), digest(&[0; 10]));
    }
}
