//! The client side: lazy channels with deadlines, and the delays between attempts.
//!
//! A channel reconnects by itself but without any delay, so the back-off is here. Callers decide
//! themselves when to give up; every mutation of Fabricast is safe to repeat.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use thiserror::Error;
use tonic::Status;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::channel::Channel;
use crate::outgoing_connection;
use crate::security::Security;
use fabricast_status::RpcError;
use fabricast_status::retry_after;

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Every unary call and the start of every stream has this deadline.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// Longest delay that a server can ask for; a longer one is cut to this.
pub(crate) const MOST_ASKED: Duration = Duration::from_secs(5);

/// Reason why a peer's address cannot be used.
#[derive(Debug, Error)]
pub enum PeerError {
    /// It cannot be parsed.
    #[error("'{address}' is not an address of the form host:port")]
    Address {
        /// The address as given.
        address: String,
        /// The parser's reason.
        #[source]
        source: tonic::transport::Error,
    },
    /// It is on another machine, and plain text was not allowed.
    #[error("'{address}' is on another machine, and the connection would not be encrypted")]
    Plaintext {
        /// The address as given.
        address: String,
    },
}

/// Another part: its address, and a channel that connects when used.
#[derive(Clone, Debug)]
pub struct Peer {
    address: Arc<str>,
    channel: Channel,
}

impl Security {
    /// Prepares a channel to `host:port`; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`PeerError`] if the address cannot be parsed.
    pub fn peer(&self, address: &str) -> Result<Peer, PeerError> {
        Peer::secured(address, self.clone())
    }
}

impl Peer {
    /// Prepares a channel in plain text to `host:port`; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`PeerError`] if the address cannot be parsed.
    pub fn new(address: &str) -> Result<Self, PeerError> {
        Self::secured(address, Security::plaintext())
    }

    pub(crate) fn secured(address: &str, security: Security) -> Result<Self, PeerError> {
        if security.is_local() && !is_of_this_machine(address) {
            return Err(PeerError::Plaintext { address: address.to_owned() });
        }
        Self::with_deadline(address, CALL_DEADLINE, security)
    }

    fn with_deadline(
        address: &str,
        deadline: Duration,
        security: Security,
    ) -> Result<Self, PeerError> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|source| PeerError::Address { address: address.to_owned(), source })?
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(deadline)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true);
        let shared: Arc<str> = address.into();
        let channel = match (security.is_mutual(), security.network()) {
            (false, None) => Channel::new(endpoint.connect_lazy(), Arc::clone(&shared)),
            (false, Some(network)) => {
                let connect = move |uri: http::Uri| {
                    let address = uri.authority().map(ToString::to_string).unwrap_or_default();
                    let connecting = network.connect(address);
                    async move { connecting.await.map(TokioIo::new) }
                };
                let connector = tower::service_fn(connect);
                let channel = endpoint.connect_with_connector_lazy(connector);
                Channel::new(channel, Arc::clone(&shared))
            }
            (true, _) => Channel::by_role(
                Box::new(move |role, is_connected| {
                    let security = security.clone();
                    let connect = move |uri: http::Uri| {
                        let is_connected = Arc::clone(&is_connected);
                        let connecting = outgoing_connection::connect(uri, security.clone(), role);
                        async move {
                            let connected = connecting.await;
                            is_connected.store(connected.is_ok(), Ordering::Relaxed);
                            connected
                        }
                    };
                    endpoint.connect_with_connector_lazy(tower::service_fn(connect))
                }),
                Arc::clone(&shared),
            ),
        };
        Ok(Self { channel, address: shared })
    }

    /// Returns whether calls of both go over the same connection.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.address, &other.address)
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

    /// Asks whether a service is served there, such as `fabricast.v1.TicService`; the empty name
    /// asks for the server as a whole.
    ///
    /// # Errors
    ///
    /// That of the call; `NOT_FOUND` if there is no such service.
    pub async fn is_serving(&self, service: &str) -> Result<bool, Status> {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = HealthClient::new(self.channel()).check(request).await?;
        Ok(answer.into_inner().status() == ServingStatus::Serving)
    }
}

