//! Tests of the limits of clients.

use governor::clock::FakeRelativeClock;

use super::*;
use crate::cost_budget::BURST;
use crate::request_bytes::RequestBytes;

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
    /// Time that is gone of a balance which has not earned anything since.
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
async fn the_processes_of_a_user_wait_where_a_client_is_refused() {
    let limiter = ClientLimiter::new(LIMITS);
    let permit = limiter.slot().and_then(|slot| limiter.permit(slot, Client::User(7))).unwrap();
    let usage = &permit.usage;
    usage.charge(BURST + MOST_DEBT * 16);
    drop(usage.begin().unwrap());
    usage.charge(Duration::from_millis(1));
    assert_eq!(usage.begin().unwrap_err().limit, "processor_percent");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_used_more_than_its_share_waits_and_then_is_refused() {
    let limiter = ClientLimiter::new(Limits { burst: 100, ..LIMITS });
    let permit = connect(&limiter, "tenant/a").unwrap();
    let usage = &permit.usage;
    let start = Instant::now();
    let paid_in = |debt: Duration| debt * 1_000 / u32::try_from(LIMITS.processor_rate()).unwrap();
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
    assert!(Reason::RateLimited.is_of(&refused.status), "{}", refused.status);
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
    assert!(Reason::TooManyRequestBytes.is_of(&refused), "{refused}");
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
    assert!(Reason::TooManyOpenCalls.is_of(&refused), "{refused}");
    assert_eq!(crate::retry_after(&refused), Some(OPEN_CALLS_DELAY));
    drop(open);
    assert!(permit.usage.begin().is_ok());
}

#[test]
fn few_clients_leave_calls_in_progress_for_others() {
    let limiter = ClientLimiter::new(LIMITS);
    let few = ["tenant/a", "tenant/b", "tenant/c"].map(|name| connect(&limiter, name).unwrap());
    let mut held = Vec::new();
    let taken = few.each_ref().map(|client| {
        let before = held.len();
        held.extend(std::iter::from_fn(|| client.usage.admit().ok()));
        held.len() - before
    });
    assert_eq!(taken, [4_096, 2_048, 1_024]);
    let refused = few[0].usage.admit().unwrap_err();
    assert_eq!(refused.limit, "calls_in_progress");
    assert!(Reason::TooManyOpenCalls.is_of(&refused.status), "{}", refused.status);
    assert_eq!(crate::retry_after(&refused.status), Some(OPEN_CALLS_DELAY));
    let other = connect(&limiter, "tenant/d").unwrap();
    let others: Vec<_> = std::iter::from_fn(|| other.usage.admit().ok()).collect();
    assert_eq!(others.len(), 512);
    drop((held, others));
    let again: Vec<_> = std::iter::from_fn(|| other.usage.admit().ok()).collect();
    assert_eq!(again.len(), 4_096, "calls that have ended do not count");
}
