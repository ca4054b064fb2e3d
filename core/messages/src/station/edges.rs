//! How neighbours get acquainted, what they say of who takes part on their sides, and what they are told.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::{Moment, Pn};

use super::{Neighbor, Station};
use crate::frame::{Body, Hello, Life, RosterChange, Source};
use crate::outputs::Output;
use crate::stream::Stream;

impl Station {
    /// Says hello.
    pub(super) fn greet(&mut self, now: Moment, to: Pn, reply: bool) {
        let hello = Hello {
            life: self.life,
            reply,
            hears: self.multicast,
            round: self.operations.round(),
            decided: self.operations.last(),
        };
        if let Some(neighbor) = self.neighbors.get_mut(&to) {
            neighbor.hello_at = now;
        }
        self.say(to, Body::Hello(hello));
        self.beat(now);
    }

    /// Takes a neighbour's hello.
    pub(super) fn hello(&mut self, now: Moment, from: Pn, hello: Hello) {
        let Some(neighbor) = self.neighbors.get_mut(&from) else { return };
        let known = neighbor.life.replace(hello.life).or(self.roster.life(from));
        neighbor.hears = hello.hears;
        let was_met = std::mem::replace(&mut neighbor.met, true);
        let is_another = known.is_some_and(|life| life != hello.life);
        if is_another {
            neighbor.claimed = false;
            self.streams.values_mut().for_each(|stream| _ = stream.reach.remove(&from));
            self.operations.retain_reports(|pn| pn != from);
            let gone = vec![from];
            self.claims(now, from, RosterChange { whole: false, gone, here: Vec::new() });
            if let Some(neighbor) = self.neighbors.get_mut(&from) {
                neighbor.told = false; // what it was told itself is still to come
            }
        }
        if hello.reply {
            self.greet(now, from, false);
        }
        if is_another || !was_met || hello.reply {
            // It knows nothing from before on this edge: it may have had another neighbour meanwhile.
            if let Some(neighbor) = self.neighbors.get_mut(&from) {
                neighbor.claimed = false;
            }
            if self.parent == Some(from) {
                self.operations.report_again();
            }
            self.streams.values_mut().for_each(|stream| stream.told = None);
            self.claim(now, from);
        }
        self.round(now, from, (hello.round, hello.decided));
        self.stir();
        self.settle(now);
    }

    /// The members known so far that are on the far side of the edge to a new neighbour.
    pub(super) fn far_members(&self, neighbor: Pn) -> BTreeMap<Pn, Life> {
        let others = self.roster.pns();
        let others = others.iter().copied().filter(|pn| *pn != self.pn);
        let beyond = others.filter(|pn| self.is_beyond(neighbor, *pn));
        beyond.filter_map(|pn| Some((pn, self.roster.life(pn)?))).collect()
    }

    /// After a change of neighbours: who is on no side any more takes no part any more.
    pub(super) fn drop_the_departed(&mut self, now: Moment) {
        let sides = self.neighbors.values().flat_map(|one| &one.side);
        let mut here: BTreeSet<Pn> = sides.map(|(pn, _)| *pn).collect();
        here.insert(self.pn);
        let gone: Vec<Pn> = self.roster.pns().difference(&here).copied().collect();
        self.spread(now, None, RosterChange { whole: false, gone, here: Vec::new() });
    }

    /// Takes over what a neighbour says of its side.
    pub(super) fn claims(&mut self, now: Moment, from: Pn, change: RosterChange) {
        let RosterChange { whole, mut gone, mut here } = change;
        here.retain(|(pn, _)| self.is_beyond(from, *pn));
        let Some(neighbor) = self.neighbors.get_mut(&from) else { return };
        if !whole && !neighbor.told {
            return; // the whole comes first
        }
        let mattered = neighbor.matters();
        let first = !std::mem::replace(&mut neighbor.told, true);
        let side = &mut neighbor.side;
        if whole {
            let named: BTreeMap<Pn, Life> = here.iter().copied().collect();
            gone = side.keys().filter(|pn| !named.contains_key(pn)).copied().collect();
        }
        here.retain(|(pn, life)| side.get(pn) != Some(life));
        gone.extend(here.iter().map(|(pn, _)| *pn)); // another life in the same place
        gone.retain(|pn| side.remove(pn).is_some());
        let was_empty = side.is_empty();
        side.extend(here.iter().copied());
        let wakes = was_empty && !side.is_empty();
        self.spread(now, Some(from), RosterChange { whole: false, gone, here });
        if first {
            self.claim_to_all(now);
        }
        if wakes {
            self.tell_the_end(from);
            self.bring_up_to_date(now, from); // what came before is for them, too
        }
        let matters = self.neighbors.get(&from).is_some_and(Neighbor::matters);
        if mattered && !matters {
            return self.settle(now); // nobody waits for that side any more
        }
        self.try_report(now);
        self.tell_roster();
    }

