//! Which route service is at work: terms, and for how long one is held.
//!
//! The number of the newest term is durable, and it is what keeps an older route service from doing
//! harm: the TIC and the switch agents refuse it. The lease only says when another one may ask for the
//! next term; so it is kept in memory, and whoever starts or takes office gives the holder a full one.

use std::time::Duration;

use fabricast_rpc::Reason;
use tokio::time::Instant;
use tonic::Status;

use crate::fields;

/// Terms as the writer has them, ahead of the store by the batch it is deciding.
#[derive(Debug)]
pub(crate) struct RouteTerms {
    newest: u64,
    /// The newest report in it that was taken.
    reported: u64,
    durable: u64,
    lease: Duration,
    holder: Option<Holder>,
    /// Who held it before the batch; `None` if that has not changed.
    before: Option<Option<Holder>>,
}

#[derive(Clone, Debug)]
struct Holder {
    router: Router,
    until: Instant,
}

/// A route service, as it names itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Router {
    pub(crate) name: String,
    /// Where its callers reach it; empty if it has not said.
    pub(crate) address: String,
}

impl Router {
    /// Reads what a route service says of itself.
    pub(crate) fn read(name: &str, address: String) -> Result<Self, Status> {
        let name = fields::label("router", name)?.to_owned();
        if !address.is_empty() {
            fields::address("address", &address)?;
        }
        Ok(Self { name, address })
    }
}

impl RouteTerms {
    /// - `durable`: the newest term in the store.
    pub(crate) fn new(durable: u64, lease: Duration) -> Self {
        let mut terms =
            Self { newest: 0, reported: 0, durable: 0, lease, holder: None, before: None };
        terms.start_over(durable);
        terms
    }

    /// Starts again from what the store holds.
    pub(crate) fn start_over(&mut self, durable: u64) {
        let until = Instant::now() + self.lease;
        let router = Router { name: "a route service".to_owned(), address: String::new() };
        self.holder = (durable > 0).then_some(Holder { router, until });
        (self.newest, self.durable, self.before) = (durable, durable, None);
        self.reported = 0;
    }

    /// The newest term that the store has.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// How long a term is held without being renewed.
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// Gives out the next term, if nobody holds the newest or it is to be taken.
    pub(crate) fn acquire(&mut self, router: &Router, take_over: bool) -> Result<u64, Status> {
        let now = Instant::now();
        if let Some(holder) = self.holder.as_ref().filter(|one| now < one.until && !take_over) {
            let left = holder.until.saturating_duration_since(now).as_millis().to_string();
            let Router { name: by, address } = &holder.router;
            let term = self.newest.to_string();
            let facts = [
                ("term", term.as_str()),
                ("router", by),
                ("leader", address),
                ("milliseconds", &left),
            ];
            let message = format!("term {term} is held by {by}, for {left} ms unless renewed");
            return Err(Reason::RouteTermHeld.status(message, &facts));
        }
        self.newest += 1;
        self.reported = 0;
        self.before.get_or_insert(self.holder.take());
        self.holder = Some(Holder { router: router.clone(), until: now + self.lease });
        Ok(self.newest)
    }

    /// Checks that a term is the newest.
    pub(crate) fn check(&self, term: u64) -> Result<(), Status> {
        if term == self.newest {
            return Ok(());
        }
        let newest = self.newest;
        let message = format!("term {term} is not the newest, {newest}");
        Err(Reason::StaleTerm.status(message, &[("term", &newest.to_string())]))
    }

    /// Checks that a report is of the newest term and does not come after a newer one: its sender has given it
    /// up and said something else since.
    pub(crate) fn check_report(&mut self, (term, number): (u64, u64)) -> Result<(), Status> {
        self.check(term)?;
        if number < self.reported {
            let newest = self.reported;
            let message = format!("report {number} of term {term} comes after report {newest}");
            return Err(Reason::StaleTerm.status(message, &[("term", &term.to_string())]));
        }
        self.reported = number;
        Ok(())
    }

    /// Holds the newest term for another lease.
    pub(crate) fn renew(&mut self, router: &Router, term: u64) -> Result<(), Status> {
        self.check(term)?;
        let until = Instant::now() + self.lease;
        self.holder = Some(Holder { router: router.clone(), until });
        Ok(())
    }

    /// Lets go of a term; an older one is let go already.
    pub(crate) fn release(&mut self, term: u64) {
        if term == self.newest {
            self.holder = None;
        }
    }

    /// The batch is durable.
    pub(crate) fn committed(&mut self) {
        (self.durable, self.before) = (self.newest, None);
    }

    /// The batch was not written.
    pub(crate) fn roll_back(&mut self) {
        self.newest = self.durable;
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

    fn refused(asked: Result<u64, Status>) -> String {
        fabricast_rpc::reason_of(&asked.unwrap_err()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_is_held_while_it_is_renewed_and_then_goes_to_the_next() {
        let mut terms = RouteTerms::new(0, LEASE);
        assert_eq!(terms.acquire(&router("one"), false).unwrap(), 1);
        for _ in 0..3 {
            tokio::time::advance(LEASE / 2).await;
            terms.renew(&router("one"), 1).unwrap();
            assert_eq!(refused(terms.acquire(&router("two"), false)), "ROUTE_TERM_HELD");
        }
        tokio::time::advance(LEASE).await;
        assert_eq!(terms.acquire(&router("two"), false).unwrap(), 2);
        assert_eq!(terms.renew(&router("one"), 1).unwrap_err().code(), tonic::Code::Aborted);
        terms.release(1);
        assert_eq!(
            refused(terms.acquire(&router("one"), false)),
            "ROUTE_TERM_HELD",
            "it let go of the old"
        );
        terms.release(2);
        assert_eq!(terms.acquire(&router("one"), false).unwrap(), 3);
        assert_eq!(terms.acquire(&router("two"), true).unwrap(), 4, "taken over");
    }

    /// Found by the simulation: a report that had been given up took the place of the one after it.
    #[tokio::test(start_paused = true)]
    async fn a_report_that_comes_after_a_newer_one_is_refused() {
        let mut terms = RouteTerms::new(0, LEASE);
        let term = terms.acquire(&router("one"), false).unwrap();
        for (number, is_taken) in [(1, true), (3, true), (2, false), (3, true)] {
            assert_eq!(terms.check_report((term, number)).is_ok(), is_taken, "{number}");
        }
        let next = terms.acquire(&router("two"), true).unwrap();
        assert!(terms.check_report((term, 4)).is_err());
        terms.check_report((next, 1)).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_change_of_the_tic_the_holder_has_a_full_lease_to_be_heard_of() {
        let mut terms = RouteTerms::new(7, LEASE);
        assert_eq!(refused(terms.acquire(&router("two"), false)), "ROUTE_TERM_HELD");
        terms.renew(&router("one"), 7).unwrap();
        tokio::time::advance(LEASE).await;
        assert_eq!(terms.acquire(&router("two"), false).unwrap(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_that_was_not_stored_was_not_given() {
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
