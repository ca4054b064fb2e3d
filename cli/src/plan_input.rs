//! A fabric, an engine and groups, as the command line gives them to the verbs that plan offline.

use std::fmt;
use std::sync::Arc;

use anyhow::Context;
use fabricast_routing::formats::GroupRecord;
use fabricast_routing::{
    Advice, BuildError, ChosenEngine, EngineKind, EngineOptions, GroupSource, MAX_COLORS,
    MergePartner, MergePolicy, MgidSpace, PatternGroup, PatternMaker, PortLoads, RootScope, Routed,
    Scenario, ScenarioError, choose_engine, refused_options,
};
use fabricast_topology::{FatTree, TableKind};

use crate::args::{EngineArgs, GroupArgs, Merging, OfflineEngineArgs, Partner, Scope, Tables};
use crate::failure::Failure;
use crate::group_file;
use crate::loads;
use crate::pattern::Pattern;
use crate::source::Topology;

/// Topology, engine and groups of an offline plan.
pub(crate) struct PlanInput {
    pub(crate) topology: Topology,
    fat_tree: Option<Arc<FatTree>>,
    kind: EngineKind,
    options: EngineOptions,
    loads: Option<Arc<PortLoads>>,
    groups: Groups,
}

/// Groups to be planned.
pub(crate) enum Groups {
    Listed(Vec<GroupRecord>),
    Pattern { text: String, make: Box<PatternMaker<'static>> },
}

impl fmt::Debug for PlanInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}, {:?}", self.kind, self.topology.title, self.options)
    }
}

impl PlanInput {
    /// Reads everything.
    ///
    /// # Errors
    ///
    /// Names the option or the file, the line and the field that is wrong.
    pub(crate) fn read(
        topology: &str,
        groups: &GroupArgs,
        engine: &OfflineEngineArgs,
    ) -> Result<Self, Failure> {
        Self::read_or(topology, groups, engine, None)
    }

    /// Reads everything for [`Self::choose_engine`]: where there is no fat tree, MR4LMS takes the
    /// place of an engine that needs one.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub(crate) fn read_for_choice(
        topology: &str,
        groups: &GroupArgs,
        engine: &OfflineEngineArgs,
    ) -> Result<Self, Failure> {
        Self::read_or(topology, groups, engine, Some(EngineKind::Mr4lms))
    }

    fn read_or(
        topology: &str,
        groups: &GroupArgs,
        engine: &OfflineEngineArgs,
        without_fat_tree: Option<EngineKind>,
    ) -> Result<Self, Failure> {
        let topology = Topology::read(topology)?;
        let mut kind = engine.engine.kind;
        let options = options(&engine.engine, MAX_COLORS)?;
        let fat_tree = match topology.fat_tree() {
            Ok(view) => Some(Arc::new(view)),
            Err(failure) if kind.needs_fat_tree() => {
                kind = without_fat_tree.ok_or(failure)?;
                None
            }
            Err(_) => None,
        };
        let loads = loads::read(engine, &topology.graph)?;
        let groups = Groups::read(groups, &topology)?;
        Ok(Self { topology, fat_tree, kind, options, loads, groups })
    }

    /// Takes the engine of least cost for tables of this size, and says why. It fails only if no
    /// engine can route the groups.
    ///
    /// - `budget`: as for [`choose_engine`].
    ///
    /// # Errors
    ///
    /// As [`Self::failure`].
    pub(crate) fn choose_engine(
        &mut self,
        colors: u16,
        budget: u64,
    ) -> Result<Vec<Advice>, Failure> {
        // MR4LMS may be there in place of an engine with other options.
        let scenario = self.scenario().with_engine(self.kind);
        let chosen = choose_engine(&scenario, colors, budget);
        let ChosenEngine { engine, advice } = chosen.map_err(|error| self.failure(error))?;
        let Scenario { kind, options, .. } = scenario.with_engine(engine);
        (self.kind, self.options) = (kind, options);
        Ok(advice)
    }

    /// Gives what is to be routed.
    pub(crate) fn scenario(&self) -> Scenario<'_> {
        let groups = self.groups.source();
        let Self { topology, fat_tree, kind, options, .. } = self;
        let (kind, options) = (*kind, *options);
        let (graph, fat_tree, loads) = (&topology.graph, fat_tree.as_ref(), self.loads.as_ref());
        Scenario { graph, fat_tree, kind, options, loads, groups }
    }

    /// Lists the names of the groups of a routed scenario, in its order.
    ///
    /// # Errors
    ///
    /// As [`Self::failure`].
    pub(crate) fn names(&self, routed: &Routed) -> Result<Vec<String>, Failure> {
        Ok(match &self.groups {
            Groups::Listed(records) => {
                (1..).zip(records).map(|(at, record)| group_file::name(at, record)).collect()
            }
            Groups::Pattern { make, .. } => {
                let groups = make(routed.engine.space()).map_err(|e| self.failure(e.into()))?;
                groups.into_iter().map(|group| group.name).collect()
            }
        })
    }

    /// Tells whether the groups file gives the MGID of a group, by its place.
    pub(crate) fn gives_mgid(&self, group: usize) -> bool {
        match &self.groups {
            Groups::Listed(records) => records[group].mgid.is_some(),
            Groups::Pattern { .. } => false,
        }
    }

    /// Makes a failure that names the option that makes the scenario impossible.
    pub(crate) fn failure(&self, error: ScenarioError) -> Failure {
        match (error, &self.groups) {
            (ScenarioError::Build(error), _) => build_failure(error),
            (error, Groups::Pattern { text, .. }) => {
                anyhow::Error::from(error).context(format!("--pattern '{text}'")).into()
            }
            (error, Groups::Listed(_)) => anyhow::Error::from(error).context("groups").into(),
        }
    }
}

