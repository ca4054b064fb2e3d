//! What can go wrong for a process, and whose fault it is.

use std::path::PathBuf;

use fabricast_rpc::{fact_of, reason_of};
use thiserror::Error;
use tonic::{Code, Status};

/// Why something could not be done.
#[derive(Debug, Error)]
pub enum Error {
    /// Nobody said where the agent listens.
    #[error("{} is not set: it names the socket of the operating agent", crate::Settings::SOCKET)]
    NoSocket,
    /// Nobody can be reached at the socket: no such file, nobody listens, or no permission.
    #[error("no operating agent can be reached at {socket}")]
    Unreachable {
        /// The path tried.
        socket: PathBuf,
        /// The system's reason.
        #[source]
        source: tonic::transport::Error,
    },
    /// The agent has gone, or holds the process for dead: all its memberships have ended. Attach and join
    /// again, with a new client.
    #[error("the process is not attached any more: {what}")]
    Detached {
        /// What was noticed.
        what: String,
    },
    /// The process is not a member of the group, or not any more.
    #[error("not a member of group '{group}'")]
    NotAMember {
        /// The group.
        group: String,
    },
    /// Members were gone before they contributed to an operation; all others who took part get the same.
    #[error("members {} failed", list(.failed))]
    MembersFailed {
        /// Their ranks, ascending.
        failed: Vec<u32>,
    },
    /// The agent, or a part behind it, refuses.
    #[error("{message} ({})", if reason.is_empty() { format!("{code:?}") } else { reason.clone() })]
    Refused {
        /// The kind of refusal.
        code: Code,
        /// The stable name of the reason, such as `NAME_INVALID`; empty if the refusal is not Fabricast's.
        reason: String,
        /// What is wrong, for people.
        message: String,
    },
    /// The runtime behind the blocking interface cannot be started.
    #[error("cannot start the runtime of the client")]
    Runtime(#[source] std::io::Error),
}

impl Error {
    /// What a refused call says about a process that was attached.
    pub(crate) fn of_call(status: &Status) -> Self {
        let reason = reason_of(status).unwrap_or_default();
        // Over a socket of this machine, what does not come from the agent says that it is gone.
        let gone = match reason.as_str() {
            "UNKNOWN_SESSION" | "SHUTTING_DOWN" => true,
            // What tonic makes of a deadline has a code of its own, and is no end.
            "" => matches!(status.code(), Code::Unavailable | Code::Unknown),
            _ => false,
        };
        if gone {
            return Self::Detached { what: status.message().to_owned() };
        }
        Self::Refused { code: status.code(), reason, message: status.message().to_owned() }
    }

    /// The same about a group that the process was a member of.
    pub(crate) fn of_group(group: &str, status: &Status) -> Self {
        match Self::of_call(status) {
            Self::Refused { reason, .. } if reason == "NOT_A_MEMBER" => {
                Self::NotAMember { group: group.to_owned() }
            }
            Self::Refused { reason, .. } if reason == "MEMBERS_FAILED" => {
                let failed = fact_of(status, "failed").unwrap_or_default();
                let failed = failed.split(',').filter_map(|rank| rank.parse().ok()).collect();
                Self::MembersFailed { failed }
            }
            error => error,
        }
    }
}

/// Names ranks in a sentence.
fn list(ranks: &[u32]) -> String {
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricast_rpc::Reason;

    #[test]
    fn refusals_are_told_from_an_agent_that_is_gone() {
        let error = Error::of_call(&Status::unavailable("connection refused"));
        assert!(matches!(error, Error::Detached { .. }), "{error}");
        let error = Error::of_call(&Reason::UnknownSession.status("none such", &[]));
        assert!(matches!(error, Error::Detached { .. }), "{error}");
        let status = Reason::PeerUnavailable.status("no answer from the TIC", &[]);
        assert_eq!(
            Error::of_call(&status).to_string(),
            "no answer from the TIC (PEER_UNAVAILABLE)",
            "the agent is there and says so"
        );
        let error = Error::of_group("g", &Reason::NotAMember.status("no", &[]));
        assert_eq!(error.to_string(), "not a member of group 'g'");
        let failed = Reason::MembersFailed.status("members 2, 5 failed", &[("failed", "2,5")]);
        let error = Error::of_group("g", &failed);
        assert_eq!(error.to_string(), "members 2, 5 failed", "{error:?}");
    }
}
