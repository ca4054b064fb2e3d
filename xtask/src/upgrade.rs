//! `cargo xtask upgrade`: a running cluster of the last version gets the parts of this one, one by
//! one, and back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{outside, separate, setup};

/// The table of versions; its first row is the last version.
pub(crate) const VERSIONS: &str = "docs/release.md";
/// Replaces the parts.
const SCRIPT: &str = "tests/e2e/upgrade";

/// Builds the binary of an older commit and this one's, and has the script replace parts. `false`
/// if something was lost.
///
/// - `commit`: the older one; by default that of the last version.
///
/// # Errors
///
/// A commit that does not exist or cannot be built, or a command that cannot be started.
pub(crate) fn run(root: &Path, commit: Option<&str>) -> Result<bool> {
    if let Err(why) = separate::check() {
        println!("== left out: the upgrade from an older version ({why})");
        return Ok(true);
    }
    if let Some(missing) = setup::set_up_one(root, "etcd") {
        println!("== left out: {missing}");
        return Ok(true);
    }
    let commit = match commit {
        Some(commit) => commit.to_owned(),
        None => last_version(&fs::read_to_string(root.join(VERSIONS))?)?.commit,
    };
    let (old, new) = binaries(root, Some(&commit))?;
    println!("== {SCRIPT}: from {commit}");
    let status = separate::command()
        .arg(root.join(SCRIPT))
        .arg(&old)
        .arg(&new)
        .env("PATH", setup::path())
        .status()
        .context("start unshare")?;
    Ok(status.success())
}

/// Debug binaries of a commit, or else of this one again, and of this one.
///
/// # Errors
///
/// A commit that does not exist or cannot be built.
pub(crate) fn binaries(root: &Path, commit: Option<&str>) -> Result<(PathBuf, PathBuf)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let new = target.join("debug/fabricast");
    let old = match commit {
        Some(commit) => old_binary(root, &target, commit)?,
        None => new.clone(),
    };
    build(root, &target)?;
    Ok((old, new))
}

/// A row of the table of versions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// Three numbers, such as 0.1.0.
    pub(crate) name: String,
    commit: String,
}

/// The last version, which is in the first row of the table.
///
/// # Errors
///
/// A page without one.
pub(crate) fn last_version(page: &str) -> Result<Version> {
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", name, _date, commit, ..] = cells[..]
            && name.starts_with(|first: char| first.is_ascii_digit())
        {
            let commit = commit.trim_matches('`').to_owned();
            return Ok(Version { name: name.to_owned(), commit });
        }
    }
    bail!("{VERSIONS} has no table of versions")
}

/// The binary of a commit, built if it is not there yet.
fn old_binary(root: &Path, target: &Path, commit: &str) -> Result<PathBuf> {
    let output = Command::new("git")
        .args(["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")])
        .current_dir(root)
        .output()
        .context("start git")?;
    ensure!(output.status.success(), "there is no commit {commit} in this repository");
    let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let folder = target.join("upgrade").join(&commit);
    let binary = folder.with_extension("fabricast");
    if binary.exists() {
        return Ok(binary);
    }
    fs::create_dir_all(&folder)?;
    let mut archive = Command::new("git")
        .args(["archive", &commit])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("start git")?;
    let files = archive.stdout.take().context("git's output")?;
    let unpacked =
        Command::new("tar").arg("-x").current_dir(&folder).stdin(files).status().context("tar")?;
    ensure!(archive.wait()?.success() && unpacked.success(), "{commit} cannot be unpacked");
    // Not in this build's folder: cargo takes crates of one name and place for each other.
    let built = target.join("upgrade/build");
    build(&folder, &built)?;
    fs::rename(built.join("debug/fabricast"), &binary)?;
    fs::remove_dir_all(&folder)?;
    Ok(binary)
}

/// Builds the debug binary of the sources in `folder`.
fn build(folder: &Path, target: &Path) -> Result<()> {
    println!("== cargo build in {}", folder.display());
    let status = outside("cargo", folder)
        .args(["build", "--quiet", "--locked", "--package", "fabricast-cli"])
        .env("CARGO_TARGET_DIR", target)
        .status()
        .context("start cargo")?;
    ensure!(status.success(), "the sources in {} cannot be built", folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_is_the_last_version() {
        let page = "# Versions\n\n| version | date | commit |\n| --- | --- | --- |\n\
                    | 0.2.0 | 2026-12-01 | `abc` |\n| 0.1.0 | 2026-11-24 | `def` |\n";
        let last = Version { name: "0.2.0".to_owned(), commit: "abc".to_owned() };
        assert_eq!(last_version(page).unwrap(), last);
        assert!(last_version("| version |\n").is_err());
    }
}
