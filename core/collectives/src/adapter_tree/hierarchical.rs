//! Hierarchical k-nomial trees.

use super::slots::{Slots, place};
use super::{AdapterTree, NONE, TreeError, nomial_parent};
use crate::nesting::Nesting;

/// Algorithm 4: the parent of a process is at the slot obtained by setting the lowest non-zero
/// digit of its own slot to 0.
pub(super) fn merged(nesting: &Nesting, width: u32) -> Result<AdapterTree, TreeError> {
    let Slots { slots, order } = place(nesting, width)?;
    let mut taken: Vec<(u64, u32)> =
        slots.into_iter().zip(nesting.order().iter().copied()).collect();
    taken.sort_unstable();
    let width = u64::from(width.max(2));
    // By number of zero digits at the end: the latest process on a slot with at least so many. In
    // the order of slots that of the parent, with more zeros than its child, is the latest.
    let mut latest = vec![NONE; order as usize + 1];
    let mut parents = vec![NONE; taken.len()];
    for (slot, process) in &taken {
        let zeros = if *slot == 0 { order as usize } else { trailing_zeros(*slot, width) };
        if let Some(parent) = latest.get(zeros + 1) {
            parents[*process as usize] = *parent;
        }
        latest[..=zeros].fill(*process);
    }
    AdapterTree::new(parents, taken.into_iter().map(|(_, process)| process).collect())
}

fn trailing_zeros(mut slot: u64, width: u64) -> usize {
    let mut zeros = 0;
    while slot.is_multiple_of(width) {
        slot /= width;
        zeros += 1;
    }
    zeros
}

/// The plain construction (Zhao et al., as cited in the paper): each group is a k-nomial tree of
/// the first processes of its subgroups.
pub(super) fn plain(nesting: &Nesting, width: u32) -> Result<AdapterTree, TreeError> {
    let mut parents = vec![NONE; nesting.order().len()];
    let all = [0, nesting.processes()];
    // By group of the level below: its first place in the order.
    let mut leaders: Vec<u32> = (0..nesting.processes()).collect();
    for starts in nesting.starts().chain([all.as_slice()]) {
        let mut rest = leaders.as_slice();
        for ends in starts.windows(2) {
            let inside = rest.partition_point(|leader| *leader < ends[1]);
            let (members, others) = rest.split_at(inside);
            rest = others;
            for (rank, leader) in (0..).zip(members).skip(1) {
                let parent = members[nomial_parent(rank, width) as usize];
                parents[nesting.order()[*leader as usize] as usize] =
                    nesting.order()[parent as usize];
            }
        }
        leaders = starts[..starts.len() - 1].to_vec();
    }
    // Inside each group the first comes first, and leaders stand at their groups' first places.
    AdapterTree::new(parents, nesting.order().to_vec())
}

/// Returns the largest number of children in the k-nomial tree of `width`: those of process 0.
pub(super) fn nomial_degree(processes: u32, width: u32) -> u32 {
    let mut last = processes.saturating_sub(1);
    let mut degree = 0;
    while last > 0 {
        degree += if last >= width { width - 1 } else { last };
        last /= width;
    }
    degree
}
