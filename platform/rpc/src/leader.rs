//! Calls to the leader among several parts: the TICs of a cluster, or its route services.
//!
//! A [`Leader`] knows the addresses of all of them and sends calls to the one it takes for the
//! leader. If that one refuses with `NOT_LEADER`, cannot be reached, or does not answer in the
//! usual time, all of them are asked who leads (`GetServerInfo` of the administration service), and
//! the call is sent again, to the new leader if there is one. A call whose refusal asks for a delay
//! is sent again after it. A frozen leader answers nothing, and the others soon name its successor:
//! the calls that wait for it are then abandoned and sent to the successor.
//!
//! So every call made through a [`Leader`] must be safe to repeat, as all of Fabricast's are, and
//! its messages are collected before it is sent. With a single address no one else is asked, and a
//! failed call is not repeated; but if that part refuses and names the leader, the call goes to the
//! leader, and later ones return to the given address if the leader has moved.

mod leadership;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Error;
use tower::{Service, ServiceExt};

use crate::client::{Backoff, Peer, PeerError};
use crate::security::Security;
use fabricast_status::fact_of;

use leadership::{ask_leadership, best, not_leading, requested_delay};

/// Time without an answer after which a call makes the parts be asked who leads.
const SLOW_ANSWER: Duration = Duration::from_millis(400);
/// Timeout of the question who leads.
const LEADERSHIP_TIMEOUT: Duration = Duration::from_millis(400);
/// Time for which the answers are not asked for again, so that many waiting calls ask once.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);
/// Redirections that a call follows if only one address was given.
const MAX_REDIRECTS: u32 = 3;
/// Time after which a call is not sent again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);
/// Channels kept for addresses that were not given but named by parts.
const MAX_PEERS: usize = 64;

/// Several parts of which one leads; cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Leader(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    addresses: Vec<String>,
    security: Security,
    peers: Mutex<BTreeMap<String, Peer>>,
    known: watch::Sender<KnownLeader>,
    /// Time of the last refresh; locked during a refresh.
    refreshed: tokio::sync::Mutex<Option<Instant>>,
}

/// The part taken for the leader, and its term as far as known.
#[derive(Clone, Debug)]
struct KnownLeader {
    term: u64,
    peer: Peer,
}

/// Result of one attempt at a call.
enum Attempt {
    Answered(http::Response<Body>),
    Failed(Error),
    /// Another part was found to lead meanwhile.
    LeaderChanged,
}

impl Security {
    /// Prepares calls to one of several parts; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`PeerError`] if there is none, or one cannot be parsed.
    pub fn leader(&self, addresses: &[impl AsRef<str>]) -> Result<Leader, PeerError> {
        Leader::secured(addresses, self.clone())
    }
}

impl Leader {
    /// Prepares calls in plain text to one of several parts; nothing is sent yet.
    ///
    /// - `addresses`: `host:port` of each, at least one.
    ///
    /// # Errors
    ///
    /// [`PeerError`] if there is none, or one cannot be parsed.
    pub fn new(addresses: &[String]) -> Result<Self, PeerError> {
        Self::secured(addresses, Security::plaintext())
    }

    pub(crate) fn secured(
        addresses: &[impl AsRef<str>],
        security: Security,
    ) -> Result<Self, PeerError> {
        let mut peers = BTreeMap::new();
        for address in addresses {
            peers.insert(address.as_ref().to_owned(), security.peer(address.as_ref())?);
        }
        let first = match addresses.first() {
            Some(first) => peers[first.as_ref()].clone(),
            None => security.peer("")?,
        };
        let (known, _) = watch::channel(KnownLeader { term: 0, peer: first });
        let (peers, refreshed) = (Mutex::new(peers), tokio::sync::Mutex::default());
        let addresses = addresses.iter().map(|address| address.as_ref().to_owned()).collect();
        Ok(Self(Arc::new(Shared { addresses, security, peers, known, refreshed })))
    }

