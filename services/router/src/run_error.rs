//! Reason why a running route service ends by itself.

use fabricast_reconciler::PlanError;
use fabricast_rpc::ServeError;
use fabricast_topology::ibnetdiscover;
use thiserror::Error;

/// Reason why a running route service ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// The listener failed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The TIC serves another topology than at the start; run again with the new one.
    #[error("the topology of the TIC has changed")]
    OtherTopology,
    /// The TIC serves a topology that cannot be read.
    #[error("the TIC's topology cannot be read")]
    Topology(#[source] ibnetdiscover::ReadError),
    /// No engine fits the topology or the settings.
    #[error("no routes can be planned")]
    Plan(#[from] PlanError),
}
