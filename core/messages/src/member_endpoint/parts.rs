//! Messages: sent, forwarded, delivered and acknowledged.
//!
//! A part that came over a link is forwarded over all other links; the root sends it on the
//! multicast connection, too. A part that came by multicast is forwarded only to neighbours that
//! multicast misses. Parts that a neighbour still lacks after a while are sent to it over the link.
//! Best-effort parts take the same ways, but are neither kept nor acknowledged.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::{Moment, Pn};

use super::{MemberEndpoint, Neighbor};
use crate::frame::{Ack, Body, Notice, Packet, Part, Source};
use crate::outputs::{Mode, Output, SendError, SendId};
use crate::stream::{BestEffort, Stream};

/// The most that acknowledgements lengthen [`Limits::retry`](crate::Limits::retry) to.
const MAX_RESEND_TIMEOUT: Duration = Duration::from_millis(500);

/// State of the member's own messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Sends {
    next_id: u64,
    numbered: u64,           // last number of a reliable part
    best_effort: u64,        // last number of a best-effort part
    backlog: VecDeque<Part>, // waiting for room in the window
    receipts: VecDeque<Receipt>,
    announced: u64, // floor that the neighbours know
    refused: bool,  // a message was refused for lack of room
}

/// Limit of the parts that are under way on the multicast connection: switches and sockets have
/// room for some packets only, and nobody but the acknowledgements tells how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Parts, or pieces of an outcome, that may be under way.
    pub(super) window: u64,
    /// Acknowledged since the window was enlarged last.
    acknowledged: u64,
    /// Without a loss so far, the window grows by each that is acknowledged, else by one a window.
    has_lost: bool,
    progress_at: Moment,
}

/// The least that may be under way, which small buffers hold.
pub(super) const LEAST_PACE: u32 = 16;

impl Default for Pace {
    fn default() -> Self {
        let (window, progress_at) = (u64::from(LEAST_PACE), Moment(0));
        Self { window, acknowledged: 0, has_lost: false, progress_at }
    }
}

impl Pace {
    /// Notes that some are acknowledged.
    pub(super) fn grow(&mut self, now: Moment, count: u64, most: u64) {
        self.progress_at = now;
        self.acknowledged += count;
        let step = if self.has_lost { self.window } else { 1 };
        self.window = (self.window + self.acknowledged / step).min(most.max(LEAST_PACE.into()));
        self.acknowledged %= step;
    }

    /// Notes that acknowledgements have not come for a while.
    pub(super) fn shrink(&mut self, now: Moment) {
        self.progress_at = now;
        (self.window, self.has_lost) = ((self.window / 2).max(LEAST_PACE.into()), true);
    }

    /// Notes a loss, of which others tell, too.
    fn lose(&mut self) {
        let window = (self.window - self.window / 8).max(LEAST_PACE.into());
        (self.window, self.has_lost) = (window, true);
    }
}

/// A message that is not acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct Receipt {
    id: SendId,
    last: u64,
    roster: u64,
}

impl MemberEndpoint {
    /// Sends a message of the member.
    pub(crate) fn send(
        &mut self,
        now: Moment,
        mode: Mode,
        payload: &[u8],
    ) -> Result<SendId, SendError> {
        if !self.is_open() {
            return Err(SendError::NotOpen { gn: self.gn, pn: self.pn });
        }
        let (bytes, limit) = (payload.len(), self.limits.message);
        if bytes > limit {
            return Err(SendError::TooLong { bytes, limit });
        }
        let waiting = self.sends.backlog.len();
        let parts = bytes.div_ceil(self.limits.part).max(1);
        if mode == Mode::Reliable && waiting > 0 && waiting + parts > self.limits.backlog {
            self.sends.refused = true;
            return Err(SendError::NoRoom);
        }
        let id = SendId(self.sends.next_id);
        self.sends.next_id += 1;
        let numbers = match mode {
            Mode::Reliable => &mut self.sends.numbered,
            Mode::BestEffort => &mut self.sends.best_effort,
        };
        let source = Source { pn: self.pn, joined: self.joined };
        let parts = split(source, numbers, payload, self.limits.part);
        match mode {
            Mode::Reliable => {
                let last = self.sends.numbered;
                let roster = self.roster.version();
                self.sends.receipts.push_back(Receipt { id, last, roster });
                self.sends.backlog.extend(parts);
                self.advance(now, self.pn);
            }
            Mode::BestEffort => {
                for part in parts {
                    self.forward_best_effort(now, None, &Arc::new(part));
                }
            }
        }
        Ok(id)
    }

