//! Corpora: examples of valid inputs, and every input that has found a bug.

use std::path::PathBuf;

use crate::{formats, handlers, parsers, stores};

/// Returns the corpus folder of a target.
#[must_use]
pub fn corpus(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Returns the inputs of a target's folder by name, followed by those that the code generates.
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
        "settings" | "frame" | "packet" | "smp" | "discovery" | "openflow" | "openflow-table"
        | "heard-frame" | "programs" => parsers::made(target),
        "record" | "records-file" | "store-file" => stores::made(target),
        "tic" | "router" | "switch-agent" | "operating-agent" | "fabric" => handlers::made(),
        _ => Vec::new(),
    });
    inputs
}
