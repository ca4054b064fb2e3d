//! Which of several TICs on one store leads.
//!
//! The leader is whoever has written the key [`LEADER`], on a lease that it keeps alive; its value is
//! the address that callers are told. The key is written once, so its revision is the number of the
//! *term of office*, and every write of the leader demands that the key still has it: a leader that
//! was deposed while it was frozen, or cut off, changes nothing, however late it wakes up.
//!
//! Reads are not written, so they need a clock: the leader counts its lease from before it asked for it
//! to be renewed, and leaves a tenth of it as a margin for clocks that run differently. After that time
//! another may lead, and it answers nobody, until a renewal comes through after all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fabricast_store::{Expected, LeaseId, Store, StoreError, Txn, TxnOutcome};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::unwritten::chain;

/// The key that the leader has.
pub(crate) const LEADER: &[u8] = b"election/tic";
/// A candidate looks at the key this often, beside watching it.
const LOOK: Duration = Duration::from_millis(500);
/// Renewals in the time of a lease.
const RENEWALS: u32 = 5;

/// One that leads or wants to.
pub(crate) struct Candidate {
    pub(crate) store: Arc<dyn Store>,
    /// What callers are told, `host:port`.
    pub(crate) address: String,
    /// How long a leader that is not heard of stays the leader.
    pub(crate) lease: Duration,
}

/// The leader as the store has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Incumbent {
    pub(crate) address: String,
    pub(crate) term: u64,
}

/// One term of office.
#[derive(Clone, Debug)]
pub(crate) struct Tenure(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Revision of the key; `None` where nobody else can write to the store.
    term: Option<u64>,
    lease: LeaseId,
    /// Until then nobody else can lead.
    until: Mutex<Instant>,
}

impl Tenure {
    /// The term of the only one that can write to a store.
    pub(crate) fn alone() -> Self {
        let until = Mutex::new(Instant::now());
        Self(Arc::new(Inner { term: None, lease: LeaseId(0), until }))
    }

    /// Whether nobody else can lead at this moment.
    pub(crate) fn holds(&self) -> bool {
        self.0.term.is_none() || Instant::now() < self.until()
    }

    /// The number of the term; 0 where there is one TIC only.
    pub(crate) fn term(&self) -> u64 {
        self.0.term.unwrap_or(0)
    }

    /// Adds to a transaction that this term must not be over.
    pub(crate) fn fence(&self, txn: Txn) -> Txn {
        match self.0.term {
            Some(term) => txn.when(LEADER, Expected::ModRevision(term)),
            None => txn,
        }
    }

