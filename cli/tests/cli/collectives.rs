//! `collective estimate`, `fit`, `explain` and `plan`: what they find, and what they refuse.

use serde_json::Value;

use crate::support::Sandbox;

const SPEC: &str = "kind=\"leaf-spine\"\nleaves=3\nspines=2\nendpoints_per_leaf=3\n";
const CONSTANTS: &str = "path_links = 4.0\nlink_us = 0.3\nmatching_us = 0.02\n\
                         store_us_per_byte = 0.0001\nreduce_us_per_byte = 0.0005\nsoftware_us = 0.9\n";

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", SPEC);
    sandbox.write("constants.toml", CONSTANTS);
    sandbox
}

#[test]
fn the_papers_constants_give_its_widths() {
    let sandbox = sandbox();
    let found = sandbox.json(&["collective", "estimate", "--processes", "512", "--sizes", "8"]);
    let barrier = &found[0];
    let widths = ["minWidth", "bestWidth", "maxWidth"].map(|field| barrier[field].as_u64());
    // 64 children are the limit here; without it the range ends at 69.
    assert_eq!(widths, [Some(24), Some(41), Some(64)], "{barrier}");
    let text =
        sandbox.ok(&["collective", "estimate", "--processes", "512", "--operation", "barrier"]);
    assert!(text.contains("24-64") && text.contains("switch"), "{text}");
}

#[test]
fn large_messages_run_on_adapters_where_bytes_cost_time() {
    let sandbox = sandbox();
    let found = sandbox.json(&[
        "collective",
        "estimate",
        "--processes",
        "512",
        "--operation",
        "all-reduce",
        "--parameters",
        "constants.toml",
        "--sizes",
        "8,131072",
    ]);
    assert_eq!((&found[0]["faster"], &found[1]["faster"]), (&"switch".into(), &"adapter".into()));
}

/// Times that the model itself makes, as CSV.
fn measured() -> String {
    let mut text = "operation,bytes,processes,width,tree,seconds\n".to_owned();
    for bytes in [0_u32, 64, 1_024] {
        for processes in [16_u32, 256] {
            for width in [4_u32, 16] {
                let height = f64::from(processes).ln() / f64::from(width).ln();
                let per_child = 0.02 + f64::from(bytes) * 0.0006;
                let gathered = height * (4.0 * 0.3 + f64::from(width) * per_child);
                for (operation, back) in [("reduce", 0.0), ("all-reduce", 1.2)] {
                    let sent = if operation == "reduce" { 0.0 } else { f64::from(bytes) * 0.0001 };
                    let seconds = (0.9 + gathered + back + sent) * 1e-6;
                    let row =
                        format!("{operation},{bytes},{processes},{width},adapter,{seconds}\n");
                    text.push_str(&row);
                }
            }
        }
    }
    text
}

#[test]
fn constants_come_back_out_of_measured_times_and_are_read_again() {
    let sandbox = sandbox();
    sandbox.write("m.csv", measured());
    let fit = ["collective", "fit", "--measurements", "m.csv", "--out", "found.toml"];
    let found = sandbox.json(&fit);
    let matching = found["parameters"]["matchingUs"].as_f64().unwrap();
    assert!((matching - 0.02).abs() < 1e-6, "{found}");
    assert!(found["worstUs"].as_f64().unwrap() < 1e-6, "{found}");
    sandbox.ok(&["collective", "estimate", "--processes", "64", "--parameters", "found.toml"]);
}

#[test]
fn every_process_hangs_in_the_tree_once() {
    let sandbox = sandbox();
    let tree = ["collective", "explain", "--topology", "t.toml", "--endpoints", "h8,h0,h1,h4"];
    let found = sandbox.json(&tree);
    assert_eq!((&found["kind"], &found["entries"]), (&"switch".into(), &1.into()), "{found}");
    let names = |found: &Value| -> Vec<String> {
        let nodes = found["nodes"].as_array().unwrap().iter();
        let names = nodes.filter_map(|node| node["node"].as_str());
        names.filter(|name| name.starts_with("process")).map(str::to_owned).collect()
    };
    let all = ["process 0 at h8", "process 1 at h0", "process 2 at h1", "process 3 at h4"];
    assert_eq!(names(&found), all);
    let adapters = sandbox.json(&[&tree[..], &["--kind", "adapter", "--width", "2"]].concat());
    let mut sorted = names(&adapters);
    sorted.sort();
    assert_eq!((sorted, &adapters["entries"]), (all.map(str::to_owned).to_vec(), &0.into()));
    assert_eq!(adapters["nodes"][0]["parent"], Value::Null, "{adapters}");
}

#[test]
fn groups_that_find_no_entry_run_on_adapters_and_say_why() {
    let sandbox = sandbox();
    let plan = ["collective", "plan", "--topology", "t.toml", "--pattern", "3x3", "--entries"];
    let found = sandbox.json(&[&plan[..], &["1"]].concat());
    let counts = ["switchTrees", "adapterTrees", "fullest"].map(|field| found[field].as_u64());
    // Three rows each on their leaf, two columns on the spines; the third finds them full.
    assert_eq!(counts, [Some(5), Some(1), Some(1)], "{found}");
    let collectives = found["collectives"].as_array().unwrap();
    let whys: Vec<&str> = collectives.iter().filter_map(|one| one["why"].as_str()).collect();
    assert!(whys.len() == 1 && whys[0].starts_with("no entries left"), "{whys:?}");
    let text = sandbox.ok(&[&plan[..], &["16"]].concat());
    assert!(text.contains("6 on switch trees, 0 on adapter trees"), "{text}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let sandbox = sandbox();
    sandbox.write("bad.toml", CONSTANTS.replace("0.02", "-1.0"));
    sandbox.write("syntax.toml", CONSTANTS.replace("0.3", "\"fast\""));
    sandbox.write(
        "m.csv",
        "operation,bytes,processes,width,tree,seconds\nreduce,8,16,1,adapter,1e-6\n",
    );
    sandbox.write(
        "few.csv",
        "operation,bytes,processes,width,tree,seconds\nreduce,8,16,4,adapter,1e-6\n",
    );
    let cases: [(&[&str], &str); 9] = [
        (&["estimate", "--processes", "0"], "--processes"),
        (&["estimate", "--processes", "8", "--parameters", "none.toml"], "none.toml"),
        (
            &["estimate", "--processes", "8", "--parameters", "bad.toml"],
            "'bad.toml': matching_us is -1, which must be a number of at least 0",
        ),
        (&["estimate", "--processes", "8", "--parameters", "syntax.toml"], "line 2, column 11"),
        (&["fit", "--measurements", "m.csv"], "'m.csv': line 2: width is 1"),
        (&["fit", "--measurements", "few.csv"], "too few to find 5 parameters"),
        (&["fit", "--measurements", "few.csv", "--given", "speed=1"], "no constant 'speed'"),
        (&["explain", "--topology", "t.toml", "--endpoints", "h0,h99"], "no endpoint 'h99'"),
        (&["explain", "--topology", "t.toml", "--first", "10"], "the topology has 9 endpoints"),
    ];
    for (arguments, needle) in cases {
        let run = sandbox.run(&[&["collective"], arguments].concat());
        run.refused(2, needle);
        run.silent();
    }
}
