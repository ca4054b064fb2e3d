//! Copies of the records of a control plane that runs.

use super::Up;

pub(super) fn records_are_copied_while_everything_runs(up: &Up) {
    let export = ["store", "export", "--folder", "copies", "--keep", "1"];
    up.run(&export).refused(2, "copies/records-");
    std::fs::create_dir(up.sandbox.path("copies")).expect("a folder");
    up.sandbox.write("copies/records-20200101T000000Z.jsonl", String::new());
    up.sandbox.write("copies/notes", String::new());
    let copied = up.json(&export);
    let groups = up.json(&["group", "list"])["groups"].as_array().map_or(0, Vec::len);
    assert_eq!(copied["groups"], groups, "{copied}");
    let listed = std::fs::read_dir(up.sandbox.path("copies")).expect("a folder");
    let mut names: Vec<String> = listed
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    let [notes, copy] = names.as_slice() else { panic!("{names:?}") };
    assert!(notes == "notes" && !copy.contains("2020"), "{names:?}");
    let copy = format!("copies/{copy}");
    assert_eq!(up.sandbox.json(&["store", "check", &copy]), copied);
    let import = ["store", "import", "--store", "other.redb", &copy];
    let mut dry = up.sandbox.json(&[&import[..], &["--dry-run"]].concat());
    let store = dry.as_object_mut().expect("an object").remove("store");
    assert_eq!((store, dry), (Some("other.redb".into()), copied));
    assert!(!up.sandbox.path("other.redb").exists(), "nothing was made");
    up.sandbox.ok(&import);
    let full = up.sandbox.run(&[&import[..], &["--dry-run"]].concat());
    full.refused(2, "the store is not empty");
    let without = up.sandbox.run(&["store", "export", "--keep", "1", "--out", "copy"]);
    without.refused(2, "cannot be used with");
    let nobody = up.sandbox.run(&["store", "export", "--server", "127.0.0.1:1", "--out", "copy"]);
    assert_ne!(nobody.code, 0, "{nobody:?}");
    assert!(!up.sandbox.path("copy").exists() && !up.sandbox.path("copy.unfinished").exists());
}
