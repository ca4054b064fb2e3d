//! The fabrics and process grids that MR4LMS §4 is measured with, as data.
//!
//! On each of six fabrics there are six patterns: a 2-D grid that fits the fabric and a square one,
//! a 3-D grid that fits and a cube, and groups joined by chance, all with one process to an
//! endpoint; and a 3-D grid with four. The text names some of them; the others stand in figures
//! that cannot be read and are made by its rule: what fits uses every endpoint and cuts at the
//! fabric's own borders (midplanes, pods, rings, groups of routers), square and cube are the
//! largest that the fabric has room for. How many random groups there were is not said; here as
//! many as the lines of the square.

use super::{PatternError, PatternGroup, grid_groups, random_groups};
use crate::layers::{Grid, GridError, LayerPlan};
use crate::spt::MgidSpace;

/// A fabric of the paper with what is measured on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mr4lmsFabric {
    /// The preset that makes it.
    pub preset: &'static str,
    /// The number of colors that the paper recommends (table 4).
    pub colors: u16,
    /// The text names it; else it is the number for fabrics that need as many.
    pub colors_published: bool,
    /// Its patterns, in the order given above.
    pub patterns: [Mr4lmsPattern; 6],
}

/// A pattern of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mr4lmsPattern {
    /// Shape of its groups.
    pub shape: PatternShape,
    /// Processes of an endpoint.
    pub processes: u32,
    /// The text names the pattern.
    pub published: bool,
}

/// Source of the groups of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternShape {
    /// All lines of a 2-D grid, x and y.
    Plane(u32, u32),
    /// All lines of a 3-D grid, x, y and z.
    Cube(u32, u32, u32),
    /// So many groups, every process in one by chance.
    Random(u32),
}

/// All fabrics of MR4LMS §4.2, in its order.
pub const MR4LMS_FABRICS: [Mr4lmsFabric; 6] = [
    Mr4lmsFabric {
        preset: "bluelight",
        colors: 128,
        colors_published: true,
        patterns: [
            said(PatternShape::Plane(256, 34), 1),
            said(PatternShape::Plane(90, 90), 1),
            ours(PatternShape::Cube(16, 16, 34), 1),
            ours(PatternShape::Cube(20, 20, 20), 1),
            ours(PatternShape::Random(180), 1),
            said(PatternShape::Cube(64, 16, 34), 4),
        ],
    },
    Mr4lmsFabric {
        preset: "taihulight",
        colors: 128,
        colors_published: true,
        patterns: [
            ours(PatternShape::Plane(256, 160), 1),
            ours(PatternShape::Plane(202, 202), 1),
            ours(PatternShape::Cube(32, 32, 40), 1),
            said(PatternShape::Cube(34, 34, 34), 1),
            ours(PatternShape::Random(404), 1),
            said(PatternShape::Cube(128, 32, 40), 4),
        ],
    },
    Mr4lmsFabric {
        preset: "fat-tree",
        colors: 128,
        colors_published: true,
        patterns: [
            ours(PatternShape::Plane(400, 40), 1),
            ours(PatternShape::Plane(126, 126), 1),
            ours(PatternShape::Cube(20, 20, 40), 1),
            ours(PatternShape::Cube(25, 25, 25), 1),
            ours(PatternShape::Random(252), 1),
            ours(PatternShape::Cube(80, 20, 40), 4),
        ],
    },
    Mr4lmsFabric {
        preset: "torus",
        colors: 256,
        colors_published: true,
        patterns: [
            said(PatternShape::Plane(240, 100), 1),
            ours(PatternShape::Plane(154, 154), 1),
            said(PatternShape::Cube(60, 20, 20), 1),
            said(PatternShape::Cube(28, 28, 28), 1),
            ours(PatternShape::Random(308), 1),
            ours(PatternShape::Cube(240, 20, 20), 4),
        ],
    },
    Mr4lmsFabric {
        preset: "dragonfly",
        colors: 256,
        colors_published: false,
        patterns: [
            ours(PatternShape::Plane(162, 163), 1),
            ours(PatternShape::Plane(162, 162), 1),
            ours(PatternShape::Cube(9, 18, 163), 1),
            ours(PatternShape::Cube(29, 29, 29), 1),
            ours(PatternShape::Random(324), 1),
            ours(PatternShape::Cube(36, 18, 163), 4),
        ],
    },
    Mr4lmsFabric {
        preset: "random",
        colors: 256,
        colors_published: true,
        patterns: [
            said(PatternShape::Plane(256, 160), 1),
            ours(PatternShape::Plane(202, 202), 1),
            said(PatternShape::Cube(32, 32, 40), 1),
            ours(PatternShape::Cube(34, 34, 34), 1),
            ours(PatternShape::Random(404), 1),
            said(PatternShape::Cube(128, 32, 40), 4),
        ],
    },
];

