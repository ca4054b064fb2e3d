//! Calls to whichever of several parts is at work: the TICs of a cluster, its route services.
//!
//! A [`Leader`] knows the addresses of all and believes one of them to lead. Calls go there. Who is
//! refused with `NOT_LEADER`, finds nobody, or waits longer than is usual, asks all of them who leads
//! (`GetServerInfo` of the administration service) and sends its call again, to the new one if there
//! is one. Who is asked to come again later does. A frozen leader answers nothing, and the others soon name its successor: then calls that
//! wait for it are given up and sent to that one.
//!
//! So every call made through here must be safe to repeat, which all of Fabricast's are, and must
//! have said everything before it is answered: its messages are gathered first. With one address
//! nobody is asked, and a call that fails has failed; but who is refused there by one that names the
//! leader goes to that one, and comes back if it is not there any more.

mod answers;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Error;
use tower::{Service, ServiceExt};

use crate::client::{Backoff, Peer, PeerError};
use crate::security::Security;
use crate::status::fact_of;

use answers::{asked_to_wait, best, elsewhere, who_leads};

/// A call that has had no answer for this long makes one ask who leads.
const SUSPICION: Duration = Duration::from_millis(400);
/// Whoever does not say by then who leads is not waited for.
const ANSWER: Duration = Duration::from_millis(400);
/// What was found out is good for this long, so that many waiting calls ask once.
const FRESH: Duration = Duration::from_millis(100);
/// Hints that a call follows where only one address was given: leaders change, and then once more.
const HINTS: u32 = 3;
/// A call is not sent again after this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Addresses that are remembered beside those given.
const MAX_PEERS: usize = 64;

/// Several parts of which one is at work; cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Leader(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    addresses: Vec<String>,
    security: Security,
    peers: Mutex<BTreeMap<String, Peer>>,
    believed: watch::Sender<Belief>,
    /// When it was last asked who leads; held while somebody asks.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

/// Who is taken for the leader, and since which change.
#[derive(Clone, Debug)]
struct Belief {
    term: u64,
    peer: Peer,
}

/// How one attempt at a call ended.
enum Attempt {
    Answered(http::Response<Body>),
    Failed(Error),
    /// Somebody else leads by now.
    Left,
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

    pub(crate) fn secured(addresses: &[String], security: Security) -> Result<Self, PeerError> {
        let mut peers = BTreeMap::new();
        for address in addresses {
            peers.insert(address.clone(), security.peer(address)?);
        }
        let first = match addresses.first() {
            Some(first) => peers[first].clone(),
            None => security.peer("")?,
        };
        let (believed, _) = watch::channel(Belief { term: 0, peer: first });
        let (peers, asked) = (Mutex::new(peers), tokio::sync::Mutex::default());
        let addresses = addresses.to_vec();
        Ok(Self(Arc::new(Shared { addresses, security, peers, believed, asked })))
    }

    /// The channel for generated clients.
    #[must_use]
    pub fn channel(&self) -> LeaderChannel {
        LeaderChannel { leader: self.clone() }
    }

