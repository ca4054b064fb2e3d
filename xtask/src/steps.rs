//! The verbs that are a row of commands: `test`, `check`, `fix`.
//!
//! A row goes on after a failure, so that one run shows everything there is to mend.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::{outside, print_findings, setup, soak, tidy};

/// Tests of the program that others measure.
const CLI_TESTS: &str = "test --quiet --package fabricast-cli --test cli";

/// Sets up what tests need, then runs every test, random ones with the same cases each time.
/// `false` if one failed. Tests whose tool is missing are skipped, and named at the end.
///
/// - `may_install`: false to install no packages.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn test(root: &Path, may_install: bool) -> Result<bool> {
    let missing = setup::set_up(root, may_install);
    let modules: Vec<&str> = missing.iter().map(|tool| &*tool.module).collect();
    let mut steps = Steps::new(root);
    if std::env::var_os(soak::SEED).is_none() {
        steps.environment.push((soak::SEED, "20220401".into()));
    }
    steps.environment.push(("PATH", setup::path()));
    if has_nextest(root) {
        steps.cargo("tests", &nextest_arguments(&modules))?;
        // nextest leaves the examples in doc comments to cargo.
        let packages = tidy::packages_with_examples(root)?;
        let arguments: String = packages.iter().map(|name| format!(" --package {name}")).collect();
        steps.cargo("examples in documentation", &format!("test --doc --quiet{arguments}"))?;
    } else {
        steps.cargo("tests", &cargo_test_arguments(&modules))?;
    }
    let passed = steps.end();
    for tool in &missing {
        println!("== skipped: {tool}");
    }
    Ok(passed)
}

/// Arguments that run every test but those in some modules, and list these as skipped.
fn nextest_arguments(skipped_modules: &[&str]) -> String {
    let all = "nextest run --workspace --no-fail-fast";
    if skipped_modules.is_empty() {
        return all.to_owned();
    }
    let pattern = skipped_modules.join("|");
    format!("{all} --final-status-level skip -E not(test(/(^|::)({pattern})::/))")
}

/// The same without nextest, which counts the tests as "filtered out".
fn cargo_test_arguments(skipped_modules: &[&str]) -> String {
    let skips: String = skipped_modules.iter().map(|name| format!(" --skip {name}::")).collect();
    let end = if skips.is_empty() { String::new() } else { format!(" --{skips}") };
    format!("test --workspace --no-fail-fast --quiet{end}")
}

/// Arguments that run the ignored tests of a test binary whose name contains `filter`, one after
/// the other, and print what they say. With nextest they are those that `cargo xtask test` has
/// built; one binary alone would need its dependencies built with other features.
pub(crate) fn ignored_tests(root: &Path, binary: &str, filter: &str) -> String {
    if has_nextest(root) {
        let chosen = format!("-E binary(={binary})&test({filter})");
        format!("nextest run --workspace --no-capture --run-ignored only {chosen}")
    } else {
        let chosen = format!("--test {binary} -- --ignored {filter}");
        format!("test --workspace {chosen} --nocapture --test-threads 1")
    }
}

/// Has a real Prometheus and Alertmanager tell of faults. `false` if an alert or a query is wrong.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn alerts(root: &Path) -> Result<bool> {
    for tool in ["prometheus", "etcd"] {
        if let Some(missing) = setup::set_up_one(root, tool) {
            println!("== left out: {missing}");
            return Ok(true);
        }
    }
    let mut steps = Steps::new(root);
    steps.environment.push(("PATH", setup::path()));
    steps.cargo("alerts", &ignored_tests(root, "cli", "needs_prometheus"))?;
    Ok(steps.end())
}

/// Measures the console of 32 768 nodes in a real browser, prints the figures of docs/console.md,
/// and makes the pictures of that page anew. `false` if a view is not as it should be.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn console(root: &Path) -> Result<bool> {
    if let Some(missing) = setup::set_up_one(root, "chromium") {
        println!("== left out: {missing}");
        return Ok(true);
    }
    let mut steps = Steps::new(root);
    steps.environment.push(("PATH", setup::path()));
    steps.environment.push(("FABRICAST_TESTED", root.join("target/release/fabricast").into()));
    steps.cargo("build", "build --quiet --release --package fabricast-cli")?;
    steps.cargo(
        "console",
        &format!("{CLI_TESTS} -- --ignored --nocapture --test-threads 1 needs_chromium"),
    )?;
    Ok(steps.end())
}

