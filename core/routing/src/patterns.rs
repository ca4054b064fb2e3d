//! The communication patterns of C-MR4LMS §4: grids of processes, one global group, random groups.

use fabricast_topology::{EndpointId, SplitMix};
use thiserror::Error;

use crate::layers::{Grid, LayerPlan, LayerSize, Line, TooFewColors, assign_mgids};
use crate::mgid::Mgid;
use crate::spt::MgidSpace;

/// A group of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternGroup {
    /// Its MGID.
    pub mgid: Mgid,
    /// What it is, like "x/3/0" for the x-line at y = 3, z = 0.
    pub name: String,
    /// Its members, rising.
    pub members: Vec<EndpointId>,
}

/// Makes the groups of all lines of a grid on the first endpoints, and one of everybody if `global`.
///
/// # Errors
///
/// [`PatternError`] if the fabric has too few endpoints or there are too few colors.
pub fn grid_groups(
    grid: &Grid,
    global: bool,
    plan: LayerPlan,
    space: &MgidSpace,
    endpoints: u32,
) -> Result<Vec<PatternGroup>, PatternError> {
    if grid.endpoints() > endpoints {
        return Err(PatternError::TooFewEndpoints { needed: grid.endpoints(), endpoints });
    }
    let lines: Vec<Line> = grid.lines().collect();
    let mut groups: Vec<(String, Vec<u32>)> =
        lines.iter().map(|line| (line_name(*line), grid.endpoints_on(*line))).collect();
    // Layers by number: first the global group's, then dimension by dimension.
    let mut keys: Vec<(usize, u32)> =
        lines.iter().map(|line| (line.dimension() + 1, grid.layer(plan, *line))).collect();
    if global {
        groups.insert(0, ("global".to_owned(), (0..grid.endpoints()).collect()));
        keys.insert(0, (0, 0));
    }
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    let sizes: Vec<((usize, u32), LayerSize)> = sorted
        .chunk_by(|a, b| a == b)
        .map(|same| {
            let groups = u32::try_from(same.len()).expect("fewer lines than processes");
            (same[0], LayerSize { dimension: same[0].0, groups })
        })
        .collect();
    let layers: Vec<usize> =
        keys.iter().map(|key| sizes.partition_point(|(other, _)| other < key)).collect();
    let sizes: Vec<LayerSize> = sizes.into_iter().map(|(_, size)| size).collect();
    let mgids = assign_mgids(space, &sizes, &layers)?;
    let made = groups.into_iter().zip(mgids).map(|((name, members), mgid)| PatternGroup {
        mgid,
        name,
        members: members.into_iter().map(EndpointId).collect(),
    });
    Ok(made.collect())
}

/// Makes one group of the first `count` endpoints.
///
/// # Errors
///
/// [`PatternError`] if the fabric has too few endpoints.
pub fn global_group(count: u32, endpoints: u32) -> Result<PatternGroup, PatternError> {
    if count > endpoints {
        return Err(PatternError::TooFewEndpoints { needed: count, endpoints });
    }
    let members = (0..count).map(EndpointId).collect();
    Ok(PatternGroup { mgid: Mgid(0), name: "global".to_owned(), members })
}

/// Puts every process, `per_endpoint` to an endpoint, into one of `count` groups by chance.
///
/// The groups are dealt out to as many layers as an endpoint has processes, and its first process takes a group of
/// the first layer and so on, as C-MR4LMS §3.5 demands: no endpoint is in two groups of a layer. The same
/// seed gives the same groups.
///
/// # Errors
///
/// [`PatternError`] if there are fewer groups than processes of an endpoint, or fewer colors.
pub fn random_groups(
    count: u32,
    per_endpoint: u32,
    endpoints: u32,
    seed: u64,
    space: &MgidSpace,
) -> Result<Vec<PatternGroup>, PatternError> {
    if per_endpoint == 0 || count < per_endpoint {
        return Err(PatternError::TooFewGroups { groups: count, per_endpoint });
    }
    let mut chance = SplitMix::new(seed);
    let mut members = vec![Vec::new(); count as usize];
    let groups_in = |layer: u32| (count - layer).div_ceil(per_endpoint); // layer, layer + P, ...
    for endpoint in (0..endpoints).map(EndpointId) {
        for layer in 0..per_endpoint {
            let group = layer + chance.below(groups_in(layer)) * per_endpoint;
            members[group as usize].push(endpoint);
        }
    }
    let sizes: Vec<LayerSize> = (0..per_endpoint)
        .map(|layer| LayerSize { dimension: 0, groups: groups_in(layer) })
        .collect();
    let layers: Vec<usize> = (0..count).map(|group| (group % per_endpoint) as usize).collect();
    let mgids = assign_mgids(space, &sizes, &layers)?;
    let made = (0u32..).zip(mgids.into_iter().zip(members)).map(|(group, (mgid, members))| {
        PatternGroup { mgid, name: format!("random/{group}"), members }
    });
    Ok(made.collect())
}

