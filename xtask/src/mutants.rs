//! Plants bugs, one at a time, and looks whether the simulation or a named test finds them.
//!
//! A check that finds nothing proves nothing before it has found what is known to be there. The
//! bugs are listed in `tests/simulation/mutations.toml` as replacements of text; they are made in a
//! copy of the tree. A bug outside of the simulated core names the test of its crate that must find
//! it.
//!
//! Each bug was listed with the check that finds it, so what that finds says little of bugs that
//! nobody has thought of. [`run_all_tests`] asks all others, too.

use std::collections::hash_map::{DefaultHasher, RandomState};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{outside, setup, soak};

const LIST: &str = "tests/simulation/mutations.toml";

/// Options of the simulation, unless a mutation has its own.
const OPTIONS: &str = "--seeds 60";

/// Seconds that a test may take; with a bug it may wait forever.
const TEST_SECONDS: &str = "120";
/// The same of all tests of a package, and of a simulation.
const ALL_SECONDS: &str = "3600";
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
    let mutations = draw(read(root)?, count, None);
    find(root, &mutations)
}

/// Tries some mutations, drawn by chance, with all tests of their packages and the simulation.
/// Prints the share that the named checks find, and that which any others find. `false` if a
/// mutation was found by none.
///
/// - `seed`: that of an earlier draw; `None` for another one.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn run_all_tests(root: &Path, count: usize, seed: Option<u64>) -> Result<bool> {
    let mutations = draw(read(root)?, count, seed);
    ensure!(!mutations.is_empty(), "no mutation was drawn");
    let tree = root.join("target/mutants/tree");
    copy(root, &tree)?;
    let violation = simulate(&tree, OPTIONS)?;
    ensure!(violation.is_none(), "the simulation fails without a mutation: {violation:?}");
    let mut checks = AllChecks::new(root, &tree);
    for mutation in &mutations {
        checks.prepare(mutation)?;
    }
    let (mut named, mut by_others, mut missed) = (0, 0, 0);
    for mutation in &mutations {
        let found = planted(&tree, mutation, || checks.ask(mutation))?;
        named += usize::from(found.is_by_named);
        by_others += usize::from(!found.others.is_empty());
        missed += usize::from(!found.is_by_named && found.others.is_empty());
        let by_named = if found.is_by_named { "found" } else { "NOT FOUND" };
        let others = found.others.into_iter().collect::<Vec<_>>().join(", ");
        println!("{}: {by_named} by the named check; by others: [{others}]", mutation.name);
    }
    let all = mutations.len();
    let share = |found: usize| format!("{found} of {all}, {} %", 100 * found / all);
    println!("found by the named check: {}", share(named));
    println!("found by others, tests of the package or the simulation: {}", share(by_others));
    println!("found by any: {}", share(all - missed));
    Ok(missed == 0)
}

/// Draws some mutations; the same ones for the same seed.
fn draw(mut mutations: Vec<Mutation>, count: usize, seed: Option<u64>) -> Vec<Mutation> {
    let all = mutations.len();
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000);
    let order = BuildHasherDefault::<DefaultHasher>::default();
    mutations.sort_by_cached_key(|mutation| order.hash_one((seed, &mutation.name)));
    mutations.truncate(count);
    println!("{} of {all} mutations drawn, with seed {seed}", mutations.len());
    mutations
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
        let found = planted(&tree, mutation, || match &mutation.finder {
            Finder::Simulation { options } => simulate(&tree, options),
            Finder::Test { package, test } => run_test(&tree, package, test),
        })?;
        missed += usize::from(found.is_none());
        let found =
            found.map_or_else(|| "NOT FOUND".to_owned(), |with| format!("found with {with}"));
        println!("{}: {found}", mutation.name);
    }
    let found = mutations.len() - missed;
    println!("{found} of {} found, {} %", mutations.len(), 100 * found / mutations.len());
    Ok(missed == 0)
}

