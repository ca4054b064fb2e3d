//! The interface of every engine, what a kind of engine is, and their options.
//!
//! Code that plans, verifies or programs switches only needs a [`RoutingEngine`], made by
//! [`crate::build_engine()`].

use std::cmp::Ordering;
use std::fmt::{self, Debug};
use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Mgid, TableKind};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::change::{Change, ChangeError};
use crate::group_tree::GroupTree;
use crate::mr4lms::{MergePartner, MergePolicy};
use crate::plan::{BrokenLink, Plan};
use crate::root_choice::PortLoads;
use crate::root_policy::RootPolicy;
use crate::spt::{LayoutError, MgidSpace};
use crate::verify;

/// Groups and faults in, a [`Plan`] out, change by change.
///
/// Engines are deterministic: the same calls in the same order give the same plan. Where the plan
/// depends on the order, [`RoutingEngine::choices`] holds what cannot be computed again.
pub trait RoutingEngine: Debug + Send + Sync {
    /// Returns the kind of the engine.
    fn kind(&self) -> EngineKind;

    /// Returns the fabric that it plans for.
    fn graph(&self) -> &Arc<Graph>;

    /// Returns the numbers from which to choose MGIDs that this engine can keep apart.
    fn space(&self) -> &MgidSpace;

    /// Makes a batch of changes, in order, and brings the plan up to date.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] names the first change that cannot be made; then nothing has changed.
    fn apply(&mut self, changes: &[Change]) -> Result<(), ChangeError>;

    /// Takes over the faults as they are now and reroutes what they touch.
    fn set_faults(&mut self, faults: Faults);

    /// Returns the faults the plan goes round.
    fn faults(&self) -> &Faults;

    /// Returns the current plan; a copy of it is cheap.
    fn plan(&self) -> &Plan;

    /// Takes over newer loads of ports, by which roots are chosen from now on; nothing is planned
    /// anew. Engines without a [`EngineOptions::root_policy`] do not look at them.
    fn set_loads(&mut self, _loads: Arc<PortLoads>) {}

    /// Lists all groups, routed or not, in the engine's own order.
    fn groups(&self) -> Vec<Mgid>;

    /// Counts the groups.
    fn group_count(&self) -> usize {
        self.groups().len()
    }

    /// Returns the members of a group, cut off or not, in the engine's own order.
    fn members(&self, mgid: Mgid) -> Option<Vec<EndpointId>>;

    /// Returns the members of a group that its tree reaches; none if it does not exist or is not
    /// routed.
    fn live_members(&self, mgid: Mgid) -> Option<Vec<EndpointId>> {
        let cut_off = self.plan().group(mgid)?.cut_off;
        let mut members = self.members(mgid)?;
        members.retain(|member| !cut_off.iter().any(|cut| cut.endpoint == *member));
        Some(members)
    }

    /// Lists the routed groups with the members their trees reach, as the verifier wants them.
    fn delivery_groups(&self) -> Vec<verify::Group> {
        let groups = self.plan().groups();
        let served = groups.map(|group| verify::Group {
            mgid: group.mgid,
            colors: self.plan().sender_colors(group.mgid),
            copies: if self.plan().is_dual() { 2 } else { 1 },
            virtual_group: group.virtual_group.0,
            members: self.live_members(group.mgid).expect("the plan's groups exist"),
            only_senders: Vec::new(),
        });
        served.collect()
    }

    /// Returns the trees of one group: one, or two with fault tolerance; none if it does not exist,
    /// is not routed or has fewer than two live members.
    fn group_trees(&self, mgid: Mgid) -> Vec<GroupTree> {
        let plan = self.plan();
        let shared = plan.group(mgid).filter(|group| group.has_tree());
        let shared = shared.and_then(|_| plan.virtual_group_of(mgid));
        let (Some(shared), Some(live)) = (shared, self.live_members(mgid)) else {
            return Vec::new();
        };
        let ports = live.iter().filter_map(|member| self.graph().attachment(*member)).collect();
        GroupTree::cut_out(self.graph(), &shared, ports).into_iter().collect()
    }

    /// Gives what the engine chose and could not choose again from groups and faults alone; empty
    /// for engines whose plan is a pure function of those.
    fn choices(&self) -> Vec<RecordedChoice> {
        Vec::new()
    }

    /// Makes recorded choices again. With the groups and faults of the time when they were
    /// recorded, applied before, the plan is then the same.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] names the first choice that does not fit; then nothing has changed.
    fn restore(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        match choices.first() {
            None => Ok(()),
            Some(choice) => {
                let problem = RestoreProblem::NothingToChoose { engine: self.kind() };
                Err(RestoreError { index: 0, mgid: choice.mgid, problem })
            }
        }
    }
}

