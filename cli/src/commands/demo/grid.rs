//! The demo's groups: the endpoints as a 2-D process grid, with its rows, columns and all of them.

use std::collections::BTreeMap;

use fabricast_routing::{
    EngineKind, EngineOptions, Grid, LayerPlan, global_group, grid_groups, mgid_space,
};
use fabricast_topology::{EndpointId, FatTree, Graph};

use crate::failure::Failure;
use crate::group_file::NamedGroup;

/// Smallest number of endpoints that make a grid.
const LEAST: u32 = 4;

/// Makes one group per row, one per column and a global one, over all connected endpoints that a
/// node has.
///
/// - `owners`: the node of each endpoint.
///
/// # Errors
///
/// Fewer than four connected endpoints, or fewer colors than layers.
pub(crate) fn groups(
    graph: &Graph,
    fat_tree: &FatTree,
    options: EngineOptions,
    owners: &BTreeMap<String, String>,
) -> Result<Vec<NamedGroup>, Failure> {
    let connected: Vec<EndpointId> = graph
        .endpoints()
        .filter(|endpoint| graph.attachment(*endpoint).is_some())
        .filter(|endpoint| owners.contains_key(graph.endpoint_name(*endpoint)))
        .collect();
    let count = u32::try_from(connected.len())?;
    if count < LEAST {
        return Err(Failure::input(format!(
            "the demo needs {LEAST} connected endpoints of nodes, there are {count}"
        )));
    }
    let space = mgid_space(EngineKind::CMr4lmsFixed, Some(fat_tree), options)?;
    let (x, y) = sides(count);
    let grid = Grid::plane(x, y, 1)?;
    let global = global_group(count, count)?;
    let lines = grid_groups(&grid, true, LayerPlan::Compact, &space, count)?;
    let name = |place: &EndpointId| graph.endpoint_name(connected[place.index()]).to_owned();
    let named = |group: &fabricast_routing::PatternGroup| NamedGroup {
        name: title(&group.name),
        mgid: Some(group.mgid),
        members: if group.name == global.name {
            global.members.iter().map(name).collect()
        } else {
            group.members.iter().map(name).collect()
        },
    };
    Ok(lines.iter().map(named).collect())
}

/// Name of a line of the grid: "row/3" for the pattern's "x/3/0".
fn title(line: &str) -> String {
    let mut parts = line.split('/');
    match (parts.next(), parts.next()) {
        (Some("x"), Some(number)) => format!("row/{number}"),
        (Some("y"), Some(number)) => format!("column/{number}"),
        _ => line.to_owned(),
    }
}

/// Sides of the grid on at most `count` endpoints that leaves out the fewest, and of those the
/// squarest.
fn sides(count: u32) -> (u32, u32) {
    let root = count.isqrt();
    // Longer than this and rows or columns are hardly groups any more.
    let shortest = root.div_ceil(2).max(2);
    let exact = (shortest..=root).rev().find(|side| count.is_multiple_of(*side));
    let side = exact.unwrap_or(root);
    (side, count / side)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_nearly_square_and_use_nearly_all() {
        assert_eq!(sides(96), (8, 12));
        assert_eq!(sides(2048), (32, 64));
        assert_eq!(sides(97), (9, 10));
        assert_eq!(sides(4), (2, 2));
    }
}
