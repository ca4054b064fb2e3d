//! Collective operations over the members of a group.

use std::sync::atomic::Ordering;

use fabricast_proto::v1;
use fabricast_proto::v1::OperationKind as Kind;
use fabricast_proto::v1::numbers::Kind as Numbers;

use crate::segments::{LongOperation, other_type};
use crate::{Error, Group};

/// Function that combines numbers, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Sum; integers wrap around, floats are added in the order of ranks.
    Sum,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Bitwise AND (`MPI_BAND`); integers only.
    And,
    /// Bitwise OR (`MPI_BOR`); integers only.
    Or,
    /// Bitwise exclusive OR (`MPI_BXOR`); integers only.
    Xor,
    /// Product (`MPI_PROD`); integers wrap around, floats are multiplied in the order of ranks.
    Product,
    /// 1 if all numbers are not 0 (`MPI_LAND`), otherwise 0; integers only.
    LogicalAnd,
    /// 1 if one number is not 0 (`MPI_LOR`), otherwise 0; integers only.
    LogicalOr,
    /// 1 if an odd count of numbers is not 0 (`MPI_LXOR`), otherwise 0; integers only.
    LogicalXor,
    /// Of pairs the one with the least value (`MPI_MINLOC`), of equal values that with the lowest
    /// place. The numbers are pairs of a value and its place, one after the other.
    MinLoc,
    /// Of pairs the one with the greatest value (`MPI_MAXLOC`), of equal values that with the
    /// lowest place.
    MaxLoc,
}

/// Payloads of members, by rank.
pub type Payloads = Vec<(u32, Vec<u8>)>;

/// The types of numbers that can be combined: `i32`, `i64`, `u32`, `u64`, `f32` and `f64`.
pub trait Number: Copy {
    /// Converts numbers for a request.
    #[doc(hidden)]
    fn to_wire(numbers: &[Self]) -> Numbers;
    /// Converts numbers of an answer; `None` if they are of another type.
    #[doc(hidden)]
    fn from_wire(numbers: Numbers) -> Option<Vec<Self>>;
}

macro_rules! numbers {
    ($($number:ty, $kind:ident, $message:ident;)*) => {$(
        impl Number for $number {
            fn to_wire(numbers: &[Self]) -> Numbers {
                Numbers::$kind(v1::$message { numbers: numbers.to_vec() })
            }

            fn from_wire(numbers: Numbers) -> Option<Vec<Self>> {
                match numbers {
                    Numbers::$kind(v1::$message { numbers }) => Some(numbers),
                    _ => None,
                }
            }
        }
    )*};
}

numbers! {
    i32, I32, Int32Numbers;
    i64, I64, Int64Numbers;
    u32, U32, Uint32Numbers;
    u64, U64, Uint64Numbers;
    f32, F32, FloatNumbers;
    f64, F64, DoubleNumbers;
}

impl Reduction {
    fn wire(self) -> i32 {
        let wire = match self {
            Self::Sum => v1::Reduction::Sum,
            Self::Min => v1::Reduction::Min,
            Self::Max => v1::Reduction::Max,
            Self::And => v1::Reduction::And,
            Self::Or => v1::Reduction::Or,
            Self::Xor => v1::Reduction::Xor,
            Self::Product => v1::Reduction::Product,
            Self::LogicalAnd => v1::Reduction::LogicalAnd,
            Self::LogicalOr => v1::Reduction::LogicalOr,
            Self::LogicalXor => v1::Reduction::LogicalXor,
            Self::MinLoc => v1::Reduction::MinLoc,
            Self::MaxLoc => v1::Reduction::MaxLoc,
        };
        wire.into()
    }
}

/// All participants call the same operations in the same order, and each call waits for all others.
/// Payloads and numbers may have any length: what is longer than 1 MiB runs in segments. A member
/// that joins, or calls something else, between two segments makes the operation fail everywhere
/// with `OPERATIONS_DIFFER`.
///
/// A call whose future is dropped still counts; the next one is refused until it has ended. One
/// that runs in segments is not continued then, and fails at the others when this member calls the
/// next.
///
/// A member that fails before it has contributed makes an operation fail everywhere, with
/// [`Error::MembersFailed`], or is left out if all have called it through
/// [`Group::among_survivors`]. One that is gone before an operation begins is no part of it, unless
/// [`Group::among_all`] requires it.
///
/// # Errors
///
/// All of them fail with [`Error::NotAMember`], [`Error::Detached`], [`Error::MembersFailed`], or
/// [`Error::Refused`] with `OPERATIONS_DIFFER`, `OPERATION_RUNNING`, `PAYLOAD_TOO_LONG` or
/// `CONTRIBUTION_INVALID`.
impl Group {
    /// Returns the same membership; operations through it complete without members that fail.
    #[must_use]
    pub fn among_survivors(&self) -> Self {
        Self { survivors: true, ..self.clone() }
    }

