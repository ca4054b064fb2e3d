//! Trees that were replaced and by which members may still send.
//!
//! An entry that is held and no longer desired is removed once no member can send by the tree that
//! it belonged to. That is decided tree by tree: a change of one group does not put off the removal
//! of the entries of others.
//!
//! Invariants
//! - RETIRE-1: no entry is removed from a switch while a member may send by a replaced tree with
//!   the entry's color that had ports in that switch which the next tree has not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabricast_groups::Moment;
use fabricast_groups::ids::Gn;
use fabricast_topology::SwitchId;

use crate::planner::ReplacedTree;
use crate::table_state::{EntryPoint, Writes};

/// Replaced trees, and until when they are needed.
#[derive(Debug, Default)]
pub(crate) struct RetiringTrees {
    /// Trees of the routes that members know, by GN, until another route is reported.
    in_use: BTreeMap<Gn, Vec<ReplacedTree>>,
    /// Trees of routes that were replaced by a report, and the time when all members know that.
    leaving: VecDeque<(Moment, Vec<ReplacedTree>)>,
    /// Trees whose members keep their color: they are needed until the entries are swapped where
    /// packets enter the fabric.
    until_swapped: Vec<ReplacedTree>,
    /// Number of trees above in each switch with each color.
    uses: BTreeMap<(SwitchId, u16), u32>,
    unknown: UnknownTrees,
}

/// Trees of the routes that another route service has reported.
#[derive(Debug, Default)]
enum UnknownTrees {
    /// All are known.
    #[default]
    None,
    /// They are needed until these groups have other routes, by GN.
    InUse(BTreeSet<Gn>),
    /// They are needed until all members know the other routes, and members that keep their color
    /// have the swaps that waited when all routes were reported.
    Leaving { until: Moment, swaps: BTreeSet<EntryPoint> },
}

impl RetiringTrees {
    /// Notes that members may use trees that are not known.
    ///
    /// - `gns`: groups whose reported route is another one than the planned.
    pub(crate) fn start_blind(&mut self, gns: BTreeSet<Gn>) {
        self.unknown = UnknownTrees::InUse(gns);
    }

    /// Notes that trees were replaced in the plan by which members of a group may send: those with
    /// a color that members know. Members reach a tree that was never reported, too, once the
    /// entries where their packets enter the fabric were swapped.
    pub(crate) fn replace(&mut self, gn: Gn, trees: Vec<ReplacedTree>) {
        count(&mut self.uses, &trees, true);
        self.in_use.entry(gn).or_default().extend(trees);
    }

    /// Notes that members may send by trees, planned or not, until they all know another route.
    pub(crate) fn leave(&mut self, trees: Vec<ReplacedTree>, until: Moment) {
        if !trees.is_empty() {
            count(&mut self.uses, &trees, true);
            self.leaving.push_back((until, trees));
        }
    }

    /// Notes that the members of a group are told another route.
    ///
    /// - `until`: time when all of them know it; `None` if they keep their color.
    pub(crate) fn reported(&mut self, gn: Gn, until: Option<Moment>) {
        let trees = self.in_use.remove(&gn);
        match (trees, until) {
            (Some(trees), Some(until)) => self.leaving.push_back((until, trees)),
            (Some(trees), None) => self.until_swapped.extend(trees),
            (None, _) => {}
        }
        if let UnknownTrees::InUse(gns) = &mut self.unknown {
            gns.remove(&gn);
        }
    }

    /// Notes the end of a time in which members could not hear of reports.
    pub(crate) fn put_off(&mut self, until: Moment) {
        for (end, _) in &mut self.leaving {
            *end = until.max(*end);
        }
        if let UnknownTrees::Leaving { until: end, .. } = &mut self.unknown {
            *end = until.max(*end);
        }
    }

    /// Forgets the trees whose time is over. Call it only while members hear of reports.
    ///
    /// - `until`: time when members know all that is reported by now.
    /// - `swaps`: swaps that are still to be written.
    pub(crate) fn expire(&mut self, now: Moment, until: Moment, swaps: &Writes) {
        let Self { leaving, until_swapped, uses, .. } = self;
        until_swapped.retain(|tree| {
            let mut swaps = tree.switches.iter().filter_map(|switch| swaps.get(switch)).flatten();
            let waits = swaps.any(|swap| swap.color == tree.color);
            if !waits {
                count(uses, std::slice::from_ref(tree), false);
            }
            waits
        });
        leaving.retain(|(end, trees)| {
            let is_over = now >= *end;
            if is_over {
                count(uses, trees, false);
            }
            !is_over
        });
        match &mut self.unknown {
            UnknownTrees::InUse(gns) if gns.is_empty() => {
                let swaps = points(swaps).collect();
                self.unknown = UnknownTrees::Leaving { until, swaps };
            }
            UnknownTrees::Leaving { until, swaps: known } => {
                let waiting: BTreeSet<EntryPoint> = points(swaps).collect();
                known.retain(|point| waiting.contains(point));
                if now >= *until && known.is_empty() {
                    self.unknown = UnknownTrees::None;
                }
            }
            UnknownTrees::InUse(_) | UnknownTrees::None => {}
        }
    }

