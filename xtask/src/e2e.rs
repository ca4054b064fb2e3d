//! `cargo xtask e2e`: the tests that break a cluster in containers.
//!
//! They need a docker engine, which not every machine has; where there is none they are left out,
//! aloud.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{outside, setup, steps, upgrade};

/// The records that the last version has made.
const RECORDS: &str = "cli/tests/records";

/// Builds the images and runs the tests. `false` if one failed.
///
/// - `short`: only the first blow to parts of each kind.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn run(root: &Path, short: bool) -> Result<bool> {
    if let Some(missing) = no_engine().or_else(no_compose) {
        println!("== left out: the tests in containers ({missing})");
        return Ok(true);
    }
    if let Some(missing) = setup::set_up_one(root, "grpcurl") {
        println!("== docs/administration.md will fail: {missing}");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = target.join("debug/fabricast").display().to_string();
    let containers = steps::ignored_tests(root, "containers", "the_work_goes_on");
    let runbooks = steps::ignored_tests(root, "runbooks", "every_runbook");
    let commands: [(&str, Vec<&str>); 6] = [
        ("deploy/image/build", vec!["--profile", "dev"]),
        ("deploy/image/build-etcd", Vec::new()),
        // The image has a static one of the same name.
        ("cargo", vec!["build", "--package", "fabricast-cli", "--bin", "fabricast"]),
        ("tests/e2e/build-skewed", vec![&program]),
        ("cargo", containers.split(' ').collect()),
        ("cargo", runbooks.split(' ').collect()),
    ];
    for (program, arguments) in commands {
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

/// Has a new user install, upgrade and restore three machines in containers. `false` if a command
/// of the page fails, or does not do what the page says.
///
/// - `from`: commit of the version that is installed first; by default this one, which is then
///   upgraded to a package of a higher number.
///
/// # Errors
///
/// A commit that cannot be built, or a command that cannot be started.
pub(crate) fn new_user(root: &Path, from: Option<&str>) -> Result<bool> {
    if let Some(missing) = no_engine() {
        println!("== left out: the path of a new user ({missing})");
        return Ok(true);
    }
    let (old, new) = upgrade::binaries(root, from)?;
    let last = upgrade::last_version(&std::fs::read_to_string(root.join(upgrade::VERSIONS))?)?;
    let mut script = outside(root.join("tests/e2e/new-user"), root);
    script.arg(old).arg(new).arg(root.join(RECORDS).join(format!("{}.jsonl", last.name)));
    println!("== {script:?}");
    Ok(script.status().context("start tests/e2e/new-user")?.success())
}

/// Says so if there is no docker engine.
pub(crate) fn no_engine() -> Option<&'static str> {
    (!works("docker", &["info"])).then_some("no docker engine answers")
}

/// Says so if there is no way to start clusters.
fn no_compose() -> Option<&'static str> {
    let compose = works("docker", &["compose", "version"]) || works("docker-compose", &["version"]);
    (!compose).then_some("neither `docker compose` nor docker-compose is installed")
}

fn works(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