    /// Notes that the process has taken this many messages.
    pub(crate) fn consumed(&mut self, now: Moment, messages: usize) {
        let was_full = self.inbox >= self.limits.inbox;
        self.inbox = self.inbox.saturating_sub(messages);
        if was_full {
            self.settle(now);
        }
    }

    /// Drops the member's messages when it closes.
    pub(super) fn drop_sends(&mut self) {
        self.sends.receipts.clear();
        self.sends.backlog.clear();
        let numbered = self.sends.numbered;
        if let Some(own) = self.streams.get_mut(&self.pn) {
            own.skip_to(numbered);
        }
    }

    /// Sends all neighbours the floor of the member's parts, if it has sent some in an earlier
    /// session.
    pub(super) fn send_own_floor(&mut self) {
        let ready = self.neighbors.iter().filter(|(_, one)| one.is_ready());
        for pn in ready.map(|(pn, _)| *pn).collect::<Vec<_>>() {
            self.send_floor(self.pn, pn);
        }
    }

    /// Handles a reliable part from a neighbour, or from the multicast connection (`None`).
    pub(crate) fn handle_part(&mut self, now: Moment, from: Option<Pn>, part: Arc<Part>) {
        let (Source { pn: source, joined }, number) = (part.source, part.number);
        let window = self.limits.window;
        let Some(stream) = self.streams.get_mut(&source).filter(|stream| stream.joined == joined)
        else {
            return; // the source is not in the roster, or not yet
        };
        if source != self.pn && stream.skip_to(part.floor) {
            self.unsettled.insert(source);
        }
        if stream.is_copy(number) {
            if from.is_some() {
                stream.told = None; // the sender missed the acknowledgement
                self.advance(now, source);
            }
            if self.unsettled.contains(&source) {
                self.schedule_tick(now);
            }
            return;
        }
        if source == self.pn || number > stream.base + window {
            return; // no correct source sends this
        }
        let gap = if from.is_none() { stream.gap_before(number) } else { 0..0 };
        stream.keep(part.clone());
        self.unsettled.insert(source);
        self.ask_for_parts(part.source, gap);
        self.forward(now, from, &part);
        self.advance(now, source);
        self.schedule_tick(now);
    }

    /// Skips the parts up to `floor`, which no member needs any more, and forwards the floor.
    pub(super) fn handle_floor(&mut self, now: Moment, from: Pn, source: Source, floor: u64) {
        let known =
            self.streams.get_mut(&source.pn).filter(|stream| stream.joined == source.joined);
        if source.pn != self.pn && known.is_some_and(|stream| stream.skip_to(floor)) {
            self.unsettled.insert(source.pn);
            for out in self.ready_downstream(source.pn).into_iter().filter(|out| *out != from) {
                self.send_floor(source.pn, out);
            }
            self.advance(now, source.pn);
            self.schedule_tick(now);
        }
    }

    /// Asks the neighbour towards the source for parts that multicast has not brought.
    fn ask_for_parts(&mut self, source: Source, gap: Range<u64>) {
        let Some(to) = self.upstream(source.pn) else { return };
        let hears = self.neighbors.get(&to).is_some_and(|one| one.is_ready() && one.hears);
        if !gap.is_empty() && hears && self.limits.relies_on_multicast {
            self.send_frame(to, Body::Lacks { source, from: gap.start, to: gap.end });
        }
    }

    /// Sends a neighbour parts that multicast has not brought it, as far as they are here.
    pub(super) fn handle_lacks(&mut self, from: Pn, source: Source, range: Range<u64>) {
        let known = self.streams.get(&source.pn).filter(|stream| stream.joined == source.joined);
        let Some(stream) = known.filter(|_| !range.is_empty()) else { return };
        let held: Vec<Arc<Part>> =
            stream.parts.range(range).map(|(_, part)| part.clone()).collect();
        for part in held {
            self.send_frame(from, Body::Part(part));
        }
        if source.pn == self.pn {
            self.pace.lose();
        }
    }

    /// Handles a neighbour's acknowledgement.
    pub(super) fn handle_ack(&mut self, now: Moment, from: Pn, source: Source, ack: Ack) {
        let Ack { have, side } = ack;
        let is_out = self.upstream(source.pn) != Some(from);
        let known =
            self.streams.get_mut(&source.pn).filter(|stream| stream.joined == source.joined);
        let Some(stream) = known.filter(|_| is_out) else { return };
        let reach = stream.reach.entry(from).or_default();
        reach.acked = reach.acked.max(side);
        if have > reach.covered {
            self.ack_delay = (self.ack_delay * 7 + now.since(reach.since)) / 8;
            (reach.covered, reach.since) = (have, now);
        }
        self.advance(now, source.pn);
    }

