//! The files people exchange: groups, routes and tables as JSON lines.
//!
//! Pure text to values and back. Readers say which line and which field is wrong, and resolve names
//! against a graph, so that what they return fits it. Lines are numbered from 1; empty lines are
//! skipped.

mod groups;
mod routes;
mod tables;

use fabricast_topology::EndpointNameError;
use serde_json::{Map, Value};
use thiserror::Error;

pub use groups::{GroupRecord, allot_mgids, read_groups, write_groups};
pub use routes::{RouteRecord, RoutesFile, RoutesHeader, TreeRecord, read_routes, write_routes};
pub use tables::{read_tables, write_tables};

/// An error in a file, with its line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct FormatError {
    /// Line of the file, from 1; the one after the last if something is missing.
    pub line: usize,
    /// The error in that line.
    pub problem: FormatProblem,
}

/// Errors in one line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatProblem {
    /// The line ends in the middle of its JSON value.
    #[error("the line is truncated")]
    Truncated,
    /// The line is not JSON.
    #[error("not JSON at column {column}: {what}")]
    NotJson {
        /// Column, from 1.
        column: usize,
        /// Message of the JSON reader.
        what: String,
    },
    /// The line is JSON but not an object.
    #[error("not a JSON object")]
    NotObject,
    /// A field is missing.
    #[error("{field}: missing")]
    Missing {
        /// Name of the field.
        field: String,
    },
    /// A field has no meaning here.
    #[error("{field}: unknown field")]
    UnknownField {
        /// Name of the field.
        field: String,
    },
    /// A field has a value of another kind.
    #[error("{field}: must be {must_be}, is {is}")]
    BadValue {
        /// Name of the field.
        field: String,
        /// Values that are allowed.
        must_be: String,
        /// Value that was found.
        is: String,
    },
    /// No endpoint or switch has the name.
    #[error("{field}: the topology has no {what} {name:?}")]
    UnknownName {
        /// Name of the field.
        field: String,
        /// "endpoint" or "switch".
        what: &'static str,
        /// Name that was found.
        name: String,
    },
    /// Several endpoints have the name.
    #[error("{field}: {error}")]
    AmbiguousName {
        /// Name of the field.
        field: String,
        /// The name, and two of the endpoints.
        error: EndpointNameError,
    },
    /// A switch has no such port, or it leads elsewhere.
    #[error("{field}: the topology has no link {link}")]
    UnknownLink {
        /// Name of the field.
        field: String,
        /// The link, as it is written.
        link: String,
    },
    /// An endpoint is a member twice.
    #[error("members: endpoint {name:?} is listed twice")]
    DuplicateMember {
        /// Name of the endpoint.
        name: String,
    },
    /// More members than the topology has endpoints.
    #[error("members: {members} are listed, the topology has {endpoints} endpoints")]
    TooManyMembers {
        /// Number of members listed.
        members: usize,
        /// Endpoints there are.
        endpoints: usize,
    },
    /// Two groups have one MGID.
    #[error("mgid: {mgid} is that of the group on line {first} too")]
    DuplicateMgid {
        /// MGID that was found twice.
        mgid: u32,
        /// Line of the other group.
        first: usize,
    },
    /// A group has a tree twice.
    #[error("trees: tree {tree} is listed twice")]
    DuplicateTree {
        /// Number of the tree, from 0.
        tree: u8,
    },
    /// Two groups have one name.
    #[error("name: {name:?} is that of the group on line {first} too")]
    DuplicateName {
        /// Name that was found.
        name: String,
        /// Line of the other group.
        first: usize,
    },
    /// An entry number is not less than the number of colors.
    #[error("color: {color} is not less than the {colors} colors there are")]
    ColorOutOfRange {
        /// The entry number.
        color: u32,
        /// Colors there are.
        colors: u32,
    },
    /// The header line is missing.
    #[error("the header line {{\"fabricast_routes\": 1, ...}} is missing")]
    NoHeader,
    /// The file is of another version.
    #[error("fabricast_routes: version {version} is not known, only 1")]
    Version {
        /// Version that was found.
        version: u64,
    },
    /// Two rows have one key.
    #[error("switch {switch}, in_port {in_port}, color {color}: the row is there already")]
    DuplicateRow {
        /// Name of the switch.
        switch: String,
        /// The input port.
        in_port: u8,
        /// The entry number.
        color: u16,
    },
}

/// Walks the lines that are not empty with their numbers, as JSON objects.
fn objects(text: &str) -> impl Iterator<Item = Result<(usize, Fields), FormatError>> + '_ {
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(line, text)| Fields::of(text).map(|fields| (line, fields)).map_err(at(line)))
}

/// Makes an error of a problem on a line.
fn at(line: usize) -> impl Fn(FormatProblem) -> FormatError {
    move |problem| FormatError { line, problem }
}

/// The fields of one object that have not been read yet.
#[derive(Debug)]
struct Fields(Map<String, Value>);

impl Fields {
    fn of(text: &str) -> Result<Self, FormatProblem> {
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(FormatProblem::NotObject),
            Err(error) if error.is_eof() => Err(FormatProblem::Truncated),
            Err(error) => {
                let (column, text) = (error.column(), error.to_string());
                let what = text.split(" at line ").next().unwrap_or_default().to_owned();
                Err(FormatProblem::NotJson { column, what })
            }
        }
    }

    fn optional(&mut self, field: &str) -> Option<Value> {
        self.0.remove(field).filter(|value| !value.is_null())
    }

    fn required(&mut self, field: &str) -> Result<Value, FormatProblem> {
        self.optional(field).ok_or_else(|| FormatProblem::Missing { field: field.to_owned() })
    }

    fn number(&mut self, field: &str, most: u32) -> Result<u32, FormatProblem> {
        number(field, &self.required(field)?, most)
    }

    fn text(&mut self, field: &str) -> Result<String, FormatProblem> {
        text(field, self.required(field)?)
    }

    fn list(&mut self, field: &str) -> Result<Vec<Value>, FormatProblem> {
        list(field, self.required(field)?)
    }

    /// Refuses fields that nobody has read.
    fn finish(self) -> Result<(), FormatProblem> {
        match self.0.into_iter().next() {
            Some((field, _)) => Err(FormatProblem::UnknownField { field }),
            None => Ok(()),
        }
    }
}

fn number(field: &str, value: &Value, most: u32) -> Result<u32, FormatProblem> {
    let fits = value.as_u64().and_then(|number| u32::try_from(number).ok());
    fits.filter(|number| *number <= most)
        .ok_or_else(|| bad(field, format!("a whole number from 0 to {most}"), value))
}

fn text(field: &str, value: Value) -> Result<String, FormatProblem> {
    match value {
        Value::String(text) => Ok(text),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_)) => Err(bad(field, "a string", &other)),
    }
}

fn list(field: &str, value: Value) -> Result<Vec<Value>, FormatProblem> {
    match value {
        Value::Array(items) => Ok(items),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)) => Err(bad(field, "a list", &other)),
    }
}

fn bad(field: &str, must_be: impl Into<String>, is: &Value) -> FormatProblem {
    let mut is = is.to_string();
    if is.chars().count() > 40 {
        is = is.chars().take(37).chain("...".chars()).collect();
    }
    FormatProblem::BadValue { field: field.to_owned(), must_be: must_be.into(), is }
}

/// Writes values as JSON lines.
fn write_lines<T: serde::Serialize>(lines: impl Iterator<Item = T>) -> String {
    let mut text = String::new();
    for line in lines {
        text += &serde_json::to_string(&line).expect("strings and numbers make JSON");
        text.push('\n');
    }
    text
}
