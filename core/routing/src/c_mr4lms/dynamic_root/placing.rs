//! Finds places for groups: at home, or elsewhere with the fewest groups to merge with.

use crate::c_mr4lms::assignment::Held;
use crate::c_mr4lms::dynamic_root::root_search::{PlaceError, RootChange};
use crate::c_mr4lms::dynamic_root::virtual_groups::{Candidate, Context};
use crate::c_mr4lms::dynamic_root::{Displaced, DynamicRootEngine, Search, Unplaced};
use crate::c_mr4lms::fabric::NONE;
use crate::c_mr4lms::numbers::TreeNumber;

/// Spanning trees at which a group looks that has to be merged, once one of them can take it.
const MOST_TO_MERGE_ON: u32 = 64;

impl DynamicRootEngine {
    /// Finds a place for a group that has none. With fault tolerance whole pairs come first, then
    /// those of which one tree is live.
    pub(super) fn place(&mut self, unplaced: &Unplaced, root_change: RootChange) -> bool {
        let Unplaced { mgid, index, .. } = *unplaced;
        let context = Context { fabric: &self.fabric, registry: &self.registry };
        let Some(mut candidate) = self.virtual_groups.candidate(context, index) else {
            self.put(index, self.home(mgid)); // without a tree it is in nobody's way
            return true;
        };
        let mut tried = Displaced { index, ..Displaced::default() };
        let kinds: &[bool] = if self.plan.is_dual() { &[true, false] } else { &[false] };
        for whole_pair in kinds {
            candidate.whole_pair = *whole_pair;
            tried = Displaced { index, ..Displaced::default() };
            match self.place_somewhere(unplaced, candidate, root_change, &mut tried) {
                Ok(()) => return true,
                Err(back) => candidate = back,
            }
        }
        self.registry.get_mut(index).placed = TreeNumber(NONE);
        self.displaced.insert(mgid, tried);
        false
    }

    /// Places a group, or gives it back with the obstacles counted. Elsewhere than at home it looks
    /// first where few groups cross the links of its leaves and CNs.
    ///
    /// Cost: without a place where it is alone, all roots of all spanning trees.
    fn place_somewhere(
        &mut self,
        unplaced: &Unplaced,
        mut candidate: Box<Candidate>,
        root_change: RootChange,
        tried: &mut Displaced,
    ) -> Result<(), Box<Candidate>> {
        let (home, before) = (self.home(unplaced.mgid), unplaced.tree_before);
        let mut order: Vec<TreeNumber> = match self.search {
            Search::HomeFirst => vec![home, before],
            Search::LeastMerged => vec![before, home],
        };
        order.dedup();
        order.retain(|spt| *spt != TreeNumber(NONE));
        if self.search == Search::HomeFirst {
            for spt in &order {
                match self.place_on(unplaced, candidate, *spt, root_change) {
                    Ok(()) => return Ok(()),
                    Err((back, error)) => {
                        candidate = back;
                        tried.count(error);
                    }
                }
            }
            order.clear();
        }
        let elsewhere = self.layout.space().search_order(home.0).map(TreeNumber);
        let first = order.len();
        order.extend(elsewhere.filter(|spt| *spt != home && *spt != before));
        let loads = self.virtual_groups.link_loads(&candidate);
        order[first..].sort_by_key(|spt| loads[spt.index()]);
        if let Some(spt) = self.least_merged(&mut candidate, &order) {
            match self.place_on(unplaced, candidate, spt, RootChange::Forbidden) {
                Ok(()) => return Ok(()),
                Err((back, _)) => candidate = back,
            }
        }
        for spt in order {
            match self.place_on(unplaced, candidate, spt, root_change) {
                Ok(()) => return Ok(()),
                Err((back, error)) => {
                    candidate = back;
                    tried.count(error);
                }
            }
        }
        Err(candidate)
    }

    /// Finds the first of the spanning trees where a group is alone, or else, of those at which it
    /// looks first, where it is merged with the fewest others. All others keep their roots.
    fn least_merged(
        &mut self,
        candidate: &mut Candidate,
        order: &[TreeNumber],
    ) -> Option<TreeNumber> {
        let (mut found, mut tries) = (None, 0);
        let mut held: Vec<Option<Held>> = vec![None; usize::from(self.plan.colors())];
        for most in [1, u32::MAX] {
            let mut least = most;
            for spt in order {
                let held = &mut held[usize::from(self.layout.space().color(spt.0))];
                let find = || self.virtual_groups.held_at_members(candidate, *spt);
                candidate.held = *held.get_or_insert_with(find);
                if candidate.held.bars(*spt) {
                    continue;
                }
                let context = Context { fabric: &self.fabric, registry: &self.registry };
                let merged = self.virtual_groups.count_merged(context, candidate, *spt, least);
                if let Some(merged) = merged {
                    (least, found) = (merged, Some(*spt));
                }
                tries += u32::from(most > 1 && found.is_some());
                if least == 0 || tries == MOST_TO_MERGE_ON {
                    return found;
                }
            }
        }
        found
    }

    fn place_on(
        &mut self,
        unplaced: &Unplaced,
        mut candidate: Box<Candidate>,
        spt: TreeNumber,
        root_change: RootChange,
    ) -> Result<(), (Box<Candidate>, PlaceError)> {
        self.prepare(unplaced, &mut candidate, spt);
        let context = Context { fabric: &self.fabric, registry: &self.registry };
        self.virtual_groups.place(context, candidate, spt, root_change)?;
        self.put(unplaced.index, spt);
        Ok(())
    }

    /// Notes which root a group keeps or prefers on a spanning tree.
    fn prepare(&self, unplaced: &Unplaced, candidate: &mut Candidate, spt: TreeNumber) {
        let is_home = spt == self.home(unplaced.mgid);
        let keeps = is_home || spt == unplaced.tree_before;
        candidate.before = if keeps { unplaced.root_before } else { NONE };
        let is_hybrid = self.search == Search::LeastMerged;
        candidate.fixed_first = is_home && is_hybrid;
        candidate.by_links = !is_home || is_hybrid;
    }

    /// Places a group on the fixed root of its home if it is alone there and was nowhere else
    /// before.
    pub(super) fn place_on_fixed_root(&mut self, unplaced: &Unplaced) -> bool {
        let Unplaced { mgid, index, tree_before, root_before } = *unplaced;
        let home = self.home(mgid);
        let was_elsewhere = root_before != NONE && (tree_before, root_before) != (home, 0);
        if was_elsewhere {
            return false;
        }
        let context = Context { fabric: &self.fabric, registry: &self.registry };
        let candidate = self.virtual_groups.candidate(context, index);
        if let Some(mut candidate) = candidate {
            candidate.whole_pair = self.plan.is_dual();
            if self.virtual_groups.place_on_fixed_root(context, candidate, home).is_err() {
                return false;
            }
        }
        self.put(index, home);
        true
    }
}
