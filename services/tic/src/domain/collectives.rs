//! Collectives and their trees: what `fabricast_collectives` allocates, made durable.
//!
//! The allocations belong to the writer and run ahead of the store by the batch that is being
//! decided, as the directory does. Each allocation depends on the earlier ones, so every collective
//! is durable with its trees before anybody learns of it. Readers see the committed state.
//!
//! A decision costs what it changes: the state before it is shared, each collective, reservation
//! and quota is a record of its own, and readers build the messages.
//!
//! Invariants
//! - AGG-8: what switches are told to hold is durable; a tree's number is never used for another
//!   one.

mod adapters;
pub(crate) mod error;
pub(crate) mod member_trees;
pub(crate) mod published;
pub(crate) mod request;
pub(crate) mod snapshot;
mod table;
pub(crate) mod text;
pub(crate) mod usage;
pub(crate) mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use fabricast_collectives::{CostParameters, Fabric, ReservationId, Settings};
use fabricast_groups::command::Command;
use fabricast_groups::directory::Directory;
use fabricast_groups::names::GroupName;
use fabricast_groups::record::Change;
use fabricast_topology::Graph;

use crate::domain::collectives::adapters::AdapterConstants;
use crate::domain::collectives::error::CollectiveError;
use crate::domain::collectives::member_trees::{MeasuredConstants, MemberTrees};
use crate::domain::collectives::published::{Published, Publisher, Snapshots};
use crate::domain::collectives::request::{
    CreateCollective, JobEntries, RequestSwitchTree, ReserveEntries, SetQuota,
};
use crate::domain::collectives::snapshot::CollectiveSnapshot;
use crate::domain::collectives::table::holders::KeyedText;
use crate::domain::collectives::table::load::load;
use crate::domain::collectives::table::requested::RequestedTree;
use crate::domain::collectives::table::{CollectiveTable, Followed};
use crate::domain::collectives::text::{
    COLLECTIVE, LEDGER, MEASURED, RESERVATION, Texts, is_of_holder, reservation_key,
};
use crate::domain::collectives::usage::EntryUsage;
use crate::domain::elements::ElementKey;
use crate::records::keys::{COLLECTIVES, Puts};

/// The collectives as the writer has them.
#[derive(Debug)]
pub(crate) struct CollectiveAllocations {
    graph: Arc<Graph>,
    /// The fabric as it is without faults.
    fabric: Arc<Fabric>,
    settings: Settings,
    /// Constants that the settings name.
    configured: Option<CostParameters>,
    /// Digest of the topology.
    topology: String,
    table: CollectiveTable,
    member_trees: MemberTrees,
    /// The texts in the store.
    durable: Texts,
    /// Changes of the texts by the batch.
    pending: BTreeMap<String, Option<Arc<str>>>,
    /// Changes of the published collectives by the batch.
    changed: BTreeMap<Arc<str>, Option<Arc<CollectiveSnapshot>>>,
    /// The committed state.
    published: Arc<Published>,
    publisher: Arc<Publisher>,
}

/// Parts of [`CollectiveAllocations`].
#[derive(Debug)]
pub(crate) struct CollectiveParts {
    pub(crate) graph: Arc<Graph>,
    /// Limits of trees; the most children of an adapter include its own process.
    pub(crate) settings: Settings,
    /// Constants that the settings name, for adapter trees where none were measured.
    pub(crate) configured: Option<CostParameters>,
    /// Digest of the topology's text; trees of another topology are built anew.
    pub(crate) topology: String,
    /// The texts in the store.
    pub(crate) texts: Texts,
    pub(crate) publisher: Arc<Publisher>,
}

