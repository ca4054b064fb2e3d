//! Builds trees by one of three rules: from the root down along first ports, along light links, or
//! as parts of one tree for all groups.

use std::collections::{BTreeMap, BinaryHeap};

use fabricast_topology::{Mgid, PortId, SwitchId};

use crate::group_tree::hang;
use crate::links::Link;
use crate::min_hop::NO_PATH;
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::loads::Loads;
use crate::mr4lms::member_hops::{LiveMembers, MemberHops, row};
use crate::root_choice::{RootChoice, RootChooser};
use crate::root_policy::RootPolicy;
use crate::routing_engine::EngineKind;

/// The fabric with the loads of its trees.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedFabric<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) loads: &'a Loads,
}

/// The rule by which trees are made.
///
/// The root is the switch whose farthest member is nearest, as in OpenSM. Among equal ones it is
/// the switch that the fewest groups pass; further ties are broken as in MR4LMS, so that a
/// comparison of engines compares trees. A root policy replaces these rules; then a tree keeps its
/// root as long as it is among the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaselineRule {
    /// MINIHOP-MC: towards every member by the first port of least hops, whatever its load.
    ///
    /// Two ways that have parted never meet again: both would have taken the lower of the two
    /// ports. Cost: a byte per switch and leaf for the root, and the ports of switches on the way.
    MinHop,
    /// SSSP-MC: Dijkstra's tree from the root, the groups on a link being its weight, ways of least
    /// hops only (the weights of OpenSM's SSSP engines start so high that this is so).
    ///
    /// Cost: that of the root, and the links of switches on ways of least hops to members.
    LightestPath,
    /// One spanning tree of least hops for everybody, rooted where its farthest leaf is nearest.
    /// All groups are merged and need one color.
    GlobalTree,
}

impl BaselineRule {
    pub(super) const fn kind(self) -> EngineKind {
        match self {
            Self::MinHop => EngineKind::MinHopMc,
            Self::LightestPath => EngineKind::SsspMc,
            Self::GlobalTree => EngineKind::GlobalTree,
        }
    }
}

/// Makes trees; its buffers are used again.
#[derive(Clone, Debug)]
pub(super) struct RuleTreeBuilder {
    rule: BaselineRule,
    pub(super) chooser: RootChooser,
    member_hops: MemberHops,
    marks: Vec<u32>, // by switch: the last walk that came by
    walk: u32,
    hops: Vec<u8>, // by switch, from the root of the global tree or of a search; else NO_PATH
    queue: Vec<u32>,
    ways: Vec<Way>,        // by switch
    levels: Vec<Vec<u32>>, // by hops from the root: switches on ways to members
}

/// The next link from a switch to the root, and the load of the whole path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    load: u64,
    link: Link,
}

const NO_WAY: Way =
    Way { load: 0, link: Link { port: PortId(0), peer: PortId(0), to: SwitchId(0) } };

impl RuleTreeBuilder {
    pub(super) fn new(rule: BaselineRule, fabric: &Fabric, policy: Option<RootPolicy>) -> Self {
        let switches = fabric.graph.switch_count();
        let mut builder = Self {
            rule,
            chooser: RootChooser::new(policy),
            member_hops: MemberHops::default(),
            marks: vec![0; switches],
            walk: 0,
            hops: vec![NO_PATH; switches],
            queue: Vec::new(),
            ways: vec![NO_WAY; switches],
            levels: vec![Vec::new(); usize::from(NO_PATH)],
        };
        builder.look_around(fabric);
        builder
    }

    /// Takes notice of a fabric that is not what it was; true if all trees follow from something
    /// new.
    pub(super) fn look_around(&mut self, fabric: &Fabric) -> bool {
        if self.rule != BaselineRule::GlobalTree {
            return false;
        }
        let before = std::mem::take(&mut self.ways);
        self.ways.resize(before.len(), NO_WAY);
        self.hops.fill(NO_PATH);
        for root in centers(fabric) {
            self.search(fabric, root, |_, _| true);
            for at in &self.queue[1..] {
                let nearer = self.hops[*at as usize] - 1;
                let mut links = fabric.links().of(SwitchId(*at));
                let link = links.find(|link| self.hops[link.to.index()] == nearer);
                let link = link.expect("a search comes from somewhere");
                self.ways[*at as usize] = Way { load: 0, link };
            }
        }
        self.ways != before
    }

