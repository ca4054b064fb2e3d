//! What one client may ask of a server: so many calls a second, open at a time, and connections.
//!
//! A client that asks too much is refused, and told when to come again; no other pays for it.
//!
//! The book of clients is bounded: a client is in it while it is connected, and until it may ask as much again as one
//! that was never seen.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fabricast_telemetry::metrics::LIMITED;
use http::{Request, Response};
use http_body_util::BodyExt;
use tonic::Status;
use tonic::body::Body;
use tracing::info;

use crate::access::access_of;
use crate::around::{Around, Server};
use crate::identity::Caller;
use crate::limits::{Client, Limits, LiveLimits};
use crate::status::Reason;

/// A client that has too many calls open is told to come again after this time.
const OPEN_PAUSE: Duration = Duration::from_millis(100);
/// Refusals of one client are written down once in this time.
const LOG_PAUSE: Duration = Duration::from_secs(10);
/// The book is swept when it is twice as long as after the last time, and no shorter than this.
const SWEEP: usize = 1_024;

/// All clients of a server.
#[derive(Debug)]
pub(crate) struct Book {
    limits: LiveLimits,
    /// Connections of all clients.
    taken: Arc<AtomicU32>,
    pages: Mutex<Pages>,
}

#[derive(Debug)]
struct Pages {
    accounts: HashMap<Client, Arc<Account>>,
    sweep_at: usize,
}

/// What one client has asked for.
#[derive(Debug)]
pub(crate) struct Account {
    client: Client,
    limits: LiveLimits,
    began: Instant,
    meter: Mutex<Meter>,
    open: AtomicU32,
    /// Changed with the book locked only.
    connections: AtomicU32,
}

#[derive(Debug, Default)]
struct Meter {
    /// When the client may make a full burst again.
    full_at: Duration,
    told_at: Option<Duration>,
}

impl Meter {
    /// Takes one call off what is left.
    ///
    /// # Errors
    ///
    /// How long the client has to wait for the next one.
    fn take(&mut self, now: Duration, limits: &Limits) -> Result<(), Duration> {
        let each = (Duration::from_secs(1) / limits.calls_per_second).max(Duration::from_nanos(1));
        let full_at = self.full_at.max(now) + each;
        match full_at.checked_sub(now + each * limits.burst) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                self.full_at = full_at;
                Ok(())
            }
        }
    }
}

/// A place among the connections, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    account: Arc<Account>,
    book: Arc<Book>,
    _place: Place,
}

/// One of all connections, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicU32>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut pages = self.book.pages();
        let left = self.account.connections.fetch_sub(1, Ordering::Relaxed) - 1;
        if left == 0 && self.account.is_rested() {
            pages.accounts.remove(&self.account.client);
        }
    }
}

impl Seat {
    /// What calls are to know of their connection.
    pub(crate) fn arrival(&self, caller: Caller) -> Arrival {
        Arrival { caller, account: Arc::clone(&self.account) }
    }
}

impl Book {
    pub(crate) fn new(limits: impl Into<LiveLimits>) -> Arc<Self> {
        let pages = Mutex::new(Pages { accounts: HashMap::new(), sweep_at: SWEEP });
        Arc::new(Self { limits: limits.into(), taken: Arc::default(), pages })
    }

