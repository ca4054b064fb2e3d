//! MR4LMS: multicast routing for a limited table size on any topology.
//!
//! Source: MR4LMS (Journal of Computer Research and Development 59(4), 2022). Every group gets the lowest
//! tree there is, over links that carry little. Trees that do not meet may have one color; where
//! no color is left, groups are merged to a virtual group with one tree.
//!
//! What a tree looks like depends on those that were there before, so the plan depends on the order in
//! which groups come. The engine is deterministic for a given order; what it chose can be written down, and
//! an engine that makes the same choices again is from then on the same engine.
//!
//! Invariants
//! - R1, R2, R4 hold after every call, and a refused batch changes nothing.
//! - A group whose members did not change keeps its tree, but for links that only others needed and unless the
//!   tree is broken or, if so configured, rebuilt for a merge.
//!
//! Departures from the paper: members that come and go, and faults, see [`change`]; path lengths, see [`weave`].

mod center;
mod change;
mod clearing;
mod climb;
mod distance;
pub(crate) mod fabric;
mod flood;
mod forest;
mod ledger;
mod merge;
mod place;
mod restore;
pub(crate) mod staging;
pub(crate) mod survey;
mod walk;
mod weave;

use std::sync::Arc;

use fabricast_topology::{EndpointId, Faults, Graph, TableKind};
use fixedbitset::FixedBitSet;

use crate::engine::{Change, ChangeError};
use crate::engines::{EngineKind, RecordedChoice, RestoreError, RoutingEngine};
use crate::mgid::Mgid;
use crate::plan::{PartBuilder, Plan, PlannedTree};
use crate::root_choice::{PortLoads, RootChooser};
use crate::root_policy::RootPolicy;
use crate::spt::{LayoutError, MgidSpace};
use fabric::Fabric;
use forest::{Forest, Tree};
pub use place::Turn;

/// Routes groups one after the other, each as well as those before it allow.
#[derive(Clone, Debug)]
pub struct Mr4lms {
    options: Mr4lmsOptions,
    space: MgidSpace,
    fabric: Fabric,
    forest: Forest,
    turn: Turn,
    tools: Tools,
    plan: Plan,
}

/// What the engine is for, and the choices the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mr4lmsOptions {
    /// Entries of a multicast table, 1 to [`crate::MAX_COLORS`].
    pub colors: u16,
    /// How switches key their tables.
    pub tables: TableKind,
    /// What becomes of the trees of groups that are merged.
    pub merge_policy: MergePolicy,
    /// With whom a group is merged.
    pub merge_partner: MergePartner,
    /// After so many groups in a row that a color was found for first, trees are built first again.
    pub successes_in_a_row: u32,
    /// How one of several equally high trees is chosen, where a tree is built first; none: the root with
    /// the least load by the engine's own count.
    pub root_policy: Option<RootPolicy>,
}

impl Mr4lmsOptions {
    /// Gives the options for tables of this size and kind, everything else as usual.
    #[must_use]
    pub const fn new(colors: u16, tables: TableKind) -> Self {
        Self {
            colors,
            tables,
            merge_policy: MergePolicy::Keep,
            merge_partner: MergePartner::Nearest,
            successes_in_a_row: 20,
            root_policy: None,
        }
    }
}

/// What becomes of the trees of groups that are merged (MR4LMS §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergePolicy {
    /// They stay and branches are added.
    Keep,
    /// One new tree is made for all.
    Rebuild,
}

/// With whom a group is merged (MR4LMS §3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergePartner {
    /// With the nearest tree, and with what is in the way if that is not enough.
    Nearest,
    /// With what is in the way under the color that has the fewest groups: cheaper.
    RarestColor,
}

/// Buffers that searches use again and again.
#[derive(Clone, Debug, Default)]
struct Tools {
    chooser: RootChooser,
    survey: survey::Survey,
    climber: climb::Climber,
    flood: flood::Flood,
    weaver: weave::Weaver,
    center: center::Center,
    walk: walk::Walk,
    distances: distance::Distances,
    targets: FixedBitSet,
}

