//! How a tree is made: from the root down along first ports, along light links, or out of one tree for all.

use std::collections::{BTreeMap, BinaryHeap};

use fabricast_topology::{PortId, SwitchId};

use crate::baselines::loads::Loads;
use crate::engines::EngineKind;
use crate::group_tree::hang;
use crate::links::Link;
use crate::mgid::Mgid;
use crate::min_hop::NO_PATH;
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::survey::{Party, Survey, row};
use crate::root_choice::RootChooser;
use crate::root_policy::RootPolicy;

/// The rule by which trees are made.
///
/// The root is the switch whose farthest member is nearest, as in OpenSM; of equal ones that which the fewest
/// groups pass, and ties as MR4LMS here breaks them, so that what is compared is the trees. With a root policy
/// that decides, and a tree keeps its root as long as it is among the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// MINIHOP-MC: towards every member by the first port of least hops, whatever its load.
    ///
    /// Two ways that have parted never meet again: both would have taken the lower of the two
    /// ports. Cost: a byte per switch and leaf for the root, and the ports of switches on the way.
    MinHop,
    /// SSSP-MC: Dijkstra's tree from the root, the groups on a link being its weight, ways of least hops
    /// only (the weights of OpenSM's SSSP engines start so high that this is so).
    ///
    /// Cost: that of the root, and the links of switches on ways of least hops to members.
    LightestPath,
    /// One spanning tree of least hops for everybody, rooted where its farthest leaf is nearest. All
    /// groups are merged and need one color.
    GlobalTree,
}

impl Rule {
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
pub(super) struct Planter {
    rule: Rule,
    pub(super) chooser: RootChooser,
    survey: Survey,
    marks: Vec<u32>, // by switch: the last walk that came by
    walk: u32,
    hops: Vec<u8>, // by switch, from the root of the global tree or of a search; else NO_PATH
    queue: Vec<u32>,
    ways: Vec<Way>,        // by switch
    levels: Vec<Vec<u32>>, // by hops from the root: switches on ways to members
}

/// How to get from a switch to the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    load: u64,
    link: Link,
}

const NO_WAY: Way =
    Way { load: 0, link: Link { port: PortId(0), peer: PortId(0), to: SwitchId(0) } };

impl Planter {
    pub(super) fn new(rule: Rule, fabric: &Fabric, policy: Option<RootPolicy>) -> Self {
        let switches = fabric.graph.switch_count();
        let mut planter = Self {
            rule,
            chooser: RootChooser::new(policy),
            survey: Survey::default(),
            marks: vec![0; switches],
            walk: 0,
            hops: vec![NO_PATH; switches],
            queue: Vec::new(),
            ways: vec![NO_WAY; switches],
            levels: vec![Vec::new(); usize::from(NO_PATH)],
        };
        planter.look_around(fabric);
        planter
    }

