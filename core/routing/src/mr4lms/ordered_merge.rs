//! Merges groups to trees that turn once: packets go up, and down from then on.
//!
//! MR4LMS §3.3 connects merged trees by any links that are free. Such a tree can go down to a leaf
//! switch and up again, and packets of two of them can wait for each other for ever. Where trees
//! have to keep to an order of the switches ([`UpDown`](crate::UpDown)), every switch of a tree but
//! the highest has one link up, so a merged tree is made like this:
//!
//! - Under a color, the group has to be merged with the trees that have it at its own members.
//! - These trees stay whole. Their highest switches and the group's other members climb to a root
//!   above all, by the lightest ways, until they meet one of these trees or each other. Whatever
//!   else they meet of that color is merged, too, and all climb again.
//! - If there is no such root, or two of the trees have different links up from one switch, the
//!   color is of no use. If no color is, one new tree is made for all as with
//!   [`MergePolicy::Rebuild`], from a root above all members.
//!
//! Colors where the group's members meet the fewest groups are tried first, until no color can be
//! better. A group for which no color is left has no tree.
//!
//! Invariants
//! - ORDER-1: with such an order no switch of a tree has two links up, whatever comes, goes and
//!   fails.

use fabricast_topology::{Peer, PortId, SwitchId};

use crate::min_hop::NO_PATH;
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::light_tree::LightTreeTerms;
use crate::mr4lms::member_hops::{LiveMembers, Preference, preference};
use crate::mr4lms::obstacles::met;
use crate::mr4lms::occupancy::Context;
use crate::mr4lms::place::ROOTS;
use crate::mr4lms::tree_index::TreeIndex;
use crate::mr4lms::tree_store::TreeStore;
use crate::mr4lms::{MergePartner, MergePolicy, Mr4lmsOptions, Tools};

/// A root, the ports of the links below it, and the trees that they meet.
type Candidate = (SwitchId, Vec<PortId>, Vec<TreeIndex>);

/// Colors that are tried after the best so far.
const TRIES: usize = 16;

/// The switches above some others; its buffers are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Heights {
    counts: Vec<u32>, // by switch: of how many it is above, or one of them
    touched: Vec<SwitchId>,
    seen: Vec<u32>, // by switch: the last search that met it
    search: u32,
}

impl Heights {
    /// Finds the switches above some others, these among them.
    fn look(&mut self, fabric: &Fabric, below: &[SwitchId]) {
        self.counts.resize(fabric.graph.switch_count(), 0);
        self.seen.resize(fabric.graph.switch_count(), 0);
        for switch in self.touched.drain(..) {
            self.counts[switch.index()] = 0;
        }
        let mut queue = Vec::new();
        for start in below {
            self.search = self.search.wrapping_add(1);
            if self.search == 0 {
                self.seen.fill(0);
                self.search = 1;
            }
            queue.clear();
            queue.push(*start);
            self.seen[start.index()] = self.search;
            while let Some(at) = queue.pop() {
                let count = &mut self.counts[at.index()];
                *count += 1;
                if *count == 1 {
                    self.touched.push(at);
                }
                for to in fabric.links().neighbours(at) {
                    let seen = &mut self.seen[to.index()];
                    if *seen != self.search && fabric.may_descend(*to, at) {
                        *seen = self.search;
                        queue.push(*to);
                    }
                }
            }
        }
    }

    fn has(&self, switch: SwitchId) -> bool {
        self.counts[switch.index()] > 0
    }
}

/// A tree for a group and those it is merged with.
pub(super) struct Joined {
    pub(super) color: u16,
    pub(super) root: SwitchId,
    /// Its ports, rising.
    pub(super) ports: Vec<PortId>,
    /// The trees that it takes the place of, rising.
    pub(super) met: Vec<TreeIndex>,
    /// Groups that have to share it with the new one.
    groups: usize,
}

/// The group that is to be merged.
#[derive(Clone, Copy)]
struct NewGroup<'a> {
    members: &'a LiveMembers,
    /// A tree that it is to be merged with.
    partner: Option<TreeIndex>,
}

/// A search for a tree; it changes nothing but buffers.
pub(super) struct OrderedMerge<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) store: &'a TreeStore,
    pub(super) options: Mr4lmsOptions,
    pub(super) tools: &'a mut Tools,
}

