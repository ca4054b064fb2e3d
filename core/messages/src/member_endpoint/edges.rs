//! Edges of the tree: hellos between neighbours, and the rosters of their sides.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::{Moment, Pn};

use super::state::{EdgeEvent, Knowledge, KnowledgeEvent};
use super::{MemberEndpoint, Neighbor};
use crate::frame::{Body, Hello, JoinRevision, RosterChange, Source};
use crate::outputs::Output;
use crate::stream::Stream;

impl MemberEndpoint {
    pub(super) fn send_hello(&mut self, now: Moment, to: Pn, reply: bool) {
        let hello = Hello {
            joined: self.joined,
            reply,
            hears: self.multicast,
            round: self.operations.round(),
            decided: self.operations.last(),
        };
        if let Some(neighbor) = self.neighbors.get_mut(&to) {
            neighbor.hello_at = now;
        }
        self.send_frame(to, Body::Hello(hello));
        self.schedule_tick(now);
    }

    pub(super) fn handle_hello(&mut self, now: Moment, from: Pn, hello: Hello) {
        let Some(neighbor) = self.neighbors.get_mut(&from) else { return };
        if hello.reply && !neighbor.takes_hello(now) {
            return; // it repeats it until it gets a reply
        }
        let known = neighbor.joined.replace(hello.joined).or(self.roster.joined(from));
        let relies = self.limits.relies_on_multicast;
        let is_lost = std::mem::replace(&mut neighbor.hears, hello.hears) && !hello.hears && relies;
        let is_another = known.is_some_and(|joined| joined != hello.joined);
        let was_met = neighbor.edge.is_met();
        let event =
            if is_another || hello.reply { EdgeEvent::Hello } else { EdgeEvent::HelloReply };
        neighbor.edge = neighbor.edge.next(event);
        if is_another {
            self.streams.values_mut().for_each(|stream| _ = stream.reach.remove(&from));
            self.operations.retain_reports(|pn| pn != from);
            let gone = vec![from];
            self.handle_roster(now, from, RosterChange { whole: false, gone, here: Vec::new() });
            if let Some(neighbor) = self.neighbors.get_mut(&from) {
                // Its own roster is still to come.
                neighbor.knowledge = neighbor.knowledge.next(KnowledgeEvent::NewMember);
            }
        }
        if hello.reply {
            // The sender may be an endpoint that knows nothing of what was sent to it before.
            for stream in self.streams.values_mut() {
                let reach = stream.reach.entry(from);
                reach.and_modify(|reach| reach.covered = reach.acked);
            }
            self.send_hello(now, from, false);
        }
        if self.parent == Some(from) && (is_another || !was_met || hello.reply || is_lost) {
            // It may know nothing of this edge, or be told no announcements any more.
            self.operations.report_again();
        }
        if is_another || !was_met || hello.reply {
            // It may have had another neighbour meanwhile.
            self.tell_collected_again(from);
            self.streams.values_mut().for_each(|stream| stream.told = None);
            self.send_roster(now, from);
        }
        self.handle_round(now, from, hello.round, hello.decided);
        self.recheck_all();
        self.settle(now);
    }

    /// The members of the roster that belong to the far side of the edge to a new neighbour.
    pub(super) fn far_members(&self, neighbor: &Neighbor) -> BTreeMap<Pn, JoinRevision> {
        let others = self.roster.pns();
        let others = others.iter().copied().filter(|pn| *pn != self.pn);
        let beyond = others.filter(|pn| self.is_beyond(neighbor, *pn));
        beyond.filter_map(|pn| Some((pn, self.roster.joined(pn)?))).collect()
    }

    /// Removes members that are on no neighbour's side from the roster, after a change of
    /// neighbours.
    pub(super) fn remove_departed(&mut self, now: Moment) {
        let sides = self.neighbors.values().flat_map(|one| &one.side);
        let mut here: BTreeSet<Pn> = sides.map(|(pn, _)| *pn).collect();
        here.insert(self.pn);
        let gone: Vec<Pn> = self.roster.pns().difference(&here).copied().collect();
        self.change_roster(now, None, RosterChange { whole: false, gone, here: Vec::new() });
    }

