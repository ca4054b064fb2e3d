//! Members that a plan leaves out, and groups that are displaced or unrouted.

use std::fmt;

use fabricast_topology::{EndpointId, Mgid, PortId};

/// A member that the tree of its group does not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CutOff {
    /// MGID of the group.
    pub mgid: Mgid,
    /// Endpoint of the member.
    pub endpoint: EndpointId,
    /// Reason why it is cut off.
    pub why: CutOffReason,
}

/// Reason why a member is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutOffReason {
    /// It is not connected to a leaf switch.
    NotOnLeaf,
    /// It, its link or its leaf switch is dead.
    LinkDown,
    /// No live path leads from its leaf to most members of the group.
    LeafCutOff,
    /// Live paths lead from its leaf to most members of the group, but none that goes up and then
    /// only down, as trees must that can never deadlock.
    OnlyThroughValley,
}

impl fmt::Display for CutOffReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOnLeaf => "it is not connected to a leaf switch",
            Self::LinkDown => "it, its link or its leaf switch is down",
            Self::LeafCutOff => "no live path leads from its leaf switch to most members",
            Self::OnlyThroughValley => {
                "no live path up and then down leads from its leaf switch to most members"
            }
        })
    }
}

/// A group with fault tolerance that has only one of its two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// MGID of the group.
    pub mgid: Mgid,
    /// The tree that does not serve it, 0 or 1.
    pub tree: u8,
    /// The first link that it needs there.
    pub link: BrokenLink,
}

/// A group that does not use the spanning tree its MGID stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// MGID of the group.
    pub mgid: Mgid,
    /// The spanning tree of its MGID.
    pub from: u32,
    /// The spanning tree it uses.
    pub to: u32,
    /// Reason why it does not use its own spanning tree.
    pub why: Displacement,
}

/// Reason why a group cannot use the spanning tree of its MGID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displacement {
    /// A link it needs is dead or missing.
    TreeBroken {
        /// The first such link.
        link: BrokenLink,
    },
    /// A member uses the color already, on another spanning tree (a breach of rule R3's condition).
    ColorHeld {
        /// Endpoint of the member.
        endpoint: EndpointId,
        /// The spanning tree that has the color there.
        by: u32,
    },
    /// A link of that tree was dead once, and the group stays where it went.
    Stayed,
    /// No root of its spanning tree serves it together with the groups that it meets there.
    NoSharedRoot,
    /// It would be merged with others there, and has a place with fewer or none.
    WouldMerge,
}

impl fmt::Display for Displacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TreeBroken { link } => write!(f, "its tree needs {link}"),
            Self::ColorHeld { endpoint, by } => {
                write!(f, "member {} has this color on spanning tree {by}", endpoint.0)
            }
            Self::Stayed => f.write_str("a link of its tree was dead, and it stays where it went"),
            Self::NoSharedRoot => {
                f.write_str("no root of its tree serves it together with the groups it meets there")
            }
            Self::WouldMerge => f.write_str("other groups use the tree of its MGID"),
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
        /// Number of the leaf, CN or block.
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
    /// MGID of the group.
    pub mgid: Mgid,
    /// Reason why it cannot stay at home.
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

/// Adds the groups of entries that only one of two lists has. Both rise by group.
pub(super) fn differing<T: PartialEq>(
    now: &[T],
    before: &[T],
    mgid: impl Fn(&T) -> Mgid,
    changed: &mut Vec<Mgid>,
) {
    let (mut now, mut before) = (now.iter().peekable(), before.iter().peekable());
    loop {
        let (new, old) = match (now.peek(), before.peek()) {
            (None, None) => return,
            (Some(a), Some(b)) if mgid(a) == mgid(b) => (now.next(), before.next()),
            (Some(a), Some(b)) if mgid(a) > mgid(b) => (None, before.next()),
            (None, Some(_)) => (None, before.next()),
            (Some(_), _) => (now.next(), None),
        };
        if new != old {
            changed.extend(new.or(old).map(&mgid));
        }
    }
}
