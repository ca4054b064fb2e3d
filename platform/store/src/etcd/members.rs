//! Calls to etcd's members, and when they are repeated.
//!
//! Each member has an etcd-client of its own over one connection. One client for all would spread
//! calls over all members, and a dead one would get its share. All calls go to one member until it
//! fails; then the next one is called. A failure that leaves open whether the call was carried out
//! is repeated only because every call made here is safe to repeat: reads are, and each write says
//! with the answer whether it is the first of its kind (see the transactions' receipts and the
//! leases' numbers).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::proto::{PbRangeResponse, PbTxnResponse};
use etcd_client::{Error, GetOptions, KvClient, LeaseClient, WatchClient};
use etcd_client::{WatchOptions, WatchStream};
use fabricast_rpc::ExternalTls;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::error::StoreError;

/// Time limit of the first attempt at most calls.
pub(crate) const QUICK: Duration = Duration::from_secs(1);
/// A member that accepts no connection in this time counts as dead.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection on which nothing comes back for twice this long is closed, so that streams from a
/// frozen member end too.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Pause between the first two attempts; doubled each time, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(200);
/// Most bytes of one answer; pages and events stay far below.
const MESSAGE_LIMIT: usize = 256 << 20;

/// The members of one etcd.
pub(crate) struct Members {
    members: Vec<Member>,
    /// Connects with certificates; `None` for plain text.
    servers: Option<ExternalTls>,
    current: AtomicUsize,
    /// Total time for all attempts at one call.
    patience: Duration,
}

/// One member: the etcd-client services that a store uses.
pub(crate) struct Member {
    pub(crate) index: usize,
    pub(crate) kv: KvClient,
    pub(crate) lease: LeaseClient,
    watch: WatchClient,
}

/// A failed call: no answer in time, or etcd's refusal.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    /// True if the call may have been carried out all the same.
    pub(crate) unclear: bool,
}

impl Members {
    /// Prepares connections; nothing is sent yet.
    ///
    /// - `endpoints`: `host:port` of each member.
    /// - `servers`: certificates, read anew for each connection; `None` for plain text.
    pub(crate) async fn new(
        endpoints: &[String],
        servers: Option<ExternalTls>,
        patience: Duration,
    ) -> Result<Self, Error> {
        let mut members = Vec::new();
        for (index, address) in endpoints.iter().enumerate() {
            let channel = etcd_client::Channel::Tonic(channel(address, servers.clone())?);
            let client = etcd_client::Client::from_channel(channel, None).await?;
            members.push(Member {
                index,
                kv: client.kv_client().max_decoding_message_size(MESSAGE_LIMIT),
                lease: client.lease_client(),
                watch: client.watch_client().max_decoding_message_size(MESSAGE_LIMIT),
            });
        }
        Ok(Self { members, servers, current: AtomicUsize::new(0), patience })
    }

    /// Reads a key, or the range that the options name.
    pub(crate) async fn get(
        &self,
        key: &[u8],
        options: &GetOptions,
        first: Duration,
    ) -> Result<PbRangeResponse, Failure> {
        let read = |member: &Member| {
            let (mut kv, key, options) = (member.kv.clone(), key.to_vec(), options.clone());
            async move { Ok(kv.get(key, Some(options)).await?.0) }
        };
        self.call(first, read).await
    }

    /// Sends a transaction, which must be safe to repeat.
    pub(crate) async fn txn(&self, txn: etcd_client::Txn) -> Result<PbTxnResponse, Failure> {
        let send = |member: &Member| {
            let (mut kv, txn) = (member.kv.clone(), txn.clone());
            async move { Ok(kv.txn(txn).await?.0) }
        };
        self.call(QUICK, send).await
    }