    /// The address of the one that is believed to lead, for logs.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.believed.borrow().peer.address().to_owned()
    }

    /// All addresses that were given.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.0.addresses
    }

    /// Waits until another one than `address` is believed to lead, asking around meanwhile.
    ///
    /// For whoever reads a stream: one from a leader that is frozen does not end by itself.
    pub async fn left(&self, address: &str) {
        if self.0.addresses.len() == 1 {
            return std::future::pending().await;
        }
        tokio::select! {
            () = self.is_not(address) => {}
            () = self.suspect() => {}
        }
    }

    async fn is_not(&self, address: &str) {
        let mut belief = self.0.believed.subscribe();
        let ended = belief.wait_for(|belief| belief.peer.address() != address).await.is_err();
        if ended {
            std::future::pending().await // the sender lives as long as this
        }
    }

    /// Asks again and again; never ends.
    async fn suspect(&self) {
        loop {
            sleep(SUSPICION).await;
            self.look().await;
        }
    }

    fn peer(&self, address: &str) -> Option<Peer> {
        let mut peers = self.0.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = peers.get(address) {
            return Some(peer.clone());
        }
        let peer = self.0.security.peer(address).ok()?;
        if peers.len() < self.0.addresses.len() + MAX_PEERS {
            peers.insert(address.to_owned(), peer.clone());
        }
        Some(peer)
    }

    /// Takes over what somebody said about who leads.
    ///
    /// - `over`: believe it even if it is older than what was believed.
    fn believe(&self, term: u64, address: &str, over: bool) {
        let Some(peer) = self.peer(address) else { return };
        let changed = self.0.believed.send_if_modified(|belief| {
            if term < belief.term && !over {
                return false;
            }
            let other = belief.peer.address() != address;
            *belief = Belief { term, peer: peer.clone() };
            other
        });
        if changed {
            tracing::info!(peer = address, epoch = term, "leader found");
        }
    }

    /// Asks everybody who leads, unless that was done a moment ago.
    async fn look(&self) {
        let mut asked = self.0.asked.lock().await;
        if asked.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        let believed = self.0.believed.borrow().clone();
        let mut addresses = self.0.addresses.clone();
        if !addresses.iter().any(|address| address == believed.peer.address()) {
            addresses.push(believed.peer.address().to_owned());
        }
        let mut asking = JoinSet::new();
        for peer in addresses.iter().filter_map(|address| self.peer(address)) {
            asking.spawn(async move {
                let said = timeout(ANSWER, who_leads(&peer)).await.ok().flatten();
                (peer.address().to_owned(), said)
            });
        }
        let answers = asking.join_all().await;
        let silent = answers
            .iter()
            .any(|(address, said)| address == believed.peer.address() && said.is_none());
        if let Some((term, address, leads)) = best(answers, &self.0.addresses) {
            self.believe(term, &address, silent && leads);
        }
        *asked = Some(Instant::now());
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
            let ended = self.call_now(&request, started).await;
            let Some(wait) = ended.as_ref().ok().and_then(asked_to_wait) else { return ended };
            if started.elapsed() + wait >= PATIENCE {
                return ended;
            }
            sleep(wait).await;
        }
    }

    /// Makes a call, whatever its server says of coming again later.
    async fn call_now(
        &self,
        request: &impl Fn() -> http::Request<Body>,
        started: Instant,
    ) -> Result<http::Response<Body>, Error> {
        if let [only] = self.0.addresses.as_slice() {
            return self.call_from(only, request).await;
        }
        let mut backoff = Backoff::default();
        loop {
            let belief = self.0.believed.borrow().clone();
            let ended = match self.attempt(&belief, request()).await {
                Attempt::Left => continue,
                Attempt::Answered(response) => {
                    let Some(status) = elsewhere(&response) else { return Ok(response) };
                    self.take_hint(&status);
                    Ok(response)
                }
                Attempt::Failed(error) => Err(error),
            };
            if started.elapsed() >= PATIENCE {
                return ended;
            }
            let stays = || self.0.believed.borrow().peer.address() == belief.peer.address();
            if stays() {
                self.look().await;
            }
            if stays() {
                sleep(backoff.next_delay()).await;
            }
        }
    }

    /// Calls the only address that was given, or whom it names as the leader.
    async fn call_from(
        &self,
        only: &str,
        request: impl Fn() -> http::Request<Body>,
    ) -> Result<http::Response<Body>, Error> {
        let (mut hints, mut refused) = (0, None);
        loop {
            let believed = self.0.believed.borrow().peer.clone();
            let ended = believed.channel().oneshot(request()).await;
            let refusal = ended.as_ref().ok().and_then(elsewhere);
            if ended.is_ok() && refusal.is_none() {
                return ended;
            }
            if hints == HINTS {
                // Where the only one pointed to cannot be reached from here: what it said tells more.
                return ended.or_else(|error| refused.ok_or(error));
            }
            hints += 1;
            refusal.iter().for_each(|status| self.take_hint(status));
            if self.0.believed.borrow().peer.address() == believed.address() {
                if believed.address() == only {
                    return ended;
                }
                self.believe(0, only, true);
            }
            refused = ended.ok().or(refused);
        }
    }

    async fn attempt(&self, belief: &Belief, request: http::Request<Body>) -> Attempt {
        tokio::select! {
            biased;
            answer = belief.peer.channel().oneshot(request) => match answer {
                Ok(response) => Attempt::Answered(response),
                Err(error) => Attempt::Failed(error),
            },
            () = self.left(belief.peer.address()) => Attempt::Left,
        }
    }

    fn take_hint(&self, status: &Status) {
        let address = fact_of(status, "leader").filter(|address| !address.is_empty());
        let term = fact_of(status, "term").and_then(|term| term.parse().ok());
        // As in `best`; who knows all addresses asks all, and goes to the one that says itself that it leads.
        let ours =
            |address: &String| self.0.addresses.len() == 1 || self.0.addresses.contains(address);
        if let (Some(address), Some(term)) = (address.filter(ours), term) {
            self.believe(term, &address, false);
        }
    }
}

/// A channel to whoever leads.
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
    async fn older_news_is_believed_only_over_a_leader_that_is_silent() {
        let leader = Leader::new(&["a:1".to_owned(), "b:1".to_owned()]).unwrap();
        leader.believe(5, "b:1", false);
        assert_eq!(leader.address(), "b:1");
        leader.believe(4, "a:1", false);
        assert_eq!(leader.address(), "b:1");
        leader.believe(4, "a:1", true);
        assert_eq!(leader.address(), "a:1");
        leader.believe(6, "c:1", false);
        assert_eq!(leader.address(), "c:1", "a hint may name one that was not given");
        leader.left("a:1").await;
    }

    #[tokio::test]
    async fn no_address_is_an_error() {
        assert!(Leader::new(&[]).is_err());
        assert!(Leader::new(&["a b".to_owned()]).is_err());
    }
}
