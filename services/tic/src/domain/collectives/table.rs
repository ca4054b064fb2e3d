//! The collectives of a fabric, as the writer has them.

pub(super) mod holders;
pub(super) mod load;
pub(super) mod requested;
pub(super) mod undo;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use fabricast_collectives::{
    AdapterShape, Allocator, ChoiceTable, Collective, CollectiveId, Demand, Fabric, FaultChanges,
    Holder, Operation, Request, Service, SizeRange, TreeKind,
};
use fabricast_groups::directory::Directory;
use fabricast_groups::ids::Revision;
use fabricast_proto::v1;
use fabricast_topology::{Faults, Graph};

use crate::domain::collectives::adapters::{AdapterChoice, AdapterConstants, AdapterPlan};
use crate::domain::collectives::error::{CollectiveError, MAX_COLLECTIVES, MAX_PROCESSES};
use crate::domain::collectives::request::{CreateCollective, HolderName};
use crate::domain::collectives::snapshot::SnapshotParts;
use crate::domain::collectives::table::undo::Before;
use crate::domain::collectives::text::{Ledger, Member, Record, to_text};
use crate::domain::collectives::wire;
use crate::domain::elements::ElementKey;

/// Processes and switches that are looked at in one piece of a change of faults: it takes about
/// 10 ms with the texts of what has changed.
const FOLLOW_WORK: usize = 1 << 14;

/// The collectives of a fabric.
#[derive(Debug)]
pub(super) struct CollectiveTable {
    allocator: Allocator,
    /// The fabric as it is without faults.
    intact: Arc<Fabric>,
    /// Constants that new adapter trees are chosen by.
    pub(super) constants: AdapterConstants,
    items: BTreeMap<String, Item>,
    names: BTreeMap<CollectiveId, Arc<str>>,
    /// The collectives of each group.
    of_groups: BTreeSet<(u64, CollectiveId)>,
    /// By group: the collective that a member has asked for.
    requested: BTreeMap<u64, String>,
    /// By group: the last request of a member that was refused.
    refused: BTreeMap<u64, RefusedRequest>,
    /// Grows with all that may have freed entries or raised a limit.
    freed: u64,
    pub(super) ledger: Ledger,
    /// The failures that all collectives have followed.
    failed: Arc<BTreeSet<ElementKey>>,
    /// Those that they follow now, if these are others.
    following: Option<Arc<BTreeSet<ElementKey>>>,
    /// True if trees or reservations are not those in the store, which were of another topology.
    pub(super) is_rebuilt: bool,
    /// True if the ledger in the store is of an earlier version.
    pub(super) is_old_layout: bool,
    /// Number of batches that were undone.
    undone: u64,
    before: Before,
}

/// The part of one collective that the allocator does not keep.
#[derive(Clone, Debug)]
struct Item {
    id: CollectiveId,
    group: String,
    gn: u64,
    tenant: String,
    job: String,
    members: Arc<[Member]>,
    /// The last comparison of these with the members of the group.
    compared: Option<Compared>,
    /// Its adapter tree, if it has one.
    adapters: Option<AdapterPlan>,
    /// True if a member asked for it.
    requested: bool,
}

/// A comparison of the members of a collective with those of its group.
#[derive(Clone, Copy, Debug)]
struct Compared {
    /// Revision of the group's members.
    at: Revision,
    /// Batches undone before it: their revisions are used again.
    undone: u64,
    are_same: bool,
}

/// A refused request of a member for a switch tree, which is refused to all members of its group.
#[derive(Debug)]
struct RefusedRequest {
    basis: RefusalBasis,
    error: CollectiveError,
}

/// Everything that the refusal depends on.
#[derive(Debug, PartialEq, Eq)]
struct RefusalBasis {
    /// Revision of the group's members.
    members: Revision,
    owner: HolderName,
    /// Entries that others have taken meanwhile, or reserved, do not make a tree possible.
    freed: u64,
}

/// Collectives that have followed a change of faults.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Those with other trees.
    pub(super) moved: Vec<String>,
    /// Those without a switch tree, for another reason than before.
    pub(super) other_reasons: Vec<String>,
    /// True if all others have followed it, too.
    pub(super) is_done: bool,
}

impl CollectiveTable {
    /// Begins to record changes, so that [`Self::undo_changes`] can undo them; those before stay.
    pub(super) fn record_changes(&mut self) {
        self.allocator.record_changes();
        self.before = Before {
            next_id: self.ledger.next_id,
            revision: self.ledger.revision,
            failed: Arc::clone(&self.failed),
            is_rebuilt: self.is_rebuilt,
            is_old_layout: self.is_old_layout,
            ..Before::default()
        };
    }