    /// A place for one more connection, whoever it is of; `None` if there are too many.
    pub(crate) fn place(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.taken));
        if self.taken.fetch_add(1, Ordering::Relaxed) >= self.limits.get().connections {
            LIMITED.refused("-", "anyone", "connections");
            return None;
        }
        Some(place)
    }

    /// Gives a place to a client; `None` if it has too many.
    pub(crate) fn seat(self: &Arc<Self>, place: Place, client: Client) -> Option<Seat> {
        let mut pages = self.pages();
        if pages.accounts.len() >= pages.sweep_at {
            let is_needed = |account: &Arc<Account>| {
                account.connections.load(Ordering::Relaxed) > 0 || !account.is_rested()
            };
            pages.accounts.retain(|_, account| is_needed(account));
            pages.sweep_at = (2 * pages.accounts.len()).max(SWEEP);
        }
        let limits = self.limits.get();
        let account = pages.accounts.entry(client).or_insert_with_key(|client| {
            let client = client.clone();
            Arc::new(Account {
                client,
                limits: self.limits.clone(),
                began: Instant::now(),
                meter: Mutex::default(),
                open: AtomicU32::new(0),
                connections: AtomicU32::new(0),
            })
        });
        if account.connections.load(Ordering::Relaxed) >= limits.client_connections {
            LIMITED.refused("-", account.client.role(), "client_connections");
            return None;
        }
        account.connections.fetch_add(1, Ordering::Relaxed);
        Some(Seat { account: Arc::clone(account), book: Arc::clone(self), _place: place })
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    fn meter(&self) -> std::sync::MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it may ask as much as one that was never seen.
    fn is_rested(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0 && self.meter().full_at <= self.began.elapsed()
    }

    /// Counts a call in, until what is answered is dropped.
    fn begin(self: &Arc<Self>) -> Result<OpenCall, TooMuch> {
        let limits = self.limits.get();
        let taken = self.meter().take(self.began.elapsed(), &limits);
        if let Err(wait) = taken {
            let why = format!(
                "{} makes more than {} calls a second",
                self.client, limits.calls_per_second
            );
            let status = Reason::RateLimited.status_after(why, wait);
            return Err(TooMuch { limit: "calls_per_second", status });
        }
        let call = OpenCall(Arc::clone(self));
        if self.open.fetch_add(1, Ordering::Relaxed) >= limits.open_calls {
            let why = format!("{} has {} calls open", self.client, limits.open_calls);
            let status = Reason::TooManyOpenCalls.status_after(why, OPEN_PAUSE);
            return Err(TooMuch { limit: "open_calls", status });
        }
        Ok(call)
    }

    /// Counts a refusal, and says so in the log now and then.
    fn note(&self, service: &'static str, limit: &'static str) {
        LIMITED.refused(service, self.client.role(), limit);
        let now = self.began.elapsed();
        let mut meter = self.meter();
        if meter.told_at.is_none_or(|at| at + LOG_PAUSE <= now) {
            meter.told_at = Some(now);
            info!(client = %self.client, service, limit, "calls of a client were refused");
        }
    }
}

/// Which setting a client has reached, and what it is told.
#[derive(Debug)]
struct TooMuch {
    limit: &'static str,
    status: Status,
}

/// A call that is open.
#[derive(Debug)]
struct OpenCall(Arc<Account>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a call knows of its connection.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    caller: Caller,
    account: Arc<Account>,
}

/// Refuses calls of clients that ask too much; tells all others who calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowing;

