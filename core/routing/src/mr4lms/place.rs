//! Gives a new group its tree, by one of two algorithms, or else merges it with other groups.
//!
//! Source: MR4LMS §3.4, algorithm 7. The engine builds first and colors then (see
//! [`min_hop_tree`](super::min_hop_tree)) until that fails; it colors first and builds then (see
//! [`color_search`](super::color_search)) until that has succeeded a number of times in a row.
//!
//! A group that no color is left for is merged (MR4LMS §3.3, algorithm 4): the merged trees are
//! removed, so that their places are free of their color, and one new tree is built for all. The
//! text leaves two things open. Here the temporary tree hangs from the root that algorithm 1 would
//! try first; and where old trees are kept and a single one passes all switches of the new members,
//! it stays as it is, which algorithm 5 would come to as well.

use fabricast_topology::{Mgid, Peer, PortId, SwitchId};
use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};

use crate::group_tree::hang;
use crate::mr4lms::color_search::usable_colors;
use crate::mr4lms::color_tree::SearchTerms;
use crate::mr4lms::member_hops::LiveMembers;
use crate::mr4lms::occupancy::Context;
use crate::mr4lms::tree_index::TreeIndex;
use crate::mr4lms::tree_store::Tree;
use crate::mr4lms::{MergePartner, MergePolicy, Mr4lms, Tools};
use crate::root_choice::RootChoice;

/// Which algorithm the next group is tried with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// First build, then color.
    BuildFirst,
    /// First color, then build.
    ColorFirst {
        /// Successes in a row.
        successes: u32,
    },
}

/// A tree that was found.
enum Found {
    New(u16, SwitchId, Vec<PortId>),
    /// An existing one that has all members.
    Shared(TreeIndex),
}

impl Mr4lms {
    /// Gives a group that has none a tree, unless it has fewer than two members to serve.
    pub(super) fn place(&mut self, mgid: Mgid) {
        let member_ports = self.store.group(mgid).member_ports.clone();
        if member_ports.len() < 2 {
            return self.store.touch(mgid);
        }
        let members = LiveMembers::new(&self.fabric, member_ports);
        self.tools.member_hops.look(&self.fabric, &members.leaves);
        let usable = usable_colors(&self.fabric, &self.store.occupancy, &members);
        let found = match self.turn {
            Turn::BuildFirst => self.build_first(mgid, &members, &usable),
            Turn::ColorFirst { .. } => self.color_first(&members, &usable),
        };
        self.turn = match (self.turn, &found) {
            (Turn::BuildFirst, Some(_)) => Turn::BuildFirst,
            (Turn::ColorFirst { successes }, Some(_)) => {
                let successes = successes + 1;
                if successes >= self.options.successes_in_a_row {
                    Turn::BuildFirst
                } else {
                    Turn::ColorFirst { successes }
                }
            }
            (_, None) => Turn::ColorFirst { successes: 0 },
        };
        match found {
            Some(Found::New(color, root, ports)) => {
                self.add_tree(Tree { color, root, groups: vec![mgid], ports });
            }
            Some(Found::Shared(tree)) => self.share(tree, mgid),
            None => self.merge(mgid, &members),
        }
    }

    /// Builds the tree first, then looks for a color (FBTC, algorithms 1 and 2).
    fn build_first(&mut self, mgid: Mgid, members: &LiveMembers, usable: &[u64]) -> Option<Found> {
        let Self { fabric, store, tools, .. } = self;
        let occupancy = &store.occupancy;
        if usable.iter().all(|colors| *colors == 0) {
            return None; // the members' own domains refuse every color
        }
        let context = Context { fabric, occupancy };
        let mut others = None;
        let mut next = if tools.chooser.is_on() {
            let roots = others.insert(tools.roots_by_policy(context, mgid, members));
            roots.first().copied()
        } else {
            tools.member_hops.root(context)
        };
        let mut at = 0;
        while let Some(root) = next {
            tools.min_hop_trees.build(context, members, Some(&tools.member_hops), root);
            if let Some(color) = tools.min_hop_trees.color(fabric, occupancy, usable) {
                return Some(Found::New(color, root, tools.min_hop_trees.ports.clone()));
            }
            at += 1;
            let others = others.get_or_insert_with(|| tools.member_hops.roots(context));
            next = others.get(at).copied();
        }
        None
    }