    /// Makes a call until a member answers, etcd refuses it, or time is up.
    ///
    /// - `first`: time limit of the first attempt; each further one may take twice as long.
    pub(crate) async fn call<F, A>(
        &self,
        first: Duration,
        attempt: impl Fn(&Member) -> F,
    ) -> Result<A, Failure>
    where
        F: Future<Output = Result<A, Error>>,
    {
        let started = Instant::now();
        let (mut allowed, mut pause) = (first, FIRST_PAUSE);
        let mut repeated = false;
        loop {
            let member = self.current();
            let status = match timeout(allowed, attempt(&self.members[member])).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => to_status(error),
                Err(_elapsed) => Status::deadline_exceeded("no answer in time"),
            };
            if is_final(&status) {
                return Err(Failure { status, unclear: repeated });
            }
            repeated = true;
            self.leave(member);
            if started.elapsed() + pause >= self.patience {
                return Err(Failure { status: self.explain(status), unclear: true });
            }
            tracing::debug!(error = status.message(), "etcd call repeated");
            sleep(pause).await;
            (allowed, pause) = (allowed * 2, (pause * 2).min(MAX_PAUSE));
        }
    }

    /// Opens a watch at the current member. When it ends, the caller opens another one.
    pub(crate) async fn watch(
        &self,
        key: Vec<u8>,
        options: WatchOptions,
    ) -> Result<WatchStream, Status> {
        let member = self.current();
        let mut client = self.members[member].watch.clone();
        let opened = match timeout(CONNECT_TIMEOUT * 2, client.watch(key, Some(options))).await {
            Ok(opened) => opened.map_err(to_status),
            Err(_elapsed) => Err(Status::deadline_exceeded("no answer in time")),
        };
        opened.inspect_err(|_| self.leave(member))
    }

    /// Adds what is known of the certificates: that a connection broke says less.
    fn explain(&self, status: Status) -> Status {
        let fault = self.servers.as_ref().and_then(ExternalTls::fault);
        fault.map_or(status, Status::unavailable)
    }

    /// Goes on to the next member, unless another call has already left this one.
    pub(crate) fn leave(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        // An error means that another call was faster.
        let _ = self.current.compare_exchange(member, next, success, failure);
    }

    /// Index of the member that calls go to now, for [`Members::leave`] when a stream has ended.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }
}

/// A channel to one member, which connects when it is first used and again when it broke.
fn channel(address: &str, servers: Option<ExternalTls>) -> Result<Channel, Error> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    Ok(match servers {
        None => endpoint.connect_lazy(),
        Some(servers) => {
            endpoint.connect_with_connector_lazy(tower::service_fn(move |uri: http::Uri| {
                servers.clone().connect(uri)
            }))
        }
    })
}

/// The status behind an error of etcd-client; what is none is a broken connection.
pub(crate) fn to_status(error: Error) -> Status {
    match error {
        Error::GRpcStatus(status) => status,
        other => Status::unavailable(other.to_string()),
    }
}

impl Failure {
    /// The store's error for a failure that the caller gives no meaning of its own.
    ///
    /// A refusal after an attempt without an answer says nothing about that attempt: it may have
    /// been carried out, or be carried out later.
    pub(crate) fn into_error(self) -> StoreError {
        let Self { status, unclear } = self;
        if unclear || !is_final(&status) {
            return StoreError::Unavailable { source: Arc::new(status) };
        }
        if is_out_of_space(&status) {
            return StoreError::NoSpace;
        }
        StoreError::Storage { source: Arc::new(status) }
    }
}

/// Returns whether etcd has refused the call; after any other failure another member may answer, or
/// the same one later.
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
        Code::ResourceExhausted => is_out_of_space(status),
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

/// Returns whether a member has refused a call because its database or its disk is full.
pub(crate) fn is_out_of_space(status: &Status) -> bool {
    status.code() == Code::ResourceExhausted && status.message().contains("space")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_by_etcd_are_final() {
        assert!(is_final(&Status::not_found("etcdserver: requested lease not found")));
        assert!(is_final(&Status::resource_exhausted("etcdserver: mvcc: database space exceeded")));
        assert!(!is_final(&Status::resource_exhausted("etcdserver: too many requests")));
        assert!(!is_final(&Status::unavailable("etcdserver: request timed out")));
        assert!(!is_final(&Status::cancelled("Timeout expired")));
    }

    #[test]
    fn a_refusal_after_an_attempt_without_an_answer_does_not_say_that_nothing_was_written() {
        let failed = |message: &str, unclear| {
            Failure { status: Status::resource_exhausted(message), unclear }.into_error()
        };
        let full = "etcdserver: mvcc: database space exceeded";
        assert!(matches!(failed(full, false), StoreError::NoSpace));
        assert!(matches!(failed(full, true), StoreError::Unavailable { .. }));
        let busy = "etcdserver: too many requests";
        assert!(matches!(failed(busy, false), StoreError::Unavailable { .. }));
    }

    #[tokio::test]
    async fn a_member_is_left_once_however_many_calls_failed_on_it() {
        let endpoints = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(str::to_owned);
        let members = Members::new(&endpoints, None, Duration::ZERO).await.unwrap();
        members.leave(0);
        members.leave(0);
        assert_eq!(members.current(), 1);
        members.leave(1);
        members.leave(2);
        assert_eq!(members.current(), 0);
    }
}