impl CollectiveAllocations {
    /// Starts with what the store holds, and publishes it.
    pub(crate) fn new(parts: CollectiveParts) -> Self {
        let CollectiveParts { graph, mut settings, configured, topology, texts, publisher } = parts;
        let fabric = Arc::new(Fabric::detect(Arc::clone(&graph)));
        settings.limits.adapter_children -= 1;
        let measured = measured(&texts);
        let constants = AdapterConstants::new(measured.as_ref(), configured);
        let table = load(&fabric, &settings, &topology, &texts, constants);
        let mut member_trees = MemberTrees::default();
        member_trees.set(measured);
        let mut allocations = Self {
            graph,
            fabric,
            settings,
            configured,
            topology,
            table,
            member_trees,
            durable: texts,
            pending: BTreeMap::new(),
            changed: BTreeMap::new(),
            published: Arc::default(),
            publisher,
        };
        allocations.publish_all();
        allocations
    }

    /// Starts again from what the store holds.
    pub(crate) fn start_over(&mut self, texts: Texts) {
        self.durable = texts;
        self.pending.clear();
        self.changed.clear();
        self.reload();
        self.publish_all();
    }

    /// Notes that the batch is durable, and publishes it.
    pub(crate) fn committed(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut has_reserved = false;
        for (key, text) in take(&mut self.pending) {
            has_reserved |= key.starts_with(RESERVATION);
            match text {
                Some(text) => drop(self.durable.insert(key, text)),
                None => drop(self.durable.remove(&key)),
            }
        }
        self.table.record_changes();
        self.publish_changes(has_reserved);
    }

    /// Undoes the batch, which the store refused, at the cost of what it has changed.
    pub(crate) fn roll_back(&mut self) {
        if self.pending.is_empty() {
            // Members may have been compared with those that a group had in the batch.
            self.table.note_undone();
            return;
        }
        self.table.undo_changes();
        self.changed.clear();
        if take(&mut self.pending).contains_key(MEASURED) {
            let measured = measured(&self.durable);
            self.take_constants(measured);
        }
    }

