//! Terms of route services, and their leases.
//!
//! The number of the newest term is durable and protects against an older route service: the TIC
//! and the switch agents refuse it. The lease only decides when another route service may ask for
//! the next term, so it is kept in memory, and a new leader grants the holder a full lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;

/// The newest term that is durable; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrantedTerm(Arc<AtomicU64>);

impl GrantedTerm {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Terms as the writer has them, ahead of the store by the batch it is deciding.
#[derive(Debug)]
pub(crate) struct RouteTerms {
    newest: u64,
    /// Number of the newest report that was taken in it.
    reported: u64,
    durable: GrantedTerm,
    lease: Duration,
    holder: Option<Holder>,
    /// The holder before the batch; `None` if that has not changed.
    before: Option<Option<Holder>>,
}

#[derive(Clone, Debug)]
struct Holder {
    router: Router,
    until: Instant,
}

/// A route service by its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Router {
    pub(crate) name: String,
    /// Address where its callers reach it; empty if unknown.
    pub(crate) address: String,
}

/// Number of a report of a route service; numbers grow within a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportNumber {
    pub(crate) term: u64,
    pub(crate) number: u64,
}

/// Reason why a route service is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum RouteTermError {
    /// Another route service holds the term.
    #[error(
        "term {term} is held by {}, for {} ms unless renewed",
        .holder.name,
        .left.as_millis()
    )]
    Held { term: u64, holder: Router, left: Duration },
    /// A newer term was given out.
    #[error("term {term} is not the newest, {newest}")]
    Stale { term: u64, newest: u64 },
    /// The report was given up by its sender: a newer one was taken.
    #[error("report {number} of term {term} comes after report {newest}")]
    StaleReport { term: u64, number: u64, newest: u64 },
}

impl RouteTerms {
    /// - `durable`: newest term in the store; 0 if none was given.
    pub(crate) fn new(durable: u64, lease: Duration) -> Self {
        let mut terms = Self {
            newest: 0,
            reported: 0,
            durable: GrantedTerm::default(),
            lease,
            holder: None,
            before: None,
        };
        terms.start_over(durable);
        terms
    }

    /// Starts again from what the store holds.
    pub(crate) fn start_over(&mut self, durable: u64) {
        let until = Instant::now() + self.lease;
        let router = Router { name: "a route service".to_owned(), address: String::new() };
        self.holder = (durable > 0).then_some(Holder { router, until });
        (self.newest, self.before) = (durable, None);
        self.durable.0.store(durable, Ordering::Release);
        self.reported = 0;
    }

