//! Topologies in and out of files, and how output behaves.

use std::io::Read;
use std::process::Stdio;

use sha2::{Digest, Sha256};

use crate::support::{Sandbox, data};

const QUIRKS: [&str; 4] = [
    "quirks/isr9024-two-port-hcas.ibnetdiscover",
    "quirks/loopback-cables.ibnetdiscover",
    "quirks/one-host.ibnetdiscover",
    "quirks/timeout-lines.ibnetdiscover",
];

#[test]
fn what_is_exported_is_imported_as_the_same_topology() {
    let sandbox = Sandbox::new();
    sandbox.write("k-ary.toml", "kind = \"k-ary-3-level\"\nk = 4\n");
    let mut sources: Vec<String> = QUIRKS.map(data).into();
    sources.extend(["cluster", "demo", "k-ary.toml"].map(str::to_owned));
    for source in &sources {
        let text = sandbox.ok(&["topology", "export", source]);
        sandbox.write("exported", &text);
        assert_eq!(sandbox.ok(&["topology", "export", "exported"]), text, "{source}");
        let found = sandbox.json(&["topology", "import", "exported", "--out", "imported"]);
        assert_eq!(sandbox.read("imported"), text, "{source}");
        let digest: String =
            Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found["sha256"], digest.as_str(), "{source}");
    }
}

#[test]
fn generate_writes_what_export_prints() {
    let sandbox = Sandbox::new();
    for preset in ["demo", "cluster"] {
        assert_eq!(sandbox.ok(&["topology", "generate", "--spec", preset, "--out", "file"]), "");
        assert_eq!(sandbox.read("file"), sandbox.ok(&["topology", "export", preset]));
        assert_eq!(sandbox.read("file"), sandbox.ok(&["topology", "generate", "--spec", preset]));
    }
    let found = sandbox.json(&["topology", "detect", "paper"]);
    assert_eq!((&found["endpoints"], &found["fatTree"]["levels"]), (&32_768.into(), &4.into()));
}

