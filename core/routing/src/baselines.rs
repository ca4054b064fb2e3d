//! Baselines for any topology: the multicast routing of InfiniBand's subnet manager.
//!
//! Source: MR4LMS §1 and §3.1.2; OpenSM's `osm_mcast_mgr.c` for what the paper leaves out. Its nine
//! unicast engines use two ways to make a multicast tree, `minhop-mc` and `sssp-mc`; `global-tree`
//! is the cheapest. [`BaselineRule`] tells them apart.
//!
//! The table entry is an MLID, and one entry has one tree in the whole fabric: colors are never
//! used again where trees do not meet, which is what MR4LMS adds. A group takes the color that has
//! the fewest groups, of equal ones the lowest: as long as there are unused ones this is what
//! OpenSM does. When all are used OpenSM refuses groups, or lets those share an MLID that it was
//! told may; here any may, by the same rule, since it spreads groups evenly and looks at nothing
//! but the order in which they come. Groups that share a color share one tree over all their
//! members, as in OpenSM.
//!
//! A change or a fault rebuilds the trees of the colors it touches, roots included, and no others.
//! Trees depend on the loads they found, so the order of changes matters, and
//! [`RoutingEngine::choices`] records them; those of `global-tree` follow from faults and members.
//!
//! Invariants
//! - R1, R2, R4 hold after every call, and a refused batch changes nothing.
//! - A color's tree changes only if one of its groups did or a part of it died.

mod colors;
mod restore;
mod tree_rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_topology::{EndpointId, Faults, Graph, Mgid, PortId, SwitchId};

use crate::change::{Change, ChangeError};
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::loads::Loads;
use crate::mr4lms::staging::{Staged, stage};
use crate::plan::{CutOff, PartBuilder, Plan, PlannedTree};
use crate::root_choice::PortLoads;
use crate::routing_engine::{
    BuildError, ColorUse, EngineEntry, EngineInput, EngineKind, EngineOptions, RecordedChoice,
    RestoreError, RoutingEngine,
};
use crate::spt::{LayoutError, MgidSpace};
use colors::Colors;
pub use tree_rules::BaselineRule;
use tree_rules::{LoadedFabric, RuleTreeBuilder};

/// `minhop-mc` in the list of engines.
pub(crate) const MIN_HOP_MC: EngineEntry = EngineEntry {
    color_use: ColorUse::OneTree,
    ..EngineEntry::new("minhop-mc", |input| build(input, BaselineRule::MinHop))
};

/// `sssp-mc` in the list of engines.
pub(crate) const SSSP_MC: EngineEntry = EngineEntry {
    color_use: ColorUse::OneTree,
    ..EngineEntry::new("sssp-mc", |input| build(input, BaselineRule::LightestPath))
};

/// `global-tree` in the list of engines.
pub(crate) const GLOBAL_TREE: EngineEntry = EngineEntry {
    chooses_roots: false,
    color_use: ColorUse::OneTreeInAll,
    ..EngineEntry::new("global-tree", |input| build(input, BaselineRule::GlobalTree))
};

fn build(input: EngineInput, rule: BaselineRule) -> Result<Box<dyn RoutingEngine>, BuildError> {
    Ok(Box::new(Baseline::new(input.graph, rule, input.options)?))
}

/// An engine as in InfiniBand's subnet managers: one tree for each color.
#[derive(Clone, Debug)]
pub struct Baseline {
    rule: BaselineRule,
    space: MgidSpace,
    fabric: Fabric,
    groups: BTreeMap<Mgid, Group>,
    colors: Colors,
    trees: Vec<Vec<Tree>>, // by color: one, or one for each part of the fabric that has members
    loads: Loads,
    builder: RuleTreeBuilder,
    plan: Plan,
}

#[derive(Clone, Debug)]
struct Group {
    color: u16,
    /// All its members, rising.
    members: Vec<EndpointId>,
    service: Service,
}

impl Group {
    fn new(color: u16) -> Self {
        Self { color, members: Vec::new(), service: Service::default() }
    }
}

