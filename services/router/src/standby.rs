//! Which of several route services is at work: the one that holds the newest term.
//!
//! The TIC gives out terms and says for how long one is held. Whoever has one renews it three times as
//! often; whoever has none asks for the next again and again, and gets it when the holder has given it
//! back or has not been heard of for too long. A holder that was only slow, or frozen, finds out when it
//! writes or renews: its term is refused everywhere, and it waits for another one like the others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_rpc::{Backoff, Reason, fact_of, reason_of};
use tonic::Status;
use tracing::{debug, info, warn};

use crate::outside::Outside;

/// Whoever waits asks at least this often, as a term may be given back.
const ASK: Duration = Duration::from_millis(200);
/// Renewals in the time of a lease.
const RENEWALS: u32 = 3;
/// Bounds on what is believed of the length of a lease.
const SHORTEST: Duration = Duration::from_millis(30);
const LONGEST: Duration = Duration::from_secs(24 * 3_600);
/// Giving a term back is for speed only, and not waited for any longer.
const GOOD_BYE: Duration = Duration::from_millis(500);

/// Who is at work, this route service or another one: shared with whoever answers questions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Arc<Mutex<v1::Leadership>>);

impl Held {
    /// The term of this route service; 0 if it has none.
    pub(crate) fn term(&self) -> u64 {
        let known = self.leadership();
        if known.leads { known.term } else { 0 }
    }

    /// Who is at work, as far as this one knows.
    pub(crate) fn leadership(&self) -> v1::Leadership {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What callers are told who want the one at work.
    pub(crate) fn refusal(&self) -> Status {
        let v1::Leadership { address, term, .. } = self.leadership();
        let text = match address.as_str() {
            "" => "this route service is not at work, and no other is known to be yet".to_owned(),
            address => format!("this route service is not at work, that at {address} is"),
        };
        let facts = [("leader", address.as_str()), ("term", &term.to_string())];
        Reason::NotLeader.status(text, &facts)
    }

    fn set(&self, leads: bool, address: String, term: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = v1::Leadership { leads, address, term };
    }
}

/// One route service on its way to a term, and with it.
#[derive(Clone, Debug)]
pub(crate) struct Standby<O> {
    pub(crate) outside: O,
    /// Its name, for logs and for those that wait.
    pub(crate) name: String,
    /// Where its callers reach it, for those that wait.
    pub(crate) address: String,
    pub(crate) held: Held,
}

impl<O: Outside> Standby<O> {
    /// Asks for a term until the TIC gives one; answers it, and for how long it is held.
    pub(crate) async fn acquire(&self) -> (u64, Duration) {
        let (mut backoff, mut waits) = (Backoff::default(), false);
        loop {
            let (router, address) = (self.name.clone(), self.address.clone());
            let request = v1::AcquireRouteTermRequest { router, take_over: false, address };
            let pause = match self.outside.acquire_term(request).await {
                Ok(v1::AcquireRouteTermResponse { term, lease }) => {
                    info!(epoch = term, "term acquired");
                    self.held.set(true, self.address.clone(), term);
                    return (term, length(lease));
                }
                Err(status)
                    if reason_of(&status).as_deref() == Some(Reason::RouteTermHeld.text()) =>
                {
                    if !std::mem::replace(&mut waits, true) {
                        info!(reason = status.message(), "waiting for the next term");
                    }
                    self.follow(&status);
                    backoff = Backoff::default();
                    let left = fact_of(&status, "milliseconds");
                    let left = left.and_then(|left| left.parse().ok()).unwrap_or(u64::MAX);
                    Duration::from_millis(left).clamp(Duration::from_millis(5), ASK)
                }
                Err(status) => {
                    warn!(peer = self.outside.tic(), error = %status.message(), "no term yet");
                    self.outside.pause(&mut backoff)
                }
            };
            self.sleep(pause).await;
        }
    }

    /// Renews a term for as long as it is the newest.
    pub(crate) async fn hold(&self, term: u64, mut lease: Duration) {
        loop {
            self.sleep(lease / RENEWALS).await;
            let (router, address) = (self.name.clone(), self.address.clone());
            let request = v1::RenewRouteTermRequest { router, term, address };
            match self.outside.renew_term(request).await {
                Ok(answer) => lease = length(answer.lease),
                Err(status) if reason_of(&status).as_deref() == Some(Reason::StaleTerm.text()) => {
                    return;
                }
                // Without the TIC nobody else gets a term either.
                Err(status) => debug!(error = %status.message(), "term not renewed"),
            }
        }
    }

    /// Notes who is at work, out of a refusal of the TIC.
    fn follow(&self, refusal: &Status) {
        let term = fact_of(refusal, "term").and_then(|term| term.parse().ok());
        let address = fact_of(refusal, "leader").unwrap_or_default();
        self.held.set(false, address, term.unwrap_or(0));
    }

    /// Is without a term from now on.
    pub(crate) fn step_back(&self) {
        self.held.set(false, String::new(), 0);
    }

    /// Gives the term back, if there is one, so that the next one need not wait.
    pub(crate) async fn release(&self) {
        let term = self.held.term();
        self.step_back();
        if term == 0 {
            return;
        }
        tokio::select! {
            biased;
            Ok(()) = self.outside.release_term(term) => {}
            () = self.sleep(GOOD_BYE) => debug!(epoch = term, "term not given back"),
        }
    }

    async fn sleep(&self, span: Duration) {
        self.outside.sleep_until(self.outside.now().after(span)).await;
    }
}

/// How long a term is held; what cannot be read, or is no time to hold anything, is as short as is
/// sensible. Read field by field: the library's own conversion must not be given just any number.
fn length(lease: Option<prost_types::Duration>) -> Duration {
    let prost_types::Duration { seconds, nanos } = lease.unwrap_or_default();
    let whole = u64::try_from(seconds).map(Duration::from_secs);
    let rest = u64::try_from(nanos).map(Duration::from_nanos);
    let length = whole.ok().zip(rest.ok()).and_then(|(whole, rest)| whole.checked_add(rest));
    length.unwrap_or_default().clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lease_that_a_tic_may_send_is_a_panic() {
        let read = |seconds, nanos| length(Some(prost_types::Duration { seconds, nanos }));
        assert_eq!(read(2, 500_000_000), Duration::from_millis(2_500));
        for (seconds, nanos) in [(i64::MIN, i32::MIN), (i64::MIN, 0), (-1, 5), (0, -1), (0, 0)] {
            assert_eq!(read(seconds, nanos), SHORTEST, "{seconds} s {nanos} ns");
        }
        assert_eq!(read(i64::MAX, i32::MAX), LONGEST);
        assert_eq!(length(None), SHORTEST);
    }
}
