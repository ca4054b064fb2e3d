//! Collectives and their trees: what `fabricast_collectives` allocates, made durable.
//!
//! The allocations belong to the writer and run ahead of the store by the batch that is being
//! decided, as the directory does. Each allocation depends on the earlier ones, so every collective
//! is durable with its trees before anybody learns of it. Readers see the committed state.
//!
//! Invariants
//! - AGG-8: what switches are told to hold is durable; a tree's number is never used for another
//!   one.

pub(crate) mod error;
pub(crate) mod member_trees;
pub(crate) mod published;
pub(crate) mod request;
mod table;
pub(crate) mod text;
pub(crate) mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_collectives::{Fabric, ReservationId, Settings};
use fabricast_groups::command::Command;
use fabricast_groups::directory::Directory;
use fabricast_groups::record::Change;
use fabricast_proto::v1;
use fabricast_topology::Graph;

use crate::domain::collectives::error::CollectiveError;
use crate::domain::collectives::member_trees::{MeasuredConstants, MemberTrees};
use crate::domain::collectives::published::Publisher;
use crate::domain::collectives::request::{
    CreateCollective, JobEntries, RequestSwitchTree, ReserveEntries, SetQuota,
};
use crate::domain::collectives::table::CollectiveTable;
use crate::domain::collectives::table::requested::RequestedTree;
use crate::domain::collectives::text::{COLLECTIVE, LEDGER, MEASURED, Texts};
use crate::domain::elements::ElementKey;
use crate::records::keys::{COLLECTIVES, Puts};

/// The collectives as the writer has them.
#[derive(Debug)]
pub(crate) struct CollectiveAllocations {
    graph: Arc<Graph>,
    /// The fabric as it is without faults.
    fabric: Fabric,
    settings: Settings,
    /// Digest of the topology.
    topology: String,
    table: CollectiveTable,
    member_trees: MemberTrees,
    /// The texts in the store.
    durable: Texts,
    /// Changes of the texts by the batch.
    pending: BTreeMap<String, Option<Arc<str>>>,
    publisher: Arc<Publisher>,
}

/// Parts of [`CollectiveAllocations`].
#[derive(Debug)]
pub(crate) struct CollectiveParts {
    pub(crate) graph: Arc<Graph>,
    /// Limits of trees; the most children of an adapter include its own process.
    pub(crate) settings: Settings,
    /// Digest of the topology's text; trees of another topology are built anew.
    pub(crate) topology: String,
    /// The texts in the store.
    pub(crate) texts: Texts,
    pub(crate) publisher: Arc<Publisher>,
}

impl CollectiveAllocations {
    /// Starts with what the store holds, and publishes it.
    pub(crate) fn new(parts: CollectiveParts) -> Self {
        let CollectiveParts { graph, mut settings, topology, texts, publisher } = parts;
        let fabric = Fabric::detect(Arc::clone(&graph));
        settings.limits.adapter_children -= 1;
        let table = CollectiveTable::load(&fabric, &settings, &topology, &texts);
        let mut allocations = Self {
            graph,
            fabric,
            settings,
            topology,
            table,
            member_trees: MemberTrees::default(),
            durable: texts,
            pending: BTreeMap::new(),
            publisher,
        };
        allocations.reload_constants();
        allocations.publish();
        allocations
    }

    /// Starts again from what the store holds.
    pub(crate) fn start_over(&mut self, texts: Texts) {
        self.durable = texts;
        self.pending.clear();
        self.reload();
        self.publish();
    }

    /// Notes that the batch is durable, and publishes it.
    pub(crate) fn committed(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        for (key, text) in std::mem::take(&mut self.pending) {
            match text {
                Some(text) => drop(self.durable.insert(key, text)),
                None => drop(self.durable.remove(&key)),
            }
        }
        self.publish();
    }

    /// Undoes the batch, which the store refused.
    pub(crate) fn roll_back(&mut self) {
        if !self.pending.is_empty() {
            self.pending.clear();
            self.reload();
        }
    }

