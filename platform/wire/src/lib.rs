//! Codecs between the types of `core` and the messages of `fabricast.v1`.
//!
//! `proto` and `core` do not know each other, so services and agents translate; here is what more
//! than one of them needs. `encode_*` cannot fail. `decode_*` returns a [`WireError`], which names
//! the field that is missing or invalid and becomes a status of the matching reason.
//!
//! Invariants, one law per codec
//! - decoding what was encoded gives the value that was encoded.

mod error;
mod group;
mod member;
mod operation;
mod position;
mod refusal;
mod report;
mod route;
mod tree;

pub use error::{WireError, decode_name, required};
pub use group::{decode_group, decode_snapshot, decode_timestamp, encode_group, encode_timestamp};
pub use member::{decode_member, encode_member, encode_member_view, encode_node};
pub use operation::{decode_operation, encode_operation_error, encode_operation_result};
pub use position::{decode_position, encode_position};
pub use refusal::{decode_refusal, encode_refusal};
pub use report::{
    decode_group_agent_status, decode_report, decode_verdict, encode_hosted_group, encode_report,
};
pub use route::{decode_route, encode_route};
pub use tree::{decode_tree, encode_tree};

#[cfg(test)]
mod tests;