    /// Undoes all changes since [`Self::record_changes`], at the cost of what they have changed.
    /// Collectives that have followed failures meanwhile follow them again.
    pub(super) fn undo_changes(&mut self) {
        let before = take(&mut self.before);
        for name in before.items.keys() {
            if let Some(item) = self.items.remove(name) {
                self.unlist(&item);
            }
        }
        for (name, item) in before.items {
            if let Some(item) = item {
                self.insert(&name, item);
            }
        }
        self.allocator.undo_changes();
        let is_known = |(holder, _): &(Holder, HolderName)| self.allocator.is_known(*holder);
        let (known, gone): (Vec<_>, Vec<_>) = before.holders.into_iter().partition(is_known);
        // A number of one that is gone may be that of another one.
        gone.iter().for_each(|(holder, _)| self.ledger.forget(*holder));
        known.iter().for_each(|(holder, name)| self.ledger.note(*holder, name));
        (self.ledger.next_id, self.ledger.revision) = (before.next_id, before.revision);
        if self.allocator.is_following() && self.following.is_none() {
            self.following = Some(Arc::clone(&self.failed));
        }
        self.failed = before.failed;
        (self.is_rebuilt, self.is_old_layout) = (before.is_rebuilt, before.is_old_layout);
        self.note_undone();
        self.record_changes();
    }

    /// Notes that a batch was undone: it may have released entries, and its revisions of members
    /// come again.
    pub(super) fn note_undone(&mut self) {
        self.freed += 1;
        self.undone += 1;
    }

    fn insert(&mut self, name: &str, item: Item) {
        self.before.item(name, &self.items);
        self.names.insert(item.id, Arc::from(name));
        self.of_groups.insert((item.gn, item.id));
        if item.requested {
            self.requested.insert(item.gn, name.to_owned());
        }
        self.items.insert(name.to_owned(), item);
    }

    /// Gives a collective an adapter tree if it needs one, and removes it if not.
    fn choose_adapters(&mut self, name: &str) {
        let Some(item) = self.items.get(name) else { return };
        let (id, has) = (item.id, item.adapters.is_some());
        let Some(collective) = self.allocator.collective(id) else { return };
        let needed = match collective.service {
            Service::Adapters { .. } => true,
            Service::Suspended { .. } => false,
            Service::Switches { .. } => {
                let bytes = collective.request.bytes;
                let operations = collective.request.operations.clone();
                operations.iter().any(|operation| {
                    let choice = self.allocator.choose(id, *operation, bytes.max);
                    choice.is_some_and(|choice| choice.kind == TreeKind::Adapter)
                })
            }
        };
        let adapters = match (needed, has) {
            (true, true) => return,
            (true, false) => self.plan_adapters(id),
            (false, _) => None,
        };
        self.before.item(name, &self.items);
        if let Some(item) = self.items.get_mut(name) {
            item.adapters = adapters;
        }
    }

    /// Chooses an adapter tree under a new number. Readers compute it: the same every time.
    fn plan_adapters(&mut self, id: CollectiveId) -> Option<AdapterPlan> {
        let most_children = self.adapter_children();
        let request = &self.allocator.collective(id)?.request;
        let choice = self.constants.choose(&self.intact, request, most_children)?;
        Some(AdapterPlan { tree: self.allocator.number_tree(), choice, most_children })
    }

    /// Most children of a node of a new adapter tree.
    fn adapter_children(&self) -> u32 {
        self.allocator.settings().limits.adapter_children
    }

    /// The choice that earlier versions made, which did not record it: always hierarchical, by the
    /// settings alone.
    fn earlier_choice(&mut self, id: CollectiveId) -> Option<AdapterChoice> {
        let request = &self.allocator.collective(id)?.request;
        let operation = request.operations.iter().copied().max()?;
        let bytes = request.bytes.max;
        let width = self.allocator.choose(id, operation, bytes)?.widths.best;
        Some(AdapterChoice { shape: AdapterShape::Hierarchical { width }, constants: None })
    }