    /// Looks for a color first, then builds the tree under it (FCTB, algorithm 3).
    fn color_first(&mut self, members: &LiveMembers, usable: &[u64]) -> Option<Found> {
        let Self { fabric, store, tools, .. } = self;
        let context = Context { fabric, occupancy: &store.occupancy };
        let new = tools.color_search.search(context, members, &tools.member_hops, usable);
        if let Some(tree) = self.shared(members, new.map_or(u16::MAX, |(color, _)| color)) {
            return Some(Found::Shared(tree));
        }
        let Self { fabric, store, tools, .. } = self;
        let context = Context { fabric, occupancy: &store.occupancy };
        let (color, root) = new?;
        let terms = SearchTerms { color, root, member_hops: Some(&tools.member_hops), old: None };
        Some(Found::New(color, root, tools.color_trees.build(context, members, terms)))
    }

    /// Finds the tree of the lowest color, below a given one, that has all members and is low
    /// enough for them.
    fn shared(&mut self, members: &LiveMembers, below: u16) -> Option<TreeIndex> {
        let Self { fabric, store, .. } = &*self;
        let domain = fabric.member_domain(members.member_ports[0]);
        let colors = store.occupancy.owners(domain).iter().take_while(|(color, _)| *color < below);
        let has_all = |tree: &TreeIndex| {
            members.member_ports.iter().all(|member_port| store.tree(*tree).has(*member_port))
        };
        let trees: Vec<TreeIndex> = colors.map(|(_, tree)| *tree).filter(has_all).collect();
        trees.into_iter().find(|tree| self.is_low_enough(*tree, members))
    }

    /// Tells whether some switch of a tree has all members within the height of `member_hops`.
    fn is_low_enough(&mut self, tree: TreeIndex, members: &LiveMembers) -> bool {
        let Self { fabric, store, tools, .. } = self;
        let tree = store.tree(tree);
        // The middle of the longest path between members is nearest to all.
        let mut end = members.leaves[0];
        let mut longest = 0;
        for _ in 0..2 {
            tools.walk.along(fabric, &tree.ports, end);
            let depths = members.leaves.iter().map(|leaf| (tools.walk.depth(*leaf), *leaf));
            let farthest = depths.max().expect("there are members");
            longest = farthest.0.expect("the tree has them");
            end = farthest.1;
        }
        longest.div_ceil(2) <= u32::from(tools.member_hops.height)
    }

    /// Gives a group a tree together with others; `member_hops` must be of this group.
    pub(super) fn merge(&mut self, mgid: Mgid, members: &LiveMembers) {
        let old = FixedBitSet::with_capacity(self.fabric.graph.port_count());
        let mut merged =
            Merged { groups: vec![mgid], member_ports: members.member_ports.clone(), old };
        let color = match self.options.merge_partner {
            MergePartner::Nearest => {
                let nearest = self.tools.distances.nearest(
                    &self.fabric,
                    &self.store,
                    members,
                    &self.tools.member_hops,
                );
                let color = self.store.tree(nearest).color;
                if self.can_stay(nearest, members) {
                    return self.share(nearest, mgid);
                }
                let tree = self.remove_tree(nearest);
                merged.absorb(self, &tree);
                if !self.hangs_together(&tree, members) {
                    for tree in self.in_the_way(&merged.members(self), color) {
                        let tree = self.remove_tree(tree);
                        merged.absorb(self, &tree);
                    }
                }
                color
            }
            MergePartner::RarestColor => {
                let color = self.store.occupancy.rarest_color();
                let trees = self.in_the_way(members, color);
                if let [only] = trees[..]
                    && self.can_stay(only, members)
                {
                    return self.share(only, mgid);
                }
                for tree in trees {
                    let tree = self.remove_tree(tree);
                    merged.absorb(self, &tree);
                }
                color
            }
        };
        self.raise(merged, color);
    }

    /// Tells whether a tree can take a group as it is, if old trees are to be kept.
    fn can_stay(&self, number: TreeIndex, members: &LiveMembers) -> bool {
        let tree = self.store.tree(number);
        let owner = |member_port: &PortId| {
            self.store.occupancy.owner(self.fabric.member_domain(*member_port), tree.color)
        };
        self.options.merge_policy == MergePolicy::Keep
            && members.leaves.iter().all(|leaf| tree.passes(&self.fabric, *leaf))
            && members
                .member_ports
                .iter()
                .all(|member_port| owner(member_port).is_none_or(|owner| owner == number))
    }

