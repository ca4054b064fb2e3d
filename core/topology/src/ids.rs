//! Dense numbers for the parts of a graph, so that every lookup is an index.

use serde::{Deserialize, Serialize};

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the number as an index into a column.
            #[must_use]
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

dense_id! {
    /// A switch of one graph, numbered from 0 in the order of the file.
    SwitchId
}
dense_id! {
    /// An adapter port of one graph, numbered from 0, adapter after adapter.
    EndpointId
}
dense_id! {
    /// A switch port, numbered over all switches; those of one switch are contiguous.
    PortId
}
dense_id! {
    /// An adapter (a card with one or more ports) of one graph.
    AdapterId
}

/// Peer of a switch port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// No cable is plugged in.
    None,
    /// An adapter port.
    Endpoint(EndpointId),
    /// A port of a switch: another one, or the same one for a loopback cable.
    Switch(PortId),
}

/// Converts a length or index to a dense number.
pub(crate) fn dense(index: usize) -> u32 {
    u32::try_from(index).expect("a graph has fewer than 2^32 of anything")
}
