//! Reads one part's configuration: default < file < environment < flag.
//!
//! The sources are laid over one another in a [`Tree`] that remembers where every value came
//! from, and that tree is read into the part's raw type, again and again: serde stops at the
//! first fault, so the faulty value is noted, taken out, and the reading repeated, until all
//! faults are known (CONFIG-1).

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use crate::problem::{ConfigErrors, Location, Problem, Problems};
use crate::telemetry::TelemetryConfig;
use crate::tree::Tree;

/// Sections that a configuration file may have: one for each part, and one of all parts. One file
/// can serve them all.
pub const SECTIONS: [&str; 6] =
    ["tic", "router", "fabric", "operating_agent", "switch_agent", TelemetryConfig::SECTION];

/// Variables are named `FABRICAST_<SECTION>__<KEY>`.
const VARIABLE_PREFIX: &str = "FABRICAST_";

/// Loads and checks the configuration of one part.
///
/// # Errors
///
/// [`ConfigErrors`] with everything that is wrong; nothing has been started or changed.
pub fn load<R: Role>(sources: &Sources) -> Result<R, ConfigErrors> {
    match sources.file.as_deref().map(read_file).transpose() {
        Ok(text) => load_text(&text.unwrap_or_default(), sources),
        Err(problem) => Err(ConfigErrors { problems: vec![problem] }),
    }
}

/// As [`load()`], with what the file holds: it is not read, and its name stands in messages.
///
/// # Errors
///
/// As there.
pub fn load_text<R: Role>(text: &str, sources: &Sources) -> Result<R, ConfigErrors> {
    let mut problems = Problems::new(R::SECTION);
    let mut tree = Tree::default();
    let path = sources.file.as_deref().unwrap_or(Path::new(""));
    if !add_file(path, text, R::SECTION, &mut tree, &mut problems) {
        // The rest of such a file cannot be told, so the checks would only mislead.
        return problems.into_result(None);
    }
    for (name, value) in &sources.variables {
        add_variable(name, value, R::SECTION, &mut tree, &mut problems);
    }
    for flag in sources.flags.iter().filter(|flag| flag.section.is_none_or(|one| one == R::SECTION))
    {
        tree.set(&flag.key, &flag.value, &Location::Flag(flag.name.clone()));
    }
    problems.locate(tree.locations());
    let raw = read_all(tree, &mut problems);
    let checked = R::check(raw, &mut problems);
    problems.into_result(checked)
}

/// Checks settings that a program fills in, such as a test or `fabricast up`.
///
/// # Errors
///
/// [`ConfigErrors`] with everything that is wrong.
pub fn checked<R: Role>(raw: R::Raw) -> Result<R, ConfigErrors> {
    let mut problems = Problems::new(R::SECTION);
    let checked = R::check(raw, &mut problems);
    problems.into_result(checked)
}

/// Loads the configuration of one part and that which all parts have; what is wrong with either is
/// said at once.
///
/// # Errors
///
/// As [`load`].
pub fn load_all<R: Role>(sources: &Sources) -> Result<(R, TelemetryConfig), ConfigErrors> {
    let flags = sources.flags.iter().filter(|flag| flag.section.is_some());
    let shared = Sources { flags: flags.cloned().collect(), ..sources.clone() };
    match (load::<R>(sources), load::<TelemetryConfig>(&shared)) {
        (Ok(part), Ok(telemetry)) => Ok((part, telemetry)),
        (Err(errors), Ok(_)) | (Ok(_), Err(errors)) => Err(errors),
        (Err(mut errors), Err(more)) => {
            // Both have read the same file.
            let more = more.problems.into_iter();
            let new: Vec<_> = more.filter(|one| !errors.problems.contains(one)).collect();
            errors.problems.extend(new);
            Err(errors)
        }
    }
}

/// A part of Fabricast that has a section of the configuration.
pub trait Role: Sized {
    /// Settings as written, not checked yet. Its `Default` holds the defaults.
    type Raw: DeserializeOwned + Default;
    /// Name of the section, one of [`SECTIONS`].
    const SECTION: &'static str;

    /// Checks the raw values. `None` only after noting a problem.
    fn check(raw: Self::Raw, problems: &mut Problems) -> Option<Self>;
}

/// Sources of a configuration, weakest first.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file, if one was named.
    pub file: Option<PathBuf>,
    /// Environment variables, name and value; those of other programs are passed over.
    pub variables: Vec<(String, String)>,
    /// Values from the command line.
    pub flags: Vec<Flag>,
}

