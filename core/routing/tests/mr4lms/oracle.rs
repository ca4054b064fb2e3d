//! The algorithms of the paper a second time, one color and one root after the other, without any
//! regard to speed: new groups on a fabric whose faults do not change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabricast_routing::{MergePartner, MergePolicy, Mr4lmsOptions};
use fabricast_topology::{EndpointId, Faults, Graph, Peer, PortId, SwitchId, TableKind};

/// A tree with the groups that use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OracleTree {
    pub(crate) color: u16,
    pub(crate) root: SwitchId,
    pub(crate) groups: BTreeSet<u32>,
    pub(crate) ports: BTreeSet<PortId>,
}

pub(crate) struct Oracle<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) faults: &'a Faults,
    pub(crate) options: Mr4lmsOptions,
    pub(crate) trees: Vec<OracleTree>,
    /// Successes in a row while colors come first.
    pub(crate) color_first: Option<u32>,
    /// Events so far.
    pub(crate) seen: BTreeSet<&'static str>,
}

/// Roots that trees are built from.
const ROOTS: usize = 4;

type Ports = BTreeSet<PortId>;
/// By switch: hops, load, the port by which the way comes in, whether that is settled.
type Ways = BTreeMap<SwitchId, (u32, u64, PortId, bool)>;

impl<'a> Oracle<'a> {
    pub(crate) fn new(graph: &'a Graph, faults: &'a Faults, options: Mr4lmsOptions) -> Self {
        let (trees, color_first, seen) = (Vec::new(), None, BTreeSet::new());
        Self { graph, faults, options, trees, color_first, seen }
    }

    fn links(&self, at: SwitchId) -> Vec<(PortId, PortId, SwitchId)> {
        let link = |port: PortId| match self.graph.peer(port) {
            Peer::Switch(peer) if self.faults.port_is_live(self.graph, port) => {
                let to = self.graph.switch_of(peer);
                (to != at).then_some((port, peer, to))
            }
            Peer::Switch(_) | Peer::Endpoint(_) | Peer::None => None,
        };
        self.graph.ports(at).filter_map(link).collect()
    }

    fn domain(&self, port: PortId, peer: PortId) -> u32 {
        match self.options.tables {
            TableKind::PerSwitch => self.graph.switch_of(peer).0,
            TableKind::PerPort => port.min(peer).0,
        }
    }

    fn domains(&self, ports: &Ports) -> BTreeSet<u32> {
        let domain = |port: &PortId| match (self.options.tables, self.graph.peer(*port)) {
            (TableKind::PerSwitch, _) => self.graph.switch_of(*port).0,
            (TableKind::PerPort, Peer::Switch(peer)) => peer.min(*port).0,
            (TableKind::PerPort, Peer::Endpoint(_) | Peer::None) => port.0,
        };
        ports.iter().map(domain).collect()
    }

    fn is_free(&self, domain: u32, color: u16) -> bool {
        let has =
            |tree: &OracleTree| tree.color == color && self.domains(&tree.ports).contains(&domain);
        !self.trees.iter().any(has)
    }

    /// Tells whether a switch can be a root under a color, as far as its own table goes.
    fn may_root(&self, root: SwitchId, color: u16) -> bool {
        self.options.tables == TableKind::PerPort || self.is_free(root.0, color)
    }

    fn efi(&self, port: PortId) -> u64 {
        let users = self.trees.iter().filter(|tree| tree.ports.contains(&port));
        users.map(|tree| tree.groups.len() as u64).sum()
    }

    fn load(&self, switch: SwitchId) -> usize {
        let passes = |tree: &&OracleTree| self.switches(&tree.ports).contains(&switch);
        self.trees.iter().filter(passes).map(|tree| tree.groups.len()).sum()
    }

    fn preference(&self, switch: SwitchId) -> (usize, u32, SwitchId) {
        (self.load(switch), switch.0.wrapping_mul(2_654_435_769), switch)
    }

    fn switches(&self, ports: &Ports) -> BTreeSet<SwitchId> {
        ports.iter().map(|port| self.graph.switch_of(*port)).collect()
    }

    fn slots(&self, ports: &Ports) -> Ports {
        let is_member_port = |port: &&PortId| matches!(self.graph.peer(**port), Peer::Endpoint(_));
        ports.iter().filter(is_member_port).copied().collect()
    }