    /// The newest term that the store has.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.get()
    }

    /// The newest term that the store has, to be read by others.
    pub(crate) fn granted(&self) -> GrantedTerm {
        self.durable.clone()
    }

    /// Time for which a term is held unless renewed.
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// Gives out the next term, if nobody holds the newest or `take_over` is set.
    pub(crate) fn acquire(
        &mut self,
        router: &Router,
        take_over: bool,
    ) -> Result<u64, RouteTermError> {
        let now = Instant::now();
        if let Some(holder) = self.holder.as_ref().filter(|one| now < one.until && !take_over) {
            let left = holder.until.saturating_duration_since(now);
            let holder = holder.router.clone();
            return Err(RouteTermError::Held { term: self.newest, holder, left });
        }
        self.newest += 1;
        self.reported = 0;
        self.before.get_or_insert(self.holder.take());
        self.holder = Some(Holder { router: router.clone(), until: now + self.lease });
        Ok(self.newest)
    }

    /// Checks that a term is the newest.
    pub(crate) fn check(&self, term: u64) -> Result<(), RouteTermError> {
        let newest = self.newest;
        if term == newest { Ok(()) } else { Err(RouteTermError::Stale { term, newest }) }
    }

    /// Checks that a report is of the newest term and does not come after a newer one: its sender
    /// has given it up and sent another since.
    pub(crate) fn check_report(&mut self, report: ReportNumber) -> Result<(), RouteTermError> {
        let ReportNumber { term, number } = report;
        self.check(term)?;
        if number < self.reported {
            return Err(RouteTermError::StaleReport { term, number, newest: self.reported });
        }
        self.reported = number;
        Ok(())
    }

    /// Extends the newest term by another lease.
    pub(crate) fn renew(&mut self, router: &Router, term: u64) -> Result<(), RouteTermError> {
        self.check(term)?;
        let until = Instant::now() + self.lease;
        self.holder = Some(Holder { router: router.clone(), until });
        Ok(())
    }

    /// Gives up a term; an older one is given up already.
    pub(crate) fn release(&mut self, term: u64) {
        if term == self.newest {
            self.holder = None;
        }
    }

    /// Notes that the batch is durable.
    pub(crate) fn committed(&mut self) {
        self.durable.0.store(self.newest, Ordering::Release);
        self.before = None;
    }

    /// Undoes the batch, which was not written.
    pub(crate) fn roll_back(&mut self) {
        self.newest = self.durable();
        if let Some(before) = self.before.take() {
            self.holder = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(2);

    fn router(name: &str) -> Router {
        Router { name: name.to_owned(), address: format!("{name}:7402") }
    }

    fn is_held(asked: Result<u64, RouteTermError>) -> bool {
        matches!(asked, Err(RouteTermError::Held { .. }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_is_held_while_it_is_renewed() {
        let mut terms = RouteTerms::new(0, LEASE);
        assert_eq!(terms.acquire(&router("one"), false).unwrap(), 1);
        for _ in 0..3 {
            tokio::time::advance(LEASE / 2).await;
            terms.renew(&router("one"), 1).unwrap();
            assert!(is_held(terms.acquire(&router("two"), false)));
        }
        tokio::time::advance(LEASE).await;
        assert_eq!(terms.acquire(&router("two"), false).unwrap(), 2);
        let stale = RouteTermError::Stale { term: 1, newest: 2 };
        assert_eq!(terms.renew(&router("one"), 1), Err(stale));
        terms.release(1);
        assert!(is_held(terms.acquire(&router("one"), false)), "it gave up an older term");
        terms.release(2);
        assert_eq!(terms.acquire(&router("one"), false).unwrap(), 3);
        assert_eq!(terms.acquire(&router("two"), true).unwrap(), 4, "taken over");
    }

    /// Found by the simulation: a report that had been given up took the place of the one after it.
    #[tokio::test(start_paused = true)]
    async fn a_report_that_arrives_after_a_newer_one_is_refused() {
        let mut terms = RouteTerms::new(0, LEASE);
        let term = terms.acquire(&router("one"), false).unwrap();
        for (number, is_taken) in [(1, true), (3, true), (2, false), (3, true)] {
            assert_eq!(
                terms.check_report(ReportNumber { term, number }).is_ok(),
                is_taken,
                "{number}"
            );
        }
        let next = terms.acquire(&router("two"), true).unwrap();
        assert!(terms.check_report(ReportNumber { term, number: 4 }).is_err());
        terms.check_report(ReportNumber { term: next, number: 1 }).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_leader_grants_the_holder_a_full_lease() {
        let mut terms = RouteTerms::new(7, LEASE);
        assert!(is_held(terms.acquire(&router("two"), false)));
        terms.renew(&router("one"), 7).unwrap();
        tokio::time::advance(LEASE).await;
        assert_eq!(terms.acquire(&router("two"), false).unwrap(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_that_was_not_stored_is_given_out_again() {
        let mut terms = RouteTerms::new(0, LEASE);
        terms.acquire(&router("one"), false).unwrap();
        terms.committed();
        terms.acquire(&router("two"), true).unwrap();
        terms.roll_back();
        terms.renew(&router("one"), 1).unwrap();
        tokio::time::advance(LEASE).await;
        assert_eq!(terms.acquire(&router("two"), false).unwrap(), 2);
    }
}
