//! Outcomes and payloads that are too long for a packet: in pieces on the multicast connection.
//!
//! Pieces are of an outcome, from the root, or of the payload of a broadcast, from its source. No
//! more of them are sent than fit into the window beyond what all have that multicast reaches; they
//! say so along the tree, towards where the pieces come from. A gap is asked for at the neighbour
//! on that way as soon as it is seen, and what comes no more after a while. A neighbour that
//! multicast does not reach gets the whole outcome over its link.
//!
//! The source of a broadcast sends its payload as soon as it calls, and reports an *announcement*
//! of it with its digest. All endpoints keep the pieces. The root decides when it has the payload
//! itself, and sends the outcome with the announcement in the payload's place, a *brief* outcome. A
//! member that has all pieces puts the payload back; others ask for those that they lack, towards
//! the source, or towards the root if the source is gone. The root can hand out all that it
//! decides, so MSG-3 holds as for other outcomes. If the source is gone before the root has the
//! payload, the operation fails for all. Announcements are sent over an edge only while multicast
//! reaches both of its ends; an endpoint with another parent waits for the payload, and reports it
//! as it is.

use std::ops::Range;
use std::sync::Arc;

use fabricast_groups::{Moment, Pn};

use super::collection::{Evidence, Pieces, digest};
use super::parts::LEAST_PACE;
use super::{MemberEndpoint, Neighbor};
use crate::frame::{Announcement, Body, Content, Missing, Notice, Packet, Piece, Report, Source};
use crate::operation::{Gathered, Item, Kind, Outcome};
use crate::outputs::Output;

/// Bytes of a packet beside the piece that it carries.
const OVERHEAD: usize = 64;
/// Bytes that an outcome has beside what was gathered, at most.
const DESCRIPTION: usize = 4 << 20;

/// Operations after the last one of which payloads are kept. A source that has begun the second is
/// sure that all members have reported to the first.
const AHEAD: u64 = 2;

impl MemberEndpoint {
    /// Begins to send an outcome in pieces, as the root; returns false if nobody hears them.
    pub(super) fn announce_in_pieces(
        &mut self,
        now: Moment,
        round: u64,
        outcome: &Arc<Outcome>,
    ) -> bool {
        let size = self.piece_size();
        let bytes = Body::Decided { round, outcome: outcome.clone() }.encode();
        let Ok(pieces) = u32::try_from(bytes.len().div_ceil(size)) else { return false };
        let content = Content::Outcome { round };
        let of = Announcement { number: outcome.number, content, pieces };
        if !self.is_plausible(of) || self.hearing(now, None).next().is_none() {
            return false;
        }
        self.pieces.retain(|_, one| one.of.source().is_some());
        self.announce_all(now, Pieces::all(now, of, &bytes, size));
        true
    }

    /// Begins to send pieces.
    fn announce_all(&mut self, now: Moment, pieces: Pieces) {
        self.pieces.insert(pieces.of.number, pieces);
        self.announce(now);
        self.schedule_tick(now);
    }

    /// Bytes of a piece.
    fn piece_size(&self) -> usize {
        self.limits.packet.saturating_sub(OVERHEAD).max(1)
    }

    /// Returns whether pieces are still to be sent by multicast.
    pub(super) fn is_announcing(&self) -> bool {
        self.pieces.values().any(Pieces::is_announcing)
    }

    /// Sends pieces by multicast while the window has room.
    pub(super) fn announce(&mut self, now: Moment) {
        let unsent = self.pieces.iter().filter(|(_, pieces)| pieces.is_announcing());
        let unsent: Vec<u64> = unsent.map(|(number, _)| *number).collect();
        unsent.into_iter().for_each(|number| self.announce_some(now, number));
    }

