//! Outcomes that are too long for a packet: in pieces on the multicast connection.
//!
//! The root sends no more pieces than fit into the window beyond what all have that multicast
//! reaches; they say so up the tree. A gap is asked for at the neighbour towards the root as soon
//! as it is seen, and what comes no more after a while. A neighbour that multicast does not reach
//! gets the whole outcome over its link.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use fabricast_groups::{Moment, Pn};

use super::parts::LEAST_PACE;
use super::{MemberEndpoint, Neighbor};
use crate::frame::{Announcement, Body, Missing, Notice, Packet, Piece};
use crate::operation::Outcome;
use crate::outputs::Output;

/// Bytes of a packet beside the piece that it carries.
const OVERHEAD: usize = 64;
/// Bytes that an outcome has beside what was gathered, at most.
const DESCRIPTION: usize = 4 << 20;

/// The pieces of the outcome of one operation at one endpoint.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    of: Announcement,
    held: Vec<Option<Arc<Piece>>>,
    bytes: usize,
    /// All before this are held.
    have: u32,
    /// Those before this were sent by multicast; only where they come from.
    sent: Option<u32>,
    /// The same of the neighbours away from the root, for all on their sides.
    reach: BTreeMap<Pn, u32>,
    /// Pieces that neighbours have asked for before they were here.
    wanted: BTreeMap<Pn, BTreeSet<u32>>,
    /// Those before this were under way together when one was lost; only where they come from.
    slowed: u32,
    /// The last that was said of this side.
    told: u32,
    /// Those before this came or were asked for.
    asked: u32,
    /// Multicast has brought some.
    heard: bool,
    /// Time of the last piece, or of the last question for pieces.
    progress_at: Moment,
}

impl Pieces {
    fn new(now: Moment, of: Announcement) -> Self {
        let held = vec![None; usize::try_from(of.pieces).unwrap_or(0)];
        Self {
            of,
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
            progress_at: now,
        }
    }

    fn is_complete(&self) -> bool {
        self.have == self.of.pieces
    }

    /// Keeps a piece; returns false for one that is held or cannot be.
    fn keep(&mut self, piece: &Arc<Piece>) -> bool {
        let place = usize::try_from(piece.index).ok().and_then(|at| self.held.get_mut(at));
        let Some(place) = place.filter(|place| place.is_none()) else { return false };
        self.bytes += piece.payload.len();
        *place = Some(piece.clone());
        while self.held.get(self.have as usize).is_some_and(Option::is_some) {
            self.have += 1;
        }
        true
    }

    fn range(&self, range: Range<u32>) -> Vec<Arc<Piece>> {
        let all = self.held.iter().skip(range.start as usize).take(range.len());
        all.flatten().cloned().collect()
    }

    /// The rows of pieces in a range that are not held.
    fn gaps(&self, range: Range<u32>) -> Vec<Range<u32>> {
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
    fn want(&mut self, pn: Pn, range: Range<u32>) -> Vec<Arc<Piece>> {
        let lacking = self.gaps(range.clone()).into_iter().flatten();
        self.wanted.entry(pn).or_default().extend(lacking);
        self.range(range)
    }

    /// The neighbours that want a piece; each of them only once.
    fn take_wanting(&mut self, index: u32) -> Vec<Pn> {
        let wanting = self.wanted.iter_mut().filter_map(|(pn, pieces)| {
            let is_wanted = pieces.remove(&index);
            is_wanted.then_some(*pn)
        });
        wanting.collect()
    }

    /// Returns whether a loss of this piece is the first among those that were under way together:
    /// further ones, also of other members, have the same cause.
    fn is_first_loss(&mut self, index: u32) -> bool {
        let Some(sent) = self.sent.filter(|_| index >= self.slowed) else { return false };
        self.slowed = sent;
        true
    }

    /// The outcome, if its pieces are one.
    fn outcome(&self) -> Option<Arc<Outcome>> {
        let mut bytes = Vec::with_capacity(self.bytes);
        self.held.iter().flatten().for_each(|piece| bytes.extend_from_slice(&piece.payload));
        match Body::decode(&bytes) {
            Ok(Body::Decided { round, outcome })
                if (outcome.number, round) == (self.of.number, self.of.round) =>
            {
                Some(outcome)
            }
            Ok(_) | Err(_) => None,
        }
    }
}

impl MemberEndpoint {
    /// Begins to send an outcome in pieces, as the root; returns false if nobody hears them.
    pub(super) fn announce_in_pieces(
        &mut self,
        now: Moment,
        round: u64,
        outcome: &Arc<Outcome>,
    ) -> bool {
        let size = self.limits.packet.saturating_sub(OVERHEAD).max(1);
        let bytes = Body::Decided { round, outcome: outcome.clone() }.encode();
        let Ok(pieces) = u32::try_from(bytes.len().div_ceil(size)) else { return false };
        let of = Announcement { number: outcome.number, round, pieces };
        if !self.is_plausible(of) || self.hearing(now).next().is_none() {
            return false;
        }
        let mut all = Pieces::new(now, of);
        for (index, payload) in (0..).zip(bytes.chunks(size)) {
            all.keep(&Arc::new(Piece { of, index, payload: payload.to_vec() }));
        }
        all.sent = Some(0);
        self.pieces = Some(all);
        self.announce(now);
        self.schedule_tick(now);
        true
    }

