//! The records as the writer has them: ahead of the store by the batch that it is deciding.

use std::mem::take;
use std::sync::Arc;

use fabricast_groups::command::Command;
use fabricast_groups::directory::{Directory, NewGroup};
use fabricast_groups::record::Change;
use fabricast_store::StoreError;

use crate::clock::wall_clock;
use crate::domain::collectives::CollectiveAllocations;
use crate::domain::mgids::MgidAllocations;
use crate::domain::route_terms::RouteTerms;
use crate::domain::shares::JobShares;
use crate::domain::topology::TopologySnapshot;
use crate::liveness::inbox::LivenessInbox;
use crate::records::Records;
use crate::records::keys::{self, Puts};
use crate::records::storage::Loaded;
use crate::writer::directory::{Decided, DirectoryRequest, decide};
use crate::writer::error::WriteError;
use crate::writer::goes_on_without_space;

/// Everything that the writer decides on.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) directory: Directory,
    /// Undo the batch in the directory and the shares, applied backwards.
    pub(crate) inverses: Vec<Change>,
    pub(crate) mgids: MgidAllocations,
    pub(crate) shares: JobShares,
    pub(crate) collectives: CollectiveAllocations,
    pub(crate) route_terms: RouteTerms,
    /// A new topology that is being written, or is durable: nothing more is decided on the old one.
    pub(crate) next_topology: Option<TopologySnapshot>,
    /// The committed records.
    pub(crate) records: Arc<Records>,
    pub(crate) liveness: Arc<LivenessInbox>,
    /// The store has space, as far as is known: only then a change may need some. Before the first
    /// decision of a term it is asked.
    pub(crate) has_space: bool,
}

/// The writes of one batch.
#[derive(Debug, Default)]
pub(crate) struct BatchWrites {
    pub(crate) puts: Puts,
    /// Those of them that change the directory, in order.
    pub(crate) changes: Vec<Change>,
}

impl WriterState {
    /// Decides a change of the directory and applies it.
    pub(crate) fn decide<R: DirectoryRequest>(
        &mut self,
        request: R,
        writes: &mut BatchWrites,
    ) -> Result<Decided<R::Answer>, WriteError> {
        let Self { directory, inverses, mgids, shares, collectives, .. } = self;
        let choose_trees = |command: &mut Command| collectives.choose_trees(command);
        let choose_mgid = &mut |group: &NewGroup<'_>| mgids.choose(group);
        let decision = decide(directory, wall_clock(), request, choose_trees, choose_mgid);
        let decision = decision.inspect_err(|_| mgids.refused())?;
        if !self.has_space {
            let changes = decision.changes.iter();
            let puts = changes.map(|change| (keys::record(change), change.encode())).collect();
            if !goes_on_without_space(&decision.changes, &puts, directory) {
                mgids.refused();
                return Err(WriteError::StoreLimit(StoreError::NoSpace));
            }
        }
        mgids.applied(&decision.changes);
        for change in &decision.changes {
            inverses.extend(directory.inverse(change));
            directory.apply(change);
            shares.applied(change);
            collectives.applied(change, &mut writes.puts);
            writes.puts.insert(keys::record(change), change.encode());
        }
        writes.changes.extend(decision.changes);
        Ok(Decided { answer: decision.answer, revision: decision.revision })
    }

    /// Refuses a request that adds records, before it is decided, while the store is known to have
    /// no space, so that no time is spent on deciding and undoing it.
    ///
    /// # Errors
    ///
    /// [`WriteError::StoreLimit`].
    pub(crate) fn check_space(&self) -> Result<(), WriteError> {
        if self.has_space { Ok(()) } else { Err(WriteError::StoreLimit(StoreError::NoSpace)) }
    }

    /// The same of writes beside the directory's, unless the store takes them also without space.
    ///
    /// # Errors
    ///
    /// [`WriteError::StoreLimit`].
    pub(crate) fn check_space_for(&self, puts: &Puts) -> Result<(), WriteError> {
        if goes_on_without_space(&[], puts, &self.directory) { Ok(()) } else { self.check_space() }
    }

    /// Notes that the batch is durable.
    pub(crate) fn committed(&mut self) {
        self.inverses = Vec::new();
        self.mgids.committed();
        self.route_terms.committed();
        self.collectives.committed();
    }

    /// Undoes the batch, which the store refused, at the cost of what it has changed.
    pub(crate) fn roll_back(&mut self) {
        for inverse in take(&mut self.inverses).iter().rev() {
            self.directory.apply(inverse);
            self.shares.applied(inverse);
        }
        self.mgids.roll_back();
        self.collectives.roll_back();
        self.route_terms.roll_back();
        let counts = |records: &Directory| {
            let members = records.membership_count();
            (records.revision(), records.node_counts(), records.group_count(), members)
        };
        debug_assert_eq!(counts(&self.directory), self.records.read(counts), "all is undone");
    }

    /// Starts again from what the store holds.
    pub(crate) fn start_over(&mut self, loaded: Loaded) {
        let Loaded { directory, route_term, collectives, .. } = loaded;
        self.inverses = Vec::new();
        self.mgids.start_over(&directory);
        self.shares.start_over(&directory);
        self.collectives.start_over(collectives);
        self.route_terms.start_over(route_term);
        self.directory = directory;
    }
}

#[cfg(test)]
mod tests;
