//! Jobs on fabrics in files, and what schedulers read and write.

use crate::support::Sandbox;

/// Two pods of two leaves of two hosts.
const SMALL: &str = "kind = \"k-ary-3-level\"\nk = 4\npods = 2\n";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("small.toml", SMALL);
    sandbox
}

#[test]
fn jobs_are_placed_where_they_share_no_link() {
    let sandbox = sandbox();
    let plan = ["job", "plan", "--topology", "small.toml", "--sizes", "3,2,2"];
    let found = sandbox.json(&plan);
    let jobs: Vec<(&str, &str)> = found["placed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (job["class"].as_str().unwrap(), job["nodes"].as_str().unwrap()))
        .collect();
    assert_eq!(jobs, [("T1", "h[0-2]"), ("T0", "h[4-5]"), ("T0", "h[6-7]")]);
    assert_eq!(found["placed"][0]["place"], "midplane 0");
}

#[test]
fn the_report_names_moves_that_make_room() {
    let sandbox = sandbox();
    sandbox.write("jobs", "a h0\nb h[2-3]\nc h4\n");
    let args = ["job", "plan", "--topology", "small.toml", "--jobs", "jobs", "--report"];
    let report = &sandbox.json(&args)["report"];
    assert_eq!((&report["live"], &report["free"]), (&8.into(), &4.into()));
    let midplane = &report["classes"][1];
    assert_eq!((&midplane["fits"], &midplane["afterMoves"]), (&3.into(), &4.into()));
    let moves = serde_json::json!([{ "job": "c", "from": "h4", "to": "h1" }]);
    assert_eq!(midplane["moves"], moves);
}

#[test]
fn slurm_reads_what_is_written_and_the_other_way_round() {
    let sandbox = sandbox();
    let text = sandbox.ok(&["topology", "export", "small.toml", "--format", "slurm"]);
    sandbox.write("topology.conf", &text);
    let sizes = ["--sizes", "3,2,1", "--format", "json"];
    assert_eq!(
        sandbox.ok(&[&["job", "plan", "--slurm", "topology.conf"][..], &sizes].concat()),
        sandbox.ok(&[&["job", "plan", "--topology", "small.toml"][..], &sizes].concat())
    );
    // A real cluster: adapters of one host are one node.
    let real = sandbox.ok(&["topology", "export", "cluster", "--format", "slurm"]);
    assert_eq!(real.lines().count(), 5);
    assert!(real.contains("Nodes=gpu[001-003],node[001-020,046]\n"), "{real}");
}

#[test]
fn bad_jobs_and_files_are_refused_with_file_line_and_field() {
    let sandbox = sandbox();
    for (name, text) in [
        ("nameless", "h0\n"),
        ("stranger", "a h0\nb h9\n"),
        ("both", "a h0\nb h[0-1]\n"),
        ("same", "a h0\na h1\n"),
        ("list", "a h[0-\n"),
        ("conf", "SwitchName=a Nodes=x\nSwitchName=b\n"),
    ] {
        sandbox.write(name, text);
    }
    let before = sandbox.listing();
    let small = "job plan --topology small.toml";
    for (arguments, needle) in [
        (small.to_owned(), "required"),
        (format!("{small} --sizes 0"), "0 is not in 1.."),
        (format!("{small} --report --jobs nameless"), "'nameless': line 1: not a name and a list"),
        (format!("{small} --report --jobs stranger"), "'stranger': line 2: nodes: no node 'h9'"),
        (
            format!("{small} --report --jobs both"),
            "'both': line 2: nodes: node h0 serves job a (rule 1)",
        ),
        (format!("{small} --report --jobs same"), "'same': line 2: name: there are two jobs 'a'"),
        (format!("{small} --report --jobs list"), "'list': line 1: nodes: column 2: the bracket"),
        (format!("{small} --report --down x"), "--down: no node 'x'"),
        ("job plan --slurm conf --report".to_owned(), "'conf': line 2: switch b: needs either"),
        ("job plan --slurm conf --report --down x".to_owned(), "--down needs --topology"),
        ("topology check small.toml --slurm conf".to_owned(), "'conf': line 2: switch b"),
        (
            "topology show small.toml --format slurm".to_owned(),
            "--format slurm: this command does not",
        ),
        (format!("{small} --report --format slurm"), "--format slurm: this command does not"),
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let run = sandbox.run(&arguments);
        run.refused(2, needle);
        run.silent();
    }
    assert_eq!(sandbox.listing(), before);
}
