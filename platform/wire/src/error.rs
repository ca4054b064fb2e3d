//! Errors of decoding: the field, and what is wrong with it.

use fabricast_groups::names::NameError;
use fabricast_status::{Reason, RpcError};
use thiserror::Error;
use tonic::Status;

/// Reason why a message cannot be decoded. Fields are paths from the message, such as
/// `position.node`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// A required field is absent, or zero where zero stands for absent.
    #[error("{field} is missing")]
    Missing {
        /// Path of the field.
        field: String,
    },
    /// A text is no valid name.
    #[error("{field}: {error}")]
    Name {
        /// Path of the field.
        field: String,
        /// The rule that the text violates.
        error: NameError,
    },
    /// A color has more than 16 bits.
    #[error("{field}: no table has a color {color}")]
    Color {
        /// Path of the field.
        field: String,
        /// The number as it was sent.
        color: u32,
    },
    /// A tree of a shape that there is not.
    #[error("{field}: {problem}")]
    Tree {
        /// Path of the field.
        field: String,
        /// The rule that the shape violates.
        problem: String,
    },
}

impl WireError {
    /// The error for an absent field.
    #[must_use]
    pub fn missing(field: &str) -> Self {
        Self::Missing { field: field.to_owned() }
    }

    /// The reason of the status that this error becomes.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Missing { .. } => Reason::FieldMissing,
            Self::Name { .. } => Reason::NameInvalid,
            Self::Color { .. } => Reason::ColorOutOfRange,
            Self::Tree { .. } => Reason::TreeInvalid,
        }
    }

    /// The path of the field.
    #[must_use]
    pub fn field(&self) -> &str {
        match self {
            Self::Missing { field }
            | Self::Name { field, .. }
            | Self::Color { field, .. }
            | Self::Tree { field, .. } => field,
        }
    }

    /// The same error for a message that is itself the field `outer` of another.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        match &mut self {
            Self::Missing { field }
            | Self::Name { field, .. }
            | Self::Color { field, .. }
            | Self::Tree { field, .. } => {
                *field = format!("{outer}.{field}");
            }
        }
        self
    }
}

impl From<WireError> for Status {
    fn from(error: WireError) -> Self {
        error.reason().status(error.to_string(), &[("field", error.field())])
    }
}

impl From<WireError> for RpcError {
    /// For callers: an answer that cannot be decoded is an error of the call.
    fn from(error: WireError) -> Self {
        Status::from(error).into()
    }
}

/// Takes a required field.
///
/// # Errors
///
/// [`WireError::Missing`].
pub fn required<T>(field: &str, value: Option<T>) -> Result<T, WireError> {
    value.ok_or_else(|| WireError::missing(field))
}

/// Decodes a name.
///
/// - `parse`: the constructor of the name's type.
///
/// # Errors
///
/// [`WireError::Name`].
pub fn decode_name<T>(
    field: &str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<T, WireError> {
    parse(text).map_err(|error| WireError::Name { field: field.to_owned(), error })
}

/// Decodes a name that may be left out.
pub(crate) fn optional_name<T>(
    field: &str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<Option<T>, WireError> {
    if text.is_empty() { Ok(None) } else { decode_name(field, text, parse).map(Some) }
}

/// Encodes a name that may be left out.
pub(crate) fn optional_text<T: ToString>(name: Option<&T>) -> String {
    name.map_or_else(String::new, ToString::to_string)
}