impl Around for Allowing {
    async fn answer<S: Server>(
        self,
        mut request: Request<Body>,
        mut server: S,
    ) -> Result<Response<Body>, S::Error> {
        let Some(Arrival { caller, account }) = request.extensions_mut().remove() else {
            return server.call(request).await;
        };
        request.extensions_mut().insert(caller);
        match account.begin() {
            Ok(open) => {
                let answer = server.call(request).await?;
                // The call is open until its answer has been sent, or nobody wants it any more.
                Ok(answer.map(|body| {
                    Body::new(body.map_frame(move |frame| {
                        let _open = &open;
                        frame
                    }))
                }))
            }
            Err(TooMuch { limit, status }) => {
                let service = access_of(request.uri().path()).map_or("-", |access| access.service);
                account.note(service, limit);
                Ok(status.into_http())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        calls_per_second: 10,
        burst: 3,
        open_calls: 2,
        client_connections: 2,
        connections: 5,
    };

    fn seat(book: &Arc<Book>, name: &str) -> Option<Seat> {
        let client = Client::Named(vec![name.parse().unwrap()]);
        book.place().and_then(|place| book.seat(place, client))
    }

    #[test]
    fn a_burst_is_granted_and_then_the_rate() {
        let (mut meter, ms) = (Meter::default(), Duration::from_millis);
        for _ in 0..3 {
            assert_eq!(meter.take(ms(0), &LIMITS), Ok(()));
        }
        assert_eq!(meter.take(ms(0), &LIMITS), Err(ms(100)));
        assert_eq!(meter.take(ms(40), &LIMITS), Err(ms(60)), "a refusal costs nothing");
        assert_eq!(meter.take(ms(100), &LIMITS), Ok(()));
        assert_eq!(meter.take(ms(150), &LIMITS), Err(ms(50)));
        for _ in 0..3 {
            assert_eq!(meter.take(ms(5_000), &LIMITS), Ok(()), "no more than a burst is saved");
        }
        assert!(meter.take(ms(5_000), &LIMITS).is_err());
    }

    #[test]
    fn connections_are_bounded_for_each_and_for_all() {
        let book = Book::new(LIMITS);
        let first = [seat(&book, "admin/a"), seat(&book, "admin/a")];
        assert!(first.iter().all(Option::is_some));
        assert!(seat(&book, "admin/a").is_none(), "one more than a client may have");
        let others = [seat(&book, "admin/b"), seat(&book, "admin/c"), seat(&book, "admin/d")];
        assert!(others.iter().all(Option::is_some));
        assert!(seat(&book, "admin/e").is_none(), "one more than there may be");
        drop(others);
        assert!(seat(&book, "admin/e").is_some());
    }

    #[test]
    fn limits_that_change_hold_for_whoever_is_there_already() {
        let live = LiveLimits::from(LIMITS);
        let book = Book::new(live.clone());
        let first = seat(&book, "admin/a").unwrap();
        let open = [first.account.begin().unwrap(), first.account.begin().unwrap()];
        live.set(Limits { open_calls: 3, burst: 100, connections: 1, ..LIMITS });
        let third = first.account.begin().unwrap();
        assert!(first.account.begin().is_err());
        assert!(seat(&book, "admin/b").is_none(), "one is enough by now");
        live.set(LIMITS);
        assert!(seat(&book, "admin/b").is_some());
        drop((open, third));
    }

    #[test]
    fn clients_that_have_gone_are_forgotten_once_they_owe_nothing() {
        let book = Book::new(LIMITS);
        let idle = seat(&book, "admin/idle").unwrap();
        let busy = seat(&book, "admin/busy").unwrap();
        drop(busy.account.begin().unwrap());
        drop((idle, busy));
        let known = |book: &Book| book.pages().accounts.len();
        assert_eq!(known(&book), 1, "coming again does not make a client a new one");
        book.pages().sweep_at = 0;
        let slow = Limits { calls_per_second: 1_000_000_000, ..LIMITS };
        let fresh = Book::new(slow);
        for number in 0..10 * SWEEP {
            let seat = seat(&fresh, &format!("admin/{number}")).unwrap();
            drop(seat.account.begin().unwrap());
        }
        assert!(known(&fresh) <= 2 * SWEEP, "{} clients", known(&fresh));
    }

    #[test]
    fn open_calls_are_counted_until_they_end() {
        let book = Book::new(Limits { burst: 100, ..LIMITS });
        let seat = seat(&book, "admin/a").unwrap();
        let open = [seat.account.begin().unwrap(), seat.account.begin().unwrap()];
        let refused = seat.account.begin().unwrap_err().status;
        assert_eq!(crate::reason_of(&refused).as_deref(), Some("TOO_MANY_OPEN_CALLS"));
        assert_eq!(crate::retry_after(&refused), Some(OPEN_PAUSE));
        drop(open);
        assert!(seat.account.begin().is_ok());
    }
}
