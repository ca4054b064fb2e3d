//! Gives a new group its tree, by one of two algorithms, or else merges it with other groups.
//!
//! Source: MR4LMS §3.4, algorithm 7. The engine builds first and colors then (see
//! [`light_tree`](super::light_tree)) until that fails; it colors first and builds then (see
//! [`color_search`](super::color_search)) until that has succeeded a number of times in a row. A
//! group that no color is left for is merged.
//!
//! The paper builds from the lightest root, and from another one only if no color is free. Here
//! trees are built from the first roots until one takes a color that is in use and raises no
//! largest EFI; else the best of them is taken. Where ways of least hops are many, or a root policy
//! chooses, there is one root. When all fail, the color is looked for first at once: that search
//! knows all roots.
//!
//! By default a group is merged with the trees in the way of a tree of its own, see
//! [`obstacles`](super::obstacles). Otherwise the source is MR4LMS §3.3, algorithm 4: the merged
//! trees are removed, so that their places are free of their color, and one new tree is built for
//! all. The text leaves two things open. Here the temporary tree hangs from the root that algorithm
//! 1 would try first; and where old trees are kept and a single one passes all switches of the new
//! members, it stays as it is, which algorithm 5 would come to as well.

use fabricast_topology::{Mgid, Peer, PortId, SwitchId, TableKind};
use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};

use crate::group_tree::{GroupTree, hang};
use crate::mr4lms::color_search::usable_colors;
use crate::mr4lms::color_tree::SearchTerms;
use crate::mr4lms::light_tree::{LightTreeTerms, MANY_LINKS};
use crate::mr4lms::member_hops::LiveMembers;
use crate::mr4lms::obstacles::{Draft, Sets, largest, met, new_ports};
use crate::mr4lms::occupancy::Context;
use crate::mr4lms::ordered_merge::{Joined, OrderedMerge};
use crate::mr4lms::tree_index::TreeIndex;
use crate::mr4lms::tree_store::Tree;
use crate::mr4lms::{MergePartner, MergePolicy, Mr4lms, Tools};
use crate::root_choice::RootChoice;

/// Algorithm that the next group is tried with.
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

/// Roots from which a tree is built, at most.
pub(super) const ROOTS: usize = 4;

/// Quality of a tree, smaller is better: its color, the largest EFI of its links, and their sum.
type Value = (u16, u32, u64);

/// A tree that was found.
enum Found {
    New(u16, SwitchId, Vec<PortId>),
    /// An existing one that has all members.
    Shared(TreeIndex),
}

