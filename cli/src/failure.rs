//! How a command ends: yes (0), no (1), could not tell (2), or as the processes it started.

use std::fmt::Display;

/// Why a command did not succeed. The chain of causes is joined when it is printed.
#[derive(Debug)]
pub enum Failure {
    /// A check failed, drift was found, nothing matched: exit 1.
    No(String),
    /// Bad usage or bad input, or a part did not answer: exit 2.
    CouldNotTell(anyhow::Error),
    /// Bad settings of a service: exit 78.
    BadConfig(anyhow::Error),
    /// Processes that were started have failed: their exit code.
    Ended(u8, String),
    /// One of the others, and what the person can do about it.
    Hinted(Box<Self>, String),
}

impl Failure {
    /// The exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::No(_) => 1,
            Self::CouldNotTell(_) => 2,
            Self::BadConfig(_) => 78,
            Self::Ended(code, _) => *code,
            Self::Hinted(failure, _) => failure.exit_code(),
        }
    }

    /// The one message for standard error, causes included; a hint is a line of its own.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::No(text) | Self::Ended(_, text) => text.clone(),
            Self::CouldNotTell(error) | Self::BadConfig(error) => joined(error),
            Self::Hinted(failure, hint) => format!("{}\nhint: {hint}", failure.message()),
        }
    }

    /// Bad input with a text of its own.
    pub fn input(text: impl Display) -> Self {
        Self::CouldNotTell(anyhow::anyhow!("{text}"))
    }

    /// Adds what the person can do next.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self::Hinted(Box::new(self), hint.into())
    }
}

/// Joins a chain of causes; a cause whose text the outer one already ends with is left out.
fn joined(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = match cause.downcast_ref::<tonic::Status>() {
            Some(status) => status_text(status),
            None => cause.to_string(),
        };
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// What a person wants to see of a gRPC status: message and reason.
fn status_text(status: &tonic::Status) -> String {
    match fabricast_rpc::reason_of(status) {
        Some(reason) => format!("{} ({reason})", status.message()),
        None if status.message().is_empty() => format!("{:?}", status.code()),
        None => status.message().to_owned(),
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::CouldNotTell(error.into())
    }
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
    fn a_status_shows_its_reason() {
        let status = fabricast_rpc::Reason::UnknownGroup.status("no group named 'x'", &[]);
        assert_eq!(Failure::from(status).message(), "no group named 'x' (UNKNOWN_GROUP)");
    }

    #[test]
    fn a_hint_is_one_more_line_and_keeps_the_exit_code() {
        let failure = Failure::No("2 violations".to_owned()).hint("plan again");
        assert_eq!(failure.exit_code(), 1);
        assert_eq!(failure.message(), "2 violations\nhint: plan again");
    }
}
