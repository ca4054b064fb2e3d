//! Parts of a fabric that are drawn as one box.

use std::fmt;

use fabricast_topology::SwitchId;

/// A part of the fabric that is one box of a drawing.
///
/// `Display` prints its key, such as `cn-3`, and [`Unit::parse`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// One switch, drawn by itself.
    Switch(SwitchId),
    /// A compute midplane: leaf switches and level-1 switches.
    Cn(u32),
    /// A top midplane: level-2 and level-3 switches.
    Tn(u32),
    /// Switches with successive numbers, where the fabric is no fat tree; in a fat tree, those that
    /// are not part of the tree.
    Part(u32),
    /// A member of a group, by its number ([`crate::draw_members`]).
    Member(u32),
}

/// The part of a fabric that a drawing shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All of it: by switch if it is small, else by midplane.
    Whole,
    /// The switches of one midplane or part, and the midplanes that they are linked to.
    Inside(Unit),
}

impl Unit {
    /// Reads a key; `None` if it is none.
    #[must_use]
    pub fn parse(key: &str) -> Option<Self> {
        let (kind, number) = key.split_once('-')?;
        let number = number.parse().ok()?;
        match kind {
            "switch" => Some(Self::Switch(SwitchId(number))),
            "cn" => Some(Self::Cn(number)),
            "tn" => Some(Self::Tn(number)),
            "part" => Some(Self::Part(number)),
            _ => None,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(switch) => write!(f, "switch-{}", switch.0),
            Self::Cn(number) => write!(f, "cn-{number}"),
            Self::Tn(number) => write!(f, "tn-{number}"),
            Self::Part(number) => write!(f, "part-{number}"),
            Self::Member(number) => write!(f, "member-{number}"),
        }
    }
}