impl Mr4lms {
    /// Gives a group that has none a tree, unless it has fewer than two members to serve.
    pub(super) fn place(&mut self, mgid: Mgid) {
        self.place_at_home(mgid);
        if self.store.group(mgid).tree.is_some() {
            return;
        }
        self.store.unrouted.remove(&mgid);
        let member_ports = self.store.group(mgid).member_ports.clone();
        if member_ports.len() < 2 {
            return self.store.touch(mgid);
        }
        let members = LiveMembers::new(&self.fabric, member_ports);
        self.tools.member_hops.look(&self.fabric, &members.leaves);
        let usable = usable_colors(&self.fabric, &self.store.occupancy, &members);
        let found = match self.turn {
            Turn::BuildFirst => self.build_first(mgid, &members, &usable),
            Turn::ColorFirst { .. } => None,
        };
        let is_built = found.is_some();
        let found = found.or_else(|| self.color_first(&members, &usable));
        self.turn = match (self.turn, &found) {
            (Turn::BuildFirst, Some(_)) if is_built => Turn::BuildFirst,
            (Turn::BuildFirst, _) => Turn::ColorFirst { successes: 0 },
            (Turn::ColorFirst { successes }, Some(_)) => {
                let successes = successes + 1;
                if successes >= self.options.successes_in_a_row {
                    Turn::BuildFirst
                } else {
                    Turn::ColorFirst { successes }
                }
            }
            (Turn::ColorFirst { .. }, None) => Turn::ColorFirst { successes: 0 },
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
        let by_policy = tools.chooser.is_on();
        let roots = if by_policy {
            tools.roots_by_policy(context, mgid, members)
        } else {
            tools.member_hops.first_roots(context, ROOTS)
        };
        let (trees, mut ways) = (&mut tools.light_trees, 0);
        let mut best: Option<(Value, SwitchId, Vec<PortId>)> = None;
        for root in roots {
            trees.build(context, members, LightTreeTerms::new(root, &tools.member_hops));
            ways += trees.ways;
            if let Some(color) = trees.color(fabric, occupancy, usable) {
                let value = (color, trees.max_efi, trees.weight);
                if best.as_ref().is_none_or(|(least, ..)| value < *least) {
                    best = Some((value, root, trees.ports.clone()));
                }
                let is_good =
                    trees.max_efi <= occupancy.loads.max_efi() && color < occupancy.colors_in_use();
                if by_policy || is_good {
                    break;
                }
            }
            if !by_policy && ways > MANY_LINKS {
                break;
            }
        }
        best.map(|((color, ..), root, ports)| Found::New(color, root, ports))
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
        let member_hops = Some(&tools.member_hops);
        let terms = SearchTerms { color, root, member_hops, old: None, climbs: false };
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
}

/// Trees at home.
impl Mr4lms {
    /// Gives a group without a tree the one it has at home, if there are homes and no link of it is
    /// dead or taken. A group whose tree is part of that one grows there likewise.
    pub(super) fn place_at_home(&mut self, mgid: Mgid) {
        let Some(home) = self.home_tree(mgid) else { return };
        let before = self.store.group(mgid).tree.map(|number| self.remove_tree(number));
        if self.is_open(&home) {
            self.add_tree(home);
        } else if let Some(before) = before {
            self.add_tree(before);
        }
    }

    /// Returns the tree of a group at home, unless it has another tree or no need of more links.
    fn home_tree(&self, mgid: Mgid) -> Option<Tree> {
        let homes = self.homes.as_deref()?;
        let group = self.store.groups.get(&mgid).filter(|group| group.member_ports.len() >= 2)?;
        let tree = group.tree.map(|number| self.store.tree(number));
        let is_served = |tree: &Tree| group.member_ports.iter().all(|port| tree.has(*port));
        if tree.is_some_and(is_served) {
            return None;
        }
        let (color, GroupTree { root, links, member_ports, .. }) =
            homes.tree(mgid, &group.member_ports)?;
        let links = links.into_iter().flat_map(|(a, b)| [a, b]);
        let mut ports: Vec<PortId> = links.chain(member_ports).collect();
        ports.sort_unstable();
        let home = Tree { color, root, groups: vec![mgid], ports };
        let is_part = |tree: &Tree| {
            tree.color == color
                && tree.groups == home.groups
                && tree.ports.iter().all(|port| home.has(*port))
        };
        tree.is_none_or(is_part).then_some(home)
    }

    /// Tells whether the links of a tree are live and free of its color.
    fn is_open(&self, tree: &Tree) -> bool {
        let Self { fabric, store, .. } = self;
        tree.ports.iter().all(|port| fabric.is_live(*port))
            && fabric.domains(&tree.ports).all(|at| store.occupancy.is_free(at, tree.color))
            && fabric.keeps_order(&tree.ports)
    }
}

impl Mr4lms {
    /// Gives a group a tree together with others; `member_hops` must be of this group.
    pub(super) fn merge(&mut self, mgid: Mgid, members: &LiveMembers) {
        if self.fabric.is_ordered() {
            return self.merge_in_order(mgid, members);
        }
        let mut merged = Merged::new(self, mgid, members);
        let color = match self.options.merge_partner {
            MergePartner::FewestGroups => return self.merge_with_fewest(mgid, members),
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
                return self.merge_all(mgid, members, &trees, color);
            }
        };
        self.raise(merged, color);
    }

    /// Gives a group a tree that keeps to the order together with others, or none if there is none.
    fn merge_in_order(&mut self, mgid: Mgid, members: &LiveMembers) {
        let Self { fabric, store, tools, options, .. } = self;
        let found = OrderedMerge { fabric, store, options: *options, tools }.find(members);
        let Some(Joined { color, root, ports, met, .. }) = found else {
            self.store.unrouted.insert(mgid);
            return self.store.touch(mgid);
        };
        let mut groups = vec![mgid];
        for number in met {
            groups.extend(self.remove_tree(number).groups);
        }
        groups.sort_unstable();
        self.add_tree(Tree { color, root, groups, ports });
    }

    /// Makes one tree for a group and those of some trees.
    pub(super) fn merge_all(
        &mut self,
        mgid: Mgid,
        members: &LiveMembers,
        trees: &[TreeIndex],
        color: u16,
    ) {
        let mut merged = Merged::new(self, mgid, members);
        for tree in trees {
            let tree = self.remove_tree(*tree);
            merged.absorb(self, &tree);
        }
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
        let terms = LightTreeTerms { root, member_hops: None, old: None, within: None };
        tools.light_trees.build(context, members, terms);
        let domains = fabric.domains(&tools.light_trees.ports);
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
            SearchTerms { color, root, member_hops: None, old, climbs: false },
        );
        // A kept tree can leave the root, and what leads to it, without a purpose.
        tools.walk.along(fabric, &ports, root);
        let cutting = tools.walk.cut(fabric, &members.member_ports);
        merged.groups.sort_unstable();
        let (root, ports) = (cutting.top, cutting.ports);
        self.add_tree(Tree { color, root, groups: merged.groups, ports });
    }
}

