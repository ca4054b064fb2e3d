//! Results on standard output: tables for people, JSON for programs. Speech goes to stderr.

use std::fs::{File, Permissions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Context;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::args::{Format, WatchArgs};
use crate::color::painted_table;
use crate::failure::Failure;

/// Time between two prints of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Longest word that a narrow table does not break.
const UNBROKEN: usize = 24;

/// A table of text cells; `Display` makes it.
#[derive(Debug)]
pub(crate) struct Rows {
    table: Table,
    /// Longest word of each column, up to [`UNBROKEN`].
    words: Vec<usize>,
    width: Option<u16>,
}

impl Rows {
    /// Starts a table with these column titles.
    #[must_use]
    pub(crate) fn new(titles: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(titles.iter().copied());
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self { table, words: vec![0; titles.len()], width: width() }
    }

    /// Adds a row; one cell per title. An empty one is shown as `-`.
    pub(crate) fn push(&mut self, cells: Vec<String>) {
        let shown = |cell: String| if cell.is_empty() { "-".to_owned() } else { cell };
        let cells: Vec<String> = cells.into_iter().map(shown).collect();
        for (longest, cell) in self.words.iter_mut().zip(&cells) {
            let words = cell.split([' ', ',']).map(|word| word.chars().count());
            let word = words.max().unwrap_or(0);
            *longest = (*longest).max(word.min(UNBROKEN));
        }
        self.table.add_row(cells);
    }

    /// The table with broken cells, so that no line is longer, where the columns can be made so
    /// narrow; words stay whole if they can.
    fn fitting(&self, width: u16) -> Table {
        let mut table = self.table.clone();
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        let least = self.words.iter().map(|word| word + 2).sum::<usize>();
        if least <= usize::from(width) {
            for (column, word) in table.column_iter_mut().zip(&self.words) {
                let least = u16::try_from(word + 2).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            }
        }
        table
    }
}

impl std::fmt::Display for Rows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fitting = self.width.map(|width| self.fitting(width));
        let lines = fitting.as_ref().unwrap_or(&self.table).lines();
        let lines = painted_table(lines.map(|line| line.trim_end().to_owned()).collect());
        formatter.write_str(&lines.join("\n"))
    }
}

/// Characters of a line of standard output: `COLUMNS`, or those of the terminal; none for files and
/// pipes.
fn width() -> Option<u16> {
    let told = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let of_terminal = || {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(size.ws_col)
    };
    told.or_else(of_terminal).filter(|width| *width > 0)
}

/// Lists the first lines of a table, and counts the others.
#[must_use]
pub(crate) fn first(lines: &[String], most: usize) -> Vec<String> {
    let mut listed: Vec<String> = lines.iter().take(most).cloned().collect();
    if lines.len() > most {
        listed.push(and_more((lines.len() - most) as u64));
    }
    listed
}

/// Says that lines were left out of a table.
#[must_use]
pub(crate) fn and_more(count: u64) -> String {
    format!("and {count} more; `--format json` lists all")
}

/// Says that rows are left out of a table whose figures are 0; empty if there are none.
///
/// - `names`: of one row, and of several.
#[must_use]
pub(crate) fn left_out(count: usize, names: [&str; 2], lack: &str) -> String {
    let [one, several] = names;
    match count {
        0 => String::new(),
        1 => format!("\n1 {one} without {lack}, which --all lists"),
        count => format!("\n{count} {several} without {lack}, which --all lists"),
    }
}

/// Prints a value as JSON, or what `table` makes of it.
///
/// # Errors
///
/// A full standard output; a closed pipe is not an error.
pub(crate) fn print<T: Serialize>(
    format: Format,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let text = match format {
        Format::Json => camel_case_keys(&serde_json::to_string_pretty(value)?),
        Format::Table | Format::Hostlist | Format::Slurm => fitted(&table(value)),
    };
    print_text(&format!("{text}\n"))
}

