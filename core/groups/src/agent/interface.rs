//! Settings and outputs of group agents.

use std::time::Duration;

use crate::detector::DetectorConfig;
use crate::ids::{Gn, Incarnation};
use crate::message::PositionUpdate;
use crate::names::{Address, NodeName};

/// Timeouts of group agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaConfig {
    /// Failure detection of the members' nodes.
    pub detector: DetectorConfig,
    /// Time after which a position that no report confirms is sent again. Must be longer than the
    /// report interval, or every position is sent twice.
    pub resend: Duration,
    /// Time after which a fetch or a report of a failed node is repeated. Reports are repeated at
    /// doubling intervals, up to the report timeout.
    pub retry: Duration,
}

/// Output of a [`GaHost`](super::GaHost), to be carried out by its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GaOutput {
    /// Send a member its place.
    Position {
        /// Address where its operating agent listens.
        address: Address,
        /// Position to send.
        update: PositionUpdate,
    },
    /// Probe a node, and pass its answer to
    /// [`GaHost::probe_answered`](super::GaHost::probe_answered).
    Probe {
        /// Name of the node.
        node: NodeName,
        /// Address where its operating agent listens.
        address: Address,
        /// The number of the probe.
        probe: u64,
    },
    /// Report to the TIC that a node seems to have failed: it neither reports nor answers probes
    /// here.
    NodeFailed {
        /// Name of the node.
        node: NodeName,
        /// Incarnation that failed.
        incarnation: Incarnation,
    },
    /// Fetch the group from the TIC and pass on the snapshot, or that the group does not exist. The
    /// members may be left out if they are those of [`GaHost::whole_at`](super::GaHost::whole_at).
    Refresh {
        /// Number of the group.
        gn: Gn,
    },
}
