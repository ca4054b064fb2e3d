//! Which of several route services is at work: the one that holds the newest term.
//!
//! The TIC gives out terms and says for how long one is held. Whoever has one renews it three times as
//! often; whoever has none asks for the next again and again, and gets it when the holder has given it
//! back or has not been heard of for too long. A holder that was only slow, or frozen, finds out when it
//! writes or renews: its term is refused everywhere, and it waits for another one like the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Backoff, Leader, Reason, fact_of, reason_of};
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// Whoever waits asks at least this often, as a term may be given back.
const ASK: Duration = Duration::from_millis(200);
/// Renewals in the time of a lease.
const RENEWALS: u32 = 3;
/// Giving a term back is for speed only, and not waited for any longer.
const GOOD_BYE: Duration = Duration::from_millis(500);

/// The term that this route service has, 0 if none: shared with whoever answers questions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Arc<AtomicU64>);

impl Held {
    /// The term; 0 if there is none.
    pub(crate) fn term(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn set(&self, term: u64) {
        self.0.store(term, Ordering::SeqCst);
    }

    /// Who is at work, as far as this one knows.
    pub(crate) fn leadership(&self) -> v1::Leadership {
        let term = self.term();
        v1::Leadership { leads: term > 0, address: String::new(), term }
    }
}

/// One route service on its way to a term, and with it.
#[derive(Clone, Debug)]
pub(crate) struct Standby {
    pub(crate) tic: Leader,
    /// Its name, for logs and for those that wait.
    pub(crate) name: String,
    pub(crate) held: Held,
}

impl Standby {
    /// Asks for a term until the TIC gives one; answers it, and for how long it is held.
    pub(crate) async fn acquire(&self) -> (u64, Duration) {
        let (mut backoff, mut waits) = (Backoff::default(), false);
        loop {
            let request =
                v1::AcquireRouteTermRequest { router: self.name.clone(), take_over: false };
            let pause =
                match TicServiceClient::new(self.tic.channel()).acquire_route_term(request).await {
                    Ok(answer) => {
                        let v1::AcquireRouteTermResponse { term, lease } = answer.into_inner();
                        info!(epoch = term, "term acquired");
                        self.held.set(term);
                        return (term, length(lease));
                    }
                    Err(status)
                        if reason_of(&status).as_deref() == Some(Reason::RouteTermHeld.text()) =>
                    {
                        if !std::mem::replace(&mut waits, true) {
                            info!(reason = status.message(), "waiting for the next term");
                        }
                        backoff = Backoff::default();
                        let left = fact_of(&status, "milliseconds");
                        let left = left.and_then(|left| left.parse().ok()).unwrap_or(u64::MAX);
                        Duration::from_millis(left).clamp(Duration::from_millis(5), ASK)
                    }
                    Err(status) => {
                        warn!(peer = self.tic.address(), error = %status.message(), "no term yet");
                        backoff.next_delay()
                    }
                };
            sleep(pause).await;
        }
    }

    /// Renews a term for as long as it is the newest.
    pub(crate) async fn hold(&self, term: u64, mut lease: Duration) {
        loop {
            sleep(lease / RENEWALS).await;
            let request = v1::RenewRouteTermRequest { router: self.name.clone(), term };
            match TicServiceClient::new(self.tic.channel()).renew_route_term(request).await {
                Ok(answer) => lease = length(answer.into_inner().lease),
                Err(status) if reason_of(&status).as_deref() == Some(Reason::StaleTerm.text()) => {
                    return;
                }
                // Without the TIC nobody else gets a term either.
                Err(status) => debug!(error = %status.message(), "term not renewed"),
            }
        }
    }

    /// Is without a term from now on.
    pub(crate) fn step_back(&self) {
        self.held.set(0);
    }

    /// Gives the term back, if there is one, so that the next one need not wait.
    pub(crate) async fn release(&self) {
        let term = self.held.term();
        self.held.set(0);
        if term == 0 {
            return;
        }
        let mut client = TicServiceClient::new(self.tic.channel());
        let released = client.release_route_term(v1::ReleaseRouteTermRequest { term });
        if !matches!(tokio::time::timeout(GOOD_BYE, released).await, Ok(Ok(_))) {
            debug!(epoch = term, "term not given back");
        }
    }
}

/// How long a term is held; what cannot be read is as short as is sensible.
fn length(lease: Option<prost_types::Duration>) -> Duration {
    let length = lease.and_then(|lease| Duration::try_from(lease).ok()).unwrap_or_default();
    length.max(Duration::from_millis(30))
}
