//! What an engine decided: the trees of all groups, as an immutable value.
//!
//! A plan is kept by spanning tree. Plans that follow each other share the parts that did not
//! change, so a copy is cheap and [`Plan::changed_since`] costs one comparison per spanning tree.
//!
//! Table rows are implied: where a virtual group's tree has ports in a switch, packets that
//! come in by one of them leave by all others ([`crate::table_entries`] writes them out).

use std::fmt;
use std::sync::Arc;

use fabricast_topology::{EndpointId, PortId};

use crate::mgid::Mgid;
use crate::spt::MgidSpace;

/// Trees for a set of groups on one fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(crate) space: MgidSpace,
    pub(crate) trees: Vec<Option<Arc<TreePlan>>>, // by spanning tree; none if nobody uses it
    pub(crate) moved: Arc<Vec<Moved>>,            // by MGID
    pub(crate) unrouted: Arc<Vec<Unrouted>>,      // by MGID
}

/// The part of a plan that uses one spanning tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreePlan {
    pub(crate) spt: u32,
    pub(crate) color: u16,
    pub(crate) groups: Vec<PlannedGroup>, // by MGID
    pub(crate) virtual_groups: Vec<PlannedVirtualGroup>, // by id
    pub(crate) merged: Vec<Mgid>,         // virtual group by virtual group
    pub(crate) ports: Vec<PortId>,        // virtual group by virtual group
    pub(crate) cut_off: Vec<CutOff>,      // by MGID
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedGroup {
    pub(crate) mgid: Mgid,
    pub(crate) virtual_group: VirtualGroupId,
    pub(crate) live: u32,
}

/// Ends of the ranges in `merged` and `ports`; they start where the one before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedVirtualGroup {
    pub(crate) id: VirtualGroupId,
    pub(crate) merged_end: u32,
    pub(crate) ports_end: u32,
}

/// Names a virtual group: the smallest MGID in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualGroupId(pub u32);

impl fmt::Display for VirtualGroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a plan says about one routed group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlan<'a> {
    /// The group.
    pub mgid: Mgid,
    /// Its spanning tree.
    pub spt: u32,
    /// Its table entry, which its packets carry.
    pub color: u16,
    /// The virtual group it is part of.
    pub virtual_group: VirtualGroupId,
    /// Members that the tree reaches. With fewer than two there is no tree, and
    /// nobody may send: the color at the port can be that of another group.
    pub live_members: u32,
    /// Members left out.
    pub cut_off: &'a [CutOff],
}

impl GroupPlan<'_> {
    /// Tells whether packets can be sent to the group.
    #[must_use]
    pub const fn has_tree(&self) -> bool {
        self.live_members >= 2
    }
}

/// What a plan says about one virtual group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualGroup<'a> {
    /// Its name.
    pub id: VirtualGroupId,
    /// Its spanning tree.
    pub spt: u32,
    /// Its table entry.
    pub color: u16,
    /// The groups merged in it, rising.
    pub groups: &'a [Mgid],
    /// The switch ports of its tree, rising: both ends of every link between
    /// switches and the port of every endpoint. Empty where there is no tree.
    pub ports: &'a [PortId],
}

/// A member that the tree of its group does not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CutOff {
    /// The group.
    pub mgid: Mgid,
    /// The member.
    pub endpoint: EndpointId,
    /// Why.
    pub why: CutOffReason,
}

/// Why a member is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutOffReason {
    /// It is not connected to a leaf switch.
    NotOnLeaf,
    /// It, its link or its leaf switch is dead.
    LinkDown,
    /// Its leaf has no live link upwards and the group spans several leaves.
    LeafCutOff,
}

impl fmt::Display for CutOffReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOnLeaf => "it is not connected to a leaf switch",
            Self::LinkDown => "it, its link or its leaf switch is down",
            Self::LeafCutOff => "its leaf switch has no live link upwards",
        })
    }
}

/// A group that does not use the spanning tree its MGID stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The group.
    pub mgid: Mgid,
    /// The spanning tree of its MGID.
    pub from: u32,
    /// The spanning tree it uses.
    pub to: u32,
    /// Why.
    pub why: Displacement,
}

/// Why a group cannot use the spanning tree of its MGID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displacement {
    /// A link it needs is dead or missing.
    TreeBroken {
        /// The first such link.
        link: BrokenLink,
    },
    /// A member uses the color already, on another spanning tree (a breach of rule R3's condition).
    ColorHeld {
        /// The member.
        endpoint: EndpointId,
        /// The spanning tree that has the color there.
        by: u32,
    },
}

impl fmt::Display for Displacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TreeBroken { link } => write!(f, "its tree needs {link}"),
            Self::ColorHeld { endpoint, by } => {
                write!(f, "member {} has this color on spanning tree {by}", endpoint.0)
            }
        }
    }
}

/// A link that a tree needs and does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenLink {
    /// The link upwards from this port is dead.
    Dead {
        /// Its lower end.
        port: PortId,
    },
    /// This fabric has no such link.
    Missing {
        /// The level it would start from: 0 leaf, 1, 2.
        level: u8,
        /// Which leaf, CN or block.
        index: u32,
    },
}

