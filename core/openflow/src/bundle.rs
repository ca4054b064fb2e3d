//! Bundles: several changes that a switch makes together or not at all.
//!
//! Source: OpenFlow Switch Specification 1.4.1, §7.3.9; for 1.3, ONF extension 230, whose messages
//! have the same content behind the two numbers of an extension.

use crate::wire::{DecodeError, Put, Reader};

/// Flags of a bundle.
pub mod bundle_flags {
    /// All changes are made, or none.
    pub const ATOMIC: u16 = 1;
    /// The changes are made in their order.
    pub const ORDERED: u16 = 2;
}

/// Steps in the life of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleStep {
    /// Opens a bundle; the switch begins to collect changes.
    Open,
    /// Confirms that it is open.
    Opened,
    /// Closes it: no more changes are added.
    Close,
    /// Confirms that it is closed.
    Closed,
    /// Makes the changes.
    Commit,
    /// Confirms that the changes are made.
    Committed,
    /// Gives it up.
    Discard,
    /// Confirms that it is given up.
    Discarded,
}

impl BundleStep {
    const ALL: [Self; 8] = [
        Self::Open,
        Self::Opened,
        Self::Close,
        Self::Closed,
        Self::Commit,
        Self::Committed,
        Self::Discard,
        Self::Discarded,
    ];
}

/// A step in the life of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleControl {
    /// Id of the bundle, chosen by the controller.
    pub bundle: u32,
    /// Step that is asked for, or that the switch confirms.
    pub step: BundleStep,
    /// Flags, see [`bundle_flags`]; the same in all messages of a bundle.
    pub flags: u16,
}

impl BundleControl {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u32(self.bundle);
        let number = (0u16..).zip(BundleStep::ALL).find(|(_, step)| *step == self.step);
        out.u16(number.map_or(0, |(number, _)| number));
        out.u16(self.flags);
    }

    pub(crate) fn read(mut reader: Reader<'_>) -> Result<Self, DecodeError> {
        let bundle = reader.u32()?;
        let number = reader.u16()?;
        let unknown = DecodeError::Value { what: "bundle step", value: number.into() };
        let step = *BundleStep::ALL.get(usize::from(number)).ok_or(unknown)?;
        Ok(Self { bundle, step, flags: reader.u16()? })
    }
}
