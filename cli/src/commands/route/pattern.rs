//! The patterns of groups that `route plan` makes up by itself.

use anyhow::{Context, anyhow};
use fabricast_routing::{Grid, LayerPlan, MgidSpace, PatternGroup, grid_groups, random_groups};

use crate::args::{Layers, PlanArgs};

/// Reads `XxY`, `XxYxZ` or `random:N:SEED` and makes the groups.
pub(super) fn pattern(
    text: &str,
    args: &PlanArgs,
    endpoints: usize,
    space: &MgidSpace,
) -> anyhow::Result<Vec<PatternGroup>> {
    let endpoints = u32::try_from(endpoints)?;
    let layers = match args.layers {
        Layers::Compact => LayerPlan::Compact,
        Layers::Wide => LayerPlan::Wide,
    };
    if let Some(rest) = text.strip_prefix("random") {
        let (count, seed) = random(rest)?;
        let processes = u64::from(endpoints) * u64::from(args.processes);
        if u64::from(count) > processes {
            return Err(anyhow!("N: {count} groups for {processes} processes, at most one each"));
        }
        return Ok(random_groups(count, args.processes, endpoints, seed, space)?);
    }
    let sizes: Vec<u32> =
        text.split('x').map(str::parse).collect::<Result<_, _>>().map_err(|_| {
            anyhow!("neither XxY or XxYxZ, as 8x12, nor random:N:SEED, as random:100:1")
        })?;
    let grid = match sizes.as_slice() {
        [x, y] => Grid::plane(*x, *y, args.processes)?,
        [x, y, z] => Grid::cube(*x, *y, *z, args.processes)?,
        other => return Err(anyhow!("{} dimensions, must be 2 or 3, as 8x12", other.len())),
    };
    Ok(grid_groups(&grid, false, layers, space, endpoints)?)
}

fn random(rest: &str) -> anyhow::Result<(u32, u64)> {
    let numbers = rest.strip_prefix(':').and_then(|numbers| numbers.split_once(':'));
    let (count, seed) = numbers.ok_or_else(|| anyhow!("not random:N:SEED, as random:100:1"))?;
    Ok((count.parse().context("N")?, seed.parse().context("SEED")?))
}
