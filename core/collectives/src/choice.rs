//! Chooses the kind of tree for an operation: the paper's §5 and equations (7) to (11).
//!
//! The paths of a switch tree are half as long, so it wins for small messages. Its few switches
//! have many children each, so reducing takes longer than in a narrow adapter tree, which wins for
//! large messages.
//!
//! The paper compares the times to gather only. We compare whole operations, as equation (1) counts
//! them, since the way back from a root switch is shorter as well.

use crate::cost::CostParameters;
use crate::operation::{Operation, TreeKind};
use crate::width::{Trade, WidthRange};

/// Limits on trees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Limit on the children of an adapter.
    pub adapter_children: u32,
    /// Limit on the children of a switch. A switch tree uses all of it, since wide trees take few
    /// entries.
    pub switch_children: u32,
    /// Tolerance: a width may be this much slower than the best, in microseconds (the paper's ε).
    pub tolerance_us: f64,
}

impl Default for Limits {
    /// 64 children, the widest the paper measured, and its 0.1 us.
    fn default() -> Self {
        Self { adapter_children: 64, switch_children: 64, tolerance_us: 0.1 }
    }
}

/// Choice for an operation and a class of sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Operation of the class.
    pub operation: Operation,
    /// The largest message of the class, in bytes; the class begins after the one before.
    pub up_to_bytes: u32,
    /// The kind of tree that is faster.
    pub kind: TreeKind,
    /// Widths for an adapter tree, given also if a switch tree is faster, since that may not be
    /// available.
    pub widths: WidthRange,
    /// Time of the largest message on an adapter tree of the best width, in microseconds.
    pub adapter_us: f64,
    /// The same on a switch tree.
    pub switch_us: f64,
}

impl Choice {
    /// Computes the choice for an operation on `bytes` alone: kind and widths of the row that a
    /// [`ChoiceTable`] has for it, with the end and the times of a class that no other was merged
    /// with.
    ///
    /// Cost: some hundred evaluations of the model.
    #[must_use]
    pub fn new(
        parameters: &CostParameters,
        processes: u32,
        limits: &Limits,
        operation: Operation,
        bytes: u32,
    ) -> Self {
        let end = match bytes {
            0 => 0,
            bytes => bytes.checked_next_power_of_two().unwrap_or(u32::MAX),
        };
        choose(parameters, processes, limits, operation, end)
    }
}

/// Choices for every operation and size, for one number of processes.
#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceTable(Vec<Choice>);

impl ChoiceTable {
    /// Computes the table. Each operation has a class for 0 bytes and one that ends at each power
    /// of two; neighbouring classes with equal choices are merged.
    ///
    /// Cost: some hundred evaluations of the model for each of 34 classes.
    #[must_use]
    pub fn new(parameters: &CostParameters, processes: u32, limits: &Limits) -> Self {
        let mut rows: Vec<Choice> = Vec::new();
        for operation in Operation::ALL {
            let ends = (0..32).map(|bit| 1_u32 << bit);
            for bytes in std::iter::once(0).chain(ends).chain([u32::MAX]) {
                let row = choose(parameters, processes, limits, operation, bytes);
                match rows.last_mut() {
                    Some(last)
                        if (last.operation, last.kind, last.widths)
                            == (operation, row.kind, row.widths) =>
                    {
                        *last = row;
                    }
                    _ => rows.push(row),
                }
            }
        }
        Self(rows)
    }

    /// Returns the rows by operation and size.
    #[must_use]
    pub fn rows(&self) -> &[Choice] {
        &self.0
    }

    /// Finds the row for an operation on `bytes`.
    #[must_use]
    pub fn choose(&self, operation: Operation, bytes: u32) -> &Choice {
        &self.0[self.find(operation, bytes)]
    }

    /// Finds the rows for an operation on `min` to `max` bytes.
    #[must_use]
    pub fn sizes(&self, operation: Operation, min: u32, max: u32) -> &[Choice] {
        &self.0[self.find(operation, min)..=self.find(operation, max.max(min))]
    }

    fn find(&self, operation: Operation, bytes: u32) -> usize {
        let key = |row: &Choice| (row.operation, row.up_to_bytes);
        // Every operation has a class that ends with the largest size there is.
        self.0.partition_point(|row| key(row) < (operation, bytes))
    }
}

fn choose(
    parameters: &CostParameters,
    processes: u32,
    limits: &Limits,
    operation: Operation,
    up_to_bytes: u32,
) -> Choice {
    let trade = Trade::new(parameters, operation, up_to_bytes);
    let most = limits.adapter_children.min(processes);
    let widths = trade.width_range(processes, most, limits.tolerance_us);
    let cost = |kind, width| {
        let shape = parameters.complete(kind, processes, width);
        parameters.total_us(&shape, operation, up_to_bytes)
    };
    let adapter_us = cost(TreeKind::Adapter, widths.best);
    let switch_us = cost(TreeKind::Switch, limits.switch_children);
    let kind = if switch_us < adapter_us { TreeKind::Switch } else { TreeKind::Adapter };
    Choice { operation, up_to_bytes, kind, widths, adapter_us, switch_us }
}

/// An adapter and a switch tree for the same work: the arguments of F(d, k, P, S) in equation (9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Width of the adapter tree (k), at least 2.
    pub adapter_width: u32,
    /// Width of the switch tree (d), at least 2.
    pub switch_width: u32,
    /// Number of processes (P).
    pub processes: u32,
    /// Bytes that are stored and reduced (S).
    pub bytes: u32,
}

