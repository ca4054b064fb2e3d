//! Packages of what programs link or load: the wheel of the Python package with the C library in
//! it, that library, and the crates of the Rust client.
//!
//! Everything is in `target/dist-clients`. The wheel is tried in an environment of its own before
//! it counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{install_c, outside, python};

/// Where the packages are, seen from the root of the repository.
const FOLDER: &str = "target/dist-clients";
/// Name of the C library inside the Python package.
const LIBRARY: &str = "libfabricast.so.0";
/// The crates of the Rust client, each after those that it uses.
const CRATES: [&str; 9] = [
    "fabricast-topology",
    "fabricast-placement",
    "fabricast-groups",
    "fabricast-messages",
    "fabricast-memory",
    "fabricast-proto",
    "fabricast-status",
    "fabricast-wire",
    "fabricast-client",
];

/// Makes all packages; returns their paths.
///
/// # Errors
///
/// A build that fails, a package that cannot be written, or a wheel that does not work.
pub(crate) fn run(root: &Path) -> Result<Vec<PathBuf>> {
    python::set_up(root).map_err(anyhow::Error::msg)?;
    let to = root.join(FOLDER);
    if to.exists() {
        fs::remove_dir_all(&to).with_context(|| format!("empty {FOLDER}"))?;
    }
    let library = install_c::run(root, &to.join("c"))?;
    let built = library.iter().find(|path| path.ends_with(Path::new("lib").join(LIBRARY)));
    let wheel = wheel(root, built.context("the C library was not built")?, &to)?;
    try_wheel(&wheel)?;
    let mut packages = vec![wheel];
    packages.extend(library);
    packages.extend(crates(root, &to)?);
    Ok(packages)
}

/// Builds the wheel from a copy of the package with the library in it.
fn wheel(root: &Path, library: &Path, to: &Path) -> Result<PathBuf> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let (source, package) = (root.join("clients/python"), folder.path().join("fabricast"));
    fs::create_dir(&package).context("make the package")?;
    for name in ["pyproject.toml", "setup.py"] {
        fs::copy(source.join(name), folder.path().join(name)).context(name)?;
    }
    for entry in source.join("fabricast").read_dir().context("read clients/python/fabricast")? {
        let path = entry.context("read clients/python/fabricast")?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            fs::copy(&path, package.join(name)).with_context(|| path.display().to_string())?;
        }
    }
    fs::copy(library, package.join(LIBRARY)).context("copy the C library")?;
    let python = root.join(python::FOLDER).join("bin/python");
    let arguments = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"];
    succeed(Command::new(python).args(arguments).arg("--wheel-dir").arg(to).arg(folder.path()))?;
    let mut names = to.read_dir().context(FOLDER)?.filter_map(|entry| Some(entry.ok()?.path()));
    names.find(|path| path.extension().is_some_and(|end| end == "whl")).context("pip made no wheel")
}

/// Installs a wheel into a new environment and loads the library with it.
fn try_wheel(wheel: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder")?;
    succeed(Command::new("python3").args(["-m", "venv"]).arg(folder.path()))?;
    let python = folder.path().join("bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--no-index"];
    succeed(Command::new(&python).args(install).arg(wheel))?;
    let program = "import fabricast.aio, fabricast.bindings as bindings; bindings.load()";
    let mut load = Command::new(&python);
    load.args(["-c", program]).env_remove("FABRICAST_LIBRARY").env_remove("PYTHONPATH");
    succeed(load.current_dir(folder.path()))
}

/// Packages the crates; returns the files.
fn crates(root: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    let target = to.join("build");
    let mut package = outside("cargo", root);
    // Without a lock file, because cargo would look for the crates in a registry to write one.
    let lock = "--exclude-lockfile";
    package.args(["package", "--quiet", "--no-verify", "--allow-dirty", lock, "--target-dir"]);
    package.arg(&target);
    CRATES.iter().for_each(|name| _ = package.args(["--package", name]));
    succeed(&mut package)?;
    let mut packages = Vec::new();
    for name in CRATES {
        let file = format!("{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        let packed = to.join(&file);
        fs::rename(target.join("package").join(&file), &packed).context(file)?;
        packages.push(packed);
    }
    fs::remove_dir_all(&target).context("remove what cargo needed")?;
    Ok(packages)
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_crate_comes_after_those_that_it_uses() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manifest = |folder: &Path| -> toml::Table {
            let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            toml::from_str(&text).unwrap()
        };
        let workspace = manifest(&root);
        let mut before = BTreeSet::new();
        for name in CRATES {
            let place = workspace["workspace"]["dependencies"][name]["path"].as_str().unwrap();
            let uses = manifest(&root.join(place)).remove("dependencies");
            let uses = uses.as_ref().and_then(toml::Value::as_table).into_iter().flatten();
            for (used, _) in uses.filter(|(used, _)| used.starts_with("fabricast-")) {
                assert!(before.contains(used.as_str()), "{name} uses {used}");
            }
            before.insert(name);
        }
    }
}
