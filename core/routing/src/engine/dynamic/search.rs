//! Finds a root for a group, and merges where none is free.
//!
//! Source: C-MR4LMS, algorithms 1 to 3 with the dynamic root. Among roots without conflict those come
//! first that the groups of the family have already, then the one with the least load (groups that hang
//! from the same switch), then the smallest number; with a root policy, that decides in place of load and
//! number. If there is none, the family takes
//! in the fewest groups that make a root free, and looks again: all of them move to one root, which
//! can need links that yet others hold (the second merge).
//!
//! Groups that share a place that no root can change are of one family from the start.

use std::cmp::Reverse;

use fabricast_topology::SwitchId;

use crate::engine::dynamic::families::{Candidate, Families, Family, Ground};
use crate::engine::fabric::{NONE, dense};
use crate::engine::tree::group_tree;
use crate::group_tree::GroupTree;
use crate::plan::Displacement;
use crate::spt::SpanningTree;

/// How a group may be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    /// Others may get another root.
    Pushing,
    /// All others keep their roots.
    Gentle,
}

/// Why a group cannot be on a spanning tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A member uses the color on another.
    ColorHeld,
    /// No root serves it and the groups it meets.
    NoRoot,
}

/// A root that can be had: groups to take in, votes for it, load and number. The smallest is the best.
type Offer = (u32, Reverse<u32>, u32, u32);

impl Families {
    /// Places a group on a spanning tree, or gives it back and changes nothing.
    pub(super) fn place(
        &mut self,
        ground: Ground<'_>,
        candidate: Candidate,
        spt: u32,
        manners: Manners,
    ) -> Result<(), (Candidate, Refusal)> {
        if !self.gather(spt, 0, &candidate.places[..2]) {
            return Err((candidate, Refusal::ColorHeld));
        }
        for at in 0..self.gathered.len() {
            self.lift(self.gathered[at]);
        }
        if let Some(root) = self.settle(ground, &candidate, spt, manners) {
            self.unite(ground.fabric, candidate, spt, root);
            return Ok(());
        }
        for at in 0..self.gathered.len() {
            self.set_down(self.gathered[at]);
        }
        Err((candidate, Refusal::NoRoot))
    }

    /// Takes in families until there is a root without conflict, and gives it.
    fn settle(
        &mut self,
        ground: Ground<'_>,
        candidate: &Candidate,
        spt: u32,
        manners: Manners,
    ) -> Option<u32> {
        loop {
            self.list_wanted(candidate);
            let (extra, _, _, root) = self.best_root(ground, candidate, spt, manners)?;
            if extra == 0 {
                return Some(root);
            }
            self.meet(spt, root);
            for family in std::mem::take(&mut self.met) {
                self.lift(family);
                self.gathered.push(family);
            }
        }
    }

    fn list_wanted(&mut self, candidate: &Candidate) {
        let mut wanted = std::mem::take(&mut self.wanted);
        let gathered = self.gathered.iter().map(|family| &self.get(*family).places);
        for (rank, wanted) in (2..).zip(&mut wanted) {
            wanted.clear();
            wanted.resize(self.holdings.words(rank), 0);
            for at in gathered.clone().chain([&candidate.places]).flat_map(|all| &all[rank]) {
                wanted[*at as usize >> 6] |= 1 << (at & 63);
            }
        }
        self.wanted = wanted;
    }

    fn best_root(
        &mut self,
        ground: Ground<'_>,
        candidate: &Candidate,
        spt: u32,
        manners: Manners,
    ) -> Option<Offer> {
        let first = [first_bit(&self.wanted[0]), first_bit(&self.wanted[1])];
        let ups = if first[0].is_some() { self.roots.ups } else { 1 };
        let tops = if first[1].is_some() { self.roots.tops } else { 1 };
        let home = ground.fabric.tree(spt);
        let mut best: Option<Offer> = None;
        let mut offers: Vec<Offer> = Vec::new(); // only for a policy
        for up in 0..ups {
            let lower_meets =
                meet(self.holdings.taken(2, spt, up * self.roots.tops), &self.wanted[0]);
            for root in up * self.roots.tops..up * self.roots.tops + tops {
                let is_free =
                    !lower_meets && !meet(self.holdings.taken(3, spt, root), &self.wanted[1]);
                if !is_free && best.is_some_and(|(extra, ..)| extra == 0) {
                    continue;
                }
                let tree = self.roots.tree(home, root);
                let extra = if is_free { 0 } else { self.meet(spt, root) };
                let moves = |family: &u32| self.moves(self.get(*family), root);
                if manners == Manners::Gentle
                    && (self.gathered.iter().any(moves) || !is_free && self.met.iter().any(moves))
                    || !self.is_live(ground, candidate, &tree)
                {
                    continue;
                }
                let votes = Reverse(self.votes(candidate, root));
                let offer = (extra, votes, self.load(ground.fabric, &tree, first), root);
                best = Some(best.map_or(offer, |best| best.min(offer)));
                if self.chooser.is_on() {
                    offers.push(offer);
                }
            }
        }
        let best = best?;
        offers.retain(|offer| (offer.0, offer.1) == (best.0, best.1));
        offers.sort_unstable();
        Some(if offers.len() > 1 { self.by_policy(ground, candidate, spt, &offers) } else { best })
    }

