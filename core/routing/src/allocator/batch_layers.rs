//! Puts groups that are known together into layers: colors such that no endpoint needs one twice.
//!
//! This is a coloring of the graph in which two groups are neighbours if they share an endpoint.
//! No fast way is best for all graphs, so several are tried, and the one with the fewest layers
//! counts: first fit with large groups first, first fit in the order of the members, and the groups
//! with the most layers around them first (DSATUR, Brélaz 1979). None looks at the order in which
//! groups are listed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fixedbitset::FixedBitSet;

/// Most pairs of neighbours that DSATUR looks at: about a second of work.
const MOST_PAIRS: usize = 1 << 23;

/// Groups whose members are endpoints `0..endpoints`.
pub(super) struct LayerInput<'a> {
    /// Members of each group, rising, in the order in which ties are decided.
    pub(super) members: &'a [Vec<u32>],
    /// Name of the layer that the creator of each group wants, if any.
    pub(super) names: &'a [Option<&'a str>],
    pub(super) most: usize,
}

/// Finds the layer of each group; layers are numbered from 0. `None` if `most` do not do.
///
/// Cost: the memberships, and for DSATUR the pairs of groups that share an endpoint.
pub(super) fn batch_layers(input: &LayerInput<'_>) -> Option<Vec<usize>> {
    let LayerInput { members, names, most } = *input;
    let endpoints = members.iter().flatten().max().map_or(0, |last| *last as usize + 1);
    let mut degrees = vec![0usize; endpoints];
    members.iter().flatten().for_each(|member| degrees[*member as usize] += 1);
    let least = degrees.iter().copied().max().unwrap_or(0);
    if least > most {
        return None; // an endpoint is in more groups than there are colors
    }
    if names.iter().any(Option::is_some)
        && let Some(named) = named_layers(input, endpoints)
    {
        return Some(named);
    }
    let as_listed: Vec<usize> = (0..members.len()).collect();
    let mut by_members = as_listed.clone();
    by_members.sort_by(|a, b| members[*a].cmp(&members[*b]));
    let mut best: Option<Layers> = None;
    let ways: [&dyn Fn() -> Option<Layers>; 3] = [
        &|| first_fit(members, &as_listed, endpoints, most),
        &|| first_fit(members, &by_members, endpoints, most),
        &|| dsatur(members, &degrees, most),
    ];
    for way in ways {
        if best.as_ref().is_some_and(|best| best.count <= least) {
            break;
        }
        if let Some(found) = way()
            && best.as_ref().is_none_or(|best| found.count < best.count)
        {
            best = Some(found);
        }
    }
    best.map(|best| best.of_groups)
}

/// A layer for each group, and how many there are.
struct Layers {
    of_groups: Vec<usize>,
    count: usize,
}

impl Layers {
    fn of(of_groups: Vec<usize>) -> Self {
        let count = of_groups.iter().max().map_or(0, |last| last + 1);
        Self { of_groups, count }
    }
}

/// The layers that each endpoint has a group in.
struct Occupied(Vec<FixedBitSet>);

impl Occupied {
    fn new(endpoints: usize) -> Self {
        Self(vec![FixedBitSet::new(); endpoints])
    }

    fn around(&self, members: &[u32], taken: &mut FixedBitSet) {
        taken.clear();
        members.iter().for_each(|member| taken.union_with(&self.0[*member as usize]));
    }

    fn enter(&mut self, members: &[u32], layer: usize) {
        members.iter().for_each(|member| self.0[*member as usize].grow_and_insert(layer));
    }
}

/// Puts every group, in some order, into the first layer that none of its members has a group in.
fn first_fit(
    members: &[Vec<u32>],
    order: &[usize],
    endpoints: usize,
    most: usize,
) -> Option<Layers> {
    let mut occupied = Occupied::new(endpoints);
    let mut taken = FixedBitSet::with_capacity(most);
    let mut of_groups = vec![0; members.len()];
    for group in order {
        occupied.around(&members[*group], &mut taken);
        of_groups[*group] = taken.zeroes().next()?;
        occupied.enter(&members[*group], of_groups[*group]);
    }
    Some(Layers::of(of_groups))
}

/// Gives every name a layer of its own and puts groups into the one they name, or else into the
/// first that fits and has no name.
fn named_layers(input: &LayerInput<'_>, endpoints: usize) -> Option<Vec<usize>> {
    let LayerInput { members, names, most } = *input;
    let of_name: BTreeMap<&str, usize> = {
        let mut distinct: Vec<&str> = names.iter().flatten().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        distinct.into_iter().zip(0..).collect()
    };
    if of_name.len() > most {
        return None;
    }
    let mut occupied = Occupied::new(endpoints);
    let mut taken = FixedBitSet::with_capacity(most);
    let mut of_groups = vec![0; members.len()];
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|group| names[*group].is_none());
    for group in order {
        occupied.around(&members[group], &mut taken);
        let named = names[group].and_then(|name| of_name.get(name).copied());
        let layer = match named.filter(|layer| !taken.contains(*layer)) {
            Some(layer) => layer,
            None => taken.zeroes().find(|layer| *layer >= of_name.len())?,
        };
        of_groups[group] = layer;
        occupied.enter(&members[group], layer);
    }
    Some(of_groups)
}

/// Always takes the group with the most layers around it, then the one listed first. `None` also
/// if that is too much work.
fn dsatur(members: &[Vec<u32>], degrees: &[usize], most: usize) -> Option<Layers> {
    let pairs = degrees.iter().map(|degree| degree.saturating_mul(*degree));
    if pairs.fold(0usize, usize::saturating_add) > MOST_PAIRS {
        return None;
    }
    let mut groups_of: Vec<Vec<usize>> =
        degrees.iter().map(|degree| Vec::with_capacity(*degree)).collect();
    for (group, members) in members.iter().enumerate() {
        members.iter().for_each(|member| groups_of[*member as usize].push(group));
    }
    let mut around: Vec<FixedBitSet> = vec![FixedBitSet::new(); members.len()];
    let mut layers_around = vec![0usize; members.len()];
    let mut of_groups: Vec<Option<usize>> = vec![None; members.len()];
    // An entry counts if the number of layers in it is still that of the group.
    let mut next: BinaryHeap<(usize, Reverse<usize>)> =
        (0..members.len()).map(|group| (0, Reverse(group))).collect();
    while let Some((layers, Reverse(group))) = next.pop() {
        if of_groups[group].is_some() || layers != layers_around[group] {
            continue;
        }
        let free = around[group].zeroes().next();
        let layer = free.unwrap_or_else(|| around[group].len());
        if layer >= most {
            return None;
        }
        of_groups[group] = Some(layer);
        for member in &members[group] {
            for other in &groups_of[*member as usize] {
                if of_groups[*other].is_none() && !around[*other].contains(layer) {
                    around[*other].grow_and_insert(layer);
                    layers_around[*other] += 1;
                    next.push((layers_around[*other], Reverse(*other)));
                }
            }
        }
    }
    of_groups.into_iter().collect::<Option<Vec<usize>>>().map(Layers::of)
}