fn line_name(line: Line) -> String {
    match line {
        Line::X { b, c } => format!("x/{b}/{c}"),
        Line::Y { a, c } => format!("y/{a}/{c}"),
        Line::Z { a, b } => format!("z/{a}/{b}"),
    }
}

/// Why a pattern cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The fabric is too small.
    #[error("the pattern needs {needed} endpoints, the fabric has {endpoints}")]
    TooFewEndpoints {
        /// Endpoints the pattern needs.
        needed: u32,
        /// Endpoints there are.
        endpoints: u32,
    },
    /// Every process of an endpoint needs a group of its own.
    #[error("{groups} groups for {per_endpoint} processes per endpoint, need one or more for each")]
    TooFewGroups {
        /// Groups asked for.
        groups: u32,
        /// Processes of an endpoint.
        per_endpoint: u32,
    },
    /// The layers need more colors.
    #[error(transparent)]
    TooFewColors(#[from] TooFewColors),
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use fabricast_topology::TableKind;

    use super::*;

    fn space() -> MgidSpace {
        MgidSpace::new(32, 16, TableKind::PerPort).unwrap()
    }

    /// C-MR4LMS §4.2: 100x50x26 with 4 processes per endpoint is 8 900 groups of 32 500 endpoints.
    #[test]
    fn the_largest_pattern_has_the_papers_size() {
        let grid = Grid::cube(100, 50, 26, 4).unwrap();
        let groups = grid_groups(&grid, false, LayerPlan::Compact, &space(), 32_768).unwrap();
        assert_eq!((groups.len(), grid.endpoints()), (8_900, 32_500));
        let mgids: BTreeSet<Mgid> = groups.iter().map(|group| group.mgid).collect();
        assert_eq!(mgids.len(), 8_900);
        assert!(groups.iter().all(|group| group.members.is_sorted_by(|a, b| a < b)));
    }

    #[test]
    fn no_endpoint_of_a_grid_uses_a_color_twice() {
        for (grid, plan) in [
            (Grid::cube(10, 5, 6, 4).unwrap(), LayerPlan::Compact),
            (Grid::cube(11, 5, 6, 4).unwrap(), LayerPlan::Wide),
            (Grid::plane(9, 7, 2).unwrap(), LayerPlan::Compact),
        ] {
            let groups = grid_groups(&grid, true, plan, &space(), 1_000).unwrap();
            let mut used = BTreeMap::new();
            for group in &groups {
                for member in &group.members {
                    let color = space().color(space().spt(group.mgid));
                    assert_eq!(used.insert((*member, color), &group.name), None);
                }
            }
        }
    }

    #[test]
    fn random_groups_hold_every_process_and_follow_the_seed() {
        let random = |seed| random_groups(10, 3, 500, seed, &space()).unwrap();
        let groups = random(7);
        assert_eq!(groups.iter().map(|group| group.members.len()).sum::<usize>(), 1_500);
        assert!(groups.iter().all(|group| group.members.len() > 50), "spread evenly");
        assert!(groups.iter().all(|group| group.members.is_sorted_by(|a, b| a < b)));
        assert_eq!((groups, random(7) == random(8)), (random(7), false));
    }

    #[test]
    fn no_endpoint_uses_a_color_in_two_random_groups() {
        let mut used = BTreeSet::new();
        for group in random_groups(100, 4, 500, 1, &space()).unwrap() {
            let color = space().color(space().spt(group.mgid));
            assert!(group.members.iter().all(|member| used.insert((*member, color))));
        }
    }

    #[test]
    fn a_pattern_that_does_not_fit_is_refused() {
        let grid = Grid::plane(10, 10, 1).unwrap();
        assert_eq!(
            grid_groups(&grid, false, LayerPlan::Compact, &space(), 99),
            Err(PatternError::TooFewEndpoints { needed: 100, endpoints: 99 })
        );
        assert_eq!(
            random_groups(3, 4, 9, 0, &space()),
            Err(PatternError::TooFewGroups { groups: 3, per_endpoint: 4 })
        );
        assert_eq!(
            Grid::plane(3, 3, 3),
            Err(GridError::TooManyPerEndpoint { per_endpoint: 3, dimension: "x", size: 3 })
        );
    }

    use crate::layers::GridError;
}
