//! Plants bugs, one at a time, and looks whether the simulation or a named test finds them.
//!
//! A check that finds nothing proves nothing before it has found what is known to be there. The
//! bugs are listed in `tests/simulation/mutations.toml` as replacements of text; they are made in a
//! copy of the tree. A bug outside of the simulated core names the test of its crate that must find
//! it.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::outside;

const LIST: &str = "tests/simulation/mutations.toml";

/// Options of the simulation, unless a mutation has its own.
const OPTIONS: &str = "--seeds 60";

/// Seconds that a test may take; with a bug it may wait forever.
const TEST_SECONDS: &str = "120";
/// Exit code of `timeout` for what did not end.
const TIMED_OUT: i32 = 124;

struct Mutation {
    name: String,
    file: String,
    old: String,
    new: String,
    finder: Finder,
}

/// The check that must find a mutation.
enum Finder {
    /// The simulation, with these options.
    Simulation { options: String },
    /// A test of a package, by its full name.
    Test { package: String, test: String },
}

impl Finder {
    /// Package and name of the test.
    fn test(&self) -> Option<(&str, &str)> {
        match self {
            Self::Simulation { .. } => None,
            Self::Test { package, test } => Some((package, test)),
        }
    }
}

/// Tries every mutation whose name contains `filter`. `false` if one was not found.
///
/// # Errors
///
/// A list that does not fit the sources, a test that fails without a mutation, or a command that
/// cannot be started.
pub(crate) fn run(root: &Path, filter: &str) -> Result<bool> {
    let mut mutations = read(root)?;
    mutations.retain(|mutation| mutation.name.contains(filter));
    ensure!(!mutations.is_empty(), "no mutation has '{filter}' in its name");
    find(root, &mutations)
}

/// Tries some mutations, drawn by chance. `false` if one was not found.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn run_sample(root: &Path, count: usize) -> Result<bool> {
    let mut mutations = read(root)?;
    let all = mutations.len();
    let order = RandomState::new();
    mutations.sort_by_cached_key(|mutation| order.hash_one(&mutation.name));
    mutations.truncate(count);
    println!("{} of {all} mutations drawn", mutations.len());
    find(root, &mutations)
}

fn find(root: &Path, mutations: &[Mutation]) -> Result<bool> {
    let tree = root.join("target/mutants/tree");
    copy(root, &tree)?;
    if mutations.iter().any(|mutation| matches!(mutation.finder, Finder::Simulation { .. })) {
        println!(
            "unchanged: {}",
            simulate(&tree, OPTIONS)?.unwrap_or_else(|| "no violation".to_owned())
        );
    }
    let tests: BTreeSet<_> = mutations.iter().filter_map(|one| one.finder.test()).collect();
    for (package, test) in tests {
        let failed = run_test(&tree, package, test)?;
        ensure!(failed.is_none(), "{package}: {test} fails without a mutation");
    }
    let mut missed = 0;
    for mutation in mutations {
        let file = tree.join(&mutation.file);
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        fs::write(&file, text.replacen(&mutation.old, &mutation.new, 1))?;
        let found = match &mutation.finder {
            Finder::Simulation { options } => simulate(&tree, options),
            Finder::Test { package, test } => run_test(&tree, package, test),
        };
        fs::write(&file, text)?;
        let found = found.with_context(|| format!("with '{}'", mutation.name))?;
        missed += usize::from(found.is_none());
        let found =
            found.map_or_else(|| "NOT FOUND".to_owned(), |with| format!("found with {with}"));
        println!("{}: {found}", mutation.name);
    }
    let found = mutations.len() - missed;
    println!("{found} of {} found, {} %", mutations.len(), 100 * found / mutations.len());
    Ok(missed == 0)
}

