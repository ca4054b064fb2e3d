//! Assigns processes to the slots of a k-nomial tree: Algorithms 2 and 3.
//!
//! A group's processes stand on slots of a k-nomial tree of k^order slots, some of which stay
//! empty. Merging groups puts the blocks of the smaller ones into free aligned blocks of the
//! largest; when none is free the tree grows by one level. Free slots are kept as runs of aligned
//! blocks, so that the first fitting block is found without looking at slots.
//!
//! Invariants
//! - AGG-1: a group's first process stands on a multiple of its block's size, and every other at
//!   that plus its own slot inside the group.
//! - AGG-2: if any slot of an aligned block is taken, its first is: no parent slot is ever empty.
//! - AGG-3: no arrangement of the groups needs fewer slots.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::TreeError;
use crate::nesting::Nesting;

/// Assignment of processes to slots.
pub(super) struct Slots {
    /// By place in the nesting's order.
    pub(super) slots: Vec<u64>,
    /// Levels of the tree: it has width^order slots.
    pub(super) order: u32,
}

/// Assigns every process to a slot of the smallest tree of `width`.
pub(super) fn place(nesting: &Nesting, width: u32) -> Result<Slots, TreeError> {
    let mut free_slots = FreeSlots::new(width);
    let count = nesting.processes();
    let mut slots = vec![0; count as usize];
    let mut groups: Option<Vec<Group>> = None;
    let all = [0, count];
    for starts in nesting.starts().chain([all.as_slice()]) {
        let merged: Result<Vec<Group>, TreeError> = match groups {
            None => starts
                .windows(2)
                .map(|ends| free_slots.group_of_processes(ends[0], ends[1], &mut slots))
                .collect(),
            Some(groups) => {
                let mut rest = groups.into_iter().peekable();
                let inside = starts.windows(2).map(|ends| {
                    let mut members = Vec::new();
                    while let Some(group) = rest.next_if(|group| group.start < ends[1]) {
                        members.push(group);
                    }
                    free_slots.merge(members, &mut slots)
                });
                inside.collect()
            }
        };
        groups = Some(merged?);
    }
    let order = groups.and_then(|groups| groups.first().map(|group| group.order));
    Ok(Slots { slots, order: order.expect("the last level is one group of all") })
}

/// A group whose processes have slots, counted from the group's first.
struct Group {
    /// Its processes' places in the nesting's order.
    start: u32,
    end: u32,
    /// It takes an aligned block of width^order slots.
    order: u32,
    free: Vec<Run>,
}

/// Free blocks of width^order slots, one after the other.
#[derive(Clone, Copy)]
struct Run {
    order: u32,
    first: u64,
    blocks: u64,
}

/// The tree that a merge fills, kept from merge to merge for its memory.
struct FreeSlots {
    width: u32,
    /// Powers of the width that fit in 64 bits.
    sizes: Vec<u64>,
    /// By order: runs by first slot.
    free: Vec<BinaryHeap<Reverse<(u64, u64)>>>,
}

impl FreeSlots {
    fn new(width: u32) -> Self {
        let width = width.max(2);
        let larger = |size: &u64| size.checked_mul(width.into());
        let sizes: Vec<u64> = std::iter::successors(Some(1), larger).collect();
        Self { width, free: vec![BinaryHeap::new(); sizes.len()], sizes }
    }

    fn size(&self, order: u32) -> Result<u64, TreeError> {
        let size = self.sizes.get(order as usize).copied();
        size.ok_or(TreeError::TooWide { width: self.width })
    }

    /// The processes of an innermost group stand on its first slots.
    fn group_of_processes(
        &self,
        start: u32,
        end: u32,
        slots: &mut [u64],
    ) -> Result<Group, TreeError> {
        for (slot, place) in slots[start as usize..end as usize].iter_mut().zip(0..) {
            *slot = place;
        }
        let mut next = u64::from(end - start);
        let mut free = Vec::new();
        let mut order = 0;
        while self.size(order)? < next {
            let size = self.size(order)?;
            let blocks = (u64::from(self.width) - next / size % u64::from(self.width))
                % u64::from(self.width);
            if blocks > 0 {
                free.push(Run { order, first: next, blocks });
                next += blocks * size;
            }
            order += 1;
        }
        Ok(Group { start, end, order, free })
    }

    /// Merges groups: Algorithm 2.
    fn merge(&mut self, mut groups: Vec<Group>, slots: &mut [u64]) -> Result<Group, TreeError> {
        let start = groups.first().map_or(0, |group| group.start);
        let end = groups.last().map_or(0, |group| group.end);
        // A stable sort: of equal groups the first stays first.
        groups.sort_by_key(|group| Reverse(group.order));
        let mut groups = groups.into_iter();
        let Some(top) = groups.next() else { return self.group_of_processes(0, 0, slots) };
        let mut order = top.order;
        self.give(&top.free, 0);
        for group in groups {
            let first = match self.take(group.order, order) {
                Some(first) => first,
                None => {
                    let first = self.size(order)?;
                    self.size(order + 1)?;
                    self.push(Run { order, first, blocks: u64::from(self.width) - 1 });
                    order += 1;
                    self.take(group.order, order).expect("the new slots hold the smaller group")
                }
            };
            slots[group.start as usize..group.end as usize]
                .iter_mut()
                .for_each(|slot| *slot += first);
            self.give(&group.free, first);
        }
        let free = (0_u32..).zip(&mut self.free).flat_map(|(order, runs)| {
            runs.drain().map(move |Reverse((first, blocks))| Run { order, first, blocks })
        });
        Ok(Group { start, end, order, free: free.collect() })
    }

