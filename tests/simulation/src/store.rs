//! The store that the TICs share: records, and who may write them.
//!
//! It models an etcd cluster seen from outside: whatever it did is durable. It can be slow, fail,
//! and fail after it has carried out a request.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_groups::record::Change;

use crate::invariants::g1::Ranks;
use crate::message::{StoreReply, StoreRequest};

/// Duration of the leadership after it was last granted.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) records: BTreeMap<String, Vec<u8>>,
    pub(crate) ranks: Ranks,
    pub(crate) delay: Duration,
    /// Number of the next writes that fail, and whether they are done nevertheless.
    pub(crate) failing: (u32, bool),
    term: u64,
    holder: Option<(usize, Moment)>,
}

impl Store {
    pub(crate) fn handle(&mut self, now: Moment, tic: usize, request: StoreRequest) -> StoreReply {
        match request {
            StoreRequest::Lead { sent, term } => self.lead(now, tic, sent, term),
            StoreRequest::Write { term, number, .. } if term != self.term => {
                StoreReply::Failed { number }
            }
            StoreRequest::Write { number, changes, .. } => {
                let (left, done) = &mut self.failing;
                let fails = *left > 0;
                *left = left.saturating_sub(1);
                if !fails || *done {
                    self.write(&changes);
                }
                if fails { StoreReply::Failed { number } } else { StoreReply::Written { number } }
            }
        }
    }

    fn lead(&mut self, now: Moment, tic: usize, sent: Moment, term: Option<u64>) -> StoreReply {
        let holder = self.holder.filter(|(_, until)| now < *until).map(|(holder, _)| holder);
        match (holder, term) {
            (Some(holder), Some(term)) if holder == tic && term == self.term => {
                self.holder = Some((tic, now.after(LEASE)));
                StoreReply::Led { sent, term, records: None }
            }
            (None, None) => {
                self.term += 1;
                self.holder = Some((tic, now.after(LEASE)));
                StoreReply::Led { sent, term: self.term, records: Some(self.records.clone()) }
            }
            (Some(_), _) | (None, Some(_)) => StoreReply::NotYours { term },
        }
    }

    fn write(&mut self, changes: &[Change]) {
        for change in changes {
            let key = change.store_key();
            self.ranks.written(change, self.records.contains_key(&key));
            match change.encode() {
                Some(value) => drop(self.records.insert(key, value)),
                None => drop(self.records.remove(&key)),
            }
        }
    }
}