    /// Delivers, acknowledges and sends parts of one source, as far as that is possible now.
    pub(super) fn advance(&mut self, now: Moment, source: Pn) {
        loop {
            self.deliver(source);
            let downstream = self.downstream(source);
            let Some(stream) = self.streams.get_mut(&source) else { return };
            let side = stream.side(&downstream);
            if source != self.pn {
                return self.acknowledge(now, source, side);
            }
            let before = stream.base;
            if stream.skip_to(side) {
                self.pace.grow(now, side - before, self.limits.window);
                self.schedule_tick(now); // announces the floor if no part does until then
            }
            self.acknowledge_sends();
            if !self.fill_window(now) {
                return;
            }
        }
    }

    /// Delivers parts to the process while its inbox has room.
    fn deliver(&mut self, source: Pn) {
        let passes_on = !self.is_open() || source == self.pn;
        let Some(stream) = self.streams.get_mut(&source) else { return };
        if passes_on {
            stream.taken = stream.have;
            return;
        }
        while stream.taken < stream.have {
            let Some(part) = stream.parts.get(&(stream.taken + 1)) else { return };
            if stream.assembly.completes(part) && self.inbox >= self.limits.inbox {
                return;
            }
            stream.taken += 1;
            if let Some(payload) = stream.assembly.add(part) {
                self.inbox += 1;
                let (gn, pn) = (self.gn, self.pn);
                self.out.push_back(Output::Deliver { gn, pn, from: source, payload });
            }
        }
    }

    /// Notifies the process of its messages that all members have.
    fn acknowledge_sends(&mut self) {
        let base = self.streams.get(&self.pn).map_or(0, |own| own.base);
        while let Some(receipt) = self.sends.receipts.front().filter(|one| one.last <= base) {
            let (id, missed) = (receipt.id, self.roster.gone_since(receipt.roster));
            let (gn, pn) = (self.gn, self.pn);
            self.out.push_back(Output::Acknowledged { gn, pn, id, missed });
            self.sends.receipts.pop_front();
        }
        self.roster.forget(self.sends.receipts.front().map(|receipt| receipt.roster));
        if self.sends.backlog.len() * 2 <= self.limits.backlog
            && std::mem::take(&mut self.sends.refused)
        {
            self.out.push_back(Output::Room { gn: self.gn, pn: self.pn });
        }
    }

    /// Sends parts of the backlog while the window has room; returns whether it sent any.
    fn fill_window(&mut self, now: Moment) -> bool {
        let mut any = false;
        let most = self.send_window();
        while let Some(own) = self.streams.get_mut(&self.pn)
            && let Some(part) = self.sends.backlog.front()
            && part.number <= own.base + most
            && let Some(part) = self.sends.backlog.pop_front()
        {
            let part = Arc::new(Part { floor: own.base, ..part });
            self.sends.announced = own.base;
            own.keep(part.clone());
            self.unsettled.insert(self.pn);
            self.forward(now, None, &part);
            any = true;
        }
        if any {
            self.schedule_tick(now);
        }
        any
    }

    /// Acknowledges the parts that this side has, if there is news for the neighbour upstream.
    fn acknowledge(&mut self, now: Moment, source: Pn, side: u64) {
        let Some(to) = self.upstream(source) else { return };
        if !self.neighbors.get(&to).is_some_and(Neighbor::is_ready) {
            return; // an acknowledgement must not overtake the roster
        }
        let Some(stream) = self.streams.get_mut(&source) else { return };
        // Few enough that those of all levels of a tree are less than may be under way.
        let share = if self.limits.relies_on_multicast { 16 } else { 4 };
        let (have, some) = (stream.have, self.limits.window / share);
        let news = match stream.told {
            None => stream.is_used(),
            // Within a message some parts at once.
            Some(told) if self.limits.relies_on_multicast && !stream.assembly.is_between() => {
                side >= told.side + some || have >= told.have + some
            }
            Some(told) => side > told.side || have >= told.have + some,
        };
        if !news && stream.told.is_some_and(|told| told.side < side || told.have < have) {
            self.unsettled.insert(source); // it is sent with the next tick
            self.schedule_tick(now);
            return;
        }
        if news {
            stream.told = Some(Ack { have, side });
            let source = Source { pn: source, joined: stream.joined };
            self.send_frame(to, Body::Ack { source, ack: Ack { have, side } });
        }
    }

