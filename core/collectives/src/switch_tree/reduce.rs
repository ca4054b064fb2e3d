//! Finds the aggregation tree with the fewest switches within a physical tree: §4.2.
//!
//! A kept switch with at most K children reduces the number of upward packets by up to K - 1, and
//! never below one. Below each switch the useful reductions therefore add up to the number of
//! members below, less one, and the switches to keep are those with the largest reductions. The
//! published listing is lost. This algorithm finds the minimum on every tree; the likely form of
//! the published one does not.
//!
//! Invariants
//! - AGG-4: no tree that hangs in the same physical tree, with the same limits, has fewer switches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabricast_topology::SwitchId;

use super::{KeptSwitch, PhysicalTree, SwitchTree};

/// Marks no parent in a column.
const NONE: u32 = u32::MAX;

/// Possible reductions, the smallest on top, with their switches.
type Reductions = BinaryHeap<Reverse<(u32, u32)>>;

/// Finds the tree with the fewest switches, given the limit on children of each switch: 0 if it
/// cannot reduce. `None` if too few switches can reduce, or the root cannot.
///
/// Cost: O(n log² n) for n switches and members.
pub fn minimum_tree(
    physical: PhysicalTree,
    children: impl Fn(SwitchId) -> u32,
) -> Option<SwitchTree> {
    let limits: Vec<u32> = physical.switches.iter().map(|node| children(node.switch)).collect();
    let keep = choose(&physical, &limits)?;
    Some(connect(physical, &limits, &keep))
}

/// Chooses the switches to keep, by index.
fn choose(physical: &PhysicalTree, limits: &[u32]) -> Option<Vec<bool>> {
    let count = physical.switches.len();
    let mut members = vec![0_u32; count];
    for leaf in &physical.members {
        members[*leaf as usize] += 1;
    }
    let mut below: Vec<(Reductions, u32)> = vec![(Reductions::new(), 0); count];
    for place in (1..count).rev() {
        let (mut reductions, mut sum) = std::mem::take(&mut below[place]);
        if limits[place] > 1 {
            reductions.push(Reverse((limits[place] - 1, index(place))));
            sum += limits[place] - 1;
        }
        // More than all but one of the members below cannot be saved.
        let most = members[place].saturating_sub(1);
        while sum > most {
            let Some(Reverse((size, whose))) = reductions.pop() else { break };
            let excess = sum - most;
            if size > excess {
                reductions.push(Reverse((size - excess, whose)));
            }
            sum -= size.min(excess);
        }
        let up = physical.switches[place].up.as_ref()?;
        let parent = up.parent as usize;
        members[parent] += members[place];
        let (others, others_sum) = &mut below[parent];
        if others.len() < reductions.len() {
            std::mem::swap(others, &mut reductions);
        }
        others.append(&mut reductions);
        *others_sum += sum;
    }
    let mut keep = vec![false; count];
    let at_root = *limits.first().filter(|limit| **limit > 0)?;
    keep[0] = true;
    let mut missing = members[0].saturating_sub(at_root);
    // Rising, so that of the reversed pairs the largest come last.
    let (reductions, _) = std::mem::take(&mut below[0]);
    for Reverse((size, whose)) in reductions.into_sorted_vec() {
        if missing == 0 {
            break;
        }
        keep[whose as usize] = true;
        missing = missing.saturating_sub(size);
    }
    (missing == 0).then_some(keep)
}

/// Assigns every node to a kept switch. Each switch takes as many of the arriving packets as it
/// may, those with the fewest levels behind them first; the others and its own packet continue
/// upwards.
fn connect(physical: PhysicalTree, limits: &[u32], keep: &[bool]) -> SwitchTree {
    let count = physical.switches.len();
    // Places in `kept`, parents first: the order of the physical tree.
    let mut places = vec![NONE; count];
    let mut kept = Vec::new();
    for (place, node) in physical.switches.iter().enumerate().filter(|(place, _)| keep[*place]) {
        places[place] = index(kept.len());
        kept.push(KeptSwitch { switch: node.switch, parent: None });
    }
    let mut member_parents = vec![NONE; physical.members.len()];
    let mut pending: Vec<Vec<Pending>> = vec![Vec::new(); count];
    for (member, leaf) in physical.members.iter().enumerate() {
        let sender = Sender::Member(index(member));
        pending[*leaf as usize].push(Pending { height: 0, sender });
    }
    for place in (0..count).rev() {
        let mut items = std::mem::take(&mut pending[place]);
        if keep[place] {
            items.sort_unstable();
            let rest = items.split_off(items.len().min(limits[place] as usize));
            let height = items.iter().map(|item| item.height + 1).max().unwrap_or(0);
            for item in items {
                match item.sender {
                    Sender::Member(member) => member_parents[member as usize] = places[place],
                    Sender::Switch(child) => kept[child as usize].parent = Some(places[place]),
                }
            }
            items = rest;
            items.push(Pending { height, sender: Sender::Switch(places[place]) });
        }
        let Some(up) = physical.switches[place].up else {
            assert!(items.len() == 1, "AGG-4: the root takes what is left");
            continue;
        };
        let above = &mut pending[up.parent as usize];
        if above.len() < items.len() {
            std::mem::swap(above, &mut items);
        }
        above.append(&mut items);
    }
    SwitchTree { physical, kept, member_parents }
}

/// A packet at a switch, ordered as packets are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    /// Levels of the tree behind it.
    height: u32,
    sender: Sender,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sender {
    Switch(u32),
    Member(u32),
}

fn index(place: usize) -> u32 {
    u32::try_from(place).expect("switches and members have 32-bit numbers")
}
