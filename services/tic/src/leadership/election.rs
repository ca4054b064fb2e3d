//! Elects one leader among the TICs on one store.
//!
//! The leader is the TIC that wrote the key [`LEADER`], on a lease that it keeps alive; the value
//! is the address that callers are told. The key is written once, so its revision is the number of
//! the *term*, and every write of the leader requires that the key still has that revision: a
//! leader that was deposed while it was frozen or cut off changes nothing when it wakes up.
//!
//! Reads write nothing, so they need a clock: the leader counts its lease from before it asked for
//! the renewal, and leaves a tenth of it as a margin for clocks that run differently. The clock
//! counts time in which the machine was suspended. After that time another TIC may lead, and this
//! one answers nobody until a renewal succeeds after all.
//!
//! etcd grants no lease while it has no space, and renews those there are. A candidate therefore
//! asks for its lease while another TIC leads, so that it can follow a leader that dies meanwhile,
//! and a leader that gives its term up keeps the lease for another one.

use std::sync::Arc;
use std::time::Duration;

use fabricast_store::{Clock, Expected, LeaseId, Snapshot, Store, StoreError, Txn, TxnOutcome};
use fabricast_telemetry::metrics::TIC_STORE_FAILURES;
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use crate::clock::BootClock;
use crate::error_text::chain;
use crate::records::keys::LEADER;

/// Interval at which a candidate reads the key, beside watching it.
const POLL: Duration = Duration::from_millis(500);
/// Renewals in the time of one lease.
const RENEWALS: u32 = 5;

/// A TIC that leads or wants to.
pub(crate) struct Candidate {
    pub(crate) store: Arc<dyn Store>,
    /// The address that callers are told, `host:port`.
    pub(crate) address: String,
    /// Time after which a silent leader is replaced.
    pub(crate) lease_time: Duration,
    /// Must count the time in which this machine is suspended.
    pub(crate) clock: Arc<dyn Clock>,
    /// Lease for a next term.
    pub(crate) reserve: Mutex<Option<ReserveLease>>,
}

/// A lease without keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReserveLease {
    id: LeaseId,
    /// The clock before the last renewal.
    renewed: Duration,
}

/// The leader according to the store; both fields are empty if nobody is known to lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaderInfo {
    pub(crate) address: String,
    pub(crate) term: u64,
}

/// The right to lead for one term, until it expires.
#[derive(Clone)]
pub(crate) struct LeaderLease(Arc<Inner>);

struct Inner {
    /// Revision of the key; `None` where nobody else can write to the store.
    term: Option<u64>,
    id: LeaseId,
    /// Nobody else can lead before this time of the clock.
    until: Mutex<Duration>,
    clock: Arc<dyn Clock>,
}

impl LeaderLease {
    /// The lease of a TIC that has its store to itself; it never expires.
    pub(crate) fn sole() -> Self {
        let (until, clock) = (Mutex::default(), Arc::new(BootClock));
        Self(Arc::new(Inner { term: None, id: LeaseId(0), until, clock }))
    }

    /// Returns whether nobody else can lead at this moment.
    pub(crate) fn holds(&self) -> bool {
        self.0.term.is_none() || self.0.clock.now() < self.until()
    }

    /// The number of the term; 0 for a TIC that has its store to itself.
    pub(crate) fn term(&self) -> u64 {
        self.0.term.unwrap_or(0)
    }

    /// Adds the condition that this term is not over to a transaction.
    pub(crate) fn fence(&self, txn: Txn) -> Txn {
        match self.0.term {
            Some(term) => txn.when(LEADER, Expected::ModRevision(term)),
            None => txn,
        }
    }

    fn until(&self) -> Duration {
        *self.0.until.lock()
    }

    fn extend(&self, until: Duration) {
        *self.0.until.lock() = until;
    }
}

impl Candidate {
    /// Waits until nobody leads, then takes the lead.
    ///
    /// - `on_leader`: called with every other leader that is found, and with an empty one when the
    ///   store has not answered for as long as a lease lasts: then nobody leads.
    pub(crate) async fn campaign(&self, mut on_leader: impl FnMut(LeaderInfo)) -> LeaderLease {
        let mut confirmed = self.clock.now();
        loop {
            match self.try_once(&mut on_leader).await {
                Ok(Some(lease)) => return lease,
                Ok(None) => confirmed = self.clock.now(),
                Err(error) => {
                    TIC_STORE_FAILURES.inc();
                    tracing::debug!(error = chain(&error), "election failed, trying again");
                    // The lease of the leader that was found last is over.
                    if self.clock.now().saturating_sub(confirmed) >= self.lease_time {
                        on_leader(LeaderInfo::default());
                    }
                    sleep(POLL).await;
                }
            }
        }
    }

