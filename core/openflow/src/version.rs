//! Versions of the protocol.

/// Version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// OpenFlow 1.3, wire version 4.
    V13,
    /// OpenFlow 1.4, wire version 5.
    V14,
}

impl Version {
    /// Number in the header of every message.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::V13 => 4,
            Self::V14 => 5,
        }
    }

    pub(crate) const fn of(number: u8) -> Option<Self> {
        match number {
            4 => Some(Self::V13),
            5 => Some(Self::V14),
            _ => None,
        }
    }
}