    /// As [`Self::claim`], to whoever has not been told yet.
    pub(super) fn claim_to_all(&mut self, now: Moment) {
        let all: Vec<Pn> = self.neighbors.keys().copied().collect();
        all.into_iter().for_each(|pn| self.claim(now, pn));
    }

    /// Tells a neighbour who takes part on this side, once that is known, and what follows from it.
    pub(super) fn claim(&mut self, now: Moment, to: Pn) {
        let mut others = self.neighbors.iter().filter(|(pn, _)| **pn != to);
        let known = others.all(|(_, one)| one.told);
        let Some(neighbor) = self.neighbors.get_mut(&to) else { return };
        if !known || !neighbor.met || neighbor.claimed {
            return;
        }
        neighbor.claimed = true;
        let awaits_end = neighbor.awaits_end;
        let others = self.neighbors.iter().filter(|(pn, _)| **pn != to);
        let mut here: BTreeMap<Pn, Life> =
            others.flat_map(|(_, one)| &one.side).map(|(pn, life)| (*pn, *life)).collect();
        if self.open {
            here.insert(self.pn, self.life);
        }
        let here = here.into_iter().collect();
        self.say(to, Body::Roster(RosterChange { whole: true, gone: Vec::new(), here }));
        if awaits_end {
            self.tell_the_end(to);
        }
        self.bring_up_to_date(now, to);
    }

    /// Tells a neighbour what there is of the sources on this side, and has it told how far this side is of the
    /// others.
    fn bring_up_to_date(&mut self, now: Moment, to: Pn) {
        let used = self.streams.iter().filter(|(_, stream)| stream.is_used());
        for source in used.map(|(pn, _)| *pn).collect::<Vec<_>>() {
            if self.towards(source) == Some(to) {
                self.advance(now, source);
            } else {
                self.tell_floor(source, to);
                self.feed(now, source, to);
            }
        }
    }

    /// Takes a change of who takes part over, and passes it on to all neighbours but one.
    pub(super) fn spread(&mut self, now: Moment, from: Option<Pn>, change: RosterChange) {
        if !self.roster.apply(&change) {
            return;
        }
        for pn in &change.gone {
            self.operations.lose(*pn);
            if *pn != self.pn {
                self.streams.remove(pn);
                self.restless.remove(pn);
                self.loose.remove(pn);
            }
        }
        for (pn, life) in &change.here {
            self.streams.entry(*pn).or_insert_with(|| Stream::new(*life));
        }
        let told = self.neighbors.iter().filter(|(pn, one)| one.claimed && Some(**pn) != from);
        let told: Vec<Pn> = told.map(|(pn, _)| *pn).collect();
        told.into_iter().for_each(|pn| self.say(pn, Body::Roster(change.clone())));
        self.roster_told = 0;
        self.leave_if_gone(now, &change.gone);
        self.beat(now);
    }

    /// Tells the owner that who takes part has changed.
    pub(super) fn tell_roster(&mut self) {
        let version = self.roster.version();
        if self.open && std::mem::replace(&mut self.roster_told, version) != version {
            self.out.push_back(Output::Roster { gn: self.gn, pn: self.pn });
        }
    }

    /// Tells a neighbour of which parts of a source it need not wait.
    pub(super) fn tell_floor(&mut self, source: Pn, to: Pn) {
        let Some(stream) = self.streams.get(&source).filter(|stream| stream.base > 0) else {
            return;
        };
        let (life, floor) = (stream.life, stream.base);
        self.say(to, Body::Floor { source: Source { pn: source, life }, floor });
    }
}
