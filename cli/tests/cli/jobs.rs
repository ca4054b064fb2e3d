//! Jobs on fabrics in files, and what schedulers read and write.

use crate::support::Bench;

/// Two pods of two leaves of two hosts.
const SMALL: &str = "kind = \"k-ary-3-level\"\nk = 4\npods = 2\n";

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("small.toml", SMALL);
    bench
}

#[test]
fn jobs_are_placed_where_they_share_no_link() {
    let bench = bench();
    let plan = ["job", "plan", "--topology", "small.toml", "--sizes", "3,2,2"];
    let found = bench.json(&plan);
    let jobs: Vec<(&str, &str)> = found["placed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (job["class"].as_str().unwrap(), job["nodes"].as_str().unwrap()))
        .collect();
    assert_eq!(jobs, [("T1", "h[0-2]"), ("T0", "h[4-5]"), ("T0", "h[6-7]")]);
    assert_eq!(found["placed"][0]["place"], "midplane 0");
    let hostlists = bench.ok(&[&plan[..], &["--format", "hostlist"]].concat());
    assert_eq!(hostlists, "h[0-2]\nh[4-5]\nh[6-7]\n");
}

#[test]
fn a_job_without_room_is_refused_with_rule_and_counts() {
    let bench = bench();
    bench.write("jobs", "# two jobs run\na h[0,2]\n\nb h4\n");
    let args = ["job", "plan", "--topology", "small.toml", "--jobs", "jobs", "--sizes"];
    let run = bench.run(&[&args[..], &["4"]].concat());
    run.refused(1, "no room: 4 nodes are of class T1, which lies in one compute midplane (rule 3)");
    assert!(run.stderr.contains("midplane 1 has the most room, 3"), "{run:?}");
    let run = bench.run(&[&args[..], &["5", "--spread"]].concat());
    run.refused(
        1,
        "2 of them on 2 leaf switches used by another job of class T1 or higher (rule 5)",
    );
    let run = bench.run(&[&args[..], &["9"]].concat());
    run.refused(1, "9 nodes are asked for, one job can have 8 at most");
    assert_eq!(bench.ok(&[&args[..], &["2", "--format", "hostlist"]].concat()), "h[6-7]\n");
    let run = bench.run(&[&args[..], &["2", "--down", "h6"]].concat());
    run.refused(
        1,
        "2 nodes are of class T0, which lies in one leaf switch (rule 2); 4 nodes are free",
    );
}

#[test]
fn the_report_names_moves_that_make_room() {
    let bench = bench();
    bench.write("jobs", "a h0\nb h[2-3]\nc h4\n");
    let args = ["job", "plan", "--topology", "small.toml", "--jobs", "jobs", "--report"];
    let report = &bench.json(&args)["report"];
    assert_eq!((&report["live"], &report["free"]), (&8.into(), &4.into()));
    let midplane = &report["classes"][1];
    assert_eq!((&midplane["fits"], &midplane["after_moves"]), (&3.into(), &4.into()));
    let moves = serde_json::json!([{ "job": "c", "from": "h4", "to": "h1" }]);
    assert_eq!(midplane["moves"], moves);
    assert!(bench.ok(&args).contains("T1: move job c from h4 to h1"));
}

#[test]
fn slurm_reads_what_is_written_and_the_other_way_round() {
    let bench = bench();
    let text = bench.ok(&["topology", "export", "small.toml", "--format", "slurm"]);
    assert_eq!(
        text,
        "SwitchName=cn0-leaf0 Nodes=h[0-1]\nSwitchName=cn0-leaf1 Nodes=h[2-3]\n\
         SwitchName=cn1-leaf0 Nodes=h[4-5]\nSwitchName=cn1-leaf1 Nodes=h[6-7]\n\
         SwitchName=midplane0 Switches=cn0-leaf[0-1]\nSwitchName=midplane1 Switches=cn1-leaf[0-1]\n\
         SwitchName=top Switches=midplane[0-1]\n"
    );
    bench.write("topology.conf", &text);
    let check = bench.ok(&["topology", "check", "small.toml", "--slurm", "topology.conf"]);
    assert!(check.ends_with("\nthe scheduler's tree is the fabric's\n"), "{check}");
    let sizes = ["--sizes", "3,2,1", "--format", "json"];
    assert_eq!(
        bench.ok(&[&["job", "plan", "--slurm", "topology.conf"][..], &sizes].concat()),
        bench.ok(&[&["job", "plan", "--topology", "small.toml"][..], &sizes].concat())
    );
    bench.write("other.conf", text.replace("h[2-3]", "h[2-4]").replace("h[4-5]", "h5"));
    let run = bench.run(&["topology", "check", "small.toml", "--slurm", "other.conf"]);
    run.refused(1, "'other.conf' is not the tree of 'small.toml'");
    let told =
        "differs: line 2: the nodes below switch cn0-leaf1 are on leaf switch 1, leaf switch 2";
    assert!(run.stdout.contains(told), "{run:?}");
    // A real cluster: adapters of one host are one node.
    let real = bench.ok(&["topology", "export", "cluster", "--format", "slurm"]);
    assert_eq!(real.lines().count(), 5);
    assert!(real.contains("Nodes=gpu[001-003],node[001-020,046]\n"), "{real}");
}

#[test]
fn bad_jobs_and_files_are_refused_with_file_line_and_field() {
    let bench = bench();
    for (name, text) in [
        ("nameless", "h0\n"),
        ("stranger", "a h0\nb h9\n"),
        ("both", "a h0\nb h[0-1]\n"),
        ("same", "a h0\na h1\n"),
        ("list", "a h[0-\n"),
        ("conf", "SwitchName=a Nodes=x\nSwitchName=b\n"),
    ] {
        bench.write(name, text);
    }
    let before = bench.listing();
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
            "--format slurm: this verb does not",
        ),
        (format!("{small} --report --format slurm"), "--format slurm: this verb does not"),
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let run = bench.run(&arguments);
        run.refused(2, needle);
        run.silent();
    }
    assert_eq!(bench.listing(), before);
}
