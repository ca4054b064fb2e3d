//! The collectives as messages for readers.

use std::sync::Arc;

use fabricast_collectives::{ChoiceTable, Operation, Owner, Service, Settings, TreeKind};
use fabricast_proto::v1;
use fabricast_topology::Graph;

use crate::domain::collectives::published::Published;
use crate::domain::collectives::table::{CollectiveTable, Item};
use crate::domain::collectives::wire;

impl CollectiveTable {
    pub(in crate::domain::collectives) fn published(&self, graph: &Graph) -> Published {
        let shown = self.items.keys().filter_map(|name| {
            let collective = self.wire(name, graph)?;
            Some((name.clone(), Arc::new(collective)))
        });
        Published {
            revision: self.ledger.revision,
            collectives: shown.collect(),
            reservations: self.allocator.reservations().map(|(id, _)| id).collect(),
            failed: self.failed.clone(),
        }
    }

    /// One collective as a message.
    pub(in crate::domain::collectives) fn wire(
        &self,
        name: &str,
        graph: &Graph,
    ) -> Option<v1::Collective> {
        let item = self.items.get(name)?;
        let collective = self.allocator.collective(item.id)?;
        let request = &collective.request;
        let (state, reason) = match &collective.service {
            Service::Switches { .. } => (v1::CollectiveState::SwitchTree, String::new()),
            Service::Adapters { why } => {
                (v1::CollectiveState::Adapters, wire::fallback(&self.ledger, why))
            }
            Service::Suspended { member } => {
                let name = item.members.get(*member).map_or("", |member| &*member.endpoint);
                (v1::CollectiveState::Suspended, format!("{name} is cut off"))
            }
        };
        let switches = collective.service.switch_tree();
        let processes = item.members.iter().map(|member| v1::CollectiveProcess {
            node: member.node.clone(),
            process: member.process.clone(),
            endpoint: member.endpoint.clone(),
        });
        let operations = request.operations.iter();
        Some(v1::Collective {
            name: name.to_owned(),
            group: item.group.clone(),
            tenant: item.tenant.clone(),
            job: item.job.clone(),
            operations: operations.map(|one| wire::operation(*one).into()).collect(),
            min_bytes: request.bytes.min,
            max_bytes: request.bytes.max,
            switch_tree_required: request.demand == fabricast_collectives::Demand::SwitchTree,
            state: state.into(),
            reason,
            processes: processes.collect(),
            switch_tree: switches
                .and_then(|(tree, _)| wire::tree(graph, tree.0, &self.allocator.entries(item.id))),
            adapter_tree: adapters(item, graph),
            switch_tree_max_bytes: switches
                .map_or(0, |_| threshold(self.allocator.settings(), request.processes())),
            programmed: false,
            switch_entries: switches.map_or(0, |(_, tree)| {
                u32::try_from(tree.cost()).expect("switches have 32-bit numbers")
            }),
            requested_by_member: item.requested,
        })
    }

    /// The holders of entries, reservations and quotas.
    pub(in crate::domain::collectives) fn usage(&self, graph: &Graph) -> v1::GetEntryUsageResponse {
        let nobody = Owner {
            tenant: fabricast_collectives::TenantId(u64::MAX),
            job: fabricast_collectives::JobId(u64::MAX),
        };
        let has = self.allocator.settings().entries;
        let mut switches: Vec<v1::SwitchHoldings> = graph
            .switches()
            .filter_map(|switch| {
                let held = self.allocator.holdings(switch);
                let free = self.allocator.free_entries(switch, nobody);
                let used = u16::try_from(held.len()).unwrap_or(u16::MAX);
                let reserved = has.saturating_sub(used).saturating_sub(free);
                let names = held.iter().filter_map(|one| self.names.get(&one.collective));
                (used > 0 || reserved > 0).then(|| v1::SwitchHoldings {
                    switch_name: graph.switch_name(switch).to_owned(),
                    entries: has.into(),
                    collectives: names.cloned().collect(),
                    reserved_entries: reserved.into(),
                })
            })
            .collect();
        switches.sort_unstable_by(|a, b| a.switch_name.cmp(&b.switch_name));
        let state = self.allocator.state_but_collectives();
        v1::GetEntryUsageResponse {
            switches,
            usages: self.usages(),
            quotas: state
                .quotas
                .iter()
                .map(|(holder, quota)| v1::CollectiveQuota {
                    holder: Some(wire::holder(&self.ledger, *holder)),
                    collectives: quota.collectives,
                    entries: quota.entries,
                    entries_per_switch: quota.entries_per_switch.map(u32::from),
                })
                .collect(),
            reservations: state
                .reservations
                .iter()
                .map(|(id, kept, _)| v1::CollectiveReservation {
                    id: id.0,
                    holder: Some(wire::holder(&self.ledger, kept.holder)),
                    entries: kept.entries.into(),
                    endpoints: kept
                        .endpoints
                        .iter()
                        .map(|one| graph.endpoint_name(*one).to_owned())
                        .collect(),
                })
                .collect(),
        }
    }

    fn usages(&self) -> Vec<v1::CollectiveUsage> {
        let owners = self.items.values().filter_map(|item| {
            self.allocator.collective(item.id).map(|collective| collective.request.owner)
        });
        let mut holders = std::collections::BTreeSet::new();
        for owner in owners {
            holders.insert(fabricast_collectives::Holder::Tenant(owner.tenant));
            holders.insert(fabricast_collectives::Holder::Job(owner));
        }
        let usage = |holder| {
            let usage = self.allocator.usage(holder);
            v1::CollectiveUsage {
                holder: Some(wire::holder(&self.ledger, holder)),
                collectives: usage.collectives,
                entries: usage.entries,
            }
        };
        holders.into_iter().map(usage).collect()
    }
}

fn adapters(item: &Item, graph: &Graph) -> Option<v1::AggregationTree> {
    let (tree, entries) = item.adapters.as_ref()?;
    wire::tree(graph, tree.0, entries)
}

/// Bytes of the largest reduction that a switch tree is faster for.
pub(super) fn threshold(settings: &Settings, processes: u32) -> u32 {
    let table = ChoiceTable::new(&settings.parameters, processes, &settings.limits);
    let rows = table.rows().iter().filter(|row| row.operation == Operation::AllReduce);
    let last = rows.take_while(|row| row.kind == TreeKind::Switch).last();
    last.map_or(0, |row| row.up_to_bytes)
}