/// One thing that an engine chose. The meaning of the numbers is the engine's own affair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedChoice {
    /// The group it is about, or the virtual group by its name.
    pub mgid: Mgid,
    /// Number of the tree in its group, from 0.
    pub tree: u8,
    /// The part of the plan that the tree is in.
    pub part: u32,
    /// The root that was chosen, as the engine numbers roots.
    pub root: u32,
    /// The ports of the tree, rising, where they do not follow from the rest.
    pub ports: Vec<fabricast_topology::PortId>,
}

/// Reason why recorded choices are refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("choice {index}, group {mgid}: {problem}", mgid = .mgid.0)]
pub struct RestoreError {
    /// Position of the choice in the list, from 0.
    pub index: usize,
    /// Group that the choice names.
    pub mgid: Mgid,
    /// The rule that the choice breaks.
    pub problem: RestoreProblem,
}

/// Reasons to refuse a recorded choice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreProblem {
    /// The engine computes everything.
    #[error("{engine} has nothing to choose")]
    NothingToChoose {
        /// Kind of the engine.
        engine: EngineKind,
    },
    /// The MGID names no group.
    #[error("mgid: there is no such group")]
    UnknownGroup,
    /// Two choices are about one tree of one group.
    #[error("mgid: two choices are about one tree of it")]
    Twice,
    /// The engine has no such tree.
    #[error("tree, part, root: there is no such tree")]
    UnknownTree,
    /// There is nothing to choose for the group.
    #[error("mgid: fewer than two members of the group are live")]
    FewerThanTwoMembers,
    /// A link of the tree is dead or missing.
    #[error("root: the tree needs {link}")]
    TreeBroken {
        /// The first such link.
        link: BrokenLink,
    },
    /// Another choice has the place.
    #[error("root: a choice before it has a link of this tree for another one")]
    Conflict,
}

/// One of the engines there are.
///
/// Each is a constant of this type, made by a line of `engines!` in `build_engine.rs`.
#[derive(Clone, Copy)]
pub struct EngineKind(&'static EngineEntry);

/// The name and the abilities of one kind of engine, and how it is made; the public methods of
/// [`EngineKind`] say what each field means. Every engine has one in its own file.
pub(crate) struct EngineEntry {
    pub(crate) name: &'static str,
    pub(crate) needs_fat_tree: bool,
    pub(crate) chooses_roots: bool,
    pub(crate) has_root_scopes: bool,
    pub(crate) chooses_merges: bool,
    pub(crate) fault_tolerance: bool,
    pub(crate) stay_after_healing: bool,
    pub(crate) plan_depends_on_history: bool,
    pub(crate) groups_hang_together: bool,
    pub(crate) color_use: ColorUse,
    /// Makes an engine without groups or faults; what the entry excludes is never asked for.
    pub(crate) build: fn(EngineInput) -> Result<Box<dyn RoutingEngine>, BuildError>,
}

impl EngineEntry {
    /// Gives the entry of an engine for any topology that chooses roots and has no other ability.
    pub(crate) const fn new(
        name: &'static str,
        build: fn(EngineInput) -> Result<Box<dyn RoutingEngine>, BuildError>,
    ) -> Self {
        Self {
            name,
            needs_fat_tree: false,
            chooses_roots: true,
            has_root_scopes: false,
            chooses_merges: false,
            fault_tolerance: false,
            stay_after_healing: false,
            plan_depends_on_history: true,
            groups_hang_together: false,
            color_use: ColorUse::ManyTrees,
            build,
        }
    }
}

/// The fabric and the options that an engine is made from.
pub(crate) struct EngineInput {
    pub(crate) kind: EngineKind,
    pub(crate) graph: Arc<Graph>,
    pub(crate) fat_tree: Option<Arc<FatTree>>,
    pub(crate) options: EngineOptions,
}

impl EngineInput {
    /// Takes the fat-tree view, which the fabric must have.
    pub(crate) fn fat_tree(&mut self) -> Result<Arc<FatTree>, BuildError> {
        self.fat_tree.take().ok_or(BuildError::NeedsFatTree { kind: self.kind })
    }
}

/// The trees that one color has in the whole fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorUse {
    /// As many as do not meet.
    ManyTrees,
    OneTree,
    /// One, and no other color has any.
    OneTreeInAll,
}

impl EngineKind {
    /// Makes the kind of an entry.
    pub(crate) const fn new(entry: &'static EngineEntry) -> Self {
        Self(entry)
    }

    /// Makes an engine of this kind.
    pub(crate) fn build(self, input: EngineInput) -> Result<Box<dyn RoutingEngine>, BuildError> {
        (self.0.build)(input)
    }

    /// Gives the trees that one color has.
    pub(crate) const fn color_use(self) -> ColorUse {
        self.0.color_use
    }