impl Groups {
    /// Reads the file, or the text of the pattern.
    ///
    /// # Errors
    ///
    /// Names the option, or the file, the line and the field that is wrong.
    pub(crate) fn read(args: &GroupArgs, topology: &Topology) -> Result<Self, Failure> {
        if let Some(file) = &args.groups {
            return Ok(Self::Listed(group_file::read(file, &topology.graph)?));
        }
        let text = args.pattern.clone().unwrap_or_default();
        let pattern = Pattern::read(&text, args, topology.graph.endpoint_count())
            .map_err(|error| error.context(format!("--pattern '{text}'")))?;
        Ok(Self::Pattern { text, make: Box::new(move |space| pattern.groups(space)) })
    }

    /// Gives what a scenario routes.
    pub(crate) fn source(&self) -> GroupSource<'_> {
        match self {
            Self::Listed(records) => GroupSource::Listed(records),
            Self::Pattern { make, .. } => GroupSource::Pattern(&**make),
        }
    }

    /// Lists the groups, those of a pattern with MGIDs of a space.
    ///
    /// # Errors
    ///
    /// Names the pattern that does not fit.
    pub(crate) fn records(&self, space: &MgidSpace) -> Result<Vec<GroupRecord>, Failure> {
        let (text, make) = match self {
            Self::Listed(records) => return Ok(records.clone()),
            Self::Pattern { text, make } => (text, make),
        };
        let groups = make(space).with_context(|| format!("--pattern '{text}'"))?;
        let record = |group: PatternGroup| GroupRecord {
            mgid: Some(group.mgid),
            name: Some(group.name),
            members: group.members,
        };
        Ok(groups.into_iter().map(record).collect())
    }
}

/// Makes engine options from arguments.
///
/// # Errors
///
/// Options that the engine does not have, or that do not fit together.
pub(crate) fn options(args: &EngineArgs, colors: u16) -> Result<EngineOptions, Failure> {
    let options = EngineOptions {
        colors,
        tables: table_kind(args.tables),
        root_scope: args.root_scope.map(|scope| match scope {
            Scope::Tn => RootScope::Tn,
            Scope::TnGroup => RootScope::TnGroup,
        }),
        fault_tolerant: args.fault_tolerant,
        stay_after_healing: args.stay_after_healing,
        root_policy: args.root_policy,
        merge_policy: args.merge_policy.map(|policy| match policy {
            Merging::Keep => MergePolicy::Keep,
            Merging::Rebuild => MergePolicy::Rebuild,
        }),
        merge_partner: args.merge_partner.map(|partner| match partner {
            Partner::FewestGroups => MergePartner::FewestGroups,
            Partner::Nearest => MergePartner::Nearest,
            Partner::RarestColor => MergePartner::RarestColor,
        }),
        deadlock_free: args.deadlock_free,
    };
    match refused_options(args.kind, &options).into_iter().next() {
        Some(error) => Err(build_failure(error)),
        None => Ok(options),
    }
}

/// Makes a failure that names the option that the engine does not accept.
pub(crate) fn build_failure(error: BuildError) -> Failure {
    let option = format!("--{}", error.option().replace('_', "-"));
    anyhow::Error::from(error).context(option).into()
}

/// Converts the kind of tables.
pub(crate) const fn table_kind(tables: Tables) -> TableKind {
    match tables {
        Tables::PerPort => TableKind::PerPort,
        Tables::PerSwitch => TableKind::PerSwitch,
    }
}