/// Merging where the fewest groups are in the way.
impl Mr4lms {
    /// Gives a group a tree together with the fewest others; `member_hops` must be of this group.
    pub(super) fn merge_with_fewest(&mut self, mgid: Mgid, members: &LiveMembers) {
        let draft = self.draft(members);
        if self.options.merge_policy == MergePolicy::Rebuild {
            return self.merge_all(mgid, members, &draft.met, draft.color);
        }
        match self.fabric.tables {
            TableKind::PerSwitch => self.join_by_switch(mgid, draft),
            TableKind::PerPort => self.join_by_port(mgid, draft),
        }
    }

    fn draft(&mut self, members: &LiveMembers) -> Draft {
        let Self { fabric, store, tools, options, .. } = self;
        let context = Context { fabric, occupancy: &store.occupancy };
        let (trees, mut ways) = (&mut tools.light_trees, 0);
        let mut best: Option<((usize, u16), SwitchId, Vec<PortId>)> = None;
        for root in tools.member_hops.first_of_all(context, ROOTS) {
            trees.build(context, members, LightTreeTerms::new(root, &tools.member_hops));
            let found = tools.obstacles.fewest(fabric, store, options.colors, &trees.ports);
            if best.as_ref().is_none_or(|((groups, _), ..)| found.0 < *groups) {
                best = Some((found, root, trees.ports.clone()));
            }
            ways += trees.ways;
            if ways > MANY_LINKS {
                break;
            }
        }
        let ((_, color), root, ports) = best.expect("the members are connected");
        let met = met(fabric, store, color, &ports);
        let draft = Draft { color, root, ports, base: largest(store, &met), met };
        self.extend_base(members, draft)
    }

