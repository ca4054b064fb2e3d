//! A transaction as etcd is asked for it, with a receipt so that it happens once.
//!
//! A call that timed out may have been carried out, and may even be carried out later. So every
//! transaction that changes something also writes a *receipt*: the number of the transaction, under
//! a key that only this client's slot uses. It is wrapped in a second one that does nothing if the
//! receipt has this number or a later one:
//!
//! ```text
//!   if receipt > number - 1   then read the receipt            (an earlier attempt did it)
//!   else if the caller's comparisons hold
//!                             then the caller's operations, receipt = number
//!                             else read what was compared      (which one did not hold?)
//! ```

use crate::error::StoreError;
use crate::etcd::keys::{Keys, prefix_end, to_signed, to_unsigned};
use crate::etcd::wire;
use crate::store::LeaseId;
use crate::txn::{Expected, Op, Txn, TxnOutcome};
use wire::{CompareResult, CompareTarget, Request, Response, TargetUnion};

/// Where a receipt lies and what the one for this transaction says.
#[derive(Clone, Debug)]
pub(crate) struct Receipt {
    pub(crate) key: Vec<u8>,
    /// Grows by one with each transaction of its slot, from 1.
    pub(crate) number: u64,
    /// Seconds since 1970, for the sweep of old receipts.
    pub(crate) time: u64,
}

impl Receipt {
    /// Sorts by number: the width is fixed.
    fn value(&self) -> Vec<u8> {
        format!("{:020} {}", self.number, self.time).into_bytes()
    }

    /// Greater than every receipt with an earlier number, and less than all of this and later ones.
    fn floor(&self) -> Vec<u8> {
        format!("{:020}~", self.number - 1).into_bytes()
    }

    /// Reads the time of a receipt; `None` if it is no receipt.
    pub(crate) fn time_of(value: &[u8]) -> Option<u64> {
        std::str::from_utf8(value).ok()?.split_once(' ')?.1.parse().ok()
    }
}

/// Puts a transaction into etcd's words; without a receipt it must change nothing.
pub(crate) fn request(keys: &Keys, txn: &Txn, receipt: Option<&Receipt>) -> wire::TxnRequest {
    let compare = txn.compares.iter().map(|compare| condition(keys, compare)).collect();
    let mut success: Vec<_> = txn.ops.iter().map(|op| operation(keys, op)).collect();
    let reads = txn.compares.iter().map(|compare| read(keys.data(&compare.key)));
    let failure = reads.collect();
    let Some(receipt) = receipt else {
        return wire::TxnRequest { compare, success, failure };
    };
    success.push(step(Request::Put(wire::PutRequest {
        key: receipt.key.clone(),
        value: receipt.value(),
        lease: 0,
    })));
    let inner = wire::TxnRequest { compare, success, failure };
    wire::TxnRequest {
        compare: vec![wire::Compare {
            result: CompareResult::Greater.into(),
            target: CompareTarget::Value.into(),
            key: receipt.key.clone(),
            target_union: Some(TargetUnion::Value(receipt.floor())),
        }],
        success: vec![read(receipt.key.clone())],
        failure: vec![step(Request::Txn(inner))],
    }
}

/// Reads etcd's answer to [`request`].
pub(crate) fn outcome(
    txn: &Txn,
    receipt: Option<&Receipt>,
    answer: wire::TxnResponse,
) -> Result<TxnOutcome, StoreError> {
    let Some(receipt) = receipt else { return inner_outcome(txn, answer) };
    let revision = header_revision(answer.header);
    let done_before = answer.succeeded;
    match answer.responses.into_iter().next().and_then(|step| step.response) {
        Some(Response::Range(found)) if done_before => {
            // Another value means that the slot has moved on: nobody waits for this answer.
            let ours = found.kvs.into_iter().find(|entry| entry.value == receipt.value());
            let revision = ours.map_or(revision, |entry| to_unsigned(entry.mod_revision));
            Ok(TxnOutcome::Committed { revision })
        }
        Some(Response::Txn(inner)) => {
            // A step has no revision of its own in its header, the whole has.
            inner_outcome(txn, wire::TxnResponse { header: answer.header, ..inner })
        }
        Some(Response::Range(_)) | None => Err(misshapen()),
    }
}

fn inner_outcome(txn: &Txn, answer: wire::TxnResponse) -> Result<TxnOutcome, StoreError> {
    if answer.succeeded {
        return Ok(TxnOutcome::Committed { revision: header_revision(answer.header) });
    }
    for (compare, step) in txn.compares.iter().zip(answer.responses) {
        let Some(Response::Range(found)) = step.response else { return Err(misshapen()) };
        let found = found.kvs.into_iter().next();
        let holds = match (&compare.expected, found) {
            (Expected::Absent, found) => found.is_none(),
            (Expected::ModRevision(wanted), Some(found)) => {
                to_unsigned(found.mod_revision) == *wanted
            }
            (Expected::Value(wanted), Some(found)) => found.value == *wanted,
            (Expected::ModRevision(_) | Expected::Value(_), None) => false,
        };
        if !holds {
            return Ok(TxnOutcome::Conflict { key: compare.key.clone() });
        }
    }
    Err(misshapen())
}

