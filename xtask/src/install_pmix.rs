//! Installs the library for ranks of PMIx jobs below a prefix, beside the C library.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::install_c;

const FOLDER: &str = "clients/pmix";
/// Name that programs look for.
const SONAME: &str = "libfabricast_pmix.so.0";
/// Name that the linker looks for.
const LINK_NAME: &str = "libfabricast_pmix.so";
/// Options of the C compiler.
const OPTIONS: [&str; 9] = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-shared",
    "-fPIC",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,-soname,libfabricast_pmix.so.0",
];
const PACKAGE: &str = "\
prefix=${pcfiledir}/../..
libdir=${prefix}/lib
includedir=${prefix}/include

Name: fabricast_pmix
Description: Groups of the ranks of a PMIx job
Version: 0
Requires: fabricast
Libs: -L${libdir} -lfabricast_pmix
Cflags: -I${includedir}
";

/// Installs the C library, builds this one and installs it. Returns the paths; none where there is
/// no PMIx, which is said aloud.
///
/// # Errors
///
/// As [`install_c::run`], or the library does not build.
pub(crate) fn run(root: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    let Some([includes, libraries]) = flags() else {
        println!("== left out: there is no PMIx (packages libpmix-dev, pkg-config)");
        return Ok(Vec::new());
    };
    let mut installed = install_c::run(root, prefix)?;
    let (lib, folder) = (prefix.join("lib"), root.join(FOLDER));
    let header = prefix.join("include/fabricast_pmix.h");
    fs::copy(folder.join("fabricast_pmix.h"), &header).context("copy the header")?;
    let library = lib.join(SONAME);
    let mut compiler = Command::new("cc");
    compiler.args(OPTIONS).arg("-I").arg(prefix.join("include")).args(&includes);
    compiler.arg(folder.join("fabricast_pmix.c")).arg("-L").arg(&lib).arg("-lfabricast");
    compiler.args(&libraries).arg("-o").arg(&library);
    let status = compiler.status().context("start the C compiler")?;
    if !status.success() {
        bail!("{FOLDER} does not build ({status})");
    }
    let link = lib.join(LINK_NAME);
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link).with_context(|| format!("replace {}", link.display()))?;
    }
    symlink(SONAME, &link).with_context(|| format!("make {}", link.display()))?;
    let package = lib.join("pkgconfig/fabricast_pmix.pc");
    fs::write(&package, PACKAGE).with_context(|| format!("write {}", package.display()))?;
    installed.extend([header, library, link, package]);
    Ok(installed)
}

/// Arguments for the compiler: its headers as those of the system, and its library.
fn flags() -> Option<[Vec<String>; 2]> {
    let ask = |what: &str| {
        let output = Command::new("pkg-config").args([what, "pmix"]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(text.split_whitespace().map(|word| word.replacen("-I", "-isystem", 1)).collect())
    };
    Some([ask("--cflags")?, ask("--libs")?])
}
