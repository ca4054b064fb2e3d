//! The communication patterns of C-MR4LMS §4: grids of processes, one global group, random groups.

mod mr4lms;

use fabricast_topology::{EndpointId, FatTree, Mgid, SplitMix};
use thiserror::Error;

use crate::layers::{Grid, LayerPlan, LayerSize, Line, TooFewColors, assign_mgids};
use crate::spt::MgidSpace;
pub use mr4lms::{MR4LMS_FABRICS, Mr4lmsFabric, Mr4lmsPattern, PatternShape};

/// A group of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternGroup {
    /// Its MGID, of the layer that the pattern gives it.
    pub mgid: Mgid,
    /// Its place in the pattern, like "x/3/0" for the x-line at y = 3, z = 0.
    pub name: String,
    /// Its members, rising.
    pub members: Vec<EndpointId>,
}

/// Makes the groups of all lines of a grid on the first endpoints, and one of everybody if
/// `global`.
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
    // Layers by number: first the global group's, then dimension by dimension.
    let global = global.then(|| Layered {
        layer: (0, 0),
        name: "global".to_owned(),
        members: (0..grid.endpoints()).collect(),
    });
    let lines = grid.lines().map(|line| Layered {
        layer: (line.dimension() + 1, grid.layer(plan, line)),
        name: line_name(line),
        members: grid.endpoints_on(line),
    });
    in_layers(global.into_iter().chain(lines).collect(), space)
}

/// Makes the groups of a hierarchical collective: the endpoints of every leaf switch, their leaders
/// in every midplane, the leaders of these in every block, and so on; the first endpoint of a unit
/// leads it. Groups of one endpoint are left out.
///
/// An endpoint is in one group of a level at most, so every level is a layer.
///
/// # Errors
///
/// [`PatternError`] if there are fewer colors than levels.
pub fn hierarchy_groups(
    fat_tree: &FatTree,
    endpoints: &[EndpointId],
    space: &MgidSpace,
) -> Result<Vec<PatternGroup>, PatternError> {
    let mut members: Vec<(u32, u32)> = endpoints // by leaf: the endpoints, rising
        .iter()
        .filter_map(|endpoint| Some((fat_tree.leaf_of_endpoint(*endpoint)?, endpoint.0)))
        .collect();
    members.sort_unstable();
    let mut groups = Vec::new();
    for (level, unit_name) in ["leaf", "midplane", "block", "fabric"].into_iter().enumerate() {
        let units = members.chunk_by(|a, b| a.0 == b.0);
        groups.extend(units.clone().filter(|unit| unit.len() > 1).map(|unit| Layered {
            layer: (level, 0),
            name: format!("{unit_name}/{}", unit[0].0),
            members: unit.iter().map(|(_, endpoint)| *endpoint).collect(),
        }));
        let above = |unit: u32| match level {
            0 => fat_tree.cn_of_leaf(unit),
            1 => fat_tree.block_of_cn(unit),
            _ => 0,
        };
        let mut leaders: Vec<(u32, u32)> =
            units.map(|unit| (above(unit[0].0), unit[0].1)).collect();
        leaders.sort_unstable();
        members = leaders;
    }
    in_layers(groups, space)
}

/// A group and its layer; layers of the same first number are of one kind.
struct Layered {
    layer: (usize, u32),
    name: String,
    members: Vec<u32>,
}

