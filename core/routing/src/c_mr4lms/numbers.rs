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