    /// Tells whether the engine works on fat trees only.
    #[must_use]
    pub const fn needs_fat_tree(self) -> bool {
        self.0.needs_fat_tree
    }

    /// Tells whether there are equally good roots among which a [`RootPolicy`] can choose.
    #[must_use]
    pub const fn chooses_roots(self) -> bool {
        self.0.chooses_roots
    }

    /// Tells whether [`EngineOptions::root_scope`] makes a difference.
    #[must_use]
    pub const fn has_root_scopes(self) -> bool {
        self.0.has_root_scopes
    }

    /// Tells whether [`EngineOptions::merge_policy`] and [`EngineOptions::merge_partner`] make a
    /// difference.
    #[must_use]
    pub const fn chooses_merges(self) -> bool {
        self.0.chooses_merges
    }

    /// Tells whether [`EngineOptions::deadlock_free`] may have a value: the trees of engines that
    /// need a fat tree go up and then down, whatever is asked for.
    #[must_use]
    pub const fn can_be_deadlock_free(self, is_wanted: bool) -> bool {
        self.0.chooses_merges || is_wanted && self.0.needs_fat_tree
    }

    /// Tells whether the engine can plan two trees for every group.
    #[must_use]
    pub const fn supports_fault_tolerance(self) -> bool {
        self.0.fault_tolerance
    }

    /// Tells whether [`EngineOptions::stay_after_healing`] can be set.
    #[must_use]
    pub const fn supports_stay_after_healing(self) -> bool {
        self.0.stay_after_healing
    }

    /// Tells whether groups share a tree only if they are connected by links that two of them use,
    /// or with per-switch tables by switches.
    #[must_use]
    pub const fn groups_hang_together(self) -> bool {
        self.0.groups_hang_together
    }

    /// Tells whether the same groups and faults can give different plans, by the order in which
    /// they came. If not, recomputing changes nothing, but for groups that
    /// [`EngineOptions::stay_after_healing`] keeps where they went.
    #[must_use]
    pub const fn plan_depends_on_history(self) -> bool {
        self.0.plan_depends_on_history
    }

    /// Returns the name in files and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Debug for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for EngineKind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for EngineKind {}

impl PartialOrd for EngineKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EngineKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

/// No engine has the name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no engine {name:?}")]
pub struct UnknownEngine {
    /// Name that was given.
    pub name: String,
}

/// Part of the fabric where the dynamic engine looks for roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RootScope {
    /// In the top midplane of the spanning tree, as the paper has it.
    Tn,
    /// In all top midplanes of its group. Two trees then can meet in a level-1 switch, so this
    /// needs per-port tables.
    TnGroup,
}

impl RootScope {
    /// Returns the name in files, records and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tn => "tn",
            Self::TnGroup => "tn-group",
        }
    }
}

/// Options of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineOptions {
    /// Entries of a multicast table, 1 to [`crate::MAX_COLORS`].
    pub colors: u16,
    /// Kind of the switches' tables.
    pub tables: TableKind,
    /// Part of the fabric where an engine with dynamic roots looks for them; none:
    /// [`EngineOptions::usual_root_scope`].
    pub root_scope: Option<RootScope>,
    /// Gives every group two trees, so that one of them may fail
    /// ([`EngineKind::supports_fault_tolerance`]).
    pub fault_tolerant: bool,
    /// Keeps groups that a dead link has moved where they are when it is back
    /// ([`EngineKind::supports_stay_after_healing`]). The plan then depends on history.
    pub stay_after_healing: bool,
    /// Chooses among equally good roots; none: each engine's own order decides.
    pub root_policy: Option<RootPolicy>,
    /// Treatment of the trees of groups that are merged; none: [`MergePolicy::Keep`].
    pub merge_policy: Option<MergePolicy>,
    /// Choice of the tree that a group is merged with; none: [`MergePartner::Nearest`].
    pub merge_partner: Option<MergePartner>,
    /// Keeps trees to an order of the switches, so that packets on them cannot deadlock; none: on
    /// fabrics with levels ([`crate::UpDown::of_levels`]). C-MR4LMS's trees
    /// always do ([`EngineKind::can_be_deadlock_free`]).
    pub deadlock_free: Option<bool>,
}

impl EngineOptions {
    /// Returns the options of an engine for tables of this size and kind, everything else as usual.
    #[must_use]
    pub const fn new(colors: u16, tables: TableKind) -> Self {
        Self {
            colors,
            tables,
            root_scope: None,
            fault_tolerant: false,
            stay_after_healing: false,
            root_policy: None,
            merge_policy: None,
            merge_partner: None,
            deadlock_free: None,
        }
    }

