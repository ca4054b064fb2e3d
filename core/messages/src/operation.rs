//! Collective operations: calls of members, contributions on their way up the tree, and outcomes.
//!
//! Contributions are merged on the way up. The root decides once, and all members get the same
//! [`Outcome`], from which each takes its own [`Answer`]. `values.rs` defines the order of
//! combination.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use fabricast_groups::Pn;
use thiserror::Error;

use crate::frame::{Announcement, JoinRevision};
use crate::values::{Reduction, ReductionError, Values};

/// A collective operation with one member's contribution.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Ends when all members have called it.
    Barrier,
    /// Bytes of one member, for all.
    Broadcast {
        /// Rank of that member.
        source: Pn,
        /// The bytes; ignored at all other members.
        payload: Vec<u8>,
    },
    /// Values of all members, combined, for one.
    Reduce {
        /// Rank of the member that gets them.
        root: Pn,
        /// Rule of combination.
        reduction: Reduction,
        /// Contribution of the caller.
        values: Values,
    },
    /// Values of all members, combined, for all.
    AllReduce {
        /// Rule of combination.
        reduction: Reduction,
        /// Contribution of the caller.
        values: Values,
    },
    /// Bytes of each member, for one.
    Gather {
        /// Rank of the member that gets them.
        root: Pn,
        /// Contribution of the caller.
        payload: Vec<u8>,
    },
    /// Bytes of one member, a part for each.
    Scatter {
        /// Rank of that member.
        source: Pn,
        /// A part for each rank; ignored at all other members.
        parts: Vec<(Pn, Vec<u8>)>,
    },
    /// Bytes of each member, for all.
    AllGather {
        /// Contribution of the caller.
        payload: Vec<u8>,
    },
    /// Values of the members up to each rank, combined, for that rank.
    Scan {
        /// Rule of combination.
        reduction: Reduction,
        /// Contribution of the caller.
        values: Values,
    },
}

/// Effect on an operation of a member that is gone before it has contributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The operation fails at all members and names the ones that are gone.
    Fail,
    /// The operation is completed among the other members.
    Survivors,
}

/// Place of an operation in a long one, which callers cut into segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Number of the segment, from 0.
    pub number: u32,
    /// Way in which it is cut, as the callers number them: count of segments, or their length; 0 if
    /// it is not cut.
    pub cut: u32,
}

/// Terms of a call in which all members must agree, beside its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Effect of failed members.
    pub on_failure: OnFailure,
    /// Place in a long operation.
    pub segment: Segment,
}

impl From<OnFailure> for Terms {
    /// Terms of an operation that is not cut.
    fn from(on_failure: OnFailure) -> Self {
        Self { on_failure, segment: Segment::default() }
    }
}

/// Kinds of operations, without their contributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The kind of [`Operation::Barrier`].
    Barrier,
    /// The kind of [`Operation::Broadcast`].
    Broadcast,
    /// The kind of [`Operation::Reduce`].
    Reduce,
    /// The kind of [`Operation::AllReduce`].
    AllReduce,
    /// The kind of [`Operation::Gather`].
    Gather,
    /// The kind of [`Operation::Scatter`].
    Scatter,
    /// The kind of [`Operation::AllGather`].
    AllGather,
    /// The kind of [`Operation::Scan`].
    Scan,
}

