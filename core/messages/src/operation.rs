//! Collective operations: what a member asks for, what travels up the tree, and what everybody gets.
//!
//! What members contribute is merged on the way up; the root decides, once, and everybody gets the
//! same [`Outcome`], from which each takes its own [`Answer`]. The order of combination is that of
//! `values.rs`.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use fabricast_groups::Pn;
use thiserror::Error;

use crate::frame::Life;
use crate::values::{Reduction, ReductionError, Values};

/// A collective operation with one member's contribution.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Nobody goes on before everybody has come.
    Barrier,
    /// One member's bytes to all.
    Broadcast {
        /// Whose.
        source: Pn,
        /// The bytes; not looked at anywhere but at the source.
        payload: Vec<u8>,
    },
    /// All members' values, combined, to one.
    Reduce {
        /// To whom.
        root: Pn,
        /// How.
        reduction: Reduction,
        /// The contribution.
        values: Values,
    },
    /// All members' values, combined, to all.
    AllReduce {
        /// How.
        reduction: Reduction,
        /// The contribution.
        values: Values,
    },
    /// All members' bytes, each apart, to one.
    Gather {
        /// To whom.
        root: Pn,
        /// The contribution.
        payload: Vec<u8>,
    },
    /// One member's bytes, a part to each.
    Scatter {
        /// Whose.
        source: Pn,
        /// For whom which; not looked at anywhere but at the source.
        parts: Vec<(Pn, Vec<u8>)>,
    },
    /// All members' bytes, each apart, to all.
    AllGather {
        /// The contribution.
        payload: Vec<u8>,
    },
    /// To each the values of the members up to itself, combined.
    Scan {
        /// How.
        reduction: Reduction,
        /// The contribution.
        values: Values,
    },
}

/// What becomes of an operation when a member is gone before it has contributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// It fails everywhere and names who is gone.
    Fail,
    /// It is completed among the others.
    Survivors,
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Operation::Barrier`].
    Barrier,
    /// [`Operation::Broadcast`].
    Broadcast,
    /// [`Operation::Reduce`].
    Reduce,
    /// [`Operation::AllReduce`].
    AllReduce,
    /// [`Operation::Gather`].
    Gather,
    /// [`Operation::Scatter`].
    Scatter,
    /// [`Operation::AllGather`].
    AllGather,
    /// [`Operation::Scan`].
    Scan,
}

/// What all members must say alike when they call an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which kind.
    pub kind: Kind,
    /// The source or root; [`Pn`] 0 where there is none.
    pub peer: Pn,
    /// How values are combined; [`Reduction::Sum`] where there are none.
    pub reduction: Reduction,
    /// What happens when members fail.
    pub on_failure: OnFailure,
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
            OnFailure::Fail => Ok(()),
            OnFailure::Survivors => out.write_str(" among survivors"),
        }
    }
}

/// One member's contribution where contributions are kept apart.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// Numbers.
    Values(Values),
}

/// Contributions on their way to the root, and what the root makes of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Gathered {
    /// None are needed.
    Nothing,
    /// Combined.
    Folded(Values),
    /// Kept apart, ascending by PN: of whom (or, in a scatter, for whom).
    Listed(Vec<(Pn, Item)>),
}

/// How an operation ended; the same for all who took part.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Which operation of the group, from 1.
    pub number: u64,
    /// Who contributed.
    pub participants: BTreeSet<Pn>,
    /// The newest of their lives: to who has a newer one, it is the outcome of a predecessor.
    pub newest: Life,
    /// What came of it.
    pub verdict: Result<Gathered, OperationError>,
}

/// Why an operation failed; all who took part get the same.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OperationError {
    /// Members were gone before they contributed, and the callers wanted to know.
    #[error("members {} failed", list(.failed))]
    MembersFailed {
        /// Who.
        failed: BTreeSet<Pn>,
    },
    /// Members called different operations, or with values that do not fit together.
    #[error("members called different operations: {one} and {other}")]
    Differ {
        /// What some called.
        one: String,
        /// What others called.
        other: String,
    },
}

/// What one member gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing but the end.
    Nothing,
    /// Bytes.
    Bytes(Vec<u8>),
    /// Numbers.
    Values(Values),
    /// Bytes of each, ascending by PN.
    Parts(Vec<(Pn, Vec<u8>)>),
}

/// Names PNs in a sentence.
fn list(pns: &BTreeSet<Pn>) -> String {
    pns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Operation {
    /// Answers what all members must say alike.
    pub fn call(&self, on_failure: OnFailure) -> Call {
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
        Call { kind, peer, reduction, on_failure }
    }

    /// Checks that the values can be combined so.
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

    /// Answers how many bytes a member contributes.
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

    /// Answers what `pn` contributes.
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
            Self::Reduce { values, .. } | Self::AllReduce { values, .. } if !values.is_float() => {
                Gathered::Folded(values.clone())
            }
            Self::Reduce { values, .. }
            | Self::AllReduce { values, .. }
            | Self::Scan { values, .. } => {
                Gathered::Listed(vec![(pn, Item::Values(values.clone()))])
            }
            Self::Gather { payload, .. } | Self::AllGather { payload } => {
                Gathered::Listed(vec![(pn, bytes(payload))])
            }
        }
    }
}

impl Gathered {
    /// Merges contributions of other members; answers false if they do not fit together.
    pub(crate) fn merge(&mut self, reduction: Reduction, other: Self) -> bool {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => true,
            (Self::Folded(values), Self::Folded(more)) => values.combine(reduction, &more).is_ok(),
            (Self::Listed(items), Self::Listed(more)) => {
                items.extend(more);
                items.sort_by_key(|(pn, _)| *pn);
                true
            }
            (Self::Nothing | Self::Folded(_) | Self::Listed(_), _) => false,
        }
    }

    /// Folds what was kept apart for the sake of order, where the operation wants it combined.
    ///
    /// # Errors
    ///
    /// The shapes of two contributions that do not fit together.
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

/// Folds the contributions of the members up to `last`, in their order.
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
    /// Answers what the member `pn`, which called `call`, gets.
    ///
    /// # Errors
    ///
    /// [`OperationError`], the same for all.
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
            (_, Gathered::Nothing | Gathered::Folded(_) | Gathered::Listed(_)) => Answer::Nothing,
        })
    }
}

fn bytes(item: &Item) -> Vec<u8> {
    match item {
        Item::Bytes(bytes) => bytes.to_vec(),
        Item::Values(_) => Vec::new(),
    }
}
