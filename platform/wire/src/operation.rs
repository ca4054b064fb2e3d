//! Collective operations of processes, and their results.

use std::collections::BTreeSet;

use fabricast_groups::ids::Pn;
use fabricast_messages::{
    Answer, OnFailure, Operation, OperationError, Reduction, Segment, Terms, Values,
};
use fabricast_proto::v1;
use fabricast_proto::v1::OperationKind as Kind;
use fabricast_proto::v1::numbers::Kind as Numbers;
use fabricast_status::Reason;
use tonic::Status;

use crate::error::{WireError, required};

/// Decodes an operation with a member's contribution.
///
/// # Errors
///
/// [`WireError::Missing`].
pub fn decode_operation(wire: Option<v1::GroupOperation>) -> Result<(Operation, Terms), WireError> {
    let missing = WireError::missing;
    let wire = required("operation", wire)?;
    let on_failure = match wire.on_failure() {
        v1::FailurePolicy::Unspecified | v1::FailurePolicy::Fail => OnFailure::Fail,
        v1::FailurePolicy::Survivors => OnFailure::Survivors,
    };
    let segment = Segment { number: wire.segment, cut: wire.segment_cut };
    let (kind, peer) = (wire.kind(), Pn(wire.peer));
    let reduction = read_reduction(wire.reduction());
    let reduction = || reduction.ok_or_else(|| missing("operation.reduction"));
    let values = || read_values(wire.numbers.clone()).ok_or_else(|| missing("operation.numbers"));
    let payload = wire.payload.clone();
    let operation = match kind {
        Kind::Unspecified => return Err(missing("operation.kind")),
        Kind::Barrier => Operation::Barrier,
        Kind::Broadcast => Operation::Broadcast { source: peer, payload },
        Kind::Reduce => {
            Operation::Reduce { root: peer, reduction: reduction()?, values: values()? }
        }
        Kind::AllReduce => Operation::AllReduce { reduction: reduction()?, values: values()? },
        Kind::Gather => Operation::Gather { root: peer, payload },
        Kind::Scatter => {
            let part = |part: v1::RankPayload| (Pn(part.pn), part.payload);
            Operation::Scatter { source: peer, parts: wire.parts.into_iter().map(part).collect() }
        }
        Kind::AllGather => Operation::AllGather { payload },
        Kind::Scan => Operation::Scan { reduction: reduction()?, values: values()? },
    };
    Ok((operation, Terms { on_failure, segment }))
}

/// Encodes the end of an operation for a member.
#[must_use]
pub fn encode_operation_result(
    participants: &BTreeSet<Pn>,
    answer: Answer,
    longest: usize,
) -> v1::OperationResult {
    let mut result = v1::OperationResult {
        participants: participants.iter().map(|pn| pn.0).collect(),
        longest_contribution_bytes: u64::try_from(longest).unwrap_or(u64::MAX),
        ..Default::default()
    };
    match answer {
        Answer::Nothing => {}
        Answer::Bytes(payload) => result.payload = Some(payload),
        Answer::Values(values) => result.numbers = Some(values_to_wire(values)),
        Answer::Parts(parts) => {
            let part = |(pn, payload): (Pn, Vec<u8>)| v1::RankPayload { pn: pn.0, payload };
            result.parts = parts.into_iter().map(part).collect();
        }
    }
    result
}

/// Encodes the failure of an operation that has begun.
#[must_use]
pub fn encode_operation_error(error: &OperationError) -> Status {
    match error {
        OperationError::MembersFailed { failed } => {
            let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
            Reason::MembersFailed.status(error.to_string(), &[("failed", &failed.join(","))])
        }
        OperationError::Differ { .. } => Reason::OperationsDiffer.status(error.to_string(), &[]),
        OperationError::TooLong { .. } => Reason::PayloadTooLong.status(error.to_string(), &[]),
    }
}

fn read_reduction(wire: v1::Reduction) -> Option<Reduction> {
    Some(match wire {
        v1::Reduction::Unspecified => return None,
        v1::Reduction::Sum => Reduction::Sum,
        v1::Reduction::Min => Reduction::Min,
        v1::Reduction::Max => Reduction::Max,
        v1::Reduction::And => Reduction::And,
        v1::Reduction::Or => Reduction::Or,
        v1::Reduction::Xor => Reduction::Xor,
        v1::Reduction::Product => Reduction::Product,
        v1::Reduction::LogicalAnd => Reduction::LogicalAnd,
        v1::Reduction::LogicalOr => Reduction::LogicalOr,
        v1::Reduction::LogicalXor => Reduction::LogicalXor,
        v1::Reduction::MinLoc => Reduction::MinLoc,
        v1::Reduction::MaxLoc => Reduction::MaxLoc,
    })
}

fn read_values(wire: Option<v1::Numbers>) -> Option<Values> {
    Some(match wire?.kind? {
        Numbers::I32(v1::Int32Numbers { numbers }) => Values::I32(numbers),
        Numbers::I64(v1::Int64Numbers { numbers }) => Values::I64(numbers),
        Numbers::U32(v1::Uint32Numbers { numbers }) => Values::U32(numbers),
        Numbers::U64(v1::Uint64Numbers { numbers }) => Values::U64(numbers),
        Numbers::F32(v1::FloatNumbers { numbers }) => Values::F32(numbers),
        Numbers::F64(v1::DoubleNumbers { numbers }) => Values::F64(numbers),
    })
}

fn values_to_wire(values: Values) -> v1::Numbers {
    let kind = match values {
        Values::I32(numbers) => Numbers::I32(v1::Int32Numbers { numbers }),
        Values::I64(numbers) => Numbers::I64(v1::Int64Numbers { numbers }),
        Values::U32(numbers) => Numbers::U32(v1::Uint32Numbers { numbers }),
        Values::U64(numbers) => Numbers::U64(v1::Uint64Numbers { numbers }),
        Values::F32(numbers) => Numbers::F32(v1::FloatNumbers { numbers }),
        Values::F64(numbers) => Numbers::F64(v1::DoubleNumbers { numbers }),
    };
    v1::Numbers { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_type_and_value() {
        let all = [
            Values::I32(vec![i32::MIN]),
            Values::I64(vec![i64::MIN, 1]),
            Values::U32(vec![u32::MAX]),
            Values::U64(vec![u64::MAX]),
            Values::F32(vec![0.5]),
            Values::F64(vec![-0.25]),
        ];
        for one in all {
            assert_eq!(read_values(Some(values_to_wire(one.clone()))), Some(one));
        }
    }

    #[test]
    fn a_missing_field_is_named() {
        let of = |kind: Kind| v1::GroupOperation { kind: kind.into(), ..Default::default() };
        let with = v1::GroupOperation {
            numbers: Some(values_to_wire(Values::I32(vec![1]))),
            ..of(Kind::Scan)
        };
        let lacking = [
            (None, "operation"),
            (Some(of(Kind::Unspecified)), "operation.kind"),
            (Some(with), "operation.reduction"),
            (Some(v1::GroupOperation { reduction: 1, ..of(Kind::AllReduce) }), "operation.numbers"),
        ];
        for (wire, field) in lacking {
            assert_eq!(decode_operation(wire), Err(WireError::missing(field)));
        }
        assert_eq!(
            decode_operation(Some(of(Kind::Barrier))).unwrap(),
            (Operation::Barrier, OnFailure::Fail.into())
        );
    }
}
