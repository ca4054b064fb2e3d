//! Lets libFuzzer look for inputs that break what `tests/fuzz` promises.
//!
//! libFuzzer wants the compiler to count which code is reached; the stable compiler does so by
//! flags of its code generator. Everything is built with them, below `target/fuzz`, with debug
//! assertions and checks for overflow. Findings are kept below `target/fuzz/findings`; what
//! breaks a promise belongs into `tests/fuzz/corpus` with its mending.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Machines that this is known to work on.
const MACHINE: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";
/// Says which target the program is to try.
const TARGET: &str = "FABRICAST_FUZZ_TARGET";
/// Says where it is to put the inputs that code makes.
const SEEDS: &str = "FABRICAST_FUZZ_SEEDS";

/// Runs one target, or `all`, for so many minutes each; `false` if one broke a promise.
///
/// # Errors
///
/// A command that cannot be started, or a target that there is not.
pub(crate) fn run(root: &Path, wanted: &str, minutes: u64) -> Result<bool> {
    let targets = targets(root)?;
    let chosen: Vec<&String> =
        targets.iter().filter(|target| wanted == "all" || *target == wanted).collect();
    if chosen.is_empty() {
        bail!("'{wanted}' is no target: all, or one of {}", targets.join(", "));
    }
    let folder = root.join("target/fuzz");
    let built = Command::new("cargo")
        .args(["build", "--release", "--package", "fabricast-fuzz", "--features", "libfuzzer"])
        .args(["--target", MACHINE])
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", &folder)
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
        .env("CARGO_PROFILE_RELEASE_STRIP", "none")
        .current_dir(root)
        .status()
        .context("start cargo build")?;
    if !built.success() {
        return Ok(false);
    }
    let program = folder.join(MACHINE).join("release/fabricast-fuzz");
    let mut whole = true;
    for target in chosen {
        let passed = run_target(root, &folder, &program, target, minutes)?;
        println!("== {target}: {}", if passed { "ok" } else { "FAILED" });
        whole &= passed;
    }
    Ok(whole)
}

/// Runs one target on its corpus and on the inputs that earlier runs kept. `false` if it failed.
fn run_target(
    root: &Path,
    folder: &Path,
    program: &Path,
    target: &str,
    minutes: u64,
) -> Result<bool> {
    let (found, faults) = (folder.join("found").join(target), folder.join("findings").join(target));
    for folder in [&found, &faults] {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let status = Command::new(program)
        .arg(&found)
        .args(Some(root.join("tests/fuzz/corpus").join(target)).filter(|folder| folder.is_dir()))
        .arg(format!("-max_total_time={}", minutes * 60))
        .arg(format!("-artifact_prefix={}/", faults.display()))
        .args(["-timeout=30", "-rss_limit_mb=4096", "-print_final_stats=1", "-len_control=0"])
        .env(TARGET, target)
        .env(SEEDS, &found)
        .current_dir(root)
        .status()
        .with_context(|| format!("start {}", program.display()))?;
    Ok(status.success())
}

/// The names of the targets, from the list in `tests/fuzz`.
fn targets(root: &Path) -> Result<Vec<String>> {
    let list = root.join("tests/fuzz/src/lib.rs");
    let text = fs::read_to_string(&list).with_context(|| format!("read {}", list.display()))?;
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("target(\""));
    Ok(names.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect())
}