    /// Reads the leader's key; waits for the store no longer than a lease lasts.
    async fn read_leader(&self) -> Result<Snapshot, StoreError> {
        match timeout(self.lease_time, self.store.range(LEADER)).await {
            Ok(read) => read,
            Err(elapsed) => Err(StoreError::Unavailable { source: Arc::new(elapsed) }),
        }
    }

    async fn try_once(
        &self,
        on_leader: &mut impl FnMut(LeaderInfo),
    ) -> Result<Option<LeaderLease>, StoreError> {
        let found = self.read_leader().await?;
        if let Some(entry) = found.entries.into_iter().find(|entry| entry.key == LEADER) {
            let address = String::from_utf8_lossy(&entry.value).into_owned();
            on_leader(LeaderInfo { address, term: entry.mod_revision });
            tokio::join!(self.changed(found.revision + 1), self.keep_reserve());
            return Ok(None);
        }
        self.take_lead().await
    }

    /// Takes the lead, unless another TIC is faster.
    async fn take_lead(&self) -> Result<Option<LeaderLease>, StoreError> {
        let ReserveLease { id: lease, renewed: asked } = self.take_lease().await?;
        // In a store without space only a leader can free some.
        let write = Txn::new().essential().when(LEADER, Expected::Absent);
        let write = write.put_leased(LEADER, self.address.as_str(), lease);
        match self.store.txn(write).await {
            Ok(TxnOutcome::Committed { revision }) => {
                let until = Mutex::new(asked + self.safe_lease());
                let (term, clock) = (Some(revision), Arc::clone(&self.clock));
                Ok(Some(LeaderLease(Arc::new(Inner { term, id: lease, until, clock }))))
            }
            Ok(TxnOutcome::Conflict { .. }) => {
                // The store may have no space for another one when the faster TIC dies, too.
                *self.reserve.lock() = Some(ReserveLease { id: lease, renewed: asked });
                Ok(None)
            }
            Err(error) => {
                // If it was written after all, it goes with its lease.
                self.revoke(lease).await;
                Err(error)
            }
        }
    }

    /// Returns a lease that has just been renewed or granted.
    async fn take_lease(&self) -> Result<ReserveLease, StoreError> {
        let reserve = self.reserve.lock().take();
        if let Some(ReserveLease { id, .. }) = reserve {
            let renewed = self.clock.now();
            match self.store.keep_alive(id).await {
                Ok(()) => return Ok(ReserveLease { id, renewed }),
                Err(StoreError::LeaseNotFound { .. }) => {}
                Err(error) => {
                    *self.reserve.lock() = reserve;
                    return Err(error);
                }
            }
        }
        self.grant().await
    }

    async fn grant(&self) -> Result<ReserveLease, StoreError> {
        let renewed = self.clock.now();
        let id = self.store.grant_lease(self.lease_time).await?;
        Ok(ReserveLease { id, renewed })
    }

    /// Asks for a lease in reserve, or renews it when it is due; waits at most [`POLL`].
    async fn keep_reserve(&self) {
        let held = *self.reserve.lock();
        let now = self.clock.now();
        let pause = self.lease_time / RENEWALS;
        if held.is_some_and(|held| now < held.renewed + pause) {
            return;
        }
        match timeout(POLL, self.take_lease()).await {
            Ok(Ok(lease)) => *self.reserve.lock() = Some(lease),
            Ok(Err(error)) => tracing::debug!(error = chain(&error), "no lease in reserve"),
            // It was taken, and may have been renewed.
            Err(_elapsed) => *self.reserve.lock() = held,
        }
    }

    /// Waits for a change of the key, at most [`POLL`].
    async fn changed(&self, from: u64) {
        let watched = async {
            match self.store.watch(LEADER, from).await {
                Ok(mut watch) => watch.next().await.map(drop),
                Err(error) => Err(error),
            }
        };
        if let Ok(Err(error)) = timeout(POLL, watched).await {
            tracing::debug!(error = chain(&error), "watch of the leader failed");
            sleep(POLL / 2).await;
        }
    }

    /// The part of a lease that is relied on: less than the store grants.
    fn safe_lease(&self) -> Duration {
        self.lease_time - self.lease_time / 10
    }

