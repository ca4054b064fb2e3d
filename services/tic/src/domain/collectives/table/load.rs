//! Reads the stored texts, also those of another topology or an earlier version.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use fabricast_collectives::{
    Allocator, AllocatorState, Collective, Demand, Fabric, Holder, Quota, Request, Reservation,
    Settings,
};

use super::{CollectiveTable, Item};
use crate::domain::collectives::adapters::{AdapterConstants, AdapterPlan};
use crate::domain::collectives::request::HolderName;
use crate::domain::collectives::table::undo::Before;
use crate::domain::collectives::text::{
    COLLECTIVE, LEDGER, Ledger, QuotaRecord, RESERVATION, Record, ReservationRecord, Texts,
    is_of_holder,
};
use crate::domain::collectives::wire;

/// Reservations and quotas as they are stored.
struct StoredHolders {
    /// In the order of their numbers.
    reservations: Vec<ReservationRecord<'static>>,
    quotas: Vec<(Holder, Quota)>,
}

/// Reads the texts. Trees of another topology are built anew under new numbers; collectives and
/// reservations that do not fit this one at all are left out.
pub(in crate::domain::collectives) fn load(
    intact: &Arc<Fabric>,
    settings: &Settings,
    topology: &str,
    texts: &Texts,
    constants: AdapterConstants,
) -> CollectiveTable {
    let mut ledger: Ledger = texts.get(LEDGER).map(|text| read(text)).unwrap_or_default();
    let is_old_layout = ledger.has_records();
    let records: Vec<Record<'static>> = texts
        .iter()
        .filter(|(key, _)| key.starts_with(COLLECTIVE))
        .map(|(_key, text)| read(text))
        .collect();
    for Record { tenant, job, collective, .. } in &records {
        let name = HolderName { tenant: tenant.to_string(), job: Some(job.to_string()) };
        ledger.note(Holder::Job(collective.request.owner), &name);
    }
    let StoredHolders { reservations, quotas } = StoredHolders::of(texts, &mut ledger);
    let same = ledger.topology == topology;
    let mut state = AllocatorState {
        collectives: Vec::new(),
        reservations: Vec::new(),
        quotas,
        next_tree: ledger.next_tree,
        next_reservation: ledger.next_reservation,
    };
    let without = state.clone();
    if same {
        let collective = |record: &Record<'_>| Collective::clone(&record.collective);
        state.collectives = records.iter().map(collective).collect();
        let kept = reservations.iter();
        state.reservations = kept
            .map(|one| (one.id, Reservation::clone(&one.reservation), one.switches.clone()))
            .collect();
    }
    let restored = Allocator::restore(Fabric::clone(intact), settings.clone(), state);
    let (allocator, same) = match restored {
        Ok(allocator) => (allocator, same),
        Err(error) => {
            tracing::warn!(%error, "trees of collectives do not fit the fabric, built anew");
            let empty = Allocator::restore(Fabric::clone(intact), settings.clone(), without);
            let new = |_| Allocator::new(Fabric::clone(intact), settings.clone());
            (empty.unwrap_or_else(new), false)
        }
    };
    let mut table = CollectiveTable {
        allocator,
        intact: Arc::clone(intact),
        constants,
        items: BTreeMap::new(),
        names: BTreeMap::new(),
        of_groups: BTreeSet::new(),
        requested: BTreeMap::new(),
        refused: BTreeMap::new(),
        freed: 0,
        ledger,
        failed: Arc::default(),
        following: None,
        is_rebuilt: !same && !texts.is_empty(),
        is_old_layout,
        undone: 0,
        before: Before::default(),
    };
    if !same {
        reserve_again(&mut table, reservations);
    }
    for record in records {
        add(&mut table, record, same);
    }
    // Readers must not take the new trees for those of the same revision.
    table.ledger.revision += u64::from(table.is_rebuilt);
    table.record_changes();
    table
}

