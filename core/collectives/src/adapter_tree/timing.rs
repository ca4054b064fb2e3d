//! How long a tree takes to gather, packet by packet instead of level by level.

use super::AdapterTree;
use crate::cost::CostParameters;
use crate::operation::Operation;

impl AdapterTree {
    /// Gives the time until the root has everything, in microseconds.
    ///
    /// Every process starts at 0. A node takes its children's packets in the order they come, each
    /// for θ + S'β + S*γ, and sends its own when it has all. For a complete k-ary tree of equal edges that is
    /// equation (3); trees whose nodes have different numbers of children wait less. `links` tells
    /// the links from child to parent.
    ///
    /// Cost: O(P log k).
    #[must_use]
    pub fn gather_us(
        &self,
        parameters: &CostParameters,
        (operation, bytes): (Operation, u32),
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
}
