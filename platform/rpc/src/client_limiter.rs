//! Limits of each client of a server: calls a second, processor time, open calls, bytes of requests,
//! connections.
//!
//! A call over the limit is refused with the delay after which it would be allowed; other clients
//! are not affected. Memory is bounded: a client is known while it has connections or open calls,
//! and until its bucket is full again, so that reconnecting does not refill it.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use fabricast_telemetry::metrics::LIMITED;
use governor::clock::Clock;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use http::{Request, Response};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tonic::Status;
use tonic::body::Body;
use tracing::info;

use crate::access::access_of;
use crate::call_cost::{CallCost, CallWork, ChargedBody, ChargedCall};
use crate::cost_budget::{CostBudget, MOST_DEBT};
use crate::identity::Caller;
use crate::limits::{Client, Limits, LiveLimits};
use crate::local_process::LocalProcess;
use crate::message_bounds::has_request_stream;
use crate::middleware::{InnerService, Middleware};
use crate::open_connections::ConnectionUse;
use crate::open_files;
use crate::request_bytes::RequestBytes;
use crate::status::Reason;

/// Delay that is asked of a client with too many open calls.
const OPEN_CALLS_DELAY: Duration = Duration::from_millis(100);
/// Interval between log lines about one client's refused calls.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// The table of clients is swept when it has twice as many entries as after the last sweep, and at
/// least this many.
const SWEEP_THRESHOLD: usize = 1_024;
/// Stands for "no call yet" in [`ClientUsage::last_call`].
const NEVER: u64 = u64::MAX;

/// Limits and usage of all clients of a server.
#[derive(Debug)]
pub(crate) struct ClientLimiter {
    limits: LiveLimits,
    /// Connections that the limit of open files allows.
    files: u32,
    /// Number of connections of all clients.
    connections: Arc<AtomicU32>,
    /// Bytes of requests of all clients.
    request_bytes: Arc<AtomicU64>,
    clients: Mutex<Clients>,
}

/// Number of the next client; 0 stands for nobody.
static NEXT_CLIENT: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
struct Clients {
    usage: HashMap<Client, Arc<ClientUsage>>,
    sweep_at: usize,
}

/// Usage of one client.
#[derive(Debug)]
pub(crate) struct ClientUsage {
    client: Client,
    /// Tells it apart from other clients of this process.
    pub(crate) id: u64,
    limits: LiveLimits,
    bucket: RwLock<TokenBucket>,
    created: Instant,
    /// Nanoseconds from `created` to the last call that was allowed.
    last_call: AtomicU64,
    /// When a refusal was last logged.
    logged_at: Mutex<Option<Instant>>,
    budget: Mutex<CostBudget>,
    /// Held by the call that waits until the debt is paid; further ones wait in their order.
    pace: Semaphore,
    /// Held by work on a thread of its own.
    pub(crate) turn: Arc<Semaphore>,
    open_calls: AtomicU32,
    /// Bytes of requests of this client, and of all.
    pub(crate) request_bytes: AtomicU64,
    pub(crate) all_request_bytes: Arc<AtomicU64>,
    /// Written only while the table of clients is locked.
    connections: AtomicU32,
}

/// A rate limiter, and the limits that it was made for; it is made anew when they change.
#[derive(Debug)]
struct TokenBucket {
    limiter: DefaultDirectRateLimiter,
    limits: Limits,
}

impl TokenBucket {
    fn new(limits: Limits) -> Self {
        Self { limiter: RateLimiter::direct(quota(&limits)), limits }
    }

    fn is_for(&self, limits: &Limits) -> bool {
        (self.limits.calls_per_second, self.limits.burst) == (limits.calls_per_second, limits.burst)
    }

    /// Takes one call.
    ///
    /// # Errors
    ///
    /// The delay until the next call is allowed.
    fn take(&self) -> Result<(), Duration> {
        let now = self.limiter.clock().now();
        self.limiter.check().map_err(|until| until.wait_time_from(now))
    }