    /// Follows a change of the directory: releases the collectives of a group that has ended, and
    /// that which a member asked for when the members change (AGG-9).
    pub(crate) fn applied(&mut self, change: &Change, puts: &mut Puts) {
        match change {
            Change::GroupDeleted(gn) => {
                self.table.forget_refusal(*gn);
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

    /// Has some more collectives follow what has failed or been repaired since the last decision,
    /// so that a decision takes a bounded time; [`Published::failed`] says when all have.
    pub(crate) fn follow(&mut self, failed: &BTreeSet<ElementKey>, puts: &mut Puts) {
        let followed = self.table.follow(failed, &self.graph);
        if followed.is_none() && !self.table.is_rebuilt {
            return;
        }
        let Followed { moved, other_reasons, is_done } = followed.unwrap_or_default();
        for name in &moved {
            self.store(name, puts);
        }
        for name in &other_reasons {
            self.show(name);
        }
        if !moved.is_empty() || is_done || self.table.is_rebuilt {
            self.store_ledger(puts);
        }
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
    ) -> Result<Arc<CollectiveSnapshot>, CollectiveError> {
        if self.table.create(request, directory, &self.graph)? {
            self.store(&request.name, puts);
            self.store_ledger(puts);
        }
        let created = self.shown(&request.name);
        Ok(created.expect("a collective is shown once it was created"))
    }

    /// Returns the collective with a switch tree of the present members of a group, for one of
    /// them; creates it if they have none.
    pub(crate) fn request_tree(
        &mut self,
        request: &RequestSwitchTree,
        directory: &Directory,
        puts: &mut Puts,
    ) -> Result<Arc<CollectiveSnapshot>, CollectiveError> {
        let found = self.table.request_tree(request, directory, &self.graph)?;
        let RequestedTree { name, is_new } = found;
        if is_new {
            self.store(&name, puts);
            self.store_ledger(puts);
        }
        Ok(self.shown(&name).expect("a collective is shown once it was found or created"))
    }

    /// Returns whether the present members of a group have a collective with a switch tree.
    pub(crate) fn has_switch_tree(&mut self, group: &GroupName, directory: &Directory) -> bool {
        self.table.has_switch_tree(group, directory)
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
        let id = self.table.reserve(request, &self.graph)?;
        self.store_reservation(id, puts);
        self.store_ledger(puts);
        Ok(id)
    }

    /// Reserves entries for a job.
    pub(crate) fn reserve_for_job(
        &mut self,
        request: JobEntries,
        puts: &mut Puts,
    ) -> Result<ReservationId, CollectiveError> {
        let JobEntries { holder, entries, places } = request;
        // A node may have been in an earlier topology only, and one of its ports may be dead.
        let (known, fabric) = (places.endpoints.iter().copied(), self.table.fabric());
        let endpoints: Vec<_> = known.filter(|one| fabric.leaf_of(*one).is_some()).collect();
        let names = || places.nodes.iter().flat_map(|node| &node.endpoints);
        if let Some(first) = names().next().filter(|_| endpoints.is_empty()) {
            let endpoint = first.to_string();
            return Err(CollectiveError::CutOff { field: "nodes", endpoint });
        }
        let of = names().count();
        let left_out = of - endpoints.len();
        if left_out > 0 {
            let job = holder.job.as_deref();
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
            self.store_reservation(id, puts);
            self.store_ledger(puts);
        }
        cancelled
    }

    /// Limits a tenant or a job.
    pub(crate) fn set_quota(
        &mut self,
        request: &SetQuota,
        puts: &mut Puts,
    ) -> Result<(), CollectiveError> {
        let KeyedText { key, text } = self.table.set_quota(&request.holder, request.quota)?;
        self.put(key, text, puts);
        self.store_ledger(puts);
        Ok(())
    }

    /// Gives groups that a command may create the shape of their unicast tree.
    pub(crate) fn choose_trees(&mut self, command: &mut Command) {
        self.member_trees.choose(command, &self.fabric);
    }

    /// The constants that were measured here.
    pub(crate) fn constants(&self) -> Option<&MeasuredConstants> {
        self.member_trees.constants()
    }

    /// Takes measured constants, or none, for groups and adapter trees that are created from now
    /// on.
    pub(crate) fn set_constants(&mut self, constants: Option<MeasuredConstants>, puts: &mut Puts) {
        let text = constants
            .as_ref()
            .map(|all| serde_json::to_string(all).expect("names and numbers are JSON"));
        if text.is_some() || self.constants().is_some() {
            self.put(MEASURED.to_owned(), text, puts);
        }
        self.take_constants(constants);
    }

    fn take_constants(&mut self, measured: Option<MeasuredConstants>) {
        self.table.constants = AdapterConstants::new(measured.as_ref(), self.configured);
        self.member_trees.set(measured);
    }

    /// Copies the holders of entries, reservations and quotas.
    pub(crate) fn usage(&self) -> EntryUsage {
        self.table.usage(&self.graph)
    }

    fn remove(&mut self, name: &str, puts: &mut Puts) -> bool {
        let removed = self.table.release(name);
        if removed {
            self.store(name, puts);
            self.store_ledger(puts);
        }
        removed
    }

    /// Adds the write of one collective, and has it published with the batch.
    fn store(&mut self, name: &str, puts: &mut Puts) {
        let text = self.table.record_text(name);
        self.put(format!("{COLLECTIVE}{name}"), text, puts);
        self.show(name);
    }

    /// Has one collective published with the batch.
    fn show(&mut self, name: &str) {
        // The revision that the ledger has after the decision is larger.
        let revision = self.table.ledger.revision + 1;
        let before = self.shown(name);
        let parts = self.table.snapshot_parts(name);
        let snapshot = |parts| CollectiveSnapshot::new(parts, before.as_deref(), revision);
        self.changed.insert(Arc::from(name), parts.map(|parts| Arc::new(snapshot(parts))));
    }

    /// A collective as it is published once the batch is durable.
    fn shown(&self, name: &str) -> Option<Arc<CollectiveSnapshot>> {
        match self.changed.get(name) {
            Some(changed) => changed.clone(),
            None => self.published.collectives.get(name).cloned(),
        }
    }

    /// Adds the write of one reservation.
    fn store_reservation(&mut self, id: ReservationId, puts: &mut Puts) {
        let text = self.table.reservation_text(id);
        self.put(reservation_key(id), text, puts);
    }

    /// Adds the write of what belongs to no single record.
    fn store_ledger(&mut self, puts: &mut Puts) {
        let is_rebuilt = take(&mut self.table.is_rebuilt);
        if is_rebuilt {
            self.store_all(puts);
        }
        if take(&mut self.table.is_old_layout) || is_rebuilt {
            self.store_holders(puts);
        }
        self.table.ledger.revision += 1;
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

    /// Adds the writes of all reservations and quotas that the store has otherwise, or not at all.
    fn store_holders(&mut self, puts: &mut Puts) {
        self.table.forget_all_unused();
        let texts = self.table.holder_texts();
        let is_gone = |key: &&String| is_of_holder(key) && !texts.contains_key(*key);
        let gone: Vec<String> = self.durable.keys().filter(is_gone).cloned().collect();
        for key in gone {
            self.put(key, None, puts);
        }
        for (key, text) in texts {
            if self.durable.get(&key).is_none_or(|stored| **stored != *text) {
                self.put(key, Some(text), puts);
            }
        }
    }

    fn put(&mut self, key: String, text: Option<String>, puts: &mut Puts) {
        let stored = format!("{COLLECTIVES}{key}").into_bytes();
        self.pending.insert(key, text.as_deref().map(Arc::from));
        puts.insert(stored, text.map(String::into_bytes));
    }

    /// Builds the table from the texts; collectives that do not fit the fabric are logged and left
    /// out.
    fn reload(&mut self) {
        let Self { fabric, settings, topology, durable, .. } = self;
        let measured = measured(durable);
        let constants = AdapterConstants::new(measured.as_ref(), self.configured);
        self.table = load(fabric, settings, topology, durable, constants);
        self.member_trees.set(measured);
    }

    /// Publishes what the batch has changed; the rest is shared with the state before.
    fn publish_changes(&mut self, has_reserved: bool) {
        let before = &*self.published;
        let mut collectives = Arc::clone(&before.collectives);
        if !self.changed.is_empty() {
            let mut all = Snapshots::clone(&collectives);
            for (name, changed) in take(&mut self.changed) {
                match changed {
                    Some(snapshot) => drop(all.insert(name, snapshot)),
                    None => drop(all.remove(&name)),
                }
            }
            collectives = Arc::new(all);
        }
        let reservations = match has_reserved {
            true => Arc::new(self.table.reservations()),
            false => Arc::clone(&before.reservations),
        };
        self.publish(collectives, reservations);
    }

    /// Publishes everything, as at the start.
    fn publish_all(&mut self) {
        let names: Vec<String> = self.table.names().cloned().collect();
        let mut collectives = Snapshots::new();
        for name in names {
            let Some(parts) = self.table.snapshot_parts(&name) else { continue };
            let before = self.published.collectives.get(name.as_str()).map(|before| &**before);
            let revision = self.table.ledger.revision;
            let snapshot = CollectiveSnapshot::new(parts, before, revision);
            collectives.insert(Arc::from(name), Arc::new(snapshot));
        }
        let reservations = self.table.reservations();
        self.publish(Arc::new(collectives), Arc::new(reservations));
    }

    fn publish(&mut self, collectives: Arc<Snapshots>, reservations: Arc<BTreeSet<ReservationId>>) {
        let revision = self.table.ledger.revision;
        let failed = self.table.failed();
        self.published = Arc::new(Published { revision, collectives, reservations, failed });
        self.publisher.publish(Arc::clone(&self.published));
    }
}

/// Reads the constants that were measured here, if there are some.
fn measured(texts: &Texts) -> Option<MeasuredConstants> {
    let text = texts.get(MEASURED)?;
    Some(serde_json::from_str(text).expect("texts are checked when the store is read"))
}

#[cfg(test)]
mod tests;
