//! Operations that the switches of the fabric can do: combine integers on their way.
//!
//! Switches have a tree over a fixed set of processes, numbered from 0. A run on it takes one
//! contribution of each process and gives all of them the same result or an error, never a wrong
//! value.

use std::collections::BTreeMap;

use fabricast_groups::Pn;

use crate::frame::JoinRevision;
use crate::operation::{Call, Gathered, Item, Kind, OnFailure, Operation, Terms};
use crate::values::{Reduction, Values};

/// An offer of the switches to one member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Number of the tree, never used for another one.
    pub tree: u32,
    /// Number of the member among the processes of the tree.
    pub process: usize,
    /// Number of processes in the tree.
    pub processes: usize,
    /// True if barriers may run on it.
    pub barrier: bool,
    /// True if broadcasts may run on it.
    pub broadcast: bool,
    /// True if all-reduces may run on it.
    pub all_reduce: bool,
    /// Most bytes of a message, at eight for each number.
    pub bytes: usize,
}

/// Kind of a run, the same at all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Ends when all processes have contributed.
    Barrier,
    /// Numbers of one process, for all.
    Broadcast {
        /// Number of the process.
        source: usize,
    },
    /// Numbers of all processes, combined, for all.
    AllReduce {
        /// Rule of combination.
        reduction: Combination,
    },
}

/// Rules of combination that switches have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// Sum; it wraps around.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
}

impl From<Combination> for Reduction {
    fn from(combination: Combination) -> Self {
        match combination {
            Combination::Sum => Self::Sum,
            Combination::Min => Self::Min,
            Combination::Max => Self::Max,
            Combination::And => Self::And,
            Combination::Or => Self::Or,
        }
    }
}

impl Combination {
    /// Returns the rule for a reduction; `None` if switches have none.
    fn of(reduction: Reduction) -> Option<Self> {
        match reduction {
            Reduction::Sum => Some(Self::Sum),
            Reduction::Min => Some(Self::Min),
            Reduction::Max => Some(Self::Max),
            Reduction::And => Some(Self::And),
            Reduction::Or => Some(Self::Or),
            Reduction::Xor
            | Reduction::Product
            | Reduction::LogicalAnd
            | Reduction::LogicalOr
            | Reduction::LogicalXor
            | Reduction::MinLoc
            | Reduction::MaxLoc => None,
        }
    }
}

/// Numbers in the width of the switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wide {
    /// Signed integers of 64 bits.
    Signed(Vec<i64>),
    /// Unsigned integers of 64 bits.
    Unsigned(Vec<u64>),
}

/// One member's contribution to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the tree.
    pub tree: u32,
    /// Number of the run, a digest of the operation and of the members and joins that take part:
    /// different runs on the tree have different numbers.
    pub sequence: u64,
    /// Kind of the run.
    pub work: Work,
    /// Numbers of the member; `None` if it has none to contribute.
    pub numbers: Option<Wide>,
}

/// An operation that may become a run.
#[derive(Debug)]
pub(crate) struct RunContext<'a> {
    /// Number of the operation.
    pub(crate) number: u64,
    /// The members that take part.
    pub(crate) joins: &'a BTreeMap<Pn, JoinRevision>,
    pub(crate) terms: Terms,
}

impl Offer {
    /// Returns whether operations of a kind may run on the tree.
    pub(crate) fn does(&self, kind: Kind) -> bool {
        match kind {
            Kind::Barrier => self.barrier,
            Kind::Broadcast => self.broadcast,
            Kind::AllReduce => self.all_reduce,
            Kind::Reduce | Kind::Gather | Kind::Scatter | Kind::AllGather | Kind::Scan => false,
        }
    }

