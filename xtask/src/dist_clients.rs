//! Packages of what programs link or load: the wheel of the Python package with the C library in
//! it, that library, and the crates of the Rust client.
//!
//! Everything is in `target/dist-clients`. The wheel is tried in an environment of its own before
//! it counts, and a program is compiled from the crates as they are packed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{install_c, outside, python};

/// Folder of the packages, seen from the root of the repository.
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
/// A program that uses the Rust client.
const PROGRAM: &str = "fn main() {\n    let _client: Option<fabricast_client::Client> = None;\n}\n";

/// Makes all packages; returns their paths.
///
/// # Errors
///
/// A build that fails, a package that cannot be written, a wheel that does not work, or crates that
/// cannot be compiled without the repository.
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
    let crates = crates(root, &to)?;
    try_crates(root, &to, &crates)?;
    packages.extend(crates);
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

/// Compiles a program that uses the client, from the packed crates and from nothing else of the
/// repository: what cargo has left out of a package, or only finds here, fails.
fn try_crates(root: &Path, to: &Path, crates: &[PathBuf]) -> Result<()> {
    // Outside of the repository, of whose workspace cargo would take it for a part.
    let folder = tempfile::tempdir().context("make a folder")?;
    for packed in crates {
        let mut unpack = Command::new("tar");
        unpack.args(["--extract", "--gzip", "--file"]).arg(packed);
        succeed(unpack.arg("--directory").arg(folder.path()))?;
    }
    fs::create_dir(folder.path().join("src")).context("make the program")?;
    fs::write(folder.path().join("src/main.rs"), PROGRAM).context("write the program")?;
    fs::write(folder.path().join("Cargo.toml"), manifest()).context("write its manifest")?;
    // With it all other crates have versions that are on this machine.
    fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).context("Cargo.lock")?;
    let target = to.join("try");
    let mut check = outside("cargo", folder.path());
    succeed(check.args(["check", "--quiet", "--offline"]).env("CARGO_TARGET_DIR", &target))?;
    fs::remove_dir_all(&target).context("remove what cargo needed")
}

/// Manifest of the program, which has our crates from the folders that they are unpacked to.
fn manifest() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let places = CRATES.map(|name| format!("{name} = {{ path = \"{name}-{version}\" }}\n"));
    format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nfabricast-client = \"{version}\"\n\n[patch.crates-io]\n{}",
        places.concat()
    )
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
    fn the_program_has_every_crate_from_its_package() {
        let manifest: toml::Table = toml::from_str(&manifest()).unwrap();
        let places = manifest["patch"]["crates-io"].as_table().unwrap();
        assert_eq!(places.len(), CRATES.len());
        for name in CRATES {
            let place = places[name]["path"].as_str().unwrap();
            assert_eq!(place, format!("{name}-{}", env!("CARGO_PKG_VERSION")));
        }
    }

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