/// The part of a call in which all members must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Kind of the operation.
    pub kind: Kind,
    /// Source or root; [`Pn`] 0 if there is none.
    pub peer: Pn,
    /// Rule of combination; [`Reduction::Sum`] if there are no values.
    pub reduction: Reduction,
    /// Effect of failed members.
    pub on_failure: OnFailure,
    /// Place in a long operation: members that are at different segments must not combine them.
    pub segment: Segment,
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Barrier => "barrier",
            Kind::Broadcast => "broadcast",
            Kind::Reduce => "reduce",
            Kind::AllReduce => "all-reduce",
            Kind::Gather => "gather",
            Kind::Scatter => "scatter",
            Kind::AllGather => "all-gather",
            Kind::Scan => "scan",
        };
        out.write_str(kind)?;
        match self.kind {
            Kind::Reduce => write!(out, " ({}) to {}", self.reduction, self.peer)?,
            Kind::AllReduce | Kind::Scan => write!(out, " ({})", self.reduction)?,
            Kind::Gather => write!(out, " to {}", self.peer)?,
            Kind::Broadcast | Kind::Scatter => write!(out, " from {}", self.peer)?,
            Kind::Barrier | Kind::AllGather => {}
        }
        match self.on_failure {
            OnFailure::Fail => {}
            OnFailure::Survivors => out.write_str(" among survivors")?,
        }
        match self.segment {
            Segment { number: 0, cut: 0 } => Ok(()),
            Segment { number, cut: 0 } => write!(out, ", segment {number}"),
            Segment { number, cut } => write!(out, ", segment {number} of cut {cut}"),
        }
    }
}

/// Contribution of one member, or for one member.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Bytes that nothing looks into.
    Bytes(Arc<[u8]>),
    /// Numbers to be combined in order.
    Values(Values),
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Values(values) => values.bytes(),
        }
    }
}

/// Contributions on their way to the root, and the result.
#[derive(Clone, Debug, PartialEq)]
pub enum Gathered {
    /// No contributions are needed.
    Nothing,
    /// Contributions combined into one.
    Folded(Values),
    /// Separate contributions, ascending by the rank that they are from (in a scatter, for).
    Listed(Vec<(Pn, Item)>),
    /// Contributions that are too long together ([`Limits::gathered`](crate::Limits)).
    TooLong,
    /// The payload of a broadcast, which its source sends beside this.
    Announced(Announcement),
}

/// End of an operation, the same for all members that took part.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Number of the operation in its group, from 1.
    pub number: u64,
    /// Members that contributed.
    pub participants: BTreeSet<Pn>,
    /// Newest of their joins: for a member with a newer one it is a predecessor's outcome.
    pub newest: JoinRevision,
    /// Result of the operation.
    pub verdict: Result<Gathered, OperationError>,
}

/// Failure of an operation, the same for all members that took part.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OperationError {
    /// Members were gone before they contributed ([`OnFailure::Fail`]).
    #[error("members {} failed", list(.failed))]
    MembersFailed {
        /// Ranks of these members.
        failed: BTreeSet<Pn>,
    },
    /// Members called different operations, or gave values of different type or count.
    #[error("members called different operations: {one} and {other}")]
    Differ {
        /// Call of some members.
        one: String,
        /// Call of others.
        other: String,
    },
    /// The contributions have too many bytes together.
    #[error("the contributions of all members have more than {limit} bytes together")]
    TooLong {
        /// Most bytes that they may have.
        limit: usize,
    },
}

/// Result of an operation for one member.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// No data, only the end.
    Nothing,
    /// Bytes of a broadcast or scatter.
    Bytes(Vec<u8>),
    /// Numbers of a reduction or scan.
    Values(Values),
    /// Bytes of each member, ascending by rank.
    Parts(Vec<(Pn, Vec<u8>)>),
}