/// True if `host:port` is `localhost` or a loopback address. Names are not resolved.
#[must_use]
pub fn is_of_this_machine(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Delays between attempts: doubling from `first` to `most`, each with up to half of jitter.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Delay before the second attempt.
    pub first: Duration,
    /// No delay is longer.
    pub most: Duration,
}

impl Default for Backoff {
    /// From 20 ms to 400 ms, to notice within half a second that a part is back.
    fn default() -> Self {
        Self { first: Duration::from_millis(20), most: Duration::from_millis(400) }
    }
}

impl Backoff {
    /// The delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.first;
        self.first = (self.first * 2).min(self.most);
        let jitter = RandomState::new().hash_one(delay) % 512;
        delay / 2 + delay.mul_f64(jitter_share(jitter))
    }

    /// The delay before the next attempt after a failed one: no shorter than the server asks for,
    /// but at most a few seconds.
    pub fn delay_after(&mut self, status: &Status) -> Duration {
        let asked = retry_after(status).unwrap_or_default();
        self.next_delay().max(asked.min(MOST_ASKED))
    }

    /// The same after a call of this process.
    pub fn delay_after_error(&mut self, error: &RpcError) -> Duration {
        let asked = error.retry_after().unwrap_or_default();
        self.next_delay().max(asked.min(MOST_ASKED))
    }
}

/// Maps 0..512 to 0.0..0.5.
fn jitter_share(jitter: u64) -> f64 {
    f64::from(u32::try_from(jitter).unwrap_or(0)) / 1024.0
}

/// Returns an id that no other request of this or another process has.
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
    use crate::Reason;
    use tonic::Code;

    #[test]
    fn delays_double_up_to_the_most() {
        let mut backoff =
            Backoff { first: Duration::from_millis(10), most: Duration::from_millis(30) };
        for full in [10, 20, 30, 30] {
            let (delay, full) = (backoff.next_delay(), Duration::from_millis(full));
            assert!(delay >= full / 2 && delay <= full, "{delay:?} of {full:?}");
        }
    }

    #[test]
    fn a_server_that_says_when_to_come_again_is_heard() {
        let mut backoff = Backoff::default();
        let asked = |delay| Reason::RateLimited.status_after("busy", delay);
        let wait = Duration::from_secs(2);
        assert_eq!(backoff.delay_after(&asked(wait)), wait);
        assert_eq!(backoff.delay_after(&asked(Duration::MAX / 4)), MOST_ASKED);
        assert!(backoff.delay_after(&Status::unavailable("gone")) <= backoff.most);
    }

    #[tokio::test]
    async fn plain_text_leaves_this_machine_only_where_that_was_asked_for() {
        let local = Security::local();
        for near in ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.9.9.9:1"] {
            assert!(local.peer(near).is_ok(), "{near}");
        }
        for far in ["10.0.0.1:1", "tic-0:7401", "[2001:db8::1]:1", "localhost.example:1"] {
            let refused = local.peer(far).unwrap_err();
            assert!(matches!(refused, PeerError::Plaintext { .. }), "{far}: {refused}");
            assert!(Security::plaintext().peer(far).is_ok(), "{far}");
        }
        assert!(local.leader(&["127.0.0.1:1".to_owned(), "tic-1:1".to_owned()]).is_err());
    }

    #[test]
    fn request_ids_differ() {
        assert_ne!(request_id(), request_id());
    }

    #[tokio::test]
    async fn a_call_that_is_not_answered_ends_at_its_deadline() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let peer = Peer::with_deadline(&address, Duration::from_millis(20), Security::plaintext())
            .unwrap();
        let mut client = HealthClient::new(peer.channel());
        let ended = client.check(HealthCheckRequest::default()).await;
        let status = ended.unwrap_err();
        // The status that tonic makes of its own timer.
        assert_eq!((status.code(), status.message()), (Code::Cancelled, "Timeout expired"));
    }
}
