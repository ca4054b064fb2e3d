//! Finds a root for a group, and merges where none is free.
//!
//! Source: C-MR4LMS, algorithms 1 to 3 with the dynamic root. Among roots without conflict the
//! engine prefers the one that most groups of the virtual group have already, then the one with the
//! least load (groups whose trees hang from the same switch), then the smallest number; a root
//! policy replaces load and number. Off its home, and everywhere with the hybrid engine, a group
//! looks at the load of the links of its CNs first, which all groups below a top midplane share. If
//! every root has a conflict, the virtual group takes in the fewest groups that make a root free,
//! and the search starts again: all of them move to one root, which can need links that yet other
//! groups hold (the second merge).
//!
//! Groups that share a place that is the same under every root are merged from the start.

use std::cmp::Reverse;
use std::ops::ControlFlow;

use fabricast_topology::SwitchId;

use crate::c_mr4lms::assignment::Held;
use crate::c_mr4lms::dynamic_root::roots::Trees;
use crate::c_mr4lms::dynamic_root::virtual_groups::{
    Candidate, Context, VirtualGroupState, VirtualGroups,
};
use crate::c_mr4lms::fabric::{NONE, dense};
use crate::c_mr4lms::footprint::Footprint;
use crate::c_mr4lms::group_trees::group_tree;
use crate::c_mr4lms::numbers::{EndpointSlot, GroupIndex, TreeNumber};
use crate::group_tree::GroupTree;
use crate::plan::Displacement;
use crate::root_choice::RootChoice;
use crate::spt::SpanningTree;

/// Permission to change the roots of groups that are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RootChange {
    /// Others may get another root.
    Allowed,
    /// All others keep their roots.
    Forbidden,
}

/// Reason why a group cannot be on a spanning tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceError {
    /// A member uses the color on another.
    ColorHeld,
    /// No root serves it and the groups it meets.
    NoRoot,
}

/// A possible root: groups to take in, groups that keep their root, load and number. The
/// smallest is the best.
type Offer = (u32, Reverse<u32>, u64, u32);

impl VirtualGroups {
    /// Places a group on a spanning tree, or gives it back and changes nothing.
    pub(super) fn place(
        &mut self,
        context: Context<'_>,
        candidate: Box<Candidate>,
        spt: TreeNumber,
        root_change: RootChange,
    ) -> Result<(), (Box<Candidate>, PlaceError)> {
        if !self.collect_owners(spt, 0, &candidate.places, 0..2) {
            return Err((candidate, PlaceError::ColorHeld));
        }
        self.release_merging();
        if let Some(root) = self.settle(context, &candidate, spt, root_change) {
            self.unite(context.fabric, candidate, spt, root);
            return Ok(());
        }
        self.claim_merging();
        Err((candidate, PlaceError::NoRoot))
    }

    fn release_merging(&mut self) {
        for at in 0..self.merging.len() {
            self.release_places(self.merging[at]);
        }
    }

    fn claim_merging(&mut self) {
        for at in 0..self.merging.len() {
            self.claim_places(self.merging[at]);
        }
    }

    /// Counts the groups that a group would be merged with on a spanning tree if no other changes
    /// its root; none if it cannot be there, or not with fewer groups than a limit.
    ///
    /// The use of the color by the members must be known, and not bar the spanning tree.
    pub(super) fn count_merged(
        &mut self,
        context: Context<'_>,
        candidate: &Candidate,
        spt: TreeNumber,
        limit: u32,
    ) -> Option<u32> {
        // Without a group at the members' own links there is nothing to collect there.
        let first = usize::from(candidate.held == Held::Free);
        self.collect_owners(spt, 0, &candidate.places, first..2);
        let merging = self.merging.iter().map(|one| dense(self.get(*one).groups.len()));
        let merged: u32 = merging.sum();
        if merged >= limit {
            return None;
        }
        self.release_merging();
        self.list_wanted(candidate);
        let more = self.fewest_in_the_way(context, candidate, spt, limit - merged);
        self.claim_merging();
        more.map(|more| merged + more)
    }