    /// Follows a change of the directory: releases the collectives of a group that has ended, and
    /// that which a member asked for when the members change (AGG-9).
    pub(crate) fn applied(&mut self, change: &Change, puts: &mut Puts) {
        match change {
            Change::GroupDeleted(gn) => {
                for name in self.table.of_group(gn.0) {
                    self.remove(&name, puts);
                }
            }
            Change::MemberPut(member) | Change::MemberDeleted(member) => {
                if let Some(name) = self.table.requested_of(member.gn).map(str::to_owned) {
                    self.remove(&name, puts);
                }
            }
            _ => {}
        }
    }

    /// Follows what has failed or been repaired since the last decision, where there are
    /// collectives at all.
    pub(crate) fn follow(&mut self, failed: &BTreeSet<ElementKey>, puts: &mut Puts) {
        let moved = self.table.follow(failed, &self.graph);
        if moved.is_none() && !self.table.is_rebuilt {
            return;
        }
        for name in moved.unwrap_or_default() {
            self.store(&name, puts);
        }
        self.store_ledger(puts);
    }

    /// Creates a collective, or returns the same one if it exists.
    ///
    /// # Errors
    ///
    /// [`CollectiveError`], here and below; nothing is changed then.
    pub(crate) fn create(
        &mut self,
        request: &CreateCollective,
        directory: &Directory,
        puts: &mut Puts,
    ) -> Result<v1::Collective, CollectiveError> {
        let graph = Arc::clone(&self.graph);
        if self.table.create(request, directory, &graph)? {
            self.store(&request.name, puts);
            self.store_ledger(puts);
        }
        let created = self.table.wire(&request.name, &graph);
        Ok(created.expect("a collective is in the table once it was created"))
    }

    /// Returns the collective with a switch tree of the present members of a group, for one of
    /// them; creates it if they have none.
    pub(crate) fn request_tree(
        &mut self,
        request: &RequestSwitchTree,
        directory: &Directory,
        puts: &mut Puts,
    ) -> Result<v1::Collective, CollectiveError> {
        let graph = Arc::clone(&self.graph);
        let RequestedTree { name, is_new } = self.table.request_tree(request, directory, &graph)?;
        if is_new {
            self.store(&name, puts);
            self.store_ledger(puts);
        }
        let found = self.table.wire(&name, &graph);
        Ok(found.expect("a collective is in the table once it was found or created"))
    }

    /// Releases a collective; returns whether it existed.
    pub(crate) fn release(&mut self, name: &str, puts: &mut Puts) -> bool {
        self.remove(name, puts)
    }

    /// The tenant that a collective belongs to.
    pub(crate) fn tenant_of(&self, name: &str) -> Option<&str> {
        self.table.tenant_of(name)
    }

    /// The tenant that entries are reserved for.
    pub(crate) fn holder_of(&self, id: ReservationId) -> Option<String> {
        self.table.holder_of(id)
    }

    /// Reserves entries for a tenant or a job.
    pub(crate) fn reserve(
        &mut self,
        request: ReserveEntries,
        puts: &mut Puts,
    ) -> Result<ReservationId, CollectiveError> {
        let graph = Arc::clone(&self.graph);
        let id = self.table.reserve(request, &graph)?;
        self.store_ledger(puts);
        Ok(id)
    }

    /// Reserves entries for a job whose endpoints are given by name.
    pub(crate) fn reserve_for_job(
        &mut self,
        request: JobEntries,
        puts: &mut Puts,
    ) -> Result<ReservationId, CollectiveError> {
        let JobEntries { holder, entries, endpoints: names } = request;
        // A node may have been in an earlier topology only, and one of its ports may be dead.
        let known = names.iter().filter_map(|name| self.graph.find_endpoint(name.as_str()));
        let fabric = self.table.fabric();
        let endpoints: Vec<_> = known.filter(|one| fabric.leaf_of(*one).is_some()).collect();
        if let Some(first) = names.first().filter(|_| endpoints.is_empty()) {
            let endpoint = first.to_string();
            return Err(CollectiveError::CutOff { field: "nodes", endpoint });
        }
        let left_out = names.len() - endpoints.len();
        if left_out > 0 {
            let (job, of) = (holder.job.as_deref(), names.len());
            let lack = "endpoints without a live leaf switch get no aggregation entries";
            tracing::warn!(job, left_out, of, "{lack}");
        }
        let request = ReserveEntries { holder, entries, endpoints };
        self.reserve(request, puts).map_err(CollectiveError::of_job)
    }

