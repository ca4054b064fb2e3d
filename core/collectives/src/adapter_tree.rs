//! Trees over the processes' own adapters: the paper's type I (§3).
//!
//! - k-ary: complete, numbered breadth first. Every node handles equally many packets, so upper
//!   nodes wait for lower ones.
//! - k-nomial: k trees of one level less, of which all others are children of the first's root;
//!   numbered depth first. Nodes further up have more children, and handle the first while others
//!   still work.
//! - hierarchical k-nomial: the same over processes that are grouped by position, so that only the
//!   first process of a group sends out of it.

mod hierarchical;
mod slots;

use fabricast_topology::{AggregationEntry, AggregationNode, EndpointId};
use thiserror::Error;

use crate::adapter_shape::AdapterShape;
use crate::cost::CostParameters;
use crate::nesting::Nesting;
use crate::operation::Operation;

/// Marks no process in a column.
const NONE: u32 = u32::MAX;

/// A tree over processes, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterTree {
    /// By process; the root has none.
    parents: Vec<u32>,
    /// Processes, each after its parent.
    order: Vec<u32>,
    /// By process: its first place in `children`; one more at the end.
    first_child: Vec<u32>,
    children: Vec<u32>,
}

/// Reason why a tree cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// There are no processes.
    #[error("no processes")]
    Empty,
    /// The limit on children is 0.
    #[error("adapters take no children")]
    NoChildren,
    /// Groups of so many levels and so wide a tree need more than 2^64 slots.
    #[error("a tree of width {width} over these groups has too many places, take a narrower one")]
    TooWide {
        /// Width of the tree.
        width: u32,
    },
}

/// Packets between two groups while a tree gathers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crossing {
    /// The senders' group.
    pub from: u32,
    /// The receivers' group.
    pub to: u32,
    /// Number of packets.
    pub packets: u32,
}

impl AdapterTree {
    /// Builds the complete tree of `width` (at least 1) children, numbered breadth first.
    ///
    /// # Errors
    ///
    /// [`TreeError::Empty`].
    pub fn k_ary(processes: u32, width: u32) -> Result<Self, TreeError> {
        let width = width.max(1);
        let parent = |process: u32| process.checked_sub(1).map_or(NONE, |below| below / width);
        Self::new((0..processes).map(parent).collect(), (0..processes).collect())
    }

    /// Builds the k-nomial tree of `width` (at least 2), numbered depth first: Algorithm 1.
    ///
    /// # Errors
    ///
    /// [`TreeError::Empty`].
    pub fn k_nomial(processes: u32, width: u32) -> Result<Self, TreeError> {
        let parents = (0..processes).map(|process| nomial_parent(process, width)).collect();
        Self::new(parents, (0..processes).collect())
    }

    /// Builds the hierarchical k-nomial tree of the least known height.
    ///
    /// The paper's Algorithms 2 to 4 give the fewest levels that a k-nomial tree of all slots,
    /// empty ones included, can have. The processes themselves may still be deeper than in the
    /// plain construction, where the first processes of the groups form a tree of their own; then
    /// that one is taken.
    ///
    /// Cost: O(P log P).
    ///
    /// # Errors
    ///
    /// [`TreeError::TooWide`].
    pub fn hierarchical(nesting: &Nesting, width: u32) -> Result<Self, TreeError> {
        let merged = hierarchical::merged(nesting, width)?;
        let plain = hierarchical::plain(nesting, width)?;
        Ok(if plain.height() < merged.height() { plain } else { merged })
    }