/// Reads the list; every text to be replaced must be there, once.
fn read(root: &Path) -> Result<Vec<Mutation>> {
    let text = fs::read_to_string(root.join(LIST)).with_context(|| format!("read {LIST}"))?;
    let list: toml::Table = toml::from_str(&text).with_context(|| format!("read {LIST}"))?;
    let Some(list) = list.get("mutation").and_then(toml::Value::as_array) else {
        bail!("{LIST} has no mutations");
    };
    let mut mutations = Vec::new();
    for entry in list {
        let word = |key: &str| {
            let word = entry.get(key).and_then(toml::Value::as_str).map(str::to_owned);
            word.with_context(|| format!("{LIST}: a mutation lacks '{key}'"))
        };
        let mutation = Mutation {
            name: word("name")?,
            file: word("file")?,
            old: word("old")?,
            new: word("new")?,
            finder: match entry.get("test") {
                Some(_) => Finder::Test { package: word("package")?, test: word("test")? },
                None => Finder::Simulation {
                    options: entry
                        .get("options")
                        .map_or(Ok(OPTIONS.to_owned()), |_| word("options"))?,
                },
            },
        };
        let source = fs::read_to_string(root.join(&mutation.file))
            .with_context(|| format!("{LIST}: read {}", mutation.file))?;
        let times = source.matches(&mutation.old).count();
        ensure!(times == 1, "{LIST}: '{}' fits {} {times} times", mutation.name, mutation.file);
        mutations.push(mutation);
    }
    Ok(mutations)
}

fn copy(root: &Path, tree: &Path) -> Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("start git")?;
    ensure!(listed.status.success(), "git ls-files failed");
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root.join(name), tree.join(name));
        let Ok(text) = fs::read(&from) else { continue }; // deleted and not committed yet
        if fs::read(&to).is_ok_and(|there| there == text) {
            continue; // as it was: nothing to build again
        }
        fs::create_dir_all(to.parent().context("files are in folders")?)?;
        fs::write(&to, text)?;
    }
    Ok(())
}

/// Runs the simulation on a tree; what it says of a violation.
fn simulate(tree: &Path, options: &str) -> Result<Option<String>> {
    let ran = outside("cargo", tree)
        .args(["run", "--quiet", "--package", "fabricast-simulation", "--", "--brief"])
        .args(options.split(' '))
        .env("CARGO_TARGET_DIR", tree.with_file_name("build"))
        // Thirty builds of a few crates, each for some hundred runs.
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        .output()
        .context("start cargo")?;
    let text = String::from_utf8_lossy(&ran.stdout);
    let found = text.lines().find_map(|line| line.strip_prefix("VIOLATION with "));
    ensure!(
        found.is_some() || ran.status.success(),
        "the simulation did not run:\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    Ok(found.map(str::to_owned))
}

/// Runs one test of a package in a tree; its name if it fails or does not end.
fn run_test(tree: &Path, package: &str, test: &str) -> Result<Option<String>> {
    let of_module = test.contains("::tests::");
    let kind: &[&str] = if of_module { &["--lib"] } else { &["--lib", "--tests"] };
    let cargo = |program: &str, before: &[&str], more: &[&str]| {
        let mut command = outside(program, tree);
        command.args(before).args(["test", "--quiet", "--package", package]).args(kind).args(more);
        // Beside the tree's own tests: what both depend on is built already.
        command.env("CARGO_TARGET_DIR", tree.join("../..")).env("CARGO_INCREMENTAL", "1");
        command.output().context("start cargo")
    };
    // A change that does not compile shows nothing.
    let built = cargo("cargo", &[], &["--no-run"])?;
    let said = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "{package} does not compile:\n{said}");
    let limit = ["--kill-after=5", TEST_SECONDS, "cargo"];
    let ran = cargo("timeout", &limit, &["--no-fail-fast", "--", "--exact", test])?;
    if ran.status.code() == Some(TIMED_OUT) {
        return Ok(Some(format!("{test}, which does not end")));
    }
    let said = String::from_utf8_lossy(&ran.stdout);
    if ran.status.success() {
        ensure!(said.contains("1 passed"), "{package} has no test '{test}'");
        return Ok(None);
    }
    ensure!(said.contains("1 failed"), "{package}: '{test}' did not run:\n{said}");
    Ok(Some(test.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_fits_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert!(read(root).unwrap().len() >= 100);
    }
}
