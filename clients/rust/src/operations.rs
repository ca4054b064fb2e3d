//! Collective operations over the members of a group.

use std::sync::atomic::Ordering;

use fabricast_proto::v1;
use fabricast_proto::v1::OperationKind as Kind;
use fabricast_proto::v1::numbers::Kind as Numbers;

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
    /// Bitwise AND; integers only.
    And,
    /// Bitwise OR; integers only.
    Or,
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
        };
        wire.into()
    }
}

/// All participants call the same operations in the same order, and each call waits for all others.
/// A call whose future is dropped still counts; the next one is refused until it has ended.
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
        let payload = if self.rank == source { payload.to_vec() } else { Vec::new() };
        let operation = v1::GroupOperation { payload, ..operation(Kind::Broadcast, source) };
        Ok(self.run(operation).await?.payload.unwrap_or_default())
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
        let operation = combining(operation(Kind::Reduce, root), reduction, numbers);
        let found = self.run(operation).await?;
        (self.rank == root).then(|| combined(found)).transpose()
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
        let operation = combining(operation(Kind::AllReduce, 0), reduction, numbers);
        combined(self.run(operation).await?)
    }

    /// Collects the payloads of all members, by rank, at the member `root`; `None` at the others.
    ///
    /// # Errors
    ///
    /// As listed at the top of this block.
    pub async fn gather(&self, root: u32, payload: &[u8]) -> Result<Option<Payloads>, Error> {
        let payload = payload.to_vec();
        let operation = v1::GroupOperation { payload, ..operation(Kind::Gather, root) };
        let found = self.run(operation).await?;
        Ok((self.rank == root).then(|| parts(found)))
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
        let mine = parts.iter().filter(|_| self.rank == source);
        let part =
            |(pn, payload): &(u32, Vec<u8>)| v1::RankPayload { pn: *pn, payload: payload.clone() };
        let parts = mine.map(part).collect();
        let operation = v1::GroupOperation { parts, ..operation(Kind::Scatter, source) };
        Ok(self.run(operation).await?.payload)
    }

    /// Collects the payloads of all members, by rank, at every member.
    ///
    /// # Errors
    ///
    /// As listed at the top of this block.
    pub async fn all_gather(&self, payload: &[u8]) -> Result<Payloads, Error> {
        let payload = payload.to_vec();
        let operation = v1::GroupOperation { payload, ..operation(Kind::AllGather, 0) };
        Ok(parts(self.run(operation).await?))
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
        combined(self.run(combining(operation(Kind::Scan, 0), reduction, numbers)).await?)
    }

    async fn run(&self, operation: v1::GroupOperation) -> Result<v1::OperationResult, Error> {
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

fn combining<N: Number>(
    operation: v1::GroupOperation,
    reduction: Reduction,
    numbers: &[N],
) -> v1::GroupOperation {
    let numbers = Some(v1::Numbers { kind: Some(N::to_wire(numbers)) });
    v1::GroupOperation { reduction: reduction.wire(), numbers, ..operation }
}

/// Extracts the numbers of an answer, which has the type of the request.
fn combined<N: Number>(found: v1::OperationResult) -> Result<Vec<N>, Error> {
    let numbers = found.numbers.and_then(|numbers| numbers.kind).and_then(N::from_wire);
    numbers.ok_or_else(|| Error::bad_answer("the agent has answered with numbers of another type"))
}

fn parts(found: v1::OperationResult) -> Payloads {
    found.parts.into_iter().map(|part| (part.pn, part.payload)).collect()
}
