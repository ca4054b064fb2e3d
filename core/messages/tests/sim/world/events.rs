//! Time passes, and something comes of it.

use std::time::Duration;

use fabricast_groups::{Moment, Pn};
use fabricast_messages::{Body, Courier, Frame, Outcome, Packet};

use super::{Event, GN, World};

impl World {
    /// Lets time pass until nothing happens any more, at most so long.
    pub(crate) fn settle(&mut self, most: Duration) {
        let end = self.now.after(most);
        while self.step(end) {}
        self.now = end;
    }

    /// Lets time pass until something holds; panics if it does not in a minute.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = self.now.after(Duration::from_secs(60));
        while !holds(self) {
            assert!(self.step(end), "not in time: {what}");
        }
    }

    fn step(&mut self, end: Moment) -> bool {
        let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) else {
            return false;
        };
        let ((at, _), event) = entry.remove_entry();
        self.now = self.now.max(at);
        self.happen(event);
        true
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        let node = match event {
            Event::Place(node, place) => {
                let is = self.members.get(&place.pn).map(|member| member.life);
                if is == Some(place.life) {
                    self.input(&node, |courier| courier.place(now, place));
                }
                node
            }
            Event::LinkUp(at, peer, session) => {
                let key =
                    if at < peer { (at.clone(), peer.clone()) } else { (peer.clone(), at.clone()) };
                if self.links.get(&key).is_some_and(|link| link.up && link.session == session) {
                    self.input(&at, |courier| courier.link_up(now, &peer));
                }
                at
            }
            Event::LinkDown(at, peer) => {
                self.input(&at, |courier| courier.link_down(now, &peer));
                at
            }
            Event::Frame { from, to, session, gn, pns, body } => {
                let key =
                    if from < to { (from.clone(), to.clone()) } else { (to.clone(), from.clone()) };
                if self.links.get(&key).is_some_and(|link| link.up && link.session == session) {
                    let body = Body::decode(&body).unwrap();
                    let frame = Frame { gn, from: pns.0, to: pns.1, body };
                    self.input(&to, |courier| courier.frame(now, &from, frame));
                }
                to
            }
            Event::Packet(pn, life, bytes) => {
                let Some(member) = self.members.get(&pn).filter(|one| one.life == life) else {
                    return;
                };
                let (node, packet) =
                    (member.node.clone(), Packet::decode(&bytes).unwrap().unwrap());
                self.input(&node, |courier| courier.packet(now, pn, &packet));
                node
            }
            Event::Tick(node) => {
                if self
                    .couriers
                    .get(&node)
                    .and_then(Courier::next_deadline)
                    .is_none_or(|at| at > now)
                {
                    return;
                }
                self.input(&node, |courier| courier.tick(now));
                node
            }
            Event::Consume(pn, life) => {
                let Some(member) = self.members.get(&pn).filter(|one| one.life == life) else {
                    return;
                };
                let node = member.node.clone();
                self.input(&node, |courier| courier.consumed(now, GN, pn, 1));
                node
            }
            Event::Offer(pn, life, _) | Event::Combined(pn, life, ..) => {
                return self.hear(pn, life, event);
            }
            Event::GiveUp(tree, sequence) => return self.give_up(tree, sequence),
        };
        self.drain(&node);
    }

    /// Who took part when the member called, is left out of the outcome, and takes part still as it knows.
    pub(super) fn ghosts(&self, pn: Pn, outcome: &Outcome) -> Vec<Pn> {
        let Some(member) = self.members.get(&pn) else { return Vec::new() };
        let (now, before) = (self.roster(pn), &member.called_among);
        let left_out = before.iter().filter(|(other, _)| !outcome.participants.contains(other));
        let ghosts = left_out.filter(|(other, life)| now.get(other) == Some(life));
        ghosts.map(|(other, _)| *other).collect()
    }
}
