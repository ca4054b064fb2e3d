//! What the agent remembers of its switches: which there are, and the newest term seen.
//!
//! Both are copies. The switches are asked again whenever a name is missing or the fabric came
//! back; the term is read back from the hardware before the first write of an agent's life, so
//! that a restarted agent refuses what its predecessor refused (G4), even at a switch that the
//! newer route service had not written yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_proto::v1;
use tokio::sync::{Mutex, OnceCell};
use tokio_stream::StreamExt;

use crate::driver::{Driver, DriverError};

/// The switches of one agent by node id.
pub(crate) type Switches = Arc<BTreeMap<String, v1::Switch>>;

/// Discovery and memory over a driver.
#[derive(Debug)]
pub(crate) struct Inventory {
    driver: Arc<dyn Driver>,
    only: BTreeSet<String>,
    known: Mutex<Option<Switches>>,
    newest_term: AtomicU64,
    term_learned: OnceCell<()>,
}

impl Inventory {
    /// Starts empty; `only` limits the agent to some switches, empty means all.
    pub(crate) fn new(driver: Arc<dyn Driver>, only: BTreeSet<String>) -> Self {
        Self {
            driver,
            only,
            known: Mutex::new(None),
            newest_term: AtomicU64::new(0),
            term_learned: OnceCell::new(),
        }
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// Tells whether the agent has some switches of the fabric and not all.
    pub(crate) fn is_limited(&self) -> bool {
        !self.only.is_empty()
    }

    /// Asks the hardware.
    pub(crate) async fn discover(&self) -> Result<Switches, DriverError> {
        let mut known = self.known.lock().await;
        self.discover_into(&mut known).await
    }

    /// Gives the switches, from memory if all of `wanted` are there.
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

    /// Forgets the switches, as the fabric may be another one now.
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

    /// Gives the newest term seen, reading it back from the hardware the first time.
    pub(crate) async fn newest_term(&self) -> Result<u64, DriverError> {
        self.term_learned.get_or_try_init(|| self.learn_term()).await?;
        Ok(self.newest_term.load(Ordering::Acquire))
    }

    /// Remembers the term of a writer.
    pub(crate) fn note_term(&self, term: u64) {
        self.newest_term.fetch_max(term, Ordering::AcqRel);
    }

    async fn learn_term(&self) -> Result<(), DriverError> {
        let names: Vec<_> = self.switches(std::iter::empty()).await?.keys().cloned().collect();
        if names.is_empty() {
            return Ok(());
        }
        let mut tables = self.driver.read_tables(names).await?;
        while let Some(table) = tables.next().await {
            self.note_term(table?.fence.map_or(0, |fence| fence.term));
        }
        Ok(())
    }
}
