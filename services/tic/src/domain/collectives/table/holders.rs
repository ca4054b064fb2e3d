//! Tenants and jobs: their numbers, reservations and quotas, and the entries that they use.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_collectives::{
    Holder, JobId, Owner, Quota, Reservation, ReservationId, ReserveError, TenantId,
};
use fabricast_topology::Graph;

use super::CollectiveTable;
use crate::domain::collectives::error::{CollectiveError, MAX_QUOTAS};
use crate::domain::collectives::request::{HolderName, ReserveEntries};
use crate::domain::collectives::text::{
    QuotaRecord, ReservationRecord, quota_key, reservation_key, to_text,
};
use crate::domain::collectives::usage::EntryUsage;
use crate::domain::collectives::wire;

/// A record that is written or, without a text, deleted.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::domain::collectives) struct KeyedText {
    pub(in crate::domain::collectives) key: String,
    pub(in crate::domain::collectives) text: Option<String>,
}

impl CollectiveTable {
    /// The tenant that entries are reserved for.
    pub(in crate::domain::collectives) fn holder_of(&self, id: ReservationId) -> Option<String> {
        let kept = self.allocator.reservation(id)?;
        Some(self.ledger.holder_name(kept.holder).tenant)
    }

    pub(in crate::domain::collectives) fn reservations(&self) -> BTreeSet<ReservationId> {
        self.allocator.reservations().map(|(id, _)| id).collect()
    }

    pub(in crate::domain::collectives) fn reserve(
        &mut self,
        request: ReserveEntries,
        graph: &Graph,
    ) -> Result<ReservationId, CollectiveError> {
        let ReserveEntries { holder, entries, endpoints } = request;
        let holder = self.holder(&holder);
        let reserved = self.allocator.reserve(Reservation { holder, entries, endpoints });
        reserved.map_err(|error: ReserveError| {
            let refused = wire::not_reserved(&self.ledger, graph, error);
            self.forget_unused(holder);
            refused
        })
    }

    /// Ends a reservation; returns whether it existed.
    pub(in crate::domain::collectives) fn cancel(&mut self, id: ReservationId) -> bool {
        let Some(cancelled) = self.allocator.cancel(id) else { return false };
        self.freed += 1;
        self.forget_unused(cancelled.holder);
        true
    }

    /// Limits a tenant or a job; returns the record of that.
    pub(in crate::domain::collectives) fn set_quota(
        &mut self,
        name: &HolderName,
        quota: Quota,
    ) -> Result<KeyedText, CollectiveError> {
        let holder = self.holder(name);
        let no_limit = Quota::default();
        let is_more = quota != no_limit && self.allocator.quota(holder) == no_limit;
        if is_more && self.allocator.quotas().count() >= MAX_QUOTAS {
            self.forget_unused(holder);
            return Err(CollectiveError::TooManyQuotas);
        }
        self.allocator.set_quota(holder, quota);
        self.freed += 1;
        let text = (quota != no_limit).then(|| self.quota_text(holder, quota));
        self.forget_unused(holder);
        Ok(KeyedText { key: quota_key(holder), text })
    }

    fn quota_text(&self, holder: Holder, quota: Quota) -> String {
        let HolderName { tenant, job } = self.ledger.holder_name(holder);
        to_text(&QuotaRecord { tenant, job, holder, quota })
    }

    /// A reservation as it is stored; `None` if there is none of this number.
    pub(in crate::domain::collectives) fn reservation_text(
        &self,
        id: ReservationId,
    ) -> Option<String> {
        let reservation = self.allocator.reservation(id)?;
        let HolderName { tenant, job } = self.ledger.holder_name(reservation.holder);
        let graph = self.allocator.fabric().graph();
        let endpoints = reservation.endpoints.iter();
        let endpoints = endpoints.map(|one| Cow::Borrowed(graph.endpoint_name(*one))).collect();
        let switches = self.allocator.reserved_switches(id);
        let reservation = Cow::Borrowed(reservation);
        Some(to_text(&ReservationRecord { id, tenant, job, reservation, switches, endpoints }))
    }

    /// All reservations and quotas as they are stored, by key.
    pub(in crate::domain::collectives) fn holder_texts(&self) -> BTreeMap<String, String> {
        let reservations = self.allocator.reservations().filter_map(|(id, _)| {
            let text = self.reservation_text(id)?;
            Some((reservation_key(id), text))
        });
        let quotas = self.allocator.quotas();
        let quotas =
            quotas.map(|(holder, quota)| (quota_key(holder), self.quota_text(holder, quota)));
        reservations.chain(quotas).collect()
    }

    /// Copies the holders of entries, reservations and quotas.
    pub(in crate::domain::collectives) fn usage(&self, graph: &Arc<Graph>) -> EntryUsage {
        EntryUsage {
            entries: self.allocator.copy_entries(),
            entries_per_switch: self.allocator.settings().entries,
            names: self.names.clone(),
            ledger: self.ledger.clone(),
            graph: Arc::clone(graph),
        }
    }

    /// Forgets the names of all tenants and jobs that have nothing.
    pub(in crate::domain::collectives) fn forget_all_unused(&mut self) {
        self.ledger.retain(self.allocator.holders());
    }

    /// Forgets the names of a holder, and of its tenant, if nothing belongs to them.
    pub(super) fn forget_unused(&mut self, holder: Holder) {
        let tenant = match holder {
            Holder::Tenant(tenant) => tenant,
            Holder::Job(owner) => owner.tenant,
        };
        for one in [holder, Holder::Tenant(tenant)] {
            if !self.allocator.is_known(one) {
                self.before.holder(one, &self.ledger);
                self.ledger.forget(one);
            }
        }
    }

    pub(super) fn owner(&mut self, tenant: &str, job: &str) -> Owner {
        let tenant = self.tenant(tenant);
        let owner = Owner { tenant, job: JobId(self.ledger.job(tenant.0, job)) };
        self.before.holder(Holder::Job(owner), &self.ledger);
        owner
    }

    fn tenant(&mut self, name: &str) -> TenantId {
        let tenant = TenantId(self.ledger.tenant(name));
        self.before.holder(Holder::Tenant(tenant), &self.ledger);
        tenant
    }

    fn holder(&mut self, name: &HolderName) -> Holder {
        match &name.job {
            None => Holder::Tenant(self.tenant(&name.tenant)),
            Some(job) => Holder::Job(self.owner(&name.tenant, job)),
        }
    }
}
