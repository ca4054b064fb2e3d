//! The collectives of a fabric, as the writer has them.

pub(super) mod requested;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use fabricast_collectives::{
    Allocator, AllocatorState, CollectiveId, Demand, Fabric, Holder, JobId, Owner, Quota, Request,
    Reservation, ReservationId, Service, Settings, SizeRange, TenantId, TreeId, TreeKind,
};
use fabricast_groups::directory::Directory;
use fabricast_topology::{AggregationEntry, EndpointId, Faults, Graph};

use crate::domain::collectives::error::{CollectiveError, MAX_COLLECTIVES, MAX_PROCESSES};
use crate::domain::collectives::request::{CreateCollective, HolderName, ReserveEntries};
use crate::domain::collectives::text::{COLLECTIVE, LEDGER, Ledger, Member, Record, Texts};
use crate::domain::collectives::wire;
use crate::domain::elements::ElementKey;

/// The collectives of a fabric.
#[derive(Debug)]
pub(super) struct CollectiveTable {
    allocator: Allocator,
    items: BTreeMap<String, Item>,
    names: BTreeMap<CollectiveId, String>,
    /// By group: the collective that a member has asked for.
    requested: BTreeMap<u64, String>,
    pub(super) ledger: Ledger,
    failed: BTreeSet<ElementKey>,
    /// True if trees or reservations are not those in the store, which were of another topology.
    pub(super) is_rebuilt: bool,
}

/// The part of one collective that the allocator does not keep.
#[derive(Clone, Debug)]
struct Item {
    id: CollectiveId,
    group: String,
    gn: u64,
    tenant: String,
    job: String,
    members: Vec<Member>,
    /// Its adapter tree, if it has one.
    adapters: Option<(TreeId, Arc<Vec<AggregationEntry>>)>,
    /// True if a member asked for it.
    requested: bool,
}

impl CollectiveTable {
    /// Reads the texts. Trees of another topology are built anew under new numbers; collectives and
    /// reservations that do not fit this one at all are left out.
    pub(super) fn load(
        fabric: &Fabric,
        settings: &Settings,
        topology: &str,
        texts: &Texts,
    ) -> Self {
        let ledger: Ledger = texts.get(LEDGER).map(|text| read(text)).unwrap_or_default();
        let records: Vec<Record> = texts
            .iter()
            .filter(|(key, _)| key.starts_with(COLLECTIVE))
            .map(|(_key, text)| read(text))
            .collect();
        let same = ledger.topology == topology;
        let state = AllocatorState {
            collectives: match same {
                true => records.iter().map(|record| record.collective.clone()).collect(),
                false => Vec::new(),
            },
            reservations: if same { ledger.reservations.clone() } else { Vec::new() },
            quotas: ledger.quotas.clone(),
            next_tree: ledger.next_tree,
            next_reservation: ledger.next_reservation,
        };
        let without =
            AllocatorState { collectives: Vec::new(), reservations: Vec::new(), ..state.clone() };
        let restored = Allocator::restore(fabric.clone(), settings.clone(), state);
        let (allocator, same) = match restored {
            Ok(allocator) => (allocator, same),
            Err(error) => {
                tracing::warn!(%error, "trees of collectives do not fit the fabric, built anew");
                let empty = Allocator::restore(fabric.clone(), settings.clone(), without);
                (empty.unwrap_or_else(|_| Allocator::new(fabric.clone(), settings.clone())), false)
            }
        };
        let mut table = Self {
            allocator,
            items: BTreeMap::new(),
            names: BTreeMap::new(),
            requested: BTreeMap::new(),
            ledger,
            failed: BTreeSet::new(),
            is_rebuilt: !same && !texts.is_empty(),
        };
        if !same {
            table.reserve_again();
        }
        for record in records {
            table.add(record, same);
        }
        table
    }

    /// Reserves what was reserved on another topology.
    fn reserve_again(&mut self) {
        let graph = Arc::clone(self.allocator.fabric().graph());
        for (id, Reservation { holder, entries, .. }, _) in take(&mut self.ledger.reservations) {
            let names = self.ledger.endpoints.remove(&id).unwrap_or_default();
            let holder_text = wire::holder_text(&self.ledger, holder);
            let known = names.iter().filter_map(|name| graph.find_endpoint(name));
            let fabric = self.allocator.fabric();
            let endpoints: Vec<_> = known.filter(|one| fabric.leaf_of(*one).is_some()).collect();
            let left_out = names.len() - endpoints.len();
            if endpoints.is_empty() {
                tracing::warn!(
                    reservation = id.0,
                    holder = holder_text,
                    left_out,
                    "reservation ends: the fabric has none of its endpoints any more"
                );
                continue;
            }
            let reserved =
                self.allocator.reserve_again(id, Reservation { holder, entries, endpoints });
            match reserved {
                Ok(()) => tracing::info!(
                    reservation = id.0,
                    holder = holder_text,
                    left_out,
                    "reservation follows a change of the topology"
                ),
                Err(error) => tracing::warn!(
                    reservation = id.0,
                    holder = holder_text,
                    error = wire::not_reserved(&self.ledger, &graph, error).to_string(),
                    "reservation ends: it does not fit the changed fabric"
                ),
            }
        }
    }

