//! Operations of any length: a long one runs as several operations of the message layer, its
//! segments, one after the other.
//!
//! All members must cut alike and stop together, although each knows its own contribution only.
//!
//! - Payloads: a segment of full length is followed by another one, so the one that ends is shorter
//!   and may be empty. The result of each names the longest contribution, the same at all members.
//! - Numbers: all contribute equally many, so each member knows the count of segments.
//! - Payloads that are not combined on the way may be too long in all members together. All members
//!   then get the same refusal, and begin again with shorter segments.
//!
//! The message layer refuses members that are at different segments (`OPERATIONS_DIFFER`), so one
//! that joins in the middle gets an error, as do all others, and no mix. Members that are gone
//! after the first segment are failures: the operation fails, or goes on without anything of them.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use fabricast_status::Reason;

use crate::{Error, Group, Number, Payloads};

/// Longest segment, in bytes: the longest contribution that the message layer takes.
pub(crate) const LONGEST: usize = 1 << 20;
/// Segments are not cut shorter than this, in bytes: 16 384 of them together are not too long.
const SHORTEST: usize = 2 << 10;
/// Divisor of the length of segments that were too long together.
const SHORTER: usize = 8;

/// Participants of the segments so far.
#[derive(Debug, Default)]
struct Participants(Option<Vec<u32>>);

impl Participants {
    /// Compares those of the next segment with those before; returns the ranks that are gone.
    fn gone(&mut self, now: &[u32]) -> Vec<u32> {
        let before = self.0.replace(now.to_vec()).unwrap_or_default();
        before.into_iter().filter(|rank| !now.contains(rank)).collect()
    }
}

/// Length of segments after those of `length` were too long together; `None` if there is none or
/// the error is another one.
fn shorter(length: usize, error: &Error) -> Option<usize> {
    (length > SHORTEST && is_too_long(error)).then_some(length / SHORTER)
}

fn is_too_long(error: &Error) -> bool {
    matches!(error, Error::Refused { reason, .. } if reason == Reason::PayloadTooLong.text())
}

/// Place at which a segment starts.
fn start_of(segment: u32, length: usize) -> usize {
    usize::try_from(segment).unwrap_or(usize::MAX).saturating_mul(length)
}

/// Bytes of `payload` from `start`, at most `length`.
fn piece(payload: &[u8], start: usize, length: usize) -> Vec<u8> {
    let rest = payload.get(start..).unwrap_or_default();
    rest[..rest.len().min(length)].to_vec()
}

/// Pieces of parts, at most `length` bytes together, from the byte `start` of all parts in a row. A
/// part without bytes is in the segment in which it begins.
fn pieces(parts: &[(u32, Vec<u8>)], start: usize, length: usize) -> Vec<v1::RankPayload> {
    let (mut begin, end) = (0, start + length);
    let mut found = Vec::new();
    for (pn, part) in parts {
        let (first, last) = (begin.max(start), (begin + part.len()).min(end));
        let is_empty_here = part.is_empty() && (start..end).contains(&begin);
        if first < last || is_empty_here {
            let payload = part[first - begin..last - begin].to_vec();
            found.push(v1::RankPayload { pn: *pn, payload });
        }
        begin += part.len();
    }
    found
}

fn is_full(result: &v1::OperationResult, length: usize) -> bool {
    usize::try_from(result.longest_contribution_bytes).is_ok_and(|longest| longest >= length)
}

/// Numbers of a reduction in segments.
enum Combined<N> {
    /// The numbers; `None` where the member is not to get them.
    Whole(Option<Vec<N>>),
    /// The first segments have numbers of members that are gone, and the others have not: it begins
    /// again.
    Mixed,
}

/// An operation of any length, without the member's contribution.
pub(crate) struct LongOperation<'a> {
    pub(crate) group: &'a Group,
    pub(crate) operation: v1::GroupOperation,
}