    /// Builds a hierarchical tree of at most `width` whose nodes have at most `most` children. If
    /// even width 2 has more, the result is a chain-like tree of `most` children along the groups.
    ///
    /// Cost: that of [`AdapterTree::hierarchical`] for each width tried, which begin at the widest
    /// whose plain k-nomial tree keeps to the limit.
    ///
    /// # Errors
    ///
    /// [`TreeError::NoChildren`] if `most` is 0 and there are several processes.
    pub fn within(nesting: &Nesting, width: u32, most: u32) -> Result<Self, TreeError> {
        let processes = nesting.processes();
        let fits = |width: &u32| hierarchical::nomial_degree(processes, *width) <= most;
        for width in (2..=width.clamp(2, processes.max(2))).rev().filter(fits) {
            match Self::hierarchical(nesting, width) {
                Ok(tree) if tree.degree() <= most => return Ok(tree),
                Ok(_) | Err(TreeError::TooWide { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Self::of_shape(nesting, AdapterShape::KAry { width: most }, most)
    }

    /// Builds the tree of a shape whose nodes have at most `most` children. Processes are in the
    /// order of their groups. If a node would have more, the tree is narrower: k-ary of `most`
    /// children if no other is narrow enough.
    ///
    /// Cost: that of [`AdapterTree::within`] for a hierarchical tree, else O(P log P).
    ///
    /// # Errors
    ///
    /// [`TreeError::NoChildren`] if `most` is 0 and there are several processes.
    pub fn of_shape(nesting: &Nesting, shape: AdapterShape, most: u32) -> Result<Self, TreeError> {
        let processes = nesting.processes();
        match shape {
            AdapterShape::KAry { .. } if most == 0 && processes > 1 => Err(TreeError::NoChildren),
            AdapterShape::KAry { width } => {
                let width = width.clamp(1, most.max(1));
                let parent = |at: u32| at.checked_sub(1).map_or(NONE, |below| below / width);
                Self::along(nesting, parent)
            }
            AdapterShape::KNomial { width } => {
                let fits = |width: &u32| hierarchical::nomial_degree(processes, *width) <= most;
                match (2..=width.clamp(2, processes.max(2))).rev().find(fits) {
                    Some(width) => Self::along(nesting, |at| nomial_parent(at, width)),
                    None => Self::of_shape(nesting, AdapterShape::KAry { width: most }, most),
                }
            }
            AdapterShape::Hierarchical { width } => Self::within(nesting, width, most),
        }
    }

    /// Builds the tree of processes in the order of their groups.
    ///
    /// - `parent`: the place in this order of the parent of a place, a lower one, or [`NONE`].
    fn along(nesting: &Nesting, parent: impl Fn(u32) -> u32) -> Result<Self, TreeError> {
        let order = nesting.order();
        let mut parents = vec![NONE; order.len()];
        for (at, process) in (0_u32..).zip(order) {
            let above = parent(at);
            if above != NONE {
                parents[*process as usize] = order[above as usize];
            }
        }
        Self::new(parents, order.to_vec())
    }

    /// Creates the tree that the parents describe; the root has none.
    ///
    /// # Errors
    ///
    /// [`TreeError::Empty`].
    #[cfg(test)]
    pub(crate) fn of_parents(parents: &[Option<u32>]) -> Result<Self, TreeError> {
        let depth = |process: u32| {
            let above = |one: &u32| parents[*one as usize];
            std::iter::successors(Some(process), above).count()
        };
        let mut order: Vec<u32> = (0..).take(parents.len()).collect();
        order.sort_by_key(|process| depth(*process));
        Self::new(parents.iter().map(|parent| parent.unwrap_or(NONE)).collect(), order)
    }

    /// Creates a tree from the parents and an order in which each process follows its parent.
    fn new(parents: Vec<u32>, order: Vec<u32>) -> Result<Self, TreeError> {
        if parents.is_empty() {
            return Err(TreeError::Empty);
        }
        let mut first_child = vec![0; parents.len() + 1];
        for parent in parents.iter().filter(|parent| **parent != NONE) {
            first_child[*parent as usize + 1] += 1;
        }
        for at in 1..first_child.len() {
            first_child[at] += first_child[at - 1];
        }
        let mut next = first_child.clone();
        let mut children = vec![0; parents.len() - 1];
        for process in order.iter().copied().filter(|one| parents[*one as usize] != NONE) {
            let place = &mut next[parents[process as usize] as usize];
            children[*place as usize] = process;
            *place += 1;
        }
        Ok(Self { parents, order, first_child, children })
    }

    /// Counts the processes.
    #[must_use]
    pub fn processes(&self) -> u32 {
        u32::try_from(self.parents.len()).expect("processes have 32-bit numbers")
    }

    /// Returns the root.
    #[must_use]
    pub fn root(&self) -> u32 {
        self.order[0]
    }

    /// Returns the parent of a process; none for the root.
    #[must_use]
    pub fn parent(&self, process: u32) -> Option<u32> {
        let parent = self.parents[process as usize];
        (parent != NONE).then_some(parent)
    }

    /// Returns the children of a process.
    #[must_use]
    pub fn children(&self, process: u32) -> &[u32] {
        let at = process as usize;
        &self.children[self.first_child[at] as usize..self.first_child[at + 1] as usize]
    }

    /// Returns the processes, each after its parent.
    #[must_use]
    pub fn top_down(&self) -> &[u32] {
        &self.order
    }

    /// Returns the most children of a node.
    #[must_use]
    pub fn degree(&self) -> u32 {
        let counts = self.first_child.windows(2).map(|pair| pair[1] - pair[0]);
        counts.max().unwrap_or(0)
    }

    /// Returns the most edges from a leaf to the root (definition 3).
    #[must_use]
    pub fn height(&self) -> u32 {
        self.longest(|_, _| 1)
    }

    /// Returns the most links from a leaf to the root (definition 4); `links` gives the links of an
    /// edge from child to parent.
    #[must_use]
    pub fn radius(&self, links: impl Fn(u32, u32) -> u32) -> u32 {
        self.longest(links)
    }

    fn longest(&self, length: impl Fn(u32, u32) -> u32) -> u32 {
        let mut depths = vec![0; self.parents.len()];
        let mut longest = 0;
        for process in &self.order {
            if let Some(parent) = self.parent(*process) {
                let depth = depths[parent as usize] + length(*process, parent);
                depths[*process as usize] = depth;
                longest = longest.max(depth);
            }
        }
        longest
    }

    /// Returns the entries that adapters must hold, one for each process with children, given the
    /// endpoint of every process. A process without children sends to its parent.
    ///
    /// # Panics
    ///
    /// If there are fewer endpoints than processes: the caller's mistake.
    #[must_use]
    pub fn entries(&self, tree: u32, endpoints: &[EndpointId]) -> Vec<AggregationEntry> {
        let node = |process: u32| AggregationNode::Process {
            process,
            endpoint: endpoints[process as usize],
        };
        let inner = self.order.iter().copied().filter(|one| !self.children(*one).is_empty());
        let entry = |process| AggregationEntry {
            holder: node(process),
            tree,
            parent: self.parent(process).map(node),
            children: [process].iter().chain(self.children(process)).copied().map(node).collect(),
        };
        inner.map(entry).collect()
    }

    /// Returns the time until the root has everything, in microseconds, packet by packet instead of
    /// level by level.
    ///
    /// Every process starts at 0. A node handles its children's packets in order of arrival, each
    /// for θ + S'β + S*γ, and sends its own once it has all. For a complete k-ary tree with equal
    /// edges that is equation (3); trees whose nodes have different numbers of children wait less.
    /// `links` gives the links from child to parent.
    ///
    /// Cost: O(P log k).
    #[must_use]
    pub fn gather_us(
        &self,
        parameters: &CostParameters,
        operation: Operation,
        bytes: u32,
        links: impl Fn(u32, u32) -> u32,
    ) -> f64 {
        let per_child = parameters.per_child_us(operation, bytes);
        let mut ready = vec![0.0; self.parents.len()];
        let mut arrivals: Vec<f64> = Vec::new();
        for process in self.order.iter().rev().copied() {
            arrivals.clear();
            arrivals.extend(self.children(process).iter().map(|child| {
                let way = f64::from(links(*child, process)) * parameters.link_us;
                ready[*child as usize] + way
            }));
            arrivals.sort_unstable_by(f64::total_cmp);
            let done = arrivals.iter().fold(0.0, |free: f64, come| free.max(*come) + per_child);
            ready[process as usize] = done;
        }
        ready[self.root() as usize]
    }

    /// Returns the packets between the groups of one level, by sender's and receiver's group.
    #[must_use]
    pub fn crossings(&self, nesting: &Nesting, level: usize) -> Vec<Crossing> {
        let group = |process| nesting.group_of(level, process);
        let mut pairs: Vec<(u32, u32)> = self
            .order
            .iter()
            .filter_map(|process| Some((group(*process), group(self.parent(*process)?))))
            .filter(|(from, to)| from != to)
            .collect();
        pairs.sort_unstable();
        let counted = pairs.chunk_by(|a, b| a == b).map(|same| Crossing {
            from: same[0].0,
            to: same[0].1,
            packets: u32::try_from(same.len()).expect("fewer than processes"),
        });
        counted.collect()
    }
}

/// Returns the parent in a k-nomial tree (Algorithm 1): the lowest non-zero digit of the number in
/// base `width` becomes 0.
fn nomial_parent(process: u32, width: u32) -> u32 {
    if process == 0 {
        return NONE;
    }
    let width = u64::from(width.max(2));
    let process = u64::from(process);
    let mut place = 1;
    while (process / place).is_multiple_of(width) {
        place *= width;
    }
    let parent = process - (process / place % width) * place;
    u32::try_from(parent).expect("lower than the process")
}

#[cfg(test)]
mod tests;