/// Members of a group that can be served, and those that cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Service {
    member_ports: Vec<PortId>, // rising
    cut_off: Vec<CutOff>,      // rising
}

impl Service {
    fn of(fabric: &Fabric, mgid: Mgid, members: &[EndpointId]) -> Self {
        let mut cut_off = Vec::new();
        let member_ports = fabric.part_members(members, |endpoint, why| {
            cut_off.push(CutOff { mgid, endpoint, why });
        });
        cut_off.sort_unstable();
        Self { member_ports, cut_off }
    }
}

/// One tree and the groups that use it, which all have two or more live members.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tree {
    root: SwitchId,
    ports: Vec<PortId>, // rising
    groups: Vec<Mgid>,  // rising
}

impl Baseline {
    /// Makes an engine without groups or faults.
    ///
    /// Cost: that of [`crate::MinHops::new`].
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if the colors are out of range.
    pub fn new(
        graph: Arc<Graph>,
        rule: BaselineRule,
        options: EngineOptions,
    ) -> Result<Self, LayoutError> {
        let space = MgidSpace::any(options.colors)?;
        let used = if rule == BaselineRule::GlobalTree { 1 } else { options.colors };
        let fabric = Fabric::new(graph, options.tables, None);
        Ok(Self {
            rule,
            space,
            groups: BTreeMap::new(),
            colors: Colors::new(used),
            trees: vec![Vec::new(); usize::from(used)],
            loads: Loads::new(&fabric.graph),
            builder: RuleTreeBuilder::new(rule, &fabric, options.root_policy),
            plan: Plan::listed(options.colors, options.tables),
            fabric,
        })
    }

    /// Returns the rule by which trees are made.
    #[must_use]
    pub const fn rule(&self) -> BaselineRule {
        self.rule
    }

    /// Applies checked changes; returns the colors they touch, each once, in the order of the
    /// changes.
    fn commit(&mut self, staged: Staged) -> Vec<u16> {
        let Self { groups, colors, .. } = self;
        let mut is_touched = vec![false; usize::from(colors.len())];
        let mut touched = Vec::new();
        for (mgid, members) in staged {
            let color = match members {
                Some(members) => {
                    let group = groups.entry(mgid).or_insert_with(|| Group::new(colors.take(mgid)));
                    group.members = members;
                    group.color
                }
                None => {
                    let group = groups.remove(&mgid).expect("a group that goes was there");
                    colors.give_back(mgid, group.color);
                    group.color
                }
            };
            if !std::mem::replace(&mut is_touched[usize::from(color)], true) {
                touched.push(color);
            }
        }
        touched
    }

    /// Rebuilds the trees of a color.
    fn replant(&mut self, color: u16) {
        let old = std::mem::take(&mut self.trees[usize::from(color)]);
        for tree in &old {
            self.loads.count_out(&self.fabric, &tree.ports, tree.groups.len());
        }
        for (groups, member_ports) in self.connect_by_component(color) {
            let is_left = |tree: &&Tree| tree.groups.iter().any(|mgid| groups.contains(mgid));
            let before = old.iter().find(is_left).map(|tree| tree.root);
            let loaded = LoadedFabric { fabric: &self.fabric, loads: &self.loads };
            let (root, ports) = self.builder.add_tree(loaded, member_ports, groups[0], before);
            self.loads.count_in(&self.fabric, &ports, groups.len());
            self.trees[usize::from(color)].push(Tree { root, ports, groups });
        }
        self.write_part(color);
    }