    /// Time in which an empty bucket becomes full.
    fn fill_time(&self) -> Duration {
        Duration::from_secs(u64::from(self.limits.burst)) / self.limits.calls_per_second.max(1)
    }
}

fn quota(limits: &Limits) -> Quota {
    // More than one call in a nanosecond cannot be told apart.
    let calls = limits.calls_per_second.clamp(1, 1_000_000_000);
    let at_least_one = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
    Quota::per_second(at_least_one(calls)).allow_burst(at_least_one(limits.burst))
}

/// Permission for a connection of a client, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    usage: Arc<ClientUsage>,
    limiter: Arc<ClientLimiter>,
    _slot: ConnectionSlot,
}

/// One of the connections that a server may have, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot(Arc<AtomicU32>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut clients = self.limiter.clients.lock();
        let left = self.usage.connections.fetch_sub(1, Ordering::Relaxed) - 1;
        if left == 0 && self.usage.is_idle() {
            clients.usage.remove(&self.usage.client);
        }
    }
}

impl ConnectionPermit {
    /// The connection as its calls see it.
    ///
    /// - `process`: the client, if it is a process at a socket.
    pub(crate) fn info(
        &self,
        caller: Caller,
        process: Option<LocalProcess>,
        connection: ConnectionUse,
    ) -> ConnectionInfo {
        ConnectionInfo { caller, process, usage: Arc::clone(&self.usage), connection }
    }
}

impl ClientLimiter {
    pub(crate) fn new(limits: impl Into<LiveLimits>) -> Arc<Self> {
        let clients = Mutex::new(Clients { usage: HashMap::new(), sweep_at: SWEEP_THRESHOLD });
        // A quarter is left for the store, calls to other parts and the listener itself.
        let files = open_files::limit().map_or(u32::MAX, |files| files / 4 * 3);
        let (connections, request_bytes) = (Arc::default(), Arc::default());
        Arc::new(Self { limits: limits.into(), files, connections, request_bytes, clients })
    }

    /// Counts in a connection whose client is not known yet; `None` if the server has too many.
    pub(crate) fn slot(&self) -> Option<ConnectionSlot> {
        let slot = ConnectionSlot(Arc::clone(&self.connections));
        let most = self.limits.get().connections.min(self.files);
        (self.connections.fetch_add(1, Ordering::Relaxed) < most).then_some(slot)
    }

    /// Counts a connection that was refused, since the server has too many.
    pub(crate) fn record_full(&self) {
        LIMITED.refused("-", "anyone", "connections");
    }

    /// Assigns a connection to its client; `None` if the client has too many.
    pub(crate) fn permit(
        self: &Arc<Self>,
        slot: ConnectionSlot,
        client: Client,
    ) -> Option<ConnectionPermit> {
        let mut clients = self.clients.lock();
        if clients.usage.len() >= clients.sweep_at {
            clients.usage.retain(|_, usage| {
                usage.connections.load(Ordering::Relaxed) > 0 || !usage.is_idle()
            });
            clients.sweep_at = (2 * clients.usage.len()).max(SWEEP_THRESHOLD);
        }
        let limits = self.limits.get();
        let usage = clients.usage.entry(client).or_insert_with_key(|client| {
            Arc::new(ClientUsage {
                client: client.clone(),
                id: NEXT_CLIENT.fetch_add(1, Ordering::Relaxed),
                limits: self.limits.clone(),
                bucket: RwLock::new(TokenBucket::new(limits)),
                created: Instant::now(),
                last_call: AtomicU64::new(NEVER),
                logged_at: Mutex::default(),
                budget: Mutex::new(CostBudget::new(Instant::now())),
                pace: Semaphore::new(1),
                turn: Arc::new(Semaphore::new(1)),
                open_calls: AtomicU32::new(0),
                request_bytes: AtomicU64::new(0),
                all_request_bytes: Arc::clone(&self.request_bytes),
                connections: AtomicU32::new(0),
            })
        });
        if usage.connections.load(Ordering::Relaxed) >= limits.client_connections {
            LIMITED.refused("-", usage.client.role(), "client_connections");
            return None;
        }
        usage.connections.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionPermit { usage: Arc::clone(usage), limiter: Arc::clone(self), _slot: slot })
    }
}

