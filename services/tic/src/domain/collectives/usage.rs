//! Holders of entries, reservations and quotas: copied by the writer, and encoded by a reader.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_collectives::{CollectiveId, EntryLedger, JobId, Owner, TenantId};
use fabricast_proto::v1;
use fabricast_topology::{Graph, SwitchId};

use crate::domain::collectives::text::Ledger;
use crate::domain::collectives::wire;

/// Everything that the message is built from, as of one moment.
#[derive(Debug)]
pub(crate) struct EntryUsage {
    pub(super) entries: EntryLedger,
    /// Entries of a switch.
    pub(super) entries_per_switch: u16,
    /// Names of the collectives.
    pub(super) names: BTreeMap<CollectiveId, Arc<str>>,
    /// Names of tenants and jobs.
    pub(super) ledger: Ledger,
    pub(super) graph: Arc<Graph>,
}

impl EntryUsage {
    /// Builds the message. Cost: all names, those of endpoints once for each reservation.
    pub(crate) fn wire(&self) -> v1::GetEntryUsageResponse {
        let Self { entries, ledger, graph, .. } = self;
        let switches = graph.switches().filter_map(|switch| self.switch(switch));
        let mut switches: Vec<v1::SwitchHoldings> = switches.collect();
        switches.sort_unstable_by(|a, b| a.switch_name.cmp(&b.switch_name));
        let usages = entries.usages().map(|(holder, usage)| v1::CollectiveUsage {
            holder: Some(wire::holder(ledger, holder)),
            collectives: usage.collectives,
            entries: usage.entries,
        });
        let quotas = entries.quotas().map(|(holder, quota)| v1::CollectiveQuota {
            holder: Some(wire::holder(ledger, holder)),
            collectives: quota.collectives,
            entries: quota.entries,
            entries_per_switch: quota.entries_per_switch.map(u32::from),
        });
        let reservations = entries.reservations().map(|(id, kept)| {
            let endpoints = kept.endpoints.iter();
            v1::CollectiveReservation {
                id: id.0,
                holder: Some(wire::holder(ledger, kept.holder)),
                entries: kept.entries.into(),
                endpoints: endpoints.map(|one| graph.endpoint_name(*one).to_owned()).collect(),
            }
        });
        v1::GetEntryUsageResponse {
            switches,
            usages: usages.collect(),
            quotas: quotas.collect(),
            reservations: reservations.collect(),
        }
    }

    /// A switch whose entries are in use or reserved.
    fn switch(&self, switch: SwitchId) -> Option<v1::SwitchHoldings> {
        let nobody = Owner { tenant: TenantId(u64::MAX), job: JobId(u64::MAX) };
        let held = self.entries.holdings(switch);
        let free = self.entries.free_entries(switch, nobody);
        let used = u16::try_from(held.len()).unwrap_or(u16::MAX);
        let reserved = self.entries_per_switch.saturating_sub(used).saturating_sub(free);
        let names = held.iter().filter_map(|one| self.names.get(&one.collective));
        (used > 0 || reserved > 0).then(|| v1::SwitchHoldings {
            switch_name: self.graph.switch_name(switch).to_owned(),
            entries: self.entries_per_switch.into(),
            collectives: names.map(|name| name.to_string()).collect(),
            reserved_entries: reserved.into(),
        })
    }
}