fn list(pns: &BTreeSet<Pn>) -> String {
    pns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Operation {
    /// Returns the part in which all members must agree.
    pub fn call(&self, terms: impl Into<Terms>) -> Call {
        let (kind, peer, reduction) = match self {
            Self::Barrier => (Kind::Barrier, Pn(0), Reduction::Sum),
            Self::Broadcast { source, .. } => (Kind::Broadcast, *source, Reduction::Sum),
            Self::Reduce { root, reduction, .. } => (Kind::Reduce, *root, *reduction),
            Self::AllReduce { reduction, .. } => (Kind::AllReduce, Pn(0), *reduction),
            Self::Gather { root, .. } => (Kind::Gather, *root, Reduction::Sum),
            Self::Scatter { source, .. } => (Kind::Scatter, *source, Reduction::Sum),
            Self::AllGather { .. } => (Kind::AllGather, Pn(0), Reduction::Sum),
            Self::Scan { reduction, .. } => (Kind::Scan, Pn(0), *reduction),
        };
        let Terms { on_failure, segment } = terms.into();
        Call { kind, peer, reduction, on_failure, segment }
    }

    /// Checks that the values can be combined by the rule.
    pub(crate) fn check(&self) -> Result<(), ReductionError> {
        match self {
            Self::Reduce { reduction, values, .. }
            | Self::AllReduce { reduction, values }
            | Self::Scan { reduction, values } => values.allow(*reduction),
            Self::Barrier
            | Self::Broadcast { .. }
            | Self::Gather { .. }
            | Self::Scatter { .. }
            | Self::AllGather { .. } => Ok(()),
        }
    }

    /// Returns the bytes of the contribution.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Barrier => 0,
            Self::Broadcast { payload, .. }
            | Self::Gather { payload, .. }
            | Self::AllGather { payload } => payload.len(),
            Self::Reduce { values, .. }
            | Self::AllReduce { values, .. }
            | Self::Scan { values, .. } => values.bytes(),
            Self::Scatter { parts, .. } => parts.iter().map(|(_, part)| part.len()).sum(),
        }
    }

    /// Returns the contribution of `pn`.
    pub(crate) fn contribution(&self, pn: Pn) -> Gathered {
        let bytes = |payload: &Vec<u8>| Item::Bytes(Arc::from(payload.as_slice()));
        match self {
            Self::Barrier => Gathered::Nothing,
            Self::Broadcast { source, payload } if *source == pn => {
                Gathered::Listed(vec![(pn, bytes(payload))])
            }
            Self::Scatter { source, parts } if *source == pn => {
                let mut items: Vec<(Pn, Item)> =
                    parts.iter().map(|(to, part)| (*to, bytes(part))).collect();
                items.sort_by_key(|(to, _)| *to);
                Gathered::Listed(items)
            }
            Self::Broadcast { .. } | Self::Scatter { .. } => Gathered::Listed(Vec::new()),
            Self::Reduce { values, reduction, .. } | Self::AllReduce { values, reduction }
                if !values.is_float() =>
            {
                Gathered::Folded(values.contributed(*reduction))
            }
            Self::Reduce { values, reduction, .. }
            | Self::AllReduce { values, reduction }
            | Self::Scan { values, reduction } => {
                Gathered::Listed(vec![(pn, Item::Values(values.contributed(*reduction)))])
            }
            Self::Gather { payload, .. } | Self::AllGather { payload } => {
                Gathered::Listed(vec![(pn, bytes(payload))])
            }
        }
    }
}

impl Gathered {
    /// Merges contributions of other members; returns false if they do not fit together.
    pub(crate) fn merge(&mut self, reduction: Reduction, other: Self) -> bool {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => true,
            (Self::Folded(values), Self::Folded(more)) => values.combine(reduction, &more).is_ok(),
            (Self::Listed(items), Self::Listed(more)) => {
                items.extend(more);
                items.sort_by_key(|(pn, _)| *pn);
                true
            }
            (Self::Announced(one), Self::Announced(other)) => *one == other,
            (Self::Announced(_), Self::Listed(more)) => more.is_empty(),
            (one, other @ Self::Announced(_)) if *one == Self::Listed(Vec::new()) => {
                *one = other;
                true
            }
            (one, other) if *one == Self::TooLong || other == Self::TooLong => {
                *one = Self::TooLong;
                true
            }
            (
                Self::Nothing
                | Self::Folded(_)
                | Self::Listed(_)
                | Self::TooLong
                | Self::Announced(_),
                _,
            ) => false,
        }
    }

    /// Returns the bytes of all contributions.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Nothing | Self::TooLong | Self::Announced(_) => 0,
            Self::Folded(values) => values.bytes(),
            Self::Listed(items) => items.iter().map(|(_, item)| item.bytes()).sum(),
        }
    }

    /// The bytes, if there are those of one member and nothing else.
    pub(crate) fn payload(&self) -> Option<&Arc<[u8]>> {
        let Self::Listed(items) = self else { return None };
        match items.as_slice() {
            [(_, Item::Bytes(bytes))] => Some(bytes),
            _ => None,
        }
    }

    /// Combines contributions that were kept separate for their order, if the operation needs it.
    ///
    /// # Errors
    ///
    /// Type and count of two contributions that do not fit together.
    pub(crate) fn settle(self, call: &Call) -> Result<Self, (String, String)> {
        match (call.kind, self) {
            (Kind::Reduce | Kind::AllReduce, Self::Listed(items)) => {
                let folded = prefix(&items, None, call.reduction)?;
                Ok(folded.map_or(Self::Nothing, Self::Folded))
            }
            (Kind::Scan, Self::Listed(items)) => {
                prefix(&items, None, call.reduction)?;
                Ok(Self::Listed(items))
            }
            (_, gathered) => Ok(gathered),
        }
    }
}

