//! Checks whether groups that were merged are still connected, by searches from several of them.
//!
//! The searches take turns, the one with the least work first, until all have met or all but one
//! have ended. So the cost is proportional to the pieces that were split off, not to the rest.

use super::place_users::{PlaceNumbering, PlaceUsers};
use super::tree_view::TreeView;
use crate::c_mr4lms::numbers::GroupIndex;

/// Steps of the search of one group: the groups within its leaves, then its places from level 0 on.
const STEPS: usize = 5;

/// The searches of one check; the memory is used again.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectivityCheck {
    now: u32,
    seen: Vec<(u32, u32)>, // by index: when, and by which search
    searches: Vec<Search>,
    apart: usize, // searches that have not met another
}

/// A breadth-first search from one group.
#[derive(Clone, Debug, Default)]
struct Search {
    met: Option<u32>, // the search that goes on instead
    found: Vec<GroupIndex>,
    waiting: [Vec<GroupIndex>; STEPS],
    work: usize,
}

/// The graph that is searched: groups, joined by the places they share.
#[derive(Clone, Copy)]
pub(super) struct PlaceGraph<'a> {
    pub(super) view: TreeView<'a>,
    pub(super) users: &'a PlaceUsers,
    pub(super) numbering: PlaceNumbering,
}

impl ConnectivityCheck {
    /// Gives the sets of groups that are no longer connected to the rest.
    ///
    /// - `starts`: groups, at least one of each such set and one of the rest.
    pub(super) fn pieces(
        &mut self,
        graph: PlaceGraph<'_>,
        starts: &[GroupIndex],
    ) -> Vec<Vec<GroupIndex>> {
        if self.now == u32::MAX {
            self.seen.clear();
            self.now = 0;
        }
        self.now += 1;
        self.searches.clear();
        self.apart = 0;
        for index in starts {
            if self.seen_by(*index).is_none() {
                self.apart += 1;
                self.searches.push(Search::default());
                self.note(graph, self.searches.len() - 1, *index);
            }
        }
        while self.apart > 1 {
            let is_open = |search: &Search| {
                search.met.is_none() && search.waiting.iter().any(|list| !list.is_empty())
            };
            let mut open = (0..self.searches.len()).filter(|at| is_open(&self.searches[*at]));
            let first = open.next();
            let Some(second) = open.next() else { return self.ended(first) };
            let next = first.into_iter().chain([second]).chain(open);
            let next = next.min_by_key(|at| self.searches[*at].work).unwrap_or(second);
            self.step(graph, next);
        }
        Vec::new()
    }

    /// Gives the groups found by the searches that have ended; if all have, without the
    /// largest set.
    fn ended(&mut self, last: Option<usize>) -> Vec<Vec<GroupIndex>> {
        let mut ended: Vec<Vec<GroupIndex>> = Vec::new();
        for (at, search) in self.searches.iter_mut().enumerate() {
            if search.met.is_none() && last != Some(at) {
                ended.push(std::mem::take(&mut search.found));
            }
        }
        if last.is_none()
            && let Some(largest) = (0..ended.len()).max_by_key(|at| ended[*at].len())
        {
            ended.swap_remove(largest);
        }
        ended
    }

    fn seen_by(&mut self, index: GroupIndex) -> Option<usize> {
        let at = index.index();
        if at >= self.seen.len() {
            self.seen.resize(at + 1, (0, 0));
        }
        let (when, search) = self.seen[at];
        (when == self.now).then_some(search as usize)
    }

    /// Notes a group that no search has reached before.
    fn note(&mut self, graph: PlaceGraph<'_>, search: usize, index: GroupIndex) {
        self.seen[index.index()] = (self.now, u32::try_from(search).expect("a few searches"));
        let search = &mut self.searches[search];
        search.found.push(index);
        let height = graph.view.extent(index).height;
        let numbering = graph.numbering;
        let top = (0..numbering.levels()).rev().find(|at| height > numbering.least(*at));
        match top {
            Some(level) => search.waiting[level + 1].push(index),
            None if height > 0 => search.waiting[0].push(index),
            None => {}
        }
    }

    /// Takes the next step of one search: upper levels first, where most groups meet.
    fn step(&mut self, graph: PlaceGraph<'_>, mut search: usize) {
        let waiting = &mut self.searches[search].waiting;
        let Some(step) = (0..STEPS).rev().find(|step| !waiting[*step].is_empty()) else { return };
        let Some(index) = waiting[step].pop() else { return };
        let PlaceGraph { view, users, .. } = graph;
        let extent = view.extent(index);
        let Some(level) = step.checked_sub(1) else {
            return self.step_inner(graph, search, index);
        };
        if level > 0 || users.inner_groups > 0 {
            waiting[step - 1].push(index);
        }
        for at in extent.places(view.fabric, level) {
            self.searches[search].work += 1;
            // If searches meet above the leaves, where many groups are, what is new need not be
            // looked at.
            for other in users.at(level, at).filter(|_| level > 0) {
                if self.seen_by(other).is_some() {
                    search = self.meet(graph, search, other);
                }
                if self.apart <= 1 {
                    return;
                }
            }
            for other in users.at(level, at) {
                search = self.meet(graph, search, other);
                if self.apart <= 1 {
                    return;
                }
            }
        }
    }

    /// Continues with the groups that share only an endpoint with this one.
    fn step_inner(&mut self, graph: PlaceGraph<'_>, mut search: usize, index: GroupIndex) {
        let PlaceGraph { view, users, .. } = graph;
        let extent = view.extent(index);
        for leaf in extent.places(view.fabric, 0) {
            self.searches[search].work += 1;
            let spanning = users.at(0, leaf).filter(|_| extent.is_inner());
            for other in spanning.chain(users.inner_at(leaf)) {
                if extent.meets(view.fabric, view.extent(other), leaf) {
                    search = self.meet(graph, search, other);
                }
            }
        }
    }

    /// Notes that a search has reached a group. Gives the search that continues: the other one, if
    /// that was there before.
    fn meet(&mut self, graph: PlaceGraph<'_>, search: usize, index: GroupIndex) -> usize {
        self.searches[search].work += 1;
        let Some(mut by) = self.seen_by(index) else {
            self.note(graph, search, index);
            return search;
        };
        while let Some(met) = self.searches[by].met {
            by = met as usize;
        }
        if by == search {
            return search;
        }
        self.apart -= 1;
        let Search { found, waiting, work, .. } = std::mem::take(&mut self.searches[search]);
        self.searches[search].met = Some(u32::try_from(by).expect("a few searches"));
        let other = &mut self.searches[by];
        other.found.extend(found);
        other.work += work;
        for (list, more) in other.waiting.iter_mut().zip(waiting) {
            list.extend(more);
        }
        by
    }
}
