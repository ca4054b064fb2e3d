//! The committed collectives, for readers and for watchers of the trees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_collectives::ReservationId;
use fabricast_proto::v1;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::wall_clock;
use crate::domain::collectives::snapshot::{CollectiveSnapshot, PublishedTree};
use crate::domain::elements::ElementKey;

/// Collectives by name.
pub(crate) type Snapshots = BTreeMap<Arc<str>, Arc<CollectiveSnapshot>>;

/// One committed state; states share what does not differ.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// Grows with every change, across restarts.
    pub(crate) revision: u64,
    pub(crate) collectives: Arc<Snapshots>,
    pub(crate) reservations: Arc<BTreeSet<ReservationId>>,
    /// The failed parts that all trees take into account.
    pub(crate) failed: Arc<BTreeSet<ElementKey>>,
}

impl Published {
    /// The collectives of the trees, by number of the tree.
    pub(crate) fn trees(&self) -> BTreeMap<u32, &Arc<CollectiveSnapshot>> {
        let of_each = self.collectives.values().flat_map(|collective| {
            collective.trees().iter().map(move |tree| (tree.number, collective))
        });
        of_each.collect()
    }
}

/// The newest report of the route service on the trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Programmed {
    revision: u64,
    missing: BTreeSet<u32>,
}

/// A report on trees that do not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("revision: {revision} is not known, the trees have {newest}")]
pub(crate) struct FutureTrees {
    pub(crate) revision: u64,
    pub(crate) newest: u64,
}

/// Publishes the committed collectives.
#[derive(Debug)]
pub(crate) struct Publisher {
    newest: watch::Sender<Arc<Published>>,
    programmed: Mutex<Programmed>,
    /// Grows after the published state has changed, and after a report.
    list_revision: AtomicU64,
    closed: CancellationToken,
}

impl Default for Publisher {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(Arc::default()),
            programmed: Mutex::default(),
            // Neither an earlier term nor another TIC has used it.
            list_revision: AtomicU64::new(wall_clock().0.max(1)),
            closed: CancellationToken::new(),
        }
    }
}

impl Publisher {
    /// Replaces the published state.
    pub(crate) fn publish(&self, published: Arc<Published>) {
        self.newest.send_replace(published);
        self.list_revision.fetch_add(1, Ordering::Release);
    }

    /// The newest state.
    pub(crate) fn newest(&self) -> Arc<Published> {
        Arc::clone(&self.newest.borrow())
    }

    /// Number of the list of collectives, never 0. A reader that reads it before the list gets
    /// another one once the list shows something else.
    pub(crate) fn list_revision(&self) -> u64 {
        self.list_revision.load(Ordering::Acquire)
    }

    /// Follows the states.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Published>> {
        self.newest.subscribe()
    }

    /// Ends all watches.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Cancelled when [`Publisher::close`] is called.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Takes a report of the route service that holds the newest term.
    pub(crate) fn programmed(&self, revision: u64, missing: Vec<u32>) -> Result<(), FutureTrees> {
        let newest = self.newest().revision;
        if revision > newest {
            return Err(FutureTrees { revision, newest });
        }
        let report = Programmed { revision, missing: missing.into_iter().collect() };
        let mut known = self.programmed.lock();
        if *known != report {
            *known = report;
            self.list_revision.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// The message of a collective, with whether switches and adapters hold its trees.
    pub(crate) fn whole(&self, collective: &CollectiveSnapshot) -> v1::Collective {
        let programmed = self.is_programmed(collective);
        v1::Collective { programmed, ..collective.whole().clone() }
    }

    /// The same without processes and trees.
    pub(crate) fn listed(&self, collective: &CollectiveSnapshot) -> v1::Collective {
        let programmed = self.is_programmed(collective);
        v1::Collective { programmed, ..collective.listed().clone() }
    }

    fn is_programmed(&self, collective: &CollectiveSnapshot) -> bool {
        let known = self.programmed.lock();
        let is_held = |tree: &PublishedTree| {
            tree.since <= known.revision && !known.missing.contains(&tree.number)
        };
        let trees = collective.trees();
        !trees.is_empty() && trees.iter().all(is_held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_another_revision_after_each_change_and_no_repeated_report() {
        let publisher = Publisher::default();
        let first = publisher.list_revision();
        assert!(first > 0);
        publisher.publish(Arc::new(Published { revision: 7, ..Published::default() }));
        let second = publisher.list_revision();
        assert_ne!(second, first);
        publisher.programmed(7, vec![1]).unwrap();
        let third = publisher.list_revision();
        assert_ne!(third, second);
        publisher.programmed(7, vec![1]).unwrap();
        assert_eq!(publisher.list_revision(), third);
        publisher.programmed(8, vec![]).unwrap_err();
        assert_eq!(publisher.list_revision(), third);
    }
}
