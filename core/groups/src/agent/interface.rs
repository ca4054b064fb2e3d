//! What the owner of group agents sets and has to do.

use std::time::Duration;

use crate::detector::DetectorConfig;
use crate::ids::{Gn, Incarnation};
use crate::message::PositionUpdate;
use crate::names::{Address, NodeName};

/// How long group agents wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaConfig {
    /// How members' nodes are watched.
    pub detector: DetectorConfig,
    /// A position that no report names is sent again after this long; longer than the interval of
    /// reports, or every position is sent twice.
    pub resend: Duration,
    /// A snapshot that does not come, or a failed node that stays, is brought up again after this; the node
    /// then after twice as long and so on, up to the time after which a report is overdue.
    pub retry: Duration,
}

/// What the owner of a [`GaHost`](super::GaHost) has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GaOutput {
    /// Send a member its place.
    Position {
        /// Where its operating agent listens.
        address: Address,
        /// The place.
        update: PositionUpdate,
    },
    /// Ask a node whether it lives, and hand its answer in with the probe's number.
    Probe {
        /// The node.
        node: NodeName,
        /// Where its operating agent listens.
        address: Address,
        /// The number of the probe.
        probe: u64,
    },
    /// Tell the TIC that a node seems to have failed: it does not report or answer here.
    NodeFailed {
        /// The node.
        node: NodeName,
        /// The life that failed.
        incarnation: Incarnation,
    },
    /// Fetch the group from the TIC; hand it in as a snapshot, or as gone if there is none. The members may be left
    /// out if they are those of [`GaHost::whole_at`](super::GaHost::whole_at).
    Refresh {
        /// The group.
        gn: Gn,
    },
}
