//! Finds the table size that avoids all merging, and the cost of smaller tables.
//!
//! More entries are not always better: an MGID stands for spanning tree `mgid mod (C*m)`, so two
//! groups that are apart with C entries can meet again with C+1 (MGIDs 0 and 6 with m = 2 and C = 2
//! or 3). So the search does not cut intervals in halves; it tries every size from below.
//!
//! Invariants
//! - CAP-1: with [`Capacity::least`] entries every group has a tree of its own, and with fewer
//!   never. Nothing is promised of larger tables.
//! - CAP-2: no size below [`least_entries`] avoids merging, whatever the engine.

mod bound;

use fabricast_topology::Graph;

use crate::metrics::{Metrics, metrics};
use crate::plan::Plan;
use crate::routing_engine::ColorUse;
use crate::scenario::{Routed, Scenario, ScenarioError};
use crate::spt::MAX_COLORS;
pub use bound::least_entries;

/// A question about table sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityQuestion {
    /// The largest table that is tried, 1 to [`MAX_COLORS`].
    pub limit: u16,
    /// Table sizes whose cost is wanted, 1 to [`MAX_COLORS`]; empty for powers of two below the
    /// answer, the one before it and the answer itself.
    pub sizes: Vec<u16>,
}

/// Progress of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityStep {
    /// The next size is tried, of at most so many.
    Try {
        /// Entries of each table.
        colors: u16,
        /// Sizes tried already.
        done: u32,
        /// Sizes tried at most.
        of: u32,
    },
    /// The cost of a size is computed.
    Cost {
        /// Entries of each table.
        colors: u16,
    },
}

/// The least size without merging, if one was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// Entries that any way to route needs ([`least_entries`]).
    pub bound: u32,
    /// The smallest table that avoids all merging; none if no size up to the limit does.
    pub least: Option<u16>,
    /// The largest size that was allowed.
    pub limit: u16,
    /// Number of sizes that were tried.
    pub tried: u32,
    /// The cost of the sizes asked for, rising.
    pub sizes: Vec<SizeCost>,
}

/// Cost of tables of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeCost {
    /// Entries of a table.
    pub colors: u16,
    /// The figures; none if there are fewer entries than layers of groups, so that nothing can be
    /// routed.
    pub cost: Option<RoutingCost>,
}

/// The figures of a plan, and what it leaves out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoutingCost {
    /// EFI, TFI, trees, entries.
    pub metrics: Metrics,
    /// Groups without a tree.
    pub unrouted: u32,
    /// Members that no tree can reach.
    pub cut_off: u32,
}

impl RoutingCost {
    /// Computes the figures of a plan.
    #[must_use]
    pub fn of(graph: &Graph, plan: &Plan) -> Self {
        let count = |count: usize| u32::try_from(count).expect("a group has a 32-bit MGID");
        Self {
            metrics: metrics(graph, plan),
            unrouted: count(plan.unrouted().len()),
            cut_off: count(plan.cut_off().count()),
        }
    }

    /// Tells whether every group has a tree of its own.
    #[must_use]
    pub const fn avoids_merging(&self) -> bool {
        self.metrics.max_tfi <= 1 && self.unrouted == 0
    }
}

/// Finds the smallest table that avoids all merging, and the cost of others.
///
/// - `progress` is told before every step.
/// - Cost: routing all groups once for every size from [`least_entries`] to the answer, and for
///   every size whose cost is wanted.
///
/// # Errors
///
/// [`ScenarioError`] if the groups cannot be routed for another reason than too small tables.
pub fn capacity(
    scenario: &Scenario<'_>,
    question: &CapacityQuestion,
    progress: &mut dyn FnMut(CapacityStep),
) -> Result<Capacity, ScenarioError> {
    let limit = question.limit.clamp(1, MAX_COLORS);
    let bound = lower_bound(scenario)?;
    let of = (u32::from(limit) + 1).saturating_sub(bound);
    let (mut least, mut tried) = (None, 0);
    for colors in u16::try_from(bound).into_iter().flat_map(|bound| bound..=limit) {
        progress(CapacityStep::Try { colors, done: tried, of });
        tried += 1;
        let routed = try_route(scenario, colors)?;
        if routed.is_some_and(|routed| avoids_merging(routed.engine.plan())) {
            least = Some(colors);
            break;
        }
    }
    let sizes = match question.sizes.is_empty() {
        true => usual_sizes(least, limit),
        false => question.sizes.clone(),
    };
    let sizes = cost_of_sizes(scenario, sizes, progress)?;
    Ok(Capacity { bound, least, limit, tried, sizes })
}

/// Computes what each of some table sizes costs, rising and each once.
///
/// # Errors
///
/// As [`capacity`].
fn cost_of_sizes(
    scenario: &Scenario<'_>,
    mut sizes: Vec<u16>,
    progress: &mut dyn FnMut(CapacityStep),
) -> Result<Vec<SizeCost>, ScenarioError> {
    sizes.sort_unstable();
    sizes.dedup();
    let cost = |colors: u16| {
        progress(CapacityStep::Cost { colors });
        let routed = try_route(scenario, colors)?;
        let cost = routed.map(|routed| RoutingCost::of(scenario.graph, routed.engine.plan()));
        Ok(SizeCost { colors, cost })
    };
    sizes.into_iter().map(cost).collect()
}

/// Routes everything; none if there are fewer colors than layers.
fn try_route(scenario: &Scenario<'_>, colors: u16) -> Result<Option<Routed>, ScenarioError> {
    match scenario.route(colors) {
        Ok(routed) => Ok(Some(routed)),
        Err(error) if error.is_too_few_colors() => Ok(None),
        Err(error) => Err(error),
    }
}

fn avoids_merging(plan: &Plan) -> bool {
    plan.unrouted().is_empty()
        && plan.virtual_groups().all(|one| one.ports.is_empty() || one.groups.len() == 1)
}

/// Powers of two below the answer, the size before it and the answer; without one, up to the limit.
fn usual_sizes(least: Option<u16>, limit: u16) -> Vec<u16> {
    let end = least.unwrap_or(limit);
    let powers = (0..15).map(|power| 1u16 << power).take_while(|size| *size < end);
    powers.chain([(end - 1).max(1), end]).collect()
}

/// Entries below which nothing has to be tried: what any engine needs, and more where a color has
/// one tree only.
fn lower_bound(scenario: &Scenario<'_>) -> Result<u32, ScenarioError> {
    let groups = scenario.members()?;
    let fat_tree = scenario.fat_tree.filter(|_| scenario.kind.needs_fat_tree()).map(|one| &**one);
    let bound = least_entries(scenario.graph, fat_tree, scenario.options.tables, &groups);
    let trees = || bound::trees(scenario.graph, fat_tree, &groups);
    Ok(match scenario.kind.color_use() {
        ColorUse::ManyTrees => bound,
        ColorUse::OneTree => bound.max(trees()),
        ColorUse::OneTreeInAll if trees() > 1 => u32::MAX,
        ColorUse::OneTreeInAll => bound,
    })
}
