//! The patterns of groups that the papers route.

use std::fmt;

use fabricast_routing::{Grid, LayerPlan, MgidSpace, PatternGroup, grid_groups, random_groups};

/// Processes and the groups they form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// How groups are formed.
    pub(crate) shape: Shape,
    /// Processes on each endpoint, consecutive ones together.
    pub(crate) processes: u32,
}

/// How groups are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One group per row and column of a grid.
    Plane(u32, u32),
    /// One group per line of a grid, in each of three dimensions.
    Cube(u32, u32, u32),
    /// So many groups, which processes join by chance.
    Random(u32),
}

impl Pattern {
    pub(crate) const fn new(shape: Shape, processes: u32) -> Self {
        Self { shape, processes }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plane(x, y) => write!(f, "{x}x{y}"),
            Self::Cube(x, y, z) => write!(f, "{x}x{y}x{z}"),
            Self::Random(groups) => write!(f, "random {groups}"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.processes {
            1 => self.shape.fmt(f),
            processes => write!(f, "{} P={processes}", self.shape),
        }
    }
}

/// Makes the groups of a pattern on the first endpoints, with MGIDs by layers.
pub(crate) fn groups(
    pattern: Pattern,
    layers: LayerPlan,
    space: &MgidSpace,
    endpoints: usize,
    seed: u64,
) -> Result<Vec<PatternGroup>, Box<dyn std::error::Error + Send + Sync>> {
    let endpoints = u32::try_from(endpoints)?;
    let grid = match pattern.shape {
        Shape::Plane(x, y) => Grid::plane(x, y, pattern.processes)?,
        Shape::Cube(x, y, z) => Grid::cube(x, y, z, pattern.processes)?,
        Shape::Random(count) => {
            return Ok(random_groups(count, pattern.processes, endpoints, seed, space)?);
        }
    };
    Ok(grid_groups(&grid, false, layers, space, endpoints)?)
}