    /// Finds out which members of a color's groups can be served, and gives what is to be
    /// connected: for each part of the fabric the groups there and the ports of all their members.
    fn connect_by_component(&mut self, color: u16) -> Vec<(Vec<Mgid>, Vec<PortId>)> {
        let Self { fabric, groups, colors, .. } = self;
        let mut parts: BTreeMap<u32, (Vec<Mgid>, Vec<PortId>)> = BTreeMap::new();
        for mgid in colors.groups(color) {
            let group = groups.get_mut(mgid).expect("colors belong to groups that exist");
            group.service = Service::of(fabric, *mgid, &group.members);
            if let [first, _, ..] = group.service.member_ports[..] {
                let component = fabric.component(fabric.graph.switch_of(first));
                let (mates, ports) = parts.entry(component).or_default();
                mates.push(*mgid);
                ports.extend(&group.service.member_ports);
            }
        }
        let sorted = |(groups, mut ports): (Vec<Mgid>, Vec<PortId>)| {
            ports.sort_unstable();
            ports.dedup();
            (groups, ports)
        };
        parts.into_values().map(sorted).collect()
    }

    fn write_part(&mut self, color: u16) {
        let number = u32::from(color);
        let mut part = PartBuilder::new(number, color);
        let served = |mgid: &Mgid| {
            let member_ports = self.groups[mgid].service.member_ports.len();
            (*mgid, u32::try_from(member_ports).expect("a graph has fewer than 2^32 endpoints"))
        };
        let trees = &self.trees[usize::from(color)];
        for tree in trees {
            part.add(PlannedTree {
                root: Some(tree.root),
                ports: tree.ports.clone(),
                groups: tree.groups.iter().map(served).collect(),
            });
        }
        for mgid in self.colors.groups(color) {
            let Service { member_ports, cut_off } = &self.groups[mgid].service;
            cut_off.iter().for_each(|cut| part.cut_off(*cut));
            if member_ports.len() < 2 {
                let groups = vec![served(mgid)];
                part.add(PlannedTree { root: None, ports: Vec::new(), groups });
            }
        }
        self.plan.set_part(number, part);
    }

    /// Tells whether a fault has hit a color: a tree of its, or who can be served.
    fn is_hit(&self, color: u16) -> bool {
        let mut ports = self.trees[usize::from(color)].iter().flat_map(|tree| &tree.ports);
        let has_other_members = |mgid: &Mgid| {
            let group = &self.groups[mgid];
            Service::of(&self.fabric, *mgid, &group.members) != group.service
        };
        ports.any(|port| !self.fabric.is_live(*port))
            || self.colors.groups(color).iter().any(has_other_members)
    }
}

impl RoutingEngine for Baseline {
    fn kind(&self) -> EngineKind {
        self.rule.kind()
    }

    fn graph(&self) -> &Arc<Graph> {
        &self.fabric.graph
    }

    fn space(&self) -> &MgidSpace {
        &self.space
    }

    /// Cost: a tree for every color that is touched, see [`BaselineRule`].
    fn apply(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        let members = |mgid: Mgid| self.groups.get(&mgid).map(|group| &group.members[..]);
        let staged = stage(changes, members, self.fabric.graph.endpoint_count())?;
        for color in self.commit(staged) {
            self.replant(color);
        }
        Ok(())
    }

    fn set_faults(&mut self, faults: Faults) {
        self.fabric.set_faults(faults);
        let is_new = self.builder.look_around(&self.fabric);
        let hit: Vec<u16> =
            self.colors.in_use().filter(|color| is_new || self.is_hit(*color)).collect();
        for color in hit {
            self.replant(color);
        }
    }

    fn set_loads(&mut self, loads: Arc<PortLoads>) {
        self.builder.chooser.set_loads(loads);
    }

    fn faults(&self) -> &Faults {
        &self.fabric.faults
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn groups(&self) -> Vec<Mgid> {
        self.groups.keys().copied().collect()
    }

    fn group_count(&self) -> usize {
        self.groups.len()
    }

    fn members(&self, mgid: Mgid) -> Option<Vec<EndpointId>> {
        self.groups.get(&mgid).map(|group| group.members.clone())
    }

    /// The color of every group, and with the first group of every tree its root and ports.
    fn choices(&self) -> Vec<RecordedChoice> {
        self.record()
    }

    fn restore(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        self.recall(choices)
    }
}