    /// Hops over links that may be used.
    fn hops(
        &self,
        from: SwitchId,
        may: impl Fn(PortId, PortId) -> bool,
    ) -> BTreeMap<SwitchId, u32> {
        let mut hops = BTreeMap::from([(from, 0)]);
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for (port, peer, to) in self.links(at) {
                if may(port, peer) && !hops.contains_key(&to) {
                    hops.insert(to, hops[&at] + 1);
                    queue.push_back(to);
                }
            }
        }
        hops
    }

    fn hops_in_color(&self, from: SwitchId, color: u16) -> BTreeMap<SwitchId, u32> {
        self.hops(from, |port, peer| self.is_free(self.domain(port, peer), color))
    }

    fn far(hops: &BTreeMap<SwitchId, u32>, leaves: &BTreeSet<SwitchId>) -> Option<u32> {
        leaves
            .iter()
            .map(|leaf| hops.get(leaf).copied())
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .max()
    }

    /// The height of the lowest tree, and the candidate roots, best first.
    fn roots(&self, leaves: &BTreeSet<SwitchId>) -> (u32, Vec<SwitchId>) {
        let far = |root: SwitchId| Self::far(&self.hops(root, |_, _| true), leaves);
        let all: Vec<_> =
            self.graph.switches().filter_map(|root| Some((far(root)?, root))).collect();
        let height = all.iter().map(|(far, _)| *far).min().expect("the members are connected");
        let mut roots: Vec<_> =
            all.into_iter().filter(|(far, _)| *far == height).map(|(_, root)| root).collect();
        roots.sort_by_key(|root| self.preference(*root));
        (height, roots)
    }

    /// The weight of the lightest way of least hops from a switch to a tree.
    fn weight(
        &self,
        at: SwitchId,
        to_root: &BTreeMap<SwitchId, u32>,
        tree: &BTreeSet<SwitchId>,
    ) -> u64 {
        if tree.contains(&at) {
            return 0;
        }
        let ways = self.nearer(at, to_root).map(|link| self.way(link, to_root, tree));
        ways.min().expect("one is nearer")
    }

    fn way(
        &self,
        (port, _, to): (PortId, PortId, SwitchId),
        to_root: &BTreeMap<SwitchId, u32>,
        tree: &BTreeSet<SwitchId>,
    ) -> u64 {
        self.efi(port) + 1 + self.weight(to, to_root, tree)
    }

    fn nearer(
        &self,
        at: SwitchId,
        to_root: &BTreeMap<SwitchId, u32>,
    ) -> impl Iterator<Item = (PortId, PortId, SwitchId)> {
        let links = self.links(at).into_iter();
        links.filter(move |link| to_root[&link.2] + 1 == to_root[&at])
    }

    /// Algorithm 2, by the lightest ways; what is there of a tree is extended. Returns the largest
    /// EFI and the weight of its new links, too.
    fn climb(&self, slots: &Ports, root: SwitchId, old: &Ports) -> (Ports, u64, u64) {
        let to_root = self.hops(root, |_, _| true);
        let (mut ports, mut most, mut sum) = (slots.clone(), 0, 0);
        let mut tree = self.switches(old);
        tree.insert(root);
        for leaf in self.switches(slots) {
            let (mut at, mut path) = (leaf, Vec::new());
            while !tree.contains(&at) {
                let lightest =
                    self.nearer(at, &to_root).min_by_key(|link| self.way(*link, &to_root, &tree));
                let (port, peer, to) = lightest.expect("one is nearer");
                ports.extend([port, peer]);
                most = most.max(self.efi(port) + 1);
                sum += self.efi(port) + 1;
                path.push(at);
                at = to;
            }
            tree.extend(path);
        }
        (ports, most, sum)
    }

    fn is_full(&self, root: SwitchId) -> bool {
        (0..self.options.colors).all(|color| !self.may_root(root, color))
    }

    /// Algorithm 1, for the first roots.
    fn build_first(&mut self, mgid: u32, slots: &Ports) -> bool {
        let links = self.trees.iter().flat_map(|tree| &tree.ports);
        let links = links.filter(|port| matches!(self.graph.peer(**port), Peer::Switch(_)));
        let max_efi = links.map(|port| self.efi(*port)).max().unwrap_or(0);
        let in_use = self.trees.iter().map(|tree| tree.color + 1).max().unwrap_or(0);
        let roots = self.roots(&self.switches(slots)).1.into_iter();
        let mut found = Vec::new();
        for root in roots.filter(|root| !self.is_full(*root)).take(ROOTS) {
            let (ports, most, sum) = self.climb(slots, root, &Ports::new());
            let domains = self.domains(&ports);
            let is_free = |color: &u16| domains.iter().all(|domain| self.is_free(*domain, *color));
            let Some(color) = (0..self.options.colors).find(is_free) else { continue };
            found.push(((color, most, sum), root, ports));
            if most <= max_efi && color < in_use {
                break;
            }
        }
        let Some(((color, ..), root, ports)) = found.into_iter().min_by_key(|one| one.0) else {
            return false;
        };
        self.trees.push(OracleTree { color, root, groups: BTreeSet::from([mgid]), ports });
        true
    }

    /// Algorithm 3.
    fn color_first(&mut self, mgid: u32, slots: &Ports) -> bool {
        let leaves = self.switches(slots);
        let (height, roots) = self.roots(&leaves);
        for color in 0..self.options.colors {
            let has_all = |tree: &OracleTree| tree.color == color && slots.is_subset(&tree.ports);
            if let Some(at) = self.trees.iter().position(has_all) {
                let ports = self.trees[at].ports.clone();
                let in_tree = |root| self.hops(root, |port, _| ports.contains(&port));
                let is_low = |root: SwitchId| {
                    Self::far(&in_tree(root), &leaves).is_some_and(|far| far <= height)
                };
                if self.switches(&ports).into_iter().any(is_low) {
                    self.seen.insert("an old tree shared");
                    self.trees[at].groups.insert(mgid);
                    return true;
                }
            }
            if !self.domains(slots).iter().all(|domain| self.is_free(*domain, color)) {
                continue;
            }
            for root in roots.iter().filter(|root| self.may_root(**root, color)) {
                let far = Self::far(&self.hops_in_color(*root, color), &leaves);
                if far.is_some_and(|far| far <= height) {
                    self.seen.insert("a color found first");
                    let ports = self.build_tree(slots, *root, color, &Ports::new());
                    let groups = BTreeSet::from([mgid]);
                    self.trees.push(OracleTree { color, root: *root, groups, ports });
                    return true;
                }
            }
        }
        false
    }

    /// Algorithm 5, with `old` the ports of trees to be kept.
    fn build_tree(&self, slots: &Ports, root: SwitchId, color: u16, old: &Ports) -> Ports {
        let mut ways: Ways = BTreeMap::from([(root, (0, 0, PortId(0), false))]);
        loop {
            let open = ways.iter().filter(|(_, way)| !way.3);
            let Some((_, _, next)) = open.map(|(at, way)| (way.0, way.1, *at)).min() else { break };
            let mut queue = VecDeque::from([next]);
            while let Some(at) = queue.pop_front() {
                let way = ways.get_mut(&at).expect("it is reached");
                way.3 = true;
                let (hops, load, ..) = *way;
                for (port, peer, to) in self.links(at) {
                    let cost = (hops + 1, load + self.efi(port), peer);
                    let settled = ways.get(&to).is_some_and(|way| way.3);
                    if old.contains(&port) && !settled {
                        ways.insert(to, (cost.0, cost.1, cost.2, true));
                        queue.push_back(to);
                    }
                }
                for (port, peer, to) in self.links(at) {
                    let cost = (hops + 1, load + self.efi(port), peer);
                    let better =
                        ways.get(&to).is_none_or(|way| !way.3 && cost < (way.0, way.1, way.2));
                    if better && self.is_free(self.domain(port, peer), color) {
                        ways.insert(to, (cost.0, cost.1, cost.2, false));
                    }
                }
            }
        }
        let mut ports = slots.clone();
        for leaf in self.switches(slots) {
            let mut at = leaf;
            while at != root {
                let port = ways[&at].2;
                let Peer::Switch(up) = self.graph.peer(port) else { unreachable!() };
                ports.extend([port, up]);
                at = self.graph.switch_of(up);
            }
        }
        ports
    }

    /// Equation (1), for all trees.
    fn nearest(&self, slots: &Ports) -> usize {
        let all: BTreeMap<SwitchId, BTreeMap<SwitchId, u32>> =
            self.graph.switches().map(|at| (at, self.hops(at, |_, _| true))).collect();
        let to_nearest = |from: &Ports, to: &Ports| -> u64 {
            let hops = |port: &PortId| {
                let nearest = to.iter().map(|other| {
                    all[&self.graph.switch_of(*port)]
                        .get(&self.graph.switch_of(*other))
                        .copied()
                        .unwrap_or(255)
                });
                u64::from(nearest.min().expect("there are members"))
            };
            from.iter().map(hops).sum()
        };
        let distance = |tree: &OracleTree| {
            let members = self.slots(&tree.ports);
            let sum = to_nearest(slots, &members) + to_nearest(&members, slots);
            (sum, (slots.len() + members.len()) as u64)
        };
        let order = |a: &OracleTree, b: &OracleTree| {
            let ((sum_a, of_a), (sum_b, of_b)) = (distance(a), distance(b));
            let names = (a.color, &a.groups).cmp(&(b.color, &b.groups));
            (sum_a * of_b).cmp(&(sum_b * of_a)).then(names)
        };
        let at = (0..self.trees.len()).min_by(|a, b| order(&self.trees[*a], &self.trees[*b]));
        at.expect("there is a tree to merge with")
    }

    /// Algorithm 4.
    fn merge(&mut self, mgid: u32, slots: &Ports) {
        if self.options.merge_partner == MergePartner::FewestGroups {
            return self.merge_with_fewest(mgid, slots);
        }
        let groups = BTreeSet::from([mgid]);
        let mut merged = OracleTree { color: 0, root: SwitchId(0), groups, ports: slots.clone() };
        let mut old = Ports::new();
        let mut absorb = |merged: &mut OracleTree, tree: OracleTree, graph: &Graph| {
            merged.groups.extend(tree.groups);
            for port in tree.ports {
                match graph.peer(port) {
                    Peer::Endpoint(_) => merged.ports.insert(port),
                    Peer::Switch(_) | Peer::None => old.insert(port),
                };
            }
        };
        let mut hangs_together = false;
        match self.options.merge_partner {
            MergePartner::FewestGroups => unreachable!("see above"),
            MergePartner::Nearest => {
                let tree = self.trees.remove(self.nearest(slots));
                merged.color = tree.color;
                absorb(&mut merged, tree, self.graph);
                let leaves = self.switches(&merged.ports);
                let domains = self.domains(&merged.ports);
                let hops =
                    self.hops_in_color(*leaves.first().expect("there are members"), merged.color);
                hangs_together = domains.iter().all(|at| self.is_free(*at, merged.color))
                    && Self::far(&hops, &leaves).is_some();
            }
            MergePartner::RarestColor => {
                let groups = |color: &u16| -> usize {
                    let trees = self.trees.iter().filter(|tree| tree.color == *color);
                    trees.map(|tree| tree.groups.len()).sum()
                };
                merged.color =
                    (0..self.options.colors).min_by_key(groups).expect("there is a color");
            }
        }
        self.seen.insert(if hangs_together {
            "merged with the nearest"
        } else {
            "merged with what is in the way"
        });
        if !hangs_together {
            let root = self.roots(&self.switches(&merged.ports)).1[0];
            let (ports, ..) = self.climb(&merged.ports, root, &Ports::new());
            let way = self.domains(&ports);
            let (trees, others): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.trees).into_iter().partition(|tree| {
                    tree.color == merged.color && !way.is_disjoint(&self.domains(&tree.ports))
                });
            self.trees = others;
            if trees.len() > 1 {
                self.seen.insert("merged with several");
            }
            trees.into_iter().for_each(|tree| absorb(&mut merged, tree, self.graph));
        }
        self.raise(merged, old);
    }

    fn raise(&mut self, mut merged: OracleTree, old: Ports) {
        let leaves = self.switches(&merged.ports);
        let far = |root: &SwitchId| Self::far(&self.hops_in_color(*root, merged.color), &leaves);
        let roots = self.graph.switches().filter(|root| self.may_root(*root, merged.color));
        let root = roots
            .filter_map(|root| Some((far(&root)?, self.preference(root))))
            .min()
            .expect("what was merged is connected")
            .1
            .2;
        let keep = self.options.merge_policy == MergePolicy::Keep;
        let old = if keep { old } else { Ports::new() };
        let ports = self.build_tree(&merged.ports, root, merged.color, &old);
        (merged.root, merged.ports) = self.prune(ports, root);
        self.trees.push(merged);
    }

    /// Cuts off what ends in a switch without members, and returns what is left with the switch of
    /// it that was nearest to the root.
    fn prune(&self, ports: Ports, root: SwitchId) -> (SwitchId, Ports) {
        let depths = self.hops(root, |port, _| ports.contains(&port));
        let mut left = ports;
        loop {
            let ends = left.iter().find(|port| {
                let at = self.graph.switch_of(**port);
                let own = left.iter().filter(|other| self.graph.switch_of(**other) == at);
                matches!(self.graph.peer(**port), Peer::Switch(_)) && own.count() == 1
            });
            let Some(end) = ends.copied() else { break };
            let Peer::Switch(peer) = self.graph.peer(end) else { unreachable!() };
            left.remove(&end);
            left.remove(&peer);
        }
        let top = self.switches(&left).into_iter().min_by_key(|at| depths[at]);
        (top.expect("there are members"), left)
    }

    /// The trees of a color that meet a tree, by place.
    fn met(&self, ports: &Ports, color: u16) -> BTreeSet<usize> {
        let domains = self.domains(ports);
        let meets = |at: &usize| {
            let tree = &self.trees[*at];
            tree.color == color && !domains.is_disjoint(&self.domains(&tree.ports))
        };
        (0..self.trees.len()).filter(meets).collect()
    }

    fn groups(&self, trees: &BTreeSet<usize>) -> usize {
        trees.iter().map(|at| self.trees[*at].groups.len()).sum()
    }

    /// Algorithm 4 with another choice of what is merged.
    fn merge_with_fewest(&mut self, mgid: u32, slots: &Ports) {
        let (height, roots) = self.roots(&self.switches(slots));
        let drafts = roots.into_iter().take(ROOTS).map(|root| {
            let ports = self.climb(slots, root, &Ports::new()).0;
            let counts = (0..self.options.colors)
                .map(|color| (self.groups(&self.met(&ports, color)), color));
            let (count, color) = counts.min().expect("there is a color");
            (count, color, root, ports)
        });
        let best = drafts.min_by_key(|(count, ..)| *count).expect("the members are connected");
        let (count, color, mut root, mut ports) = best;
        let mut met = self.met(&ports, color);
        let base = met.iter().copied().min_by_key(|at| {
            let tree = &self.trees[*at];
            (std::cmp::Reverse(tree.ports.len()), tree.groups.first().copied())
        });
        if let Some(base) = base {
            let OracleTree { root: own, ports: old, .. } = &self.trees[base];
            let leaves = self.switches(slots);
            if Self::far(&self.hops(*own, |_, _| true), &leaves) == Some(height) {
                let extended = self.climb(slots, *own, old).0;
                let mut others = self.met(&extended, color);
                others.insert(base);
                if self.groups(&others) <= count {
                    self.seen.insert("merged from the root of an old tree");
                    (root, ports, met) = (*own, extended, others);
                }
            }
        }
        if met.len() > 1 {
            self.seen.insert("merged with several that have the fewest groups");
        }
        let base_root = base.map(|at| self.trees[at].root);
        let trees: Vec<OracleTree> = met.iter().rev().map(|at| self.trees.remove(*at)).collect();
        self.join(
            OracleTree { color, root, groups: BTreeSet::from([mgid]), ports },
            trees,
            base_root,
        );
    }

    /// Puts a new tree and old ones together.
    fn join(&mut self, new: OracleTree, trees: Vec<OracleTree>, base_root: Option<SwitchId>) {
        let mut groups = new.groups.clone();
        let mut old = Ports::new();
        for tree in trees {
            groups.extend(tree.groups);
            old.extend(tree.ports);
        }
        if self.options.merge_policy == MergePolicy::Rebuild {
            let all = old.union(&new.ports).copied().collect();
            let merged = OracleTree { groups, ports: self.slots(&all), ..new };
            return self.raise(merged, Ports::new());
        }
        let mut kept = self.slots(&old.union(&new.ports).copied().collect());
        for port in old.iter().chain(&new.ports) {
            let Peer::Switch(peer) = self.graph.peer(*port) else { continue };
            let (a, b) = (self.graph.switch_of(*port), self.graph.switch_of(peer));
            if *port < peer && !self.hops(a, |port, _| kept.contains(&port)).contains_key(&b) {
                kept.extend([*port, peer]);
            }
        }
        let (top, ports) = self.prune(kept, new.root);
        let stays = self.options.tables == TableKind::PerSwitch;
        let root = base_root.filter(|_| stays).unwrap_or(top);
        self.trees.push(OracleTree { root, groups, ports, ..new });
    }

    /// Algorithm 7.
    pub(crate) fn put(&mut self, mgid: u32, members: &BTreeSet<EndpointId>) {
        let live = members.iter().filter_map(|member| self.graph.attachment(*member));
        let slots: Ports =
            live.filter(|port| self.faults.port_is_live(self.graph, *port)).collect();
        if slots.len() < 2 {
            return;
        }
        let built = self.color_first.is_none() && self.build_first(mgid, &slots);
        let found = built || self.color_first(mgid, &slots);
        self.color_first = match (self.color_first, found) {
            (None, true) if built => None,
            (None, _) => Some(0),
            (Some(successes), true) if successes + 1 >= self.options.successes_in_a_row => {
                self.seen.insert("trees built first again");
                None
            }
            (Some(successes), true) => Some(successes + 1),
            (Some(_), false) => Some(0),
        };
        if !found {
            self.merge(mgid, &slots);
        }
    }
}
