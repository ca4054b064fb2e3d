//! Patterns of groups that planning commands can generate.

use anyhow::{Context, anyhow};
use fabricast_routing::{
    Grid, LayerPlan, MgidSpace, PatternError, PatternGroup, grid_groups, random_groups,
};

use crate::args::{GroupArgs, Layers};

/// A pattern on a number of endpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    shape: Shape,
    layers: LayerPlan,
    endpoints: u32,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Grid(Grid),
    Random { count: u32, processes: u32, seed: u64 },
}

impl Pattern {
    /// Reads `XxY`, `XxYxZ` or `random:N:SEED`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the text.
    pub(crate) fn read(text: &str, args: &GroupArgs, endpoints: usize) -> anyhow::Result<Self> {
        let endpoints = u32::try_from(endpoints)?;
        let layers = match args.layers {
            Layers::Compact => LayerPlan::Compact,
            Layers::Wide => LayerPlan::Wide,
        };
        let processes = args.processes;
        if let Some(rest) = text.strip_prefix("random") {
            let (count, seed) = random(rest)?;
            let all = u64::from(endpoints) * u64::from(processes);
            if u64::from(count) > all {
                return Err(anyhow!("N: {count} groups for {all} processes, at most one each"));
            }
            let shape = Shape::Random { count, processes, seed };
            return Ok(Self { shape, layers, endpoints });
        }
        let sizes: Vec<u32> =
            text.split('x').map(str::parse).collect::<Result<_, _>>().map_err(|_| {
                anyhow!("neither XxY or XxYxZ, as 8x12, nor random:N:SEED, as random:100:1")
            })?;
        let grid = match sizes.as_slice() {
            [x, y] => Grid::plane(*x, *y, processes)?,
            [x, y, z] => Grid::cube(*x, *y, *z, processes)?,
            other => return Err(anyhow!("{} dimensions, must be 2 or 3, as 8x12", other.len())),
        };
        Ok(Self { shape: Shape::Grid(grid), layers, endpoints })
    }

    /// Makes the groups, with MGIDs of a space.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if the fabric is too small or there are too few colors.
    pub(crate) fn groups(&self, space: &MgidSpace) -> Result<Vec<PatternGroup>, PatternError> {
        let Self { shape, layers, endpoints } = *self;
        match shape {
            Shape::Grid(grid) => grid_groups(&grid, false, layers, space, endpoints),
            Shape::Random { count, processes, seed } => {
                random_groups(count, processes, endpoints, seed, space)
            }
        }
    }
}

fn random(rest: &str) -> anyhow::Result<(u32, u64)> {
    let numbers = rest.strip_prefix(':').and_then(|numbers| numbers.split_once(':'));
    let (count, seed) = numbers.ok_or_else(|| anyhow!("not random:N:SEED, as random:100:1"))?;
    Ok((count.parse().context("N")?, seed.parse().context("SEED")?))
}
