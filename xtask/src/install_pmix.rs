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

#[cfg(test)]
mod tests {
    mod needs_openmpi {
        use std::path::Path;
        use std::process::Command;

        use super::super::flags;

        /// Runs three ranks, one of which fails as `case` says; returns what they print.
        fn run(program: &Path, case: &str) -> Vec<String> {
            // None of them may wait for one that has failed.
            let mut mpirun = Command::new("timeout");
            mpirun.args(["60", "mpirun", "--oversubscribe", "-n", "3"]).arg(program).arg(case);
            mpirun.envs(["", "_CONFIRM"].map(|end| (format!("OMPI_ALLOW_RUN_AS_ROOT{end}"), "1")));
            let output = mpirun.output().unwrap();
            assert!(output.status.success(), "{case}: {output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        }

        #[test]
        fn a_rank_that_fails_keeps_no_other_waiting_and_all_say_why() {
            let folder = tempfile::tempdir().unwrap();
            let program = folder.path().join("failing");
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients");
            let [includes, libraries] = flags().expect("PMIx comes with Open MPI");
            let mut compiler = Command::new("cc");
            compiler.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread"]);
            compiler.arg("-I").arg(source.join("c/include")).args(includes);
            compiler.arg(source.join("pmix/tests/failing.c"));
            compiler.arg(source.join("pmix/fabricast_pmix.c")).args(libraries);
            compiler.args(["-Wl,--wrap=PMIx_Put,--wrap=PMIx_Commit", "-o"]).arg(&program);
            assert!(compiler.status().unwrap().success());

            assert_eq!(
                run(&program, "none"),
                [0, 1, 2].map(|rank| format!("rank {rank} joined: "))
            );
            for (case, failing, why, others) in [
                ("attach", 1, "rank 1: has not attached", "rank 1: has not attached"),
                ("join", 1, "rank 1: the agent refuses it", "rank 1: the agent refuses it"),
                ("group", 0, "PMIx: tell the other ranks: ERROR", "rank 0: ERROR"),
                ("member", 1, "PMIx: tell the other ranks: ERROR", "rank 1: says nothing"),
                ("commit", 1, "PMIx: tell the other ranks: ERROR", "rank 1: says nothing"),
            ] {
                let expected = [0, 1, 2].map(|rank| {
                    let why = if rank == failing { why } else { others };
                    format!("rank {rank} failed: {why}")
                });
                assert_eq!(run(&program, case), expected, "{case}");
            }
        }
    }
}