    /// True if no entry of a color may be removed from a switch yet (RETIRE-1).
    pub(crate) fn needs(&self, switch: SwitchId, color: u16) -> bool {
        !matches!(self.unknown, UnknownTrees::None) || self.uses.contains_key(&(switch, color))
    }

    /// Time at which more entries can be removed without another report.
    pub(crate) fn due(&self) -> Option<Moment> {
        let unknown = match &self.unknown {
            // Swaps are due on their own.
            UnknownTrees::Leaving { until, swaps } => swaps.is_empty().then_some(*until),
            UnknownTrees::None | UnknownTrees::InUse(_) => None,
        };
        let leaving = self.leaving.iter().map(|(until, _)| *until);
        leaving.chain(unknown).min()
    }

    /// True if nothing retires.
    pub(crate) fn is_empty(&self) -> bool {
        self.uses.is_empty() && matches!(self.unknown, UnknownTrees::None)
    }
}

fn points(writes: &Writes) -> impl Iterator<Item = EntryPoint> {
    writes.iter().flat_map(|(switch, writes)| writes.iter().map(|write| write.at(*switch)))
}

fn count(uses: &mut BTreeMap<(SwitchId, u16), u32>, trees: &[ReplacedTree], is_new: bool) {
    for tree in trees {
        for switch in &tree.switches {
            let key = (*switch, tree.color);
            let count = uses.entry(key).or_default();
            if is_new {
                *count += 1;
            } else if *count > 1 {
                *count -= 1;
            } else {
                uses.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fabricast_topology::PortSet;

    use super::*;
    use crate::table_state::Write;

    fn tree(color: u16, switches: &[u32]) -> Vec<ReplacedTree> {
        let switches = switches.iter().map(|at| SwitchId(*at)).collect();
        vec![ReplacedTree { color, switches }]
    }

    #[test]
    fn a_tree_is_needed_until_all_members_know_the_next_route() {
        let mut trees = RetiringTrees::default();
        trees.replace(Gn(1), tree(5, &[1, 2]));
        trees.replace(Gn(2), tree(5, &[2, 3]));
        let needed = |trees: &RetiringTrees| -> Vec<u32> {
            (0..10).filter(|at| trees.needs(SwitchId(*at), 5)).collect()
        };
        assert_eq!(needed(&trees), [1, 2, 3]);
        assert!(!trees.needs(SwitchId(1), 6));
        trees.reported(Gn(1), Some(Moment(7)));
        trees.reported(Gn(2), None);
        trees.expire(Moment(6), Moment(20), &Writes::new());
        assert_eq!((needed(&trees), trees.due()), (vec![1, 2], Some(Moment(7))));
        trees.put_off(Moment(9));
        trees.expire(Moment(8), Moment(20), &Writes::new());
        assert_eq!(needed(&trees), [1, 2]);
        trees.expire(Moment(9), Moment(20), &Writes::new());
        assert!(needed(&trees).is_empty() && trees.is_empty() && trees.due().is_none());
    }

    /// Found by the simulation: the route was withdrawn, and its tree left the plan a moment later.
    #[test]
    fn a_tree_is_needed_after_its_route_was_withdrawn() {
        let mut trees = RetiringTrees::default();
        trees.leave(tree(5, &[1]), Moment(7));
        trees.expire(Moment(6), Moment(20), &Writes::new());
        assert!(trees.needs(SwitchId(1), 5) && trees.due() == Some(Moment(7)));
        trees.expire(Moment(7), Moment(20), &Writes::new());
        assert!(trees.is_empty());
    }

    /// Found by the simulation: the group kept its color, and its packets their way up the old tree
    /// until the swap.
    #[test]
    fn a_tree_of_a_kept_color_is_needed_until_its_entries_are_swapped() {
        let mut trees = RetiringTrees::default();
        trees.replace(Gn(1), tree(5, &[1, 2]));
        trees.reported(Gn(1), None);
        let swap = |switch, color| {
            let write = Write { in_port: 3, color, out: PortSet::single(1) };
            Writes::from([(SwitchId(switch), vec![write])])
        };
        trees.expire(Moment(0), Moment(0), &swap(2, 5));
        assert!(trees.needs(SwitchId(1), 5) && trees.needs(SwitchId(2), 5));
        trees.expire(Moment(0), Moment(0), &swap(2, 6));
        assert!(trees.is_empty());
    }

    #[test]
    fn nothing_is_removed_while_trees_of_another_route_service_may_be_in_use() {
        let mut trees = RetiringTrees::default();
        trees.start_blind(BTreeSet::from([Gn(1), Gn(2)]));
        trees.reported(Gn(1), Some(Moment(6)));
        trees.expire(Moment(50), Moment(60), &Writes::new());
        assert!(trees.needs(SwitchId(0), 0));
        trees.reported(Gn(2), None);
        trees.expire(Moment(51), Moment(61), &Writes::new());
        assert!(trees.needs(SwitchId(0), 0) && trees.due() == Some(Moment(61)));
        trees.expire(Moment(61), Moment(71), &Writes::new());
        assert!(!trees.needs(SwitchId(0), 0) && trees.is_empty());
    }
}
