//! What every engine can do, which engines there are, and the one way to make them.
//!
//! [`Engine`] is the engine that the rest of the crate is built around; whoever
//! plans, verifies or programs switches only needs a [`RoutingEngine`].

use std::fmt::{self, Debug};
use std::str::FromStr;
use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, TableKind};
use thiserror::Error;

use crate::baselines::{Baseline, Rule};
use crate::engine::{Change, ChangeError, DynamicEngine, Engine, RootScope};
use crate::group_tree::GroupTree;
use crate::mgid::Mgid;
use crate::mr4lms::{Mr4lms, Mr4lmsOptions};
use crate::plan::{BrokenLink, Plan};
use crate::root_choice::PortLoads;
use crate::root_policy::RootPolicy;
use crate::spt::{Layout, LayoutError, MgidSpace};
use crate::verify;

/// Groups and faults in, a [`Plan`] out, change by change.
///
/// Engines are deterministic: the same calls in the same order give the same plan. Where the plan
/// depends on the order, [`RoutingEngine::choices`] holds what cannot be computed again.
pub trait RoutingEngine: Debug + Send + Sync {
    /// Tells which engine it is.
    fn kind(&self) -> EngineKind;

    /// Gives the fabric it plans for.
    fn graph(&self) -> &Arc<Graph>;

    /// Gives the numbers from which to choose MGIDs that this engine can keep apart.
    fn space(&self) -> &MgidSpace;

    /// Makes a batch of changes, in order, and brings the plan up to date.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] names the first change that cannot be made; then nothing has changed.
    fn apply(&mut self, changes: &[Change]) -> Result<(), ChangeError>;

    /// Takes over the faults as they are now and reroutes what they touch.
    fn set_faults(&mut self, faults: Faults);

    /// Gives the faults the plan goes round.
    fn faults(&self) -> &Faults;

    /// Gives the current plan; a copy of it is cheap.
    fn plan(&self) -> &Plan;

    /// Takes over newer loads of ports, by which roots are chosen from now on; nothing is planned anew.
    /// Engines without a [`EngineOptions::root_policy`] do not look at them.
    fn set_loads(&mut self, _loads: Arc<PortLoads>) {}

    /// Lists all groups, routed or not, in the engine's own order.
    fn groups(&self) -> Vec<Mgid>;

    /// Counts the groups.
    fn group_count(&self) -> usize {
        self.groups().len()
    }

    /// Gives the members of a group, cut off or not, in the engine's own order.
    fn members(&self, mgid: Mgid) -> Option<Vec<EndpointId>>;

    /// Gives the members of a group that its tree reaches; none if it does not exist or is not routed.
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
        });
        served.collect()
    }

    /// Gives the trees of one group: one, or two with fault tolerance; none if it does not exist, is not routed or
    /// has fewer than two live members.
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

    /// Gives what the engine chose and could not choose again from groups and faults alone; empty for
    /// engines whose plan is a pure function of those.
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

/// One thing that an engine chose. What the numbers mean is the engine's own affair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedChoice {
    /// The group it is about, or the virtual group by its name.
    pub mgid: Mgid,
    /// Which tree of the group, from 0.
    pub tree: u8,
    /// The part of the plan that the tree is in.
    pub part: u32,
    /// The root that was chosen, as the engine numbers roots.
    pub root: u32,
    /// The ports of the tree, rising, where they do not follow from the rest.
    pub ports: Vec<fabricast_topology::PortId>,
}

/// Why recorded choices are refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("choice {index}, group {mgid}: {problem}", mgid = .mgid.0)]
pub struct RestoreError {
    /// Position of the choice in the list, from 0.
    pub index: usize,
    /// Its group.
    pub mgid: Mgid,
    /// What is wrong with it.
    pub problem: RestoreProblem,
}

/// What is wrong with a recorded choice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RestoreProblem {
    /// The engine computes everything.
    #[error("{engine} has nothing to choose")]
    NothingToChoose {
        /// The engine.
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

/// The engines there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineKind {
    /// C-MR4LMS with the fixed root.
    CMr4lmsFixed,
    /// C-MR4LMS with dynamic roots.
    CMr4lmsDynamic,
    /// MR4LMS, for any topology.
    Mr4lms,
    /// OpenSM's tree along the min-hop table, one to a color.
    MinHopMc,
    /// OpenSM's tree over light links, one to a color.
    SsspMc,
    /// One tree for all groups.
    GlobalTree,
}

impl EngineKind {
    /// Every engine.
    pub const ALL: &'static [Self] = &[
        Self::CMr4lmsFixed,
        Self::CMr4lmsDynamic,
        Self::Mr4lms,
        Self::MinHopMc,
        Self::SsspMc,
        Self::GlobalTree,
    ];

    /// Tells whether the engine works on fat trees only.
    #[must_use]
    pub const fn needs_fat_tree(self) -> bool {
        match self {
            Self::CMr4lmsFixed | Self::CMr4lmsDynamic => true,
            Self::Mr4lms | Self::MinHopMc | Self::SsspMc | Self::GlobalTree => false,
        }
    }

    /// Tells whether there are equally good roots among which a [`RootPolicy`] can choose.
    #[must_use]
    pub const fn chooses_roots(self) -> bool {
        !matches!(self, Self::CMr4lmsFixed | Self::GlobalTree)
    }

    /// Gives the name in files and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CMr4lmsFixed => "c-mr4lms-fixed",
            Self::CMr4lmsDynamic => "c-mr4lms-dynamic",
            Self::Mr4lms => "mr4lms",
            Self::MinHopMc => "minhop-mc",
            Self::SsspMc => "sssp-mc",
            Self::GlobalTree => "global-tree",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Self, UnknownEngine> {
        let known = Self::ALL.iter().copied().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownEngine { name: name.to_owned() })
    }
}

