//! Explains the route of a group: its tree, the groups that share it, and the reasons.
//!
//! Two groups of one virtual group are *neighbours* if their own trees have a link in common (with
//! per-switch tables: a switch). All others are in it because of neighbours' neighbours, so each
//! comes with the shortest such chain. Engines that merge groups which do not meet, because no
//! entry is left, leave groups that no chain reaches. With fault tolerance the links of both trees
//! count.
//!
//! Invariants
//! - WHY-1: each group that shares the tree is there once, with the first thing that its own tree
//!   has in common with that of the group before it on a shortest chain.

mod chains;
mod other_size;

use fabricast_topology::{EndpointId, FatTree, Mgid, Place, PortId, SwitchId};

use crate::group_tree::{GroupTree, Trunk};
use crate::plan::{CutOff, GroupPlan, Moved, Unprotected, Unrouted, VirtualGroup, VirtualGroupId};
use crate::routing_engine::RoutingEngine;
use crate::spt::Layout;
use chains::{Own, chains};
pub use other_size::{OtherSize, at_other_size};

/// Explanation of the route of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Group that is explained.
    pub mgid: Mgid,
    /// The spanning tree its MGID stands for; none for engines where it stands for nothing.
    pub home: Option<u32>,
    /// Reason why it is not there.
    pub moved: Option<Moved>,
    /// Reason why it has no tree, if the engine found none for it.
    pub unrouted: Option<Unrouted>,
    /// Reason why it has only one of its two trees.
    pub unprotected: Option<Unprotected>,
    /// All its members.
    pub members: Vec<EndpointId>,
    /// Those that its tree does not reach.
    pub cut_off: Vec<CutOff>,
    /// Its route; none if it is unrouted or has fewer than two live members.
    pub route: Option<ExplainedRoute>,
}

/// The trees that the packets of a group travel on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRoute {
    /// Its part of the plan: the spanning tree (or pair of them), or the color of engines that do
    /// not number them.
    pub part: u32,
    /// The virtual group.
    pub virtual_group: VirtualGroupId,
    /// Its tree; with fault tolerance two, if its members are on several leaves.
    pub trees: Vec<ExplainedTree>,
    /// The groups that share all of that: neighbours first, then by steps and MGID.
    pub sharers: Vec<Sharer>,
}

/// One tree of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedTree {
    /// Its table entry.
    pub color: u16,
    /// Level of the root, 0 for a leaf; none where there is no fat tree.
    pub level: Option<u8>,
    /// The top midplane that it uses, or would use if its members were farther apart; none where
    /// the engine does not know of any, or there are only two levels.
    pub top_midplane: Option<u32>,
    /// The number of the level-1 switches that it uses or would use, which is the TN group.
    pub tn_group: Option<u32>,
    /// The part that the group alone needs: root, links, ports of members.
    pub own: GroupTree,
    /// The switch ports of the whole tree, which its packets cross.
    pub ports: Vec<PortId>,
}

/// A group on the same tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharer {
    /// MGID of the group.
    pub mgid: Mgid,
    /// Last step of a shortest chain of common links to it; none if no chain leads there: no entry
    /// was left for the group.
    pub why: Option<Step>,
}

/// The last step of a shortest chain to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Steps of the chain: 1 for a neighbour.
    pub steps: u32,
    /// The group before it; the explained group if it is a neighbour.
    pub through: Mgid,
    /// Something that both trees have.
    pub at: SharedPart,
}

/// Something that two trees have in common; the first in this order is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharedPart {
    /// A link, by the switch port at its lower end; or that of a common member.
    Link(PortId),
    /// A switch, where a color can serve one tree only.
    Switch(SwitchId),
}

/// Explains what an engine did with a group; none if there is no such group.
///
/// - `fat_tree`: the view of the engine's fabric, if it has one.
/// - Cost: O(T log T) for the trees of all groups of the virtual group.
#[must_use]
pub fn explain(
    engine: &dyn RoutingEngine,
    fat_tree: Option<&FatTree>,
    mgid: Mgid,
) -> Option<Explanation> {
    let members = engine.members(mgid)?;
    let plan = engine.plan();
    let planned = plan.group(mgid);
    Some(Explanation {
        mgid,
        home: plan.home(mgid),
        moved: plan.moved().iter().find(|moved| moved.mgid == mgid).copied(),
        unrouted: plan.unrouted().iter().find(|unrouted| unrouted.mgid == mgid).copied(),
        unprotected: plan.unprotected().find(|one| one.mgid == mgid).copied(),
        members,
        cut_off: planned.map_or_else(Vec::new, |planned| planned.cut_off.to_vec()),
        route: planned.and_then(|planned| explain_route(engine, fat_tree, &planned)),
    })
}