    /// Returns the same membership; operations through it fail with [`Error::MembersFailed`] also
    /// if a member of these ranks was gone before they began.
    #[must_use]
    pub fn among_all(&self, ranks: &[u32]) -> Self {
        Self { survivors: false, required: ranks.into(), ..self.clone() }
    }

    /// Waits until all participants have called it; returns their ranks.
    ///
    /// # Errors
    ///
    /// As listed at the top of this block.
    pub async fn barrier(&self) -> Result<Vec<u32>, Error> {
        Ok(self.run(operation(Kind::Barrier, 0)).await?.participants)
    }

    /// Returns the payload of the member `source`; that of the others is ignored.
    ///
    /// # Errors
    ///
    /// As listed at the top of this block.
    pub async fn broadcast(&self, source: u32, payload: &[u8]) -> Result<Vec<u8>, Error> {
        let payload = if self.rank == source { payload } else { &[] };
        self.long(operation(Kind::Broadcast, source)).broadcast(payload).await
    }

    /// Combines the numbers of all members; only the member `root` gets the result.
    ///
    /// # Errors
    ///
    /// As listed at the top of this block.
    pub async fn reduce<N: Number>(
        &self,
        root: u32,
        reduction: Reduction,
        numbers: &[N],
    ) -> Result<Option<Vec<N>>, Error> {
        let found = self.long(combining(Kind::Reduce, root, reduction)).combine(numbers).await?;
        (self.rank == root).then(|| found.ok_or_else(other_type)).transpose()
    }

    /// Combines the numbers of all members; all get the result.
    ///
    /// # Errors
    ///
    /// As listed at the top of this block.
    pub async fn all_reduce<N: Number>(
        &self,
        reduction: Reduction,
        numbers: &[N],
    ) -> Result<Vec<N>, Error> {
        let operation = combining(Kind::AllReduce, 0, reduction);
        self.long(operation).combine(numbers).await?.ok_or_else(other_type)
    }

    /// Collects the payloads of all members, by rank, at the member `root`; `None` at the others.
    ///
    /// # Errors
    ///
    /// As listed at the top of this block.
    pub async fn gather(&self, root: u32, payload: &[u8]) -> Result<Option<Payloads>, Error> {
        let found = self.long(operation(Kind::Gather, root)).gather(payload).await?;
        Ok((self.rank == root).then_some(found))
    }

    /// Returns the part that the member `source` has for this member, if any; the parts of the
    /// others are ignored.
    ///
    /// # Errors
    ///
    /// As listed at the top of this block.
    pub async fn scatter(
        &self,
        source: u32,
        parts: &[(u32, Vec<u8>)],
    ) -> Result<Option<Vec<u8>>, Error> {
        let parts = if self.rank == source { parts } else { &[] };
        self.long(operation(Kind::Scatter, source)).scatter(parts).await
    }

    /// Collects the payloads of all members, by rank, at every member.
    ///
    /// # Errors
    ///
    /// As listed at the top of this block.
    pub async fn all_gather(&self, payload: &[u8]) -> Result<Payloads, Error> {
        self.long(operation(Kind::AllGather, 0)).gather(payload).await
    }

    /// Combines the numbers of the members up to this one, by rank.
    ///
    /// # Errors
    ///
    /// As listed at the top of this block.
    pub async fn scan<N: Number>(
        &self,
        reduction: Reduction,
        numbers: &[N],
    ) -> Result<Vec<N>, Error> {
        let operation = combining(Kind::Scan, 0, reduction);
        self.long(operation).combine(numbers).await?.ok_or_else(other_type)
    }

    fn long(&self, operation: v1::GroupOperation) -> LongOperation<'_> {
        LongOperation { group: self, operation }
    }

    /// Runs one operation of the message layer.
    pub(crate) async fn run(
        &self,
        operation: v1::GroupOperation,
    ) -> Result<v1::OperationResult, Error> {
        let part = self.part().await?;
        let on_failure =
            if self.survivors { v1::FailurePolicy::Survivors } else { v1::FailurePolicy::Fail };
        let operation = v1::GroupOperation { on_failure: on_failure.into(), ..operation };
        let result = part.run(operation).await?;
        self.by_switches.fetch_add(u64::from(result.by_switches), Ordering::Relaxed);
        let missing = self.required.iter().filter(|rank| !result.participants.contains(rank));
        let failed: Vec<u32> = missing.copied().collect();
        if !failed.is_empty() {
            return Err(Error::MembersFailed { failed });
        }
        Ok(result)
    }
}

fn operation(kind: Kind, peer: u32) -> v1::GroupOperation {
    v1::GroupOperation { kind: kind.into(), peer, ..Default::default() }
}

fn combining(kind: Kind, peer: u32, reduction: Reduction) -> v1::GroupOperation {
    v1::GroupOperation { reduction: reduction.wire(), ..operation(kind, peer) }
}