    /// Returns a member's contribution to an operation; `None` if the switches cannot do it, for
    /// example because the members that take part are not the processes of the tree.
    pub(crate) fn run(
        &self,
        pn: Pn,
        operation: &Operation,
        context: &RunContext<'_>,
    ) -> Option<Run> {
        let joins = context.joins;
        let rank = |pn: Pn| joins.keys().position(|one| *one == pn);
        if joins.len() != self.processes || joins.len() < 2 || rank(pn) != Some(self.process) {
            return None;
        }
        let (work, numbers, kind) = match operation {
            Operation::Barrier => (Work::Barrier, None, 0),
            Operation::Broadcast { source, payload } => {
                let mine = (*source == pn).then(|| packed(payload));
                (Work::Broadcast { source: rank(*source)? }, mine, 1)
            }
            Operation::AllReduce { reduction, values } => {
                let (numbers, kind) = widened(values)?;
                (Work::AllReduce { reduction: Combination::of(*reduction)? }, Some(numbers), kind)
            }
            Operation::Reduce { .. }
            | Operation::Gather { .. }
            | Operation::Scatter { .. }
            | Operation::AllGather { .. }
            | Operation::Scan { .. } => return None,
        };
        if numbers.as_ref().is_some_and(|numbers| numbers.bytes() > self.bytes) {
            return None;
        }
        let Terms { on_failure, segment } = context.terms;
        let kind = kind * 2 + u64::from(on_failure == OnFailure::Survivors);
        let segment = u64::from(segment.number) << 32 | u64::from(segment.cut);
        let joins = joins.iter().flat_map(|(pn, joined)| [u64::from(pn.0), joined.0]);
        let sequence = digest([context.number, kind, segment].into_iter().chain(joins));
        Some(Run { tree: self.tree, sequence, work, numbers })
    }
}

impl Wide {
    fn bytes(&self) -> usize {
        match self {
            Self::Signed(numbers) => 8 * numbers.len(),
            Self::Unsigned(numbers) => 8 * numbers.len(),
        }
    }
}

/// Converts the result of a run to that of the operation; `None` if it does not fit.
///
/// - `own`: the member's contribution.
pub(crate) fn brought(call: &Call, own: &Gathered, numbers: Option<Wide>) -> Option<Gathered> {
    match (call.kind, own, numbers) {
        (Kind::Barrier, _, None) => Some(Gathered::Nothing),
        (Kind::Broadcast, _, Some(Wide::Unsigned(words))) => {
            let bytes = Item::Bytes(unpacked(&words)?.into());
            Some(Gathered::Listed(vec![(call.peer, bytes)]))
        }
        (Kind::AllReduce, Gathered::Folded(values), Some(numbers)) => {
            narrowed(numbers, values).map(Gathered::Folded)
        }
        _ => None,
    }
}

/// Integers in the width of the switches, and a number for their type.
fn widened(values: &Values) -> Option<(Wide, u64)> {
    Some(match values {
        Values::I32(numbers) => (Wide::Signed(numbers.iter().copied().map(i64::from).collect()), 2),
        Values::I64(numbers) => (Wide::Signed(numbers.clone()), 3),
        Values::U32(numbers) => {
            (Wide::Unsigned(numbers.iter().copied().map(u64::from).collect()), 4)
        }
        Values::U64(numbers) => (Wide::Unsigned(numbers.clone()), 5),
        // Sums of floats depend on the order.
        Values::F32(_) | Values::F64(_) => return None,
    })
}

/// Integers of the type and count that a member contributed. The lower half of a wide sum is the
/// sum of the lower halves.
#[expect(clippy::cast_possible_truncation, reason = "sums wrap around")]
fn narrowed(numbers: Wide, own: &Values) -> Option<Values> {
    let values = match (own, numbers) {
        (Values::I32(_), Wide::Signed(numbers)) => {
            Values::I32(numbers.into_iter().map(|number| number as i32).collect())
        }
        (Values::I64(_), Wide::Signed(numbers)) => Values::I64(numbers),
        (Values::U32(_), Wide::Unsigned(numbers)) => {
            Values::U32(numbers.into_iter().map(|number| number as u32).collect())
        }
        (Values::U64(_), Wide::Unsigned(numbers)) => Values::U64(numbers),
        _ => return None,
    };
    (values.len() == own.len()).then_some(values)
}