/// The leases that a transaction's puts name, each once.
pub(crate) fn leases(txn: &Txn) -> Vec<LeaseId> {
    let mut leases: Vec<LeaseId> = txn
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::Put { lease, .. } => *lease,
            Op::Delete { .. } | Op::DeletePrefix { .. } => None,
        })
        .collect();
    leases.sort_unstable();
    leases.dedup();
    leases
}

fn condition(keys: &Keys, compare: &crate::txn::Compare) -> wire::Compare {
    let (target, union) = match &compare.expected {
        Expected::Absent => (CompareTarget::Create, TargetUnion::CreateRevision(0)),
        // Revision 0 has written nothing; to etcd it would mean "absent".
        Expected::ModRevision(0) => (CompareTarget::Mod, TargetUnion::ModRevision(i64::MAX)),
        Expected::ModRevision(wanted) => {
            (CompareTarget::Mod, TargetUnion::ModRevision(to_signed(*wanted)))
        }
        Expected::Value(wanted) => (CompareTarget::Value, TargetUnion::Value(wanted.clone())),
    };
    wire::Compare {
        result: CompareResult::Equal.into(),
        target: target.into(),
        key: keys.data(&compare.key),
        target_union: Some(union),
    }
}

fn operation(keys: &Keys, op: &Op) -> wire::RequestOp {
    step(match op {
        Op::Put { key, value, lease } => Request::Put(wire::PutRequest {
            key: keys.data(key),
            value: value.clone(),
            lease: lease.map_or(0, |lease| to_signed(lease.0)),
        }),
        Op::Delete { key } => Request::DeleteRange(wire::DeleteRangeRequest {
            key: keys.data(key),
            range_end: Vec::new(),
        }),
        Op::DeletePrefix { prefix } => {
            let key = keys.data(prefix);
            let range_end = prefix_end(&key);
            Request::DeleteRange(wire::DeleteRangeRequest { key, range_end })
        }
    })
}

fn read(key: Vec<u8>) -> wire::RequestOp {
    step(Request::Range(wire::RangeRequest { key, ..Default::default() }))
}

fn step(request: Request) -> wire::RequestOp {
    wire::RequestOp { request: Some(request) }
}

/// The revision in an answer's header.
pub(crate) fn header_revision(header: Option<wire::Header>) -> u64 {
    to_unsigned(header.map_or(0, |header| header.revision))
}

fn misshapen() -> StoreError {
    let text = "etcd answered another question than was asked";
    StoreError::Storage { source: std::sync::Arc::new(std::io::Error::other(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(number: u64) -> Receipt {
        Receipt { key: b"r".to_vec(), number, time: 1_700_000_000 }
    }

    #[test]
    fn a_floor_lies_between_the_receipts_of_its_number_and_the_one_before() {
        for (before, number) in [(1, 2), (9, 10), (99_999, 100_000)] {
            assert!(receipt(before).value() < receipt(number).floor());
            assert!(receipt(number).floor() < receipt(number).value());
        }
        assert!(receipt(1).floor() < receipt(1).value());
        assert_eq!(Receipt::time_of(&receipt(7).value()), Some(1_700_000_000));
        assert_eq!(Receipt::time_of(b"something else"), None);
    }

    #[test]
    fn an_attempt_that_was_carried_out_is_answered_with_its_own_revision() {
        let receipt = receipt(5);
        let entry =
            wire::KeyValue { value: receipt.value(), mod_revision: 41, ..Default::default() };
        let found = wire::RangeResponse { kvs: vec![entry], ..Default::default() };
        let answer = wire::TxnResponse {
            header: Some(wire::Header { revision: 44 }),
            succeeded: true,
            responses: vec![wire::ResponseOp { response: Some(Response::Range(found)) }],
        };
        let txn = Txn::new().put("a", "1");
        let outcome = outcome(&txn, Some(&receipt), answer).unwrap();
        assert_eq!(outcome, TxnOutcome::Committed { revision: 41 });
    }

    #[test]
    fn an_answer_of_another_shape_is_an_error_and_no_panic() {
        let txn = Txn::new().when("a", Expected::Absent).put("a", "1");
        for succeeded in [false, true] {
            let answer = wire::TxnResponse { succeeded, ..Default::default() };
            assert!(outcome(&txn, Some(&receipt(1)), answer).is_err());
        }
        assert!(outcome(&txn, None, wire::TxnResponse::default()).is_err());
    }
}
