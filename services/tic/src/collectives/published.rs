//! The collectives as committed, for readers and for those who watch the trees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use fabricast_proto::v1;
use fabricast_rpc::Reason;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::elements::ElementKey;

/// Everything that is committed.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// Grows with every change, across restarts.
    pub(crate) revision: u64,
    /// By name.
    pub(crate) collectives: BTreeMap<String, Arc<v1::Collective>>,
    /// What has failed as far as the trees know.
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

/// What the route service has said of the trees.
#[derive(Clone, Debug, Default)]
struct Programmed {
    term: u64,
    revision: u64,
    missing: BTreeSet<u32>,
}

/// Where the committed collectives are shown.
#[derive(Debug)]
pub(crate) struct Publisher {
    newest: watch::Sender<Arc<Published>>,
    programmed: Mutex<Programmed>,
    /// By tree: the first revision it was shown at.
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
    /// Shows another state.
    pub(crate) fn publish(&self, published: Published) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Ends all watches, as the part stops.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Ends when [`Publisher::close`] is called.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Takes over what the route service says.
    pub(crate) fn programmed(
        &self,
        term: u64,
        revision: u64,
        missing: Vec<u32>,
    ) -> Result<(), Status> {
        let mut known = self.programmed.lock().unwrap_or_else(PoisonError::into_inner);
        if term < known.term {
            let message = format!("term: {term} is not the newest, {}", known.term);
            return Err(Reason::StaleTerm.status(message, &[("term", &known.term.to_string())]));
        }
        *known = Programmed { term, revision, missing: missing.into_iter().collect() };
        Ok(())
    }

    /// A collective with the newest word on whether its trees are held.
    pub(crate) fn with_state(&self, collective: &v1::Collective) -> v1::Collective {
        let known = self.programmed.lock().unwrap_or_else(PoisonError::into_inner);
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let held = |tree: &v1::AggregationTree| {
            let shown = since.get(&tree.tree);
            shown.is_some_and(|since| *since <= known.revision)
                && !known.missing.contains(&tree.tree)
        };
        let mut trees = collective.switch_tree.iter().chain(&collective.adapter_tree).peekable();
        let programmed = trees.peek().is_some() && trees.all(held);
        v1::Collective { programmed, ..collective.clone() }
    }
}
