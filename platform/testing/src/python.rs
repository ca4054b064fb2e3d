//! The Python that `cargo xtask setup` makes below `target`, and the programs in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::INSTALL;

/// Prepares a command that runs a Python with grpcio and grpcio-reflection.
///
/// # Panics
///
/// If there is no such Python.
#[must_use]
pub fn python() -> Command {
    Command::new(program("python"))
}

/// The path of grpcurl.
///
/// # Panics
///
/// If it is not there.
#[must_use]
pub fn grpcurl() -> PathBuf {
    program("grpcurl")
}

fn program(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin");
    let program = Path::new(folder).join(name);
    assert!(program.exists(), "{} does not exist; {INSTALL}", program.display());
    program
}
