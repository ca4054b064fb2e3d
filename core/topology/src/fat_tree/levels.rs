//! Finds the level of every switch: its distance from the leaf switches.
//!
//! Leaf switches are the switches with endpoints, except those above other switches with endpoints
//! (a management host on a spine), plus those at a leaf's position that have no endpoint.

use std::collections::VecDeque;

use fixedbitset::FixedBitSet;

use super::report::{NotFatTree, Reason, Reasons};
use crate::disjoint::DisjointSets;
use crate::graph::Graph;
use crate::ids::{Peer, PortId, SwitchId};

/// Level of a switch that leads to no leaf.
pub(super) const UNREACHED: u8 = u8::MAX;

/// The level of every switch.
pub(super) struct Levels {
    /// By switch: 0 to 3, or [`UNREACHED`].
    pub(super) level: Vec<u8>,
    /// Links that do not join neighbouring levels, loopback cables aside.
    pub(super) strays: Vec<(PortId, PortId)>,
}

impl Levels {
    /// Returns the level of a switch.
    pub(super) fn of(&self, switch: SwitchId) -> u8 {
        self.level[switch.index()]
    }

    /// Iterates over the switches of one level.
    pub(super) fn on(&self, level: u8) -> impl Iterator<Item = SwitchId> + '_ {
        (0u32..).zip(&self.level).filter(move |(_, at)| **at == level).map(|(id, _)| SwitchId(id))
    }
}

/// Iterates over the links of a switch to other switches: own port and the other switch.
pub(super) fn links(
    graph: &Graph,
    switch: SwitchId,
) -> impl Iterator<Item = (PortId, SwitchId)> + '_ {
    graph.ports(switch).filter_map(move |port| match graph.peer(port) {
        Peer::Switch(other) => {
            let other = graph.switch_of(other);
            (other != switch).then_some((port, other))
        }
        Peer::None | Peer::Endpoint(_) => None,
    })
}

/// Counts the endpoints of every switch.
pub(super) fn count_endpoints(graph: &Graph) -> Vec<u32> {
    let mut counts = vec![0; graph.switch_count()];
    for port in graph.endpoints().filter_map(|endpoint| graph.attachment(endpoint)) {
        counts[graph.switch_of(port).index()] += 1;
    }
    counts
}

/// Finds the levels, taking the switches of `solid` as leaves to begin with.
pub(super) fn find_levels(
    graph: &Graph,
    endpoints: &[u32],
    solid: &FixedBitSet,
) -> Result<Levels, NotFatTree> {
    let mut leaves = solid.clone();
    for above in standing_above(graph, endpoints, solid) {
        leaves.remove(above.index());
    }
    if leaves.is_clear() {
        return Err(Reasons::only(Reason::NoEndpoints));
    }
    check_leaf_links(graph, endpoints, &leaves)?;
    let mut level = distances(graph, &leaves)?;
    let more = hidden_leaves(graph, endpoints, &level);
    if !more.is_empty() {
        leaves.extend(more.iter().map(|switch| switch.index()));
        level = distances(graph, &leaves)?;
    }
    let strays = find_strays(graph, &level)?;
    Ok(Levels { level, strays })
}