    fn announce_some(&mut self, now: Moment, number: u64) {
        let least = self.least_reach(now, number);
        let window = self.limits.pieces.min(u32::try_from(self.pace.window).unwrap_or(u32::MAX));
        let (gn, pn, is_root) = (self.gn, self.pn, self.parent.is_none());
        let Some(pieces) = self.pieces.get_mut(&number) else { return };
        let can_send = self.multicast && (is_root || pieces.of.source().is_some());
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
        let (most, number) = (self.most_bytes(piece.of), piece.of.number);
        let evidence = if from.is_some() { Evidence::Sent } else { Evidence::Heard };
        let Some(pieces) = self.collect(now, piece.of, evidence) else { return };
        let before = pieces.have;
        if pieces.sent.is_some() || !pieces.keep(piece) {
            return;
        }
        pieces.progress_at = now;
        pieces.heard |= from.is_none();
        if pieces.bytes > most {
            self.pieces.remove(&number); // no correct member announces this
            return;
        }
        let wanting = pieces.take_wanting(piece.index);
        let gap = pieces.have.max(pieces.asked)..piece.index;
        if from.is_none() {
            pieces.asked = pieces.asked.max(piece.index + 1);
            if !gap.is_empty() {
                self.ask_for(number, &[gap]);
            }
        }
        wanting.into_iter().for_each(|pn| self.send_frame(pn, Body::Piece(piece.clone())));
        let Some(pieces) = self.pieces.get(&number) else { return };
        if pieces.is_complete() {
            match pieces.of.content {
                Content::Payload { digest, .. } => self.take_payload(now, number, digest),
                Content::Outcome { round } => match pieces.outcome(round) {
                    Some(outcome) => self.handle_outcome(now, from, round, &outcome),
                    None => _ = self.pieces.remove(&number),
                },
            }
        }
        if self.pieces.get(&number).is_some_and(|pieces| pieces.have > before) {
            self.tell_collected(now, number);
        }
        self.schedule_tick(now);
    }

    /// Handles what a neighbour's side has.
    pub(super) fn handle_collected(&mut self, now: Moment, from: Pn, of: Announcement, have: u32) {
        let Some(pieces) = self.collect(now, of, Evidence::Heard) else { return };
        let reach = pieces.reach.entry(from).or_default();
        *reach = have.min(of.pieces).max(*reach);
        if pieces.is_announcing() {
            self.note_pace(now, of.number);
        }
        self.announce(now);
        self.tell_collected(now, of.number);
        self.schedule_tick(now);
    }

    /// Lets more pieces be under way where all that were have been acknowledged.
    fn note_pace(&mut self, now: Moment, number: u64) {
        let most = u64::from(self.limits.pieces);
        let least = self.least_reach(now, number).unwrap_or(0);
        let Some(pieces) = self.pieces.get_mut(&number) else { return };
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
        let announced = self.pieces.get_mut(&of.number).filter(|pieces| pieces.of == of);
        let is_news = announced.is_some_and(|pieces| pieces.is_first_loss(range.start));
        if is_news && self.is_announcing() {
            self.pace.shrink(now);
        }
        if of.number > self.operations.last() {
            let Some(pieces) = self.collect(now, of, Evidence::Heard) else { return };
            // Pieces that were not sent yet are still to come.
            let end = pieces.sent.filter(|_| heard).unwrap_or(of.pieces).min(range.end);
            let held = pieces.want(from, range.start..end);
            held.into_iter().for_each(|piece| self.send_frame(from, Body::Piece(piece)));
            if !heard {
                self.distrust(now, from); // nobody waits for it any more
                self.tell_collected(now, of.number);
            }
            return self.schedule_tick(now);
        }
        let complete = self.pieces.get(&of.number).filter(|pieces| pieces.of == of && heard);
        let Some(pieces) = complete else {
            self.distrust(now, from);
            return self.send_outcome(from);
        };
        let end = pieces.sent.unwrap_or(of.pieces).min(range.end);
        let held = pieces.range(range.start..end);
        held.into_iter().for_each(|piece| self.send_frame(from, Body::Piece(piece)));
    }