#[test]
fn every_preset_is_listed_with_a_spec_that_makes_it() {
    let sandbox = Sandbox::new();
    let listed = sandbox.json(&["topology", "list"]);
    let names: Vec<&str> = listed["presets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[..3], ["cluster", "demo", "paper"]);
    let demo = &listed["presets"][1];
    sandbox.write("demo.toml", demo["spec"].as_str().unwrap());
    assert_eq!(
        sandbox.ok(&["topology", "export", "demo.toml"]),
        sandbox.ok(&["topology", "export", "demo"])
    );
    assert!(sandbox.ok(&["topology", "list"]).contains("\nkind = 'torus'\n"));
}

#[test]
fn every_quirky_file_is_read_and_told_apart() {
    let sandbox = Sandbox::new();
    for (file, endpoints, fat_tree) in
        [(QUIRKS[0], 5, false), (QUIRKS[1], 6, false), (QUIRKS[2], 1, true), (QUIRKS[3], 2, true)]
    {
        let file = data(file);
        let found = sandbox.json(&["topology", "import", &file]);
        assert_eq!(found["endpoints"], endpoints, "{file}");
        assert_eq!(found["fatTree"].is_object(), fat_tree, "{file}");
        let shown = sandbox.json(&["topology", "show", &file]);
        assert_eq!(shown["endpoints"].as_array().map(Vec::len), Some(endpoints), "{file}");
        for verb in ["detect", "check"] {
            let run = sandbox.run(&["topology", verb, &file]);
            if fat_tree {
                assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
            } else {
                run.refused(1, "not a fat tree: S-");
                assert!(run.stderr.contains("\nhint: "), "{run:?}");
            }
        }
    }
}

#[test]
fn line_ends_of_another_system_change_nothing() {
    let sandbox = Sandbox::new();
    let text = std::fs::read_to_string(data(QUIRKS[2])).unwrap();
    sandbox.write("dos", text.replace('\n', "\r\n"));
    assert_eq!(
        sandbox.ok(&["topology", "export", "dos"]),
        sandbox.ok(&["topology", "export", &data(QUIRKS[2])])
    );
    let groups = "{\"members\":[\"h0\",\"h1\"]}\r\n\r\n{\"members\":[\"h2\"]}\r\n";
    sandbox.write("groups", groups);
    let plan = ["route", "plan", "--topology", "demo", "--groups", "groups"];
    assert_eq!(sandbox.json(&plan)["groups"], 1);
}

#[test]
fn a_closed_pipe_is_not_an_error_and_a_full_disk_is() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .command(&["topology", "export", "demo"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));

    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = sandbox.command(&["topology", "export", "demo"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.starts_with("fabricast: write to standard output: "), "{said}");
}

#[test]
fn help_names_every_verb_and_goes_to_standard_output() {
    let sandbox = Sandbox::new();
    let help = sandbox.ok(&["--help"]);
    let nouns = [
        "demo",
        "up",
        "tic",
        "router",
        "fabric",
        "operating-agent",
        "switch-agent",
        "topology",
        "route",
        "group",
        "job",
        "node",
        "switch",
    ];
    for noun in nouns {
        assert!(help.contains(&format!("\n  {noun} ")), "{noun} is not in {help}");
        let run = sandbox.run(&[noun, "--help"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
        assert!(!run.stdout.contains('\u{1b}'), "no color off a terminal: {run:?}");
    }
    assert!(sandbox.ok(&["--version"]).starts_with("fabricast "));
    assert_eq!(sandbox.run(&[]).code, 2);
}

#[test]
fn endpoints_are_named_by_guid_too_and_an_ambiguous_name_names_both() {
    let sandbox = Sandbox::new();
    let cluster = data("cluster-edr-96.ibnetdiscover");
    let with = |topology: &str, file: &str| {
        let plan = ["route", "plan", "--topology", topology, "--engine", "mr4lms", "--groups"];
        [&plan[..], &[file, "--groups-out", "out", "--out", "routes"]].concat().join("\n")
    };
    let run = |line: String| sandbox.run(&line.split('\n').collect::<Vec<_>>());
    let by_name = "{\"name\":\"g\",\"members\":[\"node018 HCA-1\",\"node046 HCA-1\"]}\n";
    let by_guid = "{\"name\":\"g\",\"members\":[\"0x506B4B03003FA9B6\",\"8c0eb0300ddc0f6\"]}\n";
    sandbox.write("names", by_name);
    sandbox.write("guids", by_guid);
    sandbox.write("both", "{\"members\":[\"node018 HCA-1\",\"0x506b4b03003fa9b6\"]}\n");
    assert_eq!(run(with(&cluster, "names")).code, 0);
    let (groups, routes) = (sandbox.read("out"), sandbox.read("routes"));
    assert!(groups.contains("\"members\":[\"node018 HCA-1\",\"node046 HCA-1\"]"), "{groups}");
    assert_eq!(run(with(&cluster, "guids")).code, 0);
    assert_eq!((sandbox.read("out"), sandbox.read("routes")), (groups, routes));
    run(with(&cluster, "both"))
        .refused(2, "line 1: members: endpoint \"node018 HCA-1\" is listed twice");

    let two_ports = data("quirks/isr9024-two-port-hcas.ibnetdiscover");
    sandbox.write("adapter", "{\"members\":[\"0x8f10403960558\",\"0x8f10403960985\"]}\n");
    run(with(&two_ports, "adapter")).refused(
        2,
        "members: '0x8f10403960558' is a name of 'H-0008f10403960558/P1' and of \
         'H-0008f10403960558/P2'",
    );

    let jobs = ["job", "plan", "--topology", &cluster, "--sizes", "95", "--down"];
    let free = |down: &str| sandbox.json(&[&jobs[..], &[down]].concat());
    assert_eq!(free("0x506b4b03003fa9b6"), free("node018"));
    sandbox.run(&[&jobs[..], &["0x506b4b"]].concat()).refused(2, "--down: no node '0x506b4b'");
}

#[test]
fn shells_complete_commands_and_each_has_a_manual_page() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.ok(&["completions", shell]);
        assert!(script.contains("rebalance") && script.contains("dry-run"), "{shell}");
    }
    sandbox.run(&["completions", "csh"]).refused(2, "csh");
    sandbox.ok(&["manual", "--out", "man/man1"]);
    let page = sandbox.read("man/man1/fabricast-group-join.1");
    assert!(page.contains("Join a process to a group"), "{page}");
    sandbox.write("file", "");
    sandbox.run(&["manual", "--out", "file"]).refused(2, "write manual pages to 'file'");
}