impl OrderedMerge<'_> {
    /// Finds a tree that keeps to the order for a group and some others, if there is any;
    /// `member_hops` must be of this group.
    pub(super) fn find(&mut self, members: &LiveMembers) -> Option<Joined> {
        let (colors, partner) = self.colors_to_merge(members);
        let new_group = NewGroup { members, partner };
        let mut found = None;
        if self.options.merge_policy == MergePolicy::Keep {
            found =
                self.best_color(&colors, |merge, color, most| merge.keep(new_group, color, most));
        }
        found.or_else(|| {
            self.best_color(&colors, |merge, color, most| merge.rebuild(new_group, color, most))
        })
    }

    /// Lists the colors with the number of groups that the members themselves meet, in the order in
    /// which they are tried; and the tree to merge with, if that is the first choice.
    fn colors_to_merge(&mut self, members: &LiveMembers) -> (Vec<(usize, u16)>, Option<TreeIndex>) {
        let Self { fabric, store, options, tools } = self;
        let domains = fabric.domains(&members.member_ports);
        let counts = tools.obstacles.count(store, options.colors, domains);
        let mut colors: Vec<(usize, u16)> = counts.iter().copied().zip(0u16..).collect();
        colors.sort_unstable();
        let (first, partner) = match options.merge_partner {
            MergePartner::FewestGroups => return (colors, None),
            MergePartner::RarestColor => (store.occupancy.rarest_color(), None),
            MergePartner::Nearest => {
                let hops = &mut tools.union_hops;
                hops.look_everywhere(fabric, &members.leaves);
                let nearest = tools.distances.nearest(fabric, store, members, hops);
                (store.tree(nearest).color, Some(nearest))
            }
        };
        let at = colors.iter().position(|(_, color)| *color == first).expect("it is one of them");
        colors[..=at].rotate_right(1);
        (colors, partner)
    }

    /// Finds the tree with the fewest groups, or with another choice of partners that of the first
    /// color that has any. The last argument of `join` is the number of groups to stay below.
    fn best_color(
        &mut self,
        colors: &[(usize, u16)],
        mut join: impl FnMut(&mut Self, u16, usize) -> Option<Joined>,
    ) -> Option<Joined> {
        let mut best: Option<Joined> = None;
        let mut tries = 0;
        for (least, color) in colors {
            let most = best.as_ref().map_or(usize::MAX, |best| best.groups);
            if *least >= most || tries == TRIES {
                break;
            }
            tries += usize::from(best.is_some());
            if let Some(joined) = join(self, *color, most) {
                let is_first = self.options.merge_partner != MergePartner::FewestGroups;
                tries = 0;
                best = Some(joined);
                if is_first {
                    break;
                }
            }
        }
        best
    }

    /// Lists the trees that a new group has to be merged with under a color, wherever its tree
    /// goes.
    fn must_meet(&self, NewGroup { members, partner }: NewGroup<'_>, color: u16) -> Vec<TreeIndex> {
        let mut trees = met(self.fabric, self.store, color, &members.member_ports);
        let partner = partner.filter(|partner| self.store.tree(*partner).color == color);
        trees.extend(partner);
        trees.sort_unstable();
        trees.dedup();
        trees
    }

    /// Makes a tree of those that are in the way as they are and new branches.
    fn keep(&mut self, new_group: NewGroup<'_>, color: u16, most: usize) -> Option<Joined> {
        let mut trees = self.must_meet(new_group, color);
        loop {
            if group_count(self.store, &trees) >= most {
                return None;
            }
            let (root, new, more) = self.climb_from(new_group.members, color, &trees)?;
            if !more.is_empty() {
                trees.extend(more);
                trees.sort_unstable();
                continue;
            }
            let mut ports = new;
            trees.iter().for_each(|number| ports.extend(&self.store.tree(*number).ports));
            ports.sort_unstable();
            ports.dedup();
            if !self.fabric.keeps_order(&ports) {
                return None;
            }
            return Some(self.trim(color, root, &ports, trees));
        }
    }

    /// Climbs from the highest switches of trees, and from members that no tree passes, to a root
    /// above all. Returns the root, the ports of the new branches, and the trees of that color that
    /// they meet besides; none if no switch is above all.
    fn climb_from(
        &mut self,
        members: &LiveMembers,
        color: u16,
        trees: &[TreeIndex],
    ) -> Option<Candidate> {
        let Self { fabric, store, tools, .. } = self;
        let context = Context { fabric, occupancy: &store.occupancy };
        let mut tops: Vec<SwitchId> = trees.iter().map(|number| store.tree(*number).root).collect();
        tops.sort_unstable();
        tops.dedup();
        tools.heights.look(fabric, &tops);
        let roots = if tops.is_empty() {
            tools.member_hops.first_of_all(context, ROOTS)
        } else {
            let far = |switch: &SwitchId| tools.member_hops.far[switch.index()];
            let is_above_all = |switch: &&SwitchId| {
                tools.heights.counts[switch.index()] as usize == tops.len()
                    && far(switch) != NO_PATH
            };
            let above = tools.heights.touched.iter().filter(is_above_all);
            let mut roots: Vec<(u8, Preference)> =
                above.map(|switch| (far(switch), preference(context.occupancy, *switch))).collect();
            roots.sort_unstable();
            roots.into_iter().take(ROOTS).map(|(_, (.., root))| root).collect()
        };
        tools.targets.clear();
        tools.targets.grow(fabric.graph.switch_count());
        for number in trees {
            tools.targets.extend(fabric.switches(&store.tree(*number).ports).map(SwitchId::index));
        }
        let free = members.leaves.iter().copied();
        let free = free.filter(|leaf| !tools.targets.contains(leaf.index()));
        let free: Vec<SwitchId> = free.collect();
        let branches = roots.into_iter().map(|root| {
            let mut leaves: Vec<SwitchId> =
                tops.iter().copied().filter(|top| *top != root).collect();
            leaves.extend(&free);
            leaves.sort_unstable();
            leaves.dedup();
            let starts = LiveMembers { member_ports: members.member_ports.clone(), leaves };
            let passes = |switch: SwitchId| {
                tools.targets.contains(switch.index()) && tops.binary_search(&switch).is_err()
            };
            let (near, heights) = (&tools.member_hops.near, &tools.heights);
            let within = |switch: SwitchId| near[switch.index()] != NO_PATH || heights.has(switch);
            let terms = LightTreeTerms {
                root,
                member_hops: None,
                old: Some(&passes),
                within: Some(&within),
            };
            tools.light_trees.build(context, &starts, terms);
            let ports = tools.light_trees.ports.clone();
            (root, ports)
        });
        let others = |ports: &[PortId]| others(fabric, store, color, ports, trees);
        fewest_met(branches, others).map(|(candidate, _)| candidate)
    }

    /// Makes one new tree for a new group and all groups whose trees are in its way.
    fn rebuild(&mut self, new_group: NewGroup<'_>, color: u16, most: usize) -> Option<Joined> {
        let mut trees = self.must_meet(new_group, color);
        loop {
            if group_count(self.store, &trees) >= most {
                return None;
            }
            let members = self.members_with(new_group.members, &trees);
            let Self { fabric, store, tools, .. } = self;
            let context = Context { fabric, occupancy: &store.occupancy };
            tools.union_hops.look(fabric, &members.leaves);
            if tools.union_hops.height == NO_PATH {
                return None;
            }
            let roots = tools.union_hops.first_of_all(context, ROOTS).into_iter();
            let whole = roots.map(|root| {
                let terms = LightTreeTerms::new(root, &tools.union_hops);
                tools.light_trees.build(context, &members, terms);
                (root, tools.light_trees.ports.clone())
            });
            let others = |ports: &[PortId]| others(fabric, store, color, ports, &trees);
            let best = fewest_met(whole, others);
            let ((root, ports, more), count) = best.expect("there is a root");
            if count == 0 {
                return Some(self.trim(color, root, &ports, trees));
            }
            trees.extend(more);
            trees.sort_unstable();
        }
    }

    /// Lists a group's members and those of trees.
    fn members_with(&self, members: &LiveMembers, trees: &[TreeIndex]) -> LiveMembers {
        let graph = &self.fabric.graph;
        let mut ports = members.member_ports.clone();
        for number in trees {
            let tree = self.store.tree(*number).ports.iter().copied();
            ports.extend(tree.filter(|port| matches!(graph.peer(*port), Peer::Endpoint(_))));
        }
        ports.sort_unstable();
        ports.dedup();
        LiveMembers::new(self.fabric, ports)
    }

    /// Cuts off what leads to no member.
    fn trim(
        &mut self,
        color: u16,
        root: SwitchId,
        ports: &[PortId],
        met: Vec<TreeIndex>,
    ) -> Joined {
        let Self { fabric, store, tools, .. } = self;
        let is_member_port = |port: &PortId| matches!(fabric.graph.peer(*port), Peer::Endpoint(_));
        let member_ports: Vec<PortId> = ports.iter().copied().filter(is_member_port).collect();
        tools.walk.along(fabric, ports, root);
        let cutting = tools.walk.cut(fabric, &member_ports);
        let groups = group_count(store, &met);
        Joined { color, root: cutting.top, ports: cutting.ports, met, groups }
    }
}