impl Comparison {
    /// Returns the time by which the adapter tree gathers longer, in microseconds: F of equation
    /// (9).
    #[must_use]
    pub fn advantage_us(&self, parameters: &CostParameters) -> f64 {
        let gather = |kind, width| {
            let shape = parameters.complete(kind, self.processes, width);
            parameters.aggregate_us(&shape, Operation::AllReduce, self.bytes)
        };
        gather(TreeKind::Adapter, self.adapter_width) - gather(TreeKind::Switch, self.switch_width)
    }

    /// Returns the growth of that time per byte, in microseconds: equation (10). Negative if the
    /// switch tree is the wider one.
    #[must_use]
    pub fn slope_per_byte(&self, parameters: &CostParameters) -> f64 {
        let per_byte = parameters.store_us_per_byte + parameters.reduce_us_per_byte;
        f64::from(self.processes).ln() * self.work_difference() * per_byte
    }

    /// Returns the growth of that time per process, in microseconds: equation (11).
    #[must_use]
    pub fn slope_per_process(&self, parameters: &CostParameters) -> f64 {
        let per_level =
            parameters.path_links * parameters.link_us / f64::from(self.adapter_width).ln();
        let per_child = parameters.per_child_us(Operation::AllReduce, self.bytes);
        (per_level + self.work_difference() * per_child) / f64::from(self.processes)
    }

    /// Returns k/ln k - d/ln d: the additional packets handled on a path of the adapter tree, per
    /// unit of ln P.
    fn work_difference(&self) -> f64 {
        let work = |width: u32| f64::from(width) / f64::from(width).ln();
        work(self.adapter_width) - work(self.switch_width)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARAMETERS: CostParameters = CostParameters {
        store_us_per_byte: 0.0002,
        reduce_us_per_byte: 0.0003,
        software_us: 1.0,
        ..CostParameters::PAPER
    };

    fn table(processes: u32) -> ChoiceTable {
        ChoiceTable::new(&PARAMETERS, processes, &Limits::default())
    }

    #[test]
    fn small_reductions_use_switches_and_large_ones_adapters() {
        let table = table(512);
        let kind = |bytes| table.choose(Operation::AllReduce, bytes).kind;
        assert_eq!((kind(0), kind(8)), (TreeKind::Switch, TreeKind::Switch));
        assert_eq!((kind(1 << 20), kind(u32::MAX)), (TreeKind::Adapter, TreeKind::Adapter));
        let rows = table.rows().iter().filter(|row| row.operation == Operation::AllReduce);
        let kinds: Vec<TreeKind> = rows.map(|row| row.kind).collect();
        assert!(kinds.is_sorted_by(|a, b| a >= b), "one size decides: {kinds:?}");
    }

    #[test]
    fn what_is_only_sent_back_does_not_change_the_choice() {
        let table = table(512);
        let rows = |operation| table.rows().iter().filter(|row| row.operation == operation).count();
        assert_eq!((rows(Operation::Barrier), rows(Operation::Broadcast)), (1, 1));
    }

    #[test]
    fn a_row_holds_for_its_largest_message_and_those_below() {
        let table = table(100);
        for pair in table.rows().windows(2).filter(|pair| pair[0].operation == pair[1].operation) {
            let (row, next) = (pair[0], pair[1]);
            assert_eq!(table.choose(row.operation, row.up_to_bytes), &row);
            assert_eq!(table.choose(row.operation, row.up_to_bytes + 1), &next);
            let (end, after) = (row.up_to_bytes, row.up_to_bytes + 1);
            assert_eq!(table.sizes(row.operation, end, after), [row, next]);
            assert_eq!(table.sizes(row.operation, after, after), [next]);
        }
    }

    proptest! {
        #[test]
        fn a_switch_tree_wins_where_equation_9_and_its_shorter_way_back_say_so(
            processes in 2..5_000_u32,
            bytes in any::<u32>(),
        ) {
            let table = table(processes);
            let row = table.choose(Operation::AllReduce, bytes);
            let compared = Comparison {
                adapter_width: row.widths.best,
                switch_width: 64.min(processes),
                processes,
                bytes: row.up_to_bytes,
            };
            let faster_by = compared.advantage_us(&PARAMETERS) + 0.5 * 4.0 * 0.28;
            prop_assert!(faster_by.abs() < 1e-9 || (row.kind == TreeKind::Switch) == (faster_by > 0.0));
        }

        #[test]
        fn one_choice_is_that_of_the_table(
            processes in 2..2_000_u32,
            bytes in prop_oneof![0..100_u32, any::<u32>()],
            operation in prop::sample::select(Operation::ALL.to_vec()),
        ) {
            let table = table(processes);
            let row = table.choose(operation, bytes);
            let alone = Choice::new(&PARAMETERS, processes, &Limits::default(), operation, bytes);
            prop_assert_eq!((alone.kind, alone.widths), (row.kind, row.widths));
            prop_assert!((bytes..=row.up_to_bytes).contains(&alone.up_to_bytes));
        }

        #[test]
        fn the_slopes_are_those_of_the_advantage(
            (d, k) in (2..100_u32, 2..100_u32),
            (p, s) in (200..100_000_u32, 0..10_000_u32),
        ) {
            let at = |processes, bytes| Comparison { adapter_width: k, switch_width: d, processes, bytes };
            let here = at(p, s);
            // Linear in S, so that one step is exact; in ln P nearly so over a step of one.
            let step = at(p, s + 1).advantage_us(&PARAMETERS) - here.advantage_us(&PARAMETERS);
            prop_assert!((step - here.slope_per_byte(&PARAMETERS)).abs() <= 1e-6);
            let slope = here.slope_per_process(&PARAMETERS);
            let step = at(p + 1, s).advantage_us(&PARAMETERS) - at(p - 1, s).advantage_us(&PARAMETERS);
            prop_assert!((step / 2.0 - slope).abs() <= 1e-4 * slope.abs() + 1e-9, "{step} {slope}");
        }
    }
}
