//! Installs the component of Open MPI below a prefix, beside the C library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::install_c;

/// The script that builds the component.
const BUILD: &str = "clients/openmpi/build";
/// Folder where it goes, below the prefix; it looks for the library in the folder above.
const FOLDER: &str = "lib/openmpi";
/// The name that Open MPI looks for.
const COMPONENT: &str = "mca_coll_fabricast.so";

/// Installs the C library, builds the component and installs it. Returns the paths; none where
/// there is no compiler of Open MPI, which is said aloud.
///
/// # Errors
///
/// As [`install_c::run`], or the component does not build.
pub(crate) fn run(root: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    let found = Command::new("mpicc").arg("--showme:version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!(
            "== left out: there is no mpicc of Open MPI (packages openmpi-bin, libopenmpi-dev)"
        );
        return Ok(Vec::new());
    }
    let mut installed = install_c::run(root, prefix)?;
    let folder = prefix.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let component = folder.join(COMPONENT);
    let mut build = Command::new(root.join(BUILD));
    build.arg(prefix.join("lib")).arg(&component);
    let status = build.status().with_context(|| format!("start {BUILD}"))?;
    if !status.success() {
        bail!("{BUILD} failed ({status})");
    }
    installed.push(component);
    Ok(installed)
}