    fn push(&mut self, run: Run) {
        if run.blocks > 0 {
            self.free[run.order as usize].push(Reverse((run.first, run.blocks)));
        }
    }

    fn give(&mut self, runs: &[Run], offset: u64) {
        for run in runs {
            self.push(Run { first: run.first + offset, ..*run });
        }
    }

    /// Takes the first free block of width^`wanted` slots in a tree of width^`top`.
    fn take(&mut self, wanted: u32, top: u32) -> Option<u64> {
        let heads = (wanted..top).filter_map(|order| {
            let Reverse((first, _)) = self.free[order as usize].peek()?;
            Some((*first, order))
        });
        let (first, mut order) = heads.min()?;
        let Reverse((_, blocks)) = self.free[order as usize].pop()?;
        self.push(Run { order, first: first + self.sizes[order as usize], blocks: blocks - 1 });
        while order > wanted {
            order -= 1;
            let first = first + self.sizes[order as usize];
            self.push(Run { order, first, blocks: u64::from(self.width) - 1 });
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::nesting::Division;

    fn nesting(keys: &[Vec<u32>]) -> Nesting {
        let divisions: Vec<Division<'_>> =
            keys.iter().map(|keys| Division { links: 2, keys }).collect();
        let processes = u32::try_from(keys[0].len()).unwrap();
        Nesting::new(processes, &divisions, 4).unwrap()
    }

    /// Returns whether blocks of slots, each of its own size, fit side by side into `size` slots.
    fn fit(blocks: &[(u128, u64)], size: u64, taken: u128) -> bool {
        let Some(((block, own), rest)) = blocks.split_first() else { return true };
        let places = (0..size / own).map(|place| block << (place * own));
        places.into_iter().any(|moved| moved & taken == 0 && fit(rest, size, taken | moved))
    }

    /// Inner and outer keys of up to 14 processes.
    fn keys() -> impl Strategy<Value = Vec<Vec<u32>>> {
        vec((0..5_u32, 0..4_u32), 1..14).prop_map(|keys| {
            vec![keys.iter().map(|key| key.0).collect(), keys.iter().map(|key| key.1).collect()]
        })
    }

    proptest! {
        /// AGG-3.
        #[test]
        fn no_arrangement_needs_fewer_slots(keys in keys(), width in 2..4_u32) {
            let whole = place(&nesting(&keys), width).unwrap();
            let mut outer = keys[1].clone();
            outer.sort_unstable();
            outer.dedup();
            let blocks: Vec<(u128, u64)> = outer
                .iter()
                .map(|key| {
                    let inner = (0..keys[0].len()).filter(|process| keys[1][*process] == *key);
                    let placed = place(&nesting(&[inner.map(|one| keys[0][one]).collect()]), width);
                    let Slots { slots, order } = placed.unwrap();
                    (slots.iter().fold(0, |all, slot| all | 1 << slot), u64::from(width).pow(order))
                })
                .collect();
            let least = (0..7)
                .find(|order| {
                    let size = u64::from(width).pow(*order);
                    blocks.iter().all(|(_, own)| *own <= size) && fit(&blocks, size, 0)
                })
                .unwrap();
            prop_assert_eq!(whole.order, least);
        }

        /// AGG-1 and AGG-2.
        #[test]
        fn groups_keep_to_their_blocks(keys in keys(), width in 2..4_u32) {
            let nesting = nesting(&keys);
            let Slots { slots, order } = place(&nesting, width).unwrap();
            let mut taken = slots.clone();
            taken.sort_unstable();
            taken.dedup();
            prop_assert_eq!(taken.len(), keys[0].len(), "one process to a slot");
            prop_assert!(taken.iter().all(|slot| *slot < u64::from(width).pow(order)));
            for slot in &taken {
                let blocks = (0..order).map(|level| u64::from(width).pow(level));
                let firsts = blocks.map(|size| slot / size * size);
                prop_assert!(firsts.into_iter().all(|first| taken.contains(&first)));
            }
            for starts in nesting.starts() {
                for ends in starts.windows(2) {
                    let inside = &slots[ends[0] as usize..ends[1] as usize];
                    let (first, last) = (inside.iter().min().unwrap(), inside.iter().max().unwrap());
                    let size = (0..).map(|level| u64::from(width).pow(level));
                    let size = size.into_iter().find(|size| *size > last - first).unwrap();
                    prop_assert!(first.is_multiple_of(size));
                    let others = slots.iter().filter(|slot| (*first..=*last).contains(slot));
                    let strangers = others.count() - inside.len();
                    // A hole may be another group's, but only a whole block below this one's tree.
                    prop_assert!(strangers == 0 || first / size == last / size);
                }
            }
        }
    }

    #[test]
    fn too_many_slots_are_refused() {
        let keys = vec![(0..4).map(|process| process / 2).collect(), vec![0, 0, 1, 1], vec![0; 4]];
        let refused = place(&nesting(&keys), u32::MAX).err();
        assert_eq!(refused, None, "two levels of groups need two levels of slots");
        let deep: Vec<Vec<u32>> =
            (0..3).map(|level| (0..16).map(|process| process >> (level + 1)).collect()).collect();
        let refused = place(&nesting(&deep), u32::MAX).err();
        assert_eq!(refused, Some(TreeError::TooWide { width: u32::MAX }));
    }
}