    /// Asks for pieces that have not come for a while; returns whether to tick again.
    pub(super) fn ask_for_pieces(&mut self, now: Moment) -> bool {
        self.announce(now);
        let (window, resend_timeout) = (self.limits.pieces, self.resend_timeout());
        let missing = self.pieces.iter().filter(|(_, one)| !one.is_complete());
        let missing = missing.filter(|(_, one)| self.upstream_of(one).is_some());
        let missing: Vec<u64> = missing.map(|(number, _)| *number).collect();
        for number in &missing {
            self.tell_collected(now, *number);
            let Some(pieces) = self.pieces.get_mut(number) else { continue };
            if pieces.progress_at.after(resend_timeout) <= now {
                pieces.progress_at = now;
                let all = pieces.have..pieces.have.saturating_add(window).min(pieces.of.pieces);
                // A member that has heard nothing gets the whole outcome for one question.
                let gaps = if pieces.heard { pieces.gaps(all) } else { vec![all] };
                self.ask_for(*number, &gaps);
            }
        }
        !missing.is_empty() || self.is_announcing()
    }

    /// Returns whether nothing but pieces is missing for the outcome of an operation.
    pub(super) fn is_collecting(&self, number: u64) -> bool {
        let pieces = self.pieces.get(&number);
        pieces.is_some_and(|pieces| pieces.is_decided() && !pieces.is_complete())
    }

    /// The first piece of an operation, if it is here.
    pub(super) fn first_piece(&self, number: u64) -> Option<Arc<Piece>> {
        self.pieces.get(&number)?.held.first()?.clone()
    }

    /// Notes that a neighbour's side needs no more pieces of an outcome, as it gets the whole. Else
    /// the root would wait for what that side never says, and send no further pieces to others.
    pub(super) fn has_all_pieces(&mut self, pn: Pn, number: u64) {
        if let Some(pieces) = self.pieces.get_mut(&number) {
            pieces.reach.insert(pn, pieces.of.pieces);
        }
    }

    /// Drops the pieces of operations before that which ends, and its own ones if they are not
    /// complete: the outcome has come in another way.
    pub(super) fn drop_pieces_before(&mut self, number: u64) {
        let incomplete = self.pieces.get(&number).filter(|pieces| !pieces.is_complete());
        if let Some((of, to)) = incomplete.and_then(|one| Some((one.of, self.upstream_of(one)?)))
            && of.source().is_some()
            && self.neighbors.get(&to).is_some_and(|one| one.is_ready() && one.hears)
        {
            self.send_frame(to, Body::Collected { of, have: of.pieces }); // the source waits for it
        }
        self.pieces.retain(|of, one| *of > number || (*of == number && one.is_complete()));
    }

    /// Begins the collection anew for a new round: what was decided in an earlier one is void.
    pub(super) fn drop_pieces_of_earlier_rounds(&mut self, current: u64) {
        self.pieces.retain(|_, one| match one.of.content {
            Content::Outcome { round } => round >= current || one.is_complete(),
            Content::Payload { .. } => true,
        });
        self.pieces.values_mut().for_each(|one| one.decided = None);
    }

