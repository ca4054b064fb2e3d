//! Results on standard output: tables for people, JSON for programs. Speech goes to stderr.

use std::io::{self, Write};
use std::sync::LazyLock;

use comfy_table::{ContentArrangement, Table, presets};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde::Serialize;

use crate::args::Format;
use crate::failure::Failure;

/// A table of text cells; `Display` makes it.
#[derive(Debug)]
pub struct Rows {
    table: Table,
}

impl Rows {
    /// Starts a table with these column titles.
    #[must_use]
    pub fn new(titles: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(titles.iter().copied());
        Self { table }
    }

    /// Adds a row; one cell per title.
    pub fn push(&mut self, cells: Vec<String>) {
        self.table.add_row(cells);
    }
}

impl std::fmt::Display for Rows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> =
            self.table.lines().map(|line| line.trim_end().to_owned()).collect();
        formatter.write_str(&lines.join("\n"))
    }
}

/// Prints a value as JSON, or what `table` makes of it.
///
/// # Errors
///
/// A full standard output; a closed pipe is not an error.
pub fn print<T: Serialize>(
    format: Format,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let text = match format {
        Format::Json => serde_json::to_string_pretty(value)?,
        Format::Table => table(value),
    };
    raw(&format!("{text}\n"))
}

/// Prints a message of `fabricast.v1` as protobuf JSON, or what `table` makes of it.
///
/// # Errors
///
/// As [`print`].
pub fn message<T: Message>(
    format: Format,
    message: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let text = match format {
        Format::Json => serde_json::to_string_pretty(&dynamic(message)?)?,
        Format::Table => table(message),
    };
    raw(&format!("{text}\n"))
}

/// The same message with its descriptor, which knows the protobuf's JSON form.
fn dynamic<T: Message>(message: &T) -> Result<DynamicMessage, Failure> {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        DescriptorPool::decode(fabricast_proto::FILE_DESCRIPTOR_SET)
            .expect("the checked-in descriptors are whole")
    });
    let short = std::any::type_name::<T>().rsplit("::").next().unwrap_or_default();
    let descriptor = POOL
        .get_message_by_name(&format!("fabricast.v1.{short}"))
        .ok_or_else(|| Failure::input(format!("{short} is no message of fabricast.v1")))?;
    let mut dynamic = DynamicMessage::new(descriptor);
    dynamic.transcode_from(message)?;
    Ok(dynamic)
}

/// Prints a text as it is on standard output.
///
/// # Errors
///
/// As [`print`].
pub fn raw(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(error).context("write to standard output").into())
        }
        _ => Ok(()),
    }
}

/// Says something to the person at the terminal, on standard error.
pub fn say(text: &str) {
    // Nobody is left to tell if standard error is gone.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricast_proto::v1;

    #[test]
    fn messages_are_printed_in_the_json_form_of_protobuf() {
        let group = v1::Group { name: "rows/1".to_owned(), gn: 7, ..Default::default() };
        let json = serde_json::to_value(dynamic(&group).unwrap()).unwrap();
        assert_eq!(json, serde_json::json!({"name": "rows/1", "gn": "7"}));
    }

    #[test]
    fn columns_are_aligned_and_lines_not_padded() {
        let mut rows = Rows::new(&["a", "long title"]);
        rows.push(vec!["longer cell".to_owned(), "x".to_owned()]);
        let text = rows.to_string();
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.trim_end() == line));
    }
}
