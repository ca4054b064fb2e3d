//! Refusals of single calls among many, as they are sent inside an answer.

use fabricast_proto::v1;
use fabricast_status::RpcError;
use tonic::Code;

/// Encodes the refusal of one call.
///
/// Facts and the delay before another attempt are left out.
pub fn encode_refusal(refusal: impl Into<RpcError>) -> v1::CallRefusal {
    let refusal = refusal.into();
    v1::CallRefusal {
        code: i32::from(refusal.code()).unsigned_abs(),
        reason: refusal.reason_text().unwrap_or_default(),
        message: refusal.message().to_owned(),
    }
}

/// Decodes the refusal of one call, as the error that the call would have had on its own.
#[must_use]
pub fn decode_refusal(refusal: &v1::CallRefusal) -> RpcError {
    let code = i32::try_from(refusal.code).map_or(Code::Unknown, Code::from_i32);
    RpcError::with_reason(code, &refusal.reason, &refusal.message)
}
