//! Limits of each client of a server: calls a second, processor time, open calls and calls in
//! progress, bytes of requests, connections.
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
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tonic::Status;
use tracing::info;

use crate::answer_bytes::OpenAnswers;
use crate::cost_budget::{CostBudget, MOST_DEBT};
use crate::identity::Caller;
use crate::limits::{Client, Limits, LiveLimits};
use crate::local_process::LocalProcess;
use crate::open_connections::ConnectionUse;
use crate::open_files;
use fabricast_status::Reason;

/// Calls that a server works on at once.
pub(crate) const CALLS_IN_PROGRESS: u32 = 8_192;
/// Delay that is asked of a client with too many open calls.
const OPEN_CALLS_DELAY: Duration = Duration::from_millis(100);
/// Delay that is asked of a client that does not take its answers.
const ANSWERS_DELAY: Duration = Duration::from_secs(1);
/// Interval between log lines about one client's refused calls.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// The table of clients is swept when it has twice as many entries as after the last sweep, and at
/// least this many.
const SWEEP_THRESHOLD: usize = 1_024;
/// Part of the room that there is beyond it, for connections whose clients are not known yet.
const SPARE_PART: u32 = 16;
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
    /// Calls of all clients that the server works on.
    calls_in_progress: Arc<AtomicU32>,
    /// Bytes of requests of all clients.
    request_bytes: Arc<AtomicU64>,
    /// Bytes of answers that clients have not taken.
    answer_bytes: Arc<AtomicU64>,
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
    /// Time when a refusal was last logged.
    logged_at: Mutex<Option<Instant>>,
    budget: Mutex<CostBudget>,
    /// Held by the call that waits until the debt is paid; further ones wait in their order.
    pace: Semaphore,
    /// Held by work on a thread of its own.
    pub(crate) turn: Arc<Semaphore>,
    open_calls: AtomicU32,
    /// Calls of this client that the server works on, and of all.
    calls_in_progress: AtomicU32,
    all_calls_in_progress: Arc<AtomicU32>,
    /// Bytes of requests of this client, and of all.
    pub(crate) request_bytes: AtomicU64,
    pub(crate) all_request_bytes: Arc<AtomicU64>,
    pub(crate) answers: Arc<OpenAnswers>,
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
        Arc::new(Self {
            limits: limits.into(),
            files,
            connections: Arc::default(),
            calls_in_progress: Arc::default(),
            request_bytes: Arc::default(),
            answer_bytes: Arc::default(),
            clients,
        })
    }

    /// Counts in a connection whose client is not known yet; `None` if the server has too many.
    pub(crate) fn slot(&self) -> Option<ConnectionSlot> {
        self.slot_of(self.room())
    }

    /// The same beyond the room, until the client is known and others make room for it or not.
    pub(crate) fn spare_slot(&self) -> Option<ConnectionSlot> {
        let room = self.room();
        self.slot_of(room.saturating_add(room.div_ceil(SPARE_PART)))
    }

    fn slot_of(&self, most: u32) -> Option<ConnectionSlot> {
        let slot = ConnectionSlot(Arc::clone(&self.connections));
        (self.connections.fetch_add(1, Ordering::Relaxed) < most).then_some(slot)
    }

    /// True if there are more connections than there may be.
    pub(crate) fn is_over(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > self.room()
    }

    /// Number of connections that all clients may have.
    pub(crate) fn room(&self) -> u32 {
        self.limits.get().connections.min(self.files)
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
                bucket: RwLock::new(TokenBucket::new(limits.of_client(client))),
                created: Instant::now(),
                last_call: AtomicU64::new(NEVER),
                logged_at: Mutex::default(),
                budget: Mutex::new(CostBudget::new(Instant::now())),
                pace: Semaphore::new(1),
                turn: Arc::new(Semaphore::new(1)),
                open_calls: AtomicU32::new(0),
                calls_in_progress: AtomicU32::new(0),
                all_calls_in_progress: Arc::clone(&self.calls_in_progress),
                request_bytes: AtomicU64::new(0),
                all_request_bytes: Arc::clone(&self.request_bytes),
                answers: Arc::new(OpenAnswers::new(Arc::clone(&self.answer_bytes))),
                connections: AtomicU32::new(0),
            })
        });
        if usage.connections.load(Ordering::Relaxed) >= usage.limits().client_connections {
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
        self.limits.get().of_client(&self.client)
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

    /// Waits until the client may have one more answer.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` / `TOO_MANY_REQUEST_BYTES` if it does not take those it has.
    pub(crate) async fn room_for_answer(&self) -> Result<(), Status> {
        if self.answers.has_room(&self.limits())
            || self.answers.wait_for_room(|| self.limits()).await
        {
            return Ok(());
        }
        self.record_refusal("-", "answer_bytes");
        let text = format!("{} has too many bytes of answers that it does not take", self.client);
        Err(Reason::TooManyRequestBytes.status_after(text, ANSWERS_DELAY))
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
    pub(crate) fn begin(self: &Arc<Self>) -> Result<OpenCall, LimitExceeded> {
        let limits = self.limits();
        // Each of the processes of a user may have had a call in progress.
        let most_debt = MOST_DEBT * self.client.weight();
        if let Some((owed, delay)) = self.debt().filter(|(owed, _)| *owed > most_debt) {
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

    /// Counts in a call that the server works on, until its answer begins. A client may have as
    /// many as are left for others: half of all while it is alone, so that a few clients which
    /// withhold their requests cannot have all.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<CallInProgress, LimitExceeded> {
        let call = CallInProgress(Arc::clone(self));
        let own = self.calls_in_progress.fetch_add(1, Ordering::Relaxed);
        let all = self.all_calls_in_progress.fetch_add(1, Ordering::Relaxed);
        if own >= CALLS_IN_PROGRESS.saturating_sub(all) {
            let text = format!(
                "{} has {own} of the {all} calls in progress, of at most {CALLS_IN_PROGRESS}",
                self.client
            );
            let status = Reason::TooManyOpenCalls.status_after(text, OPEN_CALLS_DELAY);
            return Err(LimitExceeded { limit: "calls_in_progress", status });
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
pub(crate) struct LimitExceeded {
    /// The setting, or the share of all, as metrics and logs name it.
    pub(crate) limit: &'static str,
    pub(crate) status: Status,
}

/// A call that is counted as open until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenCall(Arc<ClientUsage>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.open_calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call that the server works on until this is dropped.
#[derive(Debug)]
pub(crate) struct CallInProgress(Arc<ClientUsage>);

impl Drop for CallInProgress {
    fn drop(&mut self) {
        self.0.calls_in_progress.fetch_sub(1, Ordering::Relaxed);
        self.0.all_calls_in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection as its calls see it; tonic puts it into the extensions of every request.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    pub(crate) caller: Caller,
    pub(crate) process: Option<LocalProcess>,
    pub(crate) usage: Arc<ClientUsage>,
    pub(crate) connection: ConnectionUse,
}

#[cfg(test)]
pub(crate) mod tests;
