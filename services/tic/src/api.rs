//! The gRPC services: requests are checked here, then decided by the writer or answered from the
//! records. Only this folder makes a `tonic::Status`.

pub(crate) mod batch;
pub(crate) mod batch_limits;
pub(crate) mod batches;
pub(crate) mod choice_report;
pub(crate) mod choices;
pub(crate) mod collectives;
pub(crate) mod fields;
pub(crate) mod gate;
pub(crate) mod job_placer;
pub(crate) mod jobs;
pub(crate) mod members;
pub(crate) mod mgid_plan;
pub(crate) mod nodes;
pub(crate) mod pages;
pub(crate) mod record_export;
pub(crate) mod status;
pub(crate) mod term_holder;
pub(crate) mod tic;
pub(crate) mod topology;
