//! The rules of placement and merging written down a second time, without any regard to speed.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::{CutOffReason, FixedRootEngine, SpanningTree};
use fabricast_topology::{EndpointId, Faults, Mgid, Peer, PortId, SplitMix, SwitchId, TableKind};

use crate::fabrics::Fabric;

/// The plan that the rules demand.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Spanning tree, virtual group and members left out, by group.
    pub(crate) groups: BTreeMap<u32, (u32, u32, BTreeMap<EndpointId, CutOffReason>)>,
    pub(crate) ports: BTreeMap<(u32, u8), BTreeSet<PortId>>, // by virtual group and tree
    pub(crate) unrouted: BTreeSet<u32>,
}

type Tree = BTreeSet<PortId>; // both ends of every link

struct Member {
    live: BTreeSet<EndpointId>,
    cut_off: BTreeMap<EndpointId, CutOffReason>,
}

pub(crate) struct Oracle<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) faults: &'a Faults,
    pub(crate) engine: &'a FixedRootEngine, // only for its groups and numbering
}

impl Oracle<'_> {
    fn leaf(&self, endpoint: EndpointId) -> u32 {
        self.fabric
            .fat_tree
            .leaf_of_endpoint(endpoint)
            .expect("the oracle asks only for what exists")
    }

    fn is_live(&self, port: PortId) -> bool {
        self.faults.port_is_live(&self.fabric.graph, port)
    }

    fn split(&self, members: &[EndpointId]) -> Member {
        let (fat_tree, graph) = (&self.fabric.fat_tree, &self.fabric.graph);
        let mut cut_off = BTreeMap::new();
        let mut live = BTreeSet::new();
        for member in members {
            if fat_tree.leaf_of_endpoint(*member).is_none() {
                cut_off.insert(*member, CutOffReason::NotOnLeaf);
            } else if !self
                .is_live(graph.attachment(*member).expect("the oracle asks only for what exists"))
            {
                cut_off.insert(*member, CutOffReason::LinkDown);
            } else {
                live.insert(*member);
            }
        }
        let leaves: BTreeSet<u32> = live.iter().map(|member| self.leaf(*member)).collect();
        if leaves.len() > 1 {
            let has_up = |leaf| {
                (0..fat_tree.params().leaf_up_ports())
                    .any(|slot| fat_tree.leaf_up(leaf, slot).is_some_and(|up| self.is_live(up)))
            };
            // A leaf that is cut off is a component, and all others are one.
            let component =
                |member: &EndpointId| Some(self.leaf(*member)).filter(|at| !has_up(*at));
            let mut components: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
            for member in &live {
                components.entry(component(member)).or_default().push(self.leaf(*member));
            }
            let size = |leaves: &Vec<u32>| (leaves.len(), leaves.iter().min().map(|at| !at));
            let largest = components.into_iter().max_by_key(|(_, leaves)| size(leaves));
            let (kept, leaves) = largest.expect("there are several leaves");
            let kept =
                kept.filter(|_| leaves.len() > 1 || !live.iter().any(|at| component(at).is_none()));
            for member in live.clone().into_iter().filter(|member| component(member) != kept) {
                live.remove(&member);
                cut_off.insert(member, CutOffReason::LeafCutOff);
            }
        }
        Member { live, cut_off }
    }

    /// The tree of some members on one spanning tree; none if a link is missing, or dead where that
    /// matters.
    fn tree(
        &self,
        spt: &SpanningTree,
        live: &BTreeSet<EndpointId>,
        dead_will_do: bool,
    ) -> Option<Tree> {
        let (fat_tree, graph) = (&self.fabric.fat_tree, &self.fabric.graph);
        let mut ports = Tree::new();
        if live.len() < 2 {
            return Some(ports);
        }
        let mut ups = Vec::new();
        ports.extend(live.iter().map(|member| {
            graph.attachment(*member).expect("the oracle asks only for what exists")
        }));
        let leaves: BTreeSet<u32> = live.iter().map(|member| self.leaf(*member)).collect();
        let cns: BTreeSet<u32> = leaves.iter().map(|leaf| fat_tree.cn_of_leaf(*leaf)).collect();
        let blocks: BTreeSet<u32> = cns.iter().map(|cn| fat_tree.block_of_cn(*cn)).collect();
        if leaves.len() > 1 {
            ups.extend(leaves.iter().map(|leaf| fat_tree.leaf_up(*leaf, spt.leaf_up)));
        }
        if cns.len() > 1 {
            ups.extend(cns.iter().map(|cn| fat_tree.l1_up(*cn, spt.g, spt.u)));
        }
        if blocks.len() > 1 {
            ups.extend(blocks.iter().map(|block| fat_tree.l2_up(spt.tn, *block, spt.v)));
        }
        for up in ups {
            let up = up.filter(|up| dead_will_do || self.is_live(*up))?;
            let Peer::Switch(upper) = graph.peer(up) else { return None };
            ports.extend([up, upper]);
        }
        Some(ports)
    }

    fn switches(&self, tree: &Tree) -> BTreeSet<SwitchId> {
        tree.iter().map(|port| self.fabric.graph.switch_of(*port)).collect()
    }

    pub(crate) fn answer(&self) -> Answer {
        let layout = self.engine.layout();
        let space = *layout.space();
        let mut mgids: Vec<Mgid> = self.engine.groups().collect();
        mgids.sort();
        let members: BTreeMap<Mgid, Member> = mgids
            .iter()
            .map(|mgid| {
                (
                    *mgid,
                    self.split(
                        &self.engine.members(*mgid).expect("the oracle asks only for what exists"),
                    ),
                )
            })
            .collect();
        let mut placed: BTreeMap<Mgid, u32> = BTreeMap::new();
        let feasible = |placed: &BTreeMap<Mgid, u32>, mgid: Mgid, spt: u32| {
            let live = &members[&mgid].live;
            let holds = |other: Mgid, at: u32| {
                at != spt
                    && space.color(at) == space.color(spt)
                    && members[&other].live.len() > 1
                    && !members[&other].live.is_disjoint(live)
            };
            live.len() < 2
                || (layout.trees(spt).any(|tree| self.tree(&tree, live, false).is_some())
                    && !placed.iter().any(|(other, at)| holds(*other, *at)))
        };
        let exists = |mgid: Mgid, spt: u32| {
            let live = &members[&mgid].live;
            layout.trees(spt).all(|tree| self.tree(&tree, live, true).is_some())
        };
        for mgid in &mgids {
            let home = space.spt(*mgid);
            if feasible(&placed, *mgid, home) && exists(*mgid, home) {
                placed.insert(*mgid, space.spt(*mgid));
            }
        }
        let mut answer = Answer::default();
        let displaced: Vec<Mgid> =
            mgids.iter().filter(|mgid| !placed.contains_key(mgid)).copied().collect();
        for mgid in displaced {
            let mut candidates =
                self.candidates(mgid, |spt| feasible(&placed, mgid, spt) && exists(mgid, spt));
            if candidates.is_empty() {
                candidates = self.candidates(mgid, |spt| feasible(&placed, mgid, spt));
            }
            let cost = |spt: &u32| self.cost(&placed, &members, mgid, *spt);
            // Of equal ones the first.
            match candidates.into_iter().min_by_key(cost) {
                Some(spt) => drop(placed.insert(mgid, spt)),
                None => drop(answer.unrouted.insert(mgid.0)),
            }
        }
        self.merge(&placed, &members, &mut answer);
        answer
    }

    /// The four spanning trees of the largest weight, of the nearest rounds that have sixteen.
    fn candidates(&self, mgid: Mgid, serves: impl Fn(u32) -> bool) -> Vec<u32> {
        let space = *self.engine.layout().space();
        let (trees, rounds) = (space.trees_per_color(), space.rounds());
        let home = space.spt(mgid) / trees;
        let ahead = (1..rounds).flat_map(|step| [home + step, home + rounds - step]);
        let mut seen = BTreeSet::new();
        let nearest = [home].into_iter().chain(ahead).map(|round| round % rounds);
        let mut found = Vec::new();
        for round in nearest.filter(|round| seen.insert(*round)) {
            if found.len() >= 16 {
                break;
            }
            let numbers = (round * trees..(round + 1) * trees).filter(|spt| *spt < space.total());
            found.extend(numbers.filter(|spt| serves(*spt)));
        }
        let weight = |spt: &u32| SplitMix::new(u64::from(mgid.0) << 32 | u64::from(*spt)).bits();
        found.sort_by_key(|spt| std::cmp::Reverse(weight(spt)));
        found.truncate(4);
        found
    }

    /// The leaves, CNs and blocks whose links upwards members need, or whose switches with
    /// per-switch tables.
    fn places(&self, live: &BTreeSet<EndpointId>) -> BTreeSet<(u8, u32)> {
        let fat_tree = &self.fabric.fat_tree;
        let leaves: BTreeSet<u32> = live.iter().map(|member| self.leaf(*member)).collect();
        let cns: BTreeSet<u32> = leaves.iter().map(|leaf| fat_tree.cn_of_leaf(*leaf)).collect();
        let blocks: BTreeSet<u32> = cns.iter().map(|cn| fat_tree.block_of_cn(*cn)).collect();
        let per_switch = self.engine.layout().space().tables() == TableKind::PerSwitch;
        let mut places = BTreeSet::new();
        let mut is_reached = per_switch;
        for (level, at) in (0u8..).zip([leaves, cns, blocks, BTreeSet::from([0])]) {
            if is_reached || (!per_switch && at.len() > 1) {
                places.extend(at.iter().map(|at| (level, *at)));
            }
            is_reached = per_switch && is_reached && at.len() > 1;
        }
        places
    }

    /// The groups that come to the places of a group on a spanning tree, and for each place those
    /// that it is merged with.
    fn cost(
        &self,
        placed: &BTreeMap<Mgid, u32>,
        members: &BTreeMap<Mgid, Member>,
        mgid: Mgid,
        spt: u32,
    ) -> usize {
        let mut merged: Vec<(BTreeSet<(u8, u32)>, usize)> = Vec::new(); // places, groups
        let others =
            || placed.iter().filter(|(_, at)| **at == spt).map(|(other, _)| &members[other]);
        for other in others().filter(|other| other.live.len() > 1) {
            let mut together = (self.places(&other.live), 1);
            while let Some(at) = merged.iter().position(|one| !one.0.is_disjoint(&together.0)) {
                let (places, groups) = merged.remove(at);
                together.0.extend(places);
                together.1 += groups;
            }
            merged.push(together);
        }
        let own = &members[&mgid].live;
        let places = self.places(own);
        let met = merged.iter().filter(|one| !one.0.is_disjoint(&places));
        let met: usize = met.map(|(_, groups)| groups).sum();
        let at = |place| merged.iter().filter(move |one| one.0.contains(place)).map(|one| one.1);
        let present: usize = places.iter().flat_map(at).sum();
        let per_port = self.engine.layout().space().tables() == TableKind::PerPort;
        let shares = |other: &Member| other.live.len() > 1 && !other.live.is_disjoint(own);
        let is_shared = per_port && others().any(shares);
        (2 * met * places.len() - present).max(usize::from(is_shared))
    }

    /// Unites groups of one spanning tree that share a link (a switch, with per-switch tables)
    /// until nothing moves.
    fn merge(
        &self,
        placed: &BTreeMap<Mgid, u32>,
        members: &BTreeMap<Mgid, Member>,
        answer: &mut Answer,
    ) {
        let layout = self.engine.layout();
        let dual = layout.space().trees_per_group() > 1;
        let graph = &self.fabric.graph;
        // Of all groups that go together: spanning tree, MGIDs, and what they have of each tree.
        let mut families: Vec<(u32, BTreeSet<u32>, Vec<Tree>)> = Vec::new();
        for (mgid, spt) in placed {
            let live = &members[mgid].live;
            let trees = layout.trees(*spt).map(|tree| self.tree(&tree, live, dual));
            let trees: Vec<Tree> = trees.map(Option::unwrap_or_default).collect();
            let mut family = (*spt, BTreeSet::from([mgid.0]), trees);
            let meet = |some: &[Tree], others: &[Tree]| match layout.space().tables() {
                // Both trees of a pair have one color.
                TableKind::PerPort => {
                    some.iter().flatten().any(|port| others.iter().any(|tree| tree.contains(port)))
                }
                TableKind::PerSwitch => some
                    .iter()
                    .zip(others)
                    .any(|(a, b)| !self.switches(a).is_disjoint(&self.switches(b))),
            };
            while let Some(at) =
                families.iter().position(|(other, _, trees)| other == spt && meet(trees, &family.2))
            {
                let (_, groups, trees) = families.remove(at);
                family.1.extend(groups);
                family.2.iter_mut().zip(trees).for_each(|(all, tree)| all.extend(tree));
            }
            families.push(family);
        }
        for (spt, groups, mut trees) in families {
            let id = *groups.first().expect("the oracle asks only for what exists");
            for mgid in groups {
                let cut_off = members[&Mgid(mgid)].cut_off.clone();
                answer.groups.insert(mgid, (spt, id, cut_off));
            }
            let is_between = |port: &PortId| matches!(graph.peer(*port), Peer::Switch(_));
            if trees.len() > 1 && !trees[1].iter().any(is_between) {
                trees[1].clear(); // all who are on it are on one leaf
            }
            for (tree, ports) in (0..).zip(trees) {
                answer.ports.insert((id, tree), ports);
            }
        }
    }
}

/// Reads the same things out of an engine's plan.
pub(crate) fn answer_of(engine: &FixedRootEngine) -> Answer {
    let plan = engine.plan();
    let mut answer = Answer::default();
    for group in plan.groups() {
        let cut_off = group.cut_off.iter().map(|cut| (cut.endpoint, cut.why)).collect();
        answer.groups.insert(group.mgid.0, (group.part, group.virtual_group.0, cut_off));
    }
    for group in plan.virtual_groups() {
        assert!(group.ports.is_sorted_by(|a, b| a < b), "ports rise");
        answer.ports.insert((group.id.0, group.tree), group.ports.iter().copied().collect());
    }
    answer.unrouted = plan.unrouted().iter().map(|group| group.mgid.0).collect();
    answer
}
