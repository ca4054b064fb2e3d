//! Runtime that the subsystems share: the nodes' state machines, tasks, and channels to others.

use crate::nodes::Nodes;

pub(crate) mod batch_queue;
pub(crate) mod channels;
pub(crate) mod client_windows;
pub(crate) mod in_flight;
pub(crate) mod shared_calls;
pub(crate) mod tasks;

use channels::Channels;
use tasks::Tasks;

/// Handles of the runtime; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    /// State machines of the hosted nodes, with their lock and clock.
    pub(crate) nodes: Nodes,
    pub(crate) tasks: Tasks,
    pub(crate) channels: Channels,
}
