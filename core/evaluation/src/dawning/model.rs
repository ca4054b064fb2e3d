//! The constants of the simulation.

use fabricast_simulator::Model;

/// Unicast and multicast on one virtual channel, with buffers of one multicast packet: fitted to
/// the 500 us of cyclic broadcasts over hot-region unicast (§5.1).
pub(super) const MODEL: Model = Model { buffer_bytes: MULTICAST_BYTES, ..Model::dawning() };
/// Lengths of packets (§5).
pub(super) const UNICAST_BYTES: u32 = 256;
pub(super) const MULTICAST_BYTES: u32 = 1_024;
/// The endpoint that broadcasts.
pub(super) const SOURCE: u32 = 37;
