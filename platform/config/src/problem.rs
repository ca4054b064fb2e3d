//! Problems of a configuration, and the list that collects all of them.
//!
//! Invariants
//! - CONFIG-1: one run reports every problem, and each field at most once.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

/// All problems of a configuration, in the order found. The operator has to correct them; a process
/// exits with code 78.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{}", listed(.problems))]
pub struct ConfigErrors {
    /// The problems; never empty.
    pub problems: Vec<Problem>,
}

/// One problem, at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Place where the offending value was given; [`Location::Nowhere`] if it was left out.
    pub location: Location,
    /// The field, such as `tic.listen`; empty if the whole source is meant.
    pub field: String,
    /// The problem, such as `empty`.
    pub what: String,
}

/// Place where a value was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Location {
    /// In no source: the default, or missing.
    #[default]
    Nowhere,
    /// In the configuration file.
    File {
        /// Path as it was given.
        path: PathBuf,
        /// The line, from 1; 0 for the whole file.
        line: usize,
    },
    /// In an environment variable.
    Variable(String),
    /// On the command line.
    Flag(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Location::Nowhere => {}
            Location::File { path, line: 0 } => write!(f, "{}: ", path.display())?,
            Location::File { path, line } => write!(f, "{}:{line}: ", path.display())?,
            Location::Variable(name) | Location::Flag(name) => write!(f, "{name}: ")?,
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.what)
    }
}

/// Collects the problems of one configuration while its fields are checked.
#[derive(Debug, Default)]
pub struct Problems {
    section: &'static str,
    locations: BTreeMap<String, Location>,
    found: Vec<Problem>,
}

impl Problems {
    pub(crate) fn new(section: &'static str) -> Self {
        Self { section, ..Self::default() }
    }

    /// Remembers where the fields were given: path inside the section, and source.
    pub(crate) fn locate(&mut self, locations: impl IntoIterator<Item = (String, Location)>) {
        self.locations.extend(locations);
    }

    /// Adds a problem of `field`, a path inside the section such as `listen` or
    /// `nodes[2].name`. A field that already has a problem, or one inside it, gets no second one:
    /// the later is most often a consequence of the first.
    pub fn add(&mut self, field: &str, what: impl Into<String>) {
        let full = self.full_name(field);
        if self.found.iter().any(|earlier| concerns(&earlier.field, &full)) {
            return;
        }
        let location = self.locations.get(field).cloned().unwrap_or_default();
        self.found.push(Problem { location, field: full, what: what.into() });
    }

    /// Adds a problem of a source as a whole.
    pub(crate) fn add_at(&mut self, location: Location, field: &str, what: impl Into<String>) {
        self.found.push(Problem { location, field: field.to_owned(), what: what.into() });
    }

    /// Returns the value of a field without default; adds a problem if it was left out.
    pub fn required<T>(&mut self, field: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.add(field, "missing; it has no default");
        }
        value
    }

    /// Ends the check: the value if nothing was wrong, else every problem.
    pub(crate) fn into_result<T>(self, value: Option<T>) -> Result<T, ConfigErrors> {
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => {
                assert!(!self.found.is_empty(), "a check gave no value and noted no problem");
                Err(ConfigErrors { problems: self.found })
            }
        }
    }

    fn full_name(&self, field: &str) -> String {
        if field.is_empty() { self.section.to_owned() } else { format!("{}.{field}", self.section) }
    }
}

/// True if one of the two fields is, or is inside, the other.
fn concerns(earlier: &str, field: &str) -> bool {
    let inside = |whole: &str, part: &str| {
        part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    inside(earlier, field) || inside(field, earlier)
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_gets_one_problem_and_its_neighbours_their_own() {
        let mut problems = Problems::new("tic");
        problems.add("nodes[1].name", "first");
        problems.add("nodes[1].name", "second");
        problems.add("nodes", "a consequence");
        problems.add("nodes[10].name", "another node");
        problems.add("nodes_wanted", "another field");
        let errors = problems.into_result(Some(())).unwrap_err();
        assert_eq!(
            errors.to_string(),
            "tic.nodes[1].name: first\ntic.nodes[10].name: another node\ntic.nodes_wanted: another field"
        );
    }

    #[test]
    fn a_problem_names_file_and_line_variable_or_flag() {
        let of = |location| Problem { location, field: "tic.listen".into(), what: "bad".into() };
        let file = |line| Location::File { path: "f.toml".into(), line };
        assert_eq!(of(file(3)).to_string(), "f.toml:3: tic.listen: bad");
        assert_eq!(of(file(0)).to_string(), "f.toml: tic.listen: bad");
        let variable = Location::Variable("FABRICAST_TIC__LISTEN".into());
        assert_eq!(of(variable).to_string(), "FABRICAST_TIC__LISTEN: tic.listen: bad");
        assert_eq!(of(Location::Flag("--listen".into())).to_string(), "--listen: tic.listen: bad");
        assert_eq!(of(Location::Nowhere).to_string(), "tic.listen: bad");
    }

    #[test]
    fn no_problem_means_the_value() {
        assert_eq!(Problems::new("tic").into_result(Some(7)), Ok(7));
    }
}
