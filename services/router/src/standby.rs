//! Leader election of route services: the one that holds the newest term is active.
//!
//! The TIC grants terms, each with a lease. The holder renews it three times per lease. A route
//! service without a term asks for the next one again and again; it gets it once the holder has
//! released its term or has not renewed it in time. A holder that was slow or frozen notices when
//! it writes or renews: its term is refused everywhere, and it waits for a new one.

use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_rpc::{Backoff, Reason, RpcError};
use parking_lot::Mutex;
use tracing::{debug, info, warn};

use crate::environment::Environment;

/// Longest time between two requests for a term; the holder may release it before its lease ends.
const MAX_RETRY: Duration = Duration::from_millis(200);
/// Renewals per lease.
const RENEWALS_PER_LEASE: u32 = 3;
/// Bounds of a lease; a TIC may send any length.
const MIN_LEASE: Duration = Duration::from_millis(30);
const MAX_LEASE: Duration = Duration::from_secs(24 * 3_600);
/// Longest wait for the answer to a release. A release only saves the next holder time.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// The active route service, as far as this one knows; clones share it with the API.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActiveRouter(Arc<Mutex<v1::Leadership>>);

impl ActiveRouter {
    /// Term of this route service; 0 if it has none.
    pub(crate) fn own_term(&self) -> u64 {
        let known = self.leadership();
        if known.leads { known.term } else { 0 }
    }

    pub(crate) fn leadership(&self) -> v1::Leadership {
        self.0.lock().clone()
    }

    fn set(&self, leads: bool, address: String, term: u64) {
        *self.0.lock() = v1::Leadership { leads, address, term };
    }
}

/// The election, as one route service sees it.
#[derive(Clone, Debug)]
pub(crate) struct Standby<O> {
    pub(crate) environment: O,
    /// Name of this route service, for logs here and at others.
    pub(crate) name: String,
    /// Address for its clients, given to route services that wait.
    pub(crate) address: String,
    pub(crate) active: ActiveRouter,
}

impl<O: Environment> Standby<O> {
    /// Asks for a term until the TIC grants one; returns the term and its lease.
    pub(crate) async fn acquire(&self) -> (u64, Duration) {
        let (mut backoff, mut waits) = (Backoff::default(), false);
        loop {
            let (router, address) = (self.name.clone(), self.address.clone());
            let request = v1::AcquireRouteTermRequest { router, take_over: false, address };
            let pause = match self.environment.acquire_term(request).await {
                Ok(v1::AcquireRouteTermResponse { term, lease }) => {
                    info!(term, "term acquired");
                    self.active.set(true, self.address.clone(), term);
                    return (term, lease_length(lease));
                }
                Err(error) if error.reason() == Some(Reason::RouteTermHeld) => {
                    if !std::mem::replace(&mut waits, true) {
                        info!(reason = error.message(), "waiting for the next term");
                    }
                    self.note_holder(&error);
                    backoff = Backoff::default();
                    let left = error.fact("milliseconds");
                    let left = left.and_then(|left| left.parse().ok()).unwrap_or(u64::MAX);
                    Duration::from_millis(left).clamp(Duration::from_millis(5), MAX_RETRY)
                }
                Err(error) => {
                    warn!(peer = self.environment.tic(), error = %error.message(), "no term yet");
                    self.environment.pause(&mut backoff)
                }
            };
            self.sleep(pause).await;
        }
    }

    /// Renews a term; returns once the TIC says that there is a newer one.
    pub(crate) async fn renew_until_refused(&self, term: u64, mut lease: Duration) {
        loop {
            self.sleep(lease / RENEWALS_PER_LEASE).await;
            let (router, address) = (self.name.clone(), self.address.clone());
            let request = v1::RenewRouteTermRequest { router, term, address };
            match self.environment.renew_term(request).await {
                Ok(answer) => lease = lease_length(answer.lease),
                Err(error) if error.reason() == Some(Reason::StaleTerm) => return,
                // While the TIC is away nobody else gets a term either.
                Err(error) => debug!(term, error = %error.message(), "term not renewed"),
            }
        }
    }

    /// Notes the holder that a refusal of the TIC names.
    fn note_holder(&self, refusal: &RpcError) {
        let term = refusal.fact("term").and_then(|term| term.parse().ok());
        let address = refusal.fact("leader").unwrap_or_default();
        self.active.set(false, address, term.unwrap_or(0));
    }

    /// Notes that this route service has no term any more, and that nobody is known to have one.
    pub(crate) fn step_down(&self) {
        self.active.set(false, String::new(), 0);
    }

    /// Releases the term, if there is one.
    pub(crate) async fn release(&self) {
        let term = self.active.own_term();
        self.step_down();
        if term == 0 {
            return;
        }
        tokio::select! {
            biased;
            Ok(()) = self.environment.release_term(term) => {}
            () = self.sleep(RELEASE_TIMEOUT) => debug!(term, "term not released"),
        }
    }

    async fn sleep(&self, time: Duration) {
        self.environment.sleep_until(self.environment.now().after(time)).await;
    }
}

/// Length of a lease, within [`MIN_LEASE`] and [`MAX_LEASE`]. Read field by field, because the
/// conversion of prost-types panics on some numbers.
fn lease_length(lease: Option<prost_types::Duration>) -> Duration {
    let prost_types::Duration { seconds, nanos } = lease.unwrap_or_default();
    let seconds = u64::try_from(seconds).map(Duration::from_secs);
    let nanos = u64::try_from(nanos).map(Duration::from_nanos);
    let length =
        seconds.ok().zip(nanos.ok()).and_then(|(seconds, nanos)| seconds.checked_add(nanos));
    length.unwrap_or_default().clamp(MIN_LEASE, MAX_LEASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lease_that_a_tic_may_send_is_read_without_a_panic() {
        let read = |seconds, nanos| lease_length(Some(prost_types::Duration { seconds, nanos }));
        assert_eq!(read(2, 500_000_000), Duration::from_millis(2_500));
        for (seconds, nanos) in [(i64::MIN, i32::MIN), (i64::MIN, 0), (-1, 5), (0, -1), (0, 0)] {
            assert_eq!(read(seconds, nanos), MIN_LEASE, "{seconds} s {nanos} ns");
        }
        assert_eq!(read(i64::MAX, i32::MAX), MAX_LEASE);
        assert_eq!(lease_length(None), MIN_LEASE);
    }
}
