//! Chooses MGIDs for groups that are known together.
//!
//! One at a time, each group takes the least used color. Then endpoints use so many different
//! colors that no color is free for a large group. Known together, groups are first put into layers
//! (`batch_layers.rs`); layers get colors in proportion to their groups ([`divide_colors`]) and the
//! choice is made among these.
//!
//! Invariant
//! - BATCH-1: the MGIDs depend on the groups there are and on those of the batch, never on the
//!   order in which the batch lists them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use fabricast_topology::{Mgid, TableKind};

use super::batch_layers::{LayerInput, batch_layers};
use super::layers::Entry;
use super::{AllocatorError, Choice, Cost, MgidPlanner, Offer};
use crate::layers::{LayerSize, divide_colors};

/// A group of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchGroup<'a> {
    /// Its name; decides between groups of the same members, and may be empty.
    pub name: &'a str,
    /// Its members, each once, in any order; of an existing group those that are new.
    pub members: &'a [u32],
    /// Its MGID, if that is settled.
    pub mgid: BatchMgid,
    /// Layer that its creator names: no endpoint is in two groups of it.
    pub layer: Option<&'a str>,
    /// True if it must not share a spanning tree.
    pub exclusive: bool,
}

impl<'a> BatchGroup<'a> {
    /// Makes a group of which only members are known.
    #[must_use]
    pub fn of(members: &'a [u32]) -> Self {
        Self { members, ..Self::default() }
    }
}

/// Tells whether an MGID is to be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchMgid {
    /// It is to be chosen.
    #[default]
    Open,
    /// The creator of a new group gives it.
    Given(Mgid),
    /// The group exists and has it.
    Existing(Mgid),
}

