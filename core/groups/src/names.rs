//! Names that users and operators choose, checked once where they enter.
//!
//! A name is 1 to 256 characters without control characters; nothing else is forbidden, because
//! names come from job schedulers and host tables that we do not own. Cloning one is cheap; one of up to 23
//! bytes lies where it is used, so that finding it in an ordered map follows no pointer.

use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use thiserror::Error;

/// The longest name, in characters.
pub const MAX_NAME_CHARS: usize = 256;

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum NameError {
    /// The text has no characters.
    #[error("{kind} is empty")]
    Empty {
        /// What was to be named.
        kind: String,
    },
    /// The text is too long.
    #[error("{kind} has {chars} characters, at most {MAX_NAME_CHARS} are allowed")]
    TooLong {
        /// What was to be named.
        kind: String,
        /// Characters in the text.
        chars: usize,
    },
    /// The text has a control character.
    #[error("{kind} has control character {character:?} at character {at}")]
    ControlCharacter {
        /// What was to be named.
        kind: String,
        /// The offending character.
        character: char,
        /// Its place, counted from 0.
        at: usize,
    },
}

fn check(kind: &str, text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { kind: kind.to_owned() });
    }
    let chars = text.chars().count();
    if chars > MAX_NAME_CHARS {
        return Err(NameError::TooLong { kind: kind.to_owned(), chars });
    }
    match text.chars().enumerate().find(|(_, character)| character.is_control()) {
        Some((at, character)) => {
            Err(NameError::ControlCharacter { kind: kind.to_owned(), character, at })
        }
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(SmolStr);

        impl $name {
            /// Accepts a text as a name.
            ///
            /// # Errors
            ///
            /// [`NameError`] if it is empty, too long or has control characters.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check($kind, text)?;
                Ok(Self(SmolStr::new(text)))
            }

            /// Answers the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

name!(
    /// The name by which processes find a group.
    GroupName,
    "group name"
);
name!(
    /// A compute node with one operating agent.
    NodeName,
    "node name"
);
name!(
    /// A process, unique on its node.
    ProcessName,
    "process name"
);
name!(
    /// An adapter port, named as in the topology.
    EndpointName,
    "endpoint name"
);
name!(
    /// Where a node's agents listen, in the form that the shells dial.
    Address,
    "address"
);
name!(
    /// A job, as its scheduler calls it.
    JobName,
    "job name"
);
name!(
    /// Groups none of which has an endpoint in common with another; a hint for the choice of MGIDs.
    LayerName,
    "layer name"
);
name!(
    /// The caller's own name for one mutation; repeating it repeats the answer (S1).
    RequestId,
    "request id"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_bounded_in_characters_not_bytes() {
        assert!(GroupName::new(&"ä".repeat(MAX_NAME_CHARS)).is_ok());
        assert_eq!(
            GroupName::new(&"ä".repeat(MAX_NAME_CHARS + 1)),
            Err(NameError::TooLong { kind: "group name".to_owned(), chars: 257 })
        );
    }

    #[test]
    fn empty_names_and_control_characters_are_refused() {
        assert_eq!(NodeName::new(""), Err(NameError::Empty { kind: "node name".to_owned() }));
        let error = ProcessName::new("a\nb").unwrap_err();
        assert_eq!(error.to_string(), "process name has control character '\\n' at character 1");
    }

    #[test]
    fn stored_names_are_checked_again_when_read() {
        assert!(serde_json::from_str::<GroupName>("\"rows/1\"").is_ok());
        assert!(serde_json::from_str::<GroupName>("\"\"").is_err());
    }
}
