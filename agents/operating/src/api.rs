//! The gRPC services: requests read, errors made statuses.

pub(crate) mod collective_agent;
mod membership_requests;
pub(crate) mod operating_agent;
pub(crate) mod process;
mod status;