    /// The channel for generated clients.
    #[must_use]
    pub fn channel(&self) -> LeaderChannel {
        LeaderChannel { leader: self.clone() }
    }

    /// The address of the presumed leader, for logs.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.known.borrow().peer.address().to_owned()
    }

    /// All addresses that were given.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.0.addresses
    }

    /// Waits until a part other than `address` is found to lead.
    ///
    /// For readers of streams: a stream from a frozen leader does not end by itself.
    pub async fn left(&self, address: &str) {
        if self.0.addresses.len() == 1 {
            return std::future::pending().await;
        }
        tokio::select! {
            () = self.is_not(address) => {}
            () = self.refresh_forever() => {}
        }
    }

    async fn is_not(&self, address: &str) {
        let mut known = self.0.known.subscribe();
        let ended = known.wait_for(|known| known.peer.address() != address).await.is_err();
        if ended {
            std::future::pending().await // unreachable: `self` has the sender
        }
    }

    async fn refresh_forever(&self) {
        loop {
            sleep(SLOW_ANSWER).await;
            self.refresh().await;
        }
    }

    fn peer(&self, address: &str) -> Option<Peer> {
        let mut peers = self.0.peers.lock();
        if let Some(peer) = peers.get(address) {
            return Some(peer.clone());
        }
        let peer = self.0.security.peer(address).ok()?;
        if peers.len() < self.0.addresses.len() + MAX_PEERS {
            peers.insert(address.to_owned(), peer.clone());
        }
        Some(peer)
    }

    /// Takes a part for the leader.
    ///
    /// - `even_if_older`: also if a leader of a later term is known.
    fn set_leader(&self, term: u64, address: &str, even_if_older: bool) {
        let Some(peer) = self.peer(address) else { return };
        let changed = self.0.known.send_if_modified(|known| {
            if term < known.term && !even_if_older {
                return false;
            }
            let other = known.peer.address() != address;
            *known = KnownLeader { term, peer: peer.clone() };
            other
        });
        if changed {
            tracing::info!(peer = address, term, "leader found");
        }
    }

    /// Asks all parts who leads, unless that was done a moment ago.
    async fn refresh(&self) {
        let mut refreshed = self.0.refreshed.lock().await;
        if refreshed.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL) {
            return;
        }
        let known = self.0.known.borrow().clone();
        let mut addresses = self.0.addresses.clone();
        if !addresses.iter().any(|address| address == known.peer.address()) {
            addresses.push(known.peer.address().to_owned());
        }
        let mut asking = JoinSet::new();
        for peer in addresses.iter().filter_map(|address| self.peer(address)) {
            asking.spawn(async move {
                let leadership =
                    timeout(LEADERSHIP_TIMEOUT, ask_leadership(&peer)).await.ok().flatten();
                (peer.address().to_owned(), leadership)
            });
        }
        let answers = asking.join_all().await;
        let is_silent = answers
            .iter()
            .any(|(address, leadership)| address == known.peer.address() && leadership.is_none());
        if let Some((term, address, leads)) = best(answers, &self.0.addresses) {
            self.set_leader(term, &address, is_silent && leads);
        }
        *refreshed = Some(Instant::now());
    }

    async fn call(self, request: http::Request<Body>) -> Result<http::Response<Body>, Error> {
        let (parts, body) = request.into_parts();
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(status) => return Ok(status.into_http()),
        };
        let request = || {
            let body = Body::new(Full::new(body.clone()));
            http::Request::from_parts(parts.clone(), body)
        };
        let started = Instant::now();
        loop {
            let ended = self.call_once(&request, started).await;
            let Some(wait) = ended.as_ref().ok().and_then(requested_delay) else { return ended };
            if started.elapsed() + wait >= RETRY_TIMEOUT {
                return ended;
            }
            sleep(wait).await;
        }
    }

    /// Makes a call, without regard to delays that a refusal asks for.
    async fn call_once(
        &self,
        request: &impl Fn() -> http::Request<Body>,
        started: Instant,
    ) -> Result<http::Response<Body>, Error> {
        if let [only] = self.0.addresses.as_slice() {
            return self.call_from(only, request).await;
        }
        let mut backoff = Backoff::default();
        loop {
            let known = self.0.known.borrow().clone();
            let ended = match self.attempt(&known, request()).await {
                Attempt::LeaderChanged => continue,
                Attempt::Answered(response) => {
                    let Some(status) = not_leading(&response) else { return Ok(response) };
                    self.follow_hint(&status);
                    Ok(response)
                }
                Attempt::Failed(error) => Err(error),
            };
            if started.elapsed() >= RETRY_TIMEOUT {
                return ended;
            }
            let stays = || self.0.known.borrow().peer.address() == known.peer.address();
            if stays() {
                self.refresh().await;
            }
            if stays() {
                sleep(backoff.next_delay()).await;
            }
        }
    }

    /// Calls the only address that was given, or the leader that it names.
    async fn call_from(
        &self,
        only: &str,
        request: impl Fn() -> http::Request<Body>,
    ) -> Result<http::Response<Body>, Error> {
        let (mut redirects, mut refused) = (0, None);
        loop {
            let peer = self.0.known.borrow().peer.clone();
            let ended = peer.channel().oneshot(request()).await;
            let refusal = ended.as_ref().ok().and_then(not_leading);
            if ended.is_ok() && refusal.is_none() {
                return ended;
            }
            if redirects == MAX_REDIRECTS {
                // If the named leader cannot be reached from here, the refusal says more.
                return ended.or_else(|error| refused.ok_or(error));
            }
            redirects += 1;
            refusal.iter().for_each(|status| self.follow_hint(status));
            if self.0.known.borrow().peer.address() == peer.address() {
                if peer.address() == only {
                    return ended;
                }
                self.set_leader(0, only, true);
            }
            refused = ended.ok().or(refused);
        }
    }

    async fn attempt(&self, known: &KnownLeader, request: http::Request<Body>) -> Attempt {
        tokio::select! {
            biased;
            answer = known.peer.channel().oneshot(request) => match answer {
                Ok(response) => Attempt::Answered(response),
                Err(error) => Attempt::Failed(error),
            },
            () = self.left(known.peer.address()) => Attempt::LeaderChanged,
        }
    }

    fn follow_hint(&self, status: &Status) {
        let address = fact_of(status, "leader").filter(|address| !address.is_empty());
        let term = fact_of(status, "term").and_then(|term| term.parse().ok());
        // An address that was not given may not be reachable from here, as in `best`.
        let ours =
            |address: &String| self.0.addresses.len() == 1 || self.0.addresses.contains(address);
        if let (Some(address), Some(term)) = (address.filter(ours), term) {
            self.set_leader(term, &address, false);
        }
    }
}

/// A channel to the leader.
#[derive(Clone, Debug)]
pub struct LeaderChannel {
    leader: Leader,
}

impl Service<http::Request<Body>> for LeaderChannel {
    type Response = http::Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.leader.clone().call(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_older_term_replaces_a_newer_one_only_if_its_leader_is_silent() {
        let leader = Leader::new(&["a:1".to_owned(), "b:1".to_owned()]).unwrap();
        leader.set_leader(5, "b:1", false);
        assert_eq!(leader.address(), "b:1");
        leader.set_leader(4, "a:1", false);
        assert_eq!(leader.address(), "b:1");
        leader.set_leader(4, "a:1", true);
        assert_eq!(leader.address(), "a:1");
        leader.set_leader(6, "c:1", false);
        assert_eq!(leader.address(), "c:1", "a hint may name an address that was not given");
        leader.left("a:1").await;
    }

    #[tokio::test]
    async fn no_address_is_an_error() {
        assert!(Leader::new(&[]).is_err());
        assert!(Leader::new(&["a b".to_owned()]).is_err());
    }
}
