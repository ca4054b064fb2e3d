//! Chores too long for the tests: jobs of a real Slurm in the lab, and the load of many jobs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{install_openmpi, install_pmix, outside, setup};

/// Tools without which there is no Slurm in the lab.
const TOOLS: [&str; 3] = ["slurm", "ovs", "openmpi"];

/// Runs jobs of Slurm on the hosts of the lab. `false` if one failed.
///
/// # Errors
///
/// A command that cannot be started, or a library that does not build.
pub(crate) fn in_the_lab(root: &Path) -> Result<bool> {
    if let Some(missing) = TOOLS.iter().find_map(|tool| setup::set_up_one(root, tool)) {
        println!("== left out: Slurm in the lab ({missing})");
        return Ok(true);
    }
    let prefix = target(root).join("slurm-e2e");
    install_openmpi::run(root, &prefix)?;
    install_pmix::run(root, &prefix)?;
    let words = "test --package fabricast-cli --test cli -- --ignored --nocapture in_the_lab";
    run(outside("cargo", root).args(words.split(' ')).env("FABRICAST_E2E_PREFIX", &prefix))
}

/// Starts and ends jobs at a fixed rate, and prints the times. `false` if anything leaked.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn load(root: &Path, options: &[&str]) -> Result<bool> {
    let words = "build --release --package fabricast-cli --bin fabricast --example slurm_load";
    if !run(outside("cargo", root).args(words.split(' ')))? {
        return Ok(false);
    }
    let folder = target(root).join("release");
    let mut load = Command::new(folder.join("examples/slurm_load"));
    run(load.arg("--program").arg(folder.join("fabricast")).args(options).current_dir(root))
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn run(command: &mut Command) -> Result<bool> {
    println!("== {command:?}");
    Ok(command.status().with_context(|| format!("start {command:?}"))?.success())
}