impl LongOperation<'_> {
    /// Runs a broadcast.
    ///
    /// - `payload`: empty at all members but the source.
    pub(crate) async fn broadcast(&self, payload: &[u8]) -> Result<Vec<u8>, Error> {
        let mut whole = Vec::new();
        for segment in 0.. {
            let start = start_of(segment, LONGEST);
            let payload = piece(payload, start, LONGEST);
            let result =
                self.group.run(v1::GroupOperation { payload, segment, ..self.operation.clone() });
            let result = result.await?;
            let full = is_full(&result, LONGEST);
            whole.extend(result.payload.unwrap_or_default());
            if !full {
                break;
            }
        }
        Ok(whole)
    }

    /// Runs a scatter.
    ///
    /// - `parts`: empty at all members but the source.
    pub(crate) async fn scatter(&self, parts: &[(u32, Vec<u8>)]) -> Result<Option<Vec<u8>>, Error> {
        let mut whole: Option<Vec<u8>> = None;
        let mut members = Participants::default();
        for segment in 0.. {
            let start = start_of(segment, LONGEST);
            let parts = pieces(parts, start, LONGEST);
            let result =
                self.group.run(v1::GroupOperation { parts, segment, ..self.operation.clone() });
            let result = result.await?;
            self.fail_without(members.gone(&result.participants))?;
            let full = is_full(&result, LONGEST);
            if let Some(payload) = result.payload {
                whole.get_or_insert_default().extend(payload);
            }
            if !full {
                break;
            }
        }
        Ok(whole)
    }

    /// Runs a gather or an all-gather; no payloads where the member is not to get them.
    pub(crate) async fn gather(&self, payload: &[u8]) -> Result<Payloads, Error> {
        let mut length = LONGEST;
        loop {
            match self.gather_once(payload, length).await {
                Err(error) => length = shorter(length, &error).ok_or(error)?,
                ended => return ended,
            }
        }
    }

    async fn gather_once(&self, payload: &[u8], length: usize) -> Result<Payloads, Error> {
        let cut = u32::try_from(length).unwrap_or(u32::MAX);
        let segment_cut = if length == LONGEST { 0 } else { cut };
        let mut all: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut members = Participants::default();
        for segment in 0.. {
            let payload = piece(payload, start_of(segment, length), length);
            let operation =
                v1::GroupOperation { payload, segment, segment_cut, ..self.operation.clone() };
            let result = self.group.run(operation).await?;
            self.fail_without(members.gone(&result.participants))?;
            let full = is_full(&result, length);
            // A member that is gone has left a part of its payload only.
            all.retain(|rank, _| result.participants.contains(rank));
            for part in result.parts {
                all.entry(part.pn).or_default().extend(part.payload);
            }
            if !full {
                break;
            }
        }
        Ok(all.into_iter().collect())
    }

    /// Runs a reduction or a scan; `None` where the member is not to get the numbers.
    pub(crate) async fn combine<N: Number>(&self, numbers: &[N]) -> Result<Option<Vec<N>>, Error> {
        let mut length = LONGEST;
        loop {
            match self.combine_once(numbers, length).await {
                Err(error) => length = shorter(length, &error).ok_or(error)?,
                Ok(Combined::Whole(numbers)) => return Ok(numbers),
                Ok(Combined::Mixed) => {}
            }
        }
    }

    async fn combine_once<N: Number>(
        &self,
        numbers: &[N],
        length: usize,
    ) -> Result<Combined<N>, Error> {
        let each = length / size_of::<N>();
        let count = u32::try_from(numbers.len().div_ceil(each)).unwrap_or(u32::MAX);
        let segment_cut = if count > 1 { count } else { 0 };
        let mut whole: Option<Vec<N>> = None;
        let mut members = Participants::default();
        for segment in 0..count.max(1) {
            let rest = numbers.get(start_of(segment, each)..).unwrap_or_default();
            let kind = N::to_wire(&rest[..rest.len().min(each)]);
            let numbers = Some(v1::Numbers { kind: Some(kind) });
            let operation =
                v1::GroupOperation { numbers, segment, segment_cut, ..self.operation.clone() };
            let result = self.group.run(operation).await?;
            let gone = members.gone(&result.participants);
            if !gone.is_empty() {
                self.fail_without(gone)?;
                return Ok(Combined::Mixed);
            }
            if let Some(numbers) = result.numbers.and_then(|numbers| numbers.kind) {
                let numbers = N::from_wire(numbers).ok_or_else(other_type)?;
                whole.get_or_insert_default().extend(numbers);
            }
        }
        Ok(Combined::Whole(whole))
    }

    /// Fails if members are gone, unless operations complete without them.
    fn fail_without(&self, failed: Vec<u32>) -> Result<(), Error> {
        if failed.is_empty() || self.group.survivors {
            return Ok(());
        }
        Err(Error::MembersFailed { failed })
    }
}

/// The agent has answered with numbers of another type.
pub(crate) fn other_type() -> Error {
    Error::bad_answer("the agent has answered with numbers of another type")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_parts_fill_segments_and_lose_nothing() {
        let parts = [(3, b"abcdef".to_vec()), (1, Vec::new()), (7, b"gh".to_vec())];
        for length in 1..10 {
            let mut whole = BTreeMap::<u32, Vec<u8>>::new();
            for start in (0..=8).step_by(length) {
                let found = pieces(&parts, start, length);
                let bytes: usize = found.iter().map(|piece| piece.payload.len()).sum();
                assert_eq!(bytes, length.min(8 - start), "{start} of {length}");
                for piece in found {
                    whole.entry(piece.pn).or_default().extend(piece.payload);
                }
            }
            assert_eq!(whole, parts.iter().cloned().collect());
        }
    }

    #[test]
    fn members_that_are_gone_are_named_once() {
        let mut members = Participants::default();
        assert!(members.gone(&[0, 1, 2]).is_empty());
        assert_eq!(members.gone(&[0, 2]), [1]);
        assert!(members.gone(&[0, 2]).is_empty());
    }

    #[test]
    fn segments_get_shorter_after_one_refusal_only_and_not_without_end() {
        let refused = |reason: Reason| Error::Refused {
            code: tonic::Code::InvalidArgument,
            reason: reason.text().to_owned(),
            message: String::new(),
        };
        let too_long = refused(Reason::PayloadTooLong);
        let mut lengths = vec![LONGEST];
        lengths.extend(std::iter::successors(shorter(LONGEST, &too_long), |length| {
            shorter(*length, &too_long)
        }));
        assert_eq!(lengths, [1 << 20, 128 << 10, 16 << 10, 2 << 10]);
        let pair = 2 * size_of::<u64>();
        assert!(lengths.iter().all(|length| length.is_multiple_of(pair)), "no pair is parted");
        assert_eq!(shorter(LONGEST, &refused(Reason::OperationsDiffer)), None);
    }
}
