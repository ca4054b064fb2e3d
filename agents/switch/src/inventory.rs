//! The switches of the agent, and the newest term seen: copies of what the hardware knows.
//!
//! The switches are listed again whenever a name is missing or the fabric came back. The term is
//! read back from the hardware before the first write after a start, and from every switch that is
//! listed for the first time. So a restarted agent refuses what its predecessor refused (G4), even
//! at a switch that the newer route service had not written yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fabricast_proto::v1;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::timeout;
use tokio_stream::StreamExt;

use crate::driver::{Driver, DriverError};

/// Terms above the newest one known that are taken while the TIC does not answer. Without them no
/// new route service could program while an agent is cut off from the TIC; with any number of them
/// one wrong term would shut out every later one.
const UNCONFIRMED_TERMS: u64 = 64;
/// Time for the TIC to say which terms it has granted.
const GRANT_TIMEOUT: Duration = Duration::from_secs(1);

/// Switches of one agent by node id.
pub(crate) type Switches = Arc<BTreeMap<String, v1::Switch>>;

/// A driver with the copies.
#[derive(Debug)]
pub(crate) struct Inventory {
    driver: Arc<dyn Driver>,
    only: BTreeSet<String>,
    known: Mutex<Option<Switches>>,
    newest_term: AtomicU64,
    learned: Mutex<Learned>,
    granted: Option<Arc<GrantedTerms>>,
}

/// Switches whose terms count in [`Inventory::newest_term`].
#[derive(Debug, Default)]
struct Learned {
    /// The list that was looked at last.
    listed: Switches,
    /// Those of it whose tables have been read.
    read: BTreeSet<String>,
}

/// The newest term that the TIC has granted, as its last answer said.
#[derive(Debug, Default)]
pub(crate) struct GrantedTerms {
    /// `None` until the TIC has answered.
    newest: watch::Sender<Option<u64>>,
    asked: Notify,
}

impl GrantedTerms {
    /// Takes an answer of the TIC; 0 if it has granted none, or is too old to say.
    pub(crate) fn answered(&self, newest: u64) {
        self.newest.send_replace((newest > 0).then_some(newest));
    }

    /// Waits until a writer needs an answer of the TIC.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// The newest granted term if the last answer says so, or else the TIC's answer to a question;
    /// `None` if it does not answer.
    async fn at_least(&self, term: u64) -> Option<u64> {
        let mut answers = self.newest.subscribe();
        let known = *answers.borrow_and_update();
        if known.is_some_and(|known| known >= term) {
            return known;
        }
        self.asked.notify_one();
        timeout(GRANT_TIMEOUT, answers.changed()).await.ok()?.ok()?;
        *answers.borrow()
    }
}

impl Inventory {
    /// Starts empty.
    ///
    /// - `only`: node ids of the switches to serve; empty means all.
    /// - `granted`: answers of the TIC; `None` if nobody asks it.
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        only: BTreeSet<String>,
        granted: Option<Arc<GrantedTerms>>,
    ) -> Self {
        Self {
            driver,
            only,
            known: Mutex::new(None),
            newest_term: AtomicU64::new(0),
            learned: Mutex::default(),
            granted,
        }
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// True if the agent serves only some switches of the fabric.
    pub(crate) fn is_limited(&self) -> bool {
        !self.only.is_empty()
    }

    /// Lists the switches of the hardware anew.
    pub(crate) async fn discover(&self) -> Result<Switches, DriverError> {
        let mut known = self.known.lock().await;
        self.discover_into(&mut known).await
    }

    /// Returns the switches; lists them anew if one of `wanted` is not known.
    pub(crate) async fn switches<'a>(
        &self,
        mut wanted: impl Iterator<Item = &'a str>,
    ) -> Result<Switches, DriverError> {
        let mut known = self.known.lock().await;
        match &*known {
            Some(switches) if wanted.all(|name| switches.contains_key(name)) => {
                Ok(Arc::clone(switches))
            }
            _ => self.discover_into(&mut known).await,
        }
    }

    /// Forgets the switches; the fabric may have changed.
    pub(crate) async fn forget(&self) {
        *self.known.lock().await = None;
    }

    async fn discover_into(&self, known: &mut Option<Switches>) -> Result<Switches, DriverError> {
        let listed = self.driver.list_switches().await?;
        let ours = |switch: &v1::Switch| self.only.is_empty() || self.only.contains(&switch.name);
        let switches: BTreeMap<_, _> =
            listed.into_iter().filter(ours).map(|switch| (switch.name.clone(), switch)).collect();
        for missing in self.only.iter().filter(|name| !switches.contains_key(*name)) {
            tracing::warn!(switch = %missing, "configured switch is not in the fabric");
        }
        let switches = Arc::new(switches);
        *known = Some(Arc::clone(&switches));
        Ok(switches)
    }

    /// Refuses a writer whose term is older than the newest one seen, or that the TIC cannot have
    /// granted. Terms of switches that are new here are first read back from the hardware.
    pub(crate) async fn check_fence(&self, fence: &v1::Fence) -> Result<(), DriverError> {
        self.learn_terms().await?;
        let v1::Fence { term, generation } = *fence;
        if term == self.newest_term.load(Ordering::Acquire) {
            return Ok(());
        }
        let granted = match &self.granted {
            Some(granted) => granted.at_least(term).await,
            None => None,
        };
        let seen = self.newest_term.load(Ordering::Acquire); // it may have grown meanwhile
        // The hardware may hold a term that was never granted.
        let newest = granted.map_or(seen, |granted| seen.min(granted));
        if term < newest {
            return Err(DriverError::StaleFence { term, generation });
        }
        let most = granted.unwrap_or_else(|| seen.saturating_add(UNCONFIRMED_TERMS));
        if term > most {
            return Err(DriverError::TermNotGranted { term, most });
        }
        if newest < seen {
            tracing::warn!(seen, newest, "switches hold a term that the TIC has not granted");
            self.newest_term.store(newest, Ordering::Release);
        }
        Ok(())
    }

    /// Notes the term of a writer.
    pub(crate) fn note_term(&self, term: u64) {
        self.newest_term.fetch_max(term, Ordering::AcqRel);
    }

    async fn learn_terms(&self) -> Result<(), DriverError> {
        let mut switches = self.switches(std::iter::empty()).await?;
        if switches.is_empty() {
            switches = self.discover().await?; // an agent may start before its switches
        }
        let mut learned = self.learned.lock().await;
        if Arc::ptr_eq(&learned.listed, &switches) {
            return Ok(());
        }
        learned.read.retain(|name| switches.contains_key(name));
        let is_new = |name: &&String| !learned.read.contains(*name);
        let names: Vec<_> = switches.keys().filter(is_new).cloned().collect();
        if !names.is_empty() {
            let mut tables = self.driver.read_tables(names).await?;
            while let Some(table) = tables.next().await {
                let table = table?;
                self.note_term(table.fence.map_or(0, |fence| fence.term));
                learned.read.insert(table.switch_name);
            }
        }
        learned.listed = switches;
        Ok(())
    }
}