/// Asks something of a tree with a mutation in it.
fn planted<T>(tree: &Path, mutation: &Mutation, ask: impl FnOnce() -> Result<T>) -> Result<T> {
    let file = tree.join(&mutation.file);
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    fs::write(&file, text.replacen(&mutation.old, &mutation.new, 1))?;
    let answer = ask();
    fs::write(&file, text)?;
    answer.with_context(|| format!("with '{}'", mutation.name))
}

/// The checks that found a mutation.
struct Found {
    is_by_named: bool,
    /// Other tests of the package that the mutation is in, and a run of the simulation.
    others: BTreeSet<String>,
}

/// All tests of the packages that have mutations, and the simulation.
struct AllChecks<'a> {
    tree: &'a Path,
    /// Modules whose tests lack a tool.
    skipped: Vec<String>,
    /// By package: tests that fail without a mutation, which find nothing.
    failing: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> AllChecks<'a> {
    fn new(root: &Path, tree: &'a Path) -> Self {
        let missing = setup::set_up(root, false);
        for tool in &missing {
            println!("== skipped: {tool}");
        }
        let skipped = missing.into_iter().map(|tool| tool.module).collect();
        Self { tree, skipped, failing: BTreeMap::new() }
    }

    /// Runs the tests that are to be asked about a mutation without it.
    fn prepare(&mut self, mutation: &Mutation) -> Result<()> {
        let package = package_of(self.tree, &mutation.file)?;
        if !self.failing.contains_key(&package) {
            let failing = failing_tests(self.tree, &package, &self.skipped)?;
            for test in &failing {
                println!("{package}: {test} fails without a mutation and is not counted");
            }
            self.failing.insert(package, failing);
        }
        if let Some((package, test)) = mutation.finder.test() {
            let failed = run_test(self.tree, package, test)?;
            ensure!(failed.is_none(), "{package}: {test} fails without a mutation");
        }
        Ok(())
    }

    /// Asks all checks about the mutation that is planted.
    fn ask(&self, mutation: &Mutation) -> Result<Found> {
        let package = package_of(self.tree, &mutation.file)?;
        let mut others = failing_tests(self.tree, &package, &self.skipped)?;
        others.retain(|test| !self.failing[&package].contains(test));
        let is_by_named = match &mutation.finder {
            Finder::Simulation { options } => simulate(self.tree, options)?.is_some(),
            Finder::Test { package: of_test, test } => {
                let simulated = simulate(self.tree, OPTIONS)?;
                let is_found = package == *of_test && others.remove(test);
                others.extend(simulated.map(|with| format!("simulation with {with}")));
                is_found || run_test(self.tree, of_test, test)?.is_some()
            }
        };
        Ok(Found { is_by_named, others })
    }
}

/// The package that a file belongs to.
fn package_of(root: &Path, file: &str) -> Result<String> {
    for folder in Path::new(file).ancestors().skip(1) {
        let manifest = root.join(folder).join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&manifest) else { continue };
        let manifest: toml::Table = toml::from_str(&text)?;
        let name = manifest.get("package").and_then(|package| package.get("name"));
        if let Some(name) = name.and_then(toml::Value::as_str) {
            return Ok(name.to_owned());
        }
    }
    bail!("{file} belongs to no package")
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
    let ran = outside("timeout", tree)
        .args(["--kill-after=5", ALL_SECONDS, "cargo"])
        .args(["run", "--quiet", "--package", "fabricast-simulation", "--", "--brief"])
        .args(options.split(' '))
        .env("CARGO_TARGET_DIR", tree.with_file_name("build"))
        // Thirty builds of a few crates, each for some hundred runs.
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        .output()
        .context("start cargo")?;
    if ran.status.code() == Some(TIMED_OUT) {
        return Ok(Some(format!("{options}, which does not end")));
    }
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
    build_tests(tree, package, kind)?;
    let mut tests = cargo_test(tree, package, Some(TEST_SECONDS));
    tests.arg("--quiet").args(kind).args(["--no-fail-fast", "--", "--exact", test]);
    let ran = tests.output().context("start cargo")?;
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

