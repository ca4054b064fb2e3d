//! The gRPC API of the fabric. Only this layer makes a [`Status`] of an error.

mod aggregation_service;
mod attach;
mod fabric_service;

use fabricast_rpc::Reason;
use tonic::Status;

use crate::key::WrongKey;
use crate::tables::StaleFence;
use crate::wire::Refusal;

pub(crate) use aggregation_service::AggregationService;
pub(crate) use fabric_service::Service;

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let (key, value) = refusal.fact();
        refusal.reason().status(refusal.to_string(), &[(key, &value)])
    }
}

impl From<StaleFence> for Status {
    fn from(stale: StaleFence) -> Self {
        Reason::StaleFence.status(stale.to_string(), &[("switch", &stale.switch)])
    }
}

impl From<WrongKey> for Status {
    fn from(wrong: WrongKey) -> Self {
        let facts = [("field", "management_key")];
        Reason::ManagementKeyWrong.status(wrong.to_string(), &facts)
    }
}
