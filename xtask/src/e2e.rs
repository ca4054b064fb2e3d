//! `cargo xtask e2e`: the tests that break a cluster in containers.
//!
//! They need a docker engine, which not every machine has; where there is none they are left out,
//! aloud.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::outside;

/// Builds the images and runs the tests. `false` if one failed.
///
/// - `short`: only the first blow to parts of each kind, and no runbooks.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn run(root: &Path, short: bool) -> Result<bool> {
    if let Some(missing) = missing() {
        println!("== left out: the tests in containers ({missing})");
        return Ok(true);
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = target.join("debug/fabricast").display().to_string();
    let commands: [(&str, &[&str]); 6] = [
        ("deploy/image/build", &["--profile", "dev"]),
        ("deploy/image/build-etcd", &[]),
        // The image has a static one of the same name.
        ("cargo", &["build", "--package", "fabricast-cli", "--bin", "fabricast"]),
        ("tests/e2e/build-skewed", &[&program]),
        (
            "cargo",
            &["test", "--workspace", "--test", "containers", "--", "--ignored", "--nocapture"],
        ),
        ("cargo", &["test", "--workspace", "--test", "runbooks", "--", "--ignored", "--nocapture"]),
    ];
    // The runbooks are the last.
    for (program, arguments) in commands.into_iter().rev().skip(usize::from(short)).rev() {
        println!("== {program} {}", arguments.join(" "));
        let found = if program == "cargo" { program.into() } else { root.join(program) };
        let status = outside(found, root)
            .args(arguments)
            .env("FABRICAST_E2E_SHORT", if short { "1" } else { "0" })
            .status()
            .with_context(|| format!("start {program}"))?;
        if !status.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The first tool that the tests need and this machine lacks.
fn missing() -> Option<&'static str> {
    let works = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !works("docker", &["info"]) {
        return Some("no docker engine answers");
    }
    let compose = works("docker", &["compose", "version"]) || works("docker-compose", &["version"]);
    (!compose).then_some("neither `docker compose` nor docker-compose is installed")
}