/// Runs all tests of a package in a tree; those that fail or do not end.
///
/// - `skipped`: modules whose tests are left out.
fn failing_tests(tree: &Path, package: &str, skipped: &[String]) -> Result<BTreeSet<String>> {
    build_tests(tree, package, &["--tests"])?;
    let mut tests = cargo_test(tree, package, Some(ALL_SECONDS));
    tests.args(["--tests", "--no-fail-fast", "--"]);
    tests.args(skipped.iter().flat_map(|module| ["--skip".to_owned(), format!("{module}::")]));
    tests.env("PATH", setup::path());
    if std::env::var_os(soak::SEED).is_none() {
        // The same cases with and without a mutation.
        tests.env(soak::SEED, "20220401");
    }
    let ran = tests.output().context("start cargo")?;
    let is_cut_off = ran.status.code() == Some(TIMED_OUT);
    let mut failing = failures(&String::from_utf8_lossy(&ran.stdout), is_cut_off);
    if failing.is_empty() && !ran.status.success() {
        failing.insert(format!("a test program of {package}, which ends early"));
    }
    Ok(failing)
}

/// Names of the tests that have failed, as the test programs print them, and of those that go on
/// for long if the run was cut off.
fn failures(printed: &str, is_cut_off: bool) -> BTreeSet<String> {
    let failed = |line: &str| {
        let line = line.strip_prefix("test ")?;
        let long = line.strip_suffix(" has been running for over 60 seconds");
        let name = line.strip_suffix(" ... FAILED").or(long.filter(|_| is_cut_off))?;
        Some(name.strip_suffix(" - should panic").unwrap_or(name).to_owned())
    };
    printed.lines().filter_map(failed).collect()
}

/// Compiles tests: a change that does not compile shows nothing.
fn build_tests(tree: &Path, package: &str, kind: &[&str]) -> Result<()> {
    let mut build = cargo_test(tree, package, None);
    let built = build.arg("--quiet").args(kind).arg("--no-run").output().context("start cargo")?;
    let said = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "{package} does not compile:\n{said}");
    Ok(())
}

/// `cargo test` of a package in a tree, for so many seconds at most.
fn cargo_test(tree: &Path, package: &str, seconds: Option<&str>) -> Command {
    let mut command = match seconds {
        None => outside("cargo", tree),
        Some(seconds) => {
            let mut limited = outside("timeout", tree);
            limited.args(["--kill-after=5", seconds, "cargo"]);
            limited
        }
    };
    command.args(["test", "--package", package]);
    // Beside the tree's own tests: what both depend on is built already.
    command.env("CARGO_TARGET_DIR", tree.join("../..")).env("CARGO_INCREMENTAL", "1");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_fits_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mutations = read(root).unwrap();
        assert!(mutations.len() >= 100);
        // The shells, which the simulation of group management does not run.
        let shells = ["services/tic/", "platform/store/", "platform/rpc/", "agents/", "clients/"];
        let counts = shells.map(|shell| {
            mutations.iter().filter(|mutation| mutation.file.starts_with(shell)).count()
        });
        assert!(counts.iter().sum::<usize>() >= 40 && !counts.contains(&0), "{counts:?}");
        for mutation in &mutations {
            let package = package_of(root, &mutation.file).unwrap();
            assert!(package.starts_with("fabricast-"), "{}: {package}", mutation.file);
        }
    }

    #[test]
    fn a_seed_draws_the_same_mutations_again() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let drawn = |seed| {
            let mutations = draw(read(root).unwrap(), 10, Some(seed));
            mutations.into_iter().map(|mutation| mutation.name).collect::<Vec<_>>()
        };
        assert_eq!((drawn(1).len(), drawn(1)), (10, drawn(1)));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn tests_that_fail_or_do_not_end_are_named() {
        let printed = "\
running 4 tests
test a::one ... ok
test a::two ... FAILED
test a::three - should panic ... FAILED
test a::four has been running for over 60 seconds
test a::five ... ignored, takes long

failures:
    a::two
";
        let named =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(failures(printed, false), named(&["a::two", "a::three"]));
        assert_eq!(failures(printed, true), named(&["a::two", "a::three", "a::four"]));
    }
}