/// No engine has the name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no engine {name:?}")]
pub struct UnknownEngine {
    /// The name.
    pub name: String,
}

/// What an engine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Entries of a multicast table, 1 to [`crate::MAX_COLORS`].
    pub colors: u16,
    /// How switches key their tables.
    pub tables: TableKind,
    /// Where an engine with dynamic roots looks for them.
    pub root_scope: RootScope,
    /// Whether every group has two trees, so that one of them may fail (C-MR4LMS with the fixed root).
    pub fault_tolerant: bool,
    /// Whether groups that a dead link has moved stay where they are when it is back (C-MR4LMS with the fixed
    /// root). Then the plan depends on the past.
    pub stay_after_healing: bool,
    /// How one of several equally good roots is chosen; none: each engine's own order decides.
    pub root_policy: Option<RootPolicy>,
}

impl EngineOptions {
    /// Gives the options of an engine for tables of this size and kind, everything else as usual.
    #[must_use]
    pub const fn new(colors: u16, tables: TableKind) -> Self {
        Self {
            colors,
            tables,
            root_scope: RootScope::Tn,
            fault_tolerant: false,
            stay_after_healing: false,
            root_policy: None,
        }
    }
}

/// Why an engine cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// Spanning trees cannot be numbered.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The engine works on fat trees only.
    #[error("{kind} needs a fat tree, and the fabric is none")]
    NeedsFatTree {
        /// The engine.
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
        /// The engine.
        kind: EngineKind,
    },
    /// The engine never has several roots to choose from.
    #[error("{kind} has no roots to choose from")]
    NoRootPolicy {
        /// The engine.
        kind: EngineKind,
    },
    /// Only C-MR4LMS with the fixed root plans two trees for each group.
    #[error("{kind} has no fault tolerance; c-mr4lms-fixed has")]
    NoFaultTolerance {
        /// The engine.
        kind: EngineKind,
    },
}

/// Gives the numbers from which to choose MGIDs for an engine, as [`RoutingEngine::space`] does,
/// without making it.
///
/// # Errors
///
/// [`BuildError`] if the colors are out of range, or the engine needs the fat tree that is missing.
pub fn mgid_space(
    kind: EngineKind,
    fat_tree: Option<&FatTree>,
    options: EngineOptions,
) -> Result<MgidSpace, BuildError> {
    let EngineOptions { colors, tables, fault_tolerant, .. } = options;
    check_options(kind, options)?;
    if !kind.needs_fat_tree() {
        return Ok(MgidSpace::any(colors)?);
    }
    let fat_tree = fat_tree.ok_or(BuildError::NeedsFatTree { kind })?;
    let number = if fault_tolerant { Layout::dual } else { Layout::new };
    Ok(*number(fat_tree.params(), colors, tables)?.space())
}

/// Refuses what the engine cannot do.
fn check_options(kind: EngineKind, options: EngineOptions) -> Result<(), BuildError> {
    let is_fixed = kind == EngineKind::CMr4lmsFixed;
    if options.fault_tolerant && !is_fixed {
        return Err(BuildError::NoFaultTolerance { kind });
    }
    if options.stay_after_healing && !is_fixed {
        return Err(BuildError::NoStay { kind });
    }
    if options.root_policy.is_some() && !kind.chooses_roots() {
        return Err(BuildError::NoRootPolicy { kind });
    }
    Ok(())
}

/// Makes an engine without groups or faults.
///
/// `fat_tree` is the fat-tree view of `graph`, if it has one; not every engine needs it.
///
/// # Errors
///
/// [`BuildError`] if the engine cannot do what the options ask for on this fabric.
pub fn build_engine(
    kind: EngineKind,
    graph: Arc<Graph>,
    fat_tree: Option<Arc<FatTree>>,
    options: EngineOptions,
) -> Result<Box<dyn RoutingEngine>, BuildError> {
    check_options(kind, options)?;
    let needed = || fat_tree.ok_or(BuildError::NeedsFatTree { kind });
    Ok(match kind {
        EngineKind::CMr4lmsFixed => Box::new(Engine::new(graph, needed()?, options)?),
        EngineKind::CMr4lmsDynamic => Box::new(DynamicEngine::new(graph, needed()?, options)?),
        EngineKind::Mr4lms => {
            let own = Mr4lmsOptions::new(options.colors, options.tables);
            let options = Mr4lmsOptions { root_policy: options.root_policy, ..own };
            Box::new(Mr4lms::new(graph, options)?)
        }
        EngineKind::MinHopMc => Box::new(Baseline::new(graph, Rule::MinHop, options)?),
        EngineKind::SsspMc => Box::new(Baseline::new(graph, Rule::LightestPath, options)?),
        EngineKind::GlobalTree => Box::new(Baseline::new(graph, Rule::GlobalTree, options)?),
    })
}
