//! Messages that nobody misses: passed on as the others, but neither kept nor acknowledged.

use std::sync::Arc;

use fabricast_groups::{Moment, Pn};

use super::Station;
use super::parts::is_deaf;
use crate::frame::{Body, Notice, Part};
use crate::outputs::Output;
use crate::stream::Loose;

impl Station {
    /// Takes a part that nobody misses.
    pub(crate) fn loose_part(&mut self, now: Moment, from: Option<Pn>, part: Arc<Part>) {
        let source = part.source;
        if source.pn == self.pn || self.roster.life(source.pn) != Some(source.life) {
            return;
        }
        let seen: &mut Loose = self.loose.entry(source.pn).or_default();
        let Some(message) = seen.take(&part) else { return };
        if let Some(payload) = message
            && self.open
            && self.inbox < self.limits.inbox
        {
            self.inbox += 1;
            let (gn, pn) = (self.gn, self.pn);
            self.out.push_back(Output::Deliver { gn, pn, from: source.pn, payload });
        }
        match from {
            Some(from) => self.pass_loose(Some(from), &part),
            None => {
                for out in self.ready_outs(source.pn) {
                    if self.neighbors.get(&out).is_some_and(|one| is_deaf(one, now)) {
                        self.say(out, Body::Loose(part.clone()));
                    }
                }
            }
        }
    }

    pub(super) fn pass_loose(&mut self, from: Option<Pn>, part: &Arc<Part>) {
        self.multicast(Notice::Loose(part.clone()));
        for out in self.ready_outs(part.source.pn).into_iter().filter(|out| Some(*out) != from) {
            self.say(out, Body::Loose(part.clone()));
        }
    }
}
