//! Runs one target under libFuzzer; built and started by `cargo xtask fuzz`.
//!
//! `FABRICAST_FUZZ_TARGET` names the target, and `FABRICAST_FUZZ_SEEDS` the folder to which inputs
//! made by code are written, for libFuzzer to start with.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use fabricast_fuzz::{TARGETS, Target, seeds};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FABRICAST_FUZZ_TARGET").unwrap_or_default();
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("FABRICAST_FUZZ_TARGET is '{name}', not one of {}", known()))
});

fn write_seeds() {
    let Some(folder) = std::env::var_os("FABRICAST_FUZZ_SEEDS") else { return };
    for (number, seed) in seeds(TARGET.name).into_iter().enumerate() {
        let file = Path::new(&folder).join(format!("seed-{number}"));
        std::fs::write(file, seed).expect("a folder for seeds");
    }
}

fuzz_target!(init: write_seeds(), |data: &[u8]| (TARGET.run)(data));