impl Sources {
    /// The file, and the variables of this process.
    #[must_use]
    pub fn of_this_process(file: Option<PathBuf>) -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { file, variables, flags: Vec::new() }
    }

    /// Adds a value from the command line: `flag("listen", "127.0.0.1:0", "--listen")`. The key
    /// is a path inside the section.
    #[must_use]
    pub fn flag(mut self, key: &str, value: impl Into<String>, name: &str) -> Self {
        let (key, name) = (key.to_owned(), name.to_owned());
        self.flags.push(Flag { section: None, key, value: value.into(), name });
        self
    }

    /// Adds a value from the command line to the settings that all parts have.
    #[must_use]
    pub fn telemetry_flag(mut self, key: &str, value: impl Into<String>, name: &str) -> Self {
        let (section, key, name) =
            (Some(TelemetryConfig::SECTION), key.to_owned(), name.to_owned());
        self.flags.push(Flag { section, key, value: value.into(), name });
        self
    }
}

/// One value from the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    /// The section that it belongs to; `None` for that of the part.
    pub section: Option<&'static str>,
    /// Path of the field inside the section.
    pub key: String,
    /// The value: plain text, or TOML where the field is not a text.
    pub value: String,
    /// The flag as the user wrote it, for messages.
    pub name: String,
}

fn read_file(path: &Path) -> Result<String, Problem> {
    fs::read_to_string(path).map_err(|error| Problem {
        location: Location::File { path: path.to_owned(), line: 0 },
        field: String::new(),
        what: format!("cannot be read: {error}"),
    })
}

/// Adds one section of a file to the tree. `false` if the file is no TOML.
fn add_file<'a>(
    path: &Path,
    text: &'a str,
    section: &str,
    tree: &mut Tree<'a>,
    problems: &mut Problems,
) -> bool {
    let at = |offset| Location::File { path: path.to_owned(), line: line_of(text, offset) };
    let (table, faults) = DeTable::parse_recoverable(text);
    for fault in &faults {
        problems.add_at(at(fault.span().map_or(0, |span| span.start)), "", fault.message());
    }
    for (key, value) in table.into_inner() {
        let here = at(key.span().start);
        let name = key.into_inner();
        if name != section {
            if !SECTIONS.contains(&name.as_ref()) {
                let known = SECTIONS.join(", ");
                problems.add_at(here, &name, format!("unknown section, expected one of {known}"));
            }
        } else if let DeValue::Table(fields) = value.into_inner() {
            tree.add_section(fields, &at);
        } else {
            problems.add_at(here, &name, format!("expected a table: [{section}]"));
        }
    }
    faults.is_empty()
}

fn add_variable<'a>(
    name: &str,
    value: &'a str,
    section: &str,
    tree: &mut Tree<'a>,
    problems: &mut Problems,
) {
    let Some((owner, key)) =
        name.strip_prefix(VARIABLE_PREFIX).and_then(|rest| rest.split_once("__"))
    else {
        return;
    };
    let owner = owner.to_ascii_lowercase();
    if owner == section {
        let path = key.to_ascii_lowercase().replace("__", ".");
        tree.set(&path, value, &Location::Variable(name.to_owned()));
    } else if !SECTIONS.contains(&owner.as_str()) {
        let known = SECTIONS.join(", ");
        let what = format!("unknown section '{owner}', expected one of {known}");
        problems.add_at(Location::Variable(name.to_owned()), "", what);
    }
}

/// Reads the tree into `T`, noting and taking out faulty values until the rest can be read.
fn read_all<T: DeserializeOwned + Default>(mut tree: Tree<'_>, problems: &mut Problems) -> T {
    loop {
        let fault = match tree.read::<T>() {
            Ok(value) => return value,
            Err(fault) => fault,
        };
        if tree.try_other_reading(fault.node) {
            continue;
        }
        problems.add(&fault.path, with_example(fault.what));
        if !tree.take_out(fault.node) {
            return T::default();
        }
    }
}

/// Adds to a complaint of serde what a good value looks like, where its words leave that open.
fn with_example(what: String) -> String {
    let example = if what.ends_with("expected a duration") {
        " such as 250ms"
    } else if what.ends_with("expected socket address") {
        " such as 127.0.0.1:7401"
    } else if what == "invalid socket address syntax" {
        ", expected one such as 127.0.0.1:7401"
    } else {
        ""
    };
    what + example
}

/// The line of a byte offset, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
