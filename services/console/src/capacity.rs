//! The cost of tables of other sizes for the groups that there are, as `fabricast capacity plan`
//! computes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_drawing::Fabric;
use fabricast_proto::v1;
use fabricast_routing::formats::GroupRecord;
use fabricast_routing::{
    Capacity, CapacityQuestion, EngineKind, EngineOptions, GroupSource, MAX_COLORS, Scenario,
    capacity,
};
use fabricast_topology::{FatTree, TableKind};

/// Most groups that are planned for: each size of table routes all of them.
pub(crate) const MAX_GROUPS: usize = 1_000;

/// Fabric, engine and groups of a computation.
#[derive(Debug)]
pub(crate) struct CapacityInput {
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) status: Arc<v1::GetRouteStatusResponse>,
    pub(crate) tables: v1::TableKind,
    /// With their members.
    pub(crate) groups: Vec<v1::Group>,
}

/// Computes the cost, for the engine at work and its number of trees for each group.
///
/// # Errors
///
/// Why there is no answer, for people.
pub(crate) fn compute(input: &CapacityInput) -> Result<Capacity, String> {
    let CapacityInput { fabric, status, tables, groups } = input;
    let kind: EngineKind =
        status.engine.parse().map_err(|_| format!("the engine '{}' is unknown", status.engine))?;
    let tables = match tables {
        v1::TableKind::PerSwitch => TableKind::PerSwitch,
        v1::TableKind::PerPort | v1::TableKind::Unspecified => TableKind::PerPort,
    };
    let graph = fabric.graph();
    let record = |group: &v1::Group| GroupRecord {
        mgid: None,
        name: Some(group.name.clone()),
        members: group
            .members
            .iter()
            .filter_map(|one| graph.find_endpoint(&one.endpoint))
            .collect(),
    };
    let mut records: Vec<GroupRecord> = groups.iter().map(record).collect();
    for record in &mut records {
        record.members.sort_unstable();
        record.members.dedup();
    }
    let fault_tolerant = status.fault_tolerant;
    let options = EngineOptions { fault_tolerant, ..EngineOptions::new(MAX_COLORS, tables) };
    let graph = Arc::new(graph.clone());
    let fat_tree = FatTree::detect(&graph).ok().map(Arc::new);
    let groups = GroupSource::Listed(&records);
    let (graph, fat_tree) = (&graph, fat_tree.as_ref());
    let scenario = Scenario { graph, fat_tree, kind, options, loads: None, groups };
    let has = u16::try_from(status.colors).unwrap_or(MAX_COLORS).clamp(1, MAX_COLORS);
    let limit = has.saturating_mul(2).min(MAX_COLORS);
    let question = CapacityQuestion { limit, sizes: sizes(has, limit) };
    capacity(&scenario, &question, &mut |_| {}).map_err(|error| error.to_string())
}

/// The sizes whose cost is shown: the present one and one more, and powers of two.
fn sizes(has: u16, limit: u16) -> Vec<u16> {
    let powers = (0..15).map(|power| 1 << power).filter(|size| *size <= limit);
    let sizes: BTreeSet<u16> = powers.chain([has, (has + 1).min(limit)]).collect();
    sizes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_have_the_present_one_and_one_more() {
        assert_eq!(sizes(12, 24), [1, 2, 4, 8, 12, 13, 16]);
        assert_eq!(sizes(1, 2), [1, 2]);
        assert_eq!(sizes(MAX_COLORS, MAX_COLORS).last(), Some(&MAX_COLORS));
    }
}