    /// Returns whether pieces are still to be sent by multicast.
    pub(super) fn is_announcing(&self) -> bool {
        let pieces = self.pieces.as_ref();
        pieces.is_some_and(|pieces| pieces.sent.is_some_and(|sent| sent < pieces.of.pieces))
    }

    /// Sends pieces by multicast while the window has room.
    pub(super) fn announce(&mut self, now: Moment) {
        if !self.is_announcing() {
            return;
        }
        let least = self.least_reach(now);
        let window = self.limits.pieces.min(u32::try_from(self.pace.window).unwrap_or(u32::MAX));
        let (gn, pn) = (self.gn, self.pn);
        let can_send = self.multicast && self.parent.is_none();
        let Some(pieces) = &mut self.pieces else { return };
        let Some(sent) = &mut pieces.sent else { return };
        let Some(least) = least.filter(|_| can_send) else {
            *sent = pieces.of.pieces; // nobody hears it; who lacks some asks
            return;
        };
        let end = least.saturating_add(window).min(pieces.of.pieces);
        let now_sent = std::mem::replace(sent, end.max(*sent));
        for piece in pieces.range(now_sent..end) {
            let packet = Packet { gn, notice: Notice::Piece(piece) };
            self.out.push_back(Output::Multicast { pn, packet });
        }
    }

    /// Handles a piece from a neighbour, or from the multicast connection (`None`).
    pub(crate) fn handle_piece(&mut self, now: Moment, from: Option<Pn>, piece: &Arc<Piece>) {
        let most = self.limits.gathered + DESCRIPTION;
        let Some(pieces) = self.collect(now, piece.of) else { return };
        let before = pieces.have;
        if pieces.sent.is_some() || !pieces.keep(piece) {
            return;
        }
        pieces.progress_at = now;
        pieces.heard |= from.is_none();
        if pieces.bytes > most {
            self.pieces = None; // no correct root announces this
            return;
        }
        let wanting = pieces.take_wanting(piece.index);
        let gap = pieces.have.max(pieces.asked)..piece.index;
        if from.is_none() {
            pieces.asked = pieces.asked.max(piece.index + 1);
            if !gap.is_empty() {
                self.ask_parent(&[gap]);
            }
        }
        wanting.into_iter().for_each(|pn| self.send_frame(pn, Body::Piece(piece.clone())));
        let Some(pieces) = &self.pieces else { return };
        if pieces.is_complete() {
            let (round, outcome) = (pieces.of.round, pieces.outcome());
            match outcome {
                Some(outcome) => self.handle_outcome(now, from, round, &outcome),
                None => self.pieces = None,
            }
        }
        if self.pieces.as_ref().is_some_and(|pieces| pieces.have > before) {
            self.tell_collected(now);
        }
        self.schedule_tick(now);
    }

    /// Handles what a neighbour's side has.
    pub(super) fn handle_collected(&mut self, now: Moment, from: Pn, of: Announcement, have: u32) {
        if self.parent == Some(from) {
            return;
        }
        let Some(pieces) = self.collect(now, of) else { return };
        let reach = pieces.reach.entry(from).or_default();
        *reach = have.min(of.pieces).max(*reach);
        if self.is_announcing() {
            self.note_pace(now);
        }
        self.announce(now);
        self.tell_collected(now);
        self.schedule_tick(now);
    }

