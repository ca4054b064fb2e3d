//! What a turn writes in each of its phases (rule R5).

use std::cell::LazyCell;

use fabricast_topology::Graph;

use super::Control;
use crate::image::{Image, IsKept, Writes};
use crate::outside::Outside;

impl<O: Outside> Control<O> {
    /// What is to be written in a phase.
    pub(super) fn phase(&self, writes: fn(&Image, &Image, &Graph, IsKept<'_>) -> Writes) -> Writes {
        let points = || self.planner.entry_points(&self.mirror, &self.reported, true);
        let kept = LazyCell::new(points); // hardly ever asked for
        let (held, desired) = (self.programmer.held(), self.planner.desired());
        writes(held, desired, self.planner.graph(), &|at| kept.contains(&at))
    }
}