    /// Returns the root scope if none is given: the widest that the tables allow, which merges
    /// least.
    #[must_use]
    pub const fn usual_root_scope(tables: TableKind) -> RootScope {
        match tables {
            TableKind::PerPort => RootScope::TnGroup,
            TableKind::PerSwitch => RootScope::Tn,
        }
    }

    /// Returns the root scope that an engine with dynamic roots uses.
    #[must_use]
    pub fn effective_root_scope(&self) -> RootScope {
        self.root_scope.unwrap_or(Self::usual_root_scope(self.tables))
    }

    /// Returns the engine that one of these options selects, and the name of the option: the only
    /// engine that has it, and of those with fault tolerance the one with dynamic roots if there is
    /// a root policy, or else the one with the fixed root. `None` if no option selects an engine.
    #[must_use]
    pub fn implied_engine(&self) -> Option<(EngineKind, &'static str)> {
        let two_trees = match self.root_policy {
            Some(_) => EngineKind::CMr4lmsDynamic,
            None => EngineKind::CMr4lmsFixed,
        };
        let implied = [
            (self.stay_after_healing, EngineKind::CMr4lmsFixed, "stay_after_healing"),
            (self.root_scope.is_some(), EngineKind::CMr4lmsDynamic, "root_scope"),
            (self.merge_policy.is_some(), EngineKind::Mr4lms, "merge_policy"),
            (self.merge_partner.is_some(), EngineKind::Mr4lms, "merge_partner"),
            (self.deadlock_free == Some(false), EngineKind::Mr4lms, "deadlock_free"),
            (self.fault_tolerant, two_trees, "fault_tolerant"),
        ];
        let given = implied.into_iter().find(|(is_given, ..)| *is_given);
        given.map(|(_, kind, option)| (kind, option))
    }
}

/// Reason why an engine cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// Spanning trees cannot be numbered.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The engine works on fat trees only.
    #[error("{kind} needs a fat tree, and the fabric is none")]
    NeedsFatTree {
        /// Kind of the engine.
        kind: EngineKind,
    },
    /// Trees with roots in several midplanes of a TN group meet in level-1 switches.
    #[error(
        "roots in a whole TN group need per-port tables; with per-switch tables only those of one TN can be had"
    )]
    ScopeNeedsPerPortTables,
    /// The engine has its own way.
    #[error(
        "{kind} decides by itself where groups stay after a failure; c-mr4lms-fixed can be told"
    )]
    NoStay {
        /// Kind of the engine.
        kind: EngineKind,
    },
    /// The engine never has several roots to choose from.
    #[error("{kind} has no roots to choose from")]
    NoRootPolicy {
        /// Kind of the engine.
        kind: EngineKind,
    },
    /// The engine has no dynamic roots.
    #[error("{kind} has no choice of root scopes; c-mr4lms-dynamic has")]
    NoRootScope {
        /// Kind of the engine.
        kind: EngineKind,
    },
    /// The engine has no choice in how it merges groups.
    #[error("{kind} has no choice in the treatment of merged trees; mr4lms has")]
    NoMergePolicy {
        /// Kind of the engine.
        kind: EngineKind,
    },
    /// The engine has no choice of the groups that it merges.
    #[error("{kind} has no choice of the tree that a group is merged with; mr4lms has")]
    NoMergePartner {
        /// Kind of the engine.
        kind: EngineKind,
    },
    /// The engine's trees are as they are.
    #[error(
        "{kind} cannot be told whether to avoid deadlocks; mr4lms can, and C-MR4LMS always does"
    )]
    NoDeadlockFree {
        /// Kind of the engine.
        kind: EngineKind,
    },
    /// Only C-MR4LMS plans two trees for each group.
    #[error("{kind} has no fault tolerance; c-mr4lms-fixed, -dynamic and -hybrid have")]
    NoFaultTolerance {
        /// Kind of the engine.
        kind: EngineKind,
    },
}

impl BuildError {
    /// Returns the name of the setting at fault: a field of [`EngineOptions`], or `engine`.
    #[must_use]
    pub const fn option(&self) -> &'static str {
        match self {
            Self::Layout(LayoutError::NoSecondTree | LayoutError::NoSecondEntry)
            | Self::NoFaultTolerance { .. } => "fault_tolerant",
            Self::Layout(_) => "colors",
            Self::NeedsFatTree { .. } => "engine",
            Self::ScopeNeedsPerPortTables | Self::NoRootScope { .. } => "root_scope",
            Self::NoStay { .. } => "stay_after_healing",
            Self::NoRootPolicy { .. } => "root_policy",
            Self::NoMergePolicy { .. } => "merge_policy",
            Self::NoMergePartner { .. } => "merge_partner",
            Self::NoDeadlockFree { .. } => "deadlock_free",
        }
    }
}