    /// Lets more pieces be under way where all that were have been acknowledged.
    fn note_pace(&mut self, now: Moment) {
        let most = u64::from(self.limits.pieces);
        let least = self.least_reach(now).unwrap_or(0);
        let Some(pieces) = &mut self.pieces else { return };
        let before = pieces.told;
        pieces.told = least.max(before);
        if least > before {
            self.pace.grow(now, u64::from(least - before), most);
        }
    }

    /// Sends a neighbour pieces that it lacks, as far as they are here.
    pub(super) fn handle_missing(&mut self, now: Moment, from: Pn, missing: Missing) {
        let Missing { of, heard, .. } = missing;
        let range = missing.from..missing.to;
        if of.number > self.operations.last() {
            let Some(pieces) = self.pieces.as_mut().filter(|pieces| pieces.of == of) else {
                return;
            };
            let held = pieces.want(from, range);
            held.into_iter().for_each(|piece| self.send_frame(from, Body::Piece(piece)));
            if !heard {
                self.distrust(now, from); // nobody waits for it any more
                self.tell_collected(now);
            }
            return;
        }
        let announced = self.pieces.as_mut().filter(|pieces| pieces.of == of);
        let is_news = announced.is_some_and(|pieces| pieces.is_first_loss(range.start));
        if is_news && self.is_announcing() {
            self.pace.shrink(now);
        }
        let complete = self.pieces.as_ref().filter(|pieces| pieces.of == of && heard);
        let Some(pieces) = complete else {
            self.distrust(now, from);
            return self.send_outcome(from);
        };
        // Pieces that were not sent yet are still to come.
        let end = pieces.sent.unwrap_or(of.pieces).min(range.end);
        let held = pieces.range(range.start..end);
        held.into_iter().for_each(|piece| self.send_frame(from, Body::Piece(piece)));
    }

    /// Asks for pieces that have not come for a while; returns whether to tick again.
    pub(super) fn ask_for_pieces(&mut self, now: Moment) -> bool {
        self.announce(now);
        let window = self.limits.pieces;
        let (round, resend_timeout) = (self.operations.round(), self.resend_timeout());
        let number = self.pieces.as_ref().map_or(0, |pieces| pieces.of.number);
        if !self.is_collecting(number) {
            return self.is_announcing();
        }
        let Some(pieces) = self.pieces.as_mut().filter(|pieces| pieces.of.round >= round) else {
            self.pieces = None; // of a root that is gone
            return false;
        };
        if pieces.progress_at.after(resend_timeout) <= now {
            pieces.progress_at = now;
            let all = pieces.have..pieces.have.saturating_add(window).min(pieces.of.pieces);
            // A member that has heard nothing gets the whole outcome for one question.
            let missing = if pieces.heard { pieces.gaps(all) } else { vec![all] };
            self.ask_parent(&missing);
        }
        true
    }

    /// Returns whether pieces of the outcome of an operation have come, and others not.
    pub(super) fn is_collecting(&self, number: u64) -> bool {
        let pieces = self.pieces.as_ref().filter(|pieces| pieces.of.number == number);
        pieces.is_some_and(|pieces| pieces.sent.is_none() && !pieces.is_complete())
    }

    /// The first piece of the outcome of an operation, if it is here.
    pub(super) fn first_piece(&self, number: u64) -> Option<Arc<Piece>> {
        let pieces = self.pieces.as_ref().filter(|pieces| pieces.of.number == number)?;
        pieces.held.first()?.clone()
    }

    /// Notes that a neighbour's side needs no more pieces of an outcome, as it gets the whole. Else
    /// the root would wait for what that side never says, and send no further pieces to others.
    pub(super) fn has_all_pieces(&mut self, pn: Pn, number: u64) {
        let pieces = self.pieces.as_mut().filter(|pieces| pieces.of.number == number);
        if let Some(pieces) = pieces {
            pieces.reach.insert(pn, pieces.of.pieces);
        }
    }

    /// Drops the pieces of another operation than that which ends, and those that are not complete:
    /// the outcome has come in another way.
    pub(super) fn drop_pieces_before(&mut self, number: u64) {
        self.pieces = self.pieces.take().filter(|one| one.of.number == number && one.is_complete());
    }