impl MgidPlanner {
    /// Chooses MGIDs for many groups at once and records them; gives one choice for each, in the
    /// order of the groups. Groups with an MGID are noted before any choice, and exclusive groups
    /// choose before others.
    ///
    /// Cost: for each group the colors, and the groups of its members; and [`batch_layers`].
    ///
    /// # Errors
    ///
    /// [`AllocatorError`] if a group names a member twice, a given MGID is taken or no MGID is
    /// left; some of the groups are noted then.
    pub fn choose_all(&mut self, groups: &[BatchGroup<'_>]) -> Result<Vec<Choice>, AllocatorError> {
        let members: Vec<Vec<u32>> = groups.iter().map(|group| rising(group.members)).collect();
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by(|a, b| {
            let key = |at: usize| (Reverse(members[at].len()), &members[at]);
            let texts = |at: usize| (groups[at].layer, groups[at].name);
            key(*a).cmp(&key(*b)).then_with(|| texts(*a).cmp(&texts(*b)))
        });
        let mut uses = Uses::new(self);
        let mut choices: Vec<Option<Choice>> = vec![None; groups.len()];
        for at in &order {
            choices[*at] = self.note_settled(&groups[*at], &members[*at], &mut uses)?;
        }
        order.retain(|at| choices[*at].is_none());
        let mut trees = TreeOrder::new(self);
        let all_colors = 0..u32::from(self.space.colors());
        for at in order.extract_if(.., |at| groups[*at].exclusive) {
            uses.count(self, &members[at]);
            let choice = trees.choose(self, &uses, all_colors.clone(), true);
            let choice = choice.ok_or(AllocatorError::Full)?;
            let spt = self.space.spt(choice.mgid);
            trees.remove(self, spt);
            self.note(choice.mgid, &members[at], true, Entry::default())?;
            trees.add(self, spt);
            choices[at] = Some(choice);
        }
        let layers = self.layers_of(&order, groups, &members);
        let mut opened = vec![None; layers.colors.len()]; // the layer of colors that were unused
        for Turn { at, layer } in layers.turns(&order) {
            uses.count(self, &members[at]);
            let colors = layer.map(|layer| layers.colors[layer].clone());
            let near = colors.and_then(|colors| trees.choose(self, &uses, colors, false));
            let choice = match near {
                Some(choice) if self.is_undisturbed(&choice) => Some(choice),
                Some(_) | None => trees.choose(self, &uses, all_colors.clone(), false),
            };
            let choice = choice.ok_or(AllocatorError::Full)?;
            let (spt, meant) = (self.space.spt(choice.mgid), layer.and_then(|at| opened[at]));
            trees.remove(self, spt);
            let entry = Entry { layer: meant, name: groups[at].layer };
            let entered = self.note(choice.mgid, &members[at], false, entry)?;
            trees.add(self, spt);
            if let Some(layer) = layer {
                opened[layer] = Some(entered.layer);
            }
            choices[at] = Some(choice);
        }
        Ok(choices.into_iter().flatten().collect())
    }

    /// Notes a group whose MGID is settled; `None` for the others.
    fn note_settled(
        &mut self,
        group: &BatchGroup<'_>,
        members: &[u32],
        uses: &mut Uses,
    ) -> Result<Option<Choice>, AllocatorError> {
        let (BatchMgid::Given(mgid) | BatchMgid::Existing(mgid)) = group.mgid else {
            return Ok(None);
        };
        let spt = self.space.spt(mgid);
        uses.count(self, members);
        let (breaches, merges) = (uses.breaches(self.space.color(spt), spt), uses.on_tree(spt));
        if let BatchMgid::Given(_) = group.mgid {
            let entry = Entry { layer: None, name: group.layer };
            self.note(mgid, members, group.exclusive, entry)?;
        } else {
            members.iter().for_each(|member| self.add_use(*member, spt));
        }
        Ok(Some(Choice { mgid, breaches, merges }))
    }

    /// Puts groups into layers, and divides the colors among these; no layers at all if there are
    /// fewer colors than layers.
    fn layers_of(
        &self,
        order: &[usize],
        groups: &[BatchGroup<'_>],
        members: &[Vec<u32>],
    ) -> BatchLayers {
        if self.space.tables() == TableKind::PerSwitch {
            return BatchLayers::default();
        }
        let colors = self.space.colors();
        let names: Vec<Option<&str>> = order.iter().map(|at| groups[*at].layer).collect();
        let listed: Vec<Vec<u32>> = order.iter().map(|at| members[*at].clone()).collect();
        let input = LayerInput { members: &listed, names: &names, most: usize::from(colors) };
        let Some(of_groups) = batch_layers(&input) else { return BatchLayers::default() };
        let count = of_groups.iter().max().map_or(0, |last| last + 1);
        let mut sizes = vec![LayerSize { dimension: 0, groups: 0 }; count];
        of_groups.iter().for_each(|layer| sizes[*layer].groups += 1);
        let Ok(colors) = divide_colors(u32::from(colors), &sizes) else {
            return BatchLayers::default();
        };
        let mut end = 0;
        let range = |colors: u32| {
            let first = end;
            end += colors;
            first..end
        };
        BatchLayers { of_groups, colors: colors.into_iter().map(range).collect() }
    }
}

fn rising(members: &[u32]) -> Vec<u32> {
    let mut members = members.to_vec();
    members.sort_unstable();
    members
}

/// Layers of groups that are known together.
#[derive(Default)]
struct BatchLayers {
    of_groups: Vec<usize>,   // in the order of choice
    colors: Vec<Range<u32>>, // by layer
}

/// A group whose turn it is.
#[derive(Clone, Copy)]
struct Turn {
    at: usize,
    layer: Option<usize>,
}

impl BatchLayers {
    /// Orders the groups for the choice: layer by layer.
    fn turns(&self, order: &[usize]) -> Vec<Turn> {
        let layers = self.of_groups.iter().copied().map(Some).chain(std::iter::repeat(None));
        let mut turns: Vec<Turn> =
            order.iter().zip(layers).map(|(at, layer)| Turn { at: *at, layer }).collect();
        turns.sort_by_key(|turn| turn.layer);
        turns
    }
}

/// The spanning trees of each color with a free MGID, least loaded first.
struct TreeOrder(Vec<BTreeSet<TreeLoad>>);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TreeLoad {
    load: u32,
    spt: u32,
}

impl TreeOrder {
    fn new(planner: &MgidPlanner) -> Self {
        let mut trees = Self(vec![BTreeSet::new(); usize::from(planner.space.colors())]);
        (0..planner.space.total()).for_each(|spt| trees.add(planner, spt));
        trees
    }

    fn add(&mut self, planner: &MgidPlanner, spt: u32) {
        if planner.free_mgid(spt).is_some() {
            let load = planner.load[spt as usize];
            self.0[usize::from(planner.space.color(spt))].insert(TreeLoad { load, spt });
        }
    }

    fn remove(&mut self, planner: &MgidPlanner, spt: u32) {
        let load = planner.load[spt as usize];
        self.0[usize::from(planner.space.color(spt))].remove(&TreeLoad { load, spt });
    }

    /// Chooses as [`MgidPlanner::choose_among`] does, among the trees of some colors.
    fn choose(
        &self,
        planner: &MgidPlanner,
        uses: &Uses,
        colors: Range<u32>,
        is_exclusive: bool,
    ) -> Option<Choice> {
        let mut best: Option<(Cost, Offer)> = None;
        let mut offer = |tree: &TreeLoad| {
            let spt = tree.spt;
            let breaches = uses.breaches(planner.space.color(spt), spt);
            let merges = uses.on_tree(spt);
            let offer = Offer { spt, breaches, merges, is_like_avoided: false };
            let cost = planner.cost(offer, is_exclusive);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, offer));
            }
        };
        for trees in &self.0[colors.start as usize..colors.end as usize] {
            // Trees that no member uses differ in the load, and in exclusive groups.
            let mut unused = trees.iter().filter(|tree| uses.on_tree(tree.spt) == 0);
            let Some(first) = unused.next() else { continue };
            offer(first);
            let has_exclusive = |tree: &TreeLoad| planner.exclusive[tree.spt as usize] > 0;
            if has_exclusive(first)
                && let Some(other) = unused.find(|tree| !has_exclusive(tree))
            {
                offer(other);
            }
        }
        for spt in &uses.used {
            let color = planner.space.color(*spt);
            let tree = TreeLoad { load: planner.load[*spt as usize], spt: *spt };
            if colors.contains(&u32::from(color)) && self.0[usize::from(color)].contains(&tree) {
                offer(&tree);
            }
        }
        let Offer { spt, breaches, merges, .. } = best?.1;
        let mgid = planner.free_mgid(spt)?;
        Some(Choice { mgid, breaches, merges })
    }
}

