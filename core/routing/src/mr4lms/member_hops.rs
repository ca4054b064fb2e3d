//! Hops from every switch to the members of one group, and the candidate roots that follow.
//!
//! Source: MR4LMS §3.1.1. Candidate roots are the switches whose farthest member is nearest;
//! lighter ones come first. The paper does not say what the load of a switch is nor how ties are
//! broken: here it is the number of groups whose packets pass, and ties go to the switch whose
//! number, multiplied by 2^32 over the golden ratio, is smallest. So equal switches are taken from
//! all over the fabric and not one after the other, which would pile up trees on the links above
//! them.

use fabricast_topology::{PortId, SwitchId};

use crate::min_hop::NO_PATH;
use crate::mr4lms::fabric::{Above, Fabric};
use crate::mr4lms::occupancy::{Context, Occupancy};

/// The members to be connected.
#[derive(Clone, Debug)]
pub(crate) struct LiveMembers {
    /// Their ports, rising.
    pub(crate) member_ports: Vec<PortId>,
    /// Their switches, rising.
    pub(crate) leaves: Vec<SwitchId>,
}

impl LiveMembers {
    pub(crate) fn new(fabric: &Fabric, member_ports: Vec<PortId>) -> Self {
        let leaves = fabric.switches(&member_ports).collect();
        Self { member_ports, leaves }
    }
}

/// A switch's place in the order in which roots are tried; smaller comes first.
pub(super) type Preference = (u32, u32, SwitchId);

pub(super) fn preference(occupancy: &Occupancy, switch: SwitchId) -> Preference {
    (occupancy.loads.switch(switch), switch.0.wrapping_mul(0x9E37_79B9), switch)
}

/// Hops from all switches to the members of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberHops {
    /// By switch: hops to the nearest member.
    pub(crate) near: Vec<u8>,
    /// By switch: hops to the farthest member.
    pub(crate) far: Vec<u8>,
    /// The farthest member of the best root.
    pub(crate) height: u8,
}

impl MemberHops {
    /// Looks up the hops to the switches of a group, where trees have to keep to an order only
    /// those of ways up from the members. Cost: a byte for every switch and leaf of the group.
    pub(crate) fn look(&mut self, fabric: &Fabric, leaves: &[SwitchId]) {
        self.fold(fabric, leaves, |leaf| fabric.above(leaf));
    }

    /// Looks up the hops of all ways.
    pub(crate) fn look_everywhere(&mut self, fabric: &Fabric, leaves: &[SwitchId]) {
        self.fold(fabric, leaves, |leaf| Above::Row(row(fabric, leaf)));
    }

    fn fold<'a>(
        &mut self,
        fabric: &Fabric,
        leaves: &[SwitchId],
        hops: impl Fn(SwitchId) -> Above<'a>,
    ) {
        let switches = fabric.graph.switch_count();
        self.near.clear();
        self.near.resize(switches, NO_PATH);
        self.far.clear();
        self.far.resize(switches, 0);
        for leaf in leaves {
            hops(*leaf).fold(&mut self.near, &mut self.far);
        }
        self.height = self.far.iter().copied().min().unwrap_or(NO_PATH);
    }

    /// Walks the candidate roots in no order, those without a free entry left out.
    fn candidates<'a>(
        &'a self,
        context @ Context { fabric, occupancy }: Context<'a>,
    ) -> impl Iterator<Item = Preference> + 'a {
        let has_entry = move |(_, _, switch): &Preference| {
            fabric.root_domain(*switch).is_none_or(|domain| !occupancy.is_full(domain))
        };
        self.nearest(context).filter(has_entry)
    }

    /// Walks the switches whose farthest member is nearest, in no order.
    fn nearest<'a>(
        &'a self,
        Context { occupancy, .. }: Context<'a>,
    ) -> impl Iterator<Item = Preference> + 'a {
        let best = (0u32..).zip(&self.far).filter(|(_, far)| **far == self.height);
        best.map(|(switch, _)| preference(occupancy, SwitchId(switch)))
    }

    /// Lists the first candidate roots, at most so many, best first.
    pub(super) fn first_roots(&self, context: Context<'_>, most: usize) -> Vec<SwitchId> {
        first(self.candidates(context).collect(), most)
    }

    /// Lists the first candidate roots, at most so many, best first, whether they have a free entry
    /// or not.
    pub(super) fn first_of_all(&self, context: Context<'_>, most: usize) -> Vec<SwitchId> {
        first(self.nearest(context).collect(), most)
    }

    /// Lists the candidate roots, best first.
    pub(super) fn roots(&self, context: Context<'_>) -> Vec<SwitchId> {
        first(self.candidates(context).collect(), usize::MAX)
    }
}

fn first(mut roots: Vec<Preference>, most: usize) -> Vec<SwitchId> {
    if most < roots.len() {
        roots.select_nth_unstable(most);
        roots.truncate(most);
    }
    roots.sort_unstable();
    roots.into_iter().map(|(_, _, root)| root).collect()
}

pub(crate) fn row(fabric: &Fabric, leaf: SwitchId) -> &[u8] {
    let number = fabric.hops.leaf_number(leaf).expect("members are on leaves");
    fabric.hops.row(number)
}