/// Prints the result of a command: once, or again and again.
///
/// # Errors
///
/// Those of `show`.
pub(crate) async fn watched(
    watch: WatchArgs,
    format: Format,
    show: impl AsyncFn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !watch.watch {
        return show().await;
    }
    loop {
        if format != Format::Json && io::stdout().is_terminal() {
            print_text("\x1b[2J\x1b[H")?;
        }
        show().await?;
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// Breaks sentences at blanks where standard output has a width; tables fit by themselves.
fn fitted(text: &str) -> String {
    let Some(width) = width().map(usize::from) else { return text.to_owned() };
    let lines: Vec<String> = text.lines().map(|line| broken(line, width)).collect();
    lines.join("\n")
}

/// Breaks a line that is too long; what follows is indented as its text, or by two more blanks.
fn broken(line: &str, width: usize) -> String {
    if line.chars().count() <= width || line.contains('\x1b') {
        return line.to_owned();
    }
    let blanks = line.len() - line.trim_start().len();
    let indent = " ".repeat(blanks + 2);
    let (mut text, mut length) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let count = word.trim_end().chars().count();
        if length + count > width && length > indent.len() {
            text.truncate(text.trim_end().len());
            text += &format!("\n{indent}");
            length = indent.len();
        }
        text += word;
        length += word.chars().count();
    }
    text
}

/// Writes the keys of indented JSON in camel case, as the messages of the API have them.
fn camel_case_keys(json: &str) -> String {
    let lines = json.lines().map(|line| {
        let is_snake = |key: &str| {
            let is_known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            key.contains('_') && key.chars().all(is_known)
        };
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        // A key begins its line; in a text the quote that follows would be escaped.
        match rest.strip_prefix('"').and_then(|rest| rest.split_once("\": ")) {
            Some((key, value)) if is_snake(key) => {
                let mut words = key.split('_');
                let first = words.next().unwrap_or_default();
                let others = words.map(|word| match word.split_at_checked(1) {
                    Some((initial, rest)) => format!("{}{rest}", initial.to_ascii_uppercase()),
                    None => String::new(),
                });
                format!("{indent}\"{first}{}\": {value}", others.collect::<String>())
            }
            Some(_) | None => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints a message of `fabricast.v1` as protobuf JSON, or what `table` makes of it.
///
/// # Errors
///
/// As [`print()`].
pub(crate) fn message<T: Message>(
    format: Format,
    message: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let text = match format {
        Format::Json => json(&dynamic(message)?)?,
        Format::Table | Format::Hostlist | Format::Slurm => fitted(&table(message)),
    };
    print_text(&format!("{text}\n"))
}

/// Prints that something was done to a subject: a sentence that names it, or as JSON the answer
/// with the subject in it.
///
/// - `kind`: key of the subject in JSON, such as `group`.
///
/// # Errors
///
/// As [`print()`].
pub(crate) fn done<T: Message>(
    format: Format,
    kind: &str,
    name: &str,
    answer: &T,
    sentence: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    if format != Format::Json {
        return print_text(&format!("{}\n", fitted(&sentence(answer))));
    }
    let mut value: serde_json::Value = serde_json::from_str(&json(&dynamic(answer)?)?)?;
    value[kind] = name.into();
    print_text(&format!("{}\n", serde_json::to_string_pretty(&value)?))
}

/// Formats a message of `fabricast.v1` as JSON text.
///
/// # Errors
///
/// A message without a descriptor.
pub(crate) fn json_text<T: Message>(message: &T) -> Result<String, Failure> {
    Ok(json(&dynamic(message)?)?)
}

/// Formats a message of `fabricast.v1` as one line of JSON.
///
/// # Errors
///
/// As [`json_text`].
pub(crate) fn json_line<T: Message>(message: &T) -> Result<String, Failure> {
    Ok(serde_json::to_string(&dynamic(message)?)?)
}

/// Formats a message in the JSON form of protobuf, with default values: a script that reads `.mgid`
/// must find 0.
fn json(message: &DynamicMessage) -> serde_json::Result<String> {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::pretty(&mut text);
    let options = SerializeOptions::new().skip_default_fields(false);
    message.serialize_with_options(&mut serializer, &options)?;
    Ok(String::from_utf8(text).expect("serde_json writes UTF-8"))
}

/// Attaches the descriptor to a message, which defines its JSON form.
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

/// Prints a text on standard output.
///
/// # Errors
///
/// As [`print()`].
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(error).context("write to standard output").into())
        }
        _ => Ok(()),
    }
}

/// Prints a document in a format of its own, such as a topology or a drawing, or writes it to a
/// file. With `--format json` standard output has the value, also beside a file.
///
/// # Errors
///
/// As [`print()`] and [`files`].
pub(crate) fn document<T: Serialize>(
    format: Format,
    out: Option<&Path>,
    text: &str,
    value: impl FnOnce() -> T,
) -> Result<(), Failure> {
    if let Some(out) = out {
        files(&[(out, text)])?;
    }
    match (format, out) {
        (Format::Json, _) => print(format, &value(), |_| String::new()),
        (Format::Table | Format::Hostlist | Format::Slurm, None) => print_text(text),
        (Format::Table | Format::Hostlist | Format::Slurm, Some(_)) => Ok(()),
    }
}

/// Writes all files or none: each goes to a temporary file first, which is renamed once all are
/// complete.
///
/// # Errors
///
/// Names the file; then no file has changed.
pub(crate) fn files(files: &[(&Path, &str)]) -> Result<(), Failure> {
    for (index, (path, _)) in files.iter().enumerate() {
        if files[..index].iter().any(|(other, _)| other == path) {
            return Err(Failure::input(format!("'{}' is to hold two outputs", path.display())));
        }
    }
    let named = |path: &Path| format!("write '{}'", path.display());
    let mut drafts = Vec::with_capacity(files.len());
    for (path, text) in files {
        drafts.push(Draft::of(path, text).with_context(|| named(path))?);
    }
    for (draft, (path, _)) in drafts.into_iter().zip(files) {
        draft.publish().with_context(|| named(path))?;
    }
    Ok(())
}

/// A file that is not yet in its final place.
enum Draft<'a> {
    /// A temporary file next to the final place.
    Beside(NamedTempFile, PathBuf),
    /// A pipe or device, which cannot be replaced.
    Open(File, &'a str),
}

impl<'a> Draft<'a> {
    fn of(path: &Path, text: &'a str) -> io::Result<Self> {
        match std::fs::metadata(path) {
            Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() => {
                return Ok(Self::Open(File::options().write(true).open(path)?, text));
            }
            Ok(_) => drop(File::options().append(true).open(path)?), // may it be written at all?
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let place = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = match place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let permissions = match std::fs::metadata(path) {
            Ok(there) => there.permissions(),
            Err(_) => Permissions::from_mode(0o666), // less what the umask takes away
        };
        let mut builder = tempfile::Builder::new();
        let mut draft = builder.permissions(permissions).tempfile_in(folder)?;
        draft.write_all(text.as_bytes())?;
        Ok(Self::Beside(draft, place))
    }

    fn publish(self) -> io::Result<()> {
        match self {
            Self::Beside(draft, place) => draft.persist(place).map(drop).map_err(|e| e.error),
            Self::Open(mut file, text) => file.write_all(text.as_bytes()),
        }
    }
}

/// Formats a port number; `-` for endpoints and empty ports.
#[must_use]
pub(crate) fn port(number: u32) -> String {
    if number == 0 { "-".to_owned() } else { number.to_string() }
}

/// Prints a message on standard error.
pub fn notice(text: &str) {
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
        let text = json(&dynamic(&group).unwrap()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["name"], &json["gn"]), (&"rows/1".into(), &"7".into()));
        assert_eq!((&json["mgid"], &json["memberCount"]), (&0.into(), &0.into()));
    }

    #[test]
    fn either_all_files_are_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let (good, bad) = (folder.path().join("good"), folder.path().join("no/bad"));
        std::fs::write(&good, "before").unwrap();
        let failure = files(&[(&good, "after"), (&bad, "after")]).unwrap_err();
        assert!(failure.message().contains("no/bad"), "{}", failure.message());
        assert_eq!(std::fs::read_to_string(&good).unwrap(), "before");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        files(&[(&good, "after"), (Path::new("/dev/null"), "nowhere")]).unwrap();
        assert_eq!(std::fs::read_to_string(&good).unwrap(), "after");
        assert_eq!(files(&[(&good, "a"), (&good, "b")]).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn keys_are_in_camel_case_and_texts_as_they_are() {
        let value = serde_json::json!({
            "max_tfi_2": 1, "plain": "a_b\": c", "list": ["x_y\": z", { "in_port": "in_port" }],
        });
        let text = camel_case_keys(&serde_json::to_string_pretty(&value).unwrap());
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let wanted = serde_json::json!({
            "maxTfi2": 1, "plain": "a_b\": c", "list": ["x_y\": z", { "inPort": "in_port" }],
        });
        assert_eq!(read, wanted);
    }

    #[test]
    fn a_table_fits_a_narrow_terminal_and_shows_what_is_empty() {
        let mut rows = Rows::new(&["GROUP", "REASON", "MEMBERS"]);
        let reason = "a reason that takes many words, because there is much to be said about it";
        rows.push(vec!["rows/1".to_owned(), reason.to_owned(), "12".to_owned()]);
        rows.push(vec!["rows/2".to_owned(), String::new(), "3".to_owned()]);
        assert!(rows.to_string().lines().any(|line| line.len() > 80));
        rows.width = Some(60);
        let text = rows.to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(
            text.lines().any(|line| line.split_whitespace().eq(["rows/2", "-", "3"])),
            "{text}"
        );
    }

    #[test]
    fn words_of_a_narrow_table_stay_whole_and_sentences_are_broken_at_blanks() {
        let mut rows = Rows::new(&["NODE", "ADDRESS", "REASON"]);
        let reason = "a reason that takes many words, because there is much to be said about it";
        rows.push(vec!["h0".to_owned(), "127.0.0.1:34125".to_owned(), reason.to_owned()]);
        rows.width = Some(40);
        assert!(rows.to_string().contains("127.0.0.1:34125"), "{rows}");
        let text = broken(&format!("  it says: {reason}"), 40);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("    ")), "{text}");
        assert_eq!(text.split_whitespace().count(), reason.split_whitespace().count() + 2);
        assert_eq!(broken("short", 40), "short");
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
