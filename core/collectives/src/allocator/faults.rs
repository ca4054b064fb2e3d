//! Changes of faults under the collectives.

use fabricast_topology::Faults;

use super::Allocator;
use super::request::{Collective, CollectiveId, Fallback, Service};
use crate::fabric::Fabric;

/// The collectives that run on something else after a change of faults, each by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultChanges {
    /// Those with a new switch tree, whose old entries, if there were any, must go.
    pub new_trees: Vec<CollectiveId>,
    /// Those that now run on adapter trees only.
    pub to_adapters: Vec<CollectiveId>,
    /// Those with a member that nothing reaches any more.
    pub suspended: Vec<CollectiveId>,
}

impl Allocator {
    /// Takes what has failed, instead of what had, and finds new trees (AGG-7).
    ///
    /// Trees that nothing failed on stay. Collectives that lacked a switch tree for want of entries
    /// or of a switch above their members try again, in order of their ids, after those whose trees
    /// were hit have given everything back. One that demanded a switch tree runs on adapter trees
    /// when there is none left.
    ///
    /// Cost: O(switches in trees) to find what is hit, and an allocation for each of those.
    pub fn set_faults(&mut self, faults: Faults) -> FaultChanges {
        self.fabric.set_faults(faults);
        let fabric = &self.fabric;
        let again: Vec<CollectiveId> = self
            .collectives
            .values()
            .filter(|collective| !stands(fabric, collective))
            .map(|collective| collective.request.id)
            .collect();
        for id in &again {
            self.ledger.give_back(&self.collectives[id]);
        }
        let mut changes = FaultChanges::default();
        for id in again {
            let request = self.collectives[&id].request.clone();
            let service = self.serve(&request);
            let collective = Collective { request, service };
            self.ledger.take(&collective);
            let list = match &collective.service {
                Service::Switches { .. } => &mut changes.new_trees,
                Service::Adapters { .. } => &mut changes.to_adapters,
                Service::Suspended { .. } => &mut changes.suspended,
            };
            let before = self.collectives.insert(id, collective).map(|before| before.service);
            let after = &self.collectives[&id].service;
            let as_before = match (before, after) {
                (Some(Service::Adapters { .. }), Service::Adapters { .. })
                | (Some(Service::Suspended { .. }), Service::Suspended { .. }) => true,
                // Every tree has a number of its own.
                _ => false,
            };
            if !as_before {
                list.push(id);
            }
        }
        changes
    }
}

/// Returns whether a collective can keep its tree.
fn stands(fabric: &Fabric, collective: &Collective) -> bool {
    let reached = || {
        let mut members = collective.request.members.iter();
        members.all(|member| fabric.leaf_of(*member).is_some())
    };
    match &collective.service {
        Service::Switches { tree, .. } => {
            let live = |switch| fabric.faults().switch_is_live(switch);
            let switches = &tree.physical.switches;
            switches
                .iter()
                .all(|node| live(node.switch) && node.up.is_none_or(|up| fabric.is_live(up.port)))
                && reached()
        }
        Service::Adapters { why: Fallback::Slower | Fallback::Quota { .. } } => reached(),
        Service::Adapters { why: Fallback::NoCommonSwitch | Fallback::NoEntries { .. } }
        | Service::Suspended { .. } => false,
    }
}
