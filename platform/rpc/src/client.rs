//! The client side: lazy channels with deadlines, and retries that cannot become a storm.
//!
//! A channel reconnects by itself but without any delay, so the back-off lives here. Retries are
//! for calls that are safe to repeat; every mutation of Fabricast is (request ids).

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use thiserror::Error;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A connection attempt is given up after this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Every unary call and the start of every stream has this deadline.
const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// Retries that may be spent ahead of successes; each success gives a fifth of one back.
const RETRY_BUDGET: u32 = 50 * RETRY_PRICE;
const RETRY_PRICE: u32 = 5;

/// Why a peer's address cannot be used.
#[derive(Debug, Error)]
#[error("'{address}' is not an address of the form host:port")]
pub struct PeerError {
    /// The address as given.
    pub address: String,
    /// The parser's reason.
    #[source]
    pub source: tonic::transport::Error,
}

/// Another part: its address, a channel that connects when used, and a budget for retries.
#[derive(Clone, Debug)]
pub struct Peer {
    address: Arc<str>,
    channel: Channel,
    budget: Arc<AtomicU32>,
}

impl Peer {
    /// Prepares a channel to `host:port`; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`PeerError`] if the address cannot be parsed.
    pub fn new(address: &str) -> Result<Self, PeerError> {
        Self::with_deadline(address, CALL_DEADLINE)
    }

    fn with_deadline(address: &str, deadline: Duration) -> Result<Self, PeerError> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|source| PeerError { address: address.to_owned(), source })?
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(deadline)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true);
        Ok(Self {
            address: address.into(),
            channel: endpoint.connect_lazy(),
            budget: Arc::new(AtomicU32::new(RETRY_BUDGET)),
        })
    }

    /// The address, for logs.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The channel, for generated clients.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Calls until it works, the error is final, the attempts are used up or the budget is empty.
    ///
    /// - `call`: makes one attempt on the channel; must be safe to repeat.
    ///
    /// # Errors
    ///
    /// The status of the last attempt.
    pub async fn retry<T, F, A>(&self, mut backoff: Backoff, mut call: F) -> Result<T, Status>
    where
        F: FnMut(Channel) -> A,
        A: Future<Output = Result<T, Status>>,
    {
        loop {
            let status = match call(self.channel.clone()).await {
                Ok(answer) => {
                    self.earn();
                    return Ok(answer);
                }
                Err(status) => status,
            };
            let again = matches!(status.code(), Code::Unavailable | Code::ResourceExhausted);
            match backoff.next_delay() {
                Some(delay) if again && self.spend() => tokio::time::sleep(delay).await,
                _ => return Err(status),
            }
        }
    }

    fn earn(&self) {
        // Racing updates may lose a grain of budget; that only makes retries rarer.
        let budget = self.budget.load(Ordering::Relaxed);
        if budget < RETRY_BUDGET {
            self.budget.store(budget + 1, Ordering::Relaxed);
        }
    }

    fn spend(&self) -> bool {
        let take = |budget: u32| budget.checked_sub(RETRY_PRICE);
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Delays between attempts: doubling from `first` to `most`, each with up to half of jitter.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Delay before the second attempt.
    pub first: Duration,
    /// No delay is longer.
    pub most: Duration,
    /// Attempts after the first one.
    pub retries: u32,
}

impl Default for Backoff {
    /// Rides over the restart of a part: about two seconds in all.
    fn default() -> Self {
        Self { first: Duration::from_millis(20), most: Duration::from_millis(400), retries: 9 }
    }
}

impl Backoff {
    /// For loops that never give up: the caller ignores the end of the delays.
    #[must_use]
    pub fn endless() -> Self {
        Self { retries: u32::MAX, ..Self::default() }
    }

    /// The next delay; `None` when the attempts are used up.
    pub fn next_delay(&mut self) -> Option<Duration> {
        self.retries = self.retries.checked_sub(1)?;
        let delay = self.first;
        self.first = (self.first * 2).min(self.most);
        let jitter = RandomState::new().hash_one(self.retries) % 512;
        Some(delay / 2 + delay.mul_f64(jitter_share(jitter)))
    }
}

/// Maps 0..512 to 0.0..0.5.
fn jitter_share(jitter: u64) -> f64 {
    f64::from(u32::try_from(jitter).unwrap_or(0)) / 1024.0
}

/// Makes up an id that no other request of this or another process has.
#[must_use]
pub fn request_id() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    // RandomState is seeded by the operating system for each thread and stepped for each use.
    format!("{:016x}-{number:x}", RandomState::new().hash_one((std::process::id(), number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_most_and_end() {
        let mut backoff = Backoff {
            first: Duration::from_millis(10),
            most: Duration::from_millis(30),
            retries: 3,
        };
        let delays: Vec<_> = std::iter::from_fn(|| backoff.next_delay()).collect();
        assert_eq!(delays.len(), 3);
        for (delay, full) in delays.iter().zip([10, 20, 30]) {
            let full = Duration::from_millis(full);
            assert!(*delay >= full / 2 && *delay <= full, "{delay:?} of {full:?}");
        }
    }

    #[test]
    fn request_ids_differ() {
        assert_ne!(request_id(), request_id());
    }

    #[tokio::test]
    async fn a_dead_peer_is_not_asked_more_often_than_the_budget_allows() {
        let peer = Peer::new("127.0.0.1:1").unwrap();
        let attempts = AtomicU32::new(0);
        let none = Duration::ZERO;
        for _ in 0..100 {
            let backoff = Backoff { first: none, most: none, retries: 9 };
            let refused: Result<(), _> = peer
                .retry(backoff, |_channel| {
                    attempts.fetch_add(1, Ordering::Relaxed);
                    async { Err(Status::unavailable("down")) }
                })
                .await;
            assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
        }
        assert_eq!(attempts.load(Ordering::Relaxed), 100 + RETRY_BUDGET / RETRY_PRICE);
    }

    #[tokio::test]
    async fn a_call_that_is_not_answered_ends_at_its_deadline() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let peer = Peer::with_deadline(&address, Duration::from_millis(20)).unwrap();
        let mut client = tonic_health::pb::health_client::HealthClient::new(peer.channel());
        let ended = client.check(tonic_health::pb::HealthCheckRequest::default()).await;
        let status = ended.unwrap_err();
        // What tonic makes of its own timer.
        assert_eq!((status.code(), status.message()), (Code::Cancelled, "Timeout expired"));
    }

    #[tokio::test]
    async fn a_final_error_is_not_retried() {
        let peer = Peer::new("127.0.0.1:1").unwrap();
        let mut attempts = 0;
        let refused: Result<(), _> = peer
            .retry(Backoff::default(), |_channel| {
                attempts += 1;
                async { Err(Status::not_found("no")) }
            })
            .await;
        assert_eq!((refused.unwrap_err().code(), attempts), (Code::NotFound, 1));
    }
}