    /// Chooses among offers that are equal but for load and number.
    fn by_policy(
        &self,
        Ground { fabric, registry }: Ground<'_>,
        candidate: &Candidate,
        spt: u32,
        offers: &[Offer],
    ) -> Offer {
        let group = registry.get(candidate.slot);
        let trees = offers.iter().map(|(.., root)| {
            let tree = self.roots.tree(fabric.tree(spt), *root);
            group_tree(fabric, &tree, &group.members).expect("two members or more are live")
        });
        let trees: Vec<GroupTree> = trees.collect();
        let roots: Vec<SwitchId> = trees.iter().map(|tree| tree.root).collect();
        let source = fabric.graph.switch_of(trees[0].member_ports[0]);
        let links = |at: usize| trees[at].links.clone();
        offers[self.chooser.choose((&fabric.graph, group.mgid), &roots, source, links)]
    }

    /// Lists the families at wanted places under a root, and counts their groups.
    fn meet(&mut self, spt: u32, root: u32) -> u32 {
        self.met.clear();
        let mut count = 0;
        for (rank, wanted) in (2..).zip(&self.wanted) {
            for (word, (taken, wanted)) in
                (0u32..).zip(self.holdings.taken(rank, spt, root).iter().zip(wanted))
            {
                let mut bits = taken & wanted;
                while bits != 0 {
                    let at = word * 64 + bits.trailing_zeros();
                    bits &= bits - 1;
                    let family = self.holdings.owner(rank, spt, root, at);
                    if !self.met.contains(&family) {
                        self.met.push(family);
                        count += dense(self.get(family).groups.len());
                    }
                }
            }
        }
        count
    }

    /// Tells whether a family would have to give up its root for another.
    pub(super) fn moves(&self, family: &Family, root: u32) -> bool {
        let [.., lower, upper] = &family.places;
        if upper.is_empty() {
            !lower.is_empty() && self.roots.steps(family.root).0 != self.roots.steps(root).0
        } else {
            family.root != root
        }
    }

    /// Counts the groups that have a root already, or had it before.
    fn votes(&self, candidate: &Candidate, root: u32) -> u32 {
        let own = u32::from(candidate.before == root);
        let gathered = self.gathered.iter().map(|family| self.get(*family));
        let stay = gathered.filter(|family| !self.moves(family, root));
        own + stay.map(|family| dense(family.groups.len())).sum::<u32>()
    }

    /// Tells whether all groups that come together have the links they need under a root.
    fn is_live(&mut self, ground: Ground<'_>, candidate: &Candidate, tree: &SpanningTree) -> bool {
        let Ground { fabric, registry } = ground;
        if fabric.has_all_links(tree) {
            return true;
        }
        let mut footprint = std::mem::take(&mut self.footprint);
        let gathered = self.gathered.iter().flat_map(|family| &self.get(*family).groups);
        let is_live = gathered.chain([&candidate.slot]).all(|slot| {
            footprint.trace(fabric, &registry.get(*slot).members);
            fabric.broken_link(tree, footprint.places()).is_none()
        });
        self.footprint = footprint;
        is_live
    }
}

impl Families {
    /// Says why a group is not on the spanning tree of its MGID.
    pub(super) fn obstacle(&mut self, ground: Ground<'_>, slot: u32, home: u32) -> Displacement {
        let fabric = ground.fabric;
        let candidate = self.candidate(ground, slot).expect("a group without a tree is at home");
        let link = fabric.broken_link(fabric.tree(home), self.footprint.places());
        let own = self.family_of(slot);
        let other = candidate.places[0].iter().find_map(|at| {
            let family = self.holdings.owner(0, home, 0, *at);
            let holds = family != NONE && family != own && self.get(family).spt != home;
            holds.then(|| (*at, self.get(family).spt))
        });
        match (link, other) {
            (Some(link), _) => Displacement::TreeBroken { link },
            (None, Some((at, by))) => {
                Displacement::ColorHeld { endpoint: fabric.endpoint_at(at), by }
            }
            (None, None) => Displacement::NoSharedRoot,
        }
    }
}

fn first_bit(words: &[u64]) -> Option<u32> {
    let at = words.iter().position(|word| *word != 0)?;
    Some(dense(at) * 64 + words[at].trailing_zeros())
}

fn meet(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}
