//! Checks what clippy cannot: layers, file headers, file lengths, words, invariant ids,
//! paths in documents, modules of tests that need a tool.
//!
//! Each check is a pure function from texts to [`Finding`]s; only [`run`] touches files.

mod documents;
mod examples;
mod invariants;
mod layers;
mod length;
mod measures;
mod modules;
mod needs;
mod rust;
mod shape;
mod source;
mod versions;
mod words;

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{proto, settings};

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path from the root of the repository.
    file: String,
    /// From 1; 0 if the whole file is meant.
    line: usize,
    what: String,
    hint: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, what: what.into(), hint: hint.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, what, hint } = self;
        if *line == 0 {
            write!(f, "{file}: {what}: {hint}")
        } else {
            write!(f, "{file}:{line}: {what}: {hint}")
        }
    }
}

/// A text file of the repository.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Path from the root of the repository.
    path: String,
    text: String,
}

impl SourceFile {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs") && !self.is_generated()
    }

    fn is_generated(&self) -> bool {
        self.path.contains("/generated/")
    }

    /// The layer or other top folder that the file lies in.
    fn top(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// Lines with their numbers from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Runs every check.
///
/// # Errors
///
/// A file that cannot be read, or a `.proto` file that does not compile.
pub(crate) fn run(root: &Path) -> Result<Vec<Finding>> {
    let files = read_repository(root)?;
    let mut findings = layers::check(&files)?;
    findings.extend(files.iter().flat_map(source::check));
    findings.extend(files.iter().filter_map(length::check));
    findings.extend(modules::check(&files));
    findings.extend(files.iter().flat_map(shape::check));
    findings.extend(files.iter().flat_map(needs::check));
    findings.extend(words::check(&files));
    findings.extend(measures::check(&files));
    findings.extend(measures::check_page(&files));
    findings.extend(invariants::check(&files));
    findings.extend(documents::check(&files));
    findings.extend(
        proto::check(root)?
            .into_iter()
            .map(|(file, what)| Finding::new(&file, 0, what, "run `cargo xtask proto`")),
    );
    if let Some(page) = settings::check(root)? {
        let what = "not what the code says".to_owned();
        findings.push(Finding::new(page, 0, what, "run `cargo xtask settings`"));
    }
    findings.extend(versions::check(&files)?);
    findings.sort();
    Ok(findings)
}

/// Figures of the code, one a line.
///
/// # Errors
///
/// A file that cannot be read.
pub(crate) fn measures(root: &Path) -> Result<String> {
    Ok(measures::table(&read_repository(root)?))
}

/// Returns the names of the packages whose documentation has examples.
///
/// # Errors
///
/// A file that cannot be read.
pub(crate) fn packages_with_examples(root: &Path) -> Result<Vec<String>> {
    let files = read_repository(root)?;
    Ok(examples::packages(&files).into_iter().map(ToOwned::to_owned).collect())
}

/// Reads every text file that git knows, or would know after `git add --all`.
fn read_repository(root: &Path) -> Result<Vec<SourceFile>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
        .current_dir(root)
        .output()
        .context("run git ls-files")?;
    if !listing.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&listing.stderr).trim());
    }
    let mut files = Vec::new();
    for path in String::from_utf8_lossy(&listing.stdout).split('\0').filter(|path| !path.is_empty())
    {
        let full = root.join(path);
        if !full.is_file() {
            continue; // deleted but not yet committed
        }
        let bytes = fs::read(&full).with_context(|| format!("read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(SourceFile { path: path.to_owned(), text });
        }
    }
    Ok(files)
}

#[cfg(test)]
fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_file_line_fault_and_remedy() {
        assert_eq!(Finding::new("a.rs", 3, "bad", "mend").to_string(), "a.rs:3: bad: mend");
        assert_eq!(Finding::new("a.rs", 0, "bad", "mend").to_string(), "a.rs: bad: mend");
    }

    mod needs_git {
        use super::*;

        #[test]
        fn git_says_which_files_belong_and_ignored_ones_do_not() {
            let root = tempfile::tempdir().unwrap();
            let git = |arguments: &[&str]| {
                let status = Command::new("git").args(arguments).current_dir(root.path()).status();
                assert!(status.unwrap().success());
            };
            git(&["init", "--quiet"]);
            fs::write(root.path().join(".gitignore"), "ignored.rs\n").unwrap();
            fs::write(root.path().join("ignored.rs"), "").unwrap();
            fs::write(root.path().join("new.rs"), "").unwrap();
            fs::write(root.path().join("picture.png"), [0xff, 0xfe]).unwrap();
            git(&["add", ".gitignore"]);
            let mut paths: Vec<_> =
                read_repository(root.path()).unwrap().into_iter().map(|file| file.path).collect();
            paths.sort();
            assert_eq!(paths, [".gitignore", "new.rs"]);
        }
    }
}
