//! One target under libFuzzer, which `cargo xtask fuzz` builds and starts.
//!
//! `FABRICAST_FUZZ_TARGET` names the target.

#![no_main]

use std::sync::LazyLock;

use fabricast_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FABRICAST_FUZZ_TARGET").unwrap_or_default();
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("FABRICAST_FUZZ_TARGET is '{name}', not one of {}", known()))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
