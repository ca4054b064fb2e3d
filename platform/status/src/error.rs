//! The error of a call to another part, as its caller sees it.

use std::fmt;
use std::time::Duration;

use tonic::{Code, Status};

use crate::status::{Reason, fact_of, named, reason_of, retry_after};

/// The error of a call: the status that the server sent, or that tonic made of a broken connection.
///
/// Callers branch on [`RpcError::reason`] and log [`RpcError::message`]. `api/` folders, which
/// answer calls, make a `tonic::Status`; everything else that makes calls handles this type.
#[derive(Clone)]
pub struct RpcError(Status);

impl RpcError {
    /// The error of a refusal of which only code, reason and message are known.
    ///
    /// - `reason`: its text; empty if there is none.
    #[must_use]
    pub fn with_reason(code: Code, reason: &str, message: &str) -> Self {
        Self(match reason {
            "" => Status::new(code, message),
            reason => named(code, reason, message),
        })
    }

    /// The gRPC code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code()
    }

    /// The reason of a refusal; `None` if Fabricast did not make the status, or a newer one did
    /// and its reason is unknown here.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        Reason::from_text(&self.reason_text()?)
    }

    /// The stable text of the reason, known here or not; `None` if Fabricast did not make the
    /// status.
    #[must_use]
    pub fn reason_text(&self) -> Option<String> {
        reason_of(&self.0)
    }

    /// The text for people, without code and reason.
    #[must_use]
    pub fn message(&self) -> &str {
        self.0.message()
    }

    /// One of the facts that accompany the reason, such as `leader` of `NOT_LEADER`.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<String> {
        fact_of(&self.0, name)
    }

    /// The delay before another attempt that the server asks for, if it asks for one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.0)
    }
}

impl From<Status> for RpcError {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

impl From<RpcError> for Status {
    fn from(error: RpcError) -> Self {
        error.0
    }
}

impl fmt::Display for RpcError {
    /// The message and the reason, `no group 'x' (UNKNOWN_GROUP)`, or the code if there is no
    /// message.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reason_text(), self.message()) {
            (Some(reason), message) => write!(formatter, "{message} ({reason})"),
            (None, "") => write!(formatter, "{:?}", self.code()),
            (None, message) => formatter.write_str(message),
        }
    }
}

impl fmt::Debug for RpcError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl std::error::Error for RpcError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_message_and_reason_or_else_the_code() {
        let refused = Reason::UnknownGroup.status("no group 'x'", &[("group", "x")]);
        let refused = RpcError::from(refused);
        assert_eq!(refused.to_string(), "no group 'x' (UNKNOWN_GROUP)");
        assert_eq!(refused.reason(), Some(Reason::UnknownGroup));
        assert_eq!(refused.fact("group").as_deref(), Some("x"));
        assert_eq!(RpcError::from(Status::unavailable("gone")).to_string(), "gone");
        assert_eq!(RpcError::from(Status::cancelled("")).to_string(), "Cancelled");
    }

    #[test]
    fn a_status_is_unchanged_when_it_is_handed_on() {
        let delay = Duration::from_millis(70);
        let error = RpcError::from(Reason::RateLimited.status_after("busy", delay));
        assert_eq!(error.retry_after(), Some(delay));
        let status = Status::from(error);
        assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "busy"));
        assert!(Reason::RateLimited.is_of(&status), "{status}");
    }

    #[test]
    fn an_unknown_reason_keeps_its_text() {
        let error = RpcError::with_reason(Code::Aborted, "FROM_THE_FUTURE", "no");
        assert_eq!(error.reason(), None);
        assert_eq!(error.reason_text().as_deref(), Some("FROM_THE_FUTURE"));
    }
}
