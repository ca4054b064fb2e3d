//! Installs the plugin of Slurm below a prefix.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Options of the C compiler; a user who starts a Slurm of their own takes the same.
const OPTIONS: [&str; 8] =
    ["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"];
const SOURCE: &str = "clients/slurm/fabricast.c";

/// Builds the plugin against the headers of Slurm on this machine and installs it; returns its
/// path.
///
/// # Errors
///
/// A compiler or headers that are missing, or a folder that cannot be written.
pub(crate) fn run(root: &Path, prefix: &Path) -> Result<PathBuf> {
    let folder = prefix.join("lib/slurm");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let plugin = folder.join("fabricast.so");
    let mut compiler = Command::new("cc");
    compiler.args(OPTIONS).arg(root.join(SOURCE)).arg("-o").arg(&plugin);
    let status = compiler.status().context("start the C compiler")?;
    if !status.success() {
        bail!("the plugin cannot be built ({status}); it needs Slurm's headers (libslurm-dev)");
    }
    Ok(plugin)
}
