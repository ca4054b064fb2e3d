//! Calls to etcd's members, and when they are repeated.
//!
//! All calls go to one member until it fails; then the next one is asked. A failure that leaves
//! open what became of the call is repeated only because every call made here is safe to repeat:
//! reads are, and each write says with the answer whether it is the first of its kind (see the
//! transactions' receipts and the leases' numbers).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fabricast_rpc::OutsideServers;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::Stream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::error::StoreError;

/// A member that accepts no connection in this time is taken as dead.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection on which nothing comes back for twice this long is closed, so that streams over a
/// frozen member end too.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Pause between two attempts at first, doubled up to the most.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MOST_PAUSE: Duration = Duration::from_millis(200);
/// Most bytes of one answer; pages and events stay far below.
const MESSAGE_LIMIT: usize = 256 << 20;

/// The members of one etcd.
#[derive(Debug)]
pub(crate) struct Client {
    members: Vec<Channel>,
    /// How to connect with certificates; `None` for plain text.
    servers: Option<OutsideServers>,
    current: AtomicUsize,
    /// A call that had no answer for this long is given up.
    patience: Duration,
}

/// Why a call has no answer, or etcd's refusal.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    /// Whether the call may have been carried out all the same.
    pub(crate) unclear: bool,
}

impl Client {
    /// Prepares connections; nothing is sent yet.
    ///
    /// - `endpoints`: `host:port` of each member.
    pub(crate) fn new(
        endpoints: &[String],
        servers: Option<OutsideServers>,
        patience: Duration,
    ) -> Result<Self, tonic::transport::Error> {
        let connect = |address: &String| -> Result<Channel, tonic::transport::Error> {
            let endpoint = Endpoint::from_shared(format!("http://{address}"))?
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE)
                .keep_alive_while_idle(true);
            Ok(match servers.clone() {
                None => endpoint.connect_lazy(),
                Some(servers) => endpoint.connect_with_connector_lazy(tower::service_fn(
                    move |uri: http::Uri| servers.clone().connect(uri),
                )),
            })
        };
        let members = endpoints.iter().map(connect).collect::<Result<_, _>>()?;
        Ok(Self { members, servers, current: AtomicUsize::new(0), patience })
    }

    /// Makes a call, as often as it takes.
    ///
    /// - `first`: how long the first attempt may take; each further one may take twice as long.
    pub(crate) async fn call<Q, A>(
        &self,
        path: &'static str,
        request: &Q,
        first: Duration,
    ) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let started = Instant::now();
        let (mut allowed, mut pause) = (first, FIRST_PAUSE);
        let mut repeated = false;
        loop {
            let member = self.current.load(Ordering::Relaxed);
            let attempt = timeout(allowed, self.attempt(member, path, request.clone())).await;
            let status = match attempt {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) if is_final(&status) => {
                    return Err(Failure { status, unclear: repeated });
                }
                Ok(Err(status)) => status,
                Err(_elapsed) => Status::deadline_exceeded("no answer in time"),
            };
            repeated = true;
            self.leave(member);
            if started.elapsed() + pause >= self.patience {
                return Err(Failure { status: self.explained(status), unclear: true });
            }
            tracing::debug!(error = status.message(), "etcd call repeated");
            sleep(pause).await;
            (allowed, pause) = (allowed * 2, (pause * 2).min(MOST_PAUSE));
        }
    }

    async fn attempt<Q, A>(
        &self,
        member: usize,
        path: &'static str,
        request: Q,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready(member).await?;
        let path = PathAndQuery::from_static(path);
        let answer = grpc.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await?;
        Ok(answer.into_inner())
    }

    /// Opens a stream both ways; its end is for the caller to mend.
    pub(crate) async fn stream<Q, A>(
        &self,
        path: &'static str,
        requests: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let member = self.current.load(Ordering::Relaxed);
        let open = async {
            let mut grpc = self.ready(member).await?;
            let path = PathAndQuery::from_static(path);
            let codec = ProstCodec::<Q, A>::default();
            grpc.streaming(Request::new(requests), path, codec).await
        };
        let opened = timeout(CONNECT_TIMEOUT * 2, open).await;
        let opened = opened.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
        opened.map(tonic::Response::into_inner).inspect_err(|_| self.leave(member))
    }

    async fn ready(&self, member: usize) -> Result<Grpc<Channel>, Status> {
        let channel = self.members[member % self.members.len()].clone();
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }

    /// What certificates have to do with a failure says more than that a connection broke.
    fn explained(&self, status: Status) -> Status {
        let fault = self.servers.as_ref().and_then(OutsideServers::fault);
        fault.map_or(status, Status::unavailable)
    }

    /// Goes on to the next member, unless somebody else has already left this one.
    pub(crate) fn leave(&self, member: usize) {
        let next = member.wrapping_add(1) % self.members.len();
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        // Whoever was faster has left it.
        let _ = self.current.compare_exchange(member, next, success, failure);
    }

    /// The member that calls go to now, to be named to [`Client::leave`] when a stream has ended.
    pub(crate) fn member(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }
}

impl Failure {
    /// What a caller of the store is told of a failure that has no meaning of its own.
    pub(crate) fn into_error(self) -> StoreError {
        let Self { status, unclear } = self;
        let said = status.message();
        if status.code() == Code::ResourceExhausted && said.contains("space") {
            return StoreError::NoSpace;
        }
        if unclear || !is_final(&status) {
            return StoreError::Unavailable { source: Arc::new(status) };
        }
        StoreError::Storage { source: Arc::new(status) }
    }
}

/// Whether etcd has decided; everything else may come out otherwise at another member or later.
fn is_final(status: &Status) -> bool {
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => true,
        // A member that has too many requests will take them later; a full disk stays full.
        Code::ResourceExhausted => status.message().contains("space"),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_etcd_has_decided_is_final() {
        assert!(is_final(&Status::not_found("etcdserver: requested lease not found")));
        assert!(is_final(&Status::resource_exhausted("etcdserver: mvcc: database space exceeded")));
        assert!(!is_final(&Status::resource_exhausted("etcdserver: too many requests")));
        assert!(!is_final(&Status::unavailable("etcdserver: request timed out")));
        assert!(!is_final(&Status::cancelled("Timeout expired")));
    }

    #[tokio::test]
    async fn a_member_is_left_once_however_many_calls_failed_on_it() {
        let members = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(str::to_owned);
        let client = Client::new(&members, None, Duration::ZERO).unwrap();
        client.leave(0);
        client.leave(0);
        assert_eq!(client.member(), 1);
        client.leave(1);
        client.leave(2);
        assert_eq!(client.member(), 0);
    }
}
