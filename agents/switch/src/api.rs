//! The gRPC API of the switch agent. Only this layer makes a [`Status`] of an error.

mod aggregation_service;
mod switch_service;

use fabricast_rpc::Reason;
use tonic::{Code, Status};

use crate::driver::DriverError;

pub(crate) use aggregation_service::AggregationAgent;
pub use switch_service::SwitchAgent;

/// Limit of one message in bytes; enough for the switches and writes of a fabric with a million
/// endpoints.
pub(crate) const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

impl From<DriverError> for Status {
    fn from(error: DriverError) -> Self {
        let text = error.to_string();
        match &error {
            // The hardware has changed since it was discovered. Its own error fits the caller, too.
            DriverError::Refused { source, .. } if source.code() == Code::NotFound => {
                source.clone().into()
            }
            DriverError::Unavailable { fabric, .. } => {
                Reason::FabricUnavailable.status(text, &[("fabric", fabric)])
            }
            DriverError::Refused { fabric, source } => Reason::FabricUnavailable
                .status(format!("{text}: {}", source.message()), &[("fabric", fabric)]),
            DriverError::UnknownSwitch { switch } => {
                Reason::UnknownSwitch.status(text, &[("switch", switch)])
            }
            DriverError::NoCounters => Reason::NoCounters.status(text, &[]),
            DriverError::NoAggregation => Reason::NoAggregation.status(text, &[]),
            DriverError::NoDiscovery => Reason::NoTopology.status(text, &[]),
            DriverError::StaleFence { .. } => Reason::StaleFence.status(text, &[]),
            DriverError::TermNotGranted { .. } => {
                Reason::TermNotGranted.status(text, &[("field", "fence.term")])
            }
        }
    }
}