    /// Adds a stored collective.
    fn add(&mut self, record: Record, restored: bool) {
        let Record { name, group, gn, tenant, job, members, adapter_tree, collective, requested } =
            record;
        let id = collective.request.id;
        if !restored {
            let graph = Arc::clone(self.allocator.fabric().graph());
            let found = members.iter().map(|member| graph.find_endpoint(&member.endpoint));
            let Some(endpoints) = found.collect::<Option<Vec<_>>>() else {
                tracing::warn!(
                    collective = name,
                    "collective has members that are not in the fabric"
                );
                return;
            };
            let request =
                Request { members: endpoints, demand: Demand::Best, ..collective.request };
            if let Err(error) = self.allocator.allocate(request) {
                tracing::warn!(%error, collective = name, "collective gets no tree on this fabric");
                return;
            }
        }
        let item = Item { id, group, gn, tenant, job, members, adapters: None, requested };
        self.names.insert(id, name.clone());
        self.items.insert(name.clone(), item);
        if requested {
            self.requested.insert(gn, name.clone());
        }
        match adapter_tree.filter(|_| restored) {
            Some(tree) => {
                let entries = self.adapter_entries(&name, tree);
                let item = self.items.get_mut(&name).expect("it was just put there");
                item.adapters = entries.map(|entries| (tree, Arc::new(entries)));
            }
            None => self.choose_adapters(&name),
        }
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
                let Request { operations, bytes, .. } = collective.request.clone();
                operations.iter().any(|operation| {
                    let choice = self.allocator.choose(id, *operation, bytes.max);
                    choice.is_some_and(|choice| choice.kind == TreeKind::Adapter)
                })
            }
        };
        let adapters = match (needed, has) {
            (true, false) => {
                let tree = self.allocator.number_tree();
                self.adapter_entries(name, tree).map(|entries| (tree, Arc::new(entries)))
            }
            (true, true) => return,
            (false, _) => None,
        };
        if let Some(item) = self.items.get_mut(name) {
            item.adapters = adapters;
        }
    }

    /// The entries of a collective's adapter tree: the same every time.
    fn adapter_entries(&mut self, name: &str, tree: TreeId) -> Option<Vec<AggregationEntry>> {
        let id = self.items.get(name)?.id;
        let request = self.allocator.collective(id)?.request.clone();
        // The operation whose messages grow on the way decides, if there is one.
        let operation = request.operations.iter().copied().max()?;
        let adapters = self.allocator.adapter_tree(id, operation, request.bytes.max)?;
        Some(adapters.entries(tree.0, &request.members))
    }

    /// Follows what has failed; returns the collectives that changed, or `None` if the failures did
    /// not.
    pub(super) fn follow(
        &mut self,
        failed: &BTreeSet<ElementKey>,
        graph: &Graph,
    ) -> Option<Vec<String>> {
        if self.failed == *failed {
            return None;
        }
        let mut faults = Faults::new();
        failed.iter().for_each(|element| element.note_in(&mut faults, graph));
        self.failed.clone_from(failed);
        let changes = self.allocator.set_faults(faults);
        tracing::info!(
            new_trees = changes.new_trees.len(),
            to_adapters = changes.to_adapters.len(),
            suspended = changes.suspended.len(),
            "collectives follow a change of the fabric"
        );
        let moved = changes.new_trees.iter().chain(&changes.to_adapters).chain(&changes.suspended);
        let moved: Vec<String> = moved.filter_map(|id| self.names.get(id)).cloned().collect();
        for name in &moved {
            self.choose_adapters(name);
        }
        Some(moved)
    }

    /// Creates a collective; returns whether it is new.
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
        let unknown = || CollectiveError::UnknownGroup { group: request.group.clone() };
        let gn = directory.find_group(&request.group).ok_or_else(unknown)?;
        let members: Vec<Member> = directory.members(gn).map(Member::from).collect();
        if self.items.len() >= MAX_COLLECTIVES || members.len() > MAX_PROCESSES {
            return Err(CollectiveError::LimitReached);
        }
        let endpoint = |member: &Member| {
            let endpoint = &member.endpoint;
            let unknown = || CollectiveError::UnknownEndpoint { endpoint: endpoint.clone() };
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
            self.forget_unused();
            return Err(refused);
        }
        self.ledger.next_id += 1;
        let (group, gn) = (request.group.to_string(), gn.0);
        let (tenant, job) = (request.tenant.clone(), request.job.clone());
        let requested = false;
        let item = Item { id, group, gn, tenant, job, members, adapters: None, requested };
        self.names.insert(id, name.clone());
        self.items.insert(name.clone(), item);
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

    pub(super) fn release(&mut self, name: &str) -> bool {
        let Some(item) = self.items.remove(name) else { return false };
        self.names.remove(&item.id);
        if item.requested {
            self.requested.remove(&item.gn);
        }
        self.allocator.release(item.id).is_some()
    }

    /// The fabric with its faults.
    pub(super) fn fabric(&self) -> &Fabric {
        self.allocator.fabric()
    }

    pub(super) fn tenant_of(&self, name: &str) -> Option<&str> {
        self.items.get(name).map(|item| item.tenant.as_str())
    }

    pub(super) fn holder_of(&self, id: ReservationId) -> Option<String> {
        let kept = self.allocator.reservations().find(|(known, _)| *known == id);
        kept.map(|(_, kept)| wire::holder(&self.ledger, kept.holder).tenant)
    }

    pub(super) fn of_group(&self, gn: u64) -> Vec<String> {
        let of_it = self.items.iter().filter(|(_, item)| item.gn == gn);
        of_it.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn reserve(
        &mut self,
        request: ReserveEntries,
        graph: &Graph,
    ) -> Result<ReservationId, CollectiveError> {
        let ReserveEntries { holder, entries, endpoints } = request;
        let holder = self.holder(&holder);
        let reserved = self.allocator.reserve(Reservation { holder, entries, endpoints });
        reserved.map_err(|error| {
            let refused = wire::not_reserved(&self.ledger, graph, error);
            self.forget_unused();
            refused
        })
    }

    pub(super) fn cancel(&mut self, id: ReservationId) -> bool {
        self.allocator.cancel(id).is_some()
    }

    pub(super) fn set_quota(&mut self, holder: &HolderName, quota: Quota) {
        let holder = self.holder(holder);
        self.allocator.set_quota(holder, quota);
    }

    /// Forgets the names of tenants and jobs that have nothing.
    fn forget_unused(&mut self) {
        self.ledger.retain(self.allocator.holders());
    }

    fn owner(&mut self, tenant: &str, job: &str) -> Owner {
        let tenant = self.ledger.tenant(tenant);
        Owner { tenant: TenantId(tenant), job: JobId(self.ledger.job(tenant, job)) }
    }

    fn holder(&mut self, name: &HolderName) -> Holder {
        match &name.job {
            None => Holder::Tenant(TenantId(self.ledger.tenant(&name.tenant))),
            Some(job) => Holder::Job(self.owner(&name.tenant, job)),
        }
    }

    /// A collective as it is stored.
    pub(super) fn record(&self, name: &str) -> Option<Record> {
        let Item { id, group, gn, tenant, job, members, adapters, requested } =
            self.items.get(name)?.clone();
        Some(Record {
            name: name.to_owned(),
            group,
            gn,
            tenant,
            job,
            members,
            adapter_tree: adapters.map(|(tree, _)| tree),
            collective: self.allocator.collective(id)?.clone(),
            requested,
        })
    }

    /// The rest as it is stored.
    pub(super) fn ledger_text(&mut self, topology: &str) -> String {
        self.forget_unused();
        let AllocatorState { reservations, quotas, next_tree, next_reservation, .. } =
            self.allocator.state_but_collectives();
        let graph = self.allocator.fabric().graph();
        let names = |endpoints: &[EndpointId]| {
            endpoints.iter().map(|one| graph.endpoint_name(*one).to_owned()).collect()
        };
        let endpoints = reservations.iter().map(|(id, kept, _)| (*id, names(&kept.endpoints)));
        let ledger = &mut self.ledger;
        ledger.endpoints = endpoints.collect();
        topology.clone_into(&mut ledger.topology);
        (ledger.next_tree, ledger.next_reservation) = (next_tree, next_reservation);
        (ledger.reservations, ledger.quotas) = (reservations, quotas);
        ledger.text()
    }
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("texts are checked when the store is read")
}
