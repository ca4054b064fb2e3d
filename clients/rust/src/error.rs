//! Errors of a process, and who is at fault.

use std::path::PathBuf;

use fabricast_status::RpcError;
use thiserror::Error;
use tonic::Code;

/// Reason why something could not be done.
#[derive(Debug, Error)]
pub enum Error {
    /// The environment does not name the socket of the agent.
    #[error("{} is not set: it names the socket of the operating agent", crate::Settings::SOCKET)]
    NoSocket,
    /// The environment names a path of messages that does not exist.
    #[error("{}: '{path}' is none of auto, agent and direct", crate::Settings::PATH)]
    UnknownPath {
        /// Path as named.
        path: String,
    },
    /// No agent answers at the socket: no such file, no listener, or no permission.
    #[error("no operating agent can be reached at {socket}")]
    Unreachable {
        /// Path that was tried.
        socket: PathBuf,
        /// Reason given by the system.
        #[source]
        source: tonic::transport::Error,
    },
    /// The agent is gone, or has declared the process dead: all its memberships have ended. Attach
    /// and join again, with a new client.
    #[error("the process is not attached any more: {what}")]
    Detached {
        /// The event that ended the session.
        what: String,
    },
    /// The process is not a member of the group, or no longer.
    #[error("not a member of group '{group}'")]
    NotAMember {
        /// Name of the group.
        group: String,
    },
    /// Members failed before they contributed to an operation; all other participants get the same
    /// error.
    #[error("members {} failed", list(.failed))]
    MembersFailed {
        /// Ranks of the members, ascending.
        failed: Vec<u32>,
    },
    /// The agent, or a part behind it, refused the call.
    #[error("{message} ({})", if reason.is_empty() { format!("{code:?}") } else { reason.clone() })]
    Refused {
        /// Status code of gRPC, also of a refusal that has no reason.
        code: Code,
        /// Stable name of the reason, such as `NAME_INVALID`; empty if Fabricast did not make the
        /// status.
        reason: String,
        /// Explanation for people.
        message: String,
    },
    /// The runtime behind the blocking interface cannot be started.
    #[error("cannot start the runtime of the client")]
    Runtime(#[source] std::io::Error),
}

impl Error {
    /// Interprets the error of a call of an attached process.
    pub(crate) fn of_call(error: impl Into<RpcError>) -> Self {
        let error = error.into();
        let reason = error.reason_text().unwrap_or_default();
        // Over a local socket, a status that the agent did not make means that it is gone.
        let gone = match reason.as_str() {
            "UNKNOWN_SESSION" | "SHUTTING_DOWN" => true,
            // tonic gives an exceeded deadline another code; it does not end the session.
            "" => matches!(error.code(), Code::Unavailable | Code::Unknown),
            _ => false,
        };
        if gone {
            return Self::Detached { what: error.message().to_owned() };
        }
        Self::Refused { code: error.code(), reason, message: error.message().to_owned() }
    }

    /// Interprets the error of a call about a group that the process was a member of.
    pub(crate) fn of_group(group: &str, error: impl Into<RpcError>) -> Self {
        let error = error.into();
        match error.reason_text().as_deref() {
            Some("NOT_A_MEMBER") => Self::NotAMember { group: group.to_owned() },
            Some("MEMBERS_FAILED") => {
                let failed = error.fact("failed").unwrap_or_default();
                let failed = failed.split(',').filter_map(|rank| rank.parse().ok()).collect();
                Self::MembersFailed { failed }
            }
            Some(_) | None => Self::of_call(error),
        }
    }

    /// The agent answered something that its protocol does not allow.
    pub(crate) fn bad_answer(message: impl Into<String>) -> Self {
        Self::Refused { code: Code::Internal, reason: String::new(), message: message.into() }
    }

    /// The agent ended a call that lasts as long as the session or the membership.
    pub(crate) fn ended(what: &str) -> Self {
        Self::Detached { what: what.to_owned() }
    }
}

/// Lists ranks for a sentence.
fn list(ranks: &[u32]) -> String {
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricast_status::Reason;

    #[test]
    fn a_refusal_differs_from_an_agent_that_is_gone() {
        let error = Error::of_call(tonic::Status::unavailable("connection refused"));
        assert!(matches!(error, Error::Detached { .. }), "{error}");
        let error = Error::of_call(Reason::UnknownSession.status("none such", &[]));
        assert!(matches!(error, Error::Detached { .. }), "{error}");
        let status = Reason::PeerUnavailable.status("no answer from the TIC", &[]);
        assert_eq!(
            Error::of_call(status).to_string(),
            "no answer from the TIC (PEER_UNAVAILABLE)",
            "the agent itself answers"
        );
        let error = Error::of_group("g", Reason::NotAMember.status("no", &[]));
        assert_eq!(error.to_string(), "not a member of group 'g'");
        let failed = Reason::MembersFailed.status("members 2, 5 failed", &[("failed", "2,5")]);
        let error = Error::of_group("g", failed);
        assert_eq!(error.to_string(), "members 2, 5 failed", "{error:?}");
    }
}
