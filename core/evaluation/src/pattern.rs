//! The patterns of groups that the papers route.

use std::fmt;

use fabricast_routing::{
    Grid, LayerPlan, MgidSpace, PatternGroup, PatternShape, grid_groups, random_groups,
};

use crate::routing::Refusal;

/// Processes and the groups they form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Shape of the process grid, or random groups.
    pub(crate) shape: PatternShape,
    /// Processes on each endpoint, consecutive ones together.
    pub(crate) processes: u32,
}

impl Pattern {
    pub(crate) const fn new(shape: PatternShape, processes: u32) -> Self {
        Self { shape, processes }
    }

    /// True if chance decides who is in a group.
    pub(crate) const fn is_random(&self) -> bool {
        matches!(self.shape, PatternShape::Random(_))
    }

    /// Returns the name of the shape.
    pub(crate) fn name(&self) -> String {
        match self.shape {
            PatternShape::Plane(x, y) => format!("{x}x{y}"),
            PatternShape::Cube(x, y, z) => format!("{x}x{y}x{z}"),
            PatternShape::Random(groups) => format!("random {groups}"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.processes {
            1 => f.write_str(&self.name()),
            processes => write!(f, "{} P={processes}", self.name()),
        }
    }
}

/// Makes the groups of a pattern on the first endpoints, with MGIDs by layers.
pub(crate) fn groups(
    pattern: Pattern,
    layers: LayerPlan,
    space: &MgidSpace,
    endpoints: u32,
    seed: u64,
) -> Result<Vec<PatternGroup>, Refusal> {
    let grid = match pattern.shape {
        PatternShape::Plane(x, y) => Grid::plane(x, y, pattern.processes)?,
        PatternShape::Cube(x, y, z) => Grid::cube(x, y, z, pattern.processes)?,
        PatternShape::Random(count) => {
            return Ok(random_groups(count, pattern.processes, endpoints, seed, space)?);
        }
    };
    Ok(grid_groups(&grid, false, layers, space, endpoints)?)
}