    /// Renews a lease; returns when another TIC may lead.
    pub(crate) async fn keep(&self, lease: &LeaderLease) {
        let pause = self.lease_time / RENEWALS;
        loop {
            let asked = self.clock.now();
            // A later renewal would be of no use.
            match timeout(self.lease_time / 2, self.store.keep_alive(lease.0.id)).await {
                Ok(Ok(())) => lease.extend(asked + self.safe_lease()),
                Ok(Err(StoreError::LeaseNotFound { .. })) => {
                    lease.extend(asked);
                    return;
                }
                Ok(Err(error)) => {
                    TIC_STORE_FAILURES.inc();
                    tracing::warn!(error = chain(&error), "leadership not renewed");
                }
                Err(_elapsed) => {
                    TIC_STORE_FAILURES.inc();
                    tracing::warn!("leadership not renewed, the store does not answer")
                }
            }
            if !lease.holds() {
                return;
            }
            sleep((asked + pause).min(lease.until()).saturating_sub(self.clock.now())).await;
        }
    }

    /// Ends a term at once, so that another TIC can lead, and keeps its lease in reserve: it is the
    /// only one while the store has no space. If the store does not answer, the lease expires
    /// there.
    pub(crate) async fn step_down(&self, lease: &LeaderLease) {
        let renewed = lease.until().saturating_sub(self.safe_lease());
        lease.extend(self.clock.now());
        let delete = lease.fence(Txn::new().delete(LEADER));
        let failed = match timeout(self.lease_time / 2, self.store.txn(delete)).await {
            // If this term was over before, the key is not on this lease any more.
            Ok(Ok(TxnOutcome::Committed { .. } | TxnOutcome::Conflict { .. })) => {
                *self.reserve.lock() = Some(ReserveLease { id: lease.0.id, renewed });
                return;
            }
            Ok(Err(error)) => error,
            Err(elapsed) => StoreError::Unavailable { source: Arc::new(elapsed) },
        };
        tracing::debug!(error = chain(&failed), "key of the leader not deleted");
        self.revoke(lease.0.id).await;
    }

    /// Ends a term as [`Self::step_down`] does, and the lease, for a TIC that ends. If the store
    /// does not answer, the lease expires there.
    pub(crate) async fn resign(&self, lease: &LeaderLease) {
        lease.extend(self.clock.now());
        self.revoke(lease.0.id).await;
    }

    async fn revoke(&self, lease: LeaseId) {
        match timeout(self.lease_time / 2, self.store.revoke(lease)).await {
            Ok(Ok(())) | Ok(Err(StoreError::LeaseNotFound { .. })) => {}
            Ok(Err(error)) => tracing::debug!(error = chain(&error), "lease not revoked"),
            Err(_elapsed) => tracing::debug!("lease not revoked, the store does not answer"),
        }
    }
}