/// Measures joins beside each call that each role makes as fast as it can, with the optimized
/// binary, and writes the table of docs/evaluation/fairness.md. `false` if joins take too long.
///
/// - `filter`: only calls and roles with this in their text, as `TicService/ListGroups tenant`;
///   then nothing is written.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn fairness(root: &Path, filter: &str) -> Result<bool> {
    let mut steps = Steps::new(root);
    steps.environment.push(("FABRICAST_TESTED", root.join("target/release/fabricast").into()));
    steps.environment.push(("FABRICAST_FAIRNESS", filter.into()));
    if filter.is_empty() {
        let table = root.join("docs/evaluation/fairness.md");
        steps.environment.push(("FABRICAST_FAIRNESS_TABLE", table.into()));
    }
    steps.cargo("build", "build --quiet --release --package fabricast-cli")?;
    steps.cargo("fairness", &format!("{CLI_TESTS} -- --ignored --nocapture fairness"))?;
    Ok(steps.end())
}

/// Checks everything that can be checked without running the program; writes nothing.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn check(root: &Path) -> Result<bool> {
    let mut steps = Steps::new(root);
    steps.cargo("format", "fmt --all --check")?;
    steps.cargo("tidy", "xtask tidy")?;
    steps.cargo("clippy", "clippy --quiet --workspace --all-targets -- -D warnings")?;
    steps.cargo("documentation", "doc --quiet --workspace --no-deps --document-private-items")?;
    Ok(steps.end())
}

/// Runs a simulation. `false` if a rule was broken.
///
/// - `verb`: `sim` or `cluster-sim`.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn simulate(root: &Path, verb: &str, options: &[&str]) -> Result<bool> {
    // Named, or the features of all other packages would count, too.
    let of_clusters = verb == "cluster-sim";
    let package = if of_clusters { "fabricast-cluster-simulation" } else { "fabricast-simulation" };
    let status = outside("cargo", root)
        .args(["run", "--quiet", "--release", "--package", package, "--"])
        .args(options)
        .status()
        .context("start cargo")?;
    Ok(status.success())
}

/// Mends what can be mended by machine, then says what is left.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn fix(root: &Path) -> Result<bool> {
    let mut steps = Steps::new(root);
    steps.cargo(
        "clippy --fix",
        "clippy --quiet --workspace --all-targets --fix --allow-dirty --allow-staged",
    )?;
    steps.cargo("format", "fmt --all")?;
    let tidy = print_findings(&tidy::run(root)?);
    Ok(steps.end() && tidy)
}

/// A row of commands with the time each took.
struct Steps<'a> {
    root: &'a Path,
    environment: Vec<(&'static str, OsString)>,
    done: Vec<(&'static str, bool, f32)>,
}

impl<'a> Steps<'a> {
    fn new(root: &'a Path) -> Self {
        Self { root, environment: Vec::new(), done: Vec::new() }
    }

    /// Runs cargo with these words and remembers how it went.
    fn cargo(&mut self, name: &'static str, arguments: &str) -> Result<()> {
        println!("== {name}: cargo {arguments}");
        let start = Instant::now();
        let status = outside("cargo", self.root)
            .args(arguments.split(' '))
            .envs(self.environment.iter().cloned())
            .status()
            .with_context(|| format!("start cargo {arguments}"))?;
        self.done.push((name, status.success(), start.elapsed().as_secs_f32()));
        Ok(())
    }

    /// Prints the summary; `true` if every step passed.
    fn end(&self) -> bool {
        for (name, passed, seconds) in &self.done {
            let word = if *passed { "ok" } else { "FAILED" };
            println!("== {name}: {word} ({seconds:.1} s)");
        }
        self.done.iter().all(|(_, passed, _)| *passed)
    }
}

fn has_nextest(root: &Path) -> bool {
    let version = Command::new("cargo")
        .args(["nextest", "--version"])
        .current_dir(root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_whose_tool_is_missing_are_left_out() {
        let all = "nextest run --workspace --no-fail-fast";
        assert_eq!(nextest_arguments(&[]), all);
        let without = "--final-status-level skip -E not(test(/(^|::)(needs_a|needs_b)::/))";
        assert_eq!(nextest_arguments(&["needs_a", "needs_b"]), format!("{all} {without}"));
        let all = "test --workspace --no-fail-fast --quiet";
        assert_eq!(cargo_test_arguments(&[]), all);
        let without = "-- --skip needs_a:: --skip needs_b::";
        assert_eq!(cargo_test_arguments(&["needs_a", "needs_b"]), format!("{all} {without}"));
    }

    #[test]
    fn a_failed_step_fails_the_row_and_the_later_ones_still_run() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut steps = Steps::new(root);
        steps.cargo("bad", "no-such-command").unwrap();
        steps.cargo("good", "--version").unwrap();
        assert_eq!(steps.done.iter().map(|step| step.1).collect::<Vec<_>>(), [false, true]);
        assert!(!steps.end());
    }
}