    /// Connects members of one part of the fabric, two or more, by their ports, rising. Gives root
    /// and ports of the tree, rising.
    ///
    /// - `mgid`: one of the groups; `root_before`: the root that its tree had, if any.
    pub(super) fn add_tree(
        &mut self,
        loaded: LoadedFabric<'_>,
        member_ports: Vec<PortId>,
        mgid: Mgid,
        root_before: Option<SwitchId>,
    ) -> (SwitchId, Vec<PortId>) {
        let members = LiveMembers::new(loaded.fabric, member_ports);
        if self.rule == BaselineRule::GlobalTree {
            let mut ports = members.member_ports.clone();
            self.start_walk();
            let root = self.cut_out(&members, &mut ports);
            ports.sort_unstable();
            return (root, ports);
        }
        let root = self.root(loaded, &members, mgid, root_before);
        (root, self.grow(loaded, &members, root))
    }

    /// Connects members under a root and gives the ports of the tree, rising.
    fn grow(
        &mut self,
        loaded: LoadedFabric<'_>,
        members: &LiveMembers,
        root: SwitchId,
    ) -> Vec<PortId> {
        let mut ports = members.member_ports.clone();
        self.start_walk();
        if self.rule == BaselineRule::MinHop {
            self.descend(loaded.fabric, members, root, &mut ports);
        } else {
            if loaded.fabric.hops.leaf_number(root).is_some() {
                self.weigh(loaded, members, row(loaded.fabric, root));
            } else {
                self.weigh_from(loaded, members, root);
            }
            self.climb(members, root, &mut ports);
        }
        ports.sort_unstable();
        ports
    }

    fn start_walk(&mut self) {
        if self.walk == u32::MAX {
            self.marks.fill(0);
            self.walk = 0;
        }
        self.walk += 1;
    }

    /// Tells whether the walk comes to a switch for the first time.
    fn is_first_visit(&mut self, switch: SwitchId) -> bool {
        std::mem::replace(&mut self.marks[switch.index()], self.walk) != self.walk
    }

    fn root(
        &mut self,
        LoadedFabric { fabric, loads }: LoadedFabric<'_>,
        members: &LiveMembers,
        mgid: Mgid,
        before: Option<SwitchId>,
    ) -> SwitchId {
        self.member_hops.look(fabric, &members.leaves);
        let best = (0u32..).map(SwitchId).zip(&self.member_hops.far);
        let best =
            best.filter(|(_, far)| **far == self.member_hops.height).map(|(switch, _)| switch);
        let order = |switch: &SwitchId| preference(loads.switch(*switch), *switch);
        if !self.chooser.is_on() {
            return best.min_by_key(order).expect("the members are connected");
        }
        let mut roots: Vec<SwitchId> = best.collect();
        if let Some(before) = before.filter(|before| roots.contains(before)) {
            return before;
        }
        roots.sort_by_key(order);
        let chooser = std::mem::take(&mut self.chooser);
        let grow = |at: usize| {
            let ports = self.grow(LoadedFabric { fabric, loads }, members, roots[at]);
            hang(&fabric.graph, roots[at], &ports).into_values().flatten().collect()
        };
        let graph = &fabric.graph;
        let choice = RootChoice { graph, mgid, roots: &roots, source: members.leaves[0] };
        let at = chooser.choose(choice, grow);
        self.chooser = chooser;
        roots[at]
    }

    /// Walks from the root to every leaf, each time by the first port of least hops.
    fn descend(
        &mut self,
        fabric: &Fabric,
        members: &LiveMembers,
        root: SwitchId,
        ports: &mut Vec<PortId>,
    ) {
        self.is_first_visit(root);
        for leaf in &members.leaves {
            let row = row(fabric, *leaf);
            let mut at = root;
            while at != *leaf {
                let nearer = row[at.index()] - 1;
                let link = fabric.links().of(at).find(|link| row[link.to.index()] == nearer);
                let link = link.expect("HOP-1: a neighbour is one hop nearer");
                if self.is_first_visit(link.to) {
                    ports.extend([link.port, link.peer]);
                }
                at = link.to;
            }
        }
    }

    /// Counts hops from a root to switches that a test lets pass; leaves their numbers in `queue`,
    /// the root's first.
    fn search(&mut self, fabric: &Fabric, root: SwitchId, may_pass: impl Fn(SwitchId, u8) -> bool) {
        self.queue.clear();
        self.queue.push(root.0);
        self.hops[root.index()] = 0;
        let mut done = 0;
        while let Some(at) = self.queue.get(done).copied() {
            done += 1;
            let next = self.hops[at as usize] + 1;
            for to in fabric.links().neighbours(SwitchId(at)) {
                if self.hops[to.index()] == NO_PATH && may_pass(*to, next) {
                    self.hops[to.index()] = next;
                    self.queue.push(to.0);
                }
            }
        }
    }