    /// Has some collectives follow what has failed; `None` if all have followed it before.
    pub(super) fn follow(
        &mut self,
        failed: &BTreeSet<ElementKey>,
        graph: &Graph,
    ) -> Option<Followed> {
        let target = self.following.as_ref().unwrap_or(&self.failed);
        if **target != *failed {
            let mut faults = Faults::new();
            failed.iter().for_each(|element| element.note_in(&mut faults, graph));
            self.allocator.begin_faults(faults);
            self.following = Some(Arc::new(failed.clone()));
        } else if self.following.is_none() {
            return None;
        }
        let changes = self.allocator.follow_faults(FOLLOW_WORK);
        self.freed += 1;
        let is_done = !self.allocator.is_following();
        if is_done && let Some(followed) = self.following.take() {
            self.failed = followed;
        }
        let FaultChanges { new_trees, to_adapters, suspended, other_reasons } = changes;
        if is_done || !(new_trees.is_empty() && to_adapters.is_empty() && suspended.is_empty()) {
            tracing::info!(
                new_trees = new_trees.len(),
                to_adapters = to_adapters.len(),
                suspended = suspended.len(),
                is_done,
                "collectives follow a change of the fabric"
            );
        }
        let moved: Vec<String> = self.named(new_trees.iter().chain(&to_adapters).chain(&suspended));
        for name in &moved {
            self.choose_adapters(name);
        }
        Some(Followed { moved, other_reasons: self.named(&other_reasons), is_done })
    }

