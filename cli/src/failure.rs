//! Exit codes of commands: yes (0), no (1), could not tell (2), nobody answers (3), or that of the
//! processes started.

use std::fmt::Display;

use fabricast_rpc::RpcError;
use serde::Serialize;

/// Reason why a command did not succeed. The chain of causes is joined for printing.
#[derive(Debug)]
pub enum Failure {
    /// A check failed, drift was found, or nothing matched: exit 1.
    No(String),
    /// Wrong usage or input, or a refusal: exit 2.
    CouldNotTell(anyhow::Error),
    /// A part does not answer, or not in time: exit 3.
    Unreachable(anyhow::Error),
    /// Invalid settings of a service: exit 78.
    BadConfig(anyhow::Error),
    /// Started processes have failed: exit with their code.
    Ended(u8, String),
    /// Another failure, with a hint at what to do.
    Hinted(Box<Self>, String),
}

impl Failure {
    /// The exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::No(_) => 1,
            Self::CouldNotTell(_) => 2,
            Self::Unreachable(_) => 3,
            Self::BadConfig(_) => 78,
            Self::Ended(code, _) => *code,
            Self::Hinted(failure, _) => failure.exit_code(),
        }
    }

    /// The message for standard error, with causes; a hint is a line of its own.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::No(text) | Self::Ended(_, text) => text.clone(),
            Self::CouldNotTell(error) | Self::Unreachable(error) | Self::BadConfig(error) => {
                joined(error)
            }
            Self::Hinted(failure, hint) => format!("{}\nhint: {hint}", failure.message()),
        }
    }

    /// Makes a failure for wrong input.
    pub fn input(text: impl Display) -> Self {
        Self::CouldNotTell(anyhow::anyhow!("{text}"))
    }

    /// Makes a failure for a part that does not answer.
    pub fn unreachable(text: impl Display) -> Self {
        Self::Unreachable(anyhow::anyhow!("{text}"))
    }

    /// The failure as one line of JSON: `{"error":{"message":...,"exitCode":...}}`, with the
    /// `reason` of a refused call and the `hint` if there are some.
    #[must_use]
    pub fn json(&self) -> String {
        let (failure, hint) = match self {
            Self::Hinted(failure, hint) => (&**failure, Some(hint.as_str())),
            failure => (failure, None),
        };
        let reason = match failure {
            Self::CouldNotTell(error) | Self::Unreachable(error) | Self::BadConfig(error) => {
                error.chain().find_map(|cause| cause.downcast_ref::<RpcError>()?.reason_text())
            }
            Self::No(_) | Self::Ended(..) | Self::Hinted(..) => None,
        };
        let (message, exit_code) = (failure.message(), self.exit_code());
        error_line(&ErrorText { message, reason, hint, exit_code })
    }

    /// Adds a hint at what to do next.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self::Hinted(Box::new(self), hint.into())
    }
}

/// An error as programs read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorText<'a> {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    exit_code: u8,
}

fn error_line(error: &ErrorText<'_>) -> String {
    serde_json::json!({ "error": error }).to_string()
}

/// Wrong arguments as one line of JSON, in the form of [`Failure::json`].
#[must_use]
pub fn usage_json(message: &str) -> String {
    let message = message.trim_end().to_owned();
    error_line(&ErrorText { message, reason: None, hint: None, exit_code: 2 })
}

/// Joins a chain of causes; a cause with which the text so far ends is left out.
fn joined(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        if is_unreachable(&error) { Self::Unreachable(error) } else { Self::CouldNotTell(error) }
    }
}

/// True if there was nobody to answer. A part that refuses names a reason.
fn is_unreachable(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let silent = cause.downcast_ref::<RpcError>().is_some_and(|call| {
            call.code() == tonic::Code::Unavailable && call.reason_text().is_none()
        });
        silent || matches!(cause.downcast_ref(), Some(fabricast_client::Error::Unreachable { .. }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn causes_are_joined_once() {
        let error = Err::<(), _>(std::io::Error::other("disk full")).context("write 'x'");
        let failure = Failure::from(error.unwrap_err());
        assert_eq!((failure.exit_code(), failure.message().as_str()), (2, "write 'x': disk full"));
    }

    #[test]
    fn a_part_that_does_not_answer_is_told_from_one_that_refuses() {
        let silent = tonic::Status::unavailable("connection refused");
        let failure = Failure::from(RpcError::from(silent));
        assert_eq!(failure.exit_code(), 3);
        let refused = fabricast_rpc::Reason::NotLeader.status("another TIC leads", &[]);
        assert_eq!(Failure::from(RpcError::from(refused)).exit_code(), 2);
    }

    #[test]
    fn the_error_of_a_call_shows_its_reason() {
        let status = fabricast_rpc::Reason::UnknownGroup.status("no group named 'x'", &[]);
        assert_eq!(
            Failure::from(RpcError::from(status)).message(),
            "no group named 'x' (UNKNOWN_GROUP)"
        );
    }

    #[test]
    fn a_failure_is_one_line_of_json_for_programs() {
        let status = fabricast_rpc::Reason::UnknownGroup.status("no group named 'x'", &[]);
        let failure = Failure::from(RpcError::from(status)).hint("list them");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(
            read(&failure.json()),
            serde_json::json!({ "error": {
                "message": "no group named 'x' (UNKNOWN_GROUP)", "reason": "UNKNOWN_GROUP",
                "hint": "list them", "exitCode": 2,
            } })
        );
        let silent = Failure::unreachable("nobody\nanswers").json();
        assert_eq!(read(&silent)["error"]["exitCode"], 3);
        assert_eq!(silent.lines().count(), 1);
    }

    #[test]
    fn a_hint_is_one_more_line_and_keeps_the_exit_code() {
        let failure = Failure::No("2 violations".to_owned()).hint("plan again");
        assert_eq!(failure.exit_code(), 1);
        assert_eq!(failure.message(), "2 violations\nhint: plan again");
    }
}