    /// Counts the groups in the way under the root where they are fewest, if they are fewer than a
    /// limit, and all groups keep their roots.
    fn fewest_in_the_way(
        &mut self,
        context: Context<'_>,
        candidate: &Candidate,
        spt: TreeNumber,
        limit: u32,
    ) -> Option<u32> {
        let homes = context.fabric.trees(spt);
        let mut least = limit;
        let _ = self.each_root(context, candidate, spt, |this, root, is_free| {
            if !is_free && least == 1 {
                return ControlFlow::Continue(());
            }
            let extra = if is_free { 0 } else { this.list_in_the_way(spt, root) };
            if extra < least
                && this.all_keep_their_roots(root, is_free)
                && this.serve(context, candidate, &this.roots.trees(homes, root))
            {
                least = extra;
            }
            if least == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (least < limit).then_some(least)
    }

    /// Visits the roots of a spanning tree that make a difference for what is wanted, with whether
    /// nobody is in the way there, until the visitor breaks off; none if the links of leaves, which
    /// are the same under every root, are not live.
    fn each_root(
        &mut self,
        context: Context<'_>,
        candidate: &Candidate,
        spt: TreeNumber,
        mut visit: impl FnMut(&mut Self, u32, bool) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut homes = context.fabric.trees(spt).iter();
        if !homes.any(|home| candidate.rows[0].is_live(home.leaf_up)) {
            return ControlFlow::Continue(());
        }
        let [ups, tops] = self.choices();
        for up in 0..ups {
            let first = up * self.roots.tops;
            let lower_meets = overlap(self.owners.taken(2, spt, first), &self.wanted[0]);
            for root in first..first + tops {
                let is_free =
                    !lower_meets && !overlap(self.owners.taken(3, spt, root), &self.wanted[1]);
                visit(self, root, is_free)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Counts the up-ports of both steps to a root that make a difference for what is wanted.
    fn choices(&self) -> [u32; 2] {
        let is_wanted = |rank: usize| first_bit(&self.wanted[rank]).is_some();
        [
            if is_wanted(0) { self.roots.ups } else { 1 },
            if is_wanted(1) { self.roots.tops } else { 1 },
        ]
    }

    /// Tells whether no group that is merged under a root has another one.
    fn all_keep_their_roots(&self, root: u32, is_free: bool) -> bool {
        let in_the_way = if is_free { &[][..] } else { &self.in_the_way };
        let mut all = self.merging.iter().chain(in_the_way);
        !all.any(|virtual_group| self.moves(self.get(*virtual_group), root))
    }

    /// Places a group on a spanning tree with its fixed root if nobody is in its way there, or
    /// gives it back and changes nothing.
    pub(super) fn place_on_fixed_root(
        &mut self,
        context: Context<'_>,
        candidate: Box<Candidate>,
        spt: TreeNumber,
    ) -> Result<(), Box<Candidate>> {
        let is_free =
            self.collect_owners(spt, 0, &candidate.places, 0..4) && self.merging.is_empty();
        if !is_free || !candidate.is_served_by(context.fabric, context.fabric.trees(spt)) {
            return Err(candidate);
        }
        self.unite(context.fabric, candidate, spt, 0);
        Ok(())
    }

    /// Takes in virtual groups until there is a root without conflict, and gives it.
    fn settle(
        &mut self,
        context: Context<'_>,
        candidate: &Candidate,
        spt: TreeNumber,
        root_change: RootChange,
    ) -> Option<u32> {
        loop {
            self.list_wanted(candidate);
            let (extra, _, _, root) = self.best_root(context, candidate, spt, root_change)?;
            if extra == 0 {
                return Some(root);
            }
            self.list_in_the_way(spt, root);
            for virtual_group in std::mem::take(&mut self.in_the_way) {
                self.release_places(virtual_group);
                self.merging.push(virtual_group);
            }
        }
    }

    fn list_wanted(&mut self, candidate: &Candidate) {
        let mut wanted = std::mem::take(&mut self.wanted);
        let merging = self.merging.iter().map(|virtual_group| &self.get(*virtual_group).places);
        for (rank, wanted) in (2..).zip(&mut wanted) {
            wanted.clear();
            wanted.resize(self.owners.words(rank), 0);
            for at in merging.clone().chain([&candidate.places]).flat_map(|all| &all[rank]) {
                wanted[*at as usize >> 6] |= 1 << (at & 63);
            }
        }
        self.wanted = wanted;
    }

    fn best_root(
        &mut self,
        context: Context<'_>,
        candidate: &Candidate,
        spt: TreeNumber,
        root_change: RootChange,
    ) -> Option<Offer> {
        let first = [first_bit(&self.wanted[0]), first_bit(&self.wanted[1])];
        let homes = context.fabric.trees(spt);
        let mut best: Option<Offer> = None;
        let mut offers: Vec<Offer> = Vec::new(); // only for a policy
        let mut crossed = (NONE, 0); // a first step, and the most groups on a link of CNs there
        let _ = self.each_root(context, candidate, spt, |this, root, is_free| {
            if !is_free && best.is_some_and(|(extra, ..)| extra == 0) {
                return ControlFlow::Continue(());
            }
            let trees = this.roots.trees(homes, root);
            let extra = if is_free { 0 } else { this.list_in_the_way(spt, root) };
            if root_change == RootChange::Forbidden && !this.all_keep_their_roots(root, is_free)
                || !this.serve(context, candidate, &trees)
            {
                return ControlFlow::Continue(());
            }
            let votes = Reverse(this.staying(candidate, root));
            let step = this.roots.steps(root).0;
            if candidate.by_links && crossed.0 != step {
                let number = this.middle_number(spt, step);
                crossed = (step, this.middle_loads.most(number, &candidate.places[2]));
            }
            let load = this.load(context.fabric, &trees[0], first);
            let load = u64::from(crossed.1) << 32 | u64::from(load);
            let load = if candidate.fixed_first && root == 0 { 0 } else { load + 1 };
            let offer = (extra, votes, load, root);
            best = Some(best.map_or(offer, |best| best.min(offer)));
            if this.chooser.is_on() {
                offers.push(offer);
            }
            ControlFlow::Continue(())
        });
        let best = best?;
        offers.retain(|offer| (offer.0, offer.1) == (best.0, best.1));
        offers.sort_unstable();
        Some(if offers.len() > 1 { self.by_policy(context, candidate, spt, &offers) } else { best })
    }

    /// Chooses among offers that are equal but for load and number.
    fn by_policy(
        &self,
        Context { fabric, registry }: Context<'_>,
        candidate: &Candidate,
        spt: TreeNumber,
        offers: &[Offer],
    ) -> Offer {
        let group = registry.get(candidate.index);
        let mut footprint = Footprint::default();
        footprint.trace(fabric, &group.members);
        let places = footprint.places();
        let trees = offers.iter().map(|(.., root)| {
            let pair = self.roots.trees(fabric.trees(spt), *root);
            let has_links = |tree: &&SpanningTree| fabric.broken_link(tree, places).is_none();
            let tree = pair.iter().find(has_links).expect("one of the trees is live");
            let tree = group_tree(fabric, tree, &group.members, &footprint);
            tree.expect("two members or more are live")
        });
        let trees: Vec<GroupTree> = trees.collect();
        let roots: Vec<SwitchId> = trees.iter().map(|tree| tree.root).collect();
        let source = fabric.graph.switch_of(trees[0].member_ports[0]);
        let links = |at: usize| trees[at].links.clone();
        let choice = RootChoice { graph: &fabric.graph, mgid: group.mgid, roots: &roots, source };
        offers[self.chooser.choose(choice, links)]
    }

    /// Lists the virtual groups at wanted places under a root, and counts their groups.
    fn list_in_the_way(&mut self, spt: TreeNumber, root: u32) -> u32 {
        self.in_the_way.clear();
        let mut count = 0;
        for (rank, wanted) in (2..).zip(&self.wanted) {
            for (word, (taken, wanted)) in
                (0u32..).zip(self.owners.taken(rank, spt, root).iter().zip(wanted))
            {
                let mut bits = taken & wanted;
                while bits != 0 {
                    let at = word * 64 + bits.trailing_zeros();
                    bits &= bits - 1;
                    let virtual_group = self.owners.owner(rank, spt, root, at);
                    if !self.in_the_way.contains(&virtual_group) {
                        self.in_the_way.push(virtual_group);
                        count += dense(self.get(virtual_group).groups.len());
                    }
                }
            }
        }
        count
    }

    /// Tells whether a virtual group would have to give up its root for another.
    pub(super) fn moves(&self, virtual_group: &VirtualGroupState, root: u32) -> bool {
        let [.., lower, upper] = &virtual_group.places;
        if upper.is_empty() {
            !lower.is_empty() && self.roots.steps(virtual_group.root).0 != self.roots.steps(root).0
        } else {
            virtual_group.root != root
        }
    }

    /// Counts the groups that have a root already, or had it before.
    fn staying(&self, candidate: &Candidate, root: u32) -> u32 {
        let own = u32::from(candidate.before == root);
        let merging = self.merging.iter().map(|virtual_group| self.get(*virtual_group));
        let stay = merging.filter(|virtual_group| !self.moves(virtual_group, root));
        own + stay.map(|virtual_group| dense(virtual_group.groups.len())).sum::<u32>()
    }

    /// Tells whether trees serve all groups that come together: each has a live one, and both exist
    /// for those that have a whole pair or ask for one.
    fn serve(&mut self, context: Context<'_>, candidate: &Candidate, trees: &Trees) -> bool {
        let Context { fabric, registry } = context;
        if trees.iter().all(|tree| fabric.has_all_links(tree)) {
            return true;
        }
        if !candidate.is_served_by(fabric, trees) {
            return false;
        }
        let mut footprint = std::mem::take(&mut self.footprint);
        let mut merging = self.merging.iter().flat_map(|virtual_group| {
            let state = self.get(*virtual_group);
            state.groups.iter().map(move |index| (*index, state))
        });
        let serves = merging.all(|(index, VirtualGroupState { spt, root, .. })| {
            footprint.trace(fabric, &registry.get(index).members);
            let places = footprint.places();
            fabric.broken_link_of_all(trees, places).is_none()
                && (trees.len() == 1 || fabric.missing_link_of_any(trees, places).is_none() || {
                    let before = self.roots.trees(fabric.trees(*spt), *root);
                    fabric.missing_link_of_any(&before, places).is_some()
                })
        });
        self.footprint = footprint;
        serves
    }
}

impl VirtualGroups {
    /// Says why a group is not on the spanning tree of its MGID: a broken link, or other groups.
    pub(super) fn broken_or_shared(
        &mut self,
        Context { fabric, registry }: Context<'_>,
        index: GroupIndex,
        home: TreeNumber,
    ) -> Displacement {
        self.footprint.trace(fabric, &registry.get(index).members);
        let places = self.footprint.places();
        let link = fabric.obstacle(home, places).or_else(|| fabric.missing_from_any(home, places));
        link.map_or(Displacement::WouldMerge, |link| Displacement::TreeBroken { link })
    }

    /// Says why a group is not on the spanning tree of its MGID.
    pub(super) fn obstacle(
        &mut self,
        context: Context<'_>,
        index: GroupIndex,
        home: TreeNumber,
    ) -> Displacement {
        let fabric = context.fabric;
        let candidate = self.candidate(context, index).expect("a group without a tree is at home");
        let places = self.footprint.places();
        let link = fabric.obstacle(home, places).or_else(|| fabric.missing_from_any(home, places));
        let own = self.of_group(index);
        let other = candidate.places[0].iter().find_map(|at| {
            let virtual_group = self.owners.owner(0, home, 0, *at);
            let holds = virtual_group != NONE
                && virtual_group != own
                && self.get(virtual_group).spt != home;
            holds.then(|| (*at, self.get(virtual_group).spt.0))
        });
        match (link, other) {
            (Some(link), _) => Displacement::TreeBroken { link },
            (None, Some((at, by))) => {
                Displacement::ColorHeld { endpoint: fabric.endpoint_at(EndpointSlot(at)), by }
            }
            (None, None) => Displacement::NoSharedRoot,
        }
    }
}

fn first_bit(words: &[u64]) -> Option<u32> {
    let at = words.iter().position(|word| *word != 0)?;
    Some(dense(at) * 64 + words[at].trailing_zeros())
}

fn overlap(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}