/// Divides the colors among the layers there are, and numbers the groups of each.
fn in_layers(groups: Vec<Layered>, space: &MgidSpace) -> Result<Vec<PatternGroup>, PatternError> {
    let mut sorted: Vec<(usize, u32)> = groups.iter().map(|group| group.layer).collect();
    sorted.sort_unstable();
    let (mut layers, mut sizes) = (Vec::new(), Vec::new());
    for same in sorted.chunk_by(|a, b| a == b) {
        layers.push(same[0]);
        let groups = u32::try_from(same.len()).expect("groups are counted in 32 bits");
        sizes.push(LayerSize { dimension: same[0].0, groups });
    }
    let at = |group: &Layered| layers.partition_point(|layer| *layer < group.layer);
    let mgids = assign_mgids(space, &sizes, &groups.iter().map(at).collect::<Vec<_>>())?;
    let made = groups.into_iter().zip(mgids).map(|(group, mgid)| PatternGroup {
        mgid,
        name: group.name,
        members: group.members.into_iter().map(EndpointId).collect(),
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
/// The groups are dealt out to as many layers as an endpoint has processes, and its first process
/// takes a group of the first layer and so on, as C-MR4LMS §3.5 demands: no endpoint is in two
/// groups of a layer. The same seed gives the same groups.
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

/// Reason why a pattern cannot be made.
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
    use std::collections::BTreeSet;

    use fabricast_topology::TableKind;
    use fabricast_topology::spec::TopologySpec;

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

    /// Counts the endpoints that use a color in two groups.
    fn used_twice(groups: &[PatternGroup], space: &MgidSpace) -> usize {
        let mut used = BTreeSet::new();
        let color = |group: &PatternGroup| space.color(space.spt(group.mgid));
        let uses =
            groups.iter().flat_map(|group| group.members.iter().map(move |m| (*m, color(group))));
        uses.filter(|one| !used.insert(*one)).count()
    }

    /// C-MR4LMS §3.5: with a layer for each level, every color is used once by an endpoint.
    #[test]
    fn every_level_of_a_hierarchy_is_a_layer() {
        let spec = "kind = \"cn-tn-fat-tree\"\nq = 3\nm = 2\np = 2\nk = 2\nw = 2\nendpoints_per_leaf = 4\n";
        let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
        let fat_tree = FatTree::detect(&graph).unwrap();
        // A job on every second endpoint.
        let endpoints: Vec<EndpointId> = graph.endpoints().step_by(2).collect();
        let space = MgidSpace::new(4, 2, TableKind::PerPort).unwrap();
        let groups = hierarchy_groups(&fat_tree, &endpoints, &space).unwrap();
        let count = |kind: &str| groups.iter().filter(|group| group.name.starts_with(kind)).count();
        let counts = ["leaf/", "midplane/", "block/", "fabric/"].map(count);
        assert_eq!((counts, groups.len()), ([12, 4, 2, 1], 19));
        assert_eq!(used_twice(&groups, &space), 0);
        assert_eq!(groups[12].members, [0, 4, 8].map(EndpointId));
        let leaders: BTreeSet<EndpointId> = groups[18].members.iter().copied().collect();
        assert_eq!(leaders, BTreeSet::from([EndpointId(0), EndpointId(24)]));
        let few = MgidSpace::new(3, 2, TableKind::PerPort).unwrap();
        let error = hierarchy_groups(&fat_tree, &endpoints, &few).unwrap_err();
        assert_eq!(error, PatternError::TooFewColors(TooFewColors { colors: 3, layers: 4 }));
    }

    proptest::proptest! {
        /// Theorem 3 in terms of colors, with the group of all endpoints as one more layer.
        #[test]
        fn no_endpoint_of_a_grid_uses_a_color_twice(
            x in 1u32..14, y in 1u32..9, z in 1u32..7, p in 1u32..6, global in proptest::bool::ANY,
        ) {
            let grid = if z == 1 { Grid::plane(x, y, p) } else { Grid::cube(x, y, z, p) };
            proptest::prop_assume!(grid.is_ok());
            for plan in [LayerPlan::Compact, LayerPlan::Wide] {
                let groups = grid_groups(&grid.clone().unwrap(), global, plan, &space(), 1_000).unwrap();
                proptest::prop_assert_eq!(used_twice(&groups, &space()), 0, "{:?}", plan);
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
        assert_eq!(used_twice(&random_groups(100, 4, 500, 1, &space()).unwrap(), &space()), 0);
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