/// Combines the contributions of the members up to `last`, in order of rank.
fn prefix(
    items: &[(Pn, Item)],
    last: Option<Pn>,
    reduction: Reduction,
) -> Result<Option<Values>, (String, String)> {
    let mut folded: Option<Values> = None;
    for (_, item) in items.iter().filter(|(pn, _)| last.is_none_or(|last| *pn <= last)) {
        let Item::Values(values) = item else { continue };
        match &mut folded {
            None => folded = Some(values.clone()),
            Some(so_far) => {
                let shape =
                    |values: &Values| format!("{} values of {}", values.len(), values.kind());
                so_far.combine(reduction, values).map_err(|_| (shape(so_far), shape(values)))?;
            }
        }
    }
    Ok(folded)
}

impl Outcome {
    /// Returns the bytes of the longest contribution of one member, the same at all members. Those
    /// of a broadcast and a scatter have one, of the source.
    pub fn longest(&self, call: &Call) -> usize {
        match (call.kind, &self.verdict) {
            (Kind::Broadcast | Kind::Scatter, Ok(gathered)) => gathered.bytes(),
            (_, Ok(Gathered::Listed(items))) => {
                items.iter().map(|(_, item)| item.bytes()).max().unwrap_or_default()
            }
            (_, Ok(Gathered::Folded(values))) => values.bytes(),
            (_, Ok(Gathered::Nothing | Gathered::TooLong | Gathered::Announced(_)) | Err(_)) => 0,
        }
    }

    /// Returns the result for the member `pn`, which called `call`.
    ///
    /// # Errors
    ///
    /// [`OperationError`], the same for all members.
    pub fn answer(&self, pn: Pn, call: &Call) -> Result<Answer, OperationError> {
        let gathered = self.verdict.as_ref().map_err(Clone::clone)?;
        let to_me = call.peer == pn;
        Ok(match (call.kind, gathered) {
            (Kind::Reduce | Kind::Gather, _) if !to_me => Answer::Nothing,
            (Kind::Reduce | Kind::AllReduce, Gathered::Folded(values)) => {
                Answer::Values(values.clone())
            }
            (Kind::Broadcast, Gathered::Listed(items)) => {
                items.first().map_or(Answer::Nothing, |(_, item)| Answer::Bytes(bytes(item)))
            }
            (Kind::Scatter, Gathered::Listed(items)) => {
                let mine = items.iter().find(|(to, _)| *to == pn);
                mine.map_or(Answer::Nothing, |(_, item)| Answer::Bytes(bytes(item)))
            }
            (Kind::Gather | Kind::AllGather, Gathered::Listed(items)) => {
                Answer::Parts(items.iter().map(|(of, item)| (*of, bytes(item))).collect())
            }
            (Kind::Scan, Gathered::Listed(items)) => {
                let folded = prefix(items, Some(pn), call.reduction).ok().flatten();
                folded.map_or(Answer::Nothing, Answer::Values)
            }
            (
                _,
                Gathered::Nothing
                | Gathered::Folded(_)
                | Gathered::Listed(_)
                | Gathered::TooLong
                | Gathered::Announced(_),
            ) => Answer::Nothing,
        })
    }
}

fn bytes(item: &Item) -> Vec<u8> {
    match item {
        Item::Bytes(bytes) => bytes.to_vec(),
        Item::Values(_) => Vec::new(),
    }
}
