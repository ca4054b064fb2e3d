//! Predicts the route of one group with tables of another size.

use std::collections::{BTreeMap, BTreeSet};

use super::{Explanation, explain};
use crate::scenario::{Routed, Scenario, ScenarioError};
use fabricast_topology::Mgid;

/// One group with tables of another size. Groups are identified by their index in the scenario's
/// source, because their MGIDs can differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSize {
    /// Entries of each table.
    pub colors: u16,
    /// Numbers that MGIDs are taken modulo of there ([`crate::MgidSpace::total`]).
    pub spanning_trees: u32,
    /// The group there.
    pub explanation: Explanation,
    /// Groups that share its tree with either size, rising.
    pub stay: Vec<usize>,
    /// Groups that share it only with the present size, rising.
    pub part: Vec<usize>,
    /// Groups that share it only with the other size, rising.
    pub come: Vec<usize>,
}

/// Routes a scenario with tables of another size and explains one group there.
///
/// - `now`: the scenario routed with the present size.
/// - `group`: its place in the scenario's source, less than the number of groups.
///
/// # Errors
///
/// [`ScenarioError`] if the size is out of range, or the groups cannot be routed with it.
pub fn at_other_size(
    scenario: &Scenario<'_>,
    colors: u16,
    now: &Routed,
    group: usize,
) -> Result<OtherSize, ScenarioError> {
    let other = scenario.route(colors)?;
    let fat_tree = scenario.fat_tree.map(|one| &**one);
    let explanation = explain(&*other.engine, fat_tree, other.mgids[group]);
    let explanation = explanation.expect("the engine has all groups of the scenario");
    let (before, after) = (sharers(now, group), sharers(&other, group));
    Ok(OtherSize {
        colors,
        spanning_trees: other.engine.space().total(),
        explanation,
        stay: before.intersection(&after).copied().collect(),
        part: before.difference(&after).copied().collect(),
        come: after.difference(&before).copied().collect(),
    })
}

/// The other groups on a group's tree, by their places in the source.
fn sharers(routed: &Routed, group: usize) -> BTreeSet<usize> {
    let places: BTreeMap<Mgid, usize> =
        (0..).zip(&routed.mgids).map(|(at, mgid)| (*mgid, at)).collect();
    let shared = routed.engine.plan().virtual_group_of(routed.mgids[group]);
    let groups = shared.map_or(&[][..], |shared| shared.groups);
    groups.iter().map(|mgid| places[mgid]).filter(|at| *at != group).collect()
}