    /// Forwards a new part; `from` is `None` for the member's own parts and those that came by
    /// multicast.
    fn forward(&mut self, now: Moment, from: Option<Pn>, part: &Arc<Part>) {
        let mut by_multicast = from.is_none() && part.source.pn != self.pn;
        let known = self.streams.get(&part.source.pn);
        let is_multicast = known.is_some_and(|stream| stream.is_multicast(part.number));
        let relies = self.limits.relies_on_multicast;
        if !by_multicast && relies && is_multicast && self.parent.is_none() {
            by_multicast = true; // the source has sent it to all
        } else if !by_multicast {
            let sent = self.multicast(from.is_none(), Notice::Part(part.clone()));
            by_multicast = sent && relies;
        }
        for out in self.ready_downstream(part.source.pn) {
            let deaf = self.neighbors.get(&out).is_some_and(|one| misses_multicast(one, now));
            if by_multicast && deaf {
                self.supply(now, part.source.pn, out);
                continue;
            }
            let Some(stream) = self.streams.get_mut(&part.source.pn) else { return };
            let reach = stream.reach.entry(out).or_default();
            if reach.covered + 1 == part.number {
                reach.since = now; // it lacks this part since now at most
                if !by_multicast {
                    reach.covered = part.number;
                    self.send_frame(out, Body::Part(part.clone()));
                }
            }
        }
    }

    /// Sends a neighbour the parts of a source that it lacks and that are here.
    pub(super) fn supply(&mut self, now: Moment, source: Pn, to: Pn) {
        if !self.ready_downstream(source).contains(&to) {
            return;
        }
        let Some(stream) = self.streams.get_mut(&source) else { return };
        let reach = stream.reach.entry(to).or_default();
        reach.covered = reach.covered.max(stream.base);
        let missing = stream.parts.range(reach.covered + 1..);
        let row = missing.take_while(|(number, _)| **number <= stream.have);
        let missing: Vec<Arc<Part>> = row.map(|(_, part)| part.clone()).collect();
        (reach.covered, reach.since) = (stream.have.max(reach.covered), now);
        for part in missing {
            self.send_frame(to, Body::Part(part));
        }
    }

    /// Time after which what multicast has not brought is sent over the tree. It is longer where
    /// acknowledgements take long: what is sent twice makes them take longer still.
    pub(super) fn resend_timeout(&self) -> Duration {
        match self.limits.relies_on_multicast {
            true => self.limits.retry.max(self.ack_delay * 4).min(MAX_RESEND_TIMEOUT),
            false => self.limits.retry,
        }
    }

    /// Parts that may be under way: as many as the fabric has carried so far without a loss, where
    /// multicast carries them.
    fn send_window(&self) -> u64 {
        match self.limits.relies_on_multicast && self.multicast {
            true => self.pace.window.min(self.limits.window),
            false => self.limits.window,
        }
    }

    /// Sends parts that neighbours have lacked for too long; returns whether to tick again.
    pub(super) fn resend(&mut self, now: Moment) -> bool {
        let mut again = false;
        let resend_timeout = self.resend_timeout();
        let is_waiting = self.streams.get(&self.pn).is_some_and(|own| own.have > own.base);
        if is_waiting && self.pace.progress_at.after(resend_timeout) <= now {
            self.pace.shrink(now);
        }
        for source in std::mem::take(&mut self.unsettled) {
            let mut lags = false;
            for out in self.ready_downstream(source) {
                let Some(stream) = self.streams.get(&source) else { continue };
                let reach = stream.reach.get(&out).copied().unwrap_or_default();
                if reach.covered >= stream.have {
                    continue;
                }
                lags = true;
                if reach.since.after(resend_timeout) <= now {
                    self.supply(now, source, out);
                    self.distrust(now, out);
                }
            }
            let downstream = self.downstream(source);
            let Some(stream) = self.streams.get_mut(&source) else { continue };
            let side = stream.side(&downstream);
            if source != self.pn && !stream.is_told(side) {
                stream.told = None;
                self.advance(now, source);
            }
            lags |= self.streams.get(&source).is_some_and(Stream::is_unfinished);
            if lags {
                self.unsettled.insert(source);
                again = true;
            }
        }
        self.announce_floor();
        again
    }

