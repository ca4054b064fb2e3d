//! Messages: sent, passed on, taken and acknowledged.
//!
//! A part that came over a link goes on over all other links; the root sends it on the multicast
//! connection, too. What came by multicast is not passed on, except to neighbours that multicast does
//! not reach. What a neighbour still lacks after a while goes to it over the link.

use std::collections::VecDeque;
use std::sync::Arc;

use fabricast_groups::{Moment, Pn};

use super::{Neighbor, Station};
use crate::frame::{Body, Notice, Packet, Part, Source};
use crate::outputs::{Mode, Output, SendError, SendId};
use crate::stream::Stream;

/// What the member itself sends.
#[derive(Clone, Debug, Default)]
pub(super) struct Sends {
    next_id: u64,
    numbered: u64,           // parts that have got their number
    loose: u64,              // the same, of those that nobody misses
    backlog: VecDeque<Part>, // waiting for room in the window
    receipts: VecDeque<Receipt>,
    announced: u64, // nobody needs the parts up to this, and everybody has been told
    refused: bool,  // somebody waits for room
}

/// A message that is not acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct Receipt {
    id: SendId,
    last: u64,
    roster: u64,
}

impl Station {
    /// Sends a message of the member.
    pub(crate) fn send(
        &mut self,
        now: Moment,
        mode: Mode,
        payload: &[u8],
    ) -> Result<SendId, SendError> {
        if !self.open {
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
            Mode::BestEffort => &mut self.sends.loose,
        };
        let source = Source { pn: self.pn, life: self.life };
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
                parts.into_iter().for_each(|part| self.pass_loose(None, &Arc::new(part)));
            }
        }
        Ok(id)
    }

    /// Notes that the process has taken messages.
    pub(crate) fn consumed(&mut self, now: Moment, messages: usize) {
        let was_full = self.inbox >= self.limits.inbox;
        self.inbox = self.inbox.saturating_sub(messages);
        if was_full {
            self.settle(now);
        }
    }

    /// Forgets what the member has sent; it takes part no more.
    pub(super) fn drop_sends(&mut self) {
        self.sends.receipts.clear();
        self.sends.backlog.clear();
        let numbered = self.sends.numbered;
        if let Some(own) = self.streams.get_mut(&self.pn) {
            own.skip_to(numbered);
        }
    }

    /// Tells all neighbours where the member's parts begin, if it has sent some in an earlier session.
    pub(super) fn tell_own_floor(&mut self) {
        let ready = self.neighbors.iter().filter(|(_, one)| one.ready());
        for pn in ready.map(|(pn, _)| *pn).collect::<Vec<_>>() {
            self.tell_floor(self.pn, pn);
        }
    }

    /// Takes a reliable part from a neighbour, or from the multicast connection.
    pub(crate) fn part(&mut self, now: Moment, from: Option<Pn>, part: Arc<Part>) {
        let (Source { pn: source, life }, number) = (part.source, part.number);
        let window = self.limits.window;
        let Some(stream) = self.streams.get_mut(&source).filter(|stream| stream.life == life)
        else {
            return; // of somebody who takes no part, or not yet as far as is known here
        };
        if source != self.pn && stream.skip_to(part.floor) {
            self.restless.insert(source);
        }
        if stream.is_copy(number) {
            if from.is_some() {
                stream.told = None; // the sender does not know
                self.advance(now, source);
            }
            return;
        }
        if source == self.pn || number > stream.base + window {
            return; // nobody sends that
        }
        stream.keep(part.clone());
        self.restless.insert(source);
        self.pass(now, from, &part);
        self.advance(now, source);
        self.beat(now);
    }

    /// Notes that nobody needs the parts up to `floor` any more, and passes that on.
    pub(super) fn floor(&mut self, now: Moment, from: Pn, source: Source, floor: u64) {
        let known = self.streams.get_mut(&source.pn).filter(|stream| stream.life == source.life);
        if source.pn != self.pn && known.is_some_and(|stream| stream.skip_to(floor)) {
            self.restless.insert(source.pn);
            for out in self.ready_outs(source.pn).into_iter().filter(|out| *out != from) {
                self.tell_floor(source.pn, out);
            }
            self.advance(now, source.pn);
        }
    }

    /// Takes a neighbour's acknowledgement.
    pub(super) fn acked(&mut self, now: Moment, from: Pn, source: Source, ack: (u64, u64)) {
        let (have, side) = ack;
        let is_out = self.towards(source.pn) != Some(from);
        let known = self.streams.get_mut(&source.pn).filter(|stream| stream.life == source.life);
        let Some(stream) = known.filter(|_| is_out) else { return };
        let reach = stream.reach.entry(from).or_default();
        reach.acked = reach.acked.max(side);
        if have > reach.covered {
            (reach.covered, reach.since) = (have, now);
        }
        self.advance(now, source.pn);
    }

    /// Draws the consequences of what came of one source, or was acknowledged.
    pub(super) fn advance(&mut self, now: Moment, source: Pn) {
        loop {
            self.take(source);
            let outs = self.outs(source);
            let Some(stream) = self.streams.get_mut(&source) else { return };
            let side = stream.side(&outs);
            if source != self.pn {
                return self.acknowledge(source, side);
            }
            if stream.skip_to(side) {
                self.beat(now); // the others are told if no part tells them until then
            }
            self.complete();
            if !self.fill_the_window(now) {
                return;
            }
        }
    }

    /// Hands parts over to the process, as far as it has room.
    fn take(&mut self, source: Pn) {
        let Some(stream) = self.streams.get_mut(&source) else { return };
        if !self.open || source == self.pn {
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

    /// Tells the process which of its messages all have.
    fn complete(&mut self) {
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

    /// Sends what there is room for; answers whether that was anything.
    fn fill_the_window(&mut self, now: Moment) -> bool {
        let mut any = false;
        while let Some(own) = self.streams.get_mut(&self.pn)
            && let Some(part) = self.sends.backlog.front()
            && part.number <= own.base + self.limits.window
            && let Some(part) = self.sends.backlog.pop_front()
        {
            let part = Arc::new(Part { floor: own.base, ..part });
            self.sends.announced = own.base;
            own.keep(part.clone());
            self.restless.insert(self.pn);
            self.pass(now, None, &part);
            any = true;
        }
        if any {
            self.beat(now);
        }
        any
    }

    /// Tells the neighbour towards the source how far this side is.
    fn acknowledge(&mut self, source: Pn, side: u64) {
        let Some(to) = self.towards(source) else { return };
        if !self.neighbors.get(&to).is_some_and(Neighbor::ready) {
            return; // what it is told must not run ahead of who is gone
        }
        let Some(stream) = self.streams.get_mut(&source) else { return };
        let have = stream.have;
        let news = match stream.told {
            None => stream.is_used(),
            Some((told, told_side)) => side > told_side || have >= told + self.limits.window / 4,
        };
        if news {
            stream.told = Some((have, side));
            let source = Source { pn: source, life: stream.life };
            self.say(to, Body::Ack { source, have, side });
        }
    }

    /// Passes a new part on as the rules say; `from` is `None` for the member's own and what came by
    /// multicast.
    fn pass(&mut self, now: Moment, from: Option<Pn>, part: &Arc<Part>) {
        let by_multicast = from.is_none() && part.source.pn != self.pn;
        if !by_multicast {
            self.multicast(Notice::Part(part.clone()));
        }
        for out in self.ready_outs(part.source.pn) {
            let deaf = self.neighbors.get(&out).is_some_and(|one| is_deaf(one, now));
            if by_multicast && deaf {
                self.feed(now, part.source.pn, out);
                continue;
            }
            let Some(stream) = self.streams.get_mut(&part.source.pn) else { return };
            let reach = stream.reach.entry(out).or_default();
            if reach.covered + 1 == part.number {
                reach.since = now; // it waits for this one at most since now
                if !by_multicast {
                    reach.covered = part.number;
                    self.say(out, Body::Part(part.clone()));
                }
            }
        }
    }

    /// Sends a neighbour what it lacks of a source, as far as it is here.
    pub(super) fn feed(&mut self, now: Moment, source: Pn, to: Pn) {
        if !self.ready_outs(source).contains(&to) {
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
            self.say(to, Body::Part(part));
        }
    }

    /// Sends what neighbours have lacked for too long; answers whether to look again.
    pub(super) fn mend(&mut self, now: Moment) -> bool {
        let mut again = false;
        for source in std::mem::take(&mut self.restless) {
            let mut lags = false;
            for out in self.ready_outs(source) {
                let Some(stream) = self.streams.get(&source) else { continue };
                let reach = stream.reach.get(&out).copied().unwrap_or_default();
                if reach.covered >= stream.have {
                    continue;
                }
                lags = true;
                if reach.since.after(self.limits.retry) <= now {
                    self.feed(now, source, out);
                    self.distrust(now, out);
                }
            }
            let Some(stream) = self.streams.get_mut(&source) else { continue };
            if stream.told.is_none_or(|(have, _)| have < stream.have) && source != self.pn {
                stream.told = None;
                self.advance(now, source);
            }
            lags |= self.streams.get(&source).is_some_and(Stream::is_unfinished);
            if lags {
                self.restless.insert(source);
                again = true;
            }
        }
        self.announce_floor();
        again
    }

    /// Tells everybody which of the member's parts nobody needs any more, if no part has told them.
    fn announce_floor(&mut self) {
        let base = self.streams.get(&self.pn).map_or(0, |own| own.base);
        if base > std::mem::replace(&mut self.sends.announced, base) {
            for out in self.ready_outs(self.pn) {
                self.tell_floor(self.pn, out);
            }
        }
    }

    /// Sends a neighbour everything over the link for a while: multicast does not reach it.
    pub(super) fn distrust(&mut self, now: Moment, pn: Pn) {
        if let Some(neighbor) = self.neighbors.get_mut(&pn) {
            neighbor.wary_until = now.after(self.limits.mistrust);
        }
    }

    /// Sends to everybody at once, if this is the root and the connection is open.
    pub(super) fn multicast(&mut self, notice: Notice) {
        let others = self.neighbors.values().any(|one| one.matters());
        if self.parent.is_none() && self.multicast && others {
            let packet = Packet { gn: self.gn, notice };
            self.out.push_back(Output::Multicast { pn: self.pn, packet });
        }
    }

    /// The neighbours on whose sides somebody needs the messages of a source.
    fn outs(&self, source: Pn) -> Vec<Pn> {
        let towards = self.towards(source);
        let outs = self.neighbors.iter().filter(|(pn, one)| one.matters() && Some(**pn) != towards);
        outs.map(|(pn, _)| *pn).collect()
    }

    /// Those of them that can be sent to now.
    pub(super) fn ready_outs(&self, source: Pn) -> Vec<Pn> {
        let mut outs = self.outs(source);
        outs.retain(|pn| self.neighbors.get(pn).is_some_and(Neighbor::ready));
        outs
    }
}

/// Whether multicast does not reach a neighbour, as far as is known.
pub(super) fn is_deaf(neighbor: &Neighbor, now: Moment) -> bool {
    !neighbor.hears || neighbor.wary_until > now
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
