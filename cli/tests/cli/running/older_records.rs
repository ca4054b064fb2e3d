//! Copies of the records that older versions have written: `cli/tests/records/VERSION.jsonl`, one
//! for each version of docs/release.md.
//!
//! Each was made of `fabricast up` of that version after: `group join rows/0` of two nodes, `group
//! create standing --persistent`, `node drain gpu043`, `link drain`, `job allocate climate`, and
//! `collective quota --tenant physics --entries 100`.

use std::fs;
use std::path::Path;

use super::Up;
use crate::support::Sandbox;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/records");
const RELEASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/release.md");

/// Versions in the table of docs/release.md.
fn versions() -> Vec<String> {
    let page = fs::read_to_string(RELEASES).expect("the page is there");
    let names = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned).collect()
}

#[test]
fn records_of_every_older_version_are_read_and_served() {
    let versions = versions();
    assert!(!versions.is_empty(), "{RELEASES} has no table");
    for version in versions {
        let copy = Path::new(FOLDER).join(format!("{version}.jsonl"));
        let copy = copy.to_str().expect("a path in UTF-8");
        let sandbox = Sandbox::new();
        let counted = sandbox.ok(&["store", "check", copy]);
        assert!(counted.contains("2 groups, 3 members, 96 nodes"), "{version}: {counted}");
        sandbox.ok(&["store", "import", "--store", "records.redb", copy]);
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
        // New records continue the old ones.
        seen(&["group", "join", "rows/1", "--node", "node001"], "joined 'rows/1'");
    }
}
