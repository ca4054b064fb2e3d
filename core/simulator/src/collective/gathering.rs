//! State of each adapter of a group: what it has heard of the operation under way.

use std::ops::{Index, IndexMut};

use fabricast_topology::EndpointId;

use super::groups::{CollectiveError, ProcessPlan};
use crate::routes::TreeId;

/// State of an adapter in the gathering tree of a group.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) group: u32,
    pub(super) endpoint: EndpointId,
    /// Parent in the gathering tree; none at the root.
    pub(super) parent: Option<u32>,
    /// Number of children in the gathering tree.
    pub(super) children: u32,
    /// Members that run on this adapter.
    pub(super) locals: u32,
    /// First member of the group, at the root only.
    pub(super) root_process: Option<u32>,
    /// Members that have started the operation.
    pub(super) entered: u32,
    /// Members that wait for the result.
    pub(super) waiting: Vec<u32>,
    /// Operations whose result has arrived.
    pub(super) results: u32,
    /// Broadcasts that have been acknowledged.
    pub(super) acknowledged: u32,
    /// Packets of children for this operation and the next: a child is ahead by one at most.
    gathered: [u32; 2],
}

impl Node {
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

/// Gathering trees of all groups, group by group.
#[derive(Clone, Debug)]
pub(super) struct GatheringTrees {
    nodes: Vec<Node>,
    by_endpoint: Vec<(EndpointId, u32)>, // of every group's nodes, rising
    first: Vec<u32>,                     // by group; one more than groups
    trees: Vec<Vec<TreeId>>,
}

impl GatheringTrees {
    /// GatheringTrees the members of all groups; gives the nodes of every process in turn as well.
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
        let mut made = Self { nodes: Vec::new(), by_endpoint: Vec::new(), first: vec![0], trees };
        for (group, members) in (0u32..).zip(&members) {
            made.add_nodes(group, members, processes, fan_in);
            let several = made.nodes.len() > 1 + *made.first.last().unwrap_or(&0) as usize;
            if several && made.trees[group as usize].is_empty() {
                return Err(CollectiveError::NoTree { group });
            }
            made.first.push(dense(made.nodes.len()));
        }
        let turns = processes.iter().map(|plan| {
            let node = |group: &u32| made.find(*group, plan.endpoint);
            plan.groups.iter().map(|group| node(group).expect("it was added above")).collect()
        });
        let nodes_of = turns.collect();
        Ok((made, nodes_of))
    }

    fn add_nodes(&mut self, group: u32, members: &[u32], processes: &[ProcessPlan], fan_in: u32) {
        let first = self.nodes.len();
        for process in members {
            let endpoint = processes[*process as usize].endpoint;
            let taken = &self.by_endpoint[first..];
            match taken.binary_search_by_key(&endpoint, |(endpoint, _)| *endpoint) {
                Ok(at) => {
                    let node = taken[at].1;
                    self.nodes[node as usize].locals += 1;
                }
                Err(at) => {
                    let index = dense(self.nodes.len() - first);
                    self.by_endpoint.insert(first + at, (endpoint, dense(self.nodes.len())));
                    self.nodes.push(Node {
                        group,
                        endpoint,
                        parent: parent_index(index, fan_in).map(|parent| dense(first) + parent),
                        children: 0,
                        locals: 1,
                        root_process: (index == 0).then_some(*process),
                        entered: 0,
                        waiting: Vec::new(),
                        results: 0,
                        acknowledged: 0,
                        gathered: [0; 2],
                    });
                }
            }
        }
        for at in first..self.nodes.len() {
            if let Some(parent) = self.nodes[at].parent {
                self.nodes[parent as usize].children += 1;
            }
        }
    }

    /// Gathers a group along another tree: the parent of each of its adapters, in the order in
    /// which its processes name them.
    pub(super) fn replace_tree(
        &mut self,
        group: u32,
        parents: &[Option<u32>],
    ) -> Result<(), CollectiveError> {
        let bounds = self.first.get(group as usize..=group as usize + 1);
        let no_tree = CollectiveError::NotATree { group };
        let [first, end] = *bounds.ok_or_else(|| no_tree.clone())? else { return Err(no_tree) };
        let nodes = &mut self.nodes[first as usize..end as usize];
        if parents.len() != nodes.len() || !all_end_at_the_first(parents) {
            return Err(no_tree);
        }
        for node in nodes.iter_mut() {
            node.children = 0;
        }
        for (index, parent) in parents.iter().enumerate() {
            nodes[index].parent = parent.map(|parent| first + parent);
            if let Some(parent) = parent {
                nodes[*parent as usize].children += 1;
            }
        }
        Ok(())
    }

    /// Finds the node of an endpoint in a group.
    pub(super) fn find(&self, group: u32, endpoint: EndpointId) -> Option<u32> {
        let at = group as usize;
        let nodes = &self.by_endpoint[self.first[at] as usize..self.first[at + 1] as usize];
        let found = nodes.binary_search_by_key(&endpoint, |(endpoint, _)| *endpoint).ok()?;
        Some(nodes[found].1)
    }

    /// Gives the trees on which a group's results are sent; none if it has one node only.
    pub(super) fn trees(&self, group: u32) -> &[TreeId] {
        let at = group as usize;
        let several = self.first[at + 1] - self.first[at] > 1;
        if several { &self.trees[at] } else { &[] }
    }
}

impl Index<u32> for GatheringTrees {
    type Output = Node;

    fn index(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }
}

impl IndexMut<u32> for GatheringTrees {
    fn index_mut(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }
}

/// Gives the parent of a index of a k-nomial tree: the index with its lowest digit that is not 0
/// set to 0.
fn parent_index(index: u32, k: u32) -> Option<u32> {
    if index == 0 {
        return None;
    }
    let (mut rest, mut weight) = (index, 1);
    while rest % k == 0 {
        rest /= k;
        weight *= k;
    }
    Some(index - rest % k * weight)
}

/// Tells whether the way up from every index ends at index 0.
fn all_end_at_the_first(parents: &[Option<u32>]) -> bool {
    let ends = |index: usize| {
        let up = |at: &usize| parents.get(*at).copied().flatten().map(|parent| parent as usize);
        let way = std::iter::successors(Some(index), up).take(parents.len() + 1);
        // A way that is longer than there are slots goes in a circle.
        let (length, last) = way.fold((0, index), |(length, _), at| (length + 1, at));
        length <= parents.len() && last == 0
    };
    (0..parents.len()).all(ends)
}

fn dense(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 nodes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_those_of_the_k_nomial_tree() {
        let binomial: Vec<_> = (0..8).map(|index| parent_index(index, 2)).collect();
        assert_eq!(binomial, [None, Some(0), Some(0), Some(2), Some(0), Some(4), Some(4), Some(6)]);
        assert_eq!((parent_index(9, 4), parent_index(31, 32)), (Some(8), Some(0)));
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
