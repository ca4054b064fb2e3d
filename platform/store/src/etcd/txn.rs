//! Transactions for etcd, each with a receipt so that it is carried out once.
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
//!
//! etcd looks for writes in the outer transaction only when it has no space left (`--quota-backend-
//! bytes`), so one that needs space also writes a constant there.

use std::sync::Arc;

use etcd_client::proto::{PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Compare, CompareOp, DeleteOptions, PutOptions, TxnOp};

use crate::error::StoreError;
use crate::etcd::keys::{Keys, to_signed, to_unsigned};
use crate::lease::LeaseId;
use crate::txn::{Expected, Op, Txn, TxnOutcome};

/// Key and content of the receipt for one transaction.
#[derive(Clone, Debug)]
pub(crate) struct Receipt {
    pub(crate) key: Vec<u8>,
    /// Grows by one with each transaction of its slot, from 1.
    pub(crate) number: u64,
    /// Seconds since 1970, for the sweep of old receipts.
    pub(crate) time: u64,
}

impl Receipt {
    /// Values sort by number, as its width is fixed.
    pub(crate) fn value(&self) -> Vec<u8> {
        format!("{:020} {}", self.number, self.time).into_bytes()
    }

    /// Greater than every receipt with an earlier number, and less than all of this and later ones.
    fn floor(&self) -> Vec<u8> {
        format!("{:020}~", self.number - 1).into_bytes()
    }

    /// Parses the time of a receipt; `None` if the value is no receipt.
    pub(crate) fn time_of(value: &[u8]) -> Option<u64> {
        std::str::from_utf8(value).ok()?.split_once(' ')?.1.parse().ok()
    }
}

/// Translates a transaction for etcd; without a receipt it must change nothing.
pub(crate) fn request(keys: &Keys, txn: &Txn, receipt: Option<&Receipt>) -> etcd_client::Txn {
    let compares: Vec<_> = txn.compares.iter().map(|compare| condition(keys, compare)).collect();
    let mut operations: Vec<_> = txn.ops.iter().map(|op| operation(keys, op)).collect();
    let reads: Vec<_> =
        txn.compares.iter().map(|compare| TxnOp::get(keys.data(&compare.key), None)).collect();
    let Some(receipt) = receipt else {
        return etcd_client::Txn::new().when(compares).and_then(operations).or_else(reads);
    };
    operations.push(TxnOp::put(receipt.key.clone(), receipt.value(), None));
    let inner = etcd_client::Txn::new().when(compares).and_then(operations).or_else(reads);
    let mut steps = vec![TxnOp::txn(inner)];
    if txn.needs_space() {
        steps.push(TxnOp::put(keys.needs_space(), "", None));
    }
    etcd_client::Txn::new()
        .when([Compare::value(receipt.key.clone(), CompareOp::Greater, receipt.floor())])
        .and_then([TxnOp::get(receipt.key.clone(), None)])
        .or_else(steps)
}

/// Interprets etcd's answer to [`request`].
pub(crate) fn outcome(
    txn: &Txn,
    receipt: Option<&Receipt>,
    answer: PbTxnResponse,
) -> Result<TxnOutcome, StoreError> {
    let revision = to_unsigned(answer.header.as_ref().map_or(0, |header| header.revision));
    let Some(receipt) = receipt else { return inner_outcome(txn, revision, answer) };
    let done_before = answer.succeeded;
    match answer.responses.into_iter().next().and_then(|step| step.response) {
        Some(PbTxnOpResponse::ResponseRange(found)) if done_before => {
            // With another value the slot is used for a later transaction; this answer is not
            // awaited.
            let ours = found.kvs.into_iter().find(|entry| entry.value == receipt.value());
            let revision = ours.map_or(revision, |entry| to_unsigned(entry.mod_revision));
            Ok(TxnOutcome::Committed { revision })
        }
        Some(PbTxnOpResponse::ResponseTxn(inner)) => inner_outcome(txn, revision, inner),
        _ => Err(malformed()),
    }
}

/// - `revision`: of the whole answer, because a step's header has none.
fn inner_outcome(
    txn: &Txn,
    revision: u64,
    answer: PbTxnResponse,
) -> Result<TxnOutcome, StoreError> {
    if answer.succeeded {
        return Ok(TxnOutcome::Committed { revision });
    }
    for (compare, step) in txn.compares.iter().zip(answer.responses) {
        let Some(PbTxnOpResponse::ResponseRange(found)) = step.response else {
            return Err(malformed());
        };
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
    Err(malformed())
}

/// Returns the leases that the puts of a transaction name, each once.
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

fn condition(keys: &Keys, compare: &crate::txn::Compare) -> Compare {
    let key = keys.data(&compare.key);
    match &compare.expected {
        Expected::Absent => Compare::create_revision(key, CompareOp::Equal, 0),
        // Revision 0 has written nothing; to etcd it would mean "absent".
        Expected::ModRevision(0) => Compare::mod_revision(key, CompareOp::Equal, i64::MAX),
        Expected::ModRevision(wanted) => {
            Compare::mod_revision(key, CompareOp::Equal, to_signed(*wanted))
        }
        Expected::Value(wanted) => Compare::value(key, CompareOp::Equal, wanted.clone()),
    }
}

fn operation(keys: &Keys, op: &Op) -> TxnOp {
    match op {
        Op::Put { key, value, lease } => {
            let lease = lease.map(|lease| PutOptions::new().with_lease(to_signed(lease.0)));
            TxnOp::put(keys.data(key), value.clone(), lease)
        }
        Op::Delete { key } => TxnOp::delete(keys.data(key), None),
        Op::DeletePrefix { prefix } => {
            TxnOp::delete(keys.data(prefix), Some(DeleteOptions::new().with_prefix()))
        }
    }
}

fn malformed() -> StoreError {
    let text = "etcd's answer does not fit the transaction";
    StoreError::Storage { source: Arc::new(std::io::Error::other(text)) }
}

#[cfg(test)]
mod tests {
    use etcd_client::proto::{PbKeyValue, PbRangeResponse, PbResponseHeader, PbResponseOp};

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
    fn a_repeated_transaction_is_answered_with_the_revision_of_the_first() {
        let receipt = receipt(5);
        let entry = PbKeyValue { value: receipt.value(), mod_revision: 41, ..Default::default() };
        let found = PbRangeResponse { kvs: vec![entry], ..Default::default() };
        let answer = PbTxnResponse {
            header: Some(PbResponseHeader { revision: 44, ..Default::default() }),
            succeeded: true,
            responses: vec![PbResponseOp { response: Some(PbTxnOpResponse::ResponseRange(found)) }],
        };
        let txn = Txn::new().put("a", "1");
        let outcome = outcome(&txn, Some(&receipt), answer).unwrap();
        assert_eq!(outcome, TxnOutcome::Committed { revision: 41 });
    }

    #[test]
    fn a_malformed_answer_is_an_error_and_no_panic() {
        let txn = Txn::new().when("a", Expected::Absent).put("a", "1");
        for succeeded in [false, true] {
            let answer = PbTxnResponse { succeeded, ..Default::default() };
            assert!(outcome(&txn, Some(&receipt(1)), answer).is_err());
        }
        assert!(outcome(&txn, None, PbTxnResponse::default()).is_err());
    }
}
