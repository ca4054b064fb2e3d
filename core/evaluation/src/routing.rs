//! One pattern routed on one fabric by one engine: the common step of the experiments.

use std::sync::Arc;
use std::time::Duration;

use fabricast_routing::verify::{self, Senders};
use fabricast_routing::{
    Change, EngineKind, EngineOptions, Metrics, PatternGroup, Plan, RootScope, RoutingEngine,
    build_engine, metrics, table_entries,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{FatTree, Graph, TableKind};

use crate::experiment::{ExperimentError, Run};

/// A fabric, and what it is as a fat tree.
#[derive(Clone, Debug)]
pub(crate) struct Fabric {
    pub(crate) graph: Arc<Graph>,
    fat_tree: Option<Arc<FatTree>>,
}

impl Fabric {
    /// Makes the fabric of a preset.
    pub(crate) fn preset(name: &str) -> Result<Self, ExperimentError> {
        let spec = TopologySpec::preset(name);
        Self::of(name, &spec.ok_or("there is no such preset").map_err(ExperimentError::at(name))?)
    }

    /// Makes the fabric of a description in TOML.
    pub(crate) fn described(name: &str, text: &str) -> Result<Self, ExperimentError> {
        Self::of(name, &TopologySpec::parse(text).map_err(ExperimentError::at(name))?)
    }

    /// Makes the fabric of a specification.
    pub(crate) fn of(name: &str, spec: &TopologySpec) -> Result<Self, ExperimentError> {
        Ok(Self::from_graph(spec.generate().map_err(ExperimentError::at(name))?))
    }

    pub(crate) fn from_graph(graph: Graph) -> Self {
        let fat_tree = FatTree::detect(&graph).ok().map(Arc::new);
        Self { graph: Arc::new(graph), fat_tree }
    }

    /// Returns the fabric as a fat tree.
    pub(crate) fn fat_tree(&self) -> Result<&FatTree, Refusal> {
        Ok(self.fat_tree.as_deref().ok_or("the fabric is no fat tree")?)
    }

    pub(crate) fn endpoints(&self) -> u32 {
        u32::try_from(self.graph.endpoint_count()).expect("endpoints have 32-bit numbers")
    }
}

/// An engine and its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) engine: EngineKind,
    pub(crate) scope: RootScope,
    pub(crate) colors: u16,
    pub(crate) tables: TableKind,
    pub(crate) fault_tolerant: bool,
}

impl Way {
    pub(crate) const fn new(engine: EngineKind, colors: u16, tables: TableKind) -> Self {
        Self { engine, scope: RootScope::Tn, colors, tables, fault_tolerant: false }
    }

    pub(crate) const fn scope(self, scope: RootScope) -> Self {
        Self { scope, ..self }
    }

    /// Gives every group two trees.
    pub(crate) const fn fault_tolerant(self) -> Self {
        Self { fault_tolerant: true, ..self }
    }

    /// Returns the engine's name, with the scope of its roots and the number of trees where that
    /// matters.
    pub(crate) fn label(self) -> String {
        let mut label = self.engine.to_string();
        if self.engine.has_root_scopes() {
            label = format!("{label}, {}", self.scope.name());
        }
        if self.fault_tolerant { format!("{label}, two trees") } else { label }
    }
}

/// The engine after routing, and its figures.
#[derive(Clone, Debug)]
pub(crate) struct Routed {
    pub(crate) plan: Plan,
    pub(crate) figures: Metrics,
    /// Colors that any tree uses.
    pub(crate) colors_used: u32,
    pub(crate) took: Duration,
}

/// Routes groups that come one after the other.
pub(crate) fn route(
    run: &Run<'_>,
    fabric: &Fabric,
    way: Way,
    groups: impl FnOnce(&fabricast_routing::MgidSpace) -> Result<Vec<PatternGroup>, Refusal>,
) -> Result<Routed, Refusal> {
    Ok(route_keeping_engine(run, fabric, way, groups)?.0)
}

/// Does the same and walks packets of all groups through the tables, as `route verify` does: one
/// sender behind every switch. The number is that of broken rules.
pub(crate) fn route_and_walk(
    run: &Run<'_>,
    fabric: &Fabric,
    way: Way,
    groups: impl FnOnce(&fabricast_routing::MgidSpace) -> Result<Vec<PatternGroup>, Refusal>,
) -> Result<(Routed, u64), Refusal> {
    let (routed, engine) = route_keeping_engine(run, fabric, way, groups)?;
    let options = verify::Options {
        colors: way.colors,
        tables: way.tables,
        senders: Senders::OnePerSwitch,
        list: 0,
    };
    let entries = table_entries(&fabric.graph, engine.plan());
    let groups = engine.delivery_groups();
    let report = verify::verify(&fabric.graph, engine.faults(), &groups, &entries, options);
    Ok((routed, report.violation_count))
}

fn route_keeping_engine(
    run: &Run<'_>,
    fabric: &Fabric,
    way: Way,
    groups: impl FnOnce(&fabricast_routing::MgidSpace) -> Result<Vec<PatternGroup>, Refusal>,
) -> Result<(Routed, Box<dyn RoutingEngine>), Refusal> {
    let options = EngineOptions {
        root_scope: way.engine.has_root_scopes().then_some(way.scope),
        fault_tolerant: way.fault_tolerant,
        ..EngineOptions::new(way.colors, way.tables)
    };
    let graph = Arc::clone(&fabric.graph);
    let mut engine = build_engine(way.engine, graph, fabric.fat_tree.clone(), options)?;
    let put = |group: PatternGroup| Change::Put { mgid: group.mgid, members: group.members };
    let changes: Vec<Change> = groups(engine.space())?.into_iter().map(put).collect();
    let (done, took) = run.timed(|| engine.apply(&changes));
    done?;
    let plan = engine.plan().clone();
    let mut colors: Vec<u16> =
        plan.virtual_groups().filter(|one| !one.ports.is_empty()).map(|one| one.color).collect();
    colors.sort_unstable();
    colors.dedup();
    let colors_used = u32::try_from(colors.len()).expect("colors have 16 bits");
    let figures = metrics(&fabric.graph, &plan);
    Ok((Routed { plan, figures, colors_used, took }, engine))
}

/// Reason why something cannot be routed.
pub(crate) type Refusal = Box<dyn std::error::Error + Send + Sync>;