    /// Sends the last outcome to neighbours that may have to ask for it, before the member goes.
    pub(crate) fn confirm_outcome(&mut self) {
        if !self.limits.relies_on_multicast {
            return;
        }
        let last = self.operations.last();
        let below = self.neighbors.iter().filter(|(pn, one)| {
            let reach = self.pieces.as_ref().map(|all| (all.of, all.reach.get(pn).copied()));
            let has_it = reach.is_some_and(|(of, have)| have == Some(of.pieces));
            self.parent != Some(**pn) && one.hears && one.is_ready() && !has_it
        });
        let below = below.filter(|(pn, _)| !self.operations.has_reported_after(**pn, last));
        for pn in below.map(|(pn, _)| *pn).collect::<Vec<_>>() {
            self.send_outcome(pn);
        }
    }

    /// The pieces of an outcome that is still to come, or of the last one; `None` if it is an older
    /// one.
    fn collect(&mut self, now: Moment, of: Announcement) -> Option<&mut Pieces> {
        let is_held = self.pieces.as_ref().is_some_and(|pieces| pieces.of == of);
        if !is_held {
            let is_next = of.number > self.operations.last() && of.round >= self.operations.round();
            let order = |of: &Announcement| (of.round, of.number);
            let is_newer = self.pieces.as_ref().is_none_or(|pieces| order(&pieces.of) < order(&of));
            if !is_next || !is_newer || !self.is_plausible(of) {
                return None;
            }
            self.pieces = Some(Pieces::new(now, of));
        }
        self.pieces.as_mut()
    }

    /// Returns whether a correct root may announce this.
    fn is_plausible(&self, of: Announcement) -> bool {
        let size = self.limits.packet.saturating_sub(OVERHEAD).max(1);
        let most = (self.limits.gathered + DESCRIPTION).div_ceil(size);
        of.pieces > 0 && usize::try_from(of.pieces).is_ok_and(|pieces| pieces <= most)
    }

    fn ask_parent(&mut self, missing: &[Range<u32>]) {
        let Some(parent) = self.parent else { return };
        let hears = self.neighbors.get(&parent).filter(|one| one.is_ready()).map(|one| one.hears);
        match (&self.pieces, hears) {
            (Some(Pieces { of, heard, .. }), Some(true)) => {
                let (of, heard) = (*of, *heard);
                for &Range { start: from, end: to } in missing {
                    self.send_frame(parent, Body::Missing(Missing { of, from, to, heard }));
                }
            }
            (Some(Pieces { of, .. }), Some(false)) => {
                let number = of.number;
                self.send_frame(parent, Body::Query { number });
            }
            (None, _) | (_, None) => {}
        }
    }

    /// Tells the parent what this side has, if that is news and somebody waits for it. All sides
    /// tell multiples of one number, half of the least that may be under way: what the levels of a
    /// tree leave out does not add up.
    fn tell_collected(&mut self, now: Moment) {
        let below = self.least_reach(now);
        let window = self.limits.pieces;
        let Some(parent) = self.parent else { return };
        if !self.neighbors.get(&parent).is_some_and(|one| one.is_ready() && one.hears) {
            return;
        }
        let Some(pieces) = self.pieces.as_mut() else { return };
        let (of, mut have) = (pieces.of, below.unwrap_or(u32::MAX).min(pieces.have));
        if have < of.pieces {
            have -= have % (window.min(LEAST_PACE) / 2).max(1);
        }
        if have > pieces.told {
            pieces.told = have;
            self.send_frame(parent, Body::Collected { of, have });
        }
    }

    /// The least that neighbours away from the root have for their sides; `None` without any that
    /// multicast reaches.
    fn least_reach(&self, now: Moment) -> Option<u32> {
        let pieces = self.pieces.as_ref()?;
        self.hearing(now).map(|pn| pieces.reach.get(&pn).copied().unwrap_or(0)).min()
    }

    /// The neighbours away from the root that multicast reaches.
    fn hearing(&self, now: Moment) -> impl Iterator<Item = Pn> {
        let counts =
            move |one: &Neighbor| one.is_ready() && one.may_take_part() && one.is_heard_by(now);
        let below = self.neighbors.iter().filter(|(pn, _)| self.parent != Some(**pn));
        below.filter(move |(_, one)| counts(one)).map(|(pn, _)| *pn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that are here of an outcome of ten.
    fn pieces(held: &[u32]) -> Pieces {
        let of = Announcement { number: 1, round: 0, pieces: 10 };
        let mut pieces = Pieces::new(Moment(0), of);
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
}