    /// Lets a new neighbour be told what this side has.
    pub(super) fn tell_collected_again(&mut self, to: Pn) {
        let owed = self.pieces.iter().filter(|(_, one)| self.upstream_of(one) == Some(to));
        for number in owed.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.pieces.entry(number).and_modify(|one| one.told = 0);
        }
    }

    /// Sends the last outcome to neighbours that may have to ask for it, before the member goes.
    pub(crate) fn confirm_outcome(&mut self) {
        if !self.limits.relies_on_multicast {
            return;
        }
        let last = self.operations.last();
        let below = self.neighbors.iter().filter(|(pn, one)| {
            let pieces = self.pieces.get(&last).filter(|all| all.of.source().is_none());
            let has_it = pieces.is_some_and(|all| all.reach.get(pn) == Some(&all.of.pieces));
            self.parent != Some(**pn) && one.hears && one.is_ready() && !has_it
        });
        let below = below.filter(|(pn, _)| !self.operations.has_reported_after(**pn, last));
        for pn in below.map(|(pn, _)| *pn).collect::<Vec<_>>() {
            let pieces = self.pieces.get(&last);
            match pieces.is_some_and(|all| all.reach.get(&pn) == Some(&all.of.pieces)) {
                true => self.send_brief_outcome(pn),
                false => self.send_outcome(pn),
            }
        }
    }

    /// The pieces of an operation that is still to end, or of the last one; `None` if they are of
    /// an older one, or others are kept instead.
    fn collect(
        &mut self,
        now: Moment,
        of: Announcement,
        evidence: Evidence,
    ) -> Option<&mut Pieces> {
        let held = self.pieces.get(&of.number);
        if held.is_some_and(|held| held.of == of) {
            let held = self.pieces.get_mut(&of.number)?;
            held.evidence = held.evidence.max(evidence);
            return Some(held);
        }
        let last = self.operations.last();
        let is_next = match of.content {
            Content::Outcome { round } => {
                let rounds = self.pieces.values().filter_map(|one| match one.of.content {
                    Content::Outcome { round } => Some((round, one.of.number)),
                    Content::Payload { .. } => None,
                });
                round >= self.operations.round() && rounds.max() < Some((round, of.number))
            }
            Content::Payload { .. } => {
                let is_weaker = |held: &Pieces| {
                    let is_foreign = held.of.source().is_some() && held.sent.is_none();
                    is_foreign && (held.evidence < evidence || evidence == Evidence::Named)
                };
                of.number <= last + AHEAD && held.is_none_or(is_weaker)
            }
        };
        if of.number <= last || !is_next || !self.is_plausible(of) {
            return None;
        }
        if of.source().is_none() {
            self.pieces.retain(|_, one| one.of.source().is_some());
        }
        self.pieces.insert(of.number, Pieces::new(now, of, evidence));
        self.pieces.get_mut(&of.number)
    }

    /// Returns whether a correct member may announce this.
    fn is_plausible(&self, of: Announcement) -> bool {
        let most = self.most_bytes(of).div_ceil(self.piece_size());
        of.pieces > 0 && usize::try_from(of.pieces).is_ok_and(|pieces| pieces <= most)
    }

    /// The most bytes that the pieces have together.
    fn most_bytes(&self, of: Announcement) -> usize {
        match of.content {
            Content::Outcome { .. } => self.limits.gathered + DESCRIPTION,
            Content::Payload { .. } => self.limits.message,
        }
    }

    /// The neighbour on the way to where pieces come from; `None` if that is here, or nowhere.
    fn upstream_of(&self, pieces: &Pieces) -> Option<Pn> {
        match pieces.of.source() {
            Some(source) if self.takes_part(source) => self.upstream(source.pn),
            // The root had the payload when it decided.
            Some(_) => self.parent.filter(|_| pieces.is_decided()),
            None => self.parent,
        }
    }

    fn ask_for(&mut self, number: u64, missing: &[Range<u32>]) {
        let Some(pieces) = self.pieces.get(&number) else { return };
        let Some(to) = self.upstream_of(pieces) else { return };
        let (of, heard) = (pieces.of, pieces.heard);
        match self.neighbors.get(&to).filter(|one| one.is_ready()).map(|one| one.hears) {
            Some(true) => {
                for &Range { start: from, end: until } in missing {
                    let missing = Missing { of, from, to: until, heard };
                    self.send_frame(to, Body::Missing(missing));
                }
            }
            Some(false) => self.send_frame(to, Body::Query { number }),
            None => {}
        }
    }

    /// Tells the neighbour on the way to where pieces come from what this side has, if that is news
    /// and somebody waits for it. All sides tell multiples of one number, half of the least that
    /// may be under way: what the levels of a tree leave out does not add up.
    fn tell_collected(&mut self, now: Moment, number: u64) {
        let below = self.least_reach(now, number);
        let window = self.limits.pieces;
        let Some(to) = self.pieces.get(&number).and_then(|one| self.upstream_of(one)) else {
            return;
        };
        if !self.neighbors.get(&to).is_some_and(|one| one.is_ready() && one.hears) {
            return;
        }
        let Some(pieces) = self.pieces.get_mut(&number) else { return };
        let (of, mut have) = (pieces.of, below.unwrap_or(u32::MAX).min(pieces.have));
        if have < of.pieces {
            have -= have % (window.min(LEAST_PACE) / 2).max(1);
        }
        if have > pieces.told {
            pieces.told = have;
            self.send_frame(to, Body::Collected { of, have });
        }
    }

    /// The least that neighbours on the other ways have for their sides; `None` without any that
    /// multicast reaches.
    fn least_reach(&self, now: Moment, number: u64) -> Option<u32> {
        let pieces = self.pieces.get(&number)?;
        let away = self.hearing(now, self.upstream_of(pieces));
        away.map(|pn| pieces.reach.get(&pn).copied().unwrap_or(0)).min()
    }

    /// The neighbours that multicast reaches, but one.
    fn hearing(&self, now: Moment, but: Option<Pn>) -> impl Iterator<Item = Pn> {
        let counts =
            move |one: &Neighbor| one.is_ready() && one.may_take_part() && one.is_heard_by(now);
        let others = self.neighbors.iter().filter(move |(pn, _)| but != Some(**pn));
        others.filter(move |(_, one)| counts(one)).map(|(pn, _)| *pn)
    }

    /// Begins to send the payload, if the member has called a broadcast of its own that is too long
    /// for a packet.
    pub(super) fn announce_payload(&mut self, now: Moment) {
        let number = self.operations.last() + 1;
        let own = self
            .operations
            .called()
            .filter(|(call, _)| call.kind == Kind::Broadcast && call.peer == self.pn);
        let Some(payload) = own.and_then(|(_, gathered)| gathered.payload()).cloned() else {
            return;
        };
        if self.pieces.get(&number).is_some_and(Pieces::is_decided) {
            return; // the call is for a later operation
        }
        self.pieces.remove(&number); // of an earlier session
        let size = self.piece_size();
        let is_heard = self.multicast && self.hearing(now, None).next().is_some();
        if !self.limits.relies_on_multicast || !is_heard || payload.len() <= size {
            return;
        }
        let Ok(pieces) = u32::try_from(payload.len().div_ceil(size)) else { return };
        let source = Source { pn: self.pn, joined: self.joined };
        let content = Content::Payload { source, digest: digest(&payload) };
        let of = Announcement { number, content, pieces };
        let mut all = Pieces::all(now, of, &payload, size);
        all.payload = Some(payload);
        self.announce_all(now, all);
    }

    /// Takes a payload whose pieces have all come. Other bytes than those that the source has
    /// announced are dropped and asked for again.
    fn take_payload(&mut self, now: Moment, number: u64, announced: u64) {
        let Some(pieces) = self.pieces.get_mut(&number) else { return };
        let payload = pieces.content();
        let decided = pieces.decided.clone();
        if digest(&payload) != announced {
            *pieces = Pieces::new(now, pieces.of, pieces.evidence);
            pieces.decided = decided;
            return;
        }
        pieces.payload = Some(payload);
        if let Some((round, outcome)) = decided {
            self.handle_outcome(now, None, round, &outcome);
        }
        self.try_report(now); // the report may have waited for it
    }

    /// The announcement of contributions, if they are a payload that is sent in pieces.
    pub(super) fn announced(&self, number: u64, gathered: &Gathered) -> Option<Gathered> {
        let (pieces, bytes) = (self.pieces.get(&number)?, gathered.payload()?);
        let is_it = pieces.payload.as_ref().is_some_and(|payload| Arc::ptr_eq(payload, bytes));
        is_it.then_some(Gathered::Announced(pieces.of))
    }

    /// Has the pieces of an announced payload collected.
    pub(super) fn expect_payload(&mut self, now: Moment, gathered: &Gathered) {
        if let Gathered::Announced(of) = gathered
            && self.collect(now, *of, Evidence::Named).is_some()
        {
            self.schedule_tick(now);
        }
    }

    /// Puts the payload in the place of its announcement, unless the report is for a parent that
    /// takes announcements; returns false while the payload is still to come. One that does not
    /// come any more counts as not contributed.
    pub(super) fn has_payload(&self, report: &mut Report) -> bool {
        let Gathered::Announced(of) = report.gathered else { return true };
        let parent = self.parent.and_then(|parent| self.neighbors.get(&parent));
        let takes_announcements = |one: &Neighbor| one.hears && self.multicast;
        if self.limits.relies_on_multicast && parent.is_some_and(takes_announcements) {
            return true;
        }
        let pieces = self.pieces.get(&of.number).filter(|pieces| pieces.of == of);
        let payload = pieces.and_then(|pieces| pieces.payload.clone());
        let source = of.source();
        let is_here = source.is_some_and(|source| self.takes_part(source));
        if payload.is_none() && is_here && report.other.is_none() {
            return false;
        }
        if let Some(source) = source.filter(|_| payload.is_none() && !is_here) {
            report.included.remove(&source.pn);
            report.lost.insert(source.pn);
        }
        let payload = source.zip(payload);
        let items = payload.map(|(source, payload)| (source.pn, Item::Bytes(payload)));
        report.gathered = Gathered::Listed(items.into_iter().collect());
        true
    }

    /// The outcome with its payload, if that is here. Otherwise it is kept until the payload is.
    pub(super) fn with_payload(
        &mut self,
        now: Moment,
        round: u64,
        outcome: &Arc<Outcome>,
    ) -> Option<Arc<Outcome>> {
        let Ok(Gathered::Announced(of)) = outcome.verdict else { return Some(outcome.clone()) };
        let source = of.source().filter(|_| of.number == outcome.number)?;
        // Another payload is of a call for a later operation, also if it is the member's own.
        self.pieces
            .retain(|number, one| *number != of.number || one.sent.is_none() || one.of == of);
        // While others are kept, the brief outcome is as good as lost.
        let pieces = self.collect(now, of, Evidence::Named)?;
        let Some(payload) = pieces.payload.clone() else {
            pieces.decided = Some((round, outcome.clone()));
            self.schedule_tick(now);
            return None;
        };
        let verdict = Ok(Gathered::Listed(vec![(source.pn, Item::Bytes(payload))]));
        Some(Arc::new(Outcome { verdict, ..(**outcome).clone() }))
    }

    /// The brief form of an outcome whose payload was sent in pieces; others are as they were.
    pub(super) fn brief(&self, outcome: &Arc<Outcome>) -> Arc<Outcome> {
        let gathered = outcome.verdict.as_ref().ok();
        match gathered.and_then(|gathered| self.announced(outcome.number, gathered)) {
            Some(announced) => Arc::new(Outcome { verdict: Ok(announced), ..(**outcome).clone() }),
            None => outcome.clone(),
        }
    }

    /// Sends a neighbour the last outcome in its brief form.
    pub(super) fn send_brief_outcome(&mut self, to: Pn) {
        let Some(outcome) = self.operations.last_outcome().map(|last| self.brief(last)) else {
            return;
        };
        if self.neighbors.get(&to).is_some_and(Neighbor::is_ready) {
            self.send_frame(to, Body::Decided { round: self.operations.round(), outcome });
        }
    }

    /// Returns whether the source of a payload takes part still.
    fn takes_part(&self, source: Source) -> bool {
        self.roster.joined(source.pn) == Some(source.joined)
    }
}

#[cfg(test)]
mod tests;
