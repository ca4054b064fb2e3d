//! Records that older versions have written: `cli/tests/records` has for each version of
//! docs/release.md a copy, `VERSION.jsonl`, and a store in a file, `VERSION.redb.gz`.
//!
//! `cargo xtask upgrade --fixture` makes them with `fabricast up` of that version and these
//! commands: `group join rows/0` of two nodes, `group create standing --persistent`, `node drain
//! gpu043`, `link drain`, `job allocate climate`, and `collective quota --tenant physics --entries
//! 100`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Up;
use crate::support::Sandbox;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/records");
const RELEASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/release.md");
/// Text of every count of these records.
const COUNTED: &str = "2 groups, 3 members, 96 nodes";

/// Versions in the table of docs/release.md.
fn versions() -> Vec<String> {
    let page = fs::read_to_string(RELEASES).expect("the page is there");
    let names = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    let names = names.filter(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    let versions: Vec<String> = names.map(str::to_owned).collect();
    assert!(!versions.is_empty(), "{RELEASES} has no table");
    versions
}

/// A file of a version.
fn file(version: &str, kind: &str) -> PathBuf {
    let file = Path::new(FOLDER).join(format!("{version}.{kind}"));
    assert!(file.exists(), "no {}: cargo xtask upgrade --fixture makes it", file.display());
    file
}

/// Starts this version over `records.redb`, which holds the records of an older one.
fn serves_all(sandbox: Sandbox, version: &str) {
    let up = Up::over(sandbox, "records.redb");
    let seen = |arguments: &[&str], wanted: &str| {
        let run = up.run(arguments);
        assert!(run.stdout.contains(wanted), "{version}: {arguments:?}: {run:?}");
    };
    seen(&["group", "show", "standing"], "standing");
    seen(&["node", "show", "gpu043"], "drained");
    seen(&["link", "list"], "S-ec0d9a0300ec8240");
    seen(&["job", "list"], "climate");
    seen(&["collective", "usage"], "physics");
    // What is new goes on from there.
    seen(&["group", "join", "rows/1", "--node", "node001"], "joined 'rows/1'");
}

#[test]
fn copies_of_every_older_version_are_read_and_served() {
    for version in versions() {
        let copy = file(&version, "jsonl");
        let copy = copy.to_str().expect("a path in UTF-8");
        let sandbox = Sandbox::new();
        let counted = sandbox.ok(&["store", "check", copy]);
        assert!(counted.contains(COUNTED), "{version}: {counted}");
        sandbox.ok(&["store", "import", "--store", "records.redb", copy]);
        serves_all(sandbox, &version);
    }
}

#[test]
fn stores_of_every_older_version_are_opened_and_served() {
    for version in versions() {
        let mut gzip = Command::new("gzip");
        gzip.args(["--decompress", "--stdout"]).arg(file(&version, "redb.gz"));
        let unpacked = gzip.output().expect("gzip is there");
        assert!(unpacked.status.success(), "{version}: {unpacked:?}");
        let sandbox = Sandbox::new();
        sandbox.write("records.redb", unpacked.stdout);
        let export = ["store", "export", "--store", "records.redb", "--out", "copy.jsonl"];
        let counted = sandbox.ok(&export);
        assert!(counted.contains(COUNTED), "{version}: {counted}");
        serves_all(sandbox, &version);
    }
}