/// Packs bytes into words: their count, then eight to a word.
fn packed(bytes: &[u8]) -> Wide {
    let word = |some: &[u8]| {
        let mut word = [0; 8];
        word[..some.len()].copy_from_slice(some);
        u64::from_le_bytes(word)
    };
    let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Wide::Unsigned([count].into_iter().chain(bytes.chunks(8).map(word)).collect())
}

fn unpacked(words: &[u64]) -> Option<Vec<u8>> {
    let (count, words) = words.split_first()?;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let count = usize::try_from(*count).ok().filter(|count| *count <= bytes.len())?;
    bytes.truncate(count);
    Some(bytes)
}

/// FNV-1a: the same on every machine; collisions are rare.
fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    let bytes = words.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use fabricast_groups::Revision;

    use super::*;

    fn offer() -> Offer {
        Offer {
            tree: 3,
            process: 1,
            processes: 2,
            barrier: true,
            broadcast: true,
            all_reduce: true,
            bytes: 24,
        }
    }

    fn run(operation: &Operation, joins: &[(u32, u64)]) -> Option<Run> {
        let joins = joins.iter().map(|(pn, joined)| (Pn(*pn), Revision(*joined))).collect();
        let context = RunContext { number: 9, joins: &joins, terms: OnFailure::Fail.into() };
        offer().run(Pn(5), operation, &context)
    }

    const BOTH: [(u32, u64); 2] = [(2, 1), (5, 7)];

    fn sum(values: Values) -> Operation {
        Operation::AllReduce { reduction: Reduction::Sum, values }
    }

    #[test]
    fn a_run_needs_the_processes_of_the_tree_and_values_that_fit() {
        let fits = run(&sum(Values::I32(vec![-1, 2, 3])), &BOTH).unwrap();
        assert_eq!((fits.tree, fits.numbers), (3, Some(Wide::Signed(vec![-1, 2, 3]))));
        for joins in [&BOTH[1..], &[(5, 7), (6, 1)], &[(1, 1), (2, 1), (5, 7)]] {
            assert_eq!(run(&Operation::Barrier, joins), None, "{joins:?}");
        }
        assert_eq!(run(&sum(Values::I32(vec![0; 4])), &BOTH), None, "too long");
        assert_eq!(run(&sum(Values::F64(vec![0.5])), &BOTH), None, "their order matters");
        assert_eq!(run(&Operation::AllGather { payload: Vec::new() }, &BOTH), None);
    }

    #[test]
    fn runs_of_other_members_or_other_operations_have_other_numbers() {
        let sequence = |operation: &Operation, joins: &[_]| run(operation, joins).unwrap().sequence;
        let first = sequence(&Operation::Barrier, &BOTH);
        assert_ne!(first, sequence(&Operation::Barrier, &[(2, 8), (5, 7)]), "another join");
        let narrow = sequence(&sum(Values::I32(vec![1])), &BOTH);
        assert_ne!(narrow, sequence(&sum(Values::I64(vec![1])), &BOTH), "another type");
    }

    #[test]
    fn results_have_the_type_and_length_of_the_contribution() {
        let call = sum(Values::I32(vec![0])).call(OnFailure::Fail);
        let own = Gathered::Folded(Values::I32(vec![i32::MAX]));
        let wraps = brought(&call, &own, Some(Wide::Signed(vec![i64::from(i32::MAX) + 1])));
        assert_eq!(wraps, Some(Gathered::Folded(Values::I32(vec![i32::MIN]))));
        assert_eq!(brought(&call, &own, Some(Wide::Unsigned(vec![1]))), None);
        assert_eq!(brought(&call, &own, Some(Wide::Signed(vec![1, 2]))), None);
        for text in [&b""[..], b"eight by", b"and some more"] {
            let Wide::Unsigned(words) = packed(text) else { panic!("signed") };
            assert_eq!(unpacked(&words).as_deref(), Some(text));
        }
        assert_eq!(unpacked(&[9, 0]), None, "a word is missing");
    }
}