const fn said(shape: PatternShape, processes: u32) -> Mr4lmsPattern {
    Mr4lmsPattern { shape, processes, published: true }
}

const fn ours(shape: PatternShape, processes: u32) -> Mr4lmsPattern {
    Mr4lmsPattern { shape, processes, published: false }
}

impl Mr4lmsPattern {
    /// Returns the name under which the paper has it, like `64x16x34`, and `random:180`.
    #[must_use]
    pub fn name(&self) -> String {
        match self.shape {
            PatternShape::Plane(x, y) => format!("{x}x{y}"),
            PatternShape::Cube(x, y, z) => format!("{x}x{y}x{z}"),
            PatternShape::Random(groups) => format!("random:{groups}"),
        }
    }

    /// Counts the groups.
    #[must_use]
    pub const fn group_count(&self) -> u32 {
        match self.shape {
            PatternShape::Plane(x, y) => x + y,
            PatternShape::Cube(x, y, z) => x * y + y * z + x * z,
            PatternShape::Random(groups) => groups,
        }
    }

    /// Makes the groups on the first endpoints; only random ones depend on the seed.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if the fabric has too few endpoints or the space too few colors.
    pub fn groups(
        &self,
        space: &MgidSpace,
        endpoints: u32,
        seed: u64,
    ) -> Result<Vec<PatternGroup>, PatternError> {
        let grid = match self.shape {
            PatternShape::Plane(x, y) => Grid::plane(x, y, self.processes),
            PatternShape::Cube(x, y, z) => Grid::cube(x, y, z, self.processes),
            PatternShape::Random(groups) => {
                return random_groups(groups, self.processes, endpoints, seed, space);
            }
        };
        let grid: Result<Grid, GridError> = grid;
        let grid = grid.expect("the paper's grids have more than four to a side");
        grid_groups(&grid, false, LayerPlan::Compact, space, endpoints)
    }
}

#[cfg(test)]
mod tests {
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    /// MR4LMS §4.2, §4.3: what fits uses every endpoint, nothing needs more, and the groups are as
    /// many as said.
    #[test]
    fn every_pattern_fits_its_fabric() {
        let space = MgidSpace::any(128).unwrap();
        for fabric in &MR4LMS_FABRICS {
            let graph = TopologySpec::preset(fabric.preset).unwrap().generate().unwrap();
            let endpoints = u32::try_from(graph.endpoint_count()).unwrap();
            for (at, pattern) in fabric.patterns.iter().enumerate() {
                let processes = match pattern.shape {
                    PatternShape::Plane(x, y) => x * y,
                    PatternShape::Cube(x, y, z) => x * y * z,
                    PatternShape::Random(_) => endpoints,
                };
                let (name, has) = (pattern.name(), endpoints * pattern.processes);
                let fits =
                    if [0, 2, 5].contains(&at) { processes == has } else { processes <= has };
                assert!(fits, "{} {name}: {processes} of {has}", fabric.preset);
                let groups = pattern.groups(&space, endpoints, 1).unwrap();
                assert_eq!(groups.len(), pattern.group_count() as usize, "{name}");
            }
        }
        assert_eq!(MR4LMS_FABRICS[1].patterns[5].group_count(), 10_496);
    }
}
