//! Plans the groups as they would be if parts of the fabric failed or worked again.
//!
//! An engine is brought to the state of the running one: faults, groups, then its recorded choices.
//! The faults are changed there. So the plan is the one that the running engine would make of the
//! same change, as long as the groups stay and no newer loads of ports arrive.
//!
//! Invariants
//! - PREVIEW-1: with unchanged faults, no group changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Mgid, SwitchId};
use thiserror::Error;

use crate::better_homes::HomedGroup;
use crate::build_engine::build_engine;
use crate::change::{Change, ChangeError};
use crate::group_tree::Trunk;
use crate::plan::{GroupPlan, Plan};
use crate::routing_engine::{
    BuildError, EngineKind, EngineOptions, RecordedChoice, RestoreError, RoutingEngine,
};

/// The fabric and the groups as they are.
#[derive(Clone, Debug)]
pub struct PlannedFabric {
    /// Graph of the fabric.
    pub graph: Arc<Graph>,
    /// Engine that plans the groups.
    pub kind: EngineKind,
    /// Options of the engine.
    pub options: EngineOptions,
    /// Parts of the fabric that have failed.
    pub faults: Faults,
    /// The groups, in the order of their records.
    pub groups: Vec<HomedGroup>,
    /// Choices of the engine ([`RoutingEngine::choices`]).
    pub choices: Vec<RecordedChoice>,
}

/// The plan now, and with other faults.
#[derive(Debug)]
pub struct FaultPreview {
    /// The plan now.
    pub before: Plan,
    /// The plan with the other faults.
    pub after: Plan,
    /// Highest switches of the trees of the changed groups now.
    pub roots_before: BTreeMap<Mgid, SwitchId>,
    /// Highest switches of the trees of the changed groups with the other faults.
    pub roots_after: BTreeMap<Mgid, SwitchId>,
    /// Groups with another route or other members cut off, rising.
    pub changed: Vec<Mgid>,
    /// Exclusive groups that get no route, as they would have to share it.
    pub kept_out: Vec<KeptOut>,
}

/// An exclusive group that would have to share its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptOut {
    /// MGID of the group.
    pub mgid: Mgid,
    /// Groups that it would share the tree with.
    pub others: usize,
}

/// Reason why the plan cannot be made again.
#[derive(Debug, Error)]
pub enum PreviewError {
    /// The engine cannot be made.
    #[error(transparent)]
    Engine(#[from] BuildError),
    /// The engine refuses a group.
    #[error("the groups cannot be planned: {0}")]
    Group(#[from] ChangeError),
    /// A choice does not fit.
    #[error("the choices of the engine do not fit: {0}")]
    Choice(#[from] RestoreError),
}

/// Plans the groups with other faults.
///
/// Cost: a plan from scratch, and what the faults change.
///
/// # Errors
///
/// [`PreviewError`] if the engine does not take the groups or choices.
pub fn preview_faults(now: &PlannedFabric, faults: Faults) -> Result<FaultPreview, PreviewError> {
    let PlannedFabric { graph, kind, options, groups, choices, .. } = now;
    let fat_tree = FatTree::detect(graph).ok().map(Arc::new);
    let mut engine = build_engine(*kind, Arc::clone(graph), fat_tree, *options)?;
    engine.set_faults(now.faults.clone());
    let put = |group: &HomedGroup| Change::Put { mgid: group.home, members: group.members.clone() };
    engine.apply(&groups.iter().map(put).collect::<Vec<_>>())?;
    engine.restore(choices)?;
    let before = engine.plan().clone();
    // Only the engine knows which groups have a second tree, and forgets it when it plans again.
    let all = groups.iter().map(|group| group.home);
    let dual_roots = before.is_dual().then(|| roots(engine.as_ref(), all));
    engine.set_faults(faults);
    let kept_out = keep_out_exclusive(engine.as_mut(), groups)?;
    let after = engine.plan().clone();
    let mut changed = after.changed_groups(&before);
    changed.extend(kept_out.iter().map(|one| one.mgid));
    changed.sort_unstable();
    changed.dedup();
    let roots_before = match dual_roots {
        Some(mut roots) => {
            roots.retain(|mgid, _| changed.binary_search(mgid).is_ok());
            roots
        }
        None => planned_roots(graph, &before, groups, &changed),
    };
    let roots_after = roots(engine.as_ref(), changed.iter().copied());
    Ok(FaultPreview { before, after, roots_before, roots_after, changed, kept_out })
}

/// Takes exclusive groups out that share a tree; a group never shares again what it has left. One
/// after the other, as the route service does: the first to leave may leave the tree to the second.
///
/// - `groups`: in the order of their records.
fn keep_out_exclusive(
    engine: &mut dyn RoutingEngine,
    groups: &[HomedGroup],
) -> Result<Vec<KeptOut>, ChangeError> {
    let mut kept_out = Vec::new();
    for group in groups.iter().filter(|group| group.exclusive) {
        let mgid = group.home;
        let shared = engine.plan().virtual_group_of(mgid);
        let others = shared.map_or(0, |shared| shared.groups.len().saturating_sub(1));
        if others > 0 {
            engine.apply(&[Change::Delete { mgid }])?;
            kept_out.push(KeptOut { mgid, others });
        }
    }
    Ok(kept_out)
}

/// The highest switches of the trees of some groups.
fn roots(
    engine: &dyn RoutingEngine,
    groups: impl Iterator<Item = Mgid>,
) -> BTreeMap<Mgid, SwitchId> {
    groups.filter_map(|mgid| Some((mgid, engine.group_trees(mgid).first()?.root))).collect()
}

/// The highest switches of the trees of some groups in a plan with one tree for each.
///
/// - `wanted`: rising.
/// - Cost: the trees of their virtual groups, and their members.
fn planned_roots(
    graph: &Graph,
    plan: &Plan,
    groups: &[HomedGroup],
    wanted: &[Mgid],
) -> BTreeMap<Mgid, SwitchId> {
    let mut trunks: BTreeMap<u32, Option<Trunk<'_>>> = BTreeMap::new(); // by virtual group
    let mut roots = BTreeMap::new();
    for group in groups.iter().filter(|group| wanted.binary_search(&group.home).is_ok()) {
        let Some(planned) = plan.group(group.home).filter(GroupPlan::has_tree) else { continue };
        let trunk = trunks.entry(planned.virtual_group.0).or_insert_with(|| {
            let shared = plan.virtual_group_of(group.home)?;
            Trunk::of(graph, &shared)
        });
        let is_live =
            |member: &&EndpointId| !planned.cut_off.iter().any(|cut| cut.endpoint == **member);
        let live = group.members.iter().filter(is_live);
        let ports = live.filter_map(|member| graph.attachment(*member)).collect();
        let tree = trunk.as_ref().and_then(|trunk| trunk.cut(ports));
        roots.extend(tree.map(|tree| (group.home, tree.root)));
    }
    roots
}