    /// Lets the largest tree that a draft meets reach the members from its own root, if that is as
    /// near to them as others and no more groups are in the way.
    fn extend_base(&mut self, members: &LiveMembers, draft: Draft) -> Draft {
        let Self { fabric, store, tools, .. } = self;
        let context = Context { fabric, occupancy: &store.occupancy };
        let Some(base) = draft.base else { return draft };
        let tree = store.tree(base);
        if tools.member_hops.far[tree.root.index()] > tools.member_hops.height {
            return draft;
        }
        let passes = |switch: SwitchId| match fabric.tables {
            TableKind::PerSwitch => {
                store.occupancy.owner(switch.index(), draft.color) == Some(base)
            }
            TableKind::PerPort => tree.passes(fabric, switch),
        };
        let terms = LightTreeTerms {
            old: Some(&passes),
            ..LightTreeTerms::new(tree.root, &tools.member_hops)
        };
        tools.light_trees.build(context, members, terms);
        let ports = &tools.light_trees.ports;
        let mut trees = met(fabric, store, draft.color, ports);
        if let Err(at) = trees.binary_search(&base) {
            trees.insert(at, base);
        }
        let groups = |trees: &[TreeIndex]| -> usize {
            trees.iter().map(|number| store.tree(*number).groups.len()).sum()
        };
        if groups(&trees) > groups(&draft.met) {
            return draft;
        }
        Draft { root: tree.root, ports: ports.clone(), met: trees, ..draft }
    }

    /// Lets the largest tree that a new one meets grow by the others and what is new.
    fn join_by_switch(&mut self, mgid: Mgid, draft: Draft) {
        let Draft { color, root, ports, met, base } = draft;
        let Self { fabric, store, .. } = &*self;
        let Some(base) = base else {
            return self.add_tree(Tree { color, root, groups: vec![mgid], ports });
        };
        let mut new = new_ports(fabric, store, color, &met, &ports);
        let mut groups = vec![mgid];
        for other in met.into_iter().filter(|other| *other != base) {
            let tree = self.remove_tree(other);
            new.extend(tree.ports);
            groups.extend(tree.groups);
        }
        new.retain(|port| !self.store.tree(base).has(*port));
        new.sort_unstable();
        new.dedup();
        groups.sort_unstable();
        self.store.grow(&self.fabric, base, &new, &groups);
        self.tools.distances.forget(base);
    }

    /// Puts a new tree and those it meets together to one.
    fn join_by_port(&mut self, mgid: Mgid, draft: Draft) {
        let Draft { color, root, ports, met, .. } = draft;
        let (mut groups, mut old) = (vec![mgid], Vec::new());
        for number in met {
            let tree = self.remove_tree(number);
            groups.extend(tree.groups);
            old.extend(tree.ports);
        }
        groups.sort_unstable();
        old.sort_unstable();
        let Self { fabric, tools, .. } = self;
        let mut sets = Sets::new(fabric.graph.switch_count());
        let mut kept = Vec::with_capacity(old.len() + ports.len());
        let ends = |(a, b)| (fabric.graph.switch_of(a).index(), fabric.graph.switch_of(b).index());
        for link in fabric.tree_links(&old).chain(fabric.tree_links(&ports)) {
            let (a, b) = ends(link);
            if sets.unite(a, b) {
                kept.extend([link.0, link.1]);
            }
        }
        let is_member_port =
            |port: &&PortId| matches!(fabric.graph.peer(**port), Peer::Endpoint(_));
        let mut member_ports: Vec<PortId> =
            old.iter().chain(&ports).filter(is_member_port).copied().collect();
        member_ports.sort_unstable();
        member_ports.dedup();
        kept.extend(&member_ports);
        kept.sort_unstable();
        tools.walk.along(fabric, &kept, root);
        let cutting = tools.walk.cut(fabric, &member_ports);
        self.add_tree(Tree { color, root: cutting.top, groups, ports: cutting.ports });
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
        let Self { chooser, member_hops, light_trees, .. } = self;
        let graph = &context.fabric.graph;
        let mut roots = member_hops.roots(context);
        if roots.is_empty() {
            return roots;
        }
        let choice = RootChoice { graph, mgid, roots: &roots, source: members.leaves[0] };
        let at = chooser.choose(choice, |at| {
            light_trees.build(context, members, LightTreeTerms::new(roots[at], member_hops));
            hang(graph, roots[at], &light_trees.ports).into_values().flatten().collect()
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
    fn new(engine: &Mr4lms, mgid: Mgid, members: &LiveMembers) -> Self {
        Self {
            groups: vec![mgid],
            member_ports: members.member_ports.clone(),
            old: FixedBitSet::with_capacity(engine.fabric.graph.port_count()),
        }
    }

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