/// Uses of spanning trees by the members of a group.
struct Uses {
    on_tree: Vec<u32>,  // by spanning tree: members
    only_on: Vec<u32>,  // by spanning tree: members that use the color on this tree only
    of_color: Vec<u32>, // by color: members
    used: Vec<u32>,     // spanning trees with members
}

impl Uses {
    fn new(planner: &MgidPlanner) -> Self {
        let trees = planner.load.len();
        Self {
            on_tree: vec![0; trees],
            only_on: vec![0; trees],
            of_color: vec![0; usize::from(planner.space.colors())],
            used: Vec::new(),
        }
    }

    /// Counts anew, for the members of a group.
    fn count(&mut self, planner: &MgidPlanner, members: &[u32]) {
        let color = |spt: u32| planner.space.color(spt);
        for spt in self.used.drain(..) {
            self.on_tree[spt as usize] = 0;
            self.only_on[spt as usize] = 0;
            self.of_color[usize::from(color(spt))] = 0;
        }
        for uses in planner.uses_of(members) {
            for of_one_color in uses.chunk_by(|a, b| color(a.spt) == color(b.spt)) {
                self.of_color[usize::from(color(of_one_color[0].spt))] += 1;
                if let [only] = of_one_color {
                    self.only_on[only.spt as usize] += 1;
                }
                for one in of_one_color {
                    let members = &mut self.on_tree[one.spt as usize];
                    if *members == 0 {
                        self.used.push(one.spt);
                    }
                    *members += 1;
                }
            }
        }
    }

    fn on_tree(&self, spt: u32) -> u32 {
        self.on_tree[spt as usize]
    }

    /// Counts the members that use a color on another tree than `spt`.
    fn breaches(&self, color: u16, spt: u32) -> u32 {
        self.of_color[usize::from(color)] - self.only_on[spt as usize]
    }
}