/// Lists the trees of a color that ports meet besides some, and counts their groups.
fn others(
    fabric: &Fabric,
    store: &TreeStore,
    color: u16,
    ports: &[PortId],
    besides: &[TreeIndex],
) -> (Vec<TreeIndex>, usize) {
    let mut others = met(fabric, store, color, ports);
    others.retain(|tree| besides.binary_search(tree).is_err());
    let groups = group_count(store, &others);
    (others, groups)
}

/// Chooses the root and ports that meet the fewest groups besides, the first of them that meets
/// none. Returns them with the trees that they meet, and the number of those groups.
fn fewest_met(
    candidates: impl Iterator<Item = (SwitchId, Vec<PortId>)>,
    others: impl Fn(&[PortId]) -> (Vec<TreeIndex>, usize),
) -> Option<(Candidate, usize)> {
    let mut best: Option<(Candidate, usize)> = None;
    for (root, ports) in candidates {
        let (met, groups) = others(&ports);
        if best.as_ref().is_none_or(|(_, fewest)| groups < *fewest) {
            best = Some(((root, ports, met), groups));
        }
        if groups == 0 {
            break;
        }
    }
    best
}

fn group_count(store: &TreeStore, trees: &[TreeIndex]) -> usize {
    trees.iter().map(|number| store.tree(*number).groups.len()).sum()
}
