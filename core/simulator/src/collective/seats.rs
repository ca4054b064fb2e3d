//! Where groups meet adapters: what each adapter of a group has heard of the operation under way.

use std::ops::{Index, IndexMut};

use fabricast_topology::EndpointId;

use super::groups::{CollectiveError, ProcessPlan};
use crate::routes::TreeId;

/// An adapter's part in a group.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) group: u32,
    pub(super) endpoint: EndpointId,
    /// Its parent in the gathering tree; none at the root.
    pub(super) parent: Option<u32>,
    /// Its children there.
    pub(super) children: u32,
    /// Members behind this adapter.
    pub(super) locals: u32,
    /// At the root: the group's first member.
    pub(super) root_process: Option<u32>,
    /// Members that have begun the operation.
    pub(super) entered: u32,
    /// Members that wait for its result.
    pub(super) waiting: Vec<u32>,
    /// Operations whose result has come.
    pub(super) results: u32,
    /// Broadcasts that have been acknowledged.
    pub(super) acknowledged: u32,
    /// Packets of children for this operation and the next: a child is ahead by one at most.
    gathered: [u32; 2],
}

impl Seat {
    pub(super) fn gathered(&self, operation: u32) -> u32 {
        self.gathered[operation as usize % 2]
    }

    pub(super) fn gather_one(&mut self, operation: u32) {
        self.gathered[operation as usize % 2] += 1;
        debug_assert!(self.gathered(operation) <= self.children, "COLL-1");
    }

    pub(super) fn clear(&mut self, operation: u32) {
        self.gathered[operation as usize % 2] = 0;
    }
}

/// All seats, group by group.
#[derive(Clone, Debug)]
pub(super) struct Seats {
    seats: Vec<Seat>,
    by_endpoint: Vec<(EndpointId, u32)>, // of every group's seats, rising
    first: Vec<u32>,                     // by group; one more than groups
    trees: Vec<Vec<TreeId>>,
}

impl Seats {
    /// Seats the members of all groups; gives the seats of every process in turn as well.
    pub(super) fn new(
        processes: &[ProcessPlan],
        trees: Vec<Vec<TreeId>>,
        fan_in: u32,
    ) -> Result<(Self, Vec<Vec<u32>>), CollectiveError> {
        if fan_in < 2 {
            return Err(CollectiveError::FanIn { fan_in });
        }
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); trees.len()];
        for (number, plan) in (0u32..).zip(processes) {
            for group in &plan.groups {
                let list = members.get_mut(*group as usize);
                let unknown = CollectiveError::UnknownGroup { process: number, group: *group };
                let list = list.ok_or(unknown)?;
                if list.last() == Some(&number) {
                    return Err(CollectiveError::Twice { process: number, group: *group });
                }
                list.push(number);
            }
        }
        let mut made = Self { seats: Vec::new(), by_endpoint: Vec::new(), first: vec![0], trees };
        for (group, members) in (0u32..).zip(&members) {
            made.seat(group, members, processes, fan_in);
            let several = made.seats.len() > 1 + *made.first.last().unwrap_or(&0) as usize;
            if several && made.trees[group as usize].is_empty() {
                return Err(CollectiveError::NoTree { group });
            }
            made.first.push(dense(made.seats.len()));
        }
        let turns = processes.iter().map(|plan| {
            let seat = |group: &u32| made.find(*group, plan.endpoint);
            plan.groups.iter().map(|group| seat(group).expect("it was seated above")).collect()
        });
        let seats_of = turns.collect();
        Ok((made, seats_of))
    }

    fn seat(&mut self, group: u32, members: &[u32], processes: &[ProcessPlan], fan_in: u32) {
        let first = self.seats.len();
        for process in members {
            let endpoint = processes[*process as usize].endpoint;
            let taken = &self.by_endpoint[first..];
            match taken.binary_search_by_key(&endpoint, |(endpoint, _)| *endpoint) {
                Ok(at) => {
                    let seat = taken[at].1;
                    self.seats[seat as usize].locals += 1;
                }
                Err(at) => {
                    let slot = dense(self.seats.len() - first);
                    self.by_endpoint.insert(first + at, (endpoint, dense(self.seats.len())));
                    self.seats.push(Seat {
                        group,
                        endpoint,
                        parent: parent_slot(slot, fan_in).map(|parent| dense(first) + parent),
                        children: 0,
                        locals: 1,
                        root_process: (slot == 0).then_some(*process),
                        entered: 0,
                        waiting: Vec::new(),
                        results: 0,
                        acknowledged: 0,
                        gathered: [0; 2],
                    });
                }
            }
        }
        for at in first..self.seats.len() {
            if let Some(parent) = self.seats[at].parent {
                self.seats[parent as usize].children += 1;
            }
        }
    }

    /// Gathers a group along another tree: the parent of each of its adapters, in the order in which its
    /// processes name them.
    pub(super) fn replant(
        &mut self,
        group: u32,
        parents: &[Option<u32>],
    ) -> Result<(), CollectiveError> {
        let bounds = self.first.get(group as usize..=group as usize + 1);
        let no_tree = CollectiveError::NotATree { group };
        let [first, end] = *bounds.ok_or_else(|| no_tree.clone())? else { return Err(no_tree) };
        let seats = &mut self.seats[first as usize..end as usize];
        if parents.len() != seats.len() || !all_end_at_the_first(parents) {
            return Err(no_tree);
        }
        for seat in seats.iter_mut() {
            seat.children = 0;
        }
        for (slot, parent) in parents.iter().enumerate() {
            seats[slot].parent = parent.map(|parent| first + parent);
            if let Some(parent) = parent {
                seats[*parent as usize].children += 1;
            }
        }
        Ok(())
    }

    /// Finds an endpoint's seat in a group.
    pub(super) fn find(&self, group: u32, endpoint: EndpointId) -> Option<u32> {
        let at = group as usize;
        let seats = &self.by_endpoint[self.first[at] as usize..self.first[at + 1] as usize];
        let found = seats.binary_search_by_key(&endpoint, |(endpoint, _)| *endpoint).ok()?;
        Some(seats[found].1)
    }

    /// Gives the trees on which a group's results are sent; none if it has one seat only.
    pub(super) fn trees(&self, group: u32) -> &[TreeId] {
        let at = group as usize;
        let several = self.first[at + 1] - self.first[at] > 1;
        if several { &self.trees[at] } else { &[] }
    }
}