impl ClientUsage {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits.get()
    }

    /// True if forgetting the client grants it nothing.
    fn is_idle(&self) -> bool {
        let last_call = self.last_call.load(Ordering::Relaxed);
        let is_full = last_call == NEVER
            || Duration::from_nanos(last_call) + self.bucket.read().fill_time()
                <= self.created.elapsed();
        is_full
            && self.open_calls.load(Ordering::Relaxed) == 0
            && self.budget.lock().is_full(Instant::now(), self.limits().processor_rate())
    }

    /// Charges processor time.
    pub(crate) fn charge(&self, cost: Duration) {
        self.budget.lock().charge(Instant::now(), self.limits().processor_rate(), cost);
    }

    /// Begins work whose cost will be known at its end.
    pub(crate) fn begin_work(&self) {
        self.budget.lock().begin(Instant::now(), self.limits().processor_rate());
    }

    /// Ends such work.
    pub(crate) fn end_work(&self, cost: Duration) {
        self.budget.lock().end(Instant::now(), self.limits().processor_rate(), cost);
    }

    /// The debt in processor time, and the time in which it is paid.
    fn debt(&self) -> Option<(Duration, Duration)> {
        self.budget.lock().debt(Instant::now(), self.limits().processor_rate())
    }

    /// True if the client has used more than its share.
    pub(crate) fn owes(&self) -> bool {
        self.debt().is_some()
    }

    /// Waits until the client owes nothing; several calls do so one after the other.
    pub(crate) async fn pace(&self) {
        if !self.owes() {
            return;
        }
        let _first = self.pace.acquire().await;
        while let Some((_, wait)) = self.debt() {
            sleep(wait).await;
        }
    }

    /// Takes one call from the bucket.
    ///
    /// # Errors
    ///
    /// The delay until the next call is allowed.
    fn take(&self, limits: &Limits) -> Result<(), Duration> {
        let bucket = self.bucket.read();
        if bucket.is_for(limits) {
            return bucket.take();
        }
        drop(bucket);
        let mut bucket = self.bucket.write();
        if !bucket.is_for(limits) {
            *bucket = TokenBucket::new(*limits);
        }
        bucket.take()
    }

    /// Counts in a call, until its response is dropped.
    fn begin(self: &Arc<Self>) -> Result<OpenCall, LimitExceeded> {
        let limits = self.limits.get();
        if let Some((owed, delay)) = self.debt().filter(|(owed, _)| *owed > MOST_DEBT) {
            let text = format!(
                "{} uses more than {} % of the processors: it is {owed:.1?} ahead",
                self.client, limits.processor_percent
            );
            let status = Reason::RateLimited.status_after(text, delay);
            return Err(LimitExceeded { limit: "processor_percent", status });
        }
        if let Err(delay) = self.take(&limits) {
            let text = format!(
                "{} makes more than {} calls a second",
                self.client, limits.calls_per_second
            );
            let status = Reason::RateLimited.status_after(text, delay);
            return Err(LimitExceeded { limit: "calls_per_second", status });
        }
        let since = u64::try_from(self.created.elapsed().as_nanos()).unwrap_or(NEVER - 1);
        self.last_call.store(since, Ordering::Relaxed);
        let call = OpenCall(Arc::clone(self));
        if self.open_calls.fetch_add(1, Ordering::Relaxed) >= limits.open_calls {
            let text = format!("{} has {} calls open", self.client, limits.open_calls);
            let status = Reason::TooManyOpenCalls.status_after(text, OPEN_CALLS_DELAY);
            return Err(LimitExceeded { limit: "open_calls", status });
        }
        Ok(call)
    }

    /// Counts a refused call, and logs one in [`LOG_INTERVAL`].
    pub(crate) fn record_refusal(&self, service: &'static str, limit: &'static str) {
        LIMITED.refused(service, self.client.role(), limit);
        let now = Instant::now();
        let mut logged_at = self.logged_at.lock();
        if logged_at.is_none_or(|at| at + LOG_INTERVAL <= now) {
            *logged_at = Some(now);
            info!(client = %self.client, service, limit, "calls of a client were refused");
        }
    }
}

