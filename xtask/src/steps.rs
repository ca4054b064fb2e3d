//! The verbs that are a row of commands: `test`, `check`, `fix`.
//!
//! A row goes on after a failure, so that one run shows everything there is to mend.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::{outside, print_findings, python, soak, tidy};

/// Set to 1, the test that needs Python is left out.
const NO_PYTHON: &str = "FABRICAST_NO_PYTHON";

/// Runs every test, random ones with the same cases each time. `false` if one failed.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn test(root: &Path) -> Result<bool> {
    let mut steps = Steps::new(root);
    if std::env::var_os(soak::SEED).is_none() {
        steps.environment.push((soak::SEED, "20220401"));
    }
    // Asked for by hand, the test is left out or fails without it; here it is left out aloud.
    if std::env::var_os(NO_PYTHON).is_none()
        && let Err(why) = python::set_up(root)
    {
        println!("== left out: the reflection-only client in Python ({why})");
        steps.environment.push((NO_PYTHON, "1"));
    }
    if has_nextest(root) {
        steps.cargo("tests", "nextest run --workspace --no-fail-fast")?;
        // nextest leaves the examples in doc comments to cargo.
        steps.cargo("examples in documentation", "test --workspace --doc --quiet")?;
    } else {
        steps.cargo("tests", "test --workspace --no-fail-fast --quiet")?;
    }
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

/// Runs the simulation of group management. `false` if a rule was broken.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn simulate(root: &Path, options: &[&str]) -> Result<bool> {
    let status = outside("cargo", root)
        .args(["run", "--quiet", "--release", "--package", "fabricast-simulation", "--"])
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
    environment: Vec<(&'static str, &'static str)>,
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
            .envs(self.environment.iter().copied())
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
    fn a_failed_step_fails_the_row_and_the_later_ones_still_run() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut steps = Steps::new(root);
        steps.cargo("bad", "no-such-command").unwrap();
        steps.cargo("good", "--version").unwrap();
        assert_eq!(steps.done.iter().map(|step| step.1).collect::<Vec<_>>(), [false, true]);
        assert!(!steps.end());
    }
}
