//! The load's constants of §5; those of links and switches are [`crate::hardware`].

/// Lengths of packets (§5).
pub(super) const UNICAST_BYTES: u32 = 256;
pub(super) const MULTICAST_BYTES: u32 = 1_024;
/// The endpoint that broadcasts.
pub(super) const SOURCE: u32 = 37;
