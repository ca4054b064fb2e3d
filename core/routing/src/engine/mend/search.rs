//! Looks whether groups that were merged still hang together, from several of them at once.
//!
//! All searches go on in turn, the one that has done least first, until they have met or all but one
//! have come to an end. So what is found to have come off costs as much as it is large, and the rest
//! no more than that.

use super::site::Site;
use super::uses::{Numbering, Uses};

/// Steps of the search of one group: the groups within its leaves, then its places from level 0 on.
const STEPS: usize = 5;

/// Memory for searches.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    now: u32,
    seen: Vec<(u32, u32)>, // by slot: when, and by which probe
    probes: Vec<Probe>,
    apart: usize, // probes that have not met another
}

/// One search.
#[derive(Clone, Debug, Default)]
struct Probe {
    met: Option<u32>, // the probe that goes on instead
    found: Vec<u32>,
    waiting: [Vec<u32>; STEPS],
    work: usize,
}

/// What is searched.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) site: Site<'a>,
    pub(super) uses: &'a Uses,
    pub(super) numbering: Numbering,
}

impl Search {
    /// Gives the sets of groups that have come apart from the rest, starting from groups of
    /// which each such set, and the rest, has one.
    pub(super) fn pieces(&mut self, place: Place<'_>, starts: &[u32]) -> Vec<Vec<u32>> {
        if self.now == u32::MAX {
            self.seen.clear();
            self.now = 0;
        }
        self.now += 1;
        self.probes.clear();
        self.apart = 0;
        for slot in starts {
            if self.seen_by(*slot).is_none() {
                self.apart += 1;
                self.probes.push(Probe::default());
                self.note(place, self.probes.len() - 1, *slot);
            }
        }
        while self.apart > 1 {
            let is_open = |probe: &Probe| {
                probe.met.is_none() && probe.waiting.iter().any(|list| !list.is_empty())
            };
            let mut open = (0..self.probes.len()).filter(|at| is_open(&self.probes[*at]));
            let first = open.next();
            let Some(second) = open.next() else { return self.ended(first) };
            let next = first.into_iter().chain([second]).chain(open);
            let next = next.min_by_key(|at| self.probes[*at].work).unwrap_or(second);
            self.step(place, next);
        }
        Vec::new()
    }

    /// Gives what the searches found that have come to an end; without another, all but the largest.
    fn ended(&mut self, last: Option<usize>) -> Vec<Vec<u32>> {
        let mut ended: Vec<Vec<u32>> = Vec::new();
        for (at, probe) in self.probes.iter_mut().enumerate() {
            if probe.met.is_none() && last != Some(at) {
                ended.push(std::mem::take(&mut probe.found));
            }
        }
        if last.is_none()
            && let Some(largest) = (0..ended.len()).max_by_key(|at| ended[*at].len())
        {
            ended.swap_remove(largest);
        }
        ended
    }

    fn seen_by(&mut self, slot: u32) -> Option<usize> {
        let at = slot as usize;
        if at >= self.seen.len() {
            self.seen.resize(at + 1, (0, 0));
        }
        let (when, probe) = self.seen[at];
        (when == self.now).then_some(probe as usize)
    }

    /// Notes a group that a search has come to first.
    fn note(&mut self, place: Place<'_>, probe: usize, slot: u32) {
        self.seen[slot as usize] = (self.now, u32::try_from(probe).expect("a few probes"));
        let probe = &mut self.probes[probe];
        probe.found.push(slot);
        let height = place.site.span(slot).height;
        let numbering = place.numbering;
        let top = (0..numbering.levels()).rev().find(|at| height > numbering.least(*at));
        match top {
            Some(level) => probe.waiting[level + 1].push(slot),
            None if height > 0 => probe.waiting[0].push(slot),
            None => {}
        }
    }

    /// Takes the next step of one search: upper levels first, where most groups meet.
    fn step(&mut self, place: Place<'_>, mut probe: usize) {
        let waiting = &mut self.probes[probe].waiting;
        let Some(step) = (0..STEPS).rev().find(|step| !waiting[*step].is_empty()) else { return };
        let Some(slot) = waiting[step].pop() else { return };
        let Place { site, uses, .. } = place;
        let span = site.span(slot);
        let Some(level) = step.checked_sub(1) else {
            return self.step_inner(place, probe, slot);
        };
        if level > 0 || uses.inner_groups > 0 {
            waiting[step - 1].push(slot);
        }
        for at in span.places(site.fabric, level) {
            self.probes[probe].work += 1;
            // If searches meet above the leaves, where many groups are, what is new need not be looked at.
            for other in uses.at(level, at).filter(|_| level > 0) {
                if self.seen_by(other).is_some() {
                    probe = self.meet(place, probe, other);
                }
                if self.apart <= 1 {
                    return;
                }
            }
            for other in uses.at(level, at) {
                probe = self.meet(place, probe, other);
                if self.apart <= 1 {
                    return;
                }
            }
        }
    }

    /// Goes to the groups that meet one in an endpoint only.
    fn step_inner(&mut self, place: Place<'_>, mut probe: usize, slot: u32) {
        let Place { site, uses, .. } = place;
        let span = site.span(slot);
        for leaf in span.places(site.fabric, 0) {
            self.probes[probe].work += 1;
            let spanning = uses.at(0, leaf).filter(|_| span.is_inner());
            for other in spanning.chain(uses.inner_at(leaf)) {
                if span.meets(site.fabric, site.span(other), leaf) {
                    probe = self.meet(place, probe, other);
                }
            }
        }
    }

    /// Notes that a search has come to a group. Gives the search that goes on: another, if that was there before.
    fn meet(&mut self, place: Place<'_>, probe: usize, slot: u32) -> usize {
        self.probes[probe].work += 1;
        let Some(mut by) = self.seen_by(slot) else {
            self.note(place, probe, slot);
            return probe;
        };
        while let Some(met) = self.probes[by].met {
            by = met as usize;
        }
        if by == probe {
            return probe;
        }
        self.apart -= 1;
        let Probe { found, waiting, work, .. } = std::mem::take(&mut self.probes[probe]);
        self.probes[probe].met = Some(u32::try_from(by).expect("a few probes"));
        let other = &mut self.probes[by];
        other.found.extend(found);
        other.work += work;
        for (list, more) in other.waiting.iter_mut().zip(waiting) {
            list.extend(more);
        }
        by
    }
}
