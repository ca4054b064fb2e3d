//! Reasons of refusals, and the error of a call: what programs that only make calls share with the
//! servers of Fabricast.
//!
//! [`Reason`] makes a status of a refusal; [`RpcError`] is the error of a call as its caller
//! handles it.

mod error;
mod status;

pub use error::RpcError;
pub use status::{Reason, fact_of, reason_of, retry_after};