    /// Weighs ways from a root that the min-hop table has no row for: it is counted where a way can
    /// be.
    fn weigh_from(&mut self, loaded: LoadedFabric<'_>, members: &LiveMembers, root: SwitchId) {
        let member_hops = std::mem::take(&mut self.member_hops);
        self.search(loaded.fabric, root, |to, hops| {
            member_hops
                .height
                .checked_sub(hops)
                .is_some_and(|left| member_hops.near[to.index()] <= left)
        });
        self.member_hops = member_hops;
        let mut hops = std::mem::take(&mut self.hops);
        self.weigh(loaded, members, &hops);
        for at in &self.queue {
            hops[*at as usize] = NO_PATH;
        }
        self.hops = hops;
    }

    /// Finds the lightest of the ways of least hops from every leaf to the root, of equal ones that
    /// by the lower port. Up from the leaves it finds what can be on a way, then down from the root
    /// the loads.
    fn weigh(
        &mut self,
        LoadedFabric { fabric, loads }: LoadedFabric<'_>,
        members: &LiveMembers,
        hops: &[u8],
    ) {
        let mut levels = std::mem::take(&mut self.levels);
        for leaf in &members.leaves {
            self.is_first_visit(*leaf);
            levels[usize::from(hops[leaf.index()])].push(leaf.0);
        }
        let nearer = |at: u32| {
            let up = usize::from(hops[at as usize]).wrapping_sub(1);
            let links = fabric.links().of(SwitchId(at));
            links.filter(move |link| usize::from(hops[link.to.index()]) == up)
        };
        let highest = levels.iter().rposition(|level| !level.is_empty()).unwrap_or(0);
        for level in (1..=highest).rev() {
            let (above, below) = levels.split_at_mut(level);
            for link in below[0].iter().flat_map(|at| nearer(*at)) {
                if self.is_first_visit(link.to) {
                    above[level - 1].push(link.to.0);
                }
            }
        }
        for at in levels[0].drain(..) {
            self.ways[at as usize] = NO_WAY;
        }
        for at in levels[1..=highest].iter_mut().flat_map(|level| level.drain(..)) {
            let ways = nearer(at).map(|link| Way {
                load: self.ways[link.to.index()].load + u64::from(loads.link(link)),
                link,
            });
            let lightest = ways.min_by_key(|way| (way.load, way.link.port));
            self.ways[at as usize] = lightest.expect("HOP-1: a neighbour is one hop nearer");
        }
        self.levels = levels;
    }

    /// Follows the ways from the leaves up to the root.
    fn climb(&mut self, members: &LiveMembers, root: SwitchId, ports: &mut Vec<PortId>) {
        self.start_walk();
        self.is_first_visit(root);
        for leaf in &members.leaves {
            let mut at = *leaf;
            while self.is_first_visit(at) {
                let link = self.ways[at.index()].link;
                ports.extend([link.port, link.peer]);
                at = link.to;
            }
        }
    }

    /// Cuts what connects some leaves out of the global tree, from the lowest up, and gives its
    /// top.
    fn cut_out(&mut self, members: &LiveMembers, ports: &mut Vec<PortId>) -> SwitchId {
        let mut active = BinaryHeap::new();
        for leaf in &members.leaves {
            self.is_first_visit(*leaf);
            active.push((self.hops[leaf.index()], *leaf));
        }
        loop {
            let (hops, at) = active.pop().expect("one is left until the end");
            if active.is_empty() {
                return at;
            }
            let link = self.ways[at.index()].link;
            ports.extend([link.port, link.peer]);
            if self.is_first_visit(link.to) {
                active.push((hops - 1, link.to));
            }
        }
    }
}

/// Order of equally good roots, smallest first; it spreads ties over the fabric.
const fn preference(load: u32, switch: SwitchId) -> (u32, u32, u32) {
    (load, switch.0.wrapping_mul(0x9E37_79B9), switch.0)
}

/// Finds for every part of the fabric the switch whose farthest leaf is nearest, of equal ones the
/// first.
fn centers(fabric: &Fabric) -> Vec<SwitchId> {
    let mut far = vec![0u8; fabric.graph.switch_count()];
    for leaf in 0..fabric.hops.leaves().len() {
        for (far, hops) in far.iter_mut().zip(fabric.hops.row(leaf)) {
            *far = if *hops == NO_PATH { *far } else { (*far).max(*hops) };
        }
    }
    let mut centers: BTreeMap<u32, (u8, SwitchId)> = BTreeMap::new();
    let live = fabric.graph.switches().filter(|switch| fabric.faults.switch_is_live(*switch));
    for switch in live {
        let found = (far[switch.index()], switch);
        let best = centers.entry(fabric.component(switch)).or_insert(found);
        *best = found.min(*best);
    }
    centers.into_values().map(|(_, root)| root).collect()
}