impl Mr4lms {
    /// Makes an engine without groups or faults.
    ///
    /// Cost: that of [`crate::MinHops::new`].
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if the colors are out of range.
    pub fn new(graph: Arc<Graph>, options: Mr4lmsOptions) -> Result<Self, LayoutError> {
        let space = MgidSpace::any(options.colors)?;
        let fabric = Fabric::new(graph, options.tables);
        Ok(Self {
            options,
            space,
            forest: Forest::new(&fabric, options.colors),
            fabric,
            turn: Turn::BuildFirst,
            tools: Tools { chooser: RootChooser::new(options.root_policy), ..Tools::default() },
            plan: Plan::listed(options.colors, options.tables),
        })
    }

    /// Gives the options it was made with.
    #[must_use]
    pub const fn options(&self) -> &Mr4lmsOptions {
        &self.options
    }

    fn plant(&mut self, tree: Tree) {
        let number = self.forest.plant(&self.fabric, tree);
        self.tools.distances.forget(number);
    }

    fn fell(&mut self, number: u32) -> Tree {
        self.forest.fell(&self.fabric, number)
    }

    fn share(&mut self, number: u32, mgid: Mgid) {
        self.forest.share(&self.fabric, number, mgid);
        self.tools.distances.forget(number);
    }

    /// Brings the plan up to date where trees or members have changed.
    fn write_plan(&mut self) {
        let touched = std::mem::take(&mut self.forest.touched);
        self.forest.touched = vec![false; touched.len()];
        for color in (0u16..).zip(touched).filter(|(_, touched)| *touched).map(|(color, _)| color) {
            let mut part = PartBuilder::new(u32::from(color), color);
            let served = |mgid: &Mgid| {
                let seats = self.forest.group(*mgid).seats.len();
                (*mgid, u32::try_from(seats).expect("a graph has fewer than 2^32 endpoints"))
            };
            let mut note = |tree: PlannedTree| {
                for (mgid, _) in &tree.groups {
                    self.forest.group(*mgid).cut_off.iter().for_each(|cut| part.cut_off(*cut));
                }
                part.add(tree);
            };
            for tree in self.forest.trees_of(color) {
                note(PlannedTree {
                    root: Some(tree.root),
                    ports: tree.ports.clone(),
                    groups: tree.groups.iter().map(served).collect(),
                });
            }
            if color == 0 {
                // Here are the groups with nobody to send to, too.
                let alone = self.forest.groups.iter().filter(|(_, group)| group.tree.is_none());
                for (mgid, _) in alone {
                    let groups = vec![served(mgid)];
                    note(PlannedTree { root: None, ports: Vec::new(), groups });
                }
            }
            self.plan.set_part(u32::from(color), part);
        }
    }
}

impl RoutingEngine for Mr4lms {
    fn kind(&self) -> EngineKind {
        EngineKind::Mr4lms
    }

    fn graph(&self) -> &Arc<Graph> {
        &self.fabric.graph
    }

    fn space(&self) -> &MgidSpace {
        &self.space
    }

    /// Cost of a new group: see [`MergePartner`]; without a merge, the leaves of the group times the switches for
    /// the roots, and for each root that is tried what lies between it and the members.
    fn apply(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        let members = |mgid: Mgid| self.forest.groups.get(&mgid).map(|group| &group.members[..]);
        let staged = staging::stage(changes, members, self.fabric.graph.endpoint_count())?;
        self.change(staged);
        self.write_plan();
        Ok(())
    }

    fn set_faults(&mut self, faults: Faults) {
        self.change_faults(faults);
        self.write_plan();
    }

    fn set_loads(&mut self, loads: Arc<PortLoads>) {
        self.tools.chooser.set_loads(loads);
    }

    fn faults(&self) -> &Faults {
        &self.fabric.faults
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn groups(&self) -> Vec<Mgid> {
        self.forest.groups.keys().copied().collect()
    }

    fn group_count(&self) -> usize {
        self.forest.groups.len()
    }

    fn members(&self, mgid: Mgid) -> Option<Vec<EndpointId>> {
        self.forest.groups.get(&mgid).map(|group| group.members.clone())
    }

    fn choices(&self) -> Vec<RecordedChoice> {
        self.record()
    }

    /// The choices must be in the order in which they were listed. Cost: the ports of all trees.
    fn restore(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        self.recall(choices)?;
        self.write_plan();
        Ok(())
    }
}
