//! Inputs that are kept: examples of what is good, and everything that was ever found.

use std::path::PathBuf;

use crate::{formats, handlers, parsers, stores};

/// The folder of a target's inputs.
#[must_use]
pub fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The inputs of a target's folder in the order of their names, and those that the code makes by itself.
///
/// # Panics
///
/// If a file cannot be read.
#[must_use]
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus(target))
        .map(|files| files.flatten().map(|file| file.path()).collect())
        .unwrap_or_default();
    files.sort();
    let read = |file: &PathBuf| std::fs::read(file).expect("a file of the corpus can be read");
    let mut inputs: Vec<Vec<u8>> = files.iter().map(read).collect();
    inputs.extend(match target {
        "ibnetdiscover" | "topology-toml" | "groups" | "routes" | "tables" => formats::made(target),
        "settings" | "frame" | "packet" | "smp" | "discovery" => parsers::made(target),
        "record" | "records-file" | "store-file" => stores::made(target),
        "tic" | "router" | "switch-agent" | "operating-agent" | "fabric" => handlers::made(),
        _ => Vec::new(),
    });
    inputs
}
