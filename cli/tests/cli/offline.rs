//! Topologies in and out of files, and how output behaves.

use std::io::Read;
use std::process::Stdio;

use sha2::{Digest, Sha256};

use crate::support::{Bench, data};

const QUIRKS: [&str; 4] = [
    "quirks/isr9024-two-port-hcas.ibnetdiscover",
    "quirks/loopback-cables.ibnetdiscover",
    "quirks/one-host.ibnetdiscover",
    "quirks/timeout-lines.ibnetdiscover",
];

#[test]
fn what_is_exported_is_imported_as_the_same_topology() {
    let bench = Bench::new();
    bench.write("k-ary.toml", "kind = \"k-ary-3-level\"\nk = 4\n");
    let mut sources: Vec<String> = QUIRKS.map(data).into();
    sources.extend(["cluster", "demo", "k-ary.toml"].map(str::to_owned));
    for source in &sources {
        let text = bench.ok(&["topology", "export", source]);
        bench.write("exported", &text);
        assert_eq!(bench.ok(&["topology", "export", "exported"]), text, "{source}");
        let found = bench.json(&["topology", "import", "exported", "--out", "imported"]);
        assert_eq!(bench.read("imported"), text, "{source}");
        let digest: String =
            Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found["sha256"], digest.as_str(), "{source}");
    }
}

#[test]
fn generate_writes_what_export_prints() {
    let bench = Bench::new();
    for preset in ["demo", "cluster"] {
        assert_eq!(bench.ok(&["topology", "generate", "--spec", preset, "--out", "file"]), "");
        assert_eq!(bench.read("file"), bench.ok(&["topology", "export", preset]));
        assert_eq!(bench.read("file"), bench.ok(&["topology", "generate", "--spec", preset]));
    }
    let found = bench.json(&["topology", "detect", "paper"]);
    assert_eq!((&found["endpoints"], &found["fat_tree"]["levels"]), (&32_768.into(), &4.into()));
}

#[test]
fn every_preset_is_listed_with_a_spec_that_makes_it() {
    let bench = Bench::new();
    let listed = bench.json(&["topology", "presets"]);
    let names: Vec<&str> = listed["presets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[..3], ["cluster", "demo", "paper"]);
    let demo = &listed["presets"][1];
    bench.write("demo.toml", demo["spec"].as_str().unwrap());
    assert_eq!(
        bench.ok(&["topology", "export", "demo.toml"]),
        bench.ok(&["topology", "export", "demo"])
    );
    assert!(bench.ok(&["topology", "presets"]).contains("\nkind = 'torus'\n"));
}

#[test]
fn what_is_no_fat_tree_is_summed_up_before_it_is_refused() {
    let bench = Bench::new();
    bench.write("torus.toml", "kind = 'torus'\nx = 3\ny = 3\nz = 1\nendpoints_per_switch = 2\n");
    let run = bench.run(&["topology", "detect", "torus.toml"]);
    run.refused(1, "are linked directly, neither is above the other");
    assert!(run.stdout.contains("9 switches with 54 ports, 18 links between switches"), "{run:?}");
}

#[test]
fn every_quirky_file_is_read_and_told_apart() {
    let bench = Bench::new();
    for (file, endpoints, fat_tree) in
        [(QUIRKS[0], 5, false), (QUIRKS[1], 6, false), (QUIRKS[2], 1, true), (QUIRKS[3], 2, true)]
    {
        let file = data(file);
        let found = bench.json(&["topology", "import", &file]);
        assert_eq!(found["endpoints"], endpoints, "{file}");
        assert_eq!(found["fat_tree"].is_object(), fat_tree, "{file}");
        let shown = bench.json(&["topology", "show", &file]);
        assert_eq!(shown["endpoints"].as_array().map(Vec::len), Some(endpoints), "{file}");
        for verb in ["detect", "check"] {
            let run = bench.run(&["topology", verb, &file]);
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
fn a_missing_link_is_shown_and_fails_the_check_only() {
    let bench = Bench::new();
    let spec =
        "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\nlanes0 = 2\n";
    let faults = "[faults]\nlinks = [{ switch = \"leaf0\", to = \"spine1\", lane = 1 }]\n";
    bench.write("whole.toml", spec);
    bench.write("broken.toml", format!("{spec}{faults}"));
    assert!(bench.ok(&["topology", "check", "whole.toml"]).contains("\nregular"));
    let shown = bench.ok(&["topology", "detect", "broken.toml"]);
    assert!(shown.contains("irregular: 1 instead of 2 links"), "{shown}");
    let run = bench.run(&["topology", "check", "broken.toml"]);
    run.refused(1, "'broken.toml': 1 irregularity");
    assert_eq!(run.stdout, shown);
}

#[test]
fn line_ends_of_another_system_change_nothing() {
    let bench = Bench::new();
    let text = std::fs::read_to_string(data(QUIRKS[2])).unwrap();
    bench.write("dos", text.replace('\n', "\r\n"));
    assert_eq!(
        bench.ok(&["topology", "export", "dos"]),
        bench.ok(&["topology", "export", &data(QUIRKS[2])])
    );
    let groups = "{\"members\":[\"h0\",\"h1\"]}\r\n\r\n{\"members\":[\"h2\"]}\r\n";
    bench.write("groups", groups);
    let plan = ["route", "plan", "--topology", "demo", "--groups", "groups"];
    assert_eq!(bench.json(&plan)["groups"], 1);
}

#[test]
fn a_closed_pipe_is_not_an_error_and_a_full_disk_is() {
    let bench = Bench::new();
    let mut child = bench
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
    let output = bench.command(&["topology", "export", "demo"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.starts_with("fabricast: write to standard output: "), "{said}");
}

#[test]
fn help_names_every_verb_and_goes_to_standard_output() {
    let bench = Bench::new();
    let help = bench.ok(&["--help"]);
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
        let run = bench.run(&[noun, "--help"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
        assert!(!run.stdout.contains('\u{1b}'), "no color off a terminal: {run:?}");
    }
    assert!(bench.ok(&["--version"]).starts_with("fabricast "));
    assert_eq!(bench.run(&[]).code, 2);
}