impl fmt::Display for BrokenLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dead { port } => write!(f, "the dead link at port {}", port.0),
            Self::Missing { level, index } => {
                let place = ["leaf", "midplane", "block"][usize::from((*level).min(2))];
                write!(f, "a link upwards from {place} {index} that does not exist")
            }
        }
    }
}

/// A group without a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrouted {
    /// The group.
    pub mgid: Mgid,
    /// Why it cannot stay at home.
    pub why: Displacement,
    /// Spanning trees whose color no member uses otherwise, but that lack a link.
    pub broken: u32,
    /// Spanning trees whose color some member uses already.
    pub held: u32,
}

impl fmt::Display for Unrouted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; of all spanning trees {} lack a link and {} have a color in use by a member",
            self.why, self.broken, self.held
        )
    }
}

impl Plan {
    pub(crate) fn empty(space: MgidSpace) -> Self {
        let trees = vec![None; space.total() as usize];
        Self { space, trees, moved: Arc::default(), unrouted: Arc::default() }
    }

    /// Gives the numbering of spanning trees.
    #[must_use]
    pub const fn space(&self) -> &MgidSpace {
        &self.space
    }

    /// Finds a routed group.
    #[must_use]
    pub fn group(&self, mgid: Mgid) -> Option<GroupPlan<'_>> {
        let home = self.space.spt(mgid);
        let moved = self.moved.binary_search_by_key(&mgid, |moved| moved.mgid);
        let spt = moved.map_or(home, |at| self.moved[at].to);
        let tree = self.trees[spt as usize].as_deref()?;
        let at = tree.groups.binary_search_by_key(&mgid, |group| group.mgid).ok()?;
        Some(tree.group(&tree.groups[at]))
    }

    /// Walks the routed groups, spanning tree by spanning tree, rising.
    pub fn groups(&self) -> impl Iterator<Item = GroupPlan<'_>> {
        self.trees
            .iter()
            .flatten()
            .flat_map(|tree| tree.groups.iter().map(move |group| tree.group(group)))
    }

    /// Walks the virtual groups, spanning tree by spanning tree, rising.
    pub fn virtual_groups(&self) -> impl Iterator<Item = VirtualGroup<'_>> {
        self.trees.iter().flatten().flat_map(|tree| tree.virtual_groups())
    }

    /// Walks the virtual groups of one spanning tree.
    pub fn virtual_groups_on(&self, spt: u32) -> impl Iterator<Item = VirtualGroup<'_>> {
        self.trees.get(spt as usize).into_iter().flatten().flat_map(|tree| tree.virtual_groups())
    }

    /// Finds the virtual group of a routed group.
    #[must_use]
    pub fn virtual_group_of(&self, mgid: Mgid) -> Option<VirtualGroup<'_>> {
        let group = self.group(mgid)?;
        self.virtual_groups_on(group.spt).find(|one| one.id == group.virtual_group)
    }

    /// Lists the groups that are not on the spanning tree of their MGID, by MGID.
    #[must_use]
    pub fn moved(&self) -> &[Moved] {
        &self.moved
    }

    /// Lists the groups without a tree, by MGID.
    #[must_use]
    pub fn unrouted(&self) -> &[Unrouted] {
        &self.unrouted
    }

    /// Lists all members left out, spanning tree by spanning tree.
    pub fn cut_off(&self) -> impl Iterator<Item = &CutOff> {
        self.trees.iter().flatten().flat_map(|tree| &tree.cut_off)
    }

    /// Lists the spanning trees on which anything differs from an earlier plan of the same engine.
    ///
    /// # Panics
    ///
    /// If the plans number different spanning trees.
    #[must_use]
    pub fn changed_since(&self, earlier: &Self) -> Vec<u32> {
        assert_eq!(self.space, earlier.space, "plans of one engine");
        let same = |a: &Option<Arc<TreePlan>>, b: &Option<Arc<TreePlan>>| match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (Some(_), None) | (None, Some(_)) => false,
        };
        (0u32..)
            .zip(self.trees.iter().zip(&earlier.trees))
            .filter(|(_, (now, then))| !same(now, then))
            .map(|(spt, _)| spt)
            .collect()
    }
}

impl TreePlan {
    fn group(&self, group: &PlannedGroup) -> GroupPlan<'_> {
        let first = self.cut_off.partition_point(|cut| cut.mgid < group.mgid);
        let end = self.cut_off.partition_point(|cut| cut.mgid <= group.mgid);
        GroupPlan {
            mgid: group.mgid,
            spt: self.spt,
            color: self.color,
            virtual_group: group.virtual_group,
            live_members: group.live,
            cut_off: &self.cut_off[first..end],
        }
    }

    fn virtual_groups(&self) -> impl Iterator<Item = VirtualGroup<'_>> {
        let (mut merged, mut ports) = (0, 0);
        self.virtual_groups.iter().map(move |row| {
            let (merged_end, ports_end) = (row.merged_end as usize, row.ports_end as usize);
            let view = VirtualGroup {
                id: row.id,
                spt: self.spt,
                color: self.color,
                groups: &self.merged[merged..merged_end],
                ports: &self.ports[ports..ports_end],
            };
            (merged, ports) = (merged_end, ports_end);
            view
        })
    }
}