/// Reserves what was reserved on another topology.
fn reserve_again(table: &mut CollectiveTable, reservations: Vec<ReservationRecord<'_>>) {
    let graph = Arc::clone(table.allocator.fabric().graph());
    for ReservationRecord { id, reservation, endpoints: names, .. } in reservations {
        let Reservation { holder, entries, .. } = *reservation;
        let holder_text = wire::holder_text(&table.ledger, holder);
        let known = names.iter().filter_map(|name| graph.find_endpoint(name));
        let fabric = table.allocator.fabric();
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
            table.allocator.reserve_again(id, Reservation { holder, entries, endpoints });
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
                error = wire::not_reserved(&table.ledger, &graph, error).to_string(),
                "reservation ends: it does not fit the changed fabric"
            ),
        }
    }
}

/// Adds a stored collective.
fn add(table: &mut CollectiveTable, record: Record<'static>, restored: bool) {
    let Record { adapter_tree, adapter_choice, adapter_children, requested, .. } = record;
    let Record { name, group, gn, tenant, job, members, collective, .. } = record;
    let id = collective.request.id;
    if !restored {
        let graph = Arc::clone(table.allocator.fabric().graph());
        let found = members.iter().map(|one| graph.find_endpoint(one.endpoint.as_str()));
        let Some(endpoints) = found.collect::<Option<Vec<_>>>() else {
            tracing::warn!(
                collective = &*name,
                "collective has members that are not in the fabric"
            );
            return;
        };
        let request =
            Request { members: endpoints, demand: Demand::Best, ..collective.into_owned().request };
        if let Err(error) = table.allocator.allocate(request) {
            tracing::warn!(
                %error,
                collective = &*name,
                "collective gets no tree on this fabric"
            );
            return;
        }
    }
    let item = Item {
        id,
        group: group.into_owned(),
        gn,
        tenant: tenant.into_owned(),
        job: job.into_owned(),
        members: members.into_owned().into(),
        compared: None,
        adapters: None,
        requested,
    };
    table.insert(&name, item);
    match adapter_tree.filter(|_| restored) {
        Some(tree) => {
            let choice = adapter_choice.or_else(|| table.earlier_choice(id));
            let most_children = adapter_children.unwrap_or_else(|| table.adapter_children());
            let plan = choice.map(|choice| AdapterPlan { tree, choice, most_children });
            table.items.get_mut(&*name).expect("it was just put there").adapters = plan;
        }
        None => table.choose_adapters(&name),
    }
}

impl StoredHolders {
    /// Reads the records of reservations and quotas, and takes those that a ledger of an earlier
    /// version has. Of both it takes the numbers of their holders.
    fn of(texts: &Texts, ledger: &mut Ledger) -> Self {
        let mut endpoints = take(&mut ledger.endpoints);
        let mut reservations = Vec::new();
        for (id, reservation, switches) in take(&mut ledger.reservations) {
            let HolderName { tenant, job } = ledger.holder_name(reservation.holder);
            let endpoints = endpoints.remove(&id).unwrap_or_default();
            let endpoints = endpoints.into_iter().map(Cow::Owned).collect();
            let reservation = Cow::Owned(reservation);
            let record = ReservationRecord { id, tenant, job, reservation, switches, endpoints };
            reservations.push(record);
        }
        let mut quotas = take(&mut ledger.quotas);
        for (key, text) in texts.iter().filter(|(key, _)| is_of_holder(key)) {
            let (holder, name) = if key.starts_with(RESERVATION) {
                let record: ReservationRecord<'_> = read(text);
                let (tenant, job) = (record.tenant.clone(), record.job.clone());
                let holder = record.reservation.holder;
                reservations.push(record);
                (holder, HolderName { tenant, job })
            } else {
                let QuotaRecord { tenant, job, holder, quota } = read(text);
                quotas.push((holder, quota));
                (holder, HolderName { tenant, job })
            };
            ledger.note(holder, &name);
        }
        // Their keys are in the order of the digits.
        reservations.sort_by_key(|record| record.id);
        Self { reservations, quotas }
    }
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("texts are checked when the store is read")
}