    /// Handles a neighbour's roster of its side, or a change of it.
    pub(super) fn handle_roster(&mut self, now: Moment, from: Pn, change: RosterChange) {
        let RosterChange { whole, mut gone, mut here } = change;
        let Some(neighbor) = self.neighbors.get(&from) else { return };
        here.retain(|(pn, _)| self.is_beyond(neighbor, *pn));
        let Some(neighbor) = self.neighbors.get_mut(&from) else { return };
        let was_needed = neighbor.may_take_part();
        let event = if whole { KnowledgeEvent::Roster } else { KnowledgeEvent::Change };
        let before = neighbor.knowledge;
        neighbor.knowledge = before.next(event);
        if neighbor.knowledge == Knowledge::Presumed {
            return; // a change before the roster
        }
        let first = before == Knowledge::Presumed;
        let side = &mut neighbor.side;
        if whole {
            let named: BTreeMap<Pn, JoinRevision> = here.iter().copied().collect();
            gone = side.keys().filter(|pn| !named.contains_key(pn)).copied().collect();
        }
        here.retain(|(pn, joined)| side.get(pn) != Some(joined));
        gone.extend(here.iter().map(|(pn, _)| *pn)); // their predecessors in the same places
        gone.retain(|pn| side.remove(pn).is_some());
        let was_empty = side.is_empty();
        side.extend(here.iter().copied());
        let wakes = was_empty && !side.is_empty();
        self.change_roster(now, Some(from), RosterChange { whole: false, gone, here });
        if first {
            self.send_roster_to_all(now);
        }
        if wakes {
            self.send_outcome(from);
            self.send_streams(now, from); // parts that came before are for them, too
        }
        let may_take_part = self.neighbors.get(&from).is_some_and(Neighbor::may_take_part);
        if was_needed && !may_take_part {
            return self.settle(now); // no part waits for that side any more
        }
        self.try_report(now);
        self.notify_roster();
    }

    /// Sends the roster to every neighbour that has not had it.
    pub(super) fn send_roster_to_all(&mut self, now: Moment) {
        let all: Vec<Pn> = self.neighbors.keys().copied().collect();
        all.into_iter().for_each(|pn| self.send_roster(now, pn));
    }

    /// Sends a neighbour the roster of this side, once all other sides are known, and then the
    /// frames that depend on it.
    pub(super) fn send_roster(&mut self, now: Moment, to: Pn) {
        let mut others = self.neighbors.iter().filter(|(pn, _)| **pn != to);
        let known = others.all(|(_, one)| one.knowledge == Knowledge::Stated);
        let Some(neighbor) = self.neighbors.get_mut(&to) else { return };
        if !known || !neighbor.edge.is_met() || neighbor.is_ready() {
            return;
        }
        let owes_outcome = neighbor.edge.owes_outcome();
        neighbor.edge = neighbor.edge.next(EdgeEvent::Roster);
        let others = self.neighbors.iter().filter(|(pn, _)| **pn != to);
        let mut here: BTreeMap<Pn, JoinRevision> =
            others.flat_map(|(_, one)| &one.side).map(|(pn, joined)| (*pn, *joined)).collect();
        if self.is_open() {
            here.insert(self.pn, self.joined);
        }
        let here = here.into_iter().collect();
        self.send_frame(to, Body::Roster(RosterChange { whole: true, gone: Vec::new(), here }));
        if owes_outcome {
            self.send_outcome(to);
        }
        self.send_streams(now, to);
    }

    /// Sends a neighbour the parts of the sources on this side, and acknowledges those of the
    /// sources on its side.
    fn send_streams(&mut self, now: Moment, to: Pn) {
        let used = self.streams.iter().filter(|(_, stream)| stream.is_used());
        for source in used.map(|(pn, _)| *pn).collect::<Vec<_>>() {
            if self.upstream(source) == Some(to) {
                self.advance(now, source);
            } else {
                self.send_floor(source, to);
                self.supply(now, source, to);
            }
        }
    }

    /// Changes the roster, and sends the change to all ready neighbours but one.
    pub(super) fn change_roster(&mut self, now: Moment, from: Option<Pn>, change: RosterChange) {
        if !self.roster.apply(&change) {
            return;
        }
        for pn in &change.gone {
            self.operations.lose(*pn);
            if *pn != self.pn {
                self.streams.remove(pn);
                self.unsettled.remove(pn);
                self.best_effort.remove(pn);
            }
        }
        for (pn, joined) in &change.here {
            self.streams.entry(*pn).or_insert_with(|| Stream::new(*joined));
        }
        let told = self.neighbors.iter().filter(|(pn, one)| one.is_ready() && Some(**pn) != from);
        let told: Vec<Pn> = told.map(|(pn, _)| *pn).collect();
        told.into_iter().for_each(|pn| self.send_frame(pn, Body::Roster(change.clone())));
        self.roster_told = 0;
        self.leave_run_without(now, &change.gone);
        self.schedule_tick(now);
    }

    /// Notifies the owner of a changed roster.
    pub(super) fn notify_roster(&mut self) {
        let version = self.roster.version();
        if self.is_open() && std::mem::replace(&mut self.roster_told, version) != version {
            self.out.push_back(Output::Roster { gn: self.gn, pn: self.pn });
        }
    }

    /// Sends a neighbour the number up to which it need not wait for parts of a source.
    pub(super) fn send_floor(&mut self, source: Pn, to: Pn) {
        let Some(stream) = self.streams.get(&source).filter(|stream| stream.base > 0) else {
            return;
        };
        let (joined, floor) = (stream.joined, stream.base);
        self.send_frame(to, Body::Floor { source: Source { pn: source, joined }, floor });
    }
}
