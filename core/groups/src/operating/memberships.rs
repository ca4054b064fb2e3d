//! The memberships of one node, indexed by rank, by process and by packet address.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use fabricast_topology::Mgid;
use siphasher::sip::SipHasher24;

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

/// All memberships of a node. The indices have no names: a host of many nodes has one of each kind
/// for every node.
#[derive(Clone, Debug, Default)]
pub(super) struct Memberships {
    all: BTreeMap<(Gn, Pn), Box<Membership>>, // boxed: map nodes are half empty
    by_mgid: BTreeSet<(Mgid, Gn, Pn)>,
    by_process: BTreeSet<(u32, Gn, Pn)>, // the newest of each process in a group, by their digest
    unconfirmed: BTreeSet<(Moment, Gn, Pn)>, // when to ask the TIC for them
}

impl Memberships {
    pub(super) fn insert(&mut self, membership: Membership) {
        let key = (membership.member.gn, membership.member.pn);
        self.remove(key.0, key.1);
        self.by_mgid.insert((membership.mgid, key.0, key.1));
        let (group, process) = (&membership.group, &membership.member.process);
        let digest = digest(group, process);
        let former = self.of_process(group, process).map(|held| (held.member.gn, held.member.pn));
        if let Some((gn, pn)) = former {
            self.by_process.remove(&(digest, gn, pn));
        }
        self.by_process.insert((digest, key.0, key.1));
        self.unconfirmed.extend(membership.confirm_at.map(|at| (at, key.0, key.1)));
        self.all.insert(key, Box::new(membership));
    }

    pub(super) fn remove(&mut self, gn: Gn, pn: Pn) -> Option<Membership> {
        let gone = *self.all.remove(&(gn, pn))?;
        self.by_mgid.remove(&(gone.mgid, gn, pn));
        self.by_process.remove(&(digest(&gone.group, &gone.member.process), gn, pn));
        if let Some(at) = gone.confirm_at {
            self.unconfirmed.remove(&(at, gn, pn));
        }
        Some(gone)
    }

    /// Records that the TIC has told of a membership.
    pub(super) fn confirm(&mut self, gn: Gn, pn: Pn) {
        if let Some(at) = self.get_mut(gn, pn).and_then(|held| held.confirm_at.take()) {
            self.unconfirmed.remove(&(at, gn, pn));
        }
        if self.unconfirmed.is_empty() {
            self.unconfirmed.clear(); // an emptied set keeps a node
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
        let digest = digest(group, process);
        let those =
            self.by_process.range((digest, Gn(0), Pn(0))..=(digest, Gn(u64::MAX), Pn(u32::MAX)));
        let mut those = those.filter_map(|(_, gn, pn)| self.get(*gn, *pn));
        those.find(|held| (&held.group, &held.member.process) == (group, process))
    }

    pub(super) fn at_address(
        &self,
        mgid: Mgid,
        endpoint: &EndpointName,
    ) -> impl Iterator<Item = &Membership> {
        let those = self.by_mgid.range((mgid, Gn(0), Pn(0))..=(mgid, Gn(u64::MAX), Pn(u32::MAX)));
        let those = those.filter_map(|(_, gn, pn)| self.get(*gn, *pn));
        those.filter(move |held| held.member.endpoint == *endpoint)
    }

    pub(super) fn into_all(self) -> Vec<Membership> {
        self.all.into_values().map(|held| *held).collect()
    }
}

/// Number that few processes of a node share.
fn digest(group: &GroupName, process: &ProcessName) -> u32 {
    let mut hasher = SipHasher24::new();
    (group, process).hash(&mut hasher);
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Revision;

    fn membership(pn: u32, process: &str, endpoint: &str) -> Membership {
        let node = NodeName::new("n1").unwrap();
        let member = MemberRecord {
            gn: Gn(1),
            pn: Pn(pn),
            node: node.clone(),
            process: ProcessName::new(process).unwrap(),
            endpoint: EndpointName::new(endpoint).unwrap(),
            joined: Revision(1),
            sends_only: false,
        };
        Membership {
            group: GroupName::new("g").unwrap(),
            mgid: Mgid(4),
            member,
            epoch: Epoch(1),
            agent: node,
            agent_address: Address::new("n1:1").unwrap(),
            position: None,
            confirm_at: None,
        }
    }

    #[test]
    fn a_process_has_its_newest_membership_until_that_has_ended() {
        let mut all = Memberships::default();
        let (group, process) = (GroupName::new("g").unwrap(), ProcessName::new("p").unwrap());
        let rank = |all: &Memberships| all.of_process(&group, &process).map(|held| held.member.pn);
        for (pn, process) in [(3, "p"), (7, "p"), (4, "q")] {
            all.insert(membership(pn, process, "h1"));
        }
        assert_eq!(rank(&all), Some(Pn(7)));
        all.remove(Gn(1), Pn(3));
        assert_eq!(rank(&all), Some(Pn(7)), "the former one has ended");
        all.remove(Gn(1), Pn(7));
        assert_eq!(rank(&all), None);
    }

    #[test]
    fn packets_are_for_the_members_at_their_endpoint() {
        let mut all = Memberships::default();
        for (pn, endpoint) in [(0, "h1"), (1, "h2"), (2, "h1")] {
            all.insert(membership(pn, &format!("p{pn}"), endpoint));
        }
        let ranks = |all: &Memberships, mgid: u32| {
            let endpoint = EndpointName::new("h1").unwrap();
            let found = all.at_address(Mgid(mgid), &endpoint).map(|held| held.member.pn.0);
            found.collect::<Vec<_>>()
        };
        assert_eq!((ranks(&all, 4), ranks(&all, 5)), (vec![0, 2], vec![]));
        all.remove(Gn(1), Pn(0));
        assert_eq!(ranks(&all, 4), [2]);
    }
}
