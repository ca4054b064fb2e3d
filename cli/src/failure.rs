//! Exit codes of commands: yes (0), no (1), could not tell (2), or that of the processes started.

use std::fmt::Display;

/// Reason why a command did not succeed. The chain of causes is joined for printing.
#[derive(Debug)]
pub enum Failure {
    /// A check failed, drift was found, or nothing matched: exit 1.
    No(String),
    /// Wrong usage or input, or a part did not answer: exit 2.
    CouldNotTell(anyhow::Error),
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
            Self::CouldNotTell(error) | Self::BadConfig(error) => joined(error),
            Self::Hinted(failure, hint) => format!("{}\nhint: {hint}", failure.message()),
        }
    }

    /// Makes a failure for wrong input.
    pub fn input(text: impl Display) -> Self {
        Self::CouldNotTell(anyhow::anyhow!("{text}"))
    }

    /// Adds a hint at what to do next.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self::Hinted(Box::new(self), hint.into())
    }
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
        Self::CouldNotTell(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use fabricast_rpc::RpcError;

    #[test]
    fn causes_are_joined_once() {
        let error = Err::<(), _>(std::io::Error::other("disk full")).context("write 'x'");
        let failure = Failure::from(error.unwrap_err());
        assert_eq!((failure.exit_code(), failure.message().as_str()), (2, "write 'x': disk full"));
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
    fn a_hint_is_one_more_line_and_keeps_the_exit_code() {
        let failure = Failure::No("2 violations".to_owned()).hint("plan again");
        assert_eq!(failure.exit_code(), 1);
        assert_eq!(failure.message(), "2 violations\nhint: plan again");
    }
}
