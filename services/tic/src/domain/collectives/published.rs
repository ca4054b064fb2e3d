//! The committed collectives, for readers and for watchers of the trees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_collectives::ReservationId;
use fabricast_proto::v1;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::domain::elements::ElementKey;

/// One committed state.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// Grows with every change, across restarts.
    pub(crate) revision: u64,
    pub(crate) collectives: BTreeMap<String, Arc<v1::Collective>>,
    pub(crate) reservations: BTreeSet<ReservationId>,
    /// The failed parts that the trees take into account.
    pub(crate) failed: BTreeSet<ElementKey>,
}

impl Published {
    /// The trees, by number.
    pub(crate) fn trees(&self) -> BTreeMap<u32, &v1::AggregationTree> {
        let both = self.collectives.values().flat_map(|one| {
            let v1::Collective { switch_tree, adapter_tree, .. } = &**one;
            switch_tree.iter().chain(adapter_tree)
        });
        both.map(|tree| (tree.tree, tree)).collect()
    }
}

/// The newest report of the route service on the trees.
#[derive(Clone, Debug, Default)]
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
    /// By tree: the first revision that it was published at.
    since: Mutex<BTreeMap<u32, u64>>,
    closed: CancellationToken,
}

impl Default for Publisher {
    fn default() -> Self {
        Self {
            newest: watch::Sender::new(Arc::default()),
            programmed: Mutex::default(),
            since: Mutex::default(),
            closed: CancellationToken::new(),
        }
    }
}

impl Publisher {
    /// Replaces the published state.
    pub(crate) fn publish(&self, published: Published) {
        let mut since = self.since.lock();
        let trees = published.trees();
        since.retain(|tree, _| trees.contains_key(tree));
        for tree in trees.into_keys() {
            since.entry(tree).or_insert(published.revision);
        }
        drop(since);
        self.newest.send_replace(Arc::new(published));
    }

    /// The newest state.
    pub(crate) fn newest(&self) -> Arc<Published> {
        Arc::clone(&self.newest.borrow())
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
        let missing = missing.into_iter().collect();
        *self.programmed.lock() = Programmed { revision, missing };
        Ok(())
    }

    /// Adds to a collective whether switches and adapters hold its trees.
    pub(crate) fn with_state(&self, collective: &v1::Collective) -> v1::Collective {
        let known = self.programmed.lock();
        let since = self.since.lock();
        let held = |tree: &v1::AggregationTree| {
            let published = since.get(&tree.tree);
            published.is_some_and(|since| *since <= known.revision)
                && !known.missing.contains(&tree.tree)
        };
        let mut trees = collective.switch_tree.iter().chain(&collective.adapter_tree).peekable();
        let programmed = trees.peek().is_some() && trees.all(held);
        v1::Collective { programmed, ..collective.clone() }
    }
}