    /// Announces the floor of the member's parts, if no part has carried it.
    fn announce_floor(&mut self) {
        let base = self.streams.get(&self.pn).map_or(0, |own| own.base);
        if base > std::mem::replace(&mut self.sends.announced, base) {
            for out in self.ready_downstream(self.pn) {
                self.send_floor(self.pn, out);
            }
        }
    }

    /// Sends a neighbour everything over the link for a while, as multicast has missed it.
    pub(super) fn distrust(&mut self, now: Moment, pn: Pn) {
        if let Some(neighbor) = self.neighbors.get_mut(&pn) {
            neighbor.unicast_until = now.after(self.limits.mistrust);
        }
    }

    /// Handles a best-effort part from a neighbour, or from the multicast connection (`None`).
    pub(crate) fn handle_best_effort(&mut self, now: Moment, from: Option<Pn>, part: Arc<Part>) {
        let source = part.source;
        if source.pn == self.pn || self.roster.joined(source.pn) != Some(source.joined) {
            return;
        }
        let seen: &mut BestEffort = self.best_effort.entry(source.pn).or_default();
        let Some(message) = seen.take(&part) else { return };
        if let Some(payload) = message
            && self.is_open()
            && self.inbox < self.limits.inbox
        {
            self.inbox += 1;
            let (gn, pn) = (self.gn, self.pn);
            self.out.push_back(Output::Deliver { gn, pn, from: source.pn, payload });
        }
        match from {
            Some(from) => self.forward_best_effort(now, Some(from), &part),
            None => {
                for out in self.ready_downstream(source.pn) {
                    if self.neighbors.get(&out).is_some_and(|one| misses_multicast(one, now)) {
                        self.send_frame(out, Body::BestEffort(part.clone()));
                    }
                }
            }
        }
    }

    fn forward_best_effort(&mut self, now: Moment, from: Option<Pn>, part: &Arc<Part>) {
        let sent = self.multicast(from.is_none(), Notice::BestEffort(part.clone()));
        let is_carried = sent && self.limits.relies_on_multicast;
        for out in self.ready_downstream(part.source.pn) {
            let has_it = is_carried && self.neighbors[&out].is_heard_by(now);
            if Some(out) != from && !has_it {
                self.send_frame(out, Body::BestEffort(part.clone()));
            }
        }
    }

    /// Sends on the multicast connection, if it is open and this member is to; returns whether it
    /// was sent.
    ///
    /// - `is_own`: the member has begun what it sends.
    pub(super) fn multicast(&mut self, is_own: bool, notice: Notice) -> bool {
        let sends = self.parent.is_none() || (is_own && self.limits.relies_on_multicast);
        let others = self.neighbors.values().any(|one| one.may_take_part());
        let sent = sends && self.multicast && others;
        if sent {
            let packet = Packet { gn: self.gn, notice };
            self.out.push_back(Output::Multicast { pn: self.pn, packet });
        }
        sent
    }

    /// The neighbours on whose sides members need the parts of a source.
    fn downstream(&self, source: Pn) -> Vec<Pn> {
        let upstream = self.upstream(source);
        let downstream =
            self.neighbors.iter().filter(|(pn, one)| one.may_take_part() && Some(**pn) != upstream);
        downstream.map(|(pn, _)| *pn).collect()
    }

    /// The ready ones among [`Self::downstream`].
    pub(super) fn ready_downstream(&self, source: Pn) -> Vec<Pn> {
        let mut downstream = self.downstream(source);
        downstream.retain(|pn| self.neighbors.get(pn).is_some_and(Neighbor::is_ready));
        downstream
    }
}

/// Returns whether multicast misses a neighbour, as far as is known.
pub(super) fn misses_multicast(neighbor: &Neighbor, now: Moment) -> bool {
    !neighbor.is_heard_by(now)
}

/// Cuts a message into numbered parts; an empty one is one empty part.
fn split(source: Source, numbers: &mut u64, payload: &[u8], size: usize) -> Vec<Part> {
    let mut pieces: Vec<&[u8]> = payload.chunks(size).collect();
    if pieces.is_empty() {
        pieces.push(&[]);
    }
    let last = pieces.len() - 1;
    let part = |(at, piece): (usize, &[u8])| {
        *numbers += 1;
        Part {
            source,
            number: *numbers,
            floor: 0,
            first: at == 0,
            last: at == last,
            payload: piece.to_vec(),
        }
    };
    pieces.into_iter().enumerate().map(part).collect()
}