    /// Takes notice of a fabric that is not what it was; true if all trees follow from something new.
    pub(super) fn look_around(&mut self, fabric: &Fabric) -> bool {
        if self.rule != Rule::GlobalTree {
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

    /// Connects members of one part of the fabric, two or more, by their ports, rising. Gives root and
    /// ports of the tree, rising.
    ///
    /// - `wish`: one of the groups, and the root that its tree had before, if any.
    pub(super) fn plant(
        &mut self,
        ground: (&Fabric, &Loads),
        seats: Vec<PortId>,
        wish: (Mgid, Option<SwitchId>),
    ) -> (SwitchId, Vec<PortId>) {
        let party = Party::new(ground.0, seats);
        if self.rule == Rule::GlobalTree {
            let mut ports = party.seats.clone();
            self.start_walk();
            let root = self.cut_out(&party, &mut ports);
            ports.sort_unstable();
            return (root, ports);
        }
        let root = self.root(ground, &party, wish);
        (root, self.grow(ground, &party, root))
    }

    /// Connects members under a root and gives the ports of the tree, rising.
    fn grow(&mut self, ground: (&Fabric, &Loads), party: &Party, root: SwitchId) -> Vec<PortId> {
        let mut ports = party.seats.clone();
        self.start_walk();
        if self.rule == Rule::MinHop {
            self.descend(ground.0, party, root, &mut ports);
        } else {
            if ground.0.hops.leaf_number(root).is_some() {
                self.weigh(ground, party, row(ground.0, root));
            } else {
                self.weigh_from(ground, party, root);
            }
            self.climb(party, root, &mut ports);
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
        (fabric, loads): (&Fabric, &Loads),
        party: &Party,
        (mgid, before): (Mgid, Option<SwitchId>),
    ) -> SwitchId {
        self.survey.look(fabric, &party.leaves);
        let best = (0u32..).map(SwitchId).zip(&self.survey.far);
        let best = best.filter(|(_, far)| **far == self.survey.height).map(|(switch, _)| switch);
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
            let ports = self.grow((fabric, loads), party, roots[at]);
            hang(&fabric.graph, roots[at], &ports).into_values().flatten().collect()
        };
        let at = chooser.choose((&fabric.graph, mgid), &roots, party.leaves[0], grow);
        self.chooser = chooser;
        roots[at]
    }

    /// Walks from the root to every leaf, each time by the first port of least hops.
    fn descend(&mut self, fabric: &Fabric, party: &Party, root: SwitchId, ports: &mut Vec<PortId>) {
        self.is_first_visit(root);
        for leaf in &party.leaves {
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

    /// Counts hops from a root to switches that a test lets pass; leaves their numbers in `queue`, the root's first.
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

    /// Weighs ways from a root that the min-hop table has no row for: it is counted where a way can be.
    fn weigh_from(&mut self, ground: (&Fabric, &Loads), party: &Party, root: SwitchId) {
        let survey = std::mem::take(&mut self.survey);
        self.search(ground.0, root, |to, hops| {
            survey.height.checked_sub(hops).is_some_and(|left| survey.near[to.index()] <= left)
        });
        self.survey = survey;
        let mut hops = std::mem::take(&mut self.hops);
        self.weigh(ground, party, &hops);
        for at in &self.queue {
            hops[*at as usize] = NO_PATH;
        }
        self.hops = hops;
    }

    /// Finds the lightest of the ways of least hops from every leaf to the root, of equal ones that by the lower
    /// port. Up from the leaves it finds what can be on a way, then down from the root the loads.
    fn weigh(&mut self, (fabric, loads): (&Fabric, &Loads), party: &Party, hops: &[u8]) {
        let mut levels = std::mem::take(&mut self.levels);
        for leaf in &party.leaves {
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
    fn climb(&mut self, party: &Party, root: SwitchId, ports: &mut Vec<PortId>) {
        self.start_walk();
        self.is_first_visit(root);
        for leaf in &party.leaves {
            let mut at = *leaf;
            while self.is_first_visit(at) {
                let link = self.ways[at.index()].link;
                ports.extend([link.port, link.peer]);
                at = link.to;
            }
        }
    }

    /// Cuts what connects some leaves out of the global tree, from the lowest up, and gives its top.
    fn cut_out(&mut self, party: &Party, ports: &mut Vec<PortId>) -> SwitchId {
        let mut active = BinaryHeap::new();
        for leaf in &party.leaves {
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

/// A switch's place among equally good roots; smaller comes first. Ties go all over the fabric.
const fn preference(load: u32, switch: SwitchId) -> (u32, u32, u32) {
    (load, switch.0.wrapping_mul(0x9E37_79B9), switch.0)
}

/// Finds for every part of the fabric the switch whose farthest leaf is nearest, of equal ones the first.
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
        let best = centers.entry(fabric.island(switch)).or_insert(found);
        *best = found.min(*best);
    }
    centers.into_values().map(|(_, root)| root).collect()
}
