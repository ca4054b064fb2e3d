//! Answers a request that cannot be decoded with `INVALID_ARGUMENT`.
//!
//! tonic answers it with `INTERNAL`, which says that the server has failed.

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use tonic::body::Body;
use tonic::{Code, Status};

use crate::middleware::{InnerService, Middleware};
use fabricast_status::Reason;

/// Beginnings of tonic's messages about requests that it cannot read.
const FAULTS: [&str; 5] = [
    "failed to decode Protobuf message",
    "protocol error: received message with",
    "Error decompressing",
    "Missing request message.",
    "Unexpected EOF decoding stream.",
];

/// Changes the status of requests that cannot be decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefuseUnreadable;

impl Middleware for RefuseUnreadable {
    async fn handle<S: InnerService>(
        self,
        request: Request<Body>,
        mut inner: S,
    ) -> Result<Response<Body>, S::Error> {
        let answer = inner.call(request).await?;
        if let Some(refusal) = refusal(answer.headers()) {
            return Ok(refusal.into_http());
        }
        Ok(answer.map(|body| {
            Body::new(body.map_frame(|mut frame| {
                let refusal = frame.trailers_mut().and_then(|trailers| {
                    let refusal = refusal(trailers)?;
                    Some((trailers, refusal))
                });
                if let Some((trailers, refusal)) = refusal {
                    // The status stays as it was if the detail cannot be written.
                    let _ = refusal.add_header(trailers);
                }
                frame
            }))
        }))
    }
}

/// The status for a request that cannot be read; `None` if these headers tell of something else.
fn refusal(headers: &HeaderMap) -> Option<Status> {
    let is_internal =
        |code: &http::HeaderValue| Code::from_bytes(code.as_bytes()) == Code::Internal;
    headers.get("grpc-status").filter(|code| is_internal(code))?;
    let status = Status::from_header_map(headers)?;
    FAULTS
        .iter()
        .any(|fault| status.message().starts_with(fault))
        .then(|| Reason::RequestUnreadable.status(status.message(), &[]))
}