    /// Tells whether members are connected with those of a tree, just removed, by what is free of
    /// its color.
    fn hangs_together(&mut self, tree: &Tree, members: &LiveMembers) -> bool {
        let Self { fabric, store, tools, .. } = self;
        let mut domains =
            members.member_ports.iter().map(|member_port| fabric.member_domain(*member_port));
        if !domains.all(|domain| store.occupancy.is_free(domain, tree.color)) {
            return false;
        }
        tools.targets.clear();
        tools.targets.grow(fabric.graph.switch_count());
        tools.targets.extend(fabric.switches(&tree.ports).map(SwitchId::index));
        let color = tree.color;
        let context = Context { fabric, occupancy: &store.occupancy };
        tools.center.connects(context, &members.leaves, color, &mut tools.targets)
    }

    /// Lists the trees that have a color somewhere on the way between some members.
    fn in_the_way(&mut self, members: &LiveMembers, color: u16) -> Vec<TreeIndex> {
        let Self { fabric, store, tools, .. } = self;
        let context = Context { fabric, occupancy: &store.occupancy };
        let root = tools.center.in_fabric(context, &members.leaves);
        tools.min_hop_trees.build(context, members, None, root);
        let domains = fabric.domains(&tools.min_hop_trees.ports);
        let mut trees: Vec<TreeIndex> =
            domains.filter_map(|domain| store.occupancy.owner(domain, color)).collect();
        trees.sort_unstable();
        trees.dedup();
        trees
    }

    fn raise(&mut self, mut merged: Merged, color: u16) {
        let members = merged.members(self);
        let Self { fabric, store, tools, .. } = self;
        let context = Context { fabric, occupancy: &store.occupancy };
        let root = tools.center.in_color(context, &members.leaves, color);
        let old = (self.options.merge_policy == MergePolicy::Keep).then_some(&merged.old);
        let ports = tools.color_trees.build(
            context,
            &members,
            SearchTerms { color, root, member_hops: None, old },
        );
        // A kept tree can leave the root, and what leads to it, without a purpose.
        tools.walk.along(fabric, &ports, root);
        let cutting = tools.walk.cut(fabric, &members.member_ports);
        merged.groups.sort_unstable();
        let (root, ports) = (cutting.top, cutting.ports);
        self.add_tree(Tree { color, root, groups: merged.groups, ports });
    }
}

impl Tools {
    /// Lists the candidate roots of `member_hops`: the one that the policy chooses, then the
    /// others, best first.
    fn roots_by_policy(
        &mut self,
        context: Context<'_>,
        mgid: Mgid,
        members: &LiveMembers,
    ) -> Vec<SwitchId> {
        let Self { chooser, member_hops, min_hop_trees, .. } = self;
        let graph = &context.fabric.graph;
        let mut roots = member_hops.roots(context);
        if roots.is_empty() {
            return roots;
        }
        let choice = RootChoice { graph, mgid, roots: &roots, source: members.leaves[0] };
        let at = chooser.choose(choice, |at| {
            min_hop_trees.build(context, members, Some(member_hops), roots[at]);
            hang(graph, roots[at], &min_hop_trees.ports).into_values().flatten().collect()
        });
        roots[..=at].rotate_right(1);
        roots
    }
}

/// A virtual group in the making.
struct Merged {
    groups: Vec<Mgid>,
    member_ports: Vec<PortId>,
    /// Ports of old trees.
    old: FixedBitSet,
}

impl Merged {
    fn absorb(&mut self, engine: &Mr4lms, tree: &Tree) {
        self.groups.extend(&tree.groups);
        for port in &tree.ports {
            match engine.fabric.graph.peer(*port) {
                Peer::Endpoint(_) => self.member_ports.push(*port),
                Peer::Switch(_) => self.old.insert(port.index()),
                Peer::None => {}
            }
        }
    }

    fn members(&mut self, engine: &Mr4lms) -> LiveMembers {
        self.member_ports.sort_unstable();
        self.member_ports.dedup();
        LiveMembers::new(&engine.fabric, self.member_ports.clone())
    }
}
