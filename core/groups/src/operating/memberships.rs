//! The memberships of one node, indexed by rank, by process and by packet address.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::Mgid;

use crate::ids::{Epoch, Gn, Moment, Pn, Version};
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
    /// Record of the member.
    pub member: MemberRecord,
    /// Newest known epoch of the group.
    pub epoch: Epoch,
    /// The node of the group's agent.
    pub agent: NodeName,
    /// Address where the agent listens.
    pub agent_address: Address,
    /// Place in the unicast tree; `None` until the agent has sent it.
    pub position: Option<PositionUpdate>,
    /// Time when the TIC is asked for a membership that an agent has told of; `None` once the TIC
    /// has told of it.
    pub confirm_at: Option<Moment>,
}

impl Membership {
    /// Returns the colors to send with; `None` while the multicast connection is not open.
    pub fn colors(&self) -> Option<Colors> {
        self.position.as_ref()?.route.as_ref()?.colors_for(&self.member)
    }

    /// Returns whether the place that an agent gave stays when the TIC tells of the membership.
    pub(super) fn keeps_its_place_as(&self, told: &Self) -> bool {
        (&self.group, self.mgid, &self.member) == (&told.group, told.mgid, &told.member)
            && (self.epoch < told.epoch
                || (self.epoch, &self.agent, &self.agent_address)
                    == (told.epoch, &told.agent, &told.agent_address))
    }

    /// Returns the status to report; a position of an older epoch does not count.
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
    all: BTreeMap<(Gn, Pn), Box<Membership>>, // boxed: map nodes are half empty
    by_address: BTreeSet<(Mgid, EndpointName, Gn, Pn)>,
    by_process: BTreeMap<(GroupName, ProcessName), (Gn, Pn)>,
    unconfirmed: BTreeSet<(Moment, Gn, Pn)>, // when to ask the TIC for them
}

impl Memberships {
    pub(super) fn insert(&mut self, membership: Membership) {
        let key = (membership.member.gn, membership.member.pn);
        self.remove(key.0, key.1);
        let address = (membership.mgid, membership.member.endpoint.clone(), key.0, key.1);
        self.by_address.insert(address);
        let process = (membership.group.clone(), membership.member.process.clone());
        self.by_process.insert(process, key);
        self.unconfirmed.extend(membership.confirm_at.map(|at| (at, key.0, key.1)));
        self.all.insert(key, Box::new(membership));
    }

    pub(super) fn remove(&mut self, gn: Gn, pn: Pn) -> Option<Membership> {
        let gone = *self.all.remove(&(gn, pn))?;
        self.by_address.remove(&(gone.mgid, gone.member.endpoint.clone(), gn, pn));
        if let Some(at) = gone.confirm_at {
            self.unconfirmed.remove(&(at, gn, pn));
        }
        let process = (gone.group.clone(), gone.member.process.clone());
        if self.by_process.get(&process) == Some(&(gn, pn)) {
            self.by_process.remove(&process);
        }
        Some(gone)
    }

    /// Records that the TIC has told of a membership.
    pub(super) fn confirm(&mut self, gn: Gn, pn: Pn) {
        if let Some(at) = self.get_mut(gn, pn).and_then(|held| held.confirm_at.take()) {
            self.unconfirmed.remove(&(at, gn, pn));
        }
    }

    /// Returns when the TIC is to be asked for a membership.
    pub(super) fn next_confirmation(&self) -> Option<Moment> {
        self.unconfirmed.first().map(|(at, _, _)| *at)
    }

    /// Takes a group for which the TIC is to be asked now.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Gn> {
        let (_, gn, _) = *self.unconfirmed.first().filter(|(at, _, _)| *at <= now)?;
        self.unconfirmed.pop_first();
        Some(gn)
    }

    pub(super) fn get(&self, gn: Gn, pn: Pn) -> Option<&Membership> {
        self.all.get(&(gn, pn)).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, gn: Gn, pn: Pn) -> Option<&mut Membership> {
        self.all.get_mut(&(gn, pn)).map(Box::as_mut)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Membership> {
        self.all.values().map(Box::as_ref)
    }

    pub(super) fn of_group(&self, gn: Gn) -> impl Iterator<Item = &Membership> {
        self.all.range((gn, Pn(0))..=(gn, Pn(u32::MAX))).map(|(_, held)| &**held)
    }

    pub(super) fn of_process(
        &self,
        group: &GroupName,
        process: &ProcessName,
    ) -> Option<&Membership> {
        let (gn, pn) = self.by_process.get(&(group.clone(), process.clone()))?;
        self.get(*gn, *pn)
    }

    pub(super) fn at_address(
        &self,
        mgid: Mgid,
        endpoint: &EndpointName,
    ) -> impl Iterator<Item = &Membership> {
        let first = (mgid, endpoint.clone(), Gn(0), Pn(0));
        let last = (mgid, endpoint.clone(), Gn(u64::MAX), Pn(u32::MAX));
        let those = self.by_address.range(first..=last);
        those.filter_map(|(_, _, gn, pn)| self.get(*gn, *pn))
    }

    pub(super) fn into_all(self) -> Vec<Membership> {
        self.all.into_values().map(|held| *held).collect()
    }
}
