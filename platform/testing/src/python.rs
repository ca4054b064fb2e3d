//! The Python that `cargo xtask setup` makes below `target`.

use std::path::Path;
use std::process::Command;

use crate::INSTALL;

/// Prepares a command that runs a Python with grpcio and grpcio-reflection.
///
/// # Panics
///
/// If there is no such Python.
#[must_use]
pub fn python() -> Command {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python/bin");
    let program = Path::new(folder).join("python");
    assert!(program.exists(), "{} does not exist; {INSTALL}", program.display());
    Command::new(program)
}