    fn until(&self) -> Instant {
        *self.0.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extend(&self, until: Instant) {
        *self.0.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

impl Candidate {
    /// Waits until nobody leads, and leads.
    ///
    /// - `news`: is told whenever somebody else does.
    pub(crate) async fn campaign(&self, mut news: impl FnMut(Incumbent)) -> Tenure {
        loop {
            match self.try_once(&mut news).await {
                Ok(Some(tenure)) => return tenure,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(error = chain(&error), "election not possible");
                    sleep(LOOK).await;
                }
            }
        }
    }

    async fn try_once(
        &self,
        news: &mut impl FnMut(Incumbent),
    ) -> Result<Option<Tenure>, StoreError> {
        let found = self.store.range(LEADER).await?;
        if let Some(entry) = found.entries.into_iter().find(|entry| entry.key == LEADER) {
            let address = String::from_utf8_lossy(&entry.value).into_owned();
            news(Incumbent { address, term: entry.mod_revision });
            self.changed(found.revision + 1).await;
            return Ok(None);
        }
        let asked = Instant::now();
        let lease = self.store.grant_lease(self.lease).await?;
        let write = Txn::new().when(LEADER, Expected::Absent);
        let write = write.put_leased(LEADER, self.address.as_str(), lease);
        match self.store.txn(write).await {
            Ok(TxnOutcome::Committed { revision }) => {
                let until = Mutex::new(asked + self.safe_lease());
                Ok(Some(Tenure(Arc::new(Inner { term: Some(revision), lease, until }))))
            }
            Ok(TxnOutcome::Conflict { .. }) => {
                self.give_back(lease).await;
                Ok(None)
            }
            Err(error) => {
                // If it was written after all, it goes with its lease.
                self.give_back(lease).await;
                Err(error)
            }
        }
    }

    /// Waits for a change of the key, or a while.
    async fn changed(&self, from: u64) {
        let watched = async {
            match self.store.watch(LEADER, from).await {
                Ok(mut watch) => watch.next().await.map(drop),
                Err(error) => Err(error),
            }
        };
        if let Ok(Err(error)) = timeout(LOOK, watched).await {
            tracing::debug!(error = chain(&error), "leader not watched");
            sleep(LOOK / 2).await;
        }
    }

    /// What a lease is good for here: less than the store thinks.
    fn safe_lease(&self) -> Duration {
        self.lease - self.lease / 10
    }

    /// Keeps a term alive; returns when another may lead.
    pub(crate) async fn keep(&self, tenure: &Tenure) {
        let pause = self.lease / RENEWALS;
        loop {
            let asked = Instant::now();
            // A renewal that comes through later than this is of no use.
            match timeout(self.lease / 2, self.store.keep_alive(tenure.0.lease)).await {
                Ok(Ok(())) => tenure.extend(asked + self.safe_lease()),
                Ok(Err(StoreError::LeaseNotFound { .. })) => {
                    tenure.extend(asked);
                    return;
                }
                Ok(Err(error)) => {
                    tracing::warn!(error = chain(&error), "leadership not renewed");
                }
                Err(_elapsed) => tracing::warn!("leadership not renewed, the store is silent"),
            }
            if !tenure.holds() {
                return;
            }
            sleep_until((asked + pause).min(tenure.until())).await;
        }
    }

    /// Ends a term at once, so that another can lead; if the store does not answer, it ends by itself.
    pub(crate) async fn resign(&self, tenure: &Tenure) {
        tenure.extend(Instant::now());
        self.give_back(tenure.0.lease).await;
    }

    async fn give_back(&self, lease: LeaseId) {
        match timeout(self.lease / 2, self.store.revoke(lease)).await {
            Ok(Ok(())) | Ok(Err(StoreError::LeaseNotFound { .. })) => {}
            Ok(Err(error)) => tracing::debug!(error = chain(&error), "lease not given back"),
            Err(_elapsed) => tracing::debug!("lease not given back, the store is silent"),
        }
    }
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Candidate")
            .field("address", &self.address)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use fabricast_store::{EmbeddedStore, ManualClock, Options};

    use super::*;

    fn candidate(store: &Arc<dyn Store>, address: &str) -> Candidate {
        let lease = Duration::from_secs(60);
        Candidate { store: Arc::clone(store), address: address.to_owned(), lease }
    }

    #[tokio::test]
    async fn one_leads_and_the_next_one_follows_when_it_resigns() {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().unwrap());
        let (one, two) = (candidate(&store, "one:1"), candidate(&store, "two:1"));
        let first = one.campaign(|_| panic!("nobody led before")).await;
        assert!(first.holds());
        let (told, mut hears) = tokio::sync::watch::channel(Incumbent::default());
        let waiting = tokio::spawn(async move { two.campaign(|news| drop(told.send(news))).await });
        hears.changed().await.unwrap();
        let leads = Incumbent { address: "one:1".to_owned(), term: first.term() };
        assert_eq!(*hears.borrow(), leads);
        one.resign(&first).await;
        let second = waiting.await.unwrap();
        assert!(second.term() > first.term() && second.holds() && !first.holds());
    }

    #[tokio::test]
    async fn what_a_deposed_leader_writes_is_refused() {
        let clock = Arc::new(ManualClock::default());
        let turning = Arc::<ManualClock>::clone(&clock);
        let embedded = EmbeddedStore::in_memory_with(Options::default(), turning);
        let embedded = Arc::new(embedded.unwrap());
        let store: Arc<dyn Store> = Arc::<EmbeddedStore>::clone(&embedded);
        let (one, two) = (candidate(&store, "one:1"), candidate(&store, "two:1"));
        let first = one.campaign(|_| {}).await;
        let write = |tenure: &Tenure| store.txn(tenure.fence(Txn::new().put("x", "1")));
        assert!(matches!(write(&first).await, Ok(TxnOutcome::Committed { .. })));
        clock.advance(Duration::from_secs(61));
        embedded.sweep().await.unwrap();
        let second = two.campaign(|_| {}).await;
        let late = TxnOutcome::Conflict { key: LEADER.to_vec() };
        assert_eq!(write(&first).await.unwrap(), late);
        assert!(matches!(write(&second).await, Ok(TxnOutcome::Committed { .. })));
        // It is told so when it renews, and does not think that it leads until its clock says so.
        assert!(first.holds(), "its own clock has not moved");
        one.keep(&first).await;
        assert!(!first.holds());
    }
}