impl std::fmt::Debug for LeaderLease {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LeaderLease").field("term", &self.0.term).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Candidate")
            .field("address", &self.address)
            .field("lease_time", &self.lease_time)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use fabricast_store::{EmbeddedStore, ManualClock, Options};

    use super::*;

    fn candidate(store: &Arc<dyn Store>, address: &str) -> Candidate {
        timed(store, address, &Arc::default())
    }

    fn timed(store: &Arc<dyn Store>, address: &str, clock: &Arc<ManualClock>) -> Candidate {
        let clock = Arc::<ManualClock>::clone(clock);
        let (store, address) = (Arc::clone(store), address.to_owned());
        let (lease_time, reserve) = (Duration::from_secs(60), Mutex::default());
        Candidate { store, address, lease_time, clock, reserve }
    }

    #[tokio::test]
    async fn one_tic_leads_and_the_next_follows_when_it_resigns() {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().unwrap());
        let (one, two) = (candidate(&store, "one:1"), candidate(&store, "two:1"));
        let first = one.campaign(|_| panic!("nobody led before")).await;
        assert!(first.holds());
        let (sender, mut receiver) = tokio::sync::watch::channel(LeaderInfo::default());
        let waiting =
            tokio::spawn(async move { two.campaign(|news| drop(sender.send(news))).await });
        receiver.changed().await.unwrap();
        let leads = LeaderInfo { address: "one:1".to_owned(), term: first.term() };
        assert_eq!(*receiver.borrow(), leads);
        one.resign(&first).await;
        let second = waiting.await.unwrap();
        assert!(second.term() > first.term() && second.holds() && !first.holds());
    }

    /// A store without space grants none.
    #[tokio::test]
    async fn a_candidate_has_its_lease_before_the_leader_ends() {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().unwrap());
        let (one, two) = (candidate(&store, "one:1"), candidate(&store, "two:1"));
        let first = one.campaign(|_| {}).await;
        assert!(two.try_once(&mut |_| {}).await.unwrap().is_none());
        let reserve = two.reserve.lock().unwrap().id;
        assert!(two.try_once(&mut |_| {}).await.unwrap().is_none());
        assert_eq!(two.reserve.lock().unwrap().id, reserve, "it is kept");
        one.resign(&first).await;
        let second = two.try_once(&mut |_| {}).await.unwrap().unwrap();
        assert_eq!(second.0.id, reserve);
        assert!(two.reserve.lock().is_none(), "it serves one term");
        // One that has expired is no hindrance.
        *one.reserve.lock() = Some(ReserveLease { id: LeaseId(7), renewed: Duration::ZERO });
        two.resign(&second).await;
        assert!(one.try_once(&mut |_| {}).await.unwrap().is_some());
    }

    /// It follows the leader that was faster, also if the store grants no lease any more.
    #[tokio::test]
    async fn a_candidate_that_comes_second_keeps_its_lease() {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().unwrap());
        let (one, two) = (candidate(&store, "one:1"), candidate(&store, "two:1"));
        // Both have seen that nobody leads.
        let first = one.take_lead().await.unwrap().unwrap();
        assert!(two.take_lead().await.unwrap().is_none());
        let reserve = two.reserve.lock().unwrap().id;
        one.resign(&first).await;
        let second = two.take_lead().await.unwrap().unwrap();
        assert_eq!(second.0.id, reserve);
    }

    /// It can lead once more, also if the store grants no lease any more.
    #[tokio::test]
    async fn a_leader_that_steps_down_leaves_the_lead_to_others_and_keeps_its_lease() {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().unwrap());
        let (one, two) = (candidate(&store, "one:1"), candidate(&store, "two:1"));
        let first = one.campaign(|_| {}).await;
        one.step_down(&first).await;
        assert!(!first.holds());
        let second = two.take_lead().await.unwrap().unwrap();
        assert!(one.try_once(&mut |_| {}).await.unwrap().is_none());
        two.step_down(&second).await;
        let third = one.take_lead().await.unwrap().unwrap();
        assert_eq!(third.0.id, first.0.id);
        assert!(third.term() > second.term() && third.holds());
        // The term of another one is not ended by that.
        two.step_down(&second).await;
        assert!(two.try_once(&mut |_| {}).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_leader_that_wakes_up_after_its_lease_answers_nobody_until_it_is_renewed() {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().unwrap());
        let clock = Arc::default();
        let one = timed(&store, "one:1", &clock);
        let lease = one.campaign(|_| {}).await;
        clock.advance(Duration::from_secs(53));
        assert!(lease.holds());
        // The machine is suspended: the clock goes on, and no task runs.
        clock.advance(Duration::from_secs(1));
        assert!(!lease.holds(), "a tenth of the lease is left to other clocks");
        let renewing = timeout(Duration::from_secs(60), one.keep(&lease));
        tokio::select! {
            ended = renewing => panic!("{ended:?}"),
            () = async { while !lease.holds() { tokio::task::yield_now().await } } => {}
        }
    }

    #[tokio::test]
    async fn writes_of_a_deposed_leader_are_refused() {
        let clock = Arc::new(ManualClock::default());
        let turning = Arc::<ManualClock>::clone(&clock);
        let embedded = EmbeddedStore::in_memory_with(Options::default(), turning);
        let embedded = Arc::new(embedded.unwrap());
        let store: Arc<dyn Store> = Arc::<EmbeddedStore>::clone(&embedded);
        let (one, two) = (candidate(&store, "one:1"), candidate(&store, "two:1"));
        let first = one.campaign(|_| {}).await;
        let write = |lease: &LeaderLease| store.txn(lease.fence(Txn::new().put("x", "1")));
        assert!(matches!(write(&first).await, Ok(TxnOutcome::Committed { .. })));
        clock.advance(Duration::from_secs(61));
        embedded.sweep().await.unwrap();
        let second = two.campaign(|_| {}).await;
        let late = TxnOutcome::Conflict { key: LEADER.to_vec() };
        assert_eq!(write(&first).await.unwrap(), late);
        assert!(matches!(write(&second).await, Ok(TxnOutcome::Committed { .. })));
        // It learns that when it renews.
        assert!(first.holds(), "its own clock has not moved");
        one.keep(&first).await;
        assert!(!first.holds());
    }
}
