//! Runs the tests that draw their cases at random again and again, with other cases each time.
//!
//! `cargo xtask test` draws the same cases every time, so that a failure is the change's. What they
//! miss is looked for here, for as long as one likes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::outside;

/// Variable from which proptest takes the seed of its cases.
pub(crate) const SEED: &str = "PROPTEST_RNG_SEED";

/// Runs rounds until the time is over; the first that fails ends it. `false` if one failed.
///
/// # Errors
///
/// A command that cannot be started.
pub(crate) fn run(root: &Path, minutes: u64) -> Result<bool> {
    let end = Instant::now() + Duration::from_mins(minutes);
    let packages = packages(root)?;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?;
    for seed in since_1970.as_secs().. {
        let arguments = format!("test --quiet --no-fail-fast {packages}");
        let status = outside("cargo", root)
            .args(arguments.split(' '))
            .env(SEED, seed.to_string())
            .status()
            .with_context(|| format!("start cargo {arguments}"))?;
        if !status.success() {
            println!("== seed {seed}: FAILED; again: {SEED}={seed} cargo {arguments}");
            return Ok(false);
        }
        println!("== seed {seed}: ok");
        if Instant::now() >= end {
            break;
        }
    }
    Ok(true)
}

/// Names the packages of `core` that have such tests, as cargo wants them.
fn packages(root: &Path) -> Result<String> {
    let core = root.join("core");
    let folders = std::fs::read_dir(&core).with_context(|| format!("list {}", core.display()))?;
    let mut manifests: Vec<PathBuf> =
        folders.map(|folder| Ok(folder?.path().join("Cargo.toml"))).collect::<Result<_>>()?;
    manifests.retain(|manifest| manifest.is_file());
    manifests.sort();
    let mut words = Vec::new();
    for manifest in manifests {
        let text = std::fs::read_to_string(&manifest)
            .with_context(|| format!("read {}", manifest.display()))?;
        let table: toml::Table =
            toml::from_str(&text).with_context(|| format!("read {}", manifest.display()))?;
        let draws =
            table.get("dev-dependencies").is_some_and(|list| list.get("proptest").is_some());
        if let (true, Some(name)) = (draws, table["package"]["name"].as_str()) {
            words.push(format!("--package {name}"));
        }
    }
    Ok(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_with_random_tests_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let packages = packages(root).unwrap();
        assert!(packages.contains("--package fabricast-routing"));
        assert!(!packages.contains("fabricast-evaluation"), "it draws nothing at random");
    }
}
