//! The memberships of one node, found by rank, by process and by packet address.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::Mgid;

use crate::ids::{Epoch, Gn, Pn, Version};
use crate::message::{MembershipStatus, PositionUpdate};
use crate::names::{Address, EndpointName, GroupName, NodeName, ProcessName};
use crate::record::{Colors, MemberRecord};

/// One process in one group, as its operating agent knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The name of the group.
    pub group: GroupName,
    /// The group's address on the fabric.
    pub mgid: Mgid,
    /// The member.
    pub member: MemberRecord,
    /// The newest epoch heard of.
    pub epoch: Epoch,
    /// The node of the group's agent.
    pub agent: NodeName,
    /// Where the agent listens.
    pub agent_address: Address,
    /// The place in the tree; `None` until the agent has answered.
    pub position: Option<PositionUpdate>,
}

impl Membership {
    /// Answers the colors to send with; `None` while the multicast connection is not open.
    pub fn colors(&self) -> Option<Colors> {
        self.position.as_ref()?.route.as_ref()?.colors_for(&self.member)
    }

    /// Answers what to report of it: no position counts that is of an older epoch.
    pub(super) fn status(&self) -> MembershipStatus {
        let current = self.position.as_ref().filter(|held| held.epoch == self.epoch);
        MembershipStatus {
            gn: self.member.gn,
            epoch: self.epoch,
            pn: self.member.pn,
            joined: self.member.joined,
            version: current.map_or(Version(0), |held| held.version),
        }
    }
}

/// All memberships of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Memberships {
    all: BTreeMap<(Gn, Pn), Membership>,
    by_address: BTreeMap<(Mgid, EndpointName), BTreeSet<(Gn, Pn)>>,
    by_process: BTreeMap<(GroupName, ProcessName), (Gn, Pn)>,
}

impl Memberships {
    pub(super) fn insert(&mut self, membership: Membership) {
        let key = (membership.member.gn, membership.member.pn);
        self.remove(key.0, key.1);
        let address = (membership.mgid, membership.member.endpoint.clone());
        self.by_address.entry(address).or_default().insert(key);
        let process = (membership.group.clone(), membership.member.process.clone());
        self.by_process.insert(process, key);
        self.all.insert(key, membership);
    }

    pub(super) fn remove(&mut self, gn: Gn, pn: Pn) -> Option<Membership> {
        let gone = self.all.remove(&(gn, pn))?;
        let address = (gone.mgid, gone.member.endpoint.clone());
        if let Some(keys) = self.by_address.get_mut(&address) {
            keys.remove(&(gn, pn));
            if keys.is_empty() {
                self.by_address.remove(&address);
            }
        }
        let process = (gone.group.clone(), gone.member.process.clone());
        if self.by_process.get(&process) == Some(&(gn, pn)) {
            self.by_process.remove(&process);
        }
        Some(gone)
    }

    pub(super) fn get(&self, gn: Gn, pn: Pn) -> Option<&Membership> {
        self.all.get(&(gn, pn))
    }

    pub(super) fn get_mut(&mut self, gn: Gn, pn: Pn) -> Option<&mut Membership> {
        self.all.get_mut(&(gn, pn))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Membership> {
        self.all.values()
    }

    pub(super) fn of_group(&self, gn: Gn) -> impl Iterator<Item = &Membership> {
        self.all.range((gn, Pn(0))..=(gn, Pn(u32::MAX))).map(|(_, held)| held)
    }

    pub(super) fn of_process(
        &self,
        group: &GroupName,
        process: &ProcessName,
    ) -> Option<&Membership> {
        let key = self.by_process.get(&(group.clone(), process.clone()))?;
        self.all.get(key)
    }

    pub(super) fn at_address(
        &self,
        mgid: Mgid,
        endpoint: &EndpointName,
    ) -> impl Iterator<Item = &Membership> {
        let keys = self.by_address.get(&(mgid, endpoint.clone()));
        keys.into_iter().flatten().filter_map(|key| self.all.get(key))
    }

    pub(super) fn into_all(self) -> Vec<Membership> {
        self.all.into_values().collect()
    }
}