fn explain_route(
    engine: &dyn RoutingEngine,
    fat_tree: Option<&FatTree>,
    planned: &GroupPlan<'_>,
) -> Option<ExplainedRoute> {
    let plan = engine.plan();
    let shared = plan.virtual_group_trees(planned.mgid);
    let first = shared.first().filter(|_| planned.has_tree())?;
    let cutter = Cutter::of(engine, first)?;
    let parts = |mgid: &Mgid| Own::of(engine.graph(), plan.tables(), *mgid, &cutter.cut(*mgid));
    let own: Vec<Own> = first.groups.iter().map(parts).collect();
    let spanning_tree = plan.home(planned.mgid).map(|_| planned.part);
    let tree = |own: GroupTree| {
        let whole = shared.iter().find(|one| one.tree == own.tree)?;
        let place = Where::of(fat_tree, engine, spanning_tree, &own);
        Some(ExplainedTree {
            color: whole.color,
            level: place.level,
            top_midplane: place.top_midplane,
            tn_group: place.tn_group,
            own,
            ports: whole.ports.to_vec(),
        })
    };
    Some(ExplainedRoute {
        part: planned.part,
        virtual_group: first.id,
        trees: cutter.cut(planned.mgid).into_iter().filter_map(tree).collect(),
        sharers: chains(&own, planned.mgid),
    })
}

/// Context for cutting out the trees of single groups.
enum Cutter<'a> {
    /// The one tree of the virtual group, hung once.
    One(&'a dyn RoutingEngine, Trunk<'a>),
    /// The engine, which knows which groups have a second tree.
    Two(&'a dyn RoutingEngine),
}

impl<'a> Cutter<'a> {
    fn of(engine: &'a dyn RoutingEngine, shared: &VirtualGroup<'_>) -> Option<Self> {
        if engine.plan().is_dual() {
            return Some(Self::Two(engine));
        }
        Some(Self::One(engine, Trunk::of(engine.graph(), shared)?))
    }

    fn cut(&self, mgid: Mgid) -> Vec<GroupTree> {
        match self {
            Self::Two(engine) => engine.group_trees(mgid),
            Self::One(engine, trunk) => {
                let members = engine.live_members(mgid).unwrap_or_default();
                let ports = members.iter().filter_map(|member| engine.graph().attachment(*member));
                trunk.cut(ports.collect()).into_iter().collect()
            }
        }
    }
}

/// Position of a tree in the fat tree.
#[derive(Clone, Copy, Debug, Default)]
struct Where {
    level: Option<u8>,
    top_midplane: Option<u32>,
    tn_group: Option<u32>,
}

impl Where {
    /// The parts that the root leaves open follow from the spanning tree, if the engine numbers
    /// them.
    fn of(
        fat_tree: Option<&FatTree>,
        engine: &dyn RoutingEngine,
        spanning_tree: Option<u32>,
        own: &GroupTree,
    ) -> Self {
        let Some(view) = fat_tree else { return Self::default() };
        let params = view.params();
        let plan = engine.plan();
        let numbered = spanning_tree.filter(|_| params.levels >= 2).and_then(|spt| {
            let number = if plan.is_dual() { Layout::dual } else { Layout::new };
            let layout = number(params, plan.colors(), plan.tables()).ok()?;
            layout.with_mixed_pairs(view).trees(spt).nth(usize::from(own.tree))
        });
        let has_top = params.levels >= 3;
        let top_midplane = numbered.filter(|_| has_top).map(|tree| tree.tn);
        let known = Self { level: None, top_midplane, tn_group: numbered.map(|tree| tree.g) };
        // A switch that several top midplanes share is looked for in those of the spanning tree.
        let in_top = |level: u8, first: u32| {
            let has_root = |tn: &u32| match level {
                2 => (0..params.blocks).any(|at| view.l2_switch(*tn, at) == Some(own.root)),
                _ => (0..params.l3_per_tn).any(|x| view.l3_switch(*tn, x) == Some(own.root)),
            };
            let tns = numbered.map_or(0..0, |tree| {
                tree.g * params.tns_per_group..(tree.g + 1) * params.tns_per_group
            });
            let tn = top_midplane.into_iter().chain(tns).find(has_root).unwrap_or(first);
            Self {
                level: Some(level),
                top_midplane: Some(tn),
                tn_group: tn.checked_div(params.tns_per_group),
            }
        };
        match view.place(own.root) {
            Place::Outside => known,
            Place::Leaf { .. } => Self { level: Some(0), ..known },
            Place::L1 { g, .. } => Self { level: Some(1), tn_group: Some(g), ..known },
            Place::L2 { tn, .. } => in_top(2, tn),
            Place::L3 { tn, .. } => in_top(3, tn),
        }
    }
}
