//! A fabric, an engine and groups, to be routed with tables of one size after another.
//!
//! To compare table sizes, MGIDs have to be chosen anew for each size: the
//! mapping from MGIDs to trees depends on the size, and so do the layers of a pattern.

use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Graph, Mgid};
use thiserror::Error;

use crate::build_engine::{build_engine, mgid_space};
use crate::change::{Change, ChangeError};
use crate::formats::{GroupRecord, allot_mgids};
use crate::patterns::{PatternError, PatternGroup};
use crate::root_choice::PortLoads;
use crate::routing_engine::{BuildError, EngineKind, EngineOptions, RoutingEngine};
use crate::spt::{LayoutError, MAX_COLORS, MgidSpace};

/// A fabric, an engine and groups to be routed.
#[derive(Clone, Copy, Debug)]
pub struct Scenario<'a> {
    /// Graph of the network.
    pub graph: &'a Arc<Graph>,
    /// Its fat-tree view, if it has one.
    pub fat_tree: Option<&'a Arc<FatTree>>,
    /// Kind of the engine.
    pub kind: EngineKind,
    /// Options of the engine; the size of the tables is given with each call.
    pub options: EngineOptions,
    /// Loads of ports, for an engine with a root policy.
    pub loads: Option<&'a Arc<PortLoads>>,
    /// Groups to be routed, or the pattern that makes them.
    pub groups: GroupSource<'a>,
}

/// Makes the groups of a pattern with MGIDs of a space.
pub type PatternMaker<'a> = dyn Fn(&MgidSpace) -> Result<Vec<PatternGroup>, PatternError> + 'a;

/// Source of the groups. For every table size they come in the same order with the same
/// members.
#[derive(Clone, Copy)]
pub enum GroupSource<'a> {
    /// Groups with MGIDs that stay, or without; [`allot_mgids`] chooses those that are missing.
    Listed(&'a [GroupRecord]),
    /// Groups that get MGIDs by layers.
    Pattern(&'a PatternMaker<'a>),
}

impl std::fmt::Debug for GroupSource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Listed(groups) => write!(f, "{} groups", groups.len()),
            Self::Pattern(_) => f.write_str("a pattern"),
        }
    }
}

/// A scenario routed with tables of one size.
#[derive(Debug)]
pub struct Routed {
    /// The engine, with all groups.
    pub engine: Box<dyn RoutingEngine>,
    /// The MGID of every group, in the order of the source.
    pub mgids: Vec<Mgid>,
}

/// Reason why a scenario cannot be routed with tables of some size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScenarioError {
    /// The engine cannot be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The groups cannot be made.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The engine refuses the groups.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl ScenarioError {
    /// Tells whether larger tables would help: the layers of a pattern need more colors, or the two
    /// trees of a group more than one.
    #[must_use]
    pub const fn is_too_few_colors(&self) -> bool {
        matches!(
            self,
            Self::Pattern(PatternError::TooFewColors(_))
                | Self::Build(BuildError::Layout(LayoutError::NoSecondEntry))
        )
    }
}

impl Scenario<'_> {
    /// Returns the same scenario for another engine, without the choices that it does not have. Two
    /// trees for each group stay required.
    #[must_use]
    pub fn with_engine(self, kind: EngineKind) -> Self {
        let options = EngineOptions {
            root_scope: self.options.root_scope.filter(|_| kind.has_root_scopes()),
            stay_after_healing: self.options.stay_after_healing
                && kind.supports_stay_after_healing(),
            root_policy: self.options.root_policy.filter(|_| kind.chooses_roots()),
            merge_policy: self.options.merge_policy.filter(|_| kind.chooses_merges()),
            merge_partner: self.options.merge_partner.filter(|_| kind.chooses_merges()),
            deadlock_free: self
                .options
                .deadlock_free
                .filter(|wanted| kind.can_be_deadlock_free(*wanted)),
            ..self.options
        };
        Self { kind, options, ..self }
    }

    /// Routes all groups, in their order, with tables of `colors` entries.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] if the engine cannot be made, or does not take the groups.
    pub fn route(&self, colors: u16) -> Result<Routed, ScenarioError> {
        let options = EngineOptions { colors, ..self.options };
        let fat_tree = self.fat_tree.cloned();
        let mut engine = build_engine(self.kind, Arc::clone(self.graph), fat_tree, options)?;
        if let Some(loads) = self.loads {
            engine.set_loads(Arc::clone(loads));
        }
        let changes = self.groups.put(engine.space())?;
        engine.apply(&changes)?;
        let mgids = changes.iter().map(Change::mgid).collect();
        Ok(Routed { engine, mgids })
    }

    /// Lists the members of every group, in the order of the source.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] if the groups cannot be made, however large the tables.
    pub fn members(&self) -> Result<Vec<Vec<EndpointId>>, ScenarioError> {
        Ok(match self.groups {
            GroupSource::Listed(groups) => groups.iter().map(|one| one.members.clone()).collect(),
            GroupSource::Pattern(make) => {
                let options = EngineOptions { colors: MAX_COLORS, ..self.options };
                let space = mgid_space(self.kind, self.fat_tree.map(|one| &**one), options)?;
                make(&space)?.into_iter().map(|one| one.members).collect()
            }
        })
    }
}

impl GroupSource<'_> {
    fn put(&self, space: &MgidSpace) -> Result<Vec<Change>, PatternError> {
        Ok(match self {
            Self::Listed(records) => {
                let mgids = allot_mgids(records, *space);
                let put = |(mgid, record): (Mgid, &GroupRecord)| Change::Put {
                    mgid,
                    members: record.members.clone(),
                };
                mgids.into_iter().zip(*records).map(put).collect()
            }
            Self::Pattern(make) => {
                let put =
                    |group: PatternGroup| Change::Put { mgid: group.mgid, members: group.members };
                make(space)?.into_iter().map(put).collect()
            }
        })
    }
}