impl Index<u32> for Seats {
    type Output = Seat;

    fn index(&self, seat: u32) -> &Seat {
        &self.seats[seat as usize]
    }
}

impl IndexMut<u32> for Seats {
    fn index_mut(&mut self, seat: u32) -> &mut Seat {
        &mut self.seats[seat as usize]
    }
}

/// Gives the parent of a slot of a k-nomial tree: the slot with its lowest digit that is not 0 set to 0.
fn parent_slot(slot: u32, k: u32) -> Option<u32> {
    if slot == 0 {
        return None;
    }
    let (mut rest, mut weight) = (slot, 1);
    while rest % k == 0 {
        rest /= k;
        weight *= k;
    }
    Some(slot - rest % k * weight)
}

/// Tells whether the way up from every slot ends at slot 0.
fn all_end_at_the_first(parents: &[Option<u32>]) -> bool {
    let ends = |slot: usize| {
        let up = |at: &usize| parents.get(*at).copied().flatten().map(|parent| parent as usize);
        let way = std::iter::successors(Some(slot), up).take(parents.len() + 1);
        // A way that is longer than there are slots goes in a circle.
        let (length, last) = way.fold((0, slot), |(length, _), at| (length + 1, at));
        length <= parents.len() && last == 0
    };
    (0..parents.len()).all(ends)
}

fn dense(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 seats")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_those_of_the_k_nomial_tree() {
        let binomial: Vec<_> = (0..8).map(|slot| parent_slot(slot, 2)).collect();
        assert_eq!(binomial, [None, Some(0), Some(0), Some(2), Some(0), Some(4), Some(4), Some(6)]);
        assert_eq!((parent_slot(9, 4), parent_slot(31, 32)), (Some(8), Some(0)));
    }

    #[test]
    fn circles_strangers_and_second_roots_are_no_tree() {
        assert!(all_end_at_the_first(&[None, Some(2), Some(0)]));
        for parents in [
            [None, Some(2), Some(1)],
            [None, Some(7), Some(0)],
            [None, None, Some(0)],
            [Some(1), None, Some(1)],
            [Some(1), Some(0), Some(0)],
        ] {
            assert!(!all_end_at_the_first(&parents), "{parents:?}");
        }
    }
}