/// Finds switches that are linked to more switches with endpoints than any of
/// those is, and have fewer endpoints themselves: spines with a few hosts.
fn standing_above(graph: &Graph, endpoints: &[u32], solid: &FixedBitSet) -> Vec<SwitchId> {
    let neighbours = |switch: SwitchId| {
        let mut found: Vec<SwitchId> = links(graph, switch)
            .map(|(_, other)| other)
            .filter(|other| solid.contains(other.index()))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let ids = || solid.ones().map(|index| SwitchId(crate::ids::dense(index)));
    let counts: Vec<(SwitchId, usize)> =
        ids().map(|switch| (switch, neighbours(switch).len())).collect();
    let mut by_switch = vec![0; graph.switch_count()];
    for (switch, count) in &counts {
        by_switch[switch.index()] = *count;
    }
    let is_above = |(switch, count): &(SwitchId, usize)| {
        let below = neighbours(*switch);
        let hosts: u64 = below.iter().map(|other| u64::from(endpoints[other.index()])).sum();
        let own = u64::from(endpoints[switch.index()]);
        let fewer = own * u64::try_from(below.len()).expect("at most 255") < hosts;
        *count >= 2 && fewer && below.iter().all(|other| by_switch[other.index()] < *count)
    };
    counts.iter().filter(|entry| is_above(entry)).map(|(switch, _)| *switch).collect()
}

/// Refuses links between leaves that have nothing above them to replace it.
fn check_leaf_links(
    graph: &Graph,
    endpoints: &[u32],
    leaves: &FixedBitSet,
) -> Result<(), NotFatTree> {
    let has_upper = |switch| links(graph, switch).any(|(_, other)| !leaves.contains(other.index()));
    let mut reasons = Reasons::default();
    for a in leaves.ones().map(|index| SwitchId(crate::ids::dense(index))) {
        let mut last = None;
        for (_, b) in links(graph, a) {
            let seen = last.replace(b) == Some(b);
            let both = leaves.contains(b.index()) && a < b && !seen;
            if both && !(has_upper(a) && has_upper(b)) {
                reasons.push(Reason::LeavesLinked {
                    a: graph.switch_label(a),
                    a_endpoints: endpoints[a.index()],
                    b: graph.switch_label(b),
                    b_endpoints: endpoints[b.index()],
                });
            }
        }
    }
    reasons.check()
}

/// Measures how far above the leaves every switch is. A switch four links away is a level-2 switch
/// whose part of the fabric below is not populated; one five links away is a level-3 switch without
/// links to those that are, if another one stands beside it.
fn distances(graph: &Graph, leaves: &FixedBitSet) -> Result<Vec<u8>, NotFatTree> {
    let mut level = vec![UNREACHED; graph.switch_count()];
    let mut queue = VecDeque::new();
    for index in leaves.ones() {
        level[index] = 0;
        queue.push_back(SwitchId(crate::ids::dense(index)));
    }
    let mut reasons = Reasons::default();
    let (mut spare, mut cut_off) = (Vec::new(), Vec::new());
    while let Some(switch) = queue.pop_front() {
        let distance = level[switch.index()] + 1;
        for (_, other) in links(graph, switch) {
            if level[other.index()] != UNREACHED {
                continue;
            }
            level[other.index()] = distance;
            match distance {
                4 => spare.push(other),
                5 => cut_off.push(other),
                _ => {}
            }
            if distance < 5 {
                queue.push_back(other);
            }
        }
    }
    for switch in cut_off.iter().filter(|switch| !stands_beside_another(graph, &level, **switch)) {
        let switch = graph.switch_label(*switch);
        reasons.push(Reason::TooManyLevels { switch, distance: 5 });
    }
    reasons.check()?;
    for switch in spare {
        level[switch.index()] = 2;
    }
    for switch in cut_off {
        level[switch.index()] = 3;
    }
    Ok(level)
}

/// Tells whether a switch five links above the leaves has most of its links, two at least, to
/// switches that one three links above them is linked to. Above a fifth level it is not so: there
/// the switches of one level have few neighbours above in common with those two levels up.
///
/// Cost: O(d^2) for switches with d links.
fn stands_beside_another(graph: &Graph, distances: &[u8], switch: SwitchId) -> bool {
    let spares = |switch: SwitchId| {
        let all = links(graph, switch).map(|(_, other)| other);
        let mut found: Vec<_> = all.filter(|other| distances[other.index()] == 4).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let own = spares(switch);
    let beside = own.iter().take(2).flat_map(|spare| links(graph, *spare));
    let mut beside = beside.map(|(_, other)| other).filter(|other| distances[other.index()] == 3);
    beside.any(|other| {
        let theirs = spares(other);
        let common = own.iter().filter(|spare| theirs.binary_search(spare).is_ok()).count();
        common >= 2 && 2 * common > own.len()
    })
}

/// Finds level-2 switches all of whose links go to level-1 switches of one compute midplane: leaves
/// that their few endpoints did not identify.
fn hidden_leaves(graph: &Graph, endpoints: &[u32], level: &[u8]) -> Vec<SwitchId> {
    let mut midplanes = DisjointSets::new(level.len());
    let on = |wanted: u8| {
        (0u32..).zip(level).filter(move |(_, at)| **at == wanted).map(|(id, _)| SwitchId(id))
    };
    for leaf in on(0) {
        for (_, other) in links(graph, leaf) {
            if level[other.index()] == 1 {
                midplanes.join(leaf.0, other.0);
            }
        }
    }
    on(2)
        .filter(|switch| {
            let mut below = links(graph, *switch).map(|(_, other)| other);
            let Some(first) = below.next() else { return false };
            let midplane = midplanes.find(first.0);
            let mut differ = false;
            let mut fits = |other: SwitchId| {
                differ |= other != first;
                level[other.index()] == 1 && midplanes.find(other.0) == midplane
            };
            let within = fits(first) && below.all(&mut fits);
            within && (differ || endpoints[switch.index()] > 0)
        })
        .collect()
}

/// Finds links that join no neighbouring levels; too many of them are no fat tree.
fn find_strays(graph: &Graph, level: &[u8]) -> Result<Vec<(PortId, PortId)>, NotFatTree> {
    let mut strays = Vec::new();
    let mut in_all = 0usize;
    for switch in graph.switches().filter(|switch| level[switch.index()] != UNREACHED) {
        for (port, other) in links(graph, switch).filter(|(_, other)| switch < *other) {
            in_all += 1;
            let (a, b) = (level[switch.index()], level[other.index()]);
            if a.abs_diff(b) != 1 {
                let Peer::Switch(end) = graph.peer(port) else { continue };
                strays.push((port, end));
            }
        }
    }
    let mut reasons = Reasons::default();
    if strays.len() * 2 > in_all {
        for (a, b) in &strays {
            reasons.push(Reason::LinkWithinLevel {
                a: graph.port_label(*a),
                b: graph.port_label(*b),
                level: level[graph.switch_of(*a).index()].into(),
            });
        }
    }
    reasons.check()?;
    Ok(strays)
}