    /// Ends a reservation; returns whether it existed.
    pub(crate) fn cancel(&mut self, id: ReservationId, puts: &mut Puts) -> bool {
        let cancelled = self.table.cancel(id);
        if cancelled {
            self.store_ledger(puts);
        }
        cancelled
    }

    /// Limits a tenant or a job.
    pub(crate) fn set_quota(&mut self, request: &SetQuota, puts: &mut Puts) {
        self.table.set_quota(&request.holder, request.quota);
        self.store_ledger(puts);
    }

    /// Gives groups that a command may create the shape of their unicast tree.
    pub(crate) fn choose_trees(&mut self, command: &mut Command) {
        self.member_trees.choose(command, &self.fabric);
    }

    /// The constants by which shapes of unicast trees are chosen.
    pub(crate) fn constants(&self) -> Option<&MeasuredConstants> {
        self.member_trees.constants()
    }

    /// Takes measured constants, or none, for groups that are created from now on.
    pub(crate) fn set_constants(&mut self, constants: Option<MeasuredConstants>, puts: &mut Puts) {
        let text = constants
            .as_ref()
            .map(|all| serde_json::to_string(all).expect("names and numbers are JSON"));
        if text.is_some() || self.constants().is_some() {
            self.put(MEASURED.to_owned(), text, puts);
        }
        self.member_trees.set(constants);
    }

    /// Shows the holders of entries, reservations and quotas.
    pub(crate) fn usage(&self) -> v1::GetEntryUsageResponse {
        self.table.usage(&self.graph)
    }

    fn remove(&mut self, name: &str, puts: &mut Puts) -> bool {
        let removed = self.table.release(name);
        if removed {
            self.put(format!("{COLLECTIVE}{name}"), None, puts);
            self.store_ledger(puts);
        }
        removed
    }

    /// Adds the write of one collective.
    fn store(&mut self, name: &str, puts: &mut Puts) {
        let text = self.table.record(name).map(|one| one.text());
        self.put(format!("{COLLECTIVE}{name}"), text, puts);
    }

    /// Adds the write of what belongs to no single collective.
    fn store_ledger(&mut self, puts: &mut Puts) {
        self.table.ledger.revision += 1;
        if std::mem::take(&mut self.table.is_rebuilt) {
            self.store_all(puts);
        }
        let text = self.table.ledger_text(&self.topology);
        self.put(LEDGER.to_owned(), Some(text), puts);
    }

    /// Adds the writes of all collectives; the store has numbers of another topology for them.
    fn store_all(&mut self, puts: &mut Puts) {
        let stored: Vec<String> = self
            .durable
            .keys()
            .filter_map(|key| key.strip_prefix(COLLECTIVE))
            .map(str::to_owned)
            .collect();
        for name in stored {
            self.store(&name, puts);
        }
    }

    fn put(&mut self, key: String, text: Option<String>, puts: &mut Puts) {
        let stored = format!("{COLLECTIVES}{key}").into_bytes();
        puts.insert(stored, text.as_ref().map(|text| text.as_bytes().to_vec()));
        self.pending.insert(key, text.map(Arc::from));
    }

    /// Builds the table from the texts; collectives that do not fit the fabric are logged and left
    /// out.
    fn reload(&mut self) {
        let Self { fabric, settings, topology, durable, .. } = self;
        self.table = CollectiveTable::load(fabric, settings, topology, durable);
        self.reload_constants();
    }

    fn reload_constants(&mut self) {
        let text = self.durable.get(MEASURED);
        let read = |text: &Arc<str>| serde_json::from_str(text);
        let constants = text.map(read).transpose();
        self.member_trees.set(constants.expect("texts are checked when the store is read"));
    }

    fn publish(&self) {
        self.publisher.publish(self.table.published(&self.graph));
    }
}

#[cfg(test)]
mod tests;
