//! Files cut off anywhere: never a crash, never a second opinion, always one message.

use crate::support::{Run, Sandbox, data};

/// Every `step`-th prefix of a text, put where `name` is and given to `arguments`.
fn prefixes(
    sandbox: &Sandbox,
    name: &str,
    text: &str,
    step: usize,
    arguments: &[&str],
) -> Vec<Run> {
    let mut runs = Vec::new();
    for end in (0..text.len()).step_by(step) {
        sandbox.write(name, &text.as_bytes()[..end]);
        let run = sandbox.run(arguments);
        assert!((0..=2).contains(&run.code), "cut at {end}: {run:?}");
        if run.code == 0 {
            assert!(!run.stderr.contains("panicked"), "cut at {end}: {run:?}");
        } else {
            run.refused(run.code, name);
            let hint = run.stderr.lines().filter(|line| line.starts_with("hint: ")).count();
            assert_eq!(run.stderr.lines().count(), 1 + hint, "cut at {end}: {run:?}");
        }
        runs.push(run);
    }
    runs
}

#[test]
fn a_topology_cut_off_anywhere_is_read_or_refused_in_one_line() {
    let sandbox = Sandbox::new();
    let text = std::fs::read_to_string(data("quirks/one-host.ibnetdiscover")).unwrap();
    let runs = prefixes(&sandbox, "cut", &text, 3, &["topology", "detect", "cut"]);
    assert!(runs.iter().filter(|run| run.code == 2).count() > runs.len() / 2);
}

#[test]
fn a_spec_cut_off_anywhere_is_read_or_refused_in_one_line() {
    let sandbox = Sandbox::new();
    let text = "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nendpoints_per_leaf = 2\n\
                [faults]\nlinks = [{ switch = \"leaf0\", to = \"spine1\", lane = 0 }]\n";
    prefixes(&sandbox, "cut.toml", text, 1, &["topology", "detect", "cut.toml"]);
}

#[test]
fn groups_routes_and_tables_cut_off_anywhere_never_pass() {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", "kind=\"leaf-spine\"\nleaves=2\nspines=1\nendpoints_per_leaf=2\n");
    sandbox.write(
        "groups",
        "{\"mgid\":1,\"members\":[\"h0\",\"h2\"]}\n{\"mgid\":2,\"members\":[\"h1\",\"h3\"]}\n",
    );
    let plan = ["route", "plan", "--topology", "t.toml", "--groups", "groups"];
    sandbox.ok(&[&plan[..], &["--out", "routes", "--tables-out", "tables"]].concat());
    let verify = ["route", "verify", "--topology", "t.toml"];
    let files = ["--groups", "groups", "--routes", "routes", "--tables", "tables"];
    sandbox.ok(&[&verify[..], &files].concat());
    for (place, name) in [(1, "groups"), (3, "routes"), (5, "tables")] {
        let text = sandbox.read(name);
        let whole = text.trim_end();
        let cut = format!("cut-{name}");
        let mut files = files;
        files[place] = &cut;
        let arguments = [&verify[..], &files].concat();
        // A cut between two lines leaves a sound file that lacks something: exit 1.
        for run in cuts(&sandbox, &cut, whole, &arguments) {
            assert!(run.code == 1 || run.code == 2, "{run:?}");
        }
    }
}

/// Cuts at every seventh byte and at every end of a line.
fn cuts(sandbox: &Sandbox, name: &str, text: &str, arguments: &[&str]) -> Vec<Run> {
    let lines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
    let ends = (0..text.len()).step_by(7).chain(lines);
    ends.map(|end| {
        sandbox.write(name, &text.as_bytes()[..end]);
        let run = sandbox.run(arguments);
        assert!(run.stderr.starts_with("fabricast: "), "cut at {end}: {run:?}");
        assert!(!run.stderr.contains("panicked"), "cut at {end}: {run:?}");
        run
    })
    .collect()
}