    fn named<'a>(&self, ids: impl IntoIterator<Item = &'a CollectiveId>) -> Vec<String> {
        ids.into_iter().filter_map(|id| self.names.get(id)).map(|name| name.to_string()).collect()
    }

    /// The failures that all collectives have followed.
    pub(super) fn failed(&self) -> Arc<BTreeSet<ElementKey>> {
        Arc::clone(&self.failed)
    }

    /// Creates a collective; returns whether it is new.
    ///
    /// Cost: some hundred nanoseconds for each process.
    pub(super) fn create(
        &mut self,
        request: &CreateCollective,
        directory: &Directory,
        graph: &Graph,
    ) -> Result<bool, CollectiveError> {
        let name = &request.name;
        if self.items.contains_key(name) {
            let differs = || CollectiveError::Differs { name: name.clone() };
            return if self.is_same(request) { Ok(false) } else { Err(differs()) };
        }
        let group = directory.find_group(&request.group).and_then(|gn| directory.group(gn));
        let unknown = || CollectiveError::UnknownGroup { group: request.group.clone() };
        let group = group.ok_or_else(unknown)?;
        let gn = group.gn;
        if self.items.len() >= MAX_COLLECTIVES || directory.member_count(gn) > MAX_PROCESSES {
            return Err(CollectiveError::LimitReached);
        }
        let members: Arc<[Member]> = directory.members(gn).map(Member::from).collect();
        let endpoint = |member: &Member| {
            let endpoint = member.endpoint.as_str();
            let unknown = || CollectiveError::UnknownEndpoint { endpoint: endpoint.to_owned() };
            graph.find_endpoint(endpoint).ok_or_else(unknown)
        };
        let endpoints = members.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?;
        let owner = self.owner(&request.tenant, &request.job);
        let id = CollectiveId(self.ledger.next_id);
        let demand = if request.switch_tree_required { Demand::SwitchTree } else { Demand::Best };
        let demanded = Request {
            id,
            owner,
            members: endpoints,
            operations: request.operations.clone(),
            bytes: SizeRange { min: request.min_bytes, max: request.max_bytes },
            demand,
        };
        if let Err(refusal) = self.allocator.allocate(demanded) {
            let refused = wire::refused(&self.ledger, refusal);
            self.forget_unused(Holder::Job(owner));
            return Err(refused);
        }
        self.ledger.next_id += 1;
        let item = Item {
            id,
            group: request.group.to_string(),
            gn: gn.0,
            tenant: request.tenant.clone(),
            job: request.job.clone(),
            members,
            compared: Some(Compared {
                at: group.members_revision,
                undone: self.undone,
                are_same: true,
            }),
            adapters: None,
            requested: false,
        };
        self.insert(name, item);
        self.choose_adapters(name);
        Ok(true)
    }

    /// Returns whether a collective is what a repeated request asks for.
    fn is_same(&self, request: &CreateCollective) -> bool {
        let Some(item) = self.items.get(&request.name) else { return false };
        let Some(collective) = self.allocator.collective(item.id) else { return false };
        let Request { operations, bytes, demand, .. } = &collective.request;
        item.group == request.group.as_str()
            && (&item.tenant, &item.job) == (&request.tenant, &request.job)
            && *operations == request.operations
            && (bytes.min, bytes.max) == (request.min_bytes, request.max_bytes)
            && (*demand == Demand::SwitchTree) == request.switch_tree_required
    }

    /// Releases a collective; returns whether it existed.
    pub(super) fn release(&mut self, name: &str) -> bool {
        if self.items.contains_key(name) {
            self.before.item(name, &self.items);
        }
        let Some(item) = self.items.remove(name) else { return false };
        self.free(&item);
        true
    }

    /// Removes a collective from all indices.
    fn unlist(&mut self, item: &Item) {
        self.names.remove(&item.id);
        self.of_groups.remove(&(item.gn, item.id));
        if item.requested {
            self.requested.remove(&item.gn);
        }
    }

    /// Frees everything that a collective has which is not listed any more.
    fn free(&mut self, item: &Item) {
        self.unlist(item);
        self.freed += 1;
        if let Some(released) = self.allocator.release(item.id) {
            self.forget_unused(Holder::Job(released.request.owner));
        }
    }

    /// The fabric with its faults.
    pub(super) fn fabric(&self) -> &Fabric {
        self.allocator.fabric()
    }

    pub(super) fn tenant_of(&self, name: &str) -> Option<&str> {
        self.items.get(name).map(|item| item.tenant.as_str())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.items.keys()
    }

    pub(super) fn of_group(&self, gn: u64) -> Vec<String> {
        let all = (gn, CollectiveId(0))..=(gn, CollectiveId(u64::MAX));
        self.named(self.of_groups.range(all).map(|(_, id)| id))
    }

    /// One collective as readers see it. Its numbers are copied, but no names of processes.
    pub(super) fn snapshot_parts(&mut self, name: &str) -> Option<SnapshotParts> {
        let item = self.items.get(name)?;
        let collective = self.allocator.collective(item.id)?.clone();
        let Collective { request, service } = &collective;
        let (state, reason) = match service {
            Service::Switches { .. } => (v1::CollectiveState::SwitchTree, String::new()),
            Service::Adapters { why } => {
                (v1::CollectiveState::Adapters, wire::fallback(&self.ledger, why))
            }
            Service::Suspended { member } => {
                let name = item.members.get(*member).map_or("", |member| member.endpoint.as_str());
                (v1::CollectiveState::Suspended, format!("{name} is cut off"))
            }
        };
        let switches = service.switch_tree();
        // A single process sends to nobody.
        let adapters = item.adapters.filter(|_| item.members.len() > 1);
        let operations = request.operations.iter();
        let listed = v1::Collective {
            name: name.to_owned(),
            group: item.group.clone(),
            tenant: item.tenant.clone(),
            job: item.job.clone(),
            operations: operations.map(|one| wire::operation(*one).into()).collect(),
            min_bytes: request.bytes.min,
            max_bytes: request.bytes.max,
            switch_tree_required: request.demand == Demand::SwitchTree,
            state: state.into(),
            reason,
            switch_tree_max_bytes: switches
                .map_or(0, |_| threshold(self.allocator.choices(request.processes()))),
            switch_entries: switches.map_or(0, |(_, tree)| {
                u32::try_from(tree.cost()).expect("switches have 32-bit numbers")
            }),
            requested_by_member: item.requested,
            adapter_tree_choice: adapters.map(|plan| plan.choice.wire()),
            ..v1::Collective::default()
        };
        Some(SnapshotParts {
            listed,
            members: Arc::clone(&item.members),
            adapters: item.adapters,
            fabric: Arc::clone(&self.intact),
            collective,
        })
    }

    /// The text of a collective as it is stored; `None` if there is none of this name.
    pub(super) fn record_text(&self, name: &str) -> Option<String> {
        let item = self.items.get(name)?;
        Some(to_text(&Record {
            name: Cow::Borrowed(name),
            group: Cow::Borrowed(item.group.as_str()),
            gn: item.gn,
            tenant: Cow::Borrowed(item.tenant.as_str()),
            job: Cow::Borrowed(item.job.as_str()),
            members: Cow::Borrowed(&*item.members),
            adapter_tree: item.adapters.map(|plan| plan.tree),
            adapter_choice: item.adapters.map(|plan| plan.choice),
            adapter_children: item.adapters.map(|plan| plan.most_children),
            collective: Cow::Borrowed(self.allocator.collective(item.id)?),
            requested: item.requested,
        }))
    }

    /// The text of what belongs to no single record.
    pub(super) fn ledger_text(&mut self, topology: &str) -> String {
        let (next_tree, next_reservation) = self.allocator.next_numbers();
        let ledger = &mut self.ledger;
        topology.clone_into(&mut ledger.topology);
        (ledger.next_tree, ledger.next_reservation) = (next_tree.0, next_reservation.0);
        ledger.text()
    }
}

/// Bytes of the largest reduction that a switch tree is faster for.
fn threshold(choices: &ChoiceTable) -> u32 {
    let rows = choices.rows().iter().filter(|row| row.operation == Operation::AllReduce);
    let last = rows.take_while(|row| row.kind == TreeKind::Switch).last();
    last.map_or(0, |row| row.up_to_bytes)
}