/// A refusal by a limit.
#[derive(Debug)]
struct LimitExceeded {
    /// The setting, as metrics and logs name it.
    limit: &'static str,
    status: Status,
}

/// A call that is counted as open until it is dropped.
#[derive(Debug)]
struct OpenCall(Arc<ClientUsage>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.open_calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection as its calls see it; tonic puts it into the extensions of every request.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    caller: Caller,
    process: Option<LocalProcess>,
    usage: Arc<ClientUsage>,
    connection: ConnectionUse,
}

/// Text that tells the clients of a server apart, as the limits do; empty for all calls outside of
/// a server.
#[must_use]
pub fn client_key(extensions: &http::Extensions) -> String {
    extensions.get::<ClientKey>().map_or_else(String::new, |key| key.0.clone())
}

/// The client of a call, in the extensions of its request.
#[derive(Clone, Debug)]
struct ClientKey(String);

/// Refuses calls over the limits, and puts the [`Caller`], and at a socket the [`LocalProcess`],
/// into the extensions of all others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitClients;

impl Middleware for LimitClients {
    async fn handle<S: InnerService>(
        self,
        mut request: Request<Body>,
        mut inner: S,
    ) -> Result<Response<Body>, S::Error> {
        let Some(ConnectionInfo { caller, process, usage, connection }) =
            request.extensions_mut().remove()
        else {
            return inner.call(request).await;
        };
        let on_connection = connection.begin();
        request.extensions_mut().insert(caller);
        if let Some(process) = process {
            request.extensions_mut().insert(process);
        }
        request.extensions_mut().insert(ClientKey(usage.client.to_string()));
        let service = access_of(request.uri().path()).map_or("-", |access| access.service);
        match usage.begin() {
            Ok(open) => {
                let cost = CallCost::of(Arc::clone(&usage));
                cost.charge_call();
                usage.pace().await;
                let bytes = Arc::new(RequestBytes::new(usage, service));
                let work = CallWork::new(cost, service);
                request.extensions_mut().insert(Arc::clone(&bytes));
                request.extensions_mut().insert(work.clone());
                let is_lasting = has_request_stream(request.uri().path());
                let response = ChargedCall::new(inner.call(request), work.clone()).await?;
                // The call is open until its response has been sent or given up.
                let kept = (open, bytes, on_connection);
                Ok(response.map(|body| Body::new(ChargedBody::new(body, work, is_lasting, kept))))
            }
            Err(LimitExceeded { limit, status }) => {
                usage.record_refusal(service, limit);
                Ok(status.into_http())
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;
    use crate::cost_budget::BURST;

    const LIMITS: Limits = Limits {
        calls_per_second: 10,
        burst: 3,
        processor_percent: 50,
        open_calls: 2,
        client_connections: 2,
        connections: 5,
        client_request_bytes: 10 << 20,
        request_bytes: 12 << 20,
    };

    fn connect(limiter: &Arc<ClientLimiter>, name: &str) -> Option<ConnectionPermit> {
        let client = Client::Named(vec![name.parse().unwrap()]);
        limiter.slot().and_then(|slot| limiter.permit(slot, client))
    }

    /// The usage of a client of a server that no other test has.
    pub(crate) fn usage(name: &str) -> Arc<ClientUsage> {
        let limiter = ClientLimiter::new(LIMITS);
        Arc::clone(&connect(&limiter, name).unwrap().usage)
    }

    impl ClientUsage {
        /// What is gone of a balance that has not earned anything since.
        pub(crate) fn spent(&self) -> Duration {
            let mut budget = self.budget.lock();
            // Far more than a test uses, so that there is a debt to read.
            let most = Duration::from_secs(100);
            let (now, rate) = (Instant::now(), self.limits().processor_rate());
            budget.charge(now, rate, most);
            let owed = budget.debt(now, rate).map_or(Duration::ZERO, |(owed, _)| owed);
            budget.refund(most);
            owed + BURST - most
        }
    }

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let (clock, ms) = (FakeRelativeClock::default(), Duration::from_millis);
        let bucket = RateLimiter::direct_with_clock(quota(&LIMITS), clock.clone());
        let take = || bucket.check().map_err(|until| until.wait_time_from(clock.now()));
        for _ in 0..3 {
            assert_eq!(take(), Ok(()));
        }
        assert_eq!(take(), Err(ms(100)));
        clock.advance(ms(40));
        assert_eq!(take(), Err(ms(60)), "a refused call takes nothing");
        clock.advance(ms(60));
        assert_eq!(take(), Ok(()));
        clock.advance(ms(50));
        assert_eq!(take(), Err(ms(50)));
        clock.advance(ms(5_000));
        for _ in 0..3 {
            assert_eq!(take(), Ok(()), "a full bucket has one burst");
        }
        assert!(take().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_used_more_than_its_share_waits_and_then_is_refused() {
        let limiter = ClientLimiter::new(Limits { burst: 100, ..LIMITS });
        let permit = connect(&limiter, "tenant/a").unwrap();
        let usage = &permit.usage;
        let start = Instant::now();
        let paid_in =
            |debt: Duration| debt * 1_000 / u32::try_from(LIMITS.processor_rate()).unwrap();
        usage.charge(BURST);
        usage.pace().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "a burst is free");
        let debt = Duration::from_millis(500);
        usage.charge(debt);
        drop(usage.begin().unwrap());
        usage.pace().await;
        let waited = start.elapsed();
        assert!(waited >= paid_in(debt) && waited <= paid_in(debt) * 2, "{waited:?}");

        let debt = MOST_DEBT * 2;
        usage.charge(debt);
        let refused = usage.begin().unwrap_err();
        assert_eq!(refused.limit, "processor_percent");
        assert_eq!(crate::reason_of(&refused.status).as_deref(), Some("RATE_LIMITED"));
        let after = crate::retry_after(&refused.status).unwrap();
        assert!(after >= paid_in(MOST_DEBT) && after <= paid_in(debt), "{after:?}");
        let other = connect(&limiter, "tenant/b").unwrap();
        assert!(other.usage.begin().is_ok(), "another client has its own share");
        sleep(after).await;
        assert!(usage.begin().is_ok() && !usage.owes());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_in_debt_is_not_forgotten() {
        let limiter = ClientLimiter::new(LIMITS);
        let permit = connect(&limiter, "tenant/a").unwrap();
        permit.usage.charge(BURST + MOST_DEBT * 2);
        drop(permit);
        let again = connect(&limiter, "tenant/a").unwrap();
        assert!(again.usage.begin().is_err(), "reconnecting pays no debt");
        drop(again);
        sleep(Duration::from_secs(3_600)).await;
        drop(connect(&limiter, "tenant/a"));
        assert!(limiter.clients.lock().usage.is_empty(), "one that owes nothing is");
    }

    #[test]
    fn connections_are_limited_per_client_and_in_total() {
        let limiter = ClientLimiter::new(LIMITS);
        let first = [connect(&limiter, "admin/a"), connect(&limiter, "admin/a")];
        assert!(first.iter().all(Option::is_some));
        assert!(connect(&limiter, "admin/a").is_none(), "over the limit of the client");
        let others = ["admin/b", "admin/c", "admin/d"].map(|name| connect(&limiter, name));
        assert!(others.iter().all(Option::is_some));
        assert!(connect(&limiter, "admin/e").is_none(), "over the limit of the server");
        drop(others);
        assert!(connect(&limiter, "admin/e").is_some());
    }

    #[test]
    fn changed_limits_apply_to_connected_clients() {
        let live = LiveLimits::from(LIMITS);
        let limiter = ClientLimiter::new(live.clone());
        let first = connect(&limiter, "admin/a").unwrap();
        let open = [first.usage.begin().unwrap(), first.usage.begin().unwrap()];
        live.set(Limits { open_calls: 3, burst: 100, connections: 1, ..LIMITS });
        let third = first.usage.begin().unwrap();
        assert!(first.usage.begin().is_err());
        assert!(connect(&limiter, "admin/b").is_none(), "over the new limit of the server");
        drop(third);
        assert!((0..50).all(|_| first.usage.begin().is_ok()), "the new burst");
        live.set(LIMITS);
        assert!(connect(&limiter, "admin/b").is_some());
        drop(open);
    }

    #[test]
    fn disconnected_clients_are_forgotten_when_their_bucket_is_full() {
        let limiter = ClientLimiter::new(LIMITS);
        let idle = connect(&limiter, "admin/idle").unwrap();
        let busy = connect(&limiter, "admin/busy").unwrap();
        drop(busy.usage.begin().unwrap());
        drop((idle, busy));
        let known = |limiter: &ClientLimiter| limiter.clients.lock().usage.len();
        assert_eq!(known(&limiter), 1, "reconnecting does not refill the bucket");
        limiter.clients.lock().sweep_at = 0;
        let fast = Limits { calls_per_second: 1_000_000_000, ..LIMITS };
        let limiter = ClientLimiter::new(fast);
        for number in 0..10 * SWEEP_THRESHOLD {
            let permit = connect(&limiter, &format!("admin/{number}")).unwrap();
            drop(permit.usage.begin().unwrap());
        }
        assert!(known(&limiter) <= 2 * SWEEP_THRESHOLD, "{} clients", known(&limiter));
    }

    #[test]
    fn bytes_of_requests_are_limited_for_a_client_and_for_all() {
        let limiter = ClientLimiter::new(LIMITS);
        let [a, b] = ["tenant/a", "tenant/b"].map(|name| connect(&limiter, name).unwrap());
        let call = |of: &ConnectionPermit| RequestBytes::new(Arc::clone(&of.usage), "-");
        let [first, second, third] = [call(&a), call(&a), call(&b)];
        first.hold(6 << 20).unwrap();
        let refused = second.hold(5 << 20).unwrap_err();
        assert_eq!(crate::reason_of(&refused).as_deref(), Some("TOO_MANY_REQUEST_BYTES"));
        assert!(refused.message().starts_with("tenant/a has more than 10485760"), "{refused}");
        second.hold(4 << 20).unwrap();
        let refused = third.hold(5 << 20).unwrap_err();
        assert!(refused.message().starts_with("all clients have more than 12582912"), "{refused}");
        third.hold(4 << 20).unwrap();
        drop((first, second));
        third.hold(10 << 20).unwrap();
        third.hold(0).unwrap();
        drop(third);
        for sum in [&a.usage.request_bytes, &b.usage.request_bytes, &limiter.request_bytes] {
            assert_eq!(sum.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn open_calls_are_counted_until_they_end() {
        let limiter = ClientLimiter::new(Limits { burst: 100, ..LIMITS });
        let permit = connect(&limiter, "admin/a").unwrap();
        let open = [permit.usage.begin().unwrap(), permit.usage.begin().unwrap()];
        let refused = permit.usage.begin().unwrap_err().status;
        assert_eq!(crate::reason_of(&refused).as_deref(), Some("TOO_MANY_OPEN_CALLS"));
        assert_eq!(crate::retry_after(&refused), Some(OPEN_CALLS_DELAY));
        drop(open);
        assert!(permit.usage.begin().is_ok());
    }
}
