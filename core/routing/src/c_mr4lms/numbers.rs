//! Numbers that must not be mixed up. All are plain 32-bit numbers at run time.

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(transparent)]
        pub(super) struct $name(pub(super) u32);

        impl $name {
            pub(super) const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

number! {
    /// Number of a group in the registry; used again for another group when it is gone.
    GroupIndex
}
number! {
    /// Number of an endpoint by its place (see [`fabric`](super::fabric)), less than
    /// [`Fabric::slots`](super::fabric::Fabric::slots).
    EndpointSlot
}
number! {
    /// Number of a spanning tree, or of a pair of them with fault tolerance: the paper's `spt_no`,
    /// less than [`MgidSpace::total`](crate::MgidSpace::total).
    TreeNumber
}
number! {
    /// Number of a round of spanning trees, less than
    /// [`MgidSpace::rounds`](crate::MgidSpace::rounds); with per-port tables a round is a color.
    Round
}

impl From<TreeNumber> for usize {
    fn from(number: TreeNumber) -> Self {
        number.index()
    }
}

impl From<Round> for usize {
    fn from(round: Round) -> Self {
        round.index()
    }
}
